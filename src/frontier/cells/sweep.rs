//! Deleting a cell, a slice at a time.
//!
//! A mark in the store says that a cell is leaving; it is deleted with the last slice. So a crash
//! between two slices is harmless, and half a cell is never opened. A cell that is being loaded
//! ([`load`](super::load)) has the same mark until it is complete.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};

use super::shared::SharedStore;
use super::{Cells, CellsError};
use crate::cell::{CellCount, CellId, LEAVING};
use crate::codec;
use crate::store::{Batch, Readable, StoreError};

/// Most keys in a slice: a few milliseconds.
const SLICE: usize = if cfg!(test) { 7 } else { 1_000 };

/// The cells that are being deleted, each with the first key that may be left. Without it every
/// slice would scan what was deleted before.
#[derive(Default)]
pub(super) struct Sweep {
    leaving: BTreeMap<CellId, Vec<u8>>,
    /// Cells among them that are currently being loaded; the sweep leaves them alone.
    loading: BTreeMap<CellId, Weak<()>>,
}

impl Sweep {
    /// Finds the cells of a store that are leaving.
    pub fn of(shared: &Arc<SharedStore>, cells: CellCount) -> Result<Self, StoreError> {
        let mut leaving = BTreeMap::new();
        let mut odd = None;
        shared.scan(LEAVING, &[], &mut |key, _| {
            let number = key.get(LEAVING.len()..).and_then(|n| n.try_into().ok());
            let cell = number.and_then(|n| cells.cell(u16::from_be_bytes(n)));
            match cell {
                Some(cell) => drop(leaving.insert(cell, cell.space().to_vec())),
                None => odd = Some(key.to_vec()),
            }
            ControlFlow::Continue(())
        })?;
        match odd {
            None => Ok(Self {
                leaving,
                loading: BTreeMap::new(),
            }),
            Some(key) => {
                let why = "names no cell of this store".to_owned();
                Err(codec::corrupt(shared, &key, why))
            }
        }
    }

    pub fn is_leaving(&self, cell: CellId) -> bool {
        self.leaving.contains_key(&cell)
    }

    pub fn is_loading(&self, cell: CellId) -> bool {
        let load = self.loading.get(&cell);
        load.is_some_and(|load| load.strong_count() > 0)
    }

    /// Marks a cell as leaving.
    pub fn begin(&mut self, shared: &SharedStore, cell: CellId) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        batch.put(mark(cell), Vec::new());
        shared.apply(batch)?;
        self.leaving.insert(cell, cell.space().to_vec());
        Ok(())
    }

    /// Marks cells as being loaded, for as long as the returned value exists.
    pub fn begin_loading(
        &mut self,
        shared: &SharedStore,
        cells: &BTreeSet<CellId>,
    ) -> Result<Arc<()>, StoreError> {
        let mut batch = Batch::default();
        for cell in cells {
            batch.put(mark(*cell), Vec::new());
        }
        shared.apply(batch)?;
        let going_on = Arc::new(());
        for cell in cells {
            self.leaving.insert(*cell, cell.space().to_vec());
            self.loading.insert(*cell, Arc::downgrade(&going_on));
        }
        Ok(going_on)
    }

    /// Removes the marks, with the last writes: the cells are complete.
    pub fn end_loading(
        &mut self,
        shared: &SharedStore,
        cells: &BTreeSet<CellId>,
        mut last: Batch,
    ) -> Result<(), StoreError> {
        for cell in cells {
            last.delete(mark(*cell));
        }
        shared.apply(last)?;
        for cell in cells {
            self.leaving.remove(cell);
            self.loading.remove(cell);
        }
        Ok(())
    }

    /// Deletes a slice of the first leaving cell. False if none is left.
    fn slice(&mut self, shared: &Arc<SharedStore>) -> Result<bool, StoreError> {
        self.loading.retain(|_, load| load.strong_count() > 0);
        let loading = &self.loading;
        let is_swept = |(cell, _): &(&CellId, &mut Vec<u8>)| !loading.contains_key(cell);
        let Some((&cell, from)) = self.leaving.iter_mut().find(is_swept) else {
            return Ok(false);
        };
        let mut batch = Batch::default();
        let mut last = None;
        let mut left = SLICE;
        shared.scan(&cell.space(), from, &mut |key, _| {
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            batch.delete(key.to_vec());
            last = Some(key.to_vec());
            ControlFlow::Continue(())
        })?;
        if left > 0 {
            batch.delete(mark(cell));
        }
        shared.apply(batch)?;
        match last {
            Some(last) if left == 0 => *from = last,
            _ => drop(self.leaving.remove(&cell)),
        }
        Ok(self.leaving.len() > self.loading.len())
    }
}

impl Cells {
    /// Begins to delete a cell, after closing it if it is open: [`Cells::sweep`] does the rest.
    /// What it has found for other cells is deleted too; what they have found for it waits.
    ///
    /// # Errors
    /// [`CellsError::Leaving`] while it is being loaded: drop the load then.
    pub fn drop_cell(&mut self, cell: CellId) -> Result<(), CellsError> {
        self.must_exist(cell)?;
        if self.sweep.is_loading(cell) {
            return Err(CellsError::Leaving(cell));
        }
        if self.open.contains_key(&cell) {
            self.close_cell(cell)?;
        }
        Ok(self.sweep.begin(&self.shared, cell)?)
    }

    /// Deletes the next slice of the leaving cells; [`Cells::lease`] calls it. False if nothing is
    /// left.
    ///
    /// # Errors
    /// [`CellsError::Store`] if the store fails; the slice is deleted by the next call.
    pub fn sweep(&mut self) -> Result<bool, CellsError> {
        Ok(self.sweep_slice()?)
    }

    pub(super) fn sweep_slice(&mut self) -> Result<bool, StoreError> {
        self.sweep.slice(&self.shared)
    }
}

fn mark(cell: CellId) -> Vec<u8> {
    [LEAVING, &cell.number().to_be_bytes()].concat()
}
