//! All machines of a job's cluster at one moment, according to the keys at the brokers.
//!
//! Each machine writes its status next to the key of its session, every ten seconds and whenever it
//! has applied a change. A machine that has been silent for longer is shown without these figures.
//! The route caches its response for a moment, so that many open pages cause no more requests than
//! one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::problem::Problem;
use super::status::{Stage, Status};
use super::{ControlError, ControlHandle, KeptKey};
use crate::clock::{now, timestamp};
use crate::cluster::wanted::{WantedEdit, WantedError, WantedList, WantedState};
use crate::cluster::{
    Engine, EngineError, JobPhase, Revision, SessionId, SessionRecord, Standing, State as Life,
    Survey, status_key,
};
use crate::config::Config;
use crate::crawl::metrics::ClusterLevels;
use crate::frontier::Amount;
use crate::settings::Limits;

/// How long a response is cached.
const KEPT: Duration = Duration::from_secs(2);
/// The interval between a machine's reports, and the delay before a failed one is repeated.
const EVERY: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_secs(1);
/// After this many milliseconds of silence a machine is shown without figures.
const SILENT: u64 = 30_000;

/// Connects this process with the keys of a cluster, independent of the engine.
pub trait Peers: Send + Sync {
    /// Reads all keys of the job.
    fn survey(&self) -> BoxFuture<'_, Result<Survey, EngineError>>;

    /// As [`WantedState::change`].
    fn change<'p>(
        &'p self,
        list: Option<&'p WantedList>,
        edit: &'p WantedEdit<'p>,
    ) -> BoxFuture<'p, Result<WantedState, WantedError>>;

    /// Replaces the last status of a session.
    fn say(
        &self,
        session: &SessionId,
        status: Vec<u8>,
        last: Option<Revision>,
    ) -> BoxFuture<'_, Result<Revision, EngineError>>;
}

impl<E: Engine> Peers for E {
    fn survey(&self) -> BoxFuture<'_, Result<Survey, EngineError>> {
        Survey::of(self).boxed()
    }

    fn change<'p>(
        &'p self,
        list: Option<&'p WantedList>,
        edit: &'p WantedEdit<'p>,
    ) -> BoxFuture<'p, Result<WantedState, WantedError>> {
        WantedState::change(self, list, edit).boxed()
    }

    fn say(
        &self,
        session: &SessionId,
        status: Vec<u8>,
        last: Option<Revision>,
    ) -> BoxFuture<'_, Result<Revision, EngineError>> {
        let key = status_key(session);
        async move {
            match self.swap(&key, status.clone(), last).await {
                // An earlier process of the session has written a status.
                Err(EngineError::Stale) => {
                    let last = self.get(&key).await?.map(|(_, last)| last);
                    self.swap(&key, status, last).await
                }
                said => said,
            }
        }
        .boxed()
    }
}

/// The machines of a cluster, including those of earlier sessions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterNow {
    /// `run` or `done`; absent if no machine has begun.
    #[serde(default)]
    pub phase: Option<String>,
    /// The version of the wanted state, which all machines apply.
    #[serde(default)]
    pub version: u64,
    /// The number of cells, the parts into which hosts are divided.
    #[serde(default)]
    pub cells: u16,
    /// The number of cells that no live machine has.
    #[serde(default)]
    pub waiting_cells: usize,
    /// All sessions, by machine.
    #[serde(default)]
    pub sessions: Vec<MachineNow>,
    /// The sums over all of them.
    #[serde(default)]
    pub sums: Sums,
    /// The limits for all machines together.
    #[serde(default)]
    pub limits: Vec<LimitNow>,
}

/// A session: one life of a machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineNow {
    /// The machine's name.
    pub machine: String,
    /// The number of its session.
    pub session: u64,
    /// Whether it is the machine that responds.
    #[serde(default)]
    pub this: bool,
    /// `live`, `leaving`, `lost` or `ended`.
    pub state: String,
    /// How many cells it has.
    pub cells: usize,
    /// The number of its last checkpoint; 0 for none.
    pub checkpoint: u64,
    /// Whether it has nothing to do.
    pub idle: bool,
    /// Its share, relative to the others'.
    pub weight: f64,
    /// When it began, RFC 3339 in UTC.
    pub begun: String,
    /// Its own page requests, regardless of the hosts that it has now. For a session that is over,
    /// only those that count.
    pub fetches: u64,
    /// The same for pages fetched successfully.
    pub pages: u64,
    /// What it reports itself; absent if it is not live or has been silent for long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<RunningNow>,
    /// Why it reports nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What a live machine reports about itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunningNow {
    /// When it reported this, in milliseconds since 1970 by its own clock.
    #[serde(default)]
    pub at: u64,
    /// The version of the wanted state that it has applied.
    #[serde(default)]
    pub version: u64,
    /// Its stage.
    pub stage: Stage,
    /// Pages in the last minute.
    pub pages_a_minute: f64,
    /// Queued addresses at the hosts that it has.
    pub queued: u64,
    /// Hosts with queued or open tasks.
    pub hosts: usize,
    /// The age of its last checkpoint in seconds; if there is none, the time since it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_age_seconds: Option<f64>,
    /// Pages with links that must still be sent to other machines.
    pub unsent: u64,
    /// Keys for which it keeps its own, more polite value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<KeptKey>,
}

/// Sums over all machines that respond.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sums {
    /// Live machines.
    pub live: usize,
    /// Page requests.
    pub fetches: u64,
    /// Pages fetched successfully.
    pub pages: u64,
    /// Pages in the last minute.
    pub pages_a_minute: f64,
    /// Queued addresses.
    pub queued: u64,
    /// Hosts with queued or open tasks.
    pub hosts: usize,
    /// Pages with links that must still be sent to other machines.
    pub unsent: u64,
}

/// A limit for all machines together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitNow {
    /// The key, such as `limits.documents`.
    pub key: String,
    /// The limit.
    pub of: f64,
    /// How much of it is used up.
    pub done: f64,
}

/// The place of the crawl in its cluster.
pub(super) struct ClusterPlace {
    pub peers: Arc<dyn Peers>,
    pub session: SessionId,
    standing: watch::Receiver<Standing>,
    seen: Mutex<Option<(Instant, ClusterNow)>>,
}

/// The name of a session's state.
fn name_of(state: Life) -> &'static str {
    match state {
        Life::Live => "live",
        Life::Leaving => "leaving",
        Life::Fenced => "lost",
        Life::Ended => "ended",
    }
}

impl MachineNow {
    fn of(id: &SessionId, record: &SessionRecord, survey: &Survey) -> Self {
        let used = used_by(record);
        let mut machine = Self {
            machine: id.node.to_string(),
            session: id.number,
            state: name_of(record.state).to_owned(),
            cells: survey.cells_of(id),
            checkpoint: record.checkpoint,
            idle: record.idle && record.state.is_live(),
            weight: record.weight,
            begun: timestamp(record.begun),
            fetches: used.fetches,
            pages: used.documents,
            ..Self::default()
        };
        if record.state.is_live() {
            let said = survey.statuses.get(id).cloned();
            let said = said.and_then(|said| serde_json::from_value::<RunningNow>(said).ok());
            let age = said.as_ref().map(|said| now().saturating_sub(said.at));
            match (said, age) {
                (Some(mut said), Some(age)) if age < SILENT => {
                    let older = |seconds: f64| seconds + age as f64 / 1000.0;
                    said.checkpoint_age_seconds = said.checkpoint_age_seconds.map(older);
                    machine.now = Some(said);
                }
                (_, age) => machine.problem = Some(silent(id, age)),
            }
        }
        machine
    }
}

/// The use of a session; if it is over, the part that counts.
fn used_by(record: &SessionRecord) -> Amount {
    if record.state.is_live() {
        record.claim.done.with(record.used, u64::max)
    } else {
        record.used
    }
}

/// The problem of a machine that has been silent for this long.
fn silent(id: &SessionId, age: Option<u64>) -> String {
    let node = &id.node;
    match age {
        None => format!("the machine `{node}` has not reported yet"),
        Some(age) => format!(
            "nothing was heard of the machine `{node}` for {} s; if you know that it is off, \
             `spoor cluster forget JOB.toml {node}` gives its hosts to the others at once",
            age / 1000
        ),
    }
}

impl RunningNow {
    /// What a machine reports about itself.
    fn of(status: &Status, version: u64) -> Self {
        let queued = &status.queued;
        let pages = [
            queued.seed,
            queued.high,
            queued.medium,
            queued.normal,
            queued.low,
        ];
        Self {
            at: now(),
            version,
            stage: status.state,
            pages_a_minute: status.rates.pages,
            queued: pages.iter().sum::<u64>() + queued.images,
            hosts: status.hosts.active,
            checkpoint_age_seconds: status.checkpoint.as_ref().map(|c| c.age_seconds),
            unsent: status.machine.as_ref().map_or(0, |own| own.unsent),
            kept: status.kept.clone(),
        }
    }
}

impl Sums {
    fn of(machines: &[MachineNow]) -> Self {
        let mut sums = Self::default();
        for machine in machines {
            sums.live += usize::from(["live", "leaving"].contains(&machine.state.as_str()));
            sums.fetches += machine.fetches;
            sums.pages += machine.pages;
            if let Some(now) = &machine.now {
                sums.pages_a_minute += now.pages_a_minute;
                sums.queued += now.queued;
                sums.hosts += now.hosts;
                sums.unsent += now.unsent;
            }
        }
        sums
    }
}

/// Looks at all machines of a cluster. `config` is the job file; limits in the wanted state take
/// precedence over its own.
///
/// # Errors
/// [`ControlError::Brokers`] if the brokers do not respond.
pub async fn see(
    peers: &dyn Peers,
    config: &Config,
    own: Option<&SessionId>,
) -> Result<ClusterNow, ControlError> {
    let survey = peers.survey().await?;
    let Some(job) = &survey.job else {
        return Ok(ClusterNow::default());
    };
    let mut used = Amount::default();
    let mut machines: Vec<MachineNow> = Vec::new();
    for (id, (record, _)) in &survey.sessions {
        used = used.plus(used_by(record));
        machines.push(MachineNow {
            this: own == Some(id),
            ..MachineNow::of(id, record, &survey)
        });
    }
    let live: BTreeSet<&SessionId> = survey.live().map(|(id, _)| id).collect();
    let owners = survey.cells.values().filter_map(|cell| cell.owner.as_ref());
    let owned = owners.filter(|owner| live.contains(owner)).count();
    let phase = match job.phase {
        JobPhase::Done => "done",
        JobPhase::Run => "run",
    };
    Ok(ClusterNow {
        phase: Some(phase.to_owned()),
        version: survey.wanted.version,
        cells: job.cells,
        waiting_cells: usize::from(job.cells).saturating_sub(owned),
        limits: limits_now(&limits_of(config, &survey.wanted), used, &survey),
        sums: Sums::of(&machines),
        sessions: machines,
    })
}

/// The limits in force.
fn limits_of(config: &Config, wanted: &WantedState) -> Limits {
    let file = wanted.settings.as_ref();
    let file = file.and_then(|file| config.with_shared(&file.job).ok());
    let mut config = file.unwrap_or_else(|| config.clone());
    for (key, set) in &wanted.keys {
        let one = BTreeMap::from([(key.clone(), set.value.clone())]);
        // Another version may set a limit that this one does not know; it limits nothing here.
        config = super::wanted::set(&config, &one).unwrap_or(config);
    }
    config.settings.limits
}

fn limits_now(limits: &Limits, used: Amount, survey: &Survey) -> Vec<LimitNow> {
    let at = |key: &str, of: Option<f64>, done: f64| {
        let key = format!("limits.{key}");
        of.map(|of| LimitNow { key, of, done })
    };
    let whole = |n: Option<u64>| n.map(|n| n as f64);
    let begun = survey.sessions.values().map(|(record, _)| record.begun);
    let begun = begun.filter(|begun| *begun > 0).min();
    let passed = begun.map(|begun| now().saturating_sub(begun) as f64 / 1000.0);
    let time = limits.time.filter(|_| passed.is_some());
    [
        at("documents", whole(limits.documents), used.documents as f64),
        at("fetches", whole(limits.fetches), used.fetches as f64),
        at(
            "bytes",
            whole(limits.bytes.map(|size| size.bytes())),
            used.bytes as f64,
        ),
        at(
            "time",
            time.map(|time| time.as_secs_f64()),
            passed.unwrap_or(0.0),
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// How many machines keep their own value despite one that was set in this version.
pub(super) fn that_keep(survey: &Survey, version: u64) -> usize {
    let said = survey.live().filter_map(|(id, _)| survey.statuses.get(id));
    let said = said.filter_map(|said| serde_json::from_value::<RunningNow>(said.clone()).ok());
    said.filter(|now| now.kept.iter().any(|kept| kept.version == version))
        .count()
}

/// Reports the status of this machine until it is dropped.
#[derive(Debug)]
pub struct StatusReports(JoinHandle<()>);

impl Drop for StatusReports {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl ControlHandle {
    /// Makes the cluster that the machine has joined, and its place in it, available to requests.
    pub fn join_cluster<E: Engine>(
        &self,
        engine: Arc<E>,
        session: SessionId,
        standing: watch::Receiver<Standing>,
    ) {
        let place = ClusterPlace {
            peers: engine,
            session,
            standing,
            seen: Mutex::default(),
        };
        // Each handle belongs to one crawl, which joins once.
        self.0.cluster.set(place).ok();
    }

    /// The machine's place in its cluster, for Prometheus.
    pub(super) fn cluster_levels(&self, unsent: u64) -> Option<ClusterLevels> {
        let place = self.0.cluster.get()?;
        let standing = place.standing.borrow();
        Some(ClusterLevels {
            node: place.session.node.to_string(),
            session: place.session.number,
            cells: standing.cells.len() as u64,
            unsent,
            checkpoint: standing.committed,
        })
    }

    /// Reports the status of this machine next to the key of its session.
    pub fn report_status(&self, runtime: &Handle) -> StatusReports {
        let handle = self.clone();
        StatusReports(runtime.spawn(async move {
            let mut last = None;
            loop {
                let said = handle.say(last).await;
                let pause = if said.is_some() { EVERY } else { AGAIN };
                last = said.or(last);
                let news = tokio::time::timeout(pause, handle.0.report_due.notified());
                // Reports again after the pause even without news.
                news.await.ok();
            }
        }))
    }

    async fn say(&self, last: Option<Revision>) -> Option<Revision> {
        let place = self.0.cluster.get()?;
        let status = self.status().await.ok()?;
        let version = self
            .0
            .shared
            .get()
            .map_or(0, super::wanted::SharedControl::version);
        // Strings and numbers always serialise.
        let said = serde_json::to_vec(&RunningNow::of(&status, version)).unwrap_or_default();
        match place.peers.say(&place.session, said, last).await {
            Ok(said) => Some(said),
            Err(error) => {
                tracing::debug!(%error, "the status of this machine could not be sent to the \
                                         brokers");
                None
            }
        }
    }

    /// The machines of the job's cluster; `None` if the job has none.
    ///
    /// # Errors
    /// [`ControlError::Brokers`], and [`ControlError::Preparing`] before the machine has joined.
    pub async fn cluster(&self) -> Result<Option<ClusterNow>, ControlError> {
        let config = self.in_force().await;
        let Some(place) = self.0.cluster.get() else {
            if config.cluster.is_there() {
                self.has_begun()?;
            }
            return Ok(None);
        };
        let mut seen = place.seen.lock().await;
        if let Some((at, known)) = seen.as_ref().filter(|(at, _)| at.elapsed() < KEPT) {
            tracing::trace!(age = ?at.elapsed(), "the machines as they were");
            return Ok(Some(known.clone()));
        }
        let found = see(&*place.peers, &config, Some(&place.session)).await?;
        *seen = Some((Instant::now(), found.clone()));
        Ok(Some(found))
    }
}

/// The machines of the job's cluster, with their work and their hosts; 404 if a single machine
/// crawls the job.
pub(super) async fn cluster(
    State(handle): State<ControlHandle>,
) -> Result<Json<ClusterNow>, Problem> {
    handle.cluster().await?.map(Json).ok_or_else(|| {
        Problem::new(
            StatusCode::NOT_FOUND,
            "the job is crawled by one machine: it has no [cluster]",
            "GET /api/status shows this machine",
        )
    })
}

#[cfg(test)]
mod tests;
