//! `/.well-known/tdmrep.json` as a matter of the frontier: when it is asked, and what
//! is kept of it (TDM Reservation Protocol, W3C Community Group).
//!
//! It is asked before a host's first page or image, for each scheme by itself, and
//! again when it is as old as robots rules may become. It stands under the host's
//! clock like everything else, and where robots.txt forbids it, it is not asked.
//!
//! | answer | means |
//! |---|---|
//! | 2xx | these are the rules; none, where it cannot be read |
//! | 3xx to the same host and scheme | it lies there; followed five times in a row |
//! | none, or trouble that may pass (5xx, 429) | what was known holds on; at first nothing |
//! | all else | nothing is said |
//!
//! A redirect to another host is not followed: what lies there has a file of its own,
//! and pages that moved there are asked there. The protocol fails open, so unlike
//! robots.txt no host ever waits for this file longer than for one answer. Only where
//! the host's very address could not be found nothing was asked, and it will be.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::change::Change;
use super::finish::unknown_lease;
use super::groups::News;
use super::rules::robots_task;
use super::schedule::{Head, Slot};
use super::store::StoreError;
use super::{Errand, Frontier, Lease, Policy, Settled, codec, keys};
use crate::address::{HostKey, PageUrl};
use crate::config;
use crate::page::{Obeyed, Outcome, Reason, Task, TaskKind, Terms, Use};
use crate::web::robots::{TDMREP_PATH, TdmRule, parse_tdmrep, tdm_terms};

/// Redirects in a row that are followed; the protocol names no number, so it is that
/// of robots.txt.
const MAX_REDIRECTS: u8 = 5;

/// What is known of a host's file, for one scheme.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TdmRecord {
    /// When it was asked, in milliseconds since 1970.
    pub at: u64,
    /// Where on the host it lies instead, while that is still to be asked.
    pub moved: Option<String>,
    /// Redirects so far.
    pub redirects: u8,
    /// Its rules, in the order of the file.
    pub rules: Vec<TdmRule>,
}

impl Policy {
    /// The same, with the signals obeyed that `section` says. `keeps` is whether the
    /// job keeps anything that a reservation could speak of.
    pub fn with_consent(self, section: &config::Consent, keeps: bool) -> Self {
        Self {
            tdmrep: section.tdmrep && keeps,
            obeyed: obeyed(section),
            ..self
        }
    }
}

/// Which terms of use the section says to obey.
pub fn obeyed(section: &config::Consent) -> Obeyed {
    let obeys = |signal| section.obey.contains(&signal);
    Obeyed {
        robots: obeys(config::Signal::Robots),
        tdm: obeys(config::Signal::Tdm),
        content_signals: obeys(config::Signal::ContentSignal),
    }
}

impl Frontier {
    /// Takes back a leased `tdmrep.json`, with the body of a 2xx; `write` as in
    /// [`Frontier::finish_robots`].
    ///
    /// # Errors
    /// As [`Frontier::finish`].
    pub fn finish_tdmrep<E: From<StoreError>>(
        &mut self,
        task: &Task,
        outcome: &Outcome,
        body: Option<Bytes>,
        elapsed: Duration,
        now: u64,
        write: impl FnOnce(&Settled) -> Result<Vec<u8>, E>,
    ) -> Result<Settled, E> {
        let Some(Lease {
            slot,
            value,
            errand: Errand::Tdmrep { scheme, redirects },
            ..
        }) = self.leases.get(&task.lease).cloned()
        else {
            return Err(unknown_lease(self, task).into());
        };
        let mut host = self.record_of(slot);
        let backs_off = match outcome {
            Outcome::Retry {
                retry_after,
                host_backs_off: true,
                ..
            } => {
                self.policy.failed(&mut host, *retry_after, now);
                true
            }
            // Nobody was asked, and whoever asks next must find the same trouble.
            _ if task.locate => {
                self.policy.failed(&mut host, None, now);
                true
            }
            _ => {
                self.policy.answered(&mut host, elapsed, now);
                false
            }
        };
        let known = TdmRecord {
            at: now,
            ..TdmRecord::default()
        };
        // A reservation is not lifted by a server that is down for an hour.
        let earlier = self.tdmrep_of(&task.host, scheme)?;
        let earlier = earlier.map(|known| known.rules).unwrap_or_default();
        let (settled, known) = match outcome {
            Outcome::Done => {
                let rules = parse_tdmrep(&body.clone().unwrap_or_default());
                (Settled::Done, TdmRecord { rules, ..known })
            }
            Outcome::Redirect { to }
                if redirects < MAX_REDIRECTS
                    && to.host_key() == task.host
                    && to.scheme() == scheme =>
            {
                let moved = Some(to.as_str().to_owned());
                let redirects = redirects + 1;
                let known = TdmRecord {
                    moved,
                    redirects,
                    rules: earlier,
                    ..known
                };
                (Settled::Redirected, known)
            }
            Outcome::Redirect { .. } => (dropped(Reason::BadRedirect), known),
            Outcome::Unchanged => (dropped(Reason::Protocol), known),
            Outcome::Retry { reason, .. } => {
                let rules = earlier;
                (dropped(*reason), TdmRecord { rules, ..known })
            }
            Outcome::Drop { reason } => (dropped(*reason), known),
        };
        let mut change = Change::new(&*self.store, &self.scope, &self.schedule, self.meta.clone());
        if !task.locate {
            change.write(keys::tdmrep(&task.host, scheme), &known)?;
        }
        let bytes = body.map_or(0, |body| body.len() as u64);
        change.meta.counts.bytes = change.meta.counts.bytes.saturating_add(bytes);
        change.put_host(&task.host, &host)?;
        let news = News::of(outcome, elapsed);
        let groups = self.book_groups(&mut change, slot, &task.host, news, now)?;
        change.meta.stamp = write(&settled)?;
        let Change { batch, meta, .. } = change;
        self.commit(batch, meta)?;
        self.set_clocks(slot, groups, now);
        self.release(task.lease, slot, &value, host, now)?;
        if backs_off {
            // As for a page: a promise to a struggling host must not be lost.
            self.store.flush()?;
        }
        Ok(settled)
    }

    /// Leases the file of a host, where it must be asked before what is at its head.
    pub(super) fn lease_tdmrep(
        &mut self,
        slot: Slot,
        host: &HostKey,
        head: &Head,
        kind: TaskKind,
        now: u64,
    ) -> Result<Option<Task>, StoreError> {
        if !self.policy.tdmrep || kind == TaskKind::Sitemap {
            return Ok(None);
        }
        let scheme = keys::scheme_of_key(&head.value);
        let known = self.tdmrep_of(host, scheme)?;
        let (moved, redirects) = match known {
            Some(known) if known.moved.is_some() => (known.moved, known.redirects),
            Some(known) if now < known.at.saturating_add(self.policy.robots_max_age) => {
                return Ok(None);
            }
            _ => (None, 0),
        };
        let address = moved.unwrap_or_else(|| format!("{scheme}://{host}{TDMREP_PATH}"));
        let Ok(url) = PageUrl::parse(&address) else {
            let why = "names no host".to_owned();
            return Err(codec::corrupt(&*self.store, &head.queue_key, why));
        };
        if !self.rules_of(slot, scheme)?.allows(&url) {
            return Ok(None);
        }
        // Only this is asked: the host's heads are hidden while it is open.
        let errand = Errand::Tdmrep { scheme, redirects };
        let lease = self.grant(slot, head.value.clone(), errand, now)?;
        Ok(Some(Task {
            kind: TaskKind::Tdmrep,
            ..robots_task(lease, url, host, head, redirects)
        }))
    }

    /// What the host's files say of the use of what lies at an address, and whether
    /// that forbids to ask for it: the bytes of an image are of no other use, while
    /// the links of a page are followed.
    pub(super) fn terms_of(
        &mut self,
        slot: Slot,
        host: &HostKey,
        url: &PageUrl,
        kind: TaskKind,
    ) -> Result<(Terms, bool), StoreError> {
        if kind == TaskKind::Sitemap {
            return Ok((Terms::default(), false));
        }
        let scheme = keys::scheme_name(url.scheme());
        let known = if self.policy.tdmrep {
            self.tdmrep_of(host, scheme)?
        } else {
            None
        };
        let mut terms = known.map_or_else(Terms::default, |known| tdm_terms(&known.rules, url));
        terms.content_signals = self.rules_of(slot, scheme)?.content_signals(url);
        let forbidden =
            kind == TaskKind::Image && !terms.forbids(Use::Images, &self.policy.obeyed).is_empty();
        Ok((terms, forbidden))
    }

    /// Read with every page and image: most hosts have no file, and its record is of
    /// a few bytes.
    fn tdmrep_of(&self, host: &HostKey, scheme: &str) -> Result<Option<TdmRecord>, StoreError> {
        let key = keys::tdmrep(host, scheme);
        codec::read(&*self.store, &key, self.store.get(&key)?)
    }
}

fn dropped(reason: Reason) -> Settled {
    Settled::Dropped { reason }
}
