//! The gate that requests pass right before they are sent, on a machine in a cluster: other
//! machines may be requesting from the same IP address.
//!
//! A crawl on a single machine has none.

use futures_util::future::BoxFuture;

use crate::page::Task;

/// The gate that each request must pass.
pub trait PassGate: Send + Sync {
    /// Waits until the request of a task may be sent, but not for long.
    fn enter<'a>(&'a self, task: &'a Task) -> BoxFuture<'a, Entry>;

    /// Closes the gate, or opens it again. While it is closed, because open tasks are to end, no
    /// request waits here.
    fn close(&self, is_closed: bool);
}

/// Whether a request may be sent.
pub enum Entry {
    /// At any time: it shares no clock with other machines.
    Free,
    /// As long as it holds this pass, which it gives back when it ends.
    With(Box<dyn Pass>),
    /// Not now. The task is queued again.
    Refused,
}

/// The right to send a request, given back when dropped.
pub trait Pass: Send {
    /// Keeps the pass while the request runs. Returns when the pass is lost; the request must then
    /// be cut at once.
    fn lost(&mut self) -> BoxFuture<'_, ()>;
}
