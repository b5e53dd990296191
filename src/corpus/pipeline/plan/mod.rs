//! A plan: where the documents come from, the steps in the user's order, and what is written.
//! `read` reads and checks one.

mod copies;
mod grammar;
mod read;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use crate::language::Language;
use crate::page::{Extractor, Signal};
use serde::{Deserialize, Serialize};

pub use self::copies::{Copies, Keep, Level, Measure, Window};
pub use self::grammar::{Entities, Grammar, Layer, Left};

/// A checked plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The file.
    pub file: PathBuf,
    /// Its text.
    pub text: String,
    /// Where the documents come from; paths are relative to the folder of the file.
    pub source: Source,
    /// The steps, in the order of the file.
    pub steps: Vec<Step>,
    /// What is written.
    pub output: Output,
}

/// Where the documents come from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Source {
    /// Folders of jobs.
    pub jobs: Vec<PathBuf>,
    /// WARC, ARC, WACZ and WET files, or folders of them, except WACZ.
    pub archives: Vec<PathBuf>,
    /// CDXJ indexes; the captures in them are used.
    pub selections: Vec<PathBuf>,
    /// Folders of HTML, text and PDF files.
    pub folders: Vec<PathBuf>,
    /// Files of JSON lines, also compressed, or Parquet files.
    pub jsonl: Vec<PathBuf>,
}

/// What is written.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Output {
    /// The folder; by default next to the plan, with the plan's name.
    pub folder: PathBuf,
    /// The name on the data card; by default that of the folder.
    pub name: Option<String>,
    /// The formats besides JSON lines, which are always written.
    pub formats: Vec<Format>,
    /// How text files are compressed.
    pub compression: Compression,
    /// The size in bytes, before compression, at which a file is closed and the next begun.
    pub shard_bytes: u64,
    /// Where the finished corpus is also uploaded, as `s3://BUCKET/PATH`.
    pub store: Option<String>,
    /// The images of the interleaved formats.
    pub images: ImageFilter,
}

/// Which documents and images the interleaved formats have.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ImageFilter {
    /// Writes the addresses of images instead of their files.
    pub addresses: bool,
    /// The smallest width, in pixels.
    pub min_width: u32,
    /// The smallest height, in pixels.
    pub min_height: u32,
    /// Documents with fewer images are left out.
    pub min_images: usize,
    /// The least share of the images of a document that have words of their own, 0 to 1.
    pub words: f64,
    /// Whether images without a licence, of their own or of the page, are left out.
    pub licensed: bool,
}

impl Default for ImageFilter {
    fn default() -> Self {
        Self {
            addresses: false,
            min_width: 0,
            min_height: 0,
            min_images: 1,
            words: 0.0,
            licensed: false,
        }
    }
}

impl ImageFilter {
    /// Whether it asks what only kept images tell.
    pub fn is_choosy(&self) -> bool {
        self.min_width > 0 || self.min_height > 0 || self.words > 0.0 || self.licensed
    }
}

impl Default for Output {
    fn default() -> Self {
        Self {
            folder: PathBuf::new(),
            name: None,
            formats: Vec::new(),
            compression: Compression::Zstd,
            shard_bytes: 512 << 20,
            store: None,
            images: ImageFilter::default(),
        }
    }
}

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// A line of JSON per document.
    Jsonl,
    /// A row per document.
    Parquet,
    /// Address, title and text.
    Tsv,
    /// A token per line, as Sketch Engine reads it.
    Vertical,
    /// A document per line.
    Text,
    /// A sentence per line.
    Sentences,
    /// A paragraph per line.
    Paragraphs,
    /// Markdown: headings, lists, tables and code as such.
    Markdown,
    /// Texts and images in their order, a row per document, as OBELICS.
    Interleaved,
    /// The same in tar files, as MINT-1T.
    #[serde(rename = "interleaved-webdataset")]
    InterleavedTar,
}

impl Format {
    /// Whether a document is a text in it.
    pub(super) fn is_text(self) -> bool {
        self != Self::Parquet && !self.is_interleaved()
    }

    /// Whether it has images between the texts.
    pub fn is_interleaved(self) -> bool {
        matches!(self, Self::Interleaved | Self::InterleavedTar)
    }

    /// Its name in a plan, and that of its folder.
    pub fn name(self) -> &'static str {
        match self {
            Self::Jsonl => "documents",
            Self::Parquet => "parquet",
            Self::Tsv => "tsv",
            Self::Vertical => "vertical",
            Self::Text => "text",
            Self::Sentences => "sentences",
            Self::Paragraphs => "paragraphs",
            Self::Markdown => "markdown",
            Self::Interleaved => "interleaved",
            Self::InterleavedTar => "interleaved-webdataset",
        }
    }
}

/// A compression of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// Zstandard.
    Zstd,
    /// Gzip.
    Gzip,
    /// None.
    None,
}

/// The steps with their kinds in a plan.
macro_rules! steps {
    ($($(#[$about:meta])* $name:ident($of:ty) = $kind:literal,)*) => {
        /// A step.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Step {
            $($(#[$about])* $name($of),)*
        }

        impl Step {
            /// All kinds.
            const KINDS: &[&str] = &[$($kind),*];

            /// Its kind, as in a plan.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => $kind,)*
                }
            }

            /// The step of a kind; `None` if there is no such kind.
            fn of(kind: &str, table: toml::Table) -> Option<Result<Self, toml::de::Error>> {
                Some(match kind {
                    $($kind => <$of>::deserialize(table).map(Self::$name),)*
                    _ => return None,
                })
            }
        }
    };
}

steps! {
    /// Extracts the text of pages.
    Extract(Extract) = "extract",
    /// Removes documents whose publishers forbid the use.
    Consent(Consent) = "consent",
    /// Filters by recognised language.
    Language(ByLanguage) = "language",
    /// Filters by the topic as judged by the crawl.
    Topic(ByTopic) = "topic",
    /// Filters by quality rules.
    Quality(Quality) = "quality",
    /// Filters by perplexity.
    Perplexity(Perplexity) = "perplexity",
    /// Removes copies.
    Copies(Copies) = "copies",
    /// Removes the paragraphs that hosts repeat.
    Repeated(Repetition) = "repeated",
    /// Masks what identifies people.
    Mask(Mask) = "mask",
    /// Adds the fields that rules find.
    Rules(ByRules) = "rules",
    /// Adds tokens and their stems, lemmas and tags.
    Grammar(Grammar) = "grammar",
    /// Adds the entities of a list.
    Entities(Entities) = "entities",
}

impl Step {
    /// Whether it changes texts, so that earlier offsets become wrong.
    fn changes_texts(&self) -> bool {
        match self {
            Self::Mask(step) => !step.mark,
            Self::Copies(step) => step.level.is_part(),
            Self::Repeated(_) => true,
            _ => false,
        }
    }
}

/// `kind = "extract"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Extract {
    /// The extractor, which separates the main text from the rest of a page.
    pub extractor: Extractor,
}

impl Default for Extract {
    fn default() -> Self {
        Self {
            extractor: Extractor::Main,
        }
    }
}

/// `kind = "consent"`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Consent {
    /// The reservations that are obeyed, as in the section `[consent]` of a job.
    pub obey: Vec<Signal>,
    /// Nothing is removed.
    pub mark: bool,
}

impl Default for Consent {
    fn default() -> Self {
        Self {
            obey: Signal::ALL.to_vec(),
            mark: false,
        }
    }
}

/// `kind = "language"`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ByLanguage {
    /// The languages that stay; by default any that was recognised.
    pub languages: Vec<Language>,
    /// The minimum certainty.
    pub least: f64,
    /// Nothing is removed.
    pub mark: bool,
}

/// `kind = "topic"`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ByTopic {
    /// The minimum probability of being on topic; documents that the crawl could not judge are
    /// below it.
    pub least: f64,
    /// Nothing is removed.
    pub mark: bool,
}

/// `kind = "repeated"`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Repetition {
    /// The minimum number of pages of a host with a paragraph that counts as repeated.
    pub pages: u32,
}

impl Default for Repetition {
    fn default() -> Self {
        Self { pages: 5 }
    }
}

/// `kind = "quality"`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quality {
    /// Published sets of rules.
    pub rules: Vec<RuleSet>,
    /// The user's bounds by the name of a measure; they replace those of a set.
    pub bounds: BTreeMap<String, Bound>,
    /// Nothing is removed; the values are recorded.
    pub mark: bool,
}

/// A published set of rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleSet {
    /// That of the Colossal Clean Crawled Corpus (Raffel et al. 2020).
    C4,
    /// That of MassiveText (Rae et al. 2021).
    Gopher,
    /// That of FineWeb (Penedo et al. 2024).
    FineWeb,
}

/// The bounds of a measure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bound {
    /// At least.
    pub least: Option<f64>,
    /// At most.
    pub most: Option<f64>,
}

/// `kind = "perplexity"`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Perplexity {
    /// The folder of a topic's model, or `neutral`.
    pub model: PathBuf,
    /// The minimum perplexity of a document that stays.
    pub least: Option<f64>,
    /// The highest.
    pub most: Option<f64>,
    /// The cumulative shares of the documents of a language that are `head` and `middle`.
    pub buckets: Option<[f64; 2]>,
    /// The buckets that stay; by default all.
    pub keep: Vec<Bucket>,
}

impl Perplexity {
    /// Whether it is the built-in model of general language.
    pub fn is_neutral(&self) -> bool {
        self.model.as_os_str() == NEUTRAL
    }
}

/// The built-in model.
const NEUTRAL: &str = "neutral";

/// A class of perplexities (CCNet, Wenzek et al. 2020).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bucket {
    /// The lowest.
    Head,
    /// Between the two.
    Middle,
    /// The highest.
    Tail,
}

impl Bucket {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Middle => "middle",
            Self::Tail => "tail",
        }
    }
}

/// `kind = "mask"`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mask {
    /// The kinds of data to look for.
    pub what: Vec<Private>,
    /// Findings are counted and stay in the text.
    pub mark: bool,
}

impl Default for Mask {
    fn default() -> Self {
        Self {
            what: vec![Private::Mail, Private::Phone, Private::Ip],
            mark: false,
        }
    }
}

/// `kind = "rules"`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ByRules {
    /// Rule files, and folders of them.
    pub files: Vec<PathBuf>,
    /// Which documents stay.
    pub need: Need,
}

/// What the rules must find on a document's page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Need {
    /// Nothing; all stay.
    #[default]
    Nothing,
    /// A rule that matches.
    Rule,
    /// A rule that matches, and all its required fields.
    Required,
}

/// What may identify a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Private {
    /// A mail address.
    Mail,
    /// A telephone number.
    Phone,
    /// An IP address.
    Ip,
}

impl fmt::Display for Private {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mail => "mail",
            Self::Phone => "phone",
            Self::Ip => "ip",
        })
    }
}
