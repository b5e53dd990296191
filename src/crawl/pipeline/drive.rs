//! The loop of every run, for a crawl as well as for training: lease, fetch, process, complete.
//!
//! One thread owns the frontier and waits for signals. Requests run as async tasks, CPU work
//! on a thread pool with a thread per core. Back-pressure is counted in bytes: while the
//! bodies in memory exceed a limit, nothing new is leased.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use super::completion::{Completion, Contact};
use super::concurrency::Concurrency;
use super::handler::{Admission, Handler, complete};
use super::journey::{Inbox, Launcher, Workshops, span_of};
use super::leasing::{self, Capacity, Leased};
use super::options::LoopOptions;
use super::outage::{Evidence, Leasing, Outage, Released};
use super::steer::{Control, LoopSignal, Phase, Steering, Stop};
use crate::clock::{millis, now};
use crate::fetch::Fetcher;
use crate::frontier::store::StoreError;
use crate::frontier::{Cells, Rescoped, Rescored};

/// The longest wait for a signal while enough requests are open. The number that is enough grows
/// with time, so the loop must check again soon.
const ENOUGH_WAIT: Duration = Duration::from_millis(20);

/// While other requests wait for a place, slow ones may take one in this many places.
const PLACES_PER_SLOW: usize = 8;

/// Runs until nothing is left, the handler ends it, or it is stopped; then waits for the open
/// tasks. Returns why it was stopped, if it was. Call it on a thread that may block.
///
/// # Errors
/// The error of the handler, or of the store. Leases that are open then are queued again at
/// the next opening.
pub fn drive<H: Handler>(
    runtime: &Handle,
    frontier: &mut Cells,
    fetcher: &Fetcher,
    options: &LoopOptions,
    control: Control,
    handler: &mut H,
) -> Result<Option<Stop>, H::Error> {
    let (sender, completions) = channel();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let launcher = Launcher {
        runtime: runtime.clone(),
        fetcher: fetcher.clone(),
        pool: Arc::new(Semaphore::new(cores)),
        processor: handler.processor(),
        compression: handler.compression(),
        concurrency: Concurrency::new(cores),
        workshops: Workshops::new(cores, options.concurrency),
        gate: handler.gate(),
        inbox: Inbox {
            completions: sender,
            signals: control.sender.clone(),
        },
    };
    let drive = Drive {
        frontier,
        fetcher,
        handler,
        options: options.clone(),
        phase: control.phase(now()),
        control,
        launcher,
        completions,
        outage: Outage::new(),
        closed: None,
        deadline: None,
        last_tick: Instant::now(),
        last_flush: Instant::now(),
    };
    drive.run()
}

/// A run and the state of its loop. All times are milliseconds since 1970.
struct Drive<'a, H: Handler> {
    frontier: &'a mut Cells,
    fetcher: &'a Fetcher,
    handler: &'a mut H,
    options: LoopOptions,
    control: Control,
    phase: Phase,
    launcher: Launcher<H::Product>,
    completions: Receiver<Completion<H::Product>>,
    outage: Outage<H::Product>,
    /// Since when the handler has admitted nothing more.
    closed: Option<u64>,
    /// When the run ends even if tasks are still open.
    deadline: Option<u64>,
    last_tick: Instant,
    last_flush: Instant,
}

impl<H: Handler> Drive<'_, H> {
    /// The loop. Each pass is a round.
    fn run(mut self) -> Result<Option<Stop>, H::Error> {
        self.show();
        loop {
            let now = now();
            self.count_active_time();
            self.work_in_background(now)?;

            let unsent = self.outage.resend(now);
            self.give_back(unsent, now)?;
            let leased = self.lease(now)?;
            self.close_gate(leased.admission);
            self.release_held(leased.admission, now)?;
            self.make_slow_requests_give_way(leased, now);

            self.set_deadline(leased.admission, now);
            if self.is_finished(leased.admission) || self.is_out_of_time(now) {
                self.handler.end(self.frontier)?;
                return Ok(self.phase.stop);
            }

            self.receive_signals(self.wait(leased, now))?;
            while let Ok(completion) = self.completions.try_recv() {
                self.receive(completion)?;
            }
            while let Some(completion) = self.handler.incomplete() {
                self.launcher.inbox.deliver(completion);
            }

            if self.last_flush.elapsed() >= self.options.checkpoint {
                self.flush()?;
            }
            self.show();
            self.handler.round(self.frontier, now)?;
        }
    }

    fn is_stopped(&self) -> bool {
        self.phase.stopping.is_some()
    }

    fn is_paused(&self) -> bool {
        self.phase.paused.is_some()
    }

    /// Adds the time since the last round to the time spent crawling, except in a pause.
    fn count_active_time(&mut self) {
        let passed = millis(self.last_tick.elapsed());
        if passed > 0 {
            if !self.is_paused() {
                self.frontier.add_active(passed);
            }
            self.last_tick = Instant::now();
        }
    }

    /// Applies a changed scope or changed ratings to the next part of what is stored.
    fn work_in_background(&mut self, now: u64) -> Result<(), H::Error> {
        if self.is_stopped() {
            return Ok(());
        }
        if let Some(rescoped) = self.frontier.rescope_slice(now)? {
            let Rescoped {
                seen,
                dropped,
                revived,
            } = rescoped;
            tracing::info!(
                seen,
                dropped,
                revived,
                "checked all stored addresses against the changed scope"
            );
        }
        if let Some(rescored) = self.frontier.rescore_slice(now)? {
            let Rescored {
                seen,
                rescored,
                moved,
                razored,
                revived,
            } = rescored;
            tracing::info!(
                seen,
                rescored,
                moved,
                razored,
                revived,
                "re-rated all stored links"
            );
        }
        Ok(())
    }

    /// Leases what may be leased now, and starts it.
    fn lease(&mut self, now: u64) -> Result<Leased, H::Error> {
        self.frontier.set_most_open(self.options.concurrency);
        if self.is_stopped() {
            return Ok(Leased::nothing(Admission::End));
        }
        if self.is_paused() {
            return Ok(Leased::nothing(Admission::Wait));
        }
        let held = self.outage.held();
        let in_flight = self.frontier.leased() > held;
        let aside = self.launcher.workshops.aside();
        let enough = || most_requests(&self.launcher.concurrency, self.fetcher);
        let capacity = |frontier: &Cells| {
            let open = frontier.leased().saturating_sub(held + aside);
            match Capacity::of(frontier, self.fetcher, &self.options) {
                Capacity::Free if open >= enough() => Capacity::Enough,
                capacity => capacity,
            }
        };
        let mut start = |task| self.launcher.start(task);
        let (frontier, handler) = (&mut *self.frontier, &mut *self.handler);
        match self.outage.leasing(in_flight, now) {
            Leasing::Nothing => leasing::lease_none(frontier, handler, now),
            Leasing::One => leasing::lease_one(frontier, handler, now, &mut start),
            Leasing::Freely => leasing::lease_all(frontier, handler, capacity, now, &mut start),
        }
    }

    /// Closes the gate while the run waits for open tasks to end, so that none waits there.
    fn close_gate(&self, admission: Admission) {
        if let Some(gate) = &self.launcher.gate {
            gate.close(matches!(admission, Admission::Rest | Admission::End));
        }
    }

    /// Releases the tasks without an answer once no answer can come that would distinguish an
    /// outage from hosts that are down.
    fn release_held(&mut self, admission: Admission, now: u64) -> Result<(), H::Error> {
        let only_held = self.frontier.leased() == self.outage.held();
        // Other machines may wait until this one has no open task, even during a pause.
        let is_shared_pause = self.is_paused() && self.handler.may_grow();
        let rests = admission == Admission::Rest || is_shared_pause;
        if admission == Admission::End || (rests && only_held) {
            let held = self.outage.stop();
            return Ok(self.give_back(held, now)?);
        }
        // A patient frontier will shortly lease the tasks that it holds back for a better
        // one.
        let may_lease = self.outage.has_unsent() || self.frontier.is_patient();
        if admission.leases() && only_held && !may_lease {
            let released = self.outage.none_in_flight(now);
            self.release(released, now)?;
        }
        Ok(())
    }

    /// Ends slow requests while other hosts wait for their place.
    fn make_slow_requests_give_way(&self, leased: Leased, now: u64) {
        let Leased {
            admission,
            capacity,
        } = leased;
        if admission.leases() && leasing::others_wait(self.frontier, capacity, now) {
            let places = self.options.concurrency.div_ceil(PLACES_PER_SLOW);
            let told = self.fetcher.give_way(places);
            if told > 0 {
                tracing::debug!(told, "slow requests give way to others");
            }
        }
    }

    /// Sets the time for open tasks to finish once nothing more is leased.
    fn set_deadline(&mut self, admission: Admission, now: u64) {
        self.closed = match admission {
            Admission::End => self.closed.or(Some(now)),
            _ => None,
        };
        let drain = self.options.drain;
        self.deadline = match (self.phase.stopping, self.closed) {
            (Some(since), _) => Some(since.saturating_add(millis(drain))),
            (None, Some(since)) => Some(since.saturating_add(millis(self.handler.grace(drain)))),
            (None, None) => None,
        };
    }

    /// Whether no task is open, and none will be leased.
    fn is_finished(&self, admission: Admission) -> bool {
        let exhausted =
            || !self.is_paused() && !self.handler.may_grow() && self.frontier.is_exhausted();
        self.frontier.leased() == 0 && (admission == Admission::End || exhausted())
    }

    /// Whether the open tasks have had their time to finish.
    fn is_out_of_time(&self, now: u64) -> bool {
        let is_out = self.deadline.is_some_and(|deadline| now >= deadline);
        if is_out {
            let open = self.frontier.leased();
            tracing::warn!(
                "ending without {open} tasks that have not finished in time; they are asked for \
                 again at the next start"
            );
        }
        is_out
    }

    /// How long to wait for a signal.
    fn wait(&self, leased: Leased, now: u64) -> Duration {
        let in_background = self.frontier.is_rescoping() || self.frontier.is_rescoring();
        if in_background && !self.is_stopped() {
            return Duration::ZERO;
        }
        let longest = self.options.longest_wait;
        if !leased.admission.leases() {
            let left = self.deadline.map(|deadline| deadline.saturating_sub(now));
            let left = left.map_or(longest, Duration::from_millis);
            return longest.min(left);
        }
        match leased.capacity {
            Capacity::Free => leasing::until_next_lease(self.frontier, longest, now),
            Capacity::Enough => ENOUGH_WAIT,
            Capacity::Full => longest,
        }
    }

    /// Waits for a signal, then handles all that have arrived. One per round is not enough: if a
    /// round takes longer than a fetch, completions come faster than rounds, and questions and
    /// stops would wait behind them.
    fn receive_signals(&mut self, wait: Duration) -> Result<(), H::Error> {
        let mut signal = self.control.receiver.recv_timeout(wait).ok();
        while let Some(next) = signal {
            match next {
                LoopSignal::Stop(why) => self.phase.stop(why, now()),
                LoopSignal::Ask(question) => question(&mut Steering {
                    outage: self.outage.since(),
                    most_leased: self
                        .options
                        .concurrency
                        .min(most_requests(&self.launcher.concurrency, self.fetcher)),
                    frontier: self.frontier,
                    fetcher: self.fetcher,
                    options: &mut self.options,
                    limits: self.handler.limits(),
                    phase: &mut self.phase,
                }),
                LoopSignal::Checkpoint(done) => {
                    self.flush()?;
                    // The sender of the signal may be gone.
                    done.send(()).ok();
                }
                LoopSignal::Completed => {}
            }
            signal = self.control.receiver.try_recv().ok();
        }
        Ok(())
    }

    /// Takes a completion: holds it back if it may be due to an outage, and completes it
    /// otherwise.
    fn receive(&mut self, completion: Completion<H::Product>) -> Result<(), H::Error> {
        let now = now();
        if !self.frontier.may_finish(&completion.task) {
            // Its part of the hosts no longer belongs to this machine.
            return Ok(());
        }
        if completion.contact == Contact::Withheld {
            return Ok(self.frontier.abandon(&completion.task, now)?);
        }
        if completion.contact == Contact::Forbidden {
            self.handler.forbidden();
            return Ok(self.frontier.abandon(&completion.task, now)?);
        }
        if completion.contact == Contact::Misconfigured {
            self.stop_as_hopeless(completion.error.clone(), now);
            return Ok(self.frontier.abandon(&completion.task, now)?);
        }
        let found = self.fetcher.names_found();
        match Evidence::of(&completion) {
            Evidence::Silence => {
                let known = self.frontier.has_answered(&completion.task);
                self.outage.hold(completion, known, found, now);
                return Ok(());
            }
            Evidence::Answer => {
                let released = self.outage.answered(found, now);
                self.release(released, now)?;
            }
            Evidence::None => self.outage.resolved(found),
        }
        let _within = span_of(&completion.task).entered();
        let began = Instant::now();
        match completion.contact {
            Contact::Resolved(address) => self.frontier.located(&completion.task, address, now)?,
            _ => complete(self.frontier, self.handler, completion, now)?,
        }
        self.launcher.concurrency.completed(began.elapsed());
        Ok(())
    }

    /// Stops the run because every request would fail, unless it is stopped already.
    fn stop_as_hopeless(&mut self, error: Option<String>, now: u64) {
        if !self.is_stopped() {
            self.phase.stop(Stop::Hopeless, now);
            self.control
                .watch
                .change(|standing| standing.hopeless = error);
        }
    }

    fn release(&mut self, released: Released<H::Product>, now: u64) -> Result<(), H::Error> {
        match released {
            Released::Complete(completions) => completions
                .into_iter()
                .try_for_each(|held| complete(self.frontier, self.handler, held, now)),
            Released::GiveBack(completions) => Ok(self.give_back(completions, now)?),
        }
    }

    /// Queues tasks again as if they had not been leased.
    fn give_back(
        &mut self,
        completions: Vec<Completion<H::Product>>,
        now: u64,
    ) -> Result<(), StoreError> {
        completions
            .iter()
            .try_for_each(|completion| self.frontier.abandon(&completion.task, now))
    }

    fn flush(&mut self) -> Result<(), H::Error> {
        self.handler.checkpoint(self.frontier)?;
        self.last_flush = Instant::now();
        Ok(())
    }

    /// Publishes the state of the run.
    fn show(&mut self) {
        let limits = self.handler.limits().cloned();
        self.control.watch.change(|standing| {
            standing.paused = self.phase.paused;
            standing.stopping = self.phase.stopping.zip(self.phase.stop);
            standing.outage = self.outage.since();
            standing.limits = limits.unwrap_or_default();
            standing.shared = self.launcher.gate.is_some();
        });
    }
}

/// How many tasks may be leased so that no step of the pipeline is idle.
fn most_requests(concurrency: &Concurrency, fetcher: &Fetcher) -> usize {
    concurrency.limit(Instant::now(), |bytes| fetcher.interval(bytes))
}
