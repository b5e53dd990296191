//! Visiting pages again: which ones, and when.
//!
//! A page is visited again where `[recrawl]` says so, sooner where it changes and
//! later where it does not, or where the operator gave it a schedule of its own.
//! What is known for the next visit is part of its record ([`Visit`]). While it
//! rests in a finished state, the date lies in the index `V` of the store as well;
//! when it has come, the address returns to its queue with its old bucket and
//! score. From there it is a task like any other: the host's clock and robots
//! rules hold, so that after days offline what is due comes no faster than a
//! first visit would.
//!
//! Pages that were fetched while `[recrawl]` was off carry no such record: they
//! are not visited again when it is switched on later, unless the operator gives
//! them a schedule. To look for them would cost a walk over all URLs. Where it is
//! switched off again, the dates stay in the store and rest until it is back.
//!
//! This module knows no HTTP and no text: a page is the same where its digest is,
//! or where somebody says so.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::Duration;

use super::change::{Change, Origin, is_judgement, uncount_dropped};
use super::finish::Settled;
use super::record::{State, UrlRecord, Visit};
use super::store::StoreError;
use super::{Frontier, keys, seed};
use crate::address::{HostKey, PageUrl};
use crate::clock::millis;
use crate::page::{Reason, TaskKind, Validators};

/// Pages that return to their queues in one batch at most, so that a crawl which
/// was away for weeks goes on at once and not after all of them.
const MAX_WAKES: usize = 200;

/// How long after a visit the next one is due, by how often the page changes. All
/// times are in milliseconds; `min <= after <= max`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recrawl {
    /// The pause after the first visit.
    pub after: u64,
    /// The shortest pause.
    pub min: u64,
    /// The longest pause.
    pub max: u64,
}

impl Recrawl {
    /// The pause that follows one of `interval`: half of it where the page has
    /// changed, half as much again where it has not. A page is thus met at about
    /// twice the rate of its changes at most, and one that never changes costs a
    /// visit every `max`.
    pub(super) fn next(&self, interval: u64, changed: bool) -> u64 {
        let next = if changed {
            interval / 2
        } else {
            interval.saturating_add(interval.div_ceil(2))
        };
        next.max(self.min).min(self.max)
    }
}

/// How a visit ended, as far as the next one depends on it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ended<'a> {
    /// The page came.
    Page {
        digest: Option<u64>,
        validators: &'a Validators,
    },
    /// It is as it was.
    Unchanged { validators: &'a Validators },
    /// It points elsewhere.
    Moved,
    /// It could not be had this time, and what is known of it stays.
    Missed,
    /// It is dropped.
    Lost,
}

/// Which pages are visited again.
#[derive(Debug, Default)]
pub(super) struct Visits {
    recrawl: Option<Recrawl>,
    /// The pause of every page with a schedule of its own, by its `U` key.
    every: HashMap<Vec<u8>, u64>,
}

impl Visits {
    pub fn new(recrawl: Option<Recrawl>) -> Self {
        Self {
            recrawl,
            every: HashMap::new(),
        }
    }

    /// Whether any pages are.
    pub fn are_made(&self) -> bool {
        self.recrawl.is_some() || !self.every.is_empty()
    }

    /// Whether a page that `known` tells of has a visit behind it or a schedule.
    pub fn follows(&self, key: &[u8], known: Option<&Visit>) -> bool {
        known.is_some() || self.every.contains_key(key)
    }

    /// What is to be kept of a page for its next visit, with the date of that;
    /// and whether its text has changed, where that can be said. `id` is its
    /// number among the finished.
    pub fn after(
        &self,
        key: &[u8],
        known: Option<Visit>,
        id: Option<u64>,
        ended: Ended<'_>,
        now: u64,
    ) -> (Option<Visit>, Option<bool>) {
        let every = self.every.get(key);
        let begins =
            every.is_some() || matches!((ended, &self.recrawl), (Ended::Page { .. }, Some(_)));
        if known.is_none() && !begins {
            return (None, None);
        }
        let mut visit = known.unwrap_or_default();
        let first = visit.visits == 0;
        let mut changed = None;
        match ended {
            Ended::Page { digest, validators } => {
                let other = digest.is_none() || digest != visit.digest;
                changed = (!first).then_some(other);
                visit.visits = visit.visits.saturating_add(1);
                visit.changes = visit.changes.saturating_add(u32::from(!first && other));
                visit.digest = digest;
                visit.validators = validators.clone();
            }
            Ended::Unchanged { validators } => {
                changed = Some(false);
                visit.visits = visit.visits.saturating_add(1);
                // What a 304 names replaces what was known (RFC 9110 section 15.4.5).
                for (new, old) in [
                    (&validators.etag, &mut visit.validators.etag),
                    (
                        &validators.last_modified,
                        &mut visit.validators.last_modified,
                    ),
                ] {
                    if new.is_some() {
                        old.clone_from(new);
                    }
                }
            }
            Ended::Moved | Ended::Missed | Ended::Lost => {}
        }
        let stays = !matches!(ended, Ended::Moved | Ended::Lost);
        let interval = match (every, &self.recrawl) {
            (Some(every), _) => Some(*every),
            (None, _) if !stays => None,
            // The first pause by this rule, also where a schedule has ended.
            (None, Some(rule)) if first || visit.scheduled => Some(rule.after),
            (None, Some(rule)) => Some(rule.next(visit.interval, changed == Some(true))),
            (None, None) => Some(visit.interval).filter(|i| *i > 0),
        };
        visit.id = id.or(visit.id);
        visit.last = now;
        visit.scheduled = every.is_some();
        visit.interval = interval.unwrap_or(visit.interval);
        visit.due = interval.map(|pause| now.saturating_add(pause));
        (Some(visit), changed)
    }

    /// Ends a record that just left its queue without its page. Where the failure
    /// is a `passing` one and the page was had before, it is only postponed: an
    /// hour of downtime must not cost a page that is watched.
    pub fn fail(
        &self,
        change: &mut Change<'_>,
        key: &[u8],
        mut record: UrlRecord,
        reason: Reason,
        passing: bool,
        now: u64,
    ) -> Result<Settled, StoreError> {
        let known = record.visit.take();
        let had = known.as_ref().filter(|v| v.visits > 0).and_then(|v| v.id);
        if let (true, Some(id)) = (passing, had) {
            (record.visit, _) = self.after(key, known, None, Ended::Missed, now);
            record.state = State::Done { id };
            change.rest(key, &record)?;
            return Ok(Settled::Postponed { reason });
        }
        (record.visit, _) = self.after(key, known, None, Ended::Lost, now);
        change.drop_record(key, record, reason)?;
        Ok(Settled::Dropped { reason })
    }

    /// Whether visits of this kind are made at all now.
    fn awake(&self, scheduled: bool) -> bool {
        scheduled || self.recrawl.is_some()
    }
}

/// An entry of the index: its key, and the `U` key of the page.
type Entry = (Vec<u8>, Vec<u8>);

/// The index key of a record whose next visit has a date.
pub(super) fn entry_of(record: &UrlRecord) -> Option<Vec<u8>> {
    let visit = record.visit.as_ref()?;
    let due = visit.due?;
    Some(keys::visit(visit.scheduled, due, record.seq))
}

impl Change<'_> {
    /// Writes a record in a finished state, with its next visit if it has one.
    pub(super) fn rest(&mut self, key: &[u8], record: &UrlRecord) -> Result<(), StoreError> {
        if let Some(entry) = entry_of(record) {
            self.batch.put(entry, key.to_vec());
            self.meta.counts.watched += 1;
            let visit = record.visit.as_ref();
            self.visit = visit.and_then(|v| Some((v.due?, v.scheduled)));
        }
        self.put_record(key, record)
    }

    /// Takes the next visit of a finished record back.
    pub(super) fn unrest(&mut self, record: &mut UrlRecord) {
        if let Some(entry) = entry_of(record) {
            self.batch.delete(entry);
            let watched = &mut self.meta.counts.watched;
            *watched = watched.saturating_sub(1);
        }
        if let Some(visit) = &mut record.visit {
            visit.due = None;
        }
    }

    /// Puts a finished record back into its queue, with all attempts before it.
    pub(super) fn rouse(
        &mut self,
        key: &[u8],
        kind: TaskKind,
        host: &HostKey,
        mut record: UrlRecord,
    ) -> Result<(), StoreError> {
        self.unrest(&mut record);
        if let State::Dropped { reason } = record.state {
            uncount_dropped(&mut self.meta.counts, reason);
            // Above the razor it was listed when it was met.
            if is_judgement(reason) && reason != Reason::Razor {
                self.list(key, kind, Some(record.bucket));
            }
        }
        let id = self.own_number(key, &record.state)?;
        if let Some(visit) = &mut record.visit {
            visit.id = id.or(visit.id);
        }
        record.attempts = 0;
        record.state = State::Queued;
        self.enqueue(key, kind, host, &record)
    }

    /// The number of an address in this state, if it was ever asked: one that
    /// another page stands for has that page's.
    fn own_number(&self, key: &[u8], state: &State) -> Result<Option<u64>, StoreError> {
        let id = match state {
            State::Done { id } => return Ok(Some(*id)),
            State::Redirected { id, .. } => *id,
            _ => return Ok(None),
        };
        let named = self.get(&keys::document(id))?;
        let own = keys::url_of_key(key)
            .is_some_and(|(url, _)| named.as_deref() == Some(url.as_str().as_bytes()));
        Ok(own.then_some(id))
    }

    /// Carries a visit over to where its page points: a page that was fetched
    /// before is asked again, or a schedule would only ever see the redirect.
    pub(super) fn visit_target(&mut self, url: &PageUrl, redirects: u8) -> Result<(), StoreError> {
        let key = keys::url(url, TaskKind::Page);
        let Some(mut record) = self.record(&key)? else {
            return Ok(());
        };
        let mut visit = record.visit.take().unwrap_or_default();
        match record.state {
            State::Queued | State::Waiting { .. } => {
                record.visit = Some(visit);
                self.put_record(&key, &record)
            }
            State::Dropped { reason } if is_judgement(reason) => Ok(()),
            State::Dropped { .. } | State::Done { .. } | State::Redirected { .. } => {
                if matches!(record.state, State::Done { .. }) {
                    visit.visits = visit.visits.max(1);
                }
                record.visit = Some(visit);
                record.redirects = redirects;
                self.rouse(&key, TaskKind::Page, &url.host_key(), record)
            }
        }
    }

    /// Books the next visit of a page by its schedule, where it rests.
    fn put_on_schedule(&mut self, key: &[u8], every: u64, now: u64) -> Result<(), StoreError> {
        let Some(mut record) = self.record(key)? else {
            return Ok(());
        };
        match record.state {
            State::Queued | State::Waiting { .. } => return Ok(()),
            State::Dropped { reason } if is_judgement(reason) => return Ok(()),
            _ => {}
        }
        let id = self.own_number(key, &record.state)?;
        self.unrest(&mut record);
        let was_done = matches!(record.state, State::Done { .. });
        let visit = record.visit.get_or_insert_default();
        visit.id = id.or(visit.id);
        visit.visits = visit.visits.max(u32::from(was_done));
        visit.scheduled = true;
        visit.interval = every;
        visit.due = Some(match visit.last {
            0 => now,
            last => last.saturating_add(every),
        });
        self.rest(key, &record)
    }
}

impl Frontier {
    /// Gives pages a schedule of their own, each with the pause between two
    /// visits, whatever `[recrawl]` says; they are added as seeds where they are
    /// not known. The list replaces an earlier run's: pages that are no longer on
    /// it follow `[recrawl]` from now on. Seeds that cannot be had are not given
    /// up, but asked again when their time comes.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails; nothing is changed in it then.
    pub fn watch(&mut self, seeds: &[(PageUrl, Duration)], now: u64) -> Result<(), StoreError> {
        let pause = |every: &Duration| millis(*every).max(1);
        let own = |url| keys::url(&self.scope.canonical(url), TaskKind::Page);
        let schedules: Vec<(Vec<u8>, u64)> =
            seeds.iter().map(|(u, e)| (own(u), pause(e))).collect();
        self.visits.every = schedules.iter().cloned().collect();
        let before = self.visits_by(true, u64::MAX, usize::MAX)?;
        let mut change = Change::new(&*self.store, &self.scope, &self.schedule, self.meta.clone());
        for (_, key) in before {
            if !self.visits.every.contains_key(&key)
                && let Some(mut record) = change.record(&key)?
            {
                let due = record.visit.as_ref().and_then(|v| v.due);
                change.unrest(&mut record);
                if let Some(visit) = &mut record.visit {
                    visit.scheduled = false;
                    visit.due = due;
                }
                change.rest(&key, &record)?;
            }
        }
        for ((url, _), (key, every)) in seeds.iter().zip(&schedules) {
            change.add_page(&seed(url), Origin::default())?;
            change.put_on_schedule(key, *every, now)?;
        }
        let change = change.gathered();
        self.commit_change(change, now)?;
        self.next_visit = self.first_visit()?;
        Ok(())
    }

    /// Queues the pages whose next visit is due, some at a time.
    pub(super) fn wake_visits(&mut self, now: u64) -> Result<(), StoreError> {
        if self.pages_closed || self.next_visit.is_none_or(|due| due > now) {
            return Ok(());
        }
        let mut due = self.visits_by(true, now, MAX_WAKES)?;
        due.extend(self.visits_by(false, now, MAX_WAKES)?);
        let mut change = Change::new(&*self.store, &self.scope, &self.schedule, self.meta.clone());
        for (entry, key) in due {
            let record = change.record(&key)?;
            match (record, keys::url_of_key(&key)) {
                (Some(record), Some((url, kind)))
                    if entry_of(&record).is_some_and(|own| own == entry) =>
                {
                    // A new visit, so its redirects are counted anew.
                    let redirects = 0;
                    let record = UrlRecord {
                        redirects,
                        ..record
                    };
                    change.rouse(&key, kind, &url.host_key(), record)?;
                }
                _ => change.batch.delete(entry),
            }
        }
        let change = change.gathered();
        self.commit_change(change, now)?;
        self.next_visit = self.first_visit()?;
        Ok(())
    }

    /// Takes note of a visit that was booked.
    pub(super) fn expect_visit(&mut self, visit: Option<(u64, bool)>) {
        if let Some((due, scheduled)) = visit
            && self.visits.awake(scheduled)
        {
            self.next_visit = Some(self.next_visit.map_or(due, |first| first.min(due)));
        }
    }

    /// When the first visit to come is due, of those that are made.
    pub(super) fn first_visit(&self) -> Result<Option<u64>, StoreError> {
        let mut first: Option<u64> = None;
        for scheduled in [true, false] {
            let found = self.visits_by(scheduled, u64::MAX, 1)?;
            let due = found
                .first()
                .and_then(|(entry, _)| keys::due_of_visit_key(entry));
            first = first.into_iter().chain(due).min();
        }
        Ok(first)
    }

    /// The visits of one kind that are due by `until`, at most `limit`, earliest
    /// first. None where that kind rests.
    fn visits_by(
        &self,
        scheduled: bool,
        until: u64,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let mut found = Vec::new();
        if !self.visits.awake(scheduled) {
            return Ok(found);
        }
        self.store
            .scan(&keys::visits(scheduled), &[], &mut |entry, key| {
                if keys::due_of_visit_key(entry).is_some_and(|due| due > until) {
                    return ControlFlow::Break(());
                }
                found.push((entry.to_vec(), key.to_vec()));
                if found.len() < limit {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_pause_follows_the_changes() {
        let rule = Recrawl {
            after: 1_000,
            min: 300,
            max: 2_000,
        };
        let mut pause = rule.after;
        let mut next = |changed| {
            pause = rule.next(pause, changed);
            pause
        };
        assert_eq!([true, true, true].map(&mut next), [500, 300, 300]);
        assert_eq!(
            [false; 6].map(&mut next),
            [450, 675, 1_013, 1_520, 2_000, 2_000]
        );
        assert_eq!(next(true), 1_000);
    }

    proptest! {
        #![proptest_config(crate::tests::usual())]

        /// Within its bounds whatever happens, shorter after a change and longer
        /// after none as long as they allow it.
        #[test]
        fn the_pause_keeps_its_bounds(
            bounds in proptest::array::uniform3(1_u64..), visits in proptest::collection::vec(any::<bool>(), 0..100)
        ) {
            let mut bounds = bounds;
            bounds.sort_unstable();
            let [min, after, max] = bounds;
            let rule = Recrawl { after, min, max };
            let mut pause = after;
            for changed in visits {
                let next = rule.next(pause, changed);
                prop_assert!((min..=max).contains(&next));
                if changed { prop_assert!(next < pause || next == min) } else { prop_assert!(next > pause || next == max) }
                pause = next;
            }
        }
    }
}
