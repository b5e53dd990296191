//! Read-only access to a frontier: a stored one, without even changing its mark of a
//! clean end, or a running one.

use std::ops::ControlFlow;

use super::cell::Home;
use super::host_files::{TermsFiles, on_way};
use super::ratings::clues::{self, Example};
use super::record::{GroupKey, GroupRecord, HostRecord, RobotsState, State, UrlRecord};
use super::schedule::Schedule;
use super::store::{Store, StoreError};
use super::transaction::{class_of, rank_of};
use super::traps::{Budget, Listing, budgets, listing};
use super::{codec, contexts, keys};
use crate::address::{HostKey, PageUrl};
use crate::page::{Clues, TaskKind, Terms};
use crate::web::robots::{Robots, TDMREP_PATH};

/// Most pages that are shown between an address and its seed; scores and redirects could
/// otherwise form a cycle.
const MAX_CHAIN: usize = 100;

/// Most redirects that are followed, because stored records may form a cycle.
const MAX_REDIRECTS: usize = 20;

/// Most queue entries that are counted; a longer queue is reported as this many.
pub const MAX_AHEAD: u64 = 1_000;

/// The learned state of a learning crawl.
#[derive(Debug, Clone, Default)]
pub struct LearnedState {
    /// The state up to some example, as the model serialises it.
    pub snapshot: Option<Vec<u8>>,
    /// The examples since then, in order.
    pub examples: Vec<Example>,
}

/// A read-only frontier.
pub struct View<'a> {
    store: &'a dyn Store,
    /// For a running frontier: open leases, and clocks that are not written yet.
    schedule: Option<&'a Schedule>,
    /// Which cell this is. Addresses of other cells are read there.
    home: Home,
}

impl<'a> View<'a> {
    /// The frontier of a single cell ([`only`](super::only)) that no crawl is using.
    pub fn new(store: &'a dyn Store) -> Self {
        Self {
            store,
            schedule: None,
            home: Home::ONLY,
        }
    }

    /// A running frontier.
    pub(super) fn live(store: &'a dyn Store, schedule: &'a Schedule, home: Home) -> Self {
        Self {
            store,
            schedule: Some(schedule),
            home,
        }
    }

    /// Whether a crawl is running on it.
    pub fn is_live(&self) -> bool {
        self.schedule.is_some()
    }

    /// The record of an address, if it is known.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails or the record is damaged.
    pub fn url(&self, url: &PageUrl, kind: TaskKind) -> Result<Option<UrlRecord>, StoreError> {
        let key = keys::url(url, kind);
        match self.home.elsewhere(&url.host_key()) {
            Some(cell) => codec::get(self.store, &keys::elsewhere(cell, &key)),
            None => codec::get(self.store, &key),
        }
    }

    /// The record of a host, if it is known.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails or the record is damaged.
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

    /// The clocks that a host shares with others, each with the name of its group. If the frontier
    /// is not running, only those in a back-off.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails or a record is damaged.
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

    /// Whether an address is being requested at this moment.
    pub fn is_leased(&self, url: &PageUrl, kind: TaskKind) -> bool {
        let key = keys::url(url, kind);
        self.schedule
            .is_some_and(|s| s.is_leased(&url.host_key(), &key))
    }

    /// The features of an address in a learning crawl.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails or the record is damaged.
    pub fn clues(&self, url: &PageUrl, kind: TaskKind) -> Result<Option<Clues>, StoreError> {
        if kind != TaskKind::Page {
            return Ok(None);
        }
        clues::stored(self.store, &keys::url(url, kind))
    }

    /// The learned state of a learning crawl.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails or an example is damaged.
    pub fn learned(&self) -> Result<LearnedState, StoreError> {
        Ok(LearnedState {
            snapshot: self.store.get(keys::LEARNED)?,
            examples: clues::examples(self.store)?,
        })
    }

    /// Whether a page was drawn for the control sample.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn is_control(&self, url: &PageUrl, kind: TaskKind) -> Result<bool, StoreError> {
        let mark = keys::drawn(&keys::url(url, kind));
        Ok(kind == TaskKind::Page && self.store.get(&mark)?.is_some())
    }

    /// Open requests to a host.
    pub fn open_requests(&self, host: &HostKey) -> usize {
        let schedule = self.schedule;
        let active = schedule.and_then(|s| s.slot(host).and_then(|slot| s.host(slot)));
        active.map_or(0, |host| host.leased.len())
    }

    /// The number of tasks of the same kind before a queued address at its host, at most
    /// [`MAX_AHEAD`].
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
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

    /// The number of pages with words around an image that is not fetched yet.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn contexts(&self, image: &PageUrl) -> Result<usize, StoreError> {
        let key = keys::url(image, TaskKind::Image);
        Ok(contexts::keys_of(self.store, &key)?.len())
    }

    /// The spent and the remaining budget of the prefixes of an address.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails or a record is damaged.
    pub fn budget(&self, url: &PageUrl) -> Result<Budget, StoreError> {
        budgets::budget(self.store, url)
    }

    /// The sitemap account of a host, or of its domain if that has less left.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails or a record is damaged.
    pub fn listing(&self, host: &HostKey) -> Result<Listing, StoreError> {
        listing::of(self.store, host)
    }

    /// The number of pages fetched from the registered domain of a host.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails or the record is damaged.
    pub fn domain_documents(&self, host: &HostKey) -> Result<u64, StoreError> {
        budgets::domain_documents(self.store, host)
    }

    /// The pages on the path to an address, nearest first, the seed last.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails or a record is damaged.
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
                let why = format!("`{text}` is not an address");
                return Err(codec::corrupt(self.store, &key, why));
            };
            let numbered = |r: &UrlRecord| match r.state {
                State::Done { id: own } | State::Redirected { id: own, .. } => own == id,
                // Queued for another visit, or dropped at one.
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

    /// The last address of the redirect chain of an address, if there is one.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails or a record is damaged.
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

    /// The terms of use for an address in the robots.txt and the other files of its host,
    /// for the product token `agent`, as far as they are known.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails or a record is damaged.
    pub fn terms(&self, url: &PageUrl, agent: &str) -> Result<Terms, StoreError> {
        let stated = self.stated(url, TaskKind::Image, agent)?.into_iter();
        Ok(stated.fold(Terms::default(), |all, (_, terms)| all.then(terms)))
    }

    /// The same with each place, the file or the redirect, that states something. What a page or
    /// image itself states is not in the store.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails or a record is damaged.
    pub fn stated(
        &self,
        url: &PageUrl,
        kind: TaskKind,
        agent: &str,
    ) -> Result<Vec<(String, Terms)>, StoreError> {
        let (host, scheme) = (url.host_key(), url.scheme());
        let robots = self.robots(url, agent)?.unwrap_or_default();
        let of = |read| TermsFiles::of(self.store, read, &host, scheme);
        let nothing = Robots::default();
        let signals = Terms {
            content_signals: robots.content_signals(url),
            ..Terms::default()
        };
        let rsl = Terms {
            rsl: of((false, true))?.terms(&robots, url).rsl,
            ..Terms::default()
        };
        let mut all = vec![
            ("robots.txt".to_owned(), signals),
            (
                TDMREP_PATH.to_owned(),
                of((true, false))?.terms(&nothing, url),
            ),
            ("License in robots.txt".to_owned(), rsl),
            (
                "a redirect to it".to_owned(),
                on_way::of(self.store, url, kind)?,
            ),
        ];
        all.retain(|(_, terms)| !terms.is_silent());
        Ok(all)
    }

    /// The robots rules for an address, for the product token `agent`; `None` if they
    /// are not known.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
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
