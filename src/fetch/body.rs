//! Reads a body within limits on bytes, time, the memory shared by large bodies and the
//! global byte rate; counts the bytes held in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use reqwest::Response;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::error::{ClientFailure, FetchError, FetchFailure, Phase, Received, classify};
use super::rate::RateLimits;
use super::room::{BodyRoom, BodySource, NoRoom, Room, SMALL};
use super::underway::RunningExchange;
use crate::coding::{CodingError, Decoder};

/// Bytes decoded at a time.
const PIECE: usize = 16 << 10;

/// Counts the bytes of bodies in memory, including those still being read.
#[derive(Debug, Default)]
pub(super) struct Gauge {
    bytes: AtomicU64,
    fell: Notify,
    room: Arc<Room>,
}

impl Gauge {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Waits until fewer than `limit` bytes are held.
    pub(super) async fn below(&self, limit: u64) {
        loop {
            let fell = self.fell.notified();
            tokio::pin!(fell);
            // Registered before the check, so that no change in between is missed.
            fell.as_mut().enable();
            if self.bytes() < limit {
                return;
            }
            fell.await;
        }
    }
}

/// A share of [`super::Fetcher::bytes_in_flight`], returned when dropped. Keep it as long
/// as the body it came with.
#[derive(Debug)]
pub struct HeldBytes {
    gauge: Arc<Gauge>,
    bytes: u64,
    /// Its share of the memory for large bodies.
    part: Box<BodyRoom>,
}

impl HeldBytes {
    /// No bytes yet, for a body from these sources.
    pub(super) fn none(gauge: &Arc<Gauge>, sources: Vec<BodySource>) -> Self {
        Self {
            gauge: gauge.clone(),
            bytes: 0,
            part: Box::new(gauge.room.part(sources)),
        }
    }

    /// The number of bytes it represents.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn add(&mut self, count: usize) {
        self.bytes += count as u64;
        self.gauge.bytes.fetch_add(count as u64, Ordering::AcqRel);
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.gauge.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        self.gauge.fell.notify_waiters();
    }
}

/// Measures an exchange and ends it in time. Waiting for our own byte rate does not count
/// as slowness of the server.
#[derive(Debug)]
pub(super) struct ExchangeWatch {
    start: Instant,
    throttled: Duration,
    limit: Duration,
    /// The time limit of one step.
    idle: Duration,
    pub(super) status: Option<u16>,
    pub(super) bytes: u64,
    /// Its entry among all open exchanges.
    open: Arc<RunningExchange>,
}

impl ExchangeWatch {
    /// For an exchange with the time limit `limit`, and `idle` for each step: the head,
    /// and the next decoded bytes of the body. The client's own read timeout is
    /// unsuitable, because it continues while a body waits for memory and is not read.
    pub(super) fn start(limit: Duration, idle: Duration, open: Arc<RunningExchange>) -> Self {
        Self {
            open,
            start: Instant::now(),
            throttled: Duration::ZERO,
            limit,
            idle,
            status: None,
            bytes: 0,
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.start.elapsed().saturating_sub(self.throttled)
    }

    /// Awaits a pause of our own, which does not count against the server.
    async fn pause<T>(&mut self, pause: impl Future<Output = T>) -> T {
        let begun = Instant::now();
        let _paused = self.open.pause();
        let done = pause.await;
        self.throttled += begun.elapsed();
        done
    }

    pub(super) fn seen(&self) -> Received {
        Received {
            status: self.status,
            bytes: self.bytes,
            elapsed: self.elapsed(),
        }
    }

    /// Awaits the head of the response within the time left, not counting the time that
    /// the request `waited` before it was sent.
    pub(super) async fn head<T>(
        &mut self,
        host: &str,
        waited: impl Fn() -> Duration,
        head: impl Future<Output = Result<T, impl ClientFailure>>,
    ) -> Result<T, FetchError> {
        let begun = Instant::now();
        tokio::pin!(head);
        let done = loop {
            let waited = waited();
            let whole = self
                .limit
                .saturating_sub(self.elapsed().saturating_sub(waited));
            let idle = self
                .idle
                .saturating_sub(begun.elapsed().saturating_sub(waited));
            let left = whole.min(idle);
            if let Ok(done) = tokio::time::timeout(left, &mut head).await {
                break done.map_err(|e| classify(host, &e, Phase::Head).into());
            }
            if left.is_zero() {
                break Err(FetchFailure::Timeout {
                    host: host.to_owned(),
                    phase: if whole.is_zero() {
                        Phase::Whole
                    } else {
                        Phase::Head
                    },
                }
                .into());
            }
        };
        self.throttled += waited();
        done
    }

    /// Awaits a step of the exchange within the time left.
    pub(super) async fn within<T>(
        &self,
        host: &str,
        phase: Phase,
        step: impl Future<Output = Result<T, reqwest::Error>>,
    ) -> Result<T, FetchError> {
        let left = self.limit.saturating_sub(self.elapsed());
        match tokio::time::timeout(left.min(self.idle), step).await {
            Ok(done) => done.map_err(|e| classify(host, &e, phase).into()),
            Err(_) => Err(FetchFailure::Timeout {
                host: host.to_owned(),
                phase: if left <= self.idle {
                    Phase::Whole
                } else {
                    phase
                },
            }
            .into()),
        }
    }
}

/// A body, or its first `cap` bytes.
#[derive(Debug)]
pub(super) struct Body {
    /// With its codings undone.
    pub(super) bytes: Bytes,
    /// As received, if that is wanted.
    pub(super) coded: Option<Bytes>,
    pub(super) held: HeldBytes,
    /// There were more than `cap` bytes, and the rest was not read.
    pub(super) truncated: bool,
    /// Bytes followed the coded body that do not belong to it.
    pub(super) has_rest: bool,
}

/// How a body is read.
#[derive(Debug)]
pub(super) struct How {
    /// Maximum size, decoded and as received.
    pub(super) cap: usize,
    /// Undoes its codings.
    pub(super) decoder: Option<Decoder>,
    /// Whether the body as received is wanted as well.
    pub(super) keeps_coded: bool,
}

/// Reads a body chunk by chunk, and decodes a few KiB at a time, so memory never exceeds the cap by
/// more than one chunk, even for a highly compressed body.
pub(super) async fn read(
    host: &str,
    mut response: Response,
    how: How,
    watch: &mut ExchangeWatch,
    rates: &RateLimits,
    mut held: HeldBytes,
) -> Result<Body, FetchError> {
    let How {
        cap,
        mut decoder,
        keeps_coded,
    } = how;
    // A declared length may be wrong, and is that of the coded body. Reserved memory that is not
    // written costs nothing, and the excess is returned in place.
    let declared = response.content_length().map(usize::try_from);
    let declared = declared.and_then(Result::ok).unwrap_or(SMALL);
    let mut body = Vec::with_capacity(declared.min(cap).min(SMALL));
    let mut buffer = vec![0; if decoder.is_some() { PIECE } else { 0 }];
    let (mut coded, mut came) = (Vec::new(), 0);
    let begun = watch.elapsed();
    let truncated = 'whole: loop {
        let part = &mut held.part;
        let chunk = if part.is_empty() {
            watch.within(host, Phase::Body, response.chunk()).await?
        } else {
            tokio::select! {
                biased;
                chunk = watch.within(host, Phase::Body, response.chunk()) => chunk?,
                () = part.is_too_slow(body.len(), || watch.elapsed()) => {
                    return Err(FetchFailure::Timeout {
                        host: host.to_owned(),
                        phase: Phase::Room,
                    }.into());
                }
            }
        };
        let is_last = chunk.is_none();
        let chunk = chunk.unwrap_or_default();
        came += chunk.len();
        if decoder.is_some() && keeps_coded {
            held.add(chunk.len());
            coded.extend_from_slice(&chunk);
        }
        watch.pause(rates.bytes(chunk.len())).await;
        let mut rest = chunk.as_ref();
        loop {
            let piece = match &mut decoder {
                None => std::mem::take(&mut rest),
                Some(decoder) => {
                    let decoded = decoder.decode(&mut rest, &mut buffer, is_last);
                    let length = decoded.map_err(|error| FetchError::undecodable(host, &error))?;
                    &buffer[..length]
                }
            };
            if piece.is_empty() {
                break;
            }
            let room = cap - body.len();
            let kept = piece.get(..room).unwrap_or(piece);
            let (length, longest) = (body.len() + kept.len(), watch.limit);
            if length > SMALL {
                held.part.came(kept.len());
                let grown = watch.pause(held.part.grow(length, longest));
                grown.await.map_err(|NoRoom| FetchFailure::NoRoom {
                    host: host.to_owned(),
                })?;
            }
            held.add(kept.len());
            if held.part.is_beyond() && body.capacity() < cap {
                // Reserves everything at once; pages that are not written take no memory.
                // Repeated doubling would keep the old and the new buffer in memory for a
                // while.
                body.try_reserve_exact(cap - body.len()).ok();
            }
            body.extend_from_slice(kept);
            watch.bytes = body.len() as u64;
            if piece.len() > room {
                break 'whole true;
            }
        }
        if is_last {
            break false;
        }
        if decoder.is_some() && came / 2 > cap {
            return Err(FetchError::undecodable(host, &CodingError::Hollow));
        }
    };
    if body.len() > SMALL {
        let took = watch.elapsed().saturating_sub(begun);
        held.gauge.room.came(body.len(), took);
        held.part.came_whole();
    }
    // A growing vector has up to twice the capacity it needs.
    let boxed = |bytes: Vec<u8>| Bytes::from(bytes.into_boxed_slice());
    let bytes = boxed(body);
    let is_coded = decoder.is_some();
    Ok(Body {
        coded: keeps_coded.then(|| {
            if is_coded {
                boxed(coded)
            } else {
                bytes.clone()
            }
        }),
        bytes,
        held,
        truncated,
        has_rest: decoder.is_some_and(|decoder| decoder.has_rest()),
    })
}

#[cfg(test)]
mod tests {
    use super::super::underway::Underway;
    use super::*;

    #[tokio::test]
    async fn the_gauge_falls_when_a_guard_is_dropped() {
        let gauge = Arc::new(Gauge::default());
        let mut first = HeldBytes::none(&gauge, Vec::new());
        let mut second = HeldBytes::none(&gauge, Vec::new());
        first.add(70);
        second.add(50);
        first.add(10);
        assert_eq!((gauge.bytes(), first.bytes()), (130, 80));
        let waiting = tokio::spawn({
            let gauge = gauge.clone();
            async move { gauge.below(60).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(first);
        waiting.await.unwrap();
        assert_eq!(gauge.bytes(), 50);
        drop(second);
        gauge.below(1).await;
        assert_eq!(gauge.bytes(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_before_the_request_is_not_held_against_the_server() {
        let (whole, idle) = (Duration::from_secs(10), Duration::from_secs(5));
        let begun = Instant::now();
        let waits = Duration::from_secs(60);
        let waited = || begun.elapsed().min(waits);
        let (open, _out) = Arc::new(Underway::default()).enter(Duration::ZERO);
        let mut watch = ExchangeWatch::start(whole, idle, open);
        let answer = async {
            tokio::time::sleep(waits + Duration::from_secs(4)).await;
            Ok::<_, reqwest::Error>(7)
        };
        assert_eq!(watch.head("a.org", waited, answer).await, Ok(7));
        let millis = watch.elapsed().as_millis();
        assert!((4_000..4_010).contains(&millis), "{millis}");
        let begun = Instant::now();
        let waited = || begun.elapsed().min(waits);
        let (open, _out) = Arc::new(Underway::default()).enter(Duration::ZERO);
        let mut watch = ExchangeWatch::start(whole, idle, open);
        let never = std::future::pending::<Result<(), reqwest::Error>>();
        let error = watch.head("a.org", waited, never).await.unwrap_err();
        let phase = Phase::Head;
        assert!(matches!(error.kind, FetchFailure::Timeout { phase: p, .. } if p == phase));
        assert!((64..66).contains(&begun.elapsed().as_secs()));
    }

    #[tokio::test(start_paused = true)]
    async fn throttling_is_not_held_against_the_server() {
        let (open, _out) = Arc::new(Underway::default()).enter(Duration::ZERO);
        let mut watch = ExchangeWatch::start(Duration::from_secs(10), Duration::from_secs(5), open);
        tokio::time::advance(Duration::from_secs(3)).await;
        let pause = tokio::time::sleep(Duration::from_secs(27));
        watch.pause(pause).await;
        assert_eq!(watch.elapsed(), Duration::from_secs(3));
    }
}
