//! All failures of a fetch, and how failures of the HTTP library are classified: by the
//! types along the source chain, never by text.
//!
//! The consequences of a failure are decided in [`super::outcome()`].

use std::error::Error;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use hyper_util::client::legacy;
use url::Url;

use super::resolve::{LookupFailed, Refused};
use super::term::TermOver;

/// What an exchange had received before it failed, for the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Received {
    /// The HTTP status, if a head arrived.
    pub status: Option<u16>,
    /// Decoded body bytes that were read.
    pub bytes: u64,
    /// From sending the request to the failure, excluding our own throttling; zero if
    /// nothing was sent.
    pub elapsed: Duration,
}

/// What the exchange was waiting for when its time ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Name lookup, TCP or TLS (`connect_timeout`).
    Connecting,
    /// The head of the response (`read_timeout`).
    Head,
    /// The next bytes of the body (`read_timeout`).
    Body,
    /// The end of the exchange (`total_timeout`).
    Whole,
    /// More of a large body, which arrived too slowly to keep its memory while others
    /// waited for it.
    Room,
    /// Anything, while other requests waited for its place.
    Others,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connecting => "no connection within network.connect_timeout",
            Self::Head => "no response within network.read_timeout",
            Self::Body => "no more of the body within network.read_timeout",
            Self::Whole => "the response was not complete within network.total_timeout",
            Self::Room => "a large body arrived too slowly while others waited for memory",
            Self::Others => "other hosts waited for its place",
        })
    }
}

/// A failed exchange.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{kind}")]
pub struct FetchError {
    /// Why there is no response.
    pub kind: FetchFailure,
    /// What was received until then.
    pub seen: Received,
}

impl From<FetchFailure> for FetchError {
    /// Before anything was received.
    fn from(kind: FetchFailure) -> Self {
        Self {
            kind,
            seen: Received::default(),
        }
    }
}

/// Why a task got no response.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FetchFailure {
    /// The name does not resolve, or is one that is never looked up (RFC 6761).
    #[error("{host} does not resolve: {why}")]
    Dns {
        /// The URL's host.
        host: String,
        /// The resolver's error.
        why: String,
    },
    /// The host has no address that a crawl may reach (see [`super::address_guard`]).
    #[error("{host} is at {address}, which is not a public internet address; no request was sent")]
    PrivateAddress {
        /// The URL's host.
        host: String,
        /// The address, or the first of several.
        address: IpAddr,
    },
    /// The connection was refused, reset or cut.
    #[error("the connection to {host} failed: {why}")]
    Connection {
        /// The URL's host.
        host: String,
        /// The system's error.
        why: String,
        /// No connection was ever established.
        unreached: bool,
    },
    /// The TLS handshake failed, or the certificate is not trusted.
    #[error("no secure connection to {host}: {why}")]
    Tls {
        /// The URL's host.
        host: String,
        /// The TLS library's error.
        why: String,
    },
    /// It took too long.
    #[error("{host} took too long: {phase}")]
    Timeout {
        /// The URL's host.
        host: String,
        /// What was being awaited.
        phase: Phase,
    },
    /// The server's HTTP was invalid.
    #[error("{host} sent invalid HTTP: {why}")]
    Protocol {
        /// The URL's host.
        host: String,
        /// The HTTP library's error.
        why: String,
    },
    /// One of the body's codings is unknown or broken.
    #[error("the body from {host} could not be decoded: {why}")]
    Decoding {
        /// The URL's host.
        host: String,
        /// The decoder's error.
        why: String,
    },
    /// A status outside 200 to 299 that is not a redirect.
    #[error("the server answered with status {status}")]
    Status {
        /// The status.
        status: u16,
        /// The `Retry-After` header (RFC 9110 section 10.2.3), uncapped; zero if the date
        /// has passed. It can be so long that adding it to a point in time overflows, so
        /// use saturating addition.
        retry_after: Option<Duration>,
    },
    /// Status 402: the server asks for payment, which is never made.
    #[error("the server asks for payment{}", price.as_ref().map(|price| format!(": {price}")).unwrap_or_default())]
    Payment {
        /// The `crawler-price` header, if there is one.
        price: Option<String>,
    },
    /// The server asks for a signature, which comes with the next attempt (Web Bot Auth).
    #[error("status {status}: the server asks for a signature, which comes with the next attempt")]
    Challenge {
        /// The status.
        status: u16,
        /// The `Retry-After` header.
        retry_after: Option<Duration>,
    },
    /// A redirect without a usable target.
    #[error("status {status} redirects nowhere: {why}")]
    BadRedirect {
        /// The status.
        status: u16,
        /// As in [`FetchFailure::Status`].
        retry_after: Option<Duration>,
        /// What is wrong with the target.
        why: String,
    },
    /// An image larger than its cap; a part of it would be useless.
    #[error("the image is larger than the cap of {cap} bytes")]
    TooLarge {
        /// The cap, in bytes.
        cap: usize,
        /// The value of `Content-Length`, if that was the reason.
        declared: Option<u64>,
    },
    /// The request cannot be built or sent as configured.
    #[error("{url} cannot be requested: {why}")]
    Unsendable {
        /// The URL.
        url: String,
        /// The reason.
        why: String,
    },
    /// The proxy does not let this crawler through; the operator has to fix this.
    #[error(
        "the proxy asks for a user name and a password; write them into HTTP_PROXY and HTTPS_PROXY, as in http://name:password@proxy.example:3128, set network.proxy to \"environment\" and start again"
    )]
    Proxy,
    /// There was no memory left for the rest of a large body; not the host's fault.
    #[error("no memory left for the rest of the body from {host}, because other bodies use it")]
    NoRoom {
        /// The URL's host.
        host: String,
    },
    /// This machine is out of file descriptors or ports; not the host's fault.
    #[error(
        "this machine cannot open another connection: {why}; raise its limit (ulimit -n) or fetch less at once"
    )]
    Local {
        /// The system's error.
        why: String,
    },
    /// The term of this machine is over ([`super::Options::term`]); not the host's fault.
    #[error(
        "{host} was not requested or not read to the end, because this machine has lost contact with its cluster"
    )]
    TermOver {
        /// The URL's host.
        host: String,
    },
}

impl FetchError {
    /// The delay that the server asked for, if it responded.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.kind {
            FetchFailure::Status { retry_after, .. }
            | FetchFailure::Challenge { retry_after, .. }
            | FetchFailure::BadRedirect { retry_after, .. } => retry_after,
            _ => None,
        }
    }

    /// Whether nothing came back in time, possibly on a connection made long before.
    pub fn is_unanswered(&self) -> bool {
        let is_awaited = matches!(
            self.kind,
            FetchFailure::Timeout {
                phase: Phase::Head | Phase::Whole,
                ..
            }
        );
        is_awaited && self.seen.status.is_none()
    }

    /// Whether the host could not be reached at all, so that the network may be down.
    pub fn is_unreached(&self) -> bool {
        matches!(
            self.kind,
            FetchFailure::Dns { .. }
                | FetchFailure::Connection {
                    unreached: true,
                    ..
                }
                | FetchFailure::Timeout {
                    phase: Phase::Connecting,
                    ..
                }
        )
    }

    /// The failure of a body from `host` that cannot be decoded.
    pub fn undecodable(host: &str, error: &impl fmt::Display) -> Self {
        let (host, why) = (host.to_owned(), error.to_string());
        FetchFailure::Decoding { host, why }.into()
    }

    /// The same, with what was received until then.
    #[must_use]
    pub fn with_seen(self, seen: Received) -> Self {
        Self { seen, ..self }
    }
}

/// Why no response came from a client.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    /// Reported by reqwest.
    #[error(transparent)]
    Whole(#[from] reqwest::Error),
    /// Reported by the layer below it.
    #[error(transparent)]
    Beneath(#[from] legacy::Error),
}

/// What a client's error reports about itself, besides the chain of its sources.
pub(super) trait ClientFailure: Error + 'static {
    /// The request could not be built.
    fn is_builder(&self) -> bool;
    /// No connection was established.
    fn is_connect(&self) -> bool;
    /// It took too long.
    fn is_timeout(&self) -> bool;
    /// The name was not found.
    fn is_dns(&self) -> bool;
    /// What was requested.
    fn url(&self) -> Option<&Url>;
}

impl ClientFailure for reqwest::Error {
    fn is_builder(&self) -> bool {
        self.is_builder()
    }

    fn is_connect(&self) -> bool {
        self.is_connect()
    }

    fn is_timeout(&self) -> bool {
        self.is_timeout()
    }

    fn is_dns(&self) -> bool {
        self.is_dns()
    }

    fn url(&self) -> Option<&Url> {
        self.url()
    }
}

impl ClientFailure for SendError {
    fn is_builder(&self) -> bool {
        matches!(self, Self::Whole(error) if error.is_builder())
    }

    fn is_connect(&self) -> bool {
        match self {
            Self::Whole(error) => error.is_connect(),
            Self::Beneath(error) => error.is_connect(),
        }
    }

    fn is_timeout(&self) -> bool {
        match self {
            Self::Whole(error) => error.is_timeout(),
            Self::Beneath(_) => find::<hyper::Error>(self).is_some_and(hyper::Error::is_timeout),
        }
    }

    fn is_dns(&self) -> bool {
        matches!(self, Self::Whole(error) if error.is_dns())
    }

    fn url(&self) -> Option<&Url> {
        match self {
            Self::Whole(error) => error.url(),
            Self::Beneath(_) => None,
        }
    }
}

/// Classifies an error of a client, which occurred while waiting for the head
/// ([`Phase::Head`]) or reading the body ([`Phase::Body`]).
pub(super) fn classify(host: &str, error: &impl ClientFailure, phase: Phase) -> FetchFailure {
    let host = host.to_owned();
    let why = innermost(error);
    if let Some(refused) = find::<Refused>(error) {
        let address = refused.address;
        return FetchFailure::PrivateAddress { host, address };
    }
    if find::<TermOver>(error).is_some() {
        return FetchFailure::TermOver { host };
    }
    if error.is_builder() {
        let url = error.url().map_or(host, ToString::to_string);
        return FetchFailure::Unsendable { url, why };
    }
    // This error's type is private to the library; a test checks its text.
    if error.is_connect() && why == "tunnel error: proxy authorization required" {
        return FetchFailure::Proxy;
    }
    if let Some(kind) = find_io(error, out_of_resources) {
        let why = kind.to_string();
        return FetchFailure::Local { why };
    }
    if error.is_timeout() || find_io(error, |e| e.kind() == io::ErrorKind::TimedOut).is_some() {
        let phase = if error.is_connect() {
            Phase::Connecting
        } else {
            phase
        };
        return FetchFailure::Timeout { host, phase };
    }
    // A name that cannot be in a certificate cannot be in the DNS either.
    if error.is_dns()
        || find::<LookupFailed>(error).is_some()
        || find::<rustls::pki_types::InvalidDnsNameError>(error).is_some()
    {
        return FetchFailure::Dns { host, why };
    }
    if find::<rustls::Error>(error).is_some() {
        return FetchFailure::Tls { host, why };
    }
    let http1 = find::<hyper::Error>(error);
    let http2 = find::<h2::Error>(error);
    let cut = error.is_connect()
        || find_io(error, connection_is_gone).is_some()
        || http1.is_some_and(|e| e.is_incomplete_message() || e.is_canceled() || e.is_closed())
        || http2.is_some_and(|e| e.is_io() || e.is_remote());
    if cut {
        FetchFailure::Connection {
            unreached: find_io(error, is_unreached).is_some(),
            host,
            why,
        }
    } else {
        FetchFailure::Protocol { host, why }
    }
}

/// An error and its sources. If an I/O error wraps another error, that one comes next,
/// because its own `source` would skip it.
fn chain<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> + 'a {
    std::iter::successors(Some(error), |&e| {
        match e.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => e.source(),
        }
    })
}

fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    chain(error).find_map(|e| e.downcast_ref::<E>())
}

fn find_io<'a>(
    error: &'a (dyn Error + 'static),
    wanted: impl Fn(&io::Error) -> bool,
) -> Option<&'a io::Error> {
    chain(error)
        .filter_map(|e| e.downcast_ref::<io::Error>())
        .find(|e| wanted(e))
}

fn is_unreached(error: &io::Error) -> bool {
    use io::ErrorKind::*;
    matches!(
        error.kind(),
        ConnectionRefused | HostUnreachable | NetworkUnreachable | NetworkDown
    )
}

fn connection_is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::*;
    matches!(
        error.kind(),
        ConnectionRefused
            | ConnectionReset
            | ConnectionAborted
            | NotConnected
            | BrokenPipe
            | UnexpectedEof
            | HostUnreachable
            | NetworkUnreachable
            | NetworkDown
    )
}

/// `ENFILE` and `EMFILE` have no kind in the standard library; the numbers are the same on
/// Linux, macOS and the BSDs.
fn out_of_resources(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable || matches!(error.raw_os_error(), Some(23 | 24))
}

fn innermost(error: &(dyn Error + 'static)) -> String {
    let text = chain(error).last().map(ToString::to_string);
    text.unwrap_or_default().chars().take(200).collect()
}
