//! Re-rating: other boundaries, weights or keywords are applied to everything that is known.
//!
//! A [`Rating`] is set from outside and may be replaced between any two calls. From then on it
//! rates everything that is added, including links of pages that were in work under the former
//! rating, and its razor applies to everything that is leased. Stored links are re-rated in
//! slices, like those of `rescope`, while the crawl goes on. The store holds the digest of the
//! rating and the place reached under a key of their own, written with each slice. So a crash
//! costs nothing, and a job that is started with another rating is re-rated at once.
//!
//! A link keeps the parts of its score, so any weights can be applied to it. Of its keyword score
//! it keeps only the result; the words of its anchor are therefore kept with it until it is
//! fetched, up to [`MAX_ANCHOR`] bytes. Longer anchors keep the keyword score they were met with.
//! A record keeps the best of the paths that led to it by the rating of that time, and that path
//! is re-rated.
//!
//! Seeds and sitemaps have no score and stay. The razor never drops what was fetched; where it is
//! to be visited again, it takes its place by the new rating.
//!
//! What the control sample has drawn is fetched whatever the razor. It stays where it is, marked
//! as above the razor in case it is not fetched after all.
//!
//! The formulas are not known here; the rating computes them.

use serde::{Deserialize, Serialize};

use super::change::Change;
use super::finish::Effects;
use super::record::{State, UrlRecord};
use super::rescope::{address_of, judge};
use super::store::{Store, StoreError};
use super::{Frontier, NewTask, codec, contexts, keys, learning};
use crate::address::PageUrl;
use crate::page::{Bucket, LinkParts, Reason, TaskKind};
use crate::topic::strategy::{Score, Strategy};

/// The longest anchor whose words are kept, in bytes.
pub const MAX_ANCHOR: usize = 200;

/// The strategy of a crawl with its keyword table.
pub trait Rating: Strategy {
    /// A number that is the same for ratings that give equal scores and buckets to
    /// equal parts, in every process.
    fn digest(&self) -> u64;

    /// The same for their keyword tables.
    fn keywords(&self) -> u64;

    /// The keyword score of an anchor of these words, as in [`LinkParts::keyword`].
    fn keyword(&self, anchor: &str) -> f64;
}

/// What a re-rating came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rescored {
    /// Addresses that were gone through.
    pub seen: u64,
    /// Links that are queued or waiting with another score than before.
    pub rescored: u64,
    /// Those of them that moved to another bucket.
    pub moved: u64,
    /// Links that were queued or waiting and lie above the razor now.
    pub razored: u64,
    /// Links that lay above the razor and are queued now.
    pub revived: u64,
}

/// The rating of all stored links, or the progress towards it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Scores {
    /// [`Rating::digest`].
    rating: u64,
    /// [`Rating::keywords`].
    keywords: u64,
    /// The first key that is not re-rated yet, while that is under way.
    next: Option<Vec<u8>>,
    /// Whether anchors are re-rated as well.
    anchors: bool,
}

/// What a record is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Worth {
    pub score: f64,
    pub bucket: Option<Bucket>,
    pub parts: Option<LinkParts>,
}

impl Worth {
    fn of((score, bucket): Score, parts: Option<LinkParts>) -> Self {
        Self {
            score,
            bucket,
            parts,
        }
    }

    /// The bucket that a record of this worth keeps.
    pub fn bucket_or_low(&self) -> Bucket {
        self.bucket.unwrap_or(Bucket::Low)
    }
}

impl Scores {
    /// The state in which all links are to be re-rated by the same rating.
    pub fn restarted(&self) -> Self {
        Self {
            anchors: self.next.is_some() && self.anchors,
            next: Some(keys::URLS.to_vec()),
            ..self.clone()
        }
    }
}

impl Frontier {
    /// Replaces the rating. Stored links that were rated by a different one are re-rated in the
    /// background by [`Frontier::rescore_slice`]. Returns false where nothing differs.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails; the rating is as before then.
    pub fn set_rating(&mut self, rating: std::sync::Arc<dyn Rating>) -> Result<bool, StoreError> {
        self.restore_learned(&*rating)?;
        let stored = codec::read(&*self.store, keys::SCORES, self.store.get(keys::SCORES)?)?;
        let known: Option<Scores> = stored;
        let (digest, keywords) = (rating.digest(), rating.keywords());
        let scores = match known {
            Some(known) if (known.rating, known.keywords) == (digest, keywords) => {
                self.scores = Some(known);
                self.rating = Some(rating);
                return Ok(false);
            }
            // Nothing was rated yet.
            None if self.meta.next_seq == 0 => Scores {
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
        let mut batch = super::store::Batch::default();
        let bytes = codec::encode(&*self.store, &scores)?;
        batch.put(keys::SCORES.to_vec(), bytes);
        self.commit(batch, self.meta.clone())?;
        self.rescored = Rescored::default();
        self.scores = Some(scores);
        self.rating = Some(rating);
        Ok(begins)
    }

    /// The rating in force, if one was set.
    pub fn rating(&self) -> Option<&std::sync::Arc<dyn Rating>> {
        self.rating.as_ref()
    }

    /// Whether stored links are still to be re-rated.
    pub fn is_rescoring(&self) -> bool {
        self.scores.as_ref().is_some_and(|s| s.next.is_some())
    }

    /// Progress of the current re-rating, or the totals of the last one in this process.
    pub fn rescored(&self) -> Rescored {
        self.rescored
    }

    /// Re-rates the next slice of addresses. Returns the totals when the last one is done.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails; nothing of this slice is done then.
    pub fn rescore_slice(&mut self, now: u64) -> Result<Option<Rescored>, StoreError> {
        let (Some(rating), Some(scores)) = (&self.rating, &self.scores) else {
            return Ok(None);
        };
        let Some(from) = &scores.next else {
            return Ok(None);
        };
        let (found, next) = self.slice_from(from)?;
        let scores = Scores {
            next,
            ..scores.clone()
        };
        let mut came = self.rescored;
        let mut change = Change::new(&*self.store, &self.scope, &self.schedule, self.meta.clone());
        for (key, record) in found {
            came.seen += 1;
            let Some(kind) = keys::kind_of_key(&key) else {
                continue;
            };
            let worth = worth(&**rating, &*self.store, kind, &key, &record, scores.anchors)?;
            if let Some(worth) = worth {
                self.rescore(&mut change, &key, kind, record, worth, &mut came, now)?;
            }
        }
        change.write(keys::SCORES.to_vec(), &scores)?;
        let change = change.gathered();
        self.commit_slice(change, now)?;
        let done = scores.next.is_none().then_some(came);
        self.rescored = came;
        self.scores = Some(scores);
        Ok(done)
    }

    /// The lease of a record stays good when its place in the queue changes: it is
    /// found by its key, and its queue entry by its rank when it ends.
    #[allow(clippy::too_many_arguments)]
    fn rescore(
        &self,
        change: &mut Change<'_>,
        key: &[u8],
        kind: TaskKind,
        stored: UrlRecord,
        worth: Worth,
        came: &mut Rescored,
        now: u64,
    ) -> Result<(), StoreError> {
        let record = UrlRecord {
            score: worth.score,
            bucket: worth.bucket_or_low(),
            parts: worth.parts,
            ..stored.clone()
        };
        let same = record == stored;
        let above = worth.bucket.is_none() && !stored.was_fetched();
        let drawn = change.rerate_drawn(key, above.then_some(worth.score));
        match stored.state {
            State::Queued | State::Waiting { .. } if above && !drawn => {
                let host = address_of(&*self.store, key)?.0.host_key();
                if !self.schedule.is_leased(&host, key) {
                    came.razored += 1;
                    return self.drop_pending(change, key, &stored, record, Reason::Razor, now);
                }
                // It is dropped when it would be leased again.
                change.dequeue(kind, &host, &stored);
                change.enqueue(key, kind, &host, &record)
            }
            State::Dropped { reason } if above && super::change::is_judgement(reason) => {
                match (reason, same) {
                    (Reason::Razor, true) => Ok(()),
                    _ => change.drop_otherwise(key, record, reason, Reason::Razor),
                }
            }
            State::Dropped {
                reason: before @ Reason::Razor,
            } => {
                let (url, kind) = address_of(&*self.store, key)?;
                match judge(&self.scope, &url, kind, record.hops) {
                    Err(reason) => change.drop_otherwise(key, record, before, reason),
                    Ok(()) if self.may_return(&url, kind, key, before)? => {
                        came.revived += 1;
                        change.rouse(key, kind, &url.host_key(), record)
                    }
                    Ok(()) => change.put_record(key, &record),
                }
            }
            _ if same => Ok(()),
            State::Queued => {
                came.count(&stored, &record);
                let host = address_of(&*self.store, key)?.0.host_key();
                change.dequeue(kind, &host, &stored);
                change.enqueue(key, kind, &host, &record)
            }
            State::Waiting { .. } => {
                came.count(&stored, &record);
                change.put_record(key, &record)
            }
            State::Dropped { .. } => change.put_record(key, &record),
            // What was asked keeps the score by which it was, but where it will be again.
            State::Done { .. } | State::Redirected { .. } => match stored.visit {
                Some(_) => change.put_record(key, &record),
                None => Ok(()),
            },
        }
    }

    /// Whether a queued record lies above the razor now, and was not fetched before.
    pub(super) fn is_above_razor(
        &self,
        key: &[u8],
        kind: TaskKind,
        record: &UrlRecord,
    ) -> Result<bool, StoreError> {
        let Some(rating) = self.rating.as_ref().filter(|_| !record.was_fetched()) else {
            return Ok(false);
        };
        let anchors = self.rerates_anchors();
        let worth = worth(&**rating, &*self.store, kind, key, record, anchors)?;
        Ok(worth.is_some_and(|worth| worth.bucket.is_none()))
    }

    fn rerates_anchors(&self) -> bool {
        self.scores
            .as_ref()
            .is_some_and(|s| s.next.is_some() && s.anchors)
    }

    /// Has a change rate what it adds by the rating in force, where its links were
    /// rated with the keyword table of this digest.
    pub(super) fn rate_by_what_is_in_force<'a>(
        &'a self,
        change: &mut Change<'a>,
        effects: &Effects,
    ) {
        change.rating = self.rating.as_deref();
        let other = |keywords| {
            self.rating
                .as_ref()
                .is_some_and(|r| r.keywords() != keywords)
        };
        change.other_keywords = effects.keywords.is_some_and(other) || self.rerates_anchors();
    }
}

impl Rescored {
    fn count(&mut self, before: &UrlRecord, after: &UrlRecord) {
        self.rescored += 1;
        self.moved += u64::from(before.bucket != after.bucket);
    }
}

/// What a record is worth by a rating; `None` where it has no score. `anchors` where its
/// anchor may have been rated with another keyword table.
pub(super) fn worth(
    rating: &dyn Rating,
    store: &dyn Store,
    kind: TaskKind,
    key: &[u8],
    record: &UrlRecord,
    anchors: bool,
) -> Result<Option<Worth>, StoreError> {
    Ok(match kind {
        TaskKind::Page => {
            if let Some(score) = learning::score_of(rating, store, key, record)? {
                return Ok(Some(Worth::of(score, record.parts)));
            }
            let anchor = record.anchor().filter(|_| anchors);
            let (target, _) = address_of(store, key)?;
            worth_of_page(rating, &target, Some(record.bucket), record.parts, anchor)
        }
        TaskKind::Image => {
            let document = match record.score > 0.0 {
                true => Some(record.score),
                // Where nothing is preferred all images are equal.
                false if !rating.prefers() => Some(1.0),
                // A crawl without focus gave it no score; its pages had theirs.
                false => contexts::of(store, key)?
                    .iter()
                    .map(|context| context.document_perplexity)
                    .reduce(f64::min),
            };
            document.map(|document| Worth::of(rating.image(document), None))
        }
        TaskKind::Sitemap | TaskKind::Robots | TaskKind::Tdmrep => None,
    })
}

/// The same for a page by what is known of it.
fn worth_of_page(
    rating: &dyn Rating,
    target: &PageUrl,
    bucket: Option<Bucket>,
    parts: Option<LinkParts>,
    anchor: Option<&str>,
) -> Option<Worth> {
    match (parts, bucket) {
        (Some(mut parts), _) => {
            if let Some(anchor) = anchor {
                parts.keyword = rating.keyword(anchor);
            }
            Some(Worth::of(rating.link(target, &parts), Some(parts)))
        }
        (None, Some(Bucket::Seed)) => None,
        (None, _) => Some(Worth::of(rating.listed(), None)),
    }
}

/// A page to be added as a rating has it; an image is rated by its context.
pub(super) fn rate_new(
    rating: &dyn Rating,
    kind: TaskKind,
    new: &NewTask,
    anchors: bool,
) -> NewTask {
    let anchor = new.anchor.as_deref().filter(|_| anchors);
    let worth = match kind {
        TaskKind::Page => worth_of_page(rating, &new.url, new.bucket, new.parts, anchor),
        _ => None,
    };
    match worth {
        Some(worth) => NewTask {
            bucket: worth.bucket,
            score: worth.score,
            parts: worth.parts,
            ..new.clone()
        },
        None => new.clone(),
    }
}
