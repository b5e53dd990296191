//! Reads the log of a crawl row by row and computes figures.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::politeness::{Last, Politeness};
use super::ruled::Ruled;
use super::tally::{Series, Steps, Tally};
use super::{Figures, judged};
use crate::address::PageUrl;
use crate::config::Config;
use crate::crawl::frontier::Focus;
use crate::outputs::{self, Line, Table};
use crate::page::{Bucket, DocumentScore, Judged, Likelihood, TaskKind};
use crate::progress::Step;
use crate::rules::{Applied, LoggedPage};

/// The longest line that is read, in bytes; a row has a few thousand.
const MAX_LINE: usize = 16 << 20;

/// The longest time without a finished task, in milliseconds, that is not taken for a stop.
const STOP: u64 = 60_000;

/// Rows of the tables of names.
const TOP: usize = 20;

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
pub struct Ending {
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

/// The parts of a row that are read; older rows lack some.
#[derive(Deserialize)]
struct LogLine<'a> {
    #[serde(borrow)]
    time: Cow<'a, str>,
    kind: TaskKind,
    #[serde(borrow)]
    url: Cow<'a, str>,
    #[serde(borrow)]
    via: Option<Cow<'a, str>>,
    status: Option<u16>,
    bytes: u64,
    ms: u64,
    asked: Option<u64>,
    delay: Option<u64>,
    mime: Option<String>,
    charset: Option<String>,
    language: Option<String>,
    bucket: Bucket,
    document: Option<DocumentScore>,
    file: Option<serde::de::IgnoredAny>,
    on_topic: Option<bool>,
    on_topic_probability: Option<Likelihood>,
    #[serde(default)]
    on_topic_guessed: bool,
    #[serde(default)]
    control: bool,
    /// Set for a revisited page.
    changed: Option<bool>,
    #[serde(borrow)]
    outcome: Cow<'a, str>,
    reason: Option<String>,
    /// What the job's rules found.
    rules: Option<Applied>,
}

/// A geometric mean being computed.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    logs: f64,
    n: u64,
}

impl Mean {
    fn add(&mut self, document: Option<&DocumentScore>) {
        // A page without a sentence has no perplexity of its own.
        if let Some(document) = document.filter(|d| d.sentences > 0 && d.perplexity >= 1.0) {
            self.logs += document.perplexity.ln();
            self.n += 1;
        }
    }

    fn value(self) -> Option<f64> {
        (self.n > 0).then(|| (self.logs / self.n as f64).exp())
    }
}

#[derive(Default)]
struct Host {
    requests: u64,
    pages: u64,
    on_topic: u64,
    images: u64,
    bytes: u64,
    mean: Mean,
    last: Option<Last>,
}

/// The accumulators for rows.
#[derive(Default)]
struct Rows {
    kinds: BTreeMap<&'static str, KindFigures>,
    endings: Tally,
    statuses: BTreeMap<u16, u64>,
    buckets: BTreeMap<Bucket, (u64, Mean)>,
    hosts: HashMap<String, Host>,
    encodings: Tally,
    media: Tally,
    languages: Tally,
    politeness: Politeness,
    images: Option<Steps<u64>>,
    classes: BTreeMap<String, Steps<u64>>,
    focus: Focus,
    ruled: Ruled,
}

/// Reads `logs/crawl.jsonl` into `figures`, and returns the results of chosen and of
/// random links; a missing file counts as empty.
pub(super) fn read(figures: &mut Figures, config: &Config) -> Focus {
    let judged = judged::classes(config).unwrap_or_else(|error| {
        figures.troubles.add(error);
        HashMap::new()
    });
    let mut rows = Rows {
        ruled: Ruled::of(config),
        ..Rows::default()
    };
    let may_overlap = config.politeness.connections_per_host > 1;
    let mut step = Step::begin("reading the log", None);
    let end = outputs::each_line(
        &config.job_folder(),
        Table::Log,
        MAX_LINE,
        |Line {
             path,
             number,
             bytes,
         }| {
            step.advance(1);
            let parsed = bytes.ok_or_else(|| "too long".to_owned()).and_then(|line| {
                let parsed: LogLine<'_> =
                    serde_json::from_slice(line).map_err(|e| e.to_string())?;
                let time: jiff::Timestamp = parsed.time.parse().map_err(|_| "no time")?;
                let url = PageUrl::parse(&parsed.url).map_err(|e| e.to_string())?;
                Ok((parsed, time, url))
            });
            match parsed {
                Ok((line, time, url)) => {
                    let now = u64::try_from(time.as_millisecond()).unwrap_or_default();
                    figures.take(&line, now);
                    let begun = figures.begun.unwrap_or(now);
                    let host = url.host_key();
                    if line.kind == TaskKind::Page {
                        rows.ruled.take(
                            &url,
                            &LoggedPage {
                                time: &line.time,
                                url: &line.url,
                                host: host.as_str(),
                                status: line.status,
                                reason: line.reason.as_deref(),
                                applied: line.rules.as_ref(),
                            },
                        );
                    }
                    // A site's images often lie on another host.
                    let page = line.via.as_deref().filter(|_| line.kind == TaskKind::Image);
                    let page = page.and_then(|page| PageUrl::parse(page).ok());
                    let site = page.map(|page| page.host_key());
                    let site = site.as_ref().unwrap_or(&host).as_str();
                    rows.take(&line, now, (host.as_str(), site), may_overlap);
                    if line.kind == TaskKind::Image && line.is_kept() {
                        let since = now.saturating_sub(begun);
                        rows.image(since, judged.get(line.url.as_ref()));
                    }
                }
                Err(why) => {
                    let trouble = format!(
                        "{}:{number}: not a row that spoor wrote ({why}); left out",
                        path.display()
                    );
                    figures.troubles.add(trouble);
                }
            }
        },
    );
    if let Err(error) = end {
        let trouble = format!("the log was not read to its end: {error}");
        figures.troubles.add(trouble);
    }
    let focus = rows.focus;
    std::mem::take(&mut rows.ruled).finish(figures);
    rows.finish(figures);
    focus
}

impl LogLine<'_> {
    /// Whether a page or an image was kept by this visit.
    fn is_kept(&self) -> bool {
        match self.kind {
            TaskKind::Image => self.outcome == "done" && self.file.is_some(),
            _ => self.outcome == "done",
        }
    }
}

impl Figures {
    fn take(&mut self, line: &LogLine<'_>, now: u64) {
        let asked = line.asked.unwrap_or(now.saturating_sub(line.ms));
        self.begun = Some(self.begun.map_or(asked, |begun| begun.min(asked)));
        let pause = now.saturating_sub(self.ended.unwrap_or(asked));
        if self.ended.is_some() {
            self.longest_pause = self.longest_pause.max(pause);
        }
        if pause <= STOP {
            self.worked += pause;
        }
        self.ended = self.ended.max(Some(now));
        self.rows += 1;
        match line.kind {
            TaskKind::Page if line.is_kept() => {
                self.pages += 1;
                self.page_bytes += line.bytes;
                self.page_time = self.worked;
            }
            TaskKind::Image if line.is_kept() => self.images += 1,
            _ => {}
        }
    }
}

impl Rows {
    fn take(
        &mut self,
        line: &LogLine<'_>,
        now: u64,
        (name, site): (&str, &str),
        may_overlap: bool,
    ) {
        let kind = kind_name(line.kind);
        let of = self.kinds.entry(kind).or_insert(KindFigures {
            kind,
            requests: 0,
            done: 0,
            bytes: 0,
            ms: 0,
        });
        of.requests += 1;
        of.done += u64::from(matches!(line.outcome.as_ref(), "done" | "unchanged"));
        of.bytes += line.bytes;
        of.ms += line.ms;
        self.endings.add(&match &line.reason {
            Some(reason) => format!("{}\t{reason}", line.outcome),
            None => line.outcome.to_string(),
        });
        if let Some(status) = line.status {
            *self.statuses.entry(status).or_default() += 1;
        }
        if let Some(mime) = &line.mime {
            self.media.add(&mime.to_ascii_lowercase());
        }
        for name in [name, site] {
            if !self.hosts.contains_key(name) {
                self.hosts.insert(name.to_owned(), Host::default());
            }
        }
        let Some(host) = self.hosts.get_mut(name) else {
            return;
        };
        host.requests += 1;
        host.bytes += line.bytes;
        // As the frontier counts: links that were followed for the first time, to the end
        // of their redirects.
        let is_link = line.kind == TaskKind::Page && line.bucket != Bucket::Seed;
        let ended = matches!(line.outcome.as_ref(), "done" | "dropped");
        if is_link && ended && line.changed.is_none() {
            let page = line.on_topic_probability.map(|on_topic| Judged {
                text: on_topic,
                on_topic,
                guessed: line.on_topic_guessed,
            });
            self.focus.count(line.control, page);
        }
        let times = (line.asked, line.delay, now);
        let Self { politeness, .. } = self;
        politeness.take(name, &mut host.last, times, may_overlap);
        if !line.is_kept() {
            return;
        }
        match line.kind {
            TaskKind::Image => {
                if let Some(site) = self.hosts.get_mut(site) {
                    site.images += 1;
                }
            }
            TaskKind::Page => {
                host.pages += 1;
                host.on_topic += u64::from(line.on_topic == Some(true));
                host.mean.add(line.document.as_ref());
                let (pages, mean) = self.buckets.entry(line.bucket).or_default();
                *pages += 1;
                mean.add(line.document.as_ref());
                let said =
                    |name: &Option<String>| name.as_deref().unwrap_or("not recorded").to_owned();
                self.encodings.add(&said(&line.charset));
                let language = line.language.as_deref().unwrap_or("none declared");
                self.languages.add(language);
            }
            _ => {}
        }
    }

    fn image(&mut self, since: u64, class: Option<&String>) {
        let second = || Steps::of(1000);
        self.images.get_or_insert_with(second).add(since, 1);
        if let Some(class) = class {
            let steps = self.classes.entry(class.clone());
            steps.or_insert_with(second).add(since, 1);
        }
    }

    fn finish(self, figures: &mut Figures) {
        let length = match (figures.begun, figures.ended) {
            (Some(begun), Some(ended)) => ended.saturating_sub(begun),
            _ => 0,
        };
        let series = |steps: &Steps<u64>| Series::running(steps, length);
        figures.images_over_time = self.images.as_ref().map(series).unwrap_or_default();
        let classes = self.classes.iter();
        figures.classes_over_time = classes.map(|(c, s)| (c.clone(), series(s))).collect();
        figures.kinds = self.kinds.into_values().collect();
        figures.kinds.sort_by_key(|k| std::cmp::Reverse(k.requests));
        let endings = self.endings.finish(usize::MAX).top.into_iter();
        figures.endings = endings
            .map(|(name, count)| {
                let (outcome, reason) = match name.split_once('\t') {
                    Some((outcome, reason)) => (outcome.to_owned(), Some(reason.to_owned())),
                    None => (name, None),
                };
                Ending {
                    outcome,
                    reason,
                    count,
                }
            })
            .collect();
        figures.statuses = self.statuses.into_iter().collect();
        let buckets = self.buckets.into_iter();
        figures.buckets = buckets
            .map(|(bucket, (pages, mean))| BucketFigures {
                bucket: bucket.name(),
                pages,
                perplexity: mean.value(),
            })
            .collect();
        figures.hosts = self.hosts.values().filter(|h| h.pages > 0).count() as u64;
        let mut hosts: Vec<(String, Host)> = self.hosts.into_iter().collect();
        hosts.sort_by(|(a, x), (b, y)| {
            let by = |h: &Host| (h.pages, h.images, h.requests);
            by(y).cmp(&by(x)).then_with(|| a.cmp(b))
        });
        hosts.truncate(TOP);
        figures.top_hosts = hosts
            .into_iter()
            .map(|(host, h)| HostFigures {
                host,
                requests: h.requests,
                pages: h.pages,
                on_topic: h.on_topic,
                images: h.images,
                bytes: h.bytes,
                perplexity: h.mean.value(),
            })
            .collect();
        figures.encodings = self.encodings.finish(TOP);
        figures.media = self.media.finish(TOP);
        figures.languages = self.languages.finish(TOP);
        figures.politeness = self.politeness;
    }
}

/// As in the log.
fn kind_name(kind: TaskKind) -> &'static str {
    match kind {
        TaskKind::Robots => "robots",
        TaskKind::Page => "page",
        TaskKind::Image => "image",
        TaskKind::Sitemap => "sitemap",
        TaskKind::Tdmrep => "tdmrep",
    }
}
