//! The memory that large bodies share, and how it is distributed.
//!
//! Every body may have [`SMALL`] bytes. Beyond that it draws on one [`Room`], a step at a
//! time, first come, first served; no host and no address has more than [`SHARE`] of it.
//! One body at a time needs no room at all, so that bodies larger than their share also
//! complete, one after the other.
//!
//! Room is taken while a body is read and processed, and a remote server determines how long that
//! takes. So while others wait for room, a body must receive within [`TURN`] as many bytes as it
//! holds; one that was slower over the last [`WINDOW`] releases its room and is fetched again
//! later. On a slow line no body is fast, so the minimum rate is at most a quarter of the usual
//! one. A body also does not keep room without progress: if no room is released for that long, a
//! waiting body releases what it holds if others want it. Bodies that started first go first. While
//! complete bodies hold room, this machine is the bottleneck, and no body gives up.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Bytes that every body may take; most need no more.
pub(super) const SMALL: usize = 256 << 10;

/// Bytes that all bodies together may take in addition. A limit on requests does not bound
/// this: each of 64 open requests may bring 10 MiB.
const ROOM: usize = 16 << 20;

/// Bytes of the room that one host, and one address, may have.
const SHARE: usize = ROOM / 2;

/// Bytes of room that are taken at a time.
const STEP: usize = 1 << 20;

/// The time over which the speed of a body is measured.
const WINDOW: Duration = Duration::from_secs(10);

/// While others want room, a body must receive as many bytes as it holds in this time.
const TURN: Duration = Duration::from_secs(32);

/// The minimum and the maximum rate that is required of a body that holds room, in bytes per
/// second.
const LEAST: f64 = (32 << 10) as f64;
const MOST: f64 = (256 << 10) as f64;

/// The number of large bodies over which the usual rate is averaged; older ones fade.
const REMEMBERED: f64 = 64.0;

/// The source of a body.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum BodySource {
    /// The host of its URL.
    Host(Arc<str>),
    /// The address that sends it, if it is the host's own.
    Address(IpAddr),
}

/// The memory that large bodies share.
#[derive(Debug)]
pub(super) struct Room {
    state: Mutex<RoomState>,
    /// Notified when room is released, or a body starts waiting for it.
    changed: Notify,
}

#[derive(Debug)]
struct RoomState {
    left: usize,
    /// Whether a body is being read without needing room.
    beyond: bool,
    taken: HashMap<BodySource, usize>,
    /// The sources of waiting bodies, in order of arrival.
    waiting: BTreeMap<u64, Vec<BodySource>>,
    next: u64,
    /// When room was last released.
    last: Instant,
    /// Complete bodies that hold room until they are processed.
    whole: usize,
    /// Mean rate of large bodies that completed, in bytes per second, and their number.
    usual: (f64, f64),
}

impl Default for Room {
    fn default() -> Self {
        Self {
            state: Mutex::new(RoomState {
                left: ROOM,
                beyond: false,
                taken: HashMap::new(),
                waiting: BTreeMap::new(),
                next: 0,
                last: Instant::now(),
                whole: 0,
                usual: (0.0, 0.0),
            }),
            changed: Notify::new(),
        }
    }
}

/// There was no room for a body, or others wanted its room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoRoom;

/// The room of one body, released when dropped.
#[derive(Debug)]
pub(super) struct BodyRoom {
    room: Arc<Room>,
    sources: Vec<BodySource>,
    bytes: usize,
    /// Its number in the queue, which it keeps.
    number: Option<u64>,
    /// Whether it is the one body that needs no room.
    beyond: bool,
    /// Whether its body is complete.
    whole: bool,
    /// The exchange time at which the last window began, and the bytes received since.
    begun: Duration,
    came: u64,
    /// Whether they arrived too slowly in the previous window.
    slow: bool,
}

/// A place in the queue, given up when dropped.
#[derive(Debug)]
struct QueuePlace<'a> {
    room: &'a Room,
    number: u64,
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        self.room.state().waiting.remove(&self.number);
        self.room.changed.notify_waiters();
    }
}

impl Room {
    /// No room yet, for a body from these sources.
    pub(super) fn part(self: &Arc<Self>, sources: Vec<BodySource>) -> BodyRoom {
        BodyRoom {
            room: Arc::clone(self),
            sources,
            bytes: 0,
            number: None,
            beyond: false,
            whole: false,
            begun: Duration::ZERO,
            came: 0,
            slow: false,
        }
    }

    /// Records that a large body completed in this time.
    pub(super) fn came(&self, bytes: usize, took: Duration) {
        let rate = bytes as f64 / took.as_secs_f64().max(0.001);
        let (mean, count) = &mut self.state().usual;
        *count = (*count + 1.0).min(REMEMBERED);
        *mean += (rate - *mean) / *count;
    }

    fn state(&self) -> MutexGuard<'_, RoomState> {
        // No code that could panic runs while the lock is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, part: &mut BodyRoom) -> QueuePlace<'_> {
        let mut state = self.state();
        let number = part.number.unwrap_or(state.next);
        state.next = state.next.max(number + 1);
        part.number = Some(number);
        state.waiting.insert(number, part.sources.clone());
        drop(state);
        // Bodies that hold room must notice that it is wanted.
        self.changed.notify_waiters();
        QueuePlace { room: self, number }
    }
}

impl RoomState {
    /// Whether one more step fits, assuming that `back` is released first.
    fn fits(&self, sources: &[BodySource], back: Option<&BodyRoom>) -> bool {
        let bytes = back.map_or(0, |part| part.bytes);
        let of_source = |source: &BodySource| {
            let taken = self.taken.get(source).copied().unwrap_or_default();
            let same = back.is_some_and(|part| part.sources.contains(source));
            taken.saturating_sub(if same { bytes } else { 0 }) + STEP <= SHARE
        };
        self.left + bytes >= STEP && sources.iter().all(of_source)
    }

    /// The first waiting body that may take a step, or the first that may not.
    fn first(&self, fits: bool) -> Option<u64> {
        let mut waiting = self.waiting.iter();
        let found = waiting.find(|(_, sources)| self.fits(sources, None) == fits);
        found.map(|(number, _)| *number)
    }

    /// Whether releasing a part would let another body continue that cannot now.
    fn wants(&self, part: &BodyRoom, own: Option<u64>) -> bool {
        let mut others = self.waiting.iter().filter(|(n, _)| Some(**n) != own);
        others.any(|(_, sources)| {
            !self.fits(sources, None) && (part.beyond || self.fits(sources, Some(part)))
        })
    }

    /// The minimum rate for a body that holds `held` bytes, in bytes per second.
    fn least(&self, held: usize) -> f64 {
        let (usual, known) = self.usual;
        let all = (held as f64 / TURN.as_secs_f64()).clamp(LEAST, MOST);
        if known > 0.0 {
            all.min(usual / 4.0)
        } else {
            all
        }
    }
}

impl BodyRoom {
    /// Waits until a body may have `length` bytes.
    ///
    /// # Errors
    ///
    /// [`NoRoom`] if no room is released for `longest`, or others want its room while it
    /// cannot continue.
    pub(super) async fn grow(&mut self, length: usize, longest: Duration) -> Result<(), NoRoom> {
        if self.holds(length) {
            return Ok(());
        }
        let room = Arc::clone(&self.room);
        let begun = Instant::now();
        let place = room.wait(self);
        loop {
            let changed = room.changed.notified();
            tokio::pin!(changed);
            // Registered before the check, so that no change in between is missed.
            changed.as_mut().enable();
            if self.take(&place) {
                if self.holds(length) {
                    return Ok(());
                }
                continue;
            }
            let (last, whole) = {
                let state = room.state();
                (state.last, state.whole)
            };
            if whole > 0 {
                // Room of bodies being processed is released in the end.
                changed.await;
                continue;
            }
            let since = begun.max(last);
            let waited = since.elapsed();
            let wanted = self.bytes > 0 && room.state().wants(self, Some(place.number));
            if waited >= longest || (wanted && waited >= WINDOW) {
                return Err(NoRoom);
            }
            let until = if waited < WINDOW {
                WINDOW.min(longest)
            } else {
                longest
            };
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(since + until) => {}
            }
        }
    }

    /// Whether its room is enough for `length` bytes.
    fn holds(&self, length: usize) -> bool {
        self.beyond || length <= SMALL + self.bytes
    }

    /// Takes a step, or the exemption from needing room, if it is this body's turn.
    fn take(&mut self, place: &QueuePlace<'_>) -> bool {
        let room = Arc::clone(&self.room);
        let mut state = room.state();
        if state.first(true) == Some(place.number) {
            state.left -= STEP;
            for source in &self.sources {
                *state.taken.entry(source.clone()).or_default() += STEP;
            }
            self.bytes += STEP;
        } else if !state.beyond && state.first(false) == Some(place.number) {
            state.beyond = true;
            self.beyond = true;
            self.give_back(&mut state);
        } else {
            return false;
        }
        drop(state);
        // There may be more, for those after it.
        room.changed.notify_waiters();
        true
    }

    fn give_back(&mut self, state: &mut RoomState) {
        state.last = Instant::now();
        state.left += self.bytes;
        for source in &self.sources {
            if let Some(taken) = state.taken.get_mut(source) {
                *taken = taken.saturating_sub(self.bytes);
                if *taken == 0 {
                    state.taken.remove(source);
                }
            }
        }
        self.bytes = 0;
    }

    /// Whether the body needs no room.
    pub(super) fn is_beyond(&self) -> bool {
        self.beyond
    }

    /// Whether it has no room that others may want.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0 && !self.beyond
    }

    /// Records that the body is complete: how long it holds its room no longer depends on
    /// the server.
    pub(super) fn came_whole(&mut self) {
        if !self.is_empty() && !self.whole {
            self.whole = true;
            self.room.state().whole += 1;
        }
    }

    /// Records bytes of the body.
    pub(super) fn came(&mut self, bytes: usize) {
        self.came += bytes as u64;
    }

    /// Returns once the body, which has `held` bytes, was too slow over a window and
    /// others want its room. `elapsed` returns the time of the exchange so far, excluding
    /// our own pauses.
    pub(super) async fn is_too_slow(&mut self, held: usize, elapsed: impl Fn() -> Duration) {
        let room = Arc::clone(&self.room);
        loop {
            let changed = room.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let passed = self.judge(held, elapsed());
            if self.slow && room.state().wants(self, None) {
                return;
            }
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep(WINDOW.saturating_sub(passed)) => {}
            }
        }
    }

    /// Judges a window that is over; returns how much of the current one has passed.
    fn judge(&mut self, held: usize, elapsed: Duration) -> Duration {
        if self.begun.is_zero() {
            self.begun = elapsed;
        }
        let passed = elapsed.saturating_sub(self.begun);
        if passed < WINDOW {
            return passed;
        }
        let rate = self.came as f64 / passed.as_secs_f64();
        self.slow = rate < self.room.state().least(held);
        self.begun = elapsed;
        self.came = 0;
        Duration::ZERO
    }
}

impl Drop for BodyRoom {
    fn drop(&mut self) {
        if self.is_empty() {
            return;
        }
        let room = Arc::clone(&self.room);
        let mut state = room.state();
        self.give_back(&mut state);
        if self.beyond {
            state.beyond = false;
        }
        state.whole = state.whole.saturating_sub(usize::from(self.whole));
        drop(state);
        room.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(300);

    fn host(name: &str) -> Vec<BodySource> {
        vec![BodySource::Host(name.into())]
    }

    fn all_is_back(room: &Room) {
        let state = room.state();
        assert_eq!((state.left, state.beyond), (ROOM, false));
        assert!(state.taken.is_empty() && state.waiting.is_empty());
    }

    /// A body that grows in its own task, and is held until the test releases it.
    fn growing(
        room: &Arc<Room>,
        name: &str,
        length: usize,
    ) -> tokio::task::JoinHandle<Result<BodyRoom, NoRoom>> {
        let mut part = room.part(host(name));
        tokio::spawn(async move { part.grow(length, LONG).await.map(|()| part) })
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_and_an_address_have_a_share_and_one_body_needs_none() {
        let room = Arc::new(Room::default());
        let mut first = room.part(host("a"));
        first.grow(SMALL + SHARE, LONG).await.unwrap();
        assert!(!first.beyond);
        // More than its share: from here on it needs no room, and returns what it had.
        first.grow(SMALL + SHARE + 1, LONG).await.unwrap();
        assert!(first.beyond && room.state().left == ROOM);
        let mut second = room.part(host("b"));
        second.grow(SMALL + SHARE, LONG).await.unwrap();
        let of_address = |name: &str| {
            let address = BodySource::Address([10, 0, 0, 1].into());
            room.part([host(name), vec![address]].concat())
        };
        let (mut third, mut fourth) = (of_address("c"), of_address("d"));
        third.grow(SMALL + SHARE - STEP, LONG).await.unwrap();
        fourth.grow(SMALL + STEP, LONG).await.unwrap();
        drop(second);
        // There is room, but not for this address.
        let mut fifth = of_address("e");
        assert_eq!(fifth.grow(SMALL + 1, WINDOW).await, Err(NoRoom));
        room.part(host("f")).grow(SMALL + 1, LONG).await.unwrap();
        drop((first, third, fourth, fifth));
        all_is_back(&room);
    }

    #[tokio::test(start_paused = true)]
    async fn who_came_first_has_room_first() {
        let room = Arc::new(Room::default());
        let mut holders: Vec<BodyRoom> = Vec::new();
        for name in ["a", "b"] {
            let mut part = room.part(host(name));
            part.grow(SMALL + SHARE, LONG).await.unwrap();
            holders.push(part);
        }
        let mut beyond = room.part(host("c"));
        beyond.grow(SMALL + 1, LONG).await.unwrap();
        assert!(beyond.beyond);
        let mut waiting = Vec::new();
        for n in 0..9 {
            waiting.push(growing(&room, &format!("w{n}"), SMALL + STEP));
            tokio::task::yield_now().await;
        }
        assert!(waiting.iter().all(|task| !task.is_finished()));
        drop(holders.pop());
        // Room for eight steps: the ninth waits on.
        let ninth = waiting.pop().unwrap();
        let mut parts = Vec::new();
        for task in waiting {
            parts.push(task.await.unwrap().unwrap());
        }
        assert!(!ninth.is_finished());
        drop(parts);
        drop((ninth.await.unwrap().unwrap(), holders, beyond));
        all_is_back(&room);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends() {
        let room = Arc::new(Room::default());
        let mut parts = Vec::new();
        for name in ["a", "b", "c"] {
            let mut part = room.part(host(name));
            part.grow(SMALL + SHARE, LONG).await.unwrap();
            parts.push(part);
        }
        let begun = Instant::now();
        let mut late = room.part(host("d"));
        assert_eq!(late.grow(SMALL + 1, LONG).await, Err(NoRoom));
        assert_eq!(begun.elapsed(), LONG);
        // A place in the queue is free again if its task is dropped at any moment.
        let task = growing(&room, "e", SMALL + 1);
        tokio::task::yield_now().await;
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        drop((parts, late));
        all_is_back(&room);
    }

    #[tokio::test(start_paused = true)]
    async fn no_large_body_gives_up_while_this_machine_is_the_slow_part() {
        let room = Arc::new(Room::default());
        let mut parts = Vec::new();
        for name in ["a", "b", "c"] {
            let mut part = room.part(host(name));
            part.grow(SMALL + SHARE, LONG).await.unwrap();
            parts.push(part);
        }
        parts[1].came_whole();
        parts[1].came_whole();
        let waiting = growing(&room, "d", SMALL + 1);
        tokio::time::sleep(3 * LONG).await;
        assert!(!waiting.is_finished());
        drop(parts.remove(1));
        drop((waiting.await.unwrap().unwrap(), parts));
        assert_eq!(room.state().whole, 0);
        all_is_back(&room);
    }

    /// Two bodies of more than their share wait for each other's end, and hold all room.
    #[tokio::test(start_paused = true)]
    async fn who_cannot_go_on_gives_back_what_others_want() {
        let room = Arc::new(Room::default());
        let mut first = room.part(host("a"));
        first.grow(SMALL + SHARE + 1, LONG).await.unwrap();
        let begun = Instant::now();
        let stuck: Vec<_> = ["b", "c"]
            .map(|name| growing(&room, name, SMALL + SHARE + 1))
            .into_iter()
            .collect();
        tokio::task::yield_now().await;
        assert_eq!(room.state().left, 0);
        let honest = growing(&room, "d", SMALL + 1);
        let part = honest.await.unwrap().unwrap();
        assert_eq!(begun.elapsed(), WINDOW);
        // One release was enough.
        let ended = stuck.iter().filter(|task| task.is_finished()).count();
        assert_eq!(ended, 1);
        drop((part, first));
        let mut came = 0;
        for task in stuck {
            came += usize::from(task.await.unwrap().is_ok());
        }
        assert_eq!(came, 1);
        all_is_back(&room);
    }

    /// Reads a body that arrives at this rate, in bytes per second, until it is too slow.
    async fn drip(mut part: BodyRoom, rate: usize) -> Duration {
        let begun = Instant::now();
        let elapsed = move || begun.elapsed() + Duration::from_millis(1);
        loop {
            let next = tokio::time::sleep(Duration::from_millis(500));
            tokio::select! {
                () = part.is_too_slow(SHARE, elapsed) => return begun.elapsed(),
                () = next => part.came(rate / 2),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_body_gives_its_room_to_who_wants_it_and_a_fast_one_keeps_it() {
        let room = Arc::new(Room::default());
        let mut parts = Vec::new();
        for name in ["slow", "fast", "beyond"] {
            let mut part = room.part(host(name));
            part.grow(SMALL + SHARE, LONG).await.unwrap();
            parts.push(part);
        }
        assert!(parts[2].beyond);
        let [slow, fast, beyond]: [BodyRoom; 3] = parts.try_into().unwrap();
        let slow = tokio::spawn(drip(slow, 100));
        let fast = tokio::spawn(drip(fast, 300 << 10));
        let beyond = tokio::spawn(drip(beyond, 300 << 10));
        // While no other body wants the room, it may take its time.
        tokio::time::sleep(3 * WINDOW).await;
        assert!(!slow.is_finished());
        let begun = Instant::now();
        let part = growing(&room, "honest", SMALL + 1).await.unwrap().unwrap();
        assert_eq!(begun.elapsed(), Duration::ZERO, "it was known to be slow");
        assert!(slow.await.unwrap() >= 3 * WINDOW);
        tokio::time::sleep(3 * WINDOW).await;
        assert!(!fast.is_finished() && !beyond.is_finished());
        fast.abort();
        beyond.abort();
        assert!(fast.await.is_err() && beyond.await.is_err());
        drop(part);
        all_is_back(&room);
    }

    #[test]
    fn the_least_rate_follows_what_is_held_and_what_is_usual() {
        let room = Room::default();
        let least = |held| room.state().least(held);
        assert_eq!(least(SMALL), LEAST);
        assert_eq!(least(4 << 20), (128 << 10) as f64);
        assert_eq!(least(50 << 20), MOST);
        // A line on which a large body takes minutes.
        for _ in 0..100 {
            room.came(1 << 20, Duration::from_secs(64));
        }
        assert!((least(50 << 20) - 4096.0).abs() < 1.0, "{}", least(1));
    }
}
