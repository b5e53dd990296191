//! Parts of files on web servers, for a command that reads an archive where it lies.
//!
//! [`PartFetcher`] keeps the promises of a crawl: it obeys robots.txt, sends one request at a
//! time and pauses between two. It follows no redirect but those of a robots.txt, and of these
//! none that leads from the server that the operator has named to a special-purpose address.

use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::time::{Instant, sleep_until};

use super::fetch::part::{Part, PartFailure};
use super::fetch::{Answer, FetchError, Fetcher, Options, SetupError};
use super::robots::{self, MAX_ROBOTS_BYTES, Robots};
use crate::address::{HostKey, PageUrl};
use crate::page::TaskKind;

/// The shortest pause between two requests to a server.
const MIN_PAUSE: Duration = Duration::from_secs(1);
/// The pause as a multiple of the time that the server took.
const FACTOR: u32 = 5;
/// The first pause after an error, which doubles.
const FIRST_WAIT: Duration = Duration::from_secs(5);
/// The longest pause that a server may ask for; then the command ends and says so.
const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// The shortest pause that is announced.
const ANNOUNCED: Duration = Duration::from_millis(1_500);
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
    #[error(
        "{url}: the server asks for a pause of {seconds} s between requests, and at most {} are \
         waited for; copy the file, or run the command again later",
        LONGEST_WAIT.as_secs()
    )]
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
    #[error("{url}: the server sent another part than it was asked for; copy the file")]
    Other {
        /// The address.
        url: String,
    },
}

/// Is called with each pause that is worth a word: the server, and how long.
pub type Announce = Box<dyn Fn(&str, Duration) + Send>;

/// What is known of a server.
struct Server {
    robots: Robots,
    /// Before when nothing is sent.
    next: Instant,
}

/// Fetches parts of files.
pub struct PartFetcher {
    product: String,
    fetcher: Fetcher,
    /// For addresses that a server and not the operator has named.
    guarded: Fetcher,
    announce: Announce,
    servers: FxHashMap<HostKey, Server>,
}

impl PartFetcher {
    /// `contact`: a URL or an e-mail address at which the operator can be reached.
    ///
    /// # Errors
    ///
    /// [`PartError::Setup`] if the contact cannot be sent.
    pub fn new(contact: &str, announce: Announce) -> Result<Self, PartError> {
        let options = |allow_private| Options {
            contact: contact.to_owned(),
            allow_private,
            // What is stored compressed is wanted as it is.
            archive: true,
            robots_cap: MAX_ROBOTS_BYTES,
            ..Options::default()
        };
        Ok(Self {
            product: options(false).product,
            fetcher: Fetcher::new(options(true))?,
            guarded: Fetcher::new(options(false))?,
            announce,
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
            self.pause(url).await?;
            let began = Instant::now();
            let done = self.fetcher.part(url, offset, length).await;
            let done = done.map_err(|failure| error_of(url, failure));
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

    /// By the same rules as in a crawl: what cannot be read is no permission.
    async fn robots(&self, of: &PageUrl) -> Result<Robots, PartError> {
        let unknown = |why: String| PartError::NoRobots {
            url: of.as_str().to_owned(),
            why,
        };
        let mut url = of.robots_url();
        for _ in 0..=HOPS {
            let is_named = url.host_key() == of.host_key();
            let fetcher = if is_named {
                &self.fetcher
            } else {
                &self.guarded
            };
            match fetcher.fetch(&url, TaskKind::Robots).await {
                Ok(Answer::Body { fetched, .. }) => {
                    return Ok(Robots::parse(&self.product, &robots::in_utf8(&fetched)));
                }
                Ok(Answer::Redirect { to, .. }) => {
                    if !is_own(&url) {
                        tokio::time::sleep(MIN_PAUSE).await;
                    }
                    url = to;
                }
                Ok(Answer::NotModified { .. }) => {
                    return Err(unknown("it is said not to have changed".to_owned()));
                }
                Err(FetchError::Status { status, .. })
                    if (400..500).contains(&status) && status != 429 =>
                {
                    return Ok(Robots::allow_all());
                }
                Err(error) => return Err(unknown(error.to_string())),
            }
        }
        Err(unknown(format!("it is redirected more than {HOPS} times")))
    }

    /// Waits until the next request to a server is due.
    async fn pause(&self, url: &PageUrl) -> Result<(), PartError> {
        let Some(server) = self.servers.get(&url.host_key()) else {
            return Ok(());
        };
        let delay = server.robots.crawl_delay().unwrap_or_default();
        if delay > LONGEST_WAIT {
            let (url, seconds) = (url.as_str().to_owned(), delay.as_secs());
            return Err(PartError::Later { url, seconds });
        }
        let left = server.next.saturating_duration_since(Instant::now());
        if left >= ANNOUNCED {
            (self.announce)(url.host(), left);
        }
        sleep_until(server.next).await;
        Ok(())
    }

    /// Puts the next request to a server off. One on this machine belongs to the operator, and
    /// has only the pause that its robots.txt asks for.
    fn book(&mut self, url: &PageUrl, began: Instant) {
        if let Some(server) = self.servers.get_mut(&url.host_key()) {
            let delay = server.robots.crawl_delay().unwrap_or_default();
            let usual = (began.elapsed() * FACTOR).max(MIN_PAUSE);
            let usual = if is_own(url) { Duration::ZERO } else { usual };
            server.next = Instant::now() + usual.max(delay).min(LONGEST_WAIT);
        }
    }
}

fn error_of(url: &PageUrl, failure: PartFailure) -> PartError {
    let url = url.as_str().to_owned();
    match failure {
        PartFailure::Fetch(error) => PartError::Fetch { url, error },
        PartFailure::Moved(to) => PartError::Moved {
            url,
            to: to.as_str().to_owned(),
        },
        PartFailure::Whole => PartError::Whole { url },
        PartFailure::Other => PartError::Other { url },
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
