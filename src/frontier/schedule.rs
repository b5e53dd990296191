//! The hosts in memory: who may be asked now, who later, and in which order.
//!
//! Every host that has something queued or leased has an entry, and stands in at
//! most one of three ordered sets: *ready* by the rank of its head, *due* by the
//! time it may be asked again, *parked* by the time it is tried again after it
//! was given up. Leasing is the first of the ready set, so priorities hold
//! across hosts. All operations cost the logarithm of the number of active
//! hosts. This module reads no store and no clock.

use std::collections::{BTreeSet, HashMap};

use super::keys::Rank;
use super::record::HostRecord;
use crate::address::HostKey;

/// The next thing to ask a host for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Head {
    pub rank: Rank,
    pub class: u8,
    /// Key of the queue entry.
    pub queue_key: Vec<u8>,
    /// Value of the queue entry: a `U` key, or a robots errand for class 0.
    pub value: Vec<u8>,
}

/// Index of a host in the schedule.
pub(super) type Slot = usize;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Idle,
    Ready(Rank),
    Due(u64),
    Parked(u64),
}

/// An active host.
#[derive(Debug)]
pub(super) struct Host {
    pub key: HostKey,
    pub record: HostRecord,
    pub head: Option<Head>,
    /// Queue values that are leased out, one for each open request.
    pub leased: Vec<Vec<u8>>,
    /// The scheme whose robots.txt is being asked for, if one is.
    pub asking: Option<&'static str>,
    place: Place,
}

/// The active hosts and their order.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    slots: Vec<Option<Host>>,
    free: Vec<Slot>,
    by_key: HashMap<HostKey, Slot>,
    ready: BTreeSet<(Rank, Slot)>,
    due: BTreeSet<(u64, Slot)>,
    parked: BTreeSet<(u64, Slot)>,
}

impl Schedule {
    pub fn slot(&self, key: &HostKey) -> Option<Slot> {
        self.by_key.get(key).copied()
    }

    pub fn host(&self, slot: Slot) -> Option<&Host> {
        self.slots.get(slot).and_then(Option::as_ref)
    }

    pub fn host_mut(&mut self, slot: Slot) -> Option<&mut Host> {
        self.slots.get_mut(slot).and_then(Option::as_mut)
    }

    /// Whether the queue entry with this value is leased out.
    pub fn is_leased(&self, key: &HostKey, value: &[u8]) -> bool {
        let host = self.slot(key).and_then(|slot| self.host(slot));
        host.is_some_and(|host| host.leased.iter().any(|leased| leased == value))
    }

    /// Adds a host that has no entry yet.
    pub fn insert(&mut self, key: HostKey, record: HostRecord) -> Slot {
        let slot = self.free.pop().unwrap_or(self.slots.len());
        let host = Host {
            key: key.clone(),
            record,
            head: None,
            leased: Vec::new(),
            asking: None,
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

    /// Puts a host where its head, clock and open requests say it belongs, or
    /// forgets it where it has neither; its record is in the store.
    pub fn settle(&mut self, slot: Slot, now: u64, connections: usize) {
        let Some(host) = self.slots.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        match host.place {
            Place::Idle => {}
            Place::Ready(rank) => {
                self.ready.remove(&(rank, slot));
            }
            Place::Due(at) => {
                self.due.remove(&(at, slot));
            }
            Place::Parked(at) => {
                self.parked.remove(&(at, slot));
            }
        }
        host.place = Place::Idle;
        let Some(head) = &host.head else {
            if host.leased.is_empty() {
                self.by_key.remove(&host.key);
                if let Some(place) = self.slots.get_mut(slot) {
                    *place = None;
                }
                self.free.push(slot);
            }
            return;
        };
        if host.leased.len() >= connections {
            return;
        }
        let parked = host.record.parked_until.filter(|until| *until > now);
        host.place = if let Some(until) = parked {
            self.parked.insert((until, slot));
            Place::Parked(until)
        } else if host.record.due > now {
            self.due.insert((host.record.due, slot));
            Place::Due(host.record.due)
        } else {
            self.ready.insert((head.rank, slot));
            Place::Ready(head.rank)
        };
    }

    /// Hosts whose time has come by `now`.
    pub fn due_by(&self, now: u64) -> Vec<Slot> {
        let until = (now, Slot::MAX);
        let due = self.due.range(..=until);
        let parked = self.parked.range(..=until);
        due.chain(parked).map(|(_, slot)| *slot).collect()
    }

    /// The host to ask next.
    pub fn best(&self) -> Option<Slot> {
        self.ready.first().map(|(_, slot)| *slot)
    }

    /// When the next host that is not parked may be asked.
    pub fn next_due(&self) -> Option<u64> {
        self.due.first().map(|(at, _)| *at)
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

    pub fn parked(&self) -> usize {
        self.parked.len()
    }

    pub fn ready(&self) -> usize {
        self.ready.len()
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

    #[test]
    fn ready_hosts_by_rank_others_by_time() {
        let mut s = Schedule::default();
        let worse = add(&mut s, "a", 0, head(5.0, 1));
        let better = add(&mut s, "b", 100, head(2.0, 2));
        let later = add(&mut s, "c", 150, head(1.0, 3));
        assert_eq!(s.best(), Some(better));
        assert_eq!(s.next_due(), Some(150));
        assert!(s.due_by(149).is_empty());
        assert_eq!(s.due_by(150), [later]);
        s.settle(later, 150, 1);
        assert_eq!(s.best(), Some(later));
        s.host_mut(later).unwrap().leased.push(vec![1]);
        s.settle(later, 150, 1);
        assert_eq!(s.best(), Some(better));
        s.host_mut(better).unwrap().record.parked_until = Some(1_000);
        s.settle(better, 150, 1);
        assert_eq!(s.best(), Some(worse));
        assert_eq!((s.parked(), s.ready(), s.active()), (1, 1, 3));
        assert_eq!(s.due_by(1_000), [better]);
    }

    #[test]
    fn a_host_with_nothing_left_is_forgotten_and_its_slot_reused() {
        let mut s = Schedule::default();
        let slot = add(&mut s, "a", 0, head(5.0, 1));
        s.host_mut(slot).unwrap().head = None;
        s.settle(slot, 100, 1);
        assert_eq!(s.active(), 0);
        assert!(s.best().is_none() && s.host(slot).is_none());
        assert_eq!(add(&mut s, "b", 0, head(1.0, 1)), slot);
        assert_eq!(s.slot(&HostKey::from_stored("a")), None);
    }
}
