//! What bodies are read with: how pages are taken apart, what is wanted of them, and how
//! their links are rated. `work` is the reading.

use std::sync::Arc;

use crate::address::PageUrl;
use crate::crawl::frontier::Rating;
use crate::language::Language;
use crate::metrics::Metrics;
use crate::page::{ImageCandidate, LinkParts, Obeyed};
use crate::topic::score::Scorer;
use crate::topic::strategy::{Learning, Score, Strategy};
use crate::web::extract;

/// Which languages are expected, and which are wanted.
#[derive(Debug, Clone, Default)]
pub struct Languages {
    /// That of the model, where it is known.
    pub model: Option<Language>,
    /// Those of the pages that are kept; empty for any.
    pub permitted: Vec<Language>,
    /// Whether the links of other pages are followed.
    pub follow_foreign: bool,
}

impl Languages {
    /// What is not certain is neither foreign nor off.
    pub(super) fn is_foreign(&self, recognised: Option<Language>) -> bool {
        let known = recognised.zip(self.model);
        known.is_some_and(|(found, model)| found != model)
    }

    pub(super) fn is_off(&self, recognised: Option<Language>) -> bool {
        !self.permitted.is_empty() && recognised.is_some_and(|l| !self.permitted.contains(&l))
    }
}

/// Which images are wanted.
#[derive(Debug, Clone)]
pub struct ImageRules {
    /// Whether any are.
    pub enabled: bool,
    /// Least width and height in pixels.
    pub min: (u32, u32),
    /// Greatest width and height in pixels.
    pub max: (u32, u32),
    /// How many times as long as the shorter side the longer one may be, 1 or more.
    pub max_aspect: f64,
    /// Size of the smallest file in bytes.
    pub min_bytes: usize,
}

impl ImageRules {
    pub(super) fn take(&self, width: u32, height: u32) -> bool {
        self.fits(width, height) && self.is_shapely(width, height)
    }

    fn fits(&self, width: u32, height: u32) -> bool {
        width >= self.min.0 && height >= self.min.1 && width <= self.max.0 && height <= self.max.1
    }

    fn is_shapely(&self, width: u32, height: u32) -> bool {
        f64::from(width.max(height)) <= self.max_aspect * f64::from(width.min(height))
    }

    /// Declared sizes are trusted only where they speak against an image.
    pub(super) fn may_take(&self, image: &ImageCandidate) -> bool {
        let (width, height) = (image.width, image.height);
        let fits = self.fits(
            width.unwrap_or(self.min.0.max(1)),
            height.unwrap_or(self.min.1.max(1)),
        );
        let both = width.zip(height);
        fits && both.is_none_or(|(width, height)| self.is_shapely(width, height))
    }
}

/// Reads bodies. Cheap to clone.
#[derive(Clone)]
pub struct Reader {
    /// How pages are taken apart.
    pub extract: extract::Options,
    /// Rates what they contain.
    pub scorer: Scorer,
    /// Decides in which order links are followed.
    pub strategy: Arc<dyn Strategy>,
    /// The digest of the strategy and its terms ([`Rating::digest`]).
    pub rating: u64,
    /// The perplexity below which the model was trained on a page's very text.
    pub trained: f64,
    /// Which images are wanted.
    pub images: ImageRules,
    /// Whether sentences are kept.
    pub sentences: bool,
    /// Whether documents are kept.
    pub documents: bool,
    /// Which languages are expected and wanted.
    pub languages: Languages,
    /// Which terms of use are obeyed.
    pub obeyed: Obeyed,
    /// Where it is counted how long each step takes.
    pub metrics: Metrics,
}

impl Strategy for Reader {
    fn link(&self, target: &PageUrl, parts: &LinkParts) -> Score {
        self.strategy.link(target, parts)
    }

    fn formula(&self, target: &PageUrl, parts: &LinkParts) -> String {
        self.strategy.formula(target, parts)
    }

    fn image(&self, document: f64) -> Score {
        self.strategy.image(document)
    }

    fn listed(&self) -> Score {
        self.strategy.listed()
    }

    fn prefers(&self) -> bool {
        self.strategy.prefers()
    }

    fn learning(&self) -> Option<&dyn Learning> {
        self.strategy.learning()
    }
}

impl Rating for Reader {
    fn digest(&self) -> u64 {
        self.rating
    }

    fn keywords(&self) -> u64 {
        self.scorer.keywords_digest()
    }

    fn keyword(&self, anchor: &str) -> f64 {
        self.scorer.anchor_keyword(anchor)
    }
}
