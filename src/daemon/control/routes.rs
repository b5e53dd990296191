//! The routes. The topic `api` of the guide lists them; a test checks that.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, LazyLock};

use axum::body::Bytes;
use axum::extract::{Path as UrlPath, RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::{MethodRouter, get, post};
use axum::{Extension, Json, Router};
use futures_util::{Stream, stream};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::sync::broadcast::error::RecvError;

use super::auth::{self, Auth};
use super::problem::Problem;
use super::tail::TailLine;
use super::{
    Changes, ConfigEdit, ControlError, ControlHandle, Done, InForce, Lost, NewSeeds, RequestResult,
    Seeded, Who,
};
use super::{Status, cluster, dashboard, life};
use crate::address::PageUrl;
use crate::config::{self, Config};
use crate::explain::{Explanation, HostReport};

/// The most log rows per response.
const MOST_ROWS: usize = 1000;

/// The most seeds per request.
pub(super) const MOST_SEEDS: usize = 10_000;

/// All keys of a job file.
static KEYS: LazyLock<Vec<String>> = LazyLock::new(config::keys);

/// The largest job file that the API accepts, in bytes.
const MAX_RULES: usize = 1 << 20;

/// Held while a job file is parsed: one at a time.
static READING: Semaphore = Semaphore::const_new(1);

type Reply<T> = Result<Json<T>, Problem>;

/// The header that says how many machines of a cluster have applied a request, how many there are,
/// and how many keep a value of their own, as `2/3/1`.
pub(super) const MACHINES: &str = "spoor-machines";

/// The response to a request that affects all machines of a cluster.
type ClusterReply<T> = Result<(HeaderMap, Json<T>), Problem>;

fn with_machines<T>(result: RequestResult<T>) -> (HeaderMap, Json<T>) {
    let mut headers = HeaderMap::new();
    let count = result.machines.map(|machines| machines.to_string());
    if let Some(value) = count.and_then(|count| count.parse().ok()) {
        headers.insert(MACHINES, value);
    }
    (headers, Json(result.value))
}

/// The paths of the API with their methods.
fn paths() -> [(&'static str, MethodRouter<ControlHandle>); 17] {
    [
        ("/api/status", get(status)),
        ("/api/pause", post(pause)),
        ("/api/resume", post(resume)),
        ("/api/stop", post(stop)),
        ("/api/checkpoint", post(checkpoint)),
        ("/api/seeds", post(seeds)),
        ("/api/config", get(config).patch(set)),
        ("/api/rules", post(rules)),
        ("/api/explain", get(explain)),
        ("/api/host/{name}", get(host)),
        ("/api/log", get(log)),
        ("/api/log/follow", get(follow)),
        ("/api/board", get(dashboard::dashboard)),
        ("/api/cluster", get(cluster::cluster)),
        ("/api/end", get(life::end)),
        ("/metrics", get(dashboard::metrics)),
        ("/login", post(auth::login)),
    ]
}

/// The routes of the API.
pub(super) fn api() -> Router<ControlHandle> {
    let paths = paths().into_iter();
    paths.fold(Router::new(), |router, (path, method)| {
        router.route(path, method)
    })
}

/// The status of the crawl.
async fn status(
    State(handle): State<ControlHandle>,
    auth: Option<Extension<Arc<Auth>>>,
) -> Reply<Status> {
    let mut status = handle.status().await?;
    if auth.is_some() {
        // Only the owner of the socket gets the link with the token.
        status.link = None;
    }
    Ok(Json(status))
}

/// Sends no further requests until the crawl is resumed; tasks in flight finish. The pause
/// outlives the process.
async fn pause(
    State(handle): State<ControlHandle>,
    Extension(who): Extension<Who>,
) -> ClusterReply<Done> {
    Ok(with_machines(handle.pause(&who).await?))
}

/// Continues after a pause.
async fn resume(
    State(handle): State<ControlHandle>,
    Extension(who): Extension<Who>,
) -> ClusterReply<Done> {
    Ok(with_machines(handle.resume(&who).await?))
}

/// Ends the crawl in good order; tasks in flight are finished after the response.
async fn stop(State(handle): State<ControlHandle>, Extension(who): Extension<Who>) -> Reply<Done> {
    Ok(Json(handle.stop(&who).await?))
}

/// Responds when everything finished would survive a power loss.
async fn checkpoint(
    State(handle): State<ControlHandle>,
    Extension(who): Extension<Who>,
) -> Reply<Done> {
    Ok(Json(handle.checkpoint(&who).await?))
}

/// Adds seeds, and returns the result for each.
async fn seeds(
    State(handle): State<ControlHandle>,
    Extension(who): Extension<Who>,
    body: Bytes,
) -> ClusterReply<Vec<Seeded>> {
    let seeds: NewSeeds = read(&body, "send {\"urls\": [\"https://example.org/\"]}")?;
    if seeds.urls.len() > MOST_SEEDS {
        let error = format!("{} seeds at once", seeds.urls.len());
        let advice = format!("send at most {MOST_SEEDS} at once");
        return Err(Problem::wrong(error, &advice));
    }
    Ok(with_machines(handle.add_seeds(seeds, &who).await?))
}

/// The current configuration of the crawl.
async fn config(State(handle): State<ControlHandle>) -> Json<InForce> {
    Json(handle.config().await)
}

/// Sets keys such as `limits.documents`; null removes a value. All are set, or none.
async fn set(
    State(handle): State<ControlHandle>,
    Extension(who): Extension<Who>,
    body: Bytes,
) -> ClusterReply<Changes> {
    const ADVICE: &str = "send {\"limits.documents\": 1000}";
    let values: BTreeMap<String, Value> = read(&body, ADVICE)?;
    if let Some(key) = values.keys().find(|key| KEYS.binary_search(key).is_err()) {
        let key: String = key.chars().take(100).collect();
        let error = match config::nearest_key(&key) {
            Some(near) => format!("`{key}` is not a key; did you mean `{near}`?"),
            None => format!("`{key}` is not a key; write its full name, such as limits.documents"),
        };
        return Err(Problem::wrong(error, ADVICE));
    }
    Ok(with_machines(
        handle.change(ConfigEdit::Values(values), &who).await?,
    ))
}

/// Applies those parts of a job file that may change while the crawl runs.
async fn rules(
    State(handle): State<ControlHandle>,
    Extension(who): Extension<Who>,
    body: Bytes,
) -> ClusterReply<Changes> {
    if body.len() > MAX_RULES {
        return Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the job file is larger than {MAX_RULES} bytes"),
            "write its rules as fewer prefixes, or stop the crawl and start it again with this file",
        ));
    }
    // Parsing may take a while, and the crawl continues meanwhile.
    let reading = READING.acquire().await;
    let parse = move || {
        let text = std::str::from_utf8(&body)
            .map_err(|_| Problem::wrong("the job file is not UTF-8", "save it as UTF-8"))?;
        let parsed = Config::parse(text, "the job file");
        parsed.map_err(|errors| Problem::from(ControlError::from(errors)))
    };
    let parsed = tokio::task::spawn_blocking(parse).await;
    let config = parsed.map_err(|_| ControlError::Ended)??;
    drop(reading);
    // The crawl may run in a folder other than the file's.
    let config = config.within(handle.in_force().await.origin.folder());
    let edit = ConfigEdit::File(Box::new(config));
    Ok(with_machines(handle.change(edit, &who).await?))
}

/// Everything known about an address: its state, why, and when it is due.
async fn explain(
    State(handle): State<ControlHandle>,
    RawQuery(query): RawQuery,
) -> Reply<Explanation> {
    const ADVICE: &str = "give an address, such as /api/explain?url=https%3A%2F%2Fexample.org%2F";
    let Some(text) = parameter(query.as_deref(), "url") else {
        return Err(Problem::wrong("the address is missing", ADVICE));
    };
    let lower = text.to_ascii_lowercase();
    if !["http://", "https://"]
        .iter()
        .any(|begin| lower.starts_with(begin))
    {
        let error = format!("`{text}` is not written in full");
        return Err(Problem::wrong(error, ADVICE));
    }
    let url = PageUrl::parse(&text).map_err(|e| Problem::wrong(e.to_string(), ADVICE))?;
    Ok(Json(handle.explain(url).await?))
}

/// Everything known about a host: its clock, its failures, its robots rules.
async fn host(
    State(handle): State<ControlHandle>,
    UrlPath(name): UrlPath<String>,
) -> Reply<HostReport> {
    const ADVICE: &str = "write it as www.example.org";
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.-:[]".contains(c);
    if !name.chars().all(is_plain) || name.starts_with(['.', '-']) {
        return Err(Problem::wrong(format!("`{name}` is not a host"), ADVICE));
    }
    let url = PageUrl::parse(&format!("http://{name}/"));
    let url = url.map_err(|e| Problem::wrong(e.to_string(), ADVICE))?;
    Ok(Json(handle.host(url).await?))
}

/// The last rows of the crawl log, oldest first.
async fn log(State(handle): State<ControlHandle>, RawQuery(query): RawQuery) -> Reply<Vec<Value>> {
    let last = match parameter(query.as_deref(), "last") {
        None => 100,
        Some(text) => match text.parse() {
            Ok(n) if n <= MOST_ROWS => n,
            _ => {
                let advice = format!("give a number up to {MOST_ROWS}, such as /api/log?last=10");
                return Err(Problem::wrong(format!("last={text}"), &advice));
            }
        },
    };
    Ok(Json(handle.last_rows(last).await?))
}

/// The crawl log as it is written: an event `row` for each row, `change` for each change
/// of the crawl (`AuditLine`), `lost` if the reader was too slow ([`Lost`]).
async fn follow(
    State(handle): State<ControlHandle>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let lines = handle.0.tail.follow()?;
    let events = stream::unfold(lines, |mut lines| async move {
        let event = match lines.recv().await {
            Ok(TailLine::Row(row)) => Event::default().event("row").data(row),
            Ok(TailLine::Change(entry)) => Event::default().event("change").data(entry),
            Err(RecvError::Lagged(lost)) => {
                let json = serde_json::json!(Lost { lost }).to_string();
                Event::default().event("lost").data(json)
            }
            Err(RecvError::Closed) => return None,
        };
        Some((Ok(event), lines))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

/// The response for unknown paths.
pub(super) async fn nothing() -> Problem {
    let advice = "`spoor help api` lists all paths";
    Problem::new(StatusCode::NOT_FOUND, "there is nothing here", advice)
}

pub(super) fn read<T: DeserializeOwned>(body: &[u8], advice: &str) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|e| Problem::wrong(e.to_string(), advice))
}

fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    let mut pairs = url::form_urlencoded::parse(query?.as_bytes());
    pairs
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_lists_every_path() {
        let guide = include_str!("../../guide/api.md");
        for (path, _) in paths() {
            assert!(guide.contains(&format!(" {path}")), "{path}");
        }
    }
}
