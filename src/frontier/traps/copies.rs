//! Pages that are copies of others.
//!
//! The links of a page are not followed if its simhash differs by at most [`NEAR`] bits
//! from that of an earlier page of its host (Manku, Jain and Das Sarma 2007). One of four
//! bands of 16 bits must then be equal, which is how the earlier page is found.
//!
//! A declared canonical address is accepted only within the page's own host, and only if nothing
//! contradicts it: the texts must be similar if both are known, and a whole site cannot be one
//! page.

use std::ops::ControlFlow;

use crate::address::PageUrl;
use crate::codec;
use crate::intake::Intake;
use crate::keys;
use crate::page::{Bucket, TaskKind};
use crate::record::{State, UrlRecord};
use crate::store::StoreError;
use crate::transaction::Transaction;

/// Most bits by which the simhashes of near copies differ.
const NEAR: u32 = 3;
/// Most bits by which the simhashes of a page and its canonical one differ.
const ALIKE: u32 = 12;
/// Most simhashes that are compared in one band.
const MAX_CANDIDATES: usize = 64;

/// The earlier page of the same host that `url` is a near copy of, and whether their
/// simhashes are equal. If there is none, the simhash of `url` is stored under the
/// number `id` for comparison with later pages.
pub fn near_copy(
    tx: &mut Transaction<'_>,
    url: &PageUrl,
    simhash: u64,
    id: u64,
) -> Result<Option<(PageUrl, bool)>, StoreError> {
    let host = url.host_key();
    for band in 0..4 {
        let mut found = None;
        let mut compared = 0;
        let prefix = keys::simhash_band(&host, band, simhash);
        tx.store().scan(&prefix, &[], &mut |key, value| {
            let other = keys::simhash_of_key(key);
            if other.is_some_and(|other| (other ^ simhash).count_ones() <= NEAR) {
                found = Some((key.to_vec(), value.to_vec()));
            }
            compared += 1;
            if found.is_some() || compared == MAX_CANDIDATES {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        let Some((key, value)) = found else { continue };
        let number = codec::decode(tx.store(), &key, &value)?;
        let text = tx.get(&keys::document(number))?.unwrap_or_default();
        let earlier = PageUrl::parse(&String::from_utf8_lossy(&text)).ok();
        // A page that is fetched again is not a copy of itself.
        let same = keys::simhash_of_key(&key) == Some(simhash);
        return Ok(earlier
            .filter(|earlier| earlier != url)
            .map(|earlier| (earlier, same)));
    }
    for band in 0..4 {
        tx.write(keys::simhash(&host, band, simhash), &id)?;
    }
    Ok(None)
}

/// The relation of the canonical address `named` to the fetched page `url` that declares
/// it.
pub fn claim(
    tx: &Transaction<'_>,
    intake: &Intake<'_>,
    url: &PageUrl,
    named: &PageUrl,
    hops: u32,
    simhash: Option<u64>,
) -> Result<Claim, StoreError> {
    let mut named = intake.canonical(named).into_owned();
    let host = url.host_key();
    // No page may decide about another host, or about an address outside the scope.
    if named == *url || named.host_key() != host || !intake.accepts(&named, hops) {
        return Ok(Claim::None);
    }
    let mut key = keys::url(&named, TaskKind::Page);
    let mut known = tx.record(&key)?;
    if let Some(State::Redirected { to, .. }) = known.as_ref().map(|r| &r.state) {
        match PageUrl::from_stored(to) {
            Ok(to) if to != *url && to.host_key() == host => named = to,
            _ => return Ok(Claim::None),
        }
        key = keys::url(&named, TaskKind::Page);
        known = tx.record(&key)?;
    }
    let gone = |state: &State| matches!(state, State::Redirected { .. } | State::Dropped { .. });
    let is_root = named.path_and_query() == "/";
    // Many sites declare their front page as canonical on every page.
    let deep = url.path().split('/').count() > 2 || url.query().is_some();
    Ok(match known {
        // Even if it is queued for another visit.
        Some(record) if record.was_fetched() && !gone(&record.state) => {
            match (simhash, record.simhash) {
                (Some(a), Some(b)) if (a ^ b).count_ones() > ALIKE => Claim::None,
                (None, _) | (_, None) if is_root => Claim::None,
                _ => Claim::CopyOf(named),
            }
        }
        _ if is_root && deep => Claim::None,
        None => Claim::StandsFor(key, None),
        Some(record)
            if record.state == State::Queued
                && record.bucket != Bucket::Seed
                && record.visit.is_none()
                && !intake.is_leased(&host, &key) =>
        {
            Claim::StandsFor(key, Some(Box::new(record)))
        }
        _ => Claim::None,
    })
}

/// Makes the fetched page `url`, whose record is `own`, stand for another address of its
/// host, which is then not fetched.
pub fn stand_for(
    tx: &mut Transaction<'_>,
    key: &[u8],
    known: Option<Box<UrlRecord>>,
    url: &PageUrl,
    own: &UrlRecord,
    id: u64,
) -> Result<(), StoreError> {
    let record = match known {
        Some(record) => {
            tx.dequeue(TaskKind::Page, &url.host_key(), &record);
            *record
        }
        None => {
            let seq = tx.discovered();
            UrlRecord {
                seq,
                text: None,
                visit: None,
                simhash: None,
                judged: None,
                attempts: 0,
                ..own.clone()
            }
        }
    };
    let state = State::Redirected {
        id,
        to: url.as_str().to_owned(),
    };
    tx.put_record(key, &UrlRecord { state, ..record })
}

/// The relation of a canonical address to the page that declares it.
#[derive(Debug, Clone, PartialEq)]
pub enum Claim {
    /// None, or none that is accepted.
    None,
    /// It was not fetched yet, and need not be: its key and its record.
    StandsFor(Vec<u8>, Option<Box<UrlRecord>>),
    /// It was fetched, so this page is a copy.
    CopyOf(PageUrl),
}
