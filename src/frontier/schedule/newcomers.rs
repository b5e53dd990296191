//! The limit of open requests to hosts that are not known to answer.
//!
//! A host may accept a connection and send nothing, or a byte now and then. Names and
//! addresses for such hosts cost nothing, and each holds a request until the job's
//! timeout. So hosts that have returned nothing yet, and those that failed last, are
//! *newcomers*, and the number of open requests to them is limited. The limit adapts:
//! three quarters of all requests while newcomers answer promptly, as in a broad crawl
//! that keeps finding new hosts, and a quarter while they stay silent. There is no limit
//! before the first host has returned something, so a crawl starts at full speed.
//!
//! This module reads no store and no clock.

use std::collections::BTreeSet;

/// A newcomer that takes longer counts as silent, in milliseconds.
const PROMPT: u64 = 3_000;

/// A silent newcomer lowers the limit by this much; a prompt one raises it by one.
const LOWERED: usize = 4;

/// The open requests to newcomers.
#[derive(Debug)]
pub struct Newcomers {
    /// The greatest number of open requests overall.
    most: usize,
    bound: usize,
    /// Leases that are not silent yet, after the times of granting: lease numbers of several cells
    /// are not in order.
    young: BTreeSet<(u64, u64)>,
    silent: BTreeSet<u64>,
    /// Whether any host has returned something since this process started.
    any_gave: bool,
}

impl Default for Newcomers {
    /// Without a limit until the number of open requests is set.
    fn default() -> Self {
        Self {
            most: usize::MAX,
            bound: usize::MAX,
            young: BTreeSet::new(),
            silent: BTreeSet::new(),
            any_gave: false,
        }
    }
}

impl Newcomers {
    /// Sets the greatest number of open requests.
    pub fn set_most(&mut self, most: usize) {
        if most != self.most {
            self.most = most;
            self.bound = self.largest();
        }
    }

    /// The number of further requests that may be opened.
    pub fn room(&self) -> usize {
        if self.any_gave {
            self.bound.saturating_sub(self.open())
        } else {
            usize::MAX
        }
    }

    /// Notes the newcomers that have become silent by `now`.
    pub fn look(&mut self, now: u64) {
        while let Some(&(granted, lease)) = self.young.first()
            && now >= granted.saturating_add(PROMPT)
        {
            self.young.pop_first();
            self.silent.insert(lease);
            let lowered = self.bound.saturating_sub(LOWERED);
            self.bound = lowered.max(self.smallest());
        }
    }

    /// Books a request to a newcomer.
    pub fn asked(&mut self, lease: u64, now: u64) {
        self.young.insert((now, lease));
    }

    /// Books the end of a lease at any host. `answered` is whether the host has no
    /// failure now, `gave` whether it has ever returned something and did not fail last.
    pub fn ended(&mut self, lease: u64, answered: bool, gave: bool) {
        self.silent.remove(&lease);
        // At most as many as there are open requests.
        let young = self
            .young
            .iter()
            .find(|(_, young)| *young == lease)
            .copied();
        if young.is_some_and(|young| self.young.remove(&young)) && answered {
            self.bound = self.bound.saturating_add(1).min(self.largest());
        }
        self.any_gave |= gave;
    }

    fn open(&self) -> usize {
        self.young.len() + self.silent.len()
    }

    fn smallest(&self) -> usize {
        self.most.div_ceil(4)
    }

    fn largest(&self) -> usize {
        self.most - self.most / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn newcomers(most: usize) -> Newcomers {
        let mut newcomers = Newcomers::default();
        newcomers.set_most(most);
        newcomers
    }

    #[test]
    fn a_crawl_begins_as_fast_as_it_may() {
        let mut newcomers = newcomers(64);
        (0..64).for_each(|lease| newcomers.asked(lease, 0));
        newcomers.look(60_000);
        assert_eq!(newcomers.room(), usize::MAX);
        // Robots rules alone do not count as content.
        newcomers.ended(0, true, false);
        assert_eq!(newcomers.room(), usize::MAX);
        newcomers.ended(1, true, true);
        assert_eq!(newcomers.room(), 0);
    }

    #[test]
    fn the_bound_falls_with_those_that_are_silent_and_rises_with_those_that_answer() {
        let mut newcomers = newcomers(64);
        newcomers.ended(0, true, true);
        assert_eq!(newcomers.room(), 48);
        (1..=8).for_each(|lease| newcomers.asked(lease, 1_000));
        newcomers.look(1_000 + PROMPT - 1);
        assert_eq!(newcomers.room(), 40);
        newcomers.look(1_000 + PROMPT);
        assert_eq!(newcomers.room(), 16 - 8);
        // A late answer does not raise the limit.
        (1..=8).for_each(|lease| newcomers.ended(lease, true, true));
        assert_eq!(newcomers.room(), 16);
        for lease in 9..100 {
            newcomers.asked(lease, 9_000);
            newcomers.ended(lease, lease % 2 == 0, false);
        }
        assert_eq!(newcomers.room(), 48);
    }

    #[test]
    fn of_few_requests_some_are_for_newcomers() {
        for (most, bound) in [(1, 1), (2, 2), (3, 3), (4, 3), (8, 6)] {
            let mut newcomers = newcomers(most);
            newcomers.ended(0, true, true);
            assert_eq!(newcomers.room(), bound, "{most}");
            newcomers.asked(1, 0);
            newcomers.look(PROMPT);
            newcomers.ended(1, false, false);
            assert_eq!(newcomers.room(), most.div_ceil(4), "{most}");
        }
    }
}
