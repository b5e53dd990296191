//! What all machines of a cluster are to do: one state, the value of one key.
//!
//! An operator changes it on any machine, by compare-and-set. Every machine reads the key before
//! it opens its first cell, again whenever its term had lapsed, and from time to time, and brings
//! itself into that state. So a machine that was off, frozen or lost misses nothing, and only the
//! last state counts.
//!
//! Seeds and takedowns grow without a bound, and a value has one. So each list of them is a key
//! of its own, which is written before the state names it and is never changed.
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

/// The key.
pub(crate) const KEY: &str = "wanted";
/// What the keys of lists begin with.
const LIST: &str = "list.";
/// The most bytes of a value. Brokers take 1 MiB with its headers.
const MOST_BYTES: usize = (1 << 20) - 4096;
/// How often the key is tried that others change at the same time, and how often a broker that
/// does not answer.
const ATTEMPTS: usize = 20;
const FAILURES: usize = 3;
/// How soon a broker is tried again.
const AGAIN: Duration = Duration::from_millis(500);

/// Who has changed something, and when.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WantedBy {
    /// The version of the state that has it first.
    #[serde(default)]
    pub version: u64,
    /// Who, in words.
    pub by: String,
    /// RFC 3339 in UTC, by the clock of the machine that was told.
    pub time: String,
}

impl WantedBy {
    /// The same for what a version of the state has first.
    pub fn in_version(&self, version: u64) -> Self {
        Self {
            version,
            ..self.clone()
        }
    }
}

/// A key of the configuration with another value than in the job file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetKey {
    /// Null removes the value.
    pub value: Value,
    /// Who has set it.
    pub said: WantedBy,
}

/// What all machines are to do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WantedState {
    /// Grows with every change.
    pub version: u64,
    /// The job file and the model; `None` where no machine has begun.
    #[serde(default)]
    pub settings: Option<SharedSettings>,
    /// Who has applied the job file.
    #[serde(default)]
    pub reloaded: WantedBy,
    /// Full keys that were set since.
    #[serde(default)]
    pub keys: BTreeMap<String, SetKey>,
    /// Whether hosts are asked.
    #[serde(default)]
    pub paused: bool,
    /// Who has said so.
    #[serde(default)]
    pub paused_by: WantedBy,
    /// Sessions that are to give their cells to others and end.
    #[serde(default)]
    pub leaving: BTreeSet<SessionId>,
    /// The names of the lists of seeds and takedowns.
    #[serde(default)]
    pub lists: Vec<String>,
}

/// A list of seeds and takedowns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WantedList {
    /// Addresses to be fetched before all others.
    #[serde(default)]
    pub seeds: Vec<String>,
    /// What is never fetched again.
    #[serde(default)]
    pub takedowns: Vec<scope::Order>,
    /// Who has given it.
    pub said: WantedBy,
}

/// Why the state was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WantedError {
    /// A value is too long.
    #[error("it has {bytes} bytes, and the brokers take {MOST_BYTES}; give it in several parts")]
    Long {
        /// Its length.
        bytes: usize,
    },
    /// The broker did not answer.
    #[error("{0}; whether the other machines get it is not known, so do it again")]
    Engine(#[from] EngineError),
}

/// A change of the state.
pub type WantedEdit<'e> = dyn Fn(&mut WantedState) + Send + Sync + 'e;

impl WantedState {
    /// The state as it is now; `None` where there is none.
    ///
    /// # Errors
    /// [`EngineError`] where the broker does not answer, or it cannot be read.
    pub async fn read(engine: &impl Engine) -> Result<Option<(Self, Revision)>, EngineError> {
        let found = engine.get(KEY).await?;
        let read = found.map(|(bytes, revision)| Ok((Self::of(&bytes)?, revision)));
        read.transpose()
    }

    /// Reads the value.
    ///
    /// # Errors
    /// [`EngineError`] where it is none.
    pub(super) fn of(bytes: &[u8]) -> Result<Self, EngineError> {
        serde_json::from_slice(bytes).map_err(|error| EngineError::Failed {
            to: format!("the key `{KEY}`"),
            what: "reading the value",
            why: format!("{error}; do all machines run the same version of spoor?"),
        })
    }

    /// Writes it in place of the one that was read.
    ///
    /// # Errors
    /// [`WantedError`]; [`EngineError::Stale`] where others have changed it meanwhile.
    pub async fn write(
        &self,
        engine: &impl Engine,
        was: Option<Revision>,
    ) -> Result<(), WantedError> {
        engine.swap(KEY, bytes_of(self)?, was).await?;
        Ok(())
    }

    /// Changes the state that is there, and returns it as it is then. A list is written first.
    /// Where no answer comes it is tried again, so the edit may be done twice.
    ///
    /// # Errors
    /// [`WantedError`].
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
                // It is there already: the name is that of the contents.
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

    /// The lists that are not among those that are known, with their names. One that cannot be
    /// read is passed over, with a warning.
    ///
    /// # Errors
    /// [`EngineError`] where the broker does not answer.
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
                    "the key `{LIST}{name}` of the cluster is passed over: {error}; give its \
                     seeds or takedowns again"
                ),
            }
        }
        Ok(lists)
    }

    /// Everything that is to be taken down.
    ///
    /// # Errors
    /// [`EngineError`] where the broker does not answer.
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
    use super::super::told::{Fate, Told};
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
        let told = Told::default();
        assert_eq!(WantedState::read(&told).await.unwrap(), None);
        told.next_swaps(KEY, [Fate::Lost, Fate::Refused]);
        let pause: &WantedEdit<'_> = &|wanted| wanted.paused = true;
        let paused = WantedState::change(&told, None, pause).await.unwrap();
        assert!(paused.paused && paused.version == 2, "{paused:?}");
        for host in ["a.test", "b.test", "a.test"] {
            let list = takedown(host);
            WantedState::change(&told, Some(&list), &|_| {})
                .await
                .unwrap();
        }
        let (wanted, _) = WantedState::read(&told).await.unwrap().unwrap();
        assert!(wanted.paused && wanted.version == 5 && wanted.lists.len() == 2);
        let known = BTreeSet::from([wanted.lists[0].clone()]);
        let lists = wanted.lists(&told, &known).await.unwrap();
        assert_eq!(lists, [(wanted.lists[1].clone(), takedown("b.test"))]);
        assert_eq!(WantedState::takedowns(&told).await.unwrap().len(), 2);
        told.set_away(true);
        let failed = WantedState::change(&told, None, pause).await.unwrap_err();
        assert!(failed.to_string().contains("do it again"), "{failed}");
    }

    #[tokio::test]
    async fn what_is_too_long_is_refused_and_what_cannot_be_read_is_named() {
        let told = Told::default();
        let long = WantedList {
            seeds: vec!["x".repeat(MOST_BYTES)],
            ..WantedList::default()
        };
        let refused = WantedState::change(&told, Some(&long), &|_| {}).await;
        assert!(matches!(refused, Err(WantedError::Long { .. })));
        WantedState::change(&told, Some(&takedown("a.test")), &|wanted| {
            wanted.lists.push("gone".to_owned());
        })
        .await
        .unwrap();
        assert_eq!(WantedState::takedowns(&told).await.unwrap().len(), 1);
        let (_, was) = WantedState::read(&told).await.unwrap().unwrap();
        told.swap(KEY, b"{".to_vec(), Some(was)).await.unwrap();
        let damaged = WantedState::read(&told).await.unwrap_err();
        assert!(damaged.to_string().contains("`wanted`"), "{damaged}");
    }
}
