//! What a job can limit, and how much of it one store has done.
//!
//! Counters are stored in cells and move with them. The work that a machine of a cluster has done
//! itself is counted separately, for the whole store, in the batch that does the work. So this
//! count is never below what the outputs contain, even after a kill, and cells that arrive or leave
//! do not change it.

use serde::{Deserialize, Serialize};

use super::record::Counts;

/// An amount of each quantity that a job can limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// Pages fetched successfully, each counted once.
    pub documents: u64,
    /// Page requests that were answered or failed.
    pub fetches: u64,
    /// Bytes of all bodies.
    pub bytes: u64,
}

/// How many bytes an amount takes in the store.
const LENGTH: usize = 24;

impl Amount {
    /// The difference between two states of a cell. What was taken down in between is not
    /// subtracted: the work was done.
    pub(super) fn between(before: &Counts, after: &Counts) -> Self {
        Self {
            documents: after.documents.saturating_sub(before.documents),
            fetches: after.fetches.saturating_sub(before.fetches),
            bytes: after.bytes.saturating_sub(before.bytes),
        }
    }

    /// Whether it is nothing.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// Combines each quantity with the same of another.
    #[must_use]
    pub fn with(self, other: Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            documents: combine(self.documents, other.documents),
            fetches: combine(self.fetches, other.fetches),
            bytes: combine(self.bytes, other.bytes),
        }
    }

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// What is left of it without the other.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.with(other, u64::saturating_sub)
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        let all = [self.documents, self.fetches, self.bytes];
        all.map(u64::to_be_bytes).concat()
    }

    /// `None` if the bytes are not an amount.
    pub(super) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let all: &[u8; LENGTH] = bytes.try_into().ok()?;
        let (numbers, _) = all.as_chunks();
        let [documents, fetches, bytes] = numbers else {
            return None;
        };
        Some(Self {
            documents: u64::from_be_bytes(*documents),
            fetches: u64::from_be_bytes(*fetches),
            bytes: u64::from_be_bytes(*bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_read_as_it_is_written() {
        let amount = Amount {
            documents: 1,
            fetches: u64::MAX,
            bytes: 1 << 40,
        };
        assert_eq!(Amount::of_bytes(&amount.to_bytes()), Some(amount));
        assert_eq!(Amount::of_bytes(&[0; 23]), None);
        assert_eq!(Amount::of_bytes(&[]), None);
    }
}
