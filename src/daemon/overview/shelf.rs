//! The jobs of a folder, and the state of each.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;

use crate::config::Config;
use crate::control::{self, Client, Ending, Stage, Status};
use crate::crawl::figures::{FollowedLog, Toward};
use crate::fs::beneath;
use crate::outputs::DOCUMENTS;

/// The most jobs that are listed; a folder may contain anything.
const MOST: usize = 200;

/// The newest images of a job that are shown.
const NEWEST: usize = 8;

/// The time limit for the response of a running crawl.
const PATIENCE: Duration = Duration::from_secs(3);

/// The jobs of a folder.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shelf {
    /// The folder.
    pub folder: String,
    /// Its jobs: running ones first, then by their latest activity, newest first.
    pub jobs: Vec<Card>,
    /// Whether there are more than are listed.
    pub more: bool,
}

/// The state of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JobStanding {
    /// A process is using it.
    Running,
    /// It reached a limit, or nothing was left to fetch.
    Finished,
    /// Its operator stopped it; it can be continued.
    Stopped,
    /// Its process was killed or failed; it can be continued.
    Interrupted,
    /// Some of its files cannot be read.
    Damaged,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Card {
    /// Its name, which is that of its folder.
    pub name: String,
    /// Its state.
    pub state: JobStanding,
    /// The state in words, or the problem.
    pub text: String,
    /// Pages in its log, counting each visit.
    pub pages: u64,
    /// The share of them that is on topic; absent if none was judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_topic: Option<f64>,
    /// Images that were kept.
    pub images: u64,
    /// Its documents.
    pub documents: Texts,
    /// When its last task finished, RFC 3339 in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
    /// The link to the dashboard of a running crawl.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dashboard: Option<String>,
    /// How close a running crawl is to its first limit, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<f64>,
    /// When the report was written, RFC 3339 in UTC, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub report: Option<String>,
    /// Whether there is a copy of the job file.
    pub file: bool,
    /// Ids of the newest images.
    pub newest: Vec<String>,
    /// Whether the log is long and has not been read to its end yet.
    pub behind: bool,
}

/// What is known about a job's texts without reading them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Texts {
    /// Files in `documents/`.
    pub files: u64,
    /// Their bytes, compressed.
    pub bytes: u64,
}

/// Reads the jobs of a folder, and caches the figures of their logs.
#[derive(Debug)]
pub(super) struct ShelfReader {
    folder: PathBuf,
    logs: Mutex<HashMap<String, Arc<Mutex<FollowedLog>>>>,
}

impl ShelfReader {
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            logs: Mutex::default(),
        }
    }

    /// The folder of a job, if there is one of that name.
    pub fn job(&self, name: &str) -> Option<PathBuf> {
        let plain = !name.is_empty()
            && name.len() <= 64
            && name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b));
        let folder = self.folder.join(name);
        (plain && is_job(&folder)).then_some(folder)
    }

    /// The figures of a job's log, as far as it was read.
    pub fn log(&self, name: &str) -> Arc<Mutex<FollowedLog>> {
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        let log = logs.entry(name.to_owned());
        Arc::clone(log.or_insert_with(|| Arc::new(Mutex::new(FollowedLog::with_hosts(0)))))
    }

    /// All jobs in their present state.
    pub async fn shelf(self: Arc<Self>) -> Shelf {
        let reader = Arc::clone(&self);
        let listed = tokio::task::spawn_blocking(move || reader.names()).await;
        let (names, more) = listed.unwrap_or_default();
        let asked = names.into_iter().map(|name| {
            let reader = Arc::clone(&self);
            async move {
                let status = running(&reader.folder.join(&name)).await;
                let made = tokio::task::spawn_blocking(move || reader.card(name, status)).await;
                made.ok()
            }
        });
        let cards = futures_util::future::join_all(asked).await;
        let mut jobs: Vec<Card> = cards.into_iter().flatten().collect();
        jobs.sort_by(|a, b| {
            let runs = |card: &Card| card.state == JobStanding::Running;
            (runs(b), &b.last, &a.name).cmp(&(runs(a), &a.last, &b.name))
        });
        Shelf {
            folder: self.folder.display().to_string(),
            jobs,
            more,
        }
    }

    /// The names of the jobs, and whether there are more.
    fn names(&self) -> (Vec<String>, bool) {
        let Ok(entries) = std::fs::read_dir(&self.folder) else {
            return Default::default();
        };
        let names = entries.flatten().map(|entry| entry.file_name());
        let names = names.filter_map(|name| name.into_string().ok());
        let mut names: Vec<String> = names.filter(|name| self.job(name).is_some()).collect();
        names.sort();
        let more = names.len() > MOST;
        names.truncate(MOST);
        (names, more)
    }

    /// A job in its present state; `status` comes from its crawl, if one is running.
    fn card(&self, name: String, status: Option<Status>) -> Card {
        let folder = self.folder.join(&name);
        let log = self.log(&name);
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        let wrong = beneath::refuse_links_out(&folder, "", 0)
            .and_then(|()| beneath::refuse_links_out(&folder, "logs", 0))
            .map_err(|error| error.to_string())
            .and_then(|()| {
                let read = log.read_on(&folder);
                read.map_err(|error| format!("logs/crawl.jsonl cannot be read: {error}"))
            })
            .err()
            .or_else(|| wrong_with(&folder));
        let (totals, latest) = (&log.figures.totals, &log.figures.latest);
        let (state, text) = match (&status, wrong) {
            (Some(status), _) => (JobStanding::Running, doing(status)),
            (None, Some(wrong)) => (JobStanding::Damaged, wrong),
            (None, None) => ended(&folder, totals.rows > 0),
        };
        let toward = |status: &Status| status.toward.iter().map(Toward::share).reduce(f64::max);
        let report = folder.join("report/report.html").metadata();
        let made = report.and_then(|meta| meta.modified()).ok();
        let made = made.and_then(|time| jiff::Timestamp::try_from(time).ok());
        Card {
            state,
            text,
            pages: totals.pages,
            on_topic: (totals.judged > 0).then(|| totals.on_topic as f64 / totals.judged as f64),
            images: totals.images,
            documents: texts(&folder.join(DOCUMENTS)),
            last: log.figures.last.clone(),
            progress: status.as_ref().and_then(toward),
            dashboard: status.and_then(|status| status.link),
            report: made.map(|time| format!("{time:.0}")),
            file: folder.join("job.toml").is_file(),
            newest: latest
                .images
                .iter()
                .take(NEWEST)
                .map(|image| image.id.clone())
                .collect(),
            behind: log.behind,
            name,
        }
    }
}

/// Whether a folder is a job's.
fn is_job(folder: &Path) -> bool {
    folder.join("job.toml").is_file() || folder.join("logs/crawl.jsonl").is_file()
}

/// The status of the job's crawl, if one is running.
async fn running(folder: &Path) -> Option<Status> {
    if !folder.join("control.sock").exists() {
        return None;
    }
    let client = Client::new(folder);
    let asked = tokio::time::timeout(PATIENCE, client.status());
    asked.await.ok()?.ok()
}

fn doing(status: &Status) -> String {
    match status.state {
        Stage::Starting => status
            .doing
            .clone()
            .unwrap_or_else(|| "starting".to_owned()),
        Stage::Running => "crawling".to_owned(),
        Stage::Paused => "paused".to_owned(),
        Stage::Draining => "stopping".to_owned(),
        Stage::Outage => "no network; it continues by itself".to_owned(),
        Stage::Ended => "ending".to_owned(),
    }
}

/// How the last run of a job ended, by the files it left.
fn ended(folder: &Path, begun: bool) -> (JobStanding, String) {
    let Some(Ending { why, text, .. }) = control::ending(folder) else {
        return if begun {
            let text = "its process was killed; run the job again to continue";
            (JobStanding::Interrupted, text.to_owned())
        } else {
            (JobStanding::Stopped, "nothing was fetched yet".to_owned())
        };
    };
    match why.as_str() {
        "limit" | "exhausted" => (JobStanding::Finished, text),
        "stopped" => (JobStanding::Stopped, text),
        _ => (JobStanding::Interrupted, text),
    }
}

/// What prevents a job from being continued.
fn wrong_with(folder: &Path) -> Option<String> {
    let file = folder.join("job.toml");
    if !file.is_file() {
        return Some("job.toml is missing; running the job again writes it".to_owned());
    }
    if let Err(errors) = Config::load(&file) {
        return Some(errors.to_string());
    }
    let frontier = folder.join("frontier");
    let why = "the folder frontier is missing: the queue is lost";
    (!frontier.is_dir()).then(|| why.to_owned())
}

fn texts(folder: &Path) -> Texts {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.filter_map(|entry| entry.metadata().ok());
    let sizes = sizes.filter(|meta| meta.is_file());
    sizes.fold(Texts::default(), |sum, meta| Texts {
        files: sum.files + 1,
        bytes: sum.bytes + meta.len(),
    })
}
