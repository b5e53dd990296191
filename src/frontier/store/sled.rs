//! sled 0.34.7 behind [`Store`]: one tree, one batch.
//!
//! sled panics on damaged files instead of returning an error, so every call is
//! run behind `catch_unwind` and a panic becomes a [`StoreError`]. What it
//! promises was measured: atomic and ordered across SIGKILL, with at most the
//! last half second of batches missing (its background flush); not safe across
//! a power cut, and its file never shrinks.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::{Batch, Readable, Store, StoreError, Visit, guarded, tells_of_damage};

/// How often sled writes its log in the background, in milliseconds: what a
/// SIGKILL can cost in work that must be done again.
const FLUSH_EVERY_MS: u64 = 500;

/// sled's page cache, in bytes as they are stored; in memory they take several times as
/// much. A crawl with a million queued addresses took 750 MB and more with 256 MiB, and
/// with this 390 MB, or 290 MB after a restart; what is met often lies in front of the store
/// anyway.
const CACHE_BYTES: u64 = 32 * 1024 * 1024;

/// How often, and how long apart, the lock of a store is tried.
const LOCK_TRIES: u32 = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Pairs that a snapshot reads from the tree at a time.
const PIECE: usize = if cfg!(test) { 3 } else { 1_000 };

/// A store in a folder, by sled.
pub struct SledStore {
    db: sled::Db,
    path: PathBuf,
    /// The notes of the open snapshots.
    snapshots: RefCell<Vec<Weak<Before>>>,
}

impl SledStore {
    /// Opens the store in `path`, or makes an empty one there.
    ///
    /// # Errors
    /// [`StoreError::Open`] where the folder is locked or damaged,
    /// [`StoreError::Io`] where the disk fails.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let config = sled::Config::new()
            .path(path)
            .cache_capacity(CACHE_BYTES)
            .flush_every_ms(Some(FLUSH_EVERY_MS));
        let mut patience = LOCK_TRIES;
        loop {
            match guarded(path, || config.open().map_err(failed(path))) {
                // sled's background threads may hold the file, and with it the
                // lock, for a moment after a store was closed in this process.
                Err(StoreError::Open { .. }) if patience > 0 => {
                    patience -= 1;
                    std::thread::sleep(LOCK_PAUSE);
                }
                Ok(db) => {
                    return Ok(Self {
                        db,
                        path: path.to_owned(),
                        snapshots: RefCell::default(),
                    });
                }
                Err(StoreError::Damaged { path, why }) => {
                    return Err(StoreError::Open { path, why });
                }
                Err(other) => return Err(other),
            }
        }
    }

    fn guarded<T>(&self, call: impl FnOnce() -> sled::Result<T>) -> Result<T, StoreError> {
        guarded(&self.path, || call().map_err(failed(&self.path)))
    }

    /// Notes for every open snapshot what these keys hold before they change.
    fn keep_for_snapshots<'a>(
        &self,
        keys: impl Iterator<Item = &'a Vec<u8>> + Clone,
    ) -> sled::Result<()> {
        let mut snapshots = self.snapshots.borrow_mut();
        snapshots.retain(|s| s.strong_count() > 0);
        for before in snapshots.iter().filter_map(Weak::upgrade) {
            let mut before = locked(&before);
            for key in keys.clone() {
                if !before.contains_key(key) {
                    let value = self.db.get(key)?.map(|v| v.to_vec());
                    before.insert(key.clone(), value);
                }
            }
        }
        Ok(())
    }
}

impl Readable for SledStore {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.guarded(|| Ok(self.db.get(key)?.map(|v| v.to_vec())))
    }

    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        let start = if from > prefix { from } else { prefix };
        self.guarded(|| {
            for pair in self.db.range(start.to_vec()..) {
                let (key, value) = pair?;
                if !key.starts_with(prefix) {
                    break;
                }
                if let ControlFlow::Break(()) = visit(&key, &value) {
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

impl Store for SledStore {
    fn apply(&mut self, batch: Batch) -> Result<(), StoreError> {
        let writes: Vec<_> = batch.into_writes().collect();
        self.guarded(|| {
            self.keep_for_snapshots(writes.iter().map(|(key, _)| key))?;
            let mut batch = sled::Batch::default();
            for (key, value) in writes {
                match value {
                    Some(value) => batch.insert(key, value),
                    None => batch.remove(key),
                }
            }
            self.db.apply_batch(batch)
        })
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.guarded(|| self.db.flush().map(|_bytes| ()))
    }

    fn size(&self) -> Result<u64, StoreError> {
        self.guarded(|| self.db.size_on_disk())
    }

    fn compact(&mut self) -> Result<bool, StoreError> {
        Ok(false)
    }

    fn snapshot(&self) -> Box<dyn Readable> {
        let before = Arc::default();
        self.snapshots.borrow_mut().push(Arc::downgrade(&before));
        Box::new(SledSnapshot {
            db: self.db.clone(),
            path: self.path.clone(),
            before,
        })
    }
}

/// What keys held when a snapshot was taken, for those that changed since.
type Before = Mutex<BTreeMap<Vec<u8>, Option<Vec<u8>>>>;

/// sled has no snapshots, so the store tells each open one what it is about to
/// change. A batch is noted before it is applied, and the notes are read after
/// the tree is: whatever the tree shows by then of a later batch is noted.
/// Memory grows with what is changed while the snapshot is open.
struct SledSnapshot {
    db: sled::Db,
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

    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
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
            // Up to the last key of a full piece; to the end after the last one.
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

fn locked(before: &Before) -> MutexGuard<'_, BTreeMap<Vec<u8>, Option<Vec<u8>>>> {
    // A map whose writer panicked is whole; the batch it noted was not applied.
    before.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(path: &Path) -> impl FnOnce(sled::Error) -> StoreError {
    let path = path.to_owned();
    move |error| {
        let why = match &error {
            // Its own words for it end in an empty backtrace.
            sled::Error::Corruption { .. } => "sled read corrupted data".to_owned(),
            other => other.to_string(),
        };
        match error {
            e if is_lock(&e) => StoreError::Open { path, why },
            sled::Error::Io(e) if !tells_of_damage(&e) => StoreError::Io { path, why },
            _ => StoreError::Damaged { path, why },
        }
    }
}

/// sled has no kind of its own for a lock that another holds.
fn is_lock(error: &sled::Error) -> bool {
    matches!(error, sled::Error::Io(e) if e.to_string().contains("could not acquire lock"))
}
