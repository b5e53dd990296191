//! Outcomes: what a finished task changes, committed as one batch.

use std::time::Duration;

use super::change::{Change, Origin};
use super::groups::{GroupKey, GroupRecord, News};
use super::record::{State, UrlRecord};
use super::schedule::Slot;
use super::store::StoreError;
use super::traps::{Claim, Worth};
use super::visits::{Ended, Visits};
use super::{Errand, Frontier, HostRecord, Lease, NewImage, NewTask, contexts};
use crate::address::PageUrl;
use crate::page::{Bucket, ImageContext, Outcome, Prints, Reason, Task, TaskKind, Validators};

/// What a site lists is as near as a link on its front page.
const HOPS_LISTED: u32 = 1;

/// What a page or a sitemap brought; empty for everything else.
#[derive(Debug, Default)]
pub struct Effects {
    /// Its links.
    pub links: Vec<NewTask>,
    /// Its images.
    pub images: Vec<NewImage>,
    /// The sitemaps that an index of them lists.
    pub sitemaps: Vec<PageUrl>,
    /// Body bytes received, for the counters.
    pub bytes: u64,
    /// Digest of a page's text: where it is that of the visit before, the page
    /// has not changed.
    pub digest: Option<u64>,
    /// What the server calls this version of the page.
    pub validators: Validators,
    /// The address that it calls its own.
    pub canonical: Option<PageUrl>,
    /// What its text is known again by; without it no copies are looked for and no
    /// budget is charged.
    pub prints: Option<Prints>,
}

/// What became of a finished task.
#[derive(Debug, Clone, PartialEq)]
pub enum Settled {
    /// Done; asked again only where pages are visited again.
    Done,
    /// Visited again, and the server says that nothing has changed.
    Unchanged,
    /// Done, and its target added.
    Redirected,
    /// To be tried again.
    Retrying {
        /// What went wrong.
        reason: Reason,
        /// Not before this time, in milliseconds since 1970.
        due: u64,
    },
    /// Not to be had at this visit. What is known of the page stays, and it is
    /// asked again at its next one.
    Postponed {
        /// What went wrong.
        reason: Reason,
    },
    /// Not asked again, but for a seed with a schedule of its own.
    Dropped {
        /// Why.
        reason: Reason,
    },
}

/// What the outputs may need to know before they write.
#[derive(Debug)]
pub struct Finished {
    /// What became of the task.
    pub settled: Settled,
    /// Its number among the finished, where it got one.
    pub id: Option<u64>,
    /// Whether the text is another one than at the visit before; `None` where
    /// there was none or no text came.
    pub changed: Option<bool>,
    /// Contexts on this page of images that are kept already, with the note that
    /// was given when they were.
    pub extend: Vec<(String, ImageContext)>,
    /// The page that it names as its canonical address and that was fetched before:
    /// nothing of this one was taken.
    pub duplicate_of: Option<PageUrl>,
    /// The page that its text is a near copy of: its links were not taken.
    pub near_copy_of: Option<PageUrl>,
}

/// What the outputs say when they have written.
#[derive(Debug, Default)]
pub struct Written {
    /// Where they stand now.
    pub stamp: Vec<u8>,
    /// Where they keep what the task brought, if anywhere.
    pub note: Option<String>,
}

impl Frontier {
    /// Takes back a leased page or image. `write` writes the outputs, told what
    /// became of the task, and returns where they stand then; that and all
    /// effects are committed together afterwards. Where the process dies before,
    /// the task is queued again and the outputs are cut back.
    ///
    /// # Errors
    /// [`StoreError`] as `E`, or the error of `write`; nothing is committed then
    /// and the task stays leased.
    pub fn finish<E: From<StoreError>>(
        &mut self,
        task: &Task,
        outcome: Outcome,
        effects: Effects,
        elapsed: Duration,
        now: u64,
        write: impl FnOnce(&Finished) -> Result<Written, E>,
    ) -> Result<Finished, E> {
        let Some(Lease {
            slot,
            value,
            errand: Errand::Url { key },
            number,
            ..
        }) = self.leases.get(&task.lease).cloned()
        else {
            return Err(unknown_lease(self, task).into());
        };
        let mut host = self.record_of(slot);
        let news = News::of(&outcome, elapsed);
        let backs_off = matches!(
            outcome,
            Outcome::Retry {
                host_backs_off: true,
                ..
            }
        );
        match &outcome {
            Outcome::Retry {
                retry_after,
                host_backs_off: true,
                ..
            } => self.policy.failed(&mut host, *retry_after, now),
            _ => self.policy.answered(&mut host, elapsed, now),
        }
        let mut change = Change::new(&*self.store, &self.scope, &self.schedule, self.meta.clone());
        let Some(record) = change.record(&key)? else {
            let why = "a leased address has no record".to_owned();
            return Err(super::codec::corrupt(&*self.store, &key, why).into());
        };
        let counts = &mut change.meta.counts;
        counts.bytes = counts.bytes.saturating_add(effects.bytes);
        if task.kind == TaskKind::Page {
            counts.fetches += 1;
        }
        let step = Step {
            task,
            key: &key,
            record,
            number,
            policy: &self.policy,
            visits: &self.visits,
            now,
        };
        let (settled, id) = step.take(&mut change, outcome, effects, &mut host)?;
        change.put_host(&task.host, &host)?;
        let groups = self.book_groups(&mut change, slot, &task.host, news, now)?;
        let finished = Finished {
            settled,
            id,
            changed: change.changed,
            extend: std::mem::take(&mut change.extend),
            duplicate_of: change.duplicate_of.take(),
            near_copy_of: change.near_copy_of.take(),
        };
        let written = write(&finished)?;
        change.meta.stamp = written.stamp;
        if written.note.is_some()
            && let Some(record) = change.record(&key)?
        {
            let note = written.note;
            change.put_record(&key, &UrlRecord { note, ..record })?;
        }
        let Change {
            batch,
            meta,
            mut touched,
            visit,
            ..
        } = change;
        self.commit(batch, meta)?;
        self.expect_visit(visit);
        if let Settled::Retrying { due, .. } = finished.settled
            && !backs_off
        {
            self.next_waiting = Some(self.next_waiting.map_or(due, |d| d.min(due)));
        }
        touched.remove(&task.host);
        self.set_groups(groups);
        self.release(task.lease, slot, &value, host, now)?;
        self.refresh_hosts(touched, now)?;
        if backs_off {
            // A promise to a struggling host must not be lost with the last
            // half second of an unflushed log.
            self.store.flush()?;
        }
        Ok(finished)
    }

    /// Adds a part of what a leased sitemap lists (its links and sitemaps), as a
    /// batch of its own: a long one would hold up every host if it were added at once. The sitemap stays
    /// leased; [`Frontier::finish`] takes the rest. Where the process dies before,
    /// it is read again, and what is known already stays as it is.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails; nothing is added then.
    pub fn add_listed(&mut self, task: &Task, part: Effects, now: u64) -> Result<(), StoreError> {
        let Some(lease) = self.leases.get(&task.lease) else {
            return Err(unknown_lease(self, task));
        };
        let taken = lease.number;
        let mut change = Change::new(&*self.store, &self.scope, &self.schedule, self.meta.clone());
        let id = taken.unwrap_or_else(|| change.number(&task.url));
        add_listing(&mut change, part, id, task.hops)?;
        let Change {
            batch,
            meta,
            touched,
            ..
        } = change;
        self.commit(batch, meta)?;
        if let Some(lease) = self.leases.get_mut(&task.lease) {
            lease.number = Some(id);
        }
        self.refresh_hosts(touched, now)
    }

    /// Gives a lease back without any change: the task is queued as before.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn abandon(&mut self, task: &Task, now: u64) -> Result<(), StoreError> {
        let Some(lease) = self.leases.get(&task.lease).cloned() else {
            return Err(unknown_lease(self, task));
        };
        let record = self.record_of(lease.slot);
        self.release(task.lease, lease.slot, &lease.value, record, now)
    }

    /// The record of a host in memory.
    pub(super) fn record_of(&self, slot: Slot) -> HostRecord {
        self.schedule
            .host(slot)
            .map(|h| h.record.clone())
            .unwrap_or_default()
    }

    /// Sets the clocks of groups once they are committed.
    pub(super) fn set_groups(&mut self, groups: Vec<(GroupKey, GroupRecord)>) {
        for (key, record) in groups {
            self.schedule.set_group(&key, record);
        }
    }

    /// Ends a lease in memory, with the host's new record.
    pub(super) fn release(
        &mut self,
        lease: u64,
        slot: Slot,
        value: &[u8],
        record: HostRecord,
        now: u64,
    ) -> Result<(), StoreError> {
        let ended = self.leases.remove(&lease);
        if let Some(host) = self.schedule.host_mut(slot) {
            if ended.is_some_and(|l| matches!(l.errand, Errand::Robots { .. })) {
                host.asking = None;
            }
            if let Some(at) = host.leased.iter().position(|l| l == value) {
                host.leased.swap_remove(at);
            }
            host.record = record;
        }
        self.refresh(slot, now)
    }
}

/// Adds what the sitemap with this number lists, which lies below `depth` indexes.
fn add_listing(
    change: &mut Change<'_>,
    listing: Effects,
    id: u64,
    depth: u32,
) -> Result<(), StoreError> {
    let origin = |hops| Origin {
        via: Some(id),
        hops,
        redirects: 0,
    };
    for url in listing.sitemaps {
        change.add_sitemap(url, origin(depth.saturating_add(1)))?;
    }
    for page in &listing.links {
        change.add_page(page, origin(HOPS_LISTED))?;
    }
    Ok(())
}

/// One task's step from leased to its next state.
struct Step<'a> {
    task: &'a Task,
    key: &'a [u8],
    record: UrlRecord,
    number: Option<u64>,
    policy: &'a super::Policy,
    visits: &'a Visits,
    now: u64,
}

impl Step<'_> {
    fn take(
        self,
        change: &mut Change<'_>,
        outcome: Outcome,
        effects: Effects,
        host: &mut HostRecord,
    ) -> Result<(Settled, Option<u64>), StoreError> {
        match outcome {
            Outcome::Done => self.done(change, effects, host),
            Outcome::Unchanged => self.unchanged(change, &effects),
            Outcome::Redirect { to } => self.redirect(change, to, host),
            Outcome::Drop { reason } => self.fail(change, reason, false),
            Outcome::Retry {
                reason,
                host_backs_off,
                ..
            } => self.retry(change, reason, host_backs_off.then_some(host.due)),
        }
    }

    fn leave_queue(&self, change: &mut Change<'_>) {
        change.dequeue(self.task.kind, &self.task.host, &self.record);
    }

    fn done(
        mut self,
        change: &mut Change<'_>,
        effects: Effects,
        host: &mut HostRecord,
    ) -> Result<(Settled, Option<u64>), StoreError> {
        self.leave_queue(change);
        let id = self.number(change);
        match self.task.kind {
            TaskKind::Page | TaskKind::Robots => return self.page(change, effects, host, id),
            TaskKind::Image => {
                change.meta.counts.images += 1;
                change.forget_contexts(self.key)?;
            }
            TaskKind::Sitemap => {
                change.meta.counts.sitemaps += 1;
                add_listing(change, effects, id, self.record.hops)?;
            }
        }
        self.record.state = State::Done { id };
        change.rest(self.key, &self.record)?;
        Ok((Settled::Done, Some(id)))
    }

    fn page(
        mut self,
        change: &mut Change<'_>,
        effects: Effects,
        host: &mut HostRecord,
        id: u64,
    ) -> Result<(Settled, Option<u64>), StoreError> {
        let url = &self.task.url;
        // What was had before was counted and judged then.
        let again = self.record.was_fetched();
        // So was a copy, which comes again only where it has a schedule.
        let numbered = self.record.visit.as_ref().is_some_and(|v| v.id.is_some());
        let counted = again || numbered;
        if !counted {
            host.documents += 1;
            change.count_domain(&self.task.host)?;
        }
        let simhash = effects.prints.as_ref().and_then(|prints| prints.simhash);
        self.record.simhash = simhash;
        self.record.state = State::Done { id };
        let claim = match effects.canonical.as_ref().filter(|_| !again) {
            Some(named) => change.claim(url, named, self.record.hops, simhash)?,
            None => Claim::None,
        };
        match claim {
            Claim::None => {}
            Claim::StandsFor(key, known) => {
                change.stand_for(&key, known, url, &self.record, id)?;
            }
            Claim::CopyOf(original) => {
                let to = original.as_str().to_owned();
                self.record.state = State::Redirected { id, to };
                self.visited(Some(id), Ended::Moved);
                change.rest(self.key, &self.record)?;
                if !counted {
                    book(change, url, Worth::Barren, host)?;
                }
                change.duplicate_of = Some(original);
                return Ok((Settled::Redirected, Some(id)));
            }
        }
        let ended = Ended::Page {
            digest: effects.digest,
            validators: &effects.validators,
        };
        change.changed = self.visited(Some(id), ended);
        change.rest(self.key, &self.record)?;
        if !again {
            change.meta.counts.documents += 1;
        }
        let copied = match simhash {
            Some(simhash) => change.near_copy(url, simhash, id)?,
            None => None,
        };
        let same = copied.as_ref().is_some_and(|(_, same)| *same);
        change.near_copy_of = copied.map(|(earlier, _)| earlier);
        let origin = Origin {
            via: Some(id),
            hops: self.record.hops.saturating_add(1),
            redirects: 0,
        };
        if change.near_copy_of.is_none() || self.task.bucket == Bucket::Seed {
            for link in &effects.links {
                change.add_page(link, origin)?;
            }
        }
        // Whatever is inserted takes a number.
        let before = change.meta.next_seq;
        for image in &effects.images {
            change.add_image(image, origin)?;
        }
        if let Some(prints) = effects.prints.as_ref().filter(|_| !again) {
            let new_images = change.meta.next_seq > before;
            let worth = change.judge(url, &prints.blocks, new_images, same)?;
            book(change, url, worth, host)?;
        }
        Ok((Settled::Done, Some(id)))
    }

    /// The server says that nothing has changed: only the next visit is booked.
    fn unchanged(
        mut self,
        change: &mut Change<'_>,
        effects: &Effects,
    ) -> Result<(Settled, Option<u64>), StoreError> {
        let known = self.record.visit.as_ref();
        let Some(id) = known.filter(|v| v.visits > 0).and_then(|v| v.id) else {
            // It was not asked whether anything had.
            return self.retry(change, Reason::Protocol, None);
        };
        self.leave_queue(change);
        self.record.state = State::Done { id };
        let validators = &effects.validators;
        change.changed = self.visited(Some(id), Ended::Unchanged { validators });
        change.rest(self.key, &self.record)?;
        Ok((Settled::Unchanged, Some(id)))
    }

    /// Books the next visit in the record; whether the text has changed.
    fn visited(&mut self, id: Option<u64>, ended: Ended<'_>) -> Option<bool> {
        let known = self.record.visit.take();
        let (visit, changed) = self.visits.after(self.key, known, id, ended, self.now);
        self.record.visit = visit;
        changed
    }

    /// Its number among the finished: that of an earlier visit or of its first
    /// part, or a new one.
    fn number(&self, change: &mut Change<'_>) -> u64 {
        let known = self.record.visit.as_ref().and_then(|v| v.id);
        let taken = self.number.or(known);
        taken.unwrap_or_else(|| change.number(&self.task.url))
    }

    fn redirect(
        mut self,
        change: &mut Change<'_>,
        to: PageUrl,
        host: &mut HostRecord,
    ) -> Result<(Settled, Option<u64>), StoreError> {
        let url = &self.task.url;
        let is_page = self.task.kind == TaskKind::Page;
        // A site that gives every visitor a session redirects to the same page with
        // a number; without the number it would lead back here.
        let canonical = change.canonical(&to);
        let to = match is_page && canonical != *url {
            true => canonical,
            false => to,
        };
        if self.record.redirects >= self.policy.max_redirects {
            return self.fail(change, Reason::RedirectLimit, false);
        }
        self.leave_queue(change);
        let id = self.number(change);
        let origin = Origin {
            via: Some(id),
            hops: self.record.hops,
            redirects: self.record.redirects + 1,
        };
        let bucket = Some(self.record.bucket);
        let (score, parts) = (self.record.score, self.record.parts);
        self.record.state = State::Redirected {
            id,
            to: to.as_str().to_owned(),
        };
        let again = self.visits.follows(self.key, self.record.visit.as_ref());
        self.visited(Some(id), Ended::Moved);
        change.rest(self.key, &self.record)?;
        if self.task.kind == TaskKind::Image {
            for context in contexts::of(change.store(), self.key)? {
                let image = NewImage {
                    url: to.clone(),
                    bucket,
                    score,
                    context,
                };
                change.add_image(&image, origin)?;
            }
            change.forget_contexts(self.key)?;
        } else if self.task.kind == TaskKind::Sitemap {
            change.add_sitemap(to, origin)?;
        } else {
            let page = NewTask {
                url: to,
                bucket,
                score,
                parts,
            };
            let before = change.meta.next_seq;
            change.add_page_as_it_is(&page, origin)?;
            if again {
                change.visit_target(&page.url, origin.redirects)?;
            } else if change.meta.next_seq == before && url.query().is_some() {
                // As a login that knows the way back, one for every page. Without a
                // query it is another name of the target, and those are few.
                book(change, url, Worth::Barren, host)?;
            }
        }
        Ok((Settled::Redirected, Some(id)))
    }

    /// Ends without the page. `passing` where only this visit has failed.
    fn fail(
        self,
        change: &mut Change<'_>,
        reason: Reason,
        passing: bool,
    ) -> Result<(Settled, Option<u64>), StoreError> {
        self.leave_queue(change);
        if self.task.kind == TaskKind::Image {
            change.forget_contexts(self.key)?;
        }
        let settled = self
            .visits
            .fail(change, self.key, self.record, reason, passing, self.now)?;
        Ok((settled, None))
    }

    /// `host_due` is set where the whole host pauses: then the address keeps its
    /// place in the queue. Otherwise it waits alone.
    fn retry(
        mut self,
        change: &mut Change<'_>,
        reason: Reason,
        host_due: Option<u64>,
    ) -> Result<(Settled, Option<u64>), StoreError> {
        self.record.attempts = self.record.attempts.saturating_add(1);
        let attempts = u32::from(self.record.attempts);
        if attempts > self.policy.retries {
            return self.fail(change, reason, true);
        }
        let due = match host_due {
            Some(due) => {
                change.put_record(self.key, &self.record)?;
                due
            }
            None => {
                let due = self.now.saturating_add(self.policy.pause(attempts));
                self.leave_queue(change);
                change.wait(self.key, self.record, due)?;
                due
            }
        };
        Ok((Settled::Retrying { reason, due }, None))
    }
}

/// Charges the budgets of a page's prefixes. What nobody is short of is not looked
/// up, so a host knows how many pages have cost something.
fn book(
    change: &mut Change<'_>,
    url: &PageUrl,
    worth: Worth,
    host: &mut HostRecord,
) -> Result<(), StoreError> {
    host.barren += u64::from(worth == Worth::Barren);
    change.book(url, worth)
}

pub(super) fn unknown_lease(frontier: &Frontier, task: &Task) -> StoreError {
    super::codec::corrupt(
        &*frontier.store,
        task.url.as_str().as_bytes(),
        format!("lease {} is not open; a defect of spoor", task.lease),
    )
}
