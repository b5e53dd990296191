//! A crawl over answers that are stored: no network, and a clock of its own.
//!
//! One task is asked after the other, and the clock jumps to the next event where nothing
//! may be asked, so the same answers give the same crawl, however fast the machine is.
//! Everything else is that of a real crawl: frontier, robots rules, retries, extraction,
//! ratings.

use std::time::Duration;

use super::completion::Completion;
use super::handler::{Admission, Handler, complete};
use crate::address::PageUrl;
use crate::crawl::frontier::Frontier;
use crate::page::{Fetched, Outcome, Task};
use crate::web::fetch::FetchError;

/// Milliseconds that a request takes by the clock of a replay.
const REQUEST: u64 = 1;

/// What is stored of an address.
#[derive(Debug)]
pub enum Stored {
    /// A response with a body.
    Body(Box<Fetched>),
    /// A redirect.
    Redirect {
        /// HTTP status, 300 to 399.
        status: u16,
        /// Where to.
        to: PageUrl,
    },
    /// No answer, or none that helps.
    Failed(FetchError),
}

/// Runs until nothing is left or the handler's permit ends it. `now` is the clock at the
/// beginning, in milliseconds since 1970; returns it at the end.
///
/// # Errors
/// The handler's error, or the store's.
pub fn replay<H: Handler>(
    frontier: &mut Frontier,
    answer: &mut dyn FnMut(&Task) -> Stored,
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
        // Nothing is in flight, so waiting for it would never end.
        if handler.admission(frontier, now)? != Admission::Lease {
            break;
        }
        let Some(task) = frontier.lease(now)? else {
            match frontier.next_event() {
                // It only paused after dropping many addresses.
                Some(at) => now = now.max(at),
                None if frontier.is_exhausted() => break,
                None => now = now.saturating_add(REQUEST),
            }
            continue;
        };
        if task.locate {
            frontier.located(&task, None, now)?;
            continue;
        }
        let elapsed = Duration::from_millis(REQUEST);
        let completion = match answer(&task) {
            Stored::Failed(error) => Completion::of_error(task, &error),
            Stored::Redirect { status, to } => Completion {
                outcome: Outcome::Redirect { to },
                status: Some(status),
                elapsed,
                ..Completion::bare(task)
            },
            Stored::Body(fetched) => {
                let (status, bytes) = (fetched.status, fetched.body.len() as u64);
                let content_type = fetched.content_type.clone();
                let validators = fetched.validators.clone();
                let (outcome, product) = processor(&task, *fetched);
                Completion {
                    outcome,
                    product,
                    status: Some(status),
                    content_type,
                    bytes,
                    elapsed,
                    validators,
                    ..Completion::bare(task)
                }
            }
        };
        now = now.saturating_add(REQUEST);
        complete(frontier, handler, completion, now)?;
        while let Some(completion) = handler.incomplete() {
            handler.complete(frontier, completion, now)?;
        }
        handler.round(frontier);
    }
    handler.checkpoint(frontier)?;
    Ok(now)
}
