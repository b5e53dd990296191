//! Checks from the log alone whether the pauses between requests to a host were observed.
//!
//! The pause is measured from the time when the previous request was settled to the time when the
//! journey of the next one began. A request is never settled before its last byte, and never sent
//! before its journey begins, so the true pause is at least the measured one. If requests to a host
//! may overlap, the pause is measured from start to start instead.

use serde::Serialize;

/// The pauses in the log.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Politeness {
    /// Pauses that were measured.
    pub measured: u64,
    /// Pauses shorter than required.
    pub violations: u64,
    /// The shortest pause, as a share of the required one, and its host; `None` if none
    /// was required.
    pub least: Option<(f64, String)>,
    /// Rows of older logs without the start of the request.
    pub unknown: u64,
}

/// The last request to a host.
#[derive(Debug, Clone, Copy)]
pub(super) struct LastRequest {
    asked: u64,
    settled: u64,
}

impl Politeness {
    /// Adds the next request to a host in the order of the log; all times are
    /// milliseconds.
    pub(super) fn take(
        &mut self,
        host: &str,
        last: &mut Option<LastRequest>,
        times: (Option<u64>, Option<u64>, u64),
        may_overlap: bool,
    ) {
        let (Some(asked), Some(due), settled) = times else {
            self.unknown += 1;
            *last = None;
            return;
        };
        let before = last.replace(LastRequest { asked, settled });
        let Some(before) = before else {
            return;
        };
        let pause = if asked < before.settled && may_overlap {
            asked.abs_diff(before.asked)
        } else {
            asked.saturating_sub(before.settled)
        };
        self.measured += 1;
        if due == 0 {
            return;
        }
        let ratio = pause as f64 / due as f64;
        self.violations += u64::from(pause < due);
        if self.least.as_ref().is_none_or(|(least, _)| ratio < *least) {
            self.least = Some((ratio, host.to_owned()));
        }
    }
}
