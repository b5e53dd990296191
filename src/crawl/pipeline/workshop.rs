//! Where slow work is done: large bodies, and files that separate processes read. It does not block
//! the workers of the pool, which finish a page in milliseconds.
//!
//! A workshop has a few places. A free place goes to the waiting domain whose work took the least
//! time recently, and domains whose work took long share half of the places. So a host that sends
//! the worst bodies it can make delays only itself. The threads here have a low priority: they use
//! the CPU time that the pool leaves.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::{Notify, oneshot};
use tracing::Span;

use crate::address::HostKey;
use crate::page::Outcome;

/// The result for a body: how its task ends, and what is kept.
type Made<P> = (Outcome, Option<P>);

/// The finished work on a body, or the rest of it that a worker of the pool should not do.
pub enum Work<P> {
    /// It is done.
    Done(Outcome, Option<P>),
    /// It takes much memory, so such work is done one at a time.
    Large(Rest<P>),
    /// A separate process does most of it.
    File(Rest<P>),
}

/// Work that is still to be done.
pub type Rest<P> = Box<dyn FnOnce() -> Made<P> + Send>;

/// The turn of [`Work::here`]. It protects no data, so a panic cannot leave any inconsistent.
static HERE: Mutex<()> = Mutex::new(());

impl<P> From<Made<P>> for Work<P> {
    fn from((outcome, product): Made<P>) -> Self {
        Self::Done(outcome, product)
    }
}

impl<P> Work<P> {
    /// Does all of it on this thread, for callers without a workshop.
    pub fn here(self) -> Made<P> {
        match self {
            Self::Done(outcome, product) => (outcome, product),
            Self::File(rest) => rest(),
            Self::Large(rest) => {
                let _turn = HERE.lock().unwrap_or_else(PoisonError::into_inner);
                rest()
            }
        }
    }
}

/// The recent working time above which a domain counts as costly, in seconds.
const COSTLY: f64 = 20.0;

/// The half-life of a domain's working time, in seconds.
const HALF_LIFE: f64 = 300.0;

/// The priority of threads here: beside a busy pool they get about a tenth of a worker's time. If
/// more tasks wait than are set aside, less is leased, and the pool leaves more.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// Beyond this number of domains, those with the least working time are forgotten.
const MOST_DOMAINS: usize = 4_096;

/// A few places for slow work.
#[derive(Debug)]
pub(super) struct Workshop {
    state: Mutex<WorkshopState>,
    /// Notified when a place is free.
    changed: Notify,
    places: usize,
}

#[derive(Debug, Default)]
struct WorkshopState {
    working: usize,
    /// How many of these are for costly domains.
    costly: usize,
    /// The domains that wait, in order of arrival.
    waiting: BTreeMap<u64, Arc<str>>,
    next: u64,
    /// The seconds of each domain, as they counted at that time.
    taken: HashMap<Arc<str>, (f64, Instant)>,
}

/// A place at work. It is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Turn {
    shop: Arc<Workshop>,
    domain: Arc<str>,
    began: Instant,
    costly: bool,
}

impl Workshop {
    pub fn new(places: usize) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            changed: Notify::new(),
            places: places.max(1),
        })
    }

    /// How many tasks are here, at work or waiting.
    pub fn inside(&self) -> usize {
        let state = self.state();
        state.working + state.waiting.len()
    }

    /// Waits for a place.
    pub async fn turn(self: &Arc<Self>, host: &HostKey) -> Turn {
        let place = self.wait(host.registered_domain().into());
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registered before the check, so that no change in between is missed.
            changed.as_mut().enable();
            if let Some(turn) = self.take(place.number, Instant::now()) {
                return turn;
            }
            changed.await;
        }
    }

    fn wait(&self, domain: Arc<str>) -> Waiting<'_> {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.waiting.insert(number, domain);
        drop(state);
        Waiting { shop: self, number }
    }

    /// The turn of the waiter with this number, if it is next.
    fn take(self: &Arc<Self>, number: u64, now: Instant) -> Option<Turn> {
        let mut state = self.state();
        if state.working >= self.places || state.first(self.places.div_ceil(2), now)? != number {
            return None;
        }
        let domain = state.waiting.remove(&number)?;
        let costly = state.is_costly(&domain, now);
        state.working += 1;
        state.costly += usize::from(costly);
        drop(state);
        // Another place may be free.
        self.changed.notify_waiters();
        Some(Turn {
            shop: Arc::clone(self),
            domain,
            began: now,
            costly,
        })
    }

    /// Does work on a thread of its own. `None` if it ended in a panic, or there are no more
    /// threads.
    pub async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, done) = oneshot::channel();
        let span = Span::current();
        let thread = std::thread::Builder::new().name("workshop".to_owned());
        let started = thread.spawn(move || {
            yield_to_others();
            // The crawl may have ended.
            sender.send(span.in_scope(work)).ok();
        });
        started.ok()?;
        done.await.ok()
    }

    fn state(&self) -> MutexGuard<'_, WorkshopState> {
        // No code that could panic runs while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives this thread, and the processes that it starts, a lower priority.
fn yield_to_others() {
    // If that fails, they keep the normal priority.
    #[cfg(target_os = "linux")]
    rustix::process::nice(NICENESS).ok();
}

impl WorkshopState {
    /// The seconds that a domain has taken recently.
    fn taken(&self, domain: &str, now: Instant) -> f64 {
        let taken = self.taken.get(domain);
        taken.map_or(0.0, |(seconds, at)| faded(*seconds, *at, now))
    }

    fn is_costly(&self, domain: &str, now: Instant) -> bool {
        self.taken(domain, now) > COSTLY
    }

    /// Who is next, if costly domains may have this many places.
    fn first(&self, places_of_costly: usize, now: Instant) -> Option<u64> {
        let waiting = self.waiting.iter();
        let waiting = waiting.map(|(number, domain)| (self.taken(domain, now), *number));
        let may = waiting.filter(|(taken, _)| *taken <= COSTLY || self.costly < places_of_costly);
        let first = may.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        first.map(|(_, number)| number)
    }

    fn add(&mut self, domain: &Arc<str>, seconds: f64, now: Instant) {
        let taken = self.taken(domain, now) + seconds;
        self.taken.insert(Arc::clone(domain), (taken, now));
        if self.taken.len() > MOST_DOMAINS {
            let mut all: Vec<f64> = self.taken.keys().map(|d| self.taken(d, now)).collect();
            let middle = all.len() / 2;
            let (_, median, _) = all.select_nth_unstable_by(middle, f64::total_cmp);
            let median = *median;
            self.taken
                .retain(|_, (seconds, at)| faded(*seconds, *at, now) > median);
        }
    }
}

/// How much of the seconds taken at an earlier time still counts.
fn faded(seconds: f64, at: Instant, now: Instant) -> f64 {
    let age = now.saturating_duration_since(at).as_secs_f64();
    seconds * (-age / HALF_LIFE).exp2()
}

impl Drop for Turn {
    fn drop(&mut self) {
        let now = Instant::now();
        let seconds = now.saturating_duration_since(self.began).as_secs_f64();
        let mut state = self.shop.state();
        state.working -= 1;
        state.costly -= usize::from(self.costly);
        state.add(&self.domain, seconds, now);
        drop(state);
        self.shop.changed.notify_waiters();
    }
}

/// A place in the queue, given up when dropped.
struct Waiting<'a> {
    shop: &'a Workshop,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.shop.state().waiting.remove(&self.number).is_some() {
            self.shop.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn waits(shop: &Arc<Workshop>, domain: &str) -> u64 {
        let waiting = shop.wait(domain.into());
        let number = waiting.number;
        std::mem::forget(waiting);
        number
    }

    fn taking(shop: &Workshop, domain: &str, seconds: f64, now: Instant) {
        shop.state().add(&domain.into(), seconds, now);
    }

    #[test]
    fn the_domain_that_has_taken_least_comes_first() {
        let now = Instant::now();
        let shop = Workshop::new(1);
        taking(&shop, "much.test", 9.0, now);
        taking(&shop, "some.test", 3.0, now);
        let much = waits(&shop, "much.test");
        let some = waits(&shop, "some.test");
        let first = waits(&shop, "none.test");
        let second = waits(&shop, "other.test");
        for number in [first, second, some, much] {
            let others = [first, second, some, much];
            let others = others.into_iter().filter(|other| *other != number);
            let earlier = others.map(|other| shop.take(other, now).is_some());
            assert_eq!(earlier.filter(|taken| *taken).count(), 0, "{number}");
            let turn = shop.take(number, now).expect("its turn");
            assert!(shop.take(number, now).is_none());
            drop(turn);
        }
        assert_eq!(shop.inside(), 0);
        // What was taken long ago counts little.
        let later = now + Duration::from_secs(1_200);
        assert!(shop.state().taken("much.test", later) < 0.6);
    }

    #[test]
    fn costly_domains_leave_a_place_to_others() {
        let now = Instant::now();
        let shop = Workshop::new(2);
        for domain in ["a.test", "b.test"] {
            taking(&shop, domain, COSTLY + 1.0, now);
        }
        let a = waits(&shop, "a.test");
        let b = waits(&shop, "b.test");
        let of_a = shop.take(a, now).expect("one costly one at a time");
        assert!(shop.take(b, now).is_none());
        let honest = waits(&shop, "honest.test");
        let of_honest = shop.take(honest, now).expect("a place is kept for others");
        assert!(shop.take(b, now).is_none());
        drop(of_a);
        assert!(shop.take(b, now).is_some());
        drop(of_honest);
    }

    #[test]
    fn few_domains_are_remembered_those_that_have_taken_most() {
        let now = Instant::now();
        let shop = Workshop::new(1);
        for number in 0..2 * MOST_DOMAINS {
            taking(&shop, &format!("{number}.test"), number as f64, now);
            assert!(shop.state().taken.len() <= MOST_DOMAINS);
        }
        let most = 2 * MOST_DOMAINS - 1;
        assert!(shop.state().taken(&format!("{most}.test"), now) > 1.0);
        assert!(shop.state().taken("1.test", now) < 1.0);
    }

    #[tokio::test]
    async fn a_panic_costs_one_piece_of_work() {
        let shop = Workshop::new(1);
        let turn = shop.turn(&HostKey::from_stored("a.test")).await;
        let panicked: Option<u8> = shop.work(|| panic!("a defect")).await;
        assert_eq!(panicked, None);
        drop(turn);
        let turn = shop.turn(&HostKey::from_stored("a.test")).await;
        assert_eq!(shop.work(|| 7).await, Some(7));
        assert_eq!(shop.inside(), 1);
        drop(turn);
        assert_eq!(shop.inside(), 0);
    }
}
