//! Signal handling: the first SIGINT or SIGTERM stops leasing and lets tasks in flight finish; a
//! second one ends the process at once, which costs only the work in flight. SIGHUP reloads the job
//! file.

use std::path::Path;

use tokio::runtime::Handle;

use super::service;
use crate::config::Config;
use crate::control::{Changes, ConfigEdit, ControlHandle, Who};
use crate::crawl::pipeline::{Stop, Stopper};

/// The first signal drains, the second one ends the process.
pub(super) fn watch_signals(runtime: &Handle, stopper: Stopper) {
    // Listening starts here and not in the task, so that no signal is missed.
    let listening = {
        let _entered = runtime.enter();
        Signals::listen()
    };
    let Some(mut signals) = listening else {
        tracing::warn!(
            "signals cannot be watched; to stop, end the process: the job can be resumed"
        );
        return;
    };
    runtime.spawn(async move {
        if let Some(why) = signals.which().await {
            tracing::info!(
                "stopping: open requests are finished; a second signal ends the process at once"
            );
            service::stopping();
            stopper.stop(why);
            if let Some(again) = signals.which().await {
                std::process::exit(match again {
                    Stop::Terminated => 143,
                    _ => 130,
                });
            }
        }
    });
}

/// SIGINT and SIGTERM, with continuous listening so that none is missed in between.
#[cfg(unix)]
pub struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    /// Starts listening, inside a runtime; `None` if the system refuses.
    pub fn listen() -> Option<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Some(Self {
            interrupt: signal(SignalKind::interrupt()).ok()?,
            terminate: signal(SignalKind::terminate()).ok()?,
        })
    }

    /// Waits for the next one; false if none can arrive any more.
    pub async fn next(&mut self) -> bool {
        self.which().await.is_some()
    }

    /// The same, and returns which signal it was.
    async fn which(&mut self) -> Option<Stop> {
        tokio::select! {
            got = self.interrupt.recv() => got.map(|()| Stop::Interrupted),
            got = self.terminate.recv() => got.map(|()| Stop::Terminated),
        }
    }
}

/// Ctrl-C.
#[cfg(not(unix))]
pub struct Signals;

#[cfg(not(unix))]
impl Signals {
    /// Starts listening, inside a runtime; `None` if the system refuses.
    pub fn listen() -> Option<Self> {
        Some(Self)
    }

    /// Waits for the next one; false if none can arrive any more.
    pub async fn next(&mut self) -> bool {
        self.which().await.is_some()
    }

    async fn which(&mut self) -> Option<Stop> {
        let got = tokio::signal::ctrl_c().await;
        got.is_ok().then_some(Stop::Interrupted)
    }
}

/// Makes every SIGHUP reload the job file of the crawl behind `handle`. Does nothing on
/// systems without that signal.
pub fn reload_on_hangup(runtime: &Handle, handle: ControlHandle, job: &Path) {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let listening = {
            let _entered = runtime.enter();
            signal(SignalKind::hangup())
        };
        let Ok(mut hangups) = listening else {
            tracing::warn!("SIGHUP cannot be watched; use `spoor reload` instead");
            return;
        };
        let job = job.to_owned();
        let who = Who("SIGHUP".to_owned());
        runtime.spawn(async move {
            while hangups.recv().await.is_some() {
                let reloaded = match Config::load(&job) {
                    Ok(config) => {
                        let wanted = ConfigEdit::File(Box::new(config));
                        handle.change(wanted, &who).await.map(|result| result.value)
                    }
                    Err(errors) => Err(errors.into()),
                };
                match reloaded {
                    Ok(Changes { later, .. }) if later.is_empty() => {}
                    Ok(Changes { later, .. }) => {
                        let later = later.join(", ");
                        tracing::warn!("takes effect at the next start: {later}");
                    }
                    Err(error) => tracing::warn!("nothing is changed: {error}"),
                }
            }
        });
    }
    #[cfg(not(unix))]
    let _ = (runtime, handle, job);
}
