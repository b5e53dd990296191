//! The permits of a session: see [`super::super::permits`].

use super::super::Revision;
use super::super::permits::Step;
use super::super::record::{Key, PermitsRecord, Value};
use super::{Call, CallId, Purpose, Session};

impl Session {
    /// Takes permits or gives them back, as the node has asked.
    pub(super) fn permit(&mut self, now: u64, calls: &mut Vec<(CallId, Call)>) {
        let is_pending =
            |purpose: &Purpose| matches!(purpose, Purpose::ReadPermits | Purpose::Permits(_));
        if now < self.permits_due || self.is_pending(is_pending) {
            return;
        }
        match self.permits.step(&self.id, self.others.records()) {
            Some(Step::Read) => {
                let call = Call::Get(Key::Permits);
                self.call(now, Purpose::ReadPermits, call, calls);
            }
            Some(Step::Swap(record, was)) => {
                let value = Value::Permits(record.clone());
                let call = Call::Swap(Key::Permits, value, was);
                self.call(now, Purpose::Permits(record), call, calls);
            }
            None => {}
        }
    }

    pub(super) fn has_read_permits(&mut self, found: Option<(Value, Revision)>) {
        let (record, revision) = match found {
            Some((Value::Permits(record), revision)) => (record, Some(revision)),
            _ => (PermitsRecord::default(), None),
        };
        self.permits.has_read(&self.id, record, revision);
    }
}
