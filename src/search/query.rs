//! A search: the words, the filters of documents, and the index query for both.
//!
//! Users write in the grammar of tantivy. Only words, phrases, `-`, `OR`, brackets, `title:` and
//! `text:` are guaranteed. Prefixes such as `kitten*`, which it lacks, are added to its result.

use std::cmp::Ordering;
use std::fmt::Display;
use std::ops::Bound;

use tantivy::Term;
use tantivy::query::{
    BooleanQuery, ConstScoreQuery, Occur, Query, QueryParser, QueryParserError, RangeQuery,
    TermQuery,
};
use tantivy::query_grammar::{self, Delimiter, UserInputAst, UserInputLeaf, UserInputLiteral};
use tantivy::schema::{Field, IndexRecordOption};

use super::entry::{day, last_day};
use super::named;
use super::schema::{DOCUMENT, IndexFields, PARAGRAPH, SENTENCE, schema};
use super::update::tokenizers;
use super::words;
use crate::tool_error::ToolError;

/// How much more a word in the title counts.
const TITLE: f32 = 2.0;
/// The longest query, in bytes.
const LONGEST: usize = 1_000;
/// The most words, and the most brackets: each may be a level for the parser.
const MOST_WORDS: usize = 64;
const MOST_BRACKETS: usize = 16;
/// The minimum number of letters before a `*`.
const PREFIX: usize = 2;

/// Which documents are wanted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filters {
    /// On these hosts, or those below them.
    pub hosts: Vec<String>,
    /// In these languages.
    pub languages: Vec<String>,
    /// Of these classes.
    pub buckets: Vec<String>,
    /// From this day, month or year, or later.
    pub from: Option<String>,
    /// From this day, month or year, or earlier.
    pub to: Option<String>,
    /// With at most this perplexity.
    pub max_perplexity: Option<f64>,
    /// With all of these entities, by name or identifier.
    pub entities: Vec<String>,
    /// With an entity of one of these classes.
    pub classes: Vec<String>,
}

/// How near to an entity words must be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Within {
    /// In the same sentence.
    #[default]
    Sentence,
    /// In the same paragraph.
    Paragraph,
    /// In the same document.
    Document,
}

impl Within {
    /// The kind of entries that are searched.
    fn kind(self) -> &'static str {
        match self {
            Self::Sentence => SENTENCE,
            Self::Paragraph => PARAGRAPH,
            Self::Document => DOCUMENT,
        }
    }
}

/// A search.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    /// The words; empty for all documents, the newest first.
    pub query: String,
    /// A filter of documents.
    pub filters: Filters,
    /// The number of hits to skip.
    pub offset: usize,
    /// The most hits.
    pub limit: usize,
    /// Whether documents are counted by host, year, language and class.
    pub facets: bool,
    /// Entities that must occur with the words, by name or identifier.
    pub with: Vec<String>,
    /// How near.
    pub within: Within,
}

impl Request {
    /// Whether passages are searched, rather than documents.
    pub(super) fn is_near(&self) -> bool {
        !self.with.is_empty() && self.within != Within::Document
    }
}

/// A searched word in the form of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WantedWord {
    pub word: String,
    /// Whether it is a prefix of the wanted words.
    pub is_prefix: bool,
}

impl WantedWord {
    /// Whether this word matches.
    pub(super) fn is(&self, word: &str) -> bool {
        word == self.word || (self.is_prefix && word.starts_with(&self.word))
    }
}

/// A query for the index, and the words to mark in the results.
pub(super) struct SearchQuery {
    pub query: Box<dyn Query>,
    pub wanted: Vec<WantedWord>,
    /// Whether words are searched for, so that hits differ in how well they match.
    pub is_ranked: bool,
}

/// The query for a request.
///
/// # Errors
///
/// [`ToolError`].
pub(super) fn parse(request: &Request, fields: &IndexFields) -> Result<SearchQuery, ToolError> {
    parse_within(request, fields, request.is_near())
}

/// The same; with `near` it searches passages if the request is about nearness, even without an
/// entity.
///
/// # Errors
///
/// [`ToolError`].
pub(super) fn parse_within(
    request: &Request,
    fields: &IndexFields,
    near: bool,
) -> Result<SearchQuery, ToolError> {
    let kind = if near {
        request.within.kind()
    } else {
        DOCUMENT
    };
    let mut typed = Typed::new(&request.query, kind != DOCUMENT);
    let query = typed.query(fields)?;
    let is_ranked = query.is_some();
    let mut parts: Vec<_> = query
        .map(|query| (Occur::Must, query))
        .into_iter()
        .collect();
    for name in &request.with {
        let entity = term(fields.entity_key, &named::key(name));
        parts.push((Occur::Must, Box::new(ConstScoreQuery::new(entity, 0.0))));
    }
    let documents = term(fields.kind, kind);
    parts.push((Occur::Must, Box::new(ConstScoreQuery::new(documents, 0.0))));
    for filter in request.filters.queries(fields)? {
        parts.push((Occur::Must, Box::new(ConstScoreQuery::new(filter, 0.0))));
    }
    Ok(SearchQuery {
        query: Box::new(BooleanQuery::new(parts)),
        wanted: typed.wanted,
        is_ranked,
    })
}

fn term(field: Field, text: &str) -> Box<dyn Query> {
    let term = Term::from_field_text(field, text);
    Box::new(TermQuery::new(term, IndexRecordOption::Basic))
}

impl Filters {
    fn queries(&self, fields: &IndexFields) -> Result<Vec<Box<dyn Query>>, ToolError> {
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
            (fields.class, &self.classes),
        ] {
            let any = values.iter().map(|value| term(field, value.trim()));
            let any: Vec<_> = any.collect();
            if !any.is_empty() {
                queries.push(Box::new(BooleanQuery::union(any)) as Box<dyn Query>);
            }
        }
        for name in &self.entities {
            queries.push(term(fields.entity_key, &named::key(name)));
        }
        let bound = |date: &Option<String>, day: fn(&str) -> Option<u64>| match date.as_deref() {
            None => Ok(Bound::Unbounded),
            Some(date) => match day(date.trim()) {
                Some(day) => Ok(Bound::Included(Term::from_field_u64(fields.date, day))),
                None => Err(no_date(date)),
            },
        };
        let (from, to) = (bound(&self.from, day)?, bound(&self.to, last_day)?);
        if (&from, &to) != (&Bound::Unbounded, &Bound::Unbounded) {
            queries.push(Box::new(RangeQuery::new(from, to)));
        }
        if let Some(most) = self.max_perplexity {
            if most.is_nan() || most <= 0.0 {
                return Err(ToolError::usage(format_args!(
                    "`{most}` is not a perplexity; write a number above 0"
                )));
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

/// A user's query while it is parsed.
struct Typed<'q> {
    query: &'q str,
    /// Whether it is for passages, which have no title.
    is_near: bool,
    /// The words that must occur.
    wanted: Vec<WantedWord>,
    has_words: bool,
}

impl<'q> Typed<'q> {
    fn new(query: &'q str, is_near: bool) -> Self {
        Self {
            query: query.trim(),
            is_near,
            wanted: Vec::new(),
            has_words: false,
        }
    }

    fn wrong<T>(&self, why: impl Display) -> Result<T, ToolError> {
        let query: String = self.query.chars().take(80).collect();
        Err(ToolError::usage(format_args!("the query `{query}`: {why}")))
    }

    /// The query of the index; `None` for an empty one.
    fn query(&mut self, fields: &IndexFields) -> Result<Option<Box<dyn Query>>, ToolError> {
        if self.query.is_empty() || self.query == "*" {
            return Ok(None);
        }
        let ast = self.parse()?;
        let ast = self.checked(ast, true)?;
        if !self.has_words {
            return self.wrong("it has no words; give some letters or digits");
        }
        let of = if self.is_near {
            vec![fields.said]
        } else {
            vec![fields.title, fields.text]
        };
        let mut parser = QueryParser::new(schema().0, of, tokenizers());
        parser.set_conjunction_by_default();
        parser.set_field_boost(fields.title, TITLE);
        // Users cannot write these; they are only made here, for prefixes.
        parser.allow_regexes();
        match parser.build_query_from_user_input_ast(ast) {
            Ok(query) => Ok(Some(query)),
            Err(QueryParserError::AllButQueryForbidden) => self.wrong(ONLY_NOT),
            Err(error) => self.wrong(error.to_string()),
        }
    }

    fn parse(&self) -> Result<UserInputAst, ToolError> {
        if self.query.len() > LONGEST {
            return self.wrong(format!("it has more than {LONGEST} bytes; shorten it"));
        }
        if self.query.split_whitespace().count() > MOST_WORDS {
            return self.wrong(format!("it has more than {MOST_WORDS} words; shorten it"));
        }
        if self.query.matches('(').count() > MOST_BRACKETS {
            return self.wrong(format!(
                "it has more than {MOST_BRACKETS} brackets; shorten it"
            ));
        }
        // Adapted to how people write, character by character: an apostrophe is part of a word, and
        // a dash between spaces excludes nothing.
        let plain = self
            .query
            .replace(['\u{201c}', '\u{201d}', '\u{201e}'], "\"");
        let plain = plain.replace('\'', "\u{2019}").replace(" - ", "   ");
        if let Ok(ast) = query_grammar::parse_query(&plain) {
            return Ok(ast);
        }
        let count = |sign| plain.matches(sign).count();
        if count('"') % 2 == 1 {
            return self.wrong("a quotation mark has no partner");
        }
        match count('(').cmp(&count(')')) {
            Ordering::Greater => return self.wrong("a bracket is not closed"),
            Ordering::Less => return self.wrong("a bracket is closed that was not opened"),
            Ordering::Equal => {}
        }
        let (_, errors) = query_grammar::parse_query_lenient(&plain);
        let Some(error) = errors.into_iter().next() else {
            return self.wrong("a word is missing beside AND, OR, NOT, a colon or a bracket");
        };
        let before = plain.get(..error.pos).unwrap_or(&plain);
        Err(ToolError::usage(format_args!(
            "the query `{}`: {}, at character {}",
            self.query,
            error.message.replace('\\', ""),
            before.chars().count() + 1
        )))
    }

    /// Restricts the parsed query to the guaranteed grammar, and adds prefixes.
    fn checked(&mut self, ast: UserInputAst, is_wanted: bool) -> Result<UserInputAst, ToolError> {
        Ok(match ast {
            UserInputAst::Clause(parts) => {
                let of = |occur| move |part: &(Option<Occur>, _)| part.0 == occur;
                if parts.iter().all(of(Some(Occur::MustNot))) {
                    return self.wrong(ONLY_NOT);
                }
                let is_one_of = of(Some(Occur::Should));
                if parts.iter().any(is_one_of) && !parts.iter().all(is_one_of) {
                    return self.wrong("put brackets around the words between which OR stands");
                }
                let parts = parts.into_iter().map(|(occur, part)| {
                    let is_wanted = is_wanted && occur != Some(Occur::MustNot);
                    Ok((occur, self.checked(part, is_wanted)?))
                });
                UserInputAst::Clause(parts.collect::<Result<_, ToolError>>()?)
            }
            UserInputAst::Boost(ast, boost) => {
                UserInputAst::Boost(Box::new(self.checked(*ast, is_wanted)?), boost)
            }
            UserInputAst::Leaf(leaf) => match *leaf {
                UserInputLeaf::Literal(literal) => self.literal(literal, is_wanted)?,
                _ => {
                    return self.wrong(
                        "it may have words, phrases, OR, brackets, title: and text:; put other \
                         signs in quotation marks",
                    );
                }
            },
        })
    }

    fn literal(
        &mut self,
        mut literal: UserInputLiteral,
        is_wanted: bool,
    ) -> Result<UserInputAst, ToolError> {
        match literal.field_name.as_deref() {
            None => {}
            Some("title" | "text") if !self.is_near => {}
            Some("title" | "text") => {
                return self.wrong(
                    "words near an entity are in one sentence or paragraph; leave out title: and \
                     text:, or add --within document",
                );
            }
            Some(_) => {
                return self.wrong(
                    "a query has only the fields title: and text:; for others use the filters \
                     (--host, --language, --bucket, --from, --to, --max-perplexity), and put a \
                     word with a colon in quotation marks",
                );
            }
        }
        let ends_so = literal.delimiter == Delimiter::None && literal.phrase.ends_with('*');
        let is_prefix = literal.prefix || ends_so;
        let found = words::of(&literal.phrase);
        self.has_words |= !found.is_empty();
        for (at, word) in found.iter().enumerate() {
            let wanted = WantedWord {
                word: word.clone(),
                is_prefix: is_prefix && at + 1 == found.len(),
            };
            if is_wanted && !self.wanted.contains(&wanted) {
                self.wanted.push(wanted);
            }
        }
        // The parser supports prefixes only at the end of phrases.
        literal.prefix = is_prefix && found.len() > 1;
        match found.as_slice() {
            [word] if is_prefix && word.chars().count() < PREFIX => {
                self.wrong("at least two letters must stand before `*`")
            }
            [word] if is_prefix => Ok(self.beginning(literal.field_name.as_deref(), word)),
            _ => Ok(UserInputLeaf::from(literal).into()),
        }
    }

    /// Words with this prefix, in one field or in all.
    fn beginning(&self, field: Option<&str>, word: &str) -> UserInputAst {
        let of = |field: &str| {
            let words = UserInputAst::from(UserInputLeaf::Regex {
                field: Some(field.to_owned()),
                pattern: format!("{}.*", regex::escape(word)),
            });
            match field {
                "title" => UserInputAst::Boost(Box::new(words), f64::from(TITLE).into()),
                _ => words,
            }
        };
        match field {
            Some(field) => of(field),
            None if self.is_near => of("said"),
            None => UserInputAst::or(vec![of("title"), of("text")]),
        }
    }
}

fn no_date(date: &str) -> ToolError {
    ToolError::usage(format_args!(
        "`{date}` is not a date; write it as 2024, 2024-05 or 2024-05-17"
    ))
}

/// The problem of a query, or of a bracket.
const ONLY_NOT: &str = "it says only what must not occur; add a word that is to occur, and write \
     -word where AND or OR stands before NOT";

#[cfg(test)]
mod tests {
    use super::super::schema::schema;
    use super::*;

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
    fn wrong_queries_are_reported() {
        let (_, fields) = schema();
        let said = |query: &str| {
            let request = Request {
                query: query.to_owned(),
                ..Request::default()
            };
            parse(&request, &fields).map(drop).unwrap_err().to_string()
        };
        for (query, part) in [
            ("a (b", "a bracket is not closed"),
            ("a) b", "that was not opened"),
            ("\u{e9} \"b", "a quotation mark has no partner"),
            ("OR a", "boolean operator before term"),
            ("a OR OR b", "a word is missing beside AND, OR"),
            ("orb OR", "a word is missing beside AND, OR"),
            ("-a", "only what must not occur"),
            ("a OR -b", "only what must not occur"),
            ("a AND NOT b", "write -word"),
            ("a OR b c", "brackets around"),
            ("a b OR c", "brackets around"),
            ("&&", "no words"),
            ("()", "expected word, at character 2"),
            ("a*", "two letters"),
            ("title:", "expected word, at character 7"),
            ("a host:b", "--host"),
            ("http://a.test/", "quotation marks"),
            ("text:[a TO b]", "quotation marks"),
            ("text:/a.*/", "quotation marks"),
            ("title:*", "quotation marks"),
        ] {
            let said = said(query);
            assert!(said.contains(part), "{query}: {said}");
        }
        let many = said(&"a ".repeat(65));
        assert!(many.contains("more than 64 words"), "{many}");
        let long = said(&"a".repeat(1_001));
        assert!(long.contains("bytes") && long.len() < 200, "{long}");
        let deep = said(&"(".repeat(900));
        assert!(deep.contains("16 brackets"), "{deep}");
    }

    proptest::proptest! {
        #![proptest_config(spoor_testing::usual!())]
        #[test]
        fn no_query_panics(query in "[a-c \"'()*:\\-\u{e9}\u{201c}ORANDtitle~^+/\\[\\]{}<>\\\\]{0,40}") {
            let (_, fields) = schema();
            drop(parse(&Request { query, ..Request::default() }, &fields).map(drop));
        }
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
        assert_eq!(said, no_date("May"));
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
}
