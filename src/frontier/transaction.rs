//! One atomic change of the frontier, gathered before anything is written.
//!
//! A transaction reads the store through its own pending writes, so adding the same link twice in
//! one page is as harmless as adding it in two. None of its writes is visible until the
//! [ledger](super::ledger) commits it.
//!
//! It maintains what must always agree: the state of a URL, its entry in a queue or an index, and
//! the counters. So no other code writes those keys.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::cell::CellId;
use super::codec;
use super::keys::{self, Rank, class};
use super::outcome::OutputEdit;
use super::record::{Counts, HostRecord, Meta, State, UrlRecord};
use super::referral::{MOST_PASSED, Referral, Referred};
use super::store::{Batch, Store, StoreError};
use crate::address::{HostKey, PageUrl};
use crate::page::{Bucket, Reason, TaskKind};

/// Pending writes over a store, with the resulting counters.
pub(super) struct Transaction<'a> {
    store: &'a dyn Store,
    batch: Batch,
    /// The counters and the next numbers.
    pub meta: Meta,
    touched: BTreeSet<HostKey>,
    visit: Option<BookedVisit>,
    /// Changes that the outputs must make in files written before.
    pub edits: Vec<OutputEdit>,
    referrals: Referrals,
    /// New images that were referred to other cells.
    images_elsewhere: u64,
    /// How many cells have passed on the referral that is being added.
    pub passed: u8,
}

/// What is to be added to other cells.
pub(super) type Referrals = BTreeMap<CellId, Vec<Referral>>;

/// A visit that a transaction has booked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BookedVisit {
    /// When it is due, in milliseconds since 1970.
    pub due: u64,
    /// Whether the page has its own schedule.
    pub scheduled: bool,
}

/// A transaction that is ready to be committed, independent of the store it was read from.
pub(super) struct Prepared {
    pub batch: Batch,
    pub meta: Meta,
    /// Hosts whose queues change.
    pub touched: BTreeSet<HostKey>,
    /// The last visit that was booked.
    pub visit: Option<BookedVisit>,
    /// What is to be added to other cells.
    pub referrals: Referrals,
}

impl<'a> Transaction<'a> {
    /// Begins a transaction over a store whose counters are `meta`.
    pub fn new(store: &'a dyn Store, meta: Meta) -> Self {
        Self {
            store,
            batch: Batch::default(),
            meta,
            touched: BTreeSet::new(),
            visit: None,
            edits: Vec::new(),
            referrals: Referrals::new(),
            images_elsewhere: 0,
            passed: 0,
        }
    }

    /// Ends the transaction, ready to be committed.
    pub fn prepare(self) -> Prepared {
        Prepared {
            batch: self.batch,
            meta: self.meta,
            touched: self.touched,
            visit: self.visit,
            referrals: self.referrals,
        }
    }

    /// The committed state, without pending writes.
    pub fn store(&self) -> &'a dyn Store {
        self.store
    }

    /// The value under a key, pending writes included.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.batch.peek(key) {
            Some(pending) => Ok(pending.map(<[u8]>::to_vec)),
            None => self.store.get(key),
        }
    }

    /// The same, as a record of any kind.
    pub fn read<T: DeserializeOwned>(&self, key: &[u8]) -> Result<Option<T>, StoreError> {
        codec::read(self.store, key, self.get(key)?)
    }

    /// The record of a URL.
    pub fn record(&self, key: &[u8]) -> Result<Option<UrlRecord>, StoreError> {
        self.read(key)
    }

    /// Sets a key to bytes.
    pub fn put(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.batch.put(key, value);
    }

    /// Sets a key to a record of any kind.
    pub fn write<T: Serialize>(&mut self, key: Vec<u8>, record: &T) -> Result<(), StoreError> {
        self.batch.put(key, codec::encode(self.store, record)?);
        Ok(())
    }

    /// Removes a key.
    pub fn delete(&mut self, key: Vec<u8>) {
        self.batch.delete(key);
    }

    /// Writes the record of a URL whose state, place in a queue and counters stay.
    pub fn put_record(&mut self, key: &[u8], record: &UrlRecord) -> Result<(), StoreError> {
        self.write(key.to_vec(), record)
    }

    /// Writes the record of a host.
    pub fn put_host(&mut self, host: &HostKey, record: &HostRecord) -> Result<(), StoreError> {
        self.write(keys::host(host), record)
    }

    /// The number of added addresses, here and in other cells, to be compared with an earlier
    /// result.
    pub fn added(&self) -> u64 {
        let referred = self.referrals.values().map(|all| all.len() as u64);
        self.meta.next_seq + referred.sum::<u64>()
    }

    /// The number of new images found, here and for other cells, to be compared with an earlier
    /// result; no page may be added in between.
    pub fn images_found(&self) -> u64 {
        // Every inserted record takes a number.
        self.meta.next_seq + self.images_elsewhere
    }

    /// Refers something to another cell. What was passed on too often is dropped.
    pub fn refer(&mut self, to: CellId, what: Referred) {
        if self.passed >= MOST_PASSED {
            tracing::debug!(?what, "passed on too often");
            return;
        }
        let passed = self.passed + 1;
        let referral = Referral { what, passed };
        self.referrals.entry(to).or_default().push(referral);
    }

    /// The same for an image.
    pub fn refer_image(&mut self, to: CellId, image: Referred) -> Result<(), StoreError> {
        if let Referred::Image { url, .. } = &image {
            let key = keys::elsewhere(to, &keys::url(url, TaskKind::Image));
            self.images_elsewhere += u64::from(self.get(&key)?.is_none());
        }
        self.refer(to, image);
        Ok(())
    }

    /// Updates a host's position in the schedule after the commit.
    pub fn touch(&mut self, host: HostKey) {
        self.touched.insert(host);
    }

    /// Assigns a number to a finished URL.
    pub fn number(&mut self, url: &PageUrl) -> u64 {
        let id = self.meta.next_id;
        self.meta.next_id += 1;
        self.put(keys::document(id), url.as_str().as_bytes().to_vec());
        id
    }

    /// Assigns the place in the order of discovery to a new URL.
    pub fn discovered(&mut self) -> u64 {
        let seq = self.meta.next_seq;
        self.meta.next_seq += 1;
        seq
    }

    /// Writes a record as queued, with its queue entry.
    pub fn enqueue(
        &mut self,
        key: &[u8],
        kind: TaskKind,
        host: &HostKey,
        record: &UrlRecord,
    ) -> Result<(), StoreError> {
        let entry = keys::queue(host, class_of(kind), &rank_of(record));
        self.put(entry, key.to_vec());
        self.put_record(key, record)?;
        *self.queue_count(kind, record.bucket) += 1;
        self.touch(host.clone());
        Ok(())
    }

    /// Removes the queue entry of a record that is queued.
    pub fn dequeue(&mut self, kind: TaskKind, host: &HostKey, record: &UrlRecord) {
        self.delete(keys::queue(host, class_of(kind), &rank_of(record)));
        let count = self.queue_count(kind, record.bucket);
        *count = count.saturating_sub(1);
        self.touch(host.clone());
    }

    /// Moves a queued record to another rank.
    pub fn move_in_queue(
        &mut self,
        key: &[u8],
        kind: TaskKind,
        host: &HostKey,
        before: &UrlRecord,
        after: &UrlRecord,
    ) -> Result<(), StoreError> {
        self.dequeue(kind, host, before);
        self.enqueue(key, kind, host, after)
    }

    /// Lets a record that just left its queue wait until `due`.
    pub fn wait(&mut self, key: &[u8], record: UrlRecord, due: u64) -> Result<(), StoreError> {
        self.put(keys::waiting(due, &rank_of(&record)), key.to_vec());
        self.meta.counts.waiting += 1;
        let state = State::Waiting { due };
        self.put_record(key, &UrlRecord { state, ..record })
    }

    /// Removes the entry of a waiting URL. Its rank may have improved since it was entered, so the
    /// entry is found by its value.
    pub fn leave_waiting(&mut self, key: &[u8], due: u64) -> Result<(), StoreError> {
        let mut entry = None;
        let from = keys::waiting_until(due);
        self.store.scan(&from, &[], &mut |waiting, value| {
            if value != key {
                return ControlFlow::Continue(());
            }
            entry = Some(waiting.to_vec());
            ControlFlow::Break(())
        })?;
        if let Some(entry) = entry {
            self.end_wait(entry);
        }
        Ok(())
    }

    /// Removes the entry of a waiting URL by its key.
    pub fn end_wait(&mut self, entry: Vec<u8>) {
        self.delete(entry);
        let waiting = &mut self.meta.counts.waiting;
        *waiting = waiting.saturating_sub(1);
    }

    /// Writes a record in a finished state, with its next visit if it has one.
    pub fn rest(&mut self, key: &[u8], record: &UrlRecord) -> Result<(), StoreError> {
        if let Some(entry) = visit_entry(record) {
            self.put(entry, key.to_vec());
            self.meta.counts.watched += 1;
            let visit = record.visit.as_ref();
            self.visit = visit.and_then(|visit| {
                Some(BookedVisit {
                    due: visit.due?,
                    scheduled: visit.scheduled,
                })
            });
        }
        self.put_record(key, record)
    }

    /// Cancels the next visit of a finished record.
    pub fn cancel_visit(&mut self, record: &mut UrlRecord) {
        if let Some(entry) = visit_entry(record) {
            self.delete(entry);
            let watched = &mut self.meta.counts.watched;
            *watched = watched.saturating_sub(1);
        }
        if let Some(visit) = &mut record.visit {
            visit.due = None;
        }
    }

    /// Marks a record that just left its queue as dropped.
    pub fn drop_record(
        &mut self,
        key: &[u8],
        record: UrlRecord,
        reason: Reason,
    ) -> Result<(), StoreError> {
        self.count_dropped(reason);
        let state = State::Dropped { reason };
        self.rest(key, &UrlRecord { state, ..record })
    }

    /// Writes a new record, or one taken out of every list, as dropped: it is not visited
    /// again.
    pub fn put_dropped(
        &mut self,
        key: &[u8],
        record: UrlRecord,
        reason: Reason,
    ) -> Result<(), StoreError> {
        self.count_dropped(reason);
        let state = State::Dropped { reason };
        self.put_record(key, &UrlRecord { state, ..record })
    }

    /// Changes the reason of a record that was dropped for `before`.
    pub fn drop_otherwise(
        &mut self,
        key: &[u8],
        record: UrlRecord,
        before: Reason,
        reason: Reason,
    ) -> Result<(), StoreError> {
        self.uncount_dropped(before);
        self.put_dropped(key, record, reason)
    }

    /// Deletes a record that was dropped for `reason`, as if the URL had never been found.
    pub fn forget(&mut self, key: Vec<u8>, reason: Reason) {
        self.uncount_dropped(reason);
        self.delete(key);
    }

    /// Removes a dropped record from the counters.
    pub fn uncount_dropped(&mut self, reason: Reason) {
        if let Some(n) = self.meta.counts.dropped.get_mut(&reason) {
            *n = n.saturating_sub(1);
        }
    }

    /// Appends a new link to the list that the control sample draws from.
    pub fn list(&mut self, key: &[u8], kind: TaskKind, bucket: Option<Bucket>) {
        let sample = &mut self.meta.sample;
        if sample.share > 0.0 && kind == TaskKind::Page && bucket != Some(Bucket::Seed) {
            let place = sample.listed;
            sample.listed += 1;
            self.put(keys::listed(place), key.to_vec());
        }
    }

    /// Removes the link at this place from that list; the last one takes its place.
    pub fn unlist(&mut self, place: u64) -> Result<(), StoreError> {
        let last = self.meta.sample.listed.saturating_sub(1);
        let own = keys::listed(last);
        if place != last
            && let Some(key) = self.get(&own)?
        {
            self.put(keys::listed(place), key);
        }
        self.delete(own);
        self.meta.sample.listed = last;
        Ok(())
    }

    fn count_dropped(&mut self, reason: Reason) {
        count_dropped(&mut self.meta.counts, reason);
    }

    fn queue_count(&mut self, kind: TaskKind, bucket: Bucket) -> &mut u64 {
        match kind {
            TaskKind::Image => &mut self.meta.counts.queued_images,
            TaskKind::Page
            | TaskKind::Sitemap
            | TaskKind::Robots
            | TaskKind::Tdmrep
            | TaskKind::Rsl => &mut self.meta.counts.queued[bucket as usize],
        }
    }
}

/// Counts one more URL as dropped.
pub(super) fn count_dropped(counts: &mut Counts, reason: Reason) {
    *counts.dropped.entry(reason).or_default() += 1;
}

/// The place of a record in its queue.
pub(super) fn rank_of(record: &UrlRecord) -> Rank {
    Rank::new(record.bucket, record.score, record.seq)
}

/// The queue of its host that a kind of task belongs to.
pub(super) fn class_of(kind: TaskKind) -> u8 {
    match kind {
        TaskKind::Robots => class::ROBOTS,
        TaskKind::Page | TaskKind::Sitemap | TaskKind::Tdmrep | TaskKind::Rsl => class::PAGE,
        TaskKind::Image => class::IMAGE,
    }
}

/// The index key of a record whose next visit has a date.
pub(super) fn visit_entry(record: &UrlRecord) -> Option<Vec<u8>> {
    let visit = record.visit.as_ref()?;
    let due = visit.due?;
    Some(keys::visit(visit.scheduled, due, record.seq))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::store::{MemoryStore, Readable};

    fn record(score: f64, seq: u64) -> UrlRecord {
        UrlRecord {
            state: State::Queued,
            bucket: Bucket::Normal,
            score,
            parts: None,
            seq,
            hops: 0,
            redirects: 0,
            attempts: 0,
            via: None,
            text: None,
            visit: None,
            simhash: None,
            judged: None,
        }
    }

    /// The values of the queue of pages of a host, in their order.
    fn queue(store: &dyn Store, host: &HostKey) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        let queue = keys::queue_class(host, class::PAGE);
        let mut visit = |_: &[u8], value: &[u8]| {
            found.push(value.to_vec());
            ControlFlow::Continue(())
        };
        store.scan(&queue, &[], &mut visit).unwrap();
        found
    }

    #[test]
    fn record_queue_and_counters_stay_in_step() {
        let mut store = MemoryStore::new(Path::new("memory"));
        let url = |text| PageUrl::parse(text).unwrap();
        let (a, b) = (url("http://h.example/a"), url("http://h.example/b"));
        let host = a.host_key();
        let key = |url| keys::url(url, TaskKind::Page);
        let mut tx = Transaction::new(&store, Meta::default());
        for (url, score) in [(&a, 2.0), (&b, 1.0)] {
            let record = record(score, tx.discovered());
            tx.enqueue(&key(url), TaskKind::Page, &host, &record)
                .unwrap();
        }
        // The better one moves after the other.
        let before = tx.record(&key(&b)).unwrap().unwrap();
        let after = UrlRecord {
            score: 3.0,
            ..before.clone()
        };
        tx.move_in_queue(&key(&b), TaskKind::Page, &host, &before, &after)
            .unwrap();
        assert!(queue(&store, &host).is_empty(), "nothing is written yet");
        let prepared = tx.prepare();
        assert_eq!(prepared.meta.counts.queued_pages(), 2);
        let touched = Vec::from_iter(prepared.touched);
        assert_eq!(touched.as_slice(), std::slice::from_ref(&host));
        store.apply(prepared.batch).unwrap();
        assert_eq!(queue(&store, &host), [key(&a), key(&b)]);

        // One waits and the other is dropped.
        let mut tx = Transaction::new(&store, prepared.meta);
        let own = tx.record(&key(&a)).unwrap().unwrap();
        tx.dequeue(TaskKind::Page, &host, &own);
        tx.wait(&key(&a), own, 7).unwrap();
        tx.dequeue(TaskKind::Page, &host, &after);
        tx.drop_record(&key(&b), after, Reason::Gone).unwrap();
        let prepared = tx.prepare();
        let counts = &prepared.meta.counts;
        assert_eq!((counts.queued_pages(), counts.waiting), (0, 1));
        assert_eq!(counts.dropped[&Reason::Gone], 1);
        store.apply(prepared.batch).unwrap();
        assert!(queue(&store, &host).is_empty());

        let mut tx = Transaction::new(&store, prepared.meta);
        tx.leave_waiting(&key(&a), 7).unwrap();
        tx.forget(key(&b), Reason::Gone);
        let prepared = tx.prepare();
        let counts = &prepared.meta.counts;
        assert_eq!((counts.waiting, counts.dropped[&Reason::Gone]), (0, 0));
        store.apply(prepared.batch).unwrap();
        assert_eq!(store.get(&key(&b)).unwrap(), None);
    }
}
