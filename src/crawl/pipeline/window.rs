//! How many requests are worth having open: enough that nothing that works on answers
//! stands idle, and no more.
//!
//! What is asked next is chosen by all that is known, and every page that is read tells
//! more. An answer that waits for a core was chosen too early, and it keeps its host from
//! being asked for something better. While one answer is worked on, as many others must be
//! under way as arrive in that time (Little 1961): the time that a request takes, by the
//! time that the slowest step takes for one, be it the work, the frontier or the rate at
//! which the job permits requests at all.
//!
//! A crawl whose hosts answer in a moment keeps a few requests open; one whose hosts are
//! far away, or that waits for them, as many as it may.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Answers that may wait or be worked on, for each core: one in work and one behind it.
const READY_PER_CORE: usize = 2;
/// Answers over which times are taken together; older ones fade.
const REMEMBERED: f64 = 64.0;

/// The requests that are open, and how long each step takes. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Window(Arc<Mutex<Steps>>);

#[derive(Debug)]
struct Steps {
    cores: usize,
    began: Instant,
    /// Requests whose answer has not come whole, and the sum of the times at which they
    /// were sent, in seconds since it began.
    open: u32,
    sent: f64,
    /// Of a request, of the work on a core and of the frontier's part; in seconds.
    asking: Mean,
    working: Mean,
    settling: Mean,
    /// Of an answer.
    bytes: Mean,
}

/// A mean that forgets.
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

/// A request that is open until it is answered or this is dropped.
#[derive(Debug)]
pub(super) struct Open {
    window: Window,
    sent: Instant,
}

impl Window {
    pub fn new(cores: usize) -> Self {
        Self(Arc::new(Mutex::new(Steps {
            cores: cores.max(1),
            began: Instant::now(),
            open: 0,
            sent: 0.0,
            asking: Mean::default(),
            working: Mean::default(),
            settling: Mean::default(),
            bytes: Mean::default(),
        })))
    }

    /// A request is sent.
    pub fn open(&self, sent: Instant) -> Open {
        let mut steps = self.steps();
        steps.open += 1;
        steps.sent += steps.since_it_began(sent);
        drop(steps);
        let window = self.clone();
        Open { window, sent }
    }

    /// An answer took so long on a core; nothing where there was nothing to work on.
    pub fn worked(&self, time: Duration) {
        self.steps().working.add(time.as_secs_f64());
    }

    /// The frontier's part of an answer took so long.
    pub fn settled(&self, time: Duration) {
        self.steps().settling.add(time.as_secs_f64());
    }

    /// How many requests may be open or waited on, where `interval` lies between two
    /// requests at least whose answers have so many bytes.
    pub fn room(&self, now: Instant, interval: impl Fn(f64) -> Duration) -> usize {
        let steps = self.steps();
        let worked = steps.working.value / steps.cores as f64;
        let interval = interval(steps.bytes.value).as_secs_f64();
        let slowest = worked.max(steps.settling.value).max(interval);
        // Those that are open still may be of hosts that never answer: without them a few
        // such would fill a small window.
        let age = match steps.open {
            0 => 0.0,
            open => steps.since_it_began(now) - steps.sent / f64::from(open),
        };
        let under_way = steps.asking.value.max(age) / slowest;
        let ready = READY_PER_CORE * steps.cores;
        // Where nothing was worked on yet it is infinite or no number.
        match under_way.is_finite() {
            true => ready.saturating_add(under_way.ceil() as usize),
            false => usize::MAX,
        }
    }

    fn steps(&self) -> MutexGuard<'_, Steps> {
        // Numbers that a panic left half changed are only a worse guess.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Steps {
    fn since_it_began(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.began).as_secs_f64()
    }
}

impl Open {
    /// It was answered with so many bytes, after so long, the waiting for the job's own
    /// rates not counted.
    pub fn answered(self, took: Duration, bytes: u64) {
        let mut steps = self.window.steps();
        steps.asking.add(took.as_secs_f64());
        steps.bytes.add(bytes as f64);
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut steps = self.window.steps();
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

    /// After enough answers of the same kind.
    fn window(cores: usize, asking: Duration, working: Duration, settling: Duration) -> Window {
        let window = Window::new(cores);
        let steps = |w: &Window, i: u32| {
            w.worked(working * (i % 2));
            w.settled(settling);
            w.open(Instant::now()).answered(asking, 1_000);
        };
        (0..200).for_each(|i| steps(&window, i));
        window
    }

    #[test]
    fn before_anything_was_worked_on_all_may_be_asked() {
        let window = Window::new(2);
        assert_eq!(window.room(Instant::now(), no_rate), usize::MAX);
        window.open(Instant::now()).answered(MS, 0);
        assert_eq!(window.room(Instant::now(), no_rate), usize::MAX);
    }

    #[test]
    fn near_hosts_need_few_requests_and_far_ones_many() {
        let now = Instant::now();
        // Every other answer is worked on, 10 ms; so 5 ms each, 2.5 with two cores.
        let room = |asking| window(2, asking, 10 * MS, MS).room(now, no_rate);
        assert_eq!(room(Duration::ZERO), 4);
        assert!((4..=5).contains(&room(MS)), "{}", room(MS));
        let far = room(300 * MS);
        assert!((110..=140).contains(&far), "{far}");
        // With more cores more may wait, and more must be under way.
        let more = window(8, 300 * MS, 10 * MS, Duration::ZERO).room(now, no_rate);
        assert!((440..=560).contains(&more), "{more}");
    }

    #[test]
    fn the_frontier_may_be_what_is_slowest() {
        let room = window(8, 100 * MS, 2 * MS, 50 * MS).room(Instant::now(), no_rate);
        assert!((18..=19).contains(&room), "{room}");
    }

    #[test]
    fn the_rate_of_the_job_may_be_what_is_slowest() {
        let window = window(2, 300 * MS, 2 * MS, MS);
        let room = window.room(Instant::now(), |bytes| {
            assert!((bytes - 1_000.0).abs() < 1e-6, "{bytes}");
            25 * MS
        });
        assert!((16..=17).contains(&room), "{room}");
    }

    #[test]
    fn hosts_that_do_not_answer_do_not_fill_it() {
        let window = window(2, MS, 10 * MS, MS);
        let sent = Instant::now();
        let silent: Vec<Open> = (0..5).map(|_| window.open(sent)).collect();
        assert!(window.room(sent, no_rate) <= 6);
        let later = window.room(sent + 100 * MS, no_rate);
        assert!(later >= 30, "{later}");
        drop(silent);
        let steps = window.steps();
        assert_eq!((steps.open, steps.sent), (0, 0.0));
    }
}
