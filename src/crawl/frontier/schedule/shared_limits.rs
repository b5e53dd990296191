//! Hosts that share a machine or an owner, and the clock they share.
//!
//! A thousand hosts may stand on one IP address; each asked politely, the machine
//! is not. So hosts of one address, and with an option those of one registered
//! domain, form a group with a clock of its own: between two requests to a group
//! lies its delay, which grows towards what its answers take.
//!
//! Ten thousand sites of strangers may share an address, so what one host says binds
//! only that host. A group backs off by a rule of its own: when a quarter of its hosts, and
//! at least three, fail one after the other before any of them answers. Only hosts that have
//! answered there before count, because the owner of a name can point it at any
//! machine. The pauses double with each further host that fails, up to
//! [`MAX_PAUSE`], and any answer ends them.
//!
//! A host whose turn it is while its group's clock runs is *held* at the group,
//! by rank; the group releases the best one when it is due. So a group of many
//! hosts costs no more than its requests do. This module reads no store and no
//! clock.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use super::head::Slot;
use crate::address::HostKey;
use crate::clock::millis;
use crate::crawl::frontier::keys::Rank;
use crate::crawl::frontier::policy::Policy;
use crate::crawl::frontier::record::{GroupKey, GroupRecord, HostRecord};
use crate::page::{Outcome, Reason};

/// The longest pause of a group that backs off, in milliseconds: some minutes are a
/// rest for a machine, and cost little where it was not the machine.
const MAX_PAUSE: u64 = 10 * 60 * 1_000;

/// Hosts in a row that must fail before a group backs off, at least.
const MIN_FAILING: usize = 3;

/// And at least one of so many of those that have answered.
const FAILING_SHARE: usize = 4;

/// What an answer, or its absence, says about the machine behind a host.
#[derive(Debug, Clone, Copy)]
pub enum News {
    /// It answered, and took so long.
    Answered(Duration),
    /// It is overloaded or not there.
    Troubled,
    /// Nothing.
    None,
}

impl News {
    /// What an outcome says.
    pub fn of(outcome: &Outcome, elapsed: Duration) -> Self {
        match outcome {
            Outcome::Retry { reason, .. } if is_trouble(*reason) => Self::Troubled,
            // Of the last nothing was asked.
            Outcome::Retry { .. }
            | Outcome::Drop {
                reason: Reason::PrivateAddress,
            } => Self::None,
            _ => Self::Answered(elapsed),
        }
    }
}

/// Whether a failure may be that of the machine.
pub fn is_trouble(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Overloaded | Reason::Connection | Reason::Timeout
    )
}

/// What becomes of the hosts of a group that failed in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failing {
    /// They stay.
    Same,
    /// There is one more.
    More,
    /// There is one: those before it failed long ago.
    Anew,
    /// There is none any more.
    Nobody,
}

/// What an answer makes of a group, to be set once it is committed.
#[derive(Debug)]
pub struct Booked {
    pub key: GroupKey,
    pub record: GroupRecord,
    pub failing: Failing,
}

impl Policy {
    /// The least pause of a group; 0 where such groups are not kept.
    pub(in crate::crawl::frontier) fn group_delay(&self, key: &GroupKey) -> u64 {
        match key {
            GroupKey::Address(_) => self.address_delay,
            GroupKey::Domain(_) => self.domain_delay,
        }
    }

    /// The groups of a host.
    pub(in crate::crawl::frontier) fn groups_of(
        &self,
        host: &HostKey,
        record: &HostRecord,
    ) -> Vec<GroupKey> {
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

    /// Whether the address of a host must be found out before it is asked: its requests
    /// go there and nowhere else.
    pub(in crate::crawl::frontier) fn must_locate(&self, record: &HostRecord, now: u64) -> bool {
        let known = record.located.as_ref();
        self.address_delay > 0
            && known.is_none_or(|l| now >= l.at.saturating_add(self.address_holds(record)))
    }

    /// No group is due later than so many milliseconds from now.
    pub(in crate::crawl::frontier) fn longest_group_pause(&self) -> u64 {
        let delays = self
            .max_delay
            .max(self.address_delay)
            .max(self.domain_delay);
        self.max_back_off.min(MAX_PAUSE).max(delays)
    }

    /// What is left of a clock that was stored: older versions set it to whatever a host
    /// asked for, which is nothing for its neighbours.
    pub(in crate::crawl::frontier) fn is_sound(&self, stored: &GroupRecord, now: u64) -> bool {
        let latest = now.saturating_add(self.longest_group_pause());
        stored.due <= latest
    }

    /// What one host's answer says about its group. `proven` is whether it has answered
    /// there before.
    pub(in crate::crawl::frontier) fn book_group(
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
                // One slow host does not hold up all others; a slow machine does so in a
                // few answers.
                let most = record.delay.max(least).max(1).saturating_mul(2);
                record.delay = millis(elapsed).min(self.max_delay).min(most).max(least);
                if record.failures > 0 {
                    // The last request was sent before now.
                    record.due = record.due.min(now.saturating_add(record.delay));
                }
                (record.troubled, record.failures, record.parked) = (None, 0, false);
                Failing::Nobody
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
    /// Those of them that have answered there.
    pub proven: usize,
    /// Those that had answered there and failed since any of the group did.
    pub failing: BTreeSet<HostKey>,
    /// Hosts of it that are ready.
    pub ready: usize,
    /// Hosts that are held, best first.
    pub held: BTreeSet<(Rank, Slot)>,
    /// When it is looked at again, if that is planned.
    pub wake: Option<u64>,
}

/// All groups that have hosts in memory.
#[derive(Debug, Default)]
pub struct Groups(HashMap<GroupKey, Group>);

impl Groups {
    pub fn get(&self, key: &GroupKey) -> Option<&Group> {
        self.0.get(key)
    }

    pub fn get_mut(&mut self, key: &GroupKey) -> Option<&mut Group> {
        self.0.get_mut(key)
    }

    /// Counts a host in; `record` is what the store knows, used where the group
    /// is not in memory.
    pub fn join(&mut self, key: &GroupKey, proven: bool, record: GroupRecord) {
        let group = self.0.entry(key.clone()).or_insert_with(|| Group {
            record,
            ..Group::default()
        });
        group.members += 1;
        group.proven += usize::from(proven);
    }

    /// Forgets a group whose hosts are all gone and whose clock has run out.
    /// Returns when it was to be looked at.
    pub fn forget(&mut self, key: &GroupKey) -> Option<u64> {
        self.0.remove(key).and_then(|group| group.wake)
    }
}
