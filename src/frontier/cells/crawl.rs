//! What a crawl does with all of its cells.
//!
//! Finishing a task adds nothing to other cells: [`Cells::deliver`] does that, because it may
//! change outputs.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::Cells;
use crate::address::PageUrl;
use crate::cell::CellId;
use crate::page::Task;
use crate::parts::Frontier;
use crate::policy::Policy;
use crate::ratings::{Rating, Rescored};
use crate::rejudge::Rescoped;
use crate::store::StoreError;
use crate::web::scope::Scope;

/// Finishing.
impl Cells {
    /// Runs `act` on the cell of a task, for example to finish the task.
    ///
    /// # Errors
    /// [`StoreError::Closed`] as `E` if its cell is closed, and the error of `act`.
    pub fn of_task<T, E: From<StoreError>>(
        &mut self,
        task: &Task,
        act: impl FnOnce(&mut Frontier) -> Result<T, E>,
    ) -> Result<T, E> {
        // The next commit writes the time spent crawling.
        let pending = std::mem::take(&mut self.sums.active_pending);
        self.act(self.cell_of(task), |frontier| {
            if pending > 0 {
                frontier.add_active(pending);
            }
            act(frontier)
        })
    }

    /// Queues a task again as if it had not been leased.
    ///
    /// # Errors
    /// As [`Cells::of_task`].
    pub fn abandon(&mut self, task: &Task, now: u64) -> Result<(), StoreError> {
        self.of_task(task, |frontier| frontier.abandon(task, now))
    }

    /// Notes the address of the host of a task.
    ///
    /// # Errors
    /// As [`Cells::of_task`].
    pub fn located(
        &mut self,
        task: &Task,
        address: Option<IpAddr>,
        now: u64,
    ) -> Result<(), StoreError> {
        self.of_task(task, |frontier| frontier.located(task, address, now))
    }

    /// As [`Frontier::has_answered`].
    pub fn has_answered(&self, task: &Task) -> bool {
        let cell = self.open.get(&self.cell_of(task));
        cell.is_some_and(|cell| cell.frontier.has_answered(task))
    }

    /// The cell that leased a task.
    pub(super) fn cell_of(&self, task: &Task) -> CellId {
        let leased = self.cells.cell_of_page(task.lease);
        leased.unwrap_or_else(|| self.cells.cell_of(&task.host))
    }
}

/// Additions, and the rules for them.
impl Cells {
    /// Adds the operator's own addresses, each to its cell.
    ///
    /// # Errors
    /// [`StoreError::Closed`] if the cell of one is not open; nothing is added then.
    pub fn add_seeds(&mut self, seeds: &[PageUrl], now: u64) -> Result<(), StoreError> {
        let mut by_cell: BTreeMap<CellId, Vec<PageUrl>> = BTreeMap::new();
        for url in seeds {
            let cell = self.cell_of_page(url);
            by_cell.entry(cell).or_default().push(url.clone());
        }
        self.must_be_open(by_cell.keys())?;
        for (cell, seeds) in by_cell {
            self.act(cell, |frontier| frontier.add_seeds(&seeds, now))?;
        }
        Ok(())
    }

    /// As [`Frontier::watch`].
    ///
    /// # Errors
    /// As there, and [`StoreError::Closed`] if the cell of a page is not open.
    pub fn watch(&mut self, seeds: &[(PageUrl, Duration)], now: u64) -> Result<(), StoreError> {
        // Every cell gets a list, because it replaces an earlier one.
        let mut by_cell: BTreeMap<CellId, Vec<(PageUrl, Duration)>> =
            self.opened().map(|cell| (cell, Vec::new())).collect();
        for (url, every) in seeds {
            let cell = self.cell_of_page(url);
            let own = by_cell.entry(cell).or_default();
            own.push((url.clone(), *every));
        }
        self.must_be_open(by_cell.keys())?;
        for (cell, seeds) in by_cell {
            self.act(cell, |frontier| frontier.watch(&seeds, now))?;
        }
        Ok(())
    }

    /// The cell of a page by its canonical address.
    pub(super) fn cell_of_page(&self, url: &PageUrl) -> CellId {
        self.cells.cell_of(&self.scope.canonical(url).host_key())
    }

    fn must_be_open<'c>(
        &self,
        mut cells: impl Iterator<Item = &'c CellId>,
    ) -> Result<(), StoreError> {
        match cells.find(|cell| !self.open.contains_key(cell)) {
            Some(cell) => Err(self.closed(*cell)),
            None => Ok(()),
        }
    }

    /// The scope in force.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// As [`Frontier::set_scope`].
    ///
    /// # Errors
    /// As there.
    pub fn set_scope(&mut self, scope: Scope) -> Result<bool, StoreError> {
        let mut changed = false;
        for cell in Vec::from_iter(self.opened()) {
            changed |= self.act(cell, |frontier| frontier.set_scope(scope.clone()))?;
        }
        self.scope = scope;
        self.sums.rescoped = Rescoped::default();
        Ok(changed)
    }

    /// As [`Frontier::is_rescoping`].
    pub fn is_rescoping(&self) -> bool {
        self.frontiers().any(Frontier::is_rescoping)
    }

    /// As [`Frontier::rescope_slice`].
    ///
    /// # Errors
    /// As there.
    pub fn rescope_slice(&mut self, now: u64) -> Result<Option<Rescoped>, StoreError> {
        let Some(cell) = self.first(Frontier::is_rescoping) else {
            return Ok(None);
        };
        if let Some(done) = self.act(cell, |frontier| frontier.rescope_slice(now))? {
            let sum = &mut self.sums.rescoped;
            sum.seen += done.seen;
            sum.dropped += done.dropped;
            sum.revived += done.revived;
        }
        let is_done = !self.is_rescoping();
        Ok(is_done.then(|| std::mem::take(&mut self.sums.rescoped)))
    }

    /// Rates all links with this rating, also in cells that are opened later.
    ///
    /// # Errors
    /// As [`Frontier::set_rating`].
    pub fn set_rating(&mut self, rating: Arc<dyn Rating>) -> Result<bool, StoreError> {
        let mut changed = false;
        for cell in self.open.values_mut() {
            changed |= cell.frontier.set_rating(Arc::clone(&rating))?;
            cell.standing = None;
        }
        self.rating = Some(rating);
        self.restore_learned()?;
        Ok(changed)
    }

    /// The rating in force, if one was set.
    pub fn rating(&self) -> Option<&Arc<dyn Rating>> {
        self.rating.as_ref()
    }

    /// As [`Frontier::is_rescoring`].
    pub fn is_rescoring(&self) -> bool {
        self.frontiers().any(Frontier::is_rescoring)
    }

    /// As [`Frontier::rescored`].
    pub fn rescored(&self) -> Rescored {
        let mut sum = Rescored::default();
        for frontier in self.frontiers() {
            let of_cell = frontier.rescored();
            sum.seen += of_cell.seen;
            sum.rescored += of_cell.rescored;
            sum.moved += of_cell.moved;
            sum.razored += of_cell.razored;
            sum.revived += of_cell.revived;
        }
        sum
    }

    /// As [`Frontier::rescore_slice`].
    ///
    /// # Errors
    /// As there.
    pub fn rescore_slice(&mut self, now: u64) -> Result<Option<Rescored>, StoreError> {
        let Some(cell) = self.first(Frontier::is_rescoring) else {
            return Ok(None);
        };
        self.act(cell, |frontier| frontier.rescore_slice(now))?;
        Ok((!self.is_rescoring()).then(|| self.rescored()))
    }

    /// As [`Frontier::set_policy`].
    pub fn set_policy(&mut self, policy: Policy) {
        for cell in self.open.values_mut() {
            cell.frontier.set_policy(policy.clone());
            cell.standing = None;
        }
        self.policy = Policy {
            address_delay: self.policy.address_delay,
            domain_delay: self.policy.domain_delay,
            ..policy
        };
    }

    /// As [`Frontier::catch_up_takedowns`].
    ///
    /// # Errors
    /// As there.
    pub fn catch_up_takedowns(&mut self, now: u64) -> Result<(), StoreError> {
        for cell in Vec::from_iter(self.opened()) {
            self.act(cell, |frontier| frontier.catch_up_takedowns(now))?;
        }
        Ok(())
    }

    /// As [`Frontier::take_down`] with the scope of all cells, in the open cells. There must be no
    /// open leases.
    ///
    /// # Errors
    /// As there.
    pub fn take_down(&mut self, now: u64) -> Result<(), StoreError> {
        let scope = self.scope.clone();
        for cell in Vec::from_iter(self.opened()) {
            self.act(cell, |frontier| {
                frontier.take_down(&scope, &[], &[], now, false)
            })?;
        }
        Ok(())
    }

    pub(super) fn frontiers(&self) -> impl Iterator<Item = &Frontier> {
        self.open.values().map(|cell| &cell.frontier)
    }

    /// The first cell for which this holds.
    fn first(&self, holds: impl Fn(&Frontier) -> bool) -> Option<CellId> {
        let mut open = self.open.iter();
        open.find(|(_, cell)| holds(&cell.frontier))
            .map(|(id, _)| *id)
    }
}

/// The limits of a run.
impl Cells {
    /// As [`Frontier::set_most_open`].
    pub fn set_most_open(&mut self, most: usize) {
        self.sums.newcomers.set_most(most);
    }

    /// As [`Frontier::hold_pages`].
    pub fn hold_pages(&mut self, held: bool) {
        if self.sums.pages_held == held {
            return;
        }
        self.sums.pages_held = held;
        for cell in self.open.values_mut() {
            cell.frontier.hold_pages(held);
            cell.standing = None;
        }
    }

    /// As [`Frontier::close_pages`].
    ///
    /// # Errors
    /// As there.
    pub fn close_pages(&mut self, now: u64) -> Result<(), StoreError> {
        self.set_pages_closed(true, |frontier| frontier.close_pages(now))
    }

    /// As [`Frontier::pages_are_closed`].
    pub fn pages_are_closed(&self) -> bool {
        self.sums.pages_closed
    }

    /// The number of queued images, if only images are still fetched.
    pub fn images_alone(&self) -> Option<u64> {
        let counts = self.counts();
        let has_pages = counts.queued_pages() > 0 && !self.pages_are_closed();
        (!has_pages && counts.queued_images > 0).then_some(counts.queued_images)
    }

    /// As [`Frontier::open_pages`].
    ///
    /// # Errors
    /// As there.
    pub fn open_pages(&mut self, now: u64) -> Result<(), StoreError> {
        self.set_pages_closed(false, |frontier| frontier.open_pages(now))
    }

    fn set_pages_closed(
        &mut self,
        closed: bool,
        act: impl Fn(&mut Frontier) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        if self.sums.pages_closed == closed {
            return Ok(());
        }
        for cell in Vec::from_iter(self.opened()) {
            self.act(cell, &act)?;
        }
        self.sums.pages_closed = closed;
        Ok(())
    }

    /// As [`Frontier::add_active`].
    pub fn add_active(&mut self, millis: u64) {
        let pending = &mut self.sums.active_pending;
        *pending = pending.saturating_add(millis);
    }

    /// Adds the pending active time to an open cell.
    pub(super) fn book_active(&mut self) {
        let first = self.opened().next();
        let Some(first) = first.filter(|_| self.sums.active_pending > 0) else {
            return;
        };
        let pending = std::mem::take(&mut self.sums.active_pending);
        let booked: Result<(), StoreError> = self.act(first, |frontier| {
            frontier.add_active(pending);
            Ok(())
        });
        debug_assert!(booked.is_ok());
    }

    /// As [`Frontier::active`].
    pub fn active(&self) -> u64 {
        self.sums.active.saturating_add(self.sums.active_pending)
    }
}
