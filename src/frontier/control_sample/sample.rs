//! The state of the control sample.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::harvest::Curve;
use crate::address::PageUrl;

/// The size of the control sample.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SampleSettings {
    /// The share of link fetches for it, 0 to 0.5; 0 switches it off.
    pub share: f64,
    /// The seed of its random numbers.
    pub seed: u64,
}

/// A link that was drawn and is not finished.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DrawnLink {
    pub url: PageUrl,
    /// Its score, if that is above the razor and would keep the link from being
    /// followed.
    pub razored: Option<f64>,
}

/// The stored state of the control sample; a separate record beside the counters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The share in force, see [`SampleSettings`].
    pub share: f64,
    /// The seed in force.
    pub seed: u64,
    /// Length of the list.
    pub listed: u64,
    /// Random numbers taken.
    pub taken: u64,
    /// Draws that are due; the fraction is carried over.
    pub owed: f64,
    /// Drawn links that are not finished, in the order of the draws.
    pub pending: Vec<DrawnLink>,
    /// The counts so far.
    pub curve: Curve,
}

impl Sample {
    /// A random number below the length of the list; `None` if the list is empty.
    pub fn random(&mut self) -> Option<u64> {
        let number = xxh3_64_with_seed(&self.taken.to_le_bytes(), self.seed);
        self.taken = self.taken.wrapping_add(1);
        // The high half of the product: uniform up to a bias of the length divided by
        // 2^64.
        let scaled = (u128::from(number) * u128::from(self.listed)) >> 64;
        (self.listed > 0).then_some(scaled as u64)
    }

    pub fn is_pending(&self, url: &PageUrl) -> bool {
        self.pending.iter().any(|drawn| drawn.url == *url)
    }
}
