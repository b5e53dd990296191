//! What was written and is not in the backend yet: a layer that is being gathered, and an earlier
//! one that is frozen and being applied.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::store::journal::{Journal, JournalFile};
use crate::store::{Batch, StoreError};

/// How long batches are gathered.
const LONGEST: Duration = Duration::from_millis(if cfg!(test) { 100 } else { 1_000 });
/// The most writes that are gathered.
const WRITES: usize = if cfg!(test) { 50 } else { 12_000 };
/// The most bytes that are gathered: a write usually has 150, but those of robots.txt files
/// have half a million.
const BYTES: usize = 1 << 20;
/// Writes by their keys; `None` removes a key.
pub(super) type Writes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A layer that is being applied.
pub(super) struct Frozen {
    pub writes: Writes,
    /// The number of its last batch.
    pub number: u64,
    /// The journal file that contains no later batches, if there is one: it is emptied once its
    /// batches are safely in the backend.
    pub ended: Option<Arc<JournalFile>>,
}

/// What the thread should do.
pub(super) enum Turn {
    Apply,
    /// Wait for a change, at most this long.
    Wait(Option<Duration>),
    Close,
}

/// The layers before the backend. See the module's documentation.
pub(super) struct Layers {
    gathered: Writes,
    /// The size of the gathered layer in bytes.
    bytes: usize,
    /// When gathering began.
    since: Option<Instant>,
    frozen: Option<Arc<Frozen>>,
    pub journal: Journal,
    /// The number of the last batch.
    number: u64,
    /// The error of the thread, for the next caller.
    pub failed: Option<StoreError>,
    pub is_closing: bool,
}

impl Layers {
    /// Starts with the batches of the journal that the backend lacks, up to the one with this
    /// number.
    pub fn new(journal: Journal, number: u64, missing: Writes) -> Self {
        Self {
            gathered: missing,
            bytes: 0,
            since: None,
            frozen: None,
            journal,
            number,
            failed: None,
            is_closing: false,
        }
    }

    /// Appends a batch to the journal, and gathers it. Returns whether it is the first.
    pub fn add(&mut self, batch: Batch) -> Result<bool, StoreError> {
        let number = self.number + 1;
        self.journal.append(number, batch.writes())?;
        self.number = number;
        for (key, value) in batch.into_writes() {
            self.bytes += key.len() + value.as_ref().map_or(0, Vec::len);
            self.gathered.insert(key, value);
        }
        let is_first = self.since.is_none();
        self.since.get_or_insert_with(Instant::now);
        Ok(is_first)
    }

    /// Whether the layer must be frozen before more is gathered.
    pub fn is_full(&self) -> bool {
        self.gathered.len() >= WRITES || self.bytes >= BYTES
    }

    pub fn is_frozen(&self) -> bool {
        self.frozen.is_some()
    }

    /// Returns the frozen layer; if there is none, freezes the gathered one. `ends` is whether the
    /// journal file ends with it; after a long time without a flush it ends anyway.
    pub fn freeze(&mut self, ends: bool) -> Option<Arc<Frozen>> {
        if self.frozen.is_none() && !self.gathered.is_empty() {
            let ends = ends || self.journal.is_too_long();
            let ended = ends.then(|| self.journal.end());
            self.frozen = Some(Arc::new(Frozen {
                writes: std::mem::take(&mut self.gathered),
                number: self.number,
                ended,
            }));
            self.bytes = 0;
            self.since = None;
        }
        self.frozen.clone()
    }

    /// Forgets the frozen layer: the backend has it.
    pub fn thaw(&mut self) {
        self.frozen = None;
    }

    pub fn turn(&self) -> Turn {
        if self.is_closing {
            return Turn::Close;
        }
        // After an error everything waits until the error was reported.
        if self.failed.is_some() {
            return Turn::Wait(None);
        }
        if self.is_frozen() {
            return Turn::Apply;
        }
        match self
            .since
            .map(|since| LONGEST.saturating_sub(since.elapsed()))
        {
            Some(Duration::ZERO) => Turn::Apply,
            left => Turn::Wait(left),
        }
    }

    /// The effect on a key: `None` if there is none, `Some(None)` if it is removed.
    pub fn get(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        let frozen = || self.frozen.as_ref()?.writes.get(key);
        let value = self.gathered.get(key).or_else(frozen)?;
        Some(value.as_deref())
    }

    /// Overlays pairs of the backend with the writes in a range and with this prefix.
    pub fn overlay(
        &self,
        prefix: &[u8],
        range: (Bound<&Vec<u8>>, Bound<&Vec<u8>>),
        pairs: &mut Writes,
    ) {
        let frozen = self.frozen.as_ref().map(|frozen| &frozen.writes);
        for writes in frozen.into_iter().chain([&self.gathered]) {
            let writes = writes.range::<Vec<u8>, _>(range);
            for (key, value) in writes.take_while(|(key, _)| key.starts_with(prefix)) {
                pairs.insert(key.clone(), value.clone());
            }
        }
    }
}
