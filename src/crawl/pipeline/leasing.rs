//! Leases tasks from the frontier, as many as the handler and the options permit.

use std::time::Duration;

use super::handler::{Admission, Handler};
use super::options::LoopOptions;
use crate::fetch::Fetcher;
use crate::frontier::Cells;
use crate::page::Task;

/// Whether more requests may be open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Capacity {
    /// More may be open.
    Free,
    /// More would only be chosen earlier than necessary.
    Enough,
    /// A limit of the options is reached.
    Full,
}

impl Capacity {
    /// The capacity by the limits of the options.
    pub fn of(frontier: &Cells, fetcher: &Fetcher, options: &LoopOptions) -> Self {
        let open = frontier.leased();
        if open >= options.concurrency || fetcher.bytes_in_flight() > options.max_bytes {
            Self::Full
        } else {
            Self::Free
        }
    }
}

/// Why leasing has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leased {
    /// The last answer of the handler.
    pub admission: Admission,
    /// The capacity that was left.
    pub capacity: Capacity,
}

impl Leased {
    /// Nothing was leased, for a reason other than the capacity.
    pub fn nothing(admission: Admission) -> Self {
        let capacity = Capacity::Free;
        Self {
            admission,
            capacity,
        }
    }
}

/// Leases every task that may be leased now, and calls `start` with each.
pub(super) fn lease_all<H: Handler>(
    frontier: &mut Cells,
    handler: &mut H,
    capacity: impl Fn(&Cells) -> Capacity,
    now: u64,
    start: &mut dyn FnMut(Task),
) -> Result<Leased, H::Error> {
    loop {
        let leased = Leased {
            admission: handler.admission(frontier, now)?,
            capacity: capacity(frontier),
        };
        if !leased.admission.leases() || leased.capacity != Capacity::Free {
            return Ok(leased);
        }
        match frontier.lease_best(now)? {
            Some(task) => start(task),
            None => return Ok(leased),
        }
    }
}

/// Leases at most one task.
pub(super) fn lease_one<H: Handler>(
    frontier: &mut Cells,
    handler: &mut H,
    now: u64,
    start: &mut dyn FnMut(Task),
) -> Result<Leased, H::Error> {
    let admission = handler.admission(frontier, now)?;
    if admission.leases()
        && let Some(task) = frontier.lease_any(now)?
    {
        start(task);
    }
    Ok(Leased::nothing(admission))
}

/// Leases nothing, but finds out whether the handler ends the run.
pub(super) fn lease_none<H: Handler>(
    frontier: &mut Cells,
    handler: &mut H,
    now: u64,
) -> Result<Leased, H::Error> {
    let admission = match handler.admission(frontier, now)? {
        Admission::End => Admission::End,
        _ => Admission::Wait,
    };
    Ok(Leased::nothing(admission))
}

/// Whether another request could be sent as soon as an open one ends.
pub(super) fn others_wait(frontier: &Cells, capacity: Capacity, now: u64) -> bool {
    let is_ready = || frontier.next_event().is_some_and(|at| at <= now);
    frontier.keeps_back() || (capacity == Capacity::Full && is_ready())
}

/// How long nothing can be leased, at most `longest`. Zero if the frontier has a task that is due:
/// it returned none only because it paused after dropping many addresses.
pub(super) fn until_next_lease(frontier: &Cells, longest: Duration, now: u64) -> Duration {
    let next = frontier.next_event();
    let wait = next.map(|at| Duration::from_millis(at.saturating_sub(now)));
    wait.map_or(longest, |wait| wait.min(longest))
}
