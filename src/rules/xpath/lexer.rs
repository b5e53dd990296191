//! The tokens of an expression (XPath 1.0, section 3.7).

use super::{XPathError, error};

/// A token.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum XPathToken {
    Open,
    Close,
    OpenSquare,
    CloseSquare,
    Dot,
    DotDot,
    At,
    Comma,
    ColonColon,
    Slash,
    SlashSlash,
    Bar,
    Plus,
    Minus,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    More,
    MoreEqual,
    Star,
    And,
    Or,
    Mod,
    Div,
    Multiply,
    Number(f64),
    Literal(String),
    Name(String),
}

/// A token and the byte at which it begins.
pub(super) type PlacedToken = (XPathToken, usize);

/// Maximum number of tokens: evaluation recurses as deep as a chain of operators is long.
const MAX_TOKENS: usize = 512;

/// The tokens of `text`.
pub(super) fn tokens(text: &str) -> Result<Vec<PlacedToken>, XPathError> {
    let mut lexer = Lexer {
        text,
        at: 0,
        out: Vec::new(),
    };
    while lexer.token()? {
        if lexer.out.len() > MAX_TOKENS {
            let why = format!("more than {MAX_TOKENS} names, signs and numbers");
            return Err(error(lexer.at, &why));
        }
    }
    Ok(lexer.out)
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    out: Vec<PlacedToken>,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Reads a token; false at the end.
    fn token(&mut self) -> Result<bool, XPathError> {
        let rest = self.rest();
        let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
        self.at += blank;
        let from = self.at;
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            return Ok(false);
        };
        let (token, length) = match symbol(rest) {
            Some(XPathToken::Star) => (self.star(), 1),
            Some(XPathToken::Dot) if rest.chars().nth(1).is_some_and(|c| c.is_ascii_digit()) => {
                number(rest)
            }
            Some(token) => {
                let length = width(&token);
                (token, length)
            }
            None if first.is_ascii_digit() => number(rest),
            None if first == '"' || first == '\'' => {
                let inner = rest.get(1..).unwrap_or_default();
                let Some(end) = inner.find(first) else {
                    return Err(error(from, "the quotation mark is not closed"));
                };
                let text = inner.get(..end).unwrap_or_default().to_owned();
                (XPathToken::Literal(text), end + 2)
            }
            None if first == '$' => {
                return Err(error(from, "variables (`$name`) are not supported"));
            }
            None if starts_name(first) => {
                let name: String = rest.chars().take_while(|c| continues_name(*c)).collect();
                // `ns:name` and `child::p` differ in the second colon.
                let name = match name.find("::") {
                    Some(end) => name.get(..end).unwrap_or_default().to_owned(),
                    None => name,
                };
                let length = name.len();
                (self.named(name), length)
            }
            None => return Err(error(from, &format!("`{first}` is not part of XPath"))),
        };
        self.out.push((token, from));
        self.at = from + length;
        Ok(true)
    }

    /// Whether an operator may follow (section 3.7): there is a token before, and it ends an
    /// operand.
    fn after_operand(&self) -> bool {
        self.out.last().is_some_and(|(token, _)| {
            matches!(
                token,
                XPathToken::Close
                    | XPathToken::CloseSquare
                    | XPathToken::Dot
                    | XPathToken::DotDot
                    | XPathToken::Star
                    | XPathToken::Number(_)
                    | XPathToken::Literal(_)
                    | XPathToken::Name(_)
            )
        })
    }

    fn star(&self) -> XPathToken {
        if self.after_operand() {
            XPathToken::Multiply
        } else {
            XPathToken::Star
        }
    }

    fn named(&self, name: String) -> XPathToken {
        if !self.after_operand() {
            return XPathToken::Name(name);
        }
        match name.as_str() {
            "and" => XPathToken::And,
            "or" => XPathToken::Or,
            "mod" => XPathToken::Mod,
            "div" => XPathToken::Div,
            _ => XPathToken::Name(name),
        }
    }
}

fn symbol(rest: &str) -> Option<XPathToken> {
    let two = [
        ("..", XPathToken::DotDot),
        ("::", XPathToken::ColonColon),
        ("//", XPathToken::SlashSlash),
        ("!=", XPathToken::NotEqual),
        ("<=", XPathToken::LessEqual),
        (">=", XPathToken::MoreEqual),
        ("(", XPathToken::Open),
        (")", XPathToken::Close),
        ("[", XPathToken::OpenSquare),
        ("]", XPathToken::CloseSquare),
        (".", XPathToken::Dot),
        ("@", XPathToken::At),
        (",", XPathToken::Comma),
        ("/", XPathToken::Slash),
        ("|", XPathToken::Bar),
        ("+", XPathToken::Plus),
        ("-", XPathToken::Minus),
        ("=", XPathToken::Equal),
        ("<", XPathToken::Less),
        (">", XPathToken::More),
        ("*", XPathToken::Star),
    ];
    let found = two.into_iter().find(|(text, _)| rest.starts_with(text));
    found.map(|(_, token)| token)
}

fn width(token: &XPathToken) -> usize {
    match token {
        XPathToken::DotDot
        | XPathToken::ColonColon
        | XPathToken::SlashSlash
        | XPathToken::NotEqual
        | XPathToken::LessEqual
        | XPathToken::MoreEqual => 2,
        _ => 1,
    }
}

fn number(rest: &str) -> (XPathToken, usize) {
    let mut dots = 0;
    let text: String = rest
        .chars()
        .take_while(|c| {
            dots += usize::from(*c == '.');
            c.is_ascii_digit() || (*c == '.' && dots == 1)
        })
        .collect();
    let value = text.parse().unwrap_or(f64::NAN);
    (XPathToken::Number(value), text.len())
}

fn starts_name(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn continues_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '\u{b7}')
}
