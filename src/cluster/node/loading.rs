//! The states of cells that were taken, read on a separate thread while the crawl continues.
//!
//! A cell's state is in the first of its bases that has it. Cells with the same base are read
//! together, because a checkpoint is read from beginning to end. A failed read is repeated: the
//! store of the checkpoints may be away for a while, and the cell waits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use crate::crawl::saved::{SaveError, SavedCells};
use crate::frontier::{CellId, Cells, Load};
use crate::{Base, Inherited, Revision};

use super::error::NodeError;

/// How long to wait before reading again after a failure, in milliseconds.
const PAUSE: u64 = 5_000;

/// A cell whose state was read: it is in the store, and closed.
pub(super) type Loaded = (CellId, Inherited, Revision);

/// Cells whose states are being read.
pub(super) struct Loading {
    /// Where the checkpoints of all sessions are.
    store: String,
    wanted: BTreeMap<CellId, (Inherited, Revision)>,
    reading: Option<Receiver<Result<Load, SaveError>>>,
    /// The cells that are being read.
    read: BTreeMap<CellId, (Inherited, Revision)>,
    /// When to read again after a failure.
    from: u64,
    /// The last failure, so that it is reported once.
    failure: Option<String>,
}

impl Loading {
    pub fn new(store: String) -> Self {
        Self {
            store,
            wanted: BTreeMap::new(),
            reading: None,
            read: BTreeMap::new(),
            from: 0,
            failure: None,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty() && self.read.is_empty()
    }

    /// Queues a cell whose state must be read.
    pub fn want(&mut self, cell: CellId, state: Inherited, revision: Revision) {
        self.wanted.insert(cell, (state, revision));
    }

    /// Whether the state of a cell is being read or must be read.
    pub fn has(&self, cell: CellId) -> bool {
        self.wanted.contains_key(&cell) || self.read.contains_key(&cell)
    }

    /// Starts to read the queued states, and returns those that were read.
    pub fn turn(&mut self, cells: &mut Cells, now: u64) -> Result<Vec<Loaded>, NodeError> {
        let mut loaded = Vec::new();
        if let Some(reading) = &self.reading {
            match reading.try_recv() {
                Ok(Ok(load)) => {
                    cells.end_load(load)?;
                    let read = std::mem::take(&mut self.read);
                    loaded.extend(read.into_iter().map(|(cell, (s, r))| (cell, s, r)));
                    self.reading = None;
                    self.failure = None;
                }
                Ok(Err(error)) => self.fail(&error.to_string(), now),
                Err(TryRecvError::Empty) => return Ok(loaded),
                Err(TryRecvError::Disconnected) => {
                    self.fail("the thread that reads cells has failed", now);
                }
            }
        }
        if !self.wanted.is_empty() && now >= self.from {
            self.begin(cells)?;
        }
        Ok(loaded)
    }

    fn fail(&mut self, why: &str, now: u64) {
        self.reading = None;
        self.from = now.saturating_add(PAUSE);
        // What was read of them was dropped together with the load, and the sweep deletes it.
        let read = std::mem::take(&mut self.read);
        // A cell that was queued again in the meantime has newer values.
        for (cell, state) in read {
            self.wanted.entry(cell).or_insert(state);
        }
        if self.failure.as_deref() != Some(why) {
            tracing::warn!(
                "the checkpoints of other machines cannot be read: {why}; their hosts wait, and \
                 it is tried again"
            );
            self.failure = Some(why.to_owned());
        }
    }

    fn begin(&mut self, cells: &mut Cells) -> Result<(), NodeError> {
        // Remains of an earlier time are deleted first, slice by slice.
        let stored = cells.stored()?;
        for cell in self.wanted.keys().filter(|cell| stored.contains(cell)) {
            cells.drop_cell(*cell)?;
        }
        let is_free = |cell: &CellId| !cells.is_leaving(*cell);
        let free: BTreeSet<CellId> = self.wanted.keys().copied().filter(is_free).collect();
        if free.is_empty() {
            return Ok(());
        }
        for cell in &free {
            if let Some(wanted) = self.wanted.remove(cell) {
                self.read.insert(*cell, wanted);
            }
        }
        let mut load = cells.begin_load(&free)?;
        let bases = self.read.iter();
        let bases = bases.map(|(cell, (state, _))| (*cell, state.bases.clone().into()));
        let bases: BTreeMap<CellId, VecDeque<Base>> = bases.collect();
        let store = self.store.clone();
        let (done, reading) = channel();
        self.reading = Some(reading);
        let thread = std::thread::Builder::new().name("cells".to_owned());
        let spawned = thread.spawn(move || {
            let read = read_all(&store, bases, &mut load);
            // The receiver is gone at shutdown.
            drop(done.send(read.map(|()| load)));
        });
        if let Err(error) = spawned {
            tracing::warn!(%error, "no thread could be started to read the states of cells");
        }
        Ok(())
    }
}

/// Reads the state of each cell from the first of its bases that has it.
fn read_all(
    store: &str,
    mut bases: BTreeMap<CellId, VecDeque<Base>>,
    load: &mut Load,
) -> Result<(), SaveError> {
    loop {
        bases.retain(|_, bases| !bases.is_empty());
        let Some(base) = bases.values().find_map(|bases| bases.front()).cloned() else {
            return Ok(());
        };
        let begins = |bases: &VecDeque<Base>| bases.front() == Some(&base);
        let here = bases.iter().filter(|(_, bases)| begins(bases));
        let here: BTreeSet<CellId> = here.map(|(cell, _)| *cell).collect();
        let saved = SavedCells::open(store, &base.session.to_string(), base.checkpoint)?;
        let mut write = |key: &[u8], value: Option<&[u8]>| Ok(load.write(key, value)?);
        let found = saved.read(&here, &mut write)?;
        for cell in here {
            if found.contains(&cell) {
                bases.remove(&cell);
            } else if let Some(rest) = bases.get_mut(&cell) {
                rest.pop_front();
            }
        }
    }
}
