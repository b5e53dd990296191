//! Rebuilds a store from facts: each fact becomes its record, and everything derived
//! (queues, waiting lists, visits, simhashes, the counters) is computed.

use super::{DumpError, Fact, Found};
use crate::address::PageUrl;
use crate::cell::{BATCHES, STAMP};
use crate::codec;
use crate::contexts::pack;
use crate::control_sample::Sample;
use crate::keys::{self, Rank, class};
use crate::page::{Bucket, Reason, TaskKind};
use crate::record::{Counts, Meta, State, UrlRecord};
use crate::store::{Batch, Store, StoreError};
use crate::transaction::visit_entry;
use crate::transaction::{class_of, rank_of};

/// A store in the making; `batch` holds the pairs that are not written yet.
#[derive(Default)]
pub(super) struct Building {
    pub batch: Batch,
    meta: Meta,
    counts: Counts,
    found: Found,
    highest_seq: u64,
    highest_id: u64,
    /// The control sample, if there is one.
    sample: Option<Sample>,
}

/// Numbers continue from those of a dump; one above this would run out soon.
const LARGEST: u64 = u64::MAX / 2;

impl Building {
    /// A message about a number that is too large to continue from.
    pub fn too_large(&self) -> Option<String> {
        let meta = &self.meta;
        let all = [
            meta.next_seq,
            meta.next_id,
            meta.counts.fetches,
            meta.counts.bytes,
            self.highest_seq,
            self.highest_id,
        ];
        let largest = all.into_iter().max().filter(|number| *number > LARGEST);
        largest.map(|number| format!("the number {number} is larger than any frontier has"))
    }

    pub fn add(&mut self, store: &dyn Store, fact: Fact) -> Result<(), StoreError> {
        match fact {
            Fact::Meta { meta } => self.meta = meta,
            Fact::Host { host, record } => {
                self.found.hosts += 1;
                let bytes = codec::encode(store, &record)?;
                self.batch.put(keys::host(&host), bytes);
            }
            Fact::Robots { host, scheme, body } => {
                let key = keys::robots_body(&host, &scheme);
                self.batch.put(key, body.into_bytes());
            }
            Fact::Tdmrep {
                host,
                scheme,
                record,
            } => {
                let key = keys::tdmrep(&host, &scheme);
                self.batch.put(key, codec::encode(store, &record)?);
            }
            Fact::OnWay { url, kind, terms } => {
                let key = keys::on_way(&keys::url(&url, kind));
                self.batch.put(key, terms.into_bytes());
            }
            Fact::Rsl {
                host,
                scheme,
                files,
            } => {
                let key = keys::rsl(&host, &scheme);
                self.batch.put(key, codec::encode(store, &files)?);
            }
            Fact::Recheck { host, scheme } => {
                self.batch.put(keys::rechecked(&host, &scheme), Vec::new());
            }
            Fact::Url { url, kind, record } => self.url(store, &url, kind, record)?,
            Fact::Context { image, context } => {
                let image = keys::url(&image, TaskKind::Image);
                let key = keys::context(&image, &context.page);
                self.batch.put(key, pack(store, &image, &context)?);
            }
            Fact::Instead {} => {}
            Fact::Images { record } => {
                let bytes = codec::encode(store, &record)?;
                self.batch.put(keys::IMAGES.to_vec(), bytes);
            }
            Fact::Document { id, url } => {
                self.highest_id = self.highest_id.max(id);
                self.batch.put(keys::document(id), url.into_bytes());
            }
            Fact::Group { group, record } => {
                let key = keys::stored_group(&group);
                self.batch.put(key, codec::encode(store, &record)?);
            }
            Fact::Errand {
                host,
                bucket,
                seq,
                errand,
            } => {
                self.highest_seq = self.highest_seq.max(seq);
                let key = keys::queue(&host, class::ROBOTS, &Rank::new(bucket, 0.0, seq));
                self.batch.put(key, codec::encode(store, &errand)?);
            }
            Fact::Prefix {
                host,
                prefix,
                record,
            } => {
                let key = keys::prefix(&host, &prefix);
                self.batch.put(key, codec::encode(store, &record)?);
            }
            Fact::Domain { domain, documents } => {
                let bytes = codec::encode(store, &documents)?;
                self.batch.put(keys::domain(&domain), bytes);
            }
            Fact::Alt { host, alt, record } => {
                let key = keys::alt(&host, alt);
                self.batch.put(key, codec::encode(store, &record)?);
            }
            Fact::Sample { record } => {
                let listed = 0;
                self.sample = Some(Sample { listed, ..record });
            }
            Fact::Drawn { url } => {
                let key = keys::url(&url, TaskKind::Page);
                self.batch.put(keys::drawn(&key), Vec::new());
            }
            Fact::Clues { url, clues } => {
                let key = keys::url(&url, TaskKind::Page);
                let bytes = codec::encode(store, &clues)?;
                self.batch.put(keys::clues(&key), bytes);
            }
            Fact::Learned { state } => {
                let bytes = bytes_of(store, keys::LEARNED, &state)?;
                self.batch.put(keys::LEARNED.to_vec(), bytes);
            }
            Fact::Judged { place, state } => {
                let key = keys::judged(place);
                let bytes = bytes_of(store, &key, &state)?;
                self.batch.put(key, bytes);
            }
            Fact::Example { number, example } => {
                let bytes = codec::encode(store, &example)?;
                self.batch.put(keys::example(number), bytes);
            }
            Fact::Scores { scores } => {
                let bytes = codec::encode(store, &scores)?;
                self.batch.put(keys::SCORES.to_vec(), bytes);
            }
            Fact::Kept { sha256, file } => {
                let file = String::from(file).into_bytes();
                self.batch.put(keys::kept(&sha256), file);
            }
            Fact::Body { sha1, place } => {
                let mut digest = [0; 20];
                let read = base16ct::lower::decode(&sha1, &mut digest);
                if read.is_ok_and(|read| read.len() == 20) {
                    let key = keys::stored_body(&digest);
                    self.batch.put(key, place.into_bytes());
                }
            }
        }
        Ok(())
    }

    fn url(
        &mut self,
        store: &dyn Store,
        url: &PageUrl,
        kind: TaskKind,
        record: UrlRecord,
    ) -> Result<(), StoreError> {
        let key = keys::url(url, kind);
        let rank = rank_of(&record);
        self.found.urls += 1;
        self.highest_seq = self.highest_seq.max(record.seq);
        match &record.state {
            State::Queued => {
                let host = url.host_key();
                self.batch
                    .put(keys::queue(&host, class_of(kind), &rank), key.clone());
            }
            State::Waiting { due } => self.batch.put(keys::waiting(*due, &rank), key.clone()),
            State::Done { id } => {
                self.highest_id = self.highest_id.max(*id);
                if let Some(simhash) = record.simhash {
                    let host = url.host_key();
                    for band in 0..4 {
                        let key = keys::simhash(&host, band, simhash);
                        self.batch.put(key, codec::encode(store, id)?);
                    }
                }
            }
            State::Redirected { id, .. } => self.highest_id = self.highest_id.max(*id),
            State::Dropped { .. } => {}
        }
        if let Some(entry) = visit_entry(&record) {
            self.batch.put(entry, key.clone());
        }
        if let Some(sample) = &mut self.sample
            && sample.share > 0.0
            && kind == TaskKind::Page
            && may_be_drawn(&record)
        {
            self.batch.put(keys::listed(sample.listed), key.clone());
            sample.listed += 1;
        }
        tally(&mut self.counts, &record, kind);
        self.batch.put(key, codec::encode(store, &record)?);
        Ok(())
    }

    pub fn finish(mut self, store: &mut dyn Store) -> Result<Found, DumpError> {
        let counts = Counts {
            // Not derivable from the URLs.
            fetches: self.meta.counts.fetches,
            bytes: self.meta.counts.bytes,
            ..self.counts
        };
        let stamp = std::mem::take(&mut self.meta.stamp);
        if !stamp.is_empty() {
            self.batch.put(keys::shared(STAMP), stamp);
        }
        // A checkpoint elsewhere must not be ahead of the frontier that continues from here.
        let commits = self.meta.commits.to_be_bytes().to_vec();
        self.batch.put(keys::shared(BATCHES), commits);
        let meta = Meta {
            next_seq: self.meta.next_seq.max(self.highest_seq + 1),
            next_id: self.meta.next_id.max(self.highest_id + 1),
            clean: false,
            counts,
            ..self.meta
        };
        let bytes = codec::encode(store, &meta)?;
        self.batch.put(keys::META.to_vec(), bytes);
        if let Some(sample) = &self.sample {
            let bytes = codec::encode(store, sample)?;
            self.batch.put(keys::SAMPLE.to_vec(), bytes);
        }
        store.apply(self.batch)?;
        store.flush()?;
        Ok(self.found)
    }
}

/// Counts a URL by its state and its fetches.
pub fn tally(counts: &mut Counts, record: &UrlRecord, kind: TaskKind) {
    if record.was_fetched() {
        match kind {
            TaskKind::Image => counts.images += 1,
            TaskKind::Sitemap => counts.sitemaps += 1,
            TaskKind::Page | TaskKind::Robots | TaskKind::Tdmrep | TaskKind::Rsl => {
                counts.documents += 1
            }
        }
    }
    counts.watched += u64::from(visit_entry(record).is_some());
    match &record.state {
        State::Queued if kind == TaskKind::Image => counts.queued_images += 1,
        State::Queued => counts.queued[record.bucket as usize] += 1,
        State::Waiting { .. } => counts.waiting += 1,
        State::Done { .. } | State::Redirected { .. } => {}
        State::Dropped { reason } => *counts.dropped.entry(*reason).or_default() += 1,
    }
}

/// Whether the control sample may draw the link of this record, now or later.
fn may_be_drawn(record: &UrlRecord) -> bool {
    let open = match record.state {
        State::Queued | State::Waiting { .. } => true,
        State::Dropped { reason } => reason == Reason::Razor,
        State::Done { .. } | State::Redirected { .. } => false,
    };
    open && record.bucket != Bucket::Seed && !record.was_fetched()
}

/// The bytes of a state in hexadecimal digits.
fn bytes_of(store: &dyn Store, key: &[u8], state: &str) -> Result<Vec<u8>, StoreError> {
    base16ct::lower::decode_vec(state)
        .map_err(|why| codec::corrupt(store, key, format!("not hexadecimal digits: {why}")))
}
