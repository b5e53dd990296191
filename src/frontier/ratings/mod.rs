//! Re-rating: other boundaries, weights or keywords are applied to everything that is known.
//!
//! A [`Rating`] is set from outside and may be replaced between any two calls. From then on it
//! rates everything that is added, including links of pages that were being processed under the
//! former rating, and its razor applies to everything that is leased. Stored links are re-rated in
//! slices, like those of [`rejudge`](super::rejudge), while the crawl continues. The store holds
//! the digest of the rating and the position under a separate key, written with each slice. So a
//! crash loses nothing, and a job that is started with another rating is re-rated at once.
//!
//! A link keeps the parts of its score, so any weights can be applied to it. It keeps only the
//! result of its keyword score, so the words of its anchor are kept until it is fetched, up to
//! [`MAX_ANCHOR`](super::added::MAX_ANCHOR) bytes. Longer anchors keep their first keyword score. A
//! record keeps the best of the paths that led to it by the rating of that time, and that path is
//! re-rated.
//!
//! Seeds and sitemaps have no score and stay. The razor never drops a page that was fetched; if it
//! is to be visited again, the new rating determines its place.
//!
//! A link that the control sample has drawn is fetched regardless of the razor. It keeps its place,
//! and is marked as above the razor in case it is not fetched after all.
//!
//! The formulas are not known here; the rating computes them.

pub mod clues;
pub mod learning;
pub mod shared;
mod verdicts;
mod worth;

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::added::NewTask;
use super::keys;
use super::ledger::Ledger;
use super::outcome::Effects;
use super::record::UrlRecord;
use super::store::{Store, StoreError};
use super::transaction::Transaction;
use crate::page::TaskKind;
use crate::topic::strategy;
pub use clues::is_lifted;
use learning::Lesson;
pub use verdicts::Verdicts;
pub use worth::{Rating, Worth, worth};

/// The result of a re-rating.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rescored {
    /// Addresses that were read.
    pub seen: u64,
    /// Links that are queued or waiting with a different score than before.
    pub rescored: u64,
    /// How many of these moved to another bucket.
    pub moved: u64,
    /// Links that were queued or waiting and are above the razor now.
    pub razored: u64,
    /// Links that were above the razor and are queued now.
    pub revived: u64,
}

/// The rating of all stored links, or the progress towards it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scores {
    /// [`Rating::digest`].
    rating: u64,
    /// [`Rating::keywords`].
    keywords: u64,
    /// The first key that is not re-rated yet, while that is under way.
    next: Option<Vec<u8>>,
    /// Whether anchors are re-rated as well.
    anchors: bool,
}

impl Scores {
    /// Whether the re-rating is not finished.
    pub fn is_under_way(&self) -> bool {
        self.next.is_some()
    }

    /// Whether the re-rating computes the keyword scores of anchors again.
    pub fn rerates_anchors(&self) -> bool {
        self.is_under_way() && self.anchors
    }

    /// The same, with the re-rating at this key; `None` if it is finished.
    pub fn reached(&self, next: Option<Vec<u8>>) -> Self {
        Self {
            next,
            ..self.clone()
        }
    }

    /// The state in which all links are to be re-rated by the same rating.
    pub fn restarted(&self) -> Self {
        Self {
            anchors: self.next.is_some() && self.anchors,
            next: Some(keys::URLS.to_vec()),
            ..self.clone()
        }
    }
}

impl Rescored {
    pub(crate) fn count(&mut self, before: &UrlRecord, after: &UrlRecord) {
        self.rescored += 1;
        self.moved += u64::from(before.bucket != after.bucket);
    }
}

/// The current rating, and how far stored links are rated by it.
#[derive(Default)]
pub struct Ratings {
    /// The rating in force, if one was set.
    rating: Option<Arc<dyn Rating>>,
    /// The rating of all stored links, and the position of a re-rating.
    scores: Option<Scores>,
    /// Progress of the current re-rating.
    progress: Rescored,
    /// How often learning has begun to re-rate all links.
    begun: u64,
    /// Whether machines learn together: a page's lesson is sent, and learned when it comes back.
    pub is_shared: bool,
    /// The verdicts on pages of other machines, if there are any.
    pub verdicts: Option<Arc<Verdicts>>,
    /// Commits that may have written a lesson and were not taken yet.
    commits: Vec<u64>,
}

/// How added links are rated.
#[derive(Clone, Copy, Default)]
pub struct InForce<'a> {
    rating: Option<&'a dyn Rating>,
    /// Whether anchors may have been rated with another keyword table.
    other_keywords: bool,
    /// Digest of the keyword table that they were rated with, if there was one.
    keywords: Option<u64>,
}

impl<'a> InForce<'a> {
    /// The rating, if one was set.
    pub fn rating(&self) -> Option<&'a dyn Rating> {
        self.rating
    }

    /// Digest of the keyword table that what is added was rated with, if there was one.
    pub fn keywords(&self) -> Option<u64> {
        self.keywords
    }

    /// The rating of a found task. The features of its address in a learning crawl are
    /// stored.
    pub fn rate<'n>(
        &self,
        tx: &mut Transaction<'_>,
        key: &[u8],
        kind: TaskKind,
        known: Option<&UrlRecord>,
        new: &'n NewTask,
    ) -> Result<Cow<'n, NewTask>, StoreError> {
        let Some(rating) = self.rating.filter(|_| kind == TaskKind::Page) else {
            return Ok(Cow::Borrowed(new));
        };
        if let Some(learning) = rating.learning()
            && let Some(met) = learning::meet(learning, tx, key, known, new)?
        {
            return Ok(Cow::Owned(met));
        }
        Ok(worth::rate_new(rating, new, self.other_keywords))
    }
}

impl Ratings {
    /// The rating in force, if one was set.
    pub fn rating(&self) -> Option<&Arc<dyn Rating>> {
        self.rating.as_ref()
    }

    /// The learning part of the rating, if it has one.
    pub fn learning(&self) -> Option<&dyn strategy::Learning> {
        self.rating.as_ref().and_then(|rating| rating.learning())
    }

    /// How to rate links whose last rating used the keyword table with this digest.
    pub fn in_force(&self, keywords: Option<u64>) -> InForce<'_> {
        let rating = self.rating.as_deref();
        let other = |keywords| rating.is_some_and(|rating| rating.keywords() != keywords);
        InForce {
            rating,
            other_keywords: keywords.is_some_and(other) || self.rerates_anchors(),
            keywords,
        }
    }

    /// How an image is rated; its score needs no keywords.
    pub fn of_images(&self) -> InForce<'_> {
        InForce {
            rating: self.rating.as_deref(),
            other_keywords: false,
            keywords: None,
        }
    }

    /// Replaces the rating. Returns false if stored links were rated by the same.
    pub fn replace(
        &mut self,
        ledger: &mut Ledger,
        rating: Arc<dyn Rating>,
    ) -> Result<bool, StoreError> {
        if let Some(learning) = rating.learning() {
            learning::restore(learning, ledger.store())?;
        }
        let known: Option<Scores> = ledger.read(keys::SCORES)?;
        let (digest, keywords) = (rating.digest(), rating.keywords());
        let scores = match known {
            Some(known) if (known.rating, known.keywords) == (digest, keywords) => {
                self.scores = Some(known);
                self.rating = Some(rating);
                return Ok(false);
            }
            // Nothing was rated yet.
            None if ledger.meta().next_seq == 0 => Scores {
                rating: digest,
                keywords,
                ..Scores::default()
            },
            known => Scores {
                rating: digest,
                keywords,
                next: Some(keys::URLS.to_vec()),
                anchors: known.is_none_or(|known| {
                    known.keywords != keywords || (known.next.is_some() && known.anchors)
                }),
            },
        };
        let begins = scores.next.is_some();
        let mut tx = ledger.begin();
        tx.write(keys::SCORES.to_vec(), &scores)?;
        let prepared = tx.prepare();
        ledger.commit_alone(prepared)?;
        self.rating = Some(rating);
        self.set_scores(scores);
        Ok(begins)
    }

    /// Whether stored links are still to be re-rated.
    pub fn is_rescoring(&self) -> bool {
        self.scores.as_ref().is_some_and(Scores::is_under_way)
    }

    /// Progress of the current re-rating, or the totals of the last one in this process.
    pub fn progress(&self) -> Rescored {
        self.progress
    }

    /// Where the re-rating continues; `None` if none is under way.
    pub fn next(&self) -> Option<(&dyn Rating, &Scores, &[u8])> {
        let scores = self.scores.as_ref()?;
        Some((self.rating.as_deref()?, scores, scores.next.as_deref()?))
    }

    /// Sets the position of the re-rating, once it is committed.
    pub fn came_to(&mut self, scores: Scores, progress: Rescored) {
        self.scores = Some(scores);
        self.progress = progress;
    }

    /// Restarts the re-rating of all links, once that is committed.
    pub fn set_scores(&mut self, scores: Scores) {
        self.came_to(scores, Rescored::default());
    }

    /// How often learning has begun to re-rate all links in this process.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// Restarts the rating of all links, because learning in another cell did.
    pub fn begin_again(&mut self, ledger: &mut Ledger) -> Result<(), StoreError> {
        let Some(scores) = self.scores.as_ref().map(Scores::restarted) else {
            return Ok(());
        };
        let mut tx = ledger.begin();
        tx.write(keys::SCORES.to_vec(), &scores)?;
        let prepared = tx.prepare();
        ledger.commit_alone(prepared)?;
        self.set_scores(scores);
        Ok(())
    }

    /// Notes a commit that may have written a lesson.
    pub fn note_commit(&mut self, commit: u64) {
        if self.is_shared {
            self.commits.push(commit);
        }
    }

    /// Takes the noted commits.
    pub fn take_commits(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.commits)
    }

    /// Notes that learning has begun to re-rate all links, once that is committed.
    pub fn begin(&mut self, scores: Scores) {
        self.set_scores(scores);
        self.begun += 1;
    }

    /// Learns from a finished task. If all links are to be re-rated, returns the state
    /// of that re-rating, which is in the transaction as well.
    pub fn learn(
        &self,
        tx: &mut Transaction<'_>,
        lesson: &Lesson<'_>,
        effects: &mut Effects,
    ) -> Result<Option<Scores>, StoreError> {
        let learning = self.learning();
        let Some(learning) = learning.filter(|_| lesson.task.kind == TaskKind::Page) else {
            return Ok(None);
        };
        if !lesson.teach(learning, tx, effects)? {
            return Ok(None);
        }
        let scores = self.scores.as_ref().map(Scores::restarted);
        if let Some(scores) = &scores {
            tx.write(keys::SCORES.to_vec(), scores)?;
        }
        Ok(scores)
    }

    /// Whether a queued record is above the razor now, and was not fetched before.
    pub fn is_above_razor(
        &self,
        store: &dyn Store,
        key: &[u8],
        kind: TaskKind,
        record: &UrlRecord,
    ) -> Result<bool, StoreError> {
        let Some(rating) = self.rating.as_deref().filter(|_| !record.was_fetched()) else {
            return Ok(false);
        };
        let worth = worth(rating, store, kind, key, record, self.rerates_anchors())?;
        Ok(worth.is_some_and(|worth| worth.bucket.is_none()))
    }

    /// The record of a queued link with its new score, where learning has made it worse
    /// than its place.
    pub fn lowered(
        &self,
        store: &dyn Store,
        key: &[u8],
        kind: TaskKind,
        record: &UrlRecord,
    ) -> Result<Option<UrlRecord>, StoreError> {
        let learns = self.rating.as_ref().filter(|r| r.learning().is_some());
        match learns.filter(|_| kind == TaskKind::Page) {
            Some(rating) => clues::lowered(&**rating, store, key, record),
            None => Ok(None),
        }
    }

    fn rerates_anchors(&self) -> bool {
        self.scores.as_ref().is_some_and(Scores::rerates_anchors)
    }
}
