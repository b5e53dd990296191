//! What a strategy must do that learns from the pages of its own crawl.

use super::Score;
use crate::page::{Clues, Heard, LinkParts, Nearness, Part};

/// What rates links by their clues, and learns from what they led to.
pub trait Learning: Send + Sync {
    /// The score of a link of these clues, whose rating without them has these parts.
    fn rate(&self, clues: &Clues, link: Option<&LinkParts>) -> Score;

    /// How good a link is apart from all others to the same address; higher is better.
    fn link_value(&self, clues: &Clues) -> f64;

    /// How far a page is on topic whose text says this, 0 to 1.
    fn judge(&self, nearness: &Nearness) -> f64;

    /// Goes by a page from now on: what is to be kept of it beside what is kept already.
    fn hear(&self, nearness: &Nearness) -> Option<Heard>;

    /// Begins with all that was kept; false where that is of another version.
    fn restore_judge(&self, kept: Vec<Heard>) -> bool;

    /// Learns that these clues led to a page that was on topic so far, 0 to 1.
    fn learn(&self, clues: &Clues, reward: f64);

    /// How many examples it has learned from.
    fn examples(&self) -> u64;

    /// All that it has learned.
    fn snapshot(&self) -> Vec<u8>;

    /// Begins with what was learned before; false where that is of another version.
    fn restore(&self, snapshot: &[u8]) -> bool;

    /// Whether the fetch of this number is to explore, with a number drawn for it.
    fn explores(&self, fetch: u64) -> Option<u64>;

    /// How likely a link of this score is on topic, 0 to 1.
    fn chance(&self, score: f64) -> f64;

    /// A link is not asked for while one is to be had in a moment that is more likely on
    /// topic than it is by this, 0 to 1: at 0.5 by twice, at 0 by nothing.
    fn patience(&self) -> f64;

    /// How much what was learned weighs in a score, 0 to 1; all else is the rating without
    /// clues.
    fn weight(&self) -> f64;

    /// What the score is made of, in order.
    fn parts(&self, clues: &Clues, link: Option<&LinkParts>) -> Vec<Part>;
}
