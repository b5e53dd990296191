//! Leasing: the choice of what is asked next, and the last look before it is.

use std::ops::ControlFlow;

use super::change::Change;
use super::keys::{self, class};
use super::schedule::{Head, Slot};
use super::store::StoreError;
use super::{Errand, Frontier, Lease, State, UrlRecord, codec, traps};
use crate::address::PageUrl;
use crate::page::{Bucket, Reason, Task, TaskKind};

/// Addresses dropped in one call of [`Frontier::lease`] at most, so that a host
/// full of forbidden addresses does not hold up the others.
const MAX_DROPS: usize = 200;

impl Frontier {
    /// Leases the next task, if any may be asked for now. Every lease must be
    /// answered by [`Frontier::finish`] or, for a robots.txt, by
    /// [`Frontier::finish_robots`].
    ///
    /// # Errors
    /// [`StoreError`] where the store fails; nothing is leased then.
    pub fn lease(&mut self, now: u64) -> Result<Option<Task>, StoreError> {
        self.wake_waiting(now)?;
        for slot in self.schedule.due_by(now) {
            self.schedule.settle(slot, now, self.policy.connections);
        }
        for _ in 0..MAX_DROPS {
            let Some(slot) = self.schedule.best() else {
                return Ok(None);
            };
            if let Some(task) = self.lease_from(slot, now)? {
                return Ok(Some(task));
            }
        }
        Ok(None)
    }

    /// When [`Frontier::lease`] may have something to give again, if nothing is
    /// finished before. `None` where only finishing, or a parked host's return,
    /// can bring more.
    pub fn next_event(&self) -> Option<u64> {
        if self.schedule.ready() > 0 {
            return Some(0);
        }
        match (self.schedule.next_due(), self.next_waiting) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// True where nothing is leased and nothing will be due but what is parked.
    pub fn is_exhausted(&self) -> bool {
        self.leases.is_empty() && self.next_event().is_none()
    }

    /// From now on only images and robots.txt are leased: the budget of pages is
    /// spent. Queued pages stay queued.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn close_pages(&mut self, now: u64) -> Result<(), StoreError> {
        if !self.pages_closed {
            self.pages_closed = true;
            for slot in self.schedule.slots() {
                self.refresh(slot, now)?;
            }
        }
        Ok(())
    }

    fn lease_from(&mut self, slot: Slot, now: u64) -> Result<Option<Task>, StoreError> {
        let Some((head, key)) = self
            .schedule
            .host(slot)
            .and_then(|h| Some((h.head.clone()?, h.key.clone())))
        else {
            self.schedule.settle(slot, now, self.policy.connections);
            return Ok(None);
        };
        if head.class == class::ROBOTS {
            return self.lease_robots_errand(slot, &key, &head, now);
        }
        let scheme = keys::scheme_of_key(&head.value);
        if !self.rules_hold(slot, scheme, now) {
            return self.lease_robots(slot, &key, &head, scheme, now);
        }
        let Some((url, kind)) = keys::url_of_key(&head.value) else {
            let why = "names no address".to_owned();
            return Err(codec::corrupt(&*self.store, &head.queue_key, why));
        };
        let bytes = self.store.get(&head.value)?;
        let Some(record) = codec::read::<UrlRecord>(&*self.store, &head.value, bytes)? else {
            let why = "names an address that has no record".to_owned();
            return Err(codec::corrupt(&*self.store, &head.queue_key, why));
        };
        if let Some(reason) = self.obstacle(slot, &url, kind, scheme, record.bucket)? {
            self.drop_queued(slot, &head, kind, record, reason, now)?;
            return Ok(None);
        }
        let via = self.document(record.via)?;
        let errand = Errand::Url {
            key: head.value.clone(),
        };
        let lease = self.grant(slot, head.value, errand, now)?;
        Ok(Some(Task {
            lease,
            kind,
            host: key,
            via,
            url,
            hops: record.hops,
            redirects: record.redirects,
            attempts: record.attempts,
            bucket: record.bucket,
            score: record.score,
            parts: record.parts,
        }))
    }

    /// Books a lease and sets the host's clock for the next one.
    pub(super) fn grant(
        &mut self,
        slot: Slot,
        value: Vec<u8>,
        errand: Errand,
        now: u64,
    ) -> Result<u64, StoreError> {
        self.last_lease += 1;
        if let Some(host) = self.schedule.host_mut(slot) {
            host.leased.push(value.clone());
            if let Errand::Robots { scheme } = &errand {
                host.asking = Some(scheme);
            }
            host.record.due = now.saturating_add(self.policy.delay(&host.record));
        }
        let lease = Lease {
            slot,
            value,
            errand,
        };
        self.leases.insert(self.last_lease, lease);
        self.refresh(slot, now)?;
        Ok(self.last_lease)
    }

    /// Why a queued address is not asked for after all, judged at the last moment.
    fn obstacle(
        &mut self,
        slot: Slot,
        url: &PageUrl,
        kind: TaskKind,
        scheme: &'static str,
        bucket: Bucket,
    ) -> Result<Option<Reason>, StoreError> {
        if !self.rules_of(slot, scheme)?.allows(url) {
            return Ok(Some(Reason::Robots));
        }
        let Some(host) = self.schedule.host(slot).filter(|_| kind == TaskKind::Page) else {
            return Ok(None);
        };
        let spent = |budget: Option<u64>, documents: u64| budget.is_some_and(|b| documents >= b);
        if spent(self.scope.host_documents(), host.record.documents) {
            return Ok(Some(Reason::HostBudget));
        }
        if let Some(budget) = self.scope.domain_documents()
            && traps::domain_documents(&*self.store, &host.key)? >= budget
        {
            return Ok(Some(Reason::DomainBudget));
        }
        if host.record.barren > 0
            && bucket != Bucket::Seed
            && traps::budget(&*self.store, url)?.left == 0
        {
            return Ok(Some(Reason::PrefixBudget));
        }
        Ok(None)
    }

    fn drop_queued(
        &mut self,
        slot: Slot,
        head: &Head,
        kind: TaskKind,
        record: UrlRecord,
        reason: Reason,
        now: u64,
    ) -> Result<(), StoreError> {
        let Some(host) = self.schedule.host(slot).map(|h| h.key.clone()) else {
            return Ok(());
        };
        let mut change = Change::new(&*self.store, &self.scope, &self.schedule, self.meta.clone());
        change.dequeue(kind, &host, &record);
        change.drop_record(&head.value, record, reason)?;
        if kind == TaskKind::Image {
            change.forget_contexts(&head.value)?;
        }
        let Change { batch, meta, .. } = change;
        self.commit(batch, meta)?;
        self.refresh(slot, now)
    }

    fn document(&self, id: Option<u64>) -> Result<Option<PageUrl>, StoreError> {
        let Some(id) = id else { return Ok(None) };
        let bytes = self.store.get(&keys::document(id))?;
        Ok(bytes
            .and_then(|b| String::from_utf8(b).ok())
            .and_then(|text| PageUrl::parse(&text).ok()))
    }

    pub(super) fn first_waiting(&self) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        let mut found = None;
        self.store.scan(keys::WAITING, &[], &mut |key, _| {
            found = keys::due_of_waiting_key(key).map(|due| (due, key.to_vec()));
            ControlFlow::Break(())
        })?;
        Ok(found)
    }

    /// Queues the waiting URLs whose time has come.
    fn wake_waiting(&mut self, now: u64) -> Result<(), StoreError> {
        while self.next_waiting.is_some_and(|due| due <= now) {
            let Some((due, waiting_key)) = self.first_waiting()? else {
                self.next_waiting = None;
                return Ok(());
            };
            self.next_waiting = Some(due);
            if due > now {
                return Ok(());
            }
            let mut change =
                Change::new(&*self.store, &self.scope, &self.schedule, self.meta.clone());
            let key = change.get(&waiting_key)?;
            change.batch.delete(waiting_key);
            if let Some(key) = key {
                change.meta.counts.waiting = change.meta.counts.waiting.saturating_sub(1);
                if let (Some(record), Some((url, kind))) =
                    (change.record(&key)?, keys::url_of_key(&key))
                {
                    let record = UrlRecord {
                        state: State::Queued,
                        ..record
                    };
                    change.enqueue(&key, kind, &url.host_key(), &record)?;
                }
            }
            let Change {
                batch,
                meta,
                touched,
                ..
            } = change;
            self.commit(batch, meta)?;
            self.refresh_hosts(touched, now)?;
            self.next_waiting = self.first_waiting()?.map(|(due, _)| due);
        }
        Ok(())
    }
}
