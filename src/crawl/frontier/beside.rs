//! What other machines could ask for.

use serde::{Deserialize, Serialize};

use super::keys::Rank;
use crate::page::Bucket;

/// The place of the best page of some cells. Other machines are told the bucket and the score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "(Bucket, f64)", into = "(Bucket, f64)")]
pub struct Best(pub(super) Rank);

/// What other machines could ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beside {
    /// Their best page.
    pub best: Best,
    /// Whether so few pages may still be asked for by all machines that only the best of all
    /// should be. Otherwise a page may be less good, as by
    /// [`Learning::patience`](crate::topic::strategy::Learning::patience).
    pub few_left: bool,
}

impl From<(Bucket, f64)> for Best {
    fn from((bucket, score): (Bucket, f64)) -> Self {
        Self(Rank::new(bucket, score, u64::MAX))
    }
}

impl From<Best> for (Bucket, f64) {
    fn from(Best(rank): Best) -> Self {
        (rank.bucket, rank.score())
    }
}
