//! One task from its lease to its completion: fetch on the runtime, process on a thread pool,
//! deliver to the loop.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tracing::{Instrument, Span};

use super::completion::{Completion, Contact};
use super::concurrency::Concurrency;
use super::handler::Processor;
use super::passes::{Entry, PassGate};
use super::steer::LoopSignal;
use super::workshop::{Work, Workshop};
use crate::archive::writer::{Compression, Packed};
use crate::clock::now;
use crate::fetch::{Answer, Exchanged, Fetcher, HeldBytes};
use crate::page::{Fetched, Outcome, Task, Wire};

/// Starts journeys.
pub(super) struct Launcher<P> {
    pub runtime: Handle,
    pub fetcher: Fetcher,
    /// Has a permit for each core.
    pub pool: Arc<Semaphore>,
    pub processor: Processor<P>,
    pub compression: Compression,
    pub concurrency: Concurrency,
    pub workshops: Workshops,
    /// The gate that each request must pass, if there are other machines.
    pub gate: Option<Arc<dyn PassGate>>,
    pub inbox: Inbox<P>,
}

impl<P: Send + 'static> Launcher<P> {
    /// Starts the journey of a task. It always ends with a completion in the inbox.
    pub fn start(&self, task: Task) {
        let span = span_of(&task);
        let journey = Journey {
            fetcher: self.fetcher.clone(),
            pool: Arc::clone(&self.pool),
            processor: Arc::clone(&self.processor),
            compression: self.compression.clone(),
            concurrency: self.concurrency.clone(),
            workshops: self.workshops.clone(),
            gate: self.gate.clone(),
        };
        let inbox = self.inbox.clone();
        let journey = async move { inbox.deliver(journey.complete(task).await) };
        self.runtime.spawn(journey.instrument(span));
    }
}

/// Where the loop finds completions.
pub(super) struct Inbox<P> {
    pub completions: Sender<Completion<P>>,
    pub signals: Sender<LoopSignal>,
}

impl<P> Inbox<P> {
    /// Adds a completion and wakes the loop.
    pub fn deliver(&self, completion: Completion<P>) {
        // Both channels are closed only if the run has failed.
        self.completions.send(completion).ok();
        self.signals.send(LoopSignal::Completed).ok();
    }
}

impl<P> Clone for Inbox<P> {
    fn clone(&self) -> Self {
        Self {
            completions: self.completions.clone(),
            signals: self.signals.clone(),
        }
    }
}

/// The fields that every log line of a task contains.
pub(super) fn span_of(task: &Task) -> Span {
    tracing::error_span!("task", id = %task.url.id(), url = %task.url)
}

struct Journey<P> {
    fetcher: Fetcher,
    pool: Arc<Semaphore>,
    processor: Processor<P>,
    compression: Compression,
    concurrency: Concurrency,
    workshops: Workshops,
    gate: Option<Arc<dyn PassGate>>,
}

impl<P: Send + 'static> Journey<P> {
    /// The whole journey. A panic becomes an outcome as well.
    async fn complete(self, task: Task) -> Completion<P> {
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

    async fn travel(self, task: Task) -> Completion<P> {
        if task.locate {
            return self.resolve(task).await;
        }
        // Waiting at the gate does not count as request time.
        let entry = match &self.gate {
            Some(gate) => gate.enter(&task).await,
            None => Entry::Free,
        };
        let mut pass = match entry {
            Entry::Free => None,
            Entry::With(pass) => Some(pass),
            Entry::Refused => return Completion::unsent(task, Contact::Withheld),
        };
        let open = self.concurrency.open(Instant::now());
        let Task {
            url,
            kind,
            validators,
            booking,
            ..
        } = &task;
        let answer = self.fetcher.fetch_booked(url, *kind, validators, booking);
        let exchanged = match &mut pass {
            None => Some(answer.await),
            Some(pass) => tokio::select! {
                biased;
                () = pass.lost() => None,
                exchanged = answer => Some(exchanged),
            },
        };
        // From here on, other machines may request from the address while this one reads the
        // answer.
        drop(pass);
        let Some(exchanged) = exchanged else {
            return Completion::unsent(task, Contact::Forbidden);
        };
        let Exchanged {
            answer,
            waited,
            mut wire,
        } = exchanged;
        match &answer {
            Ok(answer) => open.answered(answer.elapsed(), answer.bytes()),
            Err(error) => open.answered(error.seen.elapsed, error.seen.bytes),
        }
        if !matches!(answer, Ok(Answer::Body { .. })) {
            self.concurrency.processed(Duration::ZERO);
        }
        let compression = self.compression.clone();
        let completion = match answer {
            Err(error) => Completion::of_error(task, &error),
            Ok(Answer::Redirect {
                status,
                to,
                terms,
                retry_after,
                elapsed,
            }) => Completion {
                outcome: Outcome::Redirect { to },
                stated: terms,
                status: Some(status),
                retry_after,
                elapsed,
                ..Completion::bare(task)
            },
            Ok(Answer::NotModified {
                validators,
                terms,
                retry_after,
                elapsed,
            }) => Completion {
                outcome: Outcome::Unchanged,
                stated: terms,
                status: Some(304),
                retry_after,
                elapsed,
                validators,
                ..Completion::bare(task)
            },
            Ok(Answer::Body { fetched, held }) => {
                self.process(task, fetched, held, wire.take()).await
            }
        };
        let url = completion.task.url.as_str();
        let exchange = wire.map(|wire| Box::new(Packed::of(url, &wire, &compression)));
        Completion {
            waited,
            exchange: exchange.or(completion.exchange),
            ..completion
        }
    }

    /// Resolves the name of the host, without a request.
    async fn resolve(self, task: Task) -> Completion<P> {
        let found = self.fetcher.locate_again(&task.url, &task.booking).await;
        match found {
            Ok(address) => Completion {
                contact: Contact::Resolved(address),
                ..Completion::bare(task)
            },
            Err(error) => Completion::of_error(task, &error),
        }
    }

    /// Processes a body on the thread pool, or in a workshop if that may take long.
    async fn process(
        self,
        task: Task,
        mut fetched: Fetched,
        held: HeldBytes,
        wire: Option<Box<Wire>>,
    ) -> Completion<P> {
        let filled = Completion {
            status: Some(fetched.status),
            content_type: fetched.content_type.clone(),
            elapsed: fetched.elapsed,
            validators: fetched.validators.clone(),
            bytes: fetched.body.len() as u64,
            _held: Some(held),
            ..Completion::bare(task.clone())
        };
        // The pool is never closed, so a permit always comes.
        let permit = Arc::clone(&self.pool).acquire_owned().await;
        let Self {
            processor,
            compression,
            concurrency,
            workshops,
            ..
        } = self;
        let span = Span::current();
        let asked = now();
        let host = task.url.host_key();
        let begun = tokio::task::spawn_blocking(move || {
            let _within = span.entered();
            let began = Instant::now();
            let exchange = wire.as_deref();
            let packed = |wire| Packed::of(task.url.as_str(), wire, &compression);
            let exchange = exchange.map(|wire| Box::new(packed(wire)));
            // It is as large as the body, which is processed next.
            drop(wire);
            fetched.date.get_or_insert(asked);
            let work = processor(&task, fetched);
            if matches!(work, Work::Done(..)) {
                concurrency.processed(began.elapsed());
            }
            drop(permit);
            (work, exchange)
        });
        let Ok((work, exchange)) = begun.await else {
            return filled.into_defect();
        };
        let filled = Completion { exchange, ..filled };
        let (shop, rest) = match work {
            Work::Done(outcome, product) => {
                return Completion {
                    outcome,
                    product,
                    ..filled
                };
            }
            Work::Large(rest) => (workshops.large, rest),
            Work::File(rest) => (workshops.files, rest),
        };
        let turn = shop.turn(&host).await;
        match shop.work(rest).await {
            Some((outcome, product)) => Completion {
                outcome,
                product,
                _turn: Some(turn),
                ..filled
            },
            None => filled.into_defect(),
        }
    }
}

/// The workshops for slow work. Clones share them.
#[derive(Clone)]
pub(super) struct Workshops {
    /// For bodies that take much memory, one after the other.
    large: Arc<Workshop>,
    /// For files that separate processes read.
    files: Arc<Workshop>,
    /// The most tasks in the workshops that take no place of the crawl.
    most_aside: usize,
}

/// Tasks in workshops may use additional places: one for this many places of the crawl.
const PLACES_PER_ASIDE: usize = 4;
impl Workshops {
    /// The workshops of a crawl with this many places.
    pub fn new(cores: usize, places: usize) -> Self {
        let most_aside = places.div_ceil(PLACES_PER_ASIDE);
        Self {
            large: Workshop::new(1),
            files: Workshop::new(cores.max(2)),
            most_aside,
        }
    }

    /// How many open tasks keep no worker busy. They do not count towards the number of tasks that
    /// is enough.
    pub fn aside(&self) -> usize {
        let inside = self.large.inside() + self.files.inside();
        inside.min(self.most_aside)
    }
}
