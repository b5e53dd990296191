//! How many requests should be open at once: enough to keep every core busy, and no more.
//!
//! Each page that is read improves the choice of the next request. An answer that waits for a core
//! was therefore requested too early, and it blocks its host for a better request. By Little's law
//! (1961), the number of requests that must be under way is the time of one request divided by the
//! time of the slowest step per answer. The slowest step is the processing, the frontier, or the
//! request rate that the job permits.
//!
//! If the hosts answer at once, a crawl keeps a few requests open; if they are slow or in
//! their crawl delay, it opens as many as the job permits.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Answers per core that may wait or be in processing: one of each.
const READY_PER_CORE: usize = 2;
/// The number of answers that the mean times cover; older ones fade.
const REMEMBERED: f64 = 64.0;

/// The open requests, and the time of each step. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Concurrency(Arc<Mutex<Steps>>);

#[derive(Debug)]
struct Steps {
    cores: usize,
    began: Instant,
    /// Requests without a complete answer.
    open: u32,
    /// The sum of the times at which they were sent, in seconds since `began`.
    sent: f64,
    /// The time of a request, in seconds.
    request: Mean,
    /// The time of the processing on a core, in seconds.
    processing: Mean,
    /// The time that the frontier and the outputs take for an answer, in seconds.
    completing: Mean,
    /// The size of an answer.
    bytes: Mean,
}

/// A mean in which old values fade.
#[derive(Debug, Default)]
struct Mean {
    value: f64,
    weight: f64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.weight = (self.weight + 1.0).min(REMEMBERED);
        self.value += (value - self.value) / self.weight;
    }
}

/// A request that counts as open until this is dropped.
#[derive(Debug)]
pub(super) struct OpenRequest {
    concurrency: Concurrency,
    sent: Instant,
}

impl Concurrency {
    pub fn new(cores: usize) -> Self {
        Self(Arc::new(Mutex::new(Steps {
            cores: cores.max(1),
            began: Instant::now(),
            open: 0,
            sent: 0.0,
            request: Mean::default(),
            processing: Mean::default(),
            completing: Mean::default(),
            bytes: Mean::default(),
        })))
    }

    /// Counts a request that was sent at this time.
    pub fn open(&self, sent: Instant) -> OpenRequest {
        let mut steps = self.steps();
        steps.open += 1;
        steps.sent += steps.since_it_began(sent);
        drop(steps);
        let concurrency = self.clone();
        OpenRequest { concurrency, sent }
    }

    /// Notes how long the processing of an answer took; zero if it had no body.
    pub fn processed(&self, time: Duration) {
        self.steps().processing.add(time.as_secs_f64());
    }

    /// Notes how long the frontier and the outputs took for an answer.
    pub fn completed(&self, time: Duration) {
        self.steps().completing.add(time.as_secs_f64());
    }

    /// How many tasks may be leased at once. `interval` returns the minimum time between two
    /// requests that the job's rates allow, for answers of a given size.
    pub fn limit(&self, now: Instant, interval: impl Fn(f64) -> Duration) -> usize {
        let steps = self.steps();
        let processing = steps.processing.value / steps.cores as f64;
        let interval = interval(steps.bytes.value).as_secs_f64();
        let slowest = processing.max(steps.completing.value).max(interval);
        // Open requests may be those of hosts that never answer. Without their age in the
        // formula a few of them would use up a small limit.
        let age = match steps.open {
            0 => 0.0,
            open => steps.since_it_began(now) - steps.sent / f64::from(open),
        };
        let under_way = steps.request.value.max(age) / slowest;
        let ready = READY_PER_CORE * steps.cores;
        // Infinite or NaN until the first answer is processed.
        if under_way.is_finite() {
            ready.saturating_add(under_way.ceil() as usize)
        } else {
            usize::MAX
        }
    }

    fn steps(&self) -> MutexGuard<'_, Steps> {
        // Numbers that a panic left half changed only make the estimate worse.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Steps {
    fn since_it_began(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.began).as_secs_f64()
    }
}

impl OpenRequest {
    /// Notes how long the request took, without the wait for the job's rates, and the size of the
    /// answer.
    pub fn answered(self, took: Duration, bytes: u64) {
        let mut steps = self.concurrency.steps();
        steps.request.add(took.as_secs_f64());
        steps.bytes.add(bytes as f64);
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let mut steps = self.concurrency.steps();
        steps.open = steps.open.saturating_sub(1);
        let sent = steps.since_it_began(self.sent);
        steps.sent = match steps.open {
            0 => 0.0,
            _ => steps.sent - sent,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn no_rate(_: f64) -> Duration {
        Duration::ZERO
    }

    /// After 200 answers with these times.
    fn measured(
        cores: usize,
        request: Duration,
        processing: Duration,
        completing: Duration,
    ) -> Concurrency {
        let concurrency = Concurrency::new(cores);
        let steps = |w: &Concurrency, i: u32| {
            w.processed(processing * (i % 2));
            w.completed(completing);
            w.open(Instant::now()).answered(request, 1_000);
        };
        (0..200).for_each(|i| steps(&concurrency, i));
        concurrency
    }

    #[test]
    fn before_the_first_answer_is_processed_there_is_no_limit() {
        let concurrency = Concurrency::new(2);
        assert_eq!(concurrency.limit(Instant::now(), no_rate), usize::MAX);
        concurrency.open(Instant::now()).answered(MS, 0);
        assert_eq!(concurrency.limit(Instant::now(), no_rate), usize::MAX);
    }

    #[test]
    fn fast_hosts_need_few_requests_and_slow_ones_many() {
        let now = Instant::now();
        // Every other answer takes 10 ms on a core: 5 ms on average, 2.5 with two cores.
        let limit = |request| measured(2, request, 10 * MS, MS).limit(now, no_rate);
        assert_eq!(limit(Duration::ZERO), 4);
        assert!((4..=5).contains(&limit(MS)), "{}", limit(MS));
        let far = limit(300 * MS);
        assert!((110..=140).contains(&far), "{far}");
        // With more cores more answers may wait, and more requests must be under way.
        let more = measured(8, 300 * MS, 10 * MS, Duration::ZERO).limit(now, no_rate);
        assert!((440..=560).contains(&more), "{more}");
    }

    #[test]
    fn the_frontier_may_be_the_slowest_step() {
        let limit = measured(8, 100 * MS, 2 * MS, 50 * MS).limit(Instant::now(), no_rate);
        assert!((18..=19).contains(&limit), "{limit}");
    }

    #[test]
    fn the_rate_of_the_job_may_be_the_slowest_step() {
        let concurrency = measured(2, 300 * MS, 2 * MS, MS);
        let limit = concurrency.limit(Instant::now(), |bytes| {
            assert!((bytes - 1_000.0).abs() < 1e-6, "{bytes}");
            25 * MS
        });
        assert!((16..=17).contains(&limit), "{limit}");
    }

    #[test]
    fn hosts_that_do_not_answer_do_not_use_up_the_limit() {
        let concurrency = measured(2, MS, 10 * MS, MS);
        let sent = Instant::now();
        let silent: Vec<OpenRequest> = (0..5).map(|_| concurrency.open(sent)).collect();
        assert!(concurrency.limit(sent, no_rate) <= 6);
        let later = concurrency.limit(sent + 100 * MS, no_rate);
        assert!(later >= 30, "{later}");
        drop(silent);
        let steps = concurrency.steps();
        assert_eq!((steps.open, steps.sent), (0, 0.0));
    }
}
