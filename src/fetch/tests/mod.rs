//! Fetching from real sockets on loopback: the servers are written byte by byte, so that they can
//! misbehave like real ones. A panic in a server fails its test.

mod bodies;
mod booked;
mod failures;
mod proxies;
mod routing;
mod term_client;
mod tls;
mod versions;

use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::settings::{ConnectTo, TextValue};

use super::*;

/// A server that takes one connection after the other.
struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    heads: Arc<Mutex<Vec<String>>>,
    panicked: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

/// Notes a panic when it unwinds through a server.
struct Sentinel(Arc<AtomicBool>);

impl Drop for Sentinel {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::SeqCst);
        }
    }
}

impl Server {
    /// Hands every connection to `handle` as it is accepted.
    async fn raw<F, H>(handle: F) -> Self
    where
        F: Fn(TcpStream) -> H + Send + 'static,
        H: Future<Output = ()> + Send,
    {
        Self::raw_at(loopback().await, handle)
    }

    fn raw_at<F, H>(listener: TcpListener, handle: F) -> Self
    where
        F: Fn(TcpStream) -> H + Send + 'static,
        H: Future<Output = ()> + Send,
    {
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let panicked = Arc::new(AtomicBool::new(false));
        let (counter, sentinel) = (connections.clone(), Sentinel(panicked.clone()));
        let task = tokio::spawn(async move {
            let _sentinel = sentinel;
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counter.fetch_add(1, Ordering::SeqCst);
                handle(stream).await;
            }
        });
        Self {
            address,
            connections,
            heads: Arc::default(),
            panicked,
            task,
        }
    }

    /// Reads each request's head before handing the connection on.
    async fn http<F, H>(handle: F) -> Self
    where
        F: Fn(TcpStream, String) -> H + Send + Sync + 'static,
        H: Future<Output = ()> + Send,
    {
        Self::http_at(loopback().await, handle)
    }

    fn http_at<F, H>(listener: TcpListener, handle: F) -> Self
    where
        F: Fn(TcpStream, String) -> H + Send + Sync + 'static,
        H: Future<Output = ()> + Send,
    {
        let heads = Arc::new(Mutex::new(Vec::new()));
        let kept = heads.clone();
        let handle = Arc::new(handle);
        let mut server = Self::raw_at(listener, move |mut stream| {
            let (kept, handle) = (kept.clone(), handle.clone());
            async move {
                let Some(head) = read_head(&mut stream).await else {
                    return;
                };
                kept.lock().unwrap().push(head.clone());
                handle(stream, head).await;
            }
        });
        server.heads = heads;
        server
    }

    /// Answers every request with the same bytes, then closes.
    async fn answering(response: impl Into<Vec<u8>>) -> Self {
        let response = Arc::new(response.into());
        Self::http(move |mut stream, _| {
            let response = response.clone();
            async move {
                send(&mut stream, &response).await;
            }
        })
        .await
    }

    fn url(&self, path: &str) -> PageUrl {
        PageUrl::parse(&format!("http://{}{path}", self.address)).unwrap()
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
        if !std::thread::panicking() {
            assert!(
                !self.panicked.load(Ordering::SeqCst),
                "the server panicked; its message stands above"
            );
        }
    }
}

async fn loopback() -> TcpListener {
    TcpListener::bind(("127.0.0.1", 0)).await.unwrap()
}

/// The head of a request, `None` if the client left.
async fn read_head(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    Some(String::from_utf8(head).unwrap())
}

/// Sends, and ignores a client that stopped listening.
async fn send(stream: &mut TcpStream, bytes: &[u8]) -> bool {
    stream.write_all(bytes).await.is_ok() && stream.flush().await.is_ok()
}

/// Waits until the client closes the connection.
async fn until_closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    // Closed or reset: either way it is over.
    stream.read_to_end(&mut rest).await.unwrap_or_default();
}

/// A response with these header lines (each ending in CRLF) and a
/// `Content-Length` that is right.
fn response(headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\n{headers}Content-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

thread_local! {
    /// Whether the fetchers of this thread send only during a term.
    static GATED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

fn lab_options() -> Options {
    let term = GATED.get().then(term_client::running);
    Options {
        term,
        contact: "https://example.org/bot".into(),
        allow_private: true,
        ..Options::default()
    }
}

fn lab() -> Fetcher {
    Fetcher::new(lab_options()).unwrap()
}

fn lab_with(change: impl FnOnce(&mut Options)) -> Fetcher {
    let mut options = lab_options();
    change(&mut options);
    Fetcher::new(options).unwrap()
}

/// A rule in the notation of a configuration file.
#[track_caller]
fn rule(text: &str) -> ConnectTo {
    ConnectTo::from_text(text).unwrap()
}

/// The rule that sends `from`, a host and a port, to a server.
#[track_caller]
fn to(server: &Server, from: &str) -> ConnectTo {
    rule(&format!("{from}:{}", server.address))
}

/// The body of an answer that must be one.
#[track_caller]
fn body(answer: Result<Answer, FetchError>) -> Fetched {
    match answer {
        Ok(Answer::Body { fetched, .. }) => fetched,
        other => panic!("{other:?}"),
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The lines of a request's head with the header's name, values only.
fn header<'a>(head: &'a str, name: &str) -> Vec<&'a str> {
    head.lines()
        .filter_map(|line| line.split_once(": "))
        .filter(|(n, _)| n.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
        .collect()
}
