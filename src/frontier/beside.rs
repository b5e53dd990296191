//! The best page of a machine, with which links to other machines are compared.

use super::keys::Rank;
use crate::page::Bucket;

/// The place of the best page of some cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Best(pub(super) Rank);

impl From<(Bucket, f64)> for Best {
    fn from((bucket, score): (Bucket, f64)) -> Self {
        Self(Rank::new(bucket, score, u64::MAX))
    }
}
