//! The page and its interface over HTTP. The [`Session`] produces the responses; this
//! module checks access, and makes sure that no part of a response can run.

use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path as UrlPath, State as Shared};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use quick_cache::sync::Cache;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::session::{Refusal, Session, Turn};
use super::votes::{Question, TEXT_CLASSES};
use crate::local::access::{Access, without_token};
use crate::local::guard::{self, PageGuard};
use crate::local::server;

/// The largest body of a request, in bytes.
const MAX_BODY: usize = 4096;

/// The most cached pictures, each of some hundred kilobytes.
const READY: usize = 64;

struct AnnotateServer {
    session: Arc<Session>,
    pictures: Cache<String, Bytes>,
    /// Limits simultaneous decoding.
    decoding: Semaphore,
}

/// Serves a session on `listener` until `shutdown` resolves.
///
/// # Errors
///
/// The system's error of the listener.
pub async fn serve(
    session: Session,
    access: Access,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let server = Arc::new(AnnotateServer {
        session: Arc::new(session),
        pictures: Cache::new(READY),
        decoding: Semaphore::new(cores),
    });
    let app = Router::new()
        .route("/", get(page))
        .route(
            "/page.css",
            get(|| part("text/css", include_str!("page.css"))),
        )
        .route(
            "/page.js",
            get(|| part("text/javascript", include_str!("page.js"))),
        )
        .route("/favicon.ico", get(icon))
        .route("/icon.svg", get(icon))
        .route("/setup", get(setup))
        .route("/next", post(next))
        .route("/vote", post(vote))
        .route("/undo", post(undo))
        .route("/image/{sha256}", get(picture))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(server);
    let guard = PageGuard {
        access,
        remote: !listener.local_addr()?.ip().is_loopback(),
        told: |status, why| (status, why.to_owned()).into_response(),
    };
    let app = guard::guarded(app, guard);
    server::serve_until(listener, app, shutdown).await;
    Ok(())
}

async fn page(uri: Uri) -> Response {
    // Someone who already has the cookie may open the link again.
    match without_token(uri.query().unwrap_or_default()) {
        Some(address) => (StatusCode::SEE_OTHER, [(header::LOCATION, address)]).into_response(),
        None => part("text/html", include_str!("page.html")).await,
    }
}

async fn part(kind: &'static str, text: &'static str) -> Response {
    let kind = format!("{kind}; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

async fn icon() -> Response {
    let kind = "image/svg+xml";
    ([(header::CONTENT_TYPE, kind)], include_str!("icon.svg")).into_response()
}

/// Data that stay the same while the page is open.
#[derive(Serialize)]
struct Setup<'a> {
    job: &'a str,
    topic: &'a [String],
    classes: Vec<&'a str>,
    text_classes: [&'a str; 4],
    two_phase: bool,
}

async fn setup(Shared(server): Shared<Arc<AnnotateServer>>) -> Response {
    let section = server.session.section();
    json(&Setup {
        job: server.session.job(),
        topic: server.session.topic(),
        classes: section.classes.iter().map(|c| c.as_str()).collect(),
        text_classes: TEXT_CLASSES,
        two_phase: section.two_phase,
    })
}

#[derive(Deserialize)]
struct Who {
    annotator: String,
}

#[derive(Deserialize)]
struct Ballot {
    annotator: String,
    image: String,
    question: Question,
    answer: String,
}

async fn next(Shared(server): Shared<Arc<AnnotateServer>>, body: Bytes) -> Response {
    in_session(server, body, |session, Who { annotator }| {
        session.next(&annotator)
    })
    .await
}

async fn vote(Shared(server): Shared<Arc<AnnotateServer>>, body: Bytes) -> Response {
    in_session(server, body, |session, ballot: Ballot| {
        let Ballot {
            annotator,
            image,
            question,
            answer,
        } = ballot;
        session.vote(&annotator, &image, question, &answer)
    })
    .await
}

async fn undo(Shared(server): Shared<Arc<AnnotateServer>>, body: Bytes) -> Response {
    in_session(server, body, |session, Who { annotator }| {
        session.undo(&annotator)
    })
    .await
}

/// Reads a request, calls the session off the async threads, and writes the response.
async fn in_session<T: for<'de> Deserialize<'de> + Send + 'static>(
    server: Arc<AnnotateServer>,
    body: Bytes,
    ask: impl FnOnce(&Session, T) -> Result<Turn, Refusal> + Send + 'static,
) -> Response {
    let asked: T = match serde_json::from_slice(&body) {
        Ok(asked) => asked,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    let session = Arc::clone(&server.session);
    let answer = tokio::task::spawn_blocking(move || ask(&session, asked)).await;
    let refusal = match answer {
        Ok(Ok(turn)) => return json(&turn),
        Ok(Err(refusal)) => refusal,
        Err(error) => {
            return (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response();
        }
    };
    let status = match refusal {
        Refusal::Wrong(_) => StatusCode::BAD_REQUEST,
        Refusal::Late => StatusCode::CONFLICT,
        Refusal::Votes(_) => {
            tracing::error!("{refusal}");
            StatusCode::INTERNAL_SERVER_ERROR
        }
    };
    (status, refusal.to_string()).into_response()
}

async fn picture(
    Shared(server): Shared<Arc<AnnotateServer>>,
    UrlPath(sha256): UrlPath<String>,
) -> Response {
    let bytes = match server.pictures.get(&sha256) {
        Some(bytes) => Some(bytes),
        None => decode(&server, sha256).await,
    };
    match bytes {
        Some(bytes) => {
            let headers = [
                (header::CONTENT_TYPE, "image/jpeg"),
                (header::CACHE_CONTROL, "private, max-age=3600, immutable"),
            ];
            (headers, bytes).into_response()
        }
        None => (StatusCode::NOT_FOUND, "no picture").into_response(),
    }
}

async fn decode(server: &AnnotateServer, sha256: String) -> Option<Bytes> {
    // It is never closed.
    let permit = server.decoding.acquire().await.ok()?;
    let session = Arc::clone(&server.session);
    let name = sha256.clone();
    let decoded = tokio::task::spawn_blocking(move || session.picture(&name)).await;
    drop(permit);
    let bytes = Bytes::from(decoded.ok().flatten()?);
    server.pictures.insert(sha256, bytes.clone());
    Some(bytes)
}

fn json(value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
