//! Promises to hosts that other machines have to keep: a pause that a host asked for, or that
//! its failures cost it.
//!
//! A promise is in the host's record, and so in the next checkpoint of its cell. Until then only
//! this machine knows it. So it goes into the log of its own cell as well, which whoever takes
//! the cell reads. A promise is never shortened by another.

use serde::{Deserialize, Serialize};

use super::keys;
use super::parts::Frontier;
use super::record::HostRecord;
use super::store::StoreError;
use crate::address::HostKey;

/// When a host may be asked again. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Promise {
    pub host: String,
    /// Not before.
    pub due: u64,
    /// Failures of the whole host in a row.
    pub failures: u32,
    /// Where it is given up for now.
    pub parked_until: Option<u64>,
}

impl Promise {
    fn of(host: &HostKey, record: &HostRecord) -> Self {
        Self {
            host: host.as_str().to_owned(),
            due: record.due,
            failures: record.failures,
            parked_until: record.parked_until,
        }
    }

    /// Books it. Returns whether that changes anything.
    fn book(&self, record: &mut HostRecord) -> bool {
        let before = record.clone();
        record.due = record.due.max(self.due);
        record.failures = record.failures.max(self.failures);
        record.parked_until = record.parked_until.max(self.parked_until);
        *record != before
    }
}

impl Frontier {
    /// Makes the promise to a host, as it was just committed, outlive this process, and this
    /// machine where there are others.
    pub(super) fn promise(&mut self, host: &HostKey) -> Result<(), StoreError> {
        if self.ledger.home().is_some()
            && let Some(record) = self.ledger.read::<HostRecord>(&keys::host(host))?
        {
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
        if self
            .ledger
            .home()
            .is_some_and(|home| home.elsewhere(&host).is_some())
        {
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
