//! The interface of strategies that learn from the pages of their own crawl.

use super::Score;
use crate::page::{Clues, Heard, LinkParts, Nearness, Part};

/// Rates links by their clues, and learns from their targets.
pub trait Learning: Send + Sync {
    /// The score of a link with these clues, whose rating without them has the parts
    /// `link`.
    fn rate(&self, clues: &Clues, link: Option<&LinkParts>) -> Score;

    /// How good a link is, independent of other links to the same address; higher is
    /// better. Its rating without clues has the parts `link`.
    fn link_value(&self, clues: &Clues, link: Option<&LinkParts>) -> f64;

    /// How far a page with this nearness is on topic, 0 to 1.
    fn judge(&self, nearness: &Nearness) -> f64;

    /// Takes a page into account from now on; returns the state to store for it in
    /// addition to what is stored already.
    fn hear(&self, nearness: &Nearness) -> Option<Heard>;

    /// Restores all stored states; false if they are of another version.
    fn restore_judge(&self, kept: Vec<Heard>) -> bool;

    /// Learns that these clues led to a page that was on topic to this degree, 0 to 1.
    fn learn(&self, clues: &Clues, reward: f64);

    /// How many examples it has learned from.
    fn examples(&self) -> u64;

    /// The whole learned state.
    fn snapshot(&self) -> Vec<u8>;

    /// Restores a learned state; false if it is of another version.
    fn restore(&self, snapshot: &[u8]) -> bool;

    /// Whether the fetch with this number explores; if so, a random number for it.
    fn explores(&self, fetch: u64) -> Option<u64>;

    /// The probability that a link with this score is on topic, 0 to 1.
    fn chance(&self, score: f64) -> f64;

    /// A link is not fetched while a more likely one will be available shortly, if its own
    /// probability is below this share of the other's: at 0.5 half of it; 0 disables waiting.
    fn patience(&self) -> f64;

    /// The weight of the learned part in a score, 0 to 1; the rest is the rating without clues.
    fn weight(&self) -> f64;

    /// The parts of the score, in order.
    fn parts(&self, clues: &Clues, link: Option<&LinkParts>) -> Vec<Part>;
}
