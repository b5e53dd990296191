//! The hosts in a short crawl delay, ordered by their next page.
//!
//! A host gets one request at a time and then rests, and the pages on a topic are on few
//! hosts. Leasing every ready host at once spends fetches on weak links while the strong
//! ones wait out their crawl delay. So a link is compared with the best one that waits
//! for its host (best-first, as on a single host: Cho, Garcia-Molina & Page 1998).
//!
//! Only short delays are waited for, so one slow host does not hold up the others. Seeds
//! are never waited for and never made to wait.

use std::collections::{BTreeMap, HashMap};

use super::head::{Head, Slot};
use crate::keys::{Rank, class};
use crate::page::Bucket;

/// The longest delay that is waited for, in milliseconds.
pub const MAX_REST: u64 = 5_000;
/// Most hosts that are examined to find one whose delay is still waited for.
const MAX_LOOKED: usize = 100;

/// The hosts in a short delay.
#[derive(Debug, Default)]
pub struct Resting {
    /// The end of each wait, in milliseconds since 1970.
    by_rank: BTreeMap<(Rank, Slot), u64>,
    of: HashMap<Slot, Rank>,
}

impl Resting {
    /// Adds a host in its delay, which ends at `due` if that is known. `head` is its
    /// next task. Only pages other than seeds are waited for.
    pub fn insert(&mut self, slot: Slot, head: &Head, due: Option<u64>, now: u64) {
        self.remove(slot);
        let last = now.saturating_add(MAX_REST);
        let until = due.unwrap_or(last);
        let is_waited_for = head.class == class::PAGE && head.rank.bucket != Bucket::Seed;
        if until <= last && is_waited_for {
            self.by_rank.insert((head.rank, slot), until);
            self.of.insert(slot, head.rank);
        }
    }

    /// Removes a host that is not, or no longer, in its delay.
    pub fn remove(&mut self, slot: Slot) {
        if let Some(rank) = self.of.remove(&slot) {
            self.by_rank.remove(&(rank, slot));
        }
    }

    /// The best rank of a page whose host is waited for.
    pub fn best(&self, now: u64) -> Option<Rank> {
        let mut looked = self.by_rank.iter().take(MAX_LOOKED);
        let waited = looked.find(|(_, until)| **until >= now);
        waited.map(|((rank, _), _)| *rank)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(score: f64) -> Rank {
        Rank::new(Bucket::Medium, score, 1)
    }

    fn head(class: u8, rank: Rank) -> Head {
        Head {
            rank,
            class,
            queue_key: Vec::new(),
            value: Vec::new(),
        }
    }

    fn page(score: f64) -> Head {
        head(class::PAGE, rank(score))
    }

    #[test]
    fn only_short_rests_are_waited_for() {
        let mut resting = Resting::default();
        assert_eq!(resting.best(0), None);
        resting.insert(1, &page(5.0), Some(1_000 + MAX_REST + 1), 1_000);
        assert_eq!(resting.best(1_000), None);
        resting.insert(2, &page(7.0), Some(1_500), 1_000);
        resting.insert(3, &page(6.0), None, 1_000);
        assert_eq!(resting.best(1_000), Some(rank(6.0)));
        // A host that answers slowly is not waited for longer either.
        resting.insert(2, &page(7.0), Some(9_000), 8_000);
        assert_eq!(resting.best(8_000), Some(rank(7.0)));
        resting.remove(2);
        assert_eq!(resting.best(8_000), None);
    }

    #[test]
    fn neither_seeds_nor_images_are_waited_for() {
        let mut resting = Resting::default();
        let seed = head(class::PAGE, Rank::new(Bucket::Seed, 0.0, 1));
        resting.insert(1, &seed, None, 0);
        resting.insert(2, &head(class::IMAGE, rank(0.0)), None, 0);
        assert_eq!(resting.best(0), None);
    }

    #[test]
    fn a_host_rests_with_one_page() {
        let mut resting = Resting::default();
        resting.insert(1, &page(5.0), None, 0);
        resting.insert(1, &page(9.0), None, 0);
        assert_eq!(resting.best(0), Some(rank(9.0)));
        resting.remove(1);
        resting.remove(1);
        assert_eq!(resting.best(0), None);
        assert!(resting.of.is_empty());
    }
}
