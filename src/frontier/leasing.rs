//! Leasing: the choice of the next task, and the final checks before it is requested.

use std::net::IpAddr;
use std::time::Duration;

use super::codec;
use super::contexts;
use super::host_files::TermsRequest;
use super::image_ledger;
use super::intake::verdict;
use super::keys::{self, class};
use super::leases::{Errand, Lease};
use super::parts::Frontier;
use super::record::{GroupKey, Located, UrlRecord};
use super::schedule::{Head, Slot};
use super::store::StoreError;
use super::traps::{budgets, listing};
use crate::address::{HostKey, PageUrl};
use crate::clock::millis;
use crate::page::{Booking, Bucket, HostTerms, Reason, Task, TaskKind};

/// Most addresses dropped in one call of [`Frontier::lease`], so that a host full of
/// forbidden addresses does not delay the others.
const MAX_DROPS: usize = 200;

/// A lease that was granted.
pub(super) struct Granted {
    /// Its number.
    pub lease: u64,
    /// Whether it is only for a lookup of the host's address.
    pub locate: bool,
    pub booking: Booking,
}

/// The task at the head of a host.
pub(super) struct Candidate {
    pub slot: Slot,
    pub host: HostKey,
    pub head: Head,
    pub url: PageUrl,
    pub kind: TaskKind,
    pub record: UrlRecord,
    /// Whether the control sample has drawn it.
    pub control: bool,
}

impl Frontier {
    /// Leases the next task, if any may be requested now. Every lease must be returned by
    /// [`Frontier::finish`] or, for a file with a host's rules, by
    /// [`Frontier::finish_robots`] or [`Frontier::finish_terms_file`].
    ///
    /// While pages and images wait, images get their share of the leases.
    ///
    /// A learning crawl leases no page while one that is much more likely on topic will
    /// be available shortly
    /// ([`Learning::patience`](crate::topic::strategy::Learning::patience)).
    ///
    /// # Errors
    /// [`StoreError`] if the store fails; nothing is leased then.
    pub fn lease(&mut self, now: u64) -> Result<Option<Task>, StoreError> {
        self.lease_next(now, true)
    }

    /// The same without waiting for a better page: to test whether any host answers.
    ///
    /// # Errors
    /// As of [`Frontier::lease`].
    pub fn lease_any(&mut self, now: u64) -> Result<Option<Task>, StoreError> {
        self.lease_next(now, false)
    }

    fn lease_next(&mut self, now: u64, patient: bool) -> Result<Option<Task>, StoreError> {
        self.awake(now)?;
        self.flags.is_patient = false;
        self.flags.gave_way = false;
        for attempt in 0..MAX_DROPS {
            let one = self.leases.newcomers.room() > 0;
            self.schedule.let_in(one, now, self.policy.connections);
            // Learning may have lowered what was first here.
            self.flags.may_give_way = attempt > 0;
            let Some((slot, image)) = self.choose(patient, now) else {
                return Ok(None);
            };
            if let Some(task) = self.lease_from(slot, image, now)? {
                return Ok(Some(task));
            }
        }
        Ok(None)
    }

    /// Applies everything that affects leasing up to `now`.
    pub(super) fn awake(&mut self, now: u64) -> Result<(), StoreError> {
        self.process.latest = self.process.latest.max(now);
        self.ledger.warm()?;
        self.wake(now)?;
        self.schedule.wake(now, self.policy.connections);
        self.leases.newcomers.look(now);
        Ok(())
    }

    fn lease_from(
        &mut self,
        slot: Slot,
        image: bool,
        now: u64,
    ) -> Result<Option<Task>, StoreError> {
        let host = self.schedule.host(slot);
        let first = host.and_then(|host| {
            let head = if image { &host.image } else { &host.head };
            Some((head.clone()?, host.key.clone()))
        });
        let Some((head, host)) = first else {
            self.schedule.settle(slot, now, self.policy.connections);
            return Ok(None);
        };
        if head.class == class::ROBOTS {
            return self.lease_robots_errand(slot, &host, &head, now);
        }
        let first = self.candidate(slot, host, head)?;
        if let Some(reason) = self.unwanted(&first)? {
            self.drop_queued(first, reason, now)?;
            return Ok(None);
        }
        if !first.control && self.lower(&first, now)? {
            return Ok(None);
        }
        let (host, head) = (&first.host, &first.head);
        let scheme = keys::scheme_of_key(&head.value);
        if !self.rules_hold(slot, scheme, now) {
            return self.lease_robots(slot, host, head, scheme, now);
        }
        if let Some(reason) = self.obstacle(&first)? {
            self.drop_queued(first, reason, now)?;
            return Ok(None);
        }
        if let Some(task) = self.lease_terms_file(slot, host, head, first.kind, now)? {
            return Ok(Some(task));
        }
        let (terms, forbidden) = self.terms_of(slot, host, &first.url, first.kind, now)?;
        if forbidden {
            self.drop_queued(first, Reason::Forbidden, now)?;
            return Ok(None);
        }
        self.lease_url(first, terms, now).map(Some)
    }

    /// The task at the head of a host, with its stored record.
    fn candidate(&self, slot: Slot, host: HostKey, head: Head) -> Result<Candidate, StoreError> {
        let store = self.ledger.store();
        let (url, kind) = codec::address_of(store, &head.value)?;
        let Some(record) = self.ledger.read::<UrlRecord>(&head.value)? else {
            let why = "names an address that has no record".to_owned();
            return Err(codec::corrupt(store, &head.queue_key, why));
        };
        let control = kind == TaskKind::Page && self.ledger.meta().sample.is_pending(&url);
        Ok(Candidate {
            slot,
            host,
            head,
            url,
            kind,
            record,
            control,
        })
    }

    /// Why the job no longer wants it: the scope or the razor may have changed since it was queued.
    /// Checked before robots.txt is requested, so that a host without any wanted page is not
    /// contacted at all.
    fn unwanted(&self, first: &Candidate) -> Result<Option<Reason>, StoreError> {
        let Candidate {
            head, kind, record, ..
        } = first;
        if let Err(reason) = verdict(&self.scope, &first.url, *kind, record.hops) {
            return Ok(Some(reason));
        }
        let store = self.ledger.store();
        let above = !first.control
            && self
                .ratings
                .is_above_razor(store, &head.value, *kind, record)?;
        Ok(above.then_some(Reason::Razor))
    }

    pub(super) fn lease_url(
        &mut self,
        first: Candidate,
        terms: HostTerms,
        now: u64,
    ) -> Result<Task, StoreError> {
        let Candidate {
            slot,
            host,
            head,
            url,
            kind,
            record,
            control,
        } = first;
        // Log rows never name a URL that was taken down.
        let named = |via: &PageUrl| self.scope.taken_down(via, TaskKind::Page).is_none();
        let via = self.document(record.via)?.filter(named);
        let validators = record.visit.map(|v| v.validators).unwrap_or_default();
        let key = head.value.clone();
        let Granted {
            lease,
            locate,
            booking,
        } = self.grant(slot, head.value, Errand::Url { key }, now)?;
        Ok(Task {
            lease,
            locate,
            kind,
            host,
            via,
            url,
            hops: record.hops,
            redirects: record.redirects,
            attempts: record.attempts,
            bucket: record.bucket,
            score: record.score,
            parts: record.parts,
            validators,
            terms,
            control,
            booking,
        })
    }

    /// Books a lease and sets the clocks of the host and of its groups for the
    /// next one.
    pub(super) fn grant(
        &mut self,
        slot: Slot,
        value: Vec<u8>,
        errand: Errand,
        now: u64,
    ) -> Result<Granted, StoreError> {
        let lease = Lease::new(slot, value, errand);
        let mut locate = false;
        let mut newcomer = false;
        if let Some(host) = self.schedule.host_mut(slot) {
            host.leased.push(lease.value.clone());
            if let Errand::Robots { scheme } | Errand::Terms(TermsRequest { scheme, .. }) =
                &lease.errand
            {
                host.asking = Some(scheme);
            }
            newcomer = host.is_newcomer();
            host.asked = now;
            locate = self.policy.must_locate(&host.record, now);
            // A DNS lookup is not a request to the host.
            if !locate {
                host.paced = now.saturating_add(self.policy.delay(&host.record));
            }
        }
        if !locate {
            self.schedule.occupy(slot, now);
        }
        if matches!(lease.errand, Errand::Url { .. }) {
            self.book_at_host(slot, lease.is_image());
        }
        let lease = self.leases.open(lease, newcomer, now);
        let booking = self.booking(slot);
        self.refresh(slot, now)?;
        Ok(Granted {
            lease,
            locate,
            booking,
        })
    }

    /// Books a request at its host if both pages and images of that host wait.
    fn book_at_host(&mut self, slot: Slot, is_image: bool) {
        let share = self.policy.image_share;
        if let Some(host) = self.schedule.host_mut(slot)
            && host.head.is_some()
            && host.image.is_some()
        {
            host.image_owed = image_ledger::booked(host.image_owed, share, is_image);
        }
    }

    /// The address for a request to a host, and the clocks that it shares with other
    /// hosts.
    fn booking(&self, slot: Slot) -> Booking {
        let Some(host) = self.schedule.host(slot) else {
            return Booking::default();
        };
        let groups = self.schedule.groups_of(slot);
        let of_group = |(key, _): &(GroupKey, _)| (key.to_string(), self.policy.group_delay(key));
        let mut clocks: Vec<(String, u64)> = groups.iter().map(of_group).collect();
        let is_address = |(key, _): &&(GroupKey, _)| matches!(key, GroupKey::Address(_));
        let address = groups.iter().find(is_address);
        let address_delay = address.map_or(0, |(key, _)| self.policy.group_delay(key));
        if self.policy.connections > 1 {
            // With one request at a time the previous one has been answered.
            let delay = self.policy.delay(&host.record);
            clocks.push((format!("host {}", host.key), delay));
        }
        let in_time = |(name, ms)| (name, Duration::from_millis(ms));
        Booking {
            address: host.record.located.as_ref().and_then(|l| l.address),
            elsewhere: host.record.failures > 0,
            clocks: clocks.into_iter().map(in_time).collect(),
            address_delay: Duration::from_millis(address_delay),
            least_time: self.policy.least_time(&host.record),
        }
    }

    /// A leased request waited this long for its clocks before it was sent. The clocks allow no
    /// more requests than are open, so no more are leased for that long.
    pub fn waited(&mut self, task: &Task, wait: Duration, now: u64) {
        let Some(slot) = self.leases.of(task).map(|lease| lease.slot) else {
            return;
        };
        let wait = millis(wait).min(self.policy.longest_group_pause());
        self.schedule.put_off(slot, now.saturating_add(wait), now);
    }

    /// Finishes a lease for the host's address: `None` if it has no address of its own. No request
    /// was sent to the host, so its clock does not change, and the leased task is queued as before.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn located(
        &mut self,
        task: &Task,
        address: Option<IpAddr>,
        now: u64,
    ) -> Result<(), StoreError> {
        let Some(lease) = self.leases.of(task).cloned() else {
            return Err(self.unknown_lease(task));
        };
        let mut record = self.record_of(lease.slot);
        let before = record.located.as_ref().and_then(|l| l.address);
        if before != address {
            // Earlier answers came from another address and prove nothing about this one.
            self.schedule.prove(lease.slot, false);
        }
        record.located = Some(Located { address, at: now });
        // Written at once: after a crash an older address would be used.
        self.commit_host(&task.host, &record)?;
        self.release(task.lease, &lease, record, now)?;
        self.join_groups(lease.slot, now)
    }

    /// Why a queued address is not requested after all, checked at the last moment.
    pub(super) fn obstacle(&mut self, first: &Candidate) -> Result<Option<Reason>, StoreError> {
        let Candidate {
            slot,
            url,
            kind,
            record,
            ..
        } = first;
        let (slot, kind) = (*slot, *kind);
        let scheme = keys::scheme_name(url.scheme());
        if !self.rules_of(slot, scheme)?.allows(url) {
            return Ok(Some(Reason::Robots));
        }
        if kind == TaskKind::Sitemap && listing::is_spent(self.ledger.store(), &url.host_key())? {
            return Ok(Some(Reason::ListBudget));
        }
        // Budgets count pages, and a page that was fetched before was counted then.
        let counted = kind == TaskKind::Page && !record.was_fetched();
        let Some(host) = self.schedule.host(slot).filter(|_| counted) else {
            return Ok(None);
        };
        let spent = |budget: Option<u64>, documents: u64| budget.is_some_and(|b| documents >= b);
        if spent(self.scope.host_documents(), host.record.documents) {
            return Ok(Some(Reason::HostBudget));
        }
        if let Some(budget) = self.scope.domain_documents()
            && budgets::domain_documents(self.ledger.store(), &host.key)? >= budget
        {
            return Ok(Some(Reason::DomainBudget));
        }
        if host.record.barren > 0
            && record.bucket != Bucket::Seed
            && budgets::budget(self.ledger.store(), url)?.left == 0
        {
            return Ok(Some(Reason::PrefixBudget));
        }
        Ok(None)
    }

    pub(super) fn drop_queued(
        &mut self,
        first: Candidate,
        reason: Reason,
        now: u64,
    ) -> Result<(), StoreError> {
        let Candidate {
            host,
            head,
            kind,
            record,
            ..
        } = first;
        let mut tx = self.ledger.begin();
        tx.dequeue(kind, &host, &record);
        // The rules may be lifted again, so a known page is kept.
        let passing = reason == Reason::Robots;
        self.visits
            .fail(&mut tx, &head.value, record, reason, passing, now)?;
        // Other rules may bring an image back, which then needs its words.
        if kind == TaskKind::Image && !matches!(reason, Reason::Scope | Reason::Razor) {
            contexts::forget(&mut tx, &head.value)?;
        }
        let prepared = tx.prepare();
        self.commit(prepared, now)
    }

    /// Whether the score of the task at a host's head has become worse than its place
    /// through learning; if so, the task moves to its new place.
    fn lower(&mut self, first: &Candidate, now: u64) -> Result<bool, StoreError> {
        let Candidate {
            host, kind, record, ..
        } = first;
        let key = &first.head.value;
        let store = self.ledger.store();
        let lowered = self.ratings.lowered(store, key, *kind, record)?;
        let Some(lowered) = lowered else {
            return Ok(false);
        };
        let mut tx = self.ledger.begin();
        tx.move_in_queue(key, *kind, host, record, &lowered)?;
        let prepared = tx.prepare();
        self.commit(prepared, now)?;
        Ok(true)
    }

    fn document(&self, id: Option<u64>) -> Result<Option<PageUrl>, StoreError> {
        let Some(id) = id else { return Ok(None) };
        let bytes = self.ledger.store().get(&keys::document(id))?;
        Ok(bytes
            .and_then(|b| String::from_utf8(b).ok())
            .and_then(|text| PageUrl::parse(&text).ok()))
    }
}
