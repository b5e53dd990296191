//! The reader in force, which another one may replace while the crawl runs, and what it
//! tells the frontier of how links are rated.
//!
//! A body is read by the reader that is in force when it has arrived. What a page in work
//! brings was rated by the former one where that was replaced meanwhile; the frontier
//! rates it by the new one when it is added, so no score stays behind.

use std::sync::{Arc, PoisonError, RwLock};

use sha2::{Digest, Sha256};

use super::work::Reader;
use crate::frontier::{Rating, Score};
use crate::page::{Bucket, LinkParts};
use crate::score::Strategy;

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
    /// ([`Frontier::set_rating`](crate::frontier::Frontier::set_rating)), on the thread
    /// that owns it.
    pub fn replace(&self, reader: Arc<Reader>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = reader;
    }
}

impl Rating for Reader {
    fn digest(&self) -> u64 {
        let (strategy, weights) = (self.scorer.strategy(), self.scorer.weights());
        // Numbers are written in the shortest form that gives them back.
        let text = format!("{} {weights:?} {:?}", strategy.name(), self.boundaries);
        let hash = Sha256::digest(text);
        let first = hash.iter().take(8);
        first.fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    }

    fn keywords(&self) -> u64 {
        self.scorer.keywords_digest()
    }

    fn link(&self, parts: &LinkParts) -> Score {
        let score = self.scorer.link(parts);
        let strategy = self.scorer.strategy();
        (score, strategy.bucket(score, &self.boundaries))
    }

    /// An image takes the perplexity of its page.
    fn image(&self, document: f64) -> Score {
        let strategy = self.scorer.strategy();
        let score = match strategy {
            Strategy::Unfocused => 0.0,
            Strategy::Document | Strategy::Link => document,
        };
        (score, strategy.bucket(score, &self.boundaries))
    }

    /// It goes behind every link of the class `normal` that was rated.
    fn listed(&self) -> Score {
        let score = match self.scorer.strategy() {
            Strategy::Unfocused => 0.0,
            Strategy::Document | Strategy::Link => self.boundaries.normal,
        };
        (score, Some(Bucket::Normal))
    }

    fn keyword(&self, anchor: &str) -> f64 {
        self.scorer.anchor_keyword(anchor)
    }

    fn formula(&self, parts: &LinkParts) -> String {
        let scorer = &self.scorer;
        scorer.strategy().formula(parts, scorer.weights())
    }
}
