//! What a session knows of the cells' keys.

use super::super::Revision;
use super::super::record::CellRecord;
use crate::frontier::{CellCount, CellId};

/// The cells' keys, as far as they are known.
#[derive(Debug)]
pub(super) struct Table(Vec<Option<(CellRecord, Revision)>>);

impl Table {
    /// Nothing is known of so many cells.
    pub(super) fn new(cells: CellCount) -> Self {
        Self(cells.all().map(|_| None).collect())
    }

    /// What is known of a cell's key.
    pub(super) fn get(&self, cell: CellId) -> Option<&(CellRecord, Revision)> {
        self.0.get(usize::from(cell.number()))?.as_ref()
    }

    /// Takes note of a cell's key; `None` where it is not known.
    pub(super) fn set(&mut self, cell: CellId, key: Option<(CellRecord, Revision)>) {
        if let Some(place) = self.0.get_mut(usize::from(cell.number())) {
            *place = key;
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.0.fill_with(|| None);
    }

    /// Who has cells, as far as is known.
    pub(super) fn records(&self) -> impl Iterator<Item = &CellRecord> {
        self.0.iter().flatten().map(|(record, _)| record)
    }
}
