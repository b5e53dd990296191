//! Outcomes: what a finished task changes, committed as one batch.

use std::time::Duration;

use super::draws;
use super::leases::{Errand, Lease};
use super::ledger::Effect;
use super::outcome::{Effects, Finished, Settled, Written};
use super::parts::Frontier;
use super::ratings::learning::Lesson;
use super::record::{HostRecord, Meta, UrlRecord};
use super::schedule::{Booked, Failing, News, Slot};
use super::store::StoreError;
use super::transaction::Transaction;
use super::transition::Transition;
use super::traps::listing;
use super::{codec, keys};
use crate::address::HostKey;
use crate::clock::millis;
use crate::page::{Judged, Outcome, Task, TaskKind};

impl Frontier {
    /// Takes back a leased page or image. `write` receives the result of the task, writes the
    /// outputs and returns their new position; this position and all effects are then committed
    /// together. If the process dies before that, the task is queued again and the outputs are
    /// truncated.
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
        let (lease, key) = self.lease_of_url(task)?;
        let slot = lease.slot;
        let news = News::of(&outcome, elapsed);
        let gave = !matches!(outcome, Outcome::Retry { .. });
        let mut tx = self.ledger.begin();
        let record = leased_record(&tx, &key)?;
        let known = record.visit.as_ref().is_some_and(|v| v.id.is_some());
        let first = !known && !record.was_fetched();

        // Politeness.
        let mut host = self.record_of(slot);
        let asked = self.schedule.host(slot).map_or(now, |host| host.asked);
        let backs_off = self
            .policy
            .book(&task.host, &mut host, &outcome, elapsed, now);
        let groups = self.book_groups(&mut tx, slot, &task.host, news, now)?;
        count_request(&mut tx, task, effects.bytes);

        // Learning.
        let own = effects.on_topic;
        let verdicts = self.ratings.verdicts.clone();
        let lesson = Lesson {
            task,
            key: &key,
            record: &record,
            outcome: &outcome,
            scope: &self.scope,
            home: self.ledger.home(),
            is_shared: self.ratings.is_shared,
            verdicts: verdicts.as_deref(),
        };
        let rerates = self.ratings.learn(&mut tx, &lesson, &mut effects)?;
        let judged = judged(own, &effects);

        // The next state, traps, links and images, the next visit.
        let intake = self.intake(self.ratings.in_force(effects.keywords));
        let transition = Transition {
            task,
            key: &key,
            record,
            judged,
            number: lease.number,
            beyond: lease.beyond,
            policy: &self.policy,
            visits: &self.visits,
            rest: self
                .policy
                .before_next_visit(&host, now.saturating_sub(asked)),
            intake,
            now,
        };
        let mut finished = transition.make(&mut tx, outcome, effects, &mut host)?;
        tx.put_host(&task.host, &host)?;

        // The control sample and the account of the images.
        draws::book_fetch(&mut tx, &intake, task, first, judged, &finished.settled)?;
        self.book_turn(&mut tx, task.kind);

        // The outputs.
        finished.edits = std::mem::take(&mut tx.edits);
        let written = write(&finished)?;
        note_written(&mut tx, &key, &finished.settled, written)?;

        // Either everything is committed or nothing is.
        let effect = self.ledger.commit(tx.prepare())?;

        // Memory.
        self.ratings.note_commit(self.ledger.meta().commits);
        if let Some(scores) = rerates {
            self.ratings.begin(scores);
        }
        if let Settled::Retrying { due, .. } = finished.settled
            && !backs_off
        {
            self.retries.expect(due);
        }
        self.set_clocks(slot, groups, gave, now);
        self.release(task.lease, &lease, host, now)?;
        self.publish(effect, &task.host, now)?;
        if backs_off {
            self.promise(&task.host)?;
        }
        Ok(finished)
    }

    /// Books a request for a page or an image in the account of the images.
    fn book_turn(&self, tx: &mut Transaction<'_>, kind: TaskKind) {
        let Meta { images, counts, .. } = &mut tx.meta;
        let elsewhere = self.flags.elsewhere.queued;
        let pages = if self.flags.pages_closed {
            0
        } else {
            counts.queued_pages() + elsewhere.0
        };
        let queued = counts.queued_images + elsewhere.1;
        images.book(kind, pages, queued, self.policy.image_share);
    }

    /// Updates memory after a commit, except for the host of the task, which is released
    /// separately.
    fn publish(
        &mut self,
        mut effect: Effect,
        released: &HostKey,
        now: u64,
    ) -> Result<(), StoreError> {
        self.visits.expect(effect.visit);
        effect.touched.remove(released);
        self.refresh_hosts(effect.touched, now)
    }

    /// The lease of a page, an image or a sitemap, and its `U` key.
    fn lease_of_url(&self, task: &Task) -> Result<(Lease, Vec<u8>), StoreError> {
        let lease = self.leases.of(task).cloned();
        let lease = lease.ok_or_else(|| self.unknown_lease(task))?;
        match &lease.errand {
            Errand::Url { key } => {
                let key = key.clone();
                Ok((lease, key))
            }
            _ => Err(self.unknown_lease(task)),
        }
    }

    /// Books the pause that the host of a leased task asks for in an answer that is not a failure
    /// of the host: a redirect or a missing page. The pause survives a crash. The task stays
    /// leased.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails; nothing is booked then.
    pub fn rest(&mut self, task: &Task, wait: Duration, now: u64) -> Result<(), StoreError> {
        let Some(slot) = self.leases.of(task).map(|lease| lease.slot) else {
            return Err(self.unknown_lease(task));
        };
        let mut record = self.record_of(slot);
        self.policy.rest(&mut record, millis(wait), now);
        self.commit_host(&task.host, &record)?;
        if let Some(host) = self.schedule.host_mut(slot) {
            host.record = record;
        }
        self.refresh(slot, now)?;
        self.promise(&task.host)
    }

    /// Adds a part of what a leased sitemap lists (its links and sitemaps) in a separate batch,
    /// because adding a long one at once would delay every host. The sitemap stays leased;
    /// [`Frontier::finish`] takes the rest. If the process dies before that, the sitemap is read
    /// again, and known addresses stay as they are.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails; nothing is added then.
    pub fn add_listed(&mut self, task: &Task, part: Effects, now: u64) -> Result<(), StoreError> {
        let Some(lease) = self.leases.of(task) else {
            return Err(self.unknown_lease(task));
        };
        let mut tx = self.ledger.begin();
        let id = lease.number.unwrap_or_else(|| tx.number(&task.url));
        let intake = self.intake(self.ratings.in_force(part.keywords));
        let beyond = listing::add(&mut tx, &intake, &task.host, part, id, task.hops)?;
        let prepared = tx.prepare();
        self.commit(prepared, now)?;
        if let Some(lease) = self.leases.of_mut(task) {
            lease.number = Some(id);
            lease.beyond = lease.beyond.saturating_add(beyond);
        }
        Ok(())
    }

    /// Gives a lease back without any change: the task is queued as before.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub fn abandon(&mut self, task: &Task, now: u64) -> Result<(), StoreError> {
        let Some(lease) = self.leases.of(task).cloned() else {
            return Err(self.unknown_lease(task));
        };
        let record = self.record_of(lease.slot);
        self.release(task.lease, &lease, record, now)
    }

    /// Whether the host of a leased task has answered before and failed to answer at most once
    /// since: an outage may have cut off its last answer.
    pub fn has_answered(&self, task: &Task) -> bool {
        let Some(lease) = self.leases.of(task) else {
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

    /// Sets the clocks that an answer has changed, after its commit: the host's own clock is then
    /// in its record. `gave` is whether the host has returned any content.
    pub(super) fn set_clocks(&mut self, slot: Slot, groups: Vec<Booked>, gave: bool, now: u64) {
        let Some(host) = self.schedule.host_mut(slot) else {
            return;
        };
        host.gave |= gave;
        host.paced = 0;
        let key = host.key.clone();
        if groups
            .iter()
            .any(|booked| booked.failing == Failing::Cleared)
        {
            self.schedule.prove(slot, true);
        }
        for booked in groups {
            let connections = self.policy.connections;
            self.schedule.set_group(&key, booked, now, connections);
        }
    }

    /// Writes the record of a host at once, because it must survive a crash.
    pub(super) fn commit_host(
        &mut self,
        host: &HostKey,
        record: &HostRecord,
    ) -> Result<(), StoreError> {
        let mut tx = self.ledger.begin();
        tx.put_host(host, record)?;
        let prepared = tx.prepare();
        self.ledger.commit_alone(prepared)
    }

    /// The effect of an answer on the clocks of a host's groups. Clocks that back off are written,
    /// because they must survive a restart.
    pub(super) fn book_groups(
        &self,
        tx: &mut Transaction<'_>,
        slot: Slot,
        host: &HostKey,
        news: News,
        now: u64,
    ) -> Result<Vec<Booked>, StoreError> {
        let (groups, proven) = self.schedule.shared(slot);
        let mut all = Vec::with_capacity(groups.len());
        for (key, group) in groups {
            let booked = self
                .policy
                .book_group(key, group, (host, proven), news, now);
            match (booked.record.failures > 0, group.record.failures > 0) {
                (true, _) => tx.write(keys::group(key), &booked.record)?,
                (false, true) => tx.delete(keys::group(key)),
                (false, false) => {}
            }
            all.push(booked);
        }
        Ok(all)
    }

    /// Ends a lease in memory, with the host's new record.
    pub(super) fn release(
        &mut self,
        number: u64,
        lease: &Lease,
        record: HostRecord,
        now: u64,
    ) -> Result<(), StoreError> {
        self.leases.close(number);
        let slot = lease.slot;
        if let Some(host) = self.schedule.host_mut(slot) {
            if lease.is_for_host_file() {
                host.asking = None;
            }
            if let Some(at) = host.leased.iter().position(|l| *l == lease.value) {
                host.leased.swap_remove(at);
            }
            host.record = record;
        }
        let host = self.schedule.host(slot);
        let answered = host.is_some_and(|host| host.record.failures == 0);
        let gave = host.is_some_and(|host| !host.is_newcomer());
        self.leases.newcomers.ended(number, answered, gave);
        self.refresh(slot, now)
    }

    /// The error of a task whose lease is not open.
    pub(super) fn unknown_lease(&self, task: &Task) -> StoreError {
        codec::corrupt(
            self.ledger.store(),
            task.url.as_str().as_bytes(),
            format!("lease {} is not open; a bug in spoor", task.lease),
        )
    }
}

/// The probability that a page is on topic, by its text and as corrected by its links.
fn judged(own: Option<f64>, effects: &Effects) -> Option<Judged> {
    let both = own.zip(effects.on_topic);
    both.map(|(own, corrected)| Judged {
        text: own.into(),
        on_topic: corrected.into(),
        guessed: effects.guessed,
    })
}

fn leased_record(tx: &Transaction<'_>, key: &[u8]) -> Result<UrlRecord, StoreError> {
    let missing = || {
        let why = "a leased address has no record".to_owned();
        codec::corrupt(tx.store(), key, why)
    };
    tx.record(key)?.ok_or_else(missing)
}

fn count_request(tx: &mut Transaction<'_>, task: &Task, bytes: u64) {
    let counts = &mut tx.meta.counts;
    counts.bytes = counts.bytes.saturating_add(bytes);
    counts.fetches += u64::from(task.kind == TaskKind::Page);
}

/// Notes the position of the outputs, and where they store the result of the task.
fn note_written(
    tx: &mut Transaction<'_>,
    key: &[u8],
    settled: &Settled,
    written: Written,
) -> Result<(), StoreError> {
    tx.meta.stamp = written.stamp;
    if let Some((digest, place)) = written.body {
        tx.put(keys::stored_body(&digest), place.into_bytes());
    }
    let Some(note) = written.note else {
        return Ok(());
    };
    if let Some(sha256) = &written.first_of {
        tx.put(keys::kept(sha256), note.clone().into_bytes());
    }
    if *settled == Settled::Done
        && let Some(record) = tx.record(key)?
    {
        let text = Some(note);
        tx.put_record(key, &UrlRecord { text, ..record })?;
    }
    Ok(())
}
