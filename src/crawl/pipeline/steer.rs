//! How a run is asked and told while it goes on: the ends of a channel that the loop
//! reads between two rounds. Whatever is asked or changed is a closure that runs on the
//! thread which owns the frontier, so nothing needs a lock and no change falls into the
//! middle of anything.
//!
//! Who asks, and whether he may, is not known here.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use super::options::{Limits, LoopOptions};
use crate::crawl::frontier::Frontier;
use crate::web::fetch::Fetcher;

/// A running [`drive`](super::drive()) between two rounds of its loop.
pub struct Steering<'a> {
    /// What is known and queued.
    pub frontier: &'a mut Frontier,
    /// What sends the requests.
    pub fetcher: &'a Fetcher,
    /// How fast it goes.
    pub options: &'a mut LoopOptions,
    /// When it ends by itself; `None` for a run without such limits.
    pub limits: Option<&'a mut Limits>,
    /// Whether it goes on.
    pub phase: &'a mut Phase,
    /// Since when the network is taken to be gone, in milliseconds since 1970.
    pub outage: Option<u64>,
    /// As many tasks are leased at the same time: [`LoopOptions::concurrency`], or fewer where more
    /// would only be chosen earlier than they need to be.
    pub most_leased: usize,
}

/// Why a run ends before it has nothing left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Ctrl-C (SIGINT).
    Interrupted,
    /// SIGTERM, as a service manager sends it.
    Terminated,
    /// Somebody said so over the control API, as `spoor ctl JOB stop` does.
    Told,
    /// Every request would fail in the same way, and only the operator can mend it.
    Hopeless,
}

/// How a run stands at this moment, for those who show it. All times are milliseconds
/// since 1970.
#[derive(Debug, Clone, Default)]
pub struct Standing {
    /// Since when nothing is asked for, until it is resumed.
    pub paused: Option<u64>,
    /// Since when and why the run is ending.
    pub stopping: Option<(u64, Stop)>,
    /// Since when the network is taken to be gone.
    pub outage: Option<u64>,
    /// When the run ends by itself, as it is set now.
    pub limits: Limits,
    /// Why every request would fail, where the run ends for that.
    pub hopeless: Option<String>,
}

/// Says how the run that was given the same [`Control`] stands. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Watch(Arc<Mutex<Standing>>);

impl Watch {
    /// How the run stood after its last round.
    pub fn now(&self) -> Standing {
        let standing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        standing.clone()
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Standing)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Whether a run goes on. All times are milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// Since when it runs: its beginning, or the end of the last pause.
    pub running: u64,
    /// Since when nothing is leased, until it is resumed.
    pub paused: Option<u64>,
    /// Since when nothing is leased any more at all.
    pub stopping: Option<u64>,
    /// Why it ends, where it does.
    pub stop: Option<Stop>,
}

impl Phase {
    /// Nothing more is leased; what is in flight finishes. False where it was so before.
    pub fn pause(&mut self, now: u64) -> bool {
        let begins = self.paused.is_none();
        self.paused.get_or_insert(now);
        begins
    }

    /// Ends a pause. False where there was none.
    pub fn resume(&mut self, now: u64) -> bool {
        let ends = self.paused.take().is_some();
        if ends {
            self.running = now;
        }
        ends
    }

    /// The first reason counts.
    pub(super) fn stop(&mut self, why: Stop, now: u64) {
        self.stopping.get_or_insert(now);
        self.stop.get_or_insert(why);
    }
}

pub(super) enum Signal {
    Stop(Stop),
    /// Somebody wants to know something, or to change it.
    Ask(Box<dyn FnOnce(&mut Steering<'_>) + Send>),
    /// Somebody wants all that is committed to be on the disk.
    Checkpoint(oneshot::Sender<()>),
    /// Something arrived; it lies in the other channel.
    Completed,
}

/// Asks a running [`drive`](super::drive()). Cheap to clone.
#[derive(Debug, Clone)]
pub struct Asker(Sender<Signal>);

impl Asker {
    /// Runs `question` on the thread that owns the frontier, between two rounds of
    /// the loop; it must be quick. `None` where the run has ended.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Frontier) -> T + Send + 'static,
    ) -> Option<T> {
        self.steer(move |run| question(run.frontier)).await
    }

    /// The same with all of the run.
    pub async fn steer<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Steering<'_>) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        let question = move |run: &mut Steering<'_>| {
            // Nobody waits any more where the other end is gone.
            answer.send(question(run)).ok();
        };
        self.0.send(Signal::Ask(Box::new(question))).ok()?;
        answered.await.ok()
    }

    /// Returns when all that is committed would survive the loss of power. `None` where
    /// the run has ended.
    pub async fn checkpoint(&self) -> Option<()> {
        let (done, is_done) = oneshot::channel();
        self.0.send(Signal::Checkpoint(done)).ok()?;
        is_done.await.ok()
    }
}

/// Asks a running [`drive`](super::drive()) to stop. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Stopper(Sender<Signal>);

impl Stopper {
    /// Nothing more is leased; what is in flight is drained.
    pub fn stop(&self, why: Stop) {
        // The loop has ended already where nobody listens.
        self.0.send(Signal::Stop(why)).ok();
    }
}

/// The ends of the channel by which a run is stopped and asked.
#[derive(Debug)]
pub struct Control {
    pub(super) sender: Sender<Signal>,
    pub(super) receiver: Receiver<Signal>,
    pub(super) watch: Watch,
    paused: bool,
}

impl Default for Control {
    fn default() -> Self {
        let (sender, receiver) = channel();
        Self {
            sender,
            receiver,
            watch: Watch::default(),
            paused: false,
        }
    }
}

impl Control {
    /// The run that is given this control leases nothing until it is resumed.
    pub fn begin_paused(&mut self) {
        self.paused = true;
    }

    /// A handle that stops the run that is given this control.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.sender.clone())
    }

    /// A handle that asks the run that is given this control.
    pub fn asker(&self) -> Asker {
        Asker(self.sender.clone())
    }

    /// A handle that says how the run that is given this control stands.
    pub fn watch(&self) -> Watch {
        self.watch.clone()
    }

    pub(super) fn phase(&self, now: u64) -> Phase {
        Phase {
            running: now,
            paused: self.paused.then_some(now),
            stopping: None,
            stop: None,
        }
    }
}
