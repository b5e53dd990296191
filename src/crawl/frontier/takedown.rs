//! Taking down: what is known of addresses that no crawl may ask for again leaves
//! the store, but for the addresses themselves and the reason.
//!
//! Which addresses these are, the scope says; that it keeps them out from then on
//! is its own affair. Here are the records of them, wherever they stand, and the
//! words of pages among them that wait for an image. An image that is left without
//! words is forgotten, as if it had never been met.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::alts::AltRecord;
use super::change::{Change, count_dropped, uncount_dropped};
use super::contexts::{self, Words};
use super::record::{State, UrlRecord};
use super::store::StoreError;
use super::{Frontier, Instead, codec, keys};
use crate::address::{HostKey, PageUrl};
use crate::page::{Reason, TaskKind};
use crate::web::scope::{HostRange, Scope, Target};

/// Records that are changed in one commit.
const SLICE: usize = if cfg!(test) { 3 } else { 1_000 };

/// What taking down changed in the frontier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenDown {
    /// Addresses that are dropped for good now and were not before.
    pub addresses: u64,
    /// Contexts of images that were not kept yet.
    pub contexts: u64,
    /// Images that are not known any more, because no words are left around them.
    pub forgotten: u64,
}

/// What a step of the work is for.
enum Step {
    Drop(Vec<u8>),
    Forget(Vec<u8>),
    Context(Vec<u8>),
    Words(Vec<u8>, Box<Words>),
    Alt(Vec<u8>, AltRecord),
    Instead(Vec<u8>, Instead),
    Erase(Vec<u8>),
}

impl Frontier {
    /// Applies everything that was taken down in `scope`. `images` are dropped as
    /// well, those whose bytes were taken down; `bare` are forgotten, those that
    /// were kept and have no words left. With `dry` nothing is changed and only
    /// counted. Doing it again is harmless. Nothing may be leased.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails; what was done before stays done.
    pub fn take_down(
        &mut self,
        scope: &Scope,
        images: &[PageUrl],
        bare: &[PageUrl],
        now: u64,
        dry: bool,
    ) -> Result<TakenDown, StoreError> {
        let key = |url| keys::url(url, TaskKind::Image);
        let mut steps: Vec<Step> = Vec::new();
        let mut dropped = self.keys_of(scope)?;
        dropped.extend(images.iter().map(key));
        let words = self.contexts_of_pages(scope, &dropped)?;
        steps.extend(dropped.into_iter().map(Step::Drop));
        steps.extend(words);
        steps.extend(bare.iter().map(|url| Step::Forget(key(url))));
        steps.extend(self.alts_of(scope, images)?);
        steps.extend(self.stand_ins_of(scope, images)?);
        let mut done = TakenDown::default();
        for slice in steps.chunks(SLICE) {
            let meta = self.meta.clone();
            let mut change = Change::new(&*self.store, &self.scope, &self.schedule, meta);
            for step in slice {
                self.take(&mut change, step, &mut done)?;
            }
            let change = change.gathered();
            if !dry {
                self.commit_change(change, now)?;
            }
        }
        if !dry {
            self.next_visit = self.first_visit()?;
            self.next_waiting = self.first_waiting()?.map(|(due, _)| due);
            self.flush()?;
        }
        Ok(done)
    }

    /// Applies what was taken down already to a frontier that was not judged by it:
    /// one that was imported from an earlier export still has the words of pages. What
    /// was taken down by its bytes is only known when they come.
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

    /// The keys of all records that were taken down by their address.
    fn keys_of(&self, scope: &Scope) -> Result<BTreeSet<Vec<u8>>, StoreError> {
        let mut found = BTreeSet::new();
        for order in scope.takedowns().orders() {
            match &order.target {
                Target::Url(url) => {
                    for url in [url.clone(), scope.canonical(url)] {
                        self.keys_of_address(scope, &url, &mut found)?;
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

    /// Those of one address in all its roles, with either scheme.
    fn keys_of_address(
        &self,
        scope: &Scope,
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
                if scope.taken_down(&url, kind).is_some() && self.store.get(&key)?.is_some() {
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

    /// All hosts with an address, by skipping from each to the next.
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
            let Some((url, _)) = keys::url_of_key(&key) else {
                let why = "names no address".to_owned();
                return Err(codec::corrupt(&*self.store, &key, why));
            };
            from = keys::urls_of(&url.host_key());
            if let Some(nul) = from.last_mut() {
                *nul = 1;
            }
            hosts.push(url.host_key());
        }
    }

    /// The contexts that wait on pages that were taken down; where an image has no
    /// others, the image instead. Those of images in `dropped` go with these.
    fn contexts_of_pages(
        &self,
        scope: &Scope,
        dropped: &BTreeSet<Vec<u8>>,
    ) -> Result<Vec<Step>, StoreError> {
        let mut steps = Vec::new();
        // The image at hand, its contexts that go, and whether another one stays.
        let mut image = Vec::new();
        let mut going = Vec::new();
        let mut stays = false;
        let mut end = |image: Vec<u8>, going: Vec<Vec<u8>>, stays: bool| match stays {
            _ if going.is_empty() || dropped.contains(&image) => {}
            true => steps.extend(going.into_iter().map(Step::Context)),
            false => steps.push(Step::Forget(image)),
        };
        let mut corrupt = None;
        let mut rewritten = Vec::new();
        self.store.scan(keys::CONTEXTS, &[], &mut |key, value| {
            let Some((of, page)) = keys::parts_of_context_key(key) else {
                corrupt = Some(key.to_vec());
                return ControlFlow::Break(());
            };
            if image != of {
                let before = std::mem::replace(&mut image, of.to_vec());
                end(before, std::mem::take(&mut going), stays);
                stays = false;
            }
            match scope.taken_down(&page, TaskKind::Page) {
                Some(_) => going.push(key.to_vec()),
                None => {
                    stays = true;
                    let words = contexts::unpack(value).ok();
                    let words = words.and_then(|words| without(scope, words));
                    rewritten.extend(words.map(|w| Step::Words(of.to_vec(), Box::new(w))));
                }
            }
            ControlFlow::Continue(())
        })?;
        if let Some(key) = corrupt {
            let why = "names no image and page".to_owned();
            return Err(codec::corrupt(&*self.store, &key, why));
        }
        end(image, going, stays);
        // What is dropped below takes its words with it.
        rewritten.append(&mut steps);
        Ok(rewritten)
    }

    /// What says which address of a picture stands for which, without those that were
    /// taken down.
    fn stand_ins_of(&self, scope: &Scope, images: &[PageUrl]) -> Result<Vec<Step>, StoreError> {
        let is_gone = |url: &PageUrl| {
            scope.taken_down(url, TaskKind::Image).is_some() || images.contains(url)
        };
        let mut steps = Vec::new();
        let mut failed = None;
        self.store.scan(keys::INSTEAD, &[], &mut |key, value| {
            let known: Instead = match codec::decode(&*self.store, key, value) {
                Ok(record) => record,
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            };
            let own = key.get(1..).and_then(keys::url_of_key);
            if own.is_none_or(|(url, _)| is_gone(&url)) {
                steps.push(Step::Erase(key.to_vec()));
                return ControlFlow::Continue(());
            }
            let left = Instead {
                of: known.of.clone().filter(|url| !is_gone(url)),
                by: known
                    .by
                    .iter()
                    .filter(|url| !is_gone(url))
                    .cloned()
                    .collect(),
            };
            if left == Instead::default() {
                steps.push(Step::Erase(key.to_vec()));
            } else if left != known {
                steps.push(Step::Instead(key.to_vec(), left));
            }
            ControlFlow::Continue(())
        })?;
        failed.map_or(Ok(steps), Err)
    }

    /// The alt texts that were seen at images or on pages that were taken down, without
    /// these sights.
    fn alts_of(&self, scope: &Scope, images: &[PageUrl]) -> Result<Vec<Step>, StoreError> {
        let mut steps = Vec::new();
        let mut failed = None;
        self.store.scan(keys::ALTS, &[], &mut |key, value| {
            let mut record: AltRecord = match codec::decode(&*self.store, key, value) {
                Ok(record) => record,
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            };
            let before = record.sights.len();
            record.sights.retain(|sight| {
                scope.taken_down(&sight.page, TaskKind::Page).is_none()
                    && scope.taken_down(&sight.image, TaskKind::Image).is_none()
                    && !images.contains(&sight.image)
            });
            if record.sights.len() < before {
                steps.push(Step::Alt(key.to_vec(), record));
            }
            ControlFlow::Continue(())
        })?;
        failed.map_or(Ok(steps), Err)
    }

    fn take(
        &self,
        change: &mut Change<'_>,
        step: &Step,
        done: &mut TakenDown,
    ) -> Result<(), StoreError> {
        let (key, keep) = match step {
            Step::Context(key) => {
                done.contexts += 1;
                change.batch.delete(key.clone());
                return Ok(());
            }
            Step::Words(image, words) => return change.put_words(image, words),
            Step::Alt(key, record) => return change.write(key.clone(), record),
            Step::Instead(key, record) => return change.write(key.clone(), record),
            Step::Erase(key) => {
                change.batch.delete(key.clone());
                return Ok(());
            }
            Step::Drop(key) => (key, true),
            Step::Forget(key) => (key, false),
        };
        let Some(record) = change.record(key)? else {
            return Ok(());
        };
        let Some((url, kind)) = keys::url_of_key(key) else {
            let why = "names no address".to_owned();
            return Err(codec::corrupt(&*self.store, key, why));
        };
        let reason = Reason::Takedown;
        let taken = record.state == State::Dropped { reason };
        if taken && (!keep || record.note.is_none() && record.visit.is_none()) {
            return Ok(());
        }
        let left = self.withdraw(change, key, &url, kind, record)?;
        if kind == TaskKind::Image {
            for context in contexts::keys_of(&*self.store, key)? {
                done.contexts += 1;
                change.batch.delete(context);
            }
        }
        if keep {
            done.addresses += u64::from(!taken);
            count_dropped(&mut change.meta.counts, reason);
            let state = State::Dropped { reason };
            change.put_record(key, &UrlRecord { state, ..left })
        } else {
            done.forgotten += 1;
            change.batch.delete(key.clone());
            Ok(())
        }
    }

    /// Takes a record out of every list and count that it is in. What is left of
    /// it says nothing of what was fetched.
    fn withdraw(
        &self,
        change: &mut Change<'_>,
        key: &[u8],
        url: &PageUrl,
        kind: TaskKind,
        mut record: UrlRecord,
    ) -> Result<UrlRecord, StoreError> {
        let host = url.host_key();
        change.unrest(&mut record);
        match record.state {
            State::Queued => change.dequeue(kind, &host, &record),
            State::Waiting { due } => super::rescope::leave_waiting(change, due, key)?,
            State::Dropped { reason } => uncount_dropped(&mut change.meta.counts, reason),
            State::Done { id } => self.forget_simhash(change, &host, record.simhash, id)?,
            State::Redirected { .. } => {}
        }
        if record.was_fetched() {
            let counts = &mut change.meta.counts;
            let count = match kind {
                TaskKind::Image => &mut counts.images,
                TaskKind::Sitemap => &mut counts.sitemaps,
                TaskKind::Page | TaskKind::Robots | TaskKind::Tdmrep => &mut counts.documents,
            };
            *count = count.saturating_sub(1);
        }
        Ok(UrlRecord {
            note: None,
            visit: None,
            simhash: None,
            judged: None,
            ..record
        })
    }

    fn forget_simhash(
        &self,
        change: &mut Change<'_>,
        host: &HostKey,
        simhash: Option<u64>,
        id: u64,
    ) -> Result<(), StoreError> {
        let Some(simhash) = simhash else {
            return Ok(());
        };
        for band in 0..4 {
            let key = keys::simhash(host, band, simhash);
            if change.read::<u64>(&key)? == Some(id) {
                change.batch.delete(key);
            }
        }
        Ok(())
    }

    /// Where an image was sent when it was asked for: the last address of the
    /// chain, if there is one.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn image_target(&self, url: &PageUrl) -> Result<Option<PageUrl>, StoreError> {
        target(self, url, TaskKind::Image)
    }

    /// The same for a page, or the address that it calls its own.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn page_target(&self, url: &PageUrl) -> Result<Option<PageUrl>, StoreError> {
        target(self, &self.scope.canonical(url), TaskKind::Page)
    }
}

/// Words without the addresses that were taken down; `None` where they have none.
fn without(scope: &Scope, mut words: Words) -> Option<Words> {
    let is_gone = |url: &PageUrl| scope.taken_down(url, TaskKind::Image).is_some();
    let before = words.spares.len();
    words.spares.retain(|url| !is_gone(url));
    let of_gone = words.instead_of.as_ref().is_some_and(is_gone);
    if of_gone {
        words.instead_of = None;
    }
    (of_gone || words.spares.len() < before).then_some(words)
}

/// Redirects that are followed at most, as stored records may form a ring.
const MAX_CHAIN: usize = 20;

fn target(
    frontier: &Frontier,
    url: &PageUrl,
    kind: TaskKind,
) -> Result<Option<PageUrl>, StoreError> {
    let mut last = None;
    let mut at = url.clone();
    for _ in 0..MAX_CHAIN {
        let Some(record) = frontier.look_up(&at, kind)? else {
            break;
        };
        let State::Redirected { to, .. } = record.state else {
            break;
        };
        let Ok(to) = PageUrl::parse(&to) else { break };
        last = Some(to.clone());
        at = to;
    }
    Ok(last.filter(|to| to != url))
}
