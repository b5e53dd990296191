//! The store under all cells, and the part of it that one cell sees.
//!
//! A frontier in a cell uses a store like any other. This module adds the cell's prefix to its
//! keys. A batch of the cell stays one batch of the underlying store, even if some keys are in the
//! space of another cell or in the shared one ([`crate::cell`]).

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::CellsError;
use crate::amount::Amount;
use crate::cell::{BATCHES, COUNT, CellCount, CellId, Home, SHARED, Space, USED, place_of};
use crate::ledger::cells_of;
use crate::store::{Batch, Readable, Store, StoreError, Visitor};
use crate::{codec, flush_marker, keys};

/// Pairs that a scan reads at a time, at first and at most: it holds no lock while they are
/// visited. Most scans want one pair.
const FIRST: usize = 2;
const PIECE: usize = if cfg!(test) { 8 } else { 512 };

/// The classes of keys that all cells share.
const SHARED_CLASSES: [&[u8]; 6] = [
    b"I",
    keys::BODIES,
    keys::LEARNED,
    keys::EXAMPLES,
    keys::JUDGED,
    keys::LESSONS,
];

/// A store that several cells use.
pub(super) struct SharedStore {
    path: PathBuf,
    below: Mutex<Below>,
}

struct Below {
    store: Box<dyn Store>,
    /// The number of batches over all runs.
    batches: u64,
    /// The sum of their work, over all cells that ever were in the store.
    used: Amount,
    /// The number of flushed batches.
    flushed: Option<u64>,
    /// Whether flushes wait for [`SharedStore::release`].
    is_held: bool,
}

/// The store of the only cell of `store`, as that cell sees it. An empty store gets one cell.
///
/// # Errors
/// [`StoreError::SeveralCells`] if it has several, and if it fails or is older than its last
/// flush.
pub fn only(store: Box<dyn Store>) -> Result<Box<dyn Store>, StoreError> {
    let path = store.path().to_owned();
    let shared = SharedStore::of(store, CellCount::ONE);
    let shared = shared.map_err(|error| error.of_only(&path))?;
    Ok(Box::new(CellStore::of(Home::ONLY, Arc::new(shared))))
}

/// The same for reading what can be read, even if the store is damaged or older than it was. It
/// must have one cell ([`check_format`](crate::check_format)).
pub fn whole(store: Box<dyn Store>) -> Box<dyn Readable> {
    let store: Box<dyn Readable> = store;
    Box::new(CellStore::of(Home::ONLY, store))
}

impl SharedStore {
    /// Opens it over a store with this many cells; an empty store is initialised.
    ///
    /// # Errors
    /// [`CellsError::Number`] if it has others, and as [`SharedStore::over`].
    pub fn of(store: Box<dyn Store>, cells: CellCount) -> Result<Self, CellsError> {
        let known = cells_of(&*store)?;
        if let Some(found) = known.filter(|found| *found != cells) {
            return Err(CellsError::Number {
                path: store.path().to_owned(),
                found: found.number(),
                asked: cells.number(),
            });
        }
        let shared = Self::over(store)?;
        if known.is_none() {
            let mut batch = Batch::default();
            batch.put(COUNT.to_vec(), cells.number().to_be_bytes().to_vec());
            shared.apply(batch)?;
            shared.flush()?;
        }
        Ok(shared)
    }

    /// Opens it over a store.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails, or is older than its last flush.
    pub fn over(store: Box<dyn Store>) -> Result<Self, StoreError> {
        let path = store.path().to_owned();
        let batches = place_of(store.get(BATCHES)?.as_deref()).unwrap_or(0);
        flush_marker::check(&path, batches)?;
        let used = match store.get(USED)? {
            Some(bytes) => Amount::of_bytes(&bytes)
                .ok_or_else(|| codec::corrupt(&*store, USED, "it is not an amount".to_owned()))?,
            None => Amount::default(),
        };
        let below = Mutex::new(Below {
            store,
            batches,
            used,
            flushed: None,
            is_held: false,
        });
        Ok(Self { path, below })
    }

    fn below(&self) -> MutexGuard<'_, Below> {
        // If a call of the store panicked, its own guards decide.
        self.below.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies writes to keys that include their prefixes.
    pub fn apply(&self, batch: Batch) -> Result<(), StoreError> {
        self.apply_done(batch, Amount::default(), 0)
    }

    /// The same for a batch that has done this much of what a job can limit. Its number is larger
    /// than `before`.
    fn apply_done(&self, mut batch: Batch, done: Amount, before: u64) -> Result<(), StoreError> {
        let mut below = self.below();
        let used = below.used.plus(done);
        if used != below.used {
            batch.put(USED.to_vec(), used.to_bytes());
        }
        let batches = below.batches.max(before).saturating_add(1);
        batch.put(BATCHES.to_vec(), batches.to_be_bytes().to_vec());
        below.store.apply(batch)?;
        below.batches = batches;
        below.used = used;
        Ok(())
    }

    /// Defers flushes until [`SharedStore::release`], so that many cells need only one.
    pub fn hold(&self) {
        self.below().is_held = true;
    }

    /// Flushes, and ends the deferral.
    pub fn release(&self) -> Result<(), StoreError> {
        self.below().is_held = false;
        self.flush()
    }

    /// Returns when every batch applied so far is safe on disk, or at once while flushes are
    /// deferred.
    pub fn flush(&self) -> Result<(), StoreError> {
        let mut below = self.below();
        let batches = below.batches;
        if below.is_held || below.flushed == Some(batches) {
            return Ok(());
        }
        below.store.flush()?;
        flush_marker::write(&self.path, batches)?;
        below.flushed = Some(batches);
        Ok(())
    }

    /// Flushes a promise to a host even while flushes are deferred.
    fn flush_promise(&self) -> Result<(), StoreError> {
        self.below().store.flush_promise()
    }

    /// The current state, readable while later batches are applied.
    pub fn snapshot(&self) -> Box<dyn Readable> {
        self.below().store.snapshot()
    }

    /// The number of batches over all runs.
    pub fn batches(&self) -> u64 {
        self.below().batches
    }

    /// The work of its batches, in quantities that a job can limit, over all runs.
    pub fn used(&self) -> Amount {
        self.below().used
    }

    /// Size on disk in bytes.
    pub fn size(&self) -> Result<u64, StoreError> {
        self.below().store.size()
    }
}

impl Readable for Arc<SharedStore> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.below().store.get(key)
    }

    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visitor<'_>) -> Result<(), StoreError> {
        let mut from = from.to_vec();
        let mut most = FIRST;
        loop {
            let mut piece = Vec::new();
            self.below().store.scan(prefix, &from, &mut |key, value| {
                piece.push((key.to_vec(), value.to_vec()));
                if piece.len() < most {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
            for (key, value) in &piece {
                if visit(key, value).is_break() {
                    return Ok(());
                }
            }
            match piece.pop() {
                Some((last, _)) if piece.len() + 1 == most => from = [&last, &[0][..]].concat(),
                _ => return Ok(()),
            }
            most = (most * 8).min(PIECE);
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// What a cell sees of a store: its own keys without their prefix, and the shared ones.
pub(super) struct CellStore<R> {
    home: Home,
    below: R,
}

impl<R> CellStore<R> {
    pub fn of(home: Home, below: R) -> Self {
        Self { home, below }
    }

    /// The space of a key, or of all keys with this beginning.
    fn space(&self, key: &[u8]) -> Space {
        if SHARED_CLASSES.iter().any(|class| key.starts_with(class)) {
            return SHARED;
        }
        self.cell_of(key).space()
    }

    /// Finished pages are looked up in the cell that assigned their number: a link that another
    /// cell found refers to one.
    fn cell_of(&self, key: &[u8]) -> CellId {
        let id = key.strip_prefix(b"D").and_then(|id| id.try_into().ok());
        let id = id.map(u64::from_be_bytes);
        let cell = id.and_then(|id| self.home.cells.cell_of_page(id));
        cell.unwrap_or(self.home.cell)
    }

    /// The key in the underlying store.
    fn below<'k>(&self, key: &'k [u8]) -> Cow<'k, [u8]> {
        match key.split_first() {
            Some((&keys::ELSEWHERE, rest)) => Cow::Borrowed(rest),
            _ => Cow::Owned([self.space(key).as_slice(), key].concat()),
        }
    }
}

impl<R: Readable> Readable for CellStore<R> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.below.get(&self.below(key))
    }

    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visitor<'_>) -> Result<(), StoreError> {
        let space = self.space(prefix);
        let below = |key: &[u8]| [space.as_slice(), key].concat();
        let from = below(prefix.max(from));
        self.below.scan(&below(prefix), &from, &mut |key, value| {
            let own = key.get(space.len()..).unwrap_or_default();
            visit(own, value)
        })
    }

    fn path(&self) -> &Path {
        self.below.path()
    }
}

impl Store for CellStore<Arc<SharedStore>> {
    fn apply(&mut self, batch: Batch) -> Result<(), StoreError> {
        let mut done = Amount::default();
        let mut before = 0;
        let writes = batch.into_writes().filter_map(|(key, value)| {
            let key = self.below(&key).into_owned();
            if key == USED {
                // A cell knows what it adds, but not the sum.
                done = Amount::of_bytes(&value?).unwrap_or_default();
                return None;
            }
            if key == BATCHES {
                // An import continues with the number of the exported frontier.
                before = place_of(value.as_deref()).unwrap_or(0);
                return None;
            }
            Some((key, value))
        });
        let all = Batch::of(writes);
        self.below.apply_done(all, done, before)
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.below.flush()
    }

    fn flush_promise(&mut self) -> Result<(), StoreError> {
        self.below.flush_promise()
    }

    fn size(&self) -> Result<u64, StoreError> {
        self.below.size()
    }

    /// False: the space of a cell is freed only when the underlying store compacts all cells.
    fn compact(&mut self) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn snapshot(&self) -> Box<dyn Readable> {
        Box::new(CellStore::of(self.home, self.below.snapshot()))
    }
}
