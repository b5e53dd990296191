//! robots.txt in the frontier: when it is requested, the effect of each answer on the
//! host, and the parsed rules in memory (RFC 9309 section 2.3).
//!
//! | answer | means |
//! |---|---|
//! | 2xx | these are the rules, for a day at most |
//! | 3xx | the rules are there; followed over hosts, five times in a row |
//! | 4xx | there are none: everything is allowed |
//! | all else | everything is forbidden until it answers |
//!
//! Where the RFC leaves a choice, this takes the stricter option:
//! - A sixth redirect makes the rules unreachable (the RFC also allows to treat them as missing),
//!   and so does a redirect that cannot be followed (section 2.3.1.2).
//! - 429 asks for patience and says nothing about rules, so it makes them unreachable
//!   although it is a 4xx. 408, 421 and 425 are not answers either, and the request is
//!   repeated (`web/fetch/outcome.rs`). `Retry-After` is obeyed for every status.
//! - Rules older than a day are not used while new ones cannot be fetched, and a host
//!   that stays unreachable is never treated as one without rules (sections 2.3.1.4 and
//!   2.4). It is parked, and asked again when the parking ends.

use std::time::Duration;

use bytes::Bytes;

use crate::added::Origin;
use crate::address::{self, HostKey, PageUrl};
use crate::cell::CellId;
use crate::clock::millis;
use crate::intake::Intake;
use crate::keys::{self, Rank};
use crate::outcome::Settled;
use crate::page::{Bucket, Outcome, Reason};
use crate::policy::Policy;
use crate::record::{HostRecord, RobotsErrand, RobotsState};
use crate::referral::{Referred, RulesAnswer};
use crate::schedule::{News, is_trouble};
use crate::store::StoreError;
use crate::transaction::Transaction;
use crate::web::robots::{MAX_ROBOTS_BYTES, Robots};

/// Most redirects in a row for a robots.txt (RFC 9309 section 2.3.1.2).
const MAX_REDIRECTS: u8 = 5;

/// The answer to a request for a robots.txt.
#[derive(Debug, Clone)]
pub enum RobotsAnswer {
    /// Status 2xx: the rules.
    Rules(Bytes),
    /// Status 4xx: there are none, everything is allowed.
    Missing,
    /// Status 3xx: they are elsewhere.
    Redirect(PageUrl),
    /// Status 5xx, a timeout, no connection, no such name: everything is
    /// forbidden until it answers.
    Unreachable {
        /// The failure.
        reason: Reason,
        /// The pause that the server asked for.
        retry_after: Option<Duration>,
    },
}

impl RobotsAnswer {
    /// The answer of a fetch with this outcome; `body` is that of a 2xx.
    pub fn of(outcome: &Outcome, body: Option<Bytes>) -> Self {
        match (outcome, body) {
            (Outcome::Redirect { to }, _) => Self::Redirect(to.clone()),
            (Outcome::Done, Some(body)) => Self::Rules(body),
            (Outcome::Done, None) => Self::Missing,
            // The request had no condition, so 304 is not a valid answer.
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
    /// The effect of the answer on the health of the host.
    pub fn news(&self, elapsed: Duration) -> News {
        match self {
            Self::Unreachable { reason, .. } if is_trouble(*reason) => News::Troubled,
            Self::Unreachable { .. } => News::None,
            _ => News::Answered(elapsed),
        }
    }
}

/// A leased robots.txt.
pub struct RobotsTask<'a> {
    /// The requested address.
    pub url: &'a PageUrl,
    /// The host that the rules apply to.
    pub owner: &'a HostKey,
    pub scheme: &'static str,
    /// Redirects so far.
    pub redirects: u8,
    /// The crawl delay of the owner's other scheme: both share one clock.
    pub other_delay: Option<Duration>,
    pub policy: &'a Policy,
    pub intake: Intake<'a>,
    pub now: u64,
}

impl RobotsTask<'_> {
    /// Books an answer at the host that gave it. The failure of the owner of the rules is
    /// booked when the answer is settled.
    pub fn book(
        &self,
        asked: &mut HostRecord,
        is_owner: bool,
        answer: &RobotsAnswer,
        elapsed: Duration,
    ) {
        match answer {
            RobotsAnswer::Unreachable { .. } if is_owner => {}
            RobotsAnswer::Unreachable { retry_after, .. } => {
                let host = self.url.host_key();
                self.policy.failed(&host, asked, *retry_after, self.now);
            }
            RobotsAnswer::Redirect(_) => {
                // It is not known yet whether the rules can be fetched. If failures were reset
                // here, a redirect chain to nowhere would be followed again and again, and the host
                // would never be given up.
                let failures = asked.failures;
                self.policy.answered(asked, elapsed, self.now);
                asked.failures = failures;
            }
            RobotsAnswer::Rules(_) | RobotsAnswer::Missing => {
                self.policy.answered(asked, elapsed, self.now);
            }
        }
    }

    /// Applies an answer to the owner's record. Returns the state of the task, and the
    /// rules if they are now known.
    pub fn settle(
        &self,
        tx: &mut Transaction<'_>,
        answer: RobotsAnswer,
        owner: &mut HostRecord,
    ) -> Result<(Settled, Option<Robots>), StoreError> {
        match answer {
            RobotsAnswer::Rules(body) => {
                let rules = self.read(tx, &body, owner)?;
                Ok((Settled::Done, Some(rules)))
            }
            RobotsAnswer::Missing => {
                let delay = self.other_delay;
                self.policy
                    .rules_known(owner, self.scheme, delay, true, self.now);
                tx.delete(keys::robots_body(self.owner, self.scheme));
                Ok((Settled::Done, Some(Robots::allow_all())))
            }
            RobotsAnswer::Redirect(to) if self.redirects < MAX_REDIRECTS => {
                *owner.robots_mut(self.scheme) = RobotsState::Awaiting;
                self.redirect(tx, &to)?;
                Ok((Settled::Redirected, None))
            }
            RobotsAnswer::Redirect(_) => Ok((self.fail(owner, Reason::RedirectLimit, None), None)),
            RobotsAnswer::Unreachable {
                reason,
                retry_after,
            } => Ok((self.fail(owner, reason, retry_after), None)),
        }
    }

    fn read(
        &self,
        tx: &mut Transaction<'_>,
        body: &Bytes,
        owner: &mut HostRecord,
    ) -> Result<Robots, StoreError> {
        let rules = Robots::parse(&self.policy.agent, body);
        let delay = rules.crawl_delay().max(self.other_delay);
        self.policy
            .rules_known(owner, self.scheme, delay, false, self.now);
        let cut = &body[..body.len().min(MAX_ROBOTS_BYTES)];
        tx.put(keys::robots_body(self.owner, self.scheme), cut.to_vec());
        tx.meta.counts.bytes += body.len() as u64;
        if self.policy.sitemaps {
            for text in rules.sitemaps() {
                // A malformed sitemap address is ignored.
                if let Ok(url) = self.url.join(text) {
                    self.intake.add_sitemap(tx, url, Origin::default())?;
                }
            }
        }
        Ok(rules)
    }

    /// Queues the redirect target of the rules, at its own host.
    fn redirect(&self, tx: &mut Transaction<'_>, to: &PageUrl) -> Result<(), StoreError> {
        let errand = RobotsErrand {
            url: to.as_str().to_owned(),
            for_host: self.owner.as_str().to_owned(),
            for_scheme: self.scheme.to_owned(),
            redirects: self.redirects + 1,
        };
        match self.intake.elsewhere(to) {
            None => queue_errand(tx, to, &errand),
            Some(cell) => {
                tx.refer(cell, Referred::Errand(errand));
                Ok(())
            }
        }
    }

    /// Passes the answer on to the cell of the owner. Returns the state of the task.
    pub fn hand_on(
        &self,
        tx: &mut Transaction<'_>,
        to: CellId,
        answer: RobotsAnswer,
        asked: &HostRecord,
    ) -> Result<Settled, StoreError> {
        let unreachable = |reason, retry_after: Option<Duration>| {
            let due = asked.due;
            let retry_after = retry_after.map(millis);
            let answer = RulesAnswer::Unreachable {
                reason,
                retry_after,
            };
            (answer, Settled::Retrying { reason, due })
        };
        let (answer, settled) = match answer {
            RobotsAnswer::Redirect(url) if self.redirects < MAX_REDIRECTS => {
                self.redirect(tx, &url)?;
                return Ok(Settled::Redirected);
            }
            RobotsAnswer::Redirect(_) => unreachable(Reason::RedirectLimit, None),
            RobotsAnswer::Unreachable {
                reason,
                retry_after,
            } => unreachable(reason, retry_after),
            RobotsAnswer::Missing => (RulesAnswer::Missing, Settled::Done),
            RobotsAnswer::Rules(body) => {
                let cut = &body[..body.len().min(MAX_ROBOTS_BYTES)];
                (RulesAnswer::Rules(cut.to_vec()), Settled::Done)
            }
        };
        let rules = Referred::Rules {
            host: self.owner.as_str().to_owned(),
            scheme: self.scheme.to_owned(),
            url: self.url.clone(),
            answer,
        };
        tx.refer(to, rules);
        Ok(settled)
    }

    fn fail(
        &self,
        owner: &mut HostRecord,
        reason: Reason,
        retry_after: Option<Duration>,
    ) -> Settled {
        let state = owner.robots_mut(self.scheme);
        let was_known = matches!(state, RobotsState::Known { .. });
        *state = RobotsState::Unreachable;
        self.policy.failed(self.owner, owner, retry_after, self.now);
        if !was_known && is_lasting(self.owner, reason, owner.failures) {
            self.policy.park(owner, self.now);
        }
        let due = owner.due.max(owner.parked_until.unwrap_or_default());
        Settled::Retrying { reason, due }
    }
}

/// Whether a host that has never answered and has failed this many times in a row, now for this
/// reason, will fail again: a forbidden address stays forbidden, a name that is never looked up
/// stays so, and a name that was not found twice is unlikely to appear.
fn is_lasting(host: &HostKey, reason: Reason, failures: u32) -> bool {
    match reason {
        Reason::PrivateAddress => true,
        Reason::Dns => failures >= 2 || address::is_reserved(host.as_str()),
        _ => false,
    }
}

/// Queues another host's robots.txt at the host of its address.
pub fn queue_errand(
    tx: &mut Transaction<'_>,
    url: &PageUrl,
    errand: &RobotsErrand,
) -> Result<(), StoreError> {
    let target = url.host_key();
    let rank = Rank::new(Bucket::Seed, 0.0, tx.discovered());
    tx.write(keys::queue(&target, keys::class::ROBOTS, &rank), errand)?;
    tx.touch(target);
    Ok(())
}

impl From<&RulesAnswer> for RobotsAnswer {
    fn from(answer: &RulesAnswer) -> Self {
        match answer {
            RulesAnswer::Rules(body) => Self::Rules(Bytes::copy_from_slice(body)),
            RulesAnswer::Missing => Self::Missing,
            RulesAnswer::Unreachable {
                reason,
                retry_after,
            } => Self::Unreachable {
                reason: *reason,
                retry_after: retry_after.map(Duration::from_millis),
            },
        }
    }
}

impl Policy {
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
