//! Leasing: the choice of what is asked next, and the last look before it is.

use std::net::IpAddr;
use std::time::Duration;

use super::codec;
use super::image_ledger;
use super::images::spares;
use super::intake::verdict;
use super::keys::{self, class};
use super::leases::{Errand, Lease};
use super::parts::Frontier;
use super::record::{GroupKey, Located, UrlRecord};
use super::schedule::{Head, Host, Slot};
use super::store::StoreError;
use super::traps::{budgets, listing};
use crate::address::{HostKey, PageUrl};
use crate::clock::millis;
use crate::page::{Booking, Bucket, Reason, Task, TaskKind};

/// Addresses dropped in one call of [`Frontier::lease`] at most, so that a host
/// full of forbidden addresses does not hold up the others.
const MAX_DROPS: usize = 200;

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
        self.gate.is_patient
    }

    /// Whether a host that has given nothing yet could be asked, were not enough of these
    /// asked already.
    pub fn keeps_back(&self) -> bool {
        self.schedule.keeps_back()
    }

    fn lease_next(&mut self, now: u64, patient: bool) -> Result<Option<Task>, StoreError> {
        self.process.latest = self.process.latest.max(now);
        self.ledger.warm()?;
        self.wake(now)?;
        self.schedule.wake(now, self.policy.connections);
        self.gate.is_patient = false;
        self.leases.newcomers.look(now);
        for _ in 0..MAX_DROPS {
            let one = self.leases.newcomers.room() > 0;
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
        let is_due = |owed| image_ledger::is_due(owed, share);
        if self.gate.pages_held {
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
        self.gate.is_patient = page.is_some();
        None
    }

    /// When [`Frontier::lease`] may have something to give again, if nothing is
    /// finished before. `None` where only finishing, or the return of a parked
    /// host that is not waited for, can bring more.
    pub fn next_event(&self) -> Option<u64> {
        let rejudging = self.files.is_rechecking() || self.is_rescoping() || self.is_rescoring();
        let images = self.schedule.is_ready_for_images();
        let is_ready = images || (!self.gate.pages_held && self.schedule.is_ready());
        let newcomer = self.schedule.keeps_back() && self.leases.newcomers.room() > 0;
        if rejudging || newcomer || (is_ready && !self.gate.is_patient) {
            return Some(0);
        }
        let (mut visit, mut parked) = (self.visits.next(), self.schedule.next_parked());
        // Once the budget of pages is spent no visit is made, and none waited for.
        if self.gate.pages_closed {
            visit = None;
        }
        // A crawl that watches pages outlives the downtime of their hosts.
        if self.gate.pages_closed || !self.visits.are_made() {
            parked = None;
        }
        let events = [self.schedule.next_due(), self.retries.next(), visit, parked];
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
        if !self.gate.pages_closed {
            self.gate.pages_closed = true;
            for slot in self.schedule.slots() {
                self.refresh(slot, now)?;
            }
        }
        Ok(())
    }

    /// Whether only images are fetched any more, as the budget of pages is spent.
    pub fn pages_are_closed(&self) -> bool {
        self.gate.pages_closed
    }

    /// While this is set only images and robots.txt are leased, as what is open may be all
    /// that the budget of pages permits.
    pub fn hold_pages(&mut self, held: bool) {
        self.gate.pages_held = held;
    }

    /// Takes [`Frontier::close_pages`] back.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn open_pages(&mut self, now: u64) -> Result<(), StoreError> {
        if self.gate.pages_closed {
            self.gate.pages_closed = false;
            // Hosts of which only pages are left were forgotten.
            self.load_hosts(now)?;
        }
        Ok(())
    }

    /// Whether the page that a host is to be asked for is not much less likely on topic
    /// than the best one whose host only rests for a moment.
    fn is_worth_it(&self, slot: Slot, now: u64) -> bool {
        let learning = self.ratings.learning();
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
        let store = self.ledger.store();
        let (url, kind) = codec::address_of(store, &head.value)?;
        let Some(record) = self.ledger.read::<UrlRecord>(&head.value)? else {
            let why = "names an address that has no record".to_owned();
            return Err(codec::corrupt(self.ledger.store(), &head.queue_key, why));
        };
        // The scope may have changed since it was queued; a host of which nothing is
        // wanted any more is not asked for its rules either.
        if let Err(reason) = verdict(&self.scope, &url, kind, record.hops) {
            self.drop_queued(slot, &head, kind, record, reason, now)?;
            return Ok(None);
        }
        let control = kind == TaskKind::Page && self.ledger.meta().sample.is_pending(&url);
        if !control
            && self
                .ratings
                .is_above_razor(store, &head.value, kind, &record)?
        {
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
        let lease = Lease::new(slot, value, errand);
        let mut locate = false;
        let mut newcomer = false;
        if let Some(host) = self.schedule.host_mut(slot) {
            host.leased.push(lease.value.clone());
            if let Errand::Robots { scheme } | Errand::Tdmrep { scheme, .. } = &lease.errand {
                host.asking = Some(scheme);
            }
            newcomer = host.is_newcomer();
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

    /// Books a request at its host, where pages and images of that host wait.
    fn book_at_host(&mut self, slot: Slot, is_image: bool) {
        let share = self.policy.image_share;
        if let Some(host) = self.schedule.host_mut(slot)
            && host.head.is_some()
            && host.image.is_some()
        {
            host.image_owed = image_ledger::booked(host.image_owed, share, is_image);
        }
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
        let Some(slot) = self.leases.of(task).map(|lease| lease.slot) else {
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
        let Some(lease) = self.leases.of(task).cloned() else {
            return Err(self.unknown_lease(task));
        };
        let mut record = self.record_of(lease.slot);
        let before = record.located.as_ref().and_then(|l| l.address);
        if before != address {
            // What it has answered elsewhere says nothing about this address.
            self.schedule.prove(lease.slot, false);
        }
        record.located = Some(Located { address, at: now });
        // At once: after a crash an older address would be taken for this one.
        self.commit_host(&task.host, &record)?;
        self.release(task.lease, &lease, record, now)?;
        self.join_groups(lease.slot, now)
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
        if kind == TaskKind::Sitemap && listing::is_spent(self.ledger.store(), &url.host_key())? {
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
        let mut tx = self.ledger.begin();
        tx.dequeue(kind, &host, &record);
        // Rules may be lifted again: a page that is known is not lost to them.
        let passing = reason == Reason::Robots;
        let known = record.clone();
        self.visits
            .fail(&mut tx, &head.value, record, reason, passing, now)?;
        // Other rules may bring an image back, and then its words are needed.
        if kind == TaskKind::Image && !matches!(reason, Reason::Scope | Reason::Razor) {
            let (url, _) = codec::address_of(self.ledger.store(), &head.value)?;
            let intake = self.intake(self.ratings.of_images());
            spares::pass_on(&mut tx, &intake, &head.value, &url, &known, reason)?;
        }
        let prepared = tx.prepare();
        self.commit(prepared, now)
    }

    /// Whether what stands first at a host is worse than its place by what was learned
    /// since; it is given the place that it is due then.
    fn lower(
        &mut self,
        head: &Head,
        host: &HostKey,
        kind: TaskKind,
        record: &UrlRecord,
        now: u64,
    ) -> Result<bool, StoreError> {
        let store = self.ledger.store();
        let lowered = self.ratings.lowered(store, &head.value, kind, record)?;
        let Some(lowered) = lowered else {
            return Ok(false);
        };
        let mut tx = self.ledger.begin();
        tx.move_in_queue(&head.value, kind, host, record, &lowered)?;
        let prepared = tx.prepare();
        self.commit(prepared, now)?;
        Ok(true)
    }

    /// Whether the next page is one to explore by, with a number drawn for it.
    fn explores(&self) -> Option<u64> {
        let learning = self.ratings.learning()?;
        let open = u64::try_from(self.leases.len()).unwrap_or(u64::MAX);
        let fetches = self.ledger.meta().counts.fetches;
        learning.explores(fetches.saturating_add(open))
    }

    /// Whether the next request should be for an image.
    fn is_image_turn(&self) -> bool {
        let (pages, images) = (self.leases.pages(), self.leases.images());
        let share = self.policy.image_share;
        self.ledger
            .meta()
            .images
            .is_image_turn(pages, images, share)
    }

    fn document(&self, id: Option<u64>) -> Result<Option<PageUrl>, StoreError> {
        let Some(id) = id else { return Ok(None) };
        let bytes = self.ledger.store().get(&keys::document(id))?;
        Ok(bytes
            .and_then(|b| String::from_utf8(b).ok())
            .and_then(|text| PageUrl::parse(&text).ok()))
    }
}
