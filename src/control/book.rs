//! What a crawl brought, kept small: the perplexity of its pages in packets, the hosts
//! that yield, the last images. Of this run it is told row by row; what runs before
//! brought is read once from the log.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use xxhash_rust::xxh3::xxh3_64;

use crate::address::PageUrl;
use crate::page::TaskKind;
use crate::store::Row;

/// Pages of a packet at first.
const FIRST_SPAN: u64 = 10;

/// Packets at most; where there would be more, each two become one.
const MAX_PACKETS: usize = 200;

/// Hosts that are remembered at most; where there would be more, the half that
/// yielded least is forgotten.
const MAX_HOSTS: usize = 4_000;

/// Images that are remembered.
pub(super) const IMAGES: usize = 24;

/// Pages that were fetched one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Packet {
    /// Number of the first one, from 1.
    pub first: u64,
    /// How many they are.
    pub pages: u64,
    /// Geometric mean of their perplexities.
    pub perplexity: f64,
}

/// What a host brought.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Yield {
    /// The host.
    pub host: String,
    /// Pages of it that were fetched.
    pub pages: u64,
    /// Those that are on topic by the model.
    pub on_topic: u64,
}

/// An image that was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    /// Follows from the file, so that it stays the same.
    pub id: String,
    /// Its path below the job's folder.
    pub file: String,
    pub host: String,
}

/// What was brought.
#[derive(Debug, Clone, Default)]
pub(super) struct Book {
    pages: u64,
    packets: Vec<Packet>,
    span: u64,
    hosts: HashMap<String, (u64, u64)>,
    images: VecDeque<Kept>,
}

/// The keys of a row of the log that are of interest.
#[derive(Deserialize)]
struct Line {
    kind: TaskKind,
    url: PageUrl,
    outcome: String,
    document: Option<Document>,
    #[serde(default)]
    on_topic: bool,
    file: Option<String>,
}

#[derive(Deserialize)]
struct Document {
    perplexity: f64,
}

impl Book {
    /// Reads the log of a job as it is now; nothing where there is none. A line that
    /// cannot be read is passed over.
    pub fn of_log(log: &Path) -> Self {
        let mut book = Self::default();
        let Ok(file) = File::open(log) else {
            return book;
        };
        // What is written from now on is told.
        let length = file.metadata().map_or(0, |m| m.len());
        let mut lines = BufReader::new(file.take(length));
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            if let Ok(row) = serde_json::from_slice::<Line>(&line)
                && row.outcome == "done"
            {
                let perplexity = row.document.map(|document| document.perplexity);
                let url = &row.url;
                book.task(row.kind, url, perplexity, row.on_topic, row.file.as_deref());
            }
            line.clear();
        }
        book
    }

    /// Takes note of a finished task.
    pub fn row(&mut self, row: &Row<'_>) {
        if row.outcome == "done"
            && let Ok(url) = PageUrl::parse(row.url)
        {
            let perplexity = row.document.map(|document| document.perplexity);
            self.task(row.kind, &url, perplexity, row.on_topic, row.file);
        }
    }

    fn task(
        &mut self,
        kind: TaskKind,
        url: &PageUrl,
        perplexity: Option<f64>,
        on_topic: bool,
        file: Option<&str>,
    ) {
        match (kind, perplexity, file) {
            (TaskKind::Page, Some(perplexity), _) => self.page(url.host(), perplexity, on_topic),
            (TaskKind::Image, _, Some(file)) => {
                self.images.truncate(IMAGES - 1);
                self.images.push_front(Kept {
                    id: format!("{:016x}", xxh3_64(file.as_bytes())),
                    file: file.to_owned(),
                    host: url.host().to_owned(),
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
            all.sort_by_key(|(_, (pages, on_topic))| std::cmp::Reverse((*on_topic, *pages)));
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

    /// The last images, the latest first.
    pub fn images<'a>(&'a self, earlier: &'a Self) -> impl Iterator<Item = &'a Kept> {
        self.images.iter().chain(&earlier.images).take(IMAGES)
    }
}

/// Two packets that follow each other as one.
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
    use std::io::Write;

    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
    }

    #[test]
    fn packets_stay_few_and_keep_the_geometric_mean() {
        let mut book = Book::default();
        for n in 0..12_345_u64 {
            let perplexity = if n % 2 == 0 { 10.0 } else { 1_000.0 };
            book.page("a.test", perplexity, n % 5 == 0);
            assert!(book.packets.len() <= MAX_PACKETS);
        }
        let none = Book::default();
        let packets = book.packets(&none);
        assert_eq!(packets.iter().map(|p| p.pages).sum::<u64>(), 12_345);
        let mut next = 1;
        for packet in &packets {
            assert_eq!(packet.first, next);
            next += packet.pages;
        }
        close(packets[0].perplexity, 100.0);
        let best = book.best(&book, 3);
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
        let mut book = Book::default();
        for n in 0..3 {
            book.page("good.test", 10.0, true);
            for host in 0..MAX_HOSTS {
                book.page(&format!("h{n}-{host}.test"), 10.0, false);
            }
        }
        assert!(book.hosts.len() <= MAX_HOSTS);
        let best = book.best(&Book::default(), 10);
        assert_eq!((best.len(), best[0].on_topic), (1, 3));
    }

    #[test]
    fn the_log_is_read_around_what_is_no_row() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("crawl.jsonl");
        let mut file = File::create(&log).unwrap();
        for line in [
            r#"{"kind":"page","url":"http://a.test/1","outcome":"done","document":{"perplexity":50.0},"on_topic":true}"#,
            "{torn",
            r#"{"kind":"page","url":"http://a.test/2","outcome":"dropped"}"#,
            r#"{"kind":"image","url":"http://b.test/i.png","outcome":"done","file":"images/i.png"}"#,
        ] {
            writeln!(file, "{line}").unwrap();
        }
        file.write_all(b"\xff{\"kind").unwrap();
        let book = Book::of_log(&log);
        close(book.packets[0].perplexity, 50.0);
        assert_eq!(book.best(&Book::default(), 9).len(), 1);
        assert_eq!(book.images[0].file, "images/i.png");
        assert!(Book::of_log(&folder.path().join("none")).packets.is_empty());
    }
}
