//! Columns of samples, each declared once: its name, kind, meaning and value. Parquet, JSON
//! lines and the tables of data cards are derived from lists of them.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use serde::{Serialize, Serializer};

use crate::page::Terms;
use crate::sanitize;

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    Image,
    Text,
    Time,
    Whole,
    Number,
    Flag,
    Texts,
    Numbers,
    Wholes,
    /// Texts, each of which may be absent.
    Parts,
    /// Images, likewise.
    Pictures,
}

impl ColumnKind {
    /// The name in the data card.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Text => "string",
            Self::Time => "time",
            Self::Whole => "integer",
            Self::Number => "number",
            Self::Flag => "boolean",
            Self::Texts => "list of strings",
            Self::Numbers => "list of numbers",
            Self::Wholes => "list of integers",
            Self::Parts => "list of strings or null",
            Self::Pictures => "list of images or null",
        }
    }
}

/// The value of a column. All but lists may be absent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum ColumnValue {
    Text(Option<String>),
    Whole(Option<u64>),
    Number(Option<f64>),
    Flag(Option<bool>),
    Texts(Vec<String>),
    Numbers(Vec<f64>),
    Wholes(Vec<u64>),
    Parts(Vec<Option<String>>),
    /// Names and bytes.
    Pictures(Vec<Option<(String, Vec<u8>)>>),
}

impl<S> Clone for DataColumn<S> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            kind: self.kind,
            about: self.about.clone(),
            consent: self.consent,
            read: Arc::clone(&self.read),
        }
    }
}

macro_rules! values {
    ($($from:ty: $value:ident => $to:expr;)*) => {
        $(impl From<$from> for ColumnValue {
            fn from($value: $from) -> Self {
                $to
            }
        })*
    };
}

values! {
    &str: text => Self::Text(Some(text.to_owned()));
    String: text => Self::Text(Some(text));
    &String: text => Self::Text(Some(text.clone()));
    Option<&str>: text => Self::Text(text.map(str::to_owned));
    Option<String>: text => Self::Text(text);
    &Option<String>: text => Self::Text(text.clone());
    u32: number => Self::Whole(Some(number.into()));
    u64: number => Self::Whole(Some(number));
    Option<u32>: number => Self::Whole(number.map(u64::from));
    Option<u64>: number => Self::Whole(number);
    f64: number => Self::Number(Some(number));
    Option<f64>: number => Self::Number(number);
    bool: flag => Self::Flag(Some(flag));
    Option<bool>: flag => Self::Flag(flag);
    Vec<String>: texts => Self::Texts(texts);
    &Vec<String>: texts => Self::Texts(texts.clone());
    Vec<f64>: numbers => Self::Numbers(numbers);
    &Vec<u64>: numbers => Self::Wholes(numbers.clone());
}

type ReadValue<S> = Arc<dyn Fn(&S) -> ColumnValue + Send + Sync>;

/// A column of samples of the type `S`.
pub(crate) struct DataColumn<S> {
    pub(crate) name: Cow<'static, str>,
    pub(crate) kind: ColumnKind,
    /// Its meaning, as Markdown.
    pub(crate) about: Cow<'static, str>,
    /// Whether it is a statement of a publisher.
    pub(crate) consent: bool,
    read: ReadValue<S>,
}

impl<S> DataColumn<S> {
    pub(crate) fn new(
        name: impl Into<Cow<'static, str>>,
        kind: ColumnKind,
        about: impl Into<Cow<'static, str>>,
        read: impl Fn(&S) -> ColumnValue + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            kind,
            about: about.into(),
            consent: false,
            read: Arc::new(read),
        }
    }

    /// The same as a statement of a publisher.
    pub(crate) fn of_publisher(self) -> Self {
        Self {
            consent: true,
            ..self
        }
    }

    /// The same of samples that have one of the type `S`.
    pub(crate) fn within<T: 'static>(&self, part: fn(&T) -> &S) -> DataColumn<T>
    where
        S: 'static,
    {
        let read = Arc::clone(&self.read);
        DataColumn {
            name: self.name.clone(),
            kind: self.kind,
            about: self.about.clone(),
            consent: self.consent,
            read: Arc::new(move |sample: &T| read(part(sample))),
        }
    }

    pub(crate) fn value(&self, sample: &S) -> ColumnValue {
        (self.read)(sample)
    }
}

/// A list of columns: for each its name, kind, value and meaning.
macro_rules! columns {
    ($sample:ident: $of:ty; $($name:ident: $kind:ident = $value:expr, $about:expr;)*) => {
        vec![$(DataColumn::new(
            stringify!($name),
            ColumnKind::$kind,
            $about,
            |$sample: &$of| ColumnValue::from($value),
        )),*]
    };
}
pub(crate) use columns;

/// A sample as a JSON object with its columns in order.
struct JsonRow<'a, S>(&'a [DataColumn<S>], &'a S);

impl<S> Serialize for JsonRow<'_, S> {
    fn serialize<T: Serializer>(&self, serializer: T) -> Result<T::Ok, T::Error> {
        let JsonRow(columns, sample) = self;
        serializer.collect_map(columns.iter().map(|c| (&c.name, c.value(sample))))
    }
}

/// A sample as a line of JSON, without its end.
pub(crate) fn json<S>(columns: &[DataColumn<S>], sample: &S) -> String {
    // Texts, lists and numbers always serialise.
    let line = serde_json::to_string(&JsonRow(columns, sample)).unwrap_or_default();
    sanitize::json(&line).into_owned()
}

/// The content signals, each as `ai-train=no`.
fn signals(terms: &Terms) -> Vec<String> {
    let all = terms.content_signals.iter();
    all.map(|(signal, value)| format!("{signal}={}", value.as_str()))
        .collect()
}

/// What RSL files prohibit; `?` for one that was not read.
fn prohibited(terms: &Terms) -> Vec<String> {
    let unread = terms.rsl.iter().any(|rsl| !rsl.read);
    let named = terms
        .rsl
        .iter()
        .flat_map(|rsl| rsl.prohibits.iter().cloned());
    named.chain(unread.then(|| "?".to_owned())).collect()
}

/// The columns of [`Terms`], for a page or for an image. A new flag is a line here.
pub(crate) static TERMS: LazyLock<Vec<DataColumn<Terms>>> = LazyLock::new(|| {
    columns! { t: Terms;
        noindex: Flag = t.directives.noindex, "asks not to be kept";
        noai: Flag = t.directives.noai, "asks not to be used for machine learning";
        noml: Flag = t.directives.noml,
            "asks not to be used for machine learning, by another name";
        noimageindex: Flag = t.directives.noimageindex, "asks that its images not be indexed";
        noimageai: Flag = t.directives.noimageai,
            "asks that its images not be used for machine learning";
        tdm_reservation: Flag = t.tdm_reservation,
            "whether text and data mining is reserved; absent if not stated";
        tdm_policy: Text = &t.tdm_policy, "where the terms of such mining are published";
        content_signals: Texts = signals(t),
            "Content-Signal and Content-Usage, each as `ai-train=no`";
        noarchive: Flag = t.directives.noarchive, "asks that no copy of it be kept";
        unavailable_after: Text = &t.directives.unavailable_after,
            "the day from which it is not to be kept";
        rsl_prohibits: Texts = prohibited(t),
            "the uses that its RSL file prohibits; `?` if that could not be read";
    }
});
