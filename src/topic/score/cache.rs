//! A cache of the ratings of short texts, over all pages: menus repeat their anchors on
//! every page of a site.

use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::measured::ShortRating;

/// The most bytes for the texts and their ratings.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// Longer texts are rarely found on a second page.
const MAX_TEXT_BYTES: usize = 256;

/// The approximate size of an entry besides its text.
const ENTRY_BYTES: u64 = 128;

/// Entries to allocate for at once; more are allocated as needed.
const EXPECTED: usize = 16_384;

/// Ratings by one model, one keyword table and one set of weights.
pub(super) struct RatingCache {
    known: Cache<Box<str>, ShortRating, Bytes>,
    asked: AtomicU64,
    found: AtomicU64,
}

impl Default for RatingCache {
    fn default() -> Self {
        Self {
            known: Cache::with_weighter(EXPECTED, MAX_BYTES, Bytes),
            asked: AtomicU64::new(0),
            found: AtomicU64::new(0),
        }
    }
}

impl RatingCache {
    /// The rating of a text, cached or computed by `rate`. Both are equal, because a
    /// rating depends on the text alone.
    pub fn of(&self, text: &str, rate: impl FnOnce(&str) -> ShortRating) -> ShortRating {
        if text.len() > MAX_TEXT_BYTES {
            return rate(text);
        }
        self.asked.fetch_add(1, Ordering::Relaxed);
        if let Some(known) = self.known.get(text) {
            self.found.fetch_add(1, Ordering::Relaxed);
            return known;
        }
        let rated = rate(text);
        self.known.insert(text.into(), rated);
        rated
    }

    /// How many texts of cacheable length were looked up since the last call, and how many
    /// of them were found.
    pub fn take_counts(&self) -> (u64, u64) {
        let found = self.found.swap(0, Ordering::Relaxed);
        (self.asked.swap(0, Ordering::Relaxed), found)
    }
}

/// Weighs an entry by its memory.
#[derive(Clone)]
struct Bytes;

impl Weighter<Box<str>, ShortRating> for Bytes {
    fn weight(&self, text: &Box<str>, _: &ShortRating) -> u64 {
        text.len() as u64 + ENTRY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::TextScore;

    fn rated(perplexity: f64) -> ShortRating {
        ShortRating {
            score: TextScore {
                perplexity,
                keyword: 0.0,
                weighted: perplexity,
            },
            link_keyword: 0.0,
        }
    }

    #[test]
    fn a_short_text_is_rated_once_and_memory_is_bounded() {
        let ratings = RatingCache::default();
        assert_eq!(ratings.of("home", |_| rated(7.0)).score.perplexity, 7.0);
        assert_eq!(ratings.of("home", |_| rated(8.0)).score.perplexity, 7.0);
        assert_eq!(ratings.take_counts(), (2, 1));
        assert_eq!(ratings.take_counts(), (0, 0));
        let long = "a".repeat(MAX_TEXT_BYTES + 1);
        ratings.of(&long, |_| rated(1.0));
        assert_eq!(ratings.of(&long, |_| rated(2.0)).score.perplexity, 2.0);
        assert_eq!(ratings.take_counts(), (0, 0), "long ones do not count");
        for n in 0..200_000 {
            ratings.of(&format!("text {n}"), |_| rated(3.0));
        }
        assert!(ratings.known.weight() <= MAX_BYTES);
    }
}
