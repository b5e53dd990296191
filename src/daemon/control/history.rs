//! The history of a crawl, in bounded memory: the perplexity of its pages in packets, the
//! best hosts, the latest images and pages. It is updated row by row in this run; earlier
//! runs are read once from the log.

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use xxhash_rust::xxh3::xxh3_64;

use crate::address::PageUrl;
use crate::outputs::{self, Row, Table};
use crate::page::{Likelihood, TaskKind};
use crate::sanitize;

/// The longest row that is read, in bytes.
const MAX_ROW: usize = 16 << 20;

/// Pages per packet at the start.
const FIRST_SPAN: u64 = 10;

/// The most packets; beyond that, pairs of packets are merged.
const MAX_PACKETS: usize = 200;

/// The most hosts; beyond that, the worse half is dropped.
const MAX_HOSTS: usize = 4_000;

/// The number of latest images that are shown.
pub(super) const IMAGES: usize = 24;

/// And of those that are served: a page on a slow line asks late for what it was shown.
const SERVED: usize = 4 * IMAGES;

/// The number of latest pages.
const PAGES: usize = 30;

/// The most characters of a title or an address that are shown.
const MAX_SHOWN: usize = 200;

/// A run of pages that were fetched one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Packet {
    /// Number of the first one, from 1.
    pub first: u64,
    /// How many pages there are.
    pub pages: u64,
    /// Geometric mean of their perplexities.
    pub perplexity: f64,
}

/// The results of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Yield {
    /// The host.
    pub host: String,
    /// Its fetched pages.
    pub pages: u64,
    /// Those that are more likely on topic than off topic.
    pub on_topic: u64,
}

/// A requested page with its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RecentPage {
    /// When it was finished, RFC 3339 in UTC.
    pub time: String,
    /// Its address; here as elsewhere, characters that would control a terminal are
    /// escaped.
    pub url: String,
    /// Its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whether it is on topic; absent if no page was received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_topic: Option<bool>,
    /// The probability that it is on topic, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// Why it was requested, or why that failed, in words.
    pub reason: String,
}

/// An image that was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecentImage {
    /// Derived from the file, so that it stays the same.
    pub id: String,
    /// Its path below the job's folder.
    pub file: String,
    pub host: String,
}

/// The history of a crawl.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    pages: u64,
    packets: Vec<Packet>,
    span: u64,
    hosts: HashMap<String, (u64, u64)>,
    images: VecDeque<RecentImage>,
    seen: VecDeque<RecentPage>,
}

/// The keys of a log row that are used.
#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    time: String,
    kind: TaskKind,
    url: PageUrl,
    outcome: String,
    document: Option<Document>,
    on_topic: Option<bool>,
    on_topic_probability: Option<f64>,
    title: Option<String>,
    #[serde(default)]
    bucket: String,
    #[serde(default)]
    control: bool,
    via: Option<String>,
    status: Option<u16>,
    reason: Option<String>,
    file: Option<String>,
}

#[derive(Deserialize)]
struct Document {
    perplexity: f64,
}

/// The part of a row that is used, from any source.
struct Told<'a> {
    time: &'a str,
    kind: TaskKind,
    url: &'a PageUrl,
    outcome: &'a str,
    perplexity: Option<f64>,
    on_topic: Option<bool>,
    probability: Option<f64>,
    title: Option<&'a str>,
    bucket: &'a str,
    control: bool,
    via: Option<&'a str>,
    status: Option<u16>,
    reason: Option<&'a str>,
    file: Option<&'a str>,
}

impl Told<'_> {
    /// Why the page was requested, or why that failed.
    fn reason(&self) -> String {
        if self.outcome != "done" {
            let why = self.reason.unwrap_or(self.outcome).replace('_', " ");
            let why = match self.outcome {
                "retrying" => format!("{why}; retried later"),
                "redirected" => "redirects to another address".to_owned(),
                _ => why,
            };
            return match self.status.filter(|status| *status >= 400) {
                Some(status) => format!("{why} (status {status})"),
                None => why,
            };
        }
        let from = |via: &str| PageUrl::parse(via).ok().map(|url| url.host().to_owned());
        match (self.bucket, self.control, self.via.and_then(from)) {
            ("seed", ..) => "a seed".to_owned(),
            (_, true, _) => "drawn at random for comparison".to_owned(),
            (_, _, Some(host)) if host == self.url.host() => "linked from its own site".to_owned(),
            (_, _, Some(host)) => format!("linked from {host}"),
            _ => "listed by its site".to_owned(),
        }
    }
}

/// Untrusted text, shortened for display.
fn cut(text: &str) -> String {
    let short: String = text.chars().take(MAX_SHOWN).collect();
    let end = if short.len() < text.len() {
        "\u{2026}"
    } else {
        ""
    };
    format!("{}{end}", sanitize::shown(&short))
}

impl History {
    /// Reads the log of a job as it is now; empty if there is none. Unreadable lines are
    /// skipped.
    pub fn of_log(folder: &Path) -> Self {
        let mut history = Self::default();
        // Rows written from now on are passed to [`Self::row`].
        let read = outputs::each_line(folder, Table::Log, MAX_ROW, |line| {
            let line = line.bytes.unwrap_or_default();
            if let Ok(row) = serde_json::from_slice::<Line>(line) {
                history.task(&Told {
                    time: &row.time,
                    kind: row.kind,
                    url: &row.url,
                    outcome: &row.outcome,
                    perplexity: row.document.as_ref().map(|d| d.perplexity),
                    on_topic: row.on_topic,
                    probability: row.on_topic_probability,
                    title: row.title.as_deref(),
                    bucket: &row.bucket,
                    control: row.control,
                    via: row.via.as_deref(),
                    status: row.status,
                    reason: row.reason.as_deref(),
                    file: row.file.as_deref(),
                });
            }
        });
        if let Err(error) = read {
            tracing::warn!("the log of earlier runs: {error}");
        }
        history
    }

    /// Records a finished task.
    pub fn row(&mut self, row: &Row<'_>) {
        if let Ok(url) = PageUrl::parse(row.url) {
            self.task(&Told {
                time: row.time,
                kind: row.kind,
                url: &url,
                outcome: row.outcome,
                perplexity: row.document.map(|document| document.perplexity),
                on_topic: row.on_topic,
                probability: row.on_topic_probability.map(Likelihood::get),
                title: row.title,
                bucket: row.bucket,
                control: row.control,
                via: row.via,
                status: row.status,
                reason: row.reason,
                file: row.file,
            });
        }
    }

    fn task(&mut self, told: &Told<'_>) {
        if told.kind == TaskKind::Page && !matches!(told.outcome, "postponed" | "unchanged") {
            self.seen.truncate(PAGES - 1);
            self.seen.push_front(RecentPage {
                time: told.time.to_owned(),
                url: cut(told.url.as_str()),
                title: told.title.map(cut).filter(|title| !title.trim().is_empty()),
                on_topic: told.on_topic,
                probability: told.probability,
                reason: told.reason(),
            });
        }
        if told.outcome != "done" {
            return;
        }
        match (told.kind, told.perplexity, told.file) {
            (TaskKind::Page, Some(perplexity), _) => {
                self.page(told.url.host(), perplexity, told.on_topic == Some(true));
            }
            (TaskKind::Image, _, Some(file)) => {
                self.images.truncate(SERVED - 1);
                self.images.push_front(RecentImage {
                    id: format!("{:016x}", xxh3_64(file.as_bytes())),
                    file: file.to_owned(),
                    host: told.url.host().to_owned(),
                });
            }
            _ => {}
        }
    }

    fn page(&mut self, host: &str, perplexity: f64, on_topic: bool) {
        if perplexity.is_finite() && perplexity > 0.0 {
            self.pages += 1;
            let packet = Packet {
                first: self.pages,
                pages: 1,
                perplexity,
            };
            self.span = self.span.max(FIRST_SPAN);
            match self.packets.last_mut() {
                Some(last) if last.pages < self.span => *last = together(last, &packet),
                _ => self.packets.push(packet),
            }
            if self.packets.len() > MAX_PACKETS {
                self.span *= 2;
                let pairs = self.packets.chunks(2);
                self.packets = pairs
                    .filter_map(|pair| match pair {
                        [a, b] => Some(together(a, b)),
                        [a] => Some(*a),
                        _ => None,
                    })
                    .collect();
            }
        }
        if self.hosts.len() >= MAX_HOSTS && !self.hosts.contains_key(host) {
            let mut all: Vec<_> = self.hosts.drain().collect();
            all.sort_by_key(|(_, (pages, topical))| std::cmp::Reverse((*topical, *pages)));
            all.truncate(MAX_HOSTS / 2);
            self.hosts.extend(all);
        }
        let (pages, topical) = self.hosts.entry(host.to_owned()).or_default();
        *pages += 1;
        *topical += u64::from(on_topic);
    }

    /// The packets, those of `earlier` first.
    pub fn packets(&self, earlier: &Self) -> Vec<Packet> {
        let later = self.packets.iter().map(|packet| Packet {
            first: packet.first + earlier.pages,
            ..*packet
        });
        earlier.packets.iter().copied().chain(later).collect()
    }

    /// The hosts with the most pages on topic, the best first.
    pub fn best(&self, earlier: &Self, most: usize) -> Vec<Yield> {
        let mut sums: HashMap<&str, (u64, u64)> = HashMap::new();
        for (host, (pages, on_topic)) in self.hosts.iter().chain(&earlier.hosts) {
            let sum = sums.entry(host).or_default();
            *sum = (sum.0 + pages, sum.1 + on_topic);
        }
        let made = |(host, (pages, on_topic)): (&str, _)| Yield {
            host: host.to_owned(),
            pages,
            on_topic,
        };
        let mut best: Vec<Yield> = sums.into_iter().map(made).collect();
        best.retain(|host| host.on_topic > 0);
        best.sort_by(|a, b| (b.on_topic, a.pages, &a.host).cmp(&(a.on_topic, b.pages, &b.host)));
        best.truncate(most);
        best
    }

    /// The latest pages, newest first.
    pub fn pages<'a>(&'a self, earlier: &'a Self) -> impl Iterator<Item = &'a RecentPage> {
        self.seen.iter().chain(&earlier.seen).take(PAGES)
    }

    /// The latest images, newest first, more than are shown.
    pub fn images<'a>(&'a self, earlier: &'a Self) -> impl Iterator<Item = &'a RecentImage> {
        self.images.iter().chain(&earlier.images).take(SERVED)
    }
}

/// Merges two consecutive packets.
fn together(a: &Packet, b: &Packet) -> Packet {
    let pages = a.pages + b.pages;
    let logs = a.perplexity.ln() * a.pages as f64 + b.perplexity.ln() * b.pages as f64;
    Packet {
        first: a.first,
        pages,
        perplexity: (logs / pages as f64).exp(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
    }

    #[test]
    fn packets_stay_few_and_keep_the_geometric_mean() {
        let mut history = History::default();
        for n in 0..12_345_u64 {
            let perplexity = if n % 2 == 0 { 10.0 } else { 1_000.0 };
            history.page("a.test", perplexity, n % 5 == 0);
            assert!(history.packets.len() <= MAX_PACKETS);
        }
        let none = History::default();
        let packets = history.packets(&none);
        assert_eq!(packets.iter().map(|p| p.pages).sum::<u64>(), 12_345);
        let mut next = 1;
        for packet in &packets {
            assert_eq!(packet.first, next);
            next += packet.pages;
        }
        close(packets[0].perplexity, 100.0);
        let best = history.best(&history, 3);
        let (pages, on_topic) = (2 * 12_345, 2 * 2_469);
        let host = "a.test".to_owned();
        let expected = Yield {
            host,
            pages,
            on_topic,
        };
        assert_eq!(best, [expected]);
    }

    #[test]
    fn hosts_that_yield_outlast_those_that_do_not() {
        let mut history = History::default();
        for n in 0..3 {
            history.page("good.test", 10.0, true);
            for host in 0..MAX_HOSTS {
                history.page(&format!("h{n}-{host}.test"), 10.0, false);
            }
        }
        assert!(history.hosts.len() <= MAX_HOSTS);
        let best = history.best(&History::default(), 10);
        assert_eq!((best.len(), best[0].on_topic), (1, 3));
    }

    #[test]
    fn the_log_is_read_around_what_is_no_row() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("logs")).unwrap();
        let log = folder.path().join("logs/crawl.jsonl");
        let mut file = File::create(&log).unwrap();
        for line in [
            r#"{"kind":"page","url":"http://a.test/1","outcome":"done","document":{"perplexity":50.0},"on_topic":true,"title":"A \u202etitle","via":"http://b.test/"}"#,
            "{torn",
            r#"{"kind":"page","url":"http://a.test/2","outcome":"dropped","reason":"client_error","status":404}"#,
            r#"{"kind":"image","url":"http://b.test/i.png","outcome":"done","file":"images/i.png"}"#,
        ] {
            writeln!(file, "{line}").unwrap();
        }
        file.write_all(b"\xff{\"kind").unwrap();
        let history = History::of_log(folder.path());
        close(history.packets[0].perplexity, 50.0);
        assert_eq!(history.best(&History::default(), 9).len(), 1);
        assert_eq!(history.images[0].file, "images/i.png");
        assert!(
            History::of_log(&folder.path().join("none"))
                .packets
                .is_empty()
        );
        let pages: Vec<(&str, Option<bool>, &str)> = history
            .seen
            .iter()
            .map(|page| (page.url.as_str(), page.on_topic, page.reason.as_str()))
            .collect();
        assert_eq!(
            pages,
            [
                ("http://a.test/2", None, "client error (status 404)"),
                ("http://a.test/1", Some(true), "linked from b.test"),
            ]
        );
        assert_eq!(history.seen[1].title.as_deref(), Some("A \\u{202e}title"));
    }
}
