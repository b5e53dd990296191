//! Notifications for the service manager (sd_notify(3)): that the crawl has begun, its status, that
//! it is alive, that it ends. Without a service manager nothing happens.

use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// How often the status is sent.
const STATUS: Duration = Duration::from_secs(5);

/// The notifications of a crawl.
pub(super) struct Service {
    /// How often a watchdog notification is due, if at all: twice as often as required.
    watchdog: Option<Duration>,
    alive: Instant,
    status: Option<Instant>,
}

impl Service {
    /// Reports that the crawl has begun.
    pub fn ready() -> Self {
        notify(&[NotifyState::Ready]);
        Self {
            watchdog: sd_notify::watchdog_enabled().map(|demanded| demanded / 2),
            alive: Instant::now(),
            status: None,
        }
    }

    /// Sends a watchdog notification if one is due. The loop itself must call this, so that a
    /// hanging loop sends none.
    pub fn round(&mut self, status: impl FnOnce() -> String) {
        if self.watchdog.is_some_and(|w| self.alive.elapsed() >= w) {
            self.alive = Instant::now();
            notify(&[NotifyState::Watchdog]);
        }
        if self.status.is_none_or(|last| last.elapsed() >= STATUS) {
            self.status = Some(Instant::now());
            notify(&[NotifyState::Status(&status())]);
        }
    }
}

/// Reports that the crawl is ending.
pub(super) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!("the service manager cannot be notified: {error}");
    }
}
