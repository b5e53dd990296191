//! Judging anew: what a changed scope makes of everything that is known.
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

use super::change::Change;
use super::record::{Meta, State, UrlRecord};
use super::store::StoreError;
use super::{Frontier, codec, contexts, keys, traps};
use crate::address::PageUrl;
use crate::page::{Reason, TaskKind};
use crate::scope::Scope;

/// Records that are read in one slice: a few milliseconds.
const SLICE: usize = if cfg!(test) { 7 } else { 1_000 };

/// What judging anew came to.
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
    /// Sets other rules, from now on, and begins to judge anew what is stored by
    /// them; [`Frontier::rescope_slice`] goes on with it. False where the rules are
    /// the same as before.
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

    /// Whether something that is stored is still to be judged anew.
    pub fn is_rescoping(&self) -> bool {
        self.meta.rescope.is_some()
    }

    /// Judges the next addresses anew, a bounded number; says what all came to
    /// when it is at the end.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails; nothing of this slice is done then.
    pub fn rescope_slice(&mut self, now: u64) -> Result<Option<Rescoped>, StoreError> {
        let Some(from) = self.meta.rescope.clone() else {
            return Ok(None);
        };
        let mut found: Vec<(Vec<u8>, Vec<u8>)> = Vec::with_capacity(SLICE);
        self.store.scan(keys::URLS, &from, &mut |key, value| {
            found.push((key.to_vec(), value.to_vec()));
            match found.len() < SLICE {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
        let mut done = self.rescoped;
        let mut change = Change::new(&*self.store, &self.scope, &self.schedule, self.meta.clone());
        for (key, value) in &found {
            done.seen += 1;
            let record: UrlRecord = codec::decode(&*self.store, key, value)?;
            self.rescope(&mut change, key, record, &mut done, now)?;
        }
        let at_end = found.len() < SLICE;
        change.meta.rescope = match found.pop() {
            Some((mut last, _)) if !at_end => {
                last.push(0);
                Some(last)
            }
            _ => None,
        };
        let change = change.gathered();
        let booked = change.visit.is_some();
        self.commit_change(change, now)?;
        if booked {
            // Of several that were booked, only the last is told.
            self.next_visit = self.first_visit()?;
        }
        self.rescoped = done;
        Ok(at_end.then_some(done))
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
        let Some((url, kind)) = keys::url_of_key(key) else {
            let why = "names no address".to_owned();
            return Err(codec::corrupt(&*self.store, key, why));
        };
        let host = url.host_key();
        let verdict = judge(&self.scope, &url, kind, record.hops);
        match (&record.state, kept_out, verdict) {
            (State::Queued, _, Err(reason)) if !self.schedule.is_leased(&host, key) => {
                done.dropped += 1;
                change.dequeue(kind, &host, &record);
                self.visits.fail(change, key, record, reason, false, now)?;
                Ok(())
            }
            (State::Waiting { due }, _, Err(reason)) => {
                done.dropped += 1;
                leave_waiting(change, *due, key)?;
                self.visits.fail(change, key, record, reason, false, now)?;
                Ok(())
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
    fn may_return(
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
