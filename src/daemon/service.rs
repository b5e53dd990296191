//! Notifications for the service manager, if there is one (sd_notify(3)): that the crawl
//! has begun, its status, that it is alive, that it ends. Without one nothing happens.

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
        tell(&[NotifyState::Ready]);
        Self {
            watchdog: sd_notify::watchdog_enabled().map(|demanded| demanded / 2),
            alive: Instant::now(),
            status: None,
        }
    }

    /// Sends a watchdog notification if one is due. To be called by the loop itself, so
    /// that a hanging loop sends none.
    pub fn round(&mut self, status: impl FnOnce() -> String) {
        if self.watchdog.is_some_and(|w| self.alive.elapsed() >= w) {
            self.alive = Instant::now();
            tell(&[NotifyState::Watchdog]);
        }
        if self.status.is_none_or(|told| told.elapsed() >= STATUS) {
            self.status = Some(Instant::now());
            tell(&[NotifyState::Status(&status())]);
        }
    }
}

/// Reports that the crawl ends.
pub(super) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!("the service manager cannot be notified: {error}");
    }
}
