//! What the broker does not do, told from time to time.
//!
//! Where several of its servers are off, each call fails with another of two or three errors, so
//! that telling every new one would fill the log.

use super::EngineError;

/// The shortest time between two warnings, in milliseconds.
const EVERY: u64 = 60_000;

/// Tells what cannot be sent or read.
#[derive(Debug)]
pub(super) struct Trouble {
    /// What waits, in words.
    what: &'static str,
    told: Option<u64>,
}

impl Trouble {
    /// None so far.
    pub(super) fn new(what: &'static str) -> Self {
        Self { what, told: None }
    }

    /// Takes note of an error. Returns whether it was told.
    pub(super) fn tell(&mut self, error: &EngineError, now: u64) -> bool {
        let is_due = self
            .told
            .is_none_or(|told| now.saturating_sub(told) >= EVERY);
        if is_due {
            tracing::warn!("{} wait: {error}; it is tried again", self.what);
            self.told = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_once_a_minute_whatever_the_error() {
        let mut trouble = Trouble::new("links");
        let failed = |why: &str| EngineError::Failed {
            to: "nats://a".to_owned(),
            what: "sending",
            why: why.to_owned(),
        };
        assert!(trouble.tell(&failed("no answer"), 1_000));
        assert!(!trouble.tell(&failed("no leader"), 1_500));
        assert!(!trouble.tell(&failed("no answer"), 60_999));
        assert!(trouble.tell(&failed("no answer"), 61_000));
    }
}
