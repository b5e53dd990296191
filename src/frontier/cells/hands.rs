//! Handover: how a machine of a cluster takes cells from other machines and gives them away.

use std::collections::BTreeSet;

use super::{Cells, CellsError};
use crate::address::PageUrl;
use crate::cell::CellId;
use crate::keys;
use crate::page::Task;
use crate::parts::{Asked, Frontier};
use crate::store::{Readable, StoreError};

impl Cells {
    /// Opens a cell whose hosts another machine, or an earlier process, may have requested.
    ///
    /// # Errors
    /// As [`Cells::open_cell`].
    pub fn open_after(&mut self, cell: CellId, asked: Asked, now: u64) -> Result<(), CellsError> {
        self.open_asked(cell, Some(asked), now)
    }

    /// Closes all open cells and opens them again, as after the end of a process whose hosts were
    /// requested until `asked`. No lease may be open.
    ///
    /// # Errors
    /// [`CellsError::Store`] if the store fails.
    pub fn reopen(&mut self, asked: Asked, now: u64) -> Result<(), CellsError> {
        for cell in Vec::from_iter(self.opened()) {
            self.close_cell(cell)?;
            self.open_after(cell, asked, now)?;
        }
        Ok(())
    }

    /// Stops leasing in exactly these cells. What they hold back does not keep the crawl from
    /// ending.
    pub fn hold(&mut self, held: BTreeSet<CellId>) {
        self.held = held;
    }

    /// The number of open leases of a cell.
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

    /// When there is something to do in any open cell, as [`Cells::next_event`], including held
    /// pages and cells.
    pub fn next_of_all(&self) -> Option<u64> {
        self.frontiers()
            .filter_map(Frontier::next_if_not_held)
            .min()
    }

    /// Whether nothing is left to do in any open cell, including the held ones.
    pub fn are_empty(&self) -> bool {
        self.leased() == 0 && self.next_of_all().is_none()
    }

    /// The cells in the store, open or not.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
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
