//! The control API: queries and controls a running crawl over HTTP, for the owner of the
//! job's folder on the Unix domain socket `control.sock` there (`curl --unix-socket`), and
//! over TCP, unless `[control]` disables it.
//!
//! | request | answer |
//! |---|---|
//! | `GET /api/status` | [`Status`] |
//! | `POST /api/pause`, `/api/resume`, `/api/stop`, `/api/checkpoint` | [`Done`] |
//! | `POST /api/seeds` with `{"urls": [...]}` | [`Seeded`] for each |
//! | `GET /api/config`, `PATCH /api/config` with `{"limits.documents": 100}` | [`InForce`], [`Changes`] |
//! | `POST /api/rules`, a job file as body | [`Changes`]; the keyword table is read again as well |
//! | `GET /api/explain?url=URL`, `GET /api/host/NAME` | [`Explanation`], [`HostReport`] |
//! | `GET /api/log?last=N`, `GET /api/log/follow` | rows of the crawl log; as server-sent events |
//! | `GET /api/board` | [`Dashboard`]: the results of the crawl |
//! | `GET /api/cluster` | [`ClusterNow`]: all machines of the job's cluster |
//! | `GET /api/end` | [`Farewell`], as a server-sent event when the crawl has ended |
//! | `GET /metrics` | counters and levels, for Prometheus |
//! | `GET /` | the dashboard, a page for people |
//!
//! An error has a status of 400 or above and is a [`Problem`].
//!
//! Reading order: this file (the operations, the [`ControlHandle`]), `reload` (changing
//! the configuration), `reload_ratings` (replacing the ratings), `status`, `tail` (the log
//! as it is written), `audit` (the record of changes), `dashboard` (the results so far),
//! `wanted` (what holds for all machines of a cluster), `life` (before the crawl
//! and at its end), `routes`, `auth` (access control), `entrance` (the address), `server`,
//! `socket`, `client`; `cluster` (all machines at a moment).
//!
//! Every operation is a closure that runs on the thread that owns the frontier, between
//! two rounds of its loop. So this module never accesses the store itself, makes no
//! decisions about addresses, and does not know the network. If the API cannot be opened,
//! the crawl runs without it.

mod audit;
mod auth;
mod client;
mod cluster;
mod dashboard;
mod entrance;
mod life;
mod problem;
mod reload;
mod reload_ratings;
mod routes;
mod rules;
mod server;
#[cfg(unix)]
mod socket;
mod status;
mod tail;
mod wanted;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::address::{HostKey, PageUrl};
use crate::clock::{now, timestamp};
use crate::cluster::EngineError;
use crate::cluster::wanted::WantedEdit;
use crate::config::{Config, FileErrors};
use crate::crawl::figures::{FollowedLog, LoggedTask, RulesAtWork, WorkDone};
use crate::crawl::metrics::Metrics;
use crate::crawl::pipeline::{Asker, Control, Steering, Stop, Stopper};
use crate::crawl::saved::CheckpointStatus;
use crate::explain::{self, ExplainContext, Explanation, HostReport};
use crate::frontier::store::StoreError;
use crate::frontier::{Cells, State};
use crate::fs::{IoError, atomic, beneath, if_there};
use crate::outputs::Row;
use crate::page::TaskKind;
use crate::rules::RuleSet;

use life::Life;
use wanted::SharedControl;

pub use crate::local::server::Who;
pub use audit::AuditLine;
pub use auth::{AccessError, Token};
pub(crate) use auth::{Auth, authorize, login};
pub use client::{Client, Followed};
pub use cluster::{ClusterNow, LimitNow, MachineNow, Peers, RunningNow, StatusReports, Sums, see};
pub use dashboard::{Dashboard, FocusNow, GalleryImage, NextTurn};
pub(crate) use dashboard::{part, thumbnail_of};
pub use entrance::Entrance;
pub(super) use entrance::PORT;
pub use life::{Ending, Farewell, NextStep, ending};
pub use problem::Problem;
pub use reload::{Change, Changes, ConfigEdit, InForce, limits};
pub use reload_ratings::{MakeReader, RatingReloader, Rerated};
pub use rules::RuleEvent;
pub(crate) use server::accept;
pub use server::{Served, serve};
pub use status::{Disk, MachineFigures, Memory, Queued, Stage, Status};
pub use tail::Lost;
pub use wanted::{KeptKey, Machines, Obedient, RequestResult};

/// The most seeds that are added between two rounds of a crawl's loop.
const SEEDS_AT_ONCE: usize = 200;

/// The most hosts of the dashboard's figures; beyond that, the worse half is forgotten.
const MAX_HOSTS: usize = 4_000;

/// The file in a job's folder that records that the job is paused, and since when.
const PAUSED: &str = "paused";

/// Why a control request failed.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No crawl is running.
    #[error("{0}")]
    NotRunning(String),
    /// A running crawl did not do what its client asked for.
    #[error("{0}")]
    Client(String),
    /// Another machine has the host, or will have it.
    #[error(
        "this machine does not have {0} at present: another one of the cluster has it, or its \
         state is still being read here"
    )]
    NotHere(HostKey),
    /// The brokers of the cluster do not respond.
    #[error(transparent)]
    Brokers(#[from] EngineError),
    /// The new job file is wrong.
    #[error(transparent)]
    Config(#[from] FileErrors),
    /// Keys cannot be changed, or have invalid values.
    #[error("{0}")]
    Change(String),
    /// The new ratings cannot be created.
    #[error("nothing is changed: {0}")]
    Ratings(String),
    /// Too many clients follow the log.
    #[error("{0} readers already follow the log; close one of them")]
    Readers(usize),
    /// The frontier is not open yet.
    #[error("the crawl has not begun: {0}")]
    Preparing(String),
    /// The run ended before it could respond.
    #[error("the crawl has ended")]
    Ended,
    /// The frontier's store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The wanted state of the cluster cannot be changed.
    #[error("{0}")]
    Order(String),
    /// A file in the job's folder cannot be read or written.
    #[error("{0}; correct the permissions or free space, then try again")]
    Io(#[from] IoError),
}

/// The result of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// False if there was nothing to change.
    pub changed: bool,
    /// The present state, in words.
    pub text: String,
}

/// Addresses to be fetched before all others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSeeds {
    /// In full, such as `https://example.org/`.
    pub urls: Vec<String>,
}

/// The result for a seed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seeded {
    /// As given.
    pub url: String,
    /// Whether it will be fetched.
    pub result: SeedResult,
    /// Why it is not, or its state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Whether a seed will be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SeedResult {
    /// It is queued now.
    Added,
    /// It was known already; if it was queued, it now comes before all others.
    Known,
    /// It will not be fetched.
    Refused,
}

/// Queries and changes one running crawl. Cheap to clone.
#[derive(Clone)]
pub struct ControlHandle(Arc<Inner>);

/// Reads how far the checkpoint of a running crawl is.
pub type ReadStanding = Box<dyn Fn() -> CheckpointStatus + Send + Sync>;

struct Inner {
    asker: Asker,
    stopper: Stopper,
    terms: ExplainContext,
    /// Held during a change, so that changes are made one after the other.
    in_force: Mutex<Arc<Config>>,
    folder: PathBuf,
    /// The topic of the crawl, for sentences.
    topic: String,
    pulse: std::sync::Mutex<status::Pulse>,
    tail: tail::Tail,
    /// The results of all runs.
    log: std::sync::Mutex<FollowedLog>,
    /// The rules at work, over all runs.
    rules: std::sync::Mutex<RulesAtWork>,
    metrics: OnceLock<Metrics>,
    /// Set once the model is loaded.
    ratings: OnceLock<RatingReloader>,
    /// Set once the job is open, if it keeps a checkpoint elsewhere.
    checkpoint: OnceLock<ReadStanding>,
    /// Held while an image of the gallery is decoded.
    decoding: Mutex<()>,
    life: Life,
    /// The job file, as the operator gave it.
    file: OnceLock<String>,
    /// The link for a browser.
    link: OnceLock<String>,
    /// Whether several machines crawl the job.
    is_shared: bool,
    /// Set once this machine shares requests with the others.
    shared: OnceLock<SharedControl>,
    /// Set once the machine has joined a cluster, if the job has one.
    cluster: OnceLock<cluster::ClusterPlace>,
    /// Wakes the task that reports this machine's status to the others.
    report_due: tokio::sync::Notify,
}

impl ControlHandle {
    /// For the crawl that receives `control` and starts with `config`.
    pub fn new(control: &Control, terms: ExplainContext, config: &Config) -> Self {
        let folder = config.job_folder();
        Self(Arc::new(Inner {
            asker: control.asker(),
            stopper: control.stopper(),
            terms,
            topic: config.job.name.as_str().to_owned(),
            in_force: Mutex::new(Arc::new(config.clone())),
            pulse: std::sync::Mutex::new(status::Pulse::new(now())),
            tail: tail::Tail::new(&folder),
            log: std::sync::Mutex::new(FollowedLog::with_hosts(MAX_HOSTS)),
            rules: std::sync::Mutex::default(),
            metrics: OnceLock::new(),
            ratings: OnceLock::new(),
            checkpoint: OnceLock::new(),
            decoding: Mutex::new(()),
            life: Life::new(),
            file: OnceLock::new(),
            link: OnceLock::new(),
            is_shared: config.cluster.is_there(),
            shared: OnceLock::new(),
            cluster: OnceLock::new(),
            report_due: tokio::sync::Notify::new(),
            folder,
        }))
    }

    /// Call this for every finished task and every round of the crawl.
    pub fn observe(&self, frontier: &Cells, row: Option<&Row<'_>>) {
        if let Some(row) = row {
            self.0.tail.row(row);
            if let (Some(rules), Some(task)) = (self.rules_in_force(), LoggedTask::of(row)) {
                rules::watch(
                    &mut self.rules_at_work(),
                    &task,
                    &rules,
                    self.0.metrics.get(),
                );
            }
        }
        let work = WorkDone::of(frontier, self.0.is_shared);
        self.pulse().observe(work, row, now());
    }

    /// Call this when the crawl begins: makes its `metrics` available.
    pub fn begin(&self, metrics: Metrics) {
        self.0.metrics.set(metrics).ok();
        self.0.forget_ending();
        self.0.life.begin();
        self.0.report_due.notify_one();
        if let Some(rules) = self.rules_in_force() {
            // Before the first row of this run, so that none is seen twice.
            match RulesAtWork::of_log(&self.0.folder, &rules) {
                Ok(at_work) => *self.rules_at_work() = at_work,
                Err(error) => tracing::warn!("the log of earlier runs: {error}"),
            }
        }
    }

    /// Sets the job file's name, for the commands that are suggested at the end.
    pub fn name_file(&self, file: &Path) {
        self.0.file.set(file.display().to_string()).ok();
    }

    /// Enables changes of the ratings.
    pub fn set_ratings(&self, ratings: RatingReloader) {
        // Each handle belongs to one crawl, which sets them once.
        self.0.ratings.set(ratings).ok();
    }

    /// Sets how to read the state of the checkpoint outside of the job's folder.
    pub fn set_checkpoint(&self, standing: ReadStanding) {
        self.0.checkpoint.set(standing).ok();
    }

    /// The state of that checkpoint, if there is one.
    fn checkpoint_standing(&self) -> Option<CheckpointStatus> {
        self.0.checkpoint.get().map(|read| read())
    }

    /// Explains an address.
    ///
    /// # Errors
    /// [`ControlError::Ended`] or [`ControlError::Store`].
    pub async fn explain(&self, url: PageUrl) -> Result<Explanation, ControlError> {
        self.has_begun()?;
        let terms = self.0.terms.clone();
        let host = url.host_key();
        let answer = self.0.asker.ask(move |frontier| {
            let terms = match frontier.rating() {
                Some(rating) => ExplainContext {
                    strategy: rating.clone(),
                    ..terms
                },
                None => terms,
            };
            let view = frontier.of_host(&url.host_key())?.view();
            explain::url(&view, frontier.scope(), &terms, &url)
        });
        let answer = answer.await.ok_or(ControlError::Ended)?;
        answer.map_err(|error| is_elsewhere(error, host))
    }

    /// Reports what is known about the host of an address.
    ///
    /// # Errors
    ///
    /// As [`ControlHandle::explain`].
    pub async fn host(&self, url: PageUrl) -> Result<HostReport, ControlError> {
        self.has_begun()?;
        let (host, asked) = (url.host_key(), url.host_key());
        let answer = self
            .0
            .asker
            .ask(move |frontier| explain::host(&frontier.of_host(&host)?.view(), &host));
        let answer = answer.await.ok_or(ControlError::Ended)?;
        answer.map_err(|error| is_elsewhere(error, asked))
    }

    /// Stops leasing until [`ControlHandle::resume`]; tasks in flight finish. The clocks
    /// of hosts continue, and the pause outlives the process: the job's next run begins
    /// paused.
    ///
    /// # Errors
    ///
    /// [`ControlError::Ended`], or [`ControlError::Io`] if the pause cannot be recorded; then
    /// nothing is paused. In a cluster all machines pause, and [`ControlError::Order`] says that
    /// they cannot be reached.
    pub async fn pause(&self, who: &Who) -> Result<RequestResult<Done>, ControlError> {
        self.set_paused(true, who).await
    }

    /// Continues after a pause.
    ///
    /// # Errors
    ///
    /// As [`ControlHandle::pause`].
    pub async fn resume(&self, who: &Who) -> Result<RequestResult<Done>, ControlError> {
        self.set_paused(false, who).await
    }

    async fn set_paused(
        &self,
        paused: bool,
        who: &Who,
    ) -> Result<RequestResult<Done>, ControlError> {
        self.has_begun()?;
        let changed = match self.shared()? {
            None => {
                let time = timestamp(now());
                RequestResult::alone(self.set_paused_here(paused, who, &time).await?)
            }
            Some(shared) => {
                let said = self.said(who);
                let edit: &WantedEdit<'_> = &|wanted| {
                    wanted.paused = paused;
                    wanted.paused_by = said.in_version(wanted.version);
                };
                let applied = self.give(shared, None, edit).await?;
                applied.map(|applied| applied.phase)
            }
        };
        let text = if paused {
            "paused: no further requests until it is resumed"
        } else {
            "running"
        };
        let text = text.to_owned();
        Ok(changed.map(|changed| Done { changed, text }))
    }

    /// The same for this machine alone. Returns whether there was something to change.
    async fn set_paused_here(
        &self,
        paused: bool,
        who: &Who,
        time: &str,
    ) -> Result<bool, ControlError> {
        if paused {
            let text = format!("since {time} by {}\n", who.0);
            write(&self.0.folder, PAUSED, text).await?;
        } else {
            let path = self.0.folder.join(PAUSED);
            let removed = if_there(tokio::fs::remove_file(&path).await);
            removed.map_err(IoError::at(&path, "removing"))?;
        }
        let steered = self.0.asker.steer(move |run| {
            if paused {
                run.phase.pause(now())
            } else {
                run.phase.resume(now())
            }
        });
        let changed = steered.await.ok_or(ControlError::Ended)?;
        if changed {
            let what = if paused { "pause" } else { "resume" };
            self.record(AuditLine::of(who, what)).await;
        }
        Ok(changed)
    }

    /// Ends the crawl in good order: nothing more is leased, and tasks in flight finish.
    /// This returns before that.
    ///
    /// # Errors
    ///
    /// [`ControlError::Ended`].
    pub async fn stop(&self, who: &Who) -> Result<Done, ControlError> {
        self.has_begun()?;
        let asked = self.0.asker.steer(|run| run.phase.stopping.is_none());
        let changed = asked.await.ok_or(ControlError::Ended)?;
        if changed {
            self.record(AuditLine::of(who, "stop")).await;
        }
        self.0.stopper.stop(Stop::Told);
        let text = "stopping: requests in flight are finished first".to_owned();
        Ok(Done { changed, text })
    }

    /// Returns when everything committed would survive a power loss.
    ///
    /// # Errors
    ///
    /// [`ControlError::Ended`].
    pub async fn checkpoint(&self, who: &Who) -> Result<Done, ControlError> {
        self.has_begun()?;
        let done = self.0.asker.checkpoint().await;
        done.ok_or(ControlError::Ended)?;
        self.record(AuditLine::of(who, "checkpoint")).await;
        let text = "everything finished is on the disk".to_owned();
        let changed = true;
        Ok(Done { changed, text })
    }

    /// Adds seeds, and returns the result for each.
    ///
    /// # Errors
    ///
    /// As [`ControlHandle::explain`]; the seeds before the failure are added.
    pub async fn add_seeds(
        &self,
        seeds: NewSeeds,
        who: &Who,
    ) -> Result<RequestResult<Vec<Seeded>>, ControlError> {
        self.has_begun()?;
        if let Some(shared) = self.shared()? {
            return self.give_seeds(shared, seeds, who).await;
        }
        let seeded = self.seed_here(&seeds.urls, who).await?;
        Ok(RequestResult::alone(seeded))
    }

    /// The last `n` rows of the crawl log, oldest first, as JSON.
    ///
    /// # Errors
    /// [`ControlError::Io`].
    pub async fn last_rows(&self, n: usize) -> Result<Vec<serde_json::Value>, ControlError> {
        self.0.tail.last(n).await
    }

    /// Ends every tail of the log that is being followed.
    pub(super) fn end_tails(&self) {
        self.0.tail.end();
    }

    /// Records a change in the file, in the program's own log, and for clients that follow
    /// the crawl log.
    async fn record(&self, entry: AuditLine) {
        self.0.tail.entry(&entry);
        audit::append(&self.0.folder, &entry).await;
    }

    async fn steer<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Steering<'_>) -> T + Send + 'static,
    ) -> Result<T, ControlError> {
        self.has_begun()?;
        let answer = self.0.asker.steer(question).await;
        answer.ok_or(ControlError::Ended)
    }

    /// The results so far. They may be read from disk meanwhile, so call this only on threads that
    /// may block.
    fn log(&self) -> std::sync::MutexGuard<'_, FollowedLog> {
        self.0.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rules by which pages are read now, if there are any.
    fn rules_in_force(&self) -> Option<Arc<RuleSet>> {
        self.0.ratings.get()?.rules()
    }

    fn rules_at_work(&self) -> std::sync::MutexGuard<'_, RulesAtWork> {
        // It contains only figures, so a panic cannot leave it in a harmful state.
        self.0.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pulse(&self) -> std::sync::MutexGuard<'_, status::Pulse> {
        // It contains only figures, so a panic cannot leave it in a harmful state.
        let pulse = self.0.pulse.lock();
        pulse.unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Since when the job in `folder` is paused, in words, if it is.
pub fn paused(folder: &Path) -> Option<String> {
    let text = beneath::read_to_string(folder, PAUSED).ok()?;
    Some(text.trim().to_owned())
}

/// If a host was named from outside, it is not a defect that its part of the frontier is not open.
fn is_elsewhere(error: StoreError, host: HostKey) -> ControlError {
    match error {
        StoreError::Closed { .. } => ControlError::NotHere(host),
        error => error.into(),
    }
}

/// Adds a seed, if this machine has its host. Otherwise only judges it: the machine that has the
/// host adds it.
fn seed(cells: &mut Cells, text: String) -> Result<Seeded, StoreError> {
    let (result, reason) = match PageUrl::parse(&text) {
        Err(error) => (SeedResult::Refused, Some(error.to_string())),
        Ok(url) => {
            let home = cells.home_of(&url);
            if cells.opened().any(|cell| cell == home) {
                let before = state_of(cells, &url)?;
                cells.add_seeds(std::slice::from_ref(&url), now())?;
                became(cells, &url, before, state_of(cells, &url)?)
            } else if let Err(objection) = cells.scope().judge_page(&url, 0) {
                (SeedResult::Refused, Some(objection.to_string()))
            } else {
                let by = "by the machine that has its host";
                (SeedResult::Added, Some(by.to_owned()))
            }
        }
    };
    Ok(Seeded {
        url: text,
        result,
        reason,
    })
}

fn state_of(cells: &Cells, url: &PageUrl) -> Result<Option<State>, StoreError> {
    let canonical = cells.scope().canonical(url);
    let record = cells.look_up(&canonical, TaskKind::Page)?;
    Ok(record.map(|record| record.state))
}

fn became(
    frontier: &Cells,
    url: &PageUrl,
    before: Option<State>,
    after: Option<State>,
) -> (SeedResult, Option<String>) {
    let known = |what: &str| (SeedResult::Known, Some(what.to_owned()));
    match (before, after) {
        (_, Some(State::Dropped { reason })) => {
            let objection = frontier.scope().judge_page(url, 0).err();
            let why = objection.map_or(reason.name().to_owned(), |o| o.to_string());
            (SeedResult::Refused, Some(why))
        }
        (None | Some(State::Dropped { .. }), _) => (SeedResult::Added, None),
        (Some(State::Queued), _) => known("queued"),
        (Some(State::Waiting { .. }), _) => known("waiting to be retried"),
        (Some(State::Done { .. }), _) => known("fetched before"),
        (Some(State::Redirected { to, .. }), _) => known(&format!("redirects to {to}")),
    }
}

async fn write(folder: &Path, name: &'static str, text: String) -> Result<(), ControlError> {
    let path = folder.join(name);
    let folder = folder.to_owned();
    let write = move || atomic::write_bytes(&folder, name, text.as_bytes());
    // The task only fails when the process ends.
    let written = tokio::task::spawn_blocking(write).await;
    let written = written.map_err(|_| ControlError::Ended)?;
    Ok(written.map_err(IoError::at(&path, "writing"))?)
}
