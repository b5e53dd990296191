//! Warnings that the broker does not answer, at most one a minute.
//!
//! If several of its servers are off, calls fail with two or three different errors in turn, so a
//! warning for every new one would fill the log.

use super::EngineError;

/// The shortest time between two warnings, in milliseconds.
const EVERY: u64 = 60_000;

/// Reports what cannot be sent or read.
#[derive(Debug)]
pub(super) struct Trouble {
    /// What waits, in words.
    what: &'static str,
    reported: Option<u64>,
}

impl Trouble {
    /// No trouble so far.
    pub(super) fn new(what: &'static str) -> Self {
        Self {
            what,
            reported: None,
        }
    }

    /// Reports an error, unless one was reported recently. Returns whether it did.
    pub(super) fn report(&mut self, error: &EngineError, now: u64) -> bool {
        let is_due = self
            .reported
            .is_none_or(|reported| now.saturating_sub(reported) >= EVERY);
        if is_due {
            tracing::warn!("{} wait: {error}; trying again", self.what);
            self.reported = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_reported_once_a_minute_whatever_the_error() {
        let mut trouble = Trouble::new("links");
        let failed = |why: &str| EngineError::Failed {
            to: "nats://a".to_owned(),
            what: "sending",
            why: why.to_owned(),
        };
        assert!(trouble.report(&failed("no answer"), 1_000));
        assert!(!trouble.report(&failed("no leader"), 1_500));
        assert!(!trouble.report(&failed("no answer"), 60_999));
        assert!(trouble.report(&failed("no answer"), 61_000));
    }
}
