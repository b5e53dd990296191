//! Outcomes: what a finished task changes, committed as one batch.

use std::time::Duration;

use super::change::Change;
use super::groups::{Booked, Failing, News};
use super::record::UrlRecord;
use super::schedule::Slot;
use super::step::Step;
use super::store::StoreError;
use super::{Errand, Frontier, HostRecord, Lease, NewImage, NewTask};
use crate::address::PageUrl;
use crate::clock::millis;
use crate::page::{
    ImageContext, Judged, Nearness, Outcome, Prints, Reason, Task, TaskKind, Validators,
};

/// What a page or a sitemap brought; empty for everything else.
#[derive(Debug, Default)]
pub struct Effects {
    /// Its links.
    pub links: Vec<NewTask>,
    /// Its images.
    pub images: Vec<NewImage>,
    /// Images that were left out because they are SVGs by name.
    pub svgs: u32,
    /// Images that it embeds and does not allow to use.
    pub withheld: Vec<PageUrl>,
    /// The sitemaps that an index of them lists.
    pub sitemaps: Vec<PageUrl>,
    /// The perplexity that stands for an alt text of `images` that turns out to say
    /// nothing.
    pub unknown: f64,
    /// Body bytes received, for the counters.
    pub bytes: u64,
    /// Digest of a page's text: where it is that of the visit before, the page
    /// has not changed.
    pub digest: Option<u64>,
    /// What the server calls this version of the page.
    pub validators: Validators,
    /// The address that it calls its own.
    pub canonical: Option<PageUrl>,
    /// Digest of the keyword table by which the links were rated
    /// ([`Rating::keywords`](super::Rating::keywords)); `None` where there was none.
    pub keywords: Option<u64>,
    /// What its text is known again by; without it no copies are looked for and no
    /// budget is charged.
    pub prints: Option<Prints>,
    /// How likely the page is on topic by its own text, 0 to 1; `None` where no page came.
    pub on_topic: Option<f64>,
    /// Whether that is a guess.
    pub guessed: bool,
    /// What its text says for a learning crawl; `None` where no page came.
    pub nearness: Option<Nearness>,
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
    /// The note that was given with the page at an earlier visit.
    pub earlier: Option<String>,
    /// Whether the page is visited again, so that a note may be wanted then.
    pub comes_again: bool,
    /// Contexts on this page of images that are kept already, with the note that
    /// was given when they were.
    pub extend: Vec<(String, ImageContext)>,
    /// Images that are kept already, by their note, with pages whose alt text turned
    /// out to be boilerplate.
    pub boilerplate: Vec<(String, PageUrl)>,
    /// Images that are kept already, by their note, whose use this page does not
    /// allow any more.
    pub withheld: Vec<String>,
    /// The page that it names as its canonical address and that was fetched before:
    /// nothing of this one was taken.
    pub duplicate_of: Option<PageUrl>,
    /// The page that its text is a near copy of: its links were not taken.
    pub near_copy_of: Option<PageUrl>,
    /// How likely the page is on topic; `None` where no page came.
    pub judged: Option<Judged>,
    /// Why not all of a sitemap was taken.
    pub said: Option<String>,
}

/// What the outputs say when they have written.
#[derive(Debug, Default)]
pub struct Written {
    /// Where they stand now.
    pub stamp: Vec<u8>,
    /// Where they keep what the task brought, if anywhere; heeded where it is done.
    pub note: Option<String>,
    /// SHA-256 in lower-case hexadecimal, where the note names the first file with
    /// these bytes; later ones find it by [`Frontier::kept_file`].
    pub first_of: Option<String>,
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
        mut effects: Effects,
        elapsed: Duration,
        now: u64,
        write: impl FnOnce(&Finished) -> Result<Written, E>,
    ) -> Result<Finished, E> {
        let Some(Lease {
            slot,
            value,
            errand: Errand::Url { key },
            number,
            beyond,
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
        let gave = !matches!(outcome, Outcome::Retry { .. });
        match &outcome {
            Outcome::Retry {
                retry_after,
                host_backs_off: true,
                ..
            } => self.policy.failed(&mut host, *retry_after, now),
            _ => self.policy.answered(&mut host, elapsed, now),
        }
        let mut change = Change::new(&*self.store, &self.scope, &self.schedule, self.meta.clone());
        self.rate_by_what_is_in_force(&mut change, &effects);
        let Some(record) = change.record(&key)? else {
            let why = "a leased address has no record".to_owned();
            return Err(super::codec::corrupt(&*self.store, &key, why).into());
        };
        let counts = &mut change.meta.counts;
        counts.bytes = counts.bytes.saturating_add(effects.bytes);
        if task.kind == TaskKind::Page {
            counts.fetches += 1;
        }
        let known = record.visit.as_ref().is_some_and(|v| v.id.is_some());
        let first = !known && !record.was_fetched();
        let own = effects.on_topic;
        let rerates = self.learn(&mut change, task, &key, &record, &outcome, &mut effects)?;
        let corrected = effects.on_topic;
        change.judged = own.zip(corrected).map(|(own, corrected)| Judged {
            text: own.into(),
            on_topic: corrected.into(),
            guessed: effects.guessed,
        });
        let judged = change.judged;
        let step = Step {
            task,
            key: &key,
            record,
            number,
            beyond,
            policy: &self.policy,
            visits: &self.visits,
            now,
        };
        let (settled, id) = step.take(&mut change, outcome, effects, &mut host)?;
        change.book_fetch(task, first, judged, &settled)?;
        change.book_turn(task.kind, self.policy.image_share, self.pages_closed);
        change.put_host(&task.host, &host)?;
        let groups = self.book_groups(&mut change, slot, &task.host, news, now)?;
        let finished = Finished {
            settled,
            id,
            changed: change.changed,
            earlier: change.earlier.take(),
            comes_again: change.comes_again,
            extend: std::mem::take(&mut change.extend),
            boilerplate: std::mem::take(&mut change.boilerplate),
            withheld: std::mem::take(&mut change.withheld),
            duplicate_of: change.duplicate_of.take(),
            near_copy_of: change.near_copy_of.take(),
            judged,
            said: change.said.take(),
        };
        let written = write(&finished)?;
        change.meta.stamp = written.stamp;
        if let (Some(sha256), Some(file)) = (&written.first_of, &written.note) {
            let file = file.clone().into_bytes();
            change.batch.put(super::keys::kept(sha256), file);
        }
        if written.note.is_some()
            && finished.settled == Settled::Done
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
        if rerates.is_some() {
            self.scores = rerates;
            self.rescored = super::Rescored::default();
        }
        self.expect_visit(visit);
        if let Settled::Retrying { due, .. } = finished.settled
            && !backs_off
        {
            self.next_waiting = Some(self.next_waiting.map_or(due, |d| d.min(due)));
        }
        touched.remove(&task.host);
        if let Some(host) = self.schedule.host_mut(slot) {
            host.gave |= gave;
        }
        self.set_clocks(slot, groups, now);
        self.release(task.lease, slot, &value, host, now)?;
        self.refresh_hosts(touched, now)?;
        if backs_off {
            // A promise to a struggling host must not be lost with the last
            // half second of an unflushed log.
            self.store.flush()?;
        }
        Ok(finished)
    }

    /// Books how long the host of a leased task asks to be left alone, beside an answer
    /// that is no failure of the host: a redirect, or a page that is not there. Such a
    /// wish outlives a crash. The task stays leased.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails; nothing is booked then.
    pub fn rest(&mut self, task: &Task, wait: Duration, now: u64) -> Result<(), StoreError> {
        let Some(slot) = self.leases.get(&task.lease).map(|lease| lease.slot) else {
            return Err(unknown_lease(self, task));
        };
        let mut record = self.record_of(slot);
        self.policy.rest(&mut record, millis(wait), now);
        let mut change = Change::new(&*self.store, &self.scope, &self.schedule, self.meta.clone());
        change.put_host(&task.host, &record)?;
        let Change { batch, meta, .. } = change;
        self.commit(batch, meta)?;
        if let Some(host) = self.schedule.host_mut(slot) {
            host.record = record;
        }
        self.refresh(slot, now)?;
        self.store.flush()
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
        self.rate_by_what_is_in_force(&mut change, &part);
        let id = taken.unwrap_or_else(|| change.number(&task.url));
        let beyond = change.add_listing(&task.host, part, id, task.hops)?;
        let change = change.gathered();
        self.commit_change(change, now)?;
        if let Some(lease) = self.leases.get_mut(&task.lease) {
            lease.number = Some(id);
            lease.beyond = lease.beyond.saturating_add(beyond);
        }
        Ok(())
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

    /// Whether the host of a leased task has answered before, and was not found silent
    /// more than once since: an outage may have cut its last answer.
    pub fn has_answered(&self, task: &Task) -> bool {
        let Some(lease) = self.leases.get(&task.lease) else {
            return false;
        };
        let record = self.record_of(lease.slot);
        record.failures <= 1 && record.has_answered()
    }

    /// The record of a host in memory.
    pub(super) fn record_of(&self, slot: Slot) -> HostRecord {
        self.schedule
            .host(slot)
            .map(|h| h.record.clone())
            .unwrap_or_default()
    }

    /// Sets the clocks that an answer has changed once it is committed: the host's own is
    /// in its record from now on.
    pub(super) fn set_clocks(&mut self, slot: Slot, groups: Vec<Booked>, now: u64) {
        let Some(host) = self.schedule.host_mut(slot) else {
            return;
        };
        host.paced = 0;
        let key = host.key.clone();
        if groups
            .iter()
            .any(|booked| booked.failing == Failing::Nobody)
        {
            self.schedule.prove(slot, true);
        }
        for booked in groups {
            let connections = self.policy.connections;
            self.schedule.set_group(&key, booked, now, connections);
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
        if ended.as_ref().is_some_and(Lease::is_image) {
            self.open_images = self.open_images.saturating_sub(1);
        }
        if let Some(host) = self.schedule.host_mut(slot) {
            let of_host =
                |l: Lease| matches!(l.errand, Errand::Robots { .. } | Errand::Tdmrep { .. });
            if ended.is_some_and(of_host) {
                host.asking = None;
            }
            if let Some(at) = host.leased.iter().position(|l| l == value) {
                host.leased.swap_remove(at);
            }
            host.record = record;
        }
        let host = self.schedule.host(slot);
        let answered = host.is_some_and(|host| host.record.failures == 0);
        let gave = host.is_some_and(|host| !host.is_newcomer());
        self.newcomers.ended(lease, answered, gave);
        self.refresh(slot, now)
    }
}

pub(super) fn unknown_lease(frontier: &Frontier, task: &Task) -> StoreError {
    super::codec::corrupt(
        &*frontier.store,
        task.url.as_str().as_bytes(),
        format!("lease {} is not open; a defect of spoor", task.lease),
    )
}
