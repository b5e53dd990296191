//! Leasing: the choice of what is asked next, and the last look before it is.

use std::net::IpAddr;
use std::ops::ControlFlow;
use std::time::Duration;

use super::change::Change;
use super::finish::unknown_lease;
use super::groups::{Booked, GroupKey, GroupRecord, News};
use super::keys::{self, class};
use super::record::Located;
use super::schedule::{Head, Host, Slot};
use super::store::{Batch, StoreError};
use super::{Errand, Frontier, Lease, State, UrlRecord, codec, ledger, listing, rescope, traps};
use crate::address::{HostKey, PageUrl};
use crate::clock::millis;
use crate::page::{Booking, Bucket, Reason, Task, TaskKind};

/// Addresses dropped in one call of [`Frontier::lease`] at most, so that a host
/// full of forbidden addresses does not hold up the others.
const MAX_DROPS: usize = 200;

/// Keys read ahead with every lease after a restart: a fraction of a millisecond.
const WARM_KEYS: usize = 1_000;

/// A lease that was granted.
pub(super) struct Granted {
    /// Its number.
    pub lease: u64,
    /// Whether it is only for the host's address.
    pub locate: bool,
    pub booking: Booking,
}

impl Frontier {
    /// Leases the next task, if any may be asked for now. Every lease must be
    /// answered by [`Frontier::finish`] or, for the files that speak for a host, by
    /// [`Frontier::finish_robots`] and [`Frontier::finish_tdmrep`].
    ///
    /// While pages and images wait, images have their share of the leases.
    ///
    /// A learning crawl leases no page while one is to be had in a moment that is much
    /// more likely on topic ([`Learning::patience`](crate::topic::strategy::Learning::patience)).
    ///
    /// # Errors
    /// [`StoreError`] where the store fails; nothing is leased then.
    pub fn lease(&mut self, now: u64) -> Result<Option<Task>, StoreError> {
        self.lease_next(now, true)
    }

    /// The same, whatever is to be had in a moment: to see whether anybody answers.
    ///
    /// # Errors
    /// As of [`Frontier::lease`].
    pub fn lease_any(&mut self, now: u64) -> Result<Option<Task>, StoreError> {
        self.lease_next(now, false)
    }

    /// Whether [`Frontier::lease`] gave nothing last though something may be asked for,
    /// because something better is to be had in a moment.
    pub fn is_patient(&self) -> bool {
        self.is_patient
    }

    /// Whether a host that has given nothing yet could be asked, were not enough of these
    /// asked already.
    pub fn keeps_back(&self) -> bool {
        self.schedule.keeps_back()
    }

    fn lease_next(&mut self, now: u64, patient: bool) -> Result<Option<Task>, StoreError> {
        self.latest = self.latest.max(now);
        self.store.warm(WARM_KEYS)?;
        self.wake_waiting(now)?;
        self.recheck(now)?;
        self.wake_visits(now)?;
        self.draw_control(now)?;
        self.schedule.wake(now, self.policy.connections);
        self.is_patient = false;
        self.newcomers.look(now);
        for _ in 0..MAX_DROPS {
            let one = self.newcomers.room() > 0;
            self.schedule.let_in(one, now, self.policy.connections);
            let Some((slot, image)) = self.choose(patient, now) else {
                return Ok(None);
            };
            if let Some(task) = self.lease_from(slot, image, now)? {
                return Ok(Some(task));
            }
        }
        Ok(None)
    }

    /// The host to ask next, and whether it is to be asked for an image.
    fn choose(&mut self, patient: bool, now: u64) -> Option<(Slot, bool)> {
        let connections = self.policy.connections;
        let share = self.policy.image_share;
        let is_due = |owed| ledger::is_due(owed, share);
        if self.pages_held {
            let slot = self.schedule.best_image(false, is_due, now, connections)?;
            return Some((slot, true));
        }
        if self.is_image_turn()
            && let Some(slot) = self.schedule.best_image(true, is_due, now, connections)
        {
            return Some((slot, true));
        }
        let drawn = self.explores();
        if let Some(slot) = drawn.and_then(|number| self.schedule.any_ready(number, now)) {
            return Some((slot, false));
        }
        let page = self.schedule.best(now, connections);
        if let Some(slot) = page.filter(|slot| !patient || self.is_worth_it(*slot, now)) {
            return Some((slot, false));
        }
        // While no page is to be asked for, an image may be.
        if let Some(slot) = self.schedule.best_image(false, is_due, now, connections) {
            return Some((slot, true));
        }
        self.is_patient = page.is_some();
        None
    }

    /// When [`Frontier::lease`] may have something to give again, if nothing is
    /// finished before. `None` where only finishing, or the return of a parked
    /// host that is not waited for, can bring more.
    pub fn next_event(&self) -> Option<u64> {
        let rejudging = self.rechecking || self.is_rescoping() || self.is_rescoring();
        let images = self.schedule.is_ready_for_images();
        let is_ready = images || (!self.pages_held && self.schedule.is_ready());
        let newcomer = self.schedule.keeps_back() && self.newcomers.room() > 0;
        if rejudging || newcomer || (is_ready && !self.is_patient) {
            return Some(0);
        }
        let (mut visit, mut parked) = (self.next_visit, self.schedule.next_parked());
        // Once the budget of pages is spent no visit is made, and none waited for.
        if self.pages_closed {
            visit = None;
        }
        // A crawl that watches pages outlives the downtime of their hosts.
        if self.pages_closed || !self.visits.are_made() {
            parked = None;
        }
        let events = [self.schedule.next_due(), self.next_waiting, visit, parked];
        // Those that were waited for may be gone meanwhile.
        let otherwise = is_ready.then_some(0).filter(|_| self.leases.is_empty());
        events.into_iter().flatten().min().or(otherwise)
    }

    /// True where nothing is leased and nothing will be due but what is parked. A
    /// frontier whose pages are visited again waits for both, and is exhausted
    /// only where no page is left to visit.
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

    /// Whether only images are fetched any more, as the budget of pages is spent.
    pub fn pages_are_closed(&self) -> bool {
        self.pages_closed
    }

    /// While this is set only images and robots.txt are leased, as what is open may be all
    /// that the budget of pages permits.
    pub fn hold_pages(&mut self, held: bool) {
        self.pages_held = held;
    }

    /// Takes [`Frontier::close_pages`] back.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn open_pages(&mut self, now: u64) -> Result<(), StoreError> {
        if self.pages_closed {
            self.pages_closed = false;
            // Hosts of which only pages are left were forgotten.
            self.load_hosts(now)?;
        }
        Ok(())
    }

    /// Whether the page that a host is to be asked for is not much less likely on topic
    /// than the best one whose host only rests for a moment.
    fn is_worth_it(&self, slot: Slot, now: u64) -> bool {
        let learning = self.rating.as_ref().and_then(|rating| rating.learning());
        let host = self.schedule.host(slot);
        let head = host.and_then(|h| h.head.as_ref());
        let (Some(learning), Some(head)) = (learning, head) else {
            return true;
        };
        if head.class != class::PAGE || head.rank.bucket == Bucket::Seed {
            return true;
        }
        let Some(resting) = self.schedule.best_resting(now) else {
            return true;
        };
        let worth = learning.patience() * learning.chance(resting.score());
        learning.chance(head.rank.score()) >= worth
    }

    fn lease_from(
        &mut self,
        slot: Slot,
        image: bool,
        now: u64,
    ) -> Result<Option<Task>, StoreError> {
        let of = |host: &Host| {
            if image {
                host.image.clone()
            } else {
                host.head.clone()
            }
        };
        let Some((head, key)) = self
            .schedule
            .host(slot)
            .and_then(|h| Some((of(h)?, h.key.clone())))
        else {
            self.schedule.settle(slot, now, self.policy.connections);
            return Ok(None);
        };
        if head.class == class::ROBOTS {
            return self.lease_robots_errand(slot, &key, &head, now);
        }
        let scheme = keys::scheme_of_key(&head.value);
        let Some((url, kind)) = keys::url_of_key(&head.value) else {
            let why = "names no address".to_owned();
            return Err(codec::corrupt(&*self.store, &head.queue_key, why));
        };
        let bytes = self.store.get(&head.value)?;
        let Some(record) = codec::read::<UrlRecord>(&*self.store, &head.value, bytes)? else {
            let why = "names an address that has no record".to_owned();
            return Err(codec::corrupt(&*self.store, &head.queue_key, why));
        };
        // The scope may have changed since it was queued; a host of which nothing is
        // wanted any more is not asked for its rules either.
        if let Err(reason) = rescope::judge(&self.scope, &url, kind, record.hops) {
            self.drop_queued(slot, &head, kind, record, reason, now)?;
            return Ok(None);
        }
        let control = kind == TaskKind::Page && self.meta.sample.is_pending(&url);
        if !control && self.is_above_razor(&head.value, kind, &record)? {
            self.drop_queued(slot, &head, kind, record, Reason::Razor, now)?;
            return Ok(None);
        }
        if !control && self.lower(&head, &key, kind, &record, now)? {
            return Ok(None);
        }
        if !self.rules_hold(slot, scheme, now) {
            return self.lease_robots(slot, &key, &head, scheme, now);
        }
        if let Some(reason) = self.obstacle(slot, &url, kind, &record)? {
            self.drop_queued(slot, &head, kind, record, reason, now)?;
            return Ok(None);
        }
        if let Some(task) = self.lease_tdmrep(slot, &key, &head, kind, now)? {
            return Ok(Some(task));
        }
        let (terms, forbidden) = self.terms_of(slot, &key, &url, kind)?;
        if forbidden {
            self.drop_queued(slot, &head, kind, record, Reason::Forbidden, now)?;
            return Ok(None);
        }
        // What was taken down is named in no row of the log.
        let named = |via: &PageUrl| self.scope.taken_down(via, TaskKind::Page).is_none();
        let via = self.document(record.via)?.filter(named);
        let validators = record.visit.map(|v| v.validators).unwrap_or_default();
        let errand = Errand::Url {
            key: head.value.clone(),
        };
        let Granted {
            lease,
            locate,
            booking,
        } = self.grant(slot, head.value, errand, now)?;
        Ok(Some(Task {
            lease,
            locate,
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
            validators,
            terms,
            control,
            booking,
        }))
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
        self.last_lease += 1;
        let mut locate = false;
        if let Some(host) = self.schedule.host_mut(slot) {
            host.leased.push(value.clone());
            if let Errand::Robots { scheme } | Errand::Tdmrep { scheme, .. } = &errand {
                host.asking = Some(scheme);
            }
            if host.is_newcomer() {
                self.newcomers.asked(self.last_lease, now);
            }
            host.asked = now;
            locate = self.policy.must_locate(&host.record, now);
            // To look up a name asks nothing of the host.
            if !locate {
                host.paced = now.saturating_add(self.policy.delay(&host.record));
            }
        }
        if !locate {
            self.schedule.occupy(slot, now);
        }
        let lease = Lease {
            slot,
            value,
            errand,
            number: None,
            beyond: 0,
        };
        if matches!(lease.errand, Errand::Url { .. }) {
            self.book_at_host(slot, lease.is_image());
        }
        self.open_images += usize::from(lease.is_image());
        self.leases.insert(self.last_lease, lease);
        let booking = self.booking(slot);
        self.refresh(slot, now)?;
        Ok(Granted {
            lease: self.last_lease,
            locate,
            booking,
        })
    }

    /// Where a request to a host may go, and the clocks that it shares with others.
    fn booking(&self, slot: Slot) -> Booking {
        let Some(host) = self.schedule.host(slot) else {
            return Booking::default();
        };
        let groups = self.schedule.groups_of(slot);
        let of_group = |(key, _): &(GroupKey, _)| (key.to_string(), self.policy.group_delay(key));
        let mut clocks: Vec<(String, u64)> = groups.iter().map(of_group).collect();
        if self.policy.connections > 1 {
            // With one request at a time the one before has been answered.
            let delay = self.policy.delay(&host.record);
            clocks.push((format!("host {}", host.key), delay));
        }
        let in_time = |(name, ms)| (name, Duration::from_millis(ms));
        Booking {
            address: host.record.located.as_ref().and_then(|l| l.address),
            elsewhere: host.record.failures > 0,
            clocks: clocks.into_iter().map(in_time).collect(),
            patience: self.policy.patience(&host.record),
        }
    }

    /// A leased request has waited for so long at its clocks before it was sent: as many
    /// are under way as the clocks let go, so no more are leased for that long.
    pub fn waited(&mut self, task: &Task, wait: Duration, now: u64) {
        let Some(slot) = self.leases.get(&task.lease).map(|lease| lease.slot) else {
            return;
        };
        let wait = millis(wait).min(self.policy.longest_group_pause());
        self.schedule.put_off(slot, now.saturating_add(wait));
    }

    /// Takes back a lease that was for the host's address: `None` where it has
    /// none of its own. Nothing was asked of the host, so its clock is left alone,
    /// and what was leased is queued as before.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn located(
        &mut self,
        task: &Task,
        address: Option<IpAddr>,
        now: u64,
    ) -> Result<(), StoreError> {
        let Some(lease) = self.leases.get(&task.lease).cloned() else {
            return Err(unknown_lease(self, task));
        };
        let mut record = self.record_of(lease.slot);
        let before = record.located.as_ref().and_then(|l| l.address);
        if before != address {
            // What it has answered elsewhere says nothing about this address.
            self.schedule.prove(lease.slot, false);
        }
        record.located = Some(Located { address, at: now });
        // At once: after a crash an older address would be taken for this one.
        let mut change = Change::new(&*self.store, &self.scope, &self.schedule, self.meta.clone());
        change.put_host(&task.host, &record)?;
        let Change { batch, meta, .. } = change;
        self.commit(batch, meta)?;
        self.release(task.lease, lease.slot, &lease.value, record, now)?;
        self.join_groups(lease.slot, now)
    }

    /// Puts a host into the groups that its record and name say.
    pub(super) fn join_groups(&mut self, slot: Slot, now: u64) -> Result<(), StoreError> {
        let Some(host) = self.schedule.host(slot) else {
            return Ok(());
        };
        let groups = self.policy.groups_of(&host.key, &host.record);
        let known = self.schedule.groups_of(slot);
        if groups.iter().eq(known.iter().map(|(key, _)| key)) {
            return Ok(());
        }
        let mut unsound = Vec::new();
        let told = now.max(self.latest);
        let Self {
            schedule,
            store,
            policy,
            opened,
            ..
        } = self;
        let record = |group: &GroupKey| {
            let key = keys::group(group);
            let stored: Option<GroupRecord> = codec::read(&**store, &key, store.get(&key)?)?;
            let mut record = stored.unwrap_or_default();
            if !policy.is_sound(&record, told) {
                unsound.push(key);
                record = GroupRecord::default();
            }
            let least = policy.group_delay(group);
            record.delay = record.delay.min(policy.max_delay).max(least);
            // Somebody may have been asked just before this process began.
            record.due = record.due.max(opened.saturating_add(record.delay));
            Ok(record)
        };
        schedule.join(slot, groups, record, now, policy.connections)?;
        if unsound.is_empty() {
            return Ok(());
        }
        let mut batch = Batch::default();
        unsound.into_iter().for_each(|key| batch.delete(key));
        self.commit(batch, self.meta.clone())
    }

    /// What an answer makes of the clocks of a host's groups; those that back off are
    /// written, as they must survive a restart.
    pub(super) fn book_groups(
        &self,
        change: &mut Change<'_>,
        slot: Slot,
        host: &HostKey,
        news: News,
        now: u64,
    ) -> Result<Vec<Booked>, StoreError> {
        let (groups, proven) = self.schedule.shared(slot);
        let mut all = Vec::with_capacity(groups.len());
        for (key, group) in groups {
            let booked = self.policy.book(key, group, (host, proven), news, now);
            match (booked.record.failures > 0, group.record.failures > 0) {
                (true, _) => {
                    let bytes = codec::encode(&*self.store, &booked.record)?;
                    change.batch.put(keys::group(key), bytes);
                }
                (false, true) => change.batch.delete(keys::group(key)),
                (false, false) => {}
            }
            all.push(booked);
        }
        Ok(all)
    }

    /// Why a queued address is not asked for after all, judged at the last moment.
    fn obstacle(
        &mut self,
        slot: Slot,
        url: &PageUrl,
        kind: TaskKind,
        record: &UrlRecord,
    ) -> Result<Option<Reason>, StoreError> {
        let scheme = keys::scheme_name(url.scheme());
        if !self.rules_of(slot, scheme)?.allows(url) {
            return Ok(Some(Reason::Robots));
        }
        if kind == TaskKind::Sitemap && listing::is_spent(&*self.store, &url.host_key())? {
            return Ok(Some(Reason::ListBudget));
        }
        // Budgets count pages, and one that was had before was counted then.
        let counted = kind == TaskKind::Page && !record.was_fetched();
        let Some(host) = self.schedule.host(slot).filter(|_| counted) else {
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
            && record.bucket != Bucket::Seed
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
        // Rules may be lifted again: a page that is known is not lost to them.
        let passing = reason == Reason::Robots;
        let known = record.clone();
        self.visits
            .fail(&mut change, &head.value, record, reason, passing, now)?;
        // Other rules may bring an image back, and then its words are needed.
        if kind == TaskKind::Image && !matches!(reason, Reason::Scope | Reason::Razor) {
            change.rating = self.rating.as_deref();
            let (url, _) = rescope::address_of(&*self.store, &head.value)?;
            change.pass_on(&head.value, &url, &known, reason)?;
        }
        let change = change.gathered();
        self.commit_change(change, now)
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
            let change = change.gathered();
            self.commit_change(change, now)?;
            self.next_waiting = self.first_waiting()?.map(|(due, _)| due);
        }
        Ok(())
    }
}
