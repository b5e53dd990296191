//! Cells that other machines should own.
//!
//! A cell is given back with a checkpoint that was made after the last effect in it. So first all
//! its requests must have ended and all its links must have been sent; then it is closed, and the
//! next checkpoint of the store has its final state.

use std::collections::BTreeMap;

use super::error::NodeError;
use crate::frontier::{CellId, Cells};

/// The cells that are being given back.
#[derive(Debug, Default)]
pub(super) struct Giving(BTreeMap<CellId, Step>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Requests are open, or links are unsent.
    Emptying,
    /// It is closed; this batch of the store has its final state.
    Closed(u64),
    /// The session was informed.
    Reported,
}

impl Giving {
    pub fn begin(&mut self, cell: CellId) {
        self.0.entry(cell).or_insert(Step::Emptying);
    }

    pub fn end(&mut self, cell: CellId) {
        self.0.remove(&cell);
    }

    pub fn has(&self, cell: CellId) -> bool {
        self.0.contains_key(&cell)
    }

    /// The cells.
    pub fn cells(&self) -> impl Iterator<Item = CellId> {
        self.0.keys().copied()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a checkpoint would move one of them forward.
    pub fn waits_for_checkpoint(&self) -> bool {
        self.0.values().any(|step| matches!(step, Step::Closed(_)))
    }

    /// Closes the cells in which nothing is open or unsent. Returns whether there were any, in
    /// which case the store must be flushed. If `abandons`, open leases no longer count. A cell
    /// that `is_loading` waits, because no checkpoint of this session has its state yet.
    pub fn close(
        &mut self,
        cells: &mut Cells,
        abandons: bool,
        is_loading: impl Fn(CellId) -> bool,
    ) -> Result<bool, NodeError> {
        let mut any = false;
        for (cell, step) in &mut self.0 {
            let is_empty = abandons || cells.leased_in(*cell) == 0;
            let is_ready = is_empty && !is_loading(*cell) && !cells.has_unsent(*cell);
            if *step == Step::Emptying && is_ready {
                if cells.opened().any(|open| open == *cell) {
                    cells.close_cell(*cell)?;
                }
                *step = Step::Closed(cells.commits());
                any = true;
            }
        }
        Ok(any)
    }

    /// The cells whose final states are in the last checkpoint, given by its number and the last
    /// batch in it. Each cell comes with that number.
    pub fn turn(&mut self, last: Option<(u64, u64)>) -> Vec<(CellId, u64)> {
        let mut given = Vec::new();
        for (cell, step) in &mut self.0 {
            if let (Step::Closed(batch), Some((number, until))) = (*step, last)
                && until >= batch
            {
                *step = Step::Reported;
                given.push((*cell, number));
            }
        }
        given
    }
}
