//! The hosts in memory: which ones may be requested now, which later, and in which order.
//!
//! Every host with queued or leased tasks has an entry, and is in at most one of five
//! ordered sets: *ready* by the rank of its head (and of its next image, in a separate
//! set), *due* by the time of its next request, *parked* by the time of the next attempt
//! after it was given up, *held* by its rank at a group whose clock runs, or *kept back*
//! by its rank while enough requests to newcomers are open. Leasing takes the first of
//! the ready set, so priorities hold across hosts. All operations cost the logarithm of
//! the number of active hosts. This module reads no store and no clock.
//!
//! Where hosts are held at a group, one host of that group is ready, or the group itself
//! is in the due set, so no host is held for ever.

use std::collections::{BTreeSet, HashMap};

use serde::{Deserialize, Serialize};

use super::address_clocks::AddressClocks;
use super::group_clocks::{Booked, Failing, Group, Groups};
use super::head::{Head, Slot};
use super::lookahead::{MAX_REST, Resting};
use crate::address::HostKey;
use crate::keys::Rank;
use crate::record::{GroupKey, GroupRecord, HostRecord};

/// Most hosts that are examined to find one that may be requested, if any will do.
const MAX_LOOKED: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Idle,
    /// By the rank of the next page, and by that of the next image.
    Ready(Option<Rank>, Option<Rank>),
    Due(u64),
    Parked(u64),
    Held(GroupKey, Rank),
    KeptBack(Rank),
}

/// A host or a group to be examined at some time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Waiter {
    Host(Slot),
    Group(GroupKey),
}

/// An active host.
#[derive(Debug)]
pub struct Host {
    pub key: HostKey,
    pub record: HostRecord,
    /// The next task that is not an image.
    pub head: Option<Head>,
    /// The next image.
    pub image: Option<Head>,
    /// The balance of its image account, in requests.
    pub image_owed: f64,
    /// Queue values that are leased, one for each open request.
    pub leased: Vec<Vec<u8>>,
    /// The scheme whose robots.txt is being requested, if any.
    pub asking: Option<&'static str>,
    /// No request before this time, in milliseconds since 1970, because a request was
    /// sent and none has been answered since. Separate from the record's clock, which is
    /// set by answers and never moves back.
    pub paced: u64,
    /// Whether it has answered at its current IP address.
    proven: bool,
    /// Time of the last request, in milliseconds since 1970.
    pub asked: u64,
    /// Whether it has returned content since it is in memory.
    pub gave: bool,
    /// The groups that it shares a clock with.
    groups: Vec<GroupKey>,
    place: Place,
}

impl Host {
    /// The better rank of its next tasks.
    fn rank(&self) -> Option<Rank> {
        let heads = self.head.iter().chain(&self.image);
        heads.map(|head| head.rank).min()
    }

    /// Whether it is not known to answer: it has returned no content yet, or failed last.
    pub fn is_newcomer(&self) -> bool {
        self.record.failures > 0 || !(self.gave || self.record.documents > 0)
    }

    /// When its next request is allowed, in milliseconds since 1970.
    pub fn due(&self) -> u64 {
        self.record.due.max(self.paced)
    }
}

/// Counts of the hosts in memory, by the event that they wait for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostStates {
    /// All hosts in memory: they have queued or open tasks.
    pub active: usize,
    /// Hosts that may be requested now.
    pub ready: usize,
    /// Hosts in their delay or back-off.
    pub due: usize,
    /// Hosts that wait for a shared clock, or until fewer requests to newcomers are open.
    pub held: usize,
    /// Hosts that are given up for now.
    pub parked: usize,
    /// Hosts with an open request.
    pub open: usize,
}

/// The next request to a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostTurn {
    /// The host.
    pub host: HostKey,
    /// `ready`, `due` (its own clock or back-off runs) or `parked` (given up for now).
    pub state: &'static str,
    /// The earliest time of the request, in milliseconds since 1970; 0 for now.
    pub due: u64,
}

/// The active hosts and their order.
#[derive(Debug, Default)]
pub struct Schedule {
    slots: Vec<Option<Host>>,
    free: Vec<Slot>,
    by_key: HashMap<HostKey, Slot>,
    groups: Groups,
    ready: BTreeSet<(Rank, Slot)>,
    /// Hosts that may be requested for an image; some are in `ready` as well.
    ready_images: BTreeSet<(Rank, Slot)>,
    due: BTreeSet<(u64, Waiter)>,
    /// Groups without hosts, by the end of their clocks.
    empty: BTreeSet<(u64, GroupKey)>,
    parked: BTreeSet<(u64, Slot)>,
    /// Newcomers that wait until fewer newcomers have open requests.
    kept_back: BTreeSet<(Rank, Slot)>,
    /// Whether the limit of newcomers is reached.
    full: bool,
    /// Hosts whose next task is a page and whose short delay runs.
    resting: Resting,
    /// When any frontier may request IP addresses.
    addresses: AddressClocks,
}

impl Schedule {
    /// A schedule that shares the clocks of IP addresses.
    pub fn with(addresses: AddressClocks) -> Self {
        Self {
            addresses,
            ..Self::default()
        }
    }

    pub fn slot(&self, key: &HostKey) -> Option<Slot> {
        self.by_key.get(key).copied()
    }

    pub fn host(&self, slot: Slot) -> Option<&Host> {
        self.slots.get(slot).and_then(Option::as_ref)
    }

    pub fn host_mut(&mut self, slot: Slot) -> Option<&mut Host> {
        self.slots.get_mut(slot).and_then(Option::as_mut)
    }

    /// Whether the queue entry with this value is leased.
    pub fn is_leased(&self, key: &HostKey, value: &[u8]) -> bool {
        let host = self.slot(key).and_then(|slot| self.host(slot));
        host.is_some_and(|host| host.leased.iter().any(|leased| leased == value))
    }

    /// Adds a host without an entry.
    pub fn insert(&mut self, key: HostKey, record: HostRecord) -> Slot {
        let slot = self.free.pop().unwrap_or(self.slots.len());
        let host = Host {
            proven: record.has_answered(),
            key: key.clone(),
            record,
            head: None,
            image: None,
            image_owed: 0.0,
            leased: Vec::new(),
            asking: None,
            paced: 0,
            asked: 0,
            gave: false,
            groups: Vec::new(),
            place: Place::Idle,
        };
        if slot == self.slots.len() {
            self.slots.push(Some(host));
        } else if let Some(place) = self.slots.get_mut(slot) {
            *place = Some(host);
        }
        self.by_key.insert(key, slot);
        slot
    }

    /// Adds a host to its groups; `record` gives the clock of groups that are not in
    /// memory.
    ///
    /// # Errors
    /// Those of `record`; the host then stays in its former groups.
    pub fn join<E>(
        &mut self,
        slot: Slot,
        groups: Vec<GroupKey>,
        mut record: impl FnMut(&GroupKey) -> Result<GroupRecord, E>,
        now: u64,
        connections: usize,
    ) -> Result<(), E> {
        let mut records = Vec::with_capacity(groups.len());
        for key in &groups {
            let known = self.groups.get(key).map(|g| g.record.clone());
            records.push(known.map_or_else(|| record(key), Ok)?);
        }
        let proven = self.host(slot).is_some_and(|h| h.proven);
        for (key, record) in groups.iter().zip(records) {
            self.groups.join(key, proven, record);
        }
        let stood = self.host(slot).is_some_and(|h| h.place != Place::Idle);
        self.take_out(slot);
        for key in self.leave_groups(slot, now) {
            self.release(&key, now, connections);
        }
        if let Some(host) = self.host_mut(slot) {
            host.groups = groups;
        }
        // A host that is just being loaded has no head yet.
        if stood {
            self.settle(slot, now, connections);
        }
        Ok(())
    }

    /// The clocks of a host's groups.
    pub fn groups_of(&self, slot: Slot) -> Vec<(GroupKey, GroupRecord)> {
        let keys = self.host(slot).map(|h| h.groups.as_slice());
        let record = |key: &GroupKey| Some((key.clone(), self.groups.get(key)?.record.clone()));
        keys.unwrap_or_default().iter().filter_map(record).collect()
    }

    /// The groups of a host, and whether it has answered at its current IP address.
    pub fn shared(&self, slot: Slot) -> (Vec<(&GroupKey, &Group)>, bool) {
        let Some(host) = self.host(slot) else {
            return (Vec::new(), false);
        };
        let group = |key| Some((key, self.groups.get(key)?));
        (host.groups.iter().filter_map(group).collect(), host.proven)
    }

    /// Sets whether a host has answered at its current IP address.
    pub fn prove(&mut self, slot: Slot, proven: bool) {
        let Some(host) = self.slots.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        if std::mem::replace(&mut host.proven, proven) == proven {
            return;
        }
        for key in &host.groups {
            if let Some(group) = self.groups.get_mut(key) {
                group.proven = if proven {
                    group.proven.saturating_add(1)
                } else {
                    group.proven.saturating_sub(1)
                };
            }
        }
    }

    /// Stores the state of a group after an answer of `host`.
    pub fn set_group(&mut self, host: &HostKey, booked: Booked, now: u64, connections: usize) {
        let Booked {
            key,
            record,
            failing,
        } = booked;
        let Some(group) = self.groups.get_mut(&key) else {
            return;
        };
        if matches!(failing, Failing::Anew | Failing::Cleared) {
            group.failing.clear();
        }
        if matches!(failing, Failing::Anew | Failing::More) {
            group.failing.insert(host.clone());
        }
        let before = std::mem::replace(&mut group.record, record);
        let due = group.record.due;
        if let GroupKey::Address(address) = &key {
            let clocks = &self.addresses;
            if group.record.failures > 0 {
                clocks.put_off(*address, due, now);
            } else if before.failures > 0 {
                clocks.bring_forward(*address, now.saturating_add(group.record.delay));
            }
        }
        if due >= before.due && group.record.parked >= before.parked {
            return;
        }
        // The group is due earlier than it was planned for.
        let planned = group.wake.take_if(|at| *at > due);
        if let Some(at) = planned {
            self.due.remove(&(at, Waiter::Group(key.clone())));
            self.plan(&key);
        }
        if before.parked {
            let of_group = |slot: &Slot| {
                let host = self.host(*slot);
                host.is_some_and(|h| matches!(h.place, Place::Parked(_)) && h.groups.contains(&key))
            };
            let parked: Vec<Slot> = self.slots().into_iter().filter(of_group).collect();
            for slot in parked {
                self.settle(slot, now, connections);
            }
        }
    }

    /// Books a request to a host at its groups.
    pub fn occupy(&mut self, slot: Slot, now: u64) {
        let keys = self.host(slot).map(|h| h.groups.clone());
        for key in keys.unwrap_or_default() {
            if let Some(group) = self.groups.get_mut(&key) {
                let due = now.saturating_add(group.record.delay);
                group.record.due = group.record.due.max(due);
                if let GroupKey::Address(address) = &key {
                    self.addresses.put_off(*address, group.record.due, now);
                }
                if !group.held.is_empty() {
                    self.plan(&key);
                }
            }
        }
    }

    /// Postpones the clocks of a host's groups.
    pub fn put_off(&mut self, slot: Slot, until: u64, now: u64) {
        let keys = self.host(slot).map(|h| h.groups.clone());
        for key in keys.unwrap_or_default() {
            if let Some(group) = self.groups.get_mut(&key) {
                group.record.due = group.record.due.max(until);
                if let GroupKey::Address(address) = &key {
                    self.addresses.put_off(*address, until, now);
                }
            }
        }
    }

    /// Moves a host to the set that its head, clock and open requests require, or removes
    /// it if it has no tasks; its record is in the store.
    pub fn settle(&mut self, slot: Slot, now: u64, connections: usize) {
        let was_ready = self.take_out(slot);
        let Some(host) = self.slots.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        let groups = if was_ready {
            host.groups.clone()
        } else {
            Vec::new()
        };
        if host.rank().is_none() {
            if host.leased.is_empty() {
                self.forget(slot, now);
            }
        } else if host.leased.len() >= connections {
            if let Some(head) = &host.head {
                // Independent of other work that it gets in the meantime.
                let until = host.asked.saturating_add(MAX_REST);
                self.resting.insert(slot, head, Some(until), now);
            }
        } else {
            let due = host.due();
            let parked = host.record.parked_until.filter(|until| *until > now);
            host.place = if let Some(until) = parked {
                self.parked.insert((until, slot));
                Place::Parked(until)
            } else if due > now {
                self.due.insert((due, Waiter::Host(slot)));
                if let Some(head) = &host.head {
                    self.resting.insert(slot, head, Some(due), now);
                }
                Place::Due(due)
            } else {
                let rank = |head: &Option<Head>| head.as_ref().map(|head| head.rank);
                let (page, image) = (rank(&host.head), rank(&host.image));
                self.ready.extend(page.map(|rank| (rank, slot)));
                self.ready_images.extend(image.map(|rank| (rank, slot)));
                for key in &host.groups {
                    if let Some(group) = self.groups.get_mut(key) {
                        group.ready += 1;
                    }
                }
                Place::Ready(page, image)
            };
        }
        for key in &groups {
            self.release(key, now, connections);
        }
    }

    /// Settles the hosts and groups that are due by `now`.
    pub fn wake(&mut self, now: u64, connections: usize) {
        while let Some((at, _)) = self.due.first()
            && *at <= now
        {
            match self.due.pop_first() {
                Some((_, Waiter::Host(slot))) => self.settle(slot, now, connections),
                Some((_, Waiter::Group(key))) => {
                    let first = self.groups.get_mut(&key).and_then(|group| {
                        group.wake = None;
                        let due = group.record.due <= now;
                        group.held.first().filter(|_| due).map(|(_, slot)| *slot)
                    });
                    // The best one may go before a host that is already ready.
                    if let Some(slot) = first {
                        self.settle(slot, now, connections);
                    }
                    self.release(&key, now, connections);
                }
                None => {}
            }
        }
        while let Some((at, _)) = self.empty.first()
            && *at <= now
        {
            if let Some((_, key)) = self.empty.pop_first() {
                self.tidy(&key, now);
            }
        }
        while let Some((at, slot)) = self.parked.first().copied()
            && at <= now
        {
            self.settle(slot, now, connections);
        }
    }

    /// The host for the next request other than for an image. Hosts whose groups are not
    /// due yet become held.
    pub fn best(&mut self, now: u64, connections: usize) -> Option<Slot> {
        loop {
            let (_, slot) = *self.ready.first()?;
            if self.is_free(slot, now, connections) {
                return Some(slot);
            }
        }
    }

    /// The host for the next image. If it is only the `turn` of an image, the best
    /// host for pages is skipped unless `is_due` is true for the balance of its images:
    /// its pages would never be requested otherwise.
    pub fn best_image(
        &mut self,
        turn: bool,
        is_due: impl Fn(f64) -> bool,
        now: u64,
        connections: usize,
    ) -> Option<Slot> {
        loop {
            let best = self.ready.first().map(|(_, slot)| *slot);
            let may = |slot: Slot| {
                !turn || best != Some(slot) || self.host(slot).is_some_and(|h| is_due(h.image_owed))
            };
            let mut slots = self.ready_images.iter().map(|(_, slot)| *slot);
            let slot = slots.find(|slot| may(*slot))?;
            if self.is_free(slot, now, connections) {
                return Some(slot);
            }
        }
    }

    /// Sets whether a newcomer may be requested now. If so, the best newcomer that was
    /// kept back joins the other hosts again.
    pub fn let_in(&mut self, one: bool, now: u64, connections: usize) {
        self.full = !one;
        if let Some((_, slot)) = self.kept_back.first().copied().filter(|_| one) {
            self.settle(slot, now, connections);
        }
    }

    /// Whether a newcomer waits until fewer newcomers have open requests.
    pub fn keeps_back(&self) -> bool {
        !self.kept_back.is_empty()
    }

    fn keep_back(&mut self, slot: Slot, rank: Rank, now: u64, connections: usize) {
        self.take_out(slot);
        let Some(host) = self.host_mut(slot) else {
            return;
        };
        host.place = Place::KeptBack(rank);
        let groups = host.groups.clone();
        self.kept_back.insert((rank, slot));
        for key in &groups {
            self.release(key, now, connections);
        }
    }

    /// Whether the newcomer limit and its groups permit a request to a host; if not, the
    /// host becomes kept back or held.
    fn is_free(&mut self, slot: Slot, now: u64, connections: usize) -> bool {
        self.hear_others(slot);
        let host = self.host(slot);
        let rank = host.and_then(Host::rank);
        let is_newcomer = host.is_some_and(Host::is_newcomer);
        if let Some(rank) = rank.filter(|_| self.full && is_newcomer) {
            self.keep_back(slot, rank, now, connections);
            return false;
        }
        let host = self.host(slot);
        let groups = host.map(|h| h.groups.clone()).unwrap_or_default();
        let runs = |key: &GroupKey| self.groups.get(key).filter(|g| g.record.due > now);
        let blocking = groups.iter().find_map(|key| Some((key, runs(key)?)));
        let (Some((key, group)), Some(rank)) = (blocking, rank) else {
            return true;
        };
        let (due, parked) = (group.record.due, group.record.parked);
        self.take_out(slot);
        if parked {
            self.park(slot, due);
        } else {
            if let Some(group) = self.groups.get_mut(key) {
                group.held.insert((rank, slot));
            }
            self.plan(key);
            if let Some(host) = self.slots.get_mut(slot).and_then(Option::as_mut) {
                host.place = Place::Held(key.clone(), rank);
                if let Some(head) = &host.head {
                    self.resting.insert(slot, head, Some(due), now);
                }
            }
        }
        // Hosts held at the same group are parked with this one.
        for other in groups.iter().filter(|other| parked || *other != key) {
            self.release(other, now, connections);
        }
        false
    }

    /// Notes when other frontiers have requested the address of a host.
    fn hear_others(&mut self, slot: Slot) {
        let host = self.slots.get(slot).and_then(Option::as_ref);
        for key in host.map(|h| h.groups.as_slice()).unwrap_or_default() {
            if let GroupKey::Address(address) = key
                && let Some(group) = self.groups.get_mut(key)
            {
                group.record.due = group.record.due.max(self.addresses.due(*address));
            }
        }
    }

    /// Parks a host that is in no set.
    fn park(&mut self, slot: Slot, until: u64) {
        if let Some(host) = self.host_mut(slot) {
            host.place = Place::Parked(until);
            self.parked.insert((until, slot));
        }
    }

    /// Removes a host from its set. Returns whether it was ready.
    fn take_out(&mut self, slot: Slot) -> bool {
        self.resting.remove(slot);
        let Some(host) = self.slots.get_mut(slot).and_then(Option::as_mut) else {
            return false;
        };
        match std::mem::replace(&mut host.place, Place::Idle) {
            Place::Idle => {}
            Place::Due(at) => {
                self.due.remove(&(at, Waiter::Host(slot)));
            }
            Place::Parked(at) => {
                self.parked.remove(&(at, slot));
            }
            Place::KeptBack(rank) => {
                self.kept_back.remove(&(rank, slot));
            }
            Place::Held(key, rank) => {
                if let Some(group) = self.groups.get_mut(&key) {
                    group.held.remove(&(rank, slot));
                }
            }
            Place::Ready(page, image) => {
                if let Some(rank) = page {
                    self.ready.remove(&(rank, slot));
                }
                if let Some(rank) = image {
                    self.ready_images.remove(&(rank, slot));
                }
                for key in &host.groups {
                    if let Some(group) = self.groups.get_mut(key) {
                        group.ready = group.ready.saturating_sub(1);
                    }
                }
                return true;
            }
        }
        false
    }

    /// If no host of a group is ready, makes the best held one ready, or plans the
    /// group's wake-up at its due time. A group that is given up is not waited for, and
    /// neither are its hosts.
    fn release(&mut self, key: &GroupKey, now: u64, connections: usize) {
        while let Some(group) = self.groups.get(key)
            && group.ready == 0
            && let Some((_, slot)) = group.held.first().copied()
        {
            let (due, parked) = (group.record.due, group.record.parked);
            match due > now {
                true if parked => {
                    self.take_out(slot);
                    self.park(slot, due);
                }
                true => return self.plan(key),
                false => self.settle(slot, now, connections),
            }
        }
    }

    /// Plans the wake-up of a group at its due time.
    fn plan(&mut self, key: &GroupKey) {
        if let Some(group) = self.groups.get_mut(key)
            && group.wake.is_none()
        {
            group.wake = Some(group.record.due);
            let waiter = Waiter::Group(key.clone());
            self.due.insert((group.record.due, waiter));
        }
    }

    fn forget(&mut self, slot: Slot, now: u64) {
        self.leave_groups(slot, now);
        if let Some(host) = self.slots.get_mut(slot).and_then(Option::take) {
            self.by_key.remove(&host.key);
            self.free.push(slot);
        }
    }

    /// Removes a host that is in no set from its groups, and returns them.
    fn leave_groups(&mut self, slot: Slot, now: u64) -> Vec<GroupKey> {
        let host = self.host_mut(slot);
        let left = host.map(|h| (std::mem::take(&mut h.groups), h.proven));
        let (groups, proven) = left.unwrap_or_default();
        for key in &groups {
            if let Some(group) = self.groups.get_mut(key) {
                group.members = group.members.saturating_sub(1);
                group.proven = group.proven.saturating_sub(usize::from(proven));
                self.tidy(key, now);
            }
        }
        groups
    }

    /// Removes a group without hosts as soon as its clock has run out: until then a host
    /// that is loaded must find it. A longer back-off is in the store.
    fn tidy(&mut self, key: &GroupKey, now: u64) {
        let Some(group) = self.groups.get(key).filter(|g| g.members == 0) else {
            return;
        };
        if group.record.due > now && group.record.failures == 0 {
            self.empty.insert((group.record.due, key.clone()));
        } else if let Some(at) = self.groups.forget(key) {
            self.due.remove(&(at, Waiter::Group(key.clone())));
        }
    }

    /// The best rank of a page whose host is in a short delay.
    pub fn best_resting(&self, now: u64) -> Option<Rank> {
        self.resting.best(now)
    }

    /// When the next host that is not parked may be requested.
    pub fn next_due(&self) -> Option<u64> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Whether the host or group that is due at `at` failed last.
    pub fn is_failed_due(&self, at: u64) -> bool {
        let due = self.due.iter().take_while(|(due, _)| *due <= at);
        let failures = |waiter: &Waiter| match waiter {
            Waiter::Host(slot) => self.host(*slot).map(|host| host.record.failures),
            Waiter::Group(key) => self.groups.get(key).map(|group| group.record.failures),
        };
        due.filter_map(|(_, waiter)| failures(waiter))
            .any(|failures| failures > 0)
    }

    /// When the next host that is parked is tried again.
    pub fn next_parked(&self) -> Option<u64> {
        self.parked.first().map(|(at, _)| *at)
    }

    /// All active hosts.
    pub fn slots(&self) -> Vec<Slot> {
        self.by_key.values().copied().collect()
    }

    pub fn active(&self) -> usize {
        self.by_key.len()
    }

    /// Counts the hosts by state. Visits every host.
    pub fn states(&self) -> HostStates {
        let mut states = HostStates {
            active: self.active(),
            ..HostStates::default()
        };
        for host in self.slots.iter().flatten() {
            states.open += usize::from(!host.leased.is_empty());
            match host.place {
                Place::Idle => {}
                Place::Ready(..) => states.ready += 1,
                Place::Due(_) => states.due += 1,
                Place::Held(..) | Place::KeptBack(_) => states.held += 1,
                Place::Parked(_) => states.parked += 1,
            }
        }
        states
    }

    /// The next hosts to be requested: ready ones by rank, then those in a delay by its
    /// end, then those that are given up; `most` of each.
    pub fn turns(&self, most: usize) -> Vec<HostTurn> {
        let mut ready: Vec<(Rank, Slot)> = self.ready.iter().copied().take(most).collect();
        let images = self.ready_images.iter().copied();
        let alone = images.filter(|(_, slot)| self.host(*slot).is_some_and(|h| h.head.is_none()));
        ready.extend(alone.take(most));
        ready.sort_unstable();
        let ready = ready.into_iter().map(|(_, slot)| (slot, "ready", 0));
        let due = self.due.iter().filter_map(|(at, waiter)| match waiter {
            Waiter::Host(slot) => Some((*slot, "due", *at)),
            Waiter::Group(_) => None,
        });
        let parked = self.parked.iter().map(|(at, slot)| (*slot, "parked", *at));
        let turns = ready.take(most).chain(due.take(most));
        turns
            .chain(parked.take(most))
            .filter_map(|(slot, state, due)| {
                let host = self.host(slot)?.key.clone();
                Some(HostTurn { host, state, due })
            })
            .collect()
    }

    pub fn parked(&self) -> usize {
        self.parked.len()
    }

    /// Whether a host may be requested for anything but an image.
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether a host may be requested for an image.
    pub fn is_ready_for_images(&self) -> bool {
        !self.ready_images.is_empty()
    }

    /// One of the hosts that may be requested for a page now, chosen by a random number;
    /// `None` if none of the examined hosts may.
    pub fn any_ready(&self, number: u64, now: u64) -> Option<Slot> {
        let count = self.slots.len();
        let first = usize::try_from(number % u64::try_from(count.max(1)).ok()?).ok()?;
        let looked = (0..count.min(MAX_LOOKED)).map(|i| (first + i) % count);
        let runs = |key: &GroupKey| {
            let by_others = match key {
                GroupKey::Address(address) => self.addresses.due(*address),
                _ => 0,
            };
            by_others > now || self.groups.get(key).is_some_and(|g| g.record.due > now)
        };
        looked
            .filter_map(|slot| Some((slot, self.host(slot)?)))
            .find(|(_, host)| {
                matches!(host.place, Place::Ready(Some(_), _))
                    && !host.groups.iter().any(runs)
                    && !(self.full && host.is_newcomer())
            })
            .map(|(slot, _)| slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Bucket;

    fn head(score: f64, seq: u64) -> Option<Head> {
        Some(Head {
            rank: Rank::new(Bucket::Normal, score, seq),
            class: 1,
            queue_key: Vec::new(),
            value: Vec::new(),
        })
    }

    fn add(s: &mut Schedule, name: &str, due: u64, head: Option<Head>) -> Slot {
        let slot = s.insert(
            HostKey::from_stored(name),
            HostRecord {
                due,
                ..HostRecord::default()
            },
        );
        s.host_mut(slot).unwrap().head = head;
        s.settle(slot, 100, 1);
        slot
    }

    /// A schedule with a host of the address 127.0.0.1, whose delay is 50.
    fn on_shared_address(clocks: &AddressClocks) -> (Schedule, Slot) {
        let mut s = Schedule::with(clocks.clone());
        let slot = add(&mut s, "a", 0, head(1.0, 1));
        let record = |_: &GroupKey| {
            Ok::<_, ()>(GroupRecord {
                delay: 50,
                ..GroupRecord::default()
            })
        };
        let address = GroupKey::Address([127, 0, 0, 1].into());
        s.join(slot, vec![address], record, 100, 1).unwrap();
        (s, slot)
    }

    #[test]
    fn of_two_schedules_one_at_a_time_asks_an_address() {
        let clocks = AddressClocks::default();
        let (mut one, first) = on_shared_address(&clocks);
        let (mut two, second) = on_shared_address(&clocks);
        assert_eq!(one.best(100, 1), Some(first));
        assert_eq!(two.any_ready(0, 100), Some(second));
        one.occupy(first, 100);
        assert_eq!(two.any_ready(0, 149), None);
        assert_eq!(two.best(149, 1), None);
        assert_eq!(two.states().held, 1);
        assert_eq!(two.next_due(), Some(150));
        two.wake(150, 1);
        assert_eq!(two.best(150, 1), Some(second));
        // The machine is in trouble: it gets no request until the pause is over, or it answers.
        let key = GroupKey::Address([127, 0, 0, 1].into());
        let booked = |due, failures| Booked {
            key: key.clone(),
            record: GroupRecord {
                due,
                delay: 50,
                failures,
                ..GroupRecord::default()
            },
            failing: Failing::Same,
        };
        let host = HostKey::from_stored("a");
        one.set_group(&host, booked(9_000, 1), 160, 1);
        assert_eq!(two.best(160, 1), None);
        assert_eq!(two.next_due(), Some(9_000));
        one.set_group(&host, booked(250, 0), 200, 1);
        assert_eq!(clocks.due([127, 0, 0, 1].into()), 250);
    }

    #[test]
    fn ready_hosts_by_rank_others_by_time() {
        let mut s = Schedule::default();
        let worse = add(&mut s, "a", 0, head(5.0, 1));
        let better = add(&mut s, "b", 100, head(2.0, 2));
        let later = add(&mut s, "c", 150, head(1.0, 3));
        assert_eq!(s.best(100, 1), Some(better));
        assert_eq!(s.next_due(), Some(150));
        s.wake(149, 1);
        assert_eq!(s.best(149, 1), Some(better));
        s.wake(150, 1);
        assert_eq!(s.best(100, 1), Some(later));
        s.host_mut(later).unwrap().leased.push(vec![1]);
        s.settle(later, 150, 1);
        assert_eq!(s.best(100, 1), Some(better));
        s.host_mut(better).unwrap().record.parked_until = Some(1_000);
        s.settle(better, 150, 1);
        assert_eq!(s.best(100, 1), Some(worse));
        assert_eq!((s.parked(), s.ready.len(), s.active()), (1, 1, 3));
        s.wake(1_000, 1);
        assert_eq!((s.parked(), s.best(1_000, 1)), (0, Some(better)));
    }

    #[test]
    fn turns_are_a_few_of_each_state() {
        let mut s = Schedule::default();
        for n in 0..5_u32 {
            add(&mut s, &format!("ready{n}"), 0, head(f64::from(n), 1));
            let due = 200 + u64::from(n);
            add(&mut s, &format!("due{n}"), due, head(1.0, 1));
        }
        let slot = add(&mut s, "parked", 0, head(1.0, 1));
        s.host_mut(slot).unwrap().record.parked_until = Some(1_000);
        s.settle(slot, 100, 1);
        let turns = s.turns(2);
        let turns: Vec<_> = turns.iter().map(|t| (t.host.as_str(), t.due)).collect();
        let expected = [("ready0", 0), ("ready1", 0), ("due0", 200), ("due1", 201)];
        assert_eq!(turns[..4], expected);
        assert_eq!(turns[4..], [("parked", 1_000)]);
    }

    #[test]
    fn a_host_with_nothing_left_is_forgotten_and_its_slot_reused() {
        let mut s = Schedule::default();
        let slot = add(&mut s, "a", 0, head(5.0, 1));
        s.host_mut(slot).unwrap().head = None;
        s.settle(slot, 100, 1);
        assert_eq!(s.active(), 0);
        assert!(s.best(100, 1).is_none() && s.host(slot).is_none());
        assert_eq!(add(&mut s, "b", 0, head(1.0, 1)), slot);
        assert_eq!(s.slot(&HostKey::from_stored("a")), None);
    }
}
