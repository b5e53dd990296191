//! The frontier: which address is asked next, and when.
//!
//! # The life of a URL
//!
//! 1. **Added.** [`Frontier::add_seeds`], or the effects of a finished page or
//!    sitemap. The scope judges it, its score gives the bucket; it is *queued* at
//!    its host, or *dropped* with a reason. What is known already is only improved.
//! 2. **Leased.** [`Frontier::lease`] takes, of the hosts whose clock permits a
//!    request now, the one whose head is in the best bucket, then has the best
//!    score, then is oldest. Before a host's first address its robots.txt is
//!    leased, and before its first page or image its tdmrep.json, where the job keeps
//!    text or images; what the rules forbid is dropped here, and queued again where
//!    newer robots rules allow it. A lease leaves no mark in the store: whatever is in flight at a crash is simply still queued.
//! 3. **Finished.** [`Frontier::finish`], [`Frontier::finish_robots`] or [`Frontier::finish_tdmrep`] takes the
//!    outcome of every lease. The new state, the new links and contexts, the
//!    host's clock, the counters and the place up to which the outputs were
//!    written become one batch: all of it happened, or none.
//! 4. **Visited again**, where `[recrawl]` or a schedule of its own says so. A
//!    finished record carries the date of its next visit and lies in an index by
//!    that date; when it has come, the address is queued as it was at first.
//!
//! # What holds
//!
//! - A URL is in exactly one state ([`State`]), and a `Q` entry exists if and only
//!   if that state is *queued*. A `V` entry exists if and only if the record has the
//!   date of a next visit, which only a finished one has.
//! - A host's clock is in its record, so it survives; after an unclean end no
//!   host is asked earlier than its delay after opening, since a request may have
//!   been in flight that nothing remembers.
//! - Nothing is added or leased that the scope in force does not permit, also while
//!   what was stored under another scope is still being judged anew.
//! - What is added is rated by the rating in force, whoever rated it; nothing above its
//!   razor is leased but what was fetched before, also while the rest is rated anew.
//! - Memory holds the hosts that have something queued or leased, and of the URLs
//!   a filter of about two bytes each and the records met last.
//!
//! # Reading order
//!
//! `record` and `keys` (what is stored), `store` (where), `seen` (what of it is in
//! memory), `clock` (pauses), `groups` (clocks that hosts share), `schedule` (hosts
//! in memory), `newcomers` (those that have given nothing yet), `change` (adding), this file (opening), `leasing`, `finish` and `step`
//! (outcomes), `traps` (copies and pages without end), `listing` (what sitemaps may list), `rules` (robots.txt),
//! `recheck` (when it changes), `tdmrep` (the other file that speaks for a host),
//! `rescope` (a changed scope), `rescore` (other ratings), `learning` (ratings that
//! change with every page), `visits` (again, and when),
//! `alts` (texts that a host repeats), `spares` (other addresses of the same picture),
//! `ledger` (what share of the requests goes to images), `sample` (links by chance) with `focus` (what they
//! tell); beside them `kept` (bytes that were kept before), `archive`, `audit`, `mark`,
//! `set_back`, `takedown` and `view`.
//!
//! The frontier never fetches, sleeps or looks at a clock: time is an argument.
//! It knows no HTML, no language model and no output file.

mod alts;
pub mod archive;
pub mod audit;
mod change;
mod clock;
mod codec;
mod contexts;
mod finish;
mod focus;
mod groups;
mod headline;
mod kept;
mod keys;
mod learning;
mod leasing;
mod ledger;
mod listing;
mod mark;
mod newcomers;
mod recheck;
mod record;
mod rescope;
mod rescore;
mod resting;
mod rules;
mod sample;
mod schedule;
mod seen;
mod set_back;
mod spares;
mod step;
pub mod store;
mod takedown;
mod tdmrep;
#[cfg(test)]
mod tests;
mod traps;
pub mod view;
mod visits;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::address::{HostKey, PageUrl};
use crate::page::{Bucket, Clues, ImageContext, LinkParts, TaskKind};
use crate::web::robots::Robots;
use crate::web::scope::Scope;
use change::{Change, Gathered, Origin};
use keys::{Rank, class};
use newcomers::Newcomers;
use record::{FORMAT, Meta, RobotsErrand};
use schedule::{Head, Schedule, Slot};
use seen::Seen;
use store::{Readable, Store, StoreError};
use visits::Visits;

pub use clock::Policy;
pub use finish::{Effects, Finished, Settled, Written};
pub use focus::{Curve, Focus, Tally};
pub use groups::GroupRecord;
pub use headline::{Doubt, Headline, MIN_PAGES};
pub use learning::Example;
pub use ledger::{ImageLedger, ImagesLeft};
pub use listing::Listing;
pub use record::{Counts, HostRecord, Located, RobotsState, State, UrlRecord, Visit};
pub use rescope::Rescoped;
use rescore::Scores;
pub use rescore::{MAX_ANCHOR, Rating, Rescored};
pub use rules::RobotsAnswer;
pub use sample::Control;
pub use schedule::{HostStates, HostTurn};
pub use seen::Questions;
pub use spares::Instead;
pub use takedown::TakenDown;
pub use tdmrep::obeyed;
pub use traps::Budget;
pub use visits::Recrawl;

/// Robots rules kept in memory at most, in bytes: a farm of hosts may serve each
/// as long a robots.txt as is read.
const MAX_CACHED_RULES: usize = if cfg!(test) {
    1024 * 1024
} else {
    64 * 1024 * 1024
};

/// A page to be added.
#[derive(Debug, Clone, PartialEq)]
pub struct NewTask {
    /// Its address.
    pub url: PageUrl,
    /// Its priority class; `None` where the score lies above the razor: it is
    /// recorded and not followed.
    pub bucket: Option<Bucket>,
    /// Its score, lower is better.
    pub score: f64,
    /// What the score was made of.
    pub parts: Option<LinkParts>,
    /// The words of the anchor as the language model reads them, where it has any;
    /// those of a link that is not fetched yet are kept, up to [`MAX_ANCHOR`].
    pub anchor: Option<String>,
    /// What a learning crawl rates it by; its score is not heeded then.
    pub clues: Option<Clues>,
}

/// An image to be added, with the words around it on one page.
#[derive(Debug, Clone, PartialEq)]
pub struct NewImage {
    /// Its address.
    pub url: PageUrl,
    /// Other addresses that the page offers for the same picture, best first. They are
    /// asked for one after the other where there is none at the first.
    pub spares: Vec<PageUrl>,
    /// As for a page.
    pub bucket: Option<Bucket>,
    /// Its score, lower is better.
    pub score: f64,
    /// The words, kept until the bytes are there.
    pub context: ImageContext,
}

/// A page that the operator names.
fn seed(url: &PageUrl) -> NewTask {
    NewTask {
        url: url.clone(),
        bucket: Some(Bucket::Seed),
        score: 0.0,
        parts: None,
        anchor: None,
        clues: None,
    }
}

/// What a lease is for.
#[derive(Debug, Clone)]
enum Errand {
    /// A queued page, image or sitemap.
    Url { key: Vec<u8> },
    /// The robots.txt of the host itself.
    Robots { scheme: &'static str },
    /// Its tdmrep.json, so many redirects on.
    Tdmrep { scheme: &'static str, redirects: u8 },
    /// A robots.txt that another host's redirected to.
    Redirected {
        queue_key: Vec<u8>,
        errand: RobotsErrand,
    },
}

#[derive(Debug, Clone)]
struct Lease {
    slot: Slot,
    /// The queue value that is marked as leased at the host.
    value: Vec<u8>,
    errand: Errand,
    /// The number among the finished that a sitemap was given when the first
    /// part of what it lists was added.
    number: Option<u64>,
    /// What of that was passed over so far, as its site has listed enough.
    beyond: u64,
}

impl Lease {
    /// Whether an image is asked for.
    fn is_image(&self) -> bool {
        match &self.errand {
            Errand::Url { key } => keys::kind_of_key(key) == Some(TaskKind::Image),
            _ => false,
        }
    }
}

/// Refuses a store whose records are laid out as another version of spoor does.
/// The format is the first field of its first record, and readable in any layout;
/// where it cannot be read, whoever needs the record will say so.
///
/// # Errors
/// [`StoreError::Version`].
pub fn check_format(store: &dyn Readable) -> Result<(), StoreError> {
    let meta = store.get(keys::META).ok().flatten().unwrap_or_default();
    match postcard::take_from_bytes::<u32>(&meta) {
        Ok((found, _)) if found != FORMAT => Err(StoreError::Version {
            path: store.path().to_owned(),
            found,
            expected: FORMAT,
        }),
        _ => Ok(()),
    }
}

/// See the module's documentation.
pub struct Frontier {
    store: Box<dyn Store>,
    questions: Arc<Questions>,
    policy: Policy,
    scope: Scope,
    meta: Meta,
    schedule: Schedule,
    leases: HashMap<u64, Lease>,
    /// Those of them that are for images.
    open_images: usize,
    last_lease: u64,
    /// Those of them that are at hosts which have given nothing yet, or failed last.
    newcomers: Newcomers,
    /// Whether what may be asked was not worth it when something was last to be leased.
    is_patient: bool,
    /// When this process opened the store, if the last one did not close it.
    unclean_since: Option<u64>,
    /// When this process opened the store.
    opened: u64,
    /// The last time it was told.
    latest: u64,
    /// When the first waiting URL is due.
    next_waiting: Option<u64>,
    /// Which pages are visited again, and when.
    visits: Visits,
    /// When the first of them is due.
    next_visit: Option<u64>,
    pages_closed: bool,
    /// Only images are leased for the moment.
    pages_held: bool,
    /// Whether some host's addresses are to be held against its new robots rules.
    rechecking: bool,
    rules: HashMap<(HostKey, &'static str), Arc<Robots>>,
    /// What `rules` takes in memory.
    rules_bytes: usize,
    /// Progress of the current re-scoping.
    rescoped: Rescoped,
    /// By what links are rated, where somebody said so.
    rating: Option<Arc<dyn Rating>>,
    /// By what all links were rated, and how far rating them anew has come; `None`
    /// where nobody said by what.
    scores: Option<Scores>,
    /// Progress of the current re-rating.
    rescored: Rescored,
}

impl Frontier {
    /// Opens the frontier that lies in `store`, or begins an empty one.
    /// `now` is milliseconds since 1970, here and in every other call.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails, is damaged or of another format.
    pub fn open(
        store: Box<dyn Store>,
        policy: Policy,
        scope: Scope,
        now: u64,
    ) -> Result<Self, StoreError> {
        let stored = store.get(keys::META)?;
        check_format(&*store)?;
        let mut meta: Meta = match codec::read(&*store, keys::META, stored)? {
            Some(meta) => meta,
            None => Meta {
                scope: scope.digest(),
                ..Meta::default()
            },
        };
        mark::check(store.path(), meta.commits)?;
        rescope::begin_where_changed(&mut meta, &scope);
        let unclean_since = (!meta.clean).then_some(now);
        let seen = Seen::over(store, keys::URLS);
        let mut frontier = Self {
            questions: seen.questions(),
            store: Box::new(seen),
            visits: Visits::new(policy.recrawl.clone()),
            next_visit: None,
            policy,
            scope,
            meta,
            schedule: Schedule::default(),
            leases: HashMap::new(),
            open_images: 0,
            last_lease: 0,
            newcomers: Newcomers::default(),
            is_patient: false,
            unclean_since,
            opened: now,
            latest: now,
            next_waiting: None,
            pages_closed: false,
            pages_held: false,
            rechecking: false,
            rules: HashMap::new(),
            rules_bytes: 0,
            rescoped: Rescoped::default(),
            rating: None,
            scores: None,
            rescored: Rescored::default(),
        };
        frontier.load_sample()?;
        frontier.load_ledger()?;
        frontier.follow_clock(now)?;
        frontier.mark_clean(false)?;
        frontier.load_hosts(now)?;
        frontier.next_waiting = frontier.first_waiting()?.map(|(due, _)| due);
        frontier.rechecking = frontier.first_recheck()?.is_some();
        frontier.next_visit = frontier.first_visit()?;
        Ok(frontier)
    }

    /// Adds the operator's own addresses; those that are known already stay as
    /// they are, but for their priority.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails; nothing is added then.
    pub fn add_seeds(&mut self, seeds: &[PageUrl], now: u64) -> Result<(), StoreError> {
        let mut change = Change::new(&*self.store, &self.scope, &self.schedule, self.meta.clone());
        for url in seeds {
            change.add_page(&seed(url), Origin::default())?;
        }
        let change = change.gathered();
        self.commit_change(change, now)
    }

    /// The rules by which addresses are judged now.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Other pauses and numbers of attempts from now on. A pause that a host has begun
    /// ends as it would have; which clocks hosts share, and whether pages are visited
    /// again, stays as it was at opening.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = Policy {
            address_delay: self.policy.address_delay,
            domain_delay: self.policy.domain_delay,
            ..policy
        };
        // Another strategy may have no control sample.
        let Control { share, seed } = self.policy.control;
        (self.meta.sample.share, self.meta.sample.seed) = (share, seed);
    }

    /// Hosts in memory by what they wait for.
    pub fn hosts_by_state(&self) -> HostStates {
        self.schedule.states()
    }

    /// The hosts whose turn comes next, `most` of each state.
    pub fn turns(&self, most: usize) -> Vec<HostTurn> {
        self.schedule.turns(most)
    }

    /// Number of open leases.
    pub fn leased(&self) -> usize {
        self.leases.len()
    }

    /// Those of them that are not for images.
    pub fn leased_pages(&self) -> usize {
        self.leases.len().saturating_sub(self.open_images)
    }

    /// Sets how many requests may be open at the same time. Once any host has given
    /// something, at most three quarters of them are for hosts that have given nothing yet or
    /// failed last, and a quarter while such hosts keep silent.
    pub fn set_most_open(&mut self, most: usize) {
        self.newcomers.set_most(most);
    }

    /// Hosts in memory, and how many of them are given up for now.
    pub fn hosts(&self) -> (usize, usize) {
        (self.schedule.active(), self.schedule.parked())
    }

    /// How often it was asked whether an address is known, and who answered.
    pub fn questions(&self) -> &Questions {
        &self.questions
    }

    /// How much of everything there is.
    pub fn counts(&self) -> &Counts {
        &self.meta.counts
    }

    /// Time spent crawling over all runs, as of the last commit, in milliseconds.
    pub fn active(&self) -> u64 {
        self.meta.active
    }

    /// Adds to the time spent crawling; written with the next commit.
    pub fn add_active(&mut self, millis: u64) {
        self.meta.active = self.meta.active.saturating_add(millis);
    }

    /// Records where the outputs stand, before the first task is leased.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn set_stamp(&mut self, stamp: Vec<u8>) -> Result<(), StoreError> {
        let meta = Meta {
            stamp,
            ..self.meta.clone()
        };
        self.commit(store::Batch::default(), meta)?;
        self.flush()
    }

    /// Where the outputs stood at the last commit; empty before the first.
    pub fn stamp(&self) -> &[u8] {
        &self.meta.stamp
    }

    /// All that is known of an address, if anything is.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn look_up(&self, url: &PageUrl, kind: TaskKind) -> Result<Option<UrlRecord>, StoreError> {
        self.view().url(url, kind)
    }

    /// All that is known of a host, if anything is.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn look_up_host(&self, host: &HostKey) -> Result<Option<HostRecord>, StoreError> {
        self.view().host(host)
    }

    /// What the prefixes that an address belongs to have spent, and what is left.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn budget(&self, url: &PageUrl) -> Result<Budget, StoreError> {
        traps::budget(&*self.store, url)
    }

    /// In the place of which address an image is asked for, and what is asked for in its
    /// own.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn instead(&self, image: &PageUrl) -> Result<Instead, StoreError> {
        spares::instead(&*self.store, image)
    }

    /// The contexts in which an image was met so far that no sidecar holds yet.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn contexts(&self, image: &PageUrl) -> Result<Vec<ImageContext>, StoreError> {
        contexts::of(&*self.store, &keys::url(image, TaskKind::Image))
    }

    /// Makes everything committed so far survive the death of the process.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn flush(&mut self) -> Result<(), StoreError> {
        self.store.flush()?;
        set_back::write(self.store.path(), self.latest)?;
        mark::write(self.store.path(), self.meta.commits)
    }

    /// Everything as of the last commit, to be read on any thread while the crawl
    /// goes on. To be dropped before the store is opened again.
    pub fn snapshot(&self) -> Box<dyn Readable> {
        self.store.snapshot()
    }

    /// Bytes the store takes on disk.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn size(&self) -> Result<u64, StoreError> {
        self.store.size()
    }

    /// Ends in good order. Where leases are open it is not called a clean end,
    /// so that the next opening keeps its distance from their hosts.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub fn close(mut self) -> Result<(), StoreError> {
        let clean = self.leases.is_empty();
        self.mark_clean(clean)
    }

    fn mark_clean(&mut self, clean: bool) -> Result<(), StoreError> {
        let meta = Meta {
            clean,
            ..self.meta.clone()
        };
        self.commit(store::Batch::default(), meta)?;
        self.flush()
    }

    /// Commits a change, and puts the hosts that it touched in their places.
    fn commit_change(&mut self, change: Gathered, now: u64) -> Result<(), StoreError> {
        self.commit(change.batch, change.meta)?;
        self.expect_visit(change.visit);
        self.refresh_hosts(change.touched, now)
    }

    fn commit(&mut self, mut batch: store::Batch, mut meta: Meta) -> Result<(), StoreError> {
        meta.commits = self.meta.commits.saturating_add(1);
        batch.put(keys::META.to_vec(), codec::encode(&*self.store, &meta)?);
        if meta.sample != self.meta.sample {
            let sample = codec::encode(&*self.store, &meta.sample)?;
            batch.put(keys::SAMPLE.to_vec(), sample);
        }
        if meta.images != self.meta.images {
            let images = codec::encode(&*self.store, &meta.images)?;
            batch.put(keys::IMAGES.to_vec(), images);
        }
        self.store.apply(batch)?;
        self.meta = meta;
        Ok(())
    }

    /// Finds the hosts that have a queue by skipping from each to the next.
    fn load_hosts(&mut self, now: u64) -> Result<(), StoreError> {
        let mut from = keys::QUEUES.to_vec();
        loop {
            let mut found = None;
            self.store.scan(keys::QUEUES, &from, &mut |key, _| {
                found = Some(key.to_vec());
                ControlFlow::Break(())
            })?;
            let Some(key) = found else { return Ok(()) };
            let Some(host) = keys::host_of_queue_key(&key) else {
                let why = "not a queue key".to_owned();
                return Err(codec::corrupt(&*self.store, &key, why));
            };
            from = keys::after_queues_of(&host);
            let slot = self.activate(&host)?;
            self.refresh(slot, now)?;
        }
    }

    /// The slot of a host, which is read from the store where it is not active.
    fn activate(&mut self, host: &HostKey) -> Result<Slot, StoreError> {
        if let Some(slot) = self.schedule.slot(host) {
            return Ok(slot);
        }
        let key = keys::host(host);
        let mut record: HostRecord =
            codec::read(&*self.store, &key, self.store.get(&key)?)?.unwrap_or_default();
        if let Some(opened) = self.unclean_since {
            record.due = record
                .due
                .max(opened.saturating_add(self.policy.delay(&record)));
        }
        let slot = self.schedule.insert(host.clone(), record);
        self.join_groups(slot, self.opened)?;
        Ok(slot)
    }

    fn refresh_hosts(
        &mut self,
        hosts: impl IntoIterator<Item = HostKey>,
        now: u64,
    ) -> Result<(), StoreError> {
        for host in hosts {
            let slot = self.activate(&host)?;
            self.refresh(slot, now)?;
        }
        Ok(())
    }

    /// Reads a host's head from its queues and puts it in its place.
    fn refresh(&mut self, slot: Slot, now: u64) -> Result<(), StoreError> {
        let Some(host) = self.schedule.host(slot) else {
            return Ok(());
        };
        let mut head = self.first_of(host, class::ROBOTS)?;
        let mut image = None;
        if head.is_none() {
            // Nothing else is asked while the rules are under way.
            let may_be_asked = |h: &Head| {
                let scheme = keys::scheme_of_key(&h.value);
                host.asking != Some(scheme) && *host.record.robots(scheme) != RobotsState::Awaiting
            };
            if !self.pages_closed {
                head = self.control_head(host)?;
                if head.is_none() {
                    head = self.first_of(host, class::PAGE)?;
                }
            }
            head = head.filter(may_be_asked);
            image = self.first_of(host, class::IMAGE)?.filter(may_be_asked);
        }
        let connections = self.policy.connections;
        if let Some(host) = self.schedule.host_mut(slot) {
            host.head = head;
            host.image = image;
        }
        self.schedule.settle(slot, now, connections);
        Ok(())
    }

    fn first_of(&self, host: &schedule::Host, class: u8) -> Result<Option<Head>, StoreError> {
        let mut found = None;
        let mut broken = None;
        self.store.scan(
            &keys::queue_class(&host.key, class),
            &[],
            &mut |key, value| {
                if host.leased.iter().any(|l| l == value) {
                    return ControlFlow::Continue(());
                }
                match Rank::of_key(key) {
                    Some(rank) => {
                        found = Some(Head {
                            rank,
                            class,
                            queue_key: key.to_vec(),
                            value: value.to_vec(),
                        });
                    }
                    None => broken = Some(key.to_vec()),
                }
                ControlFlow::Break(())
            },
        )?;
        match broken {
            Some(key) => Err(codec::corrupt(&*self.store, &key, "no rank".to_owned())),
            None => Ok(found),
        }
    }
}
