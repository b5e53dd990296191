//! What a commit says of itself: by this a checkpoint elsewhere knows which commit it shows.
//!
//! A commit is a batch of the store, and what belongs to it lies under several keys that a batch
//! may leave alone. So [`MarkReader`] goes from the mark of one commit to that of a later one by
//! what was written in between.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::amount::Amount;
use super::cell::{BATCHES, CellId, LEARNED_PLACE, LEAVING, STAMP, USED, place_of};
use super::ledger::{cells_of, must_have_format};
use super::record::{FORMAT, LogPlace, Meta};
use super::store::{Batch, Readable, Store, StoreError};
use super::{codec, keys};

/// What a commit says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mark {
    /// How many batches there were, with it.
    pub commits: u64,
    /// Where the outputs stood.
    pub stamp: Vec<u8>,
    /// Pages done in the cells that it holds.
    pub documents: u64,
    /// Images kept in the cells that it holds.
    pub images: u64,
    /// What this store has done itself of what a job may limit.
    pub used: Amount,
    /// Up to where this store has learned what all machines teach each other.
    pub learned: u64,
    /// The cells that the store has anything of.
    pub cells: BTreeMap<CellId, CellMark>,
}

/// What a commit says of a cell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellMark {
    /// Whether its counters are there.
    pub begun: bool,
    /// Whether it is being deleted or loaded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leaving: bool,
    /// The number up to which it has read its log.
    pub read: u64,
    /// Pages done.
    pub documents: u64,
    /// Images kept.
    pub images: u64,
}

impl CellMark {
    /// Whether the whole cell is there.
    pub fn is_held(&self) -> bool {
        self.begun && !self.leaving
    }
}

impl Mark {
    /// That of the last commit in a store; `None` in an empty one.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails, is damaged or of another format.
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

    /// The cells that it holds whole, with the numbers up to which they have read their logs.
    pub fn held(&self) -> BTreeMap<CellId, u64> {
        let held = self.cells.iter().filter(|(_, mark)| mark.is_held());
        held.map(|(cell, mark)| (*cell, mark.read)).collect()
    }

    /// Makes a store forget where the outputs stood, because it has none any more.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn forget_outputs(store: &mut dyn Store) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        batch.delete(STAMP.to_vec());
        store.apply(batch)
    }
}

/// Goes from the mark of one commit to that of a later one.
#[derive(Debug, Default)]
pub struct MarkReader {
    mark: Mark,
    /// The last values of the keys that a mark is made of: only these are decoded.
    last: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl MarkReader {
    /// Begins with the mark of a commit.
    pub fn after(mark: Mark) -> Self {
        let last = BTreeMap::new();
        Self { mark, last }
    }

    /// Takes note of a pair that was written, or of a key that was removed, behind it.
    pub fn see(&mut self, key: &[u8], value: Option<&[u8]>) {
        if MarkPart::of(key).is_some() {
            let value = value.map(<[u8]>::to_vec);
            match self.last.get_mut(key) {
                Some(known) => *known = value,
                None => drop(self.last.insert(key.to_vec(), value)),
            }
        }
    }

    /// The mark of the last commit of which all pairs were seen.
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

/// What a key tells.
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

/// The keys of a cell that a mark is made of.
fn keys_of(cell: CellId) -> [Vec<u8>; 2] {
    [keys::META, keys::LOG].map(|key| [&cell.space(), key].concat())
}

/// Adds what the value of a key tells; `None` where it cannot be decoded.
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
