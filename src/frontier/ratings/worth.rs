//! The value of a stored or new URL under a rating.

use std::borrow::Cow;

use crate::added::NewTask;
use crate::address::PageUrl;
use crate::codec;
use crate::contexts;
use crate::page::{Bucket, LinkParts, TaskKind};
use crate::record::UrlRecord;
use crate::store::{Store, StoreError};
use crate::topic::strategy::{Score, Strategy};

use super::clues;

/// The strategy of a crawl with its keyword table.
pub trait Rating: Strategy {
    /// A number that is the same, in every process, for ratings that give equal scores and buckets
    /// to equal parts.
    fn digest(&self) -> u64;

    /// The same for the keyword table.
    fn keywords(&self) -> u64;

    /// The keyword score of an anchor of these words, as in [`LinkParts::keyword`].
    fn keyword(&self, anchor: &str) -> f64;
}

/// The value of a record.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Worth {
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

    /// The bucket for a record of this value.
    pub fn bucket_or_low(&self) -> Bucket {
        self.bucket.unwrap_or(Bucket::Low)
    }
}

/// The value of a record under a rating; `None` if it has no score. `anchors` is whether its anchor
/// may have been rated with another keyword table.
pub fn worth(
    rating: &dyn Rating,
    store: &dyn Store,
    kind: TaskKind,
    key: &[u8],
    record: &UrlRecord,
    anchors: bool,
) -> Result<Option<Worth>, StoreError> {
    Ok(match kind {
        TaskKind::Page => {
            if let Some(score) = clues::score_of(rating, store, key, record)? {
                return Ok(Some(Worth::of(score, record.parts)));
            }
            let anchor = record.anchor().filter(|_| anchors);
            let (target, _) = codec::address_of(store, key)?;
            worth_of_page(rating, &target, Some(record.bucket), record.parts, anchor)
        }
        TaskKind::Image => {
            let document = match record.score > 0.0 {
                true => Some(record.score),
                // A strategy without preferences rates all images the same.
                false if !rating.prefers() => Some(1.0),
                // An unfocused crawl gave it no score, but scored its pages.
                false => contexts::of(store, key)?
                    .iter()
                    .map(|context| context.document_perplexity)
                    .reduce(f64::min),
            };
            document.map(|document| Worth::of(rating.image(document), None))
        }
        TaskKind::Sitemap | TaskKind::Robots | TaskKind::Tdmrep | TaskKind::Rsl => None,
    })
}

/// The value of a page by the parts of its score.
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

/// A page to be added, with its score under a rating. `anchors` is whether its anchor may have been
/// rated with another keyword table.
pub fn rate_new<'n>(rating: &dyn Rating, new: &'n NewTask, anchors: bool) -> Cow<'n, NewTask> {
    let anchor = new.anchor.as_deref().filter(|_| anchors);
    match worth_of_page(rating, &new.url, new.bucket, new.parts, anchor) {
        Some(worth) => Cow::Owned(NewTask {
            bucket: worth.bucket,
            score: worth.score,
            parts: worth.parts,
            ..new.clone()
        }),
        None => Cow::Borrowed(new),
    }
}
