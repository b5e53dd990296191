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
        let has_any = |(first, last)| wanted.iter().any(|cell| cell.is_between(first, last));
        let is_wanted = |key: &[u8]| {
            let cell = CellId::of_key(key);
            cell.is_some_and(|cell| wanted.contains(&cell))
        };
        self.each(&has_any, &is_wanted, write)?;
        Ok(wanted)
    }

    /// Up to where it had learned what all machines teach each other.
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
        // What all cells share stands behind the cells.
        let has_any = |(_, last): Span| !CellId::is_of_cells(last);
        self.each(&has_any, &is_learned, &mut write)?;
        Ok(pairs)
    }

    /// Passes the pairs whose keys are wanted, in the order in which they were written. Objects
    /// that have none of them by what they span are not fetched.
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

/// The advice for a job's own checkpoint does not help with that of a session.
pub(super) fn unreadable(error: SaveError) -> SaveError {
    match error {
        SaveError::Damaged { name, why } => SaveError::Unreadable { name, why },
        error => error,
    }
}
