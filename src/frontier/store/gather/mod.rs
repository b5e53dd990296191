//! A store in front of another one that gathers batches and applies many as one, in a separate
//! thread.
//!
//! A page changes some hundred keys, and a key that one page changes is often changed again by the
//! next: counters, hosts, heads of queues, what links have in common. If each batch were written
//! directly, every change would go through the backend's tree, and the crawl's only thread would
//! wait for it. So batches are gathered for a second and applied together. Reads see the gathered
//! writes first.
//!
//! # The path of a batch
//!
//! 1. It is appended to a [`Journal`] and to the **gathered** layer. The caller continues.
//! 2. After a second, or earlier after many writes, the gathered layer is **frozen**, and the next
//!    batches start a new one.
//! 3. The thread applies the frozen layer between two marks, each with the number of its last
//!    batch, and forgets it.
//!
//! Memory is bounded: a full gathered layer waits for the frozen one.
//!
//! # After a crash
//!
//! Every batch that may be missing from the backend is in the journal. At the next opening the
//! batches after the number of the second mark are applied again, in order. So it does not matter
//! how much of a layer the backend has. After a loss of power the journal may lack batches up to
//! the first mark: then the store is known to be damaged.
//!
//! Only a flush syncs the journal: data that the outputs of a crawl have not synced must not
//! survive a loss of power in the store either. If the journal has become long by then, the
//! gathered layer is frozen at once, and the next batches go to another file. Once the thread has
//! applied it, it flushes the backend and empties the first file.

mod layers;

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use self::layers::{Layers, Turn, Writes};
use super::journal::Journal;
use super::{Batch, Readable, Store, StoreError, Visitor};

/// The key of the number of the last batch that the store may have a part of. No other keys begin
/// like this, except the next one.
const BEGUN: &[u8] = b"\0begun";
/// The key of the number of the last batch that the store has.
const NUMBER: &[u8] = b"\0gathered";
/// Pairs that a scan reads at a time, at first and at most. Most scans want one pair.
const FIRST: usize = 2;
const PIECE: usize = if cfg!(test) { 8 } else { 512 };

/// A backend that one thread reads while another one writes.
pub(super) trait Backend: Store {
    /// Reads the current contents of the backend.
    type Reader: Readable + 'static;

    /// A further reader of it.
    fn reader(&self) -> Self::Reader;

    /// Applies writes to different keys, in this order. After a crash or an error, any number of
    /// them from the start may be applied.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the backend fails.
    fn apply_all(&mut self, writes: &[Borrowed<'_>]) -> Result<(), StoreError>;
}

/// A key, and its value or `None` if it is removed.
pub(super) type Borrowed<'w> = (&'w [u8], Option<&'w [u8]>);

/// What to do with a store that has a part of a batch that its journal lacks, as after a loss of
/// power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parts {
    /// It is damaged.
    Refused,
    /// The rest is read.
    Taken,
}

/// A store whose batches are gathered.
pub(super) struct Gathered<S: Backend + 'static> {
    /// Declared first, so that it is closed first.
    reader: S::Reader,
    shared: Arc<Shared<S>>,
    path: PathBuf,
    /// The thread that applies frozen layers.
    thread: Option<JoinHandle<()>>,
}

/// To lock both, lock the writer first.
struct Shared<S> {
    layers: Mutex<Layers>,
    changed: Condvar,
    writer: Mutex<S>,
}

impl<S> Shared<S> {
    fn layers(&self) -> MutexGuard<'_, Layers> {
        // They change in steps that cannot panic.
        self.layers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn writer(&self) -> MutexGuard<'_, S> {
        // A panic of a backend became an error.
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Backend> Shared<S> {
    /// Applies the gathered layer whenever it has waited long enough, until the store closes.
    fn run(&self) {
        let mut layers = self.layers();
        loop {
            layers = match layers.turn() {
                Turn::Close => return,
                Turn::Wait(None) => {
                    let woken = self.changed.wait(layers);
                    woken.unwrap_or_else(PoisonError::into_inner)
                }
                Turn::Wait(Some(left)) => {
                    let woken = self.changed.wait_timeout(layers, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
                Turn::Apply => {
                    drop(layers);
                    let applied = self.apply_frozen(&mut self.writer());
                    let mut layers = self.layers();
                    if let Err(error) = applied {
                        layers.failed = Some(error);
                    }
                    layers
                }
            };
        }
    }

    /// Applies the frozen layer, or else the gathered one. Returns false if both are empty. After
    /// an error the layer stays frozen.
    fn apply_frozen(&self, writer: &mut S) -> Result<bool, StoreError> {
        let Some(frozen) = self.layers().freeze(false) else {
            return Ok(false);
        };
        let number = frozen.number.to_be_bytes();
        let mut writes: Vec<Borrowed<'_>> = Vec::with_capacity(frozen.writes.len() + 2);
        writes.push((BEGUN, Some(&number)));
        let layer = frozen.writes.iter();
        writes.extend(layer.map(|(key, value)| (key.as_slice(), value.as_deref())));
        writes.push((NUMBER, Some(&number)));
        writer.apply_all(&writes)?;
        if let Some(journal) = &frozen.ended {
            writer.flush()?;
            journal.clear()?;
        }
        self.layers().thaw();
        Ok(true)
    }

    /// The layers, unless the thread has failed: each error is reported once, and then the layer is
    /// tried again.
    fn sound(&self) -> Result<MutexGuard<'_, Layers>, StoreError> {
        let mut layers = self.layers();
        match layers.failed.take() {
            None => Ok(layers),
            Some(error) => {
                self.changed.notify_all();
                Err(error)
            }
        }
    }

    /// Applies everything.
    fn apply_layers(&self, writer: &mut S) -> Result<(), StoreError> {
        drop(self.sound()?);
        while self.apply_frozen(writer)? {}
        Ok(())
    }

    /// The same, and then empties the journal.
    fn settle(&self, writer: &mut S) -> Result<(), StoreError> {
        self.apply_layers(writer)?;
        let mut layers = self.layers();
        if layers.journal.is_used() {
            writer.flush()?;
            layers.journal.clear()?;
        }
        Ok(())
    }
}

impl<S: Backend> Gathered<S> {
    /// Puts it in front of a store, with the journal in `folder`. Applies what a killed process
    /// left there.
    ///
    /// # Errors
    /// [`StoreError`] if the store or the journal fails; [`StoreError::Damaged`] if the
    /// store has a part of what the journal lacks, and such parts are refused.
    pub(super) fn over(store: S, folder: &Path, parts: Parts) -> Result<Self, StoreError> {
        let path = store.path().to_owned();
        let (journal, batches) = Journal::open(folder)?;
        let marked = |key| -> Result<u64, StoreError> {
            let bytes = store.get(key)?.and_then(|bytes| bytes.try_into().ok());
            Ok(bytes.map_or(0, u64::from_be_bytes))
        };
        let mut number = marked(NUMBER)?;
        let mut missing = Writes::new();
        for (own, writes) in batches {
            if own == number + 1 {
                number = own;
                missing.extend(writes);
            }
        }
        let begun = marked(BEGUN)?;
        if begun > number && parts == Parts::Refused {
            return Err(StoreError::Damaged {
                path: store.path().to_owned(),
                why: format!(
                    "it has a part of batch {begun}, and its journal ends at batch {number}, as \
                     after a loss of power"
                ),
            });
        }
        let shared = Arc::new(Shared {
            layers: Mutex::new(Layers::new(journal, number, missing)),
            changed: Condvar::new(),
            writer: Mutex::new(store),
        });
        shared.settle(&mut shared.writer())?;
        let reader = shared.writer().reader();
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("store gather".to_owned());
        let thread = thread.spawn(move || own.run());
        let thread = thread.map_err(|error| StoreError::Io {
            path: path.clone(),
            why: format!("its thread cannot be started: {error}"),
        })?;
        Ok(Self {
            reader,
            shared,
            path,
            thread: Some(thread),
        })
    }

    /// Freezes the gathered layer for the thread. If the thread is still busy with an earlier
    /// layer, waits for it; a layer left by an error is applied here. `ends` is whether the journal
    /// file ends with it.
    fn frozen<'s>(
        &'s self,
        mut layers: MutexGuard<'s, Layers>,
        ends: bool,
    ) -> Result<MutexGuard<'s, Layers>, StoreError> {
        if layers.is_frozen() {
            drop(layers);
            let mut writer = self.shared.writer();
            if self.shared.sound()?.is_frozen() {
                self.shared.apply_frozen(&mut writer)?;
            }
            layers = self.shared.layers();
        }
        layers.freeze(ends);
        self.shared.changed.notify_all();
        Ok(layers)
    }
}

impl<S: Backend> Drop for Gathered<S> {
    fn drop(&mut self) {
        self.shared.layers().is_closing = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It ends at once; a panic in it was printed.
            thread.join().ok();
        }
        if let Err(error) = self.shared.settle(&mut self.shared.writer()) {
            // The run has ended with this error, or will end with an earlier one.
            tracing::debug!(%error, "the last changes of the frontier are only in its journal");
        }
    }
}

impl<S: Backend> Readable for Gathered<S> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let layers = self.shared.layers();
        match layers.get(key) {
            Some(value) => Ok(value.map(<[u8]>::to_vec)),
            None => self.reader.get(key),
        }
    }

    /// In pieces, so that the visitor may read the store itself.
    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visitor<'_>) -> Result<(), StoreError> {
        let mut from = if from > prefix { from } else { prefix }.to_vec();
        let mut most = FIRST;
        loop {
            let mut pairs = BTreeMap::new();
            // Held, so that nothing moves from the layers into the backend in the meantime.
            let layers = self.shared.layers();
            self.reader.scan(prefix, &from, &mut |key, value| {
                if !is_mark(key) {
                    pairs.insert(key.to_vec(), Some(value.to_vec()));
                }
                if pairs.len() < most {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
            // Up to the last key of a full piece; to the end after the last piece.
            let last = pairs.last_key_value().map(|(key, _)| key.clone());
            let until = last.filter(|_| pairs.len() == most);
            let upper = until.as_ref().map_or(Bound::Unbounded, Bound::Included);
            layers.overlay(prefix, (Bound::Included(&from), upper), &mut pairs);
            drop(layers);
            for (key, value) in &pairs {
                if let Some(value) = value
                    && visit(key, value).is_break()
                {
                    return Ok(());
                }
            }
            let Some(mut next) = until else {
                return Ok(());
            };
            next.push(0);
            from = next;
            most = (most * 8).min(PIECE);
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl<S: Backend> Store for Gathered<S> {
    fn apply(&mut self, batch: Batch) -> Result<(), StoreError> {
        // Errors are reported before this batch is added, so that no error concerns a batch that is
        // gathered nevertheless.
        let mut layers = self.shared.sound()?;
        if layers.is_full() {
            layers = self.frozen(layers, false)?;
        }
        if layers.add(batch)? {
            self.shared.changed.notify_all();
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let layers = self.shared.sound()?;
        layers.journal.sync()?;
        if layers.journal.is_long() {
            drop(self.frozen(layers, true)?);
        }
        Ok(())
    }

    fn size(&self) -> Result<u64, StoreError> {
        self.shared.writer().size()
    }

    fn compact(&mut self) -> Result<bool, StoreError> {
        let mut writer = self.shared.writer();
        self.shared.apply_layers(&mut writer)?;
        writer.compact()
    }

    fn snapshot(&self) -> Box<dyn Readable> {
        let mut writer = self.shared.writer();
        if let Err(error) = self.shared.apply_layers(&mut writer) {
            self.shared.layers().failed = Some(error);
        }
        Box::new(Snapshot(writer.snapshot()))
    }

    fn warm(&mut self, keys: usize) -> Result<(), StoreError> {
        self.shared.writer().warm(keys)
    }
}

/// Whether a key is one of the two numbers.
fn is_mark(key: &[u8]) -> bool {
    key == BEGUN || key == NUMBER
}

/// A snapshot of the underlying store, without the marks.
struct Snapshot(Box<dyn Readable>);

impl Readable for Snapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.0.get(key)
    }

    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visitor<'_>) -> Result<(), StoreError> {
        self.0.scan(prefix, from, &mut |key, value| {
            if is_mark(key) {
                return ControlFlow::Continue(());
            }
            visit(key, value)
        })
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

#[cfg(test)]
mod tests;
