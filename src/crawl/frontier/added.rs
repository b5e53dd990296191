//! What is added to the frontier: pages, and images with the words around them.

use crate::address::PageUrl;
use crate::page::{Bucket, Clues, ImageContext, LinkParts};

/// The longest anchor whose words are kept, in bytes.
pub const MAX_ANCHOR: usize = 200;

/// A page to be added.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTask {
    /// Its address.
    pub url: PageUrl,
    /// Its priority class; `None` where the score lies above the razor: it is
    /// recorded and not followed.
    pub bucket: Option<Bucket>,
    /// Its score, lower is better.
    pub score: f64,
    /// What the score was made of.
    pub parts: Option<LinkParts>,
    /// The words of the anchor as the language model reads them, where it has any.
    /// Those of a link that is not fetched yet are kept, up to [`MAX_ANCHOR`] bytes.
    pub anchor: Option<String>,
    /// What a learning crawl rates it by; the score is ignored then.
    pub clues: Option<Clues>,
}

impl NewTask {
    /// A page that the operator names.
    pub(super) fn seed(url: &PageUrl) -> Self {
        Self {
            bucket: Some(Bucket::Seed),
            ..Self::rated(url.clone(), (0.0, None))
        }
    }

    /// An address with a score but without its parts, as of images and sitemaps.
    pub(super) fn rated(url: PageUrl, (score, bucket): (f64, Option<Bucket>)) -> Self {
        Self {
            url,
            bucket,
            score,
            parts: None,
            anchor: None,
            clues: None,
        }
    }

    /// The words of its anchor, where they are kept.
    pub(super) fn kept_anchor(&self) -> Option<String> {
        let anchor = self.anchor.as_ref();
        anchor.filter(|words| words.len() <= MAX_ANCHOR).cloned()
    }
}

/// An image to be added, with the words around it on one page.
#[derive(Debug, Clone, PartialEq)]
pub struct NewImage {
    /// Its address.
    pub url: PageUrl,
    /// Other addresses that the page offers for the same picture, best first. They are
    /// tried one after the other if there is none at the first.
    pub spares: Vec<PageUrl>,
    /// As for a page.
    pub bucket: Option<Bucket>,
    /// Its score, lower is better.
    pub score: f64,
    /// The words, kept until the bytes are there.
    pub context: ImageContext,
}

/// Where an added address was found.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Origin {
    /// Number of the page among the finished; `None` for what the operator named.
    pub via: Option<u64>,
    /// Links from the nearest seed; for a sitemap, the index files above it.
    pub hops: u32,
    /// Redirects that led here.
    pub redirects: u8,
}
