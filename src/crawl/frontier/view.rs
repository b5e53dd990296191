//! Looking into a frontier without changing it: a stored one, not even its mark
//! of a clean end, or one that is at work.

use std::ops::ControlFlow;

use super::host_files::TdmRecord;
use super::images::{Instead, spares};
use super::ratings::clues::{self, Example};
use super::record::{GroupKey, GroupRecord, HostRecord, RobotsState, State, UrlRecord};
use super::schedule::Schedule;
use super::store::{Store, StoreError};
use super::transaction::{class_of, rank_of};
use super::traps::{Budget, Listing, budgets, listing};
use super::{codec, contexts, keys};
use crate::address::{HostKey, PageUrl};
use crate::page::{Clues, TaskKind, Terms};
use crate::web::robots::{Robots, tdm_terms};

/// Pages between an address and its seed that are shown at most; scores and
/// redirects could otherwise make a chain turn back on itself.
const MAX_CHAIN: usize = 100;

/// Redirects that are followed at most, as stored records may form a ring.
const MAX_REDIRECTS: usize = 20;

/// Queue entries that are counted at most; a long queue is as good as endless.
pub const MAX_AHEAD: u64 = 1_000;

/// What a learning crawl has learned.
#[derive(Debug, Clone, Default)]
pub struct Learned {
    /// All up to some example, as the model itself writes it.
    pub snapshot: Option<Vec<u8>>,
    /// What it has learned from since, in order.
    pub examples: Vec<Example>,
}

/// A frontier that is only read.
pub struct View<'a> {
    store: &'a dyn Store,
    /// Of a frontier at work: what is leased, and clocks not written yet.
    schedule: Option<&'a Schedule>,
}

impl<'a> View<'a> {
    /// The frontier in a store on which no crawl works.
    pub fn new(store: &'a dyn Store) -> Self {
        let schedule = None;
        Self { store, schedule }
    }

    /// A frontier at work.
    pub(super) fn live(store: &'a dyn Store, schedule: &'a Schedule) -> Self {
        let schedule = Some(schedule);
        Self { store, schedule }
    }

    /// Whether a crawl is at work on it.
    pub fn is_live(&self) -> bool {
        self.schedule.is_some()
    }

    /// All that is known of an address, if anything is.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails or the record is damaged.
    pub fn url(&self, url: &PageUrl, kind: TaskKind) -> Result<Option<UrlRecord>, StoreError> {
        let key = keys::url(url, kind);
        codec::get(self.store, &key)
    }

    /// All that is known of a host, if anything is.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails or the record is damaged.
    pub fn host(&self, host: &HostKey) -> Result<Option<HostRecord>, StoreError> {
        let schedule = self.schedule;
        let active = schedule.and_then(|s| s.slot(host).and_then(|slot| s.host(slot)));
        if let Some(active) = active {
            return Ok(Some(HostRecord {
                due: active.due(),
                ..active.record.clone()
            }));
        }
        let key = keys::host(host);
        codec::get(self.store, &key)
    }

    /// The clocks that a host shares with others, each by the name of what they
    /// have in common. Of a frontier that is not at work only those that back off.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails or a record is damaged.
    pub fn groups(&self, host: &HostKey) -> Result<Vec<(String, GroupRecord)>, StoreError> {
        let slot = self.schedule.and_then(|s| Some((s, s.slot(host)?)));
        if let Some((schedule, slot)) = slot {
            let groups = schedule.groups_of(slot).into_iter();
            return Ok(groups
                .map(|(key, record)| (key.to_string(), record))
                .collect());
        }
        let address = self.host(host)?.and_then(|h| h.located?.address);
        let domain = GroupKey::Domain(host.registered_domain().into());
        let both = address.map(GroupKey::Address).into_iter().chain([domain]);
        let mut found = Vec::new();
        for group in both {
            let key = keys::group(&group);
            let record = codec::get(self.store, &key)?;
            found.extend(record.map(|record| (group.to_string(), record)));
        }
        Ok(found)
    }

    /// Whether an address is being asked for at this moment.
    pub fn is_leased(&self, url: &PageUrl, kind: TaskKind) -> bool {
        let key = keys::url(url, kind);
        self.schedule
            .is_some_and(|s| s.is_leased(&url.host_key(), &key))
    }

    /// What a learning crawl knows of an address.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails or the record is damaged.
    pub fn clues(&self, url: &PageUrl, kind: TaskKind) -> Result<Option<Clues>, StoreError> {
        if kind != TaskKind::Page {
            return Ok(None);
        }
        clues::stored(self.store, &keys::url(url, kind))
    }

    /// What a learning crawl has learned.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails or an example is damaged.
    pub fn learned(&self) -> Result<Learned, StoreError> {
        Ok(Learned {
            snapshot: self.store.get(keys::LEARNED)?,
            examples: clues::examples(self.store)?,
        })
    }

    /// Whether a page was drawn for the control sample.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn is_control(&self, url: &PageUrl, kind: TaskKind) -> Result<bool, StoreError> {
        let mark = keys::drawn(&keys::url(url, kind));
        Ok(kind == TaskKind::Page && self.store.get(&mark)?.is_some())
    }

    /// Requests that are open at a host.
    pub fn open_requests(&self, host: &HostKey) -> usize {
        let schedule = self.schedule;
        let active = schedule.and_then(|s| s.slot(host).and_then(|slot| s.host(slot)));
        active.map_or(0, |host| host.leased.len())
    }

    /// How many of its kind stand before a queued address at its host, at most
    /// [`MAX_AHEAD`].
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn ahead(
        &self,
        url: &PageUrl,
        kind: TaskKind,
        record: &UrlRecord,
    ) -> Result<u64, StoreError> {
        let host = url.host_key();
        let class = class_of(kind);
        let own = keys::queue(&host, class, &rank_of(record));
        let mut ahead = 0;
        self.store
            .scan(&keys::queue_class(&host, class), &[], &mut |key, _| {
                if key >= own.as_slice() || ahead >= MAX_AHEAD {
                    return ControlFlow::Break(());
                }
                ahead += 1;
                ControlFlow::Continue(())
            })?;
        Ok(ahead)
    }

    /// How many pages gave words to an image that is not kept yet.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn contexts(&self, image: &PageUrl) -> Result<usize, StoreError> {
        let key = keys::url(image, TaskKind::Image);
        Ok(contexts::keys_of(self.store, &key)?.len())
    }

    /// Which address of the same picture an image is asked for in place of, and which are
    /// asked for in its place.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails or the record is damaged.
    pub fn instead(&self, image: &PageUrl) -> Result<Instead, StoreError> {
        spares::instead(self.store, image)
    }

    /// What the prefixes that an address belongs to have spent, and what is left.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails or a record is damaged.
    pub fn budget(&self, url: &PageUrl) -> Result<Budget, StoreError> {
        budgets::budget(self.store, url)
    }

    /// What the sitemaps of a host have listed, or those of its domain if it has less left.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails or a record is damaged.
    pub fn listing(&self, host: &HostKey) -> Result<Listing, StoreError> {
        listing::of(self.store, host)
    }

    /// How many pages the registered domain of a host has given.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails or the record is damaged.
    pub fn domain_documents(&self, host: &HostKey) -> Result<u64, StoreError> {
        budgets::domain_documents(self.store, host)
    }

    /// The pages through which an address was reached, nearest first, the seed
    /// last.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails or a record is damaged.
    pub fn chain(&self, record: &UrlRecord) -> Result<Vec<PageUrl>, StoreError> {
        let mut chain = Vec::new();
        let mut via = record.via;
        while let Some(id) = via
            && chain.len() < MAX_CHAIN
        {
            let key = keys::document(id);
            let text = self.store.get(&key)?.unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            let Ok(url) = PageUrl::parse(&text) else {
                let why = format!("`{text}` is no address");
                return Err(codec::corrupt(self.store, &key, why));
            };
            let numbered = |r: &UrlRecord| match r.state {
                State::Done { id: own } | State::Redirected { id: own, .. } => own == id,
                // Queued for another visit, or lost at one.
                _ => r.visit.as_ref().and_then(|v| v.id) == Some(id),
            };
            via = None;
            for kind in [TaskKind::Page, TaskKind::Image, TaskKind::Sitemap] {
                if let Some(record) = self.url(&url, kind)?.filter(numbered) {
                    via = record.via;
                }
            }
            chain.push(url);
        }
        Ok(chain)
    }

    /// Where an image was sent when it was asked for: the last address of the
    /// chain, if there is one.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails or a record is damaged.
    pub fn target(&self, url: &PageUrl, kind: TaskKind) -> Result<Option<PageUrl>, StoreError> {
        let mut last = None;
        let mut at = url.clone();
        for _ in 0..MAX_REDIRECTS {
            let Some(record) = self.url(&at, kind)? else {
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

    /// What the robots.txt and the tdmrep.json of its host say of the use of what lies
    /// at an address, for the product token `agent`, as far as they are known.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails or a record is damaged.
    pub fn terms(&self, url: &PageUrl, agent: &str) -> Result<Terms, StoreError> {
        let key = keys::tdmrep(&url.host_key(), url.scheme());
        let file: Option<TdmRecord> = codec::get(self.store, &key)?;
        let mut terms = file.map_or_else(Terms::default, |file| tdm_terms(&file.rules, url));
        if let Some(robots) = self.robots(url, agent)? {
            terms.content_signals = robots.content_signals(url);
        }
        Ok(terms)
    }

    /// The robots rules that govern an address, for the product token `agent`:
    /// `None` where they are not known.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn robots(&self, url: &PageUrl, agent: &str) -> Result<Option<Robots>, StoreError> {
        let known = self.host(&url.host_key())?;
        match known.map(|h| h.robots(url.scheme()).clone()) {
            Some(RobotsState::Known { missing: true, .. }) => Ok(Some(Robots::allow_all())),
            Some(RobotsState::Known { .. }) => {
                let key = keys::robots_body(&url.host_key(), url.scheme());
                let body = self.store.get(&key)?;
                Ok(body.map(|body| Robots::parse(agent, &body)))
            }
            _ => Ok(None),
        }
    }
}
