//! The page over HTTP, for this machine only. A separate thread updates the index, and each
//! request is handled off the async threads.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path as UrlPath, State as Shared};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use quick_cache::sync::Cache;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use url::form_urlencoded;

use super::asked::AskedPage;
use super::page::{self, IndexStatus, ShownHit};
use super::update::Indexer;
use super::{Home, Search, capture};
use crate::address::PageUrl;
use crate::archive::http::Response as Stored;
use crate::fs::beneath::{self, JobPath};
use crate::local::access::{Access, without_token};
use crate::local::guard::{self, PageGuard};
use crate::local::server;
use crate::outputs::picture::thumbnail;
use crate::tool_error::{ToolError, ToolFault};
use crate::web::{extract, inert};
use spoor_values::page::Fetched;

/// The interval of searches for new documents.
const EVERY: Duration = Duration::from_secs(2);

/// The longest side of an image, in pixels.
const SIDE: u32 = 480;

/// The most cached images.
const READY: usize = 256;

/// The number of images beside a hit, and on the page of a document.
const BESIDE: usize = 3;
const ALL: usize = 24;

/// No part of the page is a script, and nothing is loaded from elsewhere.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; \
     form-action 'self'; frame-ancestors 'none'";

/// A stored page may show only its own content: it has no origin, runs no scripts, sends no
/// forms and loads nothing. Everything else that could open a connection was removed from it,
/// see [`inert`].
const SANDBOX: &str = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
     font-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

struct SearchServer {
    home: Home,
    search: Search,
    /// The error of indexing.
    problem: Mutex<Option<String>>,
    pictures: Cache<String, Bytes>,
    working: Semaphore,
}

/// Serves the page on `listener` until `shutdown` resolves. With an indexer, new documents
/// are indexed meanwhile.
///
/// # Errors
///
/// [`ToolError`] if the index cannot be opened; the system's error of the listener.
pub async fn serve(
    home: Home,
    indexer: Option<Indexer>,
    access: Access,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> Result<(), ToolError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let server = Arc::new(SearchServer {
        search: Search::open(&home)?,
        home,
        problem: Mutex::new(None),
        pictures: Cache::new(READY),
        working: Semaphore::new(cores),
    });
    let following = indexer.map(|indexer| Following::begin(indexer, Arc::clone(&server)));
    let app = Router::new()
        .route("/", get(results))
        .route("/document/{key}", get(document))
        .route("/capture/{key}", get(stored))
        .route("/image", get(image))
        .route("/search.css", get(style))
        .route("/icon.svg", get(icon))
        .route("/favicon.ico", get(icon))
        .with_state(server);
    let guard = PageGuard {
        access,
        remote: false,
        told: refusal,
    };
    let app = guard::guarded(app, guard);
    server::serve_until(listener, app, shutdown).await;
    if let Some(following) = following {
        tokio::task::spawn_blocking(|| following.end()).await.ok();
    }
    Ok(())
}

/// The thread that indexes new documents.
struct Following {
    stop: Arc<(AtomicBool, Mutex<()>, Condvar)>,
    thread: std::thread::JoinHandle<()>,
}

impl Following {
    fn begin(mut indexer: Indexer, server: Arc<SearchServer>) -> Self {
        let stop = Arc::new((AtomicBool::new(false), Mutex::new(()), Condvar::new()));
        let stops = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (stop, lock, wake) = &*stops;
            while !stop.load(Ordering::Relaxed) {
                let problem = indexer.run(stop).err().map(|error| error.to_string());
                if let Some(problem) = &problem {
                    tracing::warn!("indexing failed: {problem}");
                }
                *server
                    .problem
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner) = problem;
                let waiting = lock.lock().unwrap_or_else(PoisonError::into_inner);
                if !stop.load(Ordering::Relaxed) {
                    drop(wake.wait_timeout(waiting, EVERY));
                }
            }
            if let Err(error) = indexer.close() {
                tracing::warn!("{error}");
            }
        });
        Self { stop, thread }
    }

    fn end(self) {
        let (stop, lock, wake) = &*self.stop;
        {
            let _waiting = lock.lock().unwrap_or_else(PoisonError::into_inner);
            stop.store(true, Ordering::Relaxed);
        }
        wake.notify_all();
        // The panic was printed when it happened.
        self.thread.join().ok();
    }
}

impl SearchServer {
    fn standing(&self) -> IndexStatus {
        let path: PathBuf = std::path::absolute(self.home.folder()).unwrap_or_default();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        IndexStatus {
            name: name.into_owned(),
            documents: self.search.documents().unwrap_or(0),
            behind: self.search.behind().unwrap_or(0),
            problem: self
                .problem
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
        }
    }

    fn results(&self, asked: &AskedPage) -> Response {
        let found = self
            .search
            .reload()
            .and_then(|()| self.search.find(&asked.request()));
        let standing = self.standing();
        match found {
            Ok(mut found) => {
                let hits: Vec<ShownHit> = std::mem::take(&mut found.hits)
                    .into_iter()
                    .map(|hit| ShownHit {
                        // If the images cannot be read, the words are still shown.
                        pictures: self
                            .search
                            .pictures(&hit.about.url, BESIDE)
                            .unwrap_or_default(),
                        hit,
                    })
                    .collect();
                let page = page::results(asked, Ok((&found, &hits)), &standing);
                shown(StatusCode::OK, page)
            }
            Err(error) => {
                let status = match error.fault() {
                    ToolFault::Usage => StatusCode::BAD_REQUEST,
                    _ => StatusCode::INTERNAL_SERVER_ERROR,
                };
                let page = page::results(asked, Err(&error.to_string()), &standing);
                shown(status, page)
            }
        }
    }

    fn document(&self, key: &str) -> Result<Response, ToolError> {
        self.search.reload()?;
        let Some((key, mut whole)) = self.whole(key)? else {
            return Ok(gone());
        };
        whole.about.capture = self.search.capture(key, &whole.about)?;
        let pictures = self.search.pictures(&whole.about.url, ALL)?;
        let has_capture = whole.about.capture.is_some();
        let page = page::document(key, &whole, &pictures, has_capture, &self.standing());
        Ok(shown(StatusCode::OK, page))
    }

    fn whole(&self, key: &str) -> Result<Option<(u64, super::find::Whole)>, ToolError> {
        let Ok(key) = u64::from_str_radix(key, 16) else {
            return Ok(None);
        };
        Ok(self.search.document(key)?.map(|whole| (key, whole)))
    }

    fn stored(&self, key: &str) -> Result<Response, ToolError> {
        let Some((key, whole)) = self.whole(key)? else {
            return Ok(gone());
        };
        let Some(stored) = self.search.capture(key, &whole.about)? else {
            return Ok(refusal(StatusCode::NOT_FOUND, "No archive has this page."));
        };
        let read = capture::read(&self.home, &stored).map_err(|error| error.to_string());
        let url = PageUrl::from_stored(&whole.about.url).map_err(|error| error.to_string());
        Ok(match url.and_then(|url| Ok((url, read?))) {
            Ok((url, response)) => as_stored(&url, response),
            Err(why) => refusal(StatusCode::NOT_FOUND, &why),
        })
    }

    fn image(&self, query: &str) -> Option<Bytes> {
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        let (_, file) = pairs.find(|(name, _)| name == "file")?;
        let file = JobPath::parse(&file).ok()?;
        if !file.as_str().starts_with("images/") {
            return None;
        }
        if let Some(known) = self.pictures.get(file.as_str()) {
            return Some(known);
        }
        let bytes = beneath::read(self.home.folder(), &file).ok()?;
        let bytes = Bytes::from(thumbnail(&bytes, SIDE)?);
        self.pictures
            .insert(file.as_str().to_owned(), bytes.clone());
        Some(bytes)
    }
}

async fn results(Shared(server): Shared<Arc<SearchServer>>, uri: Uri) -> Response {
    let query = uri.query().unwrap_or_default();
    // Someone who already has the cookie may open the link again.
    if let Some(address) = without_token(query) {
        return (StatusCode::SEE_OTHER, [(header::LOCATION, address)]).into_response();
    }
    let asked = AskedPage::of(query);
    work(server, move |server| Ok(server.results(&asked))).await
}

async fn document(
    Shared(server): Shared<Arc<SearchServer>>,
    UrlPath(key): UrlPath<String>,
) -> Response {
    work(server, move |server| server.document(&key)).await
}

async fn stored(
    Shared(server): Shared<Arc<SearchServer>>,
    UrlPath(key): UrlPath<String>,
) -> Response {
    work(server, move |server| server.stored(&key)).await
}

async fn image(Shared(server): Shared<Arc<SearchServer>>, uri: Uri) -> Response {
    work(server, move |server| {
        let image = server.image(uri.query().unwrap_or_default());
        Ok(match image {
            Some(bytes) => {
                let headers = [
                    (header::CONTENT_TYPE, "image/jpeg"),
                    (header::CACHE_CONTROL, "private, max-age=3600"),
                ];
                (headers, bytes).into_response()
            }
            None => refusal(StatusCode::NOT_FOUND, "There is no such image."),
        })
    })
    .await
}

/// Runs work off the async threads.
async fn work(
    server: Arc<SearchServer>,
    work: impl FnOnce(&SearchServer) -> Result<Response, ToolError> + Send + 'static,
) -> Response {
    let working = Arc::clone(&server);
    // It is never closed.
    let permit = working.working.acquire().await;
    let done = tokio::task::spawn_blocking(move || work(&server)).await;
    drop(permit);
    match done {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => {
            tracing::error!("{error}");
            refusal(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string())
        }
        Err(error) => refusal(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// A stored page in its sandbox. Only pages and text are shown.
fn as_stored(url: &PageUrl, response: Stored) -> Response {
    let media = response.all("content-type").into_iter().next();
    let media = extract::media_type(&media.unwrap_or_default());
    let charset = response.charset().filter(|charset| {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_:.".contains(&b);
        charset.len() <= 40 && charset.bytes().all(is_plain)
    });
    let of = |media: &str| match &charset {
        Some(charset) => format!("{media}; charset={charset}"),
        None => media.to_owned(),
    };
    let fetched = Fetched {
        content_type: Some(of(&media)),
        ..response.into_fetched()
    };
    let options = extract::Options {
        max_text_bytes: capture::MAX_BODY,
        ..extract::Options::default()
    };
    let (kind, body) = match extract::markup(url, &fetched, &options) {
        Some(markup) => (
            "text/html; charset=utf-8".to_owned(),
            Bytes::from(inert::page(&markup)),
        ),
        None if media.is_empty() || media.starts_with("text/") => (of("text/plain"), fetched.body),
        None => {
            return refusal(
                StatusCode::NOT_FOUND,
                "The stored response is not a page of text.",
            );
        }
    };
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, SANDBOX.to_owned()),
    ];
    (headers, body).into_response()
}

async fn style() -> Response {
    let kind = "text/css; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], include_str!("search.css")).into_response()
}

async fn icon() -> Response {
    let kind = "image/svg+xml";
    ([(header::CONTENT_TYPE, kind)], include_str!("icon.svg")).into_response()
}

fn shown(status: StatusCode, page: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ];
    (status, headers, page).into_response()
}

fn refusal(status: StatusCode, text: &str) -> Response {
    shown(status, page::notice("spoor search", text))
}

fn gone() -> Response {
    refusal(
        StatusCode::NOT_FOUND,
        "This document is not in the index any more; search again.",
    )
}
