//! Cells in the checkpoint of a session: how they get to the machine that takes them over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::SaveError;
use super::manifest::Manifest;
use super::numbered::{address, manifest_of};
use super::pairs::{self, Span};
use crate::frontier::store::changes::WriteRef;
use crate::frontier::{CellId, is_learned};
use crate::objects::{self, Objects};

/// Receives a key with the prefix of its cell, and its value, or `None` if the key was removed.
pub type WritePair<'w> = dyn FnMut(&[u8], Option<&[u8]>) -> Result<(), SaveError> + 'w;

/// The cells in a checkpoint of a session.
pub struct SavedCells {
    objects: Arc<dyn Objects>,
    manifest: Manifest,
}

impl SavedCells {
    /// Opens a checkpoint of a session in a cluster's store.
    ///
    /// # Errors
    /// [`SaveError::Unreadable`] if it is missing or damaged, [`SaveError::Objects`] if the store
    /// fails.
    pub fn open(store: &str, session: &str, number: u64) -> Result<Self, SaveError> {
        let objects = objects::open(&address(store, session))?;
        Self::over(objects.into(), number)
    }

    /// The same for objects that are already open.
    pub(super) fn over(objects: Arc<dyn Objects>, number: u64) -> Result<Self, SaveError> {
        let manifest = manifest_of(&*objects, number)?;
        Ok(Self { objects, manifest })
    }

    /// The cells that it holds completely, with the position up to which each had read its log.
    pub fn held(&self) -> BTreeMap<CellId, u64> {
        self.manifest.mark().held()
    }

    /// The commit that it shows.
    pub fn commits(&self) -> u64 {
        self.manifest.commits
    }

    /// Passes the pairs of these cells that it holds to `write`. For each key, the last pair
    /// counts. Reads each object that has any of them once, in order. Returns the cells that it
    /// holds.
    ///
    /// # Errors
    /// [`SaveError::Unreadable`] names the missing or damaged object; or the error of `write`.
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
        let has_any = |(first, last)| wanted.iter().any(|cell| cell.is_between(first, last));
        let is_wanted = |key: &[u8]| {
            let cell = CellId::of_key(key);
            cell.is_some_and(|cell| wanted.contains(&cell))
        };
        self.each(&has_any, &is_wanted, write)?;
        Ok(wanted)
    }

    /// The position up to which it had learned from the shared lessons of all machines.
    pub fn learned(&self) -> u64 {
        self.manifest.learned
    }

    /// What it had learned: the pairs of [`is_learned`].
    ///
    /// # Errors
    /// As [`SavedCells::read`].
    pub fn read_learned(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, SaveError> {
        let mut pairs = BTreeMap::new();
        let mut write = |key: &[u8], value: Option<&[u8]>| {
            match value {
                Some(value) => drop(pairs.insert(key.to_vec(), value.to_vec())),
                None => drop(pairs.remove(key)),
            }
            Ok(())
        };
        // Keys that all cells share sort after those of the cells.
        let has_any = |(_, last): Span| !CellId::is_of_cells(last);
        self.each(&has_any, &is_learned, &mut write)?;
        Ok(pairs)
    }

    /// Passes the pairs with wanted keys in the order in which they were written. Does not fetch
    /// objects whose span excludes them.
    fn each(
        &self,
        has_any: &dyn Fn(Span) -> bool,
        is_wanted: &dyn Fn(&[u8]) -> bool,
        write: &mut WritePair<'_>,
    ) -> Result<(), SaveError> {
        for piece in self.manifest.pieces() {
            if piece.span.is_some_and(|span| !has_any(span)) {
                continue;
            }
            let packed = piece.read(&*self.objects).map_err(unreadable)?;
            let name = format!("{}/{}", self.objects.address(), piece.name);
            let mut visit = |(key, value): WriteRef<'_>| {
                if is_wanted(key) {
                    write(key, value)
                } else {
                    Ok(())
                }
            };
            pairs::each(&name, &packed, &mut visit).map_err(unreadable)?;
        }
        Ok(())
    }
}

/// The advice for damage in a job's own checkpoint does not help with that of a session.
pub(super) fn unreadable(error: SaveError) -> SaveError {
    match error {
        SaveError::Damaged { name, why } => SaveError::Unreadable { name, why },
        error => error,
    }
}
