//! Cells that others should have.
//!
//! A cell is given back with a checkpoint that was made after its last effect. So nothing may be
//! open or unsent there first; then it is closed, and the next checkpoint that has the store as
//! it is then has the end of it.

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
    /// It is closed; its end is this batch of the store.
    Closed(u64),
    /// The session was told.
    Told,
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

    /// Which they are.
    pub fn cells(&self) -> impl Iterator<Item = CellId> {
        self.0.keys().copied()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a checkpoint would bring one forward.
    pub fn waits_for_checkpoint(&self) -> bool {
        self.0.values().any(|step| matches!(step, Step::Closed(_)))
    }

    /// Closes those in which nothing is open or unsent; whether there were any, so that the store
    /// has to be flushed. `abandons` is whether open leases do not count any more; a cell that
    /// `is_loading` waits, since its state is in no checkpoint of this session yet.
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

    /// The cells whose ends are in the last checkpoint, by its number and the last batch in it,
    /// with that number.
    pub fn turn(&mut self, last: Option<(u64, u64)>) -> Vec<(CellId, u64)> {
        let mut given = Vec::new();
        for (cell, step) in &mut self.0 {
            if let (Step::Closed(batch), Some((number, until))) = (*step, last)
                && until >= batch
            {
                *step = Step::Told;
                given.push((*cell, number));
            }
        }
        given
    }
}
