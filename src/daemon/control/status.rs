//! The status of a running crawl, in figures.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::wanted::SharedControl;
use super::{ControlError, ControlHandle, Ending, KeptKey};
use crate::clock::{now, timestamp};
use crate::config::Config;
use crate::crawl::figures::{RateMeter, Rates, Toward, WorkDone};
use crate::crawl::pipeline::Steering;
use crate::crawl::saved::CheckpointStatus;
use crate::frontier::{Cells, Counts, HostStates};
use crate::outputs::Row;
use crate::page::{Bucket, TaskKind};

/// The time over which rates are measured.
const WINDOW: Duration = Duration::from_secs(60);

/// The stage of a crawl.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The model is trained or loaded, and the job is opened; no requests yet.
    #[default]
    Starting,
    /// It is crawling.
    Running,
    /// No requests until it is resumed.
    Paused,
    /// It ends as soon as the tasks in flight have finished.
    Draining,
    /// The network seems to be down; the crawl continues by itself when it is back.
    Outage,
    /// It has ended.
    Ended,
}

/// The status of a crawl. Counters are over all runs of the job unless stated otherwise.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The job's name.
    pub job: String,
    /// The version of spoor.
    pub version: String,
    /// Its stage.
    pub state: Stage,
    /// When this stage began, RFC 3339 in UTC.
    pub since: String,
    /// When this run began, RFC 3339 in UTC.
    pub started: String,
    /// The current step before the crawl begins, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doing: Option<String>,
    /// Why it ended, and what to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ending>,
    /// The link to the dashboard, including the token if one was generated for the run;
    /// only for the owner of the socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// The distance to each limit, in the order of the job file.
    #[serde(default)]
    pub toward: Vec<Toward>,
    /// Hosts whose robots.txt was requested in this run.
    #[serde(default)]
    pub robots: u64,
    /// Time spent crawling in seconds; pauses do not count.
    pub active_seconds: f64,
    /// Pages fetched successfully, each counted once.
    pub pages: u64,
    /// Images kept.
    pub images: u64,
    /// Queued images, if nothing else is left to fetch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images_left: Option<u64>,
    /// When the next failed host or address is retried, if there is nothing to do before that.
    /// before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_until: Option<String>,
    /// Page requests that were answered or failed.
    pub fetches: u64,
    /// Sitemaps read.
    pub sitemaps: u64,
    /// Bytes of all bodies.
    pub bytes: u64,
    /// Open requests, and bodies being processed.
    pub in_flight: usize,
    /// The queue.
    pub queued: Queued,
    /// Addresses waiting to be retried.
    pub waiting: u64,
    /// Pages whose next visit is scheduled.
    pub watched: u64,
    /// Addresses that are not followed, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Tasks of this run that failed, including those that are retried, by reason.
    pub errors: BTreeMap<String, u64>,
    /// Hosts with queued or open tasks.
    pub hosts: HostStates,
    /// The rates of the last minute.
    pub rates: Rates,
    /// The disk of the job's folder, if the system reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
    /// The checkpoint outside of the job's folder, if the job keeps one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointNow>,
    /// The machine's own work and its hosts, if several machines crawl the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineFigures>,
    /// Keys set for all machines that this one does not apply, because its job file is more polite.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<KeptKey>,
    /// The memory of the process, if the system reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// The keys of `[limits]` that have a value, as in `GET /api/config`.
    pub limits: serde_json::Value,
}

/// The queue: pages and sitemaps by class, and images.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    /// Named by the operator.
    pub seed: u64,
    /// The class `high`.
    pub high: u64,
    /// The class `medium`.
    pub medium: u64,
    /// The class `normal`.
    pub normal: u64,
    /// The class `low`.
    pub low: u64,
    /// Images of any class.
    pub images: u64,
}

/// A file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// Bytes that this process may still write.
    pub free: u64,
    /// Bytes in total.
    pub size: u64,
}

/// The checkpoint outside of the job's folder.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CheckpointNow {
    /// Where it is.
    pub store: String,
    /// Its age in seconds; if there is none yet, the time since this run began.
    pub age_seconds: f64,
    /// How many were made in this run.
    pub count: u64,
    /// Bytes that this run has sent.
    pub bytes: u64,
    /// Why the last attempt failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A cluster machine's own work, and the hosts that it has now. The other counters are those of its
/// present hosts, including pages that other machines fetched.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineFigures {
    /// Its name.
    pub node: String,
    /// The number of its session.
    pub session: u64,
    /// How many cells it has.
    pub cells: usize,
    /// Page requests that were answered or failed.
    pub fetches: u64,
    /// Pages fetched successfully.
    pub pages: u64,
    /// Bytes of all bodies.
    pub bytes: u64,
    /// Pages with links that must still be sent to other machines.
    pub unsent: u64,
}

impl From<CheckpointStatus> for CheckpointNow {
    fn from(standing: CheckpointStatus) -> Self {
        Self {
            age_seconds: standing.age(now()).as_secs_f64(),
            store: standing.store,
            count: standing.count,
            bytes: standing.bytes,
            error: standing.error,
        }
    }
}

/// Memory of the process in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// In RAM now.
    pub resident: u64,
    /// The peak.
    pub peak: u64,
}

/// What is observed of a crawl between two requests.
pub(super) struct Pulse {
    begun: u64,
    meter: RateMeter,
    errors: BTreeMap<&'static str, u64>,
    robots: u64,
}

impl Pulse {
    pub fn new(now: u64) -> Self {
        Self {
            begun: now,
            meter: RateMeter::over(WINDOW),
            errors: BTreeMap::new(),
            robots: 0,
        }
    }

    /// Records a finished task, or just the passing of time.
    pub fn observe(&mut self, work: WorkDone, row: Option<&Row<'_>>, now: u64) {
        // Most hosts have no file of this kind, which is not a failure.
        let failed = |row: &&Row<'_>| !matches!(row.kind, TaskKind::Tdmrep | TaskKind::Rsl);
        if let Some(reason) = row.filter(failed).and_then(|row| row.reason) {
            *self.errors.entry(reason).or_default() += 1;
        }
        if row.is_some_and(|row| row.kind == TaskKind::Robots) {
            self.robots += 1;
        }
        self.meter.observe(work, now);
    }
}

impl ControlHandle {
    /// The status of the crawl.
    ///
    /// # Errors
    ///
    /// [`ControlError::Ended`].
    pub async fn status(&self) -> Result<Status, ControlError> {
        let mut status = match self.0.life.preparing() {
            Some((since, doing)) => self.early(since, doing),
            None => {
                let handle = self.clone();
                match self.steer(move |run| handle.look(run)).await {
                    Err(ControlError::Ended) => return Ok(self.farewell().await?.status.clone()),
                    looked => looked?,
                }
            }
        };
        self.complete(&mut status, &*self.in_force().await);
        Ok(status)
    }

    /// Adds the parts of the status that the run itself does not know.
    pub(super) fn complete(&self, status: &mut Status, config: &Config) {
        config.job.name.as_str().clone_into(&mut status.job);
        if let Some(limits) = super::reload::values(config).get_mut("limits") {
            status.limits = limits.take();
        }
        status.link = self.0.link.get().cloned();
        status.toward = toward(status, config);
        status.disk = disk(&self.0.folder);
        status.memory = memory();
        status.kept = self
            .0
            .shared
            .get()
            .map(SharedControl::kept)
            .unwrap_or_default();
        status.checkpoint = self.checkpoint_standing().map(CheckpointNow::from);
    }

    /// The parts of the status that only the run itself knows.
    fn look(&self, run: &Steering<'_>) -> Status {
        let phase = &run.phase;
        let (state, since) = match (phase.stopping, phase.paused, run.outage) {
            (Some(since), ..) => (Stage::Draining, since),
            (_, Some(since), _) => (Stage::Paused, since),
            (.., Some(since)) => (Stage::Outage, since),
            _ => (Stage::Running, phase.running),
        };
        self.figures(run.frontier, state, since)
    }

    /// The machine's own work; `None` without a cluster.
    fn own_figures(&self, frontier: &Cells) -> Option<MachineFigures> {
        let place = self.0.cluster.get()?;
        let used = frontier.used();
        Some(MachineFigures {
            node: place.session.node.to_string(),
            session: place.session.number,
            cells: frontier.opened().count(),
            fetches: used.fetches,
            pages: used.documents,
            bytes: used.bytes,
            unsent: unsent(frontier),
        })
    }

    /// The counters of a frontier that has been in this state since `since`.
    pub(crate) fn figures(&self, frontier: &Cells, state: Stage, since: u64) -> Status {
        let now = now();
        let counts = frontier.counts();
        let pulse = self.pulse();
        let named = |(reason, n): (&str, u64)| (reason.to_owned(), n);
        let dropped = counts.dropped.iter().filter(|(_, n)| **n > 0);
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            state,
            since: timestamp(since),
            started: timestamp(pulse.begun),
            robots: pulse.robots,
            active_seconds: frontier.active() as f64 / 1000.0,
            pages: counts.documents,
            images: counts.images,
            images_left: frontier.images_alone(),
            idle_until: frontier.idle_until().map(timestamp),
            fetches: counts.fetches,
            sitemaps: counts.sitemaps,
            bytes: counts.bytes,
            in_flight: frontier.leased(),
            queued: queued(counts),
            waiting: counts.waiting,
            watched: counts.watched,
            dropped: dropped.map(|(r, n)| named((r.name(), *n))).collect(),
            errors: pulse.errors.iter().map(|(r, n)| named((r, *n))).collect(),
            hosts: frontier.hosts_by_state(),
            rates: pulse
                .meter
                .rates(WorkDone::of(frontier, self.0.is_shared), now),
            machine: self.own_figures(frontier),
            limits: serde_json::json!({}),
            ..Status::default()
        }
    }
}

/// Pages with links to the hosts of other machines that are still to be sent.
pub(super) fn unsent(frontier: &Cells) -> u64 {
    let targets = frontier.outbox_targets();
    let pages = targets.into_iter().map(|to| frontier.outbox(to).count());
    pages.sum::<usize>() as u64
}

/// The distance to each limit of the job; empty on a machine of a cluster, because there the limits
/// apply to all machines together.
fn toward(status: &Status, config: &Config) -> Vec<Toward> {
    if status.machine.is_some() {
        return Vec::new();
    }
    let work = WorkDone {
        pages: status.pages,
        fetches: status.fetches,
        images: status.images,
        bytes: status.bytes,
    };
    let active = (status.active_seconds * 1000.0) as u64;
    let mut toward = Toward::each(&work, active, &super::limits(config), &status.rates);
    if status.state != Stage::Running {
        toward
            .iter_mut()
            .for_each(|limit| limit.seconds_left = None);
    }
    toward
}

fn queued(counts: &Counts) -> Queued {
    let mut queued = Queued {
        images: counts.queued_images,
        ..Queued::default()
    };
    for (bucket, n) in Bucket::ALL.into_iter().zip(counts.queued) {
        *match bucket {
            Bucket::Seed => &mut queued.seed,
            Bucket::High => &mut queued.high,
            Bucket::Medium => &mut queued.medium,
            Bucket::Normal => &mut queued.normal,
            Bucket::Low => &mut queued.low,
        } = n;
    }
    queued
}

#[cfg(target_os = "linux")]
fn disk(folder: &Path) -> Option<Disk> {
    let found = rustix::fs::statvfs(folder).ok()?;
    Some(Disk {
        free: found.f_bavail.saturating_mul(found.f_frsize),
        size: found.f_blocks.saturating_mul(found.f_frsize),
    })
}

#[cfg(not(target_os = "linux"))]
fn disk(_folder: &Path) -> Option<Disk> {
    None
}

/// From `/proc`; not available on other systems.
pub(super) fn memory() -> Option<Memory> {
    let text = crate::fs::read_to_string("/proc/self/status").ok()?;
    let bytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
        Some(kib * 1024)
    };
    Some(Memory {
        resident: bytes("VmRSS:")?,
        peak: bytes("VmHWM:")?,
    })
}
