//! The tokens of an expression (XPath 1.0, section 3.7).

use super::{XPathError, error};

/// A token.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
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
pub(super) type Placed = (Token, usize);

/// The most tokens: chains of operators are walked as deep as they are long.
const MAX_TOKENS: usize = 512;

/// The tokens of `text`.
pub(super) fn tokens(text: &str) -> Result<Vec<Placed>, XPathError> {
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
    out: Vec<Placed>,
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
            Some(Token::Star) => (self.star(), 1),
            Some(Token::Dot) if rest.chars().nth(1).is_some_and(|c| c.is_ascii_digit()) => {
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
                (Token::Literal(text), end + 2)
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
                Token::Close
                    | Token::CloseSquare
                    | Token::Dot
                    | Token::DotDot
                    | Token::Star
                    | Token::Number(_)
                    | Token::Literal(_)
                    | Token::Name(_)
            )
        })
    }

    fn star(&self) -> Token {
        if self.after_operand() {
            Token::Multiply
        } else {
            Token::Star
        }
    }

    fn named(&self, name: String) -> Token {
        if !self.after_operand() {
            return Token::Name(name);
        }
        match name.as_str() {
            "and" => Token::And,
            "or" => Token::Or,
            "mod" => Token::Mod,
            "div" => Token::Div,
            _ => Token::Name(name),
        }
    }
}

fn symbol(rest: &str) -> Option<Token> {
    let two = [
        ("..", Token::DotDot),
        ("::", Token::ColonColon),
        ("//", Token::SlashSlash),
        ("!=", Token::NotEqual),
        ("<=", Token::LessEqual),
        (">=", Token::MoreEqual),
        ("(", Token::Open),
        (")", Token::Close),
        ("[", Token::OpenSquare),
        ("]", Token::CloseSquare),
        (".", Token::Dot),
        ("@", Token::At),
        (",", Token::Comma),
        ("/", Token::Slash),
        ("|", Token::Bar),
        ("+", Token::Plus),
        ("-", Token::Minus),
        ("=", Token::Equal),
        ("<", Token::Less),
        (">", Token::More),
        ("*", Token::Star),
    ];
    let found = two.into_iter().find(|(text, _)| rest.starts_with(text));
    found.map(|(_, token)| token)
}

fn width(token: &Token) -> usize {
    match token {
        Token::DotDot
        | Token::ColonColon
        | Token::SlashSlash
        | Token::NotEqual
        | Token::LessEqual
        | Token::MoreEqual => 2,
        _ => 1,
    }
}

fn number(rest: &str) -> (Token, usize) {
    let mut dots = 0;
    let text: String = rest
        .chars()
        .take_while(|c| {
            dots += usize::from(*c == '.');
            c.is_ascii_digit() || (*c == '.' && dots == 1)
        })
        .collect();
    let value = text.parse().unwrap_or(f64::NAN);
    (Token::Number(value), text.len())
}

fn starts_name(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

fn continues_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '\u{b7}')
}
