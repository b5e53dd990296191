//! The heads of the queues in memory, to avoid searching the store for them.
//!
//! The first task of a queue is needed whenever something happens to its host: a lease, an answer,
//! a link to it. In the store that is a scan over everything that was removed from the front of the
//! queue before, which some backends keep for a long time.
//!
//! For each queue that was looked up, memory holds all entries up to some position, usually one or
//! two. An entry that is queued before that position is added, one after it is ignored, and one
//! that is removed is removed here too. The store is read on from that position only when no free
//! entry is left.
//!
//! [`Heads`] is changed only by the batches of the ledger, so it cannot miss a change. After a
//! failed batch it is cleared, because the store may or may not contain that batch.

use std::collections::HashMap;
use std::ops::ControlFlow;

use super::codec;
use super::keys::{self, Rank};
use super::store::{Batch, Readable, StoreError};
use crate::address::HostKey;

/// Most entries of a queue that are kept when others are queued before them.
const KEPT: usize = 4;

/// An entry of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Its place.
    pub rank: Rank,
    /// What is queued.
    pub value: Box<[u8]>,
}

/// The position up to which the entries of a queue are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Known {
    #[default]
    Nothing,
    /// Up to and including this rank.
    UpTo(Rank),
    All,
}

/// The beginning of a queue.
#[derive(Debug, Default)]
struct Front {
    /// All entries up to the known position, in order.
    entries: Vec<Entry>,
    known: Known,
}

/// The heads of the queues. See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Heads {
    /// By host and class.
    hosts: HashMap<Box<[u8]>, [Front; keys::class::ALL]>,
}

impl Heads {
    /// The first entry in a queue of a host whose value is not in `leased`.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails, or a key of the queue has no rank.
    pub fn first(
        &mut self,
        store: &dyn Readable,
        host: &HostKey,
        class: u8,
        leased: &[Vec<u8>],
    ) -> Result<Option<&Entry>, StoreError> {
        let name = host.as_str().as_bytes();
        if !self.hosts.contains_key(name) {
            self.hosts.insert(name.into(), Default::default());
        }
        let fronts = self.hosts.get_mut(name);
        let Some(front) = fronts.and_then(|fronts| fronts.get_mut(usize::from(class))) else {
            return Ok(None);
        };
        let is_free = |value: &[u8]| !leased.iter().any(|leased| leased == value);
        if !front.entries.iter().any(|entry| is_free(&entry.value)) {
            front.read_on(store, &keys::queue_class(host, class), is_free)?;
        }
        Ok(front.entries.iter().find(|entry| is_free(&entry.value)))
    }

    /// Applies a batch that is about to be written.
    pub fn follow(&mut self, batch: &Batch) {
        for (key, value) in batch.writes_of(keys::QUEUES) {
            let Some((host, class, rank)) = keys::parts_of_queue_key(key) else {
                // The next scan reports it.
                self.clear();
                return;
            };
            let fronts = self.hosts.get_mut(host);
            if let Some(front) = fronts.and_then(|fronts| fronts.get_mut(usize::from(class))) {
                front.write(rank, value);
            }
        }
    }

    /// Forgets the queues of a host that is no longer in memory.
    pub fn forget(&mut self, host: &HostKey) {
        self.hosts.remove(host.as_str().as_bytes());
    }

    /// Forgets everything: the contents of the store are uncertain.
    pub fn clear(&mut self) {
        self.hosts.clear();
    }
}

impl Front {
    /// Reads on in the store to the first free entry or the end of the queue.
    fn read_on(
        &mut self,
        store: &dyn Readable,
        queue: &[u8],
        is_free: impl Fn(&[u8]) -> bool,
    ) -> Result<(), StoreError> {
        let from = match self.known {
            Known::Nothing => Vec::new(),
            Known::UpTo(rank) => keys::after_in_queue(queue, &rank),
            Known::All => return Ok(()),
        };
        let mut found = Vec::new();
        let mut known = Known::All;
        let mut broken = None;
        store.scan(queue, &from, &mut |key, value| {
            let Some((_, _, rank)) = keys::parts_of_queue_key(key) else {
                broken = Some(key.to_vec());
                return ControlFlow::Break(());
            };
            found.push(Entry {
                rank,
                value: value.into(),
            });
            if is_free(value) {
                known = Known::UpTo(rank);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        if let Some(key) = broken {
            return Err(codec::corrupt(store, &key, "no rank".to_owned()));
        }
        // There is one for each host, so no spare capacity.
        self.entries.reserve_exact(found.len());
        self.entries.append(&mut found);
        self.known = known;
        Ok(())
    }

    /// Applies a write; `None` removes.
    fn write(&mut self, rank: Rank, value: Option<&[u8]>) {
        let is_known = match self.known {
            Known::Nothing => false,
            Known::UpTo(last) => rank <= last,
            Known::All => true,
        };
        if !is_known {
            return;
        }
        let at = self.entries.binary_search_by_key(&rank, |entry| entry.rank);
        match (at, value) {
            (Ok(at), Some(value)) => {
                if let Some(entry) = self.entries.get_mut(at) {
                    entry.value = value.into();
                }
            }
            (Ok(at), None) => {
                self.entries.remove(at);
            }
            (Err(at), Some(value)) => {
                let value = value.into();
                self.entries.reserve_exact(1);
                self.entries.insert(at, Entry { rank, value });
                self.shorten();
            }
            (Err(_), None) => {}
        }
    }

    fn shorten(&mut self) {
        if self.entries.len() > KEPT {
            self.entries.truncate(KEPT);
            if let Some(last) = self.entries.last() {
                self.known = Known::UpTo(last.rank);
            }
        }
    }
}

#[cfg(test)]
#[path = "heads/tests.rs"]
pub(super) mod tests;
