//! How many requests may be open at hosts that are not known to answer.
//!
//! A host may take the connection and say nothing, or a byte now and then: names and
//! addresses for such hosts cost nothing, and each holds a request for as long as the job
//! waits for an answer. So those that have given nothing yet, and those that failed last,
//! are *newcomers*, and the requests that are open at them are bounded. The bound follows
//! what they are found to be: three quarters of all requests while newcomers answer
//! promptly, as in a broad crawl that meets ever new hosts, and a quarter where they keep
//! silent. There is no bound before any host has given something, so a crawl begins as fast
//! as it may.
//!
//! This module reads no store and no clock.

use std::collections::{BTreeMap, BTreeSet};

/// A newcomer that takes longer is silent, in milliseconds.
const PROMPT: u64 = 3_000;

/// By how much one that is silent lowers the bound; a prompt one raises it by one.
const LOWERED: usize = 4;

/// The requests that are open at newcomers.
#[derive(Debug)]
pub struct Newcomers {
    /// Requests that may be open at all.
    most: usize,
    bound: usize,
    /// Leases that are not silent yet, in the order in which they were given, with when.
    young: BTreeMap<u64, u64>,
    silent: BTreeSet<u64>,
    /// Whether a host has given anything since this process began.
    any_gave: bool,
}

impl Default for Newcomers {
    /// Without a bound until it is known how many requests may be open.
    fn default() -> Self {
        Self {
            most: usize::MAX,
            bound: usize::MAX,
            young: BTreeMap::new(),
            silent: BTreeSet::new(),
            any_gave: false,
        }
    }
}

impl Newcomers {
    /// So many requests may be open at the same time.
    pub fn set_most(&mut self, most: usize) {
        if most != self.most {
            self.most = most;
            self.bound = self.largest();
        }
    }

    /// How many more may be opened.
    pub fn room(&self) -> usize {
        if self.any_gave {
            self.bound.saturating_sub(self.open())
        } else {
            usize::MAX
        }
    }

    /// Sees who has become silent by `now`.
    pub fn look(&mut self, now: u64) {
        while let Some(first) = self.young.first_entry()
            && now >= first.get().saturating_add(PROMPT)
        {
            self.silent.insert(*first.key());
            first.remove();
            let lowered = self.bound.saturating_sub(LOWERED);
            self.bound = lowered.max(self.smallest());
        }
    }

    /// A newcomer is asked.
    pub fn asked(&mut self, lease: u64, now: u64) {
        self.young.insert(lease, now);
    }

    /// A lease at any host has ended. `answered` is whether the host failed last, `gave` whether it
    /// has ever given something.
    pub fn ended(&mut self, lease: u64, answered: bool, gave: bool) {
        self.silent.remove(&lease);
        if self.young.remove(&lease).is_some() && answered {
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
        // Rules alone say nothing of what a host gives.
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
        // What comes late after all makes nothing better.
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
