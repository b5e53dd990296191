//! Parts of files on a web server (RFC 9110 section 14), for a command that reads an archive
//! where it lies. A crawl has no use for them.
//!
//! [`PartFetcher`] keeps the promises of a crawl: it obeys robots.txt, sends one request at a
//! time and pauses between two. It follows no redirect.

use std::time::{Duration, SystemTime};

use reqwest::header::{CONTENT_RANGE, HeaderMap, RANGE};
use reqwest::{Response, StatusCode};
use rustc_hash::FxHashMap;
use tokio::time::{Instant, sleep_until, timeout};

use super::error::{FetchError, Phase, classify};
use super::resolve::NameService;
use super::route::Router;
use super::{Answer, Fetcher, Options, SetupError, headers};
use crate::address::{HostKey, PageUrl};
use crate::page::TaskKind;
use crate::web::robots::{MAX_ROBOTS_BYTES, Robots};

/// The shortest pause between two requests to a server.
const MIN_PAUSE: Duration = Duration::from_secs(1);
/// The pause as a multiple of the time that the server took.
const FACTOR: u32 = 5;
/// The first pause after an error, which doubles.
const FIRST_WAIT: Duration = Duration::from_secs(5);
/// The longest pause that a server may ask for; then the command ends and says so.
const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// How often one part is asked for.
const TRIES: u32 = 5;
/// How many redirects of a robots.txt are followed (RFC 9309 section 2.3.1.2).
const HOPS: usize = 5;

/// Why a part cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum PartError {
    /// The client cannot be built.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The server forbids it.
    #[error("{url}: robots.txt of the server forbids it; ask its operator, or copy the file")]
    Forbidden {
        /// The address.
        url: String,
    },
    /// Whether it is permitted cannot be found out.
    #[error(
        "{url}: nothing is fetched while robots.txt of the server cannot be read: {why}; try \
         later"
    )]
    NoRobots {
        /// The address.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The file is elsewhere.
    #[error("{url} has moved to {to}; use that address")]
    Moved {
        /// The address.
        url: String,
        /// Where it is.
        to: String,
    },
    /// The server sends whole files only.
    #[error("{url}: the server does not send parts of files; copy the file and name the copy")]
    Whole {
        /// The address.
        url: String,
    },
    /// The server asks for a pause that is too long to wait here.
    #[error("{url}: the server asks to come back after {seconds} s; run the command again then")]
    Later {
        /// The address.
        url: String,
        /// How long.
        seconds: u64,
    },
    /// The request failed.
    #[error("{url}: {error}")]
    Fetch {
        /// The address.
        url: String,
        /// How.
        error: FetchError,
    },
    /// The answer is none to the request.
    #[error("{url}: the server answered with {what}")]
    Other {
        /// The address.
        url: String,
        /// What.
        what: String,
    },
}

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its bytes, fewer than wanted where the file ends.
    pub bytes: Vec<u8>,
    /// The length of the file, if the server says so.
    pub total: Option<u64>,
}

/// What is known of a server.
struct Server {
    robots: Robots,
    /// Before when nothing is sent.
    next: Instant,
}

/// Fetches parts of files.
pub struct PartFetcher {
    options: Options,
    fetcher: Fetcher,
    router: Router,
    servers: FxHashMap<HostKey, Server>,
}

impl PartFetcher {
    /// `contact`: a URL or an e-mail address at which the operator can be reached.
    ///
    /// # Errors
    ///
    /// [`PartError::Setup`] if the contact cannot be sent.
    pub fn new(contact: &str) -> Result<Self, PartError> {
        let options = Options {
            contact: contact.to_owned(),
            // The operator names the server, and no page can.
            allow_private: true,
            // What is stored compressed is wanted as it is.
            archive: true,
            robots_cap: MAX_ROBOTS_BYTES,
            ..Options::default()
        };
        Ok(Self {
            fetcher: Fetcher::new(options.clone())?,
            router: Router::new(&options, &NameService::system())?,
            options,
            servers: FxHashMap::default(),
        })
    }

    /// The bytes of a file from `offset` on, `length` of them at most.
    ///
    /// # Errors
    ///
    /// [`PartError`] names the address.
    pub async fn part(
        &mut self,
        url: &PageUrl,
        offset: u64,
        length: u64,
    ) -> Result<Part, PartError> {
        self.permit(url).await?;
        let mut wait = FIRST_WAIT;
        let mut tries = 0;
        loop {
            tries += 1;
            self.pause(url).await;
            let began = Instant::now();
            let done = self.once(url, offset, length).await;
            self.book(url, began);
            let asked = match &done {
                Err(PartError::Fetch { error, .. }) => asked_pause(error),
                _ => None,
            };
            match asked {
                Some(asked) if tries < TRIES => {
                    let pause = asked.unwrap_or(wait);
                    if pause > LONGEST_WAIT {
                        let (url, seconds) = (url.as_str().to_owned(), pause.as_secs());
                        return Err(PartError::Later { url, seconds });
                    }
                    tracing::info!("{url}: trying again after {} s", pause.as_secs());
                    wait = wait.saturating_mul(2);
                    if let Some(server) = self.servers.get_mut(&url.host_key()) {
                        server.next = server.next.max(Instant::now() + pause);
                    }
                }
                _ => return done,
            }
        }
    }

    /// Reads robots.txt once for each server.
    async fn permit(&mut self, url: &PageUrl) -> Result<(), PartError> {
        let key = url.host_key();
        if !self.servers.contains_key(&key) {
            let began = Instant::now();
            let robots = self.robots(url).await?;
            let next = Instant::now();
            self.servers.insert(key.clone(), Server { robots, next });
            self.book(url, began);
        }
        let is_allowed = self
            .servers
            .get(&key)
            .is_some_and(|server| server.robots.allows(url));
        let forbidden = || PartError::Forbidden {
            url: url.as_str().to_owned(),
        };
        is_allowed.then_some(()).ok_or_else(forbidden)
    }

    async fn robots(&self, of: &PageUrl) -> Result<Robots, PartError> {
        let unknown = |why: String| PartError::NoRobots {
            url: of.as_str().to_owned(),
            why,
        };
        let mut url = of.robots_url();
        for _ in 0..=HOPS {
            match self.fetcher.fetch(&url, TaskKind::Robots).await {
                Ok(Answer::Body { fetched, .. }) => {
                    return Ok(Robots::parse(&self.options.product, &fetched.body));
                }
                Ok(Answer::Redirect { to, .. }) => {
                    tokio::time::sleep(MIN_PAUSE).await;
                    url = to;
                }
                Ok(Answer::NotModified { .. }) => break,
                Err(FetchError::Status { status, .. })
                    if (400..500).contains(&status) && status != 429 =>
                {
                    return Ok(Robots::allow_all());
                }
                Err(error) => return Err(unknown(error.to_string())),
            }
        }
        // RFC 9309 permits to take it as missing.
        Ok(Robots::allow_all())
    }

    async fn pause(&self, url: &PageUrl) {
        if let Some(server) = self.servers.get(&url.host_key()) {
            sleep_until(server.next).await;
        }
    }

    /// Puts the next request to a server off. One on this machine belongs to the operator.
    fn book(&mut self, url: &PageUrl, began: Instant) {
        if is_own(url) {
            return;
        }
        if let Some(server) = self.servers.get_mut(&url.host_key()) {
            let delay = server.robots.crawl_delay().unwrap_or_default();
            let pause = (began.elapsed() * FACTOR).max(MIN_PAUSE).max(delay);
            server.next = Instant::now() + pause;
        }
    }

    async fn once(&self, url: &PageUrl, offset: u64, length: u64) -> Result<Part, PartError> {
        let own = |error| PartError::Fetch {
            url: url.as_str().to_owned(),
            error,
        };
        let host = url.host();
        let route = self.router.route(url).map_err(own)?;
        let last = offset.saturating_add(length.max(1)) - 1;
        let mut request = route.client.get(route.url);
        request = request.header(RANGE, format!("bytes={offset}-{last}"));
        if let Some(header) = route.host_header {
            request = request.header(reqwest::header::HOST, header);
        }
        let late = |phase| FetchError::Timeout {
            host: host.to_owned(),
            phase,
            seen: super::Received::default(),
        };
        let limit = self.options.read_timeout;
        let sent = timeout(limit, request.send()).await;
        let sent = sent.map_err(|_| own(late(Phase::Head)))?;
        let mut response = sent.map_err(|error| own(classify(host, &error, Phase::Head)))?;
        let total = total(response.headers());
        match response.status() {
            StatusCode::PARTIAL_CONTENT => {}
            // Nothing is behind the end.
            StatusCode::RANGE_NOT_SATISFIABLE => {
                let bytes = Vec::new();
                return Ok(Part { bytes, total });
            }
            StatusCode::OK => {
                return Err(PartError::Whole {
                    url: url.as_str().to_owned(),
                });
            }
            _ => return Err(refused(url, &response)),
        }
        if begin(response.headers()) != Some(offset) {
            return Err(PartError::Other {
                url: url.as_str().to_owned(),
                what: "another part of the file than it was asked for".to_owned(),
            });
        }
        let mut bytes = Vec::new();
        loop {
            let chunk = timeout(limit, response.chunk()).await;
            let chunk = chunk.map_err(|_| own(late(Phase::Body)))?;
            let chunk = chunk.map_err(|error| own(classify(host, &error, Phase::Body)))?;
            let Some(chunk) = chunk else { break };
            bytes.extend_from_slice(&chunk);
            if bytes.len() as u64 > length {
                bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX));
                break;
            }
        }
        Ok(Part { bytes, total })
    }
}

fn refused(url: &PageUrl, response: &Response) -> PartError {
    let (status, head) = (response.status().as_u16(), response.headers());
    if headers::is_redirect(status, head)
        && let Ok(to) = headers::redirect_target(url, head)
    {
        return PartError::Moved {
            url: url.as_str().to_owned(),
            to: to.as_str().to_owned(),
        };
    }
    PartError::Fetch {
        url: url.as_str().to_owned(),
        error: FetchError::Status {
            status,
            retry_after: headers::retry_after(head, SystemTime::now()),
            seen: super::Received::default(),
        },
    }
}

/// Whether the server is on this machine.
fn is_own(url: &PageUrl) -> bool {
    let host = url.host();
    let literal = host.trim_start_matches('[').trim_end_matches(']');
    let address = literal.parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Whether a request is worth another try, and the pause that the server asks for.
fn asked_pause(error: &FetchError) -> Option<Option<Duration>> {
    match error {
        FetchError::Status {
            status: 429 | 500 | 502 | 503 | 504,
            retry_after,
            ..
        } => Some(*retry_after),
        FetchError::Connection { .. } | FetchError::Timeout { .. } => Some(None),
        _ => None,
    }
}

/// What `Content-Range: bytes 0-99/1234` says.
fn range(headers: &HeaderMap) -> Option<(&str, &str)> {
    let value = headers.get(CONTENT_RANGE)?.to_str().ok()?;
    value.strip_prefix("bytes ")?.split_once('/')
}

fn total(headers: &HeaderMap) -> Option<u64> {
    range(headers)?.1.trim().parse().ok()
}

fn begin(headers: &HeaderMap) -> Option<u64> {
    range(headers)?.0.split('-').next()?.trim().parse().ok()
}
