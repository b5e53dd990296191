//! A crawl over stored answers, without a network and with a clock of its own.
//!
//! It takes one task after the other. If nothing may be requested, the clock jumps to the next
//! event, so the same answers give the same crawl on every machine. Everything else is as in a real
//! crawl: frontier, robots rules, retries, extraction, ratings.

use std::time::Duration;

use super::completion::Completion;
use super::handler::{Admission, Handler, Processor, complete};
use crate::address::PageUrl;
use crate::fetch::{FetchError, FetchFailure};
use crate::frontier::Cells;
use crate::page::{Fetched, Outcome, Reason, Task, TermsHeaders};

/// The duration of a request by the clock of a replay, in milliseconds.
const REQUEST: u64 = 1;

/// The stored answer of an address.
#[derive(Debug, Clone)]
pub enum Stored {
    /// A response with a body.
    Body(Box<Fetched>),
    /// A redirect.
    Redirect {
        /// HTTP status, 300 to 399.
        status: u16,
        /// The target.
        to: PageUrl,
        /// The headers that state terms of use.
        terms: TermsHeaders,
    },
    /// No answer, or an error.
    Failed(FetchError),
    /// Nothing is stored for this address.
    Missing,
}

/// A stored answer, and when it was given.
#[derive(Debug)]
pub struct Reply {
    /// The answer.
    pub stored: Stored,
    /// The time that the outputs record, in milliseconds since 1970; `None` for the time of the
    /// replay's clock.
    pub dated: Option<u64>,
}

/// Runs until nothing is left or the handler ends it. `now` is the clock at the beginning, in
/// milliseconds since 1970. Returns the clock at the end.
///
/// # Errors
/// The handler's error, or the store's.
pub fn replay<H: Handler>(
    frontier: &mut Cells,
    answer: &mut dyn FnMut(&Task) -> Result<Reply, H::Error>,
    handler: &mut H,
    mut now: u64,
) -> Result<u64, H::Error> {
    let processor = handler.processor();
    loop {
        while frontier.is_rescoping() {
            frontier.rescope_slice(now)?;
        }
        while frontier.is_rescoring() {
            frontier.rescore_slice(now)?;
        }
        // No task is open, so waiting for one would never end.
        if handler.admission(frontier, now)? != Admission::Lease {
            break;
        }
        let Some(task) = frontier.lease_best(now)? else {
            match frontier.next_event() {
                // A task is due: the frontier only paused after dropping many addresses.
                Some(at) => now = now.max(at),
                None if frontier.is_exhausted() => break,
                None => now = now.saturating_add(REQUEST),
            }
            continue;
        };
        now = replay_task(frontier, task, answer, handler, &processor, now)?;
    }
    handler.checkpoint(frontier)?;
    Ok(now)
}

/// Finishes one leased task with its stored answer. Returns the clock afterwards.
///
/// # Errors
/// As [`replay`].
pub fn replay_task<H: Handler>(
    frontier: &mut Cells,
    task: Task,
    answer: &mut dyn FnMut(&Task) -> Result<Reply, H::Error>,
    handler: &mut H,
    processor: &Processor<H::Product>,
    now: u64,
) -> Result<u64, H::Error> {
    if task.locate {
        frontier.located(&task, None, now)?;
        return Ok(now);
    }
    let reply = answer(&task)?;
    let elapsed = Duration::from_millis(REQUEST);
    let completion = completion(task, reply, elapsed, |task, body| {
        processor(task, body).here()
    });
    let now = now.saturating_add(REQUEST);
    complete(frontier, handler, completion, now)?;
    while let Some(completion) = handler.incomplete() {
        handler.complete(frontier, completion, now)?;
    }
    handler.round(frontier, now)?;
    Ok(now)
}

/// The completion of a task from its stored answer.
pub(super) fn completion<P>(
    task: Task,
    Reply { stored, dated }: Reply,
    elapsed: Duration,
    process: impl FnOnce(&Task, Fetched) -> (Outcome, Option<P>),
) -> Completion<P> {
    let completion = match stored {
        Stored::Failed(error) => Completion::of_error(task, &error),
        Stored::Missing if task.kind.is_rules() => {
            // As if the host had no such file.
            let error = FetchFailure::Status {
                status: 404,
                retry_after: None,
            };
            Completion::of_error(task, &error.into())
        }
        Stored::Missing => Completion {
            outcome: Outcome::Drop {
                reason: Reason::NotArchived,
            },
            error: Some("not in the archive".to_owned()),
            ..Completion::bare(task)
        },
        Stored::Redirect { status, to, terms } => Completion {
            outcome: Outcome::Redirect { to },
            stated: terms,
            status: Some(status),
            ..Completion::bare(task)
        },
        Stored::Body(fetched) => {
            let (status, bytes) = (fetched.status, fetched.body.len() as u64);
            let content_type = fetched.content_type.clone();
            let validators = fetched.validators.clone();
            let (outcome, product) = process(&task, *fetched);
            Completion {
                outcome,
                product,
                status: Some(status),
                content_type,
                bytes,
                validators,
                ..Completion::bare(task)
            }
        }
    };
    Completion {
        elapsed,
        dated,
        ..completion
    }
}
