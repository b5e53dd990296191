//! The ledger: the store, the filter before it, and the counters. Only the ledger commits.
//! In a store with several cells each has one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::amount::Amount;
use super::cell::{COUNT, CellId, Home, STAMP, USED};
use super::heads::{Entry, Heads};
use super::record::{FORMAT, Meta};
use super::referral::Referral;
use super::seen::{Memory, Questions, Seen};
use super::store::{Batch, Readable, Store, StoreError};
use super::transaction::{BookedVisit, Prepared, Transaction};
use super::{clock_skew, codec, flush_marker, keys};
use crate::address::HostKey;

/// Keys that are read ahead with every lease after a restart: a fraction of a millisecond.
const WARM_KEYS: usize = 1_000;

/// Refuses a store whose records are laid out as another version of spoor does, and one that
/// is divided into cells. The format is the first field of its first record, and readable in any layout.
/// Where it cannot be read, the reader of that record reports it.
///
/// # Errors
/// [`StoreError::Version`], [`StoreError::Divided`].
pub fn check_format(store: &dyn Readable) -> Result<(), StoreError> {
    let meta = store.get(keys::META).ok().flatten().unwrap_or_default();
    if meta.is_empty() && store.get(COUNT).ok().flatten().is_some() {
        let path = store.path().to_owned();
        return Err(StoreError::Divided { path });
    }
    match postcard::take_from_bytes::<u32>(&meta) {
        Ok((found, _)) if found != FORMAT => Err(StoreError::Version {
            path: store.path().to_owned(),
            found,
            expected: FORMAT,
        }),
        _ => Ok(()),
    }
}

/// What a commit means for what is kept in memory.
#[derive(Debug, Default)]
#[must_use]
pub(super) struct Effect {
    /// Hosts whose queues have changed.
    pub touched: BTreeSet<HostKey>,
    /// The last visit that was booked.
    pub visit: Option<BookedVisit>,
}

/// See the module's documentation.
pub(super) struct Ledger {
    store: Box<dyn Store>,
    questions: Arc<Questions>,
    heads: Heads,
    meta: Meta,
    /// Which cell it is, where the store has several.
    home: Option<Home>,
    /// The commits whose referrals to other cells are in the store, by cell.
    referring: BTreeMap<CellId, BTreeSet<u64>>,
}

impl Ledger {
    /// Opens the ledger in a store; an empty one begins with the counters `first`.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails, is damaged, older than its last flush, or of
    /// another format.
    pub fn open(
        store: Box<dyn Store>,
        first: Meta,
        home: Option<Home>,
        memory: Memory,
    ) -> Result<Self, StoreError> {
        check_format(&*store)?;
        let mut meta: Meta = codec::get(&*store, keys::META)?.unwrap_or(first);
        let referring = match home {
            // Its commits are counted by itself, and its store is flushed for all cells.
            Some(home) => referring(&*store, home)?,
            None => {
                flush_marker::check(store.path(), meta.commits)?;
                BTreeMap::new()
            }
        };
        meta.sample = codec::get(&*store, keys::SAMPLE)?.unwrap_or_default();
        meta.images = codec::get(&*store, keys::IMAGES)?.unwrap_or_default();
        let seen = Seen::over(store, keys::URLS, keys::CLUES, memory);
        Ok(Self {
            questions: seen.questions(),
            store: Box::new(seen),
            heads: Heads::default(),
            meta,
            home,
            referring,
        })
    }

    /// What was committed.
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Which cell it is, where the store has several.
    pub fn home(&self) -> Option<Home> {
        self.home
    }

    /// The commits whose referrals to other cells are in the store, by cell.
    pub fn referring(&self) -> &BTreeMap<CellId, BTreeSet<u64>> {
        &self.referring
    }

    /// What a commit refers to another cell.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails or the record is damaged.
    pub fn referrals(&self, to: CellId, commit: u64) -> Result<Vec<Referral>, StoreError> {
        let found = self.read(&keys::referrals(to, commit))?;
        Ok(found.unwrap_or_default())
    }

    /// Notes that the other cell has added what a commit has referred to it, and deleted it.
    pub fn referred(&mut self, to: CellId, commit: u64) {
        if let Some(commits) = self.referring.get_mut(&to) {
            commits.remove(&commit);
            if commits.is_empty() {
                self.referring.remove(&to);
            }
        }
    }

    /// The store itself, to damage it.
    #[cfg(test)]
    pub fn store_mut(&mut self) -> &mut dyn Store {
        self.heads.clear();
        &mut *self.store
    }

    /// The heads of the queues in memory.
    #[cfg(test)]
    pub fn heads(&self) -> &Heads {
        &self.heads
    }

    /// The counters as of the last commit.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// The counters, to be changed in memory; the next commit writes them.
    pub fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }

    /// How often it was asked whether an address is known, and what answered.
    pub fn questions(&self) -> &Questions {
        &self.questions
    }

    /// The record of any kind under a key.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails or the record is damaged.
    pub fn read<T: DeserializeOwned>(&self, key: &[u8]) -> Result<Option<T>, StoreError> {
        codec::get(&*self.store, key)
    }

    /// The first entry of a queue of a host whose value is not in `leased`.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails, or the queue is damaged.
    pub fn head(
        &mut self,
        host: &HostKey,
        class: u8,
        leased: &[Vec<u8>],
    ) -> Result<Option<&Entry>, StoreError> {
        self.heads.first(&*self.store, host, class, leased)
    }

    /// Forgets the heads of a host that nothing is asked of for now.
    pub fn forget_heads(&mut self, host: &HostKey) {
        self.heads.forget(host);
    }

    /// Begins a transaction.
    pub fn begin(&self) -> Transaction<'_> {
        Transaction::new(&*self.store, self.meta.clone())
    }

    /// Commits a transaction: all of it is written, or nothing.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails; the counters are as before then.
    pub fn commit(&mut self, prepared: Prepared) -> Result<Effect, StoreError> {
        let Prepared {
            mut batch,
            mut meta,
            touched,
            visit,
            referrals,
        } = prepared;
        meta.commits = self.meta.commits.saturating_add(1);
        if self.home.is_some() {
            // All cells write the same outputs.
            let stamp = std::mem::take(&mut meta.stamp);
            if !stamp.is_empty() {
                batch.put(keys::shared(STAMP), stamp);
            }
            let used = Amount::between(&self.meta.counts, &meta.counts);
            if !used.is_zero() {
                batch.put(keys::shared(USED), used.to_bytes());
            }
        }
        batch.put(keys::META.to_vec(), codec::encode(&*self.store, &meta)?);
        if meta.sample != self.meta.sample {
            let sample = codec::encode(&*self.store, &meta.sample)?;
            batch.put(keys::SAMPLE.to_vec(), sample);
        }
        if meta.images != self.meta.images {
            let images = codec::encode(&*self.store, &meta.images)?;
            batch.put(keys::IMAGES.to_vec(), images);
        }
        for (to, referrals) in &referrals {
            let key = keys::referrals(*to, meta.commits);
            batch.put(key, codec::encode(&*self.store, referrals)?);
        }
        self.heads.follow(&batch);
        // Whether a failed batch is in the store is not known before the next opening.
        self.store
            .apply(batch)
            .inspect_err(|_| self.heads.clear())?;
        for to in referrals.into_keys() {
            self.referring.entry(to).or_default().insert(meta.commits);
        }
        self.meta = meta;
        Ok(Effect { touched, visit })
    }

    /// The same for a transaction that changes no queue and books no visit.
    ///
    /// # Errors
    /// As [`Ledger::commit`].
    pub fn commit_alone(&mut self, prepared: Prepared) -> Result<(), StoreError> {
        let effect = self.commit(prepared)?;
        debug_assert!(effect.touched.is_empty() && effect.visit.is_none());
        Ok(())
    }

    /// The time of the last flush; `None` where it is unknown.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn last_flush(&self) -> Result<Option<u64>, StoreError> {
        match self.home {
            Some(_) => self.read(keys::FLUSHED_AT),
            None => Ok(clock_skew::last(self.store.path())),
        }
    }

    /// Makes everything that was committed survive the death of the process. `now` is noted
    /// as the time of the flush.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn flush(&mut self, now: u64) -> Result<(), StoreError> {
        if self.home.is_some() {
            // The marker beside the store is that of all cells.
            self.note_time(now)?;
            return self.store.flush();
        }
        self.store.flush()?;
        self.note_time(now)?;
        flush_marker::write(self.store.path(), self.meta.commits)
    }

    /// Notes the time, from which the pauses of hosts are counted.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn note_time(&mut self, now: u64) -> Result<(), StoreError> {
        if self.home.is_none() {
            return clock_skew::write(self.store.path(), now);
        }
        let mut batch = Batch::default();
        let time = codec::encode(&*self.store, &now)?;
        batch.put(keys::FLUSHED_AT.to_vec(), time);
        self.store.apply(batch)
    }

    /// Flushes without a note of the time: for a promise to one host, which must not be
    /// lost with what has not reached the disk.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn flush_promise(&mut self) -> Result<(), StoreError> {
        self.store.flush_promise()
    }

    /// Reads some keys ahead where a restart emptied the filter.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn warm(&mut self) -> Result<(), StoreError> {
        self.store.warm(WARM_KEYS)
    }
}

/// The commits of a cell whose referrals to others are in its store.
fn referring(
    store: &dyn Readable,
    home: Home,
) -> Result<BTreeMap<CellId, BTreeSet<u64>>, StoreError> {
    let mut found: BTreeMap<CellId, BTreeSet<u64>> = BTreeMap::new();
    let mut odd = None;
    store.scan(keys::REFERRALS, &[], &mut |key, _| {
        let parts = keys::parts_of_referrals_key(key);
        let parts = parts.and_then(|(to, commit)| Some((home.cells.cell(to)?, commit)));
        let Some((to, commit)) = parts else {
            odd = Some(key.to_vec());
            return ControlFlow::Break(());
        };
        found.entry(to).or_default().insert(commit);
        ControlFlow::Continue(())
    })?;
    match odd {
        None => Ok(found),
        Some(key) => {
            let why = "names no cell of this store".to_owned();
            Err(codec::corrupt(store, &key, why))
        }
    }
}
