//! The open exchanges, and which of them give way to others.
//!
//! A server may take as long as `total_timeout` permits, by sending nothing or a byte now and then,
//! and a few dozen such servers would occupy all places of a crawl. That is harmless while places
//! are free. If other hosts are ready and no place is free, the exchanges that have taken longest
//! give way ([`Underway::give_way`]): each of them has had some seconds and much more time than a
//! response usually takes, and some may continue. Their addresses are fetched again later.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// How much longer than usual an exchange may take, as a factor.
const PATIENCE: f64 = 8.0;

/// The number of responses over which the usual time is averaged; older ones fade.
const REMEMBERED: f64 = 64.0;

/// All exchanges of a fetcher.
#[derive(Debug, Default)]
pub(super) struct Underway(Mutex<UnderwayState>);

#[derive(Debug, Default)]
struct UnderwayState {
    next: u64,
    /// In order of their start.
    open: BTreeMap<u64, Arc<RunningExchange>>,
    /// Mean time of a response, in seconds, and the number of responses.
    usual: (f64, f64),
}

/// One exchange.
#[derive(Debug)]
pub(super) struct RunningExchange {
    clock: Mutex<Clock>,
    signal: Notify,
}

#[derive(Debug)]
struct Clock {
    begun: Instant,
    /// The minimum time that it gets.
    least: Duration,
    /// Time spent waiting for something local.
    rested: Duration,
    /// When the current local wait started, if there is one.
    pause: Option<Instant>,
    /// Whether it was signalled to give way.
    is_ending: bool,
}

/// Ends a pause when dropped.
#[derive(Debug)]
pub(super) struct Paused(Arc<RunningExchange>);

/// Removes an exchange when dropped.
#[derive(Debug)]
pub(super) struct Leave {
    underway: Arc<Underway>,
    number: u64,
}

impl Underway {
    /// Registers an exchange that gets at least the time `least`.
    pub(super) fn enter(self: &Arc<Self>, least: Duration) -> (Arc<RunningExchange>, Leave) {
        let exchange = Arc::new(RunningExchange {
            clock: Mutex::new(Clock {
                begun: Instant::now(),
                least,
                rested: Duration::ZERO,
                pause: None,
                is_ending: false,
            }),
            signal: Notify::new(),
        });
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.open.insert(number, Arc::clone(&exchange));
        drop(state);
        let underway = Arc::clone(self);
        (exchange, Leave { underway, number })
    }

    /// Records a response that took this time.
    pub(super) fn answered(&self, took: Duration) {
        let (mean, count) = &mut self.state().usual;
        *count = (*count + 1.0).min(REMEMBERED);
        *mean += (took.as_secs_f64() - *mean) / *count;
    }

    /// Signals the exchanges that have taken longest to give way, until at most `most` slow ones
    /// are left; returns the number of signals.
    pub(super) fn give_way(&self, most: usize) -> usize {
        let state = self.state();
        let patience = Duration::try_from_secs_f64(state.usual.0 * PATIENCE);
        let patience = patience.unwrap_or(Duration::MAX);
        let long = state.open.values().filter(|e| e.has_taken(patience));
        let many = long.clone().count().saturating_sub(most);
        long.take(many).for_each(|exchange| exchange.signal_end());
        many
    }

    fn state(&self) -> MutexGuard<'_, UnderwayState> {
        // If a panic left these numbers half changed, only the estimate gets worse.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.underway.state().open.remove(&self.number);
    }
}

impl RunningExchange {
    /// Returns when it is signalled to give way.
    pub(super) async fn is_to_end(&self) {
        self.signal.notified().await;
    }

    /// Suspends its time while it waits for something local, until the result is dropped.
    pub(super) fn pause(self: &Arc<Self>) -> Paused {
        self.clock().pause = Some(Instant::now());
        Paused(Arc::clone(self))
    }

    /// Whether it has taken longer than this, and was not signalled yet. Waiting for memory, or for
    /// the job's rate, does not count.
    fn has_taken(&self, patience: Duration) -> bool {
        let clock = self.clock();
        let taken = clock.begun.elapsed().saturating_sub(clock.rested);
        !clock.is_ending && clock.pause.is_none() && taken >= patience.max(clock.least)
    }

    fn signal_end(&self) {
        self.clock().is_ending = true;
        self.signal.notify_one();
    }

    fn clock(&self) -> MutexGuard<'_, Clock> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        let mut clock = self.0.clock();
        if let Some(since) = clock.pause.take() {
            clock.rested += since.elapsed();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const LEAST: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn those_that_have_taken_longest_give_way() {
        let all = Arc::new(Underway::default());
        let first = all.enter(LEAST);
        tokio::time::advance(SECOND).await;
        let second = all.enter(LEAST);
        tokio::time::advance(SECOND).await;
        let third = all.enter(LEAST);
        tokio::time::advance(LEAST - 2 * SECOND).await;
        // Only the first has had its minimum time.
        assert_eq!(all.give_way(1), 0);
        tokio::time::advance(2 * SECOND).await;
        assert_eq!(all.give_way(1), 2);
        first.0.is_to_end().await;
        second.0.is_to_end().await;
        // They are about to end, and the third may continue.
        assert_eq!(all.give_way(1), 0);
        drop((first, second));
        assert_eq!(all.give_way(0), 1);
        drop(third);
        assert_eq!(all.give_way(0), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn our_own_pauses_do_not_count_as_slowness() {
        let all = Arc::new(Underway::default());
        let (exchange, _out) = all.enter(LEAST);
        let paused = exchange.pause();
        tokio::time::advance(100 * SECOND).await;
        assert_eq!(all.give_way(0), 0);
        drop(paused);
        tokio::time::advance(LEAST - SECOND).await;
        assert_eq!(all.give_way(0), 0);
        tokio::time::advance(SECOND).await;
        assert_eq!(all.give_way(0), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn where_all_are_slow_all_have_time() {
        let all = Arc::new(Underway::default());
        (0..100).for_each(|_| all.answered(20 * SECOND));
        let (_exchange, _out) = all.enter(LEAST);
        tokio::time::advance(159 * SECOND).await;
        assert_eq!(all.give_way(0), 0);
        tokio::time::advance(2 * SECOND).await;
        assert_eq!(all.give_way(0), 1);
    }
}
