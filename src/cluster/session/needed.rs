//! Which checkpoints of this session another one may need.

use std::collections::{BTreeMap, BTreeSet};

/// Checkpoints that are needed, and those that were needed until recently: a broker that lost its
/// last writes may name those again.
#[derive(Debug)]
pub struct Needed {
    kept: u64,
    /// Since when each of them has not been needed.
    since: BTreeMap<u64, Option<u64>>,
}

impl Needed {
    /// Keeps checkpoints for this many milliseconds after they were last needed.
    pub fn new(kept: u64) -> Self {
        let since = BTreeMap::new();
        Self { kept, since }
    }

    /// Those that are needed now, and those that were until recently. `now` is in milliseconds.
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
        // Named again, so its time starts when it is next unneeded.
        assert_eq!(with(&[7, 9], KEPT + 2_000), [7, 9]);
        assert_eq!(with(&[9], 2 * KEPT + 1_500), [7, 9]);
        assert_eq!(with(&[9], 3 * KEPT + 1_500), [9]);
    }
}
