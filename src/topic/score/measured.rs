//! The measurements of a short text.

use crate::page::TextScore;

/// The measurements behind the rating of a short text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ShortMeasures {
    pub(super) perplexity: f64,
    pub(super) keyword: f64,
    pub(super) tokens: usize,
}

/// The rating of a short text.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShortRating {
    pub(super) score: TextScore,
    pub(super) link_keyword: f64,
}
