//! The routes, and the OpenAPI document that describes them. The document is generated
//! from the handlers, so the two always match.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, LazyLock};

use axum::body::Bytes;
use axum::extract::{Path as UrlPath, RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use futures_util::{Stream, stream};
use regex::Regex;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::sync::broadcast::error::RecvError;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{OpenApi, PartialSchema, ToSchema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::auth::Auth;
use super::problem::Problem;
use super::remote::FromMachine;
use super::tail::Line;
use super::{
    Change, Changes, ControlError, ControlHandle, Done, InForce, Lost, NewSeeds, Seeded, Told, Who,
};
use super::{Entry, Farewell, Status};
use crate::address::PageUrl;
use crate::config::{self, Config};
use crate::daemon::explain::{Explanation, HostReport};

/// The most log rows per response.
const MOST_ROWS: usize = 1000;

/// The most seeds per request.
pub(super) const MOST_SEEDS: usize = 10_000;

/// The pattern of an address in a request, which is also part of the document.
static ADDRESS: LazyLock<Option<Regex>> =
    LazyLock::new(|| pattern(r"^[Hh][Tt][Tt][Pp][Ss]?://[^\s/?#]+"));

/// The pattern of a host.
static HOST: LazyLock<Option<Regex>> = LazyLock::new(|| {
    pattern(r"^([A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$")
});

/// All keys of a job file.
static KEYS: LazyLock<Vec<String>> = LazyLock::new(config::keys);

/// The largest job file that the API accepts, in bytes.
const MAX_RULES: usize = 1 << 20;

/// Held while a job file is parsed: one at a time.
static READING: Semaphore = Semaphore::const_new(1);

/// Compiles one of our patterns, which are valid, as a test checks.
fn pattern(text: &str) -> Option<Regex> {
    Regex::new(text).ok()
}

fn fits(pattern: &LazyLock<Option<Regex>>, text: &str) -> bool {
    pattern
        .as_ref()
        .is_none_or(|pattern| pattern.is_match(text))
}

/// Keys with new values, such as `{"limits.documents": 1000}`.
struct NewValues;

impl PartialSchema for NewValues {
    fn schema() -> RefOr<Schema> {
        let name = ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::String))
            .enum_values(Some(KEYS.iter().cloned()));
        let object = ObjectBuilder::new()
            .description(Some(
                "Full keys with their values as JSON; null removes a value",
            ))
            .property_names(Some(name.build()))
            .additional_properties(Some(AdditionalProperties::FreeForm(true)));
        object.build().into()
    }
}

impl ToSchema for NewValues {
    fn name() -> Cow<'static, str> {
        "NewValues".into()
    }
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "spoor control API",
        description = "Queries and controls a running crawl. On the Unix domain socket of the job's \
            folder nothing more is needed; over TCP, where there is a token, every \
            request brings it (`Authorization: Bearer`) or the cookie that `POST /login` sets."
    ),
    components(schemas(Lost, Entry, Farewell))
)]
struct Document;

type Reply<T> = Result<Json<T>, Problem>;

/// The header that says how many machines of a cluster have applied a request, and how many
/// there are, as `2/3`.
pub(super) const MACHINES: &str = "spoor-machines";

/// The answer to a request that holds for all machines of a cluster.
type ToldReply<T> = Result<(HeaderMap, Json<T>), Problem>;

fn told<T>(told: Told<T>) -> (HeaderMap, Json<T>) {
    let mut headers = HeaderMap::new();
    let said = told.machines.map(|machines| machines.to_string());
    if let Some(value) = said.and_then(|said| said.parse().ok()) {
        headers.insert(MACHINES, value);
    }
    (headers, Json(told.value))
}

/// The routes with their documentation.
pub(super) fn api() -> OpenApiRouter<ControlHandle> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(status))
        .routes(routes!(pause))
        .routes(routes!(resume))
        .routes(routes!(stop))
        .routes(routes!(checkpoint))
        .routes(routes!(seeds))
        .routes(routes!(config, set))
        .routes(routes!(rules))
        .routes(routes!(explain))
        .routes(routes!(host))
        .routes(routes!(log))
        .routes(routes!(follow))
        .routes(routes!(super::dashboard::dashboard))
        .routes(routes!(super::dashboard::metrics))
        .routes(routes!(super::cluster::cluster))
        .routes(routes!(super::life::end))
        .routes(routes!(document))
        .routes(routes!(super::auth::login))
}

/// The OpenAPI document.
pub fn openapi() -> utoipa::openapi::OpenApi {
    api().into_openapi()
}

/// The status of the crawl.
#[utoipa::path(get, path = "/api/status",
    responses((status = 200, body = Status), (status = "default", body = Problem)))]
async fn status(
    State(handle): State<ControlHandle>,
    auth: Option<Extension<Arc<Auth>>>,
    from: Option<Extension<FromMachine>>,
) -> Reply<Status> {
    let mut status = handle.status().await?;
    if auth.is_some() || from.is_some() {
        // Only the owner of the socket gets the link with the token.
        status.link = None;
    }
    Ok(Json(status))
}

/// Sends no further requests until the crawl is resumed; tasks in flight finish. The pause
/// outlives the process.
#[utoipa::path(post, path = "/api/pause",
    responses((status = 200, body = Done), (status = "default", body = Problem)))]
async fn pause(
    State(handle): State<ControlHandle>,
    Extension(who): Extension<Who>,
) -> ToldReply<Done> {
    Ok(told(handle.pause(&who).await?))
}

/// Continues after a pause.
#[utoipa::path(post, path = "/api/resume",
    responses((status = 200, body = Done), (status = "default", body = Problem)))]
async fn resume(
    State(handle): State<ControlHandle>,
    Extension(who): Extension<Who>,
) -> ToldReply<Done> {
    Ok(told(handle.resume(&who).await?))
}

/// Ends the crawl in good order; tasks in flight are finished after the response.
#[utoipa::path(post, path = "/api/stop",
    responses((status = 200, body = Done), (status = "default", body = Problem)))]
async fn stop(State(handle): State<ControlHandle>, Extension(who): Extension<Who>) -> Reply<Done> {
    Ok(Json(handle.stop(&who).await?))
}

/// Responds when everything finished would survive a power loss.
#[utoipa::path(post, path = "/api/checkpoint",
    responses((status = 200, body = Done), (status = "default", body = Problem)))]
async fn checkpoint(
    State(handle): State<ControlHandle>,
    Extension(who): Extension<Who>,
) -> Reply<Done> {
    Ok(Json(handle.checkpoint(&who).await?))
}

/// Adds seeds, and returns the result for each.
#[utoipa::path(post, path = "/api/seeds", request_body = NewSeeds,
    responses((status = 200, body = Vec<Seeded>), (status = "default", body = Problem)))]
async fn seeds(
    State(handle): State<ControlHandle>,
    Extension(who): Extension<Who>,
    body: Bytes,
) -> ToldReply<Vec<Seeded>> {
    let seeds: NewSeeds = read(&body, "send {\"urls\": [\"https://example.org/\"]}")?;
    if seeds.urls.len() > MOST_SEEDS {
        let error = format!("{} seeds at once", seeds.urls.len());
        let advice = format!("send at most {MOST_SEEDS} at once");
        return Err(Problem::wrong(error, &advice));
    }
    Ok(told(handle.add_seeds(seeds, &who).await?))
}

/// The current configuration of the crawl.
#[utoipa::path(get, path = "/api/config",
    responses((status = 200, body = InForce), (status = "default", body = Problem)))]
async fn config(State(handle): State<ControlHandle>) -> Json<InForce> {
    Json(handle.config().await)
}

/// Sets keys such as `limits.documents`; null removes a value. All are set, or none.
#[utoipa::path(patch, path = "/api/config", request_body = NewValues,
    responses((status = 200, body = Vec<Change>), (status = "default", body = Problem)))]
async fn set(
    State(handle): State<ControlHandle>,
    Extension(who): Extension<Who>,
    body: Bytes,
) -> ToldReply<Vec<Change>> {
    const ADVICE: &str = "send {\"limits.documents\": 1000}";
    let values: BTreeMap<String, Value> = read(&body, ADVICE)?;
    if let Some(key) = values.keys().find(|key| KEYS.binary_search(key).is_err()) {
        let key: String = key.chars().take(100).collect();
        let error = match config::nearest_key(&key) {
            Some(near) => format!("`{key}` is not a key; did you mean `{near}`?"),
            None => format!("`{key}` is not a key; write its full name, as limits.documents"),
        };
        return Err(Problem::wrong(error, ADVICE));
    }
    Ok(told(handle.set(values, &who).await?))
}

/// Applies those parts of a job file that may change while the crawl runs.
#[utoipa::path(post, path = "/api/rules",
    request_body(content = String, content_type = "application/toml"),
    responses((status = 200, body = Changes), (status = "default", body = Problem)))]
async fn rules(
    State(handle): State<ControlHandle>,
    Extension(who): Extension<Who>,
    body: Bytes,
) -> ToldReply<Changes> {
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
    // The crawl may run in another folder than that of the file.
    let config = config.within(handle.in_force().await.origin.folder());
    Ok(told(handle.reload(&config, &who).await?))
}

/// Everything known about an address: its state, why, and when it is due.
#[utoipa::path(get, path = "/api/explain",
    params(("url" = String, Query, description = "The address in full", min_length = 1,
        pattern = r"^[Hh][Tt][Tt][Pp][Ss]?://[^\s/?#]+")),
    responses((status = 200, body = Explanation), (status = "default", body = Problem)))]
async fn explain(
    State(handle): State<ControlHandle>,
    RawQuery(query): RawQuery,
) -> Reply<Explanation> {
    const ADVICE: &str = "give an address, as /api/explain?url=https%3A%2F%2Fexample.org%2F";
    let Some(text) = parameter(query.as_deref(), "url") else {
        return Err(Problem::wrong("the address is missing", ADVICE));
    };
    let url = PageUrl::parse(&text).map_err(|e| {
        // It matches the pattern, but no crawl can ever know it.
        let status = if fits(&ADDRESS, &text) {
            StatusCode::NOT_FOUND
        } else {
            StatusCode::BAD_REQUEST
        };
        Problem::new(status, e.to_string(), ADVICE)
    })?;
    if !fits(&ADDRESS, &text) {
        let error = format!("`{text}` is not written in full");
        return Err(Problem::wrong(error, ADVICE));
    }
    Ok(Json(handle.explain(url).await?))
}

/// Everything known about a host: its clock, its failures, its robots rules.
#[utoipa::path(get, path = "/api/host/{name}",
    params(("name" = String, Path, description = "The host, as www.example.org or [::1]:8080",
        min_length = 1,
        pattern = r"^([A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$")),
    responses((status = 200, body = HostReport), (status = "default", body = Problem)))]
async fn host(
    State(handle): State<ControlHandle>,
    UrlPath(name): UrlPath<String>,
) -> Reply<HostReport> {
    const ADVICE: &str = "write it as www.example.org";
    if !fits(&HOST, &name) {
        return Err(Problem::wrong(format!("`{name}` is not a host"), ADVICE));
    }
    let url = PageUrl::parse(&format!("http://{name}/"));
    // It matches the pattern, but no crawl can ever know it.
    let url = url.map_err(|e| Problem::new(StatusCode::NOT_FOUND, e.to_string(), ADVICE))?;
    Ok(Json(handle.host(url).await?))
}

/// The last rows of the crawl log, oldest first.
#[utoipa::path(get, path = "/api/log",
    params(("last" = Option<usize>, Query, description = "How many; 100 by default, at most 1000",
        minimum = 0, maximum = 1000)),
    responses((status = 200, body = Vec<Object>), (status = "default", body = Problem)))]
async fn log(State(handle): State<ControlHandle>, RawQuery(query): RawQuery) -> Reply<Vec<Value>> {
    let last = match parameter(query.as_deref(), "last") {
        None => 100,
        Some(text) => match text.parse() {
            Ok(n) if n <= MOST_ROWS => n,
            _ => {
                let advice = format!("give a number up to {MOST_ROWS}, as /api/log?last=10");
                return Err(Problem::wrong(format!("last={text}"), &advice));
            }
        },
    };
    Ok(Json(handle.last_rows(last).await?))
}

/// The crawl log as it is written: an event `row` for each row, `change` for each change
/// of the crawl ([`Entry`]), `lost` if the reader was too slow ([`Lost`]).
#[utoipa::path(get, path = "/api/log/follow",
    responses((status = 200, body = String, content_type = "text/event-stream"),
        (status = "default", body = Problem)))]
async fn follow(
    State(handle): State<ControlHandle>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let lines = handle.0.tail.follow()?;
    let events = stream::unfold(lines, |mut lines| async move {
        let event = match lines.recv().await {
            Ok(Line::Row(row)) => Event::default().event("row").data(row),
            Ok(Line::Change(entry)) => Event::default().event("change").data(entry),
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

/// This document.
#[utoipa::path(get, path = "/api/openapi.json",
    responses((status = 200, body = Object), (status = "default", body = Problem)))]
async fn document() -> Response {
    match openapi().to_json() {
        Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        Err(error) => Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            error.to_string(),
            "this is a defect of spoor; please report it",
        )
        .into_response(),
    }
}

/// The response for unknown paths.
pub(super) async fn nothing() -> Problem {
    let advice = "GET /api/openapi.json lists all paths";
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
