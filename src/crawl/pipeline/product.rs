//! What the processing makes of a body: the value that travels from a processor thread to the
//! thread that owns the frontier.

use bytes::Bytes;

use crate::address::PageUrl;
use crate::frontier::{Effects, NewImage, NewTask};
use crate::language::Language;
use crate::outputs::picture::ImageInfo;
use crate::outputs::{Document, PackedSentences};
use crate::page::{DocumentScore, Fallback, Nearness, Prints, Terms, TextShare};
use crate::rules::Applied;

/// The product of a body.
#[derive(Debug)]
pub enum Product {
    /// A page, rated.
    Page(Box<PageProduct>),
    /// An image of a wanted size.
    Image {
        /// The bytes as served.
        bytes: Bytes,
        /// Its format, size and appearance.
        info: Box<ImageInfo>,
        /// The `Content-Type` as sent.
        content_type: Option<String>,
        /// Its terms of use, by its host and the answer.
        terms: Terms,
    },
    /// Nothing is kept, for a reason that is written to the log.
    Refused {
        /// The reason in words.
        why: String,
    },
    /// An image that is not kept because its terms of use forbid it.
    Forbidden {
        /// All its terms of use.
        terms: Terms,
        /// The terms that forbid keeping it.
        by: Vec<&'static str>,
    },
    /// An unchanged page, whose server forbids what it permitted before.
    Withdrawn {
        /// The terms that do.
        by: Vec<&'static str>,
    },
    /// The body of a robots.txt.
    Robots(Bytes),
    /// The body of a tdmrep.json or of an RSL file.
    TermsFile(Bytes),
    /// A page or an image that names RSL files of its host that are not known yet.
    UnknownRsl {
        /// Their addresses.
        files: Vec<String>,
    },
    /// The contents of a sitemap.
    Sitemap(SitemapProduct),
}

/// The contents of a sitemap.
#[derive(Debug)]
pub struct SitemapProduct {
    /// Pages, the most recently changed ones first.
    pub pages: Vec<NewTask>,
    /// Further sitemaps, if it is an index.
    pub sitemaps: Vec<PageUrl>,
    /// Why it was not read completely; `None` if it was.
    pub trouble: Option<String>,
}

/// The contents of a page that are kept.
#[derive(Debug)]
pub struct PageProduct {
    /// Its own rating.
    pub document: DocumentScore,
    /// The probability that it is on topic, 0 to 1, by its own text: by the contrast of
    /// its words if the model has one, and otherwise by its perplexity. 0 if it is
    /// in a language that the job does not permit. `None` if the scorer has no judge.
    pub on_topic: Option<f64>,
    /// Whether that probability is a guess.
    pub guessed: bool,
    /// The judgement of its text for a learning crawl.
    pub nearness: Option<Nearness>,
    /// Its links, each address once, with the best of its scores.
    pub links: Vec<NewTask>,
    /// Its images, each address once.
    pub images: Vec<NewImage>,
    /// Images left out because their names say SVG.
    pub svgs: u32,
    /// The perplexity of a run of unknown words.
    pub unknown: f64,
    /// Digest of the keyword table that its links were rated with.
    pub keywords: u64,
    /// Its normalised sentences, one per line.
    pub sentences: PackedSentences,
    /// Its document, as far as it is known before the task is settled; `None` if no
    /// document is kept.
    pub kept: Option<Box<Document>>,
    /// Its title.
    pub title: Option<String>,
    /// The part of its text that was rated and kept.
    pub text: TextShare,
    /// The language it declares.
    pub language: Option<String>,
    /// The detected language of its text, if that is certain.
    pub recognised: Option<Language>,
    /// Whether the detected language differs from the model's.
    pub foreign: bool,
    /// Whether the detected language is not permitted by the job, so that nothing of the
    /// page is kept.
    pub off_language: bool,
    /// Name of the encoding it was decoded with.
    pub charset: String,
    /// Why it was not read in one pass; `None` if it was.
    pub fallback: Option<Fallback>,
    /// The terms of use from its host, the answer and the page itself.
    pub terms: Terms,
    /// Whether its terms allow keeping the exchange in an archive.
    pub may_archive: bool,
    /// Whether it lifts a TDM reservation of its answer or of its host. A status 304 would not say so.
    pub lifts: bool,
    /// The terms that forbade keeping its text, its images or both, if the job keeps
    /// these.
    pub forbidden: Vec<&'static str>,
    /// The terms that forbid searches in its text.
    pub unindexed: Vec<&'static str>,
    /// Its images, if it forbids their use.
    pub withheld: Vec<PageUrl>,
    /// True if the body was longer than the limit.
    pub truncated: bool,
    /// Digest of the letters of its text, to detect changes at a later visit.
    pub digest: u64,
    /// The canonical address that it declares.
    pub canonical: Option<PageUrl>,
    /// Fingerprints of its text.
    pub prints: Prints,
    /// What the job's rules found on it; `None` if none is for its address.
    pub rules: Option<Box<Applied>>,
}

impl PageProduct {
    /// Moves the frontier's share of the page into `effects`.
    pub fn give(&mut self, effects: &mut Effects) {
        effects.links = std::mem::take(&mut self.links);
        effects.images = std::mem::take(&mut self.images);
        effects.svgs = self.svgs;
        effects.withheld = std::mem::take(&mut self.withheld);
        if !effects.withheld.is_empty() {
            effects.terms = self.terms.clone();
        }
        effects.unknown = self.unknown;
        effects.keywords = Some(self.keywords);
        effects.on_topic = self.on_topic;
        effects.guessed = self.guessed;
        effects.nearness = self.nearness.take();
        effects.digest = Some(self.digest);
        effects.canonical = self.canonical.take();
        effects.prints = Some(std::mem::take(&mut self.prints));
    }
}
