//! A store in memory, for tests and for crawls of a few pages: no option of a job selects it.
//!
//! It does everything that a backend must do within one process, in a hundredth of the
//! time of one on disk. It does not outlive the process.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use super::{Batch, Readable, Store, StoreError, Visitor};

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// A store whose pairs live as long as any handle to them.
#[derive(Debug, Default)]
pub struct MemoryStore {
    path: PathBuf,
    /// Shared by all stores that were opened on the same pairs; copied only for a write
    /// while a snapshot is open.
    pairs: Arc<RwLock<Arc<Pairs>>>,
}

impl MemoryStore {
    /// An empty store. The frontier keeps small files of its own in `folder`, which must be there
    /// before the first flush.
    pub fn new(folder: &Path) -> Self {
        Self::holding(folder, Pairs::new())
    }

    /// A store that holds these pairs.
    pub fn holding(folder: &Path, pairs: Pairs) -> Self {
        Self {
            path: folder.to_owned(),
            pairs: Arc::new(RwLock::new(Arc::new(pairs))),
        }
    }

    /// The same pairs again, as if the folder were reopened.
    pub fn reopened(&self) -> Self {
        Self {
            path: self.path.clone(),
            pairs: Arc::clone(&self.pairs),
        }
    }

    /// The current pairs.
    pub fn pairs(&self) -> Arc<Pairs> {
        Arc::clone(&self.pairs.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Readable for MemoryStore {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.pairs().get(key).cloned())
    }

    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visitor<'_>) -> Result<(), StoreError> {
        for (key, value) in self.pairs().range(prefix.max(from).to_vec()..) {
            if !key.starts_with(prefix) || visit(key, value) == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl Store for MemoryStore {
    fn apply(&mut self, batch: Batch) -> Result<(), StoreError> {
        let mut pairs = self.pairs.write().unwrap_or_else(PoisonError::into_inner);
        let pairs = Arc::make_mut(&mut pairs);
        for (key, value) in batch.into_writes() {
            match value {
                Some(value) => drop(pairs.insert(key, value)),
                None => drop(pairs.remove(&key)),
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn size(&self) -> Result<u64, StoreError> {
        let pairs = self.pairs();
        let bytes = pairs.iter().map(|(key, value)| key.len() + value.len());
        Ok(bytes.sum::<usize>() as u64)
    }

    fn compact(&mut self) -> Result<bool, StoreError> {
        Ok(true)
    }

    fn snapshot(&self) -> Box<dyn Readable> {
        let pairs = Arc::new(RwLock::new(self.pairs()));
        let path = self.path.clone();
        Box::new(Self { path, pairs })
    }
}
