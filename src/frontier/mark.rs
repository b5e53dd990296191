//! What a commit records about itself: a checkpoint elsewhere uses it to know which commit it
//! shows.
//!
//! A commit is a batch of the store, and the values of a mark are under several keys that a batch
//! may leave unchanged. So [`MarkReader`] derives the mark of a later commit from that of an
//! earlier one and the writes in between.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::amount::Amount;
use super::cell::{BATCHES, CellId, LEARNED_PLACE, LEAVING, STAMP, USED, place_of};
use super::ledger::{cells_of, must_have_format};
use super::record::{FORMAT, LogPlace, Meta};
use super::store::{Batch, Readable, Store, StoreError};
use super::{codec, keys};

/// What a commit records about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mark {
    /// The number of batches, including this one.
    pub commits: u64,
    /// The position of the outputs.
    pub stamp: Vec<u8>,
    /// Finished pages in the cells of the store.
    pub documents: u64,
    /// Kept images in the cells of the store.
    pub images: u64,
    /// What this store itself has done of the quantities that a job can limit.
    pub used: Amount,
    /// The last lesson that this store has learned from the cluster.
    pub learned: u64,
    /// The cells with any data in the store.
    pub cells: BTreeMap<CellId, CellMark>,
}

/// What a commit records about a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellMark {
    /// Whether its counters are in the store.
    pub begun: bool,
    /// Whether it is being deleted or loaded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leaving: bool,
    /// The position up to which it has read its log.
    pub read: u64,
    /// Finished pages.
    pub documents: u64,
    /// Kept images.
    pub images: u64,
}

impl CellMark {
    /// Whether the whole cell is in the store.
    pub fn is_held(&self) -> bool {
        self.begun && !self.leaving
    }
}

impl Mark {
    /// The mark of the last commit in a store; `None` in an empty one.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails, is damaged or of another format.
    pub fn of(store: &dyn Readable) -> Result<Option<Self>, StoreError> {
        let Some(cells) = cells_of(store)? else {
            return Ok(None);
        };
        let mut reader = MarkReader::default();
        let shared = [BATCHES, STAMP, USED, LEARNED_PLACE].map(<[u8]>::to_vec);
        for key in cells.all().flat_map(keys_of).chain(shared) {
            let value = store.get(&key)?;
            if let Some(MarkPart::CellMeta(_)) = MarkPart::of(&key) {
                must_have_format(store, value.as_deref())?;
            }
            reader.see(&key, value.as_deref());
        }
        store.scan(LEAVING, &[], &mut |key, value| {
            reader.see(key, Some(value));
            ControlFlow::Continue(())
        })?;
        let damaged = |key: Vec<u8>| codec::corrupt(store, &key, "it cannot be decoded".to_owned());
        reader.mark().map(Some).map_err(damaged)
    }

    /// The cells that are complete in the store, with the positions up to which they have read
    /// their logs.
    pub fn held(&self) -> BTreeMap<CellId, u64> {
        let held = self.cells.iter().filter(|(_, mark)| mark.is_held());
        held.map(|(cell, mark)| (*cell, mark.read)).collect()
    }

    /// Deletes the outputs' position from a store that no longer has outputs.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn forget_outputs(store: &mut dyn Store) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        batch.delete(STAMP.to_vec());
        store.apply(batch)
    }
}

/// Derives the mark of a later commit from that of an earlier one.
#[derive(Debug, Default)]
pub struct MarkReader {
    mark: Mark,
    /// The last values of the keys that a mark consists of: only these are decoded.
    last: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl MarkReader {
    /// Starts from the mark of a commit.
    pub fn after(mark: Mark) -> Self {
        let last = BTreeMap::new();
        Self { mark, last }
    }

    /// Notes a later write: a pair, or the removal of a key.
    pub fn see(&mut self, key: &[u8], value: Option<&[u8]>) {
        if MarkPart::of(key).is_some() {
            let value = value.map(<[u8]>::to_vec);
            match self.last.get_mut(key) {
                Some(known) => *known = value,
                None => drop(self.last.insert(key.to_vec(), value)),
            }
        }
    }

    /// The mark of the last commit whose pairs were all seen.
    ///
    /// # Errors
    /// The key whose value cannot be decoded.
    pub fn mark(self) -> Result<Mark, Vec<u8>> {
        let Self { mut mark, last } = self;
        for (key, value) in last {
            if let Some(part) = MarkPart::of(&key)
                && take(&mut mark, part, value).is_none()
            {
                return Err(key);
            }
        }
        mark.cells.retain(|_, cell| *cell != CellMark::default());
        let held = || mark.cells.values().filter(|cell| cell.is_held());
        mark.documents = held().map(|cell| cell.documents).sum();
        mark.images = held().map(|cell| cell.images).sum();
        Ok(mark)
    }
}

/// The part of a mark that a key holds.
enum MarkPart {
    Batches,
    Stamp,
    Used,
    Learned,
    Leaving(CellId),
    CellMeta(CellId),
    CellLog(CellId),
}

impl MarkPart {
    fn of(key: &[u8]) -> Option<Self> {
        match key {
            BATCHES => Some(Self::Batches),
            STAMP => Some(Self::Stamp),
            USED => Some(Self::Used),
            LEARNED_PLACE => Some(Self::Learned),
            _ if key.starts_with(LEAVING) => {
                let number = key.get(LEAVING.len()..)?.try_into().ok()?;
                CellId::try_from(u16::from_be_bytes(number))
                    .ok()
                    .map(Self::Leaving)
            }
            _ => {
                let (space, own) = key.split_first_chunk()?;
                let part = match own {
                    keys::META => Self::CellMeta,
                    keys::LOG => Self::CellLog,
                    _ => return None,
                };
                CellId::of_space(*space).map(part)
            }
        }
    }
}

/// The keys of a cell that belong to a mark.
fn keys_of(cell: CellId) -> [Vec<u8>; 2] {
    [keys::META, keys::LOG].map(|key| [&cell.space(), key].concat())
}

/// Adds the value of a key to a mark; `None` if it cannot be decoded.
fn take(mark: &mut Mark, part: MarkPart, value: Option<Vec<u8>>) -> Option<()> {
    match part {
        MarkPart::Batches => {
            mark.commits = match value {
                Some(value) => u64::from_be_bytes(value.try_into().ok()?),
                None => 0,
            };
        }
        MarkPart::Stamp => mark.stamp = value.unwrap_or_default(),
        MarkPart::Used => {
            mark.used = match value {
                Some(value) => Amount::of_bytes(&value)?,
                None => Amount::default(),
            };
        }
        MarkPart::Learned => mark.learned = place_of(value.as_deref())?,
        MarkPart::Leaving(cell) => mark.cells.entry(cell).or_default().leaving = value.is_some(),
        MarkPart::CellMeta(cell) => {
            let meta = match value {
                Some(value) => Some(read_meta(&value)?),
                None => None,
            };
            let known = mark.cells.entry(cell).or_default();
            known.begun = meta.is_some();
            let counts = meta.map(|meta| meta.counts).unwrap_or_default();
            (known.documents, known.images) = (counts.documents, counts.images);
        }
        MarkPart::CellLog(cell) => {
            let place: LogPlace = match value {
                Some(value) => postcard::from_bytes(&value).ok()?,
                None => LogPlace::default(),
            };
            mark.cells.entry(cell).or_default().read = place.sequence;
        }
    }
    Some(())
}

fn read_meta(value: &[u8]) -> Option<Meta> {
    let meta: Meta = postcard::from_bytes(value).ok()?;
    (meta.format == FORMAT).then_some(meta)
}
