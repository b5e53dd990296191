//! Sums over all open cells. They are updated with every change of a cell, so a request need not
//! visit all cells.

use super::StoreError;
use crate::parts::Frontier;
use crate::record::Counts;
use crate::rejudge::Rescoped;
use crate::schedule::Newcomers;

/// The sums, and what a single frontier would keep for all of its hosts.
#[derive(Default)]
pub(super) struct Sums {
    pub counts: Counts,
    /// Open requests for pages, and for images.
    pub open: (usize, usize),
    /// Active time, as the cells have it.
    pub active: u64,
    /// Active time that no cell has yet.
    pub active_pending: u64,
    /// Requests owed to images. Each cell writes it with its own counters, and that of the first
    /// opened cell counts: with several cells this makes a difference of a few requests.
    pub owed: f64,
    pub newcomers: Newcomers,
    /// Whether the page budget is spent.
    pub pages_closed: bool,
    /// Whether the open requests may use it up.
    pub pages_held: bool,
    /// Results of the check against a changed scope, in the cells that are done with it.
    pub rescoped: Rescoped,
}

/// A cell's part of the sums.
pub(super) struct InSums {
    /// The commit of these counters.
    commits: u64,
    counts: Counts,
    open: (usize, usize),
    active: u64,
}

impl Sums {
    /// Adds an opened cell, and applies the current settings to it.
    pub fn opened(&mut self, frontier: &mut Frontier, now: u64) -> Result<InSums, StoreError> {
        frontier.flags.pages_held = self.pages_held;
        if self.pages_closed {
            frontier.close_pages(now)?;
        }
        let counted = InSums {
            commits: frontier.commits(),
            counts: frontier.counts().clone(),
            open: (0, 0),
            active: frontier.active(),
        };
        self.counts.add(&counted.counts);
        self.active = self.active.saturating_add(counted.active);
        Ok(counted)
    }

    /// Removes a cell that is being closed.
    pub fn closed(&mut self, counted: &InSums) {
        self.counts.replace(&counted.counts, &Counts::default());
        self.active = self.active.saturating_sub(counted.active);
        self.open.0 = self.open.0.saturating_sub(counted.open.0);
        self.open.1 = self.open.1.saturating_sub(counted.open.1);
    }

    /// Passes to a cell the state of the others, and the state that only one cell may change.
    pub fn lend(&mut self, frontier: &mut Frontier, own: &InSums) {
        let open = (
            self.open.0.saturating_sub(own.open.0),
            self.open.1.saturating_sub(own.open.1),
        );
        let fetches = self.counts.fetches.saturating_sub(own.counts.fetches);
        let elsewhere = &mut frontier.flags.elsewhere;
        elsewhere.asked = fetches.saturating_add((open.0 + open.1) as u64);
        elsewhere.open = open;
        let (pages, images) = (self.counts.queued_pages(), self.counts.queued_images);
        elsewhere.queued = (
            pages.saturating_sub(own.counts.queued_pages()),
            images.saturating_sub(own.counts.queued_images),
        );
        frontier.ledger.meta_mut().images.owed = self.owed;
        std::mem::swap(&mut self.newcomers, &mut frontier.leases.newcomers);
    }

    /// Takes that state back, and counts what has changed.
    pub fn take_back(&mut self, frontier: &mut Frontier, counted: &mut InSums) {
        std::mem::swap(&mut self.newcomers, &mut frontier.leases.newcomers);
        self.owed = frontier.ledger.meta().images.owed;
        let (open, active) = (
            (frontier.leases.pages(), frontier.leases.images()),
            frontier.active(),
        );
        self.active = self.active.saturating_sub(counted.active) + active;
        self.open.0 = self.open.0.saturating_sub(counted.open.0) + open.0;
        self.open.1 = self.open.1.saturating_sub(counted.open.1) + open.1;
        (counted.open, counted.active) = (open, active);
        // Only a commit changes the counters.
        if counted.commits != frontier.commits() {
            counted.commits = frontier.commits();
            self.counts.replace(&counted.counts, frontier.counts());
            counted.counts.clone_from(frontier.counts());
        }
    }
}
