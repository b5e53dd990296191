//! The files with a host's rules: its robots.txt, its tdmrep.json, and RSL files.
//!
//! `robots` (the meaning of each answer), `robots_recheck` (URLs that newer rules allow),
//! `terms_files`, `on_way` (what redirects state). Here is the cache of parsed rules.

pub mod on_way;
pub mod robots;
pub mod robots_recheck;
pub mod terms_files;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::cell::CellCount;
use super::keys;
use super::record::{HostRecord, RobotsState};
use super::store::{Store, StoreError};
use crate::address::HostKey;
use crate::web::robots::Robots;
pub use robots::{RobotsAnswer, RobotsTask, queue_errand};
pub use robots_recheck::Recheck;
pub use terms_files::{RslRecord, TdmRecord, TermsFiles, TermsRequest};

/// Most bytes of robots rules in memory: many hosts may each serve a robots.txt of the
/// greatest accepted length.
const MAX_CACHED_RULES: usize = if cfg!(test) {
    1024 * 1024
} else {
    64 * 1024 * 1024
};

/// Robots rules in memory, and whether newer ones are still to be applied.
pub struct HostFiles {
    rules: HashMap<(HostKey, &'static str), Arc<Robots>>,
    /// Size of `rules` in memory, in bytes.
    bytes: usize,
    /// The maximum of `bytes`.
    most: usize,
    /// Whether some host's addresses are to be compared with its new robots rules.
    rechecking: bool,
}

impl Default for HostFiles {
    fn default() -> Self {
        Self::shared_by(CellCount::ONE)
    }
}

impl HostFiles {
    /// The share of one of this many cells in the memory for rules.
    pub fn shared_by(cells: CellCount) -> Self {
        Self {
            rules: HashMap::new(),
            bytes: 0,
            most: MAX_CACHED_RULES / usize::from(cells.number()),
            rechecking: false,
        }
    }

    /// Whether some host's addresses are to be compared with its new robots rules.
    pub fn is_rechecking(&self) -> bool {
        self.rechecking
    }

    /// Notes that the rules of a host have changed.
    pub fn expect_recheck(&mut self) {
        self.rechecking = true;
    }

    /// Looks up in the store whether any host's rules have changed.
    pub fn look_up_rechecks(&mut self, store: &dyn Store) -> Result<(), StoreError> {
        self.rechecking = Recheck::first(store)?.is_some();
        Ok(())
    }

    /// The rules of a host for the product token `agent`, from memory or from the store.
    pub fn rules(
        &mut self,
        store: &dyn Store,
        agent: &str,
        host: &HostKey,
        scheme: &'static str,
    ) -> Result<Arc<Robots>, StoreError> {
        if let Some(rules) = self.rules.get(&(host.clone(), scheme)) {
            return Ok(Arc::clone(rules));
        }
        let rules = Arc::new(match store.get(&keys::robots_body(host, scheme))? {
            Some(body) => Robots::parse(agent, &body),
            None => Robots::allow_all(),
        });
        self.replace(host, scheme, Some(Arc::clone(&rules)));
        Ok(rules)
    }

    /// The crawl delay of the host's other scheme: both share one clock.
    pub fn other_delay(
        &mut self,
        store: &dyn Store,
        agent: &str,
        (host, record): (&HostKey, &HostRecord),
        scheme: &str,
    ) -> Result<Option<Duration>, StoreError> {
        let other = if scheme == "https" { "http" } else { "https" };
        match record.robots(other) {
            RobotsState::Known { .. } => Ok(self.rules(store, agent, host, other)?.crawl_delay()),
            _ => Ok(None),
        }
    }

    /// Whether the byte count is right and within its bound.
    #[cfg(test)]
    pub fn is_within_bound(&self) -> bool {
        let held: usize = self.rules.values().map(|rules| rules.size()).sum();
        held == self.bytes && held <= self.most
    }

    /// Replaces or removes the cached rules of a host.
    pub fn replace(&mut self, host: &HostKey, scheme: &'static str, rules: Option<Arc<Robots>>) {
        let key = (host.clone(), scheme);
        if let Some(old) = self.rules.remove(&key) {
            self.bytes = self.bytes.saturating_sub(old.size());
        }
        let Some(rules) = rules else { return };
        if self.bytes.saturating_add(rules.size()) > self.most {
            self.rules.clear();
            self.bytes = 0;
        }
        self.bytes = self.bytes.saturating_add(rules.size());
        self.rules.insert(key, rules);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A long robots.txt, different for each number.
    fn long(number: usize) -> Arc<Robots> {
        let lines = (0..20).map(|i| format!("Disallow: /{number}/{i}{}\n", "x".repeat(5_000)));
        let text: String = lines.collect();
        let text = format!("User-agent: *\n{text}");
        Arc::new(Robots::parse("spoor", text.as_bytes()))
    }

    #[test]
    fn rules_in_memory_are_bounded_for_any_hosts() {
        let mut files = HostFiles::default();
        for number in 0..50 {
            let host = HostKey::from_stored(&format!("{number}.example"));
            files.replace(&host, "http", Some(long(number)));
            assert!(files.is_within_bound());
            // Newer rules take the place of older ones.
            files.replace(&host, "http", Some(long(number + 1)));
            assert!(files.is_within_bound());
        }
        let last = HostKey::from_stored("49.example");
        files.replace(&last, "http", None);
        assert!(files.is_within_bound());
    }
}
