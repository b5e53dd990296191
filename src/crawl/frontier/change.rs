//! One atomic change of the frontier, gathered before anything is written.
//!
//! A change reads the store through its own pending writes, so that adding the
//! same link twice in one page is as harmless as adding it in two. Nothing it
//! does is visible until the frontier commits it.

use std::collections::BTreeSet;

use super::contexts::{self, Words};
use super::keys::{self, Rank, class};
use super::record::{Counts, HostRecord, Meta, State, UrlRecord};
use super::schedule::Schedule;
use super::store::{Batch, Store, StoreError};
use super::{MAX_ANCHOR, NewTask, Rating, codec, learning, listing, rescope, rescore};
use crate::address::{HostKey, PageUrl};
use crate::page::{Bucket, ImageContext, Judged, Reason, TaskKind};
use crate::web::scope::Scope;

/// Where an added address was found.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Origin {
    pub via: Option<u64>,
    pub hops: u32,
    pub redirects: u8,
}

/// Index files that may lie above a sitemap: by sitemaps.org an index lists no
/// index, but some do.
const MAX_SITEMAP_DEPTH: u32 = 2;

/// Redirects of images that a new context is carried along at most.
const MAX_CONTEXT_HOPS: usize = 20;

pub(super) struct Change<'a> {
    store: &'a dyn Store,
    scope: &'a Scope,
    /// Knows what is leased out now; its queue entry must stay as it is.
    schedule: &'a Schedule,
    /// What is added is rated by this, where it is set, whatever rated it before.
    pub rating: Option<&'a dyn Rating>,
    /// Whether anchors may have been rated by another keyword table.
    pub other_keywords: bool,
    pub batch: Batch,
    pub meta: Meta,
    /// Hosts whose queues changed.
    pub touched: BTreeSet<HostKey>,
    /// Contexts that met an image which is kept already, with the note of its record.
    pub extend: Vec<(String, ImageContext)>,
    /// Images that are kept already, by the note of their record, with a page whose alt
    /// text turned out to be boilerplate.
    pub boilerplate: Vec<(String, PageUrl)>,
    /// Images that are kept already, by the note of their record, whose use the page
    /// does not allow any more.
    pub withheld: Vec<String>,
    /// The last visit to come that was booked: when, and whether by a schedule.
    pub visit: Option<(u64, bool)>,
    /// Whether the page that is finished has another text than before.
    pub changed: Option<bool>,
    /// The note of a page at an earlier visit.
    pub earlier: Option<String>,
    /// Whether the page is visited again.
    pub comes_again: bool,
    /// What the log is to say of what is finished.
    pub said: Option<String>,
    /// The page that a finished one is a copy of by its own word.
    pub duplicate_of: Option<PageUrl>,
    /// The page that a finished one is a copy of by its text.
    pub near_copy_of: Option<PageUrl>,
    /// How likely the page that is finished is on topic; `None` where none came.
    pub judged: Option<Judged>,
}

/// A change that is ready to be committed.
pub(super) struct Gathered {
    pub batch: Batch,
    pub meta: Meta,
    /// Hosts whose queues changed.
    pub touched: BTreeSet<HostKey>,
    /// The last visit to come that was booked: when, and whether by a schedule.
    pub visit: Option<(u64, bool)>,
}

impl<'a> Change<'a> {
    pub fn new(store: &'a dyn Store, scope: &'a Scope, schedule: &'a Schedule, meta: Meta) -> Self {
        Self {
            store,
            scope,
            schedule,
            rating: None,
            other_keywords: false,
            batch: Batch::default(),
            meta,
            touched: BTreeSet::new(),
            extend: Vec::new(),
            boilerplate: Vec::new(),
            withheld: Vec::new(),
            visit: None,
            changed: None,
            earlier: None,
            comes_again: false,
            said: None,
            duplicate_of: None,
            near_copy_of: None,
            judged: None,
        }
    }

    /// What is to be committed, free of what it was gathered from.
    pub fn gathered(self) -> Gathered {
        let Self {
            batch,
            meta,
            touched,
            visit,
            ..
        } = self;
        Gathered {
            batch,
            meta,
            touched,
            visit,
        }
    }

    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.batch.peek(key) {
            Some(pending) => Ok(pending.map(<[u8]>::to_vec)),
            None => self.store.get(key),
        }
    }

    /// The rules that addresses are judged by.
    pub fn scope(&self) -> &'a Scope {
        self.scope
    }

    /// What is stored, without what is pending.
    pub fn store(&self) -> &'a dyn Store {
        self.store
    }

    /// Reads a record of any kind, what is pending included.
    pub fn read<T: serde::de::DeserializeOwned>(
        &self,
        key: &[u8],
    ) -> Result<Option<T>, StoreError> {
        codec::read(self.store, key, self.get(key)?)
    }

    /// Writes a record of any kind.
    pub fn write<T: serde::Serialize>(
        &mut self,
        key: Vec<u8>,
        record: &T,
    ) -> Result<(), StoreError> {
        self.batch.put(key, codec::encode(self.store, record)?);
        Ok(())
    }

    /// The address by which a page is known.
    pub fn canonical(&self, url: &PageUrl) -> PageUrl {
        self.scope.canonical(url)
    }

    /// Whether the job wants a page there.
    pub fn accepts(&self, url: &PageUrl, hops: u32) -> bool {
        self.scope.page(url, hops).is_ok()
    }

    /// Whether a page or image is leased out.
    pub fn is_leased(&self, host: &HostKey, key: &[u8]) -> bool {
        self.schedule.is_leased(host, key)
    }

    pub fn record(&self, key: &[u8]) -> Result<Option<UrlRecord>, StoreError> {
        self.read(key)
    }

    pub fn put_record(&mut self, key: &[u8], record: &UrlRecord) -> Result<(), StoreError> {
        self.write(key.to_vec(), record)
    }

    pub fn put_host(&mut self, host: &HostKey, record: &HostRecord) -> Result<(), StoreError> {
        self.write(keys::host(host), record)
    }

    /// Takes the number for something that finished.
    pub fn number(&mut self, url: &PageUrl) -> u64 {
        let id = self.meta.next_id;
        self.meta.next_id += 1;
        self.batch
            .put(keys::document(id), url.as_str().as_bytes().to_vec());
        id
    }

    /// Adds a page by its canonical address, or improves what is known of it.
    pub fn add_page(&mut self, new: &NewTask, origin: Origin) -> Result<(), StoreError> {
        let url = self.canonical(&new.url);
        if url == new.url {
            return self.add_page_as_it_is(new, origin);
        }
        self.add_page_as_it_is(&NewTask { url, ..new.clone() }, origin)
    }

    /// Adds a page by the very address that is to be asked.
    pub fn add_page_as_it_is(&mut self, new: &NewTask, origin: Origin) -> Result<(), StoreError> {
        let key = keys::url(&new.url, TaskKind::Page);
        self.add(&key, TaskKind::Page, new, origin)
    }

    /// Adds a sitemap; `origin.hops` is how many index files lie above it. It
    /// goes before every link of its class, which is that of what it lists.
    pub fn add_sitemap(&mut self, url: PageUrl, origin: Origin) -> Result<(), StoreError> {
        if origin.hops > MAX_SITEMAP_DEPTH {
            return Ok(());
        }
        let key = keys::url(&url, TaskKind::Sitemap);
        let new = NewTask {
            url,
            bucket: Some(Bucket::Normal),
            score: 0.0,
            parts: None,
            anchor: None,
            clues: None,
        };
        self.add(&key, TaskKind::Sitemap, &new, origin)
    }

    /// Takes back what a page said around an image, as it does not allow its use any
    /// more. An image that waits to be fetched is forgotten where it has no other
    /// words, as if it had never been met; one that is leased out is judged when it
    /// arrives, and of one that is kept the note is taken.
    pub fn withhold(&mut self, image: &PageUrl, page: &PageUrl) -> Result<(), StoreError> {
        let Some((url, Some(record))) = self.follow_image(image)? else {
            return Ok(());
        };
        if matches!(record.state, State::Done { .. }) {
            self.withheld.extend(record.note);
            return Ok(());
        }
        let key = keys::url(&url, TaskKind::Image);
        let own = keys::context(&key, page);
        if self.get(&own)?.is_none() {
            return Ok(());
        }
        self.batch.delete(own.clone());
        let mut words = contexts::keys_of(self.store, &key)?.into_iter();
        let host = url.host_key();
        if words.any(|other| other != own) || self.is_leased(&host, &key) {
            return Ok(());
        }
        match record.state {
            State::Queued => self.dequeue(TaskKind::Image, &host, &record),
            State::Waiting { due } => rescope::leave_waiting(self, due, &key)?,
            State::Done { .. } | State::Redirected { .. } | State::Dropped { .. } => return Ok(()),
        }
        self.batch.delete(key);
        Ok(())
    }

    /// Where the redirects of an image lead that are known, and what is known there;
    /// `None` where they lead nowhere.
    pub fn follow_image(
        &self,
        image: &PageUrl,
    ) -> Result<Option<(PageUrl, Option<UrlRecord>)>, StoreError> {
        let mut url = image.clone();
        for _ in 0..MAX_CONTEXT_HOPS {
            let known = self.record(&keys::url(&url, TaskKind::Image))?;
            let Some(State::Redirected { to, .. }) = known.as_ref().map(|r| &r.state) else {
                return Ok(Some((url, known)));
            };
            match PageUrl::from_stored(to) {
                Ok(target) => url = target,
                Err(_) => return Ok(None),
            }
        }
        Ok(None)
    }

    pub fn add(
        &mut self,
        key: &[u8],
        kind: TaskKind,
        new: &NewTask,
        origin: Origin,
    ) -> Result<(), StoreError> {
        let known = self.record(key)?;
        let met = self.meet(key, kind, known.as_ref(), new)?;
        let new = match (&met, self.rating) {
            (Some(met), _) => met,
            (None, Some(rating)) => &rescore::rate_new(rating, kind, new, self.other_keywords),
            (None, None) => new,
        };
        let before = known.as_ref();
        // A record keeps the best of all paths, so it is judged by that.
        let hops = before.map_or(origin.hops, |known| known.hops.min(origin.hops));
        let kept = before.filter(|known| {
            matches!(known.state, State::Dropped { reason }
                if is_judgement(reason) && reason != Reason::Razor)
        });
        let bucket = new.bucket.or(kept.map(|known| known.bucket));
        // The razor goes first: what is dropped for another reason lies below it,
        // and may be queued as soon as that reason is gone.
        let target = match (rescope::judge(self.scope, &new.url, kind, hops), bucket) {
            (_, None) => Err(Reason::Razor),
            (Err(reason), _) => Err(reason),
            (Ok(()), Some(bucket)) => Ok(bucket),
        };
        let host = new.url.host_key();
        match known {
            None => self.insert(key, kind, &host, new, origin, target),
            Some(known) => self.improve(key, kind, &host, known, new, origin, target),
        }
    }

    fn insert(
        &mut self,
        key: &[u8],
        kind: TaskKind,
        host: &HostKey,
        new: &NewTask,
        origin: Origin,
        target: Result<Bucket, Reason>,
    ) -> Result<(), StoreError> {
        let record = UrlRecord {
            state: State::Queued,
            bucket: new.bucket.unwrap_or(Bucket::Low),
            score: new.score,
            parts: new.parts,
            seq: self.meta.next_seq,
            hops: origin.hops,
            redirects: origin.redirects,
            attempts: 0,
            via: origin.via,
            note: kept_anchor(new),
            visit: None,
            simhash: None,
            judged: None,
        };
        self.meta.next_seq += 1;
        if matches!(target, Ok(_) | Err(Reason::Razor)) {
            self.list(key, kind, new.bucket);
        }
        match target {
            Ok(_) => self.enqueue(key, kind, host, &record),
            Err(reason) => {
                count_dropped(&mut self.meta.counts, reason);
                let state = State::Dropped { reason };
                self.put_record(key, &UrlRecord { state, ..record })
            }
        }
    }

    /// A known address met again: a better score, fewer hops or a verdict that
    /// the new path changes count; whatever is finished stays so.
    #[allow(clippy::too_many_arguments)]
    fn improve(
        &mut self,
        key: &[u8],
        kind: TaskKind,
        host: &HostKey,
        known: UrlRecord,
        new: &NewTask,
        origin: Origin,
        target: Result<Bucket, Reason>,
    ) -> Result<(), StoreError> {
        let bucket = match target {
            Ok(bucket) => bucket,
            Err(reason) => return self.improve_dropped(key, kind, known, new, origin, reason),
        };
        let put_off = kind == TaskKind::Sitemap && listing::is_put_off(&known.state);
        let judged = matches!(known.state, State::Dropped { reason } if is_judgement(reason));
        let revived = judged || put_off;
        let better = match new.clues {
            // Every page that leads there changes what is learned of it a little. What
            // became worse is found so when it is its turn.
            Some(_) => learning::is_lifted(&known, bucket, new.score),
            None => Rank::new(bucket, new.score, known.seq)
                .is_better_than(&self.rank_now(key, kind, &known)?),
        };
        let mut record = known.clone();
        record.hops = known.hops.min(origin.hops);
        if better {
            record.bucket = bucket;
            take_path(&mut record, new, origin);
        }
        match known.state {
            State::Queued if better && !self.schedule.is_leased(host, key) => {
                self.dequeue(kind, host, &known);
                self.enqueue(key, kind, host, &record)
            }
            State::Queued if record.hops < known.hops => {
                let hops = record.hops;
                self.put_record(key, &UrlRecord { hops, ..known })
            }
            State::Waiting { .. } if record != known => self.put_record(key, &record),
            State::Dropped { .. } if revived => self.rouse(key, kind, host, record),
            _ => Ok(()),
        }
    }

    /// What is met again and still not followed keeps the best of what is known of
    /// it, for the day when the scope lets it in.
    fn improve_dropped(
        &mut self,
        key: &[u8],
        kind: TaskKind,
        known: UrlRecord,
        new: &NewTask,
        origin: Origin,
        reason: Reason,
    ) -> Result<(), StoreError> {
        let State::Dropped { reason: before } = known.state else {
            return Ok(());
        };
        let rank = Rank::new(new.bucket.unwrap_or(Bucket::Low), new.score, known.seq);
        let better = rank.is_better_than(&self.rank_now(key, kind, &known)?);
        if !is_judgement(before) || !(better || origin.hops < known.hops) {
            return Ok(());
        }
        let hops = known.hops.min(origin.hops);
        let mut record = UrlRecord { hops, ..known };
        if better {
            record.bucket = rank.bucket;
            take_path(&mut record, new, origin);
        }
        self.drop_otherwise(key, record, before, reason)
    }

    /// The rank that a known record has by the rating in force: the stored one may be
    /// of another, whose scores cannot be held against those of this one.
    fn rank_now(&self, key: &[u8], kind: TaskKind, known: &UrlRecord) -> Result<Rank, StoreError> {
        let worth = match self.rating {
            Some(rating) => rescore::worth(rating, self.store, kind, key, known, false)?,
            None => None,
        };
        Ok(match worth {
            Some(worth) => Rank::new(worth.bucket_or_low(), worth.score, known.seq),
            None => rank_of(known),
        })
    }

    /// Gives a record that was dropped `before` another reason.
    pub fn drop_otherwise(
        &mut self,
        key: &[u8],
        record: UrlRecord,
        before: Reason,
        reason: Reason,
    ) -> Result<(), StoreError> {
        uncount_dropped(&mut self.meta.counts, before);
        count_dropped(&mut self.meta.counts, reason);
        let state = State::Dropped { reason };
        self.put_record(key, &UrlRecord { state, ..record })
    }

    /// Forgets a record that was dropped for `reason`, as if it had never been met.
    pub fn forget(&mut self, key: Vec<u8>, reason: Reason) {
        uncount_dropped(&mut self.meta.counts, reason);
        self.batch.delete(key);
    }

    /// Writes a record as queued, with its queue entry.
    pub fn enqueue(
        &mut self,
        key: &[u8],
        kind: TaskKind,
        host: &HostKey,
        record: &UrlRecord,
    ) -> Result<(), StoreError> {
        let rank = rank_of(record);
        self.batch
            .put(keys::queue(host, class_of(kind), &rank), key.to_vec());
        self.put_record(key, record)?;
        *self.queue_count(kind, record.bucket) += 1;
        self.touched.insert(host.clone());
        Ok(())
    }

    /// Removes the queue entry of a record that is queued.
    pub fn dequeue(&mut self, kind: TaskKind, host: &HostKey, record: &UrlRecord) {
        self.batch
            .delete(keys::queue(host, class_of(kind), &rank_of(record)));
        let count = self.queue_count(kind, record.bucket);
        *count = count.saturating_sub(1);
        self.touched.insert(host.clone());
    }

    /// Puts a record that just left its queue among the waiting.
    pub fn wait(&mut self, key: &[u8], record: UrlRecord, due: u64) -> Result<(), StoreError> {
        self.batch
            .put(keys::waiting(due, &rank_of(&record)), key.to_vec());
        self.meta.counts.waiting += 1;
        let state = State::Waiting { due };
        self.put_record(key, &UrlRecord { state, ..record })
    }

    /// Marks a record that just left its queue as dropped.
    pub fn drop_record(
        &mut self,
        key: &[u8],
        record: UrlRecord,
        reason: Reason,
    ) -> Result<(), StoreError> {
        count_dropped(&mut self.meta.counts, reason);
        let state = State::Dropped { reason };
        self.rest(key, &UrlRecord { state, ..record })
    }

    /// Keeps words until the image's bytes are there.
    pub fn put_words(&mut self, image: &[u8], words: &Words) -> Result<(), StoreError> {
        let packed = contexts::pack(self.store, image, words)?;
        let key = keys::context(image, &words.context.page);
        self.batch.put(key, packed);
        Ok(())
    }

    /// Forgets the stored contexts of an image.
    pub fn forget_contexts(&mut self, image: &[u8]) -> Result<(), StoreError> {
        for key in contexts::keys_of(self.store, image)? {
            self.batch.delete(key);
        }
        Ok(())
    }

    fn queue_count(&mut self, kind: TaskKind, bucket: Bucket) -> &mut u64 {
        match kind {
            TaskKind::Image => &mut self.meta.counts.queued_images,
            TaskKind::Page | TaskKind::Sitemap | TaskKind::Robots | TaskKind::Tdmrep => {
                &mut self.meta.counts.queued[bucket as usize]
            }
        }
    }
}

/// Gives a record the path of a better link to it, its bucket aside.
fn take_path(record: &mut UrlRecord, new: &NewTask, origin: Origin) {
    if !record.was_fetched() {
        record.note = kept_anchor(new);
    }
    record.score = new.score;
    record.parts = new.parts;
    record.via = origin.via;
    record.redirects = origin.redirects;
}

/// The words of an anchor, where they are kept.
fn kept_anchor(new: &NewTask) -> Option<String> {
    let anchor = new.anchor.as_ref();
    anchor.filter(|words| words.len() <= MAX_ANCHOR).cloned()
}

/// Reasons that rest on the path by which an address was met, so that another
/// path may lift them.
pub(super) fn is_judgement(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Razor | Reason::Hops | Reason::Scope | Reason::Trap
    )
}

pub(super) fn count_dropped(counts: &mut Counts, reason: Reason) {
    *counts.dropped.entry(reason).or_default() += 1;
}

pub(super) fn uncount_dropped(counts: &mut Counts, reason: Reason) {
    if let Some(n) = counts.dropped.get_mut(&reason) {
        *n = n.saturating_sub(1);
    }
}

pub(super) fn rank_of(record: &UrlRecord) -> Rank {
    Rank::new(record.bucket, record.score, record.seq)
}

pub(super) fn class_of(kind: TaskKind) -> u8 {
    match kind {
        TaskKind::Robots => class::ROBOTS,
        TaskKind::Page | TaskKind::Sitemap | TaskKind::Tdmrep => class::PAGE,
        TaskKind::Image => class::IMAGE,
    }
}
