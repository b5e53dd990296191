//! Which cells are open here, and what must be known before links are sent and hosts contacted.

use std::collections::{BTreeMap, BTreeSet};

use crate::frontier::CellId;

/// How long a cell waits for messages that are missing from its log, in milliseconds.
const LONGEST_WAIT: u64 = 10_000;

/// The cells that are open here.
///
/// - Nothing is sent before all cells are open that the last process kept: what it was sending may
///   be theirs, and must be made again from all of them (C4).
/// - No host of a cell is contacted before its log was read to where it ended when the cell was
///   opened: it may contain promises that others made to the host (C8).
#[derive(Debug, Default)]
pub struct OpenCells {
    open: BTreeSet<CellId>,
    /// Cells of the last process that are not open yet.
    awaited: BTreeSet<CellId>,
    /// Cells whose logs were not read far enough, each with the number of the last message that its
    /// log had when the cell was opened, and when the broker said so; `None` before that.
    behind: BTreeMap<CellId, Option<(u64, u64)>>,
}

/// What [`OpenCells::follow`] has found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Cells that were opened.
    pub opened: Vec<CellId>,
    /// Cells that were closed.
    pub closed: Vec<CellId>,
}

impl OpenCells {
    /// No cell is open, and the last process kept these.
    pub fn new(kept: BTreeSet<CellId>) -> Self {
        Self {
            awaited: kept,
            ..Self::default()
        }
    }

    /// Notes which cells are open now, in ascending order, and returns what has changed.
    pub fn follow(&mut self, now: impl Iterator<Item = CellId> + Clone) -> Option<Changed> {
        if now.clone().eq(self.open.iter().copied()) {
            return None;
        }
        let now = BTreeSet::from_iter(now);
        let changed = Changed {
            opened: now.difference(&self.open).copied().collect(),
            closed: self.open.difference(&now).copied().collect(),
        };
        self.behind.retain(|cell, _| now.contains(cell));
        self.behind
            .extend(changed.opened.iter().map(|cell| (*cell, None)));
        self.awaited.retain(|cell| !now.contains(cell));
        self.open = now;
        Some(changed)
    }

    /// The cells, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = CellId> + Clone {
        self.open.iter().copied()
    }

    /// Whether links may be sent.
    pub fn may_send(&self) -> bool {
        self.awaited.is_empty()
    }

    /// Whether the hosts of a cell may be contacted.
    pub fn has_caught_up(&self, cell: CellId) -> bool {
        self.open.contains(&cell) && !self.behind.contains_key(&cell)
    }

    /// Cells whose hosts may not be contacted yet.
    pub fn behind(&self) -> impl Iterator<Item = CellId> {
        self.behind.keys().copied()
    }

    /// The broker has said where the log of a cell ends. Only its first answer counts.
    pub fn has_heard(&mut self, cell: CellId, last: u64, now: u64) {
        if let Some(end) = self.behind.get_mut(&cell) {
            end.get_or_insert((last, now));
        }
    }

    /// A log was read up to a message; `is_all` says whether nothing more has come.
    ///
    /// If the broker has forgotten that a checkpoint holds the last messages, they may be gone, and
    /// the log never reaches its end. So after ten seconds without more messages the wait is over.
    pub fn has_read(&mut self, cell: CellId, up_to: u64, is_all: bool, now: u64) {
        let Some(Some((last, since))) = self.behind.get(&cell) else {
            return;
        };
        let is_late = now.saturating_sub(*since) >= LONGEST_WAIT && is_all;
        if up_to >= *last || is_late {
            self.behind.remove(&cell);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontier::CellCount;

    fn cells<const N: usize>() -> [CellId; N] {
        let count = CellCount::new(u16::try_from(N).unwrap()).unwrap();
        Vec::from_iter(count.all()).try_into().unwrap()
    }

    #[test]
    fn what_opens_and_closes_is_said_once() {
        let [a, b, c] = cells();
        let mut opened = OpenCells::default();
        assert_eq!(opened.follow([].into_iter()), None);
        let changed = opened.follow([a, b].into_iter()).unwrap();
        assert_eq!((changed.opened, changed.closed), (vec![a, b], vec![]));
        assert_eq!(opened.follow([a, b].into_iter()), None);
        let changed = opened.follow([b, c].into_iter()).unwrap();
        assert_eq!((changed.opened, changed.closed), (vec![c], vec![a]));
        assert!(opened.iter().eq([b, c]));
    }

    #[test]
    fn nothing_is_sent_before_all_that_was_kept_is_open() {
        let [a, b, c] = cells();
        let mut opened = OpenCells::new([a, b].into());
        opened.follow([a].into_iter());
        assert!(!opened.may_send());
        opened.follow([a, b, c].into_iter());
        assert!(opened.may_send());
        // It was open once, which is enough; another process may own it now.
        opened.follow([b].into_iter());
        assert!(opened.may_send());
    }

    #[test]
    fn hosts_are_asked_when_the_log_was_read_to_its_end() {
        let [a, b] = cells();
        let mut opened = OpenCells::default();
        opened.follow([a].into_iter());
        // It is not known where the log ends.
        opened.has_read(a, 9, true, 99_999);
        assert!(!opened.has_caught_up(a));
        opened.has_heard(a, 7, 100);
        // The log has grown since, which is no reason to wait longer.
        opened.has_heard(a, 8, 200);
        opened.has_read(a, 6, true, 10_099);
        assert!(!opened.has_caught_up(a));
        opened.has_read(a, 7, false, 10_100);
        assert!(opened.has_caught_up(a));
        assert!(!opened.has_caught_up(b));
        assert_eq!(opened.behind().count(), 0);
    }

    #[test]
    fn the_wait_for_messages_that_are_gone_ends() {
        let [a] = cells();
        let mut opened = OpenCells::default();
        opened.follow([a].into_iter());
        opened.has_heard(a, 7, 100);
        opened.has_read(a, 6, false, 100 + LONGEST_WAIT);
        assert!(!opened.has_caught_up(a), "more has come");
        opened.has_read(a, 6, true, 99 + LONGEST_WAIT);
        assert!(!opened.has_caught_up(a), "it is too early");
        opened.has_read(a, 6, true, 100 + LONGEST_WAIT);
        assert!(opened.has_caught_up(a));
    }

    #[test]
    fn a_cell_that_comes_back_is_read_again() {
        let [a] = cells();
        let mut opened = OpenCells::default();
        opened.follow([a].into_iter());
        opened.has_heard(a, 0, 0);
        opened.has_read(a, 0, true, 0);
        assert!(opened.has_caught_up(a));
        opened.follow([].into_iter());
        assert!(!opened.has_caught_up(a));
        opened.follow([a].into_iter());
        assert!(!opened.has_caught_up(a));
    }
}
