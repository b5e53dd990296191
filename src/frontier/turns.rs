//! The choice of the next host, between pages and images, and the time of the next check.

use super::image_ledger;
use super::keys::{Rank, class};
use super::parts::Frontier;
use super::schedule::Slot;
use super::store::StoreError;
use crate::page::Bucket;

/// What a frontier could lease while nothing in it changes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standing {
    /// The place of the best page.
    pub page: Option<Rank>,
    /// The place of the best image.
    pub image: Option<Rank>,
    /// The place of the best page whose host is in a short delay.
    pub resting: Option<Rank>,
    /// Valid until this time, in milliseconds since 1970.
    pub until: u64,
}

impl Frontier {
    /// Whether the last [`Frontier::lease`] returned nothing although a request was possible, to
    /// wait for a better one that will be possible shortly.
    pub fn is_patient(&self) -> bool {
        self.flags.is_patient
    }

    /// Whether a host that has returned nothing yet could be requested if fewer requests
    /// to such hosts were open.
    pub fn keeps_back(&self) -> bool {
        self.schedule.keeps_back()
    }

    /// The host of the next request, and whether the request is for an image.
    pub(super) fn choose(&mut self, patient: bool, now: u64) -> Option<(Slot, bool)> {
        let connections = self.policy.connections;
        let share = self.policy.image_share;
        let is_due = |owed| image_ledger::is_due(owed, share);
        if self.flags.pages_held {
            let slot = self.schedule.best_image(false, is_due, now, connections)?;
            return Some((slot, true));
        }
        if self.is_image_turn()
            && let Some(slot) = self.schedule.best_image(true, is_due, now, connections)
        {
            return Some((slot, true));
        }
        let drawn = self.explores();
        if let Some(slot) = drawn.and_then(|number| self.schedule.any_ready(number, now)) {
            return Some((slot, false));
        }
        let page = self.schedule.best(now, connections);
        if self.flags.may_give_way && page.is_some_and(|slot| self.is_better_elsewhere(slot)) {
            self.flags.gave_way = true;
            return None;
        }
        if let Some(slot) = page.filter(|slot| !patient || self.is_worth_it(*slot, now)) {
            return Some((slot, false));
        }
        // While no page may be requested, an image may be.
        if let Some(slot) = self.schedule.best_image(false, is_due, now, connections) {
            return Some((slot, true));
        }
        self.flags.is_patient = page.is_some();
        None
    }

    /// When [`Frontier::lease`] may return a task again if no task is finished before. `None` if
    /// only a finished task, or the return of a parked host for which the crawl does not wait, can
    /// change that.
    pub fn next_event(&self) -> Option<u64> {
        self.next_event_with(self.leases.newcomers.room())
    }

    /// The same as if pages were not held back.
    pub(super) fn next_if_not_held(&self) -> Option<u64> {
        self.next_event_as(self.leases.newcomers.room(), false)
    }

    /// The same with room for this many more requests to newcomers.
    pub(super) fn next_event_with(&self, room: usize) -> Option<u64> {
        self.next_event_as(room, self.flags.pages_held)
    }

    fn next_event_as(&self, room: usize, pages_held: bool) -> Option<u64> {
        let rejudging = self.files.is_rechecking() || self.is_rescoping() || self.is_rescoring();
        let images = self.schedule.is_ready_for_images();
        let is_ready = images || (!pages_held && self.schedule.is_ready());
        let newcomer = self.schedule.keeps_back() && room > 0;
        if rejudging || newcomer || (is_ready && !self.flags.is_patient) {
            return Some(0);
        }
        // The tasks that it waited for may be gone by now.
        let otherwise = is_ready.then_some(0).filter(|_| self.leases.is_empty());
        self.next_due().or(otherwise)
    }

    /// Whether what could be leased waits for a better page of another cell.
    pub(super) fn waits_elsewhere(&self) -> bool {
        let is_rejudging = self.is_rescoping() || self.is_rescoring();
        self.flags.is_patient && self.flags.elsewhere.resting.is_some() && !is_rejudging
    }

    /// When time alone may change what can be leased.
    pub(super) fn next_due(&self) -> Option<u64> {
        let (mut visit, mut parked) = (self.visits.next(), self.schedule.next_parked());
        // Once the page budget is spent, no visit is made or waited for.
        if self.flags.pages_closed {
            visit = None;
        }
        // A crawl that revisits pages waits while their hosts are down.
        if self.flags.pages_closed || !self.visits.are_made() {
            parked = None;
        }
        let events = [self.schedule.next_due(), self.retries.next(), visit, parked];
        events.into_iter().flatten().min()
    }

    /// Whether the next event, if it is at `at`, is another attempt after a failure.
    pub(super) fn is_retry(&self, at: u64) -> bool {
        self.retries.next() == Some(at) || self.schedule.is_failed_due(at)
    }

    /// What could be leased now, for comparison with other cells.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub(super) fn standing(&mut self, now: u64) -> Result<Standing, StoreError> {
        self.awake(now)?;
        let connections = self.policy.connections;
        let one = self.leases.newcomers.room() > 0;
        self.schedule.let_in(one, now, connections);
        let page = if self.flags.pages_held {
            None
        } else {
            self.schedule.best(now, connections)
        };
        let image = self.schedule.best_image(false, |_| true, now, connections);
        let page = page.and_then(|slot| self.schedule.host(slot)?.head.as_ref());
        let image = image.and_then(|slot| self.schedule.host(slot)?.image.as_ref());
        let events = self
            .next_due()
            .into_iter()
            .chain(self.schedule.next_parked());
        // A newcomer may be let in at any time, and a rechecked address may be leased.
        let until = if self.schedule.keeps_back() || self.files.is_rechecking() {
            now
        } else {
            events.min().unwrap_or(u64::MAX)
        };
        Ok(Standing {
            page: page.map(|head| head.rank),
            image: image.map(|head| head.rank),
            resting: self.schedule.best_resting(now),
            until,
        })
    }

    /// True if nothing is leased and only parked hosts are left. If pages are visited again, the
    /// frontier waits for parked hosts and visits, and is exhausted only when no page is left to
    /// visit.
    pub fn is_exhausted(&self) -> bool {
        self.leases.is_empty() && self.next_event().is_none()
    }

    /// Stops leasing pages, because the page budget is spent; images and robots.txt are
    /// still leased. Queued pages stay queued.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn close_pages(&mut self, now: u64) -> Result<(), StoreError> {
        if !self.flags.pages_closed {
            self.flags.pages_closed = true;
            for slot in self.schedule.slots() {
                self.refresh(slot, now)?;
            }
        }
        Ok(())
    }

    /// Whether only images are still fetched, because the page budget is spent.
    pub fn pages_are_closed(&self) -> bool {
        self.flags.pages_closed
    }

    /// While this is set only images and robots.txt are leased, because the open requests
    /// may use up the page budget.
    pub fn hold_pages(&mut self, held: bool) {
        self.flags.pages_held = held;
    }

    /// Reverts [`Frontier::close_pages`].
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn open_pages(&mut self, now: u64) -> Result<(), StoreError> {
        if self.flags.pages_closed {
            self.flags.pages_closed = false;
            // Hosts with only pages left were removed from memory.
            self.load_hosts(now)?;
        }
        Ok(())
    }

    /// Whether the next page of a host is not much less likely on topic than the best one
    /// whose host is in a short delay.
    fn is_worth_it(&self, slot: Slot, now: u64) -> bool {
        let learning = self.ratings.learning();
        let host = self.schedule.host(slot);
        let head = host.and_then(|h| h.head.as_ref());
        let (Some(learning), Some(head)) = (learning, head) else {
            return true;
        };
        if head.class != class::PAGE || head.rank.bucket == Bucket::Seed {
            return true;
        }
        let resting = self.schedule.best_resting(now);
        let resting = resting
            .into_iter()
            .chain(self.flags.elsewhere.resting)
            .min();
        let patience = learning.patience();
        let chance = learning.chance(head.rank.score());
        resting.is_none_or(|best| chance >= patience * learning.chance(best.score()))
    }

    /// Whether another cell has a better page than the next one of this host.
    fn is_better_elsewhere(&self, slot: Slot) -> bool {
        let head = self.schedule.host(slot).and_then(|h| h.head.as_ref());
        match (self.flags.elsewhere.ready, head) {
            (Some(ready), Some(head)) => ready.is_better_than(&head.rank),
            _ => false,
        }
    }

    /// A random number if the next page is to be chosen by chance (exploration); `None`
    /// otherwise.
    fn explores(&self) -> Option<u64> {
        let learning = self.ratings.learning()?;
        learning.explores(self.asked().saturating_add(self.flags.elsewhere.asked))
    }

    /// The number of requested pages, including open requests.
    pub(super) fn asked(&self) -> u64 {
        let open = u64::try_from(self.leases.len()).unwrap_or(u64::MAX);
        self.ledger.meta().counts.fetches.saturating_add(open)
    }

    /// Whether the next request should be for an image.
    fn is_image_turn(&self) -> bool {
        let (pages, images) = self.flags.elsewhere.open;
        let pages = pages + self.leases.pages();
        let images = images + self.leases.images();
        let share = self.policy.image_share;
        self.ledger
            .meta()
            .images
            .is_image_turn(pages, images, share)
    }
}
