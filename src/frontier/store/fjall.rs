//! fjall 3 behind [`Store`]: an LSM tree, one keyspace, one write batch.
//!
//! It reports damage as errors (every block has a checksum) and was safe across
//! power cuts where sled was not. A batch reaches the operating system when it is
//! applied, so a SIGKILL costs nothing that was committed; [`Store::flush`] also
//! syncs it to the disk.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::{Batch, Store, StoreError, Visit};

/// The one keyspace that everything lives in.
const KEYSPACE: &str = "frontier";

/// Block cache, in bytes: what of the store is kept in memory when read.
const CACHE_BYTES: u64 = 128 * 1024 * 1024;

/// Writes gathered in memory before they are sorted into a table, in bytes.
const MEMTABLE_BYTES: u64 = 32 * 1024 * 1024;

/// Threads that write and merge tables. With more than one, fjall 3.1 keeps its
/// first free for flushes by handing it every request to merge again and again,
/// which takes a whole core for as long as another one merges.
const WORKERS: usize = 1;

/// Journals kept until their writes are in tables, in bytes; the least fjall
/// takes. They are read again at opening, so they bound its time.
const JOURNAL_BYTES: u64 = 64 * 1024 * 1024;

/// A store in a folder, by fjall.
pub struct FjallStore {
    db: Database,
    keyspace: Keyspace,
    path: PathBuf,
}

impl FjallStore {
    /// Opens the store in `path`, or makes an empty one there.
    ///
    /// # Errors
    /// [`StoreError::Open`] where the folder is locked, unreadable or damaged.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let open = || -> fjall::Result<(Database, Keyspace)> {
            let db = Database::builder(path)
                .cache_size(CACHE_BYTES)
                .worker_threads(WORKERS)
                .max_journaling_size(JOURNAL_BYTES)
                .open()?;
            let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
            let keyspace = db.keyspace(KEYSPACE, options)?;
            Ok((db, keyspace))
        };
        match open() {
            Ok((db, keyspace)) => Ok(Self {
                db,
                keyspace,
                path: path.to_owned(),
            }),
            Err(error) => Err(StoreError::Open {
                path: path.to_owned(),
                why: match error {
                    fjall::Error::Locked => "another process has it open".to_owned(),
                    other => other.to_string(),
                },
            }),
        }
    }

    fn failed(&self) -> impl FnOnce(fjall::Error) -> StoreError + '_ {
        |error| StoreError::Io {
            path: self.path.clone(),
            why: error.to_string(),
        }
    }
}

impl Store for FjallStore {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.keyspace.get(key).map_err(self.failed())?;
        Ok(value.map(|v| v.to_vec()))
    }

    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        let start = if from > prefix { from } else { prefix };
        for pair in self.keyspace.range(start..) {
            let (key, value) = pair.into_inner().map_err(self.failed())?;
            if !key.starts_with(prefix) {
                break;
            }
            if let ControlFlow::Break(()) = visit(&key, &value) {
                break;
            }
        }
        Ok(())
    }

    fn apply(&mut self, batch: Batch) -> Result<(), StoreError> {
        let mut writes = self.db.batch();
        for (key, value) in batch.into_writes() {
            match value {
                Some(value) => writes.insert(&self.keyspace, key, value),
                None => writes.remove(&self.keyspace, key),
            }
        }
        writes.commit().map_err(self.failed())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.db.persist(PersistMode::SyncAll).map_err(self.failed())
    }

    fn size(&self) -> Result<u64, StoreError> {
        self.db.disk_space().map_err(self.failed())
    }

    fn compact(&mut self) -> Result<bool, StoreError> {
        self.keyspace
            .rotate_memtable_and_wait()
            .map_err(self.failed())?;
        self.keyspace.major_compact().map_err(self.failed())?;
        self.flush()?;
        Ok(true)
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
