//! The global rates: requests per second, and body bytes per second.
//!
//! They protect the crawler's own network; politeness to hosts is the frontier's task.
//! Both use the generic cell rate algorithm (`governor`) on tokio's clock, and waiting
//! tasks sleep until their turn.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::options::{Options, SetupError};

/// Bytes are counted in cells of this size: cells are spaced in whole nanoseconds, too
/// coarse for single bytes at hundreds of megabytes a second.
const CELL: u64 = 64;

/// Unused budget that may be spent at once, as a fraction of a second.
const BURST: f64 = 0.1;

/// The two limits of a fetcher.
#[derive(Debug)]
pub(super) struct RateLimits {
    requests: Option<Limit>,
    bytes: Option<Limit>,
}

impl RateLimits {
    /// # Errors
    ///
    /// [`SetupError::Rate`] if a rate is not positive or not a number.
    pub(super) fn new(options: &Options) -> Result<Self, SetupError> {
        let requests = options.requests_per_second.map(|rate| {
            Limit::new(rate).ok_or_else(|| SetupError::Rate {
                value: rate.to_string(),
                unit: "requests",
                least: "0.000001",
            })
        });
        let bytes = options.bytes_per_second.map(|rate| {
            let cells = (rate >= CELL).then(|| Limit::new(rate as f64 / CELL as f64));
            cells.flatten().ok_or_else(|| SetupError::Rate {
                value: rate.to_string(),
                unit: "bytes",
                least: "64",
            })
        });
        Ok(Self {
            requests: requests.transpose()?,
            bytes: bytes.transpose()?,
        })
    }

    /// The shortest mean time between two requests of `bytes` bytes each.
    pub(super) fn interval(&self, bytes: f64) -> Duration {
        let of = |limit: &Option<Limit>, count: f64| {
            limit
                .as_ref()
                .map_or(0.0, |l| l.period.as_secs_f64() * count)
        };
        let longest = of(&self.requests, 1.0).max(of(&self.bytes, bytes / CELL as f64));
        Duration::try_from_secs_f64(longest).unwrap_or(Duration::MAX)
    }

    /// Waits until one more request may be sent.
    pub(super) async fn request(&self) {
        if let Some(limit) = &self.requests {
            limit.take(1).await;
        }
    }

    /// Charges bytes that were read; returns how long it had to wait.
    pub(super) async fn bytes(&self, count: usize) -> Duration {
        let Some(limit) = &self.bytes else {
            return Duration::ZERO;
        };
        let start = Instant::now();
        limit.take((count as u64).div_ceil(CELL)).await;
        start.elapsed()
    }
}

/// One generic cell rate.
#[derive(Debug)]
struct Limit {
    limiter: RateLimiter<NotKeyed, InMemoryState, TokioClock, NoOpMiddleware<Duration>>,
    /// First come, first served, and only the first task watches the clock.
    turn: Mutex<()>,
    burst: NonZeroU32,
    /// Between two cells.
    period: Duration,
    clock: TokioClock,
}

impl Limit {
    /// `None` unless the rate is between one per eleven days (roughly) and one per nanosecond.
    fn new(per_second: f64) -> Option<Self> {
        if !(1e-6..=1e9).contains(&per_second) {
            return None;
        }
        let period = Duration::from_secs_f64(1.0 / per_second);
        // At least one, and far below `u32::MAX` by the range above.
        let burst = NonZeroU32::new((per_second * BURST) as u32).unwrap_or(NonZeroU32::MIN);
        let clock = TokioClock(Instant::now());
        let quota = Quota::with_period(period)?.allow_burst(burst);
        Some(Self {
            limiter: RateLimiter::direct_with_clock(quota, clock),
            turn: Mutex::default(),
            burst,
            period,
            clock,
        })
    }

    /// Takes `count` cells, in portions that fit into the burst.
    async fn take(&self, mut count: u64) {
        let _turn = self.turn.lock().await;
        while count > 0 {
            let portion = u32::try_from(count).unwrap_or(u32::MAX);
            let Some(portion) = NonZeroU32::new(portion.min(self.burst.get())) else {
                return;
            };
            match self.limiter.check_n(portion) {
                Ok(Ok(())) => count -= u64::from(portion.get()),
                Ok(Err(not_yet)) => {
                    tokio::time::sleep(not_yet.wait_time_from(self.clock.now())).await;
                }
                // Only for more than the burst, which a portion never is.
                Err(_) => return,
            }
        }
    }
}

/// Tokio's clock for governor: the time since its creation.
#[derive(Debug, Clone, Copy)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(requests: Option<f64>, bytes: Option<u64>) -> Result<RateLimits, SetupError> {
        RateLimits::new(&Options {
            requests_per_second: requests,
            bytes_per_second: bytes,
            ..Options::default()
        })
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_spaced() {
        let rates = rates(Some(4.0), None).unwrap();
        let start = Instant::now();
        for n in 0..9u32 {
            rates.request().await;
            let (least, now) = (Duration::from_millis(250) * n, start.elapsed());
            assert!(now >= least, "request {n} after {now:?}");
            // tokio's timer rounds up to whole milliseconds.
            assert!(now <= least + Duration::from_millis(2 * 9), "{n}: {now:?}");
        }
    }

    #[test]
    fn the_interval_is_that_of_the_slower_rate() {
        let interval = |requests, bytes, of| rates(requests, bytes).unwrap().interval(of);
        let ms = Duration::from_millis;
        assert_eq!(interval(None, None, 1e6), Duration::ZERO);
        assert_eq!(interval(Some(4.0), None, 1e6), ms(250));
        assert_eq!(interval(Some(4.0), Some(6_400), 64.0), ms(250));
        assert_eq!(interval(Some(4.0), Some(6_400), 6_400.0), ms(1_000));
        assert_eq!(interval(None, Some(6_400), 0.0), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn many_waiters_share_one_rate() {
        let rates = std::sync::Arc::new(rates(Some(10.0), None).unwrap());
        let start = Instant::now();
        let waiters: Vec<_> = (0..31)
            .map(|_| {
                let rates = rates.clone();
                tokio::spawn(async move { rates.request().await })
            })
            .collect();
        for waiter in waiters {
            waiter.await.unwrap();
        }
        let took = start.elapsed();
        assert!(took >= Duration::from_secs(3), "{took:?}");
        assert!(took <= Duration::from_millis(3200), "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_chunk_beyond_the_burst_is_paid_in_portions() {
        let rates = rates(None, Some(64_000)).unwrap();
        let waited = rates.bytes(640_000).await;
        // A tenth of a second's worth is free at the start.
        assert!(waited >= Duration::from_secs_f64(9.89), "{waited:?}");
        assert!(waited <= Duration::from_secs_f64(10.2), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn no_rate_never_waits() {
        let rates = rates(None, None).unwrap();
        assert_eq!(rates.bytes(usize::MAX).await, Duration::ZERO);
    }

    #[test]
    fn useless_rates_are_refused() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-7] {
            assert!(matches!(
                rates(Some(rate), None),
                Err(SetupError::Rate { .. })
            ));
        }
        for rate in [0, 63] {
            assert!(matches!(
                rates(None, Some(rate)),
                Err(SetupError::Rate { .. })
            ));
        }
        assert!(rates(Some(0.5), Some(1 << 33)).is_ok());
    }
}
