//! The hosts that rest for a moment, by the page that they will be asked for next.
//!
//! A host may be asked for one page at a time and then rests, and what is about the topic
//! stands on few hosts. Who asks everybody who may be asked at once fetches poor pages only
//! because the hosts of the good ones rest. So a link is held against the best one that
//! waits for its host (best-first, as for one host alone: Cho, Garcia-Molina & Page 1998).
//!
//! Only a short rest is waited for, so one slow host does not hold up the others. Nor is a
//! seed waited for: it is asked for whatever it promises.

use std::collections::{BTreeSet, HashMap};

use super::keys::Rank;
use super::schedule::Slot;
use crate::page::Bucket;

/// The longest rest that is waited for, in milliseconds.
const MAX_REST: u64 = 5_000;
/// Hosts that are looked at for one whose rest is still waited for.
const MAX_LOOKED: usize = 100;

/// The hosts that rest.
#[derive(Debug, Default)]
pub(super) struct Resting {
    by_rank: BTreeSet<(Rank, Slot)>,
    /// The rank of each, and until when it is waited for, in milliseconds since 1970.
    of: HashMap<Slot, (Rank, u64)>,
}

impl Resting {
    /// A host rests with a page of this rank, until the time `due` where that is known.
    pub fn insert(&mut self, slot: Slot, rank: Rank, due: Option<u64>, now: u64) {
        self.remove(slot);
        let last = now.saturating_add(MAX_REST);
        let until = due.unwrap_or(last);
        if until <= last && rank.bucket != Bucket::Seed {
            self.by_rank.insert((rank, slot));
            self.of.insert(slot, (rank, until));
        }
    }

    /// A host does not rest, or not any more.
    pub fn remove(&mut self, slot: Slot) {
        if let Some((rank, _)) = self.of.remove(&slot) {
            self.by_rank.remove(&(rank, slot));
        }
    }

    /// The best rank of a page whose host is waited for.
    pub fn best(&self, now: u64) -> Option<Rank> {
        let looked = self.by_rank.iter().take(MAX_LOOKED);
        let mut waited = looked.filter(|(_, slot)| self.of.get(slot).is_some_and(|o| o.1 >= now));
        waited.next().map(|(rank, _)| *rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(score: f64) -> Rank {
        Rank::new(Bucket::Medium, score, 1)
    }

    #[test]
    fn only_short_rests_are_waited_for() {
        let mut resting = Resting::default();
        assert_eq!(resting.best(0), None);
        resting.insert(1, rank(5.0), Some(1_000 + MAX_REST + 1), 1_000);
        assert_eq!(resting.best(1_000), None);
        resting.insert(2, rank(7.0), Some(1_500), 1_000);
        resting.insert(3, rank(6.0), None, 1_000);
        assert_eq!(resting.best(1_000), Some(rank(6.0)));
        // One that answers slowly is not waited for longer either.
        resting.insert(2, rank(7.0), Some(9_000), 8_000);
        assert_eq!(resting.best(8_000), Some(rank(7.0)));
        resting.remove(2);
        assert_eq!(resting.best(8_000), None);
    }

    #[test]
    fn a_seed_is_not_waited_for() {
        let mut resting = Resting::default();
        resting.insert(1, Rank::new(Bucket::Seed, 0.0, 1), None, 0);
        assert_eq!(resting.best(0), None);
    }

    #[test]
    fn a_host_rests_with_one_page() {
        let mut resting = Resting::default();
        resting.insert(1, rank(5.0), None, 0);
        resting.insert(1, rank(9.0), None, 0);
        assert_eq!(resting.best(0), Some(rank(9.0)));
        resting.remove(1);
        resting.remove(1);
        assert_eq!(resting.best(0), None);
        assert!(resting.of.is_empty());
    }
}
