//! Re-scoping: a changed scope is applied to everything that is known.
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

use std::ops::ControlFlow;

use super::change::{Change, Gathered};
use super::record::{Meta, State, UrlRecord};
use super::store::{Store, StoreError};
use super::{Frontier, codec, contexts, keys, traps};
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

impl Frontier {
    /// Replaces the scope. Stored addresses are checked against it in the background by
    /// [`Frontier::rescope_slice`]. Returns false where nothing differs.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails; the rules are as before then.
    pub fn set_scope(&mut self, scope: Scope) -> Result<bool, StoreError> {
        let mut meta = self.meta.clone();
        if !begin_where_changed(&mut meta, &scope) {
            return Ok(false);
        }
        self.commit(super::store::Batch::default(), meta)?;
        self.scope = scope;
        self.rescoped = Rescoped::default();
        Ok(true)
    }

    /// Whether stored addresses are still to be checked against the scope.
    pub fn is_rescoping(&self) -> bool {
        self.meta.rescope.is_some()
    }

    /// Checks the next slice of addresses. Returns the totals when the last one is done.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails; nothing of this slice is done then.
    pub fn rescope_slice(&mut self, now: u64) -> Result<Option<Rescoped>, StoreError> {
        let Some(from) = self.meta.rescope.clone() else {
            return Ok(None);
        };
        let (found, next) = self.slice_from(&from)?;
        let mut done = self.rescoped;
        let mut change = Change::new(&*self.store, &self.scope, &self.schedule, self.meta.clone());
        for (key, record) in found {
            done.seen += 1;
            self.rescope(&mut change, &key, record, &mut done, now)?;
        }
        let at_end = next.is_none();
        change.meta.rescope = next;
        let change = change.gathered();
        self.commit_slice(change, now)?;
        self.rescoped = done;
        Ok(at_end.then_some(done))
    }

    /// The next records from a key on, and the key at which to go on; `None` at the end.
    pub(super) fn slice_from(&self, from: &[u8]) -> Result<Slice, StoreError> {
        let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::with_capacity(SLICE);
        self.store.scan(keys::URLS, from, &mut |key, value| {
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
            let record = codec::decode(&*self.store, &key, &value)?;
            Ok((key, record))
        });
        Ok((records.collect::<Result<_, StoreError>>()?, next))
    }

    /// Commits the changes of one slice.
    pub(super) fn commit_slice(&mut self, change: Gathered, now: u64) -> Result<(), StoreError> {
        let booked = change.visit.is_some();
        self.commit_change(change, now)?;
        if booked {
            // Of several that were booked, only the last is told.
            self.next_visit = self.first_visit()?;
        }
        Ok(())
    }

    /// Drops what is queued and not leased, or waits; the record may be told by other
    /// words than the one that is stored, but for its place in the queue.
    pub(super) fn drop_pending(
        &self,
        change: &mut Change<'_>,
        key: &[u8],
        stored: &UrlRecord,
        record: UrlRecord,
        reason: Reason,
        now: u64,
    ) -> Result<(), StoreError> {
        match stored.state {
            State::Waiting { due } => leave_waiting(change, due, key)?,
            _ => {
                let (url, kind) = address_of(&*self.store, key)?;
                change.dequeue(kind, &url.host_key(), stored);
            }
        }
        self.visits.fail(change, key, record, reason, false, now)?;
        Ok(())
    }

    fn rescope(
        &self,
        change: &mut Change<'_>,
        key: &[u8],
        record: UrlRecord,
        done: &mut Rescoped,
        now: u64,
    ) -> Result<(), StoreError> {
        let pending = matches!(record.state, State::Queued | State::Waiting { .. });
        let kept_out = match record.state {
            State::Dropped { reason } if by_scope(reason) => Some(reason),
            _ => None,
        };
        if !pending && kept_out.is_none() {
            return Ok(());
        }
        let (url, kind) = address_of(&*self.store, key)?;
        let host = url.host_key();
        let verdict = judge(&self.scope, &url, kind, record.hops);
        match (&record.state, kept_out, verdict) {
            (State::Queued | State::Waiting { .. }, _, Err(reason))
                if !self.schedule.is_leased(&host, key) =>
            {
                done.dropped += 1;
                self.drop_pending(change, key, &record, record.clone(), reason, now)
            }
            (_, Some(before), Err(reason)) if before != reason => {
                change.drop_otherwise(key, record, before, reason)
            }
            (_, Some(before), Ok(())) if self.may_return(&url, kind, key, before)? => {
                done.revived += 1;
                change.rouse(key, kind, &host, record)
            }
            _ => Ok(()),
        }
    }

    /// Whether what the scope no longer keeps out is worth asking for.
    pub(super) fn may_return(
        &self,
        url: &PageUrl,
        kind: TaskKind,
        key: &[u8],
        before: Reason,
    ) -> Result<bool, StoreError> {
        if kind == TaskKind::Image {
            // Without the words around it an image is of no use. Where it was kept
            // out from the first they were not kept; when it is met again they are.
            return Ok(!contexts::keys_of(&*self.store, key)?.is_empty());
        }
        let host = url.host_key();
        let (given, budget) = match before {
            Reason::HostBudget => {
                let record = self.look_up_host(&host)?;
                let given = record.map_or(0, |record| record.documents);
                (given, self.scope.host_documents())
            }
            Reason::DomainBudget => {
                let given = traps::domain_documents(&*self.store, &host)?;
                (given, self.scope.domain_documents())
            }
            _ => return Ok(true),
        };
        Ok(budget.is_none_or(|budget| given < budget))
    }
}

/// The address that a `U` key stands for.
pub(super) fn address_of(store: &dyn Store, key: &[u8]) -> Result<(PageUrl, TaskKind), StoreError> {
    let why = || codec::corrupt(store, key, "names no address".to_owned());
    keys::url_of_key(key).ok_or_else(why)
}

/// Removes the entry of a waiting URL. Its rank may be better by now than the one it
/// was entered with, so it is looked for by its value.
pub(super) fn leave_waiting(
    change: &mut Change<'_>,
    due: u64,
    key: &[u8],
) -> Result<(), StoreError> {
    let mut entry = None;
    let store = change.store();
    store.scan(&keys::waiting_until(due), &[], &mut |waiting, value| {
        if value != key {
            return ControlFlow::Continue(());
        }
        entry = Some(waiting.to_vec());
        ControlFlow::Break(())
    })?;
    if let Some(entry) = entry {
        change.batch.delete(entry);
        let waiting = &mut change.meta.counts.waiting;
        *waiting = waiting.saturating_sub(1);
    }
    Ok(())
}

/// Notes that everything is to be judged anew where `scope` is not the one it was
/// judged by; says whether it is so.
pub(super) fn begin_where_changed(meta: &mut Meta, scope: &Scope) -> bool {
    let digest = scope.digest();
    if meta.scope == digest {
        return false;
    }
    meta.scope = digest;
    meta.rescope = Some(keys::URLS.to_vec());
    true
}

/// The scope's verdict on an address of either kind.
pub(super) fn judge(scope: &Scope, url: &PageUrl, kind: TaskKind, hops: u32) -> Result<(), Reason> {
    match kind {
        TaskKind::Image => scope.image(url),
        TaskKind::Sitemap => scope.sitemap(url),
        TaskKind::Page | TaskKind::Robots | TaskKind::Tdmrep => scope.page(url, hops),
    }
}

/// Whether other rules of the scope could lift this reason.
fn by_scope(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Scope | Reason::Hops | Reason::Trap | Reason::HostBudget | Reason::DomainBudget
    )
}
