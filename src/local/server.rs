//! HTTP connections of a local server, with limits on their number, on the time for a
//! request head, and on the time that a client may leave its response unread.
//!
//! If all places are taken, the next client does not wait for one to become free. A
//! connection that has had no admitted request, or has not moved a byte for a while, loses
//! its place. So clients without access cannot keep out those with access.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, Sleep};

/// The most simultaneous connections per listener.
pub const CONNECTIONS: usize = 64;

/// The time limit for a request head.
const HEAD: Duration = Duration::from_secs(20);

/// The longest that a client may leave its response unread.
const UNREAD: Duration = Duration::from_secs(30);

/// How long an admitted connection may be idle if others want its place.
const STILL: Duration = Duration::from_secs(2);

/// How long a new connection has to send an admitted request if others want its place.
const YOUNG: Duration = Duration::from_secs(1);

/// Size of a connection's read and write buffers, in bytes.
const BUFFER: usize = 64 << 10;

/// How long open connections may take to finish when the server closes.
const END: Duration = Duration::from_secs(2);

/// The pause after `accept` fails, for example because too many files are open.
const REFUSED: Duration = Duration::from_millis(200);

/// The client behind a request: `socket, user 1000`, `127.0.0.1:40112` or, without a
/// connection, `SIGHUP`. Every request carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Who(pub String);

/// A source of connections.
pub trait Door: Send + Sync + 'static {
    /// The type of a connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Whether every client that can connect is admitted.
    const ADMITS: bool;

    /// Waits for the next connection; returns it with its client.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, Who)>> + Send;
}

impl Door for TcpListener {
    type Stream = TcpStream;

    const ADMITS: bool = false;

    async fn accept(&self) -> io::Result<(TcpStream, Who)> {
        let (stream, peer): (TcpStream, SocketAddr) = TcpListener::accept(self).await?;
        stream.set_nodelay(true)?;
        Ok((stream, Who(peer.to_string())))
    }
}

#[cfg(unix)]
impl Door for tokio::net::UnixListener {
    type Stream = tokio::net::UnixStream;

    const ADMITS: bool = true;

    async fn accept(&self) -> io::Result<(Self::Stream, Who)> {
        let (stream, _) = tokio::net::UnixListener::accept(self).await?;
        let who = match stream.peer_cred() {
            Ok(peer) => format!("socket, user {}", peer.uid()),
            Err(_) => "socket".to_owned(),
        };
        Ok((stream, Who(who)))
    }
}

/// The place of a connection. Every request carries it, so that the code that admits
/// requests can record it.
#[derive(Debug)]
pub struct Seat {
    taken: Instant,
    /// When a byte last moved, in milliseconds since the connection was accepted.
    moved: AtomicU64,
    admitted: AtomicBool,
    /// The number of requests being answered.
    busy: AtomicUsize,
}

impl Seat {
    fn new(admitted: bool) -> Self {
        Self {
            taken: Instant::now(),
            moved: AtomicU64::new(0),
            admitted: AtomicBool::new(admitted),
            busy: AtomicUsize::new(0),
        }
    }

    /// Records that a request of this connection was admitted.
    pub fn admit(&self) {
        self.admitted.store(true, Ordering::Relaxed);
    }

    fn touch(&self) {
        let since = self.taken.elapsed().as_millis();
        let since = u64::try_from(since).unwrap_or(u64::MAX);
        self.moved.store(since, Ordering::Relaxed);
    }

    fn moved(&self) -> Instant {
        self.taken + Duration::from_millis(self.moved.load(Ordering::Relaxed))
    }

    /// Whether a request was admitted, and whether one is being answered.
    fn state(&self) -> (bool, bool) {
        let busy = self.busy.load(Ordering::Relaxed) > 0;
        (self.admitted.load(Ordering::Relaxed), busy)
    }

    /// When others may take the place; `None` while an admitted connection is being
    /// answered, because other limits bound that time.
    fn free_at(&self) -> Option<Instant> {
        match self.state() {
            (false, _) => Some(self.taken + YOUNG),
            (true, false) => Some(self.moved() + STILL),
            (true, true) => None,
        }
    }
}

/// Accepts connections until it is closed, then lets open ones finish.
pub async fn serve(door: impl Door, router: Router, closing: watch::Receiver<bool>) {
    let mut open = Open::default();
    let mut closes = closing.clone();
    loop {
        let accepted = async {
            let accepted = door.accept().await;
            // A place is freed only when a new client is there to take it.
            open.make_room().await;
            accepted
        };
        let accepted = tokio::select! {
            () = closed(&mut closes) => break,
            accepted = accepted => accepted,
        };
        match accepted {
            Ok((stream, who)) => {
                let seat = Arc::new(Seat::new(admits(&door)));
                let (router, closing) = (router.clone(), closing.clone());
                let serving = connection(stream, who, Arc::clone(&seat), router, closing);
                open.add(serving, seat);
            }
            Err(error) => {
                tracing::debug!("a connection failed: {error}");
                tokio::time::sleep(REFUSED).await;
            }
        }
    }
    while open.tasks.join_next().await.is_some() {}
}

/// Serves a listener until `stop` resolves. Connections still open a little later end with
/// the process.
pub async fn serve_until(
    door: impl Door,
    router: Router,
    stop: impl Future<Output = ()> + Send + 'static,
) {
    let (closing, closes) = watch::channel(false);
    let serving = tokio::spawn(serve(door, router, closes));
    stop.await;
    closing.send_replace(true);
    tokio::time::timeout(END, serving).await.ok();
}

fn admits<D: Door>(_: &D) -> bool {
    D::ADMITS
}

/// The open connections.
#[derive(Default)]
struct Open {
    tasks: JoinSet<()>,
    seats: Vec<(AbortHandle, Arc<Seat>)>,
}

impl Open {
    fn add(&mut self, serving: impl Future<Output = ()> + Send + 'static, seat: Arc<Seat>) {
        let handle = self.tasks.spawn(serving);
        self.seats.push((handle, seat));
    }

    /// Returns as soon as there is a place.
    async fn make_room(&mut self) {
        loop {
            while self.tasks.try_join_next().is_some() {}
            self.seats.retain(|(handle, _)| !handle.is_finished());
            if self.seats.len() < CONNECTIONS {
                return;
            }
            let now = Instant::now();
            let free_at = |seat: &Seat| seat.free_at().unwrap_or(now + STILL);
            let places = self.seats.iter().enumerate();
            let free = places.filter(|(_, (_, seat))| free_at(seat) <= now);
            if let Some((at, _)) = free.min_by_key(|(_, (_, seat))| (seat.state(), seat.moved())) {
                let (handle, _) = self.seats.swap_remove(at);
                handle.abort();
                return;
            }
            let next = self.seats.iter().map(|(_, seat)| free_at(seat)).min();
            // Either a connection ends before that time, or one may then be closed.
            tokio::time::timeout_at(next.unwrap_or(now), self.tasks.join_next())
                .await
                .ok();
        }
    }
}

/// Serves one client until either side closes the connection.
async fn connection<S>(
    stream: S,
    who: Who,
    seat: Arc<Seat>,
    router: Router,
    mut closing: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let watched = Watched {
        stream,
        seat: Arc::clone(&seat),
        unread: None,
    };
    let routes = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(who.clone());
        request.extensions_mut().insert(Arc::clone(&seat));
        let busy = Busy::new(&seat);
        let answer = routes.call(request);
        async move {
            let answer = answer.await;
            drop(busy);
            answer
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(watched), service);
    let mut served = pin!(served);
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = closed(&mut closing) => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        // The client's fault: it disconnected, did not read, or did not speak HTTP.
        tracing::debug!("a connection ended: {error}");
    }
}

/// Counts a request as being answered while it lives.
struct Busy(Arc<Seat>);

impl Busy {
    fn new(seat: &Arc<Seat>) -> Self {
        seat.busy.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(seat))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns when the server closes.
async fn closed(closing: &mut watch::Receiver<bool>) {
    // An error means that the other end is gone, which closes the server too.
    closing.wait_for(|closing| *closing).await.ok();
}

/// A connection that fails if the client leaves its response unread for too long.
struct Watched<S> {
    stream: S,
    seat: Arc<Seat>,
    unread: Option<Pin<Box<Sleep>>>,
}

impl<S: Unpin> Watched<S> {
    /// Records the result of an attempt to send.
    fn sent<T>(
        &mut self,
        cx: &mut Context<'_>,
        attempt: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if attempt.is_ready() {
            self.unread = None;
            self.seat.touch();
            return attempt;
        }
        let unread = &mut self.unread;
        let patience = unread.get_or_insert_with(|| Box::pin(tokio::time::sleep(UNREAD)));
        ready!(patience.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client does not read the response",
        )))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if read.is_ready() {
            self.seat.touch();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.sent(cx, attempt)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.sent(cx, attempt)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// A server whose `/` is long; a request admits itself at `/in`.
    async fn server() -> (SocketAddr, watch::Sender<bool>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (closing, closes) = watch::channel(false);
        let long = || async { vec![b'x'; 8 << 20] };
        let admitted = |seat: axum::Extension<Arc<Seat>>| async move {
            seat.admit();
            "in"
        };
        let router = Router::new()
            .route("/", get(long))
            .route("/in", get(admitted));
        tokio::spawn(serve(listener, router, closes));
        (address, closing)
    }

    async fn ask(address: SocketAddr, path: &str) -> TcpStream {
        let mut client = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
        client.write_all(request.as_bytes()).await.unwrap();
        client
    }

    async fn begins(client: &mut TcpStream) -> bool {
        let mut head = [0; 12];
        client
            .read_exact(&mut head)
            .await
            .is_ok_and(|_| &head == b"HTTP/1.1 200")
    }

    #[tokio::test]
    async fn clients_that_never_read_keep_no_client_out() {
        let (address, _closing) = server().await;
        let mut admitted = ask(address, "/in").await;
        assert!(begins(&mut admitted).await);
        let mut silent = Vec::new();
        for n in 0..CONNECTIONS {
            let mut client = ask(address, "/").await;
            // Connections that send nothing hold a place as well.
            match n % 2 {
                0 => assert!(begins(&mut client).await),
                _ => silent.push(TcpStream::connect(address).await.unwrap()),
            }
            silent.push(client);
        }
        assert!(begins(&mut ask(address, "/in").await).await);
        // A client that was admitted before has kept its place.
        admitted
            .write_all(b"GET /in HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        let mut answers = [0; 200];
        let mut found = Vec::new();
        while !String::from_utf8_lossy(&found).ends_with("in") || found.len() < 150 {
            let read = admitted.read(&mut answers).await.unwrap();
            assert!(read > 0, "closed");
            found.extend_from_slice(&answers[..read]);
        }
    }

    /// An in-memory door; only the paused clock passes time.
    struct Within(tokio::sync::Mutex<tokio::sync::mpsc::Receiver<tokio::io::DuplexStream>>);

    impl Door for Within {
        type Stream = tokio::io::DuplexStream;

        const ADMITS: bool = true;

        async fn accept(&self) -> io::Result<(Self::Stream, Who)> {
            match self.0.lock().await.recv().await {
                Some(stream) => Ok((stream, Who("test".to_owned()))),
                None => std::future::pending().await,
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_read_in_time_is_let_go() {
        let (come, comes) = tokio::sync::mpsc::channel(2);
        let (_closing, closes) = watch::channel(false);
        let router = Router::new().route("/", get(|| async { vec![b'x'; 8 << 20] }));
        tokio::spawn(serve(Within(comes.into()), router, closes));
        for (pause, whole) in [(UNREAD / 2, true), (UNREAD + HEAD, false)] {
            let (mut client, server) = tokio::io::duplex(1 << 16);
            come.send(server).await.unwrap();
            let request = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
            client.write_all(request.as_bytes()).await.unwrap();
            tokio::time::sleep(pause).await;
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.ok();
            assert_eq!(answer.len() > 8 << 20, whole, "{}", answer.len());
        }
    }
}
