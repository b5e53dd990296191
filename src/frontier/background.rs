//! Background work between requests, a slice at a time: due URLs return to their queues,
//! and stored URLs are judged again after a change of the scope, the rating or robots
//! rules.

use std::sync::Arc;
use std::time::Duration;

use super::draws;
use super::host_files::Recheck;
use super::keys;
use super::parts::Frontier;
use super::ratings::{InForce, Rating, Rescored, worth};
use super::rejudge::{self, Rejudge, Rescoped};
use super::store::StoreError;
use super::transaction::Prepared;
use crate::address::PageUrl;
use crate::web::scope::Scope;

impl Frontier {
    /// Queues due URLs, and applies the next batch of changed robots rules.
    pub(super) fn wake(&mut self, now: u64) -> Result<(), StoreError> {
        self.wake_waiting(now)?;
        self.recheck(now)?;
        self.wake_visits(now)?;
        self.draw_control(now)
    }

    /// Queues the waiting URLs that are due.
    fn wake_waiting(&mut self, now: u64) -> Result<(), StoreError> {
        while let Some(prepared) = self.retries.wake(&self.ledger, now)? {
            self.commit(prepared, now)?;
            self.retries.look_up_next(self.ledger.store())?;
        }
        Ok(())
    }

    /// Checks the next batch of URLs that former robots rules forbade, if any is left.
    fn recheck(&mut self, now: u64) -> Result<(), StoreError> {
        if !self.files.is_rechecking() {
            return Ok(());
        }
        let Some(recheck) = Recheck::first(self.ledger.store())? else {
            return self.files.look_up_rechecks(self.ledger.store());
        };
        let slot = self.activate(&recheck.host)?;
        let rules = self.rules_of(slot, recheck.scheme)?;
        let mut tx = self.ledger.begin();
        recheck.look(&mut tx, &rules)?;
        let prepared = tx.prepare();
        self.commit(prepared, now)?;
        self.files.look_up_rechecks(self.ledger.store())?;
        self.refresh(slot, now)
    }

    /// Gives pages their own schedule: a fixed interval between two visits, which overrides
    /// `[recrawl]`. Unknown pages are added as seeds. The list replaces that of an earlier run:
    /// pages no longer on it follow `[recrawl]`. Scheduled seeds that cannot be fetched are not
    /// given up; they are requested again at the next interval.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails; the store is then unchanged.
    pub fn watch(&mut self, seeds: &[(PageUrl, Duration)], now: u64) -> Result<(), StoreError> {
        let mut tx = self.ledger.begin();
        let mut visits = std::mem::take(&mut self.visits);
        let intake = self.intake(InForce::default());
        let set = visits.set_schedules(&mut tx, &intake, seeds, now);
        let prepared = tx.prepare();
        self.visits = visits;
        set?;
        self.commit(prepared, now)?;
        self.visits.look_up_next(self.ledger.store())
    }

    /// Queues the next batch of pages whose visit is due.
    fn wake_visits(&mut self, now: u64) -> Result<(), StoreError> {
        if self.flags.pages_closed || self.visits.next().is_none_or(|due| due > now) {
            return Ok(());
        }
        let mut tx = self.ledger.begin();
        self.visits.wake(&mut tx, now)?;
        let prepared = tx.prepare();
        self.commit(prepared, now)?;
        self.visits.look_up_next(self.ledger.store())
    }

    /// Draws the links of the control sample that are due.
    pub(super) fn draw_control(&mut self, now: u64) -> Result<(), StoreError> {
        while !self.flags.pages_closed && draws::is_due(&self.ledger) {
            let mut tx = self.ledger.begin();
            draws::draw(&mut tx, &self.intake(InForce::default()), now)?;
            let prepared = tx.prepare();
            self.commit(prepared, now)?;
        }
        Ok(())
    }

    /// The scope in force.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Replaces the scope. Stored addresses are checked against it in the background by
    /// [`Frontier::rescope_slice`]. Returns false if nothing differs.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails; the scope is then unchanged.
    pub fn set_scope(&mut self, scope: Scope) -> Result<bool, StoreError> {
        let mut meta = self.ledger.meta().clone();
        if !rejudge::begin_where_changed(&mut meta, &scope) {
            return Ok(false);
        }
        self.commit_meta(|pending| *pending = meta)?;
        self.scope = scope;
        self.rescoped = Rescoped::default();
        Ok(true)
    }

    /// Whether stored addresses are still being checked against the scope.
    pub fn is_rescoping(&self) -> bool {
        self.ledger.meta().rescope.is_some()
    }

    /// Checks the next slice of addresses. Returns the totals when the last one is done.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails; nothing of this slice is done then.
    pub fn rescope_slice(&mut self, now: u64) -> Result<Option<Rescoped>, StoreError> {
        let Some(from) = self.ledger.meta().rescope.clone() else {
            return Ok(None);
        };
        let (found, next) = rejudge::slice_from(self.ledger.store(), &from)?;
        let mut done = self.rescoped;
        let mut tx = self.ledger.begin();
        let rejudge = self.rejudge(now);
        for (key, record) in found {
            done.seen += 1;
            rejudge.rescope(&mut tx, &key, record, &mut done)?;
        }
        let at_end = next.is_none();
        tx.meta.rescope = next;
        let prepared = tx.prepare();
        self.commit_slice(prepared, now)?;
        self.rescoped = done;
        Ok(at_end.then_some(done))
    }

    /// Replaces the rating. Stored links that were rated by a different one are re-rated in the
    /// background by [`Frontier::rescore_slice`]. Returns false if nothing differs.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails; the rating is then unchanged.
    pub fn set_rating(&mut self, rating: Arc<dyn Rating>) -> Result<bool, StoreError> {
        self.ratings.replace(&mut self.ledger, rating)
    }

    /// The rating in force, if one was set.
    pub fn rating(&self) -> Option<&Arc<dyn Rating>> {
        self.ratings.rating()
    }

    /// Whether stored links are still being re-rated.
    pub fn is_rescoring(&self) -> bool {
        self.ratings.is_rescoring()
    }

    /// Progress of the current re-rating, or the totals of the last one in this process.
    pub fn rescored(&self) -> Rescored {
        self.ratings.progress()
    }

    /// Re-rates the next slice of addresses. Returns the totals when the last one is done.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails; nothing of this slice is done then.
    pub fn rescore_slice(&mut self, now: u64) -> Result<Option<Rescored>, StoreError> {
        let Some((rating, scores, from)) = self.ratings.next() else {
            return Ok(None);
        };
        let store = self.ledger.store();
        let (found, next) = rejudge::slice_from(store, from)?;
        let anchors = scores.rerates_anchors();
        let scores = scores.reached(next);
        let mut came = self.ratings.progress();
        let mut tx = self.ledger.begin();
        let rejudge = self.rejudge(now);
        for (key, record) in found {
            came.seen += 1;
            let Some(kind) = keys::kind_of_key(&key) else {
                continue;
            };
            if let Some(worth) = worth(rating, store, kind, &key, &record, anchors)? {
                rejudge.rescore(&mut tx, &key, kind, record, worth, &mut came)?;
            }
        }
        tx.write(keys::SCORES.to_vec(), &scores)?;
        let prepared = tx.prepare();
        self.commit_slice(prepared, now)?;
        let done = (!scores.is_under_way()).then_some(came);
        self.ratings.came_to(scores, came);
        Ok(done)
    }

    fn rejudge(&self, now: u64) -> Rejudge<'_> {
        Rejudge {
            scope: &self.scope,
            schedule: &self.schedule,
            visits: &self.visits,
            now,
        }
    }

    /// Commits the changes of one slice.
    fn commit_slice(&mut self, prepared: Prepared, now: u64) -> Result<(), StoreError> {
        let booked = prepared.visit.is_some();
        self.commit(prepared, now)?;
        if booked {
            // Only the last of several booked visits is reported.
            self.visits.look_up_next(self.ledger.store())?;
        }
        Ok(())
    }
}
