//! The state of the control sample.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::harvest::Curve;
use crate::address::PageUrl;

/// How large the control sample is.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Control {
    /// The share of link fetches that go to it, 0 to 0.5; none at 0.
    pub share: f64,
    /// What its random numbers follow from.
    pub seed: u64,
}

/// A link that was drawn and is not finished.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Drawn {
    pub url: PageUrl,
    /// Its score, where it lay above the razor: it is not followed for that score.
    pub razored: Option<f64>,
}

/// All that is kept of the control sample; a record of its own, beside the counters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The share in force, see [`Control`].
    pub share: f64,
    /// The seed in force.
    pub seed: u64,
    /// Length of the list.
    pub listed: u64,
    /// Random numbers taken.
    pub taken: u64,
    /// Draws that are due, in parts of one.
    pub owed: f64,
    /// In the order of the draws.
    pub pending: Vec<Drawn>,
    /// What was found.
    pub curve: Curve,
}

impl Sample {
    /// A number below the length of the list; `None` where it is empty.
    pub fn random(&mut self) -> Option<u64> {
        let number = xxh3_64_with_seed(&self.taken.to_le_bytes(), self.seed);
        self.taken = self.taken.wrapping_add(1);
        // The high half of the product: as uniform as the number, but for 1 in 2^64 of
        // the length.
        let scaled = (u128::from(number) * u128::from(self.listed)) >> 64;
        (self.listed > 0).then_some(scaled as u64)
    }

    pub fn is_pending(&self, url: &PageUrl) -> bool {
        self.pending.iter().any(|drawn| drawn.url == *url)
    }
}
