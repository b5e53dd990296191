//! Visiting pages again: which ones, and when.
//!
//! A page is visited again where `[recrawl]` is on, sooner if it changes and later if it does not,
//! or if the operator gave it a schedule. The state for the next visit is part of its record
//! ([`Visit`]). While the record is in a finished state, the date is also in the index `V` of the
//! store. At that date the address returns to its queue with its old bucket and score. From then on
//! it is a task like any other: the host's clock and robots rules apply, so after days offline due
//! visits come no faster than first visits would.
//!
//! Pages fetched while `[recrawl]` was off have no such state: they are not visited again
//! when it is switched on later, unless the operator gives them a schedule. Finding them
//! would need a scan of all URLs. Where `[recrawl]` is switched off again, the dates stay
//! in the store, unused.
//!
//! This module knows no HTTP and no text: a page is unchanged if its digest is the same
//! or its server says so.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::Duration;

use super::added::{NewTask, Origin};
use super::intake::Intake;
use super::keys;
use super::outcome::Settled;
use super::policy::Recrawl;
use super::record::{State, UrlRecord, Visit, depends_on_path};
use super::requeue::{own_number, requeue};
use super::store::{Store, StoreError};
use super::transaction::{BookedVisit, Transaction, visit_entry};
use crate::address::PageUrl;
use crate::clock::millis;
use crate::page::{Reason, TaskKind, Validators};

/// Most pages that return to their queues in one batch, so that a crawl that was stopped for weeks
/// need not queue all of them before it continues.
const MAX_WAKES: usize = 200;

/// How a visit ended, as input for the next one.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ended<'a> {
    /// The page was fetched.
    Page {
        digest: Option<u64>,
        validators: &'a Validators,
    },
    /// The page has not changed.
    Unchanged { validators: &'a Validators },
    /// The page redirects, or has another canonical address.
    Moved,
    /// The page was not available this time; its state stays.
    Missed,
    /// The page is dropped.
    Lost,
}

/// The rules and schedules of repeated visits, and the date of the next one.
#[derive(Debug, Default)]
pub(super) struct Visits {
    recrawl: Option<Recrawl>,
    /// The interval of every page with a schedule, by its `U` key.
    every: HashMap<Vec<u8>, u64>,
    /// When the next visit is due.
    next: Option<u64>,
}

/// An entry of the index: its key, and the `U` key of the page.
type Entry = (Vec<u8>, Vec<u8>);

impl Visits {
    pub fn new(recrawl: Option<Recrawl>) -> Self {
        Self {
            recrawl,
            ..Self::default()
        }
    }

    /// When the next visit is due, in milliseconds since 1970.
    pub fn next(&self) -> Option<u64> {
        self.next
    }

    /// Whether pages are visited again at all.
    pub fn are_made(&self) -> bool {
        self.recrawl.is_some() || !self.every.is_empty()
    }

    /// Whether the page with the state `known` was visited before or has a schedule.
    pub fn follows(&self, key: &[u8], known: Option<&Visit>) -> bool {
        known.is_some() || self.every.contains_key(key)
    }

    /// The state of a page for its next visit, including the date, and whether its text has
    /// changed, if that is known. `id` is the page's number among the finished.
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
                // The validators in a 304 replace the earlier ones (RFC 9110 section
                // 15.4.5).
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
            // The first interval of the rule, also after a schedule has ended.
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

    /// Ends a record that just left its queue and whose page did not arrive. If the failure is
    /// `passing` and the page was fetched before, the visit is only postponed: an hour of downtime
    /// must not end the visits of a page.
    pub fn fail(
        &self,
        tx: &mut Transaction<'_>,
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
            tx.rest(key, &record)?;
            return Ok(Settled::Postponed { reason });
        }
        (record.visit, _) = self.after(key, known, None, Ended::Lost, now);
        tx.drop_record(key, record, reason)?;
        Ok(Settled::Dropped { reason })
    }

    /// Whether visits of this kind are currently made.
    fn awake(&self, scheduled: bool) -> bool {
        scheduled || self.recrawl.is_some()
    }

    /// Notes a booked visit.
    pub fn expect(&mut self, visit: Option<BookedVisit>) {
        if let Some(BookedVisit { due, scheduled }) = visit
            && self.awake(scheduled)
        {
            self.next = Some(self.next.map_or(due, |first| first.min(due)));
        }
    }

    /// Looks up in the store when the next visit is due.
    pub fn look_up_next(&mut self, store: &dyn Store) -> Result<(), StoreError> {
        let mut first: Option<u64> = None;
        for scheduled in [true, false] {
            let found = self.due_by(store, scheduled, u64::MAX, 1)?;
            let due = found
                .first()
                .and_then(|(entry, _)| keys::due_of_visit_key(entry));
            first = first.into_iter().chain(due).min();
        }
        self.next = first;
        Ok(())
    }

    /// Gives pages their own schedule, each with the interval between two visits. The
    /// list replaces that of an earlier run: pages that are no longer on it follow the
    /// general rule.
    pub fn set_schedules(
        &mut self,
        tx: &mut Transaction<'_>,
        intake: &Intake<'_>,
        seeds: &[(PageUrl, Duration)],
        now: u64,
    ) -> Result<(), StoreError> {
        let pause = |every: &Duration| millis(*every).max(1);
        let own = |url| keys::url(&intake.canonical(url), TaskKind::Page);
        let schedules: Vec<(Vec<u8>, u64)> =
            seeds.iter().map(|(u, e)| (own(u), pause(e))).collect();
        self.every = schedules.iter().cloned().collect();
        for (_, key) in self.due_by(tx.store(), true, u64::MAX, usize::MAX)? {
            if !self.every.contains_key(&key)
                && let Some(mut record) = tx.record(&key)?
            {
                let due = record.visit.as_ref().and_then(|v| v.due);
                tx.cancel_visit(&mut record);
                if let Some(visit) = &mut record.visit {
                    visit.scheduled = false;
                    visit.due = due;
                }
                tx.rest(&key, &record)?;
            }
        }
        for ((url, _), (key, every)) in seeds.iter().zip(&schedules) {
            intake.add_page(tx, &NewTask::seed(url), Origin::default())?;
            put_on_schedule(tx, key, *every, now)?;
        }
        Ok(())
    }

    /// Queues the next batch of pages whose visit is due.
    pub fn wake(&self, tx: &mut Transaction<'_>, now: u64) -> Result<(), StoreError> {
        let mut due = self.due_by(tx.store(), true, now, MAX_WAKES)?;
        due.extend(self.due_by(tx.store(), false, now, MAX_WAKES)?);
        for (entry, key) in due {
            let record = tx.record(&key)?;
            match (record, keys::url_of_key(&key)) {
                (Some(record), Some((url, kind)))
                    if visit_entry(&record).is_some_and(|own| own == entry) =>
                {
                    // A new visit, whose redirects are counted from 0.
                    let redirects = 0;
                    let record = UrlRecord {
                        redirects,
                        ..record
                    };
                    requeue(tx, &key, kind, &url.host_key(), record)?;
                }
                _ => tx.delete(entry),
            }
        }
        Ok(())
    }

    /// The visits of one kind that are due by `until`, at most `limit`, earliest first.
    /// Empty if that kind is not visited now.
    fn due_by(
        &self,
        store: &dyn Store,
        scheduled: bool,
        until: u64,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let mut found = Vec::new();
        if !self.awake(scheduled) {
            return Ok(found);
        }
        store.scan(&keys::visits(scheduled), &[], &mut |entry, key| {
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

/// Transfers a visit to the redirect target: a target that was fetched before is
/// requested again, because otherwise a schedule would only ever fetch the redirect.
pub(super) fn visit_target(
    tx: &mut Transaction<'_>,
    url: &PageUrl,
    redirects: u8,
) -> Result<(), StoreError> {
    let key = keys::url(url, TaskKind::Page);
    let Some(mut record) = tx.record(&key)? else {
        return Ok(());
    };
    let mut visit = record.visit.take().unwrap_or_default();
    match record.state {
        State::Queued | State::Waiting { .. } => {
            record.visit = Some(visit);
            tx.put_record(&key, &record)
        }
        State::Dropped { reason } if depends_on_path(reason) => Ok(()),
        State::Dropped { .. } | State::Done { .. } | State::Redirected { .. } => {
            if matches!(record.state, State::Done { .. }) {
                visit.visits = visit.visits.max(1);
            }
            record.visit = Some(visit);
            record.redirects = redirects;
            requeue(tx, &key, TaskKind::Page, &url.host_key(), record)
        }
    }
}

/// Books the next visit of a scheduled page that is finished.
fn put_on_schedule(
    tx: &mut Transaction<'_>,
    key: &[u8],
    every: u64,
    now: u64,
) -> Result<(), StoreError> {
    let Some(mut record) = tx.record(key)? else {
        return Ok(());
    };
    match record.state {
        State::Queued | State::Waiting { .. } => return Ok(()),
        State::Dropped { reason } if depends_on_path(reason) => return Ok(()),
        _ => {}
    }
    let id = own_number(tx, key, &record.state)?;
    tx.cancel_visit(&mut record);
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
    tx.rest(key, &record)
}
