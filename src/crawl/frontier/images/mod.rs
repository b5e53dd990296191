//! Images and the words around them: adding, other addresses of the same picture, and
//! texts that a host repeats.

pub mod alts;
pub mod spares;

use super::contexts;
use super::intake::Intake;
use super::keys;
use super::outcome::OutputEdit;
use super::record::{State, UrlRecord};
use super::store::StoreError;
use super::transaction::Transaction;
use crate::address::PageUrl;
use crate::page::TaskKind;
pub use spares::Instead;

/// Most redirects of images along which words are carried.
const MAX_CONTEXT_HOPS: usize = 20;

/// Withdraws a page's words around an image, because the page no longer allows its use. A
/// queued image without other words is deleted, as if it had never been found. A leased
/// image is judged when it arrives. For an image that is already kept, the transaction
/// receives an edit of the output.
pub fn withhold(
    tx: &mut Transaction<'_>,
    intake: &Intake<'_>,
    image: &PageUrl,
    page: &PageUrl,
) -> Result<(), StoreError> {
    let Some((url, Some(record))) = follow(tx, image)? else {
        return Ok(());
    };
    if matches!(record.state, State::Done { .. }) {
        let note = record.note().map(str::to_owned);
        let edit = note.map(|note| OutputEdit::Withhold { note });
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

/// The end of the known redirects of an image, and its record; `None` where they lead
/// nowhere.
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
