//! The reader in force, which another one may replace while the crawl runs.
//!
//! A body is read by the reader that is in force when it has arrived. What a page in work
//! brings was rated by the former one where that was replaced meanwhile; the frontier
//! rates it by the new one when it is added, so no score stays behind.

use std::sync::{Arc, PoisonError, RwLock};

use super::reader::Reader;

/// The reader in force. Clones share it.
#[derive(Clone)]
pub struct Reading(Arc<RwLock<Arc<Reader>>>);

impl From<Reader> for Reading {
    fn from(reader: Reader) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(reader))))
    }
}

impl Reading {
    /// The reader in force now.
    pub fn now(&self) -> Arc<Reader> {
        let reader = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&reader)
    }

    /// Puts another one in force. The frontier is to be told as well
    /// ([`Frontier::set_rating`](crate::crawl::frontier::Frontier::set_rating)), on the thread
    /// that owns it.
    pub fn replace(&self, reader: Arc<Reader>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = reader;
    }
}
