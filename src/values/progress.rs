//! Progress of long steps, reported to any listener.
//!
//! Training, ranking or store maintenance take seconds or hours, deep below the command that shows
//! them. A [`Step`] reports its name and counts as events of the `tracing` target `spoor::steps`,
//! so that no function needs to pass a display down. Without a listener an event costs almost
//! nothing. This module does not know the terminal.

use std::time::{Duration, Instant};

/// The shortest time between two reports of a step.
const EVERY: Duration = Duration::from_millis(100);

/// A long-running piece of work. It ends when it is dropped.
#[derive(Debug)]
pub struct Step {
    what: &'static str,
    total: Option<u64>,
    done: u64,
    reported: Instant,
}

impl Step {
    /// Begins the step `what`, such as "reading sidecars", of `total` pieces if that
    /// number is known.
    pub fn begin(what: &'static str, total: Option<u64>) -> Self {
        let step = Self {
            what,
            total,
            done: 0,
            reported: Instant::now(),
        };
        step.report("begin");
        step
    }

    /// Reports `pieces` more pieces as done.
    pub fn advance(&mut self, pieces: u64) {
        self.reach(self.done.saturating_add(pieces));
    }

    /// Reports `pieces` pieces as done in total.
    pub fn reach(&mut self, pieces: u64) {
        self.done = pieces;
        if self.reported.elapsed() >= EVERY {
            self.reported = Instant::now();
            self.report("going");
        }
    }

    fn report(&self, state: &'static str) {
        let Self {
            what, total, done, ..
        } = *self;
        // Every filter enables this level. At a lower one, the `log` bridge would also
        // pass on every line that the HTML parser logs.
        tracing::info!(target: "spoor::steps", what, state, done, total);
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.report("end");
    }
}
