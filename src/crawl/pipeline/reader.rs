//! The settings for reading bodies: how pages are parsed, which content is wanted, and
//! how links are rated. The reading itself is in `work`.

use std::collections::HashMap;
use std::sync::Arc;

use crate::address::PageUrl;
use crate::frontier::Rating;
use crate::language::Language;
use crate::metrics::Metrics;
use crate::page::{ImageCandidate, LinkParts, Signal};
use crate::pdf;
use crate::rules::RuleSet;
use crate::settings::JobSettings;
use crate::topic::score::Scorer;
use crate::topic::strategy::{Learning, Score, Strategy};
use crate::web::extract;

/// The expected and the wanted languages.
#[derive(Debug, Clone, Default)]
pub struct Languages {
    /// The model's language, if it is known.
    pub model: Option<Language>,
    /// The languages of pages that are kept; empty for any.
    pub permitted: Vec<Language>,
    /// Whether links of pages in other languages are followed.
    pub follow_foreign: bool,
}

impl Languages {
    /// An uncertain language is neither foreign nor unwanted.
    pub(super) fn is_foreign(&self, recognised: Option<Language>) -> bool {
        let known = recognised.zip(self.model);
        known.is_some_and(|(found, model)| found != model)
    }

    pub(super) fn is_off(&self, recognised: Option<Language>) -> bool {
        !self.permitted.is_empty() && recognised.is_some_and(|l| !self.permitted.contains(&l))
    }
}

/// The wanted images.
#[derive(Debug, Clone)]
pub struct ImageRules {
    /// Whether any images are wanted.
    pub enabled: bool,
    /// Minimum width and height in pixels.
    pub min: (u32, u32),
    /// Maximum width and height in pixels.
    pub max: (u32, u32),
    /// The maximum ratio of the longer side to the shorter one, 1 or more.
    pub max_aspect: f64,
    /// Minimum file size in bytes.
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

    /// Declared sizes are trusted only if they rule out an image.
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

/// Reads PDF files within the limits of a job.
pub fn pdf_reader(config: &JobSettings) -> pdf::Reader {
    let section = &config.pdf;
    pdf::Reader::of_this_program(pdf::Limits {
        time: section.time,
        memory: section.memory.bytes(),
        pages: section.pages,
        // Text beyond the longest of a page would be cut off afterwards.
        text: config.text.max_bytes.as_len(),
    })
}

/// Reads bodies. Cheap to clone.
#[derive(Clone)]
pub struct Reader {
    /// How pages are parsed.
    pub extract: extract::Options,
    /// Rates the contents of pages.
    pub scorer: Scorer,
    /// Decides the order of links.
    pub strategy: Arc<dyn Strategy>,
    /// The digest of the strategy and its terms ([`Rating::digest`]).
    pub rating: u64,
    /// The perplexity below which a page's own text was part of the training text.
    pub trained: f64,
    /// The wanted images.
    pub images: ImageRules,
    /// Whether sentences are kept.
    pub sentences: bool,
    /// Whether documents are kept.
    pub documents: bool,
    /// Whether anything is kept that publishers could forbid.
    pub keeps: bool,
    /// The expected and the wanted languages.
    pub languages: Languages,
    /// The terms of use that are obeyed.
    pub obeyed: Vec<Signal>,
    /// The pages whose links are all fetched, and the depth to which this holds.
    pub indexes: Arc<HashMap<PageUrl, u8>>,
    /// Reads PDF files, if the job accepts them as pages.
    pub pdf: Option<pdf::Reader>,
    /// The rules that take fields from pages.
    pub rules: Option<Arc<RuleSet>>,
    /// Measures the time of each step.
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
