//! robots.txt as a matter of the frontier: when it is asked, what each answer
//! means for the host, and the parsed rules in memory (RFC 9309 section 2.3).
//!
//! | answer | means |
//! |---|---|
//! | 2xx | these are the rules, for a day at most |
//! | 3xx | the rules lie there; followed over hosts, five times in a row |
//! | 4xx | there are none: everything is allowed |
//! | all else | everything is forbidden until it answers |
//!
//! Where the RFC leaves a choice, the stricter way is taken:
//! - A sixth redirect makes the rules unreachable (it might make them missing), and
//!   so does a redirect that cannot be followed (section 2.3.1.2).
//! - 429 is no word about rules but a plea for patience, so it makes them
//!   unreachable though it is a 4xx. 408, 421 and 425 were not answers either and are
//!   asked again (`fetch/outcome.rs`). `Retry-After` is obeyed whatever the status.
//! - Rules that are older than a day are not used while new ones cannot be had, and
//!   a host that stays unreachable is never taken for one without rules (sections
//!   2.3.1.4 and 2.4). It is parked, and asked again when that ends.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::change::{Change, Origin};
use super::finish::unknown_lease;
use super::groups::{News, is_trouble};
use super::keys::{self, Rank};
use super::leasing::Granted;
use super::record::{HostRecord, RobotsErrand, RobotsState};
use super::schedule::{Head, Slot};
use super::store::StoreError;
use super::{Errand, Frontier, Lease, MAX_CACHED_RULES, Settled, codec};
use crate::address::{HostKey, PageUrl};
use crate::clock::millis;
use crate::page::{Bucket, Outcome, Reason, Task, TaskKind};
use crate::web::robots::Robots;

/// Redirects in a row that a robots.txt may take (RFC 9309 section 2.3.1.2).
const MAX_REDIRECTS: u8 = 5;

/// What came back when a robots.txt was asked for.
#[derive(Debug, Clone)]
pub enum RobotsAnswer {
    /// Status 2xx: the rules.
    Rules(Bytes),
    /// Status 4xx: there are none, everything is allowed.
    Missing,
    /// Status 3xx: they lie elsewhere.
    Redirect(PageUrl),
    /// Status 5xx, a timeout, no connection, no such name: everything is
    /// forbidden until it answers.
    Unreachable {
        /// What went wrong.
        reason: Reason,
        /// What the server asked for.
        retry_after: Option<Duration>,
    },
}

impl RobotsAnswer {
    /// The answer that the outcome of a fetch amounts to; `body` is what a 2xx
    /// brought.
    pub fn of(outcome: &Outcome, body: Option<Bytes>) -> Self {
        match (outcome, body) {
            (Outcome::Redirect { to }, _) => Self::Redirect(to.clone()),
            (Outcome::Done, Some(body)) => Self::Rules(body),
            (Outcome::Done, None) => Self::Missing,
            // Rules are asked for without a condition, so this is no answer.
            (Outcome::Unchanged, _) => Self::Unreachable {
                reason: Reason::Protocol,
                retry_after: None,
            },
            (
                Outcome::Retry {
                    reason,
                    retry_after,
                    ..
                },
                _,
            ) => Self::Unreachable {
                reason: *reason,
                retry_after: *retry_after,
            },
            (Outcome::Drop { reason }, _) => Self::Unreachable {
                reason: *reason,
                retry_after: None,
            },
        }
    }
}

impl RobotsAnswer {
    fn news(&self, elapsed: Duration) -> News {
        match self {
            Self::Unreachable { reason, .. } if is_trouble(*reason) => News::Troubled,
            Self::Unreachable { .. } => News::None,
            _ => News::Answered(elapsed),
        }
    }
}

impl Frontier {
    /// Takes back a leased robots.txt; `write` as in [`Frontier::finish`].
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
        let Some(Lease {
            slot,
            value,
            errand,
            ..
        }) = self.leases.get(&task.lease).cloned()
        else {
            return Err(unknown_lease(self, task).into());
        };
        let (owner, scheme, redirects) = match &errand {
            Errand::Url { .. } | Errand::Tdmrep { .. } => {
                return Err(unknown_lease(self, task).into());
            }
            Errand::Robots { scheme } => (task.host.clone(), *scheme, 0),
            Errand::Redirected { errand, .. } => (
                HostKey::from_stored(&errand.for_host),
                keys::scheme_name(&errand.for_scheme),
                errand.redirects,
            ),
        };
        let owner_slot = self.activate(&owner)?;
        let mut asked = self.record_of(slot);
        let news = answer.news(elapsed);
        match &answer {
            // The host that owns the rules books its own failure below.
            RobotsAnswer::Unreachable { .. } if owner == task.host => {}
            RobotsAnswer::Unreachable { retry_after, .. } => {
                self.policy.failed(&mut asked, *retry_after, now);
            }
            RobotsAnswer::Redirect(_) => {
                // Whether the rules can be had is not known yet. Were failures
                // forgotten here, a chain that leads nowhere would be followed
                // again and again, and the host never be given up.
                let failures = asked.failures;
                self.policy.answered(&mut asked, elapsed, now);
                asked.failures = failures;
            }
            _ => self.policy.answered(&mut asked, elapsed, now),
        }
        let mut own = if owner == task.host {
            asked.clone()
        } else {
            self.record_of(owner_slot)
        };
        let answer = match answer {
            RobotsAnswer::Redirect(_) if redirects >= MAX_REDIRECTS => RobotsAnswer::Unreachable {
                reason: Reason::RedirectLimit,
                retry_after: None,
            },
            other => other,
        };
        let other = self.other_delay(owner_slot, scheme)?;
        let before = self.rules_of(owner_slot, scheme)?;
        let mut change = Change::new(&*self.store, &self.scope, &self.schedule, self.meta.clone());
        let mut rules: Option<Robots> = None;
        let settled = match answer {
            RobotsAnswer::Rules(body) => {
                let parsed = Robots::parse(&self.policy.agent, &body);
                let delay = parsed.crawl_delay().max(other);
                self.policy.rules_known(&mut own, scheme, delay, false, now);
                let cut = &body[..body.len().min(crate::web::robots::MAX_ROBOTS_BYTES)];
                let key = keys::robots_body(&owner, scheme);
                change.batch.put(key, cut.to_vec());
                change.meta.counts.bytes += body.len() as u64;
                if self.policy.sitemaps {
                    for text in parsed.sitemaps() {
                        // What is no address names nothing that could be read.
                        if let Ok(url) = task.url.join(text) {
                            change.add_sitemap(url, Origin::default())?;
                        }
                    }
                }
                rules = Some(parsed);
                Settled::Done
            }
            RobotsAnswer::Missing => {
                let parsed = Robots::allow_all();
                self.policy.rules_known(&mut own, scheme, other, true, now);
                change.batch.delete(keys::robots_body(&owner, scheme));
                rules = Some(parsed);
                Settled::Done
            }
            RobotsAnswer::Redirect(to) => {
                *own.robots_mut(scheme) = RobotsState::Awaiting;
                let errand = RobotsErrand {
                    url: to.as_str().to_owned(),
                    for_host: owner.as_str().to_owned(),
                    for_scheme: scheme.to_owned(),
                    redirects: redirects + 1,
                };
                let target = to.host_key();
                let rank = Rank::new(Bucket::Seed, 0.0, change.meta.next_seq);
                change.meta.next_seq += 1;
                change.batch.put(
                    keys::queue(&target, keys::class::ROBOTS, &rank),
                    codec::encode(&*self.store, &errand)?,
                );
                change.touched.insert(target);
                Settled::Redirected
            }
            RobotsAnswer::Unreachable {
                reason,
                retry_after,
            } => {
                *own.robots_mut(scheme) = RobotsState::Unreachable;
                self.policy.failed(&mut own, retry_after, now);
                Settled::Retrying {
                    reason,
                    due: own.due,
                }
            }
        };
        // Rules that forbade nothing have dropped nothing.
        let changed = rules.as_ref().is_some_and(|rules| {
            !before.same_rules(&Robots::allow_all()) && !before.same_rules(rules)
        });
        if changed {
            let key = keys::rechecked(&owner, scheme);
            change.batch.put(key, Vec::new());
        }
        if let Errand::Redirected { queue_key, .. } = &errand {
            change.batch.delete(queue_key.clone());
        }
        let same = owner == task.host;
        if same {
            asked = own.clone();
        } else {
            change.put_host(&owner, &own)?;
        }
        change.put_host(&task.host, &asked)?;
        let groups = self.book_groups(&mut change, slot, &task.host, news, now)?;
        change.meta.stamp = write(&settled)?;
        let Change {
            batch,
            meta,
            mut touched,
            ..
        } = change;
        self.commit(batch, meta)?;
        self.rechecking |= changed;
        if !same && let Some(host) = self.schedule.host_mut(owner_slot) {
            host.record = own;
        }
        self.cache(&owner, scheme, rules.map(Arc::new));
        self.set_clocks(slot, groups, now);
        self.release(task.lease, slot, &value, asked, now)?;
        touched.insert(owner);
        self.refresh_hosts(touched, now)?;
        if matches!(settled, Settled::Retrying { .. }) {
            // As for a page: a promise to a struggling host must not be lost.
            self.store.flush()?;
        }
        Ok(settled)
    }

    /// What the rules of the host's other scheme ask for: both share one clock.
    fn other_delay(&mut self, slot: Slot, scheme: &str) -> Result<Option<Duration>, StoreError> {
        let other = if scheme == "https" { "http" } else { "https" };
        let known = self
            .schedule
            .host(slot)
            .is_some_and(|h| matches!(h.record.robots(other), RobotsState::Known { .. }));
        if known {
            Ok(self.rules_of(slot, other)?.crawl_delay())
        } else {
            Ok(None)
        }
    }

    /// Whether the rules of a host are known and fresh.
    pub(super) fn rules_hold(&self, slot: Slot, scheme: &str, now: u64) -> bool {
        let record = self.schedule.host(slot).map(|h| &h.record);
        record.is_some_and(|record| match record.robots(scheme) {
            RobotsState::Known { at, .. } => now < at.saturating_add(self.policy.holds(record)),
            _ => false,
        })
    }

    /// The rules of a host, from memory or from the store.
    pub(super) fn rules_of(
        &mut self,
        slot: Slot,
        scheme: &'static str,
    ) -> Result<Arc<Robots>, StoreError> {
        let Some(host) = self.schedule.host(slot).map(|h| h.key.clone()) else {
            return Ok(Arc::new(Robots::allow_all()));
        };
        if let Some(rules) = self.rules.get(&(host.clone(), scheme)) {
            return Ok(Arc::clone(rules));
        }
        let body = self.store.get(&keys::robots_body(&host, scheme))?;
        let rules = Arc::new(match body {
            Some(body) => Robots::parse(&self.policy.agent, &body),
            None => Robots::allow_all(),
        });
        self.cache(&host, scheme, Some(Arc::clone(&rules)));
        Ok(rules)
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
            return Err(codec::corrupt(&*self.store, &head.queue_key, why));
        };
        // Only one request for the rules: the host's heads are hidden while it is open.
        let lease = self.grant(slot, head.value.clone(), Errand::Robots { scheme }, now)?;
        Ok(Some(robots_task(lease, url, host, head, 0)))
    }

    /// Leases a robots.txt that lies at this host for another one.
    pub(super) fn lease_robots_errand(
        &mut self,
        slot: Slot,
        host: &HostKey,
        head: &Head,
        now: u64,
    ) -> Result<Option<Task>, StoreError> {
        let errand: RobotsErrand = codec::decode(&*self.store, &head.queue_key, &head.value)?;
        let url = PageUrl::parse(&errand.url)
            .map_err(|e| codec::corrupt(&*self.store, &head.queue_key, e.to_string()))?;
        let redirects = errand.redirects;
        let queue_key = head.queue_key.clone();
        let what = Errand::Redirected { queue_key, errand };
        let lease = self.grant(slot, head.value.clone(), what, now)?;
        Ok(Some(robots_task(lease, url, host, head, redirects)))
    }

    fn cache(&mut self, host: &HostKey, scheme: &'static str, rules: Option<Arc<Robots>>) {
        let key = (host.clone(), scheme);
        if let Some(old) = self.rules.remove(&key) {
            self.rules_bytes = self.rules_bytes.saturating_sub(old.size());
        }
        let Some(rules) = rules else { return };
        if self.rules_bytes.saturating_add(rules.size()) > MAX_CACHED_RULES {
            self.rules.clear();
            self.rules_bytes = 0;
        }
        self.rules_bytes = self.rules_bytes.saturating_add(rules.size());
        self.rules.insert(key, rules);
    }
}

impl super::Policy {
    fn rules_known(
        &self,
        record: &mut HostRecord,
        scheme: &str,
        crawl_delay: Option<Duration>,
        missing: bool,
        now: u64,
    ) {
        *record.robots_mut(scheme) = RobotsState::Known { at: now, missing };
        record.crawl_delay = crawl_delay.map(millis);
        record.failures = 0;
        record.parked_until = record.parked_until.filter(|until| *until > now);
        if self.is_too_slow(record) {
            let until = now.saturating_add(self.robots_max_age);
            record.parked_until = record.parked_until.max(Some(until));
        }
        record.due = record.due.max(now.saturating_add(self.delay(record)));
    }
}

/// The task for a file that is asked on behalf of what stands at the head.
pub(super) fn robots_task(
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
        kind: TaskKind::Robots,
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
