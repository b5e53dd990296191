//! Which checkpoints of this session somebody may need.

use std::collections::{BTreeMap, BTreeSet};

/// Checkpoints that are needed, and those that were a short time ago: a broker that lost its last
/// writes names those again that it named before.
#[derive(Debug)]
pub struct Needed {
    kept: u64,
    /// Since when each of them is not needed.
    since: BTreeMap<u64, Option<u64>>,
}

impl Needed {
    /// Keeps what is not needed any more for so long, in milliseconds.
    pub fn new(kept: u64) -> Self {
        let since = BTreeMap::new();
        Self { kept, since }
    }

    /// Those that are needed now, and those that were so a short time ago. `now` is in
    /// milliseconds.
    pub fn with(&mut self, needed: &BTreeSet<u64>, now: u64) -> BTreeSet<u64> {
        for number in needed {
            self.since.insert(*number, None);
        }
        self.since.retain(|number, since| {
            needed.contains(number) || now.saturating_sub(*since.get_or_insert(now)) < self.kept
        });
        self.since.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: u64 = 600_000;

    #[test]
    fn what_was_needed_stays_for_a_while() {
        let mut needed = Needed::new(KEPT);
        let mut with = |numbers: &[u64], now| {
            let all = needed.with(&numbers.iter().copied().collect(), now);
            Vec::from_iter(all)
        };
        assert_eq!(with(&[3, 7], 0), [3, 7]);
        assert_eq!(with(&[7], 1_000), [3, 7]);
        assert_eq!(with(&[7, 9], KEPT + 999), [3, 7, 9]);
        assert_eq!(with(&[9], KEPT + 1_000), [7, 9]);
        // Named again, it counts from its next end on.
        assert_eq!(with(&[7, 9], KEPT + 2_000), [7, 9]);
        assert_eq!(with(&[9], 2 * KEPT + 1_500), [7, 9]);
        assert_eq!(with(&[9], 3 * KEPT + 1_500), [9]);
    }
}
