//! A search: what is to occur, which documents are wanted, and the query of the index for
//! both.

use std::ops::Bound;

use tantivy::Term;
use tantivy::query::{
    BooleanQuery, BoostQuery, ConstScoreQuery, FuzzyTermQuery, Occur, PhrasePrefixQuery,
    PhraseQuery, Query, RangeQuery, TermQuery,
};
use tantivy::schema::{Field, IndexRecordOption};

use super::entry::{day, last_day};
use super::named;
use super::parse::{Node, QueryError};
use super::schema::{DOCUMENT, Fields, PARAGRAPH, SENTENCE};

/// How much more a word in the title counts.
const TITLE: f32 = 2.0;

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
    /// With all of these entities, by name or identifier.
    pub entities: Vec<String>,
    /// With an entity of one of these classes.
    pub classes: Vec<String>,
}

/// How near to an entity words have to be.
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
    /// Entities that are to occur with the words, by name or identifier.
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
    parse_within(request, fields, request.is_near())
}

/// The same; with `near` for passages where the request asks for what is near, also without an
/// entity.
///
/// # Errors
///
/// [`QueryError`].
pub(super) fn parse_within(
    request: &Request,
    fields: &Fields,
    near: bool,
) -> Result<Parsed, QueryError> {
    let node = Node::parse(&request.query)?;
    let kind = if near {
        request.within.kind()
    } else {
        DOCUMENT
    };
    let said = (kind != DOCUMENT).then_some(fields.said);
    if said.is_some() && node.as_ref().is_some_and(Node::names_fields) {
        return Err(QueryError::Whole {
            query: request.query.clone(),
            why: "words near an entity are in one sentence or paragraph; leave out title: and \
                text:, or add --within document"
                .to_owned(),
        });
    }
    let mut wanted = Vec::new();
    let mut parts: Vec<(Occur, Box<dyn Query>)> = Vec::new();
    let is_ranked = node.is_some();
    if let Some(node) = node {
        node.wanted(&mut wanted);
        parts.push((Occur::Must, node.query(fields, said)));
    }
    for name in &request.with {
        let entity = term(fields.entity_key, &named::key(name));
        parts.push((Occur::Must, Box::new(ConstScoreQuery::new(entity, 0.0))));
    }
    let documents = term(fields.kind, kind);
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
                None => Err(QueryError::Date(date.to_owned())),
            },
        };
        let (from, to) = (bound(&self.from, day)?, bound(&self.to, last_day)?);
        if (&from, &to) != (&Bound::Unbounded, &Bound::Unbounded) {
            queries.push(Box::new(RangeQuery::new(from, to)));
        }
        if let Some(most) = self.max_perplexity {
            if most.is_nan() || most <= 0.0 {
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
    /// Whether it asks for words in the title, or in the text alone.
    fn names_fields(&self) -> bool {
        match self {
            Self::Any(nodes) => nodes.iter().any(Self::names_fields),
            Self::All(nodes) => nodes.iter().any(|(_, node)| node.names_fields()),
            Self::Words { title, .. } => title.is_some(),
        }
    }

    /// The query for documents, or for passages with what is `said` in them.
    fn query(&self, fields: &Fields, said: Option<Field>) -> Box<dyn Query> {
        match self {
            Self::Any(nodes) => {
                let any = nodes.iter().map(|node| node.query(fields, said)).collect();
                Box::new(BooleanQuery::union(any))
            }
            Self::All(nodes) => {
                let all = nodes.iter().map(|(is_wanted, node)| {
                    let occur = if *is_wanted {
                        Occur::Must
                    } else {
                        Occur::MustNot
                    };
                    (occur, node.query(fields, said))
                });
                Box::new(BooleanQuery::new(all.collect()))
            }
            Self::Words {
                title,
                words,
                is_prefix,
            } => {
                let of = |field| leaf(field, words, *is_prefix);
                if let Some(said) = said {
                    return of(said);
                }
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
}
