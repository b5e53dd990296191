//! How a session judges the others: it looks at their keys, and ends those that have been silent
//! for too long.

use super::super::Revision;
use super::super::limits::LimitClaims;
use super::super::record::{Key, SessionId, SessionRecord, State, Value};
use super::others::Other;
use super::{Call, Over, Phase, Purpose, Session};

impl Session {
    /// Notes the values of all keys.
    pub(super) fn see(&mut self, now: u64, sent: u64, keys: Vec<(Key, Value, Revision)>) {
        if self.looked.is_some_and(|looked| sent < looked) {
            return;
        }
        self.looked = Some(sent);
        self.released.retain(|(_, at)| *at >= sent);
        self.table.clear();
        let mut is_refused = false;
        let mut own = None;
        for (key, value, revision) in keys {
            match (key, value) {
                (Key::Session(id), Value::Session(record))
                    if self.phase != Phase::Live || id != self.id =>
                {
                    is_refused |= self.is_a_second(&id, &record);
                    let term = self.setting.terms.term;
                    self.others.see((now, sent, term), id, record, revision);
                }
                // An earlier process may still change a key that does not belong to this one.
                (Key::Session(_), Value::Session(record))
                    if record.secret == self.setting.secret =>
                {
                    own = self.published.seen(revision, record.claim.most);
                }
                (Key::Cell(cell), Value::Cell(record)) => {
                    self.table.insert(cell, (record, revision));
                }
                (Key::Job, Value::Job(record)) => self.job = Some((record, revision)),
                _ => {}
            }
        }
        if is_refused {
            self.end_as(Over::NameTaken);
        }
        self.others.forget_unseen(sent);
        self.see_scene(now);
        if let Some(own) = own.filter(|_| self.phase == Phase::Live && !self.lapsed) {
            let mut claims = LimitClaims {
                own,
                ..LimitClaims::default()
            };
            let others = self.others.records().filter(|(id, _)| **id != self.id);
            others.for_each(|other| claims.add(&self.id, other));
            self.claims = Some(claims);
        }
        self.see_job(now);
        for (record, _) in self.table.values() {
            if let Some(owner) = record.owner.as_ref().filter(|owner| **owner != self.id) {
                self.others.miss(owner, now);
            }
        }
    }

    /// Whether a session that was seen prevents this one from beginning: it is of the same node and
    /// shows signs of life.
    fn is_a_second(&self, id: &SessionId, record: &SessionRecord) -> bool {
        let lives = |before: &Other| before.record.beat < record.beat;
        self.phase == Phase::Beginning
            && id.node == self.id.node
            && record.state.is_live()
            && record.secret != self.setting.secret
            && self.others.get(id).is_some_and(lives)
    }

    /// Ends sessions that have been silent for too long.
    pub(super) fn fence(&mut self, now: u64) {
        let patience = self.setting.terms.patience;
        let is_dead = |since: u64| now.saturating_sub(since) >= patience;
        let dead = self
            .others
            .iter()
            .filter(|(_, other)| other.record.state.is_live() && is_dead(other.since));
        let dead = dead.map(|(id, other)| (id.clone(), other.record.clone(), other.revision));
        for (id, record, revision) in dead.collect::<Vec<_>>() {
            self.fence_one(now, id, record, revision);
        }
    }

    pub(super) fn fence_one(
        &mut self,
        now: u64,
        id: SessionId,
        mut record: SessionRecord,
        revision: Revision,
    ) {
        let purpose = Purpose::Fence(id.clone());
        if self.is_pending(|other| *other == purpose) {
            return;
        }
        record.state = State::Fenced;
        let key = Key::Session(id);
        let call = Call::Swap(key, Value::Session(record), Some(revision));
        self.call(now, purpose, call);
    }
}
