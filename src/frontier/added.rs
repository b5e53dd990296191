//! The input of the frontier: pages, and images with the words around them.

use serde::{Deserialize, Serialize};

use crate::address::PageUrl;
use crate::page::{Bucket, Clues, ImageContext, LinkParts};

/// The longest anchor whose words are kept, in bytes.
pub const MAX_ANCHOR: usize = 200;

/// A page to be added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewTask {
    /// Its address.
    pub url: PageUrl,
    /// Its priority class; `None` if the score is above the cutoff (`razor`): the link
    /// is recorded and not followed.
    pub bucket: Option<Bucket>,
    /// Its score, lower is better.
    pub score: f64,
    /// The parts of the score.
    pub parts: Option<LinkParts>,
    /// The words of the anchor as the language model reads them, if it has any. They are
    /// kept until the link is fetched, up to [`MAX_ANCHOR`] bytes.
    pub anchor: Option<String>,
    /// The features that a learning crawl rates it by; the score is then ignored.
    pub clues: Option<Clues>,
}

impl NewTask {
    /// A seed of the operator.
    pub(super) fn seed(url: &PageUrl) -> Self {
        Self {
            bucket: Some(Bucket::Seed),
            ..Self::rated(url.clone(), (0.0, None))
        }
    }

    /// An address with a score but without its parts, such as an image or a sitemap.
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

    /// The words of the anchor, if they are short enough to keep.
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
    /// As for a page.
    pub bucket: Option<Bucket>,
    /// Its score, lower is better.
    pub score: f64,
    /// The words around it, kept until the image is fetched.
    pub context: ImageContext,
}

/// Where an added address was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Origin {
    /// Number of the finished page that names it; `None` for addresses that the operator
    /// named.
    pub via: Option<u64>,
    /// Links from the nearest seed; for a sitemap, the number of index files above it.
    pub hops: u32,
    /// Redirects that led here.
    pub redirects: u8,
    /// Whether the text of the page that names it has changed since the last visit; `None`
    /// at a first visit.
    pub changed: Option<bool>,
}
