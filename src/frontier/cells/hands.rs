//! Cells that come from other machines and go to them: what a machine of a cluster does with
//! them.

use std::collections::BTreeSet;

use super::{Cells, CellsError};
use crate::address::PageUrl;
use crate::cell::CellId;
use crate::keys;
use crate::page::Task;
use crate::parts::{Asked, Frontier};
use crate::store::{Readable, StoreError};

impl Cells {
    /// Opens a cell whose hosts somebody else, or an earlier process, may have asked.
    ///
    /// # Errors
    /// As [`Cells::open_cell`].
    pub fn open_after(&mut self, cell: CellId, asked: Asked, now: u64) -> Result<(), CellsError> {
        self.open_asked(cell, Some(asked), now)
    }

    /// Closes all cells that are open, and opens them again as after an end of the process whose
    /// hosts were asked until `asked`. No lease may be open.
    ///
    /// # Errors
    /// [`CellsError::Store`] where the store fails.
    pub fn reopen(&mut self, asked: Asked, now: u64) -> Result<(), CellsError> {
        for cell in Vec::from_iter(self.opened()) {
            self.close_cell(cell)?;
            self.open_after(cell, asked, now)?;
        }
        Ok(())
    }

    /// Has these cells lease nothing, and no others. What they hold back does not keep the
    /// crawl from ending.
    pub fn hold(&mut self, held: BTreeSet<CellId>) {
        self.held = held;
    }

    /// How many leases of a cell are open.
    pub fn leased_in(&self, cell: CellId) -> usize {
        let cell = self.open.get(&cell);
        cell.map_or(0, |cell| cell.frontier.leased())
    }

    /// Whether the cell of a task is open.
    pub fn may_finish(&self, task: &Task) -> bool {
        self.open.contains_key(&self.cell_of(task))
    }

    /// Whether an open cell has found something for cells that are not open here.
    pub fn has_unsent(&self, cell: CellId) -> bool {
        let cell = self.open.get(&cell);
        cell.is_some_and(|cell| !cell.frontier.ledger.referring().is_empty())
    }

    /// Whether a cell is being deleted.
    pub fn is_leaving(&self, cell: CellId) -> bool {
        self.sweep.is_leaving(cell)
    }

    /// The cell of a page.
    pub fn home_of(&self, url: &PageUrl) -> CellId {
        self.cell_of_page(url)
    }

    /// When there is something to do in any open cell, as [`Cells::next_event`], but for pages
    /// and cells that are held as well.
    pub fn next_of_all(&self) -> Option<u64> {
        self.frontiers()
            .filter_map(Frontier::next_if_not_held)
            .min()
    }

    /// Whether nothing is left to do in any open cell, those that are held included.
    pub fn are_empty(&self) -> bool {
        self.leased() == 0 && self.next_of_all().is_none()
    }

    /// The cells that the store has, whether they are open or not.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn stored(&self) -> Result<BTreeSet<CellId>, StoreError> {
        let mut stored = BTreeSet::new();
        for cell in self.cells.all() {
            let meta = [cell.space().as_slice(), keys::META].concat();
            if !self.sweep.is_leaving(cell) && self.shared.get(&meta)?.is_some() {
                stored.insert(cell);
            }
        }
        Ok(stored)
    }
}
