//! Whether the pauses between the requests to a host were kept, by the log alone.
//!
//! The pause runs from when the request before was settled to when the next began its
//! journey. The first is never before its last byte, the second never after it was
//! sent: the true pause is at least what is measured. Where requests to a host may
//! overlap, the pause from beginning to beginning is measured instead.

use serde::Serialize;

/// How many times the pause that was due a pause was: the limits of the classes.
const RATIOS: [f64; 5] = [1.0, 1.5, 2.0, 5.0, 10.0];

/// What the log says of the pauses.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Politeness {
    /// Pauses that were measured.
    pub measured: u64,
    /// Those in which nothing was due.
    pub free: u64,
    /// Those shorter than what was due.
    pub violations: u64,
    /// The least pause, as a share of what was due, and its host; `None` where nothing
    /// was due.
    pub least: Option<(f64, String)>,
    /// How many were below 1, 1.5, 2, 5 and 10 times what was due, and above.
    pub ratios: [u64; 6],
    /// Rows that say nothing of when they were asked, of before the log did.
    pub unknown: u64,
}

/// The last request to a host.
#[derive(Debug, Clone, Copy)]
pub(super) struct Last {
    asked: u64,
    settled: u64,
}

impl Politeness {
    /// Takes the next request to a host in the order of the log; all times are
    /// milliseconds.
    pub(super) fn take(
        &mut self,
        host: &str,
        last: &mut Option<Last>,
        times: (Option<u64>, Option<u64>, u64),
        may_overlap: bool,
    ) {
        let (Some(asked), Some(due), settled) = times else {
            self.unknown += 1;
            *last = None;
            return;
        };
        let before = last.replace(Last { asked, settled });
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
            self.free += 1;
            return;
        }
        let ratio = pause as f64 / due as f64;
        self.violations += u64::from(pause < due);
        let class = RATIOS.iter().take_while(|limit| ratio >= **limit).count();
        if let Some(count) = self.ratios.get_mut(class) {
            *count += 1;
        }
        if self.least.as_ref().is_none_or(|(least, _)| ratio < *least) {
            self.least = Some((ratio, host.to_owned()));
        }
    }
}
