//! The frontier as its parts: opening, closing, and how a commit reaches memory.

use std::ops::ControlFlow;

use super::added::{NewTask, Origin};
use super::cell::Home;
use super::draws;
use super::host_files::HostFiles;
use super::intake::Intake;
use super::keys::{self, Rank, class};
use super::leases::Leases;
use super::ledger::Ledger;
use super::policy::Policy;

use super::ratings::{InForce, Ratings};
use super::record::{GroupKey, GroupRecord, HostRecord, Meta, Promise, RobotsState};
use super::recrawl::Visits;
use super::rejudge::{self, Rescoped};
use super::retries::Retries;
use super::schedule::{AddressClocks, Head, Host, Schedule, Slot};
use super::seen::Memory;
use super::store::{Store, StoreError};
use super::transaction::Prepared;
use super::{clock_skew, codec, restored};
use crate::address::{HostKey, PageUrl};
use crate::web::scope::Scope;

/// The frontier of one crawl. See the module's documentation.
pub struct Frontier {
    pub(super) ledger: Ledger,
    pub(super) policy: Policy,
    pub(super) scope: Scope,
    pub(super) schedule: Schedule,
    pub(super) leases: Leases,
    pub(super) files: HostFiles,
    pub(super) ratings: Ratings,
    pub(super) visits: Visits,
    pub(super) retries: Retries,
    /// Progress of the current re-scoping.
    pub(super) rescoped: Rescoped,
    pub(super) flags: LeaseFlags,
    pub(super) process: Process,
}

/// What a frontier gets from a store and a process that several cells share.
pub(super) struct CellShare {
    /// Which cell it is.
    pub home: Home,
    /// Its share of the memory.
    pub memory: Memory,
    /// The clocks of IP addresses that all cells keep together.
    pub addresses: AddressClocks,
    /// Who may have requested its hosts before this process.
    pub asked: Option<Asked>,
}

/// Who may have requested the hosts of a frontier just before this time, in milliseconds since
/// 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// A process whose last batch is in this store: each host has its delay from then on.
    Last(u64),
    /// A process that went on after this state was saved. Delays may have grown since, so each host
    /// gets the longest delay of a slow host.
    Later(u64),
}

/// Whether pages are leased.
#[derive(Debug, Default)]
pub(super) struct LeaseFlags {
    /// The budget of pages is spent: only images and robots.txt are leased.
    pub pages_closed: bool,
    /// As many pages are open as the budget allows: for now only images and robots.txt are leased.
    pub pages_held: bool,
    /// At the last attempt to lease, the available pages were not worth it.
    pub is_patient: bool,
    /// What was first when this cell was chosen may be gone or lower by now, so a better page of
    /// another cell goes first.
    pub may_give_way: bool,
    /// At the last attempt to lease, another cell went first.
    pub gave_way: bool,
    /// What a choice depends on outside of this frontier.
    pub elsewhere: Elsewhere,
}

/// The state of the other cells over the same store; empty if there are none.
#[derive(Debug, Default)]
pub(super) struct Elsewhere {
    /// The best page that could be leased.
    pub ready: Option<Rank>,
    /// The best page whose host is in a short delay.
    pub resting: Option<Rank>,
    /// The number of requested pages.
    pub asked: u64,
    /// Open requests for pages, and for images.
    pub open: (usize, usize),
    /// Queued pages, and images.
    pub queued: (u64, u64),
}

/// The times of this process, in milliseconds since 1970.
#[derive(Debug)]
pub(super) struct Process {
    /// When it opened the store.
    pub opened: u64,
    /// The same, if the last process did not close the store.
    pub unclean_since: Option<u64>,
    /// When the store was restored from a checkpoint elsewhere, if it was.
    pub restored: Option<u64>,
    /// The latest time that it was given.
    pub latest: u64,
    /// Promises to hosts that other machines do not know yet.
    pub promised: Vec<Promise>,
}

impl Frontier {
    /// Opens the frontier of a machine that crawls alone, or creates an empty one. `store` is the
    /// store of its only cell ([`only`](super::only)). `now` is milliseconds since 1970, here and
    /// in every other call.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails, is damaged or of another format.
    pub fn open(
        store: Box<dyn Store>,
        policy: Policy,
        scope: Scope,
        now: u64,
    ) -> Result<Self, StoreError> {
        let share = CellShare {
            home: Home::ONLY,
            memory: Memory::default(),
            addresses: AddressClocks::default(),
            asked: None,
        };
        Self::open_as(store, policy, scope, now, share)
    }

    /// The same for any cell.
    pub(super) fn open_as(
        store: Box<dyn Store>,
        policy: Policy,
        scope: Scope,
        now: u64,
        share: CellShare,
    ) -> Result<Self, StoreError> {
        let mut first = Meta {
            scope: scope.digest(),
            ..Meta::default()
        };
        let CellShare {
            home,
            memory,
            addresses,
            asked,
        } = share;
        let number = home.cell.pages_from();
        first.next_id += number;
        let mut ledger = Ledger::open(store, first, home, memory)?;
        let meta = ledger.meta_mut();
        rejudge::begin_where_changed(meta, &scope);
        let clean = meta.clean;
        policy.apply_control(&mut meta.sample);
        let (mut unclean_since, mut restored) = (
            (!clean).then_some(now),
            restored::when(ledger.store().path()),
        );
        match asked {
            Some(Asked::Last(at)) => unclean_since = unclean_since.max(Some(at)),
            Some(Asked::Later(at)) => restored = restored.max(Some(at)),
            None => {}
        }
        let mut frontier = Self {
            ledger,
            visits: Visits::new(policy.recrawl.clone()),
            policy,
            scope,
            schedule: Schedule::with(addresses),
            leases: Leases::behind(number),
            files: HostFiles::shared_by(home.cells),
            ratings: Ratings::default(),
            retries: Retries::default(),
            rescoped: Rescoped::default(),
            flags: LeaseFlags::default(),
            process: Process {
                opened: now,
                unclean_since,
                restored,
                latest: now,
                promised: Vec::new(),
            },
        };
        frontier.follow_clock(now)?;
        frontier.mark_clean(false)?;
        frontier.load_hosts(now)?;
        let store = frontier.ledger.store();
        frontier.retries.look_up_next(store)?;
        frontier.files.look_up_rechecks(store)?;
        frontier.visits.look_up_next(store)?;
        Ok(frontier)
    }

    /// Closes cleanly. With open leases it does not count as clean, so that the next opening waits
    /// for the delays of their hosts.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn close(mut self) -> Result<(), StoreError> {
        let clean = self.leases.is_empty();
        self.mark_clean(clean)
    }

    /// Makes everything committed so far durable.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        self.ledger.flush(self.process.latest)
    }

    /// Adds the operator's own addresses. Known addresses stay as they are, except for their
    /// priority.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails; nothing is added then.
    pub fn add_seeds(&mut self, seeds: &[PageUrl], now: u64) -> Result<(), StoreError> {
        let mut tx = self.ledger.begin();
        let intake = self.intake(InForce::default());
        for url in seeds {
            intake.add_page(&mut tx, &NewTask::seed(url), Origin::default())?;
        }
        let prepared = tx.prepare();
        self.commit(prepared, now)
    }

    /// Corrects the pauses of hosts if the system clock was set back since the last run.
    fn follow_clock(&mut self, now: u64) -> Result<(), StoreError> {
        let mut tx = self.ledger.begin();
        if !clock_skew::follow(&mut tx, self.ledger.last_flush()?, now)? {
            return Ok(());
        }
        // In one transaction, so that nothing is moved twice.
        let prepared = tx.prepare();
        self.ledger.commit_alone(prepared)?;
        self.ledger.note_time(now)
    }

    fn mark_clean(&mut self, clean: bool) -> Result<(), StoreError> {
        self.commit_meta(|meta| meta.clean = clean)?;
        self.flush()
    }

    /// Commits a change of the counters alone.
    pub(super) fn commit_meta(&mut self, change: impl FnOnce(&mut Meta)) -> Result<(), StoreError> {
        let mut tx = self.ledger.begin();
        change(&mut tx.meta);
        let prepared = tx.prepare();
        self.ledger.commit_alone(prepared)
    }

    /// The rules for URLs that are added now.
    pub(super) fn intake<'a>(&'a self, rating: InForce<'a>) -> Intake<'a> {
        Intake {
            scope: &self.scope,
            schedule: &self.schedule,
            rating,
            home: self.ledger.home(),
        }
    }

    /// Commits a transaction, and updates the position of the hosts that it touched.
    pub(super) fn commit(&mut self, prepared: Prepared, now: u64) -> Result<(), StoreError> {
        let effect = self.ledger.commit(prepared)?;
        self.visits.expect(effect.visit);
        self.refresh_hosts(effect.touched, now)
    }

    /// Finds the hosts that have a queue by skipping from each to the next.
    pub(super) fn load_hosts(&mut self, now: u64) -> Result<(), StoreError> {
        let mut from = keys::QUEUES.to_vec();
        loop {
            let mut found = None;
            let store = self.ledger.store();
            store.scan(keys::QUEUES, &from, &mut |key, _| {
                found = Some(key.to_vec());
                ControlFlow::Break(())
            })?;
            let Some(key) = found else { return Ok(()) };
            let Some(host) = keys::host_of_queue_key(&key) else {
                let why = "not a queue key".to_owned();
                return Err(codec::corrupt(store, &key, why));
            };
            from = keys::after_queues_of(&host);
            let slot = self.activate(&host)?;
            self.refresh(slot, now)?;
        }
    }

    /// The slot of a host, which is loaded from the store if it is not active.
    pub(super) fn activate(&mut self, host: &HostKey) -> Result<Slot, StoreError> {
        if let Some(slot) = self.schedule.slot(host) {
            return Ok(slot);
        }
        let mut record: HostRecord = self.ledger.read(&keys::host(host))?.unwrap_or_default();
        if let Some(opened) = self.process.unclean_since {
            let delay = self.policy.delay(&record);
            record.due = record.due.max(opened.saturating_add(delay));
        }
        if let Some(restored) = self.process.restored {
            let delay = self.policy.delay(&record).max(self.policy.max_delay);
            record.due = record.due.max(restored.saturating_add(delay));
        }
        let slot = self.schedule.insert(host.clone(), record);
        self.join_groups(slot, self.process.opened)?;
        Ok(slot)
    }

    /// Adds a host to the groups given by its record and name.
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
        let latest = now.max(self.process.latest);
        let Self {
            schedule,
            ledger,
            policy,
            process,
            ..
        } = self;
        let record = |group: &GroupKey| {
            let key = keys::group(group);
            let stored: Option<GroupRecord> = ledger.read(&key)?;
            let mut record = stored.unwrap_or_default();
            if !policy.is_sound(&record, latest) {
                unsound.push(key);
                record = GroupRecord::default();
            }
            let least = policy.group_delay(group);
            record.delay = record.delay.min(policy.max_delay).max(least);
            // A host of the group may have been requested just before this process began.
            let since_opened = process.opened.saturating_add(record.delay);
            record.due = record.due.max(since_opened);
            Ok::<_, StoreError>(record)
        };
        schedule.join(slot, groups, record, now, policy.connections)?;
        if unsound.is_empty() {
            return Ok(());
        }
        let mut tx = self.ledger.begin();
        unsound.into_iter().for_each(|key| tx.delete(key));
        let prepared = tx.prepare();
        self.ledger.commit_alone(prepared)
    }

    /// Updates the hosts whose queues have changed.
    pub(super) fn refresh_hosts(
        &mut self,
        hosts: impl IntoIterator<Item = HostKey>,
        now: u64,
    ) -> Result<(), StoreError> {
        for host in hosts {
            let slot = self.activate(&host)?;
            self.refresh(slot, now)?;
        }
        Ok(())
    }

    /// Finds the head of a host in its queues, and updates its position.
    pub(super) fn refresh(&mut self, slot: Slot, now: u64) -> Result<(), StoreError> {
        let Some(host) = self.schedule.host(slot) else {
            return Ok(());
        };
        let mut head = first_of(&mut self.ledger, host, class::ROBOTS)?;
        let mut image = None;
        if head.is_none() {
            // Nothing else is requested while the rules are being fetched.
            let may_be_asked = |h: &Head| {
                let scheme = keys::scheme_of_key(&h.value);
                host.asking != Some(scheme) && *host.record.robots(scheme) != RobotsState::Awaiting
            };
            if !self.flags.pages_closed {
                head = draws::head_of(&self.ledger, host)?;
                if head.is_none() {
                    head = first_of(&mut self.ledger, host, class::PAGE)?;
                }
            }
            head = head.filter(may_be_asked);
            image = first_of(&mut self.ledger, host, class::IMAGE)?.filter(may_be_asked);
        }
        if head.is_none() && image.is_none() && host.leased.is_empty() {
            // The schedule removes such a host as well.
            self.ledger.forget_heads(&host.key);
        }
        let connections = self.policy.connections;
        if let Some(host) = self.schedule.host_mut(slot) {
            host.head = head;
            host.image = image;
        }
        self.schedule.settle(slot, now, connections);
        Ok(())
    }
}

/// The first task of a host's queue that is not leased.
fn first_of(ledger: &mut Ledger, host: &Host, class: u8) -> Result<Option<Head>, StoreError> {
    let first = ledger.head(&host.key, class, &host.leased)?;
    Ok(first.map(|entry| Head {
        rank: entry.rank,
        class,
        queue_key: keys::queue(&host.key, class, &entry.rank),
        value: entry.value.to_vec(),
    }))
}
