//! Groups of hosts that share a machine or an owner, and their shared clocks.
//!
//! A thousand hosts may share one IP address: even if the requests to each are polite,
//! the load of the machine is not. So the hosts of one address, and optionally those of
//! one registered domain, form a group with its own clock. Requests to a group are
//! separated by its delay, which follows the duration of its answers.
//!
//! Ten thousand unrelated sites may share an address, so the wish of one host binds only
//! that host. A group backs off by a separate rule: when a quarter of its hosts, and at
//! least three, fail one after the other before any of them answers. Only hosts that have
//! answered at that address count, because the owner of a name can point it at any
//! machine. The pauses double with each further failing host, up to [`MAX_PAUSE`], and
//! any answer ends them.
//!
//! A host that is next while its group's clock runs is *held* at the group, by rank; the
//! group releases the best one when it is due. So a group of many hosts costs no more
//! than its requests. This module reads no store and no clock.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::head::Slot;
use crate::address::HostKey;
use crate::clock::millis;
use crate::keys::Rank;
use crate::page::{Outcome, Reason};
use crate::policy::Policy;
use crate::record::{GroupKey, GroupRecord, HostRecord};

/// The longest back-off of a group, in milliseconds: some minutes relieve a machine, and
/// cost little if the machine was not the cause.
const MAX_PAUSE: u64 = 10 * 60 * 1_000;

/// Fewest hosts in a row that must fail before a group backs off.
const MIN_FAILING: usize = 3;

/// In addition, at least one of this many of the hosts that have answered must fail.
const FAILING_SHARE: usize = 4;

/// The evidence of an answer, or of its absence, about the machine of a host.
#[derive(Debug, Clone, Copy)]
pub enum News {
    /// It answered within this time.
    Answered(Duration),
    /// It is overloaded or unreachable.
    Troubled,
    /// No evidence.
    None,
}

impl News {
    /// The evidence of an outcome.
    pub fn of(outcome: &Outcome, elapsed: Duration) -> Self {
        match outcome {
            Outcome::Retry { reason, .. } if is_trouble(*reason) => Self::Troubled,
            // In the last case no request was sent.
            Outcome::Retry { .. }
            | Outcome::Drop {
                reason: Reason::PrivateAddress,
            } => Self::None,
            _ => Self::Answered(elapsed),
        }
    }
}

/// Whether the machine may be the cause of a failure.
pub fn is_trouble(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Overloaded | Reason::Connection | Reason::Timeout
    )
}

/// The change of a group's row of failing hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failing {
    /// Unchanged.
    Same,
    /// One more host.
    More,
    /// Reset to one host: the earlier failures were long ago.
    Anew,
    /// Emptied.
    Cleared,
}

/// The effect of an answer on a group, to be applied once it is committed.
#[derive(Debug)]
pub struct Booked {
    pub key: GroupKey,
    pub record: GroupRecord,
    pub failing: Failing,
}

impl Policy {
    /// The least delay of a group; 0 if such groups are switched off.
    pub(crate) fn group_delay(&self, key: &GroupKey) -> u64 {
        match key {
            GroupKey::Address(_) => self.address_delay,
            GroupKey::Domain(_) => self.domain_delay,
        }
    }

    /// The groups of a host.
    pub(crate) fn groups_of(&self, host: &HostKey, record: &HostRecord) -> Vec<GroupKey> {
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

    /// Whether the IP address of a host must be resolved before a request: its requests
    /// go only there.
    pub(crate) fn must_locate(&self, record: &HostRecord, now: u64) -> bool {
        let known = record.located.as_ref();
        self.address_delay > 0
            && known.is_none_or(|l| now >= l.at.saturating_add(self.address_holds(record)))
    }

    /// The latest time at which any group is due, in milliseconds from now.
    pub(crate) fn longest_group_pause(&self) -> u64 {
        let delays = self
            .max_delay
            .max(self.address_delay)
            .max(self.domain_delay);
        self.max_back_off.min(MAX_PAUSE).max(delays)
    }

    /// Whether a stored clock is plausible: older versions set it to the pause that one
    /// host asked for, which does not apply to its neighbours.
    pub(crate) fn is_sound(&self, stored: &GroupRecord, now: u64) -> bool {
        let latest = now.saturating_add(self.longest_group_pause());
        stored.due <= latest
    }

    /// Books the answer of one host at its group. `proven` is whether the host has
    /// answered at that address before.
    pub(crate) fn book_group(
        &self,
        key: &GroupKey,
        group: &Group,
        (host, proven): (&HostKey, bool),
        news: News,
        now: u64,
    ) -> Booked {
        let mut record = group.record.clone();
        let failing = match news {
            News::None => Failing::Same,
            News::Answered(elapsed) => {
                let least = self.group_delay(key);
                // One slow host does not delay all others; a slow machine does so after a
                // few answers.
                let most = record.delay.max(least).max(1).saturating_mul(2);
                record.delay = millis(elapsed).min(self.max_delay).min(most).max(least);
                if record.failures > 0 {
                    // The last request was sent before now.
                    record.due = record.due.min(now.saturating_add(record.delay));
                }
                (record.troubled, record.failures, record.parked) = (None, 0, false);
                Failing::Cleared
            }
            News::Troubled if !proven || group.failing.contains(host) => Failing::Same,
            News::Troubled => {
                let over = now > record.due.saturating_add(MAX_PAUSE);
                let before = if over { 0 } else { group.failing.len() };
                if before == 0 {
                    record.troubled = Some(host.clone());
                }
                if over {
                    record.failures = 0;
                }
                let least = group.proven.div_ceil(FAILING_SHARE).max(MIN_FAILING);
                if before + 1 >= least {
                    record.failures = record.failures.saturating_add(1);
                    let pause = self.pause(record.failures).min(MAX_PAUSE);
                    record.due = record.due.max(now.saturating_add(pause));
                    record.parked = record.failures > self.retries;
                }
                if over { Failing::Anew } else { Failing::More }
            }
        };
        Booked {
            key: key.clone(),
            record,
            failing,
        }
    }
}

/// The clock of a group, and the hosts that wait for it.
#[derive(Debug, Default)]
pub struct Group {
    pub record: GroupRecord,
    /// Hosts in memory that belong to it.
    pub members: usize,
    /// Members that have answered at that address.
    pub proven: usize,
    /// Proven hosts that failed since the last answer of the group.
    pub failing: BTreeSet<HostKey>,
    /// Its hosts that are ready.
    pub ready: usize,
    /// Its hosts that are held, best first.
    pub held: BTreeSet<(Rank, Slot)>,
    /// The planned wake-up, if any.
    pub wake: Option<u64>,
}

/// All groups with hosts in memory.
#[derive(Debug, Default)]
pub struct Groups(HashMap<GroupKey, Group>);

impl Groups {
    pub fn get(&self, key: &GroupKey) -> Option<&Group> {
        self.0.get(key)
    }

    pub fn get_mut(&mut self, key: &GroupKey) -> Option<&mut Group> {
        self.0.get_mut(key)
    }

    /// Adds a host; `record` is the stored clock, used if the group is not in memory.
    pub fn join(&mut self, key: &GroupKey, proven: bool, record: GroupRecord) {
        let group = self.0.entry(key.clone()).or_insert_with(|| Group {
            record,
            ..Group::default()
        });
        group.members += 1;
        group.proven += usize::from(proven);
    }

    /// Removes a group without hosts whose clock has run out. Returns its planned
    /// wake-up.
    pub fn forget(&mut self, key: &GroupKey) -> Option<u64> {
        self.0.remove(key).and_then(|group| group.wake)
    }
}
