//! What a run does with its tasks: the callbacks of the loop. A crawl, training and the look at a
//! single page each have their own handler.

use std::sync::Arc;
use std::time::Duration;

use super::completion::Completion;
use super::options::Limits;
use super::passes::PassGate;
use super::workshop::Work;
use crate::archive::writer::Compression;
use crate::frontier::Cells;
use crate::frontier::store::StoreError;
use crate::page::{Fetched, Task};

/// What may be leased now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Every task.
    Lease,
    /// Only images: the handler has limited the frontier to them. Pages must wait until an open
    /// task is completed.
    Images,
    /// Nothing until an open task is completed.
    Wait,
    /// Nothing until all open tasks have ended, so that the handler can change the frontier.
    Rest,
    /// Nothing more: the run drains and ends.
    End,
}

impl Admission {
    /// Whether at least some tasks may be leased.
    pub(super) fn leases(self) -> bool {
        matches!(self, Self::Lease | Self::Images)
    }
}

/// Turns a body into an outcome and a product.
pub type Processor<P> = Arc<dyn Fn(&Task, Fetched) -> Work<P> + Send + Sync>;

/// The callbacks of [`drive()`](super::drive()).
pub trait Handler {
    /// The result of the processor.
    type Product: Send + 'static;
    /// The error that ends the run.
    type Error: From<StoreError>;

    /// The CPU work on a body, which runs on a thread of its own.
    fn processor(&self) -> Processor<Self::Product>;

    /// How exchanges are compressed for the archive.
    fn compression(&self) -> Compression {
        Compression::default()
    }

    /// What may be leased now.
    ///
    /// # Errors
    /// Ends the run.
    fn admission(&mut self, frontier: &mut Cells, now: u64) -> Result<Admission, Self::Error>;

    /// Takes a completion and answers its lease.
    ///
    /// # Errors
    /// Ends the run.
    fn complete(
        &mut self,
        frontier: &mut Cells,
        completion: Completion<Self::Product>,
        now: u64,
    ) -> Result<(), Self::Error>;

    /// Called every [`LoopOptions::checkpoint`](super::LoopOptions::checkpoint) and at the
    /// end. Everything committed before must survive a loss of power afterwards.
    ///
    /// # Errors
    /// Ends the run.
    fn checkpoint(&mut self, frontier: &mut Cells) -> Result<(), Self::Error> {
        Ok(frontier.flush()?)
    }

    /// Called before the frontier is flushed, which must not know more than the outputs hold.
    /// Everything written before must survive a loss of power afterwards.
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
    fn end(&mut self, frontier: &mut Cells) -> Result<(), Self::Error> {
        self.checkpoint(frontier)
    }

    /// A completion that is handled in part. The loop gives it to `complete` again, after
    /// other completions.
    fn incomplete(&mut self) -> Option<Completion<Self::Product>> {
        None
    }

    /// Called after every round, even while nothing is leased: for progress, and for work beside
    /// the tasks.
    ///
    /// # Errors
    /// Ends the run.
    fn round(&mut self, frontier: &mut Cells, now: u64) -> Result<(), Self::Error>;

    /// Whether tasks may come from elsewhere, so that an empty frontier does not end the run.
    fn may_grow(&self) -> bool {
        false
    }

    /// The gate that each request must pass, if there is one.
    fn gate(&self) -> Option<Arc<dyn PassGate>> {
        None
    }

    /// Called when a request was cut or not sent because this machine may not contact hosts at
    /// present. The task is queued again.
    fn forbidden(&mut self) {}

    /// How long open tasks may take to finish after [`Admission::End`], at most `drain`.
    fn grace(&self, drain: Duration) -> Duration {
        drain
    }

    /// The limits of the run, which may be changed while it goes on; `None` if it has none.
    fn limits(&mut self) -> Option<&mut Limits> {
        None
    }
}

/// Records the pauses that an answer imposes on its host, then gives the completion to the handler.
/// A failure that makes the host back off records its own pause.
pub(super) fn complete<H: Handler>(
    frontier: &mut Cells,
    handler: &mut H,
    mut completion: Completion<H::Product>,
    now: u64,
) -> Result<(), H::Error> {
    let waited = std::mem::take(&mut completion.waited);
    if !waited.is_zero() {
        frontier.of_task(&completion.task, |cell| {
            cell.waited(&completion.task, waited, now);
            Ok::<_, StoreError>(())
        })?;
    }
    let pause = completion.retry_after.take();
    let pause = pause.filter(|pause| !pause.is_zero() && !completion.host_backs_off());
    if let Some(pause) = pause {
        handler.sync()?;
        let task = &completion.task;
        frontier.of_task(task, |cell| cell.rest(task, pause, now))?;
    }
    handler.complete(frontier, completion, now)
}
