//! The time until which this process may write to the web.
//!
//! A machine of a cluster may send requests only as long as the others must assume that it is
//! alive: after that, another machine takes over. The time is [`clock::now`](crate::clock::now),
//! which continues while the machine sleeps. A [`Term`] that has ended can begin again, but earlier
//! requests and connections stay ended: each has the [`Tenure`] in which it began.
//!
//! This module does not know who extends a term, or why one ends.

use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::now;

/// The time until which this process may write to the web. Clones share one term; a new one is
/// already over.
#[derive(Debug, Clone, Default)]
pub struct Term(Arc<TermShared>);

#[derive(Debug, Default)]
struct TermShared {
    state: Mutex<TermState>,
    /// Notified when the end comes earlier than planned.
    sooner: Notify,
}

#[derive(Debug, Default)]
struct TermState {
    /// Counts its restarts.
    number: u64,
    until: u64,
}

impl Term {
    /// Sets its end, in milliseconds since 1970. A term that is over starts again.
    pub fn set_end(&self, until: u64) {
        let mut state = self.state();
        if state.until <= now() {
            state.number += 1;
        }
        let is_sooner = until < state.until;
        state.until = until;
        drop(state);
        if is_sooner {
            self.0.sooner.notify_waiters();
        }
    }

    /// Ends it now.
    pub fn end(&self) {
        self.set_end(0);
    }

    /// Whether it is running.
    pub fn runs(&self) -> bool {
        now() < self.state().until
    }

    /// The current tenure; `None` if the term is over.
    pub(super) fn tenure(&self) -> Option<Tenure> {
        let state = self.state();
        (now() < state.until).then(|| Tenure {
            term: self.clone(),
            number: state.number,
        })
    }

    fn state(&self) -> MutexGuard<'_, TermState> {
        // Both numbers are written under one lock, by code that cannot panic.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A term from one start to the following end.
#[derive(Debug, Clone)]
pub(super) struct Tenure {
    term: Term,
    number: u64,
}

impl Tenure {
    /// Whether it is over. This is permanent, even if the term has started again.
    pub(super) fn is_over(&self) -> bool {
        self.left().is_none()
    }

    /// Returns as soon as it is over.
    pub(super) async fn ended(self) {
        loop {
            let sooner = self.term.0.sooner.notified();
            tokio::pin!(sooner);
            // Registered before the check, so that no change in between is missed.
            sooner.as_mut().enable();
            let Some(left) = self.left() else {
                return;
            };
            tokio::select! {
                () = sooner => {}
                () = tokio::time::sleep(left) => {}
            }
        }
    }

    /// The time left as of now.
    fn left(&self) -> Option<Duration> {
        let state = self.term.state();
        let left = state.until.saturating_sub(now());
        (state.number == self.number && left > 0).then(|| Duration::from_millis(left))
    }
}

/// The error when nothing may be sent: the term is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct TermOver;

impl fmt::Display for TermOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this machine may not send anything at present")
    }
}

impl Error for TermOver {}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: u64 = 60_000;

    #[tokio::test]
    async fn what_was_begun_before_the_end_stays_ended() {
        let term = Term::default();
        assert!(!term.runs() && term.tenure().is_none());
        term.set_end(now() + LONG);
        let first = term.tenure().unwrap();
        term.set_end(now() + 2 * LONG);
        assert!(!first.is_over(), "it was only extended");
        let ended = tokio::spawn(first.clone().ended());
        term.end();
        assert!(first.is_over() && !term.runs() && term.tenure().is_none());
        ended.await.unwrap();
        term.set_end(now() + LONG);
        let second = term.tenure().unwrap();
        assert!(first.is_over() && !second.is_over());
        first.ended().await;
    }

    #[tokio::test]
    async fn a_term_ends_by_itself() {
        let term = Term::default();
        term.set_end(now() + 30);
        let tenure = term.tenure().unwrap();
        tenure.clone().ended().await;
        assert!(tenure.is_over() && !term.runs());
    }

    #[tokio::test]
    async fn an_end_that_is_brought_forward_is_noticed() {
        let term = Term::default();
        term.set_end(now() + 1_000 * LONG);
        let tenure = term.tenure().unwrap();
        let ended = tokio::spawn(tenure.ended());
        term.set_end(now() + 20);
        ended.await.unwrap();
    }
}
