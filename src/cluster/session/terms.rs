//! How long a session waits for what.
//!
//! # Why it is safe
//!
//! Clocks may run at 0.8 to 1.25 times the true speed, so one may run 1.25 / 0.8 = 1.5625
//! times as fast as another. Let the broker have answered a session for the last time at
//! the true moment *b*: it has stored a renewal, and said that a cell is still the
//! session's. Both were asked before *b*, and the session writes to the web for one term
//! after it asked, by its own clock; that is at most 1.25 terms of true time after *b*.
//! Whoever takes the cell has it from the broker after *b*, and is [quiet](Terms::quiet)
//! for 1.6 terms by its own clock; that is at least 1.28 terms. So the first has stopped
//! before the second begins, whatever either knows of the other. This needs no judgement on
//! who is dead. It also holds where the broker forgets the last minute, because then both
//! moments are counted from what it says after that.
//!
//! With 4/3 of a term, as others have it, the clock of the second may run only 1.33 times
//! as fast as that of the first.

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
    /// How long it does not write after it took a cell, and after its term has lapsed.
    pub(super) quiet: u64,
    /// How long another one may do nothing before it is ended.
    pub(super) patience: u64,
    /// Between two renewals.
    pub(super) renew: u64,
    /// How old its last renewal may be for it to judge others.
    pub(super) sure: u64,
    /// How long a call may take.
    pub(super) call: u64,
    /// How long another one must have lived for it to be given cells.
    pub(super) settle: u64,
    /// How long nobody must have had anything to do for the job to be done.
    pub(super) rest: u64,
}

impl Terms {
    /// The times for a term, which is brought within [`SHORTEST_TERM`] and
    /// [`LONGEST_TERM`].
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

    /// How often to look whether there is something to do.
    pub fn tick(&self) -> Duration {
        Duration::from_millis(self.renew / 4)
    }

    /// How long the passes of IP addresses last: shorter than a term, because a new owner of a
    /// cell waits for so long, and long enough to be asked for again a few times meanwhile.
    pub fn passes(&self) -> PassTimes {
        PassTimes::of(self.term / 3)
    }

    /// How long no host of a cell is asked after the cell was taken.
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
