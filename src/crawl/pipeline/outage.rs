//! Outages: detects that the network is down, not a single host.
//!
//! A host that fails is backed off, and after some tries the address is given up. Without a
//! network that would happen to host after host, though nothing is wrong with any of them. So
//! a request without an answer is held back until any host answers. If none does, and hosts
//! that have answered before fail one after the other, an outage has begun: the tasks that
//! are held back return to the queue as if they had not been leased, and one request at a
//! time tests whether the network is back.
//!
//! Links to hosts that never existed are no evidence of an outage, so only hosts that have answered
//! before count. A request that times out is held back as well: it may have been sent on a
//! connection that was opened before the network went down.
//!
//! A name server may be down while hosts with an open connection still answer. Their answers are no
//! evidence that names can be resolved. If known hosts of several domains cannot be resolved one
//! after the other, and no other name is resolved in between, the tasks that need a name return to
//! the queue after a growing pause, and all others go on as usual. This is no outage either if the
//! other hosts are in their crawl delay at that moment: they answered while the names were looked
//! up.

use std::collections::BTreeSet;
use std::time::Duration;

use super::completion::{Completion, Contact};
use crate::address::HostKey;
use crate::clock::millis;
use crate::page::{Outcome, Reason};

/// The number of known hosts that must fail one after the other to make an outage.
const HOSTS: usize = 3;

/// The first and the longest pause between two requests during an outage; it doubles.
const PROBE: Duration = Duration::from_secs(1);
const MAX_PROBE: Duration = Duration::from_secs(60);

/// After this time without an answer the hosts are assumed to be down, not the network.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// The tasks that are held back, and what is known of the network. All times are
/// milliseconds since 1970.
pub(super) struct Outage<P> {
    /// Tasks without an answer.
    held: Vec<Completion<P>>,
    /// The hosts among them that have answered before.
    known: BTreeSet<HostKey>,
    /// Tasks that this machine could not send.
    unsent: Vec<Completion<P>>,
    /// When the unsent tasks are given back.
    resend: u64,
    /// Whether it has been logged that some could not be sent.
    has_warned: bool,
    names: Names,
    /// The time of the last answer of any host.
    answered: u64,
    /// When the outage began, if there is one.
    since: Option<u64>,
    /// The pause before the next request during an outage.
    pause: Duration,
    /// The time of the next request during an outage.
    next: u64,
}

/// How much may be leased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Leasing {
    Freely,
    One,
    Nothing,
}

/// What to do with tasks that were held back.
pub(super) enum Released<P> {
    /// Their hosts have failed: complete them.
    Complete(Vec<Completion<P>>),
    /// The network has failed: queue them again as if they had not been leased.
    GiveBack(Vec<Completion<P>>),
}

impl<P> Outage<P> {
    pub fn new() -> Self {
        Self {
            held: Vec::new(),
            known: BTreeSet::new(),
            unsent: Vec::new(),
            resend: 0,
            has_warned: false,
            names: Names::default(),
            answered: 0,
            since: None,
            pause: PROBE,
            next: 0,
        }
    }

    /// How many tasks are held back.
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

    /// A task ended that shows only how many names have been resolved so far.
    pub fn resolved(&mut self, found: u64) {
        self.names.seen(found);
    }

    /// Holds back a task without an answer. `known` says whether its host has answered before,
    /// `found` how many names have been resolved so far.
    ///
    /// A request on an open connection is no evidence by itself: some hosts accept every request
    /// and answer none. But its task is held back like the others.
    pub fn hold(&mut self, completion: Completion<P>, known: bool, found: u64, now: u64) {
        if is_unsent(&completion.outcome) {
            if !self.has_warned {
                self.has_warned = true;
                let error = completion.error.as_deref().unwrap_or_default();
                tracing::warn!("{error}; until then fewer requests are made, and nothing is lost");
            }
            if self.unsent.is_empty() {
                self.resend = now.saturating_add(millis(PROBE));
            }
            self.unsent.push(completion);
            return;
        }
        let unnamed = is_unnamed(&completion.outcome);
        if known && completion.contact != Contact::Unanswered {
            let host = &completion.task.host;
            if unnamed {
                self.names.lost(host, found, now);
            }
            self.known.insert(host.clone());
        }
        self.held.push(completion);
        // If only the name server is down, hosts with an open connection still answer.
        if !unnamed && self.since.is_none() && self.known.len() >= HOSTS {
            self.begin(now);
        }
    }

    fn begin(&mut self, now: u64) {
        self.since = Some(now);
        self.next = now.saturating_add(millis(self.pause));
        let last = self.held.last().and_then(|last| last.error.as_deref());
        tracing::warn!(
            "pausing: {HOSTS} hosts that had answered are silent and no other host answers; the \
             last: {}. Is the network there? Nothing is lost; one request at a time is \
             tried, and the crawl goes on by itself",
            last.unwrap_or_default()
        );
    }

    /// The unsent tasks, once they may be tried again.
    pub fn resend(&mut self, now: u64) -> Vec<Completion<P>> {
        if now >= self.resend {
            std::mem::take(&mut self.unsent)
        } else {
            Vec::new()
        }
    }

    /// All tasks that are held back, because the run sends no more requests.
    pub fn stop(&mut self) -> Vec<Completion<P>> {
        let mut all = std::mem::take(&mut self.held);
        all.append(&mut self.unsent);
        all
    }

    /// A host answered, so the network is up; `found` as for [`Outage::hold`].
    pub fn answered(&mut self, found: u64, now: u64) -> Released<P> {
        self.names.seen(found);
        self.answered = now;
        if let Some(since) = self.since {
            let seconds = now.saturating_sub(since) / 1_000;
            tracing::warn!("resuming: the network is back after {seconds} s");
        }
        self.end(now)
    }

    /// No request is open any more, so no answer can come.
    pub fn none_in_flight(&mut self, now: u64) -> Released<P> {
        let longest = millis(LONGEST);
        if self.since.is_none() && self.silent(now) >= HOSTS {
            self.begin(now);
        }
        match self.since {
            // Each of them will be tried again, and the outage goes on.
            Some(since) if now.saturating_sub(since) < longest => {
                Released::GiveBack(std::mem::take(&mut self.held))
            }
            Some(_) => {
                tracing::warn!("no host has answered for a day; the hosts are assumed to be down");
                self.since = None;
                self.names = Names::default();
                self.end(now)
            }
            None => self.end(now),
        }
    }

    /// How many known hosts are silent. Hosts without a name do not count if the name server
    /// is down and another host answered after their request.
    fn silent(&self, now: u64) -> usize {
        let lost = self.names.are_lost(now);
        let answered = |asked: Option<u64>| asked.is_some_and(|asked| asked < self.answered);
        let silent = self.held.iter();
        let silent = silent.filter(|a| !(lost && is_unnamed(&a.outcome) && answered(a.asked)));
        let hosts: BTreeSet<&HostKey> = silent.map(|a| &a.task.host).collect();
        hosts.iter().filter(|h| self.known.contains(**h)).count()
    }

    fn end(&mut self, now: u64) -> Released<P> {
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
                        self.resend = now.saturating_add(millis(self.names.pause()));
                    }
                    self.unsent.extend(unnamed);
                }
                Released::Complete(held)
            }
        }
    }

    /// How much may be leased now. During an outage it is one task at a time, after a growing
    /// pause; [`Leasing::One`] counts as a lease.
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

    /// Whether unsent tasks are held back.
    pub fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }
}

/// What is known of the name server of this machine.
#[derive(Default)]
struct Names {
    /// Names resolved so far, when this was last compared.
    found: u64,
    /// Registered domains of known hosts that could not be resolved since the last name was
    /// resolved. Hosts of one domain count once, because they share the domain's own name server.
    lost: BTreeSet<String>,
    /// When so many domains had failed that this machine's name server must be down, in
    /// milliseconds since 1970.
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
            tracing::warn!("names can be resolved again");
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

    /// Whether the name server is down, rather than a few names gone.
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

/// Whether a name could not be resolved.
fn is_unnamed(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::Retry {
            reason: Reason::Dns,
            ..
        }
    )
}

/// What a completion shows about the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Evidence {
    /// It is up. A host that accepts a connection and closes it is up, and so is the network.
    Answer,
    /// It may be down: no host was reached, or none answered on a connection that was made earlier.
    Silence,
    /// Nothing: only a name was resolved, which needs no host.
    None,
}

impl Evidence {
    pub fn of<P>(completion: &Completion<P>) -> Self {
        match completion.contact {
            Contact::Unreachable | Contact::Unanswered => Self::Silence,
            Contact::Resolved(_) => Self::None,
            _ if is_unsent(&completion.outcome) => Self::Silence,
            _ => Self::Answer,
        }
    }
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
    use crate::fetch;
    use crate::page::{Bucket, HostTerms, Task, TaskKind, Validators};

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
            terms: HostTerms::default(),
            booking: Default::default(),
        };
        let outcome = Outcome::Retry {
            reason,
            retry_after: None,
            host_backs_off: true,
        };
        Completion::made(task, outcome, None)
    }

    /// What was released: to be `c`ompleted or `g`iven back, and how many.
    fn released(released: Released<()>) -> (char, usize) {
        match released {
            Released::Complete(all) => ('c', all.len()),
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
        assert_eq!(released(outage.answered(0, 1)), ('c', 52));
        outage.hold(completion(51, Reason::Dns), true, 0, 0);
        assert_eq!(released(outage.none_in_flight(2)), ('c', 1));
    }

    /// Open connections over a dead line end one by one, after minutes. They are not answers, so
    /// they do not show that the unreachable hosts are at fault.
    #[test]
    fn what_is_not_answered_is_no_answer() {
        let (host, phase) = ("h1.test".to_owned(), fetch::Phase::Head);
        let late = fetch::FetchFailure::Timeout { host, phase }.into();
        let silent = Completion::<()>::of_error(completion(1, Reason::Timeout).task, &late);
        assert_eq!(Evidence::of(&silent), Evidence::Silence);
        let mut outage = Outage::new();
        outage.hold(completion(0, Reason::Connection), true, 0, 0);
        // They are no evidence of an outage either: some hosts accept everything and answer
        // nothing.
        for _ in 0..9 {
            let late = Completion {
                contact: Contact::Unanswered,
                ..completion(1, Reason::Timeout)
            };
            outage.hold(late, true, 0, 0);
        }
        outage.hold(completion(2, Reason::Connection), true, 0, 0);
        assert!(!outage.is_on());
        outage.hold(completion(3, Reason::Connection), true, 0, 0);
        assert!(outage.is_on());
        assert_eq!(released(outage.none_in_flight(1)), ('g', 12));
    }

    #[test]
    fn a_name_alone_is_no_answer() {
        let mut found = completion(1, Reason::Connection);
        found.contact = Contact::Resolved(None);
        assert_eq!(Evidence::of(&found), Evidence::None);
        found.contact = Contact::Reached;
        assert_eq!(Evidence::of(&found), Evidence::Answer);
        // This machine had no file left to open a connection with.
        let unsent = completion(1, Reason::Internal);
        assert_eq!(Evidence::of(&unsent), Evidence::Silence);
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
        assert_eq!(released(outage.none_in_flight(now)), ('g', 3 + tries.len()));
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
        assert_eq!(released(outage.none_in_flight(86_399_000)), ('g', 3));
        outage.hold(completion(1, Reason::Connection), true, 0, 86_400_000);
        assert_eq!(released(outage.none_in_flight(86_400_000)), ('c', 1));
        assert!(!outage.is_on());
    }

    #[test]
    fn what_could_not_be_sent_keeps_its_place_for_a_moment() {
        let mut outage = Outage::new();
        outage.hold(completion(1, Reason::Internal), true, 0, 500);
        assert!(outage.has_unsent() && !outage.is_on());
        assert_eq!(released(outage.answered(0, 600)), ('c', 0));
        assert_eq!((outage.resend(1_499).len(), outage.held()), (0, 1));
        assert_eq!((outage.resend(1_500).len(), outage.held()), (1, 0));
    }

    #[test]
    fn while_no_name_is_found_an_answer_says_nothing_of_names() {
        let mut outage = Outage::new();
        // Two domains may have lost their own name servers, and two hosts share one.
        for (host, at) in [(1, 10), (2, 20), (2, 30)] {
            outage.hold(completion(host, Reason::Dns), true, 7, at);
            assert_eq!(released(outage.answered(7, at)), ('c', 1));
        }
        // A third domain shows that this machine's name server is down, not the hosts.
        outage.hold(completion(3, Reason::Dns), true, 7, 40);
        outage.hold(completion(4, Reason::Dns), false, 7, 40);
        outage.hold(completion(5, Reason::Connection), true, 7, 40);
        assert_eq!(released(outage.answered(7, 50)), ('c', 1));
        assert!(!outage.is_on() && outage.has_unsent());
        assert_eq!(outage.resend(1_049).len(), 0);
        assert_eq!(outage.resend(1_050).len(), 2);
        // They are tried again after longer pauses, even if nothing else is left.
        outage.hold(completion(3, Reason::Dns), true, 7, 1_100);
        assert_eq!(released(outage.none_in_flight(1_200)), ('c', 0));
        assert_eq!(outage.resend(3_199).len(), 0);
        assert_eq!(outage.resend(3_200).len(), 1);
        // A name was resolved, so the names that still fail are gone.
        outage.hold(completion(4, Reason::Dns), false, 7, 3_300);
        assert_eq!(released(outage.answered(8, 3_400)), ('c', 1));
        outage.hold(completion(3, Reason::Dns), true, 8, 3_500);
        assert_eq!(released(outage.answered(8, 3_600)), ('c', 1));
    }

    #[test]
    fn names_that_come_back_in_between_or_for_a_day_do_not_are_the_hosts_own() {
        let mut outage = Outage::new();
        for host in 0..9 {
            outage.hold(completion(host, Reason::Dns), true, host as u64, 0);
            assert_eq!(released(outage.answered(host as u64, 0)), ('c', 1));
        }
        for host in 0..3 {
            outage.hold(completion(host, Reason::Dns), true, 9, 0);
        }
        assert_eq!(released(outage.answered(9, 86_399_000)), ('c', 0));
        assert_eq!(outage.resend(86_400_000).len(), 3);
        outage.hold(completion(1, Reason::Dns), true, 9, 86_400_000);
        assert_eq!(released(outage.answered(9, 86_400_000)), ('c', 1));
    }

    #[test]
    fn a_host_that_keeps_its_pause_while_no_name_is_found_is_no_outage() {
        let asked = |host, at| Completion {
            asked: Some(at),
            ..completion(host, Reason::Dns)
        };
        let mut outage = Outage::new();
        // A host answers during the look-ups, and is in its crawl delay when all have failed.
        assert_eq!(released(outage.answered(7, 1_500)), ('c', 0));
        for host in 1..=4 {
            outage.hold(asked(host, 1_000 + host as u64), true, 7, 2_000);
        }
        assert_eq!(released(outage.none_in_flight(2_010)), ('c', 0));
        assert!(!outage.is_on() && outage.has_unsent());
        assert_eq!(outage.resend(3_009).len(), 0);
        assert_eq!(outage.resend(3_010).len(), 4);
        // No host answers any more.
        for host in 1..=4 {
            outage.hold(asked(host, 3_010), true, 7, 4_000);
        }
        assert_eq!(released(outage.none_in_flight(4_010)), ('g', 4));
        assert!(outage.is_on());
    }

    #[test]
    fn where_nobody_answers_at_all_a_dead_name_server_is_an_outage() {
        let mut outage = Outage::new();
        for host in 0..3 {
            outage.hold(completion(host, Reason::Dns), true, 5, 0);
            assert!(!outage.is_on(), "a host may answer yet");
        }
        assert_eq!(released(outage.none_in_flight(10)), ('g', 3));
        assert!(outage.is_on());
        assert_eq!(outage.leasing(false, 1_009), Leasing::Nothing);
        assert_eq!(outage.leasing(false, 1_010), Leasing::One);
    }
}
