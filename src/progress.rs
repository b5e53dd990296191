//! How far a long step has come, told to whoever listens.
//!
//! Training, ranking or the upkeep of a store take seconds or hours, deep below the
//! command that shows it. A [`Step`] tells its name and its counts by events of the
//! `tracing` target `spoor::steps`, so that no function has to hand a display down. Where
//! nobody listens an event costs next to nothing. This module knows no terminal.

use std::time::{Duration, Instant};

/// How often a step tells how far it is, at most.
const EVERY: Duration = Duration::from_millis(100);

/// Work that takes its time. It ends when it is dropped.
#[derive(Debug)]
pub struct Step {
    what: &'static str,
    total: Option<u64>,
    done: u64,
    told: Instant,
}

impl Step {
    /// Begins the step `what`, as "reading sidecars", of `total` pieces, where that is
    /// known.
    pub fn begin(what: &'static str, total: Option<u64>) -> Self {
        let step = Self {
            what,
            total,
            done: 0,
            told: Instant::now(),
        };
        step.tell("begin");
        step
    }

    /// So many more pieces are done.
    pub fn advance(&mut self, pieces: u64) {
        self.reach(self.done.saturating_add(pieces));
    }

    /// So many pieces are done in all.
    pub fn reach(&mut self, pieces: u64) {
        self.done = pieces;
        if self.told.elapsed() >= EVERY {
            self.told = Instant::now();
            self.tell("going");
        }
    }

    fn tell(&self, state: &'static str) {
        let Self {
            what, total, done, ..
        } = *self;
        // A level that every filter knows of: the `log` bridge beneath would otherwise pass
        // on every line that a parser of HTML writes for itself.
        tracing::info!(target: "spoor::steps", what, state, done, total);
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.tell("end");
    }
}
