//! The value that travels: a [`Task`] becomes [`Fetched`], [`Extracted`] and
//! [`Scored`], and every journey ends in an [`Outcome`].
//!
//! These are plain values. They know neither the network nor the store, and no
//! stage keeps a reference to another stage's value after handing its own on.

mod clues;
mod likelihood;
mod nearness;
mod terms;
mod text;

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::address::{HostKey, PageUrl};
use crate::language::{Guess, Language};

pub use clues::{Clues, Part, Words};
pub use likelihood::{Judged, Likelihood};
pub use nearness::{Heard, Nearness, WordCounts};
pub use terms::{Directives, MAX_LICENCES, Obeyed, Terms, TermsHeaders, Use};
pub use text::{Extractor, MainText, Metadata, TextShare};

/// What a task asks for. All stand under the same host clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskKind {
    /// A host's robots.txt, asked before anything else of that host.
    Robots,
    /// A document whose text is scored and whose links are followed.
    Page,
    /// The bytes of an image that a page embeds.
    Image,
    /// A list of a site's addresses that robots.txt or another such list names.
    Sitemap,
    /// A host's `/.well-known/tdmrep.json`, asked before its first page or image
    /// (TDM Reservation Protocol).
    Tdmrep,
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
        }
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

/// The parts a link score was made of, kept so that any rating can be explained.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LinkParts {
    /// Perplexity of the page the link stands on.
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
    /// Only the host's address is asked for, of the name service.
    pub locate: bool,
    /// What is asked for.
    pub kind: TaskKind,
    /// The address to fetch.
    pub url: PageUrl,
    /// The host whose clock the request stands under; `url.host_key()`.
    pub host: HostKey,
    /// The page on which the address was found, `None` for seeds and robots.txt.
    pub via: Option<PageUrl>,
    /// Links from the nearest seed; for a sitemap, the index files above it.
    pub hops: u32,
    /// Redirects followed so far to come here.
    pub redirects: u8,
    /// Failed attempts so far.
    pub attempts: u8,
    /// Priority class at the time of the lease.
    pub bucket: Bucket,
    /// Score within the bucket, lower is better.
    pub score: f64,
    /// What the score was made of; `None` for seeds, images and robots.txt.
    pub parts: Option<LinkParts>,
    /// What the server named the version that is known by; empty where the page
    /// is fetched for the first time, and the request is unconditional then.
    pub validators: Validators,
    /// What the host's robots.txt and `tdmrep.json` say of the use of what is asked
    /// for.
    pub terms: Terms,
    /// True where it was drawn for the control sample, and not chosen by its score.
    pub control: bool,
    /// Where its request may go, and when.
    pub booking: Booking,
}

/// Where a request may go, and when, as the frontier has booked it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Booking {
    /// The only address to connect to; `None` where the name service or the operator decides.
    /// For a task that only looks the address up, the one that was known before.
    pub address: Option<IpAddr>,
    /// Nobody answered there, so another address of the name is wanted if there is one.
    pub elsewhere: bool,
    /// The clocks that it shares with other requests: the name of each, and the least time
    /// between two of its requests.
    pub clocks: Vec<(String, Duration)>,
    /// How long it may take at least before it gives way to others that wait.
    pub patience: Duration,
}

/// What a server calls one version of a page. Sent back with the next request,
/// it lets the server answer 304 where that version still holds (RFC 9110
/// sections 8.8 and 13.1).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Validators {
    /// The `ETag` header as received, quotation marks and `W/` included. It means
    /// nothing to us, so it is kept byte for byte: a byte beyond ASCII is the
    /// character of that number.
    pub etag: Option<String>,
    /// The `Last-Modified` header as received, in the same way; not parsed,
    /// because only the very text is certain to be recognised.
    pub last_modified: Option<String>,
}

impl Validators {
    /// True where there is nothing to make a request conditional with.
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
    /// What the server calls this version.
    pub validators: Validators,
    /// The body, content-decoded, at most the configured cap.
    pub body: Bytes,
    /// True where the body was longer than the cap and the rest not read.
    pub truncated: bool,
    /// From sending the request to the last byte.
    pub elapsed: Duration,
}

/// What one parse of a document gives to the later stages.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Extracted {
    /// Text of the `title` element, white space folded.
    pub title: Option<String>,
    /// `lang` of the root element, lower-cased, as `en` or `de-at`: what the page says.
    pub language: Option<String>,
    /// The language that its text is in, recognised from the letters; `None` where that
    /// is not certain.
    pub recognised: Option<Language>,
    /// The language that its text is most like, and how certain that is.
    pub guessed: Option<Guess>,
    /// Name of the encoding the bytes were decoded with, as `UTF-8`.
    pub charset: String,
    /// Name of the encoding that the header or the page declares.
    pub declared_charset: Option<String>,
    /// What the page says of itself.
    pub metadata: Metadata,
    /// Its main text as written, where that is wanted.
    pub main: Option<MainText>,
    /// The text by block-level element, in document order, white space folded,
    /// none empty. A sentence never crosses a block. Those blocks that the extractor
    /// chose; links, images and the words around them are of the whole page.
    pub blocks: Vec<String>,
    /// The text of all blocks of the page as one, in document order, a line end between
    /// two: what each [`Span`] is of.
    pub flow: String,
    /// The other blocks, in document order. A link may stand among them, so their numbers
    /// go on from those of `blocks`.
    pub left_out: Vec<String>,
    /// Which part of the page's text `blocks` are.
    pub text: TextShare,
    /// Links to other documents, in document order, one per element.
    pub links: Vec<Link>,
    /// Embedded images, in document order; an element may give several, and an
    /// address may come several times, with different words. Behind them those
    /// that the page only names in its metadata, each address once.
    pub images: Vec<ImageCandidate>,
    /// Images that were left out because they are SVGs by name, which are never decoded.
    pub svgs: u32,
    /// The terms of use that headers and markup state together.
    pub terms: Terms,
    /// The address that the page calls its own (RFC 6596), `None` where it names
    /// none that can be crawled.
    pub canonical: Option<PageUrl>,
    /// By which its text is known again, all of it.
    pub prints: Prints,
}

impl Extracted {
    /// A block of the whole page: those of `blocks` are numbered first, and then those
    /// that were left out.
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

    /// Whether `blocks` are all of `flow`, so that what was read of either holds for both.
    pub fn flow_is_blocks(&self) -> bool {
        let with_ends = |text: &str| text.len() + 1;
        let blocks: usize = self.blocks.iter().map(|block| with_ends(block)).sum();
        self.left_out.is_empty() && blocks == with_ends(&self.flow)
    }
}

/// What the text of a page is known again by, without keeping the text.
///
/// Words are compared without case and digits, so that dates, prices and counters
/// do not make a page new.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prints {
    /// The simhash of the whole text (Charikar 2002): the fewer bits differ, the
    /// more alike two texts are. `None` where there are too few words to tell.
    pub simhash: Option<u64>,
    /// The different blocks in order of appearance, the first 1,000.
    pub blocks: Vec<BlockPrint>,
}

/// A block of text as it is known again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockPrint {
    /// Hash of its words.
    pub hash: u32,
    /// How many words it has, at least 1.
    pub words: u32,
}

/// A link as it stands on a page.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// Where it leads.
    pub url: PageUrl,
    /// Text of the element; where there is none, its `title`, or the `alt` of
    /// an image inside.
    pub anchor: String,
    /// `rel` contains `nofollow`, `ugc` or `sponsored`.
    pub nofollow: bool,
    /// Where on the page it stands.
    pub place: Place,
}

/// Where on its page a link stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    /// The kind of place by the path of elements to the link: the whole path, its end,
    /// and its last elements that have a class or a name. Numbers that are the same for
    /// the same kind of place on every page, and 0 where markup was too bad to tell.
    pub path: [u32; 3],
    /// The block in which it stands, by its number for [`Extracted::block`].
    pub block: Option<u32>,
    /// The block that is the last heading before it, likewise.
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
    /// Other addresses that the page offers for the same picture, best first.
    pub spares: Vec<PageUrl>,
    /// How the page embeds it.
    pub embedding: Embedding,
    /// The licences that JSON-LD gives the address, as in [`Terms`].
    pub licences: Vec<String>,
    /// The words around it.
    pub texts: ImageTexts,
    /// Where those of them stand that are of the page's text.
    pub spans: Spans,
}

/// A part of [`Extracted::flow`], in bytes.
pub type Span = std::ops::Range<usize>;

/// Where the words around an image stand that are of the page's text, in the order of
/// [`ImageTexts`]; the text of each is that of its span.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spans {
    /// Of the enclosing elements.
    pub parents: Vec<Span>,
    /// Of the sibling elements.
    pub siblings: Vec<Span>,
    /// Of the heading.
    pub heading: Option<Span>,
    /// Of the caption of the figure.
    pub figcaption: Option<Span>,
}

/// How a page embeds an image, apart from the words.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Embedding {
    /// Every place of the page that names the address, in the order of [`Found`].
    #[serde(default)]
    pub found: Vec<Found>,
    /// The `class` attribute, white space folded, `None` where absent or blank.
    #[serde(default)]
    pub class: Option<String>,
    /// Where the link around the image leads; `None` where there is none that is
    /// a link to follow.
    #[serde(default)]
    pub link_target: Option<PageUrl>,
}

/// Where on a page the address of an image stands. The names are stable.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    /// `src` of an `img`.
    Img,
    /// `srcset` of an `img`, or what a script makes one of.
    Srcset,
    /// A `source` of the `picture` around an `img`.
    Picture,
    /// An attribute from which a script takes the address when the image is seen.
    Lazy,
    /// An element within `noscript`.
    Noscript,
    /// A link around an image that leads to an image file, as a larger version.
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
    /// Nothing speaks against it.
    Written,
    /// It repeats the name or the path of the file, or is what a camera calls one.
    FileName,
    /// It says no more than that here is an image, or its host has it on page after
    /// page at ever other images.
    Boilerplate,
}

/// The words around an embedded image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImageTexts {
    /// The `alt` attribute, `None` where absent or blank.
    pub alt: Option<String>,
    /// What to think of `alt`; `None` where there is none.
    #[serde(default)]
    pub alt_kind: Option<AltKind>,
    /// The `title` attribute, `None` where absent or blank.
    pub title: Option<String>,
    /// The `aria-label` attribute, `None` where absent or blank.
    #[serde(default)]
    pub aria_label: Option<String>,
    /// The caption that JSON-LD gives the address, else its description or name.
    #[serde(default)]
    pub caption: Option<String>,
    /// The caption of the `figure` around it.
    #[serde(default)]
    pub figcaption: Option<String>,
    /// The heading around it, or the last one before it that has text.
    #[serde(default)]
    pub heading: Option<String>,
    /// Words of the URL's file name without its extension.
    pub file_name: Option<String>,
    /// Text of the nearest enclosing elements that have any, nearest first.
    pub parents: Vec<String>,
    /// Text of the nearest sibling elements that have any, nearest first.
    pub siblings: Vec<String>,
    /// How many levels above the image each of `parents` lies, 1 or more.
    #[serde(default)]
    pub parent_distances: Vec<u32>,
    /// How many elements from the image each of `siblings` stands, 1 or more.
    #[serde(default)]
    pub sibling_distances: Vec<u32>,
}

/// Pure and weighted scores of one text.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextScore {
    /// Perplexity under the model of the topic, 1 or more; lower is closer.
    pub perplexity: f64,
    /// Keyword score, 0 where no keyword occurs.
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
    /// How many tokens these have.
    pub tokens: u32,
}

/// A link with its rating.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredLink {
    /// Where it leads.
    pub url: PageUrl,
    /// What its score is made of, by whatever strategy.
    pub parts: LinkParts,
}

/// The words around an embedded image with their ratings; the form of a context
/// in the sidecar file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImageContext {
    /// The page that embeds the image.
    pub page: PageUrl,
    /// Title of that page.
    pub page_title: Option<String>,
    /// Language that page declares.
    pub page_language: Option<String>,
    /// Language that the text of that page is in, recognised from its letters, as `en`;
    /// absent where that is not certain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_recognised_language: Option<String>,
    /// Perplexity of that page's text.
    pub document_perplexity: f64,
    /// Width the page declares, in CSS pixels.
    pub declared_width: Option<u32>,
    /// Height the page declares, in CSS pixels.
    pub declared_height: Option<u32>,
    /// What that page says of its use; the licences of the image itself come first.
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
    /// Geometric mean of the weighted perplexities of `alt` and of `parents[1]`,
    /// the second nearest enclosing element with text (the thesis's ranking); the
    /// perplexity of a run of unknown words stands for one that is absent. Lower
    /// is better.
    pub rank: f64,
}

impl ImageContext {
    /// Marks the alt text as one that says nothing, and takes its rating back;
    /// `unknown` is the perplexity of a run of unknown words.
    pub fn mark_boilerplate(&mut self, unknown: f64) {
        self.texts.alt_kind = Some(AltKind::Boilerplate);
        self.scores.alt = None;
        self.rank = self.scores.rank(unknown);
    }
}

/// Ratings of an image's texts, each `None` where the text is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ImageScores {
    /// Of the `alt` attribute, where it was written for the image.
    pub alt: Option<TextScore>,
    /// Of the `title` attribute.
    pub title: Option<TextScore>,
    /// Of the `aria-label` attribute.
    #[serde(default)]
    pub aria_label: Option<TextScore>,
    /// Of the caption in JSON-LD.
    #[serde(default)]
    pub caption: Option<TextScore>,
    /// Of the caption of the figure.
    #[serde(default)]
    pub figcaption: Option<TextScore>,
    /// Of the heading.
    #[serde(default)]
    pub heading: Option<TextScore>,
    /// Of the words of the file name.
    pub file_name: Option<TextScore>,
    /// Of the enclosing elements, nearest first.
    pub parents: Vec<TextScore>,
    /// Of the sibling elements, nearest first.
    pub siblings: Vec<TextScore>,
}

impl ImageScores {
    /// Geometric mean of the weighted perplexities of the alt text and of the second
    /// nearest enclosing element with text (Werner 2015). Where one is absent, the
    /// perplexity of a run of unknown words, `unknown`, stands for it: silence is no
    /// merit, and neither is an alt text that nobody wrote.
    pub fn rank(&self, unknown: f64) -> f64 {
        let weighted = |score: Option<&TextScore>| score.map_or(unknown, |s| s.weighted);
        // Two roots, as the product of two large numbers may be infinite.
        weighted(self.alt.as_ref()).sqrt() * weighted(self.parents.get(1)).sqrt()
    }
}

/// An image candidate with the rated context of one page.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredImage {
    /// Where its bytes are.
    pub url: PageUrl,
    /// Other addresses that the page offers for the same picture, best first.
    pub spares: Vec<PageUrl>,
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
    /// What its judge makes of it; `None` where the scorer has none.
    pub observed: Option<Observed>,
    /// The normalised sentences of at least five tokens, in page order, a line each.
    pub sentences: String,
}

/// What the judge of a crawl makes of a page.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// How likely the page is on topic by its own text, 0 to 1.
    pub on_topic: f64,
    /// Whether that is a guess, as the model knows too little text to judge by.
    pub guessed: bool,
    /// The same for a learning crawl, which makes more of it than the given texts tell.
    pub nearness: Nearness,
    /// The contrast by which it was counted, in nats a token; `None` where the model has
    /// nothing to compare the topic's words with, or the page has no words.
    pub contrast: Option<f64>,
    /// The clues of each of [`Scored::links`], but for what is known of the page; empty
    /// where the crawl does not learn.
    pub clues: Vec<Clues>,
}

/// Why a task failed or an address is not followed. The names are stable: logs
/// and `explain` show them, and the store keeps them by number, so new ones are
/// added at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The link score lies above the razor.
    Razor,
    /// The host's robots.txt forbids it.
    Robots,
    /// The host's robots.txt could not be had, so all is forbidden for now.
    RobotsUnreachable,
    /// No accept rule covers it, or a reject rule does.
    Scope,
    /// More links from the seeds than `scope.max_hops`.
    Hops,
    /// The host has given as many pages as `scope.host_documents` grants.
    HostBudget,
    /// An address that is too long, or a path that repeats itself or nests too deep.
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
    /// The status says that it is gone or forbidden (400 to 499).
    ClientError,
    /// The status says that the server failed (500 to 599).
    ServerError,
    /// The status asks for patience: 429 or 503.
    Overloaded,
    /// A redirect without a usable target.
    BadRedirect,
    /// More redirects in a row than `network.max_redirects`.
    RedirectLimit,
    /// More bytes than the cap, and no use in a part.
    TooLarge,
    /// Neither HTML nor text where a page was expected, or no sitemap where one was.
    ContentType,
    /// The page asks not to be kept (`noindex`), or not to be used so (`noai`).
    Forbidden,
    /// Not a whole image of a supported format.
    BadImage,
    /// Smaller or larger than `[images]` wants.
    ImageSize,
    /// The extraction failed on this input; a defect of spoor.
    Internal,
    /// The registered domain has given as many pages as `scope.domain_documents`
    /// grants.
    DomainBudget,
    /// Its part of the site went on without bringing anything new.
    PrefixBudget,
    /// Its address, its host or its bytes were taken down (`spoor takedown`).
    Takedown,
    /// There is no image at this address (404 or 410). Another size that the page offers
    /// is asked for in its place.
    Gone,
    /// Others held the memory that the rest of its body needed.
    NoRoom,
    /// The sitemaps of its site have listed as many addresses as they may for now.
    ListBudget,
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
        }
    }
}

/// How a journey ended. Every lease is answered with exactly one.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It was fetched and its effects are ready to be committed.
    Done,
    /// The server says that the version which is known still holds (304); there
    /// is no body.
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
        /// What the server asked for (`Retry-After`), obeyed for the whole host.
        retry_after: Option<Duration>,
        /// The whole host backs off, not only this address.
        host_backs_off: bool,
    },
    /// It is never asked again.
    Drop {
        /// Why.
        reason: Reason,
    },
}
