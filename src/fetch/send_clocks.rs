//! The last gate before a request is sent: enforces the time since the previous request to
//! the same address.
//!
//! The frontier spaces out its leases, but between a lease and the request there are the global
//! rate, DNS lookups and handshakes, which a server can delay. So each request waits here again for
//! the clocks that its [`Booking`] names, and takes them at the moment it is written: on an open
//! connection at once, otherwise when the connection is established, including TLS.
//! [`AfterConnecting`] knows that moment, because it wraps the client's own connector. A clock that
//! was taken for an open connection is released if there turns out to be none.
//!
//! [`super::resolve`] gets the booked address from here, and connects to no other.
//!
//! This module does not know why two requests share a clock, or how long it runs.

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

use super::term::Tenure;
use super::underway::RunningExchange;
use crate::page::Booking;

/// Added to every pause here, because the time between this gate and the wire varies.
const GRAIN: Duration = Duration::from_millis(2);

/// With this many clocks or more, expired ones are removed.
const MANY: usize = 1_024;

tokio::task_local! {
    /// The current request.
    static SENDING: Arc<Exit>;
}

/// The address that the current request was booked for.
pub(super) fn booked_address() -> Option<IpAddr> {
    SENDING.try_with(|exit| exit.booking.address).ok().flatten()
}

/// The tenure in which the current request began.
pub(super) fn tenure() -> Option<Tenure> {
    SENDING
        .try_with(|exit| lock(&exit.state).tenure.clone())
        .ok()
        .flatten()
}

/// The clocks by name, each with the time at which it expires.
#[derive(Debug, Default)]
pub(super) struct Gates(Mutex<HostClocks>);

#[derive(Debug, Default)]
struct HostClocks {
    free: HashMap<String, Instant>,
    /// The number of clocks at which expired ones are removed.
    most: usize,
}

/// The clocks that a request has taken, each with its previous and its new time of expiry.
type TakenTurns = Vec<(String, Option<Instant>, Instant)>;

impl Gates {
    /// The exit for one request.
    pub(super) fn exit(self: &Arc<Self>, booking: &Booking) -> Arc<Exit> {
        Arc::new(Exit {
            gates: Arc::clone(self),
            booking: booking.clone(),
            state: Mutex::default(),
        })
    }

    /// Takes the clocks, if all of them have expired.
    ///
    /// # Errors
    ///
    /// The time at which the last of them expires.
    fn take(&self, wanted: &[(String, Duration)]) -> Result<TakenTurns, Instant> {
        if wanted.is_empty() {
            return Ok(TakenTurns::new());
        }
        let mut clocks = lock(&self.0);
        let now = Instant::now();
        let running = wanted.iter().filter_map(|(name, _)| clocks.free.get(name));
        if let Some(until) = running.copied().max().filter(|until| *until > now) {
            return Err(until);
        }
        if clocks.free.len() > clocks.most.max(MANY) {
            clocks.free.retain(|_, until| *until > now);
            clocks.most = 2 * clocks.free.len();
        }
        let take = |(name, pause): &(String, Duration)| {
            // A pause that exceeds the range of clocks is a long one.
            let until = now.checked_add(pause.saturating_add(GRAIN));
            let until = until.unwrap_or(now + FAR);
            let before = clocks.free.insert(name.clone(), until);
            (name.clone(), before, until)
        };
        Ok(wanted.iter().map(take).collect())
    }

    /// Releases what was taken for a request that was not sent, unless another request has
    /// taken it since.
    fn give_back(&self, taken: TakenTurns) {
        let mut clocks = lock(&self.0);
        for (name, before, until) in taken {
            if clocks.free.get(&name) == Some(&until) {
                match before {
                    Some(before) => clocks.free.insert(name, before),
                    None => clocks.free.remove(&name),
                };
            }
        }
    }
}

/// A year.
const FAR: Duration = Duration::from_secs(365 * 24 * 3_600);

/// The exit of one request.
#[derive(Debug)]
pub(super) struct Exit {
    gates: Arc<Gates>,
    booking: Booking,
    state: Mutex<GateState>,
}

#[derive(Debug, Default)]
struct GateState {
    taken: TakenTurns,
    /// How long it has waited, excluding the current wait, which started at `since`.
    waited: Duration,
    since: Option<Instant>,
    /// The exchange that is suspended while it waits here.
    exchange: Option<Arc<RunningExchange>>,
    /// The tenure in which it may be sent, if that is limited.
    tenure: Option<Tenure>,
}

impl Exit {
    /// Excludes the waits of the request from the time of this exchange.
    pub(super) fn rests(&self, exchange: &Arc<RunningExchange>) {
        lock(&self.state).exchange = Some(Arc::clone(exchange));
    }

    /// Limits the request to a tenure.
    pub(super) fn during(&self, tenure: &Tenure) {
        lock(&self.state).tenure = Some(tenure.clone());
    }

    /// Sends a request when its clocks permit it.
    pub(super) async fn send<T>(self: Arc<Self>, request: impl Future<Output = T>) -> T {
        self.pass().await;
        SENDING.scope(self, request).await
    }

    /// The time the request may take before it has to give way.
    pub(super) fn least_time(&self) -> Duration {
        self.booking.least_time
    }

    /// How long it has waited here so far.
    pub(super) fn waited(&self) -> Duration {
        let state = lock(&self.state);
        state.waited + state.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Waits until all clocks have expired, and takes them.
    async fn pass(&self) {
        loop {
            match self.gates.take(&self.booking.clocks) {
                Ok(taken) => {
                    lock(&self.state).taken = taken;
                    return;
                }
                Err(until) => {
                    let exchange = {
                        let mut state = lock(&self.state);
                        state.since = Some(Instant::now());
                        state.exchange.clone()
                    };
                    let _resting = exchange.as_ref().map(RunningExchange::pause);
                    tokio::time::sleep_until(until).await;
                    let mut state = lock(&self.state);
                    let since = state.since.take();
                    state.waited += since.map_or(Duration::ZERO, |since| since.elapsed());
                }
            }
        }
    }

    /// No connection is open, so the request has not been sent yet.
    fn connects(&self) {
        let taken = std::mem::take(&mut lock(&self.state).taken);
        self.gates.give_back(taken);
    }
}

/// No code that can panic runs while a lock is held.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wraps the connector: connecting has a time limit, and the following wait for the clocks
/// has none.
#[derive(Debug, Clone, Copy)]
pub(super) struct AfterConnecting {
    /// The time limit for connecting: DNS lookup, TCP and TLS.
    pub(super) limit: Duration,
}

impl<S> Layer<S> for AfterConnecting {
    type Service = Connecting<S>;

    fn layer(&self, inner: S) -> Self::Service {
        let limit = self.limit;
        Connecting { inner, limit }
    }
}

/// A connector followed by the gate.
#[derive(Debug, Clone)]
pub(super) struct Connecting<S> {
    inner: S,
    limit: Duration,
}

pub(super) type BoxError = Box<dyn Error + Send + Sync>;

impl<S, R> Service<R> for Connecting<S>
where
    S: Service<R, Error = BoxError>,
    S::Response: Send,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, to: R) -> Self::Future {
        let exit = SENDING.try_with(Arc::clone).ok();
        if let Some(exit) = &exit {
            exit.connects();
        }
        let connecting = tokio::time::timeout(self.limit, self.inner.call(to));
        Box::pin(async move {
            let connected = match connecting.await {
                Ok(connected) => connected?,
                Err(_) => return Err(io::Error::from(io::ErrorKind::TimedOut).into()),
            };
            // If another connection became free in the meantime, the request went there, and this
            // connection is prepared in the background for the next request.
            let is_sending = |exit: &Arc<Exit>| {
                let here = SENDING.try_with(|here| Arc::ptr_eq(here, exit));
                here.unwrap_or(false)
            };
            if let Some(exit) = exit.filter(is_sending) {
                exit.pass().await;
            }
            Ok(connected)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::underway::Underway;
    use super::*;

    fn booking(clocks: &[(&str, u64)]) -> Booking {
        let clock = |(name, ms): &(&str, u64)| ((*name).to_owned(), Duration::from_millis(*ms));
        Booking {
            clocks: clocks.iter().map(clock).collect(),
            ..Booking::default()
        }
    }

    async fn ready() -> u64 {
        0
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_here_is_no_slowness_of_the_host() {
        let underway = Arc::new(Underway::default());
        let gates = Arc::new(Gates::default());
        let clock = booking(&[("a", 60_000)]);
        gates.exit(&clock).send(ready()).await;
        let (open, _leave) = underway.enter(Duration::from_secs(10));
        let exit = gates.exit(&clock);
        exit.rests(&open);
        let sent = tokio::spawn(exit.send(ready()));
        tokio::time::sleep(Duration::from_secs(50)).await;
        assert_eq!(underway.give_way(0), 0, "it waits for a clock of ours");
        sent.await.unwrap();
        assert_eq!(underway.give_way(0), 0, "it has only begun");
        tokio::time::sleep(Duration::from_secs(11)).await;
        assert_eq!(underway.give_way(0), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_wait_for_each_other_at_the_clocks_that_they_share() {
        let gates = Arc::new(Gates::default());
        let begun = Instant::now();
        let send = |clocks: &[(&str, u64)]| gates.exit(&booking(clocks)).send(ready());
        send(&[("a", 500)]).await;
        send(&[("b", 500)]).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        send(&[("a", 500), ("c", 2_000)]).await;
        assert!((500..505).contains(&begun.elapsed().as_millis()));
        let exit = gates.exit(&booking(&[("b", 500), ("c", 100)]));
        Arc::clone(&exit).send(ready()).await;
        assert!((2_500..2_510).contains(&begun.elapsed().as_millis()));
        assert!((1_990..2_010).contains(&exit.waited().as_millis()));
        send(&[]).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_connecting_request_takes_the_clocks_once_connected() {
        let gates = Arc::new(Gates::default());
        let begun = Instant::now();
        let connects_for = |ms: u64, limit: u64| {
            let connect = Slow(Duration::from_millis(ms));
            let limit = Duration::from_millis(limit);
            let mut service = AfterConnecting { limit }.layer(connect);
            let request = async move { service.call(()).await.map(|()| begun.elapsed()) };
            gates.exit(&booking(&[("a", 500)])).send(request)
        };
        let at_once = async {
            let exit = gates.exit(&booking(&[("a", 500)]));
            exit.send(async { begun.elapsed() }).await
        };
        // Its handshake takes 400 ms, and it delays no other request until then.
        let (slow, quick) = tokio::join!(connects_for(400, 9_000), at_once);
        let slow = slow.unwrap();
        assert_eq!(quick.as_millis(), 0);
        assert!((500..505).contains(&slow.as_millis()), "{slow:?}");
        let late = connects_for(700, 600).await.unwrap_err();
        let late = late.downcast_ref::<io::Error>().unwrap();
        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn clocks_that_have_run_out_are_forgotten() {
        let gates = Arc::new(Gates::default());
        for n in 0..20 * MANY {
            let name = n.to_string();
            gates.exit(&booking(&[(&name, 5)])).send(ready()).await;
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let known = lock(&gates.0).free.len();
        assert!(known <= 2 * MANY, "{known}");
    }

    /// A connector that takes this long.
    #[derive(Clone)]
    struct Slow(Duration);

    impl Service<()> for Slow {
        type Response = ();
        type Error = BoxError;
        type Future = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, (): ()) -> Self::Future {
            let takes = self.0;
            Box::pin(async move {
                tokio::time::sleep(takes).await;
                Ok(())
            })
        }
    }
}
