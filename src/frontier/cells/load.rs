//! Loading cells into a store that is in use: a thread writes them, a batch at a time, while
//! the crawl continues in the others.
//!
//! fjall could take sorted pairs as whole tables (bulk ingestion). For the 450,000 pairs of 150,000
//! addresses that saves 0.2 s of 0.75, but all of them must be sorted in memory first, and most of
//! the time of a takeover goes into reading and decoding the checkpoint.
//!
//! Until a load ends, its cells are marked as leaving ([`sweep`](super::sweep)), so half a cell is
//! never opened. If a load is dropped, or its process dies, the sweep deletes what was written.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::shared::SharedStore;
use super::{Cells, CellsError};
use crate::cell::CellId;
use crate::store::{Batch, Readable};

/// Most records and bytes in a batch: the crawl waits for one at a time.
const RECORDS: usize = if cfg!(test) { 9 } else { 500 };
const BYTES: usize = 1 << 20;

/// Cells that are being loaded. If it is dropped, the sweep deletes what was written.
#[must_use = "what was written is deleted again, unless `Cells::end_load` gets it"]
pub struct Load {
    shared: Arc<SharedStore>,
    cells: BTreeSet<CellId>,
    batch: Batch,
    records: usize,
    bytes: usize,
    /// The most records of a batch.
    most: usize,
    /// While this exists, the sweep leaves the cells alone.
    _going_on: Arc<()>,
}

impl Load {
    /// Sets the number of records per batch.
    #[cfg(test)]
    pub(super) fn batches_of(mut self, records: usize) -> Self {
        self.most = records;
        self
    }

    /// The cells.
    pub fn cells(&self) -> &BTreeSet<CellId> {
        &self.cells
    }

    /// Writes a pair of one of the cells, or removes the key if there is no value. Later writes to
    /// a key replace earlier ones. The key includes the cell's prefix, as in the store that it
    /// comes from.
    ///
    /// # Errors
    /// [`CellsError::Foreign`] if the key is that of another cell, [`CellsError::Store`]
    /// if the store fails. Drop the load then.
    pub fn write(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), CellsError> {
        if !CellId::of_key(key).is_some_and(|cell| self.cells.contains(&cell)) {
            let key = key.escape_ascii().to_string();
            return Err(CellsError::Foreign { key });
        }
        self.records += 1;
        self.bytes += key.len() + value.map_or(0, <[u8]>::len);
        match value {
            Some(value) => self.batch.put(key.to_vec(), value.to_vec()),
            None => self.batch.delete(key.to_vec()),
        }
        if self.records >= self.most || self.bytes >= BYTES {
            (self.records, self.bytes) = (0, 0);
            self.shared.apply(std::mem::take(&mut self.batch))?;
        }
        Ok(())
    }
}

impl Cells {
    /// Begins to load cells into their places, which must be empty. [`Load::write`] can be called
    /// on any thread; the cells cannot be opened before [`Cells::end_load`].
    ///
    /// # Errors
    /// [`CellsError::Open`], [`CellsError::Leaving`] and [`CellsError::Present`] if one of
    /// them is here; nothing is begun then.
    pub fn begin_load(&mut self, cells: &BTreeSet<CellId>) -> Result<Load, CellsError> {
        let shared = Arc::clone(&self.shared);
        for cell in cells {
            self.must_be_closed(*cell)?;
            let mut is_empty = true;
            shared.scan(&cell.space(), &[], &mut |_, _| {
                is_empty = false;
                ControlFlow::Break(())
            })?;
            if !is_empty {
                return Err(CellsError::Present(*cell));
            }
        }
        let going_on = self.sweep.begin_loading(&shared, cells)?;
        Ok(Load {
            shared,
            cells: cells.clone(),
            batch: Batch::default(),
            records: 0,
            bytes: 0,
            most: RECORDS,
            _going_on: going_on,
        })
    }

    /// Ends a complete load: its cells can be opened now. They are on this machine's disk when it
    /// returns.
    ///
    /// # Errors
    /// [`CellsError::Store`] if the store fails; the sweep deletes the cells then.
    pub fn end_load(&mut self, load: Load) -> Result<(), CellsError> {
        let Load {
            shared,
            cells,
            batch,
            ..
        } = &load;
        self.sweep.end_loading(shared, cells, batch.clone())?;
        Ok(shared.flush()?)
    }
}
