//! sled 0.34.7 behind [`Store`]: one tree, and another for large batches.
//!
//! sled panics on damaged files instead of returning an error, so every call runs behind
//! `catch_unwind` and a panic becomes a [`StoreError`]. Its guarantees were measured: atomic and
//! ordered across SIGKILL, except that the last unwritten batches are lost, which the journal of
//! `gather` restores; not safe across a power cut; and its file never shrinks. It is flushed only
//! when that journal becomes long: sled's own flush thread, twice a second, only wrote half-full
//! buffers.
//!
//! # Memory
//!
//! Every write replaces a node of the tree, and sled keeps the old one until no reader can hold it
//! (by epochs, Fraser 2004). It looks for such nodes at every 128th call and frees at most 512, so
//! batches of many writes outrun it: 1.5 million keys in successive batches of 2,000 took 6 GB. So
//! the sweep here makes it look in proportion to the writes.
//!
//! All nodes that a sled batch replaces stay until its end, and for each batch sled writes two
//! buffers and wakes seven threads. So gathered writes are applied key by key: the journal of
//! `gather` completes what a crash interrupts. With batches of 500 after a copy of the whole, a
//! crawl of 2,000 pages wrote 200 additional files of 280 KB.
//!
//! A large batch that was not gathered is applied in slices: the whole batch is first written to a
//! separate tree, and removed from there after the last slice. The remains of an interrupted batch
//! are applied at the next opening, before anything is read.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::gather::{Backend, Borrowed};
use super::journal::push_write;
use super::{
    Batch, Held, Readable, Store, StoreError, Visitor, guarded, is_about_damage, unguarded,
};

/// sled's page cache, in bytes as stored; in memory the pages take several times as much:
/// a crawl with a million queued addresses took 750 MB and more with 256 MiB, and 390 MB
/// with this size, when replaced nodes were freed later than now. Frequent records are
/// cached in front of the store anyway.
const CACHE_BYTES: u64 = 32 * 1024 * 1024;

/// Most writes given to sled at once: it keeps about 8 KB for each until the last one, and
/// readers wait for it.
const SLICE: usize = 500;

/// The tree that holds a batch until all its slices are applied.
const PROMISED: &[u8] = b"promised";

/// Bytes of a stored batch under one key. A node of sled, about 16 keys, goes into its
/// log; one above 128 KB becomes a separate file.
const PROMISED_BYTES: usize = 16 * 1024;

/// Writes after which sled is made to look for nodes to free.
const WRITES_PER_SWEEP: usize = 128;

/// Attempts to take the lock of a store, and the time between them.
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Pairs that a snapshot reads from the tree at a time.
const PIECE: usize = if cfg!(test) { 3 } else { 1_000 };

/// A store in a folder, by sled.
pub struct SledStore {
    reader: SledReader,
    /// Pieces of the batch that is applied in slices, in order.
    promised: Held<sled::Tree>,
    /// Whether there may be such a batch.
    is_promised: bool,
    /// [`SLICE`], except in tests.
    slice: usize,
    /// The recorded changes of the open snapshots.
    snapshots: RefCell<Vec<Weak<Before>>>,
}

/// A handle that reads the current contents of the store.
pub struct SledReader {
    db: Held<sled::Db>,
    path: PathBuf,
}

/// A key, and its value or `None` if it is removed.
pub(super) type Write = (Vec<u8>, Option<Vec<u8>>);

impl SledStore {
    /// Opens the store in `path`, or creates an empty one there.
    ///
    /// # Errors
    /// [`StoreError::Open`] if the folder is locked or damaged,
    /// [`StoreError::Io`] if the disk fails.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_in_slices(path, SLICE)
    }

    pub(super) fn open_in_slices(path: &Path, slice: usize) -> Result<Self, StoreError> {
        let config = sled::Config::new()
            .path(path)
            .cache_capacity(CACHE_BYTES)
            .flush_every_ms(None);
        let mut patience = LOCK_TRIES;
        let open = || {
            let db = config.open().map_err(failed(path))?;
            let promised = db.open_tree(PROMISED).map_err(failed(path))?;
            Ok((db, promised))
        };
        loop {
            match guarded(path, open) {
                // After a store was closed in this process, sled's background threads may hold the
                // file, and its lock, for a moment.
                Err(StoreError::Open { .. }) if patience > 0 => {
                    patience -= 1;
                    std::thread::sleep(LOCK_PAUSE);
                }
                Ok((db, promised)) => {
                    let mut store = Self {
                        reader: SledReader {
                            db: Held::new(db),
                            path: path.to_owned(),
                        },
                        promised: Held::new(promised),
                        is_promised: true,
                        slice,
                        snapshots: RefCell::default(),
                    };
                    store.keep_promise()?;
                    return Ok(store);
                }
                Err(StoreError::Damaged { path, why }) => {
                    return Err(StoreError::Open { path, why });
                }
                Err(other) => return Err(other),
            }
        }
    }

    /// Stores a batch that is to be applied in slices. Returns the number of its pieces.
    pub(super) fn promise(&mut self, writes: &[Borrowed<'_>]) -> Result<u32, StoreError> {
        let mut batch = sled::Batch::default();
        let (mut piece, mut pieces) = (Vec::new(), 0_u32);
        for (i, (key, value)) in writes.iter().enumerate() {
            push_write(&mut piece, key, *value);
            if piece.len() >= PROMISED_BYTES || i + 1 == writes.len() {
                batch.insert(&pieces.to_be_bytes(), piece.as_slice());
                piece.clear();
                pieces += 1;
            }
        }
        self.is_promised = true;
        self.guarded(|| self.promised.apply_batch(batch))?;
        Ok(pieces)
    }

    /// Removes the stored batch, which was applied.
    fn forget_promise(&mut self, pieces: u32) -> Result<(), StoreError> {
        let mut kept = sled::Batch::default();
        (0..pieces).for_each(|piece| kept.remove(&piece.to_be_bytes()));
        self.guarded(|| self.promised.apply_batch(kept))?;
        sweep(pieces as usize);
        self.is_promised = false;
        Ok(())
    }

    /// Applies the stored batch, if there is one. Slices that were applied before are
    /// applied again, which is harmless because nothing else was written since.
    fn keep_promise(&mut self) -> Result<(), StoreError> {
        let (mut slice, mut pieces) = (Vec::new(), 0);
        let mut promised = self.promised.iter();
        while let Some((_, piece)) = self.guarded(|| promised.next().transpose())? {
            let mut rest: &[u8] = &piece;
            while !rest.is_empty() {
                let read = postcard::take_from_bytes::<Write>(rest);
                let (write, left) = read.map_err(|why| self.undecoded(&why))?;
                slice.push(write);
                rest = left;
            }
            if slice.len() >= self.slice {
                self.apply_writes(&slice)?;
                slice.clear();
            }
            pieces += 1;
        }
        if pieces > 0 {
            self.apply_writes(&slice)?;
            self.forget_promise(pieces)?;
        }
        self.is_promised = false;
        Ok(())
    }

    pub(super) fn apply_writes(&self, writes: &[Write]) -> Result<(), StoreError> {
        self.apply_slice(writes.iter().map(|(key, value)| (&**key, value.as_deref())))
    }

    /// Applies writes as one sled batch.
    fn apply_slice<'w>(
        &self,
        writes: impl ExactSizeIterator<Item = Borrowed<'w>>,
    ) -> Result<(), StoreError> {
        let count = writes.len();
        let mut batch = sled::Batch::default();
        for (key, value) in writes {
            match value {
                Some(value) => batch.insert(key, value),
                None => batch.remove(key),
            }
        }
        self.guarded(|| self.reader.db.apply_batch(batch))?;
        sweep(count);
        Ok(())
    }

    fn undecoded(&self, why: &postcard::Error) -> StoreError {
        StoreError::Damaged {
            path: self.reader.path.clone(),
            why: format!("a batch that is applied in slices cannot be read: {why}"),
        }
    }

    fn guarded<T>(&self, call: impl FnOnce() -> sled::Result<T>) -> Result<T, StoreError> {
        self.reader.guarded(call)
    }

    /// Records the current values of these keys for every open snapshot before they
    /// change.
    fn keep_for_snapshots<'a>(
        &self,
        keys: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> sled::Result<()> {
        let mut snapshots = self.snapshots.borrow_mut();
        snapshots.retain(|s| s.strong_count() > 0);
        for before in snapshots.iter().filter_map(Weak::upgrade) {
            let mut before = locked(&before);
            for key in keys.clone() {
                if !before.contains_key(key) {
                    let value = self.reader.db.get(key)?.map(|v| v.to_vec());
                    before.insert(key.to_vec(), value);
                }
            }
        }
        Ok(())
    }
}

impl SledReader {
    fn guarded<T>(&self, call: impl FnOnce() -> sled::Result<T>) -> Result<T, StoreError> {
        guarded(&self.path, || call().map_err(failed(&self.path)))
    }
}

impl Readable for SledStore {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.reader.get(key)
    }

    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visitor<'_>) -> Result<(), StoreError> {
        self.reader.scan(prefix, from, visit)
    }

    fn path(&self) -> &Path {
        &self.reader.path
    }
}

impl Readable for SledReader {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.guarded(|| Ok(self.db.get(key)?.map(|v| v.to_vec())))
    }

    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visitor<'_>) -> Result<(), StoreError> {
        let start = if from > prefix { from } else { prefix };
        self.guarded(|| {
            for pair in self.db.range(start.to_vec()..) {
                let (key, value) = pair?;
                if !key.starts_with(prefix) {
                    break;
                }
                if let ControlFlow::Break(()) = unguarded(|| visit(&key, &value)) {
                    break;
                }
            }
            Ok(())
        })
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl Backend for SledStore {
    type Reader = SledReader;

    fn reader(&self) -> SledReader {
        SledReader {
            db: Held::new(sled::Db::clone(&self.reader.db)),
            path: self.reader.path.clone(),
        }
    }

    fn apply_all(&mut self, writes: &[Borrowed<'_>]) -> Result<(), StoreError> {
        self.guarded(|| {
            self.keep_for_snapshots(writes.iter().map(|(key, _)| *key))?;
            for (key, value) in writes {
                match value {
                    Some(value) => self.reader.db.insert(key, *value)?,
                    None => self.reader.db.remove(key)?,
                };
            }
            Ok(())
        })
    }
}

impl Store for SledStore {
    fn apply(&mut self, batch: Batch) -> Result<(), StoreError> {
        // A batch that a disk error interrupted.
        if self.is_promised {
            self.keep_promise()?;
        }
        let writes = batch.writes();
        let writes = writes.map(|(key, value)| (key.as_slice(), value.as_deref()));
        let writes: Vec<Borrowed<'_>> = writes.collect();
        self.guarded(|| self.keep_for_snapshots(writes.iter().map(|(key, _)| *key)))?;
        if writes.len() <= self.slice {
            return self.apply_slice(writes.iter().copied());
        }
        let pieces = self.promise(&writes)?;
        for slice in writes.chunks(self.slice) {
            self.apply_slice(slice.iter().copied())?;
        }
        self.forget_promise(pieces)
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.guarded(|| self.reader.db.flush().map(|_bytes| ()))
    }

    fn size(&self) -> Result<u64, StoreError> {
        self.guarded(|| self.reader.db.size_on_disk())
    }

    fn compact(&mut self) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn snapshot(&self) -> Box<dyn Readable> {
        let before = Arc::default();
        self.snapshots.borrow_mut().push(Arc::downgrade(&before));
        Box::new(SledSnapshot {
            db: Held::new(sled::Db::clone(&self.reader.db)),
            path: self.reader.path.clone(),
            before,
        })
    }
}

/// The values at the time of a snapshot, for the keys that changed since.
type Before = Mutex<BTreeMap<Vec<u8>, Option<Vec<u8>>>>;

/// sled has no snapshots, so the store informs each open snapshot of upcoming changes. The old
/// values are recorded before a batch is applied, and read after the tree: so every later change
/// that the tree already shows is recorded. Memory grows with the changes made while the snapshot
/// is open.
struct SledSnapshot {
    db: Held<sled::Db>,
    path: PathBuf,
    before: Arc<Before>,
}

impl Readable for SledSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        guarded(&self.path, || {
            let now = self.db.get(key).map_err(failed(&self.path))?;
            let noted = locked(&self.before).get(key).cloned();
            Ok(noted.unwrap_or_else(|| now.map(|v| v.to_vec())))
        })
    }

    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visitor<'_>) -> Result<(), StoreError> {
        let mut from = if from > prefix { from } else { prefix }.to_vec();
        loop {
            let mut pairs = BTreeMap::new();
            let mut last = None;
            guarded(&self.path, || {
                for pair in self.db.range(from.clone()..).take(PIECE) {
                    let (key, value) = pair.map_err(failed(&self.path))?;
                    last = Some(key.to_vec());
                    pairs.insert(key.to_vec(), Some(value.to_vec()));
                }
                Ok(())
            })?;
            // Up to the last key of a full piece; to the end after the last piece.
            let until = last.filter(|_| pairs.len() == PIECE);
            let upper = until.as_ref().map_or(Bound::Unbounded, Bound::Included);
            let noted = (Bound::Included(&from), upper);
            for (key, value) in locked(&self.before).range::<Vec<u8>, _>(noted) {
                pairs.insert(key.clone(), value.clone());
            }
            for (key, value) in &pairs {
                if !key.starts_with(prefix) {
                    return Ok(());
                }
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
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// Frees the nodes replaced by this many writes, as far as no reader can hold them.
fn sweep(writes: usize) {
    for _ in 0..=writes / WRITES_PER_SWEEP {
        crossbeam_epoch::pin().flush();
    }
}

fn locked(before: &Before) -> MutexGuard<'_, BTreeMap<Vec<u8>, Option<Vec<u8>>>> {
    // If a writer panicked, the map is still consistent; the recorded batch was not applied.
    before.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(path: &Path) -> impl FnOnce(sled::Error) -> StoreError {
    let path = path.to_owned();
    move |error| {
        let why = match &error {
            // sled's own message for it ends in an empty backtrace.
            sled::Error::Corruption { .. } => "sled read corrupted data".to_owned(),
            other => other.to_string(),
        };
        match error {
            e if is_lock(&e) => StoreError::Open { path, why },
            sled::Error::Io(e) if !is_about_damage(&e) => StoreError::Io { path, why },
            _ => StoreError::Damaged { path, why },
        }
    }
}

/// sled has no error kind for a lock held by another process.
fn is_lock(error: &sled::Error) -> bool {
    matches!(error, sled::Error::Io(e) if e.to_string().contains("could not acquire lock"))
}
