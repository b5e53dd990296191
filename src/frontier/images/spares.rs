//! Other addresses of the same picture, requested in order when the best one has no
//! image.
//!
//! A page offers a picture in several sizes. The best address is queued as an image like
//! any other, and the rest is stored beside the words that the page has around it. If the
//! server has nothing at that address (404 or 410), the words move to the next address in
//! the same batch. That address is queued in turn, under the clock of its own host, and
//! checked against scope, robots rules and terms of use like any other. So the words are
//! at exactly one address even after a crash.
//!
//! The words of each page follow the addresses of that page. A known address is never
//! requested twice: its image, if it has one, receives the words; otherwise they move to
//! the next address.
//!
//! Only a missing image is replaced. An address that rules exclude, or that returns
//! something else than a picture, ends the search, because the operator or the server has
//! decided about this picture. During the search for a replacement, however, an address
//! that robots rules or the scope exclude is skipped.

use serde::{Deserialize, Serialize};

use crate::added::{NewImage, NewTask, Origin};
use crate::address::PageUrl;
use crate::contexts::{self, Words};
use crate::intake::Intake;
use crate::outcome::OutputEdit;
use crate::page::{Reason, TaskKind};
use crate::record::{State, UrlRecord};
use crate::referral::Referred;
use crate::store::{Store, StoreError};
use crate::topic::strategy::Score;
use crate::transaction::Transaction;
use crate::{codec, keys};

/// Most addresses that are recorded as stand-ins for another: every page may offer
/// different ones.
const MAX_NAMED: usize = 8;

/// Which addresses of the same picture stand in for each other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instead {
    /// The address that had no image, so that this one was requested in its place.
    pub of: Option<PageUrl>,
    /// The addresses requested, or already fetched, in place of this one, which had no
    /// image.
    pub by: Vec<PageUrl>,
}

/// The stand-ins of an image.
pub fn instead(store: &dyn Store, image: &PageUrl) -> Result<Instead, StoreError> {
    let key = keys::instead(&keys::url(image, TaskKind::Image));
    let stored = codec::get(store, &key)?;
    Ok(stored.unwrap_or_default())
}

/// Whether the next address is tried after this one was dropped for `reason`; `is_spare`
/// where this one was itself tried in place of another.
fn passes_on(reason: Reason, is_spare: bool) -> bool {
    match reason {
        Reason::Gone => true,
        Reason::Robots | Reason::Scope | Reason::ClientError => is_spare,
        _ => false,
    }
}

/// Adds an image with one context, or adds the context to a known image.
pub fn add_image(
    tx: &mut Transaction<'_>,
    intake: &Intake<'_>,
    new: &NewImage,
    origin: Origin,
) -> Result<(), StoreError> {
    let words = Words {
        context: new.context.clone(),
        spares: new.spares.clone(),
        instead_of: None,
    };
    add_words(tx, intake, &new.url, words, (new.score, new.bucket), origin)
}

/// Adds words to the image at an address or, where it has none, to the first of the other
/// addresses.
pub fn add_words(
    tx: &mut Transaction<'_>,
    intake: &Intake<'_>,
    url: &PageUrl,
    words: Words,
    rated: Score,
    origin: Origin,
) -> Result<(), StoreError> {
    match add_at(tx, intake, url, words, rated, origin)? {
        None => Ok(()),
        Some(words) => try_next(tx, intake, url, words, rated, origin),
    }
}

/// Moves the words around an image that was dropped for `reason` to their next address,
/// where the reason permits it, and deletes them here.
pub fn pass_on(
    tx: &mut Transaction<'_>,
    intake: &Intake<'_>,
    key: &[u8],
    url: &PageUrl,
    record: &UrlRecord,
    reason: Reason,
) -> Result<(), StoreError> {
    let origin = Origin {
        via: record.via,
        hops: record.hops,
        redirects: 0,
        changed: None,
    };
    contexts::forget(tx, key)?;
    let rated = (record.score, Some(record.bucket));
    for words in contexts::words_of(tx.store(), key)? {
        if passes_on(reason, words.instead_of.is_some()) {
            try_next(tx, intake, url, words, rated, origin)?;
        }
    }
    Ok(())
}

/// The stand-ins of an image, including pending changes.
pub fn instead_of(tx: &Transaction<'_>, image: &PageUrl) -> Result<Instead, StoreError> {
    let key = keys::instead(&keys::url(image, TaskKind::Image));
    Ok(tx.read(&key)?.unwrap_or_default())
}

/// An image and all of its stand-ins, in no order.
pub fn stand_ins(tx: &Transaction<'_>, image: &PageUrl) -> Result<Vec<PageUrl>, StoreError> {
    let mut found = vec![image.clone()];
    let mut next = 0;
    while let Some(url) = found.get(next).filter(|_| found.len() <= MAX_NAMED) {
        for by in instead_of(tx, url)?.by {
            if !found.contains(&by) {
                found.push(by);
            }
        }
        next += 1;
    }
    Ok(found)
}

fn try_next(
    tx: &mut Transaction<'_>,
    intake: &Intake<'_>,
    gone: &PageUrl,
    mut words: Words,
    rated: Score,
    origin: Origin,
) -> Result<(), StoreError> {
    let mut gone = gone.clone();
    while !words.spares.is_empty() {
        let next = words.spares.remove(0);
        words.instead_of = Some(gone);
        match add_at(tx, intake, &next, words, rated, origin)? {
            None => return Ok(()),
            Some(back) => words = back,
        }
        gone = next;
    }
    Ok(())
}

/// Adds words to the image at exactly this address. The words are returned where there is
/// no image, so that another address can be tried.
fn add_at(
    tx: &mut Transaction<'_>,
    intake: &Intake<'_>,
    at: &PageUrl,
    words: Words,
    (score, bucket): Score,
    origin: Origin,
) -> Result<Option<Words>, StoreError> {
    let Some((url, known)) = super::follow(tx, at)? else {
        return Ok(None);
    };
    if let Some(to) = intake.elsewhere(&url) {
        // Whether it has one is known there, and the search goes on from there.
        let key = keys::url(&url, TaskKind::Image);
        let words = contexts::pack(tx.store(), &key, &words)?;
        let image = Referred::Image {
            url,
            words,
            score,
            bucket,
            origin,
            keywords: intake.rating.keywords(),
        };
        tx.refer_image(to, image)?;
        return Ok(None);
    }
    let is_spare = words.instead_of.is_some();
    let verdict = intake.scope.image(&url);
    if let Err(reason) = verdict
        && is_spare
    {
        return Ok(passes_on(reason, is_spare).then_some(words));
    }
    match known.as_ref().map(|r| &r.state) {
        Some(State::Done { .. }) => {
            name_instead(tx, intake, &words, &url, false)?;
            let context = Box::new(words.context);
            let note = known.and_then(|record| record.note().map(str::to_owned));
            let edit = note.map(|note| OutputEdit::AddContext {
                note,
                context,
                changed: origin.changed,
            });
            tx.edits.extend(edit);
            return Ok(None);
        }
        // An address that only the scope excluded is judged by the current scope.
        Some(State::Dropped { reason })
            if *reason != Reason::Scope && passes_on(*reason, is_spare) =>
        {
            return Ok(Some(words));
        }
        Some(State::Dropped { reason }) if !matches!(reason, Reason::Razor | Reason::Scope) => {
            return Ok(None);
        }
        _ => {}
    }
    let key = keys::url(&url, TaskKind::Image);
    // No words are kept for an image that is refused for good.
    if verdict.is_ok() && !has_better(tx, &key, &words)? {
        contexts::put(tx, &key, &words)?;
    }
    name_instead(tx, intake, &words, &url, known.is_none())?;
    let (score, bucket) = match intake.rating.rating() {
        Some(rating) => rating.image(words.context.document_perplexity),
        None => (score, bucket),
    };
    let task = NewTask::rated(url, (score, bucket));
    intake.add(tx, &key, TaskKind::Image, &task, origin)?;
    Ok(None)
}

/// Whether the page of words that were moved here has better ones around this address
/// itself.
fn has_better(tx: &Transaction<'_>, key: &[u8], words: &Words) -> Result<bool, StoreError> {
    if words.instead_of.is_none() {
        return Ok(false);
    }
    let Some(packed) = tx.get(&keys::context(key, &words.context.page))? else {
        return Ok(false);
    };
    let known = contexts::unpack(&packed);
    let known = known.map_err(|why| codec::corrupt(tx.store(), key, why))?;
    Ok(known.context.rank <= words.context.rank)
}

/// Records a stand-in. An address that was found independently is not recorded as one.
fn name_instead(
    tx: &mut Transaction<'_>,
    intake: &Intake<'_>,
    words: &Words,
    url: &PageUrl,
    new: bool,
) -> Result<(), StoreError> {
    let Some(gone) = &words.instead_of else {
        return Ok(());
    };
    match intake.elsewhere(gone) {
        None => name_by(tx, gone, url)?,
        Some(to) => {
            let (of, by) = (gone.clone(), url.clone());
            tx.refer(to, Referred::StandIn { of, by });
        }
    }
    if new {
        tx.meta.images.tried += 1;
        let of = Some(gone.clone());
        let own = Instead {
            of,
            ..instead_of(tx, url)?
        };
        tx.write(keys::instead(&keys::url(url, TaskKind::Image)), &own)?;
    }
    Ok(())
}

/// Records at an address that had no image which one was requested in its place.
pub fn name_by(tx: &mut Transaction<'_>, of: &PageUrl, by: &PageUrl) -> Result<(), StoreError> {
    let mut known = instead_of(tx, of)?;
    if known.by.contains(by) || known.by.len() >= MAX_NAMED {
        return Ok(());
    }
    known.by.push(by.clone());
    tx.write(keys::instead(&keys::url(of, TaskKind::Image)), &known)
}
