//! The columns of images: the only place where they are declared. The formats and the
//! table of the data card are derived from them.

use std::borrow::Cow;
use std::rc::Rc;

use serde::{Serialize, Serializer};

use super::Format;
use crate::corpus::rank::Ranked;
use crate::outputs::Sidecar;
use crate::page::{AltKind, ImageContext, ImageScores, ImageTexts, Terms, TextScore};

/// An image of the ranking with the context that ranked it.
pub(super) struct Sample<'a> {
    /// Its position in the ranking, from 1; unique in an export.
    rank: usize,
    pub(super) image: &'a Ranked,
    pub(super) sidecar: &'a Sidecar,
    pub(super) context: &'a ImageContext,
}

impl<'a> Sample<'a> {
    /// `None` if the page in the ranking is no longer one of its pages.
    pub(super) fn new(rank: usize, image: &'a Ranked, sidecar: &'a Sidecar) -> Option<Self> {
        let mut contexts = sidecar.contexts().iter();
        let context = contexts.find(|c| c.page.as_str() == image.page)?;
        Some(Self {
            rank,
            image,
            sidecar,
            context,
        })
    }

    /// Its name, without dots and with the same number of digits for all.
    pub(super) fn key(&self) -> String {
        format!("{:08}", self.rank)
    }

    /// The extension of its real format.
    pub(super) fn extension(&self) -> &'static str {
        let known = crate::picture::extensions(&self.image.format);
        known.first().copied().unwrap_or("bin")
    }

    /// Its path in a folder of images, each with at most 10,000 files.
    pub(super) fn path(&self) -> String {
        let part = self.rank / 10_000;
        format!("images/{part:04}/{}.{}", self.key(), self.extension())
    }

    /// The text that describes it best, and its origin. First the texts that were written
    /// for the image, in the order in which they tend to describe it: caption, alt, title,
    /// label. Then the nearest text: the text around it, the heading, the page title.
    pub(super) fn text(&self) -> Option<(&'static str, &'a str)> {
        let texts = &self.context.texts;
        let candidates = [
            ("caption", caption(texts)),
            ("alt", alt(texts)),
            ("title", texts.title.as_deref()),
            ("aria_label", texts.aria_label.as_deref()),
            ("parent", texts.parents.first().map(String::as_str)),
            ("heading", texts.heading.as_deref()),
            ("page_title", self.context.page_title.as_deref()),
        ];
        let present = |(from, text): (_, Option<&'a str>)| Some((from, text?));
        let mut present = candidates.into_iter().filter_map(present);
        present.find(|(_, text)| !text.trim().is_empty())
    }
}

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::corpus) enum Kind {
    Image,
    Text,
    Time,
    Whole,
    Number,
    Flag,
    Texts,
    Numbers,
    Wholes,
}

impl Kind {
    /// The name in the data card.
    pub(in crate::corpus) fn name(self) -> &'static str {
        match self {
            Kind::Image => "image",
            Kind::Text => "string",
            Kind::Time => "time",
            Kind::Whole => "integer",
            Kind::Number => "number",
            Kind::Flag => "boolean",
            Kind::Texts => "list of strings",
            Kind::Numbers => "list of numbers",
            Kind::Wholes => "list of integers",
        }
    }
}

/// The value of a column. All but lists may be absent.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(in crate::corpus) enum Value {
    Text(Option<String>),
    Whole(Option<u64>),
    Number(Option<f64>),
    Flag(Option<bool>),
    Texts(Vec<String>),
    Numbers(Vec<f64>),
    Wholes(Vec<u64>),
}

type Read = Rc<dyn Fn(&Sample<'_>) -> Value>;

/// A column.
#[derive(Clone)]
pub(super) struct Column {
    pub(super) name: Cow<'static, str>,
    pub(super) kind: Kind,
    /// Its meaning, as Markdown.
    pub(super) about: Cow<'static, str>,
    /// Whether it is a statement of a publisher.
    pub(super) consent: bool,
    read: Read,
}

impl Column {
    fn new(
        name: impl Into<Cow<'static, str>>,
        kind: Kind,
        about: impl Into<Cow<'static, str>>,
        read: impl Fn(&Sample<'_>) -> Value + 'static,
    ) -> Self {
        Self {
            name: name.into(),
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

/// A sample as a JSON object with its columns in order.
pub(super) struct Object<'a>(pub(super) &'a [Column], pub(super) &'a Sample<'a>);

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Object(columns, sample) = self;
        serializer.collect_map(columns.iter().map(|c| (&c.name, c.value(sample))))
    }
}

/// The columns of [`Terms`], once for the page and once for the image: name, type, meaning
/// and value of each. A new flag is a line here.
pub(in crate::corpus) type Term = (&'static str, Kind, &'static str, fn(&Terms) -> Value);
pub(in crate::corpus) const TERMS: &[Term] = &[
    ("noindex", Kind::Flag, "asks not to be kept", |t| {
        flag(t.directives.noindex)
    }),
    (
        "noai",
        Kind::Flag,
        "asks not to be used for machine learning",
        |t| flag(t.directives.noai),
    ),
    (
        "noml",
        Kind::Flag,
        "asks not to be used for machine learning, by another name",
        |t| flag(t.directives.noml),
    ),
    (
        "noimageindex",
        Kind::Flag,
        "asks that its images not be indexed",
        |t| flag(t.directives.noimageindex),
    ),
    (
        "noimageai",
        Kind::Flag,
        "asks that its images not be used for machine learning",
        |t| flag(t.directives.noimageai),
    ),
    (
        "tdm_reservation",
        Kind::Flag,
        "whether text and data mining is reserved; absent if not stated",
        |t| Value::Flag(t.tdm_reservation),
    ),
    (
        "tdm_policy",
        Kind::Text,
        "where the terms of such mining are published",
        |t| text(t.tdm_policy.as_deref()),
    ),
    (
        "content_signals",
        Kind::Texts,
        "the Content-Signal of robots.txt, each as `ai-train=no`",
        |t| {
            let says = |yes: &bool| if *yes { "yes" } else { "no" };
            let signals = t.content_signals.iter();
            Value::Texts(
                signals
                    .map(|(s, yes)| format!("{s}={}", says(yes)))
                    .collect(),
            )
        },
    ),
];

/// The texts with a rating of their own.
type Rated = (&'static str, fn(&ImageContext) -> Option<TextScore>);
const RATED: &[Rated] = &[
    ("alt", |c| c.scores.alt),
    ("title", |c| c.scores.title),
    ("aria_label", |c| c.scores.aria_label),
    ("caption", |c| match c.texts.figcaption {
        Some(_) => c.scores.figcaption,
        None => c.scores.caption,
    }),
    ("heading", |c| c.scores.heading),
    ("name_words", |c| c.scores.file_name),
];

/// The texts that may occur several times.
type RatedList = (&'static str, fn(&ImageScores) -> &[TextScore]);
const RATED_LISTS: &[RatedList] = &[("parents", |s| &s.parents), ("siblings", |s| &s.siblings)];

/// The columns of a format, in order.
pub(super) fn columns(format: Format, urls_only: bool) -> Vec<Column> {
    use Kind::{Flag, Number, Numbers, Text, Texts, Time, Whole};
    let mut all = Vec::new();
    match format {
        _ if urls_only => (),
        Format::ImageFolder | Format::JsonLines => {
            let about = "Path of the image file; `datasets` makes the column `image` of it.";
            all.push(Column::new("file_name", Text, about, |s| {
                Value::Text(Some(s.path()))
            }));
        }
        Format::Parquet => {
            let about = "The file: its `bytes` as served, and a `path` as its name.";
            // The writer inserts the bytes; here is the path.
            all.push(Column::new("image", Kind::Image, about, |s| {
                Value::Text(Some(format!("{}.{}", s.key(), s.extension())))
            }));
        }
        // The file is next to the JSON.
        Format::WebDataset => (),
    }
    all.extend([
        Column::new("url", Text, "Address of the image.", |s| {
            some(s.sidecar.url())
        }),
        Column::new(
            "text",
            Text,
            "The text that describes the image best, the first that is there of: `caption`, `alt`, \
             `title`, `aria_label`, the first of `parents`, `heading`, `page_title`.",
            |s| text(s.text().map(|(_, text)| text)),
        ),
        Column::new("text_from", Text, "Which of these `text` is.", |s| {
            text(s.text().map(|(from, _)| from))
        }),
        Column::new("rank", Whole, "Place in the ranking, 1 is the best.", |s| {
            Value::Whole(Some(s.rank as u64))
        }),
        Column::new("score", Number, "Score by which it is ranked; lower is better.", |s| {
            number(s.image.score)
        }),
        Column::new("page", Text, "Address of the page whose words these are.", |s| {
            some(s.context.page.as_str())
        }),
        Column::new("page_title", Text, "Title of that page.", |s| {
            text(s.context.page_title.as_deref())
        }),
        Column::new("language", Text, "Language that the page declares.", |s| {
            text(s.context.page_language.as_deref())
        }),
        Column::new(
            "document_perplexity",
            Number,
            "Perplexity of the page's text under the model of the topic; lower is closer to the topic.",
            |s| number(s.context.document_perplexity),
        ),
        Column::new(
            "alt",
            Text,
            "The `alt` attribute, if it was written for the image.",
            |s| text(alt(&s.context.texts)),
        ),
        Column::new(
            "alt_kind",
            Text,
            "The kind of the `alt` attribute: `written`, `file_name` where it repeats the name of the file, \
             `boilerplate` where it says only that here is an image or stands at images all over its \
             host; absent where there is none, and with older crawls.",
            |s| {
                text(s.context.texts.alt_kind.map(|kind| match kind {
                    AltKind::Written => "written",
                    AltKind::FileName => "file_name",
                    AltKind::Boilerplate => "boilerplate",
                }))
            },
        ),
        Column::new("title", Text, "The `title` attribute.", |s| {
            text(s.context.texts.title.as_deref())
        }),
        Column::new("aria_label", Text, "The `aria-label` attribute.", |s| {
            text(s.context.texts.aria_label.as_deref())
        }),
        Column::new(
            "caption",
            Text,
            "Caption of the `figure` around it, else the one in JSON-LD.",
            |s| text(caption(&s.context.texts)),
        ),
        Column::new("heading", Text, "The heading around it or before it.", |s| {
            text(s.context.texts.heading.as_deref())
        }),
        Column::new("name_words", Text, "Words of the file name in its address.", |s| {
            text(s.context.texts.file_name.as_deref())
        }),
        Column::new(
            "parents",
            Texts,
            "Texts of the enclosing elements that have any, nearest first.",
            |s| Value::Texts(s.context.texts.parents.clone()),
        ),
        Column::new(
            "siblings",
            Texts,
            "Texts of the elements beside it that have any, nearest first.",
            |s| Value::Texts(s.context.texts.siblings.clone()),
        ),
    ]);
    for (name, rated) in RATED {
        let about = format!("Perplexity of `{name}` under the model of the topic.");
        all.push(Column::new(
            format!("{name}_perplexity"),
            Number,
            about,
            |s| Value::Number(rated(s.context).map(|score| score.perplexity)),
        ));
        let about = format!("The same, lowered by the keywords in `{name}`.");
        all.push(Column::new(
            format!("{name}_weighted"),
            Number,
            about,
            |s| Value::Number(rated(s.context).map(|score| score.weighted)),
        ));
    }
    for (name, rated) in RATED_LISTS {
        let about = format!("Perplexity of each of `{name}`.");
        all.push(Column::new(
            format!("{name}_perplexity"),
            Numbers,
            about,
            |s| {
                let scores = rated(&s.context.scores).iter();
                Value::Numbers(scores.map(|score| score.perplexity).collect())
            },
        ));
        let about = format!("The same, lowered by the keywords in each of `{name}`.");
        all.push(Column::new(
            format!("{name}_weighted"),
            Numbers,
            about,
            |s| {
                let scores = rated(&s.context.scores).iter();
                Value::Numbers(scores.map(|score| score.weighted).collect())
            },
        ));
    }
    all.extend([
        Column::new("width", Whole, "Width in pixels.", |s| {
            Value::Whole(Some(s.image.width.into()))
        }),
        Column::new("height", Whole, "Height in pixels.", |s| {
            Value::Whole(Some(s.image.height.into()))
        }),
        Column::new("format", Text, "Format by the bytes themselves.", |s| {
            some(&s.image.format)
        }),
        Column::new(
            "animated",
            Flag,
            "More than one frame (GIF, WebP, APNG).",
            |s| flag(s.sidecar.info().animated),
        ),
        Column::new(
            "decoded",
            Flag,
            "Whether the crawl decoded all pixels; false if they would take too much memory, \
             and with older crawls.",
            |s| flag(s.sidecar.info().decoded),
        ),
        Column::new(
            "wrong_content_type",
            Text,
            "The media type that the server sent, if it names another format than `format`.",
            |s| {
                let wrong = s.sidecar.info().mislabelled.as_ref();
                text(wrong.and_then(|wrong| wrong.content_type.as_deref()))
            },
        ),
        Column::new(
            "wrong_extension",
            Text,
            "The extension of `url`, if it names another format than `format`.",
            |s| {
                let wrong = s.sidecar.info().mislabelled.as_ref();
                text(wrong.and_then(|wrong| wrong.extension.as_deref()))
            },
        ),
        Column::new("bytes", Whole, "Size of the file in bytes.", |s| {
            Value::Whole(Some(s.sidecar.bytes()))
        }),
        Column::new(
            "sha256",
            Text,
            "SHA-256 of the file, in hexadecimal.",
            |s| some(s.sidecar.sha256()),
        ),
        Column::new(
            "phash",
            Text,
            "Perceptual hash (DCT, 64 bits) in hexadecimal; absent for a picture of one colour.",
            |s| Value::Text(s.image.phash.map(|h| format!("{h:016x}"))),
        ),
        Column::new(
            "fetched",
            Time,
            "When the image was fetched, in UTC.",
            |s| some(s.sidecar.fetched()),
        ),
    ]);
    let mut consent = vec![Column::new(
        "licences",
        Texts,
        "Addresses or names of licences that the image's response and the page give.",
        |s| {
            let mut all = s.sidecar.terms().licences.clone();
            let page = s.context.terms.licences.iter();
            all.extend(
                page.filter(|l| !s.sidecar.terms().licences.contains(l))
                    .cloned(),
            );
            Value::Texts(all)
        },
    )];
    for (name, kind, about, term) in TERMS {
        let about = |of: &str| format!("The {of}: {about}.");
        consent.push(Column::new(
            format!("page_{name}"),
            *kind,
            about("page"),
            |s| term(&s.context.terms),
        ));
        let about = about("response with the image");
        consent.push(Column::new(format!("image_{name}"), *kind, about, |s| {
            term(s.sidecar.terms())
        }));
    }
    consent.iter_mut().for_each(|column| column.consent = true);
    all.extend(consent);
    all
}

/// The `alt` attribute if it was written for the image. Sidecars from before this was
/// determined count every one as written, which is how it was rated then.
fn alt(texts: &ImageTexts) -> Option<&str> {
    let written = texts.alt_kind.is_none_or(|kind| kind == AltKind::Written);
    texts.alt.as_deref().filter(|_| written)
}

fn caption(texts: &ImageTexts) -> Option<&str> {
    texts.figcaption.as_deref().or(texts.caption.as_deref())
}

/// A text that is there.
pub(in crate::corpus) fn some(text: &str) -> Value {
    Value::Text(Some(text.to_owned()))
}

/// A text that may be absent.
pub(in crate::corpus) fn text(text: Option<&str>) -> Value {
    Value::Text(text.map(str::to_owned))
}

/// A whole number that is there.
pub(in crate::corpus) fn whole(number: u32) -> Value {
    Value::Whole(Some(number.into()))
}

fn number(number: f64) -> Value {
    Value::Number(Some(number))
}

fn flag(flag: bool) -> Value {
    Value::Flag(Some(flag))
}
