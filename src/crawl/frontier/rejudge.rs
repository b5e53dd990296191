//! Judging again what is stored: another scope or another rating is applied to everything that is
//! known.
//!
//! # Another scope
//!
//! New rules hold from the moment they are set: every link is added and every
//! task leased by them. What is stored is gone through in slices, so that the
//! crawl goes on meanwhile; the place reached lies in the store with each slice's
//! effects, so a crash costs nothing. What the rules now keep out leaves its queue
//! with the reason; what rules alone had kept out, and no longer do, is queued by
//! the score it was met with. What is finished stays so, and what is leased is
//! judged when it would be leased again.
//!
//! Robots rules and fetches that failed are no matter of the scope.
//!
//! # Another rating
//!
//! See [`ratings`](super::ratings).

use std::ops::ControlFlow;

use super::draws;
use super::intake::verdict;
use super::keys;
use super::ratings::{Rescored, Worth};
use super::record::{Meta, State, UrlRecord, depends_on_path};
use super::recrawl::Visits;
use super::requeue::requeue;
use super::schedule::Schedule;
use super::store::{Store, StoreError};
use super::transaction::Transaction;
use super::traps::budgets;
use super::view::View;
use super::{codec, contexts};
use crate::address::PageUrl;
use crate::page::{Reason, TaskKind};
use crate::web::scope::Scope;

/// Records that are read in one slice: a few milliseconds.
const SLICE: usize = if cfg!(test) { 7 } else { 1_000 };

/// Records with their keys, and the key at which to go on.
type Slice = (Vec<(Vec<u8>, UrlRecord)>, Option<Vec<u8>>);

/// Totals of a re-scoping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rescoped {
    /// Addresses that were gone through.
    pub seen: u64,
    /// Addresses that were queued or waiting, and are not any more.
    pub dropped: u64,
    /// Addresses that are queued again.
    pub revived: u64,
}

/// What stored records are judged by.
pub(super) struct Rejudge<'a> {
    pub scope: &'a Scope,
    pub schedule: &'a Schedule,
    pub visits: &'a Visits,
    pub now: u64,
}

impl Rejudge<'_> {
    /// Checks a record against the scope.
    pub fn rescope(
        &self,
        tx: &mut Transaction<'_>,
        key: &[u8],
        record: UrlRecord,
        done: &mut Rescoped,
    ) -> Result<(), StoreError> {
        let pending = matches!(record.state, State::Queued | State::Waiting { .. });
        let kept_out = match record.state {
            State::Dropped { reason } if by_scope(reason) => Some(reason),
            _ => None,
        };
        if !pending && kept_out.is_none() {
            return Ok(());
        }
        let (url, kind) = codec::address_of(tx.store(), key)?;
        let host = url.host_key();
        let verdict = verdict(self.scope, &url, kind, record.hops);
        match (&record.state, kept_out, verdict) {
            (State::Queued | State::Waiting { .. }, _, Err(reason))
                if !self.schedule.is_leased(&host, key) =>
            {
                done.dropped += 1;
                self.drop_pending(tx, key, &record, record.clone(), reason)
            }
            (_, Some(before), Err(reason)) if before != reason => {
                tx.drop_otherwise(key, record, before, reason)
            }
            (_, Some(before), Ok(()))
                if self.may_return(tx.store(), &url, kind, key, before)? =>
            {
                done.revived += 1;
                requeue(tx, key, kind, &host, record)
            }
            _ => Ok(()),
        }
    }

    /// Gives a record the worth that it has by another rating.
    ///
    /// The lease of a record stays good when its place in the queue changes: it is
    /// found by its key, and its queue entry by its rank when it ends.
    pub fn rescore(
        &self,
        tx: &mut Transaction<'_>,
        key: &[u8],
        kind: TaskKind,
        stored: UrlRecord,
        worth: Worth,
        came: &mut Rescored,
    ) -> Result<(), StoreError> {
        let record = UrlRecord {
            score: worth.score,
            bucket: worth.bucket_or_low(),
            parts: worth.parts,
            ..stored.clone()
        };
        let same = record == stored;
        let above = worth.bucket.is_none() && !stored.was_fetched();
        let drawn = draws::rerate_drawn(tx, key, above.then_some(worth.score));
        match stored.state {
            State::Queued | State::Waiting { .. } if above && !drawn => {
                let host = codec::address_of(tx.store(), key)?.0.host_key();
                if !self.schedule.is_leased(&host, key) {
                    came.razored += 1;
                    return self.drop_pending(tx, key, &stored, record, Reason::Razor);
                }
                // It is dropped when it would be leased again.
                tx.move_in_queue(key, kind, &host, &stored, &record)
            }
            State::Dropped { reason } if above && depends_on_path(reason) => match (reason, same) {
                (Reason::Razor, true) => Ok(()),
                _ => tx.drop_otherwise(key, record, reason, Reason::Razor),
            },
            State::Dropped {
                reason: before @ Reason::Razor,
            } => {
                let (url, kind) = codec::address_of(tx.store(), key)?;
                match verdict(self.scope, &url, kind, record.hops) {
                    Err(reason) => tx.drop_otherwise(key, record, before, reason),
                    Ok(()) if self.may_return(tx.store(), &url, kind, key, before)? => {
                        came.revived += 1;
                        requeue(tx, key, kind, &url.host_key(), record)
                    }
                    Ok(()) => tx.put_record(key, &record),
                }
            }
            _ if same => Ok(()),
            State::Queued => {
                came.count(&stored, &record);
                let host = codec::address_of(tx.store(), key)?.0.host_key();
                tx.move_in_queue(key, kind, &host, &stored, &record)
            }
            State::Waiting { .. } => {
                came.count(&stored, &record);
                tx.put_record(key, &record)
            }
            State::Dropped { .. } => tx.put_record(key, &record),
            // What was asked keeps the score by which it was, but where it will be again.
            State::Done { .. } | State::Redirected { .. } => match stored.visit {
                Some(_) => tx.put_record(key, &record),
                None => Ok(()),
            },
        }
    }

    /// Drops what is queued and not leased, or waits; the record may be told by other
    /// words than the one that is stored, but for its place in the queue.
    fn drop_pending(
        &self,
        tx: &mut Transaction<'_>,
        key: &[u8],
        stored: &UrlRecord,
        record: UrlRecord,
        reason: Reason,
    ) -> Result<(), StoreError> {
        match stored.state {
            State::Waiting { due } => tx.leave_waiting(key, due)?,
            _ => {
                let (url, kind) = codec::address_of(tx.store(), key)?;
                tx.dequeue(kind, &url.host_key(), stored);
            }
        }
        self.visits.fail(tx, key, record, reason, false, self.now)?;
        Ok(())
    }

    /// Whether what the scope no longer keeps out is worth asking for.
    fn may_return(
        &self,
        store: &dyn Store,
        url: &PageUrl,
        kind: TaskKind,
        key: &[u8],
        before: Reason,
    ) -> Result<bool, StoreError> {
        if kind == TaskKind::Image {
            // Without the words around it an image is of no use. Where it was kept
            // out from the first they were not kept; when it is met again they are.
            return Ok(!contexts::keys_of(store, key)?.is_empty());
        }
        let host = url.host_key();
        let (given, budget) = match before {
            Reason::HostBudget => {
                let record = View::live(store, self.schedule).host(&host)?;
                let given = record.map_or(0, |record| record.documents);
                (given, self.scope.host_documents())
            }
            Reason::DomainBudget => {
                let given = budgets::domain_documents(store, &host)?;
                (given, self.scope.domain_documents())
            }
            _ => return Ok(true),
        };
        Ok(budget.is_none_or(|budget| given < budget))
    }
}

/// The next records from a key on, and the key at which to go on; `None` at the end.
pub(super) fn slice_from(store: &dyn Store, from: &[u8]) -> Result<Slice, StoreError> {
    let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::with_capacity(SLICE);
    store.scan(keys::URLS, from, &mut |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        if found.len() < SLICE {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    let last = found.last().filter(|_| found.len() == SLICE);
    let next = last.map(|(key, _)| [key.as_slice(), &[0]].concat());
    let records = found.into_iter().map(|(key, value)| {
        let record = codec::decode(store, &key, &value)?;
        Ok((key, record))
    });
    Ok((records.collect::<Result<_, StoreError>>()?, next))
}

/// Begins to check everything that is stored against `scope`, where it was judged by another one.
/// Returns whether it was.
pub(super) fn begin_where_changed(meta: &mut Meta, scope: &Scope) -> bool {
    let digest = scope.digest();
    if meta.scope == digest {
        return false;
    }
    meta.scope = digest;
    meta.rescope = Some(keys::URLS.to_vec());
    true
}

/// Whether other rules of the scope could lift this reason.
fn by_scope(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Scope | Reason::Hops | Reason::Trap | Reason::HostBudget | Reason::DomainBudget
    )
}
