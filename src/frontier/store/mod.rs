//! The key-value store under the frontier: one small trait, and its backends.
//!
//! The trait is small on purpose, so that any ordered embedded store can implement it:
//! get, ordered scan, one atomic batch, flush, snapshot. All of a crawl is in **one** key
//! space, because writes to several trees of one store are not atomic together. A backend
//! knows nothing of URLs, hosts or queues. Only the frontier and the backends in this
//! folder use a store crate.

pub mod changes;
mod fjall;
mod gather;
mod guard;
mod journal;
mod memory;
mod sled;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

pub use self::fjall::FjallStore;
use self::gather::{Gathered, Parts};
use self::guard::{Held, guarded, unguarded};
pub use self::guard::{is_guarded, is_of_backend};
#[doc(hidden)]
pub use self::memory::MemoryStore;
pub use self::sled::SledStore;
use crate::settings;
use crate::tool_error::ToolCause;

/// Advice for damaged files, part of every message about them.
const WAY_OUT: &str = "`spoor frontier check JOB.toml --repair` keeps what can be read; where nothing \
    can, move that folder away and `spoor frontier import` the newest file in the job's checkpoints \
    folder, or start again: pages and images already saved are kept";

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder cannot be opened as a store.
    #[error(
        "the frontier in {} cannot be opened: {why}; if another spoor runs on this job, stop it; \
         if the files are damaged, {}",
        path.display(),
        WAY_OUT
    )]
    Open {
        /// The store's folder.
        path: PathBuf,
        /// The backend's message.
        why: String,
    },
    /// Reading or writing failed.
    #[error("the frontier in {} failed: {why}; free disk space, or mend the disk, the permissions or the limit of open files (ulimit -n), then run the job again: it resumes", path.display())]
    Io {
        /// The store's folder.
        path: PathBuf,
        /// The backend's message.
        why: String,
    },
    /// The backend found its files damaged.
    #[error("the frontier in {} is damaged: {why}; {}", path.display(), WAY_OUT)]
    Damaged {
        /// The store's folder.
        path: PathBuf,
        /// The backend's message.
        why: String,
    },
    /// A record does not decode.
    #[error(
        "the frontier in {} holds a damaged record under key {key}: {why}; {}",
        path.display(),
        WAY_OUT
    )]
    Corrupt {
        /// The store's folder.
        path: PathBuf,
        /// The key, printable.
        key: String,
        /// The problem.
        why: String,
    },
    /// The store is older than its last flush.
    #[error(
        "the frontier in {} has come back at commit {found}, though commit {flushed} had been \
         flushed: files were damaged, lost or exchanged; {}",
        path.display(),
        WAY_OUT
    )]
    Older {
        /// The store's folder.
        path: PathBuf,
        /// The commit found.
        found: u64,
        /// The commit of the last flush.
        flushed: u64,
    },
    /// The store was written by another version of spoor.
    #[error(
        "the frontier in {} has format {found}, this spoor reads format {expected}; \
         use the version that wrote it, or move the folder away to start again",
        path.display()
    )]
    Version {
        /// The store's folder.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The format this code reads.
        expected: u32,
    },
    /// The store was written before every frontier had cells.
    #[error(
        "the frontier in {} was written by an older spoor, in a format without cells; \
         `spoor frontier export` it with that version, move the folder away, and \
         `spoor frontier import` the file with this one",
        path.display()
    )]
    Old {
        /// The store's folder.
        path: PathBuf,
    },
    /// The store has several cells, and the caller needs one with a single cell.
    #[error(
        "the frontier in {} has several cells (`frontier.cells`), which this cannot read yet; \
         what reads the outputs can be used, and `spoor crawl` and `spoor ctl`; for anything else \
         crawl with frontier.cells = 1 in another job.folder",
        path.display()
    )]
    SeveralCells {
        /// The store's folder.
        path: PathBuf,
    },
    /// A cell of the store should be open.
    #[error("the frontier in {}: cell {cell} is closed, and something belongs in it; a bug in spoor", path.display())]
    Closed {
        /// The store's folder.
        path: PathBuf,
        /// The cell.
        cell: u16,
    },
}

impl ToolCause for StoreError {}

impl StoreError {
    /// The same error, but about the store in another folder that this one was copied from.
    #[must_use]
    pub fn at(mut self, folder: &Path) -> Self {
        match &mut self {
            Self::Open { path, .. }
            | Self::Io { path, .. }
            | Self::Damaged { path, .. }
            | Self::Corrupt { path, .. }
            | Self::Older { path, .. }
            | Self::Version { path, .. }
            | Self::Old { path }
            | Self::SeveralCells { path }
            | Self::Closed { path, .. } => folder.clone_into(path),
        }
        self
    }
}

/// Callback of a scan for each pair; `Break` ends the scan.
pub type Visitor<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// An ordered map of bytes to bytes, for reading. Keys are not empty.
pub trait Readable: Send {
    /// The value under `key`.
    ///
    /// # Errors
    /// [`StoreError::Io`] or [`StoreError::Damaged`] if the backend fails.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Visits all pairs whose key begins with `prefix` and is at least `from`,
    /// in the order of their bytes.
    ///
    /// # Errors
    /// [`StoreError::Io`] or [`StoreError::Damaged`] if the backend fails.
    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visitor<'_>) -> Result<(), StoreError>;

    /// The folder of the store, for messages.
    fn path(&self) -> &Path;
}

impl Readable for Box<dyn Readable> {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        (**self).get(key)
    }

    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visitor<'_>) -> Result<(), StoreError> {
        (**self).scan(prefix, from, visit)
    }

    fn path(&self) -> &Path {
        (**self).path()
    }
}

/// An ordered map of bytes to bytes that survives the process.
pub trait Store: Readable {
    /// Applies all writes of the batch or none of them, also across a crash.
    ///
    /// # Errors
    /// [`StoreError::Io`]; at the next opening either all of the writes are there or
    /// none.
    fn apply(&mut self, batch: Batch) -> Result<(), StoreError>;

    /// Returns when every batch applied so far is safe on disk.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the backend fails.
    fn flush(&mut self) -> Result<(), StoreError>;

    /// The same after a promise to a host, which is urgent for the copies of the store elsewhere.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the backend fails.
    fn flush_promise(&mut self) -> Result<(), StoreError> {
        self.flush()
    }

    /// Bytes on disk.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the backend fails.
    fn size(&self) -> Result<u64, StoreError>;

    /// Frees the space of deleted and replaced pairs. False if the backend cannot:
    /// then only a copy into a new store helps.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the backend fails.
    fn compact(&mut self) -> Result<bool, StoreError>;

    /// The current state, readable on any thread while later batches are applied; later
    /// batches are not visible. It keeps the folder locked, so it must be dropped before
    /// the folder can be opened again.
    fn snapshot(&self) -> Box<dyn Readable>;

    /// Reads at most `keys` keys ahead, to refill an in-memory cache after a restart;
    /// does nothing if there is no such cache.
    ///
    /// # Errors
    /// [`StoreError::Io`] if the backend fails.
    fn warm(&mut self, _keys: usize) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Whether a system error is about the contents of a file and not about the disk.
fn is_about_damage(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{
        AlreadyExists, InvalidData, InvalidInput, IsADirectory, NotADirectory, NotFound,
        UnexpectedEof,
    };
    matches!(
        error.kind(),
        AlreadyExists
            | InvalidData
            | InvalidInput
            | IsADirectory
            | NotADirectory
            | NotFound
            | UnexpectedEof
    )
}

/// Opens the store in `folder` with the backend that a job configures, or creates an
/// empty one.
///
/// # Errors
/// [`StoreError::Open`] if the folder is locked, unreadable, damaged, or holds
/// a store of the other backend.
pub fn open(kind: settings::StoreKind, folder: &Path) -> Result<Box<dyn Store>, StoreError> {
    opened(kind, folder, Parts::Refused)
}

/// The same for reading what is left, even if a loss of power has left a part of a batch.
///
/// # Errors
/// Those of [`open`].
pub fn open_what_is_left(
    kind: settings::StoreKind,
    folder: &Path,
) -> Result<Box<dyn Store>, StoreError> {
    opened(kind, folder, Parts::Taken)
}

fn opened(
    kind: settings::StoreKind,
    folder: &Path,
    parts: Parts,
) -> Result<Box<dyn Store>, StoreError> {
    if let Some(found) = backend_in(folder)
        && found != kind
    {
        return Err(StoreError::Open {
            path: folder.to_owned(),
            why: format!(
                "it is a {} store, and frontier.store asks for {}; convert it with \
                 `spoor frontier convert`, or set frontier.store = \"{}\"",
                found.name(),
                kind.name(),
                found.name()
            ),
        });
    }
    Ok(match kind {
        settings::StoreKind::Sled => {
            Box::new(Gathered::over(SledStore::open(folder)?, folder, parts)?)
        }
        settings::StoreKind::Fjall => {
            Box::new(Gathered::over(FjallStore::open(folder)?, folder, parts)?)
        }
    })
}

/// The backend that wrote the store in `folder`, if there is a store.
pub fn backend_in(folder: &Path) -> Option<settings::StoreKind> {
    if folder.join("db").is_file() && folder.join("conf").is_file() {
        Some(settings::StoreKind::Sled)
    } else if folder.join("keyspaces").is_dir() {
        Some(settings::StoreKind::Fjall)
    } else {
        None
    }
}

/// Writes that are applied together. A later write to a key replaces an earlier one.
#[derive(Debug, Default, Clone)]
pub struct Batch {
    writes: std::collections::BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Batch {
    /// These writes; their keys differ.
    pub(super) fn of(writes: impl Iterator<Item = (Vec<u8>, Option<Vec<u8>>)>) -> Self {
        let writes = writes.collect();
        Self { writes }
    }

    /// Sets `key` to `value`.
    pub fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.writes.insert(key, Some(value));
    }

    /// Removes `key`.
    pub fn delete(&mut self, key: Vec<u8>) {
        self.writes.insert(key, None);
    }

    /// The effect of this batch on `key`: `None` if there is none, `Some(None)` if
    /// it removes the key.
    pub fn peek(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        self.writes.get(key).map(|v| v.as_deref())
    }

    /// The writes to keys with this prefix, in the order of their keys; `None`
    /// removes.
    pub fn writes_of(&self, prefix: &[u8]) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.writes
            .range(prefix.to_vec()..)
            .take_while(move |(key, _)| key.starts_with(prefix))
            .map(|(key, value)| (key.as_slice(), value.as_deref()))
    }

    /// All writes in the order of their keys.
    fn writes(&self) -> impl Iterator<Item = (&Vec<u8>, &Option<Vec<u8>>)> {
        self.writes.iter()
    }

    /// The writes in the order of their keys.
    pub fn into_writes(self) -> impl Iterator<Item = (Vec<u8>, Option<Vec<u8>>)> {
        self.writes.into_iter()
    }
}

#[cfg(test)]
pub(crate) mod tests;
