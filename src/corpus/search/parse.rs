//! The grammar of queries: what a user typed, as a tree.
//!
//! ```text
//! query  = all { "OR" all }
//! all    = part { [ "AND" ] part }
//! part   = [ "-" | "NOT" ] ( "(" query ")" | [ field ":" ] ( word [ "*" ] | phrase ) )
//! ```
//!
//! This module does not know the index.

use super::words;

/// The longest query, in bytes.
const LONGEST: usize = 1_000;
/// The most words and phrases.
const MOST: usize = 64;
/// The deepest nesting of brackets.
const DEEPEST: usize = 16;
/// The fewest letters before a `*`.
const PREFIX: usize = 2;

/// Why a query cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// Something is wrong at a place.
    #[error("the query `{query}`: {why}, at character {at}")]
    At {
        /// The query.
        query: String,
        /// The number of the character, from 1.
        at: usize,
        /// The problem, and what to do.
        why: &'static str,
    },
    /// It is wrong as a whole.
    #[error("the query `{query}`: {why}")]
    Whole {
        /// The query, shortened.
        query: String,
        /// The problem, and what to do.
        why: String,
    },
    /// A date cannot be read.
    #[error("`{0}` is no date; write it as 2024, 2024-05 or 2024-05-17")]
    Date(String),
    /// An entity is not there.
    #[error(
        "no document has the entity `{0}`; give its name or identifier as the list has it, and \
         index with `spoor index --entities LIST` first"
    )]
    NoEntity(String),
    /// A class is not there.
    #[error("no document has an entity of the class `{0}`; give it as the list has it")]
    NoClass(String),
    /// A number cannot be read.
    #[error("`{0}` is no perplexity; write a number above 0")]
    Perplexity(String),
}

/// A query that was understood.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    /// Words one after another.
    Words {
        /// Whether in the title; `None` for title and text.
        title: Option<bool>,
        words: Vec<String>,
        /// Whether longer words that begin as the last one are meant as well.
        is_prefix: bool,
    },
    /// All of them, or not where it is false.
    All(Vec<(bool, Node)>),
    /// One of them.
    Any(Vec<Node>),
}

impl Node {
    /// Reads a query; `None` for an empty one.
    ///
    /// # Errors
    ///
    /// [`QueryError`] says what is wrong and where.
    pub(super) fn parse(query: &str) -> Result<Option<Self>, QueryError> {
        Parser::parse(query)
    }
}

struct Parser<'q> {
    query: &'q str,
    /// The byte that is read next.
    at: usize,
    parts: usize,
    depth: usize,
}

impl<'q> Parser<'q> {
    /// `None` for an empty query.
    fn parse(query: &'q str) -> Result<Option<Node>, QueryError> {
        let query = query.trim();
        if query.is_empty() || query == "*" {
            return Ok(None);
        }
        let mut parser = Parser {
            query,
            at: 0,
            parts: 0,
            depth: 0,
        };
        if query.len() > LONGEST {
            return Err(parser.whole(&format!("it has more than {LONGEST} bytes; shorten it")));
        }
        let node = parser.any()?;
        if parser.peek().is_some() {
            return Err(parser.wrong("a closing bracket without an opening one"));
        }
        match node {
            Some(node) => Ok(Some(node)),
            None => Err(parser.whole("it has no words; give some letters or digits")),
        }
    }

    fn wrong(&self, why: &'static str) -> QueryError {
        let before = self.query.get(..self.at).unwrap_or_default();
        QueryError::At {
            query: self.query.to_owned(),
            at: before.chars().count() + 1,
            why,
        }
    }

    fn whole(&self, why: &str) -> QueryError {
        QueryError::Whole {
            query: self.query.chars().take(80).collect(),
            why: why.to_owned(),
        }
    }

    fn rest(&self) -> &'q str {
        self.query.get(self.at..).unwrap_or_default()
    }

    /// The next character that is no space.
    fn peek(&mut self) -> Option<char> {
        let rest = self.rest();
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed.chars().next()
    }

    /// Takes an operator.
    fn takes(&mut self, word: &str) -> bool {
        self.peek();
        let Some(after) = self.rest().strip_prefix(word) else {
            return false;
        };
        let is_whole = after
            .chars()
            .next()
            .is_none_or(|c| c.is_whitespace() || c == '(');
        if is_whole {
            self.at += word.len();
        }
        is_whole
    }

    fn any(&mut self) -> Result<Option<Node>, QueryError> {
        let mut nodes = Vec::new();
        nodes.extend(self.all()?);
        while self.takes("OR") {
            if self.peek().is_none_or(|c| c == ')') {
                return Err(self.wrong("something is missing after OR"));
            }
            nodes.extend(self.all()?);
        }
        Ok(match nodes.len() {
            0 | 1 => nodes.pop(),
            _ => Some(Node::Any(nodes)),
        })
    }

    fn all(&mut self) -> Result<Option<Node>, QueryError> {
        let mut nodes: Vec<(bool, Node)> = Vec::new();
        loop {
            while self.takes("AND") {}
            let Some(next) = self.peek() else { break };
            let begin = self.at;
            if self.takes("OR") {
                self.at = begin;
                if nodes.is_empty() {
                    return Err(self.wrong("something is missing before OR"));
                }
                break;
            }
            if next == ')' {
                break;
            }
            let is_wanted = !self.negates();
            nodes.extend(self.part()?.map(|node| (is_wanted, node)));
        }
        if nodes.iter().any(|(is_wanted, _)| *is_wanted) {
            return Ok(match (nodes.len(), nodes.pop()) {
                (1, Some((true, node))) => Some(node),
                (_, last) => {
                    nodes.extend(last);
                    Some(Node::All(nodes))
                }
            });
        }
        if nodes.is_empty() {
            return Ok(None);
        }
        Err(self.whole("it says only what must not occur; add a word that is to occur"))
    }

    fn negates(&mut self) -> bool {
        if self.takes("NOT") {
            return true;
        }
        let is_minus = self.rest().starts_with('-')
            && self
                .rest()
                .chars()
                .nth(1)
                .is_some_and(|c| !c.is_whitespace());
        self.at += usize::from(is_minus);
        is_minus
    }

    fn part(&mut self) -> Result<Option<Node>, QueryError> {
        match self.peek() {
            None => return Err(self.wrong("something is missing at the end")),
            Some('(') => return self.bracket(),
            Some(')') => return Err(self.wrong("something is missing before this bracket")),
            Some(_) => {}
        }
        self.parts += 1;
        if self.parts > MOST {
            return Err(self.whole(&format!("it has more than {MOST} words; shorten it")));
        }
        let title = self.field()?;
        let (text, is_prefix) = match self.rest().chars().next() {
            Some(quote @ ('"' | '\u{201c}' | '\u{201d}' | '\u{201e}')) => {
                (self.phrase(quote)?, false)
            }
            _ => self.word()?,
        };
        let mut analyzer = words::analyzer();
        let mut stream = analyzer.token_stream(text);
        let mut words = Vec::new();
        while let Some(token) = stream.next() {
            words.push(token.text.clone());
        }
        Ok((!words.is_empty()).then_some(Node::Words {
            title,
            words,
            is_prefix,
        }))
    }

    fn bracket(&mut self) -> Result<Option<Node>, QueryError> {
        let begin = self.at;
        if self.depth == DEEPEST {
            return Err(self.wrong("too many brackets within one another"));
        }
        self.at += 1;
        self.depth += 1;
        let node = self.any()?;
        if self.peek() != Some(')') {
            self.at = begin;
            return Err(self.wrong("this bracket is not closed"));
        }
        self.at += 1;
        self.depth -= 1;
        Ok(node)
    }

    /// The field before a colon, if it is one.
    fn field(&mut self) -> Result<Option<bool>, QueryError> {
        for (name, title) in [("title:", true), ("text:", false)] {
            if self.rest().starts_with(name) {
                self.at += name.len();
                if self.rest().chars().next().is_none_or(char::is_whitespace) {
                    return Err(self.wrong("a word must follow the colon directly"));
                }
                return Ok(Some(title));
            }
        }
        for name in [
            "host:",
            "language:",
            "bucket:",
            "date:",
            "perplexity:",
            "site:",
        ] {
            if self.rest().starts_with(name) {
                return Err(self.wrong(
                    "a query has only the fields title: and text:; for others use the filters \
                     (--host, --language, --bucket, --from, --to, --max-perplexity)",
                ));
            }
        }
        Ok(None)
    }

    fn phrase(&mut self, quote: char) -> Result<&'q str, QueryError> {
        let rest = self.rest().get(quote.len_utf8()..).unwrap_or_default();
        let Some(end) = rest.find(['"', '\u{201c}', '\u{201d}']) else {
            return Err(self.wrong("this quotation mark has no partner"));
        };
        let (phrase, after) = rest.split_at(end);
        let close = after.chars().next().map_or(0, char::len_utf8);
        self.at += quote.len_utf8() + end + close;
        Ok(phrase)
    }

    /// A word, and whether it ends in `*`.
    fn word(&mut self) -> Result<(&'q str, bool), QueryError> {
        let rest = self.rest();
        let ends = |c: char| {
            c.is_whitespace() || matches!(c, '(' | ')' | '"' | '\u{201c}' | '\u{201d}' | '\u{201e}')
        };
        let word = rest.split(ends).next().unwrap_or_default();
        let is_prefix = word.len() > 1 && word.ends_with('*');
        let bare = word.trim_end_matches('*');
        if is_prefix && bare.chars().filter(|c| c.is_alphanumeric()).count() < PREFIX {
            return Err(self.wrong("at least two letters must stand before `*`"));
        }
        self.at += word.len();
        Ok((bare, is_prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(query: &str) -> Result<Option<Node>, String> {
        Parser::parse(query).map_err(|e| e.to_string())
    }

    fn words(words: &[&str]) -> Node {
        Node::Words {
            title: None,
            words: words.iter().map(|w| (*w).to_owned()).collect(),
            is_prefix: false,
        }
    }

    #[test]
    fn all_words_must_occur_unless_or_stands_between_them() {
        let [a, b, c] = [words(&["a"]), words(&["b"]), words(&["c"])];
        let all =
            |nodes: &[&Node]| Node::All(nodes.iter().map(|node| (true, (*node).clone())).collect());
        assert_eq!(node("A"), Ok(Some(a.clone())));
        assert_eq!(node(" a  AND b "), Ok(Some(all(&[&a, &b]))));
        let any = Node::Any(vec![a.clone(), all(&[&b, &c])]);
        assert_eq!(node("a OR b c"), Ok(Some(any)));
        let within = Node::Any(vec![a.clone(), b.clone()]);
        assert_eq!(node("(a OR b) c"), Ok(Some(all(&[&within, &c]))));
        let without = Node::All(vec![(true, a.clone()), (false, b.clone())]);
        assert_eq!(node("a -b"), Ok(Some(without.clone())));
        assert_eq!(node("a NOT b"), Ok(Some(without)));
        assert_eq!(
            node("orb OR"),
            Err("the query `orb OR`: something is missing after OR, at character 7".to_owned())
        );
        assert_eq!(
            node("\"Fresnel lens\""),
            Ok(Some(words(&["fresnel", "lens"])))
        );
        assert_eq!(
            node("\u{201c}Fresnel lens\u{201d}"),
            Ok(Some(words(&["fresnel", "lens"])))
        );
        assert_eq!(node("fresnel-lens"), Ok(Some(words(&["fresnel", "lens"]))));
        assert_eq!(node("a & b"), Ok(Some(all(&[&a, &b]))));
        assert_eq!(node(""), Ok(None));
        let title = Node::Words {
            title: Some(true),
            words: vec!["light".to_owned()],
            is_prefix: true,
        };
        assert_eq!(node("title:Light*"), Ok(Some(title)));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (query, part) in [
            ("a (b", "not closed, at character 3"),
            ("a) b", "without an opening one, at character 2"),
            ("é \"b", "no partner, at character 3"),
            ("OR a", "missing before OR, at character 1"),
            ("a OR OR b", "missing before OR, at character 6"),
            ("-a", "only what must not occur"),
            ("a OR -b", "only what must not occur"),
            ("&&", "no words"),
            ("()", "no words"),
            ("a*", "two letters"),
            ("title: a", "directly"),
            ("a host:b", "--host"),
        ] {
            let said = node(query).unwrap_err();
            assert!(said.contains(part), "{query}: {said}");
        }
        let said = node(&"a ".repeat(65)).unwrap_err();
        assert!(said.contains("more than 64 words"), "{said}");
        let said = node(&"a".repeat(1_001)).unwrap_err();
        assert!(said.contains("bytes") && said.len() < 200, "{said}");
        let said = node(&"(".repeat(900)).unwrap_err();
        assert!(said.contains("too many brackets"), "{said}");
    }

    proptest::proptest! {
        #![proptest_config(crate::tests::usual())]
        #[test]
        fn no_query_panics(query in "[a-c \"()*:\\-\u{e9}\u{201c}ORANDtitle]{0,40}") {
            drop(Node::parse(&query).map(|_| ()));
        }
    }
}
