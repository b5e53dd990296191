//! The stored state of a learning crawl: the features of links, the examples, and the
//! pages that its judge uses.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use crate::codec;
use crate::keys::{self, Rank};
use crate::page::{Bucket, Clues, Heard};
use crate::record::UrlRecord;
use crate::store::{Store, StoreError};
use crate::topic::strategy::{Score, Strategy};

/// How much worse a stored score may become before the link is lowered instead of leased,
/// and how much better before it is lifted: nearly every page changes the scores of all
/// its links a little.
const TOLERANCE: f64 = 1.05;

/// A training example from one page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Example {
    /// The features of the link.
    pub clues: Clues,
    /// How far on topic the page turned out to be, 0 to 1.
    pub reward: f64,
}

/// The stored features of the address with this key.
pub fn stored(store: &dyn Store, key: &[u8]) -> Result<Option<Clues>, StoreError> {
    let key = keys::clues(key);
    codec::get(store, &key)
}

/// The examples since the last snapshot, in order.
pub fn examples(store: &dyn Store) -> Result<Vec<Example>, StoreError> {
    let mut examples = Ok(Vec::new());
    store.scan(keys::EXAMPLES, &[], &mut |key, value| {
        let example = codec::decode(store, key, value);
        match (&mut examples, example) {
            (Ok(examples), Ok(example)) => {
                examples.push(example);
                ControlFlow::Continue(())
            }
            (all, Err(broken)) => {
                *all = Err(broken);
                ControlFlow::Break(())
            }
            (Err(_), Ok(_)) => ControlFlow::Break(()),
        }
    })?;
    examples
}

/// All parts of the judge's state.
pub fn judged(store: &dyn Store) -> Result<Vec<Heard>, StoreError> {
    let mut kept = Vec::new();
    let mut broken = None;
    store.scan(keys::JUDGED, &[], &mut |key, value| {
        let place = key.get(1..).and_then(|place| place.try_into().ok());
        let Some(place) = place.map(u16::from_be_bytes) else {
            let why = "what pages are judged by has no place".to_owned();
            broken = Some(codec::corrupt(store, key, why));
            return ControlFlow::Break(());
        };
        let state = value.to_vec();
        kept.push(Heard { place, state });
        ControlFlow::Continue(())
    })?;
    broken.map_or(Ok(kept), Err)
}

/// Whether a link that is found again has improved enough to move in its queue.
pub fn is_lifted(known: &UrlRecord, bucket: Bucket, score: f64) -> bool {
    let place = Rank::new(bucket, score, known.seq);
    place.is_better_than(&Rank::new(known.bucket, known.score / TOLERANCE, known.seq))
}

/// The learned score of a link that waits to be fetched; `None` for seeds, for links
/// without features, and if the rating does not learn.
pub fn score_of(
    rating: &dyn Strategy,
    store: &dyn Store,
    key: &[u8],
    record: &UrlRecord,
) -> Result<Option<Score>, StoreError> {
    let Some(learning) = rating.learning().filter(|_| record.bucket != Bucket::Seed) else {
        return Ok(None);
    };
    let clues = stored(store, key)?.filter(|clues| clues.reward.is_none());
    Ok(clues.map(|clues| learning.rate(&clues, record.parts.as_ref())))
}

/// The record of a queued link whose learned score has become worse than its place;
/// `None` if its place is about right.
pub fn lowered(
    rating: &dyn Strategy,
    store: &dyn Store,
    key: &[u8],
    record: &UrlRecord,
) -> Result<Option<UrlRecord>, StoreError> {
    let Some((score, Some(bucket))) = score_of(rating, store, key, record)? else {
        return Ok(None);
    };
    let place = Rank::new(bucket, score, record.seq);
    let tolerated = Rank::new(record.bucket, record.score * TOLERANCE, record.seq);
    Ok(tolerated.is_better_than(&place).then(|| UrlRecord {
        score,
        bucket,
        ..record.clone()
    }))
}
