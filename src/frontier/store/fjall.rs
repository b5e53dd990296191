//! fjall 3 behind [`Store`]: an LSM tree, one keyspace, one write batch.
//!
//! It reports damage as errors (every block has a checksum; a panic becomes an error
//! here) and was safe across power cuts, unlike sled. An applied batch reaches the
//! operating system, so a SIGKILL loses nothing that was committed; [`Store::flush`] also
//! syncs it to disk.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use fjall::{Database, Iter, Keyspace, KeyspaceCreateOptions, PersistMode, Snapshot};

use super::gather::{Backend, Borrowed};
use super::{
    Batch, Held, Readable, Store, StoreError, Visitor, guarded, is_about_damage, unguarded,
};

/// The single keyspace of the store.
const KEYSPACE: &str = "frontier";

/// Block cache for reads, in bytes.
const CACHE_BYTES: u64 = 128 * 1024 * 1024;

/// Size of the memtable, in bytes, before it is written as a sorted table.
const MEMTABLE_BYTES: u64 = 32 * 1024 * 1024;

/// Threads that write and merge tables. With more than one, fjall 3.1 keeps its first thread free
/// for flushes: that thread puts every merge request back, which takes a whole core while another
/// thread merges.
const WORKERS: usize = 1;

/// Journals kept until their writes are in tables, in bytes; the minimum of fjall. They
/// are replayed at opening, so they bound its time.
const JOURNAL_BYTES: u64 = 64 * 1024 * 1024;

/// A store in a folder, by fjall.
pub struct FjallStore {
    /// Before the database, so that it is closed first.
    reader: FjallReader,
    db: Held<Database>,
}

/// A handle that reads the current contents of the store.
pub struct FjallReader {
    keyspace: Held<Keyspace>,
    path: PathBuf,
}

impl FjallStore {
    /// Opens the store in `path`, or creates an empty one there.
    ///
    /// # Errors
    /// [`StoreError::Open`] if the folder is locked or damaged,
    /// [`StoreError::Io`] if the disk fails.
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
        let opened = guarded(path, || {
            open().map_err(|error| match error {
                fjall::Error::Locked => StoreError::Open {
                    path: path.to_owned(),
                    why: "another process has it open".to_owned(),
                },
                other => failed(path)(other),
            })
        });
        match opened {
            Ok((db, keyspace)) => Ok(Self {
                reader: FjallReader {
                    keyspace: Held::new(keyspace),
                    path: path.to_owned(),
                },
                db: Held::new(db),
            }),
            Err(StoreError::Damaged { path, why }) => Err(StoreError::Open { path, why }),
            Err(other) => Err(other),
        }
    }

    fn guarded<T>(&self, call: impl FnOnce() -> fjall::Result<T>) -> Result<T, StoreError> {
        self.reader.guarded(call)
    }
}

impl FjallReader {
    fn guarded<T>(&self, call: impl FnOnce() -> fjall::Result<T>) -> Result<T, StoreError> {
        guarded(&self.path, || call().map_err(failed(&self.path)))
    }
}

impl Backend for FjallStore {
    type Reader = FjallReader;

    fn reader(&self) -> FjallReader {
        FjallReader {
            keyspace: Held::new(Keyspace::clone(&self.reader.keyspace)),
            path: self.reader.path.clone(),
        }
    }

    fn apply_all(&mut self, all: &[Borrowed<'_>]) -> Result<(), StoreError> {
        let mut writes = self.db.batch();
        for (key, value) in all {
            match value {
                Some(value) => writes.insert(&self.reader.keyspace, *key, *value),
                None => writes.remove(&self.reader.keyspace, *key),
            }
        }
        self.guarded(|| writes.commit())
    }
}

impl Readable for FjallStore {
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

impl Readable for FjallReader {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.guarded(|| Ok(self.keyspace.get(key)?.map(|v| v.to_vec())))
    }

    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visitor<'_>) -> Result<(), StoreError> {
        self.guarded(|| visit_all(self.keyspace.range(start(prefix, from)..), prefix, visit))
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl Store for FjallStore {
    fn apply(&mut self, batch: Batch) -> Result<(), StoreError> {
        let writes = batch.writes();
        let writes = writes.map(|(key, value)| (key.as_slice(), value.as_deref()));
        self.apply_all(&Vec::from_iter(writes))
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.guarded(|| self.db.persist(PersistMode::SyncAll))
    }

    fn size(&self) -> Result<u64, StoreError> {
        self.guarded(|| self.db.disk_space())
    }

    fn compact(&mut self) -> Result<bool, StoreError> {
        self.guarded(|| {
            self.reader.keyspace.rotate_memtable_and_wait()?;
            self.reader.keyspace.major_compact()
        })?;
        self.flush()?;
        Ok(true)
    }

    fn snapshot(&self) -> Box<dyn Readable> {
        Box::new(FjallSnapshot {
            snapshot: Held::new(self.db.snapshot()),
            keyspace: Held::new(Keyspace::clone(&self.reader.keyspace)),
            path: self.reader.path.clone(),
        })
    }
}

/// fjall keeps every version of a record that a snapshot can still see.
struct FjallSnapshot {
    snapshot: Held<Snapshot>,
    keyspace: Held<Keyspace>,
    path: PathBuf,
}

impl Readable for FjallSnapshot {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        guarded(&self.path, || {
            let value = fjall::Readable::get(&*self.snapshot, &*self.keyspace, key);
            Ok(value.map_err(failed(&self.path))?.map(|v| v.to_vec()))
        })
    }

    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visitor<'_>) -> Result<(), StoreError> {
        guarded(&self.path, || {
            let from = start(prefix, from)..;
            let pairs = fjall::Readable::range(&*self.snapshot, &*self.keyspace, from);
            visit_all(pairs, prefix, visit).map_err(failed(&self.path))
        })
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

fn start<'a>(prefix: &'a [u8], from: &'a [u8]) -> &'a [u8] {
    if from > prefix { from } else { prefix }
}

fn visit_all(pairs: Iter, prefix: &[u8], visit: Visitor<'_>) -> fjall::Result<()> {
    for pair in pairs {
        let (key, value) = pair.into_inner()?;
        if !key.starts_with(prefix) {
            break;
        }
        if let ControlFlow::Break(()) = unguarded(|| visit(&key, &value)) {
            break;
        }
    }
    Ok(())
}

fn failed(path: &Path) -> impl FnOnce(fjall::Error) -> StoreError {
    let path = path.to_owned();
    move |error| {
        let why = error.to_string();
        match error {
            fjall::Error::Io(e) | fjall::Error::Storage(fjall::LsmError::Io(e))
                if !is_about_damage(&e) =>
            {
                StoreError::Io { path, why }
            }
            fjall::Error::Poisoned => StoreError::Io { path, why },
            _ => StoreError::Damaged { path, why },
        }
    }
}
