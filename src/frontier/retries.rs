//! URLs that wait to be tried again: when the first is due, and their return to the queues.

use std::ops::ControlFlow;

use super::keys;
use super::ledger::Ledger;
use super::record::{State, UrlRecord};
use super::store::{Store, StoreError};
use super::transaction::Prepared;

/// The due time of the first waiting URL.
#[derive(Debug, Default)]
pub(super) struct Retries {
    next: Option<u64>,
}

impl Retries {
    /// When the first waiting URL is due, in milliseconds since 1970.
    pub fn next(&self) -> Option<u64> {
        self.next
    }

    /// Notes a URL that waits until `due`.
    pub fn expect(&mut self, due: u64) {
        self.next = Some(self.next.map_or(due, |first| first.min(due)));
    }

    /// Looks up in the store when the first waiting URL is due.
    pub fn look_up_next(&mut self, store: &dyn Store) -> Result<(), StoreError> {
        self.next = first(store)?.map(|(due, _)| due);
        Ok(())
    }

    /// Prepares the return of the first waiting URL to its queue; `None` if no URL is
    /// due by `now`.
    pub fn wake(&mut self, ledger: &Ledger, now: u64) -> Result<Option<Prepared>, StoreError> {
        if self.next.is_none_or(|due| due > now) {
            return Ok(None);
        }
        let found = first(ledger.store())?;
        self.next = found.as_ref().map(|(due, _)| *due);
        let Some((_, entry)) = found.filter(|(due, _)| *due <= now) else {
            return Ok(None);
        };
        let mut tx = ledger.begin();
        match tx.get(&entry)? {
            None => tx.delete(entry),
            Some(key) => {
                tx.end_wait(entry);
                if let (Some(record), Some((url, kind))) =
                    (tx.record(&key)?, keys::url_of_key(&key))
                {
                    let state = State::Queued;
                    let record = UrlRecord { state, ..record };
                    tx.enqueue(&key, kind, &url.host_key(), &record)?;
                }
            }
        }
        Ok(Some(tx.prepare()))
    }
}

fn first(store: &dyn Store) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
    let mut found = None;
    store.scan(keys::WAITING, &[], &mut |key, _| {
        found = keys::due_of_waiting_key(key).map(|due| (due, key.to_vec()));
        ControlFlow::Break(())
    })?;
    Ok(found)
}
