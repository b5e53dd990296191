//! The files that speak for a host: its robots.txt, and its tdmrep.json.
//!
//! `robots` (what an answer means), `robots_recheck` (what newer rules allow again), `tdmrep`. Here
//! are the parsed rules in memory.

pub mod robots;
pub mod robots_recheck;
pub mod tdmrep;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::keys;
use super::record::{HostRecord, RobotsState};
use super::store::{Store, StoreError};
use crate::address::HostKey;
use crate::web::robots::Robots;
pub use robots::{RobotsAnswer, RobotsTask};
pub use robots_recheck::Recheck;
pub use tdmrep::{TdmRecord, obeyed};

/// Robots rules kept in memory at most, in bytes: a farm of hosts may serve each
/// as long a robots.txt as is read.
const MAX_CACHED_RULES: usize = if cfg!(test) {
    1024 * 1024
} else {
    64 * 1024 * 1024
};

/// Robots rules in memory, and whether newer ones are still to be applied.
#[derive(Default)]
pub struct HostFiles {
    rules: HashMap<(HostKey, &'static str), Arc<Robots>>,
    /// What `rules` takes in memory.
    bytes: usize,
    /// Whether some host's addresses are to be compared with its new robots rules.
    rechecking: bool,
}

impl HostFiles {
    /// Whether some host's addresses are to be compared with its new robots rules.
    pub fn is_rechecking(&self) -> bool {
        self.rechecking
    }

    /// Takes note that the rules of a host have changed.
    pub fn expect_recheck(&mut self) {
        self.rechecking = true;
    }

    /// Finds in the store whether any host's rules have changed.
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

    /// What the rules of the host's other scheme ask for: both share one clock.
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

    /// Whether what is held is counted right, and within its bound.
    #[cfg(test)]
    pub fn is_within_bound(&self) -> bool {
        let held: usize = self.rules.values().map(|rules| rules.size()).sum();
        held == self.bytes && held <= MAX_CACHED_RULES
    }

    /// Replaces the rules of a host in memory, or forgets them.
    pub fn replace(&mut self, host: &HostKey, scheme: &'static str, rules: Option<Arc<Robots>>) {
        let key = (host.clone(), scheme);
        if let Some(old) = self.rules.remove(&key) {
            self.bytes = self.bytes.saturating_sub(old.size());
        }
        let Some(rules) = rules else { return };
        if self.bytes.saturating_add(rules.size()) > MAX_CACHED_RULES {
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
    fn rules_in_memory_are_bounded_whatever_hosts_serve() {
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
