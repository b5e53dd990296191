//! Shared by tests of this crate and of others. Other crates get it with the feature `testing`.

// A failed unwrap fails the test.
#![allow(clippy::unwrap_used)]

mod taught;
pub mod web;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::outcome::OutputEdit;
use crate::policy::{Policy, test_policy};
use crate::{CellCount, CellId, Cells, CellsError, Frontier, Outside};
pub use taught::{POOR, Taught};
pub use web::scope;

/// This many cells.
pub fn count(cells: u16) -> CellCount {
    CellCount::new(cells).unwrap()
}

/// A policy that reads sitemaps.
pub fn policy() -> Policy {
    Policy {
        sitemaps: true,
        ..test_policy()
    }
}

/// Keys with their values.
pub type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// The pairs of a cell, as of the last commit.
pub fn pairs_of(cells: &Cells, cell: CellId) -> Pairs {
    let mut pairs = Pairs::new();
    let mut visit = |key: &[u8], value: &[u8]| {
        pairs.insert(key.to_vec(), value.to_vec());
        ControlFlow::Continue(())
    };
    let snapshot = cells.snapshot();
    snapshot.scan(&cell.space(), &[], &mut visit).unwrap();
    pairs
}

/// Loads a cell into its place.
///
/// # Errors
/// As [`Cells::begin_load`] and [`Cells::end_load`].
pub fn put_in(cells: &mut Cells, cell: CellId, pairs: &Pairs) -> Result<(), CellsError> {
    let mut load = cells.begin_load(&[cell].into())?;
    for (key, value) in pairs {
        load.write(key, Some(value))?;
    }
    cells.end_load(load)
}

/// No outputs beside the cells.
pub struct NoOutputs;

impl<E> Outside<E> for NoOutputs {
    fn amend(&mut self, _: &[OutputEdit]) -> Result<Vec<u8>, E> {
        Ok(Vec::new())
    }

    fn sync(&mut self) -> Result<(), E> {
        Ok(())
    }
}

impl Frontier {
    /// Where the outputs stood at the last commit.
    pub fn stamp(&self) -> Vec<u8> {
        let stamp = self
            .ledger
            .store()
            .get(&crate::keys::shared(crate::cell::STAMP));
        stamp.unwrap().unwrap_or_default()
    }
}
