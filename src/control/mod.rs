//! The control channel: a running crawl is asked and told over a Unix domain
//! socket in the job's folder, `control.sock`, that only its owner may open.
//!
//! It speaks HTTP/1.1, so that any client can be used (`curl --unix-socket`):
//!
//! | request | answer |
//! |---|---|
//! | `GET /explain?url=URL` | an [`Explanation`] as JSON |
//! | `GET /host/NAME` | a [`HostReport`] as JSON |
//! | `POST /rules`, a job file as body | its `[scope]` is in force; [`Reloaded`] as JSON |
//!
//! An error has a status of 400 or above and says in plain text what is wrong.
//! Every question is a closure that is run on the thread which owns the frontier,
//! between two rounds of its loop; so this module never touches the store itself,
//! decides nothing, and knows nothing of the network that is crawled. A crawl does
//! without the channel where it cannot be had.

mod client;
#[cfg(unix)]
mod socket;

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path as UrlPath, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::{Deserialize, Serialize};

use crate::address::PageUrl;
use crate::config::{Config, ConfigErrors};
use crate::explain::{self, Explanation, HostReport, Terms};
use crate::frontier::store::StoreError;
use crate::pipeline::Asker;
use crate::scope::Scope;

pub use client::Client;
#[cfg(unix)]
pub use socket::{Served, serve};

/// The largest job file that is taken, in bytes.
const MAX_JOB_FILE: usize = 16 << 20;

/// What came of new rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// False where the rules were the same as before.
    pub changed: bool,
    /// Full keys besides those of `[scope]` that differ from what the crawl was
    /// started with; they take effect at its next start.
    pub later: Vec<String>,
}

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
}

impl Desk {
    /// For the crawl behind `asker`, which was started with `config`.
    pub fn new(asker: Asker, terms: Terms, config: &Config) -> Self {
        Self {
            asker,
            terms: Arc::new(terms),
            started: Arc::new(config.clone()),
        }
    }

    /// Explains an address.
    ///
    /// # Errors
    /// [`ControlError::Ended`] or [`ControlError::Store`].
    pub async fn explain(&self, url: PageUrl) -> Result<Explanation, ControlError> {
        let terms = Arc::clone(&self.terms);
        let answer = self
            .asker
            .ask(move |frontier| explain::url(&frontier.view(), frontier.scope(), &terms, &url));
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

    /// Puts the `[scope]` of another configuration in force. When this returns
    /// nothing more is leased that it does not permit; what is queued is judged
    /// anew while the crawl goes on.
    ///
    /// # Errors
    /// As [`Desk::explain`]; the rules are as before then.
    pub async fn reload(&self, config: &Config) -> Result<Reloaded, ControlError> {
        let scope = Scope::new(config.scope.clone());
        let answer = self.asker.ask(move |frontier| {
            let takedowns = frontier.scope().takedowns().clone();
            frontier.set_scope(scope.with_takedowns(takedowns))
        });
        let changed = answer.await.ok_or(ControlError::Ended)??;
        let mut later = self.started.differences(config);
        // Ranking and judging are no part of a crawl, so their keys wait for none.
        later.retain(|key| {
            !["scope.", "rank.", "annotate."]
                .iter()
                .any(|s| key.starts_with(s))
        });
        if changed {
            self.record(config).await;
        }
        tracing::info!(changed, "the job file was read again");
        Ok(Reloaded { changed, later })
    }

    /// Keeps the record of what this corpus was made with true.
    async fn record(&self, config: &Config) {
        let now = Config {
            scope: config.scope.clone(),
            ..Config::clone(&self.started)
        };
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
        Ok(config) => answer(desk.reload(&config).await),
        Err(errors) => wrong(&errors.to_string()),
    }
}

fn answer<T: Serialize>(result: Result<T, ControlError>) -> Response {
    let json = match result {
        Ok(value) => serde_json::to_vec(&value).map_err(|e| e.to_string()),
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
