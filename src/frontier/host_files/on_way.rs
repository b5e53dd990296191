//! What the headers of redirects state about the use of their targets.

use crate::address::PageUrl;
use crate::codec;
use crate::intake::Intake;
use crate::keys;
use crate::page::{TaskKind, Terms};
use crate::referral::Referred;
use crate::store::{Readable, StoreError};
use crate::transaction::Transaction;

/// Records what a redirect to `to` states, in addition to what others state.
pub fn state(
    tx: &mut Transaction<'_>,
    intake: &Intake<'_>,
    to: &PageUrl,
    kind: TaskKind,
    terms: &Terms,
) -> Result<(), StoreError> {
    if terms.is_silent() {
        return Ok(());
    }
    match intake.elsewhere(to) {
        None => record(tx, to, kind, terms.clone()),
        Some(cell) => {
            let terms = json(tx, to, terms)?;
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
    terms: Terms,
) -> Result<(), StoreError> {
    let all = of(tx.store(), to, kind)?.then(terms);
    let json = json(tx, to, &all)?;
    tx.put(keys::on_way(&keys::url(to, kind)), json.into_bytes());
    Ok(())
}

/// Records what another cell has found.
pub fn receive(
    tx: &mut Transaction<'_>,
    to: &PageUrl,
    kind: TaskKind,
    terms: &str,
) -> Result<(), StoreError> {
    let terms = serde_json::from_str(terms);
    let terms = terms.map_err(|why| unreadable(tx, to, &why))?;
    record(tx, to, kind, terms)
}

fn json(tx: &Transaction<'_>, to: &PageUrl, terms: &Terms) -> Result<String, StoreError> {
    serde_json::to_string(terms).map_err(|why| unreadable(tx, to, &why))
}

fn unreadable(tx: &Transaction<'_>, to: &PageUrl, why: &serde_json::Error) -> StoreError {
    codec::corrupt(tx.store(), to.as_str().as_bytes(), why.to_string())
}

/// What redirects to an address state.
pub fn of(store: &dyn Readable, url: &PageUrl, kind: TaskKind) -> Result<Terms, StoreError> {
    let key = keys::on_way(&keys::url(url, kind));
    let Some(json) = store.get(&key)? else {
        return Ok(Terms::default());
    };
    serde_json::from_slice(&json).map_err(|why| codec::corrupt(store, &key, why.to_string()))
}
