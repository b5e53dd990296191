//! The control channel: a running crawl is asked and told over a Unix domain
//! socket in the job's folder, `control.sock`, that only its owner may open.
//!
//! It speaks HTTP/1.1, so that any client can be used (`curl --unix-socket`):
//!
//! | request | answer |
//! |---|---|
//! | `GET /explain?url=URL` | an [`Explanation`] as JSON |
//! | `GET /host/NAME` | a [`HostReport`] as JSON |
//! | `POST /rules`, a job file as body | its `[scope]`, `[strategy]` and `[buckets]` and the keyword table in the model's folder are in force; [`Reloaded`] as JSON |
//!
//! An error has a status of 400 or above and says in plain text what is wrong.
//! Every question is a closure that is run on the thread which owns the frontier,
//! between two rounds of its loop; so this module never touches the store itself,
//! decides nothing, and knows nothing of the network that is crawled. A crawl does
//! without the channel where it cannot be had.

mod client;
mod ratings;
#[cfg(unix)]
mod socket;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path as UrlPath, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;

use crate::address::PageUrl;
use crate::config::{Changed, Config, ConfigErrors};
use crate::explain::{self, Explanation, HostReport, Terms};
use crate::frontier::store::StoreError;
use crate::frontier::{Frontier, Rescored};
use crate::pipeline::Asker;
use crate::scope::Scope;

pub use client::Client;
pub use ratings::{MakeReader, Ratings, Rerated};
#[cfg(unix)]
pub use socket::{Served, serve};

/// The largest job file that is taken, in bytes.
const MAX_JOB_FILE: usize = 16 << 20;

/// What came of new rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// False where all was so before.
    pub changed: bool,
    /// The full keys that have other values now; `keywords` is the keyword table.
    pub keys: Vec<String>,
    /// Full keys besides those of [`LIVE`] sections that differ from what the crawl was
    /// started with; they take effect at its next start.
    pub later: Vec<String>,
    /// What rating all links anew has come to when this was answered; `None` where that
    /// was not called for.
    pub rescored: Option<Rescored>,
    /// Whether it was at its end then; where not, its end is told in the log.
    pub rated: bool,
}

/// The sections that are in force as soon as a running crawl is told.
pub const LIVE: [&str; 3] = ["scope", "strategy", "buckets"];

/// How long an answer waits for all links to be rated anew.
const MAX_WAIT: Duration = Duration::from_secs(3);

/// How often is looked whether they are.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Why the control channel gives no answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Nobody answers.
    #[error(
        "a spoor works on this job, but it does not answer on {}: {why}; it may be starting, \
         ending or at upkeep, so try again soon",
        path.display()
    )]
    Silent {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// The crawl answered that it cannot.
    #[error("the running crawl refused: {0}")]
    Refused(String),
    /// The answer makes no sense.
    #[error("the running crawl's answer cannot be read: {0}; is it another version of spoor?")]
    Garbled(String),
    /// The new job file is wrong.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// The new ratings cannot be made.
    #[error("nothing is changed: {0}")]
    Ratings(String),
    /// The run ended before it answered.
    #[error("the crawl has ended")]
    Ended,
    /// The frontier's store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What answers questions about one running crawl, and changes it. Cheap to clone.
#[derive(Clone)]
pub struct Desk {
    asker: Asker,
    terms: Arc<Terms>,
    started: Arc<Config>,
    /// The configuration that the crawl follows now; one change at a time.
    in_force: Arc<Mutex<Config>>,
    /// Set when the model is there.
    ratings: Arc<OnceLock<Ratings>>,
}

impl Desk {
    /// For the crawl behind `asker`, which was started with `config`.
    pub fn new(asker: Asker, terms: Terms, config: &Config) -> Self {
        Self {
            asker,
            terms: Arc::new(terms),
            started: Arc::new(config.clone()),
            in_force: Arc::new(Mutex::new(config.clone())),
            ratings: Arc::default(),
        }
    }

    /// From now on what rates the links may be changed.
    pub fn set_ratings(&self, ratings: Ratings) {
        // A desk has one crawl, which sets them once.
        self.ratings.set(ratings).ok();
    }

    /// Explains an address.
    ///
    /// # Errors
    /// [`ControlError::Ended`] or [`ControlError::Store`].
    pub async fn explain(&self, url: PageUrl) -> Result<Explanation, ControlError> {
        let terms = Arc::clone(&self.terms);
        let answer = self.asker.ask(move |frontier| {
            let terms = Terms {
                rating: frontier.rating().cloned(),
                ..Terms::clone(&terms)
            };
            explain::url(&frontier.view(), frontier.scope(), &terms, &url)
        });
        Ok(answer.await.ok_or(ControlError::Ended)??)
    }

    /// Says what is known of the host of an address.
    ///
    /// # Errors
    /// As [`Desk::explain`].
    pub async fn host(&self, url: PageUrl) -> Result<HostReport, ControlError> {
        let answer = self
            .asker
            .ask(move |frontier| explain::host(&frontier.view(), &url.host_key()));
        Ok(answer.await.ok_or(ControlError::Ended)??)
    }

    /// Puts the [`LIVE`] sections of another configuration in force, and the keyword
    /// table as it lies in the model's folder. When this returns nothing more is leased
    /// that they do not permit; what is queued is judged and rated anew while the crawl
    /// goes on. `who` is named beside every changed key in the log.
    ///
    /// # Errors
    /// As [`Desk::explain`], and [`ControlError::Ratings`]; all is as before then.
    pub async fn reload(&self, config: &Config, who: &str) -> Result<Reloaded, ControlError> {
        let mut held = self.in_force.lock().await;
        let new = Config {
            scope: config.scope.clone(),
            strategy: config.strategy.clone(),
            buckets: config.buckets.clone(),
            ..held.clone()
        };
        let mut changes = held.changes(&new);
        let rerated = match self.ratings.get() {
            Some(ratings) => ratings.by(&new)?,
            None => None,
        };
        changes.extend(rerated.as_ref().and_then(|r| r.keywords.clone()));
        let rates = rerated.is_some();
        let scope = Scope::new(new.scope.clone());
        let answer = self.asker.ask(move |frontier| {
            let takedowns = frontier.scope().takedowns().clone();
            frontier.set_scope(scope.with_takedowns(takedowns))?;
            rerated.map_or(Ok(()), |rerated| rerated.put(frontier))
        });
        answer.await.ok_or(ControlError::Ended)??;
        for Changed { key, from, to } in &changes {
            tracing::info!(key, from, to, who, "changed while the crawl runs");
        }
        let mut later = self.started.changes(config);
        // Ranking and judging are no part of a crawl, so their keys wait for none.
        later.retain(|changed| {
            let section = changed.key.split('.').next().unwrap_or_default();
            !LIVE.contains(&section) && !["rank", "annotate"].contains(&section)
        });
        *held = new;
        if !changes.is_empty() {
            self.record(&held).await;
        }
        drop(held);
        let (rescored, rated) = match rates {
            true => self.rescored().await,
            false => (None, true),
        };
        let key = |changed: Changed| changed.key;
        Ok(Reloaded {
            changed: !changes.is_empty(),
            keys: changes.into_iter().map(key).collect(),
            later: later.into_iter().map(key).collect(),
            rescored,
            rated,
        })
    }

    /// What rating anew has come to at its end, or after a while; and whether it is at
    /// its end. `None` where the run has ended meanwhile.
    async fn rescored(&self) -> (Option<Rescored>, bool) {
        let begun = tokio::time::Instant::now();
        loop {
            let look = |frontier: &mut Frontier| (frontier.rescored(), !frontier.is_rescoring());
            match self.asker.ask(look).await {
                None => return (None, false),
                Some((came, true)) => return (Some(came), true),
                Some((came, false)) if begun.elapsed() > MAX_WAIT => return (Some(came), false),
                Some(_) => tokio::time::sleep(LOOK_EVERY).await,
            }
        }
    }

    /// Keeps the record of what this corpus was made with true.
    async fn record(&self, now: &Config) {
        let path = self.started.job_folder().join("job.toml");
        if let Err(error) = tokio::fs::write(&path, now.to_toml()).await {
            tracing::warn!("{}: {error}; it still has the former rules", path.display());
        }
    }
}

/// The routes.
fn router(desk: Desk) -> Router {
    Router::new()
        .route("/explain", get(explain_url))
        .route("/host/{name}", get(explain_host))
        .route("/rules", post(rules))
        .layer(axum::extract::DefaultBodyLimit::max(MAX_JOB_FILE))
        .with_state(desk)
}

async fn explain_url(State(desk): State<Desk>, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    let Some((_, text)) = pairs.find(|(key, _)| key == "url") else {
        return wrong("name an address, as /explain?url=https%3A%2F%2Fexample.org%2F");
    };
    match PageUrl::parse(&text) {
        Ok(url) => answer(desk.explain(url).await),
        Err(error) => wrong(&error.to_string()),
    }
}

async fn explain_host(State(desk): State<Desk>, UrlPath(name): UrlPath<String>) -> Response {
    match PageUrl::parse(&format!("http://{name}/")) {
        Ok(url) => answer(desk.host(url).await),
        Err(error) => wrong(&error.to_string()),
    }
}

async fn rules(State(desk): State<Desk>, body: String) -> Response {
    match Config::parse(&body, "the job file") {
        Ok(config) => answer(desk.reload(&config, "the control channel").await),
        Err(errors) => wrong(&errors.to_string()),
    }
}

fn answer<T: Serialize>(result: Result<T, ControlError>) -> Response {
    let json = match result {
        Ok(value) => serde_json::to_vec(&value).map_err(|e| e.to_string()),
        Err(error @ ControlError::Ratings(_)) => return wrong(&error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match json {
        Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why).into_response(),
    }
}

fn wrong(why: &str) -> Response {
    (StatusCode::BAD_REQUEST, why.to_owned()).into_response()
}
