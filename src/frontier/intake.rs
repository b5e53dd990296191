//! Adding: a new URL is checked against the scope, rated, and queued or dropped. For a known URL,
//! only the record is improved.

use std::borrow::Cow;

use super::added::{NewTask, Origin};
use super::cell::{CellId, Home};
use super::keys::{self, Rank};
use super::ratings::{self, InForce};
use super::record::{State, UrlRecord, depends_on_path};
use super::referral::Referred;
use super::requeue::requeue;
use super::schedule::Schedule;
use super::store::StoreError;
use super::transaction::{Transaction, rank_of};
use crate::address::{HostKey, PageUrl};
use crate::page::{Bucket, Reason, TaskKind};
use crate::web::scope::Scope;

/// Most index files above a sitemap: according to sitemaps.org an index lists no index,
/// but some do.
const MAX_SITEMAP_DEPTH: u32 = 2;

/// The rules for added URLs.
#[derive(Clone, Copy)]
pub(super) struct Intake<'a> {
    pub scope: &'a Scope,
    /// Knows the open leases, whose queue entries must not change.
    pub schedule: &'a Schedule,
    pub rating: InForce<'a>,
    /// Which cell this is.
    pub home: Home,
}

/// The verdict of the scope on an address of any kind.
pub(super) fn verdict(
    scope: &Scope,
    url: &PageUrl,
    kind: TaskKind,
    hops: u32,
) -> Result<(), Reason> {
    match kind {
        TaskKind::Image => scope.image(url),
        TaskKind::Sitemap => scope.sitemap(url),
        TaskKind::Page | TaskKind::Robots | TaskKind::Tdmrep | TaskKind::Rsl => {
            scope.page(url, hops)
        }
    }
}

/// A found URL and its rating.
#[derive(Clone, Copy)]
struct Met<'t> {
    key: &'t [u8],
    kind: TaskKind,
    host: &'t HostKey,
    new: &'t NewTask,
    origin: Origin,
}

impl Intake<'_> {
    /// The canonical address of a page.
    pub fn canonical<'u>(&self, url: &'u PageUrl) -> Cow<'u, PageUrl> {
        self.scope.canonical(url)
    }

    /// Whether the scope accepts a page at this address.
    pub fn accepts(&self, url: &PageUrl, hops: u32) -> bool {
        self.scope.page(url, hops).is_ok()
    }

    /// Whether a page or image is leased.
    pub fn is_leased(&self, host: &HostKey, key: &[u8]) -> bool {
        self.schedule.is_leased(host, key)
    }

    /// The cell of an address, if it is not this one.
    pub fn elsewhere(&self, url: &PageUrl) -> Option<CellId> {
        self.home.elsewhere(&url.host_key())
    }

    /// Adds a page by its canonical address, or improves its record.
    pub fn add_page(
        &self,
        tx: &mut Transaction<'_>,
        new: &NewTask,
        origin: Origin,
    ) -> Result<(), StoreError> {
        match self.canonical(&new.url) {
            Cow::Borrowed(_) => self.add_page_as_it_is(tx, new, origin),
            Cow::Owned(url) => self.add_page_as_it_is(tx, &NewTask { url, ..new.clone() }, origin),
        }
    }

    /// Adds a page under exactly this address.
    pub fn add_page_as_it_is(
        &self,
        tx: &mut Transaction<'_>,
        new: &NewTask,
        origin: Origin,
    ) -> Result<(), StoreError> {
        let key = keys::url(&new.url, TaskKind::Page);
        self.add(tx, &key, TaskKind::Page, new, origin)
    }

    /// Adds a sitemap; `origin.hops` is the number of index files above it. Its class is that of
    /// the links that it lists, and it goes before all of them.
    pub fn add_sitemap(
        &self,
        tx: &mut Transaction<'_>,
        url: PageUrl,
        origin: Origin,
    ) -> Result<(), StoreError> {
        if origin.hops > MAX_SITEMAP_DEPTH {
            return Ok(());
        }
        let key = keys::url(&url, TaskKind::Sitemap);
        let new = NewTask::rated(url, (0.0, Some(Bucket::Normal)));
        self.add(tx, &key, TaskKind::Sitemap, &new, origin)
    }

    /// Adds a task of any kind, or improves its record. If its host belongs to another cell, it is
    /// referred to that cell.
    pub fn add(
        &self,
        tx: &mut Transaction<'_>,
        key: &[u8],
        kind: TaskKind,
        new: &NewTask,
        origin: Origin,
    ) -> Result<(), StoreError> {
        let host = new.url.host_key();
        if let Some(to) = self.home.elsewhere(&host) {
            let new = new.clone();
            let keywords = self.rating.keywords();
            let address = Referred::Address {
                kind,
                new,
                origin,
                keywords,
            };
            tx.refer(to, address);
            return Ok(());
        }
        let known = tx.record(key)?;
        let rated = self.rating.rate(tx, key, kind, known.as_ref(), new)?;
        let met = Met {
            key,
            kind,
            host: &host,
            new: &rated,
            origin,
        };
        let target = self.target(&met, known.as_ref());
        match known {
            None => insert(tx, &met, target),
            Some(known) => match target {
                Ok(bucket) => self.improve(tx, &met, known, bucket),
                Err(reason) => self.improve_dropped(tx, &met, known, reason),
            },
        }
    }

    /// The bucket for a URL, or the reason to drop it.
    fn target(&self, met: &Met<'_>, known: Option<&UrlRecord>) -> Result<Bucket, Reason> {
        // A record keeps the best of all paths, so that path is judged.
        let hops = known.map_or(met.origin.hops, |known| known.hops.min(met.origin.hops));
        let kept = known.filter(|known| {
            matches!(known.state, State::Dropped { reason }
                if depends_on_path(reason) && reason != Reason::Razor)
        });
        let bucket = met.new.bucket.or(kept.map(|known| known.bucket));
        // The razor is checked first: a URL dropped for another reason is known to be
        // below it, and may be queued as soon as that reason is gone.
        let bucket = bucket.ok_or(Reason::Razor)?;
        verdict(self.scope, &met.new.url, met.kind, hops).map(|()| bucket)
    }

    /// A known address is found again: applies a better score, fewer hops, or a verdict that the
    /// new path changes. Finished URLs stay finished.
    fn improve(
        &self,
        tx: &mut Transaction<'_>,
        met: &Met<'_>,
        known: UrlRecord,
        bucket: Bucket,
    ) -> Result<(), StoreError> {
        let Met {
            key,
            kind,
            host,
            new,
            origin,
        } = *met;
        let put_off = kind == TaskKind::Sitemap && known.state.is_put_off();
        let judged = matches!(known.state, State::Dropped { reason } if depends_on_path(reason));
        let revived = judged || put_off;
        let better = match new.clues {
            // Every page with a link to it changes the learned score a little. Links that
            // became worse are lowered when they reach the head of the queue.
            Some(_) => ratings::is_lifted(&known, bucket, new.score),
            None => Rank::new(bucket, new.score, known.seq)
                .is_better_than(&self.rank_now(tx, key, kind, &known)?),
        };
        let mut record = known.clone();
        record.hops = known.hops.min(origin.hops);
        if better {
            record.bucket = bucket;
            take_path(&mut record, new, origin);
        }
        match known.state {
            State::Queued if better && !self.schedule.is_leased(host, key) => {
                tx.move_in_queue(key, kind, host, &known, &record)
            }
            State::Queued if record.hops < known.hops => {
                let hops = record.hops;
                tx.put_record(key, &UrlRecord { hops, ..known })
            }
            State::Waiting { .. } if record != known => tx.put_record(key, &record),
            State::Dropped { .. } if revived => requeue(tx, key, kind, host, record),
            _ => Ok(()),
        }
    }

    /// Keeps the best path of a known address that is found again and still not followed,
    /// in case the scope accepts it later.
    fn improve_dropped(
        &self,
        tx: &mut Transaction<'_>,
        met: &Met<'_>,
        known: UrlRecord,
        reason: Reason,
    ) -> Result<(), StoreError> {
        let State::Dropped { reason: before } = known.state else {
            return Ok(());
        };
        let Met { key, new, .. } = *met;
        let rank = Rank::new(new.bucket.unwrap_or(Bucket::Low), new.score, known.seq);
        let better = rank.is_better_than(&self.rank_now(tx, key, met.kind, &known)?);
        if !depends_on_path(before) || !(better || met.origin.hops < known.hops) {
            return Ok(());
        }
        let hops = known.hops.min(met.origin.hops);
        let mut record = UrlRecord { hops, ..known };
        if better {
            record.bucket = rank.bucket;
            take_path(&mut record, new, met.origin);
        }
        tx.drop_otherwise(key, record, before, reason)
    }

    /// The rank of a known record under the current rating. The stored rank may be from
    /// another rating, whose scores are not comparable.
    fn rank_now(
        &self,
        tx: &Transaction<'_>,
        key: &[u8],
        kind: TaskKind,
        known: &UrlRecord,
    ) -> Result<Rank, StoreError> {
        let worth = match self.rating.rating() {
            Some(rating) => ratings::worth(rating, tx.store(), kind, key, known, false)?,
            None => None,
        };
        Ok(match worth {
            Some(worth) => Rank::new(worth.bucket_or_low(), worth.score, known.seq),
            None => rank_of(known),
        })
    }
}

/// Writes the record of a new address.
fn insert(
    tx: &mut Transaction<'_>,
    met: &Met<'_>,
    target: Result<Bucket, Reason>,
) -> Result<(), StoreError> {
    let Met {
        key,
        kind,
        host,
        new,
        origin,
    } = *met;
    let record = UrlRecord {
        state: State::Queued,
        bucket: new.bucket.unwrap_or(Bucket::Low),
        score: new.score,
        parts: new.parts,
        seq: tx.discovered(),
        hops: origin.hops,
        redirects: origin.redirects,
        attempts: 0,
        via: origin.via,
        text: new.kept_anchor(),
        visit: None,
        simhash: None,
        judged: None,
    };
    if matches!(target, Ok(_) | Err(Reason::Razor)) {
        tx.list(key, kind, new.bucket);
    }
    match target {
        Ok(_) => tx.enqueue(key, kind, host, &record),
        Err(reason) => tx.put_dropped(key, record, reason),
    }
}

/// Replaces the path of a record by that of a better link, except the bucket.
fn take_path(record: &mut UrlRecord, new: &NewTask, origin: Origin) {
    if !record.was_fetched() {
        record.text = new.kept_anchor();
    }
    record.score = new.score;
    record.parts = new.parts;
    record.via = origin.via;
    record.redirects = origin.redirects;
}
