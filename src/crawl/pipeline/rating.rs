//! The reader in force, which another one may replace while the crawl runs, and what it
//! tells the frontier of how links are rated.
//!
//! A body is read by the reader that is in force when it has arrived. What a page in work
//! brings was rated by the former one where that was replaced meanwhile; the frontier
//! rates it by the new one when it is added, so no score stays behind.

use std::sync::{Arc, PoisonError, RwLock};

use super::work::Reader;
use crate::address::PageUrl;
use crate::crawl::frontier::Rating;
use crate::page::LinkParts;
use crate::topic::strategy::{Learning, Score, Strategy};

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

impl Strategy for Reader {
    fn link(&self, target: &PageUrl, parts: &LinkParts) -> Score {
        self.strategy.link(target, parts)
    }

    fn formula(&self, target: &PageUrl, parts: &LinkParts) -> String {
        self.strategy.formula(target, parts)
    }

    fn image(&self, document: f64) -> Score {
        self.strategy.image(document)
    }

    fn listed(&self) -> Score {
        self.strategy.listed()
    }

    fn prefers(&self) -> bool {
        self.strategy.prefers()
    }

    fn learning(&self) -> Option<&dyn Learning> {
        self.strategy.learning()
    }
}

impl Rating for Reader {
    fn digest(&self) -> u64 {
        self.rating
    }

    fn keywords(&self) -> u64 {
        self.scorer.keywords_digest()
    }

    fn keyword(&self, anchor: &str) -> f64 {
        self.scorer.anchor_keyword(anchor)
    }
}
