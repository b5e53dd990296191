//! Outcomes: what a finished task changes, committed as one batch.

use std::time::Duration;

use super::change::{Change, Origin};
use super::record::{State, UrlRecord};
use super::schedule::Slot;
use super::store::StoreError;
use super::traps::{Claim, Worth};
use super::{Errand, Frontier, HostRecord, Lease, NewImage, NewTask, contexts};
use crate::address::PageUrl;
use crate::page::{Bucket, ImageContext, Outcome, Prints, Reason, Task, TaskKind};

/// What a page brought; empty for everything else.
#[derive(Debug, Default)]
pub struct Effects {
    /// Its links.
    pub links: Vec<NewTask>,
    /// Its images.
    pub images: Vec<NewImage>,
    /// Body bytes received, for the counters.
    pub bytes: u64,
    /// The address that it calls its own.
    pub canonical: Option<PageUrl>,
    /// What its text is known again by; without it no copies are looked for and no
    /// budget is charged.
    pub prints: Option<Prints>,
}

/// What became of a finished task.
#[derive(Debug, Clone, PartialEq)]
pub enum Settled {
    /// Done, never asked again.
    Done,
    /// Done, and its target added.
    Redirected,
    /// To be tried again.
    Retrying {
        /// What went wrong.
        reason: Reason,
        /// Not before this time, in milliseconds since 1970.
        due: u64,
    },
    /// Never asked again.
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
        }) = self.leases.get(&task.lease).cloned()
        else {
            return Err(unknown_lease(self, task).into());
        };
        let mut host = self
            .schedule
            .host(slot)
            .map(|h| h.record.clone())
            .unwrap_or_default();
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
            policy: &self.policy,
            now,
        };
        let (settled, id) = step.take(&mut change, outcome, effects, &mut host)?;
        change.put_host(&task.host, &host)?;
        let finished = Finished {
            settled,
            id,
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
            ..
        } = change;
        self.commit(batch, meta)?;
        if let Settled::Retrying { due, .. } = finished.settled
            && !backs_off
        {
            self.next_waiting = Some(self.next_waiting.map_or(due, |d| d.min(due)));
        }
        touched.remove(&task.host);
        self.release(task.lease, slot, &value, host, now)?;
        self.refresh_hosts(touched, now)?;
        if backs_off {
            // A promise to a struggling host must not be lost with the last
            // half second of an unflushed log.
            self.store.flush()?;
        }
        Ok(finished)
    }

    /// Gives a lease back without any change: the task is queued as before.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn abandon(&mut self, task: &Task, now: u64) -> Result<(), StoreError> {
        let Some(lease) = self.leases.get(&task.lease).cloned() else {
            return Err(unknown_lease(self, task));
        };
        let record = self.schedule.host(lease.slot).map(|h| h.record.clone());
        let record = record.unwrap_or_default();
        self.release(task.lease, lease.slot, &lease.value, record, now)
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

/// One task's step from leased to its next state.
struct Step<'a> {
    task: &'a Task,
    key: &'a [u8],
    record: UrlRecord,
    policy: &'a super::Policy,
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
            Outcome::Redirect { to } => self.redirect(change, to, host),
            Outcome::Drop { reason } => self.drop(change, reason),
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
        self,
        change: &mut Change<'_>,
        effects: Effects,
        host: &mut HostRecord,
    ) -> Result<(Settled, Option<u64>), StoreError> {
        self.leave_queue(change);
        let id = change.number(&self.task.url);
        let url = &self.task.url;
        let state = State::Done { id };
        let simhash = effects.prints.as_ref().and_then(|prints| prints.simhash);
        let record = UrlRecord {
            state,
            simhash,
            ..self.record
        };
        if self.task.kind == TaskKind::Image {
            change.put_record(self.key, &record)?;
            change.meta.counts.images += 1;
            change.forget_contexts(self.key)?;
            return Ok((Settled::Done, Some(id)));
        }
        host.documents += 1;
        change.count_domain(&self.task.host)?;
        let claim = match &effects.canonical {
            Some(named) => change.claim(url, named, record.hops, simhash)?,
            None => Claim::None,
        };
        match claim {
            Claim::None => {}
            Claim::StandsFor(key, known) => change.stand_for(&key, known, url, &record, id)?,
            Claim::CopyOf(original) => {
                let to = original.as_str().to_owned();
                let state = State::Redirected { id, to };
                change.put_record(self.key, &UrlRecord { state, ..record })?;
                book(change, url, Worth::Barren, host)?;
                change.duplicate_of = Some(original);
                return Ok((Settled::Redirected, Some(id)));
            }
        }
        change.put_record(self.key, &record)?;
        change.meta.counts.documents += 1;
        let copied = match simhash {
            Some(simhash) => change.near_copy(url, simhash, id)?,
            None => None,
        };
        let same = copied.as_ref().is_some_and(|(_, same)| *same);
        change.near_copy_of = copied.map(|(earlier, _)| earlier);
        let origin = Origin {
            via: Some(id),
            hops: record.hops.saturating_add(1),
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
        if let Some(prints) = &effects.prints {
            let new_images = change.meta.next_seq > before;
            let worth = change.judge(url, &prints.blocks, new_images, same)?;
            book(change, url, worth, host)?;
        }
        Ok((Settled::Done, Some(id)))
    }

    fn redirect(
        self,
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
            return self.drop(change, Reason::RedirectLimit);
        }
        self.leave_queue(change);
        let id = change.number(&self.task.url);
        let origin = Origin {
            via: Some(id),
            hops: self.record.hops,
            redirects: self.record.redirects + 1,
        };
        let bucket = Some(self.record.bucket);
        let (score, parts) = (self.record.score, self.record.parts);
        let state = State::Redirected {
            id,
            to: to.as_str().to_owned(),
        };
        change.put_record(
            self.key,
            &UrlRecord {
                state,
                ..self.record
            },
        )?;
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
        } else {
            let page = NewTask {
                url: to,
                bucket,
                score,
                parts,
            };
            let before = change.meta.next_seq;
            change.add_page_as_it_is(&page, origin)?;
            // As a login that knows the way back, one for every page. Without a query
            // it is another name of the target, and those are few.
            if change.meta.next_seq == before && url.query().is_some() {
                book(change, url, Worth::Barren, host)?;
            }
        }
        Ok((Settled::Redirected, Some(id)))
    }

    fn drop(
        self,
        change: &mut Change<'_>,
        reason: Reason,
    ) -> Result<(Settled, Option<u64>), StoreError> {
        self.leave_queue(change);
        if self.task.kind == TaskKind::Image {
            change.forget_contexts(self.key)?;
        }
        change.drop_record(self.key, self.record, reason)?;
        Ok((Settled::Dropped { reason }, None))
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
            return self.drop(change, reason);
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
