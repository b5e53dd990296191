//! The loop that every crawl runs: lease, fetch, work, settle, and always report.
//!
//! One thread owns the frontier and waits for events; requests run as async
//! tasks, CPU work on a bounded pool. Back-pressure is counted in bytes: while
//! the bodies in memory exceed a limit nothing new is leased.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tracing::{Instrument, Span};

use super::concurrency::Concurrency;
use super::options::{Limits, LoopOptions};
use super::outage::{self, Leasing, Outage, Released};
use super::steer::{Control, Phase, Signal, Steering, Stop};
use crate::clock::{millis, now};
use crate::crawl::frontier::store::StoreError;
use crate::crawl::frontier::{Frontier, Rescoped, Rescored};
use crate::page::{Fetched, Outcome, Reason, Task, Validators};
use crate::web::fetch::{self, Answer, FetchError, Fetcher, HeldBytes};

/// The longest the loop waits without looking at the clock.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// The same while as many requests are open as are worth it, which grows with time.
const FULL_WAIT: Duration = Duration::from_millis(20);

/// While others wait, one of this many requests that may be open may be slow.
const PER_SLOW: usize = 8;

/// What a finished request brought.
#[derive(Debug)]
pub struct Completion<B> {
    /// The task that was leased.
    pub task: Task,
    /// How the journey ended.
    pub outcome: Outcome,
    /// What the work made of the body; `None` where there was none.
    pub product: Option<B>,
    /// HTTP status, where one was received.
    pub status: Option<u16>,
    /// The `Content-Type` as sent.
    pub content_type: Option<String>,
    /// Bytes of the decoded body.
    pub bytes: u64,
    /// From sending the request to the last byte.
    pub elapsed: Duration,
    /// When the journey began, in milliseconds since 1970: never later than the request
    /// was sent.
    pub asked: Option<u64>,
    /// The pause between two requests that the host was due, in milliseconds; known
    /// when it is settled.
    pub delay: Option<u64>,
    /// What the server calls this version of the page.
    pub validators: Validators,
    /// The error in words.
    pub error: Option<String>,
    /// The host could not be reached at all.
    pub(super) unreached: bool,
    /// It is the operator's mistake, which every other request would meet as well.
    pub(super) hopeless: bool,
    /// How long the request waited at the clocks that it shares.
    pub(super) waited: Duration,
    /// How long the host asks to be left alone, whatever it answered.
    pub(super) retry_after: Option<Duration>,
    /// Nothing was asked of the host; only its address was found out, if it has
    /// one of its own.
    pub(super) located: Option<Option<IpAddr>>,
    /// Gives the body's bytes back when the completion is settled.
    pub(super) _held: Option<HeldBytes>,
}

/// What may be leased now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Go on.
    Lease,
    /// Only images, which the handler has told the frontier; pages not before something in
    /// flight is finished.
    Images,
    /// Not before something in flight is finished.
    Wait,
    /// Never again: drain and end.
    End,
}

/// What a driven crawl does with what arrives.
pub trait Handler {
    /// What the work makes of a body.
    type Product: Send + 'static;
    /// The error that ends the run.
    type Error: From<StoreError>;

    /// CPU work on a body, off the thread that drives.
    fn processor(&self) -> Processor<Self::Product>;

    /// Whether more may be leased.
    ///
    /// # Errors
    /// Ends the run.
    fn admission(&mut self, frontier: &mut Frontier, now: u64) -> Result<Admission, Self::Error>;

    /// Takes a completion and answers its lease.
    ///
    /// # Errors
    /// Ends the run.
    fn complete(
        &mut self,
        frontier: &mut Frontier,
        completion: Completion<Self::Product>,
        now: u64,
    ) -> Result<(), Self::Error>;

    /// Called every [`LoopOptions::checkpoint`] and at the end: all that is committed
    /// is to survive the loss of power from here on.
    ///
    /// # Errors
    /// Ends the run.
    fn checkpoint(&mut self, frontier: &mut Frontier) -> Result<(), Self::Error> {
        Ok(frontier.flush()?)
    }

    /// All that was written is to survive the loss of power: the frontier is about to be
    /// flushed, and must not know more than the outputs hold.
    ///
    /// # Errors
    /// Ends the run.
    fn sync(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Called once, when the run ends without an error.
    ///
    /// # Errors
    /// The run ends with it.
    fn end(&mut self, frontier: &mut Frontier) -> Result<(), Self::Error> {
        self.checkpoint(frontier)
    }

    /// A completion of which a part is not settled yet; it is given to `complete`
    /// again, after others had their turn.
    fn incomplete(&mut self) -> Option<Completion<Self::Product>> {
        None
    }

    /// Called after every round, for progress.
    fn round(&mut self, frontier: &Frontier);

    /// How long what is in flight is waited for once it permits nothing more, where that is
    /// `drain` at most.
    fn grace(&self, drain: Duration) -> Duration {
        drain
    }

    /// The limits that it keeps, where it has any; they may be changed.
    fn limits(&mut self) -> Option<&mut Limits> {
        None
    }
}

/// Processor on a body: how the journey ends, and what it brought.
pub type Processor<B> = Arc<dyn Fn(&Task, Fetched) -> (Outcome, Option<B>) + Send + Sync>;

/// Runs until nothing is left, the handler's permit ends it, or it is stopped; then
/// drains what is in flight. Returns why it was stopped, where it was. Must be called on
/// a thread that may block.
///
/// # Errors
/// The handler's error, or the store's. Leases that are open then are queued again
/// at the next opening.
pub fn drive<H: Handler>(
    runtime: &Handle,
    frontier: &mut Frontier,
    fetcher: &Fetcher,
    options: &LoopOptions,
    control: Control,
    handler: &mut H,
) -> Result<Option<Stop>, H::Error> {
    let (completions, completed) = channel::<Completion<H::Product>>();
    let processor = handler.processor();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let pool = Arc::new(Semaphore::new(cores));
    let concurrency = Concurrency::new(cores);
    let mut spawn = |task: Task| {
        let span = span_of(&task);
        let journey = Journey {
            fetcher: fetcher.clone(),
            pool: Arc::clone(&pool),
            processor: Arc::clone(&processor),
            concurrency: concurrency.clone(),
        };
        let completions = completions.clone();
        let signals = control.sender.clone();
        let journey = async move {
            let completion = journey.whole(task).await;
            // Both channels are closed only when the run has failed.
            completions.send(completion).ok();
            signals.send(Signal::Completed).ok();
        };
        runtime.spawn(journey.instrument(span));
    };
    let mut options = options.clone();
    let mut phase = control.phase(now());
    let mut outage = Outage::new();
    // When the handler ended it.
    let mut ended = None;
    show(&control, &phase, None, handler);
    let mut last_tick = Instant::now();
    let mut last_flush = Instant::now();
    loop {
        let now = now();
        let (stopped, paused) = (phase.stopping.is_some(), phase.paused.is_some());
        let tick = last_tick.elapsed().as_millis();
        if tick > 0 {
            if !paused {
                frontier.add_active(u64::try_from(tick).unwrap_or(u64::MAX));
            }
            last_tick = Instant::now();
        }
        if !stopped && let Some(rescoped) = frontier.rescope_slice(now)? {
            let Rescoped {
                seen,
                dropped,
                revived,
            } = rescoped;
            tracing::info!(seen, dropped, revived, "judged anew by the changed scope");
        }
        if !stopped && let Some(rescored) = frontier.rescore_slice(now)? {
            let Rescored {
                seen,
                rescored,
                moved,
                razored,
                revived,
            } = rescored;
            tracing::info!(seen, rescored, moved, razored, revived, "rated anew");
        }
        give_back(frontier, outage.resend(now), now)?;
        frontier.set_most_open(options.concurrency);
        let in_flight = frontier.leased() > outage.held();
        let (admission, capacity) = if stopped {
            (Admission::End, Capacity::Free)
        } else if paused {
            (Admission::Wait, Capacity::Free)
        } else {
            match outage.leasing(in_flight, now) {
                // A limit may be reached meanwhile.
                Leasing::Nothing => match handler.admission(frontier, now)? {
                    Admission::End => (Admission::End, Capacity::Free),
                    _ => (Admission::Wait, Capacity::Free),
                },
                Leasing::One => lease_one(frontier, handler, now, &mut spawn)?,
                Leasing::Freely => {
                    let capacity = |frontier: &Frontier| {
                        let asked = frontier.leased().saturating_sub(outage.held());
                        match capacity(frontier, fetcher, &options) {
                            Capacity::Free if asked >= most_requests(&concurrency, fetcher) => {
                                Capacity::Enough
                            }
                            capacity => capacity,
                        }
                    };
                    lease_all(frontier, handler, capacity, now, &mut spawn)?
                }
            }
        };
        if stopped || admission == Admission::End {
            give_back(frontier, outage.stop(), now)?;
        } else if frontier.leased() == outage.held()
            && !matches!(admission, Admission::Wait | Admission::Images)
            && !outage.has_unsent()
            // Those that are waited for are asked in a moment, or others are.
            && !frontier.is_patient()
        {
            release(frontier, handler, outage.nobody_left(now), now)?;
        }
        if matches!(admission, Admission::Lease | Admission::Images)
            && others_wait(frontier, capacity, now)
        {
            let told = fetcher.give_way(options.concurrency.div_ceil(PER_SLOW));
            if told > 0 {
                tracing::debug!(told, "requests that take long give way to others");
            }
        }
        let over = stopped || admission == Admission::End || (!paused && frontier.is_exhausted());
        if frontier.leased() == 0 && over {
            handler.end(frontier)?;
            return Ok(phase.stop);
        }
        ended = match admission {
            Admission::End => ended.or(Some(now)),
            _ => None,
        };
        let last = match phase.stopping {
            Some(since) => Some(since.saturating_add(millis(options.drain))),
            None => ended.map(|since| since.saturating_add(millis(handler.grace(options.drain)))),
        };
        if last.is_some_and(|last| now >= last) {
            let open = frontier.leased();
            tracing::warn!(
                "ending without {open} tasks that have not finished in time; they are asked for \
                 again at the next start"
            );
            handler.end(frontier)?;
            return Ok(phase.stop);
        }
        let wait = match admission {
            _ if (frontier.is_rescoping() || frontier.is_rescoring()) && !stopped => Duration::ZERO,
            Admission::Lease | Admission::Images => match capacity {
                Capacity::Free => wait_for(frontier, now),
                Capacity::Enough => FULL_WAIT,
                Capacity::Full => MAX_WAIT,
            },
            _ => last.map_or(MAX_WAIT, |last| {
                MAX_WAIT.min(Duration::from_millis(last.saturating_sub(now)))
            }),
        };
        // All that wait: while a round takes longer than a fetch, more come than rounds are
        // made, and who asks or stops would wait behind them.
        let mut signal = control.receiver.recv_timeout(wait).ok();
        while let Some(next) = signal {
            match next {
                Signal::Stop(why) => phase.stop(why, crate::clock::now()),
                Signal::Ask(question) => question(&mut Steering {
                    outage: outage.since(),
                    most_leased: options
                        .concurrency
                        .min(most_requests(&concurrency, fetcher)),
                    frontier,
                    fetcher,
                    options: &mut options,
                    limits: handler.limits(),
                    phase: &mut phase,
                }),
                Signal::Checkpoint(done) => {
                    handler.checkpoint(frontier)?;
                    last_flush = Instant::now();
                    // Whoever asked may have gone away.
                    done.send(()).ok();
                }
                Signal::Completed => {}
            }
            signal = control.receiver.try_recv().ok();
        }
        while let Ok(completion) = completed.try_recv() {
            let now = crate::clock::now();
            if completion.hopeless {
                if phase.stopping.is_none() {
                    phase.stop(Stop::Hopeless, now);
                    let error = completion.error.clone();
                    control.watch.change(|standing| standing.hopeless = error);
                }
                frontier.abandon(&completion.task, now)?;
                continue;
            }
            let found = fetcher.names_found();
            if outage::is_silence(&completion) {
                let known = frontier.has_answered(&completion.task);
                outage.hold(completion, known, found, now);
                continue;
            }
            release(frontier, handler, outage.answered(found, now), now)?;
            let _within = span_of(&completion.task).entered();
            let began = Instant::now();
            match completion.located {
                Some(address) => frontier.located(&completion.task, address, now)?,
                None => complete_lease(frontier, handler, completion, now)?,
            }
            concurrency.completed(began.elapsed());
        }
        while let Some(completion) = handler.incomplete() {
            // Both ends are held here, so neither channel is closed.
            completions.send(completion).ok();
            control.sender.send(Signal::Completed).ok();
        }
        if last_flush.elapsed() >= options.checkpoint {
            handler.checkpoint(frontier)?;
            last_flush = Instant::now();
        }
        show(&control, &phase, outage.since(), handler);
        handler.round(frontier);
    }
}

/// Notes how the run stands for those who watch it.
fn show<H: Handler>(control: &Control, phase: &Phase, outage: Option<u64>, handler: &mut H) {
    let limits = handler.limits().cloned();
    control.watch.change(|standing| {
        standing.paused = phase.paused;
        standing.stopping = phase.stopping.zip(phase.stop);
        standing.outage = outage;
        standing.limits = limits.unwrap_or_default();
    });
}

/// What every line of the log says that is written while a task is worked on.
fn span_of(task: &Task) -> Span {
    tracing::error_span!("task", id = %task.url.id(), url = %task.url)
}

/// Whether more requests may be open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Capacity {
    /// There is room.
    Free,
    /// More would only be chosen earlier than they need to be.
    Enough,
    /// No more is allowed.
    Full,
}

/// How many requests may be open or waited on, so that no step stands idle.
fn most_requests(concurrency: &Concurrency, fetcher: &Fetcher) -> usize {
    concurrency.limit(Instant::now(), |bytes| fetcher.interval(bytes))
}

/// What room the job's own limits leave.
pub(super) fn capacity(frontier: &Frontier, fetcher: &Fetcher, options: &LoopOptions) -> Capacity {
    match frontier.leased() >= options.concurrency || fetcher.bytes_in_flight() > options.max_bytes
    {
        true => Capacity::Full,
        false => Capacity::Free,
    }
}

/// Whether a host could be asked if fewer requests were open.
fn others_wait(frontier: &Frontier, capacity: Capacity, now: u64) -> bool {
    let is_ready = || frontier.next_event().is_some_and(|at| at <= now);
    frontier.keeps_back() || (capacity == Capacity::Full && is_ready())
}

/// Leases all that may be leased now; returns the last permit, and what room there was.
pub(super) fn lease_all<H: Handler>(
    frontier: &mut Frontier,
    handler: &mut H,
    capacity: impl Fn(&Frontier) -> Capacity,
    now: u64,
    spawn: &mut dyn FnMut(Task),
) -> Result<(Admission, Capacity), H::Error> {
    loop {
        let admission = handler.admission(frontier, now)?;
        let capacity = capacity(frontier);
        if !matches!(admission, Admission::Lease | Admission::Images) || capacity != Capacity::Free
        {
            return Ok((admission, capacity));
        }
        match frontier.lease(now)? {
            Some(task) => spawn(task),
            None => return Ok((admission, Capacity::Free)),
        }
    }
}

/// Leases one task, where one may be leased; then nothing more may be.
fn lease_one<H: Handler>(
    frontier: &mut Frontier,
    handler: &mut H,
    now: u64,
    spawn: &mut dyn FnMut(Task),
) -> Result<(Admission, Capacity), H::Error> {
    let admission = handler.admission(frontier, now)?;
    if admission == Admission::Lease
        && let Some(task) = frontier.lease_any(now)?
    {
        spawn(task);
    }
    Ok((admission, Capacity::Free))
}

/// Answers a lease. The pause that the host asks for is booked whatever the answer is; a
/// failure after which the host backs off books it by itself.
pub(super) fn complete_lease<H: Handler>(
    frontier: &mut Frontier,
    handler: &mut H,
    mut completion: Completion<H::Product>,
    now: u64,
) -> Result<(), H::Error> {
    let backs_off = completion.host_backs_off();
    let waited = std::mem::take(&mut completion.waited);
    if !waited.is_zero() {
        frontier.waited(&completion.task, waited, now);
    }
    let wait = completion.retry_after.take().filter(|wait| !wait.is_zero());
    if let Some(wait) = wait.filter(|_| !backs_off) {
        handler.sync()?;
        frontier.rest(&completion.task, wait, now)?;
    }
    handler.complete(frontier, completion, now)
}

/// Does with what was held back what follows from it.
fn release<H: Handler>(
    frontier: &mut Frontier,
    handler: &mut H,
    released: Released<H::Product>,
    now: u64,
) -> Result<(), H::Error> {
    match released {
        Released::Settle(completions) => completions
            .into_iter()
            .try_for_each(|completion| complete_lease(frontier, handler, completion, now)),
        Released::GiveBack(completions) => Ok(give_back(frontier, completions, now)?),
    }
}

fn give_back<B>(
    frontier: &mut Frontier,
    completions: Vec<Completion<B>>,
    now: u64,
) -> Result<(), StoreError> {
    completions
        .iter()
        .try_for_each(|completion| frontier.abandon(&completion.task, now))
}

/// How long nothing can be leased. Nothing at all where the frontier gave none
/// though something is ready: it only paused after dropping many addresses.
pub(super) fn wait_for(frontier: &Frontier, now: u64) -> Duration {
    let due = frontier
        .next_event()
        .map_or(MAX_WAIT, |at| Duration::from_millis(at.saturating_sub(now)));
    due.min(MAX_WAIT)
}

struct Journey<B> {
    fetcher: Fetcher,
    pool: Arc<Semaphore>,
    processor: Processor<B>,
    concurrency: Concurrency,
}

impl<B: Send + 'static> Journey<B> {
    /// The journey, with an outcome whatever happens on the way.
    async fn whole(self, task: Task) -> Completion<B> {
        let safe = task.clone();
        let asked = Some(now());
        let completion = match AssertUnwindSafe(self.travel(task)).catch_unwind().await {
            Ok(completion) => completion,
            Err(_) => Completion::failed(safe, "the request ended in a defect of spoor"),
        };
        Completion {
            asked,
            ..completion
        }
    }

    async fn travel(self, task: Task) -> Completion<B> {
        if task.locate {
            let found = self.fetcher.locate_again(&task.url, &task.booking);
            return match found.await {
                Ok(address) => Completion {
                    located: Some(address),
                    ..Completion::bare(task)
                },
                Err(error) => Completion::of_error(task, &error),
            };
        }
        let fetcher = &self.fetcher;
        let open = self.concurrency.open(Instant::now());
        let Task {
            url,
            kind,
            validators,
            booking,
            ..
        } = &task;
        let answer = fetcher.fetch_booked(url, *kind, validators, booking);
        let (answer, waited) = answer.await;
        match &answer {
            Ok(answer) => open.answered(answer.elapsed(), answer.bytes()),
            Err(error) => open.answered(error.seen().elapsed, error.seen().bytes),
        }
        if !matches!(answer, Ok(Answer::Body { .. })) {
            self.concurrency.processed(Duration::ZERO);
        }
        let completion = match answer {
            Err(error) => Completion::of_error(task, &error),
            Ok(Answer::Redirect {
                status,
                to,
                retry_after,
                elapsed,
            }) => Completion {
                outcome: Outcome::Redirect { to },
                status: Some(status),
                retry_after,
                elapsed,
                ..Completion::bare(task)
            },
            Ok(Answer::NotModified {
                validators,
                retry_after,
                elapsed,
            }) => Completion {
                outcome: Outcome::Unchanged,
                status: Some(304),
                retry_after,
                elapsed,
                validators,
                ..Completion::bare(task)
            },
            Ok(Answer::Body { fetched, held }) => self.digest(task, fetched, held).await,
        };
        Completion {
            waited,
            ..completion
        }
    }

    async fn digest(self, task: Task, fetched: Fetched, held: HeldBytes) -> Completion<B> {
        let status = Some(fetched.status);
        let content_type = fetched.content_type.clone();
        let bytes = fetched.body.len() as u64;
        let elapsed = fetched.elapsed;
        let validators = fetched.validators.clone();
        let safe = task.clone();
        // The pool is never closed, so a permit always comes.
        let permit = Arc::clone(&self.pool).acquire_owned().await;
        let processor = Arc::clone(&self.processor);
        let concurrency = self.concurrency.clone();
        let span = Span::current();
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let _within = span.entered();
            let began = Instant::now();
            let (outcome, product) = processor(&task, fetched);
            concurrency.processed(began.elapsed());
            (task, outcome, product)
        });
        let (task, outcome, product, error) = match done.await {
            Ok((task, outcome, product)) => (task, outcome, product, None),
            Err(_) => {
                let reason = Reason::Internal;
                let error =
                    "the work on this body ended in a defect of spoor; please report the URL";
                (safe, Outcome::Drop { reason }, None, Some(error.to_owned()))
            }
        };
        Completion {
            task,
            outcome,
            product,
            status,
            content_type,
            bytes,
            elapsed,
            asked: None,
            delay: None,
            validators,
            error,
            unreached: false,
            hopeless: false,
            waited: Duration::ZERO,
            retry_after: None,
            located: None,
            _held: Some(held),
        }
    }
}

impl<B> Completion<B> {
    /// Whether the task failed in a way after which its host is left alone for a while.
    pub(super) fn host_backs_off(&self) -> bool {
        matches!(
            self.outcome,
            Outcome::Retry {
                host_backs_off: true,
                ..
            }
        )
    }

    /// A completion that no request brought.
    #[cfg(test)]
    pub(super) fn made(task: Task, outcome: Outcome, product: Option<B>) -> Self {
        Self {
            outcome,
            product,
            ..Self::bare(task)
        }
    }

    /// A completion of which nothing is known but the task.
    pub(super) fn bare(task: Task) -> Self {
        Self::failed(task, "").without_error()
    }

    fn failed(task: Task, error: &str) -> Self {
        Self {
            task,
            outcome: Outcome::Drop {
                reason: Reason::Internal,
            },
            product: None,
            status: None,
            content_type: None,
            bytes: 0,
            elapsed: Duration::ZERO,
            asked: None,
            delay: None,
            validators: Validators::default(),
            error: Some(error.to_owned()),
            unreached: false,
            hopeless: false,
            waited: Duration::ZERO,
            retry_after: None,
            located: None,
            _held: None,
        }
    }

    fn without_error(self) -> Self {
        Self {
            error: None,
            ..self
        }
    }

    pub(super) fn of_error(task: Task, error: &FetchError) -> Self {
        let seen = error.seen();
        Self {
            outcome: fetch::outcome(task.kind, error),
            status: seen.status,
            bytes: seen.bytes,
            elapsed: seen.elapsed,
            unreached: error.is_unreached(),
            hopeless: matches!(error, FetchError::Proxy { .. }),
            retry_after: error.retry_after(),
            ..Self::failed(task, &error.to_string())
        }
    }
}
