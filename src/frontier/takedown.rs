//! Takedowns: deletes the records of addresses that may never be crawled again, except
//! the addresses themselves and the reason.
//!
//! The scope defines these addresses, and keeps them out afterwards. This module edits all their
//! records, and the words from such pages that wait for an image. An image that is left without
//! words is deleted, as if it had never been found.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::contexts;
use super::images::alts::AltRecord;
use super::parts::Frontier;
use super::record::{State, UrlRecord};
use super::store::{Store, StoreError};
use super::transaction::Transaction;
use super::{codec, keys};
use crate::address::{HostKey, PageUrl};
use crate::page::{Reason, TaskKind};
use crate::web::scope::{HostRange, Scope, Target};

/// Records changed in one commit.
const SLICE: usize = if cfg!(test) { 3 } else { 1_000 };

/// The changes of a takedown in the frontier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenDown {
    /// Addresses newly dropped for good.
    pub addresses: u64,
    /// Contexts of images that were not fetched yet.
    pub contexts: u64,
    /// Images that were deleted because no words are left around them.
    pub forgotten: u64,
}

/// One change of a takedown.
enum Step {
    Drop(Vec<u8>),
    Forget(Vec<u8>),
    Context(Vec<u8>),
    Alt(Vec<u8>, AltRecord),
    Erase(Vec<u8>),
}

impl Frontier {
    /// Applies all takedowns in `scope`. `images`, whose bytes were taken down, are dropped as
    /// well; `bare`, kept images without words left, are deleted. With `dry` the changes are only
    /// counted. Repeating it is harmless. There must be no open leases.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails; earlier commits of this call stay.
    pub fn take_down(
        &mut self,
        scope: &Scope,
        images: &[PageUrl],
        bare: &[PageUrl],
        now: u64,
        dry: bool,
    ) -> Result<TakenDown, StoreError> {
        let search = Search {
            store: self.ledger.store(),
            scope,
            images,
        };
        let steps = search.steps(bare)?;
        let mut done = TakenDown::default();
        for slice in steps.chunks(SLICE) {
            let mut tx = self.ledger.begin();
            for step in slice {
                take(&mut tx, step, &mut done)?;
            }
            let prepared = tx.prepare();
            if !dry {
                self.commit(prepared, now)?;
            }
        }
        if !dry {
            self.visits.look_up_next(self.ledger.store())?;
            self.retries.look_up_next(self.ledger.store())?;
            self.flush()?;
        }
        Ok(done)
    }

    /// Applies earlier takedowns to a frontier that they were not applied to: one that
    /// was restored from an earlier dump still has the words of pages. Takedowns by bytes
    /// can only be applied when the bytes are fetched.
    ///
    /// # Errors
    /// As [`Frontier::take_down`].
    pub fn catch_up_takedowns(&mut self, now: u64) -> Result<(), StoreError> {
        if self.is_rescoping() && !self.scope.takedowns().orders().is_empty() {
            let scope = self.scope.clone();
            self.take_down(&scope, &[], &[], now, false)?;
        }
        Ok(())
    }

    /// Deletes the index entries of files with these bytes: the next image with the same
    /// bytes is the first again. Flushed at once, because the files may be removed next.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn forget_files<'a>(
        &mut self,
        sha256s: impl Iterator<Item = &'a str>,
    ) -> Result<(), StoreError> {
        let mut tx = self.ledger.begin();
        for sha256 in sha256s {
            tx.delete(keys::kept(sha256));
        }
        let prepared = tx.prepare();
        self.ledger.commit_alone(prepared)?;
        self.flush()
    }
}

/// The records of a store that are to be taken down.
struct Search<'a> {
    store: &'a dyn Store,
    scope: &'a Scope,
    /// Images whose bytes were taken down.
    images: &'a [PageUrl],
}

impl Search<'_> {
    /// All changes. `bare` are images without words left.
    fn steps(&self, bare: &[PageUrl]) -> Result<Vec<Step>, StoreError> {
        let key = |url| keys::url(url, TaskKind::Image);
        let mut steps: Vec<Step> = Vec::new();
        let mut dropped = self.addresses()?;
        dropped.extend(self.images.iter().map(key));
        let words = self.contexts(&dropped)?;
        steps.extend(dropped.into_iter().map(Step::Drop));
        steps.extend(words);
        steps.extend(bare.iter().map(|url| Step::Forget(key(url))));
        steps.extend(self.alts()?);
        steps.extend(self.bodies()?);
        Ok(steps)
    }

    /// The bodies that were archived first with an address that was taken down: the next
    /// equal body is the first again.
    fn bodies(&self) -> Result<Vec<Step>, StoreError> {
        let mut steps = Vec::new();
        self.store.scan(keys::BODIES, &[], &mut |key, place| {
            let place = String::from_utf8_lossy(place);
            let url = place.split_once(' ').map(|(_, url)| PageUrl::parse(url));
            let is_gone = |url: &PageUrl| {
                let kinds = [TaskKind::Page, TaskKind::Image];
                let ordered = |kind| self.scope.taken_down(url, kind).is_some();
                kinds.into_iter().any(ordered) || self.images.contains(url)
            };
            if url.is_none_or(|url| url.is_ok_and(|url| is_gone(&url))) {
                steps.push(Step::Erase(key.to_vec()));
            }
            ControlFlow::Continue(())
        })?;
        Ok(steps)
    }

    /// The keys of all records whose address was taken down.
    fn addresses(&self) -> Result<BTreeSet<Vec<u8>>, StoreError> {
        let mut found = BTreeSet::new();
        for order in self.scope.takedowns().orders() {
            match &order.target {
                Target::Url(url) => {
                    for url in [url, &self.scope.canonical(url)] {
                        self.keys_of_address(url, &mut found)?;
                    }
                }
                Target::Host(HostRange::Exact(host)) => {
                    found.extend(self.all_keys(&keys::urls_of(host))?);
                }
                Target::Host(range @ HostRange::Below(_)) => {
                    for host in self.known_hosts()?.iter().filter(|h| range.covers(h)) {
                        found.extend(self.all_keys(&keys::urls_of(host))?);
                    }
                }
                Target::Sha256(_) => {}
            }
        }
        Ok(found)
    }

    /// The keys of one address in all its roles, with either scheme.
    fn keys_of_address(
        &self,
        url: &PageUrl,
        found: &mut BTreeSet<Vec<u8>>,
    ) -> Result<(), StoreError> {
        let host = url.host_key();
        for scheme in ["http", "https"] {
            let Ok(url) = PageUrl::parse(&format!("{scheme}://{host}{}", url.path_and_query()))
            else {
                continue;
            };
            for kind in [TaskKind::Page, TaskKind::Image, TaskKind::Sitemap] {
                let key = keys::url(&url, kind);
                if self.scope.taken_down(&url, kind).is_some() && self.store.get(&key)?.is_some() {
                    found.insert(key);
                }
            }
        }
        Ok(())
    }

    fn all_keys(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, StoreError> {
        let mut found = Vec::new();
        self.store.scan(prefix, &[], &mut |key, _| {
            found.push(key.to_vec());
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    /// All hosts with an address, found by skipping from each to the next.
    fn known_hosts(&self) -> Result<Vec<HostKey>, StoreError> {
        let mut hosts = Vec::new();
        let mut from = keys::URLS.to_vec();
        loop {
            let mut next = None;
            self.store.scan(keys::URLS, &from, &mut |key, _| {
                next = Some(key.to_vec());
                ControlFlow::Break(())
            })?;
            let Some(key) = next else { return Ok(hosts) };
            let (url, _) = codec::address_of(self.store, &key)?;
            from = keys::urls_of(&url.host_key());
            if let Some(nul) = from.last_mut() {
                *nul = 1;
            }
            hosts.push(url.host_key());
        }
    }

    /// The contexts from pages that were taken down; if an image has no others, the
    /// image instead. Contexts of images in `dropped` are removed with the image.
    fn contexts(&self, dropped: &BTreeSet<Vec<u8>>) -> Result<Vec<Step>, StoreError> {
        let mut steps = Vec::new();
        // The current image, its contexts to remove, and whether another context stays.
        let mut image = Vec::new();
        let mut going = Vec::new();
        let mut stays = false;
        let mut end = |image: Vec<u8>, going: Vec<Vec<u8>>, stays: bool| match stays {
            _ if going.is_empty() || dropped.contains(&image) => {}
            true => steps.extend(going.into_iter().map(Step::Context)),
            false => steps.push(Step::Forget(image)),
        };
        let mut corrupt = None;
        self.store.scan(keys::CONTEXTS, &[], &mut |key, _| {
            let Some((of, page)) = keys::parts_of_context_key(key) else {
                corrupt = Some(key.to_vec());
                return ControlFlow::Break(());
            };
            if image != of {
                let before = std::mem::replace(&mut image, of.to_vec());
                end(before, std::mem::take(&mut going), stays);
                stays = false;
            }
            match self.scope.taken_down(&page, TaskKind::Page) {
                Some(_) => going.push(key.to_vec()),
                None => stays = true,
            }
            ControlFlow::Continue(())
        })?;
        if let Some(key) = corrupt {
            let why = "names no image and page".to_owned();
            return Err(codec::corrupt(self.store, &key, why));
        }
        end(image, going, stays);
        Ok(steps)
    }

    /// The alt texts found at images or on pages that were taken down, without these
    /// occurrences.
    fn alts(&self) -> Result<Vec<Step>, StoreError> {
        let mut steps = Vec::new();
        let mut failed = None;
        self.store.scan(keys::ALTS, &[], &mut |key, value| {
            let mut record: AltRecord = match codec::decode(self.store, key, value) {
                Ok(record) => record,
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            };
            let before = record.sights.len();
            record.sights.retain(|sight| {
                self.scope.taken_down(&sight.page, TaskKind::Page).is_none()
                    && self
                        .scope
                        .taken_down(&sight.image, TaskKind::Image)
                        .is_none()
                    && !self.images.contains(&sight.image)
            });
            if record.sights.len() < before {
                steps.push(Step::Alt(key.to_vec(), record));
            }
            ControlFlow::Continue(())
        })?;
        failed.map_or(Ok(steps), Err)
    }
}

/// Applies one change.
fn take(tx: &mut Transaction<'_>, step: &Step, done: &mut TakenDown) -> Result<(), StoreError> {
    let (key, keep) = match step {
        Step::Context(key) => {
            done.contexts += 1;
            tx.delete(key.clone());
            return Ok(());
        }
        Step::Alt(key, record) => return tx.write(key.clone(), record),
        Step::Erase(key) => {
            tx.delete(key.clone());
            return Ok(());
        }
        Step::Drop(key) => (key, true),
        Step::Forget(key) => (key, false),
    };
    tx.delete(keys::on_way(key));
    let Some(record) = tx.record(key)? else {
        return Ok(());
    };
    let (url, kind) = codec::address_of(tx.store(), key)?;
    let reason = Reason::Takedown;
    let taken = record.state == State::Dropped { reason };
    if taken && (!keep || record.text.is_none() && record.visit.is_none()) {
        return Ok(());
    }
    let left = withdraw(tx, key, &url, kind, record)?;
    if kind == TaskKind::Image {
        for context in contexts::keys_of(tx.store(), key)? {
            done.contexts += 1;
            tx.delete(context);
        }
    }
    if keep {
        done.addresses += u64::from(!taken);
        tx.put_dropped(key, left, reason)
    } else {
        done.forgotten += 1;
        tx.delete(key.clone());
        Ok(())
    }
}

/// Removes a record from every list and counter. The rest of it contains nothing of the
/// fetched content.
fn withdraw(
    tx: &mut Transaction<'_>,
    key: &[u8],
    url: &PageUrl,
    kind: TaskKind,
    mut record: UrlRecord,
) -> Result<UrlRecord, StoreError> {
    let host = url.host_key();
    tx.cancel_visit(&mut record);
    match record.state {
        State::Queued => tx.dequeue(kind, &host, &record),
        State::Waiting { due } => tx.leave_waiting(key, due)?,
        State::Dropped { reason } => tx.uncount_dropped(reason),
        State::Done { id } => forget_simhash(tx, &host, record.simhash, id)?,
        State::Redirected { .. } => {}
    }
    if record.was_fetched() {
        let counts = &mut tx.meta.counts;
        let count = match kind {
            TaskKind::Image => &mut counts.images,
            TaskKind::Sitemap => &mut counts.sitemaps,
            TaskKind::Page | TaskKind::Robots | TaskKind::Tdmrep | TaskKind::Rsl => {
                &mut counts.documents
            }
        };
        *count = count.saturating_sub(1);
    }
    Ok(UrlRecord {
        text: None,
        visit: None,
        simhash: None,
        judged: None,
        ..record
    })
}

fn forget_simhash(
    tx: &mut Transaction<'_>,
    host: &HostKey,
    simhash: Option<u64>,
    id: u64,
) -> Result<(), StoreError> {
    let Some(simhash) = simhash else {
        return Ok(());
    };
    for band in 0..4 {
        let key = keys::simhash(host, band, simhash);
        if tx.read::<u64>(&key)? == Some(id) {
            tx.delete(key);
        }
    }
    Ok(())
}
