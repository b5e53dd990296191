//! Requests for a host's robots.txt, tdmrep.json and RSL files: leases and outcomes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::cell::CellId;
use super::host_files::on_way;
use super::host_files::{RobotsAnswer, RobotsTask, TermsFiles};
use super::leases::{Errand, Lease};
use super::leasing::Granted;
use super::outcome::Settled;
use super::parts::Frontier;
use super::ratings::InForce;
use super::record::{RobotsErrand, RobotsState};
use super::schedule::{Head, News, Slot};
use super::store::StoreError;
use super::{codec, keys};
use crate::address::{HostKey, PageUrl};
use crate::page::{HostTerms, Outcome, Task, TaskKind, Terms, Use};
use crate::web::robots::Robots;

impl Frontier {
    /// Finishes a leased robots.txt; `write` as in [`Frontier::finish`].
    ///
    /// # Errors
    /// As [`Frontier::finish`].
    pub fn finish_robots<E: From<StoreError>>(
        &mut self,
        task: &Task,
        answer: RobotsAnswer,
        elapsed: Duration,
        now: u64,
        write: impl FnOnce(&Settled) -> Result<Vec<u8>, E>,
    ) -> Result<Settled, E> {
        let lease = self.leases.of(task).cloned();
        let Some((lease, (owner, scheme, redirects))) = lease.and_then(|lease| {
            let subject = subject_of(task, &lease)?;
            Some((lease, subject))
        }) else {
            return Err(self.unknown_lease(task).into());
        };
        if let Some(cell) = self.ledger.home().elsewhere(&owner) {
            let errand = RobotsErrand {
                url: task.url.as_str().to_owned(),
                for_host: owner.as_str().to_owned(),
                for_scheme: scheme.to_owned(),
                redirects,
            };
            return self.finish_errand(task, (&lease, &errand), cell, answer, elapsed, now, write);
        }
        let owner_slot = self.activate(&owner)?;
        let is_owner = owner == task.host;
        let mut asked = self.record_of(lease.slot);
        let mut own = self.record_of(owner_slot);
        let agent = &self.policy.agent;
        let store = self.ledger.store();
        let other_delay = self
            .files
            .other_delay(store, agent, (&owner, &own), scheme)?;
        let before = self.files.rules(store, agent, &owner, scheme)?;

        let mut tx = self.ledger.begin();
        let step = RobotsTask {
            url: &task.url,
            owner: &owner,
            scheme,
            redirects,
            other_delay,
            policy: &self.policy,
            intake: self.intake(InForce::default()),
            now,
        };
        let news = answer.news(elapsed);
        step.book(&mut asked, is_owner, &answer, elapsed);
        if is_owner {
            own = asked.clone();
        }
        let (settled, rules) = step.settle(&mut tx, answer, &mut own)?;
        let changed = has_changed(&before, rules.as_ref());
        if changed {
            tx.put(keys::rechecked(&owner, scheme), Vec::new());
        }
        if let Errand::Redirected { queue_key, .. } = &lease.errand {
            tx.delete(queue_key.clone());
        }
        if is_owner {
            asked = own.clone();
        } else {
            tx.put_host(&owner, &own)?;
        }
        tx.put_host(&task.host, &asked)?;
        let groups = self.book_groups(&mut tx, lease.slot, &task.host, news, now)?;
        tx.meta.stamp = write(&settled)?;
        let mut effect = self.ledger.commit(tx.prepare())?;

        if changed {
            self.files.expect_recheck();
        }
        if !is_owner && let Some(host) = self.schedule.host_mut(owner_slot) {
            host.record = own;
        }
        self.files.replace(&owner, scheme, rules.map(Arc::new));
        self.set_clocks(lease.slot, groups, false, now);
        self.release(task.lease, &lease, asked, now)?;
        effect.touched.insert(owner);
        self.refresh_hosts(effect.touched, now)?;
        if matches!(settled, Settled::Retrying { .. }) {
            self.promise(&task.host)?;
        }
        Ok(settled)
    }

    /// Finishes a leased robots.txt for a host of another cell, which takes over the answer.
    #[allow(clippy::too_many_arguments)]
    fn finish_errand<E: From<StoreError>>(
        &mut self,
        task: &Task,
        (lease, errand): (&Lease, &RobotsErrand),
        cell: CellId,
        answer: RobotsAnswer,
        elapsed: Duration,
        now: u64,
        write: impl FnOnce(&Settled) -> Result<Vec<u8>, E>,
    ) -> Result<Settled, E> {
        let mut asked = self.record_of(lease.slot);
        let mut tx = self.ledger.begin();
        let step = RobotsTask {
            url: &task.url,
            owner: &HostKey::from_stored(&errand.for_host),
            scheme: keys::scheme_name(&errand.for_scheme),
            redirects: errand.redirects,
            other_delay: None,
            policy: &self.policy,
            intake: self.intake(InForce::default()),
            now,
        };
        let news = answer.news(elapsed);
        step.book(&mut asked, false, &answer, elapsed);
        let settled = step.hand_on(&mut tx, cell, answer, &asked)?;
        if let Errand::Redirected { queue_key, .. } = &lease.errand {
            tx.delete(queue_key.clone());
        }
        tx.put_host(&task.host, &asked)?;
        let groups = self.book_groups(&mut tx, lease.slot, &task.host, news, now)?;
        tx.meta.stamp = write(&settled)?;
        let effect = self.ledger.commit(tx.prepare())?;
        self.set_clocks(lease.slot, groups, false, now);
        self.release(task.lease, lease, asked, now)?;
        self.refresh_hosts(effect.touched, now)?;
        if matches!(settled, Settled::Retrying { .. }) {
            self.promise(&task.host)?;
        }
        Ok(settled)
    }

    /// Takes over the answer to an errand that a host of another cell was asked, and deletes the
    /// errand if it is in this store.
    pub(super) fn receive_rules(
        &mut self,
        (owner, scheme): (HostKey, &'static str),
        (url, answer): (&PageUrl, RobotsAnswer),
        sent: Option<Vec<u8>>,
        now: u64,
    ) -> Result<(), StoreError> {
        let owner = &owner;
        let slot = self.activate(owner)?;
        let mut own = self.record_of(slot);
        let agent = &self.policy.agent;
        let store = self.ledger.store();
        let other_delay = self
            .files
            .other_delay(store, agent, (owner, &own), scheme)?;
        let before = self.files.rules(store, agent, owner, scheme)?;
        let mut tx = self.ledger.begin();
        let step = RobotsTask {
            url,
            owner,
            scheme,
            redirects: 0,
            other_delay,
            policy: &self.policy,
            intake: self.intake(InForce::default()),
            now,
        };
        let (settled, rules) = step.settle(&mut tx, answer, &mut own)?;
        let changed = has_changed(&before, rules.as_ref());
        if changed {
            tx.put(keys::rechecked(owner, scheme), Vec::new());
        }
        tx.put_host(owner, &own)?;
        sent.into_iter().for_each(|key| tx.delete(key));
        let mut effect = self.ledger.commit(tx.prepare())?;
        if changed {
            self.files.expect_recheck();
        }
        if let Some(host) = self.schedule.host_mut(slot) {
            host.record = own;
        }
        self.files.replace(owner, scheme, rules.map(Arc::new));
        effect.touched.insert(owner.clone());
        self.refresh_hosts(effect.touched, now)?;
        if matches!(settled, Settled::Retrying { .. }) {
            self.promise(owner)?;
        }
        Ok(())
    }

    /// Finishes a leased `tdmrep.json` or RSL file, with the body of a 2xx; `write` as in
    /// [`Frontier::finish_robots`].
    ///
    /// # Errors
    /// As [`Frontier::finish`].
    pub fn finish_terms_file<E: From<StoreError>>(
        &mut self,
        task: &Task,
        outcome: &Outcome,
        body: Option<Bytes>,
        elapsed: Duration,
        now: u64,
        write: impl FnOnce(&Settled) -> Result<Vec<u8>, E>,
    ) -> Result<Settled, E> {
        let lease = self.leases.of(task).cloned();
        let Some((lease, asked)) = lease.and_then(|lease| {
            let Errand::Terms(asked) = lease.errand.clone() else {
                return None;
            };
            Some((lease, asked))
        }) else {
            return Err(self.unknown_lease(task).into());
        };
        let body = body.unwrap_or_default();
        let mut host = self.record_of(lease.slot);
        let backs_off = if task.locate && !is_back_off(outcome) {
            // No request reached the host, and its next request must meet the same
            // failure.
            self.policy.failed(&task.host, &mut host, None, now);
            true
        } else {
            self.policy
                .book(&task.host, &mut host, outcome, elapsed, now)
        };
        let read = (self.policy.tdmrep, self.policy.rsl);
        let known = TermsFiles::of(self.ledger.store(), read, &task.host, asked.scheme)?;
        let (settled, known) = known.after(&task.host, &asked, outcome, &body, now);
        let mut tx = self.ledger.begin();
        if !task.locate {
            known.write(&mut tx, &task.host, &asked)?;
        }
        let bytes = &mut tx.meta.counts.bytes;
        *bytes = bytes.saturating_add(body.len() as u64);
        tx.put_host(&task.host, &host)?;
        let news = News::of(outcome, elapsed);
        let groups = self.book_groups(&mut tx, lease.slot, &task.host, news, now)?;
        tx.meta.stamp = write(&settled)?;
        let prepared = tx.prepare();
        self.ledger.commit_alone(prepared)?;
        self.set_clocks(lease.slot, groups, false, now);
        self.release(task.lease, &lease, host, now)?;
        if backs_off {
            self.promise(&task.host)?;
        }
        Ok(settled)
    }

    /// Whether the rules of a host are known and fresh.
    pub(super) fn rules_hold(&self, slot: Slot, scheme: &str, now: u64) -> bool {
        let record = self.schedule.host(slot).map(|h| &h.record);
        record.is_some_and(|record| match record.robots(scheme) {
            RobotsState::Known { at, .. } => now < at.saturating_add(self.policy.holds(record)),
            _ => false,
        })
    }

    /// The rules of an active host.
    pub(super) fn rules_of(
        &mut self,
        slot: Slot,
        scheme: &'static str,
    ) -> Result<Arc<Robots>, StoreError> {
        let Some(host) = self.schedule.host(slot) else {
            return Ok(Arc::new(Robots::allow_all()));
        };
        let agent = &self.policy.agent;
        self.files
            .rules(self.ledger.store(), agent, &host.key, scheme)
    }

    /// Leases the robots.txt of a host.
    pub(super) fn lease_robots(
        &mut self,
        slot: Slot,
        host: &HostKey,
        head: &Head,
        scheme: &'static str,
        now: u64,
    ) -> Result<Option<Task>, StoreError> {
        let Ok(url) = PageUrl::parse(&format!("{scheme}://{host}/robots.txt")) else {
            let why = "names no host".to_owned();
            return Err(codec::corrupt(self.ledger.store(), &head.queue_key, why));
        };
        // Only this request: the host's heads are hidden while it is open.
        let lease = self.grant(slot, head.value.clone(), Errand::Robots { scheme }, now)?;
        Ok(Some(file_task(TaskKind::Robots, lease, url, host, head, 0)))
    }

    /// Leases a robots.txt at this host that belongs to another host.
    pub(super) fn lease_robots_errand(
        &mut self,
        slot: Slot,
        host: &HostKey,
        head: &Head,
        now: u64,
    ) -> Result<Option<Task>, StoreError> {
        let store = self.ledger.store();
        let errand: RobotsErrand = codec::decode(store, &head.queue_key, &head.value)?;
        let url = PageUrl::parse(&errand.url)
            .map_err(|e| codec::corrupt(store, &head.queue_key, e.to_string()))?;
        let redirects = errand.redirects;
        let queue_key = head.queue_key.clone();
        let what = Errand::Redirected { queue_key, errand };
        let lease = self.grant(slot, head.value.clone(), what, now)?;
        let kind = TaskKind::Robots;
        Ok(Some(file_task(kind, lease, url, host, head, redirects)))
    }

    /// Leases a file with the terms of a host, if one is due before the task at the head.
    pub(super) fn lease_terms_file(
        &mut self,
        slot: Slot,
        host: &HostKey,
        head: &Head,
        kind: TaskKind,
        now: u64,
    ) -> Result<Option<Task>, StoreError> {
        if kind == TaskKind::Sitemap || !(self.policy.tdmrep || self.policy.rsl) {
            return Ok(None);
        }
        let scheme = keys::scheme_of_key(&head.value);
        let robots = self.rules_of(slot, scheme)?;
        let known = self.terms_files(slot, host, scheme, now)?;
        let asks = (self.policy.tdmrep, self.policy.rsl);
        let max_age = self
            .policy
            .terms_hold(&self.record_of(slot), known.rsl_len());
        let next = known.next_request((host, scheme), &robots, asks, max_age, now);
        let Some((url, asked)) = next else {
            return Ok(None);
        };
        let (kind, redirects) = (asked.kind(), asked.redirects);
        // Only this request: the host's heads are hidden while it is open.
        let lease = self.grant(slot, head.value.clone(), Errand::Terms(asked), now)?;
        Ok(Some(file_task(kind, lease, url, host, head, redirects)))
    }

    fn terms_files(
        &mut self,
        slot: Slot,
        host: &HostKey,
        scheme: &'static str,
        now: u64,
    ) -> Result<TermsFiles, StoreError> {
        let read = (self.policy.tdmrep, self.policy.rsl);
        let mut files = TermsFiles::of(self.ledger.store(), read, host, scheme)?;
        let robots = self.rules_of(slot, scheme)?;
        let max_age = self
            .policy
            .terms_hold(&self.record_of(slot), files.rsl_len());
        files.forget((host, scheme), &robots, max_age, now);
        Ok(files)
    }

    /// The terms of use that the host's files state for an address, and whether they
    /// forbid the request. They can forbid an image, whose bytes have no other use; a
    /// page is fetched all the same, because its links are followed.
    pub(super) fn terms_of(
        &mut self,
        slot: Slot,
        host: &HostKey,
        url: &PageUrl,
        kind: TaskKind,
        now: u64,
    ) -> Result<(HostTerms, bool), StoreError> {
        if kind == TaskKind::Sitemap {
            return Ok((HostTerms::default(), false));
        }
        let scheme = keys::scheme_name(url.scheme());
        let robots = self.rules_of(slot, scheme)?;
        let files = self.terms_files(slot, host, scheme, now)?;
        let terms = HostTerms {
            stated: files.terms(&robots, url),
            rsl: files.known_rsl(url),
            on_way: on_way::of(self.ledger.store(), url, kind)?,
        };
        let forbidden = kind == TaskKind::Image && {
            let all = terms.then(Terms::default());
            !all.forbids(Use::Images, &self.policy.obeyed, now)
                .is_empty()
        };
        Ok((terms, forbidden))
    }
}

/// The host and the scheme of the rules that a lease asks for, and the redirects so far;
/// `None` if the lease is not for a robots.txt.
fn subject_of(task: &Task, lease: &Lease) -> Option<(HostKey, &'static str, u8)> {
    match &lease.errand {
        Errand::Url { .. } | Errand::Terms(_) => None,
        Errand::Robots { scheme } => Some((task.host.clone(), *scheme, 0)),
        Errand::Redirected { errand, .. } => Some((
            HostKey::from_stored(&errand.for_host),
            keys::scheme_name(&errand.for_scheme),
            errand.redirects,
        )),
    }
}

/// Whether new rules may permit what earlier ones have dropped. Rules that forbade nothing have
/// dropped nothing.
fn has_changed(before: &Robots, rules: Option<&Robots>) -> bool {
    rules.is_some_and(|rules| !before.same_rules(&Robots::allow_all()) && !before.same_rules(rules))
}

fn is_back_off(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Retry {
            host_backs_off: true,
            ..
        }
    )
}

/// The task for a file that must be fetched before the task at the head.
fn file_task(
    kind: TaskKind,
    granted: Granted,
    url: PageUrl,
    host: &HostKey,
    head: &Head,
    redirects: u8,
) -> Task {
    let Granted {
        lease,
        locate,
        booking,
    } = granted;
    Task {
        lease,
        locate,
        booking,
        kind,
        url,
        host: host.clone(),
        via: None,
        hops: 0,
        redirects,
        attempts: 0,
        bucket: head.rank.bucket,
        score: 0.0,
        parts: None,
        validators: Default::default(),
        terms: Default::default(),
        control: false,
    }
}
