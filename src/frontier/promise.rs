//! Promises to hosts that other machines must keep: a pause that a host asked for, or that its
//! failures caused.
//!
//! A promise is in the host's record, and so in the next checkpoint of its cell. Until then only
//! this machine knows it, so it is also written to the log of its cell, which the next owner of the
//! cell reads. Another promise never shortens it.

use super::keys;
use super::parts::Frontier;
use super::record::{HostRecord, Promise};
use super::store::StoreError;
use crate::address::HostKey;

impl Frontier {
    /// Makes the promise to a host, which was just committed, survive this process, and this
    /// machine if there are others.
    pub(super) fn promise(&mut self, host: &HostKey) -> Result<(), StoreError> {
        if let Some(record) = self.ledger.read::<HostRecord>(&keys::host(host))? {
            self.process.promised.push(Promise::of(host, &record));
        }
        self.ledger.flush_promise()
    }

    /// Keeps a promise that was made to a host of this cell, here or on another machine.
    pub(super) fn receive_promise(
        &mut self,
        promise: &Promise,
        now: u64,
    ) -> Result<(), StoreError> {
        let host = HostKey::from_stored(&promise.host);
        if self.ledger.home().elsewhere(&host).is_some() {
            tracing::warn!(%host, "a promise to a host of another cell is left out");
            return Ok(());
        }
        let slot = self.activate(&host)?;
        let mut record = self.record_of(slot);
        if promise.book(&mut record) {
            self.commit_host(&host, &record)?;
            if let Some(host) = self.schedule.host_mut(slot) {
                host.record = record;
            }
            self.ledger.flush_promise()?;
        }
        self.refresh(slot, now)
    }
}
