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
//!
//! A name server may be dead while hosts to which a connection is open go on answering.
//! That they do says nothing of names: where hosts of some domains that had answered
//! cannot be found one after the other, and no name is found in between, what could not
//! be found is given back after a pause that grows, and the others are asked as ever. Nor
//! does it begin an outage where the others merely keep their pauses at that moment: they
//! answered while the names were looked up.

use std::collections::BTreeSet;
use std::time::Duration;

use super::completion::{Completion, Contact};
use crate::address::HostKey;
use crate::clock::millis;
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
    held: Vec<Completion<B>>,
    /// The hosts among them that answered before.
    known: BTreeSet<HostKey>,
    /// What this machine could not send, and when that is given back.
    unsent: Vec<Completion<B>>,
    again: u64,
    told: bool,
    names: Names,
    /// When somebody answered last, in milliseconds since 1970.
    answered: u64,
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
    /// It was the hosts: each completion counts.
    Complete(Vec<Completion<B>>),
    /// It was not: nothing was asked.
    GiveBack(Vec<Completion<B>>),
}

impl<B> Outage<B> {
    pub fn new() -> Self {
        Self {
            held: Vec::new(),
            known: BTreeSet::new(),
            unsent: Vec::new(),
            again: 0,
            told: false,
            names: Names::default(),
            answered: 0,
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
    /// has answered before, `found` how many names have been found so far.
    pub fn hold(&mut self, completion: Completion<B>, known: bool, found: u64, now: u64) {
        if is_unsent(&completion.outcome) {
            if !self.told {
                self.told = true;
                let error = completion.error.as_deref().unwrap_or_default();
                tracing::warn!("{error}; until then fewer requests are made, and nothing is lost");
            }
            if self.unsent.is_empty() {
                self.again = now.saturating_add(millis(PROBE));
            }
            self.unsent.push(completion);
            return;
        }
        let unnamed = is_unnamed(&completion.outcome);
        if known {
            let host = &completion.task.host;
            if unnamed {
                self.names.lost(host, found, now);
            }
            self.known.insert(host.clone());
        }
        self.held.push(completion);
        // Where it is only the name server, those that need no name answer still.
        if !unnamed && self.since.is_none() && self.known.len() >= HOSTS {
            self.begin(now);
        }
    }

    fn begin(&mut self, now: u64) {
        self.since = Some(now);
        self.next = now.saturating_add(millis(self.pause));
        let last = self.held.last().and_then(|last| last.error.as_deref());
        tracing::warn!(
            "pausing: {HOSTS} hosts that had answered are silent and nobody else answers; the \
             last: {}. Is the network there? Nothing is lost; one request at a time is \
             tried, and the crawl goes on by itself",
            last.unwrap_or_default()
        );
    }

    /// What could not be sent and may be tried again now.
    pub fn resend(&mut self, now: u64) -> Vec<Completion<B>> {
        match now >= self.again {
            true => std::mem::take(&mut self.unsent),
            false => Vec::new(),
        }
    }

    /// Everything that is held back, as nothing more is to be asked.
    pub fn stop(&mut self) -> Vec<Completion<B>> {
        let mut all = std::mem::take(&mut self.held);
        all.append(&mut self.unsent);
        all
    }

    /// Somebody answered, so the network is there; `found` as for [`Outage::hold`].
    pub fn answered(&mut self, found: u64, now: u64) -> Released<B> {
        self.names.seen(found);
        self.answered = now;
        if let Some(since) = self.since {
            let seconds = now.saturating_sub(since) / 1_000;
            tracing::warn!("going on: the network is there again after {seconds} s");
        }
        self.end(now)
    }

    /// Nothing is in flight any more that could answer.
    pub fn nobody_left(&mut self, now: u64) -> Released<B> {
        let longest = millis(LONGEST);
        if self.since.is_none() && self.silent(now) >= HOSTS {
            self.begin(now);
        }
        match self.since {
            // Each of them is tried again in its turn, and the outage goes on.
            Some(since) if now.saturating_sub(since) < longest => {
                Released::GiveBack(std::mem::take(&mut self.held))
            }
            Some(_) => {
                tracing::warn!("nobody has answered for a day; taking the hosts to be down");
                self.since = None;
                self.names = Names::default();
                self.end(now)
            }
            None => self.end(now),
        }
    }

    /// How many hosts that answered before are silent, but for those whose names alone are
    /// not found, as somebody answered after they were asked for.
    fn silent(&self, now: u64) -> usize {
        let lost = self.names.are_lost(now);
        let answered = |asked: Option<u64>| asked.is_some_and(|asked| asked < self.answered);
        let silent = self.held.iter();
        let silent = silent.filter(|a| !(lost && is_unnamed(&a.outcome) && answered(a.asked)));
        let hosts: BTreeSet<&HostKey> = silent.map(|a| &a.task.host).collect();
        hosts.iter().filter(|h| self.known.contains(**h)).count()
    }

    fn end(&mut self, now: u64) -> Released<B> {
        let mut held = std::mem::take(&mut self.held);
        self.known.clear();
        self.pause = PROBE;
        match self.since.take() {
            Some(_) => Released::GiveBack(held),
            None => {
                if self.names.are_lost(now) {
                    let unnamed = held.extract_if(.., |a| is_unnamed(&a.outcome));
                    let unnamed: Vec<_> = unnamed.collect();
                    if !unnamed.is_empty() && self.unsent.is_empty() {
                        self.again = now.saturating_add(millis(self.names.pause()));
                    }
                    self.unsent.extend(unnamed);
                }
                Released::Complete(held)
            }
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

/// What is known of the name server.
#[derive(Default)]
struct Names {
    /// Names found so far, when this was last looked at.
    found: u64,
    /// Registered domains of hosts that had answered and cannot be found, since a name
    /// was found last: one owner's name server may well be dead.
    lost: BTreeSet<String>,
    /// When so many were lost that it must be ours, in milliseconds since 1970.
    since: Option<u64>,
    /// The last pause; zero before the first.
    pause: Duration,
}

impl Names {
    fn seen(&mut self, found: u64) {
        if found == self.found {
            return;
        }
        if !self.pause.is_zero() {
            tracing::warn!("names are found again");
        }
        *self = Self {
            found,
            ..Self::default()
        };
    }

    fn lost(&mut self, host: &HostKey, found: u64, now: u64) {
        self.seen(found);
        self.lost.insert(host.registered_domain().to_owned());
        if self.lost.len() >= HOSTS {
            self.since.get_or_insert(now);
        }
    }

    /// Whether it is the name server, and not the names.
    fn are_lost(&self, now: u64) -> bool {
        let longest = millis(LONGEST);
        self.since
            .is_some_and(|since| now.saturating_sub(since) < longest)
    }

    fn pause(&mut self) -> Duration {
        if self.pause.is_zero() {
            tracing::warn!(
                "no name is found any more, nor those of {HOSTS} hosts that had answered, while \
                 others answer. Is the name server there? Nothing is lost: what needs a name waits"
            );
        }
        self.pause = (self.pause * 2).clamp(PROBE, MAX_PROBE);
        self.pause
    }
}

/// Whether a name was not found.
fn is_unnamed(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Retry {
            reason: Reason::Dns,
            ..
        }
    )
}

/// Whether nobody answered. A host that takes the connection and then says nothing, or
/// cuts it, is there, and so is the network.
pub(super) fn is_silence<B>(completion: &Completion<B>) -> bool {
    completion.contact == Contact::Unreachable || is_unsent(&completion.outcome)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::PageUrl;
    use crate::page::{Bucket, Task, TaskKind, Terms, Validators};

    fn completion(host: usize, reason: Reason) -> Completion<()> {
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
            booking: Default::default(),
        };
        let outcome = Outcome::Retry {
            reason,
            retry_after: None,
            host_backs_off: true,
        };
        Completion::made(task, outcome, None)
    }

    /// What was released: `s`ettled or `g`iven back, and how many.
    fn released(released: Released<()>) -> (char, usize) {
        match released {
            Released::Complete(all) => ('s', all.len()),
            Released::GiveBack(all) => ('g', all.len()),
        }
    }

    #[test]
    fn hosts_that_never_answered_make_no_outage() {
        let mut outage = Outage::new();
        for host in 0..50 {
            outage.hold(completion(host, Reason::Connection), false, 0, 0);
        }
        outage.hold(completion(50, Reason::Dns), true, 0, 0);
        outage.hold(completion(50, Reason::Dns), true, 0, 0);
        assert!(!outage.is_on());
        assert_eq!(released(outage.answered(0, 1)), ('s', 52));
        outage.hold(completion(51, Reason::Dns), true, 0, 0);
        assert_eq!(released(outage.nobody_left(2)), ('s', 1));
    }

    #[test]
    fn an_outage_gives_everything_back_and_asks_ever_more_seldom() {
        let mut outage = Outage::new();
        for host in 0..3 {
            assert!(!outage.is_on());
            outage.hold(completion(host, Reason::Timeout), true, 0, 1_000);
        }
        assert!(outage.is_on());
        let mut now = 1_000;
        let mut tries = Vec::new();
        while now < 400_000 {
            if outage.leasing(false, now) == Leasing::One {
                tries.push(now - 1_000);
                outage.hold(completion(9, Reason::Timeout), true, 0, now);
            }
            now += 500;
        }
        let expected = [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 124_000];
        assert_eq!(tries[..8], expected);
        assert_eq!(released(outage.nobody_left(now)), ('g', 3 + tries.len()));
        assert!(outage.is_on());
        assert_eq!(released(outage.answered(0, now)), ('g', 0));
        assert!(!outage.is_on());
    }

    #[test]
    fn after_a_day_it_is_the_hosts() {
        let mut outage = Outage::new();
        for host in 0..3 {
            outage.hold(completion(host, Reason::Connection), true, 0, 0);
        }
        assert_eq!(released(outage.nobody_left(86_399_000)), ('g', 3));
        outage.hold(completion(1, Reason::Connection), true, 0, 86_400_000);
        assert_eq!(released(outage.nobody_left(86_400_000)), ('s', 1));
        assert!(!outage.is_on());
    }

    #[test]
    fn what_could_not_be_sent_keeps_its_place_for_a_moment() {
        let mut outage = Outage::new();
        outage.hold(completion(1, Reason::Internal), true, 0, 500);
        assert!(outage.has_unsent() && !outage.is_on());
        assert_eq!(released(outage.answered(0, 600)), ('s', 0));
        assert_eq!((outage.resend(1_499).len(), outage.held()), (0, 1));
        assert_eq!((outage.resend(1_500).len(), outage.held()), (1, 0));
    }

    #[test]
    fn while_no_name_is_found_an_answer_says_nothing_of_names() {
        let mut outage = Outage::new();
        // Two owners may well have lost theirs, and two hosts of one owner.
        for (host, at) in [(1, 10), (2, 20), (2, 30)] {
            outage.hold(completion(host, Reason::Dns), true, 7, at);
            assert_eq!(released(outage.answered(7, at)), ('s', 1));
        }
        // With the third it is the name server: nobody pays any more, known or not.
        outage.hold(completion(3, Reason::Dns), true, 7, 40);
        outage.hold(completion(4, Reason::Dns), false, 7, 40);
        outage.hold(completion(5, Reason::Connection), true, 7, 40);
        assert_eq!(released(outage.answered(7, 50)), ('s', 1));
        assert!(!outage.is_on() && outage.has_unsent());
        assert_eq!(outage.resend(1_049).len(), 0);
        assert_eq!(outage.resend(1_050).len(), 2);
        // They are tried again, ever more seldom, also where nothing else is left.
        outage.hold(completion(3, Reason::Dns), true, 7, 1_100);
        assert_eq!(released(outage.nobody_left(1_200)), ('s', 0));
        assert_eq!(outage.resend(3_199).len(), 0);
        assert_eq!(outage.resend(3_200).len(), 1);
        // A name was found, so what is not is gone.
        outage.hold(completion(4, Reason::Dns), false, 7, 3_300);
        assert_eq!(released(outage.answered(8, 3_400)), ('s', 1));
        outage.hold(completion(3, Reason::Dns), true, 8, 3_500);
        assert_eq!(released(outage.answered(8, 3_600)), ('s', 1));
    }

    #[test]
    fn names_that_come_back_in_between_or_for_a_day_do_not_are_the_hosts_own() {
        let mut outage = Outage::new();
        for host in 0..9 {
            outage.hold(completion(host, Reason::Dns), true, host as u64, 0);
            assert_eq!(released(outage.answered(host as u64, 0)), ('s', 1));
        }
        for host in 0..3 {
            outage.hold(completion(host, Reason::Dns), true, 9, 0);
        }
        assert_eq!(released(outage.answered(9, 86_399_000)), ('s', 0));
        assert_eq!(outage.resend(86_400_000).len(), 3);
        outage.hold(completion(1, Reason::Dns), true, 9, 86_400_000);
        assert_eq!(released(outage.answered(9, 86_400_000)), ('s', 1));
    }

    #[test]
    fn a_host_that_keeps_its_pause_while_no_name_is_found_is_no_outage() {
        let asked = |host, at| Completion {
            asked: Some(at),
            ..completion(host, Reason::Dns)
        };
        let mut outage = Outage::new();
        // Somebody answers while the names are looked up, and waits when all have failed.
        assert_eq!(released(outage.answered(7, 1_500)), ('s', 0));
        for host in 1..=4 {
            outage.hold(asked(host, 1_000 + host as u64), true, 7, 2_000);
        }
        assert_eq!(released(outage.nobody_left(2_010)), ('s', 0));
        assert!(!outage.is_on() && outage.has_unsent());
        assert_eq!(outage.resend(3_009).len(), 0);
        assert_eq!(outage.resend(3_010).len(), 4);
        // Nobody does any more.
        for host in 1..=4 {
            outage.hold(asked(host, 3_010), true, 7, 4_000);
        }
        assert_eq!(released(outage.nobody_left(4_010)), ('g', 4));
        assert!(outage.is_on());
    }

    #[test]
    fn where_nobody_answers_at_all_a_dead_name_server_is_an_outage() {
        let mut outage = Outage::new();
        for host in 0..3 {
            outage.hold(completion(host, Reason::Dns), true, 5, 0);
            assert!(!outage.is_on(), "somebody may answer yet");
        }
        assert_eq!(released(outage.nobody_left(10)), ('g', 3));
        assert!(outage.is_on());
        assert_eq!(outage.leasing(false, 1_009), Leasing::Nothing);
        assert_eq!(outage.leasing(false, 1_010), Leasing::One);
    }
}
