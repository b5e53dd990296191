//! The columns of documents: the only place where they are declared. JSON lines, Parquet and
//! the data card are derived from them.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::Map;

use super::super::document::Document;
use crate::corpus::export::columns::{Kind, TERMS, Value, some, text, whole};
use crate::page::Terms;
use crate::sanitize;

type Read = Arc<dyn Fn(&Document) -> Value + Send + Sync>;

/// A column.
#[derive(Clone)]
pub(in crate::corpus::build) struct Column {
    pub(in crate::corpus::build) name: Cow<'static, str>,
    pub(in crate::corpus::build) kind: Kind,
    /// Its meaning, as Markdown.
    pub(in crate::corpus::build) about: Cow<'static, str>,
    /// Whether it is a statement of a publisher.
    pub(in crate::corpus::build) consent: bool,
    read: Read,
}

impl Column {
    fn new(
        name: impl Into<Cow<'static, str>>,
        kind: Kind,
        about: impl Into<Cow<'static, str>>,
        read: impl Fn(&Document) -> Value + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            kind,
            about: about.into(),
            consent: false,
            read: Arc::new(read),
        }
    }

    pub(in crate::corpus::build) fn value(&self, document: &Document) -> Value {
        (self.read)(document)
    }
}

/// A document as a JSON object with its columns in order.
struct Object<'a>(&'a [Column], &'a Document);

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Object(columns, document) = self;
        serializer.collect_map(columns.iter().map(|c| (&c.name, c.value(document))))
    }
}

/// A document as a line of JSON with its end.
pub(super) fn line(columns: &[Column], document: &Document) -> String {
    // Texts, lists and numbers always serialise.
    let line = serde_json::to_string(&Object(columns, document)).unwrap_or_default();
    let mut line = sanitize::json(&line).into_owned();
    line.push('\n');
    line
}

/// The document of such a line.
///
/// # Errors
///
/// It is no document.
pub(in crate::corpus::build) fn of_line(line: &[u8]) -> serde_json::Result<Document> {
    let mut map: Map<String, serde_json::Value> = serde_json::from_slice(line)?;
    let terms = terms(&map);
    map.retain(|name, _| TERMS.iter().all(|(term, ..)| term != name));
    let mut document: Document = serde_json::from_value(serde_json::Value::Object(map))?;
    document.terms = terms;
    Ok(document)
}

/// The terms of use in the columns of a line; `None` where they say nothing.
pub(in crate::corpus::build) fn terms(map: &Map<String, serde_json::Value>) -> Option<Terms> {
    let mut terms = Terms::default();
    for (name, ..) in TERMS {
        let Some(value) = map.get(*name) else {
            continue;
        };
        let is_true = value.as_bool() == Some(true);
        match *name {
            "noindex" => terms.directives.noindex = is_true,
            "noai" => terms.directives.noai = is_true,
            "noml" => terms.directives.noml = is_true,
            "tdm_reservation" => terms.tdm_reservation = value.as_bool(),
            "tdm_policy" => terms.tdm_policy = value.as_str().map(str::to_owned),
            "content_signals" => {
                let all = value.as_array().into_iter().flatten();
                let pairs = all.filter_map(|v| v.as_str()?.split_once('='));
                terms.content_signals = pairs
                    .map(|(signal, says)| (signal.to_owned(), says == "yes"))
                    .collect();
            }
            _ => {}
        }
    }
    Some(terms).filter(|terms| *terms != Terms::default())
}

/// The columns, in order. `measures` are the names of what rules of quality measured, `layers`
/// those of the columns that steps add.
pub(in crate::corpus::build) fn columns(measures: &[String], layers: &[String]) -> Vec<Column> {
    let mut all = of_text();
    all.extend(of_steps());
    let of_layers = of_layers().into_iter();
    all.extend(of_layers.filter(|column| layers.iter().any(|name| *name == column.name)));
    for name in measures {
        let key = format!("quality_{name}");
        let about = format!("What the rule `{name}` measured.");
        all.push(Column::new(key.clone(), Kind::Number, about, move |d| {
            Value::Number(d.quality.get(&key).copied().flatten())
        }));
    }
    all.extend(of_place());
    let mut consent = vec![Column::new(
        "licences",
        Kind::Texts,
        "Addresses or names of licences that the page or its headers give.",
        |d| Value::Texts(d.licences.clone()),
    )];
    // Statements about images do not concern text.
    for (name, kind, about, term) in TERMS.iter().filter(|t| !t.0.starts_with("noimage")) {
        let about = format!("The page: {about}.");
        consent.push(Column::new(*name, *kind, about, |d| match &d.terms {
            Some(terms) => term(terms),
            None => term(&Terms::default()),
        }));
    }
    consent.iter_mut().for_each(|column| column.consent = true);
    all.extend(consent);
    all
}

/// What the document is.
fn of_text() -> Vec<Column> {
    use Kind::{Number, Text, Texts, Time, Whole};
    vec![
        Column::new(
            "id",
            Text,
            "The same for the same address with the same text in every corpus.",
            |d| some(&d.id),
        ),
        Column::new(
            "url",
            Text,
            "Address of the page; of a file `file:` and its path.",
            |d| some(&d.url),
        ),
        Column::new("title", Text, "Title of the page.", |d| {
            text(d.title.as_deref())
        }),
        Column::new(
            "text",
            Text,
            "The text; an empty line separates two paragraphs.",
            |d| some(&d.text),
        ),
        Column::new("words", Whole, "Words of `text`, excluding numbers.", |d| {
            whole(d.words)
        }),
        Column::new("sentences", Whole, "Sentences of `text`.", |d| {
            whole(d.sentences)
        }),
        Column::new(
            "date",
            Text,
            "When it was published, else when it was fetched: ISO 8601, as precise as that.",
            |d| text(d.date.as_deref()),
        ),
        Column::new(
            "published",
            Text,
            "When it was published, as the page states.",
            |d| text(d.published.as_deref()),
        ),
        Column::new(
            "modified",
            Text,
            "When it was last changed, as the page states.",
            |d| text(d.modified.as_deref()),
        ),
        Column::new("fetched", Time, "When it was fetched, in UTC.", |d| {
            text(d.fetched.as_deref())
        }),
        Column::new(
            "authors",
            Texts,
            "Names of the authors that the page gives.",
            |d| Value::Texts(d.authors.clone()),
        ),
        Column::new(
            "host",
            Text,
            "Host of the address, with the port if given.",
            |d| some(&d.host),
        ),
        Column::new(
            "language",
            Text,
            "Recognised language of the text, as an ISO 639 code.",
            |d| text(d.language.as_deref()),
        ),
        Column::new(
            "language_certainty",
            Number,
            "How certain that is, from 0 to 1.",
            |d| Value::Number(d.language_certainty),
        ),
        Column::new(
            "declared_language",
            Text,
            "Language that the page declares.",
            |d| text(d.declared_language.as_deref()),
        ),
        Column::new(
            "charset_declared",
            Text,
            "Character encoding that is declared.",
            |d| text(d.charset_declared.as_deref()),
        ),
        Column::new(
            "charset_used",
            Text,
            "Character encoding by which it was read.",
            |d| text(d.charset_used.as_deref()),
        ),
        Column::new(
            "mime",
            Text,
            "Media type, where an archive states it.",
            |d| text(d.mime.as_deref()),
        ),
        Column::new(
            "extractor",
            Text,
            "What separated the text from the rest of the page: `article`, `density`, or `all` \
             where these left too little.",
            |d| text(d.extractor.as_deref()),
        ),
    ]
}

/// What steps found.
fn of_steps() -> Vec<Column> {
    use Kind::{Number, Text, Texts, Whole, Wholes};
    vec![
        Column::new(
            "perplexity",
            Number,
            "Perplexity under a topic's model; lower is closer to the topic.",
            |d| Value::Number(d.perplexity),
        ),
        Column::new(
            "perplexity_neutral",
            Number,
            "Perplexity by the frequencies of the words of its language.",
            |d| Value::Number(d.perplexity_neutral),
        ),
        Column::new(
            "contrast",
            Number,
            "How much its words speak for the topic, above 0, or against it.",
            |d| Value::Number(d.contrast),
        ),
        Column::new(
            "bucket",
            Text,
            "`head`, `middle` or `tail` of the documents of its language by perplexity.",
            |d| text(d.bucket.as_deref()),
        ),
        Column::new(
            "copy_of",
            Text,
            "The `id` of the document that it is a copy of.",
            |d| text(d.copy_of.as_deref()),
        ),
        Column::new(
            "similarity",
            Number,
            "How similar it is to that, from 0 to 1.",
            |d| Value::Number(d.similarity),
        ),
        Column::new(
            "copy_spans",
            Wholes,
            "The passages that are the same, four numbers each: from and to in this text, from \
             and to in the other, in bytes of UTF-8.",
            |d| Value::Wholes(d.copy_spans.clone()),
        ),
        Column::new(
            "parts_removed",
            Whole,
            "Lines, paragraphs or sentences that steps removed.",
            |d| whole(d.parts_removed),
        ),
        Column::new(
            "masked",
            Whole,
            "Mail addresses, telephone numbers and addresses of machines that were found.",
            |d| whole(d.masked),
        ),
        Column::new(
            "controls_removed",
            Whole,
            "Control characters that were removed.",
            |d| whole(d.controls_removed),
        ),
        Column::new(
            "rule",
            Text,
            "The rule that was chosen for the page.",
            |d| text(d.rule.as_deref()),
        ),
        Column::new(
            "fields",
            Text,
            "What that rule found: JSON, a list of objects with `name`, `value`, `css_path` and \
             `url`.",
            |d| text(d.fields.as_deref()),
        ),
        Column::new(
            "fields_missing",
            Texts,
            "Its required fields that have no value.",
            |d| Value::Texts(d.fields_missing.clone()),
        ),
    ]
}

/// What steps add.
fn of_layers() -> Vec<Column> {
    use Kind::{Text, Texts, Wholes};
    let texts = |name, about, read: fn(&Document) -> &Vec<String>| {
        Column::new(name, Texts, about, move |d| Value::Texts(read(d).clone()))
    };
    vec![
        texts(
            "tokens",
            "Tokens of `text` that the step `grammar` left.",
            |d| &d.tokens,
        ),
        Column::new(
            "token_offsets",
            Wholes,
            "Where these stand in `text`, two numbers each: from and to, in characters.",
            |d| Value::Wholes(d.token_offsets.clone()),
        ),
        texts("stems", "Their stems, by Snowball.", |d| &d.stems),
        texts(
            "lemmas",
            "Their lemmas; where none is known, the words in lower case.",
            |d| &d.lemmas,
        ),
        texts(
            "synonyms",
            "The words that stand for those of the same meaning.",
            |d| &d.synonyms,
        ),
        texts("tags", "Their parts of speech.", |d| &d.tags),
        Column::new(
            "entities",
            Text,
            "Entities in title and text: JSON, a list of objects as `spoor entities find` writes \
             them.",
            |d| text(d.entities.as_deref()),
        ),
        texts("entity_names", "Names of these entities, each once.", |d| {
            &d.entity_names
        }),
    ]
}

/// Where it lies.
fn of_place() -> Vec<Column> {
    use Kind::{Number, Text, Whole};
    vec![
        Column::new("job", Text, "The job that has it.", |d| {
            text(d.job.as_deref())
        }),
        Column::new(
            "on_topic",
            Number,
            "How probable it is that the page is on topic, as the crawl judged it.",
            |d| Value::Number(d.on_topic),
        ),
        Column::new("archive", Text, "The file that it lies in.", |d| {
            text(d.archive.as_deref())
        }),
        Column::new(
            "offset",
            Whole,
            "Where in that file: the byte of the record, or the line.",
            |d| Value::Whole(d.offset),
        ),
        Column::new(
            "length",
            Whole,
            "Length of the record there, decompressed.",
            |d| Value::Whole(d.length),
        ),
        Column::new("digest", Text, "Digest that the record states.", |d| {
            text(d.digest.as_deref())
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_every_column_and_is_read_back() {
        let mut terms = Terms::default();
        terms.directives.noai = true;
        terms.tdm_reservation = Some(false);
        terms.content_signals.insert("ai-train".to_owned(), false);
        let document = Document {
            id: "7".to_owned(),
            url: "http://a.test/".to_owned(),
            text: "One.\u{202e}".to_owned(),
            copy_spans: vec![0, 3, 5, 8],
            quality: [("quality_words".to_owned(), Some(1.0))].into(),
            terms: Some(terms),
            ..Document::default()
        };
        let columns = columns(&["words".to_owned()], &["stems".to_owned()]);
        let line = line(&columns, &document);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value.as_object().unwrap().len(), columns.len());
        assert_eq!(
            (&value["noai"], &value["quality_words"]),
            (&true.into(), &1.0.into())
        );
        assert_eq!(of_line(line.as_bytes()).unwrap(), document);
    }

    /// A column of every field but those that are columns of their own, and none twice.
    #[test]
    fn every_field_is_a_column() {
        let fields = serde_json::to_value(Document::default()).unwrap();
        let layers: Vec<String> = of_layers().iter().map(|c| c.name.to_string()).collect();
        let columns = columns(&[], &layers);
        let names: std::collections::BTreeSet<&str> = columns.iter().map(|c| &*c.name).collect();
        assert_eq!(names.len(), columns.len());
        for field in fields.as_object().unwrap().keys() {
            assert!(
                field == "terms" || names.contains(field.as_str()),
                "{field}"
            );
        }
    }
}
