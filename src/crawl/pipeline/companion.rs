//! What runs beside the crawl of a machine in a cluster.
//!
//! A crawl on a single machine has no companion. In a cluster, the companion opens and closes parts
//! of the frontier, exchanges links, and says when hosts may be requested. The loop calls it
//! between two steps, and it never waits.

use std::sync::Arc;

use super::crawl::CrawlError;
use super::options::Limits;
use super::passes::PassGate;
use crate::frontier::{Cells, Outside};

/// What a crawl may do until the companion says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Course {
    /// Lease any task that the frontier has.
    #[default]
    Crawl,
    /// Lease nothing, and let the open tasks end.
    Rest,
    /// End: no machine has anything left to do.
    End,
}

/// What one machine may request when the limits cover all machines together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allowance {
    /// Pages that it may request, including those that are open.
    pub pages: u64,
    /// Bytes that it may receive; at 0 it requests nothing more.
    pub bytes: u64,
    /// The key of a limit that is used up for all machines. Some of it may come back while other
    /// machines have open requests.
    pub reached: Option<&'static str>,
    /// When the first machine began to crawl, in milliseconds since 1970.
    pub first_begun: u64,
}

/// What runs beside a crawl.
pub trait Companion {
    /// Does what can be done without waiting.
    ///
    /// # Errors
    /// [`CrawlError`] ends the crawl.
    fn turn(
        &mut self,
        frontier: &mut Cells,
        now: u64,
        outside: &mut dyn Outside<CrawlError>,
    ) -> Result<Course, CrawlError>;

    /// The gate that each request must pass, if there is one.
    fn gate(&self) -> Option<Arc<dyn PassGate>> {
        None
    }

    /// What may be requested now under these limits. Replaces the frontier's own counters, which
    /// cover only the cells that this machine has at present.
    fn allowance(&mut self, frontier: &Cells, limits: &Limits) -> Allowance;

    /// Called when a request was cut or not sent because this machine may not contact hosts at
    /// present.
    fn forbidden(&mut self);

    /// The crawl has ended on this machine: the turns that follow hand over what other machines can
    /// continue. Open leases count as abandoned.
    fn leave(&mut self);

    /// Whether the handover is complete.
    fn has_left(&self) -> bool;
}
