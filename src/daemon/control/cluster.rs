//! All machines of a job's cluster at a moment: what the keys at the brokers say, and what the
//! live machines say of themselves.
//!
//! They are asked at the same time, over the brokers, and one that does not answer in time is
//! shown without figures. The route keeps its answer for a moment, so that many open pages ask
//! no more often than one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;

use super::problem::Problem;
use super::remote::Peers;
use super::status::{Stage, Status};
use super::{Client, ControlError, ControlHandle, Kept};
use crate::clock::{now, timestamp};
use crate::crawl::cluster::{
    Engine, JobPhase, SessionId, SessionRecord, Standing, State as Life, Survey,
};
use crate::crawl::frontier::Amount;
use crate::metrics::ClusterLevels;
use crate::settings::Limits;

/// How long an answer is given again.
const KEPT: Duration = Duration::from_secs(2);

/// The machines of a cluster, those of earlier sessions included.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterNow {
    /// `run` or `done`; absent where no machine has begun.
    #[serde(default)]
    pub phase: Option<String>,
    /// How many parts the hosts fall into.
    #[serde(default)]
    pub cells: u16,
    /// How many of them no live machine has.
    #[serde(default)]
    pub waiting_cells: usize,
    /// All sessions, by machine.
    #[serde(default)]
    pub sessions: Vec<MachineNow>,
    /// All of them together.
    #[serde(default)]
    pub sums: Sums,
    /// The limits that hold for all machines together.
    #[serde(default)]
    pub limits: Vec<LimitNow>,
}

/// A session: one life of a machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineNow {
    /// The machine's name.
    pub machine: String,
    /// Which of its sessions.
    pub session: u64,
    /// Whether it is the machine that answers.
    #[serde(default)]
    pub this: bool,
    /// `live`, `leaving`, `lost` or `ended`.
    pub state: String,
    /// How many parts of the hosts it has.
    pub cells: usize,
    /// The number of its last checkpoint; 0 for none.
    pub checkpoint: u64,
    /// Whether it has nothing to do.
    pub idle: bool,
    /// Its share, compared with the others'.
    pub weight: f64,
    /// When it began, RFC 3339 in UTC.
    pub begun: String,
    /// Page requests of its own, whichever hosts it has now; for a machine that does not answer
    /// as of its last checkpoint.
    pub fetches: u64,
    /// The same of pages fetched with success.
    pub pages: u64,
    /// What it says itself; absent where it is not live, or does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<RunningNow>,
    /// Why it does not say anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What a live machine says of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunningNow {
    /// Its stage.
    pub stage: Stage,
    /// Pages in the last minute.
    pub pages_a_minute: f64,
    /// Addresses that are queued at the hosts that it has.
    pub queued: u64,
    /// Hosts with queued or open tasks.
    pub hosts: usize,
    /// The age of its last checkpoint in seconds; where there is none, the time since it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_age_seconds: Option<f64>,
    /// Pages whose links to hosts of other machines are still to be sent.
    pub unsent: u64,
    /// Keys that keep a more polite value of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<Kept>,
}

/// What all machines have done and have, as far as they answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sums {
    /// Machines that are live.
    pub live: usize,
    /// Page requests.
    pub fetches: u64,
    /// Pages fetched with success.
    pub pages: u64,
    /// Pages in the last minute.
    pub pages_a_minute: f64,
    /// Addresses that are queued.
    pub queued: u64,
    /// Hosts with queued or open tasks.
    pub hosts: usize,
    /// Pages whose links to hosts of other machines are still to be sent.
    pub unsent: u64,
}

/// A limit that holds for all machines together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LimitNow {
    /// The key, such as `limits.documents`.
    pub key: String,
    /// The limit.
    pub of: f64,
    /// How much of it is used up.
    pub done: f64,
    /// How much of it machines have taken permits for, what is used up included; absent for
    /// `limits.time`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<f64>,
}

/// The place of the crawl in its cluster.
pub(super) struct Place {
    peers: Arc<dyn Peers>,
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
        Self {
            machine: id.node.to_string(),
            session: id.number,
            state: name_of(record.state).to_owned(),
            cells: survey.cells_of(id),
            checkpoint: record.checkpoint,
            idle: record.idle && record.state.is_live(),
            weight: record.weight,
            begun: timestamp(record.begun),
            fetches: record.used.fetches,
            pages: record.used.documents,
            ..Self::default()
        }
    }

    /// Adds what the machine says.
    fn say(&mut self, status: &Status) {
        let queued = &status.queued;
        let pages = [
            queued.seed,
            queued.high,
            queued.medium,
            queued.normal,
            queued.low,
        ];
        let own = status.machine.as_ref();
        if let Some(own) = own {
            // A machine that goes on after its process died has done what its key says as well.
            self.fetches = self.fetches.max(own.fetches);
            self.pages = self.pages.max(own.pages);
        }
        self.now = Some(RunningNow {
            stage: status.state,
            pages_a_minute: status.rates.pages,
            queued: pages.iter().sum::<u64>() + queued.images,
            hosts: status.hosts.active,
            checkpoint_age_seconds: status.checkpoint.as_ref().map(|c| c.age_seconds),
            unsent: own.map_or(0, |own| own.unsent),
            kept: status.kept.clone(),
        });
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

/// Looks at all machines of a cluster. `limits` are those of the job file; those of a live machine
/// count before them. `from` says in words who asks.
///
/// # Errors
/// [`ControlError::Brokers`] where the brokers do not answer.
pub async fn see(
    peers: &Arc<dyn Peers>,
    limits: &Limits,
    from: &str,
) -> Result<ClusterNow, ControlError> {
    look(peers, limits, from, None).await
}

/// The same for a machine of the cluster, which knows its own status.
async fn look(
    peers: &Arc<dyn Peers>,
    limits: &Limits,
    from: &str,
    own: Option<(&SessionId, &Status)>,
) -> Result<ClusterNow, ControlError> {
    let survey = peers.survey().await?;
    let Some(job) = &survey.job else {
        return Ok(ClusterNow::default());
    };
    let ask = |id: SessionId| async move {
        match own {
            Some((session, status)) if *session == id => Ok(status.clone()),
            _ => {
                let client = Client::of_machine(Arc::clone(peers), id, from.to_owned());
                client.status().await
            }
        }
    };
    let asked: Vec<SessionId> = survey.live().map(|(id, _)| id.clone()).collect();
    let said = join_all(asked.iter().cloned().map(ask)).await;
    let mut limits = limits.clone();
    let mut bytes = 0;
    let mut machines: Vec<MachineNow> = Vec::new();
    for (id, (record, _)) in &survey.sessions {
        let mut machine = MachineNow::of(id, record, &survey);
        machine.this = own.is_some_and(|(session, _)| session == id);
        let answer = asked.iter().position(|asked| asked == id);
        let mut used = record.used.bytes;
        match answer.and_then(|at| said.get(at)) {
            Some(Ok(status)) => {
                machine.say(status);
                used = used.max(status.machine.as_ref().map_or(0, |own| own.bytes));
                if let Ok(in_force) = serde_json::from_value(status.limits.clone()) {
                    in_force_over(&mut limits, &in_force);
                }
            }
            Some(Err(error)) => machine.problem = Some(error.to_string()),
            None => {}
        }
        bytes += used;
        machines.push(machine);
    }
    let live: BTreeSet<&SessionId> = survey.live().map(|(id, _)| id).collect();
    let owners = survey.cells.values().filter_map(|cell| cell.owner.as_ref());
    let owned = owners.filter(|owner| live.contains(owner)).count();
    let sums = Sums::of(&machines);
    let used = Amount {
        documents: sums.pages,
        fetches: sums.fetches,
        bytes,
    };
    Ok(ClusterNow {
        phase: Some(
            if job.phase == JobPhase::Done {
                "done"
            } else {
                "run"
            }
            .to_owned(),
        ),
        cells: job.cells,
        waiting_cells: usize::from(job.cells).saturating_sub(owned),
        limits: limits_now(&limits, used, &survey),
        sums,
        sessions: machines,
    })
}

/// The values of `[limits]` as a machine tells them.
#[derive(Debug, Default, Deserialize)]
struct InForceLimits {
    documents: Option<u64>,
    fetches: Option<u64>,
}

/// Takes the limits that can be changed while a crawl runs from a live machine.
fn in_force_over(limits: &mut Limits, in_force: &InForceLimits) {
    limits.documents = in_force.documents;
    limits.fetches = in_force.fetches;
}

fn limits_now(limits: &Limits, used: Amount, survey: &Survey) -> Vec<LimitNow> {
    let granted = survey.granted().with(used, u64::max);
    let at = |key: &str, of: Option<u64>, done: u64, taken: u64| {
        Some(LimitNow {
            key: format!("limits.{key}"),
            of: of? as f64,
            done: done as f64,
            taken: Some(taken as f64),
        })
    };
    let begun = survey.sessions.values().map(|(record, _)| record.begun);
    let begun = begun.filter(|begun| *begun > 0).min();
    let time = limits.time.zip(begun).map(|(time, begun)| LimitNow {
        key: "limits.time".to_owned(),
        of: time.as_secs_f64(),
        done: now().saturating_sub(begun) as f64 / 1000.0,
        taken: None,
    });
    let size = limits.bytes.map(|size| size.bytes());
    [
        at(
            "documents",
            limits.documents,
            used.documents,
            granted.documents,
        ),
        at("fetches", limits.fetches, used.fetches, granted.fetches),
        at("bytes", size, used.bytes, granted.bytes),
        time,
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl ControlHandle {
    /// Shows the cluster that the machine has joined, and its place in it.
    pub fn join_cluster<E: Engine>(
        &self,
        engine: Arc<E>,
        session: SessionId,
        standing: watch::Receiver<Standing>,
    ) {
        let place = Place {
            peers: engine,
            session,
            standing,
            seen: Mutex::default(),
        };
        // There is one crawl per handle, which joins once.
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

    /// How many machines keep a value of their own against an order.
    pub(super) async fn that_keep(&self, order: u64) -> usize {
        if let Some(place) = self.0.cluster.get() {
            *place.seen.lock().await = None;
        }
        let found = self.cluster().await.ok().flatten().unwrap_or_default();
        let now = found
            .sessions
            .iter()
            .filter_map(|machine| machine.now.as_ref());
        let keeps = |now: &&RunningNow| now.kept.iter().any(|kept| kept.order == order);
        now.filter(keeps).count()
    }

    /// The machines of the job's cluster; `None` where the job has none.
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
        let status = self.status().await?;
        let from = format!("machine {}", place.session.node);
        let own = Some((&place.session, &status));
        let found = look(&place.peers, &config.limits, &from, own).await?;
        *seen = Some((Instant::now(), found.clone()));
        Ok(Some(found))
    }
}

/// The machines of the job's cluster, with what they have done and have; 404 where the job is
/// crawled by one machine.
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
