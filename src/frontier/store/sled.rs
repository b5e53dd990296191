//! sled 0.34.7 behind [`Store`]: one tree, one batch.
//!
//! sled panics on damaged files instead of returning an error, so every call is
//! run behind `catch_unwind` and a panic becomes a [`StoreError`]. What it
//! promises was measured: atomic and ordered across SIGKILL, with at most the
//! last half second of batches missing (its background flush); not safe across
//! a power cut, and its file never shrinks.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Batch, Store, StoreError, Visit};

/// How often sled writes its log in the background, in milliseconds: what a
/// SIGKILL can cost in work that must be done again.
const FLUSH_EVERY_MS: u64 = 500;

/// sled's page cache, in bytes. The tool's own default of 1 GiB would be most of
/// the memory a crawl is meant to need.
const CACHE_BYTES: u64 = 256 * 1024 * 1024;

/// How often and after which pause a locked folder is tried again.
const LOCK_ATTEMPTS: usize = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// A store in a folder, by sled.
pub struct SledStore {
    db: sled::Db,
    path: PathBuf,
}

impl SledStore {
    /// Opens the store in `path`, or makes an empty one there.
    ///
    /// # Errors
    /// [`StoreError::Open`] where the folder is locked, unreadable or damaged.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let config = sled::Config::new()
            .path(path)
            .cache_capacity(CACHE_BYTES)
            .flush_every_ms(Some(FLUSH_EVERY_MS));
        let mut opened = catch_unwind(AssertUnwindSafe(|| config.open()));
        // A store that was just dropped keeps its lock until sled's own threads
        // have ended.
        for _ in 0..LOCK_ATTEMPTS {
            if !matches!(&opened, Ok(Err(error)) if is_locked(error)) {
                break;
            }
            std::thread::sleep(LOCK_PAUSE);
            opened = catch_unwind(AssertUnwindSafe(|| config.open()));
        }
        let open_error = |why: String| StoreError::Open {
            path: path.to_owned(),
            why,
        };
        match opened {
            Ok(Ok(db)) => Ok(Self {
                db,
                path: path.to_owned(),
            }),
            Ok(Err(error)) => Err(open_error(error.to_string())),
            Err(panic) => Err(open_error(format!(
                "sled found damaged files ({})",
                panic_text(panic.as_ref())
            ))),
        }
    }

    fn guarded<T>(&self, call: impl FnOnce() -> sled::Result<T>) -> Result<T, StoreError> {
        let why = match catch_unwind(AssertUnwindSafe(call)) {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(error)) => error.to_string(),
            Err(panic) => format!("sled gave up ({})", panic_text(panic.as_ref())),
        };
        Err(StoreError::Io {
            path: self.path.clone(),
            why,
        })
    }
}

impl Store for SledStore {
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

    fn apply(&mut self, batch: Batch) -> Result<(), StoreError> {
        let mut writes = sled::Batch::default();
        for (key, value) in batch.into_writes() {
            match value {
                Some(value) => writes.insert(key, value),
                None => writes.remove(key),
            }
        }
        self.guarded(|| self.db.apply_batch(writes))
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.guarded(|| self.db.flush().map(|_bytes| ()))
    }

    fn size(&self) -> Result<u64, StoreError> {
        self.guarded(|| self.db.size_on_disk())
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

/// sled 0.34.7 gives this error no kind of its own.
fn is_locked(error: &sled::Error) -> bool {
    matches!(error, sled::Error::Io(e) if e.to_string().contains("could not acquire lock"))
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message");
    text.lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(200)
        .collect()
}
