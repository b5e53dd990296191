//! The key-value store under the frontier: one small trait, and its backends.
//!
//! The trait asks for little on purpose, so that any ordered embedded store can
//! stand here: get, ordered scan, one atomic batch, flush, size. All of a crawl
//! lives in **one** key space, because writes to several trees of one store are
//! not atomic together. A backend knows nothing of URLs, hosts or queues; only
//! the frontier and the backends in this folder use a store crate at all.

mod sled;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

pub use self::sled::SledStore;

/// Why the store cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The folder cannot be opened as a store.
    #[error(
        "the frontier in {} cannot be opened: {why}; if another spoor runs on this job, stop it; \
         if the files are damaged, move that folder away and start again: pages and images \
         already saved are kept",
        path.display()
    )]
    Open {
        /// The store's folder.
        path: PathBuf,
        /// What the backend said.
        why: String,
    },
    /// Reading or writing failed.
    #[error("the frontier in {} failed: {why}; free disk space or mend the disk, then run the job again: it resumes", path.display())]
    Io {
        /// The store's folder.
        path: PathBuf,
        /// What the backend said.
        why: String,
    },
    /// A record does not decode.
    #[error("the frontier in {} holds a damaged record under key {key}: {why}", path.display())]
    Corrupt {
        /// The store's folder.
        path: PathBuf,
        /// The key, printable.
        key: String,
        /// What is wrong with it.
        why: String,
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
}

/// What a scan calls for each pair; `Break` ends the scan.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// An ordered map of bytes to bytes that survives the process.
pub trait Store: Send {
    /// The value under `key`.
    ///
    /// # Errors
    /// [`StoreError::Io`] where the backend fails.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Visits all pairs whose key begins with `prefix` and is at least `from`,
    /// in the order of their bytes.
    ///
    /// # Errors
    /// [`StoreError::Io`] where the backend fails.
    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visit<'_>) -> Result<(), StoreError>;

    /// Applies all writes of the batch or none of them, also across a crash.
    ///
    /// # Errors
    /// [`StoreError::Io`]; none of the writes are visible then.
    fn apply(&mut self, batch: Batch) -> Result<(), StoreError>;

    /// Returns when every batch applied so far survives the death of the process.
    ///
    /// # Errors
    /// [`StoreError::Io`] where the backend fails.
    fn flush(&mut self) -> Result<(), StoreError>;

    /// Bytes on disk.
    ///
    /// # Errors
    /// [`StoreError::Io`] where the backend fails.
    fn size(&self) -> Result<u64, StoreError>;

    /// The folder of the store, for messages.
    fn path(&self) -> &Path;
}

/// Writes that happen together. A later write to a key replaces an earlier one.
#[derive(Debug, Default, Clone)]
pub struct Batch {
    writes: std::collections::BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Batch {
    /// Sets `key` to `value`.
    pub fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.writes.insert(key, Some(value));
    }

    /// Removes `key`.
    pub fn delete(&mut self, key: Vec<u8>) {
        self.writes.insert(key, None);
    }

    /// What this batch will make of `key`: `None` where it does not touch it,
    /// `Some(None)` where it removes it.
    pub fn peek(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        self.writes.get(key).map(|v| v.as_deref())
    }

    /// The writes in the order of their keys.
    pub fn into_writes(self) -> impl Iterator<Item = (Vec<u8>, Option<Vec<u8>>)> {
        self.writes.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(store: &dyn Store, prefix: &[u8], from: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut found = Vec::new();
        store
            .scan(prefix, from, &mut |k, v| {
                found.push((k.to_vec(), v.to_vec()));
                ControlFlow::Continue(())
            })
            .unwrap();
        found
    }

    #[test]
    fn batches_scans_and_reopening() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("frontier");
        {
            let mut store = SledStore::open(&path).unwrap();
            let mut batch = Batch::default();
            for (key, value) in [("a1", "x"), ("a3", "z"), ("b1", "q"), ("a2", "y")] {
                batch.put(key.into(), value.into());
            }
            batch.put(b"gone".to_vec(), b"1".to_vec());
            batch.delete(b"gone".to_vec());
            assert_eq!(batch.peek(b"gone"), Some(None));
            assert_eq!(batch.peek(b"a1"), Some(Some(&b"x"[..])));
            assert_eq!(batch.peek(b"c"), None);
            store.apply(batch).unwrap();
            store.flush().unwrap();
        }
        let store = SledStore::open(&path).unwrap();
        let keys = |p: &[u8], f: &[u8]| -> Vec<Vec<u8>> {
            pairs(&store, p, f).into_iter().map(|(k, _)| k).collect()
        };
        assert_eq!(keys(b"a", b""), [b"a1", b"a2", b"a3"]);
        assert_eq!(keys(b"a", b"a2"), [b"a2", b"a3"]);
        assert_eq!(keys(b"zz", b""), Vec::<Vec<u8>>::new());
        assert_eq!(store.get(b"a3").unwrap().as_deref(), Some(&b"z"[..]));
        assert_eq!(store.get(b"gone").unwrap(), None);
        assert!(store.size().unwrap() > 0);
    }

    #[test]
    fn a_second_opening_is_refused_with_advice() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("frontier");
        let _first = SledStore::open(&path).unwrap();
        let error = SledStore::open(&path).err().unwrap().to_string();
        assert!(error.contains("another spoor"), "{error}");
    }

    #[test]
    fn a_store_that_was_just_closed_opens_again() {
        let folder = tempfile::tempdir().unwrap();
        for n in 0..20_u32 {
            let mut store = SledStore::open(folder.path()).unwrap();
            assert_eq!(pairs(&store, b"k", b"").len(), n as usize);
            let mut batch = Batch::default();
            batch.put(format!("k{n:02}").into_bytes(), vec![1; 1_000]);
            store.apply(batch).unwrap();
        }
    }

    #[test]
    fn damaged_files_are_an_error_and_no_panic() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("frontier");
        {
            let mut store = SledStore::open(&path).unwrap();
            let mut batch = Batch::default();
            for i in 0..2_000_u32 {
                batch.put(i.to_be_bytes().to_vec(), vec![7; 100]);
            }
            store.apply(batch).unwrap();
            store.flush().unwrap();
        }
        let file = path.join("db");
        let mut bytes = std::fs::read(&file).unwrap();
        for at in (0..bytes.len()).step_by(97) {
            bytes[at] ^= 0xff;
        }
        std::fs::write(&file, bytes).unwrap();
        let outcome = SledStore::open(&path).and_then(|store| {
            let mut n = 0;
            store.scan(b"", b"", &mut |_, _| {
                n += 1;
                ControlFlow::Continue(())
            })?;
            Ok(n)
        });
        match outcome {
            Err(error) => assert!(error.to_string().contains("frontier"), "{error}"),
            Ok(n) => assert!(n < 2_000, "damage went unnoticed"),
        }
    }
}
