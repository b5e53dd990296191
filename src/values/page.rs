//! The values that are passed on: a [`Task`] becomes [`Fetched`], [`Extracted`] and [`Scored`], and
//! always ends in an [`Outcome`].
//!
//! These are plain values. They know neither the network nor the store, and no stage keeps a
//! reference to another stage's value after passing on its own.

mod clues;
mod fallback;
mod likelihood;
mod media;
mod nearness;
mod rsl;
mod terms;
mod text;
mod wire;

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::address::{HostKey, PageUrl};
use crate::language::{Guess, Language};
use crate::words::Tokens;

pub use clues::{Clues, Part, Words};
pub use fallback::Fallback;
pub use likelihood::{Judged, Likelihood};
pub use media::{charset, content_type, media_type};
pub use nearness::{Heard, Nearness, WordCounts};
pub use rsl::{MAX_RSL_FILES, RslTerms};
pub use terms::{
    Directives, HostTerms, MAX_LICENCES, PROHIBITIONS, Prohibition, SIGNALS, Signal, SignalValue,
    Terms, TermsHeaders, Use,
};
pub use text::{
    BlockKind, Extractor, MainText, Metadata, PlacedImage, TextBlock, TextShare, block_lists,
    blocks_of_lists, image_lists,
};
pub use wire::Wire;

/// What a task requests. All kinds share the clock of their host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskKind {
    /// A host's robots.txt, requested before anything else of that host.
    Robots,
    /// A document whose text is scored and whose links are followed.
    #[default]
    Page,
    /// The bytes of an image that a page embeds.
    Image,
    /// A sitemap: a list of a site's addresses, named by robots.txt or by another sitemap.
    Sitemap,
    /// A host's `/.well-known/tdmrep.json` (TDM Reservation Protocol), requested before
    /// its first page or image.
    Tdmrep,
    /// A host's RSL file (Really Simple Licensing), named by its robots.txt, a page or an
    /// image.
    Rsl,
}

impl TaskKind {
    /// Its name in logs, records and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Robots => "robots",
            Self::Page => "page",
            Self::Image => "image",
            Self::Sitemap => "sitemap",
            Self::Tdmrep => "tdmrep",
            Self::Rsl => "rsl",
        }
    }

    /// Whether it is a file in which a publisher forbids or reserves something. Unreadable parts of
    /// it count as a refusal.
    pub fn is_rules(self) -> bool {
        matches!(self, Self::Robots | Self::Tdmrep | Self::Rsl)
    }
}

/// The priority class of a task, best first; the order of the variants is the
/// order of leasing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bucket {
    /// Named by the operator.
    Seed,
    /// Score up to the `high` boundary.
    High,
    /// Score up to the `medium` boundary.
    Medium,
    /// Score up to the `normal` boundary; every link of an unfocused crawl.
    Normal,
    /// Score up to the razor.
    Low,
}

impl Bucket {
    /// All buckets, best first.
    pub const ALL: [Bucket; 5] = [
        Bucket::Seed,
        Bucket::High,
        Bucket::Medium,
        Bucket::Normal,
        Bucket::Low,
    ];

    /// The name used in logs and tables.
    pub fn name(self) -> &'static str {
        match self {
            Bucket::Seed => "seed",
            Bucket::High => "high",
            Bucket::Medium => "medium",
            Bucket::Normal => "normal",
            Bucket::Low => "low",
        }
    }
}

/// The parts of a link score, kept so that every rating can be explained.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LinkParts {
    /// Perplexity of the page with the link.
    pub document: f64,
    /// Perplexity of the anchor text.
    pub anchor: f64,
    /// Keyword score of the anchor text, divided by its token count.
    pub keyword: f64,
}

/// One request that the frontier has leased out.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Number of the lease, unique while the process lives.
    pub lease: u64,
    /// The task only looks up the host's address in DNS.
    pub locate: bool,
    /// What to fetch.
    pub kind: TaskKind,
    /// The address to fetch.
    pub url: PageUrl,
    /// The host whose clock applies to the request; `url.host_key()`.
    pub host: HostKey,
    /// The page on which the address was found, `None` for seeds and robots.txt.
    pub via: Option<PageUrl>,
    /// Links from the nearest seed; for a sitemap, the number of index files above it.
    pub hops: u32,
    /// Redirects followed so far to reach this address.
    pub redirects: u8,
    /// Failed attempts so far.
    pub attempts: u8,
    /// Priority class at the time of the lease.
    pub bucket: Bucket,
    /// Score within the bucket, lower is better.
    pub score: f64,
    /// The parts of the score; `None` for seeds, images and robots.txt.
    pub parts: Option<LinkParts>,
    /// The validators of the known version; empty if the page is fetched for the first
    /// time, which makes the request unconditional.
    pub validators: Validators,
    /// The terms of use that the files of the host state for this address.
    pub terms: HostTerms,
    /// Drawn for the control sample rather than chosen by its score.
    pub control: bool,
    /// Where the request may go, and when.
    pub booking: Booking,
}

/// Where a request may go, and when, as the frontier has booked it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Booking {
    /// The only address to connect to; `None` if DNS or the operator decides. For a
    /// DNS-only task, the address that was known before.
    pub address: Option<IpAddr>,
    /// Nothing answered at that address, so a different address of the name is preferred.
    pub elsewhere: bool,
    /// The clocks that the request shares with others: the name of each, and the least
    /// time between two of its requests.
    pub clocks: Vec<(String, Duration)>,
    /// The least time between two requests to that address, over all machines; zero if there is
    /// none.
    pub address_delay: Duration,
    /// The shortest time it may take before it must give way to waiting requests.
    pub least_time: Duration,
}

/// A server's identifiers for one version of a page. Sent back with the next request, they
/// let the server answer 304 if that version is still current (RFC 9110 sections 8.8 and
/// 13.1).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validators {
    /// The `ETag` header as received, including quotation marks and `W/`. It is opaque and
    /// kept byte for byte: a non-ASCII byte becomes the character with that number.
    pub etag: Option<String>,
    /// The `Last-Modified` header as received, kept in the same way. It is not parsed,
    /// because a server is only certain to recognise its exact text.
    pub last_modified: Option<String>,
}

/// The longest validator that is kept: it is stored with every page and sent with every
/// visit, and no server needs more to distinguish two versions.
const MAX_VALIDATOR: usize = 1024;

impl Validators {
    /// Takes them from a head; `first` returns the first value of a header.
    pub fn of<'h>(first: impl Fn(&str) -> Option<&'h [u8]>) -> Self {
        let kept = |name: &str| {
            let value = first(name)?;
            let fits = (1..=MAX_VALIDATOR).contains(&value.len());
            fits.then(|| value.iter().map(|byte| char::from(*byte)).collect())
        };
        Self {
            etag: kept("etag"),
            last_modified: kept("last-modified"),
        }
    }

    /// Whether a request must be unconditional.
    pub fn is_empty(&self) -> bool {
        self.etag.is_none() && self.last_modified.is_none()
    }
}

/// A response with a usable body.
#[derive(Debug, Clone)]
pub struct Fetched {
    /// HTTP status, 200 to 299.
    pub status: u16,
    /// The `Content-Type` header as sent.
    pub content_type: Option<String>,
    /// The headers that state terms of use.
    pub terms: TermsHeaders,
    /// The server's identifiers for this version.
    pub validators: Validators,
    /// The body, content-decoded, at most the configured cap.
    pub body: Bytes,
    /// The body was longer than the cap, and the rest was not read.
    pub truncated: bool,
    /// From sending the request to the last byte.
    pub elapsed: Duration,
    /// When it was requested, in milliseconds since 1970, if that is known.
    pub date: Option<u64>,
}

/// The result of parsing a document, for the later stages.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Extracted {
    /// Text of the `title` element, white space folded.
    pub title: Option<String>,
    /// `lang` of the root element, lower-cased, such as `en` or `de-at`: the declared
    /// language.
    pub language: Option<String>,
    /// The language of the text, recognised from its letters; `None` if that is not
    /// certain.
    pub recognised: Option<Language>,
    /// The language most similar to the text, with the confidence.
    pub guessed: Option<Guess>,
    /// Name of the encoding the bytes were decoded with, such as `UTF-8`.
    pub charset: String,
    /// Name of the encoding that the header or the page declares.
    pub declared_charset: Option<String>,
    /// The media type that the header states, in lower case and without parameters.
    pub mime: Option<String>,
    /// Control characters of the body other than white space, which no text has. Not
    /// counted in UTF-16, where half of the bytes of most texts are zero.
    pub controls: u32,
    /// The page's metadata about itself.
    pub metadata: Metadata,
    /// The main text as written, if requested.
    pub main: Option<MainText>,
    /// The blocks that the extractor chose, in document order: the text of each
    /// block-level element, white space folded, none empty. A sentence never crosses a
    /// block. Links, images and the words around images are taken from the whole page.
    pub blocks: Vec<String>,
    /// The text of all blocks of the page, in document order, separated by line ends.
    /// Every [`Span`] refers to this text.
    pub flow: String,
    /// The words of all blocks, with those of `blocks` marked as chosen.
    pub tokens: Tokens,
    /// The blocks not chosen, in document order. A link may be in one of them, so their
    /// numbers continue those of `blocks`.
    pub left_out: Vec<String>,
    /// How much of the page's text is in `blocks`.
    pub text: TextShare,
    /// Links to other documents, in document order, one per element.
    pub links: Vec<Link>,
    /// Embedded images, in document order. An element may yield several, and an address
    /// may occur several times with different words. Images that are only named in the
    /// metadata follow, each address once.
    pub images: Vec<ImageCandidate>,
    /// Images that were skipped because their names are those of SVGs, which are never
    /// decoded.
    pub svgs: u32,
    /// The terms of use that headers and markup state together.
    pub terms: Terms,
    /// The canonical address that the page declares (RFC 6596); `None` if it declares none
    /// that can be crawled.
    pub canonical: Option<PageUrl>,
    /// Fingerprints of its whole text.
    pub prints: Prints,
    /// Why it was not read in one pass; `None` if it was, or has no markup.
    pub fallback: Option<Fallback>,
}

impl Extracted {
    /// A block of the whole page by number: first those of `blocks`, then those of
    /// `left_out`.
    pub fn block(&self, number: u32) -> Option<&str> {
        let number = number as usize;
        let kept = self.blocks.len();
        let block = if number < kept {
            self.blocks.get(number)
        } else {
            self.left_out.get(number - kept)
        };
        block.map(String::as_str)
    }
}

/// Fingerprints by which a page's text is recognised without keeping it.
///
/// Words are compared without case and digits, so that dates, prices and counters do not
/// make a page look new.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prints {
    /// The simhash of the whole text (Charikar 2002): the fewer bits differ, the more
    /// similar two texts are. `None` if there are too few words.
    pub simhash: Option<u64>,
    /// The distinct blocks in order of appearance, the first 1,000.
    pub blocks: Vec<BlockPrint>,
}

/// The fingerprint of a block of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockPrint {
    /// Hash of its words.
    pub hash: u32,
    /// How many words it has, at least 1.
    pub words: u32,
}

/// A link on a page.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Where it leads.
    pub url: PageUrl,
    /// Text of the element; failing that, its `title` or the `alt` of an image inside.
    pub anchor: String,
    /// `rel` contains `nofollow`, `ugc` or `sponsored`.
    pub nofollow: bool,
    /// Its position on the page.
    pub place: LinkPosition,
}

/// The position of a link on its page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkPosition {
    /// Hashes of the path of elements to the link: of the whole path, of its end, and of
    /// its last elements that have a class or a name. Equal positions on different pages
    /// have equal hashes; 0 if the markup was too broken.
    pub path: [u32; 3],
    /// The block that contains it, by its number for [`Extracted::block`].
    pub block: Option<u32>,
    /// The block that is the last heading before it, by number.
    pub heading: Option<u32>,
}

/// An image as it is embedded in a page.
#[derive(Debug, Clone, PartialEq)]
pub struct ImageCandidate {
    /// Where its bytes are.
    pub url: PageUrl,
    /// Width the page declares, in CSS pixels.
    pub width: Option<u32>,
    /// Height the page declares, in CSS pixels.
    pub height: Option<u32>,
    /// How the page embeds it.
    pub embedding: Embedding,
    /// The licences that JSON-LD gives for this address, as in [`Terms`].
    pub licences: Vec<String>,
    /// The words around it.
    pub texts: ImageTexts,
    /// Where those words are in the page's text, as far as they are part of it.
    pub spans: Spans,
}

/// A part of [`Extracted::flow`], in bytes.
pub type Span = std::ops::Range<usize>;

/// Where the words around an image are in the page's text, as far as they are part of it,
/// in the order of [`ImageTexts`]; the text of each is that of its span.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spans {
    /// The enclosing elements.
    pub parents: Vec<Span>,
    /// The sibling elements.
    pub siblings: Vec<Span>,
    /// The heading.
    pub heading: Option<Span>,
    /// The caption that stands with it.
    pub figcaption: Option<Span>,
}

/// How a page embeds an image, apart from the words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Embedding {
    /// Every place on the page that names the address, in the order of [`Found`].
    #[serde(default)]
    pub found: Vec<Found>,
    /// The `class` attribute, white space folded; `None` if absent or blank.
    #[serde(default)]
    pub class: Option<String>,
    /// The target of the link around the image; `None` if there is no link to follow.
    #[serde(default)]
    pub link_target: Option<PageUrl>,
    /// Whether it stands in the main text of the page; absent if that is not known, as with images
    /// that only the metadata names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_main_text: Option<bool>,
}

/// Where on a page the address of an image was found. The names are stable.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// `src` of an `img`.
    Img,
    /// `srcset` of an `img`, or an attribute that a script turns into one.
    Srcset,
    /// A `source` of the `picture` around an `img`.
    Picture,
    /// An attribute from which a script loads the address once the image is visible.
    Lazy,
    /// An element within `noscript`.
    Noscript,
    /// A link around an image that leads to an image file, such as a larger version.
    Link,
    /// `og:image` (the Open Graph protocol).
    OpenGraph,
    /// `twitter:image`.
    Twitter,
    /// `link rel=image_src`.
    ImageSrc,
    /// An `ImageObject` or an `image` of JSON-LD (schema.org).
    JsonLd,
    /// A background image of a `style` attribute.
    Background,
}

/// Whether an `alt` text was written for the image. The names are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AltKind {
    /// Nothing suggests otherwise.
    Written,
    /// It repeats the name or the path of the file, or is a typical camera file name.
    FileName,
    /// It only says that there is an image, or its host repeats it on many pages for
    /// different images.
    Boilerplate,
}

/// The words around an embedded image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageTexts {
    /// The `alt` attribute, `None` if absent or blank.
    pub alt: Option<String>,
    /// The kind of `alt`; `None` if there is none.
    #[serde(default)]
    pub alt_kind: Option<AltKind>,
    /// The `title` attribute, `None` if absent or blank.
    pub title: Option<String>,
    /// The `aria-label` attribute, `None` if absent or blank.
    #[serde(default)]
    pub aria_label: Option<String>,
    /// The caption in its attributes or those of the link around it, for a script that shows it
    /// large; else the one that JSON-LD gives for the address, its description or name.
    #[serde(default)]
    pub caption: Option<String>,
    /// The caption that stands with it: that of the `figure` around it, else the text that the
    /// markup names as its caption, or that stands alone with it in a box.
    #[serde(default)]
    pub figcaption: Option<String>,
    /// Who is credited for it beside it, such as a photographer; no part of a caption.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credit: Option<String>,
    /// The heading around it, or the last one before it that has text.
    #[serde(default)]
    pub heading: Option<String>,
    /// Words of the URL's file name without its extension.
    pub file_name: Option<String>,
    /// Text of the nearest enclosing elements that have any, nearest first.
    pub parents: Vec<String>,
    /// Text of the nearest sibling elements that have any, nearest first.
    pub siblings: Vec<String>,
    /// How many levels above the image each of `parents` is, 1 or more.
    #[serde(default)]
    pub parent_distances: Vec<u32>,
    /// How many elements from the image each of `siblings` is, 1 or more.
    #[serde(default)]
    pub sibling_distances: Vec<u32>,
}

/// Pure and weighted scores of one text.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextScore {
    /// Perplexity under the model of the topic, 1 or more; lower is closer.
    pub perplexity: f64,
    /// Keyword score, 0 if no keyword occurs.
    pub keyword: f64,
    /// `perplexity * (1 - gamma_keyword * keyword)`, and 1 where that is below 0.
    pub weighted: f64,
}

/// A document's rating.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DocumentScore {
    /// Perplexity over the sentences of at least five tokens.
    pub perplexity: f64,
    /// Keyword score over the same sentences.
    pub keyword: f64,
    /// How many sentences were scored.
    pub sentences: u32,
    /// How many tokens these sentences have.
    pub tokens: u32,
}

/// A link with its rating.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredLink {
    /// Where it leads.
    pub url: PageUrl,
    /// The parts of its score, for any strategy.
    pub parts: LinkParts,
}

/// The words around an embedded image with their ratings: one context in the sidecar file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImageContext {
    /// The page that embeds the image.
    pub page: PageUrl,
    /// Title of that page.
    pub page_title: Option<String>,
    /// Language that page declares.
    pub page_language: Option<String>,
    /// Language of that page's text, recognised from its letters, such as `en`; absent if
    /// that is not certain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_recognised_language: Option<String>,
    /// Perplexity of that page's text.
    pub document_perplexity: f64,
    /// Width the page declares, in CSS pixels.
    pub declared_width: Option<u32>,
    /// Height the page declares, in CSS pixels.
    pub declared_height: Option<u32>,
    /// The terms of use that page states; the licences of the image itself come first.
    #[serde(default)]
    pub terms: Terms,
    /// How that page embeds it.
    #[serde(flatten)]
    pub embedding: Embedding,
    /// The words.
    #[serde(flatten)]
    pub texts: ImageTexts,
    /// Their ratings.
    pub scores: ImageScores,
    /// How it ranks without a formula in the job: the geometric mean of the perplexity of the page
    /// and of the weighted perplexities of the words that describe it best, of its file name and of
    /// `parents[1]`, the second nearest enclosing element with text; twice that for an image outside
    /// the main text. An absent text counts with the perplexity of a run of unknown words. Lower is
    /// better.
    pub rank: f64,
}

/// Which text of its page the words of an image are, the best first. The names are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WordsFrom {
    /// The caption beside it, else one in attributes or in JSON-LD.
    Caption,
    /// The `alt` attribute, if it was written for the image.
    Alt,
    /// The `title` attribute.
    Title,
    /// The `aria-label` attribute.
    AriaLabel,
    /// The text of the nearest enclosing element with text, if it is as short as a caption.
    Parent,
    /// The heading around it or before it.
    Heading,
    /// The title of the page.
    PageTitle,
    /// The words of the file name.
    FileName,
}

impl WordsFrom {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Caption => "caption",
            Self::Alt => "alt",
            Self::Title => "title",
            Self::AriaLabel => "aria_label",
            Self::Parent => "parent",
            Self::Heading => "heading",
            Self::PageTitle => "page_title",
            Self::FileName => "name_words",
        }
    }

    /// Whether the text was written for the image itself.
    pub fn is_own(self) -> bool {
        self <= Self::AriaLabel
    }
}

/// The words of an image: the text that describes it best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ImageWords<'c> {
    /// Which text it is.
    pub from: WordsFrom,
    /// The text, not blank.
    pub text: &'c str,
    /// Its rating.
    pub score: Option<TextScore>,
}

impl ImageTexts {
    /// The caption beside the image, else one in attributes or in JSON-LD.
    pub fn any_caption(&self) -> Option<&str> {
        self.figcaption.as_deref().or(self.caption.as_deref())
    }

    /// The `alt` attribute if it was written for the image. Sidecars from before this was
    /// determined count every one as written.
    pub fn written_alt(&self) -> Option<&str> {
        let is_written = self.alt_kind.is_none_or(|kind| kind == AltKind::Written);
        self.alt.as_deref().filter(|_| is_written)
    }
}

impl ImageContext {
    /// The words of the image, the first text that is there in the order of [`WordsFrom`]. Reports,
    /// rankings, data sets and pages that show images all use these.
    pub fn words(&self) -> Option<ImageWords<'_>> {
        /// A longer text around an image is an article.
        const MAX_PARENT: usize = 300;
        let (texts, scores) = (&self.texts, &self.scores);
        let parent = texts.parents.first().map(String::as_str);
        let is_short = |text: &&str| text.chars().nth(MAX_PARENT).is_none();
        let captioned = match texts.figcaption {
            Some(_) => scores.figcaption,
            None => scores.caption,
        };
        let texts = [
            (WordsFrom::Caption, texts.any_caption(), captioned),
            (WordsFrom::Alt, texts.written_alt(), scores.alt),
            (WordsFrom::Title, texts.title.as_deref(), scores.title),
            (
                WordsFrom::AriaLabel,
                texts.aria_label.as_deref(),
                scores.aria_label,
            ),
            (
                WordsFrom::Parent,
                parent.filter(is_short),
                scores.parents.first().copied(),
            ),
            (WordsFrom::Heading, texts.heading.as_deref(), scores.heading),
            (
                WordsFrom::PageTitle,
                self.page_title.as_deref(),
                scores.page_title,
            ),
            (
                WordsFrom::FileName,
                texts.file_name.as_deref(),
                scores.file_name,
            ),
        ];
        let mut texts = texts.into_iter();
        texts.find_map(|(from, text, score)| {
            let text = text?.trim();
            (!text.is_empty()).then_some(ImageWords { from, text, score })
        })
    }

    /// The value of `rank`; `unknown` is the perplexity of a run of unknown words.
    pub fn rank_by(&self, unknown: f64) -> f64 {
        let words = self.words().and_then(|words| words.score);
        let texts = [
            words,
            self.scores.file_name,
            self.scores.parents.get(1).copied(),
        ];
        let weighted = texts.map(|score| score.map_or(unknown, |score| score.weighted));
        // Roots first, because the product of large numbers may be infinite.
        let root = |value: f64| value.sqrt().sqrt();
        let mean = weighted.into_iter().map(root).product::<f64>() * root(self.document_perplexity);
        match self.embedding.in_main_text {
            Some(false) => 2.0 * mean,
            _ => mean,
        }
    }

    /// Marks the alt text as boilerplate and removes its rating; `unknown` is the
    /// perplexity of a run of unknown words.
    pub fn mark_boilerplate(&mut self, unknown: f64) {
        self.texts.alt_kind = Some(AltKind::Boilerplate);
        self.scores.alt = None;
        self.rank = self.rank_by(unknown);
    }
}

/// Ratings of an image's texts, each `None` if the text is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImageScores {
    /// The `alt` attribute, if it was written for the image.
    pub alt: Option<TextScore>,
    /// The `title` attribute.
    pub title: Option<TextScore>,
    /// The `aria-label` attribute.
    #[serde(default)]
    pub aria_label: Option<TextScore>,
    /// The caption in JSON-LD.
    #[serde(default)]
    pub caption: Option<TextScore>,
    /// The caption of the figure.
    #[serde(default)]
    pub figcaption: Option<TextScore>,
    /// The heading.
    #[serde(default)]
    pub heading: Option<TextScore>,
    /// The title of the page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_title: Option<TextScore>,
    /// The words of the file name.
    pub file_name: Option<TextScore>,
    /// The enclosing elements, nearest first.
    pub parents: Vec<TextScore>,
    /// The sibling elements, nearest first.
    pub siblings: Vec<TextScore>,
}

/// An image candidate with the rated context of one page.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredImage {
    /// Where its bytes are.
    pub url: PageUrl,
    /// The words around it, rated.
    pub context: ImageContext,
}

/// A page after all ratings.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// The document's own rating.
    pub document: DocumentScore,
    /// Every link that may be followed, rated.
    pub links: Vec<ScoredLink>,
    /// Every image whose declared size permits it, rated.
    pub images: Vec<ScoredImage>,
    /// The judge's findings; `None` if the scorer has no judge.
    pub observed: Option<Observed>,
    /// The normalised sentences of at least five tokens, in page order, one per line.
    pub sentences: String,
}

/// The findings of a crawl's judge about a page.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// How likely the page is on topic by its own text, 0 to 1.
    pub on_topic: f64,
    /// Whether that is a guess because the model was trained on too little text.
    pub guessed: bool,
    /// The same judgement in the form a learning crawl needs, which weighs it with what it
    /// has learned beyond the given texts.
    pub nearness: Nearness,
    /// The contrast behind that judgement, in nats per token; `None` if the model has no
    /// neutral text to compare the topic's words with, or the page has no words.
    pub contrast: Option<f64>,
    /// The features of each of [`Scored::links`], except for those of the page; empty if
    /// the crawl does not learn.
    pub clues: Vec<Clues>,
}

/// Why a task failed or an address is not followed. The names are stable: logs and
/// `explain` show them, and the store keeps them by number, so new ones are added at the
/// end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The link score is above the cutoff (`razor`).
    Razor,
    /// The host's robots.txt forbids it.
    Robots,
    /// The host's robots.txt could not be fetched, so everything is forbidden for now.
    RobotsUnreachable,
    /// No accept rule covers it, or a reject rule does.
    Scope,
    /// More links from the seeds than `scope.max_hops`.
    Hops,
    /// The host has yielded as many pages as `scope.host_documents` allows.
    HostBudget,
    /// An address that is too long, or whose path repeats itself or nests too deep.
    Trap,
    /// The name does not resolve.
    Dns,
    /// It resolves to an address that crawls must not reach.
    PrivateAddress,
    /// The connection was refused, reset or cut.
    Connection,
    /// The TLS handshake failed.
    Tls,
    /// Connecting, a read or the whole exchange took too long.
    Timeout,
    /// The server spoke no valid HTTP, or the body could not be decoded.
    Protocol,
    /// The status reports the resource as gone or forbidden (400 to 499).
    ClientError,
    /// The status reports a server failure (500 to 599).
    ServerError,
    /// The status asks the client to slow down: 429 or 503.
    Overloaded,
    /// A redirect without a usable target.
    BadRedirect,
    /// More redirects in a row than `network.max_redirects`.
    RedirectLimit,
    /// More bytes than the cap, and a part of it is useless.
    TooLarge,
    /// Neither HTML nor text for a page, or not a sitemap for a sitemap.
    ContentType,
    /// The page asks not to be kept (`noindex`), or not to be used for this purpose
    /// (`noai`).
    Forbidden,
    /// Not a complete image of a supported format.
    BadImage,
    /// Smaller or larger than `[images]` allows.
    ImageSize,
    /// The extraction failed on this input: a bug in spoor.
    Internal,
    /// The registered domain has yielded as many pages as `scope.domain_documents` allows.
    DomainBudget,
    /// Its part of the site kept yielding pages without new content.
    PrefixBudget,
    /// Its address, its host or its bytes were taken down (`spoor takedown`).
    Takedown,
    /// There is no image at this address (404 or 410). Another size that the page offers
    /// is fetched instead.
    Gone,
    /// The rest of its body needed memory that other bodies were using.
    NoRoom,
    /// The sitemaps of its site have listed as many addresses as allowed for now.
    ListBudget,
    /// The archive of a replay has no answer from this address.
    NotArchived,
    /// A PDF file that cannot be read: it is encrypted or damaged, has no text, or needs too
    /// much time or memory.
    BadPdf,
    /// The page or image names an RSL file of its host that is not known yet. It is requested again
    /// after that file.
    RslUnknown,
    /// The server asks for payment (402), which is never made.
    Payment,
    /// The server asks for a signature, which comes with the next attempt.
    Challenge,
}

impl Reason {
    /// The name used in logs and tables.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Razor => "razor",
            Reason::Robots => "robots",
            Reason::RobotsUnreachable => "robots_unreachable",
            Reason::Scope => "scope",
            Reason::Hops => "hops",
            Reason::HostBudget => "host_budget",
            Reason::Trap => "trap",
            Reason::Dns => "dns",
            Reason::PrivateAddress => "private_address",
            Reason::Connection => "connection",
            Reason::Tls => "tls",
            Reason::Timeout => "timeout",
            Reason::Protocol => "protocol",
            Reason::ClientError => "client_error",
            Reason::ServerError => "server_error",
            Reason::Overloaded => "overloaded",
            Reason::BadRedirect => "bad_redirect",
            Reason::RedirectLimit => "redirect_limit",
            Reason::TooLarge => "too_large",
            Reason::ContentType => "content_type",
            Reason::Forbidden => "forbidden",
            Reason::BadImage => "bad_image",
            Reason::ImageSize => "image_size",
            Reason::Internal => "internal",
            Reason::DomainBudget => "domain_budget",
            Reason::PrefixBudget => "prefix_budget",
            Reason::Takedown => "takedown",
            Reason::Gone => "gone",
            Reason::NoRoom => "no_room",
            Reason::ListBudget => "list_budget",
            Reason::NotArchived => "not_archived",
            Reason::BadPdf => "bad_pdf",
            Reason::RslUnknown => "rsl_unknown",
            Reason::Payment => "payment",
            Reason::Challenge => "challenge",
        }
    }
}

/// How a task ended. Every lease is answered with exactly one outcome.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It was fetched and its effects are ready to be committed.
    Done,
    /// The server confirms that the known version is current (304); there is no body.
    Unchanged,
    /// It points elsewhere; the target re-enters the frontier as a new task.
    Redirect {
        /// Where to.
        to: PageUrl,
    },
    /// It may succeed later.
    Retry {
        /// What went wrong this time.
        reason: Reason,
        /// The delay that the server asked for (`Retry-After`), applied to the whole host.
        retry_after: Option<Duration>,
        /// The whole host backs off, not only this address.
        host_backs_off: bool,
    },
    /// It is never requested again.
    Drop {
        /// Why.
        reason: Reason,
    },
}
