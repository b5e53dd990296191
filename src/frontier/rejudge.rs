//! Re-judging stored records: applies another scope or another rating to all of them.
//!
//! # Another scope
//!
//! New rules apply as soon as they are set, to every added link and every leased task.
//! Stored records are checked in slices while the crawl continues. The position is stored
//! together with each slice's effects, so a crash costs nothing. A URL that the new rules
//! exclude leaves its queue with the reason. A URL that only the old rules excluded is
//! queued by its stored score. Finished URLs stay finished, and leased ones are judged
//! before their next lease.
//!
//! Robots rules and failed fetches are independent of the scope.
//!
//! # Another rating
//!
//! See [`ratings`](super::ratings).

use std::ops::ControlFlow;

use super::cell::Home;
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

/// Records read in one slice: a few milliseconds.
const SLICE: usize = if cfg!(test) { 7 } else { 1_000 };

/// Records with their keys, and the key to continue at.
type Slice = (Vec<(Vec<u8>, UrlRecord)>, Option<Vec<u8>>);

/// Totals of a re-scoping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rescoped {
    /// Addresses read.
    pub seen: u64,
    /// Addresses that were queued or waiting, and no longer are.
    pub dropped: u64,
    /// Addresses that are queued again.
    pub revived: u64,
}

/// The current rules for stored records.
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

    /// Gives a record its value under another rating.
    ///
    /// The lease of a record remains valid when its place in the queue changes: the
    /// record is found by its key, and its queue entry by its rank when the lease ends.
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
                // It is dropped before its next lease.
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
            // Fetched pages keep the score that they were fetched with, unless a visit follows.
            State::Done { .. } | State::Redirected { .. } => match stored.visit {
                Some(_) => tx.put_record(key, &record),
                None => Ok(()),
            },
        }
    }

    /// Drops a record that is waiting, or queued and not leased. `record` may differ from the
    /// stored one, except for its place in the queue.
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

    /// Whether a URL that the scope no longer excludes should be requested.
    fn may_return(
        &self,
        store: &dyn Store,
        url: &PageUrl,
        kind: TaskKind,
        key: &[u8],
        before: Reason,
    ) -> Result<bool, StoreError> {
        if kind == TaskKind::Image {
            // An image without words around it is useless. If it was excluded from the start, none
            // were kept; the next page that embeds it brings them.
            return Ok(!contexts::keys_of(store, key)?.is_empty());
        }
        let host = url.host_key();
        let (given, budget) = match before {
            Reason::HostBudget => {
                // The host always belongs to this cell.
                let view = View::live(store, self.schedule, Home::ONLY);
                let record = view.host(&host)?;
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

/// The next records from a key on, and the key to continue at; `None` at the end.
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

/// Starts checking all stored records against `scope`, if they were checked against
/// another one. Returns whether they were.
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
