//! Questions and changes to a running loop. Each is a closure that travels through a channel
//! and runs between two rounds on the thread that owns the frontier, so nothing needs a lock
//! and no change interrupts a step.
//!
//! Authentication happens elsewhere.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use super::options::{Limits, LoopOptions};
use crate::fetch::Fetcher;
use crate::frontier::Cells;

/// A running [`drive`](super::drive()) between two rounds of its loop.
pub struct Steering<'a> {
    /// The queue and everything stored.
    pub frontier: &'a mut Cells,
    /// What sends the requests.
    pub fetcher: &'a Fetcher,
    /// How much the run does at once.
    pub options: &'a mut LoopOptions,
    /// When it ends on its own; `None` if the run has no limits.
    pub limits: Option<&'a mut Limits>,
    /// Whether it runs, pauses or stops.
    pub phase: &'a mut Phase,
    /// Since when the network is assumed to be down, in milliseconds since 1970.
    pub outage: Option<u64>,
    /// The greatest number of leased tasks: [`LoopOptions::concurrency`], or fewer if more would
    /// only be chosen earlier than necessary.
    pub most_leased: usize,
}

/// Why a run ends although work is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Ctrl-C (SIGINT).
    Interrupted,
    /// SIGTERM, as a service manager sends it.
    Terminated,
    /// A request over the control API, for example `spoor ctl JOB stop`.
    Told,
    /// A mistake in the settings that would make every request fail.
    Hopeless,
}

/// The published state of a run. All times are milliseconds since 1970.
#[derive(Debug, Clone, Default)]
pub struct RunStatus {
    /// Since when the run pauses.
    pub paused: Option<u64>,
    /// Since when and why the run is ending.
    pub stopping: Option<(u64, Stop)>,
    /// Since when the network is assumed to be down.
    pub outage: Option<u64>,
    /// When the run ends on its own, by its present settings.
    pub limits: Limits,
    /// Whether these hold for several machines together.
    pub shared: bool,
    /// Why every request would fail, if the run ends because of that.
    pub hopeless: Option<String>,
}

/// Reads the published state of the run with the same [`Control`]. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Watch(Arc<Mutex<RunStatus>>);

impl Watch {
    /// The state after the last round.
    pub fn now(&self) -> RunStatus {
        let standing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        standing.clone()
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut RunStatus)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Whether a run goes on, pauses or stops. All times are milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// The start of the run, or the end of the last pause.
    pub running: u64,
    /// Since when nothing is leased until the run is resumed.
    pub paused: Option<u64>,
    /// Since when nothing is leased because the run ends.
    pub stopping: Option<u64>,
    /// Why it ends, if it does.
    pub stop: Option<Stop>,
}

impl Phase {
    /// Begins a pause: nothing more is leased, and open tasks finish. False if the run was already
    /// paused.
    pub fn pause(&mut self, now: u64) -> bool {
        let begins = self.paused.is_none();
        self.paused.get_or_insert(now);
        begins
    }

    /// Ends a pause. False if there was none.
    pub fn resume(&mut self, now: u64) -> bool {
        let ends = self.paused.take().is_some();
        if ends {
            self.running = now;
        }
        ends
    }

    /// Stops the run. Only the first reason counts.
    pub(super) fn stop(&mut self, why: Stop, now: u64) {
        self.stopping.get_or_insert(now);
        self.stop.get_or_insert(why);
    }
}

/// What wakes the loop.
pub(super) enum LoopSignal {
    /// The run is to end.
    Stop(Stop),
    /// A question or a change.
    Ask(Box<dyn FnOnce(&mut Steering<'_>) + Send>),
    /// Everything committed is to be written to the disk.
    Checkpoint(oneshot::Sender<()>),
    /// A completion is in the other channel.
    Completed,
}

/// Sends questions to a running [`drive`](super::drive()). Cheap to clone.
#[derive(Debug, Clone)]
pub struct Asker(Sender<LoopSignal>);

impl Asker {
    /// Runs `question` on the thread that owns the frontier, between two rounds of
    /// the loop; it must be quick. `None` if the run has ended.
    pub async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Cells) -> T + Send + 'static,
    ) -> Option<T> {
        self.steer(move |run| question(run.frontier)).await
    }

    /// The same with access to the whole run.
    pub async fn steer<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Steering<'_>) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        let question = move |run: &mut Steering<'_>| {
            // The sender of the question may be gone.
            answer.send(question(run)).ok();
        };
        self.0.send(LoopSignal::Ask(Box::new(question))).ok()?;
        answered.await.ok()
    }

    /// Returns when everything committed would survive a loss of power. `None` if the run has
    /// ended.
    pub async fn checkpoint(&self) -> Option<()> {
        let (done, is_done) = oneshot::channel();
        self.0.send(LoopSignal::Checkpoint(done)).ok()?;
        is_done.await.ok()
    }
}

/// Stops a running [`drive`](super::drive()). Cheap to clone.
#[derive(Debug, Clone)]
pub struct Stopper(Sender<LoopSignal>);

impl Stopper {
    /// Stops the run: nothing more is leased, and open tasks have their time to finish.
    pub fn stop(&self, why: Stop) {
        // Fails only if the run has ended already.
        self.0.send(LoopSignal::Stop(why)).ok();
    }
}

/// Both ends of the channel by which a run gets its signals.
#[derive(Debug)]
pub struct Control {
    pub(super) sender: Sender<LoopSignal>,
    pub(super) receiver: Receiver<LoopSignal>,
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
    /// The run with this control leases nothing until it is resumed.
    pub fn begin_paused(&mut self) {
        self.paused = true;
    }

    /// A handle that stops the run with this control.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.sender.clone())
    }

    /// A handle that sends questions to the run with this control.
    pub fn asker(&self) -> Asker {
        Asker(self.sender.clone())
    }

    /// A handle that reads the state of the run with this control.
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
