//! The stored records of the frontier, in postcard's encoding.
//!
//! Fields are never reordered or removed within one [`FORMAT`]; a change of
//! layout raises it, and a store of another format is refused at opening.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::block_filter::BlockFilter;
use super::control_sample::Sample;
use super::image_ledger::ImageLedger;
use crate::address::HostKey;
use crate::page::{Bucket, Judged, LinkParts, Reason, Validators};

/// Version of the layout of keys and records.
pub(super) const FORMAT: u32 = 4;

/// State of one URL: always exactly one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum State {
    /// Queued at its host, or leased. A lease leaves no mark in the store, so tasks in
    /// flight at a crash are simply queued again.
    Queued,
    /// To be tried again at this time, in milliseconds since 1970.
    Waiting {
        /// The time of the next attempt.
        due: u64,
    },
    /// Fetched, and its effects committed.
    Done {
        /// Its number among the finished.
        id: u64,
    },
    /// Another address stands for it: it redirected there, or it was fetched and declared that page
    /// as canonical, or that page declared this address as canonical and has the same contents.
    Redirected {
        /// Its number among the finished pages; if it was never requested, that of the page that
        /// stands for it.
        id: u64,
        /// The other address.
        to: String,
    },
    /// Not followed, for this reason.
    Dropped {
        /// The reason.
        reason: Reason,
    },
}

impl State {
    /// Whether a sitemap waits until its host may list more addresses.
    pub(super) fn is_put_off(&self) -> bool {
        let reason = Reason::ListBudget;
        *self == Self::Dropped { reason }
    }
}

/// Whether a reason to drop a URL depends on the path to it, so that another path may
/// lift it.
pub(super) fn depends_on_path(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Razor | Reason::Hops | Reason::Scope | Reason::Trap
    )
}

/// All that is known of one URL.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UrlRecord {
    /// Its state.
    pub state: State,
    /// Priority class, also for dropped URLs, so that they can be queued again;
    /// [`Bucket::Low`] if the score is above the razor.
    pub bucket: Bucket,
    /// Score, lower is better.
    pub score: f64,
    /// The parts of the score.
    pub parts: Option<LinkParts>,
    /// Order of discovery over the whole crawl.
    pub seq: u64,
    /// Links from the nearest seed; for a sitemap, the index files above it.
    pub hops: u32,
    /// Redirects that led here.
    pub redirects: u8,
    /// Failed attempts.
    pub attempts: u8,
    /// Number of the page that gave it its score; `None` for a seed.
    pub via: Option<u64>,
    /// For a link that is not fetched yet, the words of its [anchor](UrlRecord::anchor);
    /// afterwards the [note](UrlRecord::note) of the outputs. One field, because no
    /// record has both.
    #[serde(rename = "note")]
    pub text: Option<String>,
    /// The state for its next visit; `None` if there will be none.
    pub visit: Option<Visit>,
    /// Simhash of its text, if it was fetched and has enough words.
    pub simhash: Option<u64>,
    /// The judgement of the page, if it was fetched and judged.
    pub judged: Option<Judged>,
}

impl UrlRecord {
    /// The words of the anchor that gave a link its score, as the language model reads
    /// them. A new keyword table re-rates the link by them. `None` if they are not
    /// kept: for fetched pages, and for anchors that are too long.
    pub fn anchor(&self) -> Option<&str> {
        self.text.as_deref().filter(|_| self.is_unfetched_link())
    }

    /// The outputs' note about the fetched content, opaque to the frontier; `None` if
    /// nothing was kept.
    pub fn note(&self) -> Option<&str> {
        self.text.as_deref().filter(|_| !self.is_unfetched_link())
    }

    fn is_unfetched_link(&self) -> bool {
        self.parts.is_some() && !self.was_fetched()
    }

    /// Whether a page at this address was ever fetched successfully. It then stays one of
    /// the documents.
    pub(super) fn was_fetched(&self) -> bool {
        let visited = self.visit.as_ref().is_some_and(|v| v.visits > 0);
        visited || matches!(self.state, State::Done { .. })
    }
}

/// The stored state of a page that is to be visited again.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Visit {
    /// Its number among the finished pages, the same after every visit.
    pub id: Option<u64>,
    /// When the last visit ended, in milliseconds since 1970.
    pub last: u64,
    /// Visits that returned the page, or reported that it had not changed.
    pub visits: u32,
    /// Visits after the first that found a different text than the visit before.
    pub changes: u32,
    /// Digest of the text as last fetched.
    pub digest: Option<u64>,
    /// The server's validators for the version that was last fetched.
    pub validators: Validators,
    /// The pause before the next visit, in milliseconds.
    pub interval: u64,
    /// When the next visit is due, in milliseconds since 1970. Set only in a record that
    /// is neither queued nor waiting, and then in the store's index too.
    pub due: Option<u64>,
    /// Due by its own schedule instead of by its rate of change.
    pub scheduled: bool,
}

/// The state of a host's robots.txt, for one scheme.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub enum RobotsState {
    /// Never requested, or to be requested again.
    #[default]
    Unknown,
    /// Redirected to another address that is queued; this host gets no other requests
    /// until that address answers.
    Awaiting,
    /// Answered; the body, if there was one, is in the store.
    Known {
        /// Time of the request, in milliseconds since 1970.
        at: u64,
        /// True if none exists (4xx): everything is allowed.
        missing: bool,
    },
    /// It could not be fetched: everything is forbidden until it answers.
    Unreachable,
}

/// The stored state of one host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostRecord {
    /// No request before this time, in milliseconds since 1970.
    pub due: u64,
    /// The pause kept between requests now, in milliseconds.
    pub delay: u64,
    /// The crawl delay of robots.txt, in milliseconds; the greater of both schemes.
    pub crawl_delay: Option<u64>,
    /// Failures of the whole host in a row.
    pub failures: u32,
    /// Given up for now: not requested before this time, and the crawl does not wait for it.
    pub parked_until: Option<u64>,
    /// Pages fetched from it.
    pub documents: u64,
    /// Robots state for http and https.
    pub robots: [RobotsState; 2],
    /// The last result of resolving its name.
    pub located: Option<Located>,
    /// Pages without anything new.
    pub barren: u64,
}

/// The IP address of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Located {
    /// The address; `None` if the operator sends its requests elsewhere
    /// (`network.connect_to`).
    pub address: Option<IpAddr>,
    /// Time of the lookup, in milliseconds since 1970.
    pub at: u64,
}

impl HostRecord {
    /// Whether it has ever answered, according to the record.
    pub fn has_answered(&self) -> bool {
        let known = |robots: &RobotsState| matches!(robots, RobotsState::Known { .. });
        self.documents > 0 || self.robots.iter().any(known)
    }

    /// The state of the robots.txt for a scheme, `http` or `https`.
    pub fn robots(&self, scheme: &str) -> &RobotsState {
        &self.robots[usize::from(scheme == "https")]
    }

    pub(super) fn robots_mut(&mut self, scheme: &str) -> &mut RobotsState {
        &mut self.robots[usize::from(scheme == "https")]
    }
}

/// When a host may be requested again. Times are milliseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promise {
    pub host: String,
    /// No request before this time.
    pub due: u64,
    /// Failures of the whole host in a row.
    pub failures: u32,
    /// Until when it is given up, if it is.
    pub parked_until: Option<u64>,
}

impl Promise {
    pub(super) fn of(host: &HostKey, record: &HostRecord) -> Self {
        Self {
            host: host.as_str().to_owned(),
            due: record.due,
            failures: record.failures,
            parked_until: record.parked_until,
        }
    }

    /// Books it. Returns whether that changes anything.
    pub(super) fn book(&self, record: &mut HostRecord) -> bool {
        let before = record.clone();
        record.due = record.due.max(self.due);
        record.failures = record.failures.max(self.failures);
        record.parked_until = record.parked_until.max(self.parked_until);
        *record != before
    }
}

/// What the hosts of a group have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKey {
    /// The address their names resolve to.
    Address(IpAddr),
    /// Their registered domain.
    Domain(Arc<str>),
}

impl fmt::Display for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "address {address}"),
            Self::Domain(domain) => write!(f, "domain {domain}"),
        }
    }
}

/// A group's clock. In the store while the group backs off.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GroupRecord {
    /// No request to any host of the group before this time, in milliseconds
    /// since 1970.
    pub due: u64,
    /// Pause between requests, in milliseconds.
    pub delay: u64,
    /// The first host that failed since the last answer of the group.
    pub troubled: Option<HostKey>,
    /// Pauses since the last answer of the group.
    pub failures: u32,
    /// Given up until it is due: the crawl does not wait for it.
    pub parked: bool,
}

/// The budget account of a prefix of a host.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct PrefixRecord {
    /// Pages that were judged.
    pub fetched: u64,
    /// Judged pages that brought something new.
    pub fruitful: u64,
    /// The earnings of fruitful pages minus the costs of barren ones.
    pub balance: i64,
    /// Text blocks found so far; kept for wide prefixes only.
    pub seen: BlockFilter,
}

/// A robots.txt that a host's own redirected to, queued at the target's host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct RobotsErrand {
    /// Address to fetch.
    pub url: String,
    /// Host that the rules apply to.
    pub for_host: String,
    /// Scheme of the rules.
    pub for_scheme: String,
    /// Redirects so far.
    pub redirects: u8,
}

/// The counters; kept exact by every commit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Pages fetched successfully, each counted once however often it is visited.
    pub documents: u64,
    /// Page requests that were answered or failed, redirects and errors included.
    pub fetches: u64,
    /// Images kept.
    pub images: u64,
    /// Body bytes received.
    pub bytes: u64,
    /// Pages and sitemaps in a queue, by bucket in the order of [`Bucket::ALL`].
    pub queued: [u64; 5],
    /// Images in a queue.
    pub queued_images: u64,
    /// URLs that wait to be tried again.
    pub waiting: u64,
    /// Dropped URLs, by reason.
    pub dropped: BTreeMap<Reason, u64>,
    /// Sitemaps read.
    pub sitemaps: u64,
    /// Pages whose next visit has a date.
    pub watched: u64,
}

impl Counts {
    /// Adds the counters of another frontier.
    pub(super) fn add(&mut self, other: &Self) {
        self.documents += other.documents;
        self.fetches += other.fetches;
        self.images += other.images;
        self.bytes = self.bytes.saturating_add(other.bytes);
        for (own, other) in self.queued.iter_mut().zip(other.queued) {
            *own += other;
        }
        self.queued_images += other.queued_images;
        self.waiting += other.waiting;
        for (reason, count) in &other.dropped {
            *self.dropped.entry(*reason).or_default() += count;
        }
        self.sitemaps += other.sitemaps;
        self.watched += other.watched;
    }

    /// Replaces the added counters of another frontier by its current ones.
    pub(super) fn replace(&mut self, before: &Self, after: &Self) {
        let swap = |own: &mut u64, before: u64, after: u64| {
            *own = own.saturating_sub(before).saturating_add(after);
        };
        swap(&mut self.documents, before.documents, after.documents);
        swap(&mut self.fetches, before.fetches, after.fetches);
        swap(&mut self.images, before.images, after.images);
        swap(&mut self.bytes, before.bytes, after.bytes);
        let queued = before.queued.into_iter().zip(after.queued);
        for (own, (before, after)) in self.queued.iter_mut().zip(queued) {
            swap(own, before, after);
        }
        swap(
            &mut self.queued_images,
            before.queued_images,
            after.queued_images,
        );
        swap(&mut self.waiting, before.waiting, after.waiting);
        for (reason, count) in &after.dropped {
            let before = before.dropped.get(reason).copied().unwrap_or_default();
            swap(self.dropped.entry(*reason).or_default(), before, *count);
        }
        for (reason, count) in &before.dropped {
            if !after.dropped.contains_key(reason) {
                swap(self.dropped.entry(*reason).or_default(), *count, 0);
            }
        }
        swap(&mut self.sitemaps, before.sitemaps, after.sitemaps);
        swap(&mut self.watched, before.watched, after.watched);
    }

    /// Pages and sitemaps in all queues.
    pub fn queued_pages(&self) -> u64 {
        self.queued.iter().sum()
    }
}

/// The position up to which a cell has read its log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPlace {
    /// The number of the last message that was added; 0 if none.
    pub sequence: u64,
    /// A note of the log's reader, opaque to the frontier.
    pub note: Vec<u8>,
}

/// The one record that every commit writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Meta {
    pub format: u32,
    pub next_seq: u64,
    pub next_id: u64,
    /// Set at a clean close, cleared at opening.
    pub clean: bool,
    pub counts: Counts,
    /// Time spent crawling over all runs, in milliseconds.
    pub active: u64,
    /// The lengths of the outputs at the commit that is being prepared, opaque to the frontier. All
    /// cells share one stamp, under a separate key.
    pub stamp: Vec<u8>,
    /// Commits over all runs.
    pub commits: u64,
    /// [`Scope::digest`](crate::web::scope::Scope::digest) of the rules that all stored
    /// addresses were checked against, or are being checked against.
    pub scope: u64,
    /// The first key that is not checked yet, while a check is in progress.
    pub rescope: Option<Vec<u8>>,
    /// The control sample. It has a separate record, because this layout is published.
    #[serde(skip)]
    pub sample: Sample,
    /// The image ledger, which has a separate record for the same reason.
    #[serde(skip)]
    pub images: ImageLedger,
}

impl Default for Meta {
    fn default() -> Self {
        Self {
            format: FORMAT,
            next_seq: 0,
            next_id: 1,
            clean: true,
            counts: Counts::default(),
            active: 0,
            stamp: Vec::new(),
            commits: 0,
            scope: 0,
            rescope: None,
            sample: Sample::default(),
            images: ImageLedger::default(),
        }
    }
}
