//! Outages: when it is not one host that is silent but the network.
//!
//! A host that fails is backed off, and after some tries its address is given up. If
//! the network is gone that would strike host after host though nothing is wrong with
//! any of them. So a request to which nobody answered is held back until the next
//! answer of anybody. Where none comes and hosts that have answered before are silent
//! one after the other, an outage has begun: what was held back is given back to the
//! queue as if it had never been asked, and only one request at a time finds out
//! whether the network is there again.
//!
//! That many links lead to hosts that were never there says nothing of the network;
//! only those count that are known to have answered once.

use std::collections::BTreeSet;
use std::time::Duration;

use super::drive::Arrival;
use crate::address::HostKey;
use crate::page::{Outcome, Reason};

/// Hosts that answered before and are silent now, one after the other, that make an
/// outage.
const HOSTS: usize = 3;

/// The pause between two requests during an outage: it doubles up to the longest.
const PROBE: Duration = Duration::from_secs(1);
const MAX_PROBE: Duration = Duration::from_secs(60);

/// Longer than this, no network is taken for an outage: the hosts are what is silent.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// What is held back, and why.
pub(super) struct Outage<B> {
    held: Vec<Arrival<B>>,
    /// The hosts among them that answered before.
    known: BTreeSet<HostKey>,
    /// What this machine could not send, and when that is given back.
    unsent: Vec<Arrival<B>>,
    again: u64,
    told: bool,
    /// Since when there is an outage, in milliseconds since 1970.
    since: Option<u64>,
    pause: Duration,
    /// When the next request may be made.
    next: u64,
}

/// How much may be leased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leasing {
    Freely,
    One,
    Nothing,
}

/// What becomes of what was held back.
pub(super) enum Released<B> {
    /// It was the hosts: each arrival counts.
    Settle(Vec<Arrival<B>>),
    /// It was not: nothing was asked.
    GiveBack(Vec<Arrival<B>>),
}

impl<B> Outage<B> {
    pub fn new() -> Self {
        Self {
            held: Vec::new(),
            known: BTreeSet::new(),
            unsent: Vec::new(),
            again: 0,
            told: false,
            since: None,
            pause: PROBE,
            next: 0,
        }
    }

    /// How many leases are held back.
    pub fn held(&self) -> usize {
        self.held.len() + self.unsent.len()
    }

    /// Whether there is an outage.
    pub fn is_on(&self) -> bool {
        self.since.is_some()
    }

    /// Since when there is an outage, in milliseconds since 1970.
    pub fn since(&self) -> Option<u64> {
        self.since
    }

    /// Holds back a request to which nobody answered; `known` says whether its host
    /// has answered before.
    pub fn hold(&mut self, arrival: Arrival<B>, known: bool, now: u64) {
        if is_unsent(&arrival.outcome) {
            if !self.told {
                self.told = true;
                let error = arrival.error.as_deref().unwrap_or_default();
                tracing::warn!("{error}; until then fewer requests are made, and nothing is lost");
            }
            if self.unsent.is_empty() {
                self.again = now.saturating_add(millis(PROBE));
            }
            self.unsent.push(arrival);
            return;
        }
        if known {
            self.known.insert(arrival.task.host.clone());
        }
        if self.since.is_none() && self.known.len() >= HOSTS {
            self.since = Some(now);
            self.next = now.saturating_add(millis(self.pause));
            tracing::warn!(
                "pausing: {HOSTS} hosts that had answered are silent and nobody else answers; the \
                 last: {}. Is the network there? Nothing is lost; one request at a time is \
                 tried, and the crawl goes on by itself",
                arrival.error.as_deref().unwrap_or_default()
            );
        }
        self.held.push(arrival);
    }

    /// What could not be sent and may be tried again now.
    pub fn resend(&mut self, now: u64) -> Vec<Arrival<B>> {
        match now >= self.again {
            true => std::mem::take(&mut self.unsent),
            false => Vec::new(),
        }
    }

    /// Everything that is held back, as nothing more is to be asked.
    pub fn stop(&mut self) -> Vec<Arrival<B>> {
        let mut all = std::mem::take(&mut self.held);
        all.append(&mut self.unsent);
        all
    }

    /// Somebody answered, so the network is there.
    pub fn answered(&mut self, now: u64) -> Released<B> {
        if let Some(since) = self.since {
            let seconds = now.saturating_sub(since) / 1_000;
            tracing::warn!("going on: the network is there again after {seconds} s");
        }
        self.end()
    }

    /// Nothing is in flight any more that could answer.
    pub fn nobody_left(&mut self, now: u64) -> Released<B> {
        let longest = millis(LONGEST);
        match self.since {
            // Each of them is tried again in its turn, and the outage goes on.
            Some(since) if now.saturating_sub(since) < longest => {
                Released::GiveBack(std::mem::take(&mut self.held))
            }
            Some(_) => {
                tracing::warn!("nobody has answered for a day; taking the hosts to be down");
                self.since = None;
                self.end()
            }
            None => self.end(),
        }
    }

    fn end(&mut self) -> Released<B> {
        let held = std::mem::take(&mut self.held);
        self.known.clear();
        self.pause = PROBE;
        match self.since.take() {
            Some(_) => Released::GiveBack(held),
            None => Released::Settle(held),
        }
    }

    /// How much may be leased now. During an outage it is one task at a time, ever more
    /// seldom; where this says so, it is leased.
    pub fn leasing(&mut self, in_flight: bool, now: u64) -> Leasing {
        if !self.is_on() {
            return Leasing::Freely;
        }
        if in_flight || now < self.next {
            return Leasing::Nothing;
        }
        self.next = now.saturating_add(millis(self.pause));
        self.pause = (self.pause * 2).min(MAX_PROBE);
        Leasing::One
    }

    /// Whether something is held back that this machine could not send.
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }
}

/// Whether nobody answered. A host that takes the connection and then says nothing, or
/// cuts it, is there, and so is the network.
pub(super) fn is_silence<B>(arrival: &Arrival<B>) -> bool {
    arrival.unreached || is_unsent(&arrival.outcome)
}

/// Whether this machine could not open the connection (see the table of failures).
fn is_unsent(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Retry {
            reason: Reason::Internal,
            ..
        }
    )
}

fn millis(pause: Duration) -> u64 {
    u64::try_from(pause.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::PageUrl;
    use crate::page::{Bucket, Task, TaskKind, Terms, Validators};

    fn arrival(host: usize, reason: Reason) -> Arrival<()> {
        let url = PageUrl::parse(&format!("http://h{host}.test/")).unwrap();
        let task = Task {
            lease: 0,
            locate: false,
            kind: TaskKind::Page,
            host: url.host_key(),
            url,
            via: None,
            hops: 0,
            redirects: 0,
            control: false,
            attempts: 0,
            bucket: Bucket::High,
            score: 1.0,
            parts: None,
            validators: Validators::default(),
            terms: Terms::default(),
        };
        let outcome = Outcome::Retry {
            reason,
            retry_after: None,
            host_backs_off: true,
        };
        Arrival::made(task, outcome, None)
    }

    /// What was released: `s`ettled or `g`iven back, and how many.
    fn released(released: Released<()>) -> (char, usize) {
        match released {
            Released::Settle(all) => ('s', all.len()),
            Released::GiveBack(all) => ('g', all.len()),
        }
    }

    #[test]
    fn hosts_that_never_answered_make_no_outage() {
        let mut outage = Outage::new();
        for host in 0..50 {
            outage.hold(arrival(host, Reason::Connection), false, 0);
        }
        outage.hold(arrival(50, Reason::Dns), true, 0);
        outage.hold(arrival(50, Reason::Dns), true, 0);
        assert!(!outage.is_on());
        assert_eq!(released(outage.answered(1)), ('s', 52));
        outage.hold(arrival(51, Reason::Dns), true, 0);
        assert_eq!(released(outage.nobody_left(2)), ('s', 1));
    }

    #[test]
    fn an_outage_gives_everything_back_and_asks_ever_more_seldom() {
        let mut outage = Outage::new();
        for host in 0..3 {
            assert!(!outage.is_on());
            outage.hold(arrival(host, Reason::Timeout), true, 1_000);
        }
        assert!(outage.is_on());
        let mut now = 1_000;
        let mut tries = Vec::new();
        while now < 400_000 {
            if outage.leasing(false, now) == Leasing::One {
                tries.push(now - 1_000);
                outage.hold(arrival(9, Reason::Timeout), true, now);
            }
            now += 500;
        }
        let expected = [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 124_000];
        assert_eq!(tries[..8], expected);
        assert_eq!(released(outage.nobody_left(now)), ('g', 3 + tries.len()));
        assert!(outage.is_on());
        assert_eq!(released(outage.answered(now)), ('g', 0));
        assert!(!outage.is_on());
    }

    #[test]
    fn after_a_day_it_is_the_hosts() {
        let mut outage = Outage::new();
        for host in 0..3 {
            outage.hold(arrival(host, Reason::Connection), true, 0);
        }
        assert_eq!(released(outage.nobody_left(86_399_000)), ('g', 3));
        outage.hold(arrival(1, Reason::Connection), true, 86_400_000);
        assert_eq!(released(outage.nobody_left(86_400_000)), ('s', 1));
        assert!(!outage.is_on());
    }

    #[test]
    fn what_could_not_be_sent_keeps_its_place_for_a_moment() {
        let mut outage = Outage::new();
        outage.hold(arrival(1, Reason::Internal), true, 500);
        assert!(outage.has_unsent() && !outage.is_on());
        assert_eq!(released(outage.answered(600)), ('s', 0));
        assert_eq!((outage.resend(1_499).len(), outage.held()), (0, 1));
        assert_eq!((outage.resend(1_500).len(), outage.held()), (1, 0));
    }
}
