//! The lab over HTTP: one listener for all hosts, distinguished by `Host` header.
//!
//! Responses are correct; only a [`Behaviour`] that a test requests delays, refuses or
//! cuts them. Blocking work (reading a folder, drawing) runs off the async threads,
//! drawing on at most one thread per core at a time.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Request as HttpRequest, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use axum::serve::{IncomingStream, Listener};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;

use super::picture::{self, TestPicture};
use super::tree::{Lab, LabResponse};

/// A request as the lab saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// When its head had arrived, before any latency.
    pub at: Instant,
    /// From then until the response was ready, including latency.
    pub elapsed: Duration,
    /// The host, lower case, without port; empty if none was given.
    pub host: String,
    /// Path and query as in the request line.
    pub path: String,
    /// The method, as `GET`.
    pub method: String,
    /// The `User-Agent` header, empty if there is none.
    pub agent: String,
    /// Status of the response, `None` if the connection was dropped instead.
    pub status: Option<u16>,
}

/// Called for every request, in the order of responses.
pub type Observer = Arc<dyn Fn(Request) + Send + Sync>;

/// A fault that a test can request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Responds with this status instead of the page.
    Status {
        /// The status, 100 to 999.
        code: u16,
        /// The `Retry-After` header, as seconds or an HTTP date.
        retry_after: Option<String>,
    },
    /// Closes the connection without a response.
    Drop,
}

/// The behaviour of a part of a host: one row of a test's table of faults.
#[derive(Debug)]
pub struct Behaviour {
    host: String,
    under: String,
    latency: Duration,
    fault: Option<Fault>,
    left: AtomicU32,
}

impl Behaviour {
    /// Covers every request of `host` indefinitely, and changes nothing yet.
    pub fn of(host: &str) -> Self {
        Self {
            host: host.to_ascii_lowercase(),
            under: String::new(),
            latency: Duration::ZERO,
            fault: None,
            left: AtomicU32::new(u32::MAX),
        }
    }

    /// Covers only targets (path and query) that begin with `prefix`.
    pub fn under(mut self, prefix: &str) -> Self {
        self.under = prefix.to_owned();
        self
    }

    /// Waits this long before the response.
    pub fn latency(mut self, latency: Duration) -> Self {
        self.latency = latency;
        self
    }

    /// Responds with a fault.
    pub fn fault(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Covers only the first `n` requests that match.
    pub fn times(self, n: u32) -> Self {
        self.left.store(n, Ordering::Relaxed);
        self
    }

    /// Counts a use of the behaviour, if it matches and is not used up.
    fn takes(&self, host: &str, target: &str) -> bool {
        if self.host != host || !target.starts_with(&self.under) {
            return false;
        }
        let spend = |left| match left {
            0 => None,
            u32::MAX => Some(u32::MAX),
            n => Some(n - 1),
        };
        let spent = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend);
        spent.is_ok()
    }
}

/// Serves `lab` on `listener` until `shutdown` resolves; pending requests are finished
/// first.
///
/// # Errors
///
/// The system's error of the listener.
pub async fn serve(
    lab: Lab,
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let state = Arc::new(Shared {
        lab,
        drawing: Semaphore::new(cores),
    });
    let app = Router::new().fallback(handle).with_state(state);
    let service = app.into_make_service_with_connect_info::<Wire>();
    axum::serve(Door(listener), service)
        .with_graceful_shutdown(shutdown)
        .await
}

/// A lab that runs in the background. Dropping it stops it as well, without
/// waiting.
#[derive(Debug)]
pub struct Running {
    /// Where it listens.
    pub addr: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<io::Result<()>>,
}

impl Running {
    /// Stops listening and waits until the last response is sent.
    ///
    /// # Errors
    ///
    /// The error that ended the listener.
    pub async fn stop(self) -> io::Result<()> {
        drop(self.stop);
        self.task.await.map_err(io::Error::other)?
    }
}

/// Serves `lab` in the background on `addr`; port 0 takes a free one.
///
/// # Errors
/// If it cannot listen on `addr`.
pub async fn spawn(lab: Lab, addr: SocketAddr) -> io::Result<Running> {
    let listener = TcpListener::bind(addr).await?;
    let addr = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(serve(lab, listener, async move {
        // The error means that the sender was dropped, which stops it.
        stopped.await.unwrap_or(());
    }));
    Ok(Running { addr, stop, task })
}

struct Shared {
    lab: Lab,
    drawing: Semaphore,
}

async fn handle(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(wire): ConnectInfo<Wire>,
    request: HttpRequest,
) -> Response {
    let at = Instant::now();
    let host = host_of(&request);
    let target = request
        .uri()
        .path_and_query()
        .map_or("/", |target| target.as_str())
        .to_owned();
    let mut response = respond(&shared, &host, &target, request.method()).await;
    if shared.lab.compresses && accepts_gzip(&request) {
        response = match response {
            Some(response) => Some(compressed(response).await),
            None => None,
        };
    }
    if let Some(observer) = &shared.lab.observer {
        let agent = request.headers().get(header::USER_AGENT);
        observer(Request {
            at,
            elapsed: at.elapsed(),
            host,
            path: target,
            method: request.method().to_string(),
            agent: agent
                .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
                .unwrap_or_default(),
            status: response.as_ref().map(|r| r.status().as_u16()),
        });
    }
    response.unwrap_or_else(|| {
        wire.cut.store(true, Ordering::Release);
        Response::new(Body::empty())
    })
}

/// The response, or `None` if the connection is to be dropped.
async fn respond(
    shared: &Arc<Shared>,
    host: &str,
    target: &str,
    method: &Method,
) -> Option<Response> {
    let rules = &shared.lab.behaviours;
    if let Some(rule) = rules.iter().find(|rule| rule.takes(host, target)) {
        if !rule.latency.is_zero() {
            tokio::time::sleep(rule.latency).await;
        }
        match &rule.fault {
            Some(Fault::Drop) => return None,
            Some(Fault::Status { code, retry_after }) => {
                let code = StatusCode::from_u16(*code).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
                let mut response = note(code);
                if let Some(value) = retry_after
                    && let Ok(value) = HeaderValue::from_str(value)
                {
                    response.headers_mut().insert(header::RETRY_AFTER, value);
                }
                return Some(response);
            }
            None => {}
        }
    }
    if !matches!(*method, Method::GET | Method::HEAD) {
        let mut response = note(StatusCode::METHOD_NOT_ALLOWED);
        let allow = HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(header::ALLOW, allow);
        return Some(response);
    }
    let lab = &shared.lab;
    let answer = match lab.table(host, target) {
        Some(answer) => Ok(answer),
        None if lab.reads_disk() => {
            let (shared, host, target) = (shared.clone(), host.to_owned(), target.to_owned());
            blocking(move || shared.lab.file(&host, &target)).await
        }
        None => lab.file(host, target),
    };
    Some(response_of(shared, host, target, answer).await)
}

/// The response for the content that was found.
async fn response_of(
    shared: &Shared,
    host: &str,
    target: &str,
    answer: io::Result<LabResponse>,
) -> Response {
    match answer {
        Ok(LabResponse::File {
            content_type,
            bytes,
        }) => content(&content_type, bytes),
        Ok(LabResponse::Moved { location }) => {
            let mut response = note(StatusCode::MOVED_PERMANENTLY);
            match HeaderValue::from_str(&location) {
                Ok(value) => {
                    response.headers_mut().insert(header::LOCATION, value);
                    response
                }
                Err(error) => failed(host, target, &error),
            }
        }
        Ok(LabResponse::Picture { url, size }) => {
            let permit = shared.drawing.acquire().await;
            let drawn = blocking(move || {
                picture::draw(&url, size.width, size.height).map_err(io::Error::other)
            })
            .await;
            drop(permit);
            match drawn {
                Ok(TestPicture {
                    content_type,
                    bytes,
                }) => content(content_type, bytes.into()),
                Err(error) => failed(host, target, &error),
            }
        }
        Ok(LabResponse::Busy { seconds }) => {
            let mut response = note(StatusCode::SERVICE_UNAVAILABLE);
            let headers = response.headers_mut();
            headers.insert(header::RETRY_AFTER, seconds.into());
            response
        }
        Ok(LabResponse::Missing) => note(StatusCode::NOT_FOUND),
        Err(error) => failed(host, target, &error),
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)?
}

/// The requested host: that of an absolute request target, which takes precedence (RFC
/// 9112 section 3.2.2), or that of the header.
fn host_of(request: &HttpRequest) -> String {
    let header = || {
        let value = request.headers().get(header::HOST)?;
        value.to_str().ok()
    };
    let named = request.uri().authority().map(|a| a.as_str());
    let named = named.or_else(header).unwrap_or_default();
    let named = named.rsplit_once('@').map_or(named, |(_, host)| host);
    let host = match named.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => named,
    };
    host.trim_end_matches('.').to_ascii_lowercase()
}

fn content(content_type: &str, bytes: Bytes) -> Response {
    let mut response = Response::new(Body::from(bytes));
    if let Ok(value) = HeaderValue::from_str(content_type) {
        response.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    response
}

/// Whether a header of the request names gzip.
fn accepts_gzip(request: &HttpRequest) -> bool {
    let accepted = request.headers().get_all(header::ACCEPT_ENCODING);
    accepted.iter().any(|value| {
        let codings = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
        codings.split(',').any(|coding| coding.trim() == "gzip")
    })
}

/// The response with its body compressed, if it is text.
async fn compressed(response: Response) -> Response {
    let is_text = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|value| value.as_bytes().starts_with(b"text/"));
    if !is_text {
        return response;
    }
    let (mut head, body) = response.into_parts();
    let packed = match axum::body::to_bytes(body, usize::MAX).await {
        Ok(body) => blocking(move || gzip(&body)).await,
        Err(error) => Err(io::Error::other(error)),
    };
    match packed {
        Ok(packed) => {
            let gzip = HeaderValue::from_static("gzip");
            head.headers.insert(header::CONTENT_ENCODING, gzip);
            head.headers.remove(header::CONTENT_LENGTH);
            Response::from_parts(head, Body::from(packed))
        }
        Err(_) => note(StatusCode::INTERNAL_SERVER_ERROR),
    }
}

fn gzip(body: &[u8]) -> io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(body)?;
    packed.finish()
}

/// A small page with the status.
fn note(status: StatusCode) -> Response {
    let reason = status.canonical_reason().unwrap_or("no reason known");
    let page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <title>{status}</title></head><body><h1>{reason}</h1></body></html>\n",
        status = status.as_u16()
    );
    let mut response = content("text/html; charset=utf-8", page.into());
    *response.status_mut() = status;
    response
}

fn failed(host: &str, target: &str, error: &dyn std::fmt::Display) -> Response {
    tracing::warn!("the lab cannot answer http://{host}{target}: {error}");
    note(StatusCode::INTERNAL_SERVER_ERROR)
}

/// A listener whose connections can be cut from within a request: HTTP servers cannot send
/// "no response", so the cut is made below them.
struct Door(TcpListener);

impl Listener for Door {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        let (stream, addr) = Listener::accept(&mut self.0).await;
        // Responses are sent in one piece; waiting for more only costs time.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!("TCP_NODELAY for {addr}: {error}");
        }
        let wire = Wire {
            cut: Arc::new(AtomicBool::new(false)),
        };
        (Connection { stream, wire }, addr)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

/// The switch of one connection.
#[derive(Clone)]
struct Wire {
    cut: Arc<AtomicBool>,
}

impl Connected<IncomingStream<'_, Door>> for Wire {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        stream.io().wire.clone()
    }
}

struct Connection {
    stream: TcpStream,
    wire: Wire,
}

impl Connection {
    fn check(&self) -> io::Result<()> {
        if self.wire.cut.load(Ordering::Acquire) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(())
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
