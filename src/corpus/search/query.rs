//! What a user typed, as a query of the index.
//!
//! ```text
//! query  = all { "OR" all }
//! all    = part { [ "AND" ] part }
//! part   = [ "-" | "NOT" ] ( "(" query ")" | [ field ":" ] ( word [ "*" ] | phrase ) )
//! ```

use std::ops::Bound;

use tantivy::Term;
use tantivy::query::{
    BooleanQuery, BoostQuery, ConstScoreQuery, FuzzyTermQuery, Occur, PhrasePrefixQuery,
    PhraseQuery, Query, RangeQuery, TermQuery,
};
use tantivy::schema::{Field, IndexRecordOption};

use super::entry::{day, last_day};
use super::schema::{DOCUMENT, Fields};
use super::words;

/// The longest query, in bytes.
const LONGEST: usize = 1_000;
/// The most words and phrases.
const MOST: usize = 64;
/// The deepest nesting of brackets.
const DEEPEST: usize = 16;
/// The fewest letters before a `*`.
const PREFIX: usize = 2;
/// How much more a word in the title counts.
const TITLE: f32 = 2.0;

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
    /// A number cannot be read.
    #[error("`{0}` is no perplexity; write a number above 0")]
    Perplexity(String),
}

/// Which documents are wanted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filters {
    /// Of these hosts, or those below them.
    pub hosts: Vec<String>,
    /// In these languages.
    pub languages: Vec<String>,
    /// Of these classes.
    pub buckets: Vec<String>,
    /// Of this day, month or year, or later.
    pub from: Option<String>,
    /// Of this day, month or year, or earlier.
    pub to: Option<String>,
    /// With at most this perplexity.
    pub max_perplexity: Option<f64>,
}

/// A search.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    /// What is to occur; empty for all documents, the newest first.
    pub query: String,
    /// Which documents are wanted.
    pub filters: Filters,
    /// The first hits that are passed over.
    pub offset: usize,
    /// The most hits.
    pub limit: usize,
    /// Whether documents are counted by host, year, language and class.
    pub facets: bool,
}

/// A word that is looked for, as the index has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wanted {
    pub word: String,
    /// Whether longer words that begin so are meant as well.
    pub is_prefix: bool,
}

impl Wanted {
    /// Whether this word is meant.
    pub(super) fn is(&self, word: &str) -> bool {
        word == self.word || (self.is_prefix && word.starts_with(&self.word))
    }
}

/// A query that was understood.
#[derive(Debug, Clone, PartialEq)]
enum Node {
    Words {
        /// `None` for title and text.
        title: Option<bool>,
        words: Vec<String>,
        is_prefix: bool,
    },
    All(Vec<(bool, Node)>),
    Any(Vec<Node>),
}

/// A query for the index, and the words whose occurrences are shown.
pub(super) struct Parsed {
    pub query: Box<dyn Query>,
    pub wanted: Vec<Wanted>,
    /// Whether words are looked for, so that hits differ in how well they match.
    pub is_ranked: bool,
}

/// The query for a request.
///
/// # Errors
///
/// [`QueryError`].
pub(super) fn parse(request: &Request, fields: &Fields) -> Result<Parsed, QueryError> {
    let node = Parser::parse(&request.query)?;
    let mut wanted = Vec::new();
    let mut parts: Vec<(Occur, Box<dyn Query>)> = Vec::new();
    let is_ranked = node.is_some();
    if let Some(node) = node {
        node.wanted(&mut wanted);
        parts.push((Occur::Must, node.query(fields)));
    }
    let documents = term(fields.kind, DOCUMENT);
    parts.push((Occur::Must, Box::new(ConstScoreQuery::new(documents, 0.0))));
    for filter in request.filters.queries(fields)? {
        parts.push((Occur::Must, Box::new(ConstScoreQuery::new(filter, 0.0))));
    }
    Ok(Parsed {
        query: Box::new(BooleanQuery::new(parts)),
        wanted,
        is_ranked,
    })
}

fn term(field: Field, text: &str) -> Box<dyn Query> {
    let term = Term::from_field_text(field, text);
    Box::new(TermQuery::new(term, IndexRecordOption::Basic))
}

impl Filters {
    fn queries(&self, fields: &Fields) -> Result<Vec<Box<dyn Query>>, QueryError> {
        let mut queries = Vec::new();
        let host = |host: &String| {
            host.trim()
                .to_lowercase()
                .trim_start_matches("*.")
                .to_owned()
        };
        let hosts: Vec<String> = self.hosts.iter().map(host).collect();
        for (field, values) in [
            (fields.domain, &hosts),
            (fields.language, &self.languages),
            (fields.bucket, &self.buckets),
        ] {
            let any = values.iter().map(|value| term(field, value.trim()));
            let any: Vec<_> = any.collect();
            if !any.is_empty() {
                queries.push(Box::new(BooleanQuery::union(any)) as Box<dyn Query>);
            }
        }
        let bound = |date: &Option<String>, day: fn(&str) -> Option<u64>| match date.as_deref() {
            None => Ok(Bound::Unbounded),
            Some(date) => match day(date.trim()) {
                Some(day) => Ok(Bound::Included(Term::from_field_u64(fields.date, day))),
                None => Err(QueryError::Date(date.to_owned())),
            },
        };
        let (from, to) = (bound(&self.from, day)?, bound(&self.to, last_day)?);
        if (&from, &to) != (&Bound::Unbounded, &Bound::Unbounded) {
            queries.push(Box::new(RangeQuery::new(from, to)));
        }
        if let Some(most) = self.max_perplexity {
            if !(most > 0.0) {
                return Err(QueryError::Perplexity(most.to_string()));
            }
            let most = Bound::Included(Term::from_field_f64(fields.perplexity, most));
            queries.push(Box::new(RangeQuery::new(Bound::Unbounded, most)));
        }
        Ok(queries)
    }

    /// Whether all documents are wanted.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Node {
    fn query(&self, fields: &Fields) -> Box<dyn Query> {
        match self {
            Self::Any(nodes) => {
                let any = nodes.iter().map(|node| node.query(fields)).collect();
                Box::new(BooleanQuery::union(any))
            }
            Self::All(nodes) => {
                let all = nodes.iter().map(|(is_wanted, node)| {
                    let occur = if *is_wanted {
                        Occur::Must
                    } else {
                        Occur::MustNot
                    };
                    (occur, node.query(fields))
                });
                Box::new(BooleanQuery::new(all.collect()))
            }
            Self::Words {
                title,
                words,
                is_prefix,
            } => {
                let of = |field| leaf(field, words, *is_prefix);
                let titles = || Box::new(BoostQuery::new(of(fields.title), TITLE));
                match title {
                    Some(true) => of(fields.title),
                    Some(false) => of(fields.text),
                    None => Box::new(BooleanQuery::union(vec![titles(), of(fields.text)])),
                }
            }
        }
    }

    /// The words that are to occur.
    fn wanted(&self, found: &mut Vec<Wanted>) {
        match self {
            Self::Any(nodes) => nodes.iter().for_each(|node| node.wanted(found)),
            Self::All(nodes) => {
                let wanted = nodes.iter().filter(|(is_wanted, _)| *is_wanted);
                wanted.for_each(|(_, node)| node.wanted(found));
            }
            Self::Words {
                words, is_prefix, ..
            } => {
                for (at, word) in words.iter().enumerate() {
                    let wanted = Wanted {
                        word: word.clone(),
                        is_prefix: *is_prefix && at + 1 == words.len(),
                    };
                    if !found.contains(&wanted) {
                        found.push(wanted);
                    }
                }
            }
        }
    }
}

/// Words one after another in a field.
fn leaf(field: Field, words: &[String], is_prefix: bool) -> Box<dyn Query> {
    let mut terms: Vec<Term> = words
        .iter()
        .map(|word| Term::from_field_text(field, word))
        .collect();
    match (terms.len(), is_prefix) {
        (0 | 1, is_prefix) => {
            let term = terms
                .pop()
                .unwrap_or_else(|| Term::from_field_text(field, ""));
            if is_prefix {
                Box::new(FuzzyTermQuery::new_prefix(term, 0, true))
            } else {
                Box::new(TermQuery::new(term, IndexRecordOption::WithFreqs))
            }
        }
        (_, true) => Box::new(PhrasePrefixQuery::new(terms)),
        (_, false) => Box::new(PhraseQuery::new(terms)),
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
    use super::super::schema::schema;
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

    #[test]
    fn only_words_that_are_to_occur_are_shown() {
        let (_, fields) = schema();
        let request = Request {
            query: "(lamp OR light*) -fog \"lens lamp\"".to_owned(),
            ..Request::default()
        };
        let parsed = parse(&request, &fields).unwrap();
        let shown: Vec<(&str, bool)> = parsed
            .wanted
            .iter()
            .map(|w| (w.word.as_str(), w.is_prefix))
            .collect();
        assert_eq!(shown, [("lamp", false), ("light", true), ("lens", false)]);
        assert!(parsed.wanted[1].is("lighthouse") && !parsed.wanted[0].is("lamps"));
    }

    #[test]
    fn filters_are_checked() {
        let (_, fields) = schema();
        let wrong = |filters: Filters| filters.queries(&fields).map(|q| q.len()).unwrap_err();
        let date = Some("May".to_owned());
        let said = wrong(Filters {
            from: date.clone(),
            ..Filters::default()
        });
        assert_eq!(said, QueryError::Date("May".to_owned()));
        wrong(Filters {
            to: date,
            ..Filters::default()
        });
        for number in [0.0, -1.0, f64::NAN] {
            wrong(Filters {
                max_perplexity: Some(number),
                ..Filters::default()
            });
        }
    }

    proptest::proptest! {
        #![proptest_config(crate::tests::usual())]
        #[test]
        fn no_query_panics(query in "[a-c \"()*:\\-\u{e9}\u{201c}ORANDtitle]{0,40}") {
            let (_, fields) = schema();
            let request = Request { query, ..Request::default() };
            drop(parse(&request, &fields).map(|_| ()));
        }
    }
}
