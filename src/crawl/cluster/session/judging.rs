//! What a session makes of the others: it looks at their keys, and ends those of which
//! nothing was heard for too long.

use std::collections::BTreeMap;

use super::super::Revision;
use super::super::record::{Key, SessionId, SessionRecord, State, Value};
use super::{Call, CallId, Over, Phase, Purpose, Session};

impl Session {
    /// Takes note of all keys.
    pub(super) fn see(&mut self, now: u64, sent: u64, keys: Vec<(Key, Value, Revision)>) {
        if self.looked.is_some_and(|looked| sent < looked) {
            return;
        }
        self.looked = Some(sent);
        self.table.clear();
        let mut sessions = BTreeMap::new();
        for (key, value, revision) in keys {
            match (key, value) {
                (Key::Session(id), Value::Session(record)) => {
                    sessions.insert(id, (record, revision));
                }
                (Key::Cell(cell), Value::Cell(record)) => {
                    self.table.insert(cell, (record, revision));
                }
                (Key::Job, Value::Job(record)) => self.job = Some((record, revision)),
                (Key::Permits, Value::Permits(record)) => {
                    self.permits.see(&self.id, record, revision);
                }
                _ => {}
            }
        }
        if self.phase == Phase::Live {
            sessions.remove(&self.id);
        }
        self.refuse_a_second(&sessions);
        self.others.see(now, sessions);
        self.see_job(now);
        for (record, _) in self.table.values() {
            if let Some(owner) = record.owner.as_ref().filter(|owner| **owner != self.id) {
                self.others.miss(owner, now);
            }
        }
    }

    /// Refuses to begin where another session of its node shows signs of life.
    fn refuse_a_second(&mut self, seen: &BTreeMap<SessionId, (SessionRecord, Revision)>) {
        let is_alive = |(id, (record, _)): (&SessionId, &(SessionRecord, Revision))| {
            let before = self.others.get(id);
            id.node == self.id.node
                && record.state.is_live()
                && record.secret != self.setting.secret
                && before.is_some_and(|other| other.record.beat < record.beat)
        };
        if self.phase == Phase::Beginning && seen.iter().any(is_alive) {
            self.end_as(Over::NameTaken);
        }
    }

    /// Ends sessions of which nothing was heard for too long.
    pub(super) fn fence(&mut self, now: u64, calls: &mut Vec<(CallId, Call)>) {
        let patience = self.setting.terms.patience;
        let is_dead = |since: u64| now.saturating_sub(since) >= patience;
        let dead = self
            .others
            .iter()
            .filter(|(_, other)| other.record.state.is_live() && is_dead(other.since));
        let dead = dead.map(|(id, other)| (id.clone(), other.record.clone(), other.revision));
        for (id, record, revision) in dead.collect::<Vec<_>>() {
            self.fence_one(now, id, record, revision, calls);
        }
    }

    pub(super) fn fence_one(
        &mut self,
        now: u64,
        id: SessionId,
        mut record: SessionRecord,
        revision: Revision,
        calls: &mut Vec<(CallId, Call)>,
    ) {
        let purpose = Purpose::Fence(id);
        if self.is_pending(|other| *other == purpose) {
            return;
        }
        record.state = State::Fenced;
        let Purpose::Fence(id) = &purpose else {
            return;
        };
        let key = Key::Session(id.clone());
        let call = Call::Swap(key, Value::Session(record), Some(revision));
        self.call(now, purpose, call, calls);
    }
}
