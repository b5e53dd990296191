//! What is counted over all open cells. It changes with every change of a cell, so nothing has
//! to look at all of them for each request.

use super::StoreError;
use crate::frontier::parts::Frontier;
use crate::frontier::record::Counts;
use crate::frontier::rejudge::Rescoped;
use crate::frontier::schedule::Newcomers;

/// The sums, and what one frontier would keep for all of its hosts.
#[derive(Default)]
pub(super) struct Sums {
    pub counts: Counts,
    /// Open requests for pages, and for images.
    pub open: (usize, usize),
    /// Time spent crawling, as the cells have it.
    pub active: u64,
    /// The same that no cell has yet.
    pub active_pending: u64,
    /// Requests owed to images. Each cell writes it with its own counters, and a restart begins
    /// at nothing: that is a few requests.
    pub owed: f64,
    pub newcomers: Newcomers,
    /// Whether the budget of pages is spent.
    pub pages_closed: bool,
    /// Whether the open requests may use it up.
    pub pages_held: bool,
    /// What was found by checking against a changed scope, in the cells that are through.
    pub rescoped: Rescoped,
}

/// What of a cell is in the sums.
pub(super) struct Lent {
    counts: Counts,
    open: (usize, usize),
    active: u64,
}

impl Lent {
    fn of(frontier: &Frontier) -> Self {
        Self {
            counts: frontier.counts().clone(),
            open: (frontier.leases.pages(), frontier.leases.images()),
            active: frontier.active(),
        }
    }
}

impl Sums {
    /// Adds a cell that was opened, and tells it what is in force.
    pub fn opened(&mut self, frontier: &mut Frontier, now: u64) -> Result<(), StoreError> {
        frontier.gate.pages_held = self.pages_held;
        if self.pages_closed {
            frontier.close_pages(now)?;
        }
        let Lent { counts, active, .. } = Lent::of(frontier);
        self.counts.add(&counts);
        self.active = self.active.saturating_add(active);
        Ok(())
    }

    /// Takes a cell out that is being closed.
    pub fn closed(&mut self, frontier: &Frontier) {
        let Lent {
            counts,
            open,
            active,
        } = Lent::of(frontier);
        self.counts.replace(&counts, &Counts::default());
        self.active = self.active.saturating_sub(active);
        self.open.0 = self.open.0.saturating_sub(open.0);
        self.open.1 = self.open.1.saturating_sub(open.1);
    }

    /// Gives a cell what it needs to know of the others, and what only one can change.
    pub fn lend(&mut self, frontier: &mut Frontier) -> Lent {
        let own = Lent::of(frontier);
        let open = (
            self.open.0.saturating_sub(own.open.0),
            self.open.1.saturating_sub(own.open.1),
        );
        let fetches = self.counts.fetches.saturating_sub(own.counts.fetches);
        let elsewhere = &mut frontier.gate.elsewhere;
        elsewhere.asked = fetches.saturating_add((open.0 + open.1) as u64);
        elsewhere.open = open;
        let (pages, images) = (self.counts.queued_pages(), self.counts.queued_images);
        elsewhere.queued = (
            pages.saturating_sub(own.counts.queued_pages()),
            images.saturating_sub(own.counts.queued_images),
        );
        frontier.ledger.meta_mut().images.owed = self.owed;
        std::mem::swap(&mut self.newcomers, &mut frontier.leases.newcomers);
        own
    }

    /// Takes that back, and counts what has changed.
    pub fn take_back(&mut self, frontier: &mut Frontier, before: Lent) {
        std::mem::swap(&mut self.newcomers, &mut frontier.leases.newcomers);
        self.owed = frontier.ledger.meta().images.owed;
        let after = Lent::of(frontier);
        self.counts.replace(&before.counts, &after.counts);
        self.active = self.active.saturating_sub(before.active) + after.active;
        self.open.0 = self.open.0.saturating_sub(before.open.0) + after.open.0;
        self.open.1 = self.open.1.saturating_sub(before.open.1) + after.open.1;
    }
}
