//! Images and the words around them: adding, and texts that a host repeats.

pub mod alts;

use super::added::{NewTask, Origin};
use super::codec;
use super::contexts;
use super::intake::Intake;
use super::keys;
use super::outcome::OutputEdit;
use super::record::{State, UrlRecord};
use super::referral::Referred;
use super::store::{Store, StoreError};
use super::transaction::Transaction;
use crate::address::PageUrl;
use crate::page::{ImageContext, Reason, TaskKind, Terms};
use crate::topic::strategy::Score;

/// Most redirects of images along which words are carried.
const MAX_CONTEXT_HOPS: usize = 20;

/// Adds the words of one page around an image, and the image if it is new.
pub fn add(
    tx: &mut Transaction<'_>,
    intake: &Intake<'_>,
    at: &PageUrl,
    words: ImageContext,
    (score, bucket): Score,
    origin: Origin,
) -> Result<(), StoreError> {
    let Some((url, known)) = follow(tx, at)? else {
        return Ok(());
    };
    let key = keys::url(&url, TaskKind::Image);
    if let Some(to) = intake.elsewhere(&url) {
        let image = Referred::Image {
            words: contexts::pack(tx.store(), &key, &words)?,
            url,
            score,
            bucket,
            origin,
            keywords: intake.rating.keywords(),
        };
        tx.refer_image(to, image)?;
        return Ok(());
    }
    match known.as_ref().map(|record| &record.state) {
        Some(State::Done { .. }) => {
            let note = known.and_then(|record| record.note().map(str::to_owned));
            let edit = note.map(|note| OutputEdit::AddContext {
                note,
                context: Box::new(words),
                changed: origin.changed,
            });
            tx.edits.extend(edit);
            return Ok(());
        }
        // An address that only the scope excluded is judged by the current scope.
        Some(State::Dropped { reason }) if !matches!(reason, Reason::Razor | Reason::Scope) => {
            return Ok(());
        }
        _ => {}
    }
    let rated = match intake.rating.rating() {
        Some(rating) => rating.image(words.document_perplexity),
        None => (score, bucket),
    };
    // No words are kept for an image that is refused for good.
    if intake.scope.image(&url).is_ok() {
        contexts::put(tx, &key, &words)?;
    }
    let task = NewTask::rated(url, rated);
    intake.add(tx, &key, TaskKind::Image, &task, origin)
}

/// Withdraws a page's words around an image, because the page no longer allows its use. A
/// queued image without other words is deleted, as if it had never been found. A leased
/// image is judged when it arrives. For an image that is already kept, the transaction
/// receives an edit of the output.
pub fn withhold(
    tx: &mut Transaction<'_>,
    intake: &Intake<'_>,
    image: &PageUrl,
    page: &PageUrl,
    terms: &Terms,
) -> Result<(), StoreError> {
    let Some((url, known)) = follow(tx, image)? else {
        return Ok(());
    };
    if let Some(to) = intake.elsewhere(&url) {
        let what = Referred::Withheld {
            image: url,
            page: page.clone(),
            terms: terms_in_json(tx.store(), page, terms)?,
        };
        tx.refer(to, what);
        return Ok(());
    }
    let Some(record) = known else {
        return Ok(());
    };
    if matches!(record.state, State::Done { .. }) {
        let note = record.note().map(str::to_owned);
        let edit = note.map(|note| OutputEdit::Withhold {
            note,
            page: page.clone(),
            terms: Box::new(terms.clone()),
        });
        tx.edits.extend(edit);
        return Ok(());
    }
    let key = keys::url(&url, TaskKind::Image);
    let own = keys::context(&key, page);
    if tx.get(&own)?.is_none() {
        return Ok(());
    }
    tx.delete(own.clone());
    let mut words = contexts::keys_of(tx.store(), &key)?.into_iter();
    let host = url.host_key();
    if words.any(|other| other != own) || intake.is_leased(&host, &key) {
        return Ok(());
    }
    match record.state {
        State::Queued => tx.dequeue(TaskKind::Image, &host, &record),
        State::Waiting { due } => tx.leave_waiting(&key, due)?,
        State::Done { .. } | State::Redirected { .. } | State::Dropped { .. } => return Ok(()),
    }
    tx.delete(key);
    Ok(())
}

/// Terms in the form in which they are referred to another cell.
fn terms_in_json(store: &dyn Store, page: &PageUrl, terms: &Terms) -> Result<String, StoreError> {
    let json = serde_json::to_string(terms);
    json.map_err(|why| codec::corrupt(store, page.as_str().as_bytes(), why.to_string()))
}

/// Adds another cell's findings about an image of this one.
pub fn receive(
    tx: &mut Transaction<'_>,
    intake: &Intake<'_>,
    what: &Referred,
) -> Result<(), StoreError> {
    match what {
        Referred::Address { .. }
        | Referred::Errand(_)
        | Referred::Rules { .. }
        | Referred::Promise(_)
        | Referred::OnWay { .. } => Ok(()),
        Referred::Image {
            url,
            words,
            score,
            bucket,
            origin,
            ..
        } => {
            let words = contexts::unpack(words)
                .map_err(|why| codec::corrupt(tx.store(), url.as_str().as_bytes(), why))?;
            let page = &words.page;
            if intake.scope.taken_down(page, TaskKind::Page).is_some() {
                // Found again since then.
                return Ok(());
            }
            add(tx, intake, url, words, (*score, *bucket), *origin)
        }
        Referred::Withheld { image, page, terms } => {
            let terms = serde_json::from_str(terms).map_err(|why| {
                codec::corrupt(tx.store(), page.as_str().as_bytes(), why.to_string())
            })?;
            withhold(tx, intake, image, page, &terms)
        }
        Referred::Bare {
            image,
            page,
            unknown,
        } => {
            let (image, page) = (image.clone(), page.clone());
            alts::mark_earlier(tx, intake, &alts::Sight { image, page }, *unknown)
        }
    }
}

/// The end of the known redirects of an image, and its record; `None` if they lead nowhere. An
/// address in another cell has no record here.
pub fn follow(
    tx: &Transaction<'_>,
    image: &PageUrl,
) -> Result<Option<(PageUrl, Option<UrlRecord>)>, StoreError> {
    let mut url = image.clone();
    for _ in 0..MAX_CONTEXT_HOPS {
        let known = tx.record(&keys::url(&url, TaskKind::Image))?;
        let Some(State::Redirected { to, .. }) = known.as_ref().map(|r| &r.state) else {
            return Ok(Some((url, known)));
        };
        match PageUrl::from_stored(to) {
            Ok(target) => url = target,
            Err(_) => return Ok(None),
        }
    }
    Ok(None)
}
