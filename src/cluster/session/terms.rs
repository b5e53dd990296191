//! How long a session waits for what.
//!
//! # Why it is safe
//!
//! Clocks may run at 0.8 to 1.25 times the true speed, so one may run 1.25 / 0.8 = 1.5625 times as
//! fast as another. Let *b* be the true moment of the broker's last answers to a session: it has
//! stored a renewal, and confirmed that a cell is still the session's. Both calls were made before
//! *b*, and the session writes to the web for one term after it made them, by its own clock; that
//! is at most 1.25 terms of true time after *b*. The next owner of the cell gets it from the broker
//! after *b*, and is [quiet](Terms::quiet) for 1.6 terms by its own clock; that is at least 1.28
//! terms. So the first has stopped before the second begins, whatever they know about each other.
//! No session has to judge correctly which others are dead. The argument also holds if the broker
//! forgets the last minute, because then both moments are counted from what it says after that.
//!
//! With 4/3 of a term, as other systems use, the second clock may run only 1.33 times as fast as
//! the first.

use std::time::Duration;

use crate::clock::millis;
use crate::clocks::PassTimes;

/// The shortest term.
pub const SHORTEST_TERM: Duration = Duration::from_secs(5);
/// The longest term.
pub const LONGEST_TERM: Duration = Duration::from_secs(300);

/// How long a session waits for what, in milliseconds of its own clock.
#[derive(Debug, Clone)]
pub struct Terms {
    /// How long it may write to the web after a renewal.
    pub(super) term: u64,
    /// How long it does not write after taking a cell, and after its term has lapsed.
    pub(super) quiet: u64,
    /// How long another session may be silent before it is ended.
    pub(super) patience: u64,
    /// The time between two renewals.
    pub(super) renew: u64,
    /// How old its last renewal may be while it judges others.
    pub(super) sure: u64,
    /// How long a call may take.
    pub(super) call: u64,
    /// How long another session must have been alive before it is given cells.
    pub(super) settle: u64,
    /// How long no session must have had anything to do for the job to be done.
    pub(super) rest: u64,
}

impl Terms {
    /// The times for a term, which is clamped to [`SHORTEST_TERM`] and [`LONGEST_TERM`].
    pub fn new(term: Duration, settle: Duration) -> Self {
        let term = millis(term.clamp(SHORTEST_TERM, LONGEST_TERM));
        let wait = (term * 8).div_ceil(5);
        Self {
            term,
            quiet: wait,
            patience: wait,
            renew: term / 6,
            sure: term / 2,
            call: term / 3,
            settle: millis(settle),
            rest: wait,
        }
    }

    /// How often to check whether there is something to do.
    pub fn tick(&self) -> Duration {
        Duration::from_millis(self.renew / 4)
    }

    /// How long the passes of IP addresses last: shorter than a term, because a new owner of a cell
    /// waits that long, but long enough to be renewed a few times.
    pub fn passes(&self) -> PassTimes {
        PassTimes::of(self.term / 3)
    }

    /// How long no host of a cell is contacted after the cell was taken.
    pub fn quiet(&self) -> Duration {
        Duration::from_millis(self.quiet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quiet_time_is_longer_than_a_term_for_the_most_different_clocks() {
        for term in [1, 5_000, 5_001, 15_000, 99_999, 300_000, u64::MAX] {
            let terms = Terms::new(Duration::from_millis(term), Duration::ZERO);
            let longest = terms.term as f64 / 0.8;
            assert!(terms.quiet as f64 / 1.25 > longest, "{term}");
            assert!(terms.patience as f64 / 1.25 > longest, "{term}");
            assert!(terms.sure + terms.renew < terms.term, "{term}");
            let PassTimes { pass, hold } = terms.passes();
            assert!(hold as f64 / 1.25 > pass as f64 / 0.8, "{term}");
        }
    }
}
