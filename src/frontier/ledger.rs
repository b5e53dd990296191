//! The ledger: the store, the filter before it, and the counters. Only the ledger commits.
//! Each cell has one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::amount::Amount;
use super::cell::{COUNT, CellCount, CellId, Home, STAMP, USED};
use super::heads::{Entry, Heads};
use super::record::{FORMAT, Meta};
use super::referral::Referral;
use super::seen::{Memory, Questions, Seen};
use super::store::{Batch, Readable, Store, StoreError};
use super::transaction::{BookedVisit, Prepared, Transaction};
use super::{codec, keys};
use crate::address::HostKey;

/// Keys that are read ahead with every lease after a restart: a fraction of a millisecond.
const WARM_KEYS: usize = 1_000;

/// Refuses a store in the format of another version, and one with several cells. An unreadable
/// record is ignored here: its reader reports it.
///
/// # Errors
/// [`StoreError::Version`], [`StoreError::Old`], [`StoreError::SeveralCells`].
pub fn check_format(store: &dyn Readable) -> Result<(), StoreError> {
    let path = store.path().to_owned();
    match cells_of(store) {
        Ok(Some(cells)) if cells != CellCount::ONE => {
            return Err(StoreError::SeveralCells { path });
        }
        Err(StoreError::Old { path }) => return Err(StoreError::Old { path }),
        _ => {}
    }
    let meta = [&Home::ONLY.cell.space(), keys::META].concat();
    must_have_format(store, store.get(&meta).ok().flatten().as_deref())
}

/// The number of cells in a store; `None` in an empty one.
///
/// # Errors
/// [`StoreError::Old`] if it is of a version without cells.
pub(super) fn cells_of(store: &dyn Readable) -> Result<Option<CellCount>, StoreError> {
    let Some(value) = store.get(COUNT)? else {
        let path = store.path().to_owned();
        return match store.get(keys::META)? {
            Some(_) => Err(StoreError::Old { path }),
            None => Ok(None),
        };
    };
    let number = value.try_into().ok().map(u16::from_be_bytes);
    let cells = number.and_then(CellCount::new);
    let damaged = || codec::corrupt(store, COUNT, "it is not a number of cells".to_owned());
    cells.map(Some).ok_or_else(damaged)
}

/// Refuses the counters of a cell in the format of another version. The format is the first field,
/// so it is readable in any layout.
///
/// # Errors
/// [`StoreError::Version`].
pub(super) fn must_have_format(
    store: &dyn Readable,
    meta: Option<&[u8]>,
) -> Result<(), StoreError> {
    match postcard::take_from_bytes::<u32>(meta.unwrap_or_default()) {
        Ok((found, _)) if found != FORMAT => Err(StoreError::Version {
            path: store.path().to_owned(),
            found,
            expected: FORMAT,
        }),
        _ => Ok(()),
    }
}

/// The effect of a commit on what is kept in memory.
#[derive(Debug, Default)]
#[must_use]
pub(super) struct Effect {
    /// Hosts whose queues have changed.
    pub touched: BTreeSet<HostKey>,
    /// The last booked visit.
    pub visit: Option<BookedVisit>,
}

/// See the module's documentation.
pub(super) struct Ledger {
    store: Box<dyn Store>,
    questions: Arc<Questions>,
    heads: Heads,
    meta: Meta,
    /// Which cell this is.
    home: Home,
    /// The commits whose referrals to other cells are in the store, by cell.
    referring: BTreeMap<CellId, BTreeSet<u64>>,
}

impl Ledger {
    /// Opens the ledger in a store; an empty one starts with the counters `first`.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails, is damaged or of another format.
    pub fn open(
        store: Box<dyn Store>,
        first: Meta,
        home: Home,
        memory: Memory,
    ) -> Result<Self, StoreError> {
        let stored = store.get(keys::META)?;
        must_have_format(&*store, stored.as_deref())?;
        let mut meta: Meta = codec::read(&*store, keys::META, stored)?.unwrap_or(first);
        let referring = referring(&*store, home)?;
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

    /// The committed state.
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Which cell this is.
    pub fn home(&self) -> Home {
        self.home
    }

    /// The commits whose referrals to other cells are in the store, by cell.
    pub fn referring(&self) -> &BTreeMap<CellId, BTreeSet<u64>> {
        &self.referring
    }

    /// What a commit refers to another cell.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails or the record is damaged.
    pub fn referrals(&self, to: CellId, commit: u64) -> Result<Vec<Referral>, StoreError> {
        let found = self.read(&keys::referrals(to, commit))?;
        Ok(found.unwrap_or_default())
    }

    /// Notes that the other cell has added, and deleted, what a commit referred to it.
    pub fn referred(&mut self, to: CellId, commit: u64) {
        if let Some(commits) = self.referring.get_mut(&to) {
            commits.remove(&commit);
            if commits.is_empty() {
                self.referring.remove(&to);
            }
        }
    }

    /// The store itself, so that tests can damage it.
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

    /// How often an address was looked up, and what answered.
    pub fn questions(&self) -> &Questions {
        &self.questions
    }

    /// The record of any kind under a key.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails or the record is damaged.
    pub fn read<T: DeserializeOwned>(&self, key: &[u8]) -> Result<Option<T>, StoreError> {
        codec::get(&*self.store, key)
    }

    /// The first entry of a queue of a host whose value is not in `leased`.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails, or the queue is damaged.
    pub fn head(
        &mut self,
        host: &HostKey,
        class: u8,
        leased: &[Vec<u8>],
    ) -> Result<Option<&Entry>, StoreError> {
        self.heads.first(&*self.store, host, class, leased)
    }

    /// Forgets the heads of a host with nothing to request for now.
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
    /// [`StoreError`] if the store fails; the counters are as before then.
    pub fn commit(&mut self, prepared: Prepared) -> Result<Effect, StoreError> {
        let Prepared {
            mut batch,
            mut meta,
            touched,
            visit,
            referrals,
        } = prepared;
        meta.commits = self.meta.commits.saturating_add(1);
        // All cells write the same outputs.
        let stamp = std::mem::take(&mut meta.stamp);
        if !stamp.is_empty() {
            batch.put(keys::shared(STAMP), stamp);
        }
        let used = Amount::between(&self.meta.counts, &meta.counts);
        if !used.is_zero() {
            batch.put(keys::shared(USED), used.to_bytes());
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
        // Whether a failed batch is in the store is known only at the next opening.
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

    /// The time of the last flush; `None` if it is unknown.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn last_flush(&self) -> Result<Option<u64>, StoreError> {
        self.read(keys::FLUSHED_AT)
    }

    /// Makes all commits durable, and notes `now` as the time of the flush.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn flush(&mut self, now: u64) -> Result<(), StoreError> {
        self.note_time(now)?;
        self.store.flush()
    }

    /// Notes the time from which the pauses of hosts are counted.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn note_time(&mut self, now: u64) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        let time = codec::encode(&*self.store, &now)?;
        batch.put(keys::FLUSHED_AT.to_vec(), time);
        self.store.apply(batch)
    }

    /// Flushes without noting the time: for a promise to one host, which must not be lost with
    /// unflushed data.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn flush_promise(&mut self) -> Result<(), StoreError> {
        self.store.flush_promise()
    }

    /// Reads some keys ahead if a restart emptied the filter.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn warm(&mut self) -> Result<(), StoreError> {
        self.store.warm(WARM_KEYS)
    }
}

/// The commits of a cell whose referrals to others are still in its store.
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
