//! Changes the configuration of a running crawl, from a whole job file or key by key.
//! Either way the result is checked like a job file, and nothing is changed if there is
//! any error. With every change the keyword table is read from the model's folder again, and
//! so are the rule files.
//!
//! A change lasts until the crawl ends; `job.toml` in the job's folder, which records how
//! the corpus was made, is updated. The next run uses the job file.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::wanted::{self, RequestResult};
use super::{AuditLine, ControlError, ControlHandle, Rerated, Who, write};
use crate::config::{self, Config, JobSettings};
use crate::crawl::checkpoint::{self, RECORD};
use crate::crawl::pipeline::{Limits, Steering, fit_open_files};
use crate::frontier::{Cells, Rescored};
use crate::settings;
use crate::web::scope::Scope;

/// The part of error messages that says what may change.
pub(super) const LIVE: &str = "while it runs [limits], [scope], [strategy], [buckets] and [rules] \
    may change, [politeness] except address_delay and domain_delay, images.share, \
    network.concurrency and checkpoint.interval; change the job file and restart the crawl for the \
    rest";

/// How long a response waits for all links to be re-rated.
const MAX_WAIT: Duration = Duration::from_secs(3);

/// How often it checks whether they are.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Keys that crawls do not use; changing them does not require a new start.
const ELSEWHERE: [&str; 2] = ["rank.", "annotate."];

/// The current configuration of a crawl.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InForce {
    /// Every section with every key that has a value, as in a job file.
    pub values: Value,
    /// Which of them may change while the crawl runs.
    pub live: String,
}

/// A key with a new value. `keywords` stands for the keyword table, with the words that differ;
/// `rules` for the rules that extract fields from pages, with the names of those that differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The full key, such as `limits.documents`.
    pub key: String,
    /// The value before, as TOML; absent if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The value now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// The result of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// The keys that have changed; empty if none has.
    pub changed: Vec<Change>,
    /// Full keys that differ from the current values and take effect at the next start.
    pub later: Vec<String>,
    /// Progress of re-rating all links at the time of the response; absent if it was not
    /// needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rescored: Option<Rescored>,
    /// Whether it had finished by then; if not, its end is reported in the program's log.
    pub rated: bool,
}

/// A change of a running crawl's configuration.
#[derive(Debug, Clone)]
pub enum ConfigEdit {
    /// The parts of a job file that may change.
    File(Box<Config>),
    /// Single keys.
    Values(BTreeMap<String, Value>),
}

/// Refuses a job file with other values for keys on which all machines of a cluster must agree
/// while they crawl. With another store or term than the others, a machine that restarts would do
/// harm.
fn check_cluster(held: &Config, new: &Config) -> Result<(), ControlError> {
    let shared = held.with_shared(&new.shared())?;
    let mut changed = keys(held, &shared);
    changed.retain(|key| key.starts_with("cluster."));
    if changed.is_empty() {
        return Ok(());
    }
    Err(ControlError::Change(format!(
        "{}: cannot be changed while machines of the cluster crawl; stop all of them, change it \
         in all job files, and start them again. Nothing is changed",
        changed.join(", ")
    )))
}

/// The limits of a job.
pub fn limits(config: &Config) -> Limits {
    Limits {
        documents: config.limits.documents,
        fetches: config.limits.fetches,
        bytes: config.limits.bytes.map(|size| size.bytes()),
        time: config.limits.time,
        finish_images: config.images.are_finished(),
    }
}

impl ControlHandle {
    /// The current configuration of the crawl.
    pub async fn config(&self) -> InForce {
        InForce {
            values: values(&*self.in_force().await),
            live: LIVE.to_owned(),
        }
    }

    /// Changes the configuration while the crawl runs: everything that may change of a job file, or
    /// single keys such as `limits.documents`, where null removes a value. When this returns,
    /// nothing that the new values forbid is leased any more; after a change of the scope or the
    /// ratings, the queue is re-filtered or re-rated in the background.
    ///
    /// # Errors
    ///
    /// [`ControlError::Ended`], [`ControlError::Store`] or [`ControlError::Ratings`], and
    /// [`ControlError::Change`] if a key is unknown, cannot change while the crawl runs, or has an
    /// invalid value; then nothing is changed.
    pub async fn change(
        &self,
        edit: ConfigEdit,
        who: &Who,
    ) -> Result<RequestResult<Changes>, ControlError> {
        let shared = self.shared()?;
        let mut held = self.0.in_force.lock().await;
        let (new, later) = match &edit {
            ConfigEdit::Values(values) => (wanted::set(&held, values)?, Vec::new()),
            ConfigEdit::File(file) => {
                let new = merged(&held, file);
                let mut later: Vec<String> = keys(&new, file);
                later.retain(|key| !ELSEWHERE.iter().any(|section| key.starts_with(section)));
                (new, later)
            }
        };
        let (changed, rates, machines) = match shared {
            None => {
                let (changed, rates) = self.put(&mut held, new, who).await?;
                drop(held);
                (changed, rates, None)
            }
            Some(shared) => {
                if let ConfigEdit::File(file) = &edit {
                    check_cluster(&held, file)?;
                }
                self.check_ratings(&new)?;
                drop(held);
                let given = match edit {
                    ConfigEdit::Values(values) => self.give_keys(shared, values, who).await?,
                    ConfigEdit::File(file) => self.give_file(shared, &file, who).await?,
                };
                (given.value.changed, given.value.rates, given.machines)
            }
        };
        let (rescored, rated) = if rates {
            self.rescored().await
        } else {
            (None, true)
        };
        let value = Changes {
            changed,
            later,
            rescored,
            rated,
        };
        Ok(RequestResult { value, machines })
    }

    /// Checks that the ratings of a configuration can be made.
    fn check_ratings(&self, new: &Config) -> Result<(), ControlError> {
        let ratings = self.0.ratings.get();
        ratings.map_or(Ok(()), |ratings| ratings.by(new).map(drop))
    }

    pub(crate) async fn in_force(&self) -> Arc<Config> {
        Arc::clone(&*self.0.in_force.lock().await)
    }

    /// Progress of re-rating all links when it finishes, or after a while; and whether it has
    /// finished.
    async fn rescored(&self) -> (Option<Rescored>, bool) {
        let begun = tokio::time::Instant::now();
        loop {
            let look = |frontier: &mut Cells| (frontier.rescored(), !frontier.is_rescoring());
            match self.0.asker.ask(look).await {
                None => return (None, false),
                Some((came, true)) => return (Some(came), true),
                Some((came, false)) if begun.elapsed() > MAX_WAIT => return (Some(came), false),
                Some(_) => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }

    /// The changed keys, and whether all links are re-rated.
    pub(super) async fn put(
        &self,
        held: &mut Arc<Config>,
        new: Config,
        who: &Who,
    ) -> Result<(Vec<Change>, bool), ControlError> {
        let mut changed = held.changes(&new);
        // The keywords may differ even if no key has changed.
        let rerated = match self.0.ratings.get() {
            Some(ratings) => ratings.by(&new)?,
            None => None,
        };
        changed.extend(rerated.iter().flat_map(|other| other.changed.clone()));
        let changed: Vec<Change> = changed.into_iter().map(Change::from).collect();
        let rates = rerated.as_ref().is_some_and(|other| other.rates);
        if changed.is_empty() && rerated.is_none() {
            return Ok((changed, rates));
        }
        let new = Arc::new(new);
        let (old, next) = (Arc::clone(held), Arc::clone(&new));
        let answer = self
            .0
            .asker
            .steer(move |run| apply(run, &old, &next, rerated));
        answer.await.ok_or(ControlError::Ended)??;
        *held = new;
        for change in &changed {
            self.record(AuditLine {
                key: Some(change.key.clone()),
                from: change.from.clone(),
                to: change.to.clone(),
                ..AuditLine::of(who, "set")
            })
            .await;
        }
        let path = self.0.folder.join(RECORD);
        match held.absolute() {
            Err(error) => {
                tracing::warn!("{}: {error}; it keeps the previous values", path.display())
            }
            Ok(record) => {
                if let Err(error) = write(&self.0.folder, RECORD, record.to_toml()).await {
                    tracing::warn!("{error}; it keeps the previous values");
                }
            }
        }
        Ok((changed, rates))
    }
}

/// Runs on the thread that owns the frontier.
fn apply(
    run: &mut Steering<'_>,
    old: &Config,
    new: &Config,
    rerated: Option<Rerated>,
) -> Result<(), ControlError> {
    let rates = |config: &Config| {
        let p = &config.politeness;
        (p.requests_per_second, p.bytes_per_second.map(|s| s.bytes()))
    };
    if rates(old) != rates(new) {
        let (requests, bytes) = rates(new);
        let set = run.fetcher.set_rates(requests, bytes);
        set.map_err(|error| ControlError::Change(error.to_string()))?;
    }
    if old.scope != new.scope {
        let takedowns = run.frontier.scope().takedowns().clone();
        let scope = Scope::new(new.scope.clone()).with_takedowns(takedowns);
        run.frontier.set_scope(scope)?;
    }
    if let Some(rerated) = rerated {
        rerated.put(run.frontier)?;
    }
    run.frontier.set_policy(checkpoint::policy(new));
    if let Some(limits) = run.limits.as_deref_mut() {
        *limits = self::limits(new);
    }
    if old.network.concurrency != new.network.concurrency {
        run.options.concurrency = fit_open_files(new.network.concurrency);
    }
    run.options.checkpoint = new.checkpoint.interval;
    Ok(())
}

/// `old` with those parts of `new` that may change while a crawl runs.
pub(super) fn merged(old: &Config, new: &Config) -> Config {
    let settings = JobSettings {
        limits: new.limits.clone(),
        scope: new.scope.clone(),
        strategy: new.strategy.clone(),
        buckets: new.buckets.clone(),
        rules: new.rules.clone(),
        politeness: settings::Politeness {
            address_delay: old.politeness.address_delay,
            domain_delay: old.politeness.domain_delay,
            ..new.politeness.clone()
        },
        images: settings::Images {
            share: new.images.share,
            ..old.images.clone()
        },
        network: settings::Network {
            concurrency: new.network.concurrency,
            ..old.network.clone()
        },
        checkpoint: settings::Checkpoint {
            interval: new.checkpoint.interval,
            ..old.checkpoint.clone()
        },
        ..old.settings.clone()
    };
    Config {
        settings,
        origin: old.origin.clone(),
    }
}

/// `config` with other values of single keys, checked.
pub(super) fn with(
    config: &Config,
    values: BTreeMap<String, Value>,
) -> Result<Config, ControlError> {
    let refused = ControlError::Change;
    let mut table: toml::Table = toml::from_str(&config.to_toml())
        .map_err(|error| refused(format!("the configuration in force: {error}")))?;
    for (key, value) in values {
        let Some((section, name)) = key.split_once('.') else {
            return Err(refused(format!(
                "{key}: name a key in full, as limits.documents"
            )));
        };
        let empty = || toml::Value::Table(toml::Table::new());
        let section = table.entry(section).or_insert_with(empty);
        let Some(section) = section.as_table_mut() else {
            continue;
        };
        match value {
            Value::Null => drop(section.remove(name)),
            value => {
                let value = toml::Value::try_from(value)
                    .map_err(|error| refused(format!("{key}: {error}")))?;
                section.insert(name.to_owned(), value);
            }
        }
    }
    let text = toml::to_string(&table).map_err(|error| refused(error.to_string()))?;
    Config::parse(&text, "").map_err(|errors| {
        let all = errors.errors().iter();
        // Lines and columns would refer to a file that does not exist.
        let all: Vec<String> = all.map(|e| format!("{}: {}", e.key, e.message)).collect();
        refused(all.join("; "))
    })
}

/// Every section with every key that has a value.
pub(super) fn values(config: &Config) -> Value {
    // It was written a moment ago, and the only TOML values that JSON lacks are dates,
    // which no key accepts.
    let table: toml::Table = toml::from_str(&config.to_toml()).unwrap_or_default();
    serde_json::to_value(table).unwrap_or_default()
}

/// The keys that differ.
pub(super) fn keys(a: &Config, b: &Config) -> Vec<String> {
    a.changes(b).into_iter().map(|change| change.key).collect()
}

impl From<config::Changed> for Change {
    fn from(changed: config::Changed) -> Self {
        let config::Changed { key, from, to } = changed;
        Self { key, from, to }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(config: &Config, values: Value) -> Result<Config, String> {
        let values = serde_json::from_value(values).unwrap();
        with(config, values).map_err(|error| error.to_string())
    }

    #[test]
    fn keys_are_set_checked_and_taken_away() {
        let config = Config::default();
        let new = set(
            &config,
            json!({"limits.documents": 7, "politeness.min_delay": "2s", "scope.max_hops": 3}),
        );
        let new = new.unwrap();
        let said: Vec<String> = config
            .changes(&new)
            .into_iter()
            .map(|c| format!("{} {:?} {:?}", c.key, c.from, c.to))
            .collect();
        assert_eq!(
            said,
            [
                "limits.documents None Some(\"7\")",
                "politeness.min_delay Some(\"\\\"1s\\\"\") Some(\"\\\"2s\\\"\")",
                "scope.max_hops None Some(\"3\")",
            ]
        );
        assert_eq!(merged(&config, &new), new, "all of it may change");
        let gone = set(&new, json!({"limits.documents": null})).unwrap();
        assert_eq!(gone.limits.documents, None);
        for (values, part) in [
            (json!({"limits.document": 1}), "did you mean `documents`"),
            (json!({"limit.documents": 1}), "did you mean `limits`"),
            (json!({"documents": 1}), "name a key in full"),
            (json!({"limits.documents": 0}), "out of range"),
            (json!({"limits.documents": "many"}), "limits.documents: "),
            (json!({"limits.documents": [[1]]}), "limits.documents: "),
            (json!({"politeness.min_delay": "90s"}), "max_delay"),
        ] {
            let said = set(&config, values.clone()).unwrap_err();
            assert!(said.contains(part), "{values}: {said}");
            assert!(!said.contains(":1:"), "{said}");
        }
    }

    #[test]
    fn what_only_the_start_of_a_crawl_looks_at_is_kept() {
        let old = Config::default();
        let text = "[job]\nname = \"other\"\n[politeness]\nmin_delay = 5\naddress_delay = 7\n\
                    [network]\nconcurrency = 3\nhttp2 = false\n[checkpoint]\ninterval = 9\nexport = 99\n";
        let new = Config::parse(text, "x").unwrap();
        let now = merged(&old, &new);
        assert_eq!(
            keys(&old, &now),
            [
                "checkpoint.interval",
                "network.concurrency",
                "politeness.min_delay"
            ]
        );
        assert_eq!(
            keys(&now, &new),
            [
                "checkpoint.export",
                "job.name",
                "network.http2",
                "politeness.address_delay"
            ]
        );
    }
}
