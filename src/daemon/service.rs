//! What the service manager is told, where one listens (sd_notify(3)): that the crawl has
//! begun, how it stands, that it is alive, that it ends. Without one nothing happens.

use std::time::{Duration, Instant};

use sd_notify::NotifyState;

/// How often it is told how the crawl stands.
const STATUS: Duration = Duration::from_secs(5);

/// A crawl as the service manager sees it.
pub(super) struct Service {
    /// How often a sign of life is due, where any is: twice as often as demanded.
    watchdog: Option<Duration>,
    alive: Instant,
    status: Option<Instant>,
}

impl Service {
    /// Tells that the crawl has begun.
    pub fn ready() -> Self {
        tell(&[NotifyState::Ready]);
        Self {
            watchdog: sd_notify::watchdog_enabled().map(|demanded| demanded / 2),
            alive: Instant::now(),
            status: None,
        }
    }

    /// Gives a sign of life where one is due. To be called by the loop itself, so that a
    /// loop that hangs gives none.
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

/// Tells that the crawl ends.
pub(super) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

fn tell(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::debug!("the service manager cannot be told: {error}");
    }
}
