//! Cells in the checkpoint of a session: how they get to the machine that takes them over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::SaveError;
use super::manifest::Manifest;
use super::numbered::{address, manifest_of};
use super::pairs;
use crate::crawl::frontier::CellId;
use crate::objects::{self, Objects};

/// Takes a key with the space of its cell, and its value, or none where it is gone.
pub type WritePair<'w> = dyn FnMut(&[u8], Option<&[u8]>) -> Result<(), SaveError> + 'w;

/// The cells in a checkpoint of a session.
pub struct SavedCells {
    objects: Arc<dyn Objects>,
    manifest: Manifest,
}

impl SavedCells {
    /// Looks at a checkpoint of a session in a cluster's store.
    ///
    /// # Errors
    /// [`SaveError::Unreadable`] where it is missing or damaged, [`SaveError::Objects`] where
    /// the store fails.
    pub fn open(store: &str, session: &str, number: u64) -> Result<Self, SaveError> {
        let objects = objects::open(&address(store, session))?;
        Self::over(objects.into(), number)
    }

    /// The same over objects that are open.
    pub(super) fn over(objects: Arc<dyn Objects>, number: u64) -> Result<Self, SaveError> {
        let manifest = manifest_of(&*objects, number)?;
        Ok(Self { objects, manifest })
    }

    /// The cells that it holds whole, with the numbers up to which they had read their logs.
    pub fn held(&self) -> BTreeMap<CellId, u64> {
        self.manifest.mark().held()
    }

    /// The commit that it shows.
    pub fn commits(&self) -> u64 {
        self.manifest.commits
    }

    /// Passes the pairs of these cells, as far as it holds them. The last one of a key counts.
    /// Each object that has any of them is read once, in their order. Returns the cells that it holds.
    ///
    /// # Errors
    /// [`SaveError::Unreadable`] names the object that is missing or damaged; the error of
    /// `write`.
    pub fn read(
        &self,
        cells: &BTreeSet<CellId>,
        write: &mut WritePair<'_>,
    ) -> Result<BTreeSet<CellId>, SaveError> {
        let held = self.held();
        let wanted: BTreeSet<CellId> = cells
            .iter()
            .copied()
            .filter(|cell| held.contains_key(cell))
            .collect();
        if wanted.is_empty() {
            return Ok(wanted);
        }
        for piece in self.manifest.base.iter().chain(&self.manifest.changes) {
            let has_any = |cell: &CellId| {
                piece
                    .span
                    .is_none_or(|(first, last)| cell.is_between(first, last))
            };
            if !wanted.iter().any(has_any) {
                continue;
            }
            let packed = piece.read(&*self.objects).map_err(unreadable)?;
            let name = format!("{}/{}", self.objects.address(), piece.name);
            let mut stopped = None;
            let read = pairs::each(&name, &packed, &mut |(key, value)| {
                let cell = CellId::of_key(key);
                if stopped.is_none() && cell.is_some_and(|cell| wanted.contains(&cell)) {
                    stopped = write(key, value).err();
                }
                Ok(())
            });
            if let Some(error) = stopped {
                return Err(error);
            }
            read.map_err(unreadable)?;
        }
        Ok(wanted)
    }
}

/// The advice for a job's own checkpoint does not help with that of a session.
pub(super) fn unreadable(error: SaveError) -> SaveError {
    match error {
        SaveError::Damaged { name, why } => SaveError::Unreadable { name, why },
        error => error,
    }
}
