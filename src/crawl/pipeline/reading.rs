//! The current reader, which may be replaced while the crawl runs.
//!
//! A body is read by the reader that is current when the body arrives. If the reader is replaced
//! while a page is processed, the links of the page carry ratings of the previous reader; the
//! frontier re-rates them when they are added, so no old score remains.

use std::sync::{Arc, PoisonError, RwLock};

use super::reader::Reader;

/// The current reader. Clones share it.
#[derive(Clone)]
pub struct Reading(Arc<RwLock<Arc<Reader>>>);

impl From<Reader> for Reading {
    fn from(reader: Reader) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(reader))))
    }
}

impl Reading {
    /// The current reader.
    pub fn now(&self) -> Arc<Reader> {
        let reader = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&reader)
    }

    /// Replaces the reader. The frontier must be informed as well
    /// ([`Frontier::set_rating`](crate::frontier::Frontier::set_rating)), on the
    /// thread that owns it.
    pub fn replace(&self, reader: Arc<Reader>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = reader;
    }
}
