//! Serves the API on the socket and over TCP. This module limits the time for a response and the
//! bytes of a request; `local::server` limits connections and everything else.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::ControlHandle;
use super::auth::{Auth, Token, authorize};
use super::entrance::Entrance;
use super::problem::Problem;
use super::routes;
use crate::local::server;

/// The time limit for the start of a response, including the request's body.
const ANSWER: Duration = Duration::from_secs(60);

/// How long open connections may take to finish when the server closes.
const END: Duration = Duration::from_secs(2);

/// The largest body of a request, in bytes: enough for many seeds.
const MAX_BODY: usize = 4 << 20;

/// An open control API; it closes when this is closed or dropped.
pub struct Served {
    handle: ControlHandle,
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

/// Opens the control API over TCP, if there is an entrance. [`Served::open_socket`] opens
/// it for the owner of the job's folder.
pub fn serve(runtime: &Handle, handle: ControlHandle, entrance: Option<Entrance>) -> Served {
    let _entered = runtime.enter();
    let mut served = Served {
        handle,
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
        self.handle.0.link.set(link).ok();
        let auth = Arc::new(Auth::new(address, token));
        let router =
            router(self.handle.clone()).layer(middleware::from_fn_with_state(auth, authorize));
        let serving = server::serve(listener, router, self.closing.subscribe());
        self.tasks.push(runtime.spawn(serving));
        Ok(())
    }

    /// Opens the socket of the job in `folder`, whose lock this process must hold.
    ///
    /// # Errors
    ///
    /// The system's error; the crawl can run without the socket.
    pub fn open_socket(&mut self, runtime: &Handle, folder: &Path) -> io::Result<()> {
        #[cfg(unix)]
        {
            let _entered = runtime.enter();
            let (socket, listener) = super::socket::open(folder)?;
            let router = router(self.handle.clone());
            let serving = server::serve(listener, router, self.closing.subscribe());
            self.tasks.push(runtime.spawn(serving));
            self._socket = Some(socket);
        }
        #[cfg(not(unix))]
        let _ = (runtime, folder);
        Ok(())
    }

    /// Closes the API: accepts no further connections and lets pending responses finish.
    /// Must be called on a thread that may block.
    pub fn close(mut self, runtime: &Handle) {
        self.handle.end_tails();
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

pub(super) fn router(handle: ControlHandle) -> Router {
    routes::api()
        .merge(super::dashboard::pages())
        .fallback(routes::nothing)
        .method_not_allowed_fallback(not_so)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn(in_time))
        .with_state(handle)
}

async fn not_so() -> Problem {
    let advice = "`spoor help api` lists the methods";
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "this method is not allowed",
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

/// Serves another local page with the same limits until `stop` resolves. `router` creates the
/// routes for the address and the token of the entrance.
///
/// # Errors
///
/// The system's error of the listener.
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
    server::serve_until(listener, router(address, token), stop).await;
    Ok(())
}
