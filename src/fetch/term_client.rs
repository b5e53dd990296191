//! A client whose connections write only during a [`Term`].
//!
//! A check before a request is not enough: a process can be suspended right after it, and continue
//! to send when others have long taken over. So the check is in the connection itself, below TLS
//! and HTTP: each write checks the clock. When the term ends, each read fails as well, so that all
//! connections close, including idle ones. The remaining risk is a machine that freezes between the
//! check and the following system call.
//!
//! Written data may not have arrived: while a line is down, the system keeps sending it again, even
//! if its connection was closed long ago. So a connection is reset, which discards data in transit,
//! when its term is over or when it is given up without an answer.
//!
//! reqwest has no hook between itself and the socket: a layer around its connector must return
//! reqwest's own connection type, which no other crate can construct. So this module assembles the
//! parts that reqwest consists of in the same way, and adds one. Requests and responses are
//! reqwest's. [`super::client`] uses this client only if [`Options::term`] is set.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::{Request, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use reqwest::dns::{Addrs, Resolve};
use reqwest::header::{ACCEPT, HeaderValue, USER_AGENT};
use reqwest::{Body, Response};
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tower_layer::Layer;
use tower_service::Service;

use super::client::{MAX_HEAD, MAX_HEADERS};
use super::error::SendError;
use super::options::{Options, SetupError};
use super::resolve::GuardedResolver;
use super::send_clocks::{self, AfterConnecting, BoxError, Connecting};
use super::term::{Tenure, Term, TermOver};

/// The same keep-alive as reqwest's.
const KEEPALIVE: Duration = Duration::from_secs(15);
/// The time without acknowledgement after which reqwest gives up a connection.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

type Tcp = HttpConnector<NameResolver>;
type GatedConnector = Connecting<HttpsConnector<Gatekeeper<Tcp>>>;
type Http = legacy::Client<GatedConnector, Body>;

/// The client.
#[derive(Clone)]
pub(super) struct GatedClient {
    http: Http,
    user_agent: HeaderValue,
}

impl fmt::Debug for GatedClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatedClient").finish_non_exhaustive()
    }
}

impl GatedClient {
    /// Builds a client with settings that correspond to those of [`super::client::build`]. `tls`
    /// has the protocols to offer, `idle` is the number of kept connections per host.
    pub(super) fn new(
        options: &Options,
        term: &Term,
        tls: ClientConfig,
        resolver: GuardedResolver,
        idle: usize,
    ) -> Result<Self, SetupError> {
        let user_agent = HeaderValue::from_str(&options.user_agent());
        let user_agent = user_agent.map_err(|e| SetupError::Client(e.to_string()))?;
        let mut tcp = HttpConnector::new_with_resolver(NameResolver(resolver));
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.set_keepalive_interval(Some(KEEPALIVE));
        tcp.set_keepalive_retries(Some(3));
        #[cfg(target_os = "linux")]
        tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
        let gated = Gatekeeper {
            inner: tcp,
            term: term.clone(),
        };
        let limit = options.connect_timeout;
        let connector = AfterConnecting { limit }.layer(HttpsConnector::from((gated, tls)));
        let http = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(options.pool_idle)
            .pool_max_idle_per_host(idle)
            .http1_max_headers(MAX_HEADERS)
            .http2_max_header_list_size(MAX_HEAD)
            .http1_ignore_invalid_headers_in_responses(true)
            .http1_allow_spaces_after_header_name_in_responses(true)
            .http1_allow_obsolete_multiline_headers_in_responses(true)
            .build(connector);
        Ok(Self { http, user_agent })
    }

    /// Sends a request.
    pub(super) async fn execute(&self, request: reqwest::Request) -> Result<Response, SendError> {
        let mut request: Request<Body> = request.try_into()?;
        let headers = request.headers_mut();
        headers
            .entry(ACCEPT)
            .or_insert(HeaderValue::from_static("*/*"));
        headers
            .entry(USER_AGENT)
            .or_insert_with(|| self.user_agent.clone());
        let response = self.http.request(request).await?;
        Ok(response.map(Body::wrap).into())
    }
}

/// The resolver in the form that the connector needs.
#[derive(Debug, Clone)]
struct NameResolver(GuardedResolver);

impl Service<Name> for NameResolver {
    type Response = Addrs;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Addrs, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        match name.as_str().parse() {
            Ok(name) => self.0.resolve(name),
            Err(error) => {
                let error: BoxError = Box::new(error);
                Box::pin(std::future::ready(Err(error)))
            }
        }
    }
}

/// Makes connections that write only during one tenure: that of the request for which they are
/// made.
#[derive(Debug, Clone)]
struct Gatekeeper<S> {
    inner: S,
    term: Term,
}

impl<S> Service<Uri> for Gatekeeper<S>
where
    S: Service<Uri>,
    S::Response: Abort + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = Gated<S::Response>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Gated<S::Response>, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let tenure = send_clocks::tenure().or_else(|| self.term.tenure());
        let Some(tenure) = tenure.filter(|tenure| !tenure.is_over()) else {
            return Box::pin(std::future::ready(Err(over().into())));
        };
        let connecting = self.inner.call(to);
        Box::pin(async move {
            tokio::select! {
                biased;
                () = tenure.clone().ended() => Err(over().into()),
                connected = connecting => {
                    let inner = connected.map_err(Into::into)?;
                    Ok(Gated::new(inner, tenure))
                }
            }
        })
    }
}

/// A connection that can discard unsent data.
trait Abort {
    /// Makes the connection reset when it is dropped, so that nothing more is sent.
    fn abort(&self);
}

impl Abort for TokioIo<TcpStream> {
    fn abort(&self) {
        if let Err(error) = self.inner().set_zero_linger() {
            tracing::debug!(%error, "a connection cannot be reset");
        }
    }
}

/// A connection that writes only during a tenure.
struct Gated<T: Abort> {
    inner: T,
    tenure: Tenure,
    /// Whether nothing was read since the last write.
    is_unanswered: bool,
    /// Completes, and wakes the reader, when the tenure ends.
    ended: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl<T: Abort> Gated<T> {
    fn new(inner: T, tenure: Tenure) -> Self {
        let ended = Box::pin(tenure.clone().ended());
        Self {
            inner,
            tenure,
            is_unanswered: false,
            ended,
        }
    }
}

impl<T: Abort> Drop for Gated<T> {
    fn drop(&mut self) {
        if self.is_unanswered || self.tenure.is_over() {
            self.inner.abort();
        }
    }
}

fn over() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, TermOver)
}

impl<T: Read + Abort + Unpin> Read for Gated<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.tenure.is_over() || self.ended.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(over()));
        }
        let read = Pin::new(&mut self.inner).poll_read(context, into);
        if read.is_ready() {
            self.is_unanswered = false;
        }
        read
    }
}

impl<T: Write + Abort + Unpin> Write for Gated<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.tenure.is_over() {
            return Poll::Ready(Err(over()));
        }
        self.is_unanswered = true;
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.tenure.is_over() {
            return Poll::Ready(Err(over()));
        }
        self.is_unanswered = true;
        Pin::new(&mut self.inner).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    /// A socket has no buffer to flush here.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    /// Closes the connection, which is always permitted.
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

impl<T: Connection + Abort> Connection for Gated<T> {
    fn connected(&self) -> Connected {
        self.inner.connected()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tokio::net::TcpListener;

    use super::*;
    use crate::clock::now;

    impl Abort for TokioIo<DuplexStream> {
        fn abort(&self) {}
    }

    /// A connection on which something was written, and its other end.
    async fn connected(term: &Term) -> (TokioIo<Gated<TokioIo<TcpStream>>>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = listener.local_addr().unwrap();
        let (here, there) = tokio::join!(TcpStream::connect(to), listener.accept());
        let gated = Gated::new(TokioIo::new(here.unwrap()), term.tenure().unwrap());
        let mut gated = TokioIo::new(gated);
        gated.write_all(b"asked").await.unwrap();
        (gated, there.unwrap().0)
    }

    /// How the other end sees the connection end.
    async fn seen_by(mut there: TcpStream) -> Result<Vec<u8>, io::ErrorKind> {
        let mut all = Vec::new();
        let read = there.read_to_end(&mut all).await;
        read.map(|_| all).map_err(|error| error.kind())
    }

    #[tokio::test]
    async fn what_did_not_arrive_in_the_term_is_thrown_away() {
        let term = Term::default();
        term.set_end(now() + 60_000);
        // Given up without an answer.
        let (gated, there) = connected(&term).await;
        drop(gated);
        assert_eq!(seen_by(there).await, Err(io::ErrorKind::ConnectionReset));
        // One that was answered is closed cleanly.
        let (mut gated, mut there) = connected(&term).await;
        there.write_all(b"answer").await.unwrap();
        gated.read_exact(&mut [0; 6]).await.unwrap();
        drop(gated);
        assert_eq!(seen_by(there).await, Ok(b"asked".to_vec()));
        // At the end of the term that one is reset as well.
        let (mut gated, mut there) = connected(&term).await;
        there.write_all(b"answer").await.unwrap();
        gated.read_exact(&mut [0; 6]).await.unwrap();
        term.end();
        drop(gated);
        assert_eq!(seen_by(there).await, Err(io::ErrorKind::ConnectionReset));
    }

    #[tokio::test]
    async fn a_connection_is_read_and_written_until_the_end_and_no_further() {
        let term = Term::default();
        term.set_end(now() + 60_000);
        let (here, mut there) = tokio::io::duplex(64);
        let gated = Gated::new(TokioIo::new(here), term.tenure().unwrap());
        let mut gated = TokioIo::new(gated);
        gated.write_all(b"before").await.unwrap();
        there.write_all(b"answer").await.unwrap();
        let mut answer = [0; 6];
        gated.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"answer");

        // A task that waits for an answer is woken.
        let end = async { term.end() };
        let (read, ()) = tokio::join!(gated.read(&mut answer), end);
        let over = read.unwrap_err();
        assert!(over.get_ref().unwrap().is::<TermOver>(), "{over:?}");
        let written = gated.write(b"after").await;
        assert_eq!(
            written.unwrap_err().kind(),
            io::ErrorKind::ConnectionAborted
        );
        // A restarted term is a different one.
        term.set_end(now() + 60_000);
        assert!(gated.write(b"after").await.is_err());
        assert!(gated.read(&mut answer).await.is_err());
        drop(gated);
        let mut sent = Vec::new();
        there.read_to_end(&mut sent).await.unwrap();
        assert_eq!(sent, b"before");
    }
}
