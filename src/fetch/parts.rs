//! Parts of files on web servers, for a command that reads a remote archive in place.
//!
//! [`PartFetcher`] is as polite as a crawl, and uses its client, its table of outcomes and its
//! reader of robots.txt: it sends one request at a time and pauses between two. It follows no
//! redirect of a file. The operator names the servers, so they may have any address. If a
//! robots.txt redirects to another server, the operator did not name that one, so it must pass the
//! guard.

use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::time::{Instant, sleep_until};

use super::part::{Part, PartFailure};
use super::{Answer, FetchError, FetchFailure, Fetcher, Options, Phase, SetupError, outcome};
use crate::address::{HostKey, PageUrl};
use crate::page::{Outcome, TaskKind};
use spoor_web::robots::{MAX_ROBOTS_BYTES, Robots, in_utf8};

/// The shortest pause between two requests to a server.
const MIN_PAUSE: Duration = Duration::from_secs(1);
/// The pause as a multiple of the time that the server took.
const FACTOR: u32 = 5;
/// The longest pause that results from a slow server alone.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// The first pause after an error, which doubles.
const FIRST_WAIT: Duration = Duration::from_secs(5);
/// The longest pause that a server may ask for, as in a crawl; beyond it the command ends with a
/// message.
const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// A pause longer than this is announced.
const SHORT: Duration = Duration::from_secs(2);
/// Maximum number of requests for one part.
const TRIES: u32 = 5;
/// How many redirects of a robots.txt are followed (RFC 9309 section 2.3.1.2).
const HOPS: usize = 5;
/// How long rules are valid (RFC 9309 section 2.4).
const VALID: Duration = Duration::from_secs(24 * 3_600);

/// Why a part is unavailable.
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
    /// Whether it is permitted is unknown.
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
    /// It asks for pauses that are too long to wait for.
    #[error(
        "{url}: robots.txt of the server asks for pauses of more than {} s (Crawl-delay); ask its \
         operator for a copy",
        LONGEST_WAIT.as_secs()
    )]
    TooSlow {
        /// The address.
        url: String,
    },
    /// The server is unreasonably slow.
    #[error("{url}: the server sends its parts too slowly; copy the file and name the copy")]
    Trickle {
        /// The address.
        url: String,
    },
    /// The server sends whole files only.
    #[error("{url}: the server does not send parts of files; copy the file and name the copy")]
    Whole {
        /// The address.
        url: String,
    },
    /// The server asks for a pause that is too long to wait for.
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
    /// The answer does not match the request.
    #[error("{url}: the server sent another part than it was asked for; copy the file")]
    Other {
        /// The address.
        url: String,
    },
}

/// The contents of a robots.txt, or why they are unknown.
struct RobotsResult {
    robots: Result<Robots, String>,
    read: Instant,
}

/// When a server may be requested again.
struct ServerClock {
    next: Instant,
    /// The reason for the pause.
    why: &'static str,
    /// The longest pause that was announced.
    announced: Duration,
}

/// Fetches parts of files.
pub struct PartFetcher {
    product: String,
    /// For the servers that the operator names.
    named: Fetcher,
    /// For the servers that those redirect to.
    guarded: Fetcher,
    /// By the address of the robots.txt.
    rules: FxHashMap<PageUrl, RobotsResult>,
    clocks: FxHashMap<HostKey, ServerClock>,
}

impl PartFetcher {
    /// `contact`: a URL or an e-mail address at which the operator can be reached.
    ///
    /// # Errors
    ///
    /// [`PartError::Setup`] if the contact cannot be sent.
    pub fn new(contact: &str) -> Result<Self, PartError> {
        Self::with(Options {
            contact: contact.to_owned(),
            robots_cap: MAX_ROBOTS_BYTES,
            ..Options::default()
        })
    }

    /// With other limits.
    ///
    /// # Errors
    ///
    /// [`PartError::Setup`].
    pub fn with(options: Options) -> Result<Self, PartError> {
        Ok(Self {
            product: options.product.clone(),
            named: Fetcher::new(Options {
                allow_private: true,
                ..options.clone()
            })?,
            guarded: Fetcher::new(options)?,
            rules: FxHashMap::default(),
            clocks: FxHashMap::default(),
        })
    }

    /// At most `length` bytes of a file from `offset` on. The address is the operator's, or in the
    /// same folder as one that is.
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
        let delay = self.permit(url).await?;
        let mut wait = FIRST_WAIT;
        let mut tries = 0;
        loop {
            tries += 1;
            self.pause(url).await.map_err(|left| PartError::Later {
                url: url.as_str().to_owned(),
                seconds: left.as_secs(),
            })?;
            let began = Instant::now();
            let done = self.named.part(url, offset, length).await;
            let done = done.map_err(|failure| error_of(url, failure));
            self.book(url, began.elapsed(), delay);
            let Err(PartError::Fetch { error, .. }) = &done else {
                return done;
            };
            let is_passing = is_passing(error);
            let pause = error.retry_after().or(is_passing.then_some(wait));
            self.put_off(url, pause.unwrap_or_default(), "after an error");
            if !is_passing || tries == TRIES {
                return done;
            }
            wait = wait.saturating_mul(2);
        }
    }

    /// Checks that a server permits requests for an address, and returns the pause that it asks
    /// for.
    async fn permit(&mut self, url: &PageUrl) -> Result<Duration, PartError> {
        let file = url.robots_url();
        let named = || url.as_str().to_owned();
        let known = self.rules.get(&file);
        if known.is_none_or(|rules| rules.read.elapsed() > VALID) {
            let robots = self.robots(&file).await;
            let delay = robots.as_ref().ok().and_then(Robots::crawl_delay);
            self.put_off(url, delay.unwrap_or_default(), ASKED);
            let read = Instant::now();
            self.rules
                .insert(file.clone(), RobotsResult { robots, read });
        }
        let unknown = |why: &str| PartError::NoRobots {
            url: named(),
            why: why.to_owned(),
        };
        let robots = match self.rules.get(&file).map(|rules| &rules.robots) {
            Some(Ok(robots)) => robots,
            Some(Err(why)) => return Err(unknown(why)),
            None => return Err(unknown("it was not read")),
        };
        let delay = robots.crawl_delay().unwrap_or_default();
        if !robots.allows(url) {
            return Err(PartError::Forbidden { url: named() });
        }
        if delay > LONGEST_WAIT {
            return Err(PartError::TooSlow { url: named() });
        }
        Ok(delay)
    }

    /// Reads a robots.txt, as a crawl does.
    async fn robots(&mut self, file: &PageUrl) -> Result<Robots, String> {
        let mut url = file.clone();
        for _ in 0..=HOPS {
            let later = |left: Duration| format!("it asks to come back after {} s", left.as_secs());
            self.pause(&url).await.map_err(later)?;
            let is_named = (url.scheme(), url.authority()) == (file.scheme(), file.authority());
            let fetcher = if is_named { &self.named } else { &self.guarded };
            let began = Instant::now();
            let answer = fetcher.fetch(&url, TaskKind::Robots).await;
            self.book(&url, began.elapsed(), Duration::ZERO);
            match answer {
                Ok(Answer::Body { fetched, .. }) => {
                    return Ok(Robots::parse(&self.product, &in_utf8(&fetched)));
                }
                Ok(Answer::Redirect {
                    to, retry_after, ..
                }) => {
                    self.put_off(&url, retry_after.unwrap_or_default(), "as it asked");
                    url = to;
                }
                Ok(Answer::NotModified { .. }) => return Err("status 304".to_owned()),
                Err(error) => {
                    return match outcome(TaskKind::Robots, &error) {
                        Outcome::Done => Ok(Robots::allow_all()),
                        _ => Err(error.to_string()),
                    };
                }
            }
        }
        Err(format!("it redirects more than {HOPS} times"))
    }

    /// Waits until a server may be requested. The error is a pause that is too long to wait for.
    async fn pause(&mut self, url: &PageUrl) -> Result<(), Duration> {
        let Some(clock) = self.clocks.get_mut(&url.host_key()) else {
            return Ok(());
        };
        let pause = clock.next.saturating_duration_since(Instant::now());
        if pause > LONGEST_WAIT {
            return Err(pause);
        }
        if pause > clock.announced.max(SHORT) {
            clock.announced = pause;
            let seconds = pause.as_secs_f64();
            let (host, why) = (url.authority(), clock.why);
            tracing::warn!("waiting {seconds:.0} s for the next request to {host}, {why}");
        }
        sleep_until(clock.next).await;
        Ok(())
    }

    /// Delays the next request after one that took this long. A server on this machine belongs to
    /// the operator, and gets only the pauses that it asks for.
    fn book(&mut self, url: &PageUrl, took: Duration, delay: Duration) {
        if !is_own(url) {
            let usual = took.saturating_mul(FACTOR).clamp(MIN_PAUSE, MAX_PAUSE);
            self.put_off(url, usual, "five times as long as its last answer took");
        }
        self.put_off(url, delay, ASKED);
    }

    /// Sends nothing to a server before `pause` is over.
    fn put_off(&mut self, url: &PageUrl, pause: Duration, why: &'static str) {
        // Limited, because clocks cannot represent every time; no command runs that long.
        let next = Instant::now() + pause.min(VALID);
        let announced = Duration::ZERO;
        let new = ServerClock {
            next,
            why,
            announced,
        };
        let clock = self.clocks.entry(url.host_key()).or_insert(new);
        if next > clock.next {
            (clock.next, clock.why) = (next, why);
        }
    }
}

/// The reason for a pause that robots.txt asks for.
const ASKED: &str = "as its robots.txt asks (Crawl-delay)";

fn error_of(url: &PageUrl, failure: PartFailure) -> PartError {
    let url = url.as_str().to_owned();
    match failure {
        PartFailure::Fetch(FetchError {
            kind:
                FetchFailure::Timeout {
                    phase: Phase::Whole,
                    ..
                },
            ..
        }) => PartError::Trickle { url },
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

/// Whether a request is worth a retry.
fn is_passing(error: &FetchError) -> bool {
    matches!(
        error.kind,
        FetchFailure::Status {
            status: 429 | 500 | 502 | 503 | 504,
            ..
        } | FetchFailure::Connection { .. }
            | FetchFailure::Timeout { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetcher() -> PartFetcher {
        PartFetcher::new("me@a.test").unwrap()
    }

    /// The pause after a request.
    fn pause(url: &str, took: Duration, delay: Duration) -> Duration {
        let url = PageUrl::parse(url).unwrap();
        let mut fetcher = fetcher();
        let now = Instant::now();
        fetcher.book(&url, took, delay);
        fetcher.clocks[&url.host_key()].next - now
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_are_those_of_a_crawl() {
        let s = Duration::from_secs;
        let zero = Duration::ZERO;
        let far = "https://a.test/x";
        for (took, delay, expected) in [
            (zero, zero, s(1)),
            (s(3), zero, s(15)),
            (s(100), zero, s(60)),
            (Duration::MAX, zero, s(60)),
            (s(3), s(20), s(20)),
            (s(3), s(10), s(15)),
            (s(3), Duration::MAX, VALID),
        ] {
            assert_eq!(pause(far, took, delay), expected, "{took:?} {delay:?}");
        }
        // The operator's own server gets only the pauses that it asks for.
        for own in [
            "http://127.0.0.1:81/x",
            "http://[::1]/x",
            "http://localhost/x",
        ] {
            assert_eq!(pause(own, s(9), zero), zero, "{own}");
            assert_eq!(pause(own, s(9), s(7)), s(7), "{own}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_clock_is_kept_for_each_server_and_never_set_back() {
        let url = |text| PageUrl::parse(text).unwrap();
        let mut fetcher = fetcher();
        let begun = Instant::now();
        fetcher.put_off(&url("https://a.test/x"), Duration::from_secs(30), ASKED);
        fetcher.book(&url("https://a.test/y"), Duration::ZERO, Duration::ZERO);
        fetcher.pause(&url("https://b.test/x")).await.unwrap();
        assert_eq!(begun.elapsed(), Duration::ZERO);
        fetcher.pause(&url("https://a.test/z")).await.unwrap();
        assert_eq!(begun.elapsed().as_secs(), 30);
        fetcher.put_off(&url("https://a.test/x"), Duration::MAX, ASKED);
        assert_eq!(fetcher.pause(&url("https://a.test/y")).await, Err(VALID));
        assert_eq!(begun.elapsed().as_secs(), 30);
    }
}
