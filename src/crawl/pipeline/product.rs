//! What the processing makes of a body: the value that travels from a processor thread to the
//! thread that owns the frontier.

use bytes::Bytes;

use crate::address::PageUrl;
use crate::crawl::frontier::{Effects, NewImage, NewTask};
use crate::language::Language;
use crate::outputs::Document;
use crate::page::{DocumentScore, Nearness, Prints, Terms, TextShare};
use crate::picture::ImageInfo;

/// What the processing made of a body.
#[derive(Debug)]
pub enum Product {
    /// A page, rated.
    Page(Box<PageProduct>),
    /// An image of a wanted size.
    Image {
        /// The bytes as served.
        bytes: Bytes,
        /// Its format, size and look.
        info: Box<ImageInfo>,
        /// The `Content-Type` as sent.
        content_type: Option<String>,
        /// Its terms of use, by its host and the answer.
        terms: Terms,
    },
    /// Nothing, for a reason that the log gives in words.
    Refused {
        /// The words.
        why: String,
    },
    /// An image that is not kept because its terms of use forbid it.
    Forbidden {
        /// All its terms of use.
        terms: Terms,
        /// Those that forbid to keep it.
        by: Vec<&'static str>,
    },
    /// The body of a robots.txt.
    Robots(Bytes),
    /// The body of a tdmrep.json.
    Tdmrep(Bytes),
    /// What a sitemap lists.
    Sitemap(SitemapProduct),
}

/// What a sitemap lists.
#[derive(Debug)]
pub struct SitemapProduct {
    /// Pages, the last changed ones first.
    pub pages: Vec<NewTask>,
    /// Further sitemaps, if it is an index.
    pub sitemaps: Vec<PageUrl>,
    /// Why it was not read to its end; `None` if it was.
    pub trouble: Option<String>,
}

/// What is kept of a page.
#[derive(Debug)]
pub struct PageProduct {
    /// Its own rating.
    pub document: DocumentScore,
    /// How likely it is on topic by its own text, 0 to 1: by the contrast of its words
    /// where the model has one, and otherwise by its perplexity. 0 where it is in a language
    /// that the job does not permit. `None` where the scorer has no judge.
    pub on_topic: Option<f64>,
    /// Whether that is a guess.
    pub guessed: bool,
    /// What its text says for a learning crawl.
    pub nearness: Option<Nearness>,
    /// Its links, each address once, with the best of its scores.
    pub links: Vec<NewTask>,
    /// Its images, each address once.
    pub images: Vec<NewImage>,
    /// Images that were left out because they are SVGs by name.
    pub svgs: u32,
    /// The perplexity of a run of unknown words.
    pub unknown: f64,
    /// Digest of the keyword table that its links are rated by.
    pub keywords: u64,
    /// Its normalised sentences, a line each.
    pub sentences: String,
    /// Its document, as far as it is known before the task is settled; `None` where none
    /// is kept.
    pub kept: Option<Box<Document>>,
    /// Its title.
    pub title: Option<String>,
    /// Which part of its text was rated and kept.
    pub text: TextShare,
    /// The language it declares.
    pub language: Option<String>,
    /// The language its text is in, where that is certain.
    pub recognised: Option<Language>,
    /// That is another one than the model's.
    pub foreign: bool,
    /// That is none of those that the job permits, so nothing of the page is kept.
    pub off_language: bool,
    /// Name of the encoding it was decoded with.
    pub charset: String,
    /// What its host, the answer and the page itself say of its use.
    pub terms: Terms,
    /// What of it forbade to keep something that the job keeps: its text, its images or
    /// both.
    pub forbidden: Vec<&'static str>,
    /// Its images, where it forbids their use.
    pub withheld: Vec<PageUrl>,
    /// True where the body was longer than the cap.
    pub truncated: bool,
    /// Digest of the letters of its text, by which a later visit sees whether the
    /// page has changed.
    pub digest: u64,
    /// The address that it calls its own.
    pub canonical: Option<PageUrl>,
    /// What its text is known again by.
    pub prints: Prints,
}

impl PageProduct {
    /// Gives the frontier what it is to know of the page.
    pub fn give(&mut self, effects: &mut Effects) {
        effects.links = std::mem::take(&mut self.links);
        effects.images = std::mem::take(&mut self.images);
        effects.svgs = self.svgs;
        effects.withheld = std::mem::take(&mut self.withheld);
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
