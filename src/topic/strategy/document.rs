//! A link's score is the perplexity of its page (Remus & Biemann 2016).

use super::{Parameters, Score, Strategy};
use crate::address::PageUrl;
use crate::page::{Bucket, LinkParts};

pub(super) struct StrategyDocument {
    pub parameters: Parameters,
}

impl Strategy for StrategyDocument {
    fn link(&self, _: &PageUrl, parts: &LinkParts) -> Score {
        self.image(parts.document)
    }

    fn formula(&self, _: &PageUrl, parts: &LinkParts) -> String {
        format!("{:.3}, the page's perplexity", parts.document)
    }

    fn image(&self, document: f64) -> Score {
        (document, self.parameters.boundaries.bucket(document))
    }

    /// Last in the bucket `normal`.
    fn listed(&self) -> Score {
        (self.parameters.boundaries.normal, Some(Bucket::Normal))
    }
}
