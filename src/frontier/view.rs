//! Looking into a stored frontier without changing it, not even its mark of a
//! clean end.

use super::record::{HostRecord, RobotsState, State, UrlRecord};
use super::store::{Store, StoreError};
use super::{Budget, codec, keys, traps};
use crate::address::{HostKey, PageUrl};
use crate::page::TaskKind;
use crate::robots::Robots;

/// Pages between an address and its seed that are shown at most; scores and
/// redirects could otherwise make a chain turn back on itself.
const MAX_CHAIN: usize = 100;

/// A frontier that is only read.
pub struct View(Box<dyn Store>);

impl View {
    /// Takes an open store.
    pub fn new(store: Box<dyn Store>) -> Self {
        Self(store)
    }

    /// All that is known of an address, if anything is.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails or the record is damaged.
    pub fn url(&self, url: &PageUrl, kind: TaskKind) -> Result<Option<UrlRecord>, StoreError> {
        let key = keys::url(url, kind);
        codec::read(&*self.0, &key, self.0.get(&key)?)
    }

    /// All that is known of a host, if anything is.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails or the record is damaged.
    pub fn host(&self, host: &HostKey) -> Result<Option<HostRecord>, StoreError> {
        let key = keys::host(host);
        codec::read(&*self.0, &key, self.0.get(&key)?)
    }

    /// What the prefixes that an address belongs to have spent, and what is left.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails or a record is damaged.
    pub fn budget(&self, url: &PageUrl) -> Result<Budget, StoreError> {
        traps::budget(&*self.0, url)
    }

    /// How many pages the registered domain of a host has given.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails or the record is damaged.
    pub fn domain_documents(&self, host: &HostKey) -> Result<u64, StoreError> {
        traps::domain_documents(&*self.0, host)
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
            let text = self.0.get(&key)?.unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            let Ok(url) = PageUrl::parse(&text) else {
                let why = format!("`{text}` is no address");
                return Err(codec::corrupt(&*self.0, &key, why));
            };
            let page = self.url(&url, TaskKind::Page)?;
            let numbered = |r: &UrlRecord| match r.state {
                State::Done { id: own } | State::Redirected { id: own, .. } => own == id,
                _ => false,
            };
            let record = match page {
                Some(page) if numbered(&page) => Some(page),
                _ => self.url(&url, TaskKind::Image)?,
            };
            via = record.and_then(|r| r.via);
            chain.push(url);
        }
        Ok(chain)
    }

    /// The robots rules that govern an address, for the product token `agent`:
    /// `None` where they are not known.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn robots(&self, url: &PageUrl, agent: &str) -> Result<Option<Robots>, StoreError> {
        let host = url.host_key();
        let known = self.host(&host)?;
        match known.map(|h| h.robots(url.scheme()).clone()) {
            Some(RobotsState::Known { missing: true, .. }) => Ok(Some(Robots::allow_all(agent))),
            Some(RobotsState::Known { .. }) => {
                let body = self.0.get(&keys::robots_body(&host, url.scheme()))?;
                Ok(body.map(|body| Robots::parse(agent, &body)))
            }
            _ => Ok(None),
        }
    }
}
