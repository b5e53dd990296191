//! What all machines of a cluster should do: one state, the value of one key.
//!
//! An operator changes it through any machine, by compare-and-set. Every machine reads the key
//! before it opens its first cell, whenever its term has lapsed, and from time to time, and brings
//! itself into that state. So a machine that was off, frozen or cut off misses nothing, and only
//! the latest state counts.
//!
//! Seeds and takedowns grow without bound, but the size of a value is limited. So each list of them
//! has a key of its own, which is written before the state names it and never changes.
//!
//! Values are JSON, so that an operator can read them with the tools of the broker.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_128;

use super::shared_settings::SharedSettings;
use super::{Engine, EngineError, Revision, SessionId};
use crate::web::scope;

/// The key of the state.
pub(crate) const KEY: &str = "wanted";
/// The prefix of the keys of lists.
const LIST: &str = "list.";
/// The most bytes of a value. Brokers accept 1 MiB including headers.
const MOST_BYTES: usize = (1 << 20) - 4096;
/// How often to try again when others change the key at the same time, and when the broker does not
/// answer.
const ATTEMPTS: usize = 20;
const FAILURES: usize = 3;
/// The pause before trying a broker again.
const AGAIN: Duration = Duration::from_millis(500);

/// Who made a change, and when.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedBy {
    /// The version of the state that introduced the change.
    #[serde(default)]
    pub version: u64,
    /// Who, in words.
    pub by: String,
    /// RFC 3339 in UTC, by the clock of the machine that received the change.
    pub time: String,
}

impl WantedBy {
    /// The same, for a change that this version of the state introduces.
    pub fn in_version(&self, version: u64) -> Self {
        Self {
            version,
            ..self.clone()
        }
    }
}

/// A configuration key whose value was changed from that of the job file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetKey {
    /// Null removes the value.
    pub value: Value,
    /// Who set it.
    pub said: WantedBy,
}

/// What all machines should do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WantedState {
    /// Grows with every change.
    pub version: u64,
    /// The job file and the model; `None` if no machine has begun.
    #[serde(default)]
    pub settings: Option<SharedSettings>,
    /// Who last applied the job file.
    #[serde(default)]
    pub reloaded: WantedBy,
    /// Keys that were set since then, by their full names.
    #[serde(default)]
    pub keys: BTreeMap<String, SetKey>,
    /// Whether the crawl is paused.
    #[serde(default)]
    pub paused: bool,
    /// Who last paused or resumed it.
    #[serde(default)]
    pub paused_by: WantedBy,
    /// Sessions that should give their cells to others and end.
    #[serde(default)]
    pub leaving: BTreeSet<SessionId>,
    /// The names of the lists of seeds and takedowns.
    #[serde(default)]
    pub lists: Vec<String>,
}

/// A list of seeds and takedowns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WantedList {
    /// Addresses to fetch before all others.
    #[serde(default)]
    pub seeds: Vec<String>,
    /// What must never be fetched again.
    #[serde(default)]
    pub takedowns: Vec<scope::Order>,
    /// Who added the list.
    pub said: WantedBy,
}

/// Why the state was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WantedError {
    /// A value is too long.
    #[error(
        "it has {bytes} bytes, but the brokers accept at most {MOST_BYTES}; split it into parts"
    )]
    Long {
        /// Its length.
        bytes: usize,
    },
    /// The broker failed or did not answer.
    #[error("{0}; it is not known whether the other machines will get the change, so do it again")]
    Engine(#[from] EngineError),
}

/// An edit of the state.
pub type WantedEdit<'e> = dyn Fn(&mut WantedState) + Send + Sync + 'e;

impl WantedState {
    /// The current state; `None` if there is none.
    ///
    /// # Errors
    /// [`EngineError`] if the broker does not answer, or the state cannot be read.
    pub async fn read(engine: &impl Engine) -> Result<Option<(Self, Revision)>, EngineError> {
        let found = engine.get(KEY).await?;
        let read = found.map(|(bytes, revision)| Ok((Self::of(&bytes)?, revision)));
        read.transpose()
    }

    /// Decodes the value of the key.
    ///
    /// # Errors
    /// [`EngineError`] if it is not a state.
    pub(super) fn of(bytes: &[u8]) -> Result<Self, EngineError> {
        serde_json::from_slice(bytes).map_err(|error| EngineError::Failed {
            to: format!("the key `{KEY}`"),
            what: "reading the value",
            why: format!("{error}; do all machines run the same version of spoor?"),
        })
    }

    /// Writes this state in place of the one that was read.
    ///
    /// # Errors
    /// [`WantedError`]; with [`EngineError::Stale`] inside if others have changed the state since.
    pub async fn write(
        &self,
        engine: &impl Engine,
        was: Option<Revision>,
    ) -> Result<(), WantedError> {
        engine.swap(KEY, bytes_of(self)?, was).await?;
        Ok(())
    }

    /// Edits the current state, and returns the result. A list is written first. If no answer
    /// comes, it tries again, so the edit may be applied twice.
    ///
    /// # Errors
    /// [`WantedError`] if the change could not be made.
    pub async fn change(
        engine: &impl Engine,
        list: Option<&WantedList>,
        edit: &WantedEdit<'_>,
    ) -> Result<Self, WantedError> {
        let (mut refused, mut failed) = (0, 0);
        loop {
            match Self::change_once(engine, list, edit).await {
                Err(WantedError::Engine(EngineError::Stale)) if refused < ATTEMPTS => refused += 1,
                Err(WantedError::Engine(error))
                    if error != EngineError::Stale && error.may_pass() && failed + 1 < FAILURES =>
                {
                    failed += 1;
                    tokio::time::sleep(AGAIN).await;
                }
                done => return done,
            }
        }
    }

    async fn change_once(
        engine: &impl Engine,
        list: Option<&WantedList>,
        edit: &WantedEdit<'_>,
    ) -> Result<Self, WantedError> {
        let found = Self::read(engine).await?;
        let (mut wanted, was) = found.map_or_else(Default::default, |(w, was)| (w, Some(was)));
        wanted.version += 1;
        edit(&mut wanted);
        if let Some(list) = list {
            let bytes = bytes_of(list)?;
            let name = format!("{:032x}", xxh3_128(&bytes));
            match engine.swap(&format!("{LIST}{name}"), bytes, None).await {
                // It is already there: its name is the hash of its contents.
                Ok(_) | Err(EngineError::Stale) => {}
                Err(error) => return Err(error.into()),
            }
            if !wanted.lists.contains(&name) {
                wanted.lists.push(name);
            }
        }
        wanted.write(engine, was).await?;
        Ok(wanted)
    }

    /// The lists that are not yet known, with their names. One that cannot be read is skipped with
    /// a warning.
    ///
    /// # Errors
    /// [`EngineError`] if the broker does not answer.
    pub async fn lists(
        &self,
        engine: &impl Engine,
        known: &BTreeSet<String>,
    ) -> Result<Vec<(String, WantedList)>, EngineError> {
        let mut lists = Vec::new();
        for name in self.lists.iter().filter(|name| !known.contains(*name)) {
            let found = engine.get(&format!("{LIST}{name}")).await?;
            let (bytes, _) = found.unwrap_or((Vec::new(), Revision(0)));
            match serde_json::from_slice(&bytes) {
                Ok(list) => lists.push((name.clone(), list)),
                Err(error) => tracing::warn!(
                    "the key `{LIST}{name}` of the cluster is skipped: {error}; add its \
                     seeds or takedowns again"
                ),
            }
        }
        Ok(lists)
    }

    /// Everything that must be taken down.
    ///
    /// # Errors
    /// [`EngineError`] if the broker does not answer.
    pub async fn takedowns(engine: &impl Engine) -> Result<Vec<scope::Order>, EngineError> {
        let Some((wanted, _)) = Self::read(engine).await? else {
            return Ok(Vec::new());
        };
        let lists = wanted.lists(engine, &BTreeSet::new()).await?;
        let all = lists.into_iter().flat_map(|(_, list)| list.takedowns);
        Ok(all.collect())
    }
}

fn bytes_of(value: &impl Serialize) -> Result<Vec<u8>, WantedError> {
    // Strings and numbers always serialise.
    let bytes = serde_json::to_vec(value).unwrap_or_default();
    match bytes.len() {
        bytes if bytes > MOST_BYTES => Err(WantedError::Long { bytes }),
        _ => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::super::scripted::{Fate, Scripted};
    use super::*;

    fn takedown(host: &str) -> WantedList {
        WantedList {
            takedowns: vec![scope::Order {
                time: "2026-01-02T03:04:05.000Z".to_owned(),
                target: scope::Target::Host(host.parse().unwrap()),
                reason: None,
            }],
            ..WantedList::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn changes_add_up_also_where_answers_are_lost_and_others_are_faster() {
        let engine = Scripted::default();
        assert_eq!(WantedState::read(&engine).await.unwrap(), None);
        engine.next_swaps(KEY, [Fate::Lost, Fate::Refused]);
        let pause: &WantedEdit<'_> = &|wanted| wanted.paused = true;
        let paused = WantedState::change(&engine, None, pause).await.unwrap();
        assert!(paused.paused && paused.version == 2, "{paused:?}");
        for host in ["a.test", "b.test", "a.test"] {
            let list = takedown(host);
            WantedState::change(&engine, Some(&list), &|_| {})
                .await
                .unwrap();
        }
        let (wanted, _) = WantedState::read(&engine).await.unwrap().unwrap();
        assert!(wanted.paused && wanted.version == 5 && wanted.lists.len() == 2);
        let known = BTreeSet::from([wanted.lists[0].clone()]);
        let lists = wanted.lists(&engine, &known).await.unwrap();
        assert_eq!(lists, [(wanted.lists[1].clone(), takedown("b.test"))]);
        assert_eq!(WantedState::takedowns(&engine).await.unwrap().len(), 2);
        engine.set_away(true);
        let failed = WantedState::change(&engine, None, pause).await.unwrap_err();
        assert!(failed.to_string().contains("do it again"), "{failed}");
    }

    #[tokio::test]
    async fn what_is_too_long_is_refused_and_what_cannot_be_read_is_named() {
        let engine = Scripted::default();
        let long = WantedList {
            seeds: vec!["x".repeat(MOST_BYTES)],
            ..WantedList::default()
        };
        let refused = WantedState::change(&engine, Some(&long), &|_| {}).await;
        assert!(matches!(refused, Err(WantedError::Long { .. })));
        WantedState::change(&engine, Some(&takedown("a.test")), &|wanted| {
            wanted.lists.push("gone".to_owned());
        })
        .await
        .unwrap();
        assert_eq!(WantedState::takedowns(&engine).await.unwrap().len(), 1);
        let (_, was) = WantedState::read(&engine).await.unwrap().unwrap();
        engine.swap(KEY, b"{".to_vec(), Some(was)).await.unwrap();
        let damaged = WantedState::read(&engine).await.unwrap_err();
        assert!(damaged.to_string().contains("`wanted`"), "{damaged}");
    }
}
