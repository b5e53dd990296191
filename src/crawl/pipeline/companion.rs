//! What goes on beside a crawl of one of several machines.
//!
//! A crawl alone has none. The companion of a machine of a cluster opens and closes parts of
//! the frontier, exchanges links, and says when hosts may be asked; it is called between two
//! steps of the loop, and never waits.

use std::sync::Arc;

use super::crawl::CrawlError;
use super::options::Limits;
use super::passes::PassGate;
use crate::frontier::{Cells, Outside};

/// What a crawl may do until the companion says something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Course {
    /// Whatever the frontier has.
    #[default]
    Crawl,
    /// Lease nothing, and let the open tasks end.
    Rest,
    /// End: nothing is left to do for any machine.
    End,
}

/// What one machine may ask for, where limits hold for all machines together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allowance {
    /// Pages that may be asked for, those that are open included.
    pub pages: u64,
    /// Bytes that may come: at 0 nothing more is asked for.
    pub bytes: u64,
    /// The limit of which nothing is left for any machine, by its key. Where others have open
    /// requests, some of it may come back.
    pub reached: Option<&'static str>,
    /// When the first machine began, in milliseconds since 1970.
    pub first_begun: u64,
}

/// What goes on beside a crawl.
pub trait Companion {
    /// Does what can be done now.
    ///
    /// # Errors
    /// [`CrawlError`] ends the crawl.
    fn turn(
        &mut self,
        frontier: &mut Cells,
        now: u64,
        outside: &mut dyn Outside<CrawlError>,
    ) -> Result<Course, CrawlError>;

    /// What stands before each request, if anything does.
    fn gate(&self) -> Option<Arc<dyn PassGate>> {
        None
    }

    /// What may be asked for now, by these limits. It takes the place of the counters of the
    /// frontier, which are those of the cells that this machine has at present.
    fn allowance(&mut self, frontier: &Cells, limits: &Limits) -> Allowance;

    /// A request was cut, or not sent, because this machine may not ask hosts at present.
    fn forbidden(&mut self);

    /// The crawl is over here: what other machines can go on with is given to them by the turns
    /// that follow. Open leases count as abandoned.
    fn leave(&mut self);

    /// Whether that is done.
    fn has_left(&self) -> bool;
}
