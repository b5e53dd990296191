//! What the headers of redirects state about the use of their targets.

use crate::address::PageUrl;
use crate::codec;
use crate::intake::Intake;
use crate::keys;
use crate::page::{TaskKind, Terms};
use crate::referral::Referred;
use crate::store::{Readable, StoreError};
use crate::transaction::Transaction;

/// Records what a redirect to `to` states, or that it no longer states anything.
pub fn state(
    tx: &mut Transaction<'_>,
    intake: &Intake<'_>,
    to: &PageUrl,
    kind: TaskKind,
    terms: &Terms,
) -> Result<(), StoreError> {
    let json = if terms.is_silent() {
        String::new()
    } else {
        let json = serde_json::to_string(terms);
        json.map_err(|why| codec::corrupt(tx.store(), to.as_str().as_bytes(), why.to_string()))?
    };
    match intake.elsewhere(to) {
        None => record(tx, to, kind, json),
        // A redirect that states nothing is the rule, so it costs no referral.
        Some(_) if json.is_empty() => Ok(()),
        Some(cell) => {
            let terms = json;
            let url = to.clone();
            tx.refer(cell, Referred::OnWay { url, kind, terms });
            Ok(())
        }
    }
}

/// Records them in the cell of the target.
pub fn record(
    tx: &mut Transaction<'_>,
    to: &PageUrl,
    kind: TaskKind,
    json: String,
) -> Result<(), StoreError> {
    let key = keys::on_way(&keys::url(to, kind));
    if !json.is_empty() {
        tx.put(key, json.into_bytes());
    } else if tx.store().get(&key)?.is_some() {
        tx.delete(key);
    }
    Ok(())
}

/// What redirects to an address state.
pub fn of(store: &dyn Readable, url: &PageUrl, kind: TaskKind) -> Result<Terms, StoreError> {
    let key = keys::on_way(&keys::url(url, kind));
    let Some(json) = store.get(&key)? else {
        return Ok(Terms::default());
    };
    serde_json::from_slice(&json).map_err(|why| codec::corrupt(store, &key, why.to_string()))
}
