//! A session's own key: creating, renewing, reading when in doubt, ending.

use super::super::Revision;
use super::super::record::{Key, SessionRecord, State, Value};
use super::{Call, News, Over, Phase, Purpose, Session};

impl Session {
    /// Creates its key, once no other session of its node is alive.
    pub(super) fn begin(&mut self, now: u64) {
        let is_beginning =
            |purpose: &Purpose| matches!(purpose, Purpose::Begin | Purpose::Fence(_));
        if self.looked.is_none() || self.is_pending(is_beginning) {
            return;
        }
        let of_node = self.others.iter().filter(|(id, _)| id.node == self.id.node);
        let mut last = 0;
        let mut waits = false;
        let mut dead = None;
        for (id, other) in of_node {
            last = last.max(id.number);
            if other.record.secret == self.setting.secret {
                // Its own key, created by a call whose answer was lost. It is read first, as after
                // a lapse.
                self.id = id.clone();
                self.phase = Phase::Live;
                self.revision = None;
                self.lapsed = true;
                self.due = now;
                return;
            }
            if other.record.state.is_live() {
                waits = true;
                if now.saturating_sub(other.since) >= self.setting.terms.patience {
                    dead = Some((id.clone(), other.record.clone(), other.revision));
                }
            }
        }
        if let Some((id, record, revision)) = dead {
            self.fence_one(now, id, record, revision);
        } else if !waits {
            self.id.number = last + 1;
            self.beat += 1;
            let record = self.own_record(State::Live);
            let call = Call::Swap(self.own_key(), record, None);
            self.call(now, Purpose::Begin, call);
        }
    }

    /// Renews its term. If it is not sure of its key, it reads that first.
    pub(super) fn renew(&mut self, now: u64) {
        let is_pending = |purpose: &Purpose| {
            let reads = matches!(purpose, Purpose::ReadOwn { .. });
            reads
                || matches!(
                    purpose,
                    Purpose::Renew { .. } | Purpose::Begin | Purpose::End
                )
        };
        if self.phase != Phase::Live || self.is_pending(is_pending) {
            return;
        }
        if !self.has_read {
            let known = self.revision;
            let call = Call::Get(self.own_key());
            self.call(now, Purpose::ReadOwn { known }, call);
            return;
        }
        self.beat += 1;
        let checkpoint = self.made;
        let state = if self.is_leaving {
            State::Leaving
        } else {
            State::Live
        };
        let most = self.claim.most;
        self.published.replace(self.revision, most);
        if let Some(claims) = &mut self.claims {
            claims.own = claims.own.with(most, u64::min);
        }
        let call = Call::Swap(self.own_key(), self.own_record(state), self.revision);
        self.call(now, Purpose::Renew { checkpoint }, call);
    }

    pub(super) fn has_renewed(
        &mut self,
        now: u64,
        (sent, tenure): (u64, u64),
        checkpoint: u64,
        revision: Revision,
    ) {
        self.is_stirred |= self.lapsed || self.committed < checkpoint;
        self.committed = self.committed.max(checkpoint);
        if tenure != self.tenure {
            return;
        }
        self.revision = Some(revision);
        self.before.clear();
        self.renewed = self.renewed.max(sent);
        if self.lapsed {
            self.lapsed = false;
            self.from = now + self.setting.terms.quiet;
            self.others.excuse(now);
            // Its cells must be confirmed before anything is sent.
            for hand in self.hands.values_mut() {
                hand.confirmed = 0;
            }
            self.due = now;
        }
    }

    pub(super) fn has_read_own(
        &mut self,
        now: u64,
        known: Option<Revision>,
        found: Option<(Value, Revision)>,
    ) {
        let Some((Value::Session(record), revision)) = found else {
            // Without a revision, its key may never have been created.
            if self.revision.is_some() || self.is_resumed {
                self.end_as(Over::Forgotten);
            } else {
                self.phase = Phase::Beginning;
            }
            return;
        };
        if record.secret != self.setting.secret && !self.before.contains(&record.secret) {
            self.end_as(Over::NameTaken);
            return;
        }
        match record.state {
            State::Fenced => self.end_as(Over::Fenced),
            State::Ended => self.end_as(Over::Left),
            State::Live | State::Leaving => {
                // The broker has forgotten what it had stored, unless this is an old answer.
                if known.is_some_and(|known| revision < known) {
                    self.lapse(now);
                }
                self.revision = Some(revision);
                self.begun = record.begun;
                self.committed = record.checkpoint;
                self.has_read = true;
                self.due = now;
            }
        }
    }

    pub(super) fn end_as(&mut self, why: Over) {
        self.phase = Phase::Over(why);
        self.tenure += 1;
        let hands = std::mem::take(&mut self.hands).into_keys();
        let kept = std::mem::take(&mut self.kept).into_keys();
        self.news.extend(hands.chain(kept).map(News::Lost));
        self.news.push(News::Over(why));
        self.calls.clear();
    }

    /// Ends its key, once it has no cells.
    pub(super) fn end(&mut self, now: u64) {
        let is_pending = |purpose: &Purpose| {
            let takes = matches!(purpose, Purpose::Take { .. });
            takes || matches!(purpose, Purpose::End | Purpose::Renew { .. })
        };
        if !self.has_read || self.is_pending(is_pending) {
            return;
        }
        self.beat += 1;
        let call = Call::Swap(self.own_key(), self.own_record(State::Ended), self.revision);
        self.call(now, Purpose::End, call);
    }

    /// Checks whether its term has lapsed.
    pub(super) fn check(&mut self, now: u64) {
        let end = self.renewed + self.setting.terms.term;
        if self.phase == Phase::Live && !self.lapsed && now >= end {
            self.lapse(now);
        }
    }

    /// Sends nothing until its key was read and renewed and the quiet time is over.
    pub(super) fn lapse(&mut self, now: u64) {
        self.tenure += 1;
        self.lapsed = true;
        self.has_read = false;
        self.claims = None;
        self.due = now;
    }

    fn own_key(&self) -> Key {
        Key::Session(self.id.clone())
    }

    fn own_record(&self, state: State) -> Value {
        Value::Session(SessionRecord {
            state,
            secret: self.setting.secret,
            beat: self.beat,
            checkpoint: self.made,
            weight: self.setting.weight,
            idle: self.is_idle,
            hands: u16::try_from(self.hands.len()).unwrap_or(u16::MAX),
            begun: self.begun,
            used: self.used,
            claim: self.claim,
            holds: self.holds.clone(),
        })
    }
}
