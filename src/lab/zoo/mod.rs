//! The zoo: hostile servers on this machine, each with its expected outcome.
//!
//! A crawler is exposed to any server. Each [`Case`] is one way to crash it, to hang it, to fill
//! its memory or to lead it where it must not go. It has its own host below `zoo.test`, and
//! [`Expect`] states the row that the crawl log must then have, and the allowed cost. A test crawls
//! the whole zoo and checks every row.
//!
//! | module | cases |
//! |---|---|
//! | [`heads`] | status lines, headers, statuses, `Retry-After` |
//! | [`bodies`] | framing, drips, floods, content codings |
//! | [`redirects`] | chains, loops, private addresses, other schemes |
//! | [`cuts`] | connections that end, or send, at the wrong moment; TLS |
//! | [`http2`] | frames that no honest server sends |
//! | [`content`] | HTML, charsets, images, robots.txt, sitemaps, hostile texts |
//!
//! [`serve`] answers: one port for plain HTTP, one for TLS, and one for each case that acts before
//! a request. [`tls`] makes the certificates. [`JOB`] is what a job needs for the expected
//! outcomes.
//!
//! A case must not know the crawler or other cases. It sees bytes.

pub mod bodies;
pub mod content;
pub mod cuts;
pub mod heads;
pub mod http2;
pub mod redirects;
pub mod serve;
pub mod tls;

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;

pub use serve::{Connection, Running, spawn};

/// The host whose front page leads to every case.
pub const HOST: &str = "zoo.test";

/// The sections of a job under which the cases end as expected, besides `network.connect_to` and
/// `network.extra_ca`. The address guard stays on.
pub const JOB: &str = r#"[seeds]
urls = ["http://zoo.test/"]
sitemaps = true

[network]
connect_timeout = "2s"
read_timeout = "3s"
total_timeout = "6s"
concurrency = 64
max_page_bytes = "4MiB"

[images]
max_bytes = "4MiB"

[politeness]
min_delay = 0
delay_factor = 0
retries = 0
back_off = "1ms"
max_back_off = "1h"

[strategy]
kind = "unfocused"

[frontier]
store = "fjall"

[scope]
accept_types = ["text/html", "application/xhtml+xml", "text/plain", "application/pdf"]

[pdf]
time = "1s"
"#;

/// The most bytes of a page or an image that [`JOB`] lets the crawler read.
pub const CAP: u64 = 4 << 20;

/// The longest exchange that [`JOB`] allows, in milliseconds, plus an allowance for a busy machine.
pub const LONGEST: u64 = 6_000 + 24_000;

/// One hostile server.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its name, which is its host below `zoo.test`: `a-z`, `0-9` and `-`.
    pub name: &'static str,
    /// Its behaviour, in one line.
    pub about: &'static str,
    /// The path with the hostile behaviour. If that is not robots.txt, the host has none (or, for a
    /// sitemap, one that names it), and its front page is honest.
    pub path: &'static str,
    /// How it is served.
    pub serve: Serve,
    /// Its expected outcome.
    pub expect: Expect,
}

/// How a case is served.
#[derive(Clone)]
pub enum Serve {
    /// Valid HTTP with hostile content, for each path.
    Web(Arc<dyn Fn(&str) -> Reply + Send + Sync>),
    /// Bytes, after a request for the case's path was read. The second argument is the path.
    Raw(Behave),
    /// Bytes from the beginning of the connection, regardless of the request, on a separate port.
    Early {
        /// Whether the crawler expects TLS there.
        secure: bool,
        /// What the crawler gets.
        behave: Behave,
    },
    /// TLS with this certificate, and then bytes, regardless of the request.
    Tls {
        /// The certificate.
        certificate: tls::Certificate,
        /// Whether only HTTP/2 is offered.
        http2: bool,
        /// The bytes after the handshake, if it succeeds.
        behave: Behave,
    },
}

/// The handling of a connection.
pub type Behave =
    Arc<dyn Fn(Connection, String) -> BoxFuture<'static, io::Result<()>> + Send + Sync>;

impl Serve {
    /// The same answer for every path.
    pub fn web(reply: impl Fn() -> Reply + Send + Sync + 'static) -> Self {
        Self::Web(Arc::new(move |_| reply()))
    }

    /// An answer for each path.
    pub fn paths(reply: impl Fn(&str) -> Reply + Send + Sync + 'static) -> Self {
        Self::Web(Arc::new(reply))
    }

    /// Bytes after the request.
    pub fn raw<F>(behave: impl Fn(Connection) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        Self::Raw(behaviour(behave))
    }

    /// Fixed bytes after the request, then the end of the connection.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes: Arc<[u8]> = bytes.into().into();
        Self::raw(move |mut connection| {
            let bytes = bytes.clone();
            async move {
                connection.send(&bytes).await?;
                connection.close().await
            }
        })
    }
}

/// A behaviour that ignores the path.
pub fn behaviour<F>(behave: impl Fn(Connection) -> F + Send + Sync + 'static) -> Behave
where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    Arc::new(move |connection, _| Box::pin(behave(connection)))
}

impl fmt::Debug for Serve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Web(_) => "Web",
            Self::Raw(_) => "Raw",
            Self::Early { .. } => "Early",
            Self::Tls { .. } => "Tls",
        })
    }
}

/// A valid HTTP/1.1 answer. Its body is sent in chunks, unless a header gives its length.
pub struct Reply {
    /// The status.
    pub status: u16,
    /// Headers, sent unchanged.
    pub headers: Vec<(String, String)>,
    /// The body in parts, each created when it is sent.
    pub body: Box<dyn Iterator<Item = Bytes> + Send>,
}

impl Reply {
    /// A 200 with a body in one part.
    pub fn new(content_type: &str, body: impl Into<Bytes>) -> Self {
        Self::stream(content_type, std::iter::once(body.into()))
    }

    /// A 200 with a body in parts.
    pub fn stream(content_type: &str, body: impl Iterator<Item = Bytes> + Send + 'static) -> Self {
        Self {
            status: 200,
            headers: vec![("Content-Type".to_owned(), content_type.to_owned())],
            body: Box::new(body),
        }
    }

    /// Another status.
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// One more header.
    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (status, headers) = (&self.status, &self.headers);
        f.debug_struct("Reply")
            .field("status", status)
            .field("headers", headers)
            .finish_non_exhaustive()
    }
}

/// What the crawl log must contain for a case, and its allowed cost.
#[derive(Debug, Clone)]
pub struct Expect {
    /// `page`, `image`, `robots`, `sitemap` or `tdmrep`: the kind of the row.
    pub kind: &'static str,
    /// The address of the row, if it is not that of the case but one that the case leads to.
    pub url: Option<&'static str>,
    /// The outcome of the row.
    pub outcome: &'static str,
    /// Its reason, if it must have one.
    pub reason: Option<&'static str>,
    /// A part of its error.
    pub error: Option<&'static str>,
    /// The maximum number of body bytes that may be read.
    pub max_bytes: u64,
    /// The longest time that the exchange may take, in milliseconds.
    pub max_ms: u64,
}

impl Expect {
    /// For a normal fetch.
    pub const fn done(kind: &'static str) -> Self {
        Self {
            kind,
            url: None,
            outcome: "done",
            reason: None,
            error: None,
            max_bytes: CAP,
            max_ms: LONGEST,
        }
    }

    /// For a drop with a reason, the name of a `page::Reason`.
    pub const fn dropped(kind: &'static str, reason: &'static str) -> Self {
        Self {
            outcome: "dropped",
            reason: Some(reason),
            ..Self::done(kind)
        }
    }

    /// For a retry.
    pub const fn retrying(kind: &'static str, reason: &'static str) -> Self {
        Self {
            outcome: "retrying",
            reason: Some(reason),
            ..Self::done(kind)
        }
    }

    /// For a redirect.
    pub const fn redirected(kind: &'static str) -> Self {
        Self {
            outcome: "redirected",
            ..Self::done(kind)
        }
    }

    /// Expects the row of another address.
    pub const fn at(mut self, url: &'static str) -> Self {
        self.url = Some(url);
        self
    }

    /// Expects this text in the row's error.
    pub const fn saying(mut self, error: &'static str) -> Self {
        self.error = Some(error);
        self
    }

    /// Sets a tighter limit on the bytes.
    pub const fn bytes(mut self, most: u64) -> Self {
        self.max_bytes = most;
        self
    }

    /// Sets a tighter limit on the time.
    pub const fn within(mut self, ms: u64) -> Self {
        self.max_ms = ms;
        self
    }
}

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.outcome)?;
        if let Some(reason) = self.reason {
            write!(f, ":{reason}")?;
        }
        write!(f, ", at most {} bytes, {} ms", self.max_bytes, self.max_ms)?;
        if let Some(error) = self.error {
            write!(f, ", \"{error}\"")?;
        }
        Ok(())
    }
}

impl Case {
    /// Its host.
    pub fn host(&self) -> String {
        format!("{}.{HOST}", self.name)
    }

    /// The address with the hostile behaviour.
    pub fn url(&self) -> String {
        self.below(self.path)
    }

    /// The address of the decisive row.
    pub fn judged(&self) -> String {
        self.expect.url.map_or_else(|| self.url(), str::to_owned)
    }

    /// The address to which the front page of the zoo links.
    pub fn entry(&self) -> String {
        let page = |suffix: &str| self.path.ends_with(suffix);
        let by_itself =
            page("/robots.txt") || page("/tdmrep.json") || self.expect.kind == "sitemap";
        if by_itself {
            self.below("/")
        } else {
            self.url()
        }
    }

    /// Whether the front page embeds it as an image instead of linking to it.
    pub fn is_embedded(&self) -> bool {
        self.expect.kind == "image" || self.path.ends_with(".png")
    }

    fn below(&self, path: &str) -> String {
        let scheme = match self.serve {
            Serve::Tls { .. } | Serve::Early { secure: true, .. } => "https",
            _ => "http",
        };
        format!("{scheme}://{}{path}", self.host())
    }
}

/// Every case; the groups are in the order of the table above.
pub fn cases() -> Vec<Case> {
    [
        heads::cases(),
        bodies::cases(),
        redirects::cases(),
        cuts::cases(),
        http2::cases(),
        content::cases(),
    ]
    .concat()
}
