//! Hosts that share a machine or an owner, and the clock they share.
//!
//! A thousand hosts may stand on one IP address; each asked politely, the machine
//! is not. So hosts of one address, and with an option those of one registered
//! domain, form a group with a clock of its own: between two requests to a group
//! lies its delay, and never less than its last answer took. One host that wants
//! to be left alone says nothing of its neighbours; when a second one of the same
//! group does before any of them answers, the whole group backs off.
//!
//! A host whose turn it is while its group's clock runs is *held* at the group,
//! by rank; the group releases the best one when it is due. So a group of many
//! hosts costs no more than its requests do. This module reads no store and no
//! clock.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::clock::{Policy, millis};
use super::keys::Rank;
use super::record::HostRecord;
use super::schedule::Slot;
use crate::address::HostKey;
use crate::page::{Outcome, Reason};

/// What the hosts of a group share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum GroupKey {
    /// The address their names resolve to.
    Address(IpAddr),
    /// The domain they were registered under.
    Domain(Arc<str>),
}

impl fmt::Display for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "address {address}"),
            Self::Domain(domain) => write!(f, "domain {domain}"),
        }
    }
}

/// A group's clock. In the store while the group backs off.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupRecord {
    /// No request to any host of the group before this time, in milliseconds
    /// since 1970.
    pub due: u64,
    /// Pause between requests, in milliseconds.
    pub delay: u64,
    /// The host that failed last, where none has answered since.
    pub troubled: Option<HostKey>,
    /// Failures of other hosts than the first one, where none has answered since.
    pub failures: u32,
    /// Given up until it is due: the crawl does not wait for it.
    pub parked: bool,
}

/// What an answer, or its absence, says about the machine behind a host.
#[derive(Debug, Clone, Copy)]
pub(super) enum News {
    /// It answered, and took so long.
    Answered(Duration),
    /// It is overloaded or not there, and may have said for how long.
    Troubled(Option<Duration>),
    /// Nothing.
    None,
}

impl News {
    /// What an outcome says.
    pub fn of(outcome: &Outcome, elapsed: Duration) -> Self {
        match outcome {
            Outcome::Retry {
                reason: Reason::Overloaded | Reason::Connection | Reason::Timeout,
                retry_after,
                ..
            } => Self::Troubled(*retry_after),
            Outcome::Retry { .. } => Self::None,
            _ => Self::Answered(elapsed),
        }
    }
}

impl Policy {
    /// The least pause of a group; 0 where such groups are not kept.
    pub(super) fn group_delay(&self, key: &GroupKey) -> u64 {
        match key {
            GroupKey::Address(_) => self.address_delay,
            GroupKey::Domain(_) => self.domain_delay,
        }
    }

    /// The groups of a host.
    pub(super) fn groups_of(&self, host: &HostKey, record: &HostRecord) -> Vec<GroupKey> {
        let mut groups = Vec::new();
        if self.address_delay > 0 {
            let address = record.located.as_ref().and_then(|l| l.address);
            groups.extend(address.map(GroupKey::Address));
        }
        if self.domain_delay > 0 {
            groups.push(GroupKey::Domain(host.registered_domain().into()));
        }
        groups
    }

    /// Whether the address of a host must be found out before it is asked. It is
    /// found anew as often as its robots.txt is read.
    pub(super) fn must_locate(&self, record: &HostRecord, now: u64) -> bool {
        let known = record.located.as_ref();
        self.address_delay > 0
            && known.is_none_or(|l| now >= l.at.saturating_add(self.holds(record)))
    }

    /// Books what one host's answer says about its group.
    pub(super) fn book(
        &self,
        key: &GroupKey,
        group: &mut GroupRecord,
        host: &HostKey,
        news: News,
        now: u64,
    ) {
        match news {
            News::None => {}
            News::Answered(elapsed) => {
                group.delay = millis(elapsed)
                    .min(self.max_delay)
                    .max(self.group_delay(key));
                (group.troubled, group.failures, group.parked) = (None, 0, false);
            }
            News::Troubled(retry_after) => match &group.troubled {
                Some(first) if first != host => {
                    group.failures = group.failures.saturating_add(1);
                    let pause = retry_after.map_or_else(|| self.pause(group.failures), millis);
                    group.due = group.due.max(now.saturating_add(pause));
                    group.parked = group.failures > self.retries || pause > self.max_back_off;
                }
                _ => group.troubled = Some(host.clone()),
            },
        }
    }
}

/// The clock of a group, and the hosts that wait for it.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub record: GroupRecord,
    /// Hosts in memory that belong to it.
    pub members: usize,
    /// Hosts of it that are ready.
    pub ready: usize,
    /// Hosts that are held, best first.
    pub held: BTreeSet<(Rank, Slot)>,
    /// When it is looked at again, if that is planned.
    pub wake: Option<u64>,
}

/// All groups that have hosts in memory.
#[derive(Debug, Default)]
pub(super) struct Groups(HashMap<GroupKey, Group>);

impl Groups {
    pub fn get(&self, key: &GroupKey) -> Option<&Group> {
        self.0.get(key)
    }

    pub fn get_mut(&mut self, key: &GroupKey) -> Option<&mut Group> {
        self.0.get_mut(key)
    }

    /// Counts a host in; `record` is what the store knows, used where the group
    /// is not in memory.
    pub fn join(&mut self, key: &GroupKey, record: GroupRecord) {
        let group = self.0.entry(key.clone()).or_insert_with(|| Group {
            record,
            ..Group::default()
        });
        group.members += 1;
    }

    /// Forgets a group whose hosts are all gone and whose clock has run out.
    /// Returns when it was to be looked at.
    pub fn forget(&mut self, key: &GroupKey) -> Option<u64> {
        self.0.remove(key).and_then(|group| group.wake)
    }
}
