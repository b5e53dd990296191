//! The columns of images.

use super::Format;
use crate::columns::{ColumnKind, ColumnValue, DataColumn, TERMS, columns};
use crate::outputs::Sidecar;
use crate::page::{AltKind, ImageContext, ImageScores, TextScore};
use crate::rank::Ranked;

/// An image of the ranking with the context that ranked it.
pub(super) struct ImageSample {
    /// Its position in the ranking, from 1; unique in an export.
    rank: usize,
    pub(super) image: Ranked,
    sidecar: Sidecar,
    pub(super) context: ImageContext,
}

impl ImageSample {
    /// `None` if the page in the ranking is no longer one of its pages.
    pub(super) fn new(rank: usize, image: &Ranked, sidecar: Sidecar) -> Option<Self> {
        let mut contexts = sidecar.contexts().iter();
        let context = contexts.find(|c| c.page.as_str() == image.page)?.clone();
        Some(Self {
            rank,
            image: image.clone(),
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
        let known = crate::outputs::picture::extensions(&self.image.format);
        known.first().copied().unwrap_or("bin")
    }

    /// Its path in a folder of images, each with at most 10,000 files.
    pub(super) fn path(&self) -> String {
        let part = self.rank / 10_000;
        format!("images/{part:04}/{}.{}", self.key(), self.extension())
    }

    /// The text that describes it best.
    pub(super) fn text(&self) -> Option<&str> {
        self.context.words().map(|words| words.text)
    }
}

/// The texts with a rating of their own.
type RatingColumns = (&'static str, fn(&ImageContext) -> Option<TextScore>);
const RATED: &[RatingColumns] = &[
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
pub(super) fn columns(format: Format, urls_only: bool) -> Vec<DataColumn<ImageSample>> {
    let mut all = match format {
        _ if urls_only => Vec::new(),
        Format::ImageFolder | Format::JsonLines => columns! { s: ImageSample;
            file_name: Text = s.path(),
                "Path of the image file; `datasets` makes the column `image` of it.";
        },
        // The writer inserts the bytes; here is the path.
        Format::Parquet => columns! { s: ImageSample;
            image: Image = format!("{}.{}", s.key(), s.extension()),
                "The file: its `bytes` as served, and a `path` as its name.";
        },
        // The file is next to the JSON.
        Format::WebDataset => Vec::new(),
    };
    all.extend(of_words());
    all.extend(of_ratings());
    all.extend(of_file());
    all.extend(of_publishers());
    all
}

/// The words around an image.
fn of_words() -> Vec<DataColumn<ImageSample>> {
    columns! { s: ImageSample;
        url: Text = s.sidecar.url(), "Address of the image.";
        text: Text = s.text(),
            "The text that describes the image best, the first that is there of: `caption`, `alt`, \
             `title`, `aria_label`, the first of `parents` if it is short, `heading`, `page_title`, \
             `name_words`.";
        text_from: Text = s.context.words().map(|words| words.from.name()),
            "Which of these `text` is: `parent` is the first of `parents`.";
        in_main_text: Flag = s.context.embedding.in_main_text,
            "Whether it stands in the main text of the page; absent where that is not known.";
        rank: Whole = s.rank as u64, "Place in the ranking, 1 is the best.";
        score: Number = s.image.score, "Score by which it is ranked; lower is better.";
        page: Text = s.context.page.as_str(), "Address of the page whose words these are.";
        page_title: Text = &s.context.page_title, "Title of that page.";
        language: Text = &s.context.page_language, "Language that the page declares.";
        document_perplexity: Number = s.context.document_perplexity,
            "Perplexity of the page's text under the model of the topic; lower is closer to the topic.";
        alt: Text = s.context.texts.written_alt(), "The `alt` attribute, if it was written for the image.";
        alt_kind: Text = s.context.texts.alt_kind.map(alt_kind),
            "The kind of the `alt` attribute: `written`, `file_name` where it repeats the name of the file, \
             `boilerplate` where it says only that here is an image or stands at images all over its \
             host; absent where there is none, and with older crawls.";
        title: Text = &s.context.texts.title, "The `title` attribute.";
        aria_label: Text = &s.context.texts.aria_label, "The `aria-label` attribute.";
        caption: Text = s.context.texts.any_caption(),
            "Caption beside it, else the one in its attributes or those of its link, or in JSON-LD.";
        credit: Text = &s.context.texts.credit, "Who is credited beside it, such as a photographer.";
        heading: Text = &s.context.texts.heading, "The heading around it or before it.";
        name_words: Text = &s.context.texts.file_name, "Words of the file name in its address.";
        parents: Texts = &s.context.texts.parents,
            "Texts of the enclosing elements that have any, nearest first.";
        siblings: Texts = &s.context.texts.siblings,
            "Texts of the elements beside it that have any, nearest first.";
    }
}

/// Two columns for the ratings of each text.
fn of_ratings() -> Vec<DataColumn<ImageSample>> {
    type Part = fn(&TextScore) -> f64;
    let parts: [(&str, Part); 2] = [
        ("perplexity", |score| score.perplexity),
        ("weighted", |score| score.weighted),
    ];
    let mut all = Vec::new();
    for (name, rated) in RATED {
        let abouts = [
            format!("Perplexity of `{name}` under the model of the topic."),
            format!("The same, lowered by the keywords in `{name}`."),
        ];
        for ((part, read), about) in parts.into_iter().zip(abouts) {
            let column = format!("{name}_{part}");
            all.push(DataColumn::new(
                column,
                ColumnKind::Number,
                about,
                move |s: &ImageSample| rated(&s.context).as_ref().map(read).into(),
            ));
        }
    }
    for (name, rated) in RATED_LISTS {
        let abouts = [
            format!("Perplexity of each of `{name}`."),
            format!("The same, lowered by the keywords in each of `{name}`."),
        ];
        for ((part, read), about) in parts.into_iter().zip(abouts) {
            let column = format!("{name}_{part}");
            all.push(DataColumn::new(
                column,
                ColumnKind::Numbers,
                about,
                move |s: &ImageSample| {
                    let scores = rated(&s.context.scores).iter();
                    scores.map(read).collect::<Vec<f64>>().into()
                },
            ));
        }
    }
    all
}

/// The file itself.
fn of_file() -> Vec<DataColumn<ImageSample>> {
    columns! { s: ImageSample;
        width: Whole = s.image.width, "Width in pixels.";
        height: Whole = s.image.height, "Height in pixels.";
        format: Text = &s.image.format, "Format by the bytes themselves.";
        animated: Flag = s.sidecar.info().animated, "More than one frame (GIF, WebP, APNG).";
        decoded: Flag = s.sidecar.info().decoded,
            "Whether the crawl decoded all pixels; false if they would take too much memory, \
             and with older crawls.";
        wrong_content_type: Text =
            s.sidecar.info().mislabelled.as_ref().and_then(|wrong| wrong.content_type.as_deref()),
            "The media type that the server sent, if it names another format than `format`.";
        wrong_extension: Text =
            s.sidecar.info().mislabelled.as_ref().and_then(|wrong| wrong.extension.as_deref()),
            "The extension of `url`, if it names another format than `format`.";
        bytes: Whole = s.sidecar.bytes(), "Size of the file in bytes.";
        sha256: Text = s.sidecar.sha256(), "SHA-256 of the file, in hexadecimal.";
        phash: Text = s.image.phash.map(|hash| format!("{hash:016x}")),
            "Perceptual hash (DCT, 64 bits) in hexadecimal; absent for a picture of one colour.";
        fetched: Time = s.sidecar.fetched(), "When the image was fetched, in UTC.";
    }
}

/// What publishers say: of licences together, of everything else for page and image.
fn of_publishers() -> Vec<DataColumn<ImageSample>> {
    let mut all = columns! { s: ImageSample;
        licences: Texts = licences(s),
            "Addresses or names of licences that the image's response and the page give.";
    };
    for term in TERMS.iter() {
        let about = |of: &str| format!("The {of}: {}.", term.about);
        let name = format!("page_{}", term.name);
        all.push(DataColumn::new(
            name,
            term.kind,
            about("page"),
            move |s: &ImageSample| term.value(&s.context.terms),
        ));
        let (name, about) = (
            format!("image_{}", term.name),
            about("response with the image"),
        );
        all.push(DataColumn::new(
            name,
            term.kind,
            about,
            move |s: &ImageSample| term.value(s.sidecar.terms()),
        ));
    }
    all.into_iter().map(DataColumn::of_publisher).collect()
}

fn licences(sample: &ImageSample) -> Vec<String> {
    let mut all = sample.sidecar.terms().licences.clone();
    let page = sample.context.terms.licences.iter();
    let more: Vec<String> = page.filter(|l| !all.contains(l)).cloned().collect();
    all.extend(more);
    all
}

fn alt_kind(kind: AltKind) -> &'static str {
    match kind {
        AltKind::Written => "written",
        AltKind::FileName => "file_name",
        AltKind::Boilerplate => "boilerplate",
    }
}
