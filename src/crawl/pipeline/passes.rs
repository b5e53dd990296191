//! What requests of a machine of a cluster pass through right before they are sent: other
//! machines may be asking the same IP address.
//!
//! A crawl alone has none.

use futures_util::future::BoxFuture;

use crate::page::Task;

/// What stands before each request.
pub trait PassGate: Send + Sync {
    /// Waits until the request of a task may be sent, but not for long.
    fn enter<'a>(&'a self, task: &'a Task) -> BoxFuture<'a, Entry>;

    /// Whether the open tasks are to end. Then nobody waits here.
    fn close(&self, is_closed: bool);
}

/// Whether a request may be sent.
pub enum Entry {
    /// At any time: it shares no clock with other machines.
    Free,
    /// For as long as it has this pass, which it gives back when it has ended.
    With(Box<dyn Pass>),
    /// Not now. The task is queued again.
    Refused,
}

/// The right to send a request, given back when dropped.
pub trait Pass: Send {
    /// Keeps the pass while the request goes on. Returns when it is lost; then the request has
    /// to be cut at once.
    fn lost(&mut self) -> BoxFuture<'_, ()>;
}
