//! What the best link of each machine is, where a limit makes them share what may be asked for:
//! a machine with poor links leaves permits to one with good links, as one machine waits for a
//! host with a much better link.

use crate::crawl::frontier::store::StoreError;
use crate::crawl::frontier::{Best, Cells};

/// The time between two looks, in milliseconds.
const EVERY: u64 = 1_000;
/// A machine that has finished no page for so long, in milliseconds, may be cut off from the
/// web. Nobody waits for its links.
const STUCK: u64 = 30_000;

/// With so few pages left for all machines, only the best of all is asked for. With more of them,
/// what is good is asked for sooner or later, and machines need not wait for each other.
const FEW: u64 = 1_000;

/// Whether only so few pages are left for all machines that their order matters.
pub fn is_near_its_end(left: u64) -> bool {
    left <= FEW
}

/// What a machine says of its best link.
#[derive(Debug, Default)]
pub(super) struct Patience {
    due: u64,
    said: Option<Best>,
    /// How many pages it had fetched, and when that changed.
    fetches: u64,
    since: u64,
}

impl Patience {
    /// What to say now, if that has changed. `compares` is whether machines compare their links.
    pub fn turn(
        &mut self,
        cells: &mut Cells,
        compares: bool,
        now: u64,
    ) -> Result<Option<Option<Best>>, StoreError> {
        if now < self.due {
            return Ok(None);
        }
        self.due = now.saturating_add(EVERY);
        let fetches = cells.counts().fetches;
        if fetches != self.fetches || self.since == 0 {
            (self.fetches, self.since) = (fetches, now);
        }
        let moves = now.saturating_sub(self.since) < STUCK;
        let best = if compares && moves {
            let own = Vec::from_iter(cells.leasing_cells());
            cells.best_of(&own, now)?
        } else {
            None
        };
        let is_new = best != self.said;
        self.said = best;
        Ok(is_new.then_some(best))
    }
}
