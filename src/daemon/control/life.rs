//! The life of a crawl as its viewers see it: it is being prepared, it crawls, it has ended.
//!
//! The page is available from the first second, before there is a frontier. It keeps the last
//! figures after the process has gone, because they are sent to it at the end.

use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::{Stream, stream};
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, watch};

use super::problem::Problem;
use super::status::Stage;
use super::{ControlError, ControlHandle, Dashboard, Inner, Status};
use crate::clock::{now, timestamp};
use crate::config::Config;
use crate::crawl::pipeline::End;
use crate::frontier::Cells;
use crate::fs::{atomic, beneath};

/// The most pages that may wait for the end at the same time, so that they do not use up
/// all connections.
const WATCHERS: usize = 8;

/// The longest wait for the last figures.
const MOMENT: Duration = Duration::from_secs(2);

/// The stage of a crawl's life.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Now {
    /// It is being prepared: the current step, and its start in milliseconds since 1970.
    Preparing { since: u64, doing: String },
    /// The frontier is open.
    Crawling,
}

/// Why a crawl ended, and what its operator may do next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// `limit`, `exhausted`, `stopped` or `failed`.
    pub why: String,
    /// The same in words.
    pub text: String,
    /// Commands that may follow.
    pub next: Vec<NextStep>,
}

/// A command that may come next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextStep {
    /// As it is typed.
    pub command: String,
    /// Its effect.
    pub gives: String,
}

/// The final data of a crawl.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Farewell {
    /// The status; `ended` says why it ended.
    pub status: Status,
    /// The results.
    pub board: Dashboard,
}

/// The file in a job's folder that records how the last run ended. It is removed while a
/// crawl runs, and is not written if one is killed.
const ENDED: &str = "ended.json";

/// How the last run of the job in `folder` ended, if that was recorded.
pub fn ending(folder: &Path) -> Option<Ending> {
    let file = beneath::open(folder, ENDED).ok()?;
    serde_json::from_reader(std::io::Read::take(file, MAX_ENDED)).ok()
}

/// The most bytes of that file that are read.
const MAX_ENDED: u64 = 1 << 16;

/// The stage of a crawl's life, and the viewers waiting for its end.
pub(super) struct Life {
    now: std::sync::Mutex<Now>,
    farewell: watch::Sender<Option<Arc<Farewell>>>,
    watchers: Arc<Semaphore>,
}

impl Inner {
    /// Records in the job's folder how the run ended.
    fn note(&self, ending: &Ending) {
        let path = self.folder.join(ENDED);
        let text = serde_json::to_string(ending).unwrap_or_default();
        if let Err(error) = atomic::write_bytes(&self.folder, ENDED, text.as_bytes()) {
            // If the disk is the problem, the error that ended the crawl is more helpful.
            tracing::debug!(
                "{}: {error}; `spoor ui` cannot say how the crawl ended",
                path.display()
            );
        }
    }

    /// Removes the record of the previous run.
    pub fn forget_ending(&self) {
        beneath::remove_file(&self.folder, ENDED).ok();
    }
}

impl Life {
    pub fn new() -> Self {
        Self {
            now: std::sync::Mutex::new(Now::Preparing {
                since: now(),
                doing: "starting".to_owned(),
            }),
            farewell: watch::Sender::new(None),
            watchers: Arc::new(Semaphore::new(WATCHERS)),
        }
    }

    pub fn begin(&self) {
        *self.now() = Now::Crawling;
    }

    /// The current step before the crawl begins, and its start; `None` afterwards.
    pub fn preparing(&self) -> Option<(u64, String)> {
        match &*self.now() {
            Now::Preparing { since, doing } => Some((*since, doing.clone())),
            Now::Crawling => None,
        }
    }

    fn now(&self) -> std::sync::MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ending {
    fn of(end: Result<End, &str>, job: &str, status: &Status, config: &Config) -> Self {
        let mut next = Vec::new();
        let mut step = |command: String, gives: &str| {
            let gives = gives.to_owned();
            next.push(NextStep { command, gives });
        };
        if config.cluster.is_there() {
            let command = format!("spoor cluster gather {job}");
            step(command, "one job with the results of all machines");
        } else if status.pages > 0 {
            let command = format!("spoor report {job}");
            step(command, "the results as a page with pictures");
            if config.text.documents {
                let command = format!("spoor export {job} --text");
                step(command, "the text of its pages as a corpus");
            }
            if status.images > 0 {
                let command = format!("spoor export {job} --format imagefolder");
                step(command, "the images and their words as a data set");
            }
        }
        let (why, text, on) = match end {
            Ok(End::Limit(key)) => (
                "limit",
                format!("the limit {key} is reached; raise it to continue"),
                format!("continues, after you raise {key}"),
            ),
            Ok(End::Exhausted) => (
                "exhausted",
                "nothing is left to fetch".to_owned(),
                if status.hosts.parked > 0 {
                    "retries later those that did not respond".to_owned()
                } else {
                    "continues, after you add seeds or widen [scope]".to_owned()
                },
            ),
            Ok(End::Stopped) => (
                "stopped",
                "it was stopped; nothing is lost".to_owned(),
                "continues where it stopped".to_owned(),
            ),
            Err(error) => (
                "failed",
                error.to_owned(),
                "continues where it stopped".to_owned(),
            ),
        };
        step(format!("spoor crawl {job}"), &on);
        Self {
            why: why.to_owned(),
            text,
            next,
        }
    }
}

impl ControlHandle {
    /// Reports the current step before the crawl begins, in words.
    pub fn preparing(&self, what: &str) {
        if let Now::Preparing { doing, .. } = &mut *self.0.life.now() {
            what.clone_into(doing);
        }
    }

    /// Call this when the crawl has ended or failed, before the API closes: it sends viewers the
    /// last figures. Returns the final status.
    pub fn end(&self, frontier: &Cells, end: Result<End, &str>, config: &Config) -> Status {
        let now = now();
        let mut status = self.figures(frontier, Stage::Ended, now);
        self.complete(&mut status, config);
        let job = self.0.file.get().map_or("JOB.toml", String::as_str);
        let ending = Ending::of(end, job, &status, config);
        self.0.note(&ending);
        status.ended = Some(ending);
        let farewell = Farewell {
            status: status.clone(),
            board: self.dashboard_of(&frontier.focus_curve(), frontier.turns(0), now),
        };
        self.0.life.farewell.send_replace(Some(Arc::new(farewell)));
        status
    }

    /// The final data, for a request that arrived too late: the loop of the crawl has
    /// ended, and its last figures are available in a moment.
    pub(super) async fn farewell(&self) -> Result<Arc<Farewell>, ControlError> {
        let mut farewell = self.0.life.farewell.subscribe();
        let said = tokio::time::timeout(MOMENT, farewell.wait_for(Option::is_some)).await;
        match said {
            Ok(Ok(said)) => said.clone().ok_or(ControlError::Ended),
            _ => Err(ControlError::Ended),
        }
    }

    /// The status of a crawl that has not begun.
    pub(super) fn early(&self, since: u64, doing: String) -> Status {
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            state: Stage::Starting,
            since: timestamp(since),
            started: timestamp(since),
            doing: Some(doing),
            limits: serde_json::json!({}),
            ..Status::default()
        }
    }

    /// Refuses requests that need a frontier before there is one.
    pub(super) fn has_begun(&self) -> Result<(), ControlError> {
        match self.0.life.preparing() {
            Some((_, doing)) => Err(ControlError::Preparing(doing)),
            None => Ok(()),
        }
    }
}

/// One server-sent event `end` with the last figures ([`Farewell`]) when the crawl has
/// ended. If the connection breaks before that, the process has gone.
pub(super) async fn end(
    State(handle): State<ControlHandle>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let Ok(place) = Arc::clone(&handle.0.life.watchers).try_acquire_owned() else {
        let error = format!("{WATCHERS} pages are already waiting for the end");
        return Err(Problem::new(
            StatusCode::TOO_MANY_REQUESTS,
            error,
            "poll /api/status instead",
        ));
    };
    let farewell = handle.0.life.farewell.subscribe();
    let events = stream::unfold(Some((farewell, place)), |state| async move {
        let (mut farewell, place) = state?;
        let said = farewell.wait_for(Option::is_some).await.ok()?.clone()?;
        drop(place);
        // Figures and strings always serialise.
        let json = serde_json::to_string(&*said).unwrap_or_default();
        Some((Ok(Event::default().event("end").data(json)), None))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}
