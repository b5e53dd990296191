//! Serves the API, on the socket and over TCP, with bounds on everything that a client
//! could take: connections, the time for a head, the time for an answer, bytes.

use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::entrance::Entrance;
use super::guard::{Guard, Token, guard};
use super::routes::{self, Problem};
use super::{Desk, Who};

/// Connections at the same time, of each listener; others wait to be accepted.
const CONNECTIONS: usize = 16;

/// The longest that the head of a request is waited for.
const HEAD: Duration = Duration::from_secs(20);

/// The longest that an answer may take to begin, the request's body included.
const ANSWER: Duration = Duration::from_secs(60);

/// The longest that open connections are waited for at the end.
const END: Duration = Duration::from_secs(2);

/// The pause after a connection could not be accepted, as where too many files are open.
const REFUSED: Duration = Duration::from_millis(200);

/// The largest body of a request, in bytes; that of a job file with many rules.
const MAX_BODY: usize = 16 << 20;

/// A control API that is open until this is closed or dropped.
pub struct Served {
    desk: Desk,
    closing: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
    /// Where it listens over TCP.
    pub address: Option<SocketAddr>,
    #[cfg(unix)]
    _socket: Option<super::socket::Socket>,
}

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Served on {:?}", self.address)
    }
}

/// Opens the control API over TCP, where there is an entrance. [`Served::open_socket`] opens it
/// for the owner of the job's folder.
pub fn serve(runtime: &Handle, desk: Desk, entrance: Option<Entrance>) -> Served {
    let _entered = runtime.enter();
    let mut served = Served {
        desk,
        closing: watch::Sender::new(false),
        tasks: Vec::new(),
        address: None,
        #[cfg(unix)]
        _socket: None,
    };
    if let Some(entrance) = entrance
        && let Err(error) = served.open_tcp(runtime, entrance)
    {
        tracing::warn!("no dashboard: {error}");
    }
    served
}

impl Served {
    fn open_tcp(&mut self, runtime: &Handle, entrance: Entrance) -> io::Result<()> {
        let Entrance {
            listener,
            token,
            address,
            link,
        } = entrance;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        self.address = Some(address);
        self.desk.0.link.set(link).ok();
        let guarded = Arc::new(Guard::new(address, token));
        let router =
            router(self.desk.clone()).layer(middleware::from_fn_with_state(guarded, guard));
        let accepting = accepting(listener, router, self.closing.subscribe());
        self.tasks.push(runtime.spawn(accepting));
        Ok(())
    }

    /// Opens the socket of the job in `folder`, whose lock this process must hold.
    ///
    /// # Errors
    /// What the system said; the crawl can do without.
    pub fn open_socket(&mut self, runtime: &Handle, folder: &Path) -> io::Result<()> {
        #[cfg(unix)]
        {
            let _entered = runtime.enter();
            let (socket, listener) = super::socket::open(folder)?;
            let router = router(self.desk.clone());
            let accepting = accepting(listener, router, self.closing.subscribe());
            self.tasks.push(runtime.spawn(accepting));
            self._socket = Some(socket);
        }
        #[cfg(not(unix))]
        let _ = (runtime, folder);
        Ok(())
    }

    /// Closes the API: accepts nothing more and lets the answers that are on their way arrive. Must be
    /// called on a thread that may block.
    pub fn close(mut self, runtime: &Handle) {
        self.desk.end_tails();
        self.closing.send_replace(true);
        let tasks = std::mem::take(&mut self.tasks);
        let all = async {
            for task in tasks {
                // A panic in it has been printed.
                task.await.ok();
            }
        };
        runtime.block_on(async { tokio::time::timeout(END, all).await.ok() });
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Where clients come in.
trait Door: Send + 'static {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The next one, and who it is.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, Who)>> + Send;
}

impl Door for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, Who)> {
        let (stream, peer) = TcpListener::accept(self).await?;
        stream.set_nodelay(true)?;
        Ok((stream, Who(peer.to_string())))
    }
}

#[cfg(unix)]
impl Door for tokio::net::UnixListener {
    type Stream = tokio::net::UnixStream;

    async fn accept(&self) -> io::Result<(Self::Stream, Who)> {
        let (stream, _) = tokio::net::UnixListener::accept(self).await?;
        let who = match stream.peer_cred() {
            Ok(peer) => format!("socket, user {}", peer.uid()),
            Err(_) => "socket".to_owned(),
        };
        Ok((stream, Who(who)))
    }
}

fn router(desk: Desk) -> Router {
    let (router, _) = routes::api().split_for_parts();
    router
        .merge(super::board::pages())
        .fallback(routes::nothing)
        .method_not_allowed_fallback(not_so)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn(in_time))
        .with_state(desk)
}

async fn not_so() -> Problem {
    let advice = "GET /api/openapi.json says which methods there are";
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "not with this method",
        advice,
    )
}

async fn in_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(ANSWER, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "it took too long",
            "the crawl may be flushing to a slow disk; try again",
        )
        .into_response(),
    }
}

/// Serves another page of this machine with the same bounds until `stop` resolves; the
/// router is made for the address and the token of the entrance.
///
/// # Errors
/// What the system said of the listener.
pub(crate) async fn accept(
    entrance: Entrance,
    stop: impl Future<Output = ()> + Send + 'static,
    router: impl FnOnce(SocketAddr, Option<Token>) -> Router,
) -> io::Result<()> {
    let Entrance {
        listener,
        token,
        address,
        ..
    } = entrance;
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let (closing, closes) = watch::channel(false);
    let accepting = tokio::spawn(accepting(listener, router(address, token), closes));
    stop.await;
    closing.send_replace(true);
    // What is still open then ends with the process.
    tokio::time::timeout(END, accepting).await.ok();
    Ok(())
}

/// Accepts until the API closes, then lets what is open finish.
async fn accepting(door: impl Door, router: Router, closing: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut open = JoinSet::new();
    let mut closes = closing.clone();
    loop {
        while open.try_join_next().is_some() {}
        let accepted = async {
            // It is never closed.
            let place = Arc::clone(&places).acquire_owned().await.ok();
            (door.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            () = closed(&mut closes) => break,
            accepted = accepted => accepted,
        };
        match accepted {
            Ok((stream, who)) => {
                let (router, closing) = (router.clone(), closing.clone());
                open.spawn(async move {
                    let _place = place;
                    connection(stream, who, router, closing).await;
                });
            }
            Err(error) => {
                tracing::debug!("a connection to the control API failed: {error}");
                tokio::time::sleep(REFUSED).await;
            }
        }
    }
    while open.join_next().await.is_some() {}
}

/// Answers one client until either side has enough.
async fn connection<S>(stream: S, who: Who, router: Router, mut closing: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let routes = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(who.clone());
        routes.call(request)
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut served = pin!(served);
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = closed(&mut closing) => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        // The client's matter: it went away, or spoke no HTTP.
        tracing::debug!("a connection to the control API ended: {error}");
    }
}

/// Returns when the API closes.
async fn closed(closing: &mut watch::Receiver<bool>) {
    // It closes too where the other end is gone.
    closing.wait_for(|closing| *closing).await.ok();
}
