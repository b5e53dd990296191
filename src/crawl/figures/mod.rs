//! The figures of a crawl, computed from the rows of its log. The dashboard, the report, the
//! summary of a replay and the page over all jobs share them, so that a figure has the same name
//! and meaning everywhere.
//!
//! [`CrawlFigures`] takes rows one by one, whether they were just written or are read from the log;
//! [`FollowedLog`] follows a log that grows. Memory is bounded by the number of hosts, or by less
//! on request.
//!
//! Reading order: this file, `row` (what is read from a row), `tally` (counting in bounded memory),
//! `packets` (perplexities), `politeness`, `latest`, `follow`, and `ruled` (the rules at work); and
//! `rates`, how fast the frontier's own counters grow. The frontier's other counters, such as those
//! of its queues, are not covered here.

mod follow;
mod latest;
mod packets;
mod politeness;
mod rates;
mod row;
mod ruled;
mod tally;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Serialize;

pub use self::follow::FollowedLog;
pub use self::latest::{Latest, RecentImage, RecentPage};
pub use self::packets::PagePacket;
use self::packets::{MeanPerplexity, PagePackets};
use self::politeness::LastRequest;
pub use self::politeness::Politeness;
pub use self::rates::{RateMeter, Rates, Toward, WorkDone};
pub use self::row::{LogRow, LoggedTask};
pub use self::ruled::RulesAtWork;
pub use self::tally::{Counted, NameTally, Series, Steps, count};
use crate::address::PageUrl;
use crate::frontier::Focus;
use crate::page::{Bucket, Judged, TaskKind};
use crate::rules::{Event, HostStatus, RuleSet};

/// The longest time without a finished task, in milliseconds, that does not count as a pause.
const STOP: u64 = 60_000;

/// The maximum number of rows in a table of names.
const TOP: usize = 20;

/// The maximum numbers of hosts with rules, and of changes on them, in a report.
const RULED: usize = 50;

/// The sums over all rows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CrawlTotals {
    /// Rows of the log.
    pub rows: u64,
    /// Pages that were fetched and kept, counting each visit.
    pub pages: u64,
    /// Bytes of their decoded bodies.
    pub page_bytes: u64,
    /// Those of the pages that were rated.
    pub judged: u64,
    /// Those that are more likely on topic than off topic.
    pub on_topic: u64,
    /// Those whose text is kept, as sentences or as a document.
    pub texts: u64,
    /// Images that were kept.
    pub images: u64,
    /// When the first request was made, in milliseconds since 1970.
    pub begun: Option<u64>,
    /// When the last was finished, in milliseconds since 1970.
    pub ended: Option<u64>,
    /// The longest time without a finished task, in milliseconds.
    pub longest_pause: u64,
    /// The time until the last page was finished, in milliseconds, without the pauses of more
    /// than a minute in which no task was finished.
    pub page_time: u64,
    /// The same up to the last row.
    #[serde(skip)]
    worked: u64,
}

/// Requests of one kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KindFigures {
    /// The kind.
    pub kind: &'static str,
    /// How often.
    pub requests: u64,
    /// How many succeeded: outcome `done` or `unchanged`.
    pub done: u64,
    /// Bytes of all decoded bodies.
    pub bytes: u64,
    /// Milliseconds from sending to the last byte, summed.
    pub ms: u64,
}

/// An outcome of requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OutcomeFigures {
    /// The outcome, as in the log.
    pub outcome: String,
    /// The reason, if there is one.
    pub reason: Option<String>,
    /// How often.
    pub count: u64,
}

/// Pages of one priority class.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BucketFigures {
    /// The class.
    pub bucket: &'static str,
    /// Pages that were kept.
    pub pages: u64,
    /// The geometric mean of their perplexities as rated in the crawl; `None` if none was
    /// rated.
    pub perplexity: Option<f64>,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostFigures {
    /// Its name, with its port unless that is the default.
    pub host: String,
    /// Requests to it.
    pub requests: u64,
    /// Pages that were kept.
    pub pages: u64,
    /// Those that are on topic.
    pub on_topic: u64,
    /// Images of its pages that were kept, from any host.
    pub images: u64,
    /// Bytes of all decoded bodies.
    pub bytes: u64,
    /// As in [`BucketFigures::perplexity`].
    pub perplexity: Option<f64>,
}

/// All figures of a log.
#[derive(Debug, Clone, Default, Serialize)]
pub struct LogFigures {
    /// The sums.
    #[serde(flatten)]
    pub totals: CrawlTotals,
    /// Hosts with at least one page.
    pub hosts: u64,
    /// Requests by kind.
    pub kinds: Vec<KindFigures>,
    /// How the requests ended, the most frequent first.
    pub endings: Vec<OutcomeFigures>,
    /// HTTP statuses, ascending.
    pub statuses: Vec<(u16, u64)>,
    /// Pages by priority class, best first.
    pub buckets: Vec<BucketFigures>,
    /// The hosts with most pages, most first.
    pub top_hosts: Vec<HostFigures>,
    /// Encodings of the pages kept, the most frequent first.
    pub encodings: Counted,
    /// Media types of all responses with a body, the most frequent first.
    pub media: Counted,
    /// Languages that the pages kept declare, the most frequent first.
    pub languages: Counted,
    /// Whether the delays were kept.
    pub politeness: Politeness,
    /// Images kept so far, over time since `begun`.
    pub images_over_time: Series,
    /// Judged images by class, over time since `begun`.
    pub classes_over_time: Vec<(String, Series)>,
    /// The hosts that have rules, those with a fall first.
    pub ruled: Vec<HostStatus>,
    /// What changed on these hosts, the last ones.
    pub rule_events: Vec<Event>,
    /// Pages found by score and by chance.
    #[serde(skip)]
    pub focus: Focus,
}

#[derive(Debug, Clone, Default)]
struct HostSums {
    requests: u64,
    pages: u64,
    on_topic: u64,
    images: u64,
    bytes: u64,
    mean: MeanPerplexity,
    last: Option<LastRequest>,
}

/// Takes the rows of a crawl.
#[derive(Debug, Clone)]
pub struct CrawlFigures {
    /// The sums.
    pub totals: CrawlTotals,
    /// When the last task finished, RFC 3339 in UTC.
    pub last: Option<String>,
    /// The latest pages and images.
    pub latest: Latest,
    packets: PagePackets,
    most_hosts: usize,
    hosts: HashMap<String, HostSums>,
    kinds: BTreeMap<&'static str, KindFigures>,
    endings: NameTally,
    statuses: BTreeMap<u16, u64>,
    buckets: BTreeMap<Bucket, (u64, MeanPerplexity)>,
    encodings: NameTally,
    media: NameTally,
    languages: NameTally,
    politeness: Politeness,
    may_overlap: bool,
    images: Steps<u64>,
    classes: BTreeMap<String, Steps<u64>>,
    class_of: HashMap<String, String>,
    focus: Focus,
    rules: Arc<RuleSet>,
    ruled: RulesAtWork,
}

impl Default for CrawlFigures {
    fn default() -> Self {
        Self::with_hosts(usize::MAX)
    }
}

impl CrawlFigures {
    /// Counts at most this many hosts; beyond that, the worse half is forgotten.
    pub fn with_hosts(most_hosts: usize) -> Self {
        Self {
            totals: CrawlTotals::default(),
            last: None,
            latest: Latest::default(),
            packets: PagePackets::default(),
            most_hosts,
            hosts: HashMap::new(),
            kinds: BTreeMap::new(),
            endings: NameTally::default(),
            statuses: BTreeMap::new(),
            buckets: BTreeMap::new(),
            encodings: NameTally::default(),
            media: NameTally::default(),
            languages: NameTally::default(),
            politeness: Politeness::default(),
            may_overlap: false,
            images: Steps::of(1000),
            classes: BTreeMap::new(),
            class_of: HashMap::new(),
            focus: Focus::default(),
            rules: Arc::default(),
            ruled: RulesAtWork::default(),
        }
    }

    /// For a report: whether requests to a host may overlap, the job's rules, and the classes
    /// of judged images by their addresses.
    pub fn for_report(
        may_overlap: bool,
        rules: RuleSet,
        class_of: HashMap<String, String>,
    ) -> Self {
        Self {
            may_overlap,
            class_of,
            rules: Arc::new(rules),
            ..Self::default()
        }
    }

    /// Takes a finished task, in the order of the log.
    pub fn take(&mut self, task: &LoggedTask<'_>) {
        self.sum(task);
        self.latest.take(task);
        self.ruled.take(task, &self.rules);
        self.name(task);
        self.host(task);
        let row = &task.row;
        self.last = Some(row.time.clone().into_owned());
        // As the frontier counts: links that were followed for the first time, to the end
        // of their redirects.
        let is_link = row.kind == TaskKind::Page && row.bucket != Bucket::Seed;
        let has_ended = matches!(row.outcome.as_ref(), "done" | "dropped");
        if is_link && has_ended && row.changed.is_none() {
            let page = row.on_topic_probability.map(|on_topic| Judged {
                text: on_topic,
                on_topic,
                guessed: row.on_topic_guessed,
            });
            self.focus.count(row.control, page);
        }
        if row.kind == TaskKind::Image && task.is_kept() {
            let since = task.at.saturating_sub(self.totals.begun.unwrap_or(task.at));
            self.images.add(since, 1);
            if let Some(class) = self.class_of.get(row.url.as_ref()) {
                let steps = self.classes.entry(class.clone());
                steps.or_insert_with(|| Steps::of(1000)).add(since, 1);
            }
        }
    }

    fn sum(&mut self, task: &LoggedTask<'_>) {
        let (row, now, all) = (&task.row, task.at, &mut self.totals);
        let asked = row.asked.unwrap_or(now.saturating_sub(row.ms));
        all.begun = Some(all.begun.map_or(asked, |begun| begun.min(asked)));
        let pause = now.saturating_sub(all.ended.unwrap_or(asked));
        if all.ended.is_some() {
            all.longest_pause = all.longest_pause.max(pause);
        }
        if pause <= STOP {
            all.worked += pause;
        }
        all.ended = all.ended.max(Some(now));
        all.rows += 1;
        match row.kind {
            TaskKind::Page if task.is_kept() => {
                all.pages += 1;
                all.page_bytes += row.bytes;
                all.page_time = all.worked;
                all.judged += u64::from(row.document.is_some());
                all.on_topic += u64::from(row.on_topic == Some(true));
                all.texts += u64::from(task.keeps_text());
                self.packets.add(row.document.as_ref());
            }
            TaskKind::Image if task.is_kept() => all.images += 1,
            _ => {}
        }
    }

    fn name(&mut self, task: &LoggedTask<'_>) {
        let row = &task.row;
        let kind = row.kind.name();
        let of = self.kinds.entry(kind).or_insert(KindFigures {
            kind,
            requests: 0,
            done: 0,
            bytes: 0,
            ms: 0,
        });
        of.requests += 1;
        of.done += u64::from(matches!(row.outcome.as_ref(), "done" | "unchanged"));
        of.bytes += row.bytes;
        of.ms += row.ms;
        self.endings.add(&match &row.reason {
            Some(reason) => format!("{}\t{reason}", row.outcome),
            None => row.outcome.to_string(),
        });
        if let Some(status) = row.status {
            *self.statuses.entry(status).or_default() += 1;
        }
        if let Some(mime) = &row.mime {
            self.media.add(&mime.to_ascii_lowercase());
        }
        if row.kind == TaskKind::Page && task.is_kept() {
            let (pages, mean) = self.buckets.entry(row.bucket).or_default();
            *pages += 1;
            mean.add(row.document.as_ref());
            let charset = row.charset.as_deref().unwrap_or("not recorded");
            self.encodings.add(charset);
            let language = row.language.as_deref().unwrap_or("none declared");
            self.languages.add(language);
        }
    }

    fn host(&mut self, task: &LoggedTask<'_>) {
        if self.most_hosts == 0 {
            return;
        }
        let row = &task.row;
        let host = task.url.host_key();
        // A site's images are often on another host.
        let page = row.via.as_deref().filter(|_| row.kind == TaskKind::Image);
        let page = page.and_then(|page| PageUrl::parse(page).ok());
        let site = page.map(|page| page.host_key());
        if let Some(site) = &site {
            self.make_room_for(site.as_str()).images += u64::from(task.is_kept());
        }
        let may_overlap = self.may_overlap;
        let mut politeness = std::mem::take(&mut self.politeness);
        let of = self.make_room_for(host.as_str());
        of.requests += 1;
        of.bytes += row.bytes;
        let times = (row.asked, row.delay, task.at);
        politeness.take(host.as_str(), &mut of.last, times, may_overlap);
        match row.kind {
            TaskKind::Image if site.is_none() => of.images += u64::from(task.is_kept()),
            TaskKind::Page if task.is_kept() => {
                of.pages += 1;
                of.on_topic += u64::from(row.on_topic == Some(true));
                of.mean.add(row.document.as_ref());
            }
            _ => {}
        }
        self.politeness = politeness;
    }

    fn make_room_for(&mut self, name: &str) -> &mut HostSums {
        if self.hosts.len() >= self.most_hosts && !self.hosts.contains_key(name) {
            let mut all: Vec<_> = self.hosts.drain().collect();
            all.sort_by_key(|(_, host)| std::cmp::Reverse((host.on_topic, host.pages)));
            all.truncate(self.most_hosts / 2);
            self.hosts.extend(all);
        }
        self.hosts.entry(name.to_owned()).or_default()
    }

    /// The perplexity of the pages in the order fetched, in packets.
    pub fn packets(&self) -> Vec<PagePacket> {
        self.packets.packets()
    }

    /// The hosts with the most pages on topic, the best first.
    pub fn best_hosts(&self, most: usize) -> Vec<HostFigures> {
        let yields = |(_, host): &(&String, &HostSums)| host.on_topic > 0;
        let mut best: Vec<_> = self.hosts.iter().filter(yields).collect();
        best.sort_by(|(a, x), (b, y)| (y.on_topic, x.pages, a).cmp(&(x.on_topic, y.pages, b)));
        best.truncate(most);
        best.into_iter().map(HostFigures::of).collect()
    }

    /// All figures.
    pub fn finish(&self) -> LogFigures {
        let totals = &self.totals;
        let length = totals.begun.zip(totals.ended);
        let length = length.map_or(0, |(begun, ended)| ended.saturating_sub(begun));
        let series = |steps: &Steps<u64>| Series::running(steps, length);
        let classes = self.classes.iter();
        let mut kinds: Vec<KindFigures> = self.kinds.values().cloned().collect();
        kinds.sort_by_key(|kind| std::cmp::Reverse(kind.requests));
        let endings = self.endings.finish(usize::MAX).top.into_iter();
        let mut hosts: Vec<_> = self.hosts.iter().collect();
        hosts.sort_by(|(a, x), (b, y)| {
            let by = |h: &HostSums| (h.pages, h.images, h.requests);
            by(y).cmp(&by(x)).then_with(|| a.cmp(b))
        });
        hosts.truncate(TOP);
        let buckets = self.buckets.iter();
        LogFigures {
            totals: totals.clone(),
            hosts: self.hosts.values().filter(|h| h.pages > 0).count() as u64,
            kinds,
            endings: endings.map(OutcomeFigures::of).collect(),
            statuses: self.statuses.clone().into_iter().collect(),
            buckets: buckets
                .map(|(bucket, (pages, mean))| BucketFigures {
                    bucket: bucket.name(),
                    pages: *pages,
                    perplexity: mean.value(),
                })
                .collect(),
            top_hosts: hosts.into_iter().map(HostFigures::of).collect(),
            encodings: self.encodings.finish(TOP),
            media: self.media.finish(TOP),
            languages: self.languages.finish(TOP),
            politeness: self.politeness.clone(),
            images_over_time: if totals.images > 0 {
                series(&self.images)
            } else {
                Series::default()
            },
            classes_over_time: classes.map(|(c, s)| (c.clone(), series(s))).collect(),
            ruled: self.ruled.hosts(RULED),
            rule_events: self.ruled.last_events(RULED).to_vec(),
            focus: self.focus,
        }
    }
}

impl HostFigures {
    fn of((name, host): (&String, &HostSums)) -> Self {
        Self {
            host: name.clone(),
            requests: host.requests,
            pages: host.pages,
            on_topic: host.on_topic,
            images: host.images,
            bytes: host.bytes,
            perplexity: host.mean.value(),
        }
    }
}

impl OutcomeFigures {
    fn of((name, count): (String, u64)) -> Self {
        let (outcome, reason) = match name.split_once('\t') {
            Some((outcome, reason)) => (outcome.to_owned(), Some(reason.to_owned())),
            None => (name, None),
        };
        Self {
            outcome,
            reason,
            count,
        }
    }
}
