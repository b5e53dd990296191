//! What a session knows of the others.

use std::collections::BTreeMap;

use super::super::Revision;
use super::super::record::{Node, SessionId, SessionRecord, State};

/// Another session, as far as the last look at the keys showed it.
#[derive(Debug)]
pub(super) struct Other {
    pub(super) record: SessionRecord,
    pub(super) revision: Revision,
    /// Since when its key has not changed, as far as is known.
    pub(super) since: u64,
    /// When it was seen that it had renewed its term; 0 for never.
    pub(super) renewed: u64,
    /// When it was first seen.
    first: u64,
    /// When the look was asked for that has shown it last.
    seen: u64,
    /// Since when it is known to have nothing to do.
    pub(super) idle: Option<u64>,
}

/// All other sessions, and those that were named and are not there.
#[derive(Debug, Default)]
pub(super) struct Others {
    known: BTreeMap<SessionId, Other>,
    /// Since when these are missing.
    missing: BTreeMap<SessionId, u64>,
}

impl Others {
    /// Takes note of the key of a session, as the look that was asked for at `sent` shows it.
    /// Whoever was away for longer than a term may not know yet what there is to do.
    pub(super) fn see(
        &mut self,
        (now, sent, term): (u64, u64, u64),
        id: SessionId,
        record: SessionRecord,
        revision: Revision,
    ) {
        self.missing.remove(&id);
        match self.known.get_mut(&id) {
            Some(other) if other.revision == revision => other.seen = sent,
            Some(other) => {
                let was_away = now.saturating_sub(other.since) > term;
                let before = other.idle.filter(|_| !was_away);
                other.idle = record.idle.then(|| before.unwrap_or(now));
                if record.beat > other.record.beat {
                    other.renewed = now;
                }
                other.record = record;
                other.revision = revision;
                other.since = now;
                other.seen = sent;
            }
            None => {
                let other = Other {
                    idle: record.idle.then_some(now),
                    record,
                    revision,
                    since: now,
                    renewed: 0,
                    first: now,
                    seen: sent,
                };
                self.known.insert(id, other);
            }
        }
    }

    /// Forgets sessions whose keys that look has not shown.
    pub(super) fn forget_unseen(&mut self, sent: u64) {
        self.known.retain(|_, other| other.seen == sent);
    }

    /// Takes note that a session without a key was named as an owner.
    pub(super) fn miss(&mut self, id: &SessionId, now: u64) {
        if !self.known.contains_key(id) {
            self.missing.entry(id.clone()).or_insert(now);
        }
    }

    /// Forgets how long nothing was heard of them, and how long they have had nothing to do.
    pub(super) fn excuse(&mut self, now: u64) {
        for other in self.known.values_mut() {
            other.since = now;
            other.idle = other.idle.map(|_| now);
        }
        for since in self.missing.values_mut() {
            *since = now;
        }
    }

    /// Takes note that a session has been fenced by this one.
    pub(super) fn fenced(&mut self, id: &SessionId, revision: Revision) {
        if let Some(other) = self.known.get_mut(id) {
            other.record.state = State::Fenced;
            other.revision = revision;
        }
    }

    /// Takes note that one was changed just now by somebody else.
    pub(super) fn stirs(&mut self, id: &SessionId, now: u64) {
        if let Some(other) = self.known.get_mut(id) {
            other.since = now;
        }
    }

    pub(super) fn get(&self, id: &SessionId) -> Option<&Other> {
        self.known.get(id)
    }

    /// Their keys.
    pub(super) fn records(&self) -> impl Iterator<Item = (&SessionId, &SessionRecord)> {
        self.known.iter().map(|(id, other)| (id, &other.record))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&SessionId, &Other)> {
        self.known.iter()
    }

    /// Whether a session can have no cells: it was ended, or it has been missing that long.
    pub(super) fn is_over(&self, id: &SessionId, now: u64, patience: u64) -> bool {
        match self.known.get(id) {
            Some(other) => !other.record.state.is_live(),
            None => self
                .missing
                .get(id)
                .is_some_and(|since| now.saturating_sub(*since) >= patience),
        }
    }

    /// Nodes that take cells, with their weights: those that have lived so long.
    pub(super) fn takers(&self, now: u64, settle: u64) -> impl Iterator<Item = (&Node, f64)> {
        let takers = self.known.iter().filter(move |(_, other)| {
            other.record.state == State::Live && now.saturating_sub(other.first) >= settle
        });
        takers.map(|(id, other)| (&id.node, other.record.weight))
    }
}
