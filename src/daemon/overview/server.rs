//! The page and its interface over HTTP.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use axum::extract::{DefaultBodyLimit, Path as UrlPath, State};
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::json;
use tokio::sync::Mutex;

use super::shelf::{Shelf, ShelfReader};
use crate::config::Config;
use crate::control::{Auth, Entrance, Problem, accept, authorize, login, part, thumbnail_of};
use crate::fs::beneath;
use crate::sanitize;
use crate::web::inert;

/// The largest body of a request, in bytes: enough for a login.
const MAX_BODY: usize = 8192;

/// Longest side of an image, in pixels.
const SIDE: u32 = 200;

/// The largest report or job file that is served, in bytes.
const MAX_FILE: u64 = 64 << 20;

/// The paths served without the token: the page that asks for it, and nothing more.
const PARTS: [&str; 4] = ["/", "/ui.css", "/ui.js", "/ui.svg"];

/// What a browser may do with a report: nothing but show it.
const REPORT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox";

/// Writes the report of a job into a folder; an error describes the problem.
pub type MakeReport = fn(Config, &Path) -> Result<(), String>;

struct Ui {
    report: MakeReport,
    reader: Arc<ShelfReader>,
    /// Held while a report is made or an image decoded: one at a time, because a crawl may
    /// need the cores.
    working: Mutex<()>,
}

/// Serves the jobs of `folder` until `stop` resolves. Must be called inside a runtime.
///
/// # Errors
///
/// The system's error of the listener.
pub async fn serve(
    folder: PathBuf,
    entrance: Entrance,
    report: MakeReport,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::io::Result<()> {
    let ui = Arc::new(Ui {
        reader: Arc::new(ShelfReader::new(folder)),
        working: Mutex::new(()),
        report,
    });
    let router = Router::new()
        .route("/", get(|| part("text/html", include_str!("page.html"))))
        .route(
            "/ui.css",
            get(|| part("text/css", include_str!("page.css"))),
        )
        .route(
            "/ui.js",
            get(|| part("text/javascript", include_str!("page.js"))),
        )
        .route(
            "/ui.svg",
            get(|| {
                part(
                    "image/svg+xml",
                    include_str!("../control/dashboard/icon.svg"),
                )
            }),
        )
        .route("/login", post(login))
        .route("/api/jobs", get(jobs))
        .route("/job/{name}/file", get(file))
        .route("/job/{name}/image/{id}", get(image))
        .route("/job/{name}/report", get(shown).post(made))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .with_state(ui);
    accept(entrance, stop, |address, token| {
        let auth = Arc::new(Auth::new(address, token).open_for(&PARTS));
        router.layer(middleware::from_fn_with_state(auth, authorize))
    })
    .await
}

async fn jobs(State(ui): State<Arc<Ui>>) -> Json<Shelf> {
    Json(Arc::clone(&ui.reader).shelf().await)
}

async fn file(State(ui): State<Arc<Ui>>, UrlPath(name): UrlPath<String>) -> Response {
    let Some(folder) = ui.reader.job(&name) else {
        return no_job();
    };
    match read(folder, "job.toml").await {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let text = sanitize::shown(&text).into_owned();
            let media = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
            (media, text).into_response()
        }
        Err(why) => missing(&why),
    }
}

async fn image(
    State(ui): State<Arc<Ui>>,
    UrlPath((name, id)): UrlPath<(String, String)>,
) -> Response {
    let Some(folder) = ui.reader.job(&name) else {
        return no_job();
    };
    let _working = ui.working.lock().await;
    let log = ui.reader.log(&name);
    let place = move || {
        let log = log.lock().unwrap_or_else(PoisonError::into_inner);
        Some((folder, log.figures.latest.file(&id)?.to_owned()))
    };
    thumbnail_of(place, SIDE).await
}

async fn shown(State(ui): State<Arc<Ui>>, UrlPath(name): UrlPath<String>) -> Response {
    let Some(folder) = ui.reader.job(&name) else {
        return no_job();
    };
    match read(folder, "report/report.html").await {
        Ok(bytes) => {
            let headers = [
                (header::CONTENT_TYPE, "text/html; charset=utf-8"),
                (header::CONTENT_SECURITY_POLICY, REPORT_POLICY),
            ];
            // The job may come from a stranger.
            let report = inert::page(&String::from_utf8_lossy(&bytes));
            (headers, report).into_response()
        }
        Err(why) => missing(&why),
    }
}

async fn made(State(ui): State<Arc<Ui>>, UrlPath(name): UrlPath<String>) -> Response {
    let Some(folder) = ui.reader.job(&name) else {
        return no_job();
    };
    let _working = ui.working.lock().await;
    let report = ui.report;
    let made = tokio::task::spawn_blocking(move || make(report, &folder, &name)).await;
    match made {
        Ok(Ok(())) => Json(json!({"made": true})).into_response(),
        Ok(Err(why)) => problem(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the report was not written",
            &why,
        ),
        Err(_) => problem(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the report was not written",
            "this is a defect of spoor; please report it",
        ),
    }
}

/// Writes the report of a job into its folder, even if the job was started elsewhere.
fn make(report: MakeReport, folder: &Path, name: &str) -> Result<(), String> {
    let mut config = Config::load(&folder.join("job.toml")).map_err(|e| e.to_string())?;
    if config.job.name.as_str() != name {
        return Err(format!(
            "its job.toml belongs to the job {}",
            config.job.name
        ));
    }
    config.job.folder = folder.parent().unwrap_or(Path::new("")).to_owned();
    report(config, &folder.join("report"))
}

/// A file that is not too large to be held in memory.
async fn read(folder: PathBuf, name: &'static str) -> Result<Vec<u8>, String> {
    let why = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => "there is none yet".to_owned(),
        _ => error.to_string(),
    };
    let read = move || {
        let file = beneath::open(&folder, name).map_err(why)?;
        if file.metadata().map_err(why)?.len() > MAX_FILE {
            return Err(format!(
                "it is larger than {MAX_FILE} bytes; open it in the job's folder"
            ));
        }
        let mut bytes = Vec::new();
        let whole = file.take(MAX_FILE).read_to_end(&mut bytes);
        whole.map(|_| bytes).map_err(why)
    };
    // The task only fails when the process ends.
    let read = tokio::task::spawn_blocking(read).await;
    read.unwrap_or_else(|_| Err("the server is closing".to_owned()))
}

fn no_job() -> Response {
    problem(
        StatusCode::NOT_FOUND,
        "there is no such job in this folder",
        "GET /api/jobs lists all jobs",
    )
}

fn missing(why: &str) -> Response {
    problem(StatusCode::NOT_FOUND, "there is nothing to show", why)
}

fn problem(status: StatusCode, error: &str, advice: &str) -> Response {
    Problem::new(status, error, advice).into_response()
}
