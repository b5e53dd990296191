//! Fetching: one URL in, one response or one typed error out.
//!
//! [`Fetcher::fetch`] sends exactly one request: it follows no redirect, retries no
//! failure and keeps no cookie beyond the redirect that set it. A redirect is an [`Answer`] that goes back to the frontier
//! as a new task, so that scope, robots, politeness and the address guard judge every hop.
//!
//! The path of a request, which is the reading order:
//!
//! 1. `options`: the caller's settings, checked once.
//! 2. `route`, `proxy`: which client sends it (`connect_to`), through which proxy, and the
//!    guard for hosts that are IP addresses or reached through a proxy.
//! 3. `rate`: waits for the global request rate.
//! 4. `client`, `resolve`, [`address_guard`]: the name is resolved, special-purpose
//!    addresses are removed, and the connection goes to one of the rest.
//! 5. `send_clocks`: waits for the clocks shared with other requests to the same address, and sends the
//!    request; `term_client`, `term`: if sending is limited to some time, a client whose connections
//!    write only then.
//! 6. `headers`: a redirect's target, a `Retry-After`, the version of a page.
//! 7. `body`: the bytes, decoded, under a cap, in time, at the global byte rate, and
//!    counted while they are in memory; `room`: the memory for large bodies; `underway`:
//!    slow exchanges that give way to others.
//! 8. `error`: failures, classified by type.
//! 9. [`outcome()`]: the table of their consequences.
//!
//! [`part`] requests a part of a file, and [`parts`] several parts politely; a crawl does not use
//! them.
//!
//! This crate does not know which URL is next and when (the frontier does), scope, the content of a
//! body, or what is on disk. Of a host it keeps one idle connection, the clocks of `send_clocks`, and
//! a cookie until the redirect that set it has been followed. Only [`parts`] reads robots rules.

// Tests choose their own file names.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod address_guard;
mod body;
mod client;
mod error;
mod headers;
pub mod identity;
mod options;
mod outcome;
pub mod part;
pub mod parts;
mod proxy;
mod rate;
mod resolve;
mod room;
mod route;
mod send_clocks;
mod term;
mod term_client;
#[cfg(test)]
mod tests;
mod underway;
mod visit;
mod wire;

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use reqwest::header::{CONTENT_TYPE, COOKIE, HOST, HeaderMap};
use reqwest::{Method, Request};

use spoor_settings as settings;
use spoor_values::{address, clock, coding, fs, page};

use crate::address::PageUrl;
use crate::coding::{CodingError, Decoder, Headers};
use crate::page::{Booking, Fetched, TaskKind, TermsHeaders, Validators, Wire, content_type};

pub use body::HeldBytes;
pub use client::{FILES_TO_KEEP, check_authorities};
pub use error::{FetchError, FetchFailure, Phase, Received};
pub use headers::stored_redirect;
pub use options::{Options, SetupError};
pub use outcome::outcome;
pub use term::Term;

use body::{ExchangeWatch, Gauge, How};
use rate::RateLimits;
use resolve::NameService;
use room::BodySource;
use route::Router;
use send_clocks::{Exit, Gates};
use term::Tenure;
use underway::Underway;
use visit::{Cookies, VisitCookies};

/// Sends requests. Clones share connections, rates and the byte count.
#[derive(Debug, Clone)]
pub struct Fetcher {
    inner: Arc<FetcherInner>,
}

#[derive(Debug)]
struct FetcherInner {
    options: Options,
    router: Router,
    names: NameService,
    rates: RwLock<Arc<RateLimits>>,
    gauge: Arc<Gauge>,
    gates: Arc<Gates>,
    underway: Arc<Underway>,
    visits: VisitCookies,
    /// Whether the proxy has let any request through.
    let_through: AtomicBool,
}

/// How long the body of a non-document answer may take to arrive for the archive.
const ASIDE_TIME: Duration = Duration::from_secs(5);

/// The result of a booked request.
#[derive(Debug)]
pub struct Exchanged {
    /// The server's answer.
    pub answer: Result<Answer, FetchError>,
    /// How long the request waited for its clocks.
    pub waited: Duration,
    /// What was sent and received; `None` unless [`Options::archive`] is set, and if the answer did
    /// not arrive completely.
    pub wire: Option<Box<Wire>>,
}

/// A server's response.
#[derive(Debug)]
pub enum Answer {
    /// A status of 200 to 299.
    Body {
        /// The response.
        fetched: Fetched,
        /// Its share of [`Fetcher::bytes_in_flight`]; drop it with the body.
        held: HeldBytes,
    },
    /// The resource is elsewhere. The body was not read.
    Redirect {
        /// The status, 300 to 308.
        status: u16,
        /// The target; never the requested address.
        to: PageUrl,
        /// The headers that state terms of use.
        terms: TermsHeaders,
        /// The delay that the server asks for (`Retry-After`), uncapped.
        retry_after: Option<Duration>,
        /// From sending the request to the end of the head.
        elapsed: Duration,
    },
    /// Status 304: the known version is still current. Only the response to a conditional
    /// request.
    NotModified {
        /// The server's identifiers for that version now, if given.
        validators: Validators,
        /// The headers that state terms of use.
        terms: TermsHeaders,
        /// The delay that the server asks for (`Retry-After`), uncapped.
        retry_after: Option<Duration>,
        /// From sending the request to the end of the head.
        elapsed: Duration,
    },
}

impl Answer {
    /// The HTTP status.
    pub fn status(&self) -> u16 {
        match self {
            Self::Body { fetched, .. } => fetched.status,
            Self::Redirect { status, .. } => *status,
            Self::NotModified { .. } => 304,
        }
    }

    /// Decoded body bytes that were read and kept.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Body { fetched, .. } => fetched.body.len() as u64,
            Self::Redirect { .. } | Self::NotModified { .. } => 0,
        }
    }

    /// From sending the request to the last byte read, excluding our own throttling.
    pub fn elapsed(&self) -> Duration {
        match self {
            Self::Body { fetched, .. } => fetched.elapsed,
            Self::Redirect { elapsed, .. } | Self::NotModified { elapsed, .. } => *elapsed,
        }
    }
}

impl Fetcher {
    /// Checks the options and builds the clients. Nothing is sent.
    ///
    /// # Errors
    ///
    /// [`SetupError`] with the option and advice.
    pub fn new(options: Options) -> Result<Self, SetupError> {
        Self::asking(options, &NameService::system())
    }

    fn asking(options: Options, names: &NameService) -> Result<Self, SetupError> {
        options.check()?;
        Ok(Self {
            inner: Arc::new(FetcherInner {
                router: Router::new(&options, names)?,
                names: names.clone(),
                rates: RwLock::new(Arc::new(RateLimits::new(&options)?)),
                gauge: Arc::default(),
                gates: Arc::default(),
                underway: Arc::default(),
                visits: VisitCookies::default(),
                let_through: AtomicBool::new(false),
                options,
            }),
        })
    }

    /// How many lookups have found an address so far. While it grows, DNS is working.
    pub fn names_found(&self) -> u64 {
        self.inner.names.found()
    }

    /// Changes the global rates. Requests already waiting and bodies being read keep the
    /// old ones.
    ///
    /// # Errors
    ///
    /// [`SetupError::Rate`]; then the rates are unchanged.
    pub fn set_rates(
        &self,
        requests_per_second: Option<f64>,
        bytes_per_second: Option<u64>,
    ) -> Result<(), SetupError> {
        let rates = RateLimits::new(&Options {
            requests_per_second,
            bytes_per_second,
            ..Options::default()
        })?;
        // A single pointer is written, so a panic cannot leave it half changed.
        let held = self.inner.rates.write();
        *held.unwrap_or_else(PoisonError::into_inner) = Arc::new(rates);
        Ok(())
    }

    /// The shortest mean time between two requests whose responses have `bytes` bytes, by
    /// the global rates; zero without rates.
    pub fn interval(&self, bytes: f64) -> Duration {
        self.rates().interval(bytes)
    }

    fn rates(&self) -> Arc<RateLimits> {
        let held = self.inner.rates.read();
        Arc::clone(&held.unwrap_or_else(PoisonError::into_inner))
    }

    /// The address that a request for `url` would go to; `None` if the operator redirects
    /// it (`connect_to`). Only DNS is queried.
    ///
    /// # Errors
    ///
    /// [`FetchFailure::Dns`], [`FetchFailure::PrivateAddress`], and [`FetchFailure::Unsendable`]
    /// as for a fetch.
    pub async fn locate(&self, url: &PageUrl) -> Result<Option<IpAddr>, FetchError> {
        self.locate_again(url, &Booking::default()).await
    }

    /// The same for a host with a known address: keeps that address, or looks for another
    /// one if there was no response from it.
    ///
    /// # Errors
    ///
    /// As [`Fetcher::locate`].
    pub async fn locate_again(
        &self,
        url: &PageUrl,
        known: &Booking,
    ) -> Result<Option<IpAddr>, FetchError> {
        self.inner.router.locate(url, known).await
    }

    /// Requests `url` once, with the headers and caps of its kind.
    ///
    /// Anything but an image is truncated at its cap. Dropping the future ends the
    /// exchange and releases its resources.
    ///
    /// # Errors
    ///
    /// [`FetchError`], which includes what was received of the exchange. For robots.txt
    /// the caller interprets [`FetchFailure::Status`] (RFC 9309 section 2.3.1);
    /// [`outcome()`] does it.
    pub async fn fetch(&self, url: &PageUrl, kind: TaskKind) -> Result<Answer, FetchError> {
        self.fetch_unless(url, kind, &Validators::default()).await
    }

    /// The same, unless the version that `known` names is still current: then the result
    /// is [`Answer::NotModified`]. Empty validators mean an unconditional request.
    ///
    /// # Errors
    ///
    /// As [`Fetcher::fetch`].
    pub async fn fetch_unless(
        &self,
        url: &PageUrl,
        kind: TaskKind,
        known: &Validators,
    ) -> Result<Answer, FetchError> {
        let booking = Booking::default();
        self.fetch_booked(url, kind, known, &booking).await.answer
    }

    /// The same for a booked request: it goes to the booked address as soon as its clocks
    /// permit.
    pub async fn fetch_booked(
        &self,
        url: &PageUrl,
        kind: TaskKind,
        known: &Validators,
        booking: &Booking,
    ) -> Exchanged {
        let exit = self.inner.gates.exit(booking);
        let mut wire = None;
        let answer = self.fetch_by(url, kind, known, &exit, &mut wire).await;
        Exchanged {
            answer,
            waited: exit.waited(),
            wire,
        }
    }

    async fn fetch_by(
        &self,
        url: &PageUrl,
        kind: TaskKind,
        known: &Validators,
        exit: &Arc<Exit>,
        wire: &mut Option<Box<Wire>>,
    ) -> Result<Answer, FetchError> {
        let over = || -> FetchError {
            let host = url.host().to_owned();
            FetchFailure::TermOver { host }.into()
        };
        let tenure = self.inner.options.term.as_ref().map(|term| term.tenure());
        let tenure = tenure.map(|tenure| tenure.ok_or_else(over)).transpose()?;
        if let Some(tenure) = &tenure {
            exit.during(tenure);
        }
        let route = self.inner.router.route(url)?;
        let limit = self.inner.options.connect_timeout;
        let judged = tokio::time::timeout(limit, self.inner.router.judge(url)).await;
        judged.unwrap_or_else(|_| {
            Err(FetchFailure::Timeout {
                host: url.host().to_owned(),
                phase: Phase::Connecting,
            }
            .into())
        })?;
        self.rates().request().await;
        let limits = &self.inner.options;
        let (open, _underway) = self.inner.underway.enter(exit.least_time());
        exit.rests(&open);
        let own = Arc::clone(&open);
        let mut watch = ExchangeWatch::start(limits.total_timeout, limits.read_timeout, own);
        let condition = headers::condition(known);
        let sent = (route, exit);
        let answer = tokio::select! {
            biased;
            () = ended(tenure.as_ref()) => Err(over()),
            answer = self.exchange(url, kind, condition, sent, &mut watch, wire) => answer,
            () = open.is_to_end() => Err(FetchFailure::Timeout {
                host: url.host().to_owned(),
                phase: Phase::Others,
            }.into()),
        };
        if let Ok(answer) = &answer {
            self.inner.underway.answered(answer.elapsed());
        }
        // A connection that was cut at the end of the term is not the host's fault.
        let is_over = tenure.is_some_and(|tenure| tenure.is_over());
        let cause = |error| if is_over { over() } else { error };
        answer.map_err(|e| cause(e).with_seen(watch.seen()))
    }

    /// Ends the slowest requests until at most `most` slow ones are left. A request is
    /// slow after ten seconds and after eight times the usual duration of a response.
    /// Ended requests fail with [`FetchFailure::Timeout`]. Returns how many were ended.
    pub fn give_way(&self, most: usize) -> usize {
        self.inner.underway.give_way(most)
    }

    /// Bytes of bodies in memory: those being read, and those whose [`HeldBytes`] live.
    pub fn bytes_in_flight(&self) -> u64 {
        self.inner.gauge.bytes()
    }

    /// The result of an answer whose head decides alone: a redirect, no change, or an error. `None`
    /// if its body is to be read.
    fn without_body(
        &self,
        url: &PageUrl,
        response: &reqwest::Response,
        (kind, conditional, cookies): (TaskKind, bool, &Cookies),
        watch: &ExchangeWatch,
    ) -> Result<Option<Answer>, FetchError> {
        let inner = &*self.inner;
        let (status, head) = (response.status().as_u16(), response.headers());
        let retry_after = headers::retry_after(head, SystemTime::now());
        if headers::is_redirect(status, head) {
            let to = if kind.is_rules() && headers::has_targets(head) {
                Err("it has several Location headers that differ".to_owned())
            } else {
                headers::redirect_target(url, head)
            };
            let bad = |why| FetchFailure::BadRedirect {
                status,
                retry_after,
                why,
            };
            let to = to.map_err(bad)?;
            let cookies = visit::after(cookies, url, &to, head);
            let cookies = cookies.filter(|_| inner.options.cookies);
            if to == *url && cookies.is_none() {
                return Err(bad("it points at itself".to_owned()).into());
            }
            if let Some(cookies) = cookies {
                inner.visits.put(to.clone(), cookies);
            }
            let elapsed = watch.elapsed();
            return Ok(Some(Answer::Redirect {
                status,
                to,
                terms: headers::terms(head),
                retry_after,
                elapsed,
            }));
        }
        if status == 304 && conditional {
            return Ok(Some(Answer::NotModified {
                validators: headers::validators(head),
                terms: headers::terms(head),
                retry_after,
                elapsed: watch.elapsed(),
            }));
        }
        if status != 407 {
            inner.let_through.store(true, Ordering::Relaxed);
        } else if inner.router.proxied() {
            // After that, it may come from a hostile server behind the proxy.
            if !inner.let_through.load(Ordering::Relaxed) {
                return Err(FetchFailure::Proxy.into());
            }
            return Err(FetchFailure::Connection {
                host: url.host().to_owned(),
                why: "the proxy asks for a user name and a password".to_owned(),
                unreached: false,
            }
            .into());
        }
        // Rules are read as a whole or not at all, and no part was requested.
        let is_part = status == 206 && kind.is_rules();
        if status == 402 {
            let price = head.get("crawler-price").map(headers::text);
            return Err(FetchFailure::Payment { price }.into());
        }
        if !(200..=299).contains(&status) || is_part {
            return Err(FetchFailure::Status {
                status,
                retry_after,
            }
            .into());
        }
        Ok(None)
    }

    /// Waits until fewer than `limit` bytes are in flight. If a caller awaits this before each
    /// fetch, memory is bounded by `limit` plus one body for each running fetch; `limit` is at
    /// least 1.
    pub async fn bytes_below(&self, limit: u64) {
        self.inner.gauge.below(limit.max(1)).await;
    }

    /// Adds the body of a non-document answer. It is worth only a moment, and an answer whose body
    /// does not arrive is not archived.
    async fn aside(
        &self,
        mut own: Box<Wire>,
        host: &str,
        response: reqwest::Response,
        watch: &mut ExchangeWatch,
    ) -> Option<Box<Wire>> {
        if own.status != 304 {
            let held = HeldBytes::none(&self.inner.gauge, Vec::new());
            let rates = self.rates();
            let how = How {
                cap: wire::ASIDE_CAP,
                decoder: None,
                keeps_coded: false,
            };
            let body = body::read(host, response, how, watch, &rates, held);
            let body = tokio::time::timeout(ASIDE_TIME, body).await.ok()?.ok()?;
            own.body = body.bytes;
            own.truncated = body.truncated;
            watch.bytes = 0;
        }
        Some(own)
    }

    async fn exchange(
        &self,
        url: &PageUrl,
        kind: TaskKind,
        condition: HeaderMap,
        (route, exit): (route::Route<'_>, &Arc<Exit>),
        watch: &mut ExchangeWatch,
        wire: &mut Option<Box<Wire>>,
    ) -> Result<Answer, FetchError> {
        let inner = &*self.inner;
        let host = url.host();
        let conditional = !condition.is_empty();
        let mut headers = client::headers(kind);
        headers.extend(condition);
        let cookies = inner.visits.take(url);
        headers.extend(visit::header(&cookies).map(|cookies| (COOKIE, cookies)));
        headers.extend(route.host_header.map(|header| (HOST, header)));
        let mut nonce = None;
        if let Some(identity) = &inner.options.identity {
            let (own, signed) = identity.headers(url, &inner.options.user_agent());
            headers.extend(own);
            nonce = signed;
        }
        let mut request = Request::new(Method::GET, route.url);
        *request.headers_mut() = headers;
        let archive = inner.options.archive;
        let sent = archive.then(|| wire::request(&request, &inner.options.user_agent()));
        let sending = Arc::clone(exit).send(route.client.execute(request));
        let response = watch.head(host, || exit.waited(), sending).await?;
        let status = response.status().as_u16();
        watch.status = Some(status);
        let cap = inner.options.cap(kind);
        let peer = response.remote_addr().filter(|_| route.direct);
        let ip = peer.map(|peer| peer.ip());
        let codings = headers::codings(response.headers());
        let is_coded = !codings.is_empty();
        let mut own = sent.map(|sent| Box::new(wire::response(&response, sent, ip, is_coded)));
        let request = (kind, conditional, &cookies);
        let mut settled = self.without_body(url, &response, request, watch);
        if matches!(status, 401 | 403 | 429)
            && let Some(identity) = &inner.options.identity
            && identity.is_challenge(url, response.headers(), nonce.as_deref())
            // A 429 to a signed request asks for patience, not only for another signature.
            && (status != 429 || nonce.is_none())
        {
            let retry_after = headers::retry_after(response.headers(), SystemTime::now());
            settled = Err(FetchFailure::Challenge {
                status,
                retry_after,
            }
            .into());
        }
        if let Some(answer) = settled.transpose() {
            if let Some(own) = own {
                *wire = self.aside(own, host, response, watch).await;
            }
            return answer;
        }
        let head = response.headers();
        let too_large = |declared| FetchFailure::TooLarge { cap, declared };
        let declared = response.content_length();
        if kind == TaskKind::Image && declared.is_some_and(|bytes| bytes > cap as u64) {
            return Err(too_large(declared).into());
        }
        let types = head.get_all(CONTENT_TYPE).iter().map(headers::text);
        let types: Vec<String> = types.collect();
        let terms = headers::terms(head);
        let validators = headers::validators(head);
        let mut sources = vec![BodySource::Host(host.into())];
        sources.extend(ip.map(BodySource::Address));
        let held = HeldBytes::none(&inner.gauge, sources);
        let undecodable = |error| FetchError::undecodable(host, &error);
        let how = How {
            cap,
            decoder: Decoder::new(&codings, Headers::Live).map_err(undecodable)?,
            keeps_coded: archive,
        };
        let mut body = body::read(host, response, how, watch, &self.rates(), held).await?;
        if kind == TaskKind::Image && body.truncated {
            return Err(too_large(None).into());
        }
        if let (Some(own), Some(coded)) = (&mut own, body.coded) {
            own.body = coded;
            own.truncated = body.truncated;
        }
        if kind.is_rules() {
            if body.has_rest {
                return Err(undecodable(CodingError::Rest));
            }
            body.bytes = coding::unpacked(body.bytes, cap).map_err(undecodable)?;
        }
        *wire = own;
        Ok(Answer::Body {
            fetched: Fetched {
                status,
                content_type: content_type(&types, &body.bytes),
                terms,
                validators,
                body: body.bytes,
                truncated: body.truncated,
                elapsed: watch.elapsed(),
                date: None,
            },
            held: body.held,
        })
    }
}

/// Returns at the end of a tenure; never if there is no limit.
async fn ended(tenure: Option<&Tenure>) {
    match tenure {
        Some(tenure) => tenure.clone().ended().await,
        None => std::future::pending().await,
    }
}
