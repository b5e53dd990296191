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
    /// When a renewal of its term was last seen; 0 for never.
    pub(super) renewed: u64,
    /// When it was first seen.
    first: u64,
    /// When the look that last showed it was asked for.
    seen: u64,
    /// Since when it has been known to have nothing to do.
    pub(super) idle: Option<u64>,
}

/// All other sessions, and those that are named as owners but have no key.
#[derive(Debug, Default)]
pub(super) struct Others {
    known: BTreeMap<SessionId, Other>,
    /// Since when these are missing.
    missing: BTreeMap<SessionId, u64>,
}

impl Others {
    /// Notes the key of a session, as shown by the look that was asked for at `sent`. A session
    /// that was away for longer than a term may not know yet what there is to do.
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

    /// Forgets sessions whose keys the look did not show.
    pub(super) fn forget_unseen(&mut self, sent: u64) {
        self.known.retain(|_, other| other.seen == sent);
    }

    /// Notes that a session without a key was named as an owner.
    pub(super) fn miss(&mut self, id: &SessionId, now: u64) {
        if !self.known.contains_key(id) {
            self.missing.entry(id.clone()).or_insert(now);
        }
    }

    /// Forgets how long they have been silent and idle.
    pub(super) fn excuse(&mut self, now: u64) {
        for other in self.known.values_mut() {
            other.since = now;
            other.idle = other.idle.map(|_| now);
        }
        for since in self.missing.values_mut() {
            *since = now;
        }
    }

    /// Notes that this session has fenced another.
    pub(super) fn fenced(&mut self, id: &SessionId, revision: Revision) {
        if let Some(other) = self.known.get_mut(id) {
            other.record.state = State::Fenced;
            other.revision = revision;
        }
    }

    /// Notes that the key of a session has just changed, but not by a write of this one.
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

    /// Whether a session can have no cells: it was ended, or has been missing for that long.
    pub(super) fn is_over(&self, id: &SessionId, now: u64, patience: u64) -> bool {
        match self.known.get(id) {
            Some(other) => !other.record.state.is_live(),
            None => self
                .missing
                .get(id)
                .is_some_and(|since| now.saturating_sub(*since) >= patience),
        }
    }

    /// Nodes that take cells, with their weights: those that have been alive for at least `settle`.
    pub(super) fn takers(&self, now: u64, settle: u64) -> impl Iterator<Item = (&Node, f64)> {
        let takers = self.known.iter().filter(move |(_, other)| {
            other.record.state == State::Live && now.saturating_sub(other.first) >= settle
        });
        takers.map(|(id, other)| (&id.node, other.record.weight))
    }
}
