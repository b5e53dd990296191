//! The columns of documents: the only place where they are declared. The formats and the
//! table of the data card are derived from them.

use std::borrow::Cow;
use std::rc::Rc;

use serde::{Serialize, Serializer};

use super::super::columns::{Kind, TERMS, Value, some, text, whole};
use crate::outputs::Document;
use crate::page::Terms;

/// An exported document.
pub(super) struct Sample<'a> {
    /// The document as it was crawled.
    pub(super) document: &'a Document,
    /// Host of its address, with the port if given.
    pub(super) host: &'a str,
    /// Its text without the paragraphs that its host repeats.
    pub(super) text: &'a str,
    /// Words of this text, excluding numbers.
    pub(super) words: u32,
    /// Paragraphs that were left out.
    pub(super) removed: u32,
}

type Read = Rc<dyn Fn(&Sample<'_>) -> Value>;

/// A column.
#[derive(Clone)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Its meaning, as Markdown.
    pub(super) about: Cow<'static, str>,
    /// Whether it is a statement of a publisher.
    pub(super) consent: bool,
    read: Read,
}

impl Column {
    fn new(
        name: &'static str,
        kind: Kind,
        about: impl Into<Cow<'static, str>>,
        read: impl Fn(&Sample<'_>) -> Value + 'static,
    ) -> Self {
        Self {
            name,
            kind,
            about: about.into(),
            consent: false,
            read: Rc::new(read),
        }
    }

    pub(super) fn value(&self, sample: &Sample<'_>) -> Value {
        (self.read)(sample)
    }
}

/// A document as a JSON object with its columns in order.
pub(super) struct Object<'a>(pub(super) &'a [Column], pub(super) &'a Sample<'a>);

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Object(columns, sample) = self;
        serializer.collect_map(columns.iter().map(|c| (c.name, c.value(sample))))
    }
}

/// The column of the text itself.
pub(super) const TEXT: &str = "text";

/// The columns, in order.
pub(super) fn columns() -> Vec<Column> {
    use Kind::{Flag, Number, Text, Texts, Time, Whole};
    let mut all = vec![
        Column::new("url", Text, "Address of the page; each once.", |s| {
            some(&s.document.url)
        }),
        Column::new("title", Text, "Title of the page.", |s| {
            text(s.document.title.as_deref())
        }),
        Column::new(
            TEXT,
            Text,
            "The main text as its author wrote it; an empty line separates two paragraphs. The \
             paragraphs that its host repeats on many pages are left out.",
            |s| some(s.text),
        ),
        Column::new("words", Whole, "Words of `text`, excluding numbers.", |s| {
            whole(s.words)
        }),
        Column::new(
            "paragraphs_removed",
            Whole,
            "Paragraphs that were left out of `text` because its host repeats them.",
            |s| whole(s.removed),
        ),
        Column::new(
            "language",
            Text,
            "Recognised language of the text, as an ISO 639 code.",
            |s| text(s.document.language.as_deref()),
        ),
        Column::new(
            "language_certainty",
            Number,
            "How certain `language` is, from 0 to 1.",
            |s| Value::Number(s.document.language_certainty),
        ),
        Column::new(
            "declared_language",
            Text,
            "Language that the page declares.",
            |s| text(s.document.declared_language.as_deref()),
        ),
        Column::new(
            "published",
            Text,
            "When the page was published, as it states: ISO 8601, as precise as the page.",
            |s| text(s.document.published.as_deref()),
        ),
        Column::new(
            "modified",
            Text,
            "When the page was last changed, as it states, in the same form.",
            |s| text(s.document.modified.as_deref()),
        ),
        Column::new(
            "authors",
            Texts,
            "Names of the authors that the page gives.",
            |s| Value::Texts(s.document.authors.clone()),
        ),
        Column::new("fetched", Time, "When the page was fetched, in UTC.", |s| {
            some(&s.document.fetched)
        }),
        Column::new(
            "host",
            Text,
            "Host of the address, with the port if given.",
            |s| some(s.host),
        ),
        Column::new(
            "canonical",
            Text,
            "Canonical address that the page declares, if any.",
            |s| text(s.document.canonical.as_deref()),
        ),
        Column::new(
            "on_topic",
            Number,
            "How probable it is that the page is about the topic, from 0 to 1; absent where the \
             crawl could not tell.",
            |s| Value::Number(s.document.on_topic),
        ),
        Column::new(
            "perplexity",
            Number,
            "Perplexity of the page's text under the model of the topic; lower is closer to the \
             topic.",
            |s| Value::Number(s.document.perplexity),
        ),
        Column::new(
            "contrast",
            Number,
            "Mean contrast of the page's words between texts about the topic and others; above 0 \
             they speak for the topic.",
            |s| Value::Number(s.document.contrast),
        ),
        Column::new("hops", Whole, "Links from the nearest seed.", |s| {
            whole(s.document.hops)
        }),
        Column::new(
            "via",
            Text,
            "Page on which the address was found; absent for seeds.",
            |s| text(s.document.via.as_deref()),
        ),
        Column::new(
            "control",
            Flag,
            "Whether the page was drawn at random for the control sample.",
            |s| Value::Flag(Some(s.document.control)),
        ),
        Column::new(
            "charset",
            Text,
            "Character encoding with which the page was decoded.",
            |s| some(&s.document.charset_used),
        ),
        Column::new(
            "extractor",
            Text,
            "The extractor that separated the main text from the rest of the page: `article`, `density`, or `all` \
             where these left too little.",
            |s| some(&s.document.extractor),
        ),
        Column::new(
            "hash",
            Text,
            "SHA-256 of the text as it was crawled, by which the document is found in the job's \
             folder.",
            |s| some(&s.document.hash),
        ),
    ];
    let mut consent = vec![Column::new(
        "licences",
        Texts,
        "Addresses or names of licences that the page or its headers give.",
        |s| Value::Texts(s.document.licences.clone()),
    )];
    // Statements about images do not concern text.
    let of_text = TERMS.iter().filter(|term| !term.0.starts_with("noimage"));
    for (name, kind, about, term) in of_text {
        let about = format!("The page: {about}.");
        consent.push(Column::new(name, *kind, about, |s| {
            match &s.document.terms {
                Some(terms) => term(terms),
                None => term(&Terms::default()),
            }
        }));
    }
    consent.iter_mut().for_each(|column| column.consent = true);
    all.extend(consent);
    all
}
