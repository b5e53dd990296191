//! The frontier under load: time, memory and disk space per URL, and the time to resume, for any
//! number of URLs.
//!
//! ```sh
//! cargo bench --bench frontier -- --urls 1000000 --hosts 100000 --store fjall
//! ```
//!
//! It queues URLs as a crawl does, by finishing pages whose links lead to hosts
//! drawn at random, half of them known already, and measures rounds of lease and
//! finish at 100,000 URLs and at the end. Not a criterion benchmark, because the
//! question is how a figure changes while the store grows.
//!
//! With `--learn` links have clues and are rated by the strategy `learn`, which learns
//! from each page, and stored links are rated again in the meantime, as in a crawl.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs
)]

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spoor::address::PageUrl;
use spoor::config::Config;
use spoor::frontier::store::{self, StoreError};
use spoor::frontier::{Effects, Frontier, NewTask, Policy, RobotsAnswer, Written, only};
use spoor::page::{LinkParts, Nearness, Outcome, Task, TaskKind};
use spoor::settings::StoreKind;
use spoor::web::scope::Scope;

#[path = "frontier/counted.rs"]
mod counted;
#[path = "frontier/ratings.rs"]
mod ratings;

use counted::{Calls, Counted, cpu_ms};
use ratings::{Halved, Taught, bucket, nearness, with_clues};

const LINKS: usize = 20;
/// Pages in one measured round.
const ROUND: usize = 10_000;
/// The duration of every request.
const ANSWER: Duration = Duration::from_millis(50);
const SMALL: u64 = 100_000;
/// The words in which anchors differ.
const WORDS: [&str; 8] = [
    "one", "two", "three", "four", "five", "six", "seven", "eight",
];

struct Load {
    urls: u64,
    hosts: u64,
    kind: StoreKind,
    learn: bool,
}

/// The result of a measured round.
struct Measured {
    /// Pages a second.
    rate: f64,
    /// CPU milliseconds a page, the store's own threads included.
    cpu: f64,
    /// The calls of the store for each page.
    calls: String,
}

fn main() {
    let load = arguments();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("frontier");
    println!(
        "{} URLs over {} hosts, store {}{}",
        load.urls,
        load.hosts,
        load.kind.name(),
        if load.learn { ", learning" } else { "" }
    );
    let mut crawl = Crawl::open(&load, &path);
    crawl.meet_hosts();
    crawl.grow_to(SMALL.min(load.urls));
    let small = crawl.measure();
    crawl.report(&small);
    crawl.grow_to(load.urls);
    let large = crawl.measure();
    crawl.report(&large);
    println!("rate kept:  {:.0} %", 100.0 * large.rate / small.rate);
    println!(
        "resident:   {:.0} MB, {:.0} at most",
        resident_mb("VmRSS:"),
        resident_mb("VmHWM:")
    );
    let (asked, stored) = crawl.frontier.questions().asked_and_stored();
    println!(
        "seen:       {:.1} % of {asked} questions answered from memory",
        100.0 * (asked - stored) as f64 / asked as f64
    );
    let queued = crawl.queued();
    let known = crawl.known;
    crawl.frontier.close().unwrap();

    let begin = Instant::now();
    let mut reopened = Crawl::open(&load, &path);
    println!("resume:     {:.1} s", begin.elapsed().as_secs_f64());
    assert_eq!(reopened.frontier.counts().queued_pages(), queued);
    reopened.rescore();
    drop(reopened);

    let before = size(&path);
    let mut old = store::open(load.kind, &path).unwrap();
    if !old.compact().unwrap() {
        let fresh = folder.path().join("fresh");
        let mut new = store::open(load.kind, &fresh).unwrap();
        spoor::frontier::dump::copy(&*old, &mut *new).unwrap();
        drop((old, new));
        report_disk(before, size(&fresh), known);
    } else {
        drop(old);
        report_disk(before, size(&path), known);
    }
}

fn report_disk(before: u64, after: u64, urls: u64) {
    println!(
        "disk:       {:.0} bytes a URL after compaction ({:.0} before), {:.1} GB in all",
        after as f64 / urls as f64,
        before as f64 / urls as f64,
        after as f64 / 1e9
    );
}

struct Crawl {
    frontier: Frontier,
    calls: Arc<Mutex<Calls>>,
    learn: bool,
    dice: ChaCha8Rng,
    hosts: u64,
    now: u64,
    /// URLs made so far.
    known: u64,
}

impl Crawl {
    fn open(load: &Load, path: &Path) -> Self {
        let text = "[job]\nname = \"bench\"\n[politeness]\nmin_delay = \"1s\"\n";
        let config = Config::parse(text, "bench.toml").unwrap();
        let policy = Policy::new(&config.politeness, &config.network);
        let scope = Scope::new(config.scope.clone());
        let calls = Arc::default();
        let store = store::open(load.kind, path).unwrap();
        let store = Counted::new(store, Arc::clone(&calls));
        let store = only(Box::new(store)).unwrap();
        let now = 1_000_000_000_000;
        let mut frontier = Frontier::open(store, policy, scope, now).unwrap();
        if load.learn {
            frontier.set_rating(Arc::new(Taught::default())).unwrap();
        }
        Self {
            frontier,
            calls,
            learn: load.learn,
            dice: ChaCha8Rng::seed_from_u64(1),
            hosts: load.hosts,
            now,
            known: 0,
        }
    }

    /// Rates all links again, in slices, so that every link gets another score.
    fn rescore(&mut self) {
        let now = self.now;
        self.frontier.set_rating(Arc::new(Halved)).unwrap();
        let begin = Instant::now();
        let mut longest = Duration::ZERO;
        let came = loop {
            let slice = Instant::now();
            let done = self.frontier.rescore_slice(now).unwrap();
            longest = longest.max(slice.elapsed());
            if let Some(came) = done {
                break came;
            }
        };
        println!(
            "rated anew: {} links of {} in {:.1} s, {:.0} ms at most at once",
            came.rescored,
            came.seen,
            begin.elapsed().as_secs_f64(),
            longest.as_secs_f64() * 1e3
        );
    }

    fn queued(&self) -> u64 {
        self.frontier.counts().queued_pages()
    }

    fn address(&self, n: u64) -> PageUrl {
        let host = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % self.hosts;
        let text = format!(
            "https://www.host-{host}.example/articles/section-{}/page-{n}.html",
            n % 97
        );
        PageUrl::parse(&text).unwrap()
    }

    /// Half of the links are new, half known.
    fn links(&mut self) -> Vec<NewTask> {
        (0..LINKS)
            .map(|i| {
                let n = if i % 2 == 0 || self.known == 0 {
                    self.known += 1;
                    self.known
                } else {
                    self.dice.random_range(0..self.known)
                };
                let score = self.dice.random_range(1.0..30_000.0);
                let link = NewTask {
                    url: self.address(n),
                    bucket: Some(bucket(score)),
                    score,
                    parts: Some(LinkParts {
                        document: score,
                        anchor: score,
                        keyword: 0.0,
                    }),
                    anchor: Some(format!("the lamps of section {}", WORDS[n as usize % 8])),
                    clues: None,
                };
                if self.learn {
                    with_clues(link, n, self.dice.random_range(0..u64::MAX))
                } else {
                    link
                }
            })
            .collect()
    }

    /// Queues one page of each host, and answers for its address and its robots.txt, which would
    /// otherwise burden only the first round.
    fn meet_hosts(&mut self) {
        for begin in (0..self.hosts).step_by(1_000) {
            let end = (begin + 1_000).min(self.hosts);
            let front = |host| format!("https://www.host-{host}.example/");
            let seeds: Vec<PageUrl> = (begin..end)
                .map(|host| PageUrl::parse(&front(host)).unwrap())
                .collect();
            self.frontier.add_seeds(&seeds, self.now).unwrap();
        }
        // A host's page is due one delay after its robots.txt, so time stands still here.
        while let Some(task) = self.frontier.lease(self.now).unwrap() {
            assert!(self.answer_before(&task), "a page came too early");
        }
    }

    /// Answers for a host's address or robots.txt; false for a page.
    fn answer_before(&mut self, task: &Task) -> bool {
        if task.locate {
            // Two hosts on each address.
            let number: u32 = digits(task.host.as_str()) / 2;
            let address = Ipv4Addr::from(number.wrapping_add(1 << 24));
            let located = Some(address.into());
            self.frontier.located(task, located, self.now).unwrap();
        } else if task.kind == TaskKind::Robots {
            let answer = RobotsAnswer::Missing;
            self.frontier
                .finish_robots(task, answer, ANSWER, self.now, |_| {
                    Ok::<_, StoreError>(Vec::new())
                })
                .unwrap();
        } else {
            return false;
        }
        true
    }

    /// One page: lease it, finish it with its links.
    fn page(&mut self) {
        loop {
            let Some(task) = self.frontier.lease(self.now).unwrap() else {
                self.now = self.frontier.next_event().unwrap().max(self.now + 1);
                continue;
            };
            if self.answer_before(&task) {
                continue;
            }
            let number = task.url.path().rsplit("page-").next();
            let near = nearness(number.map_or(0, digits).into());
            let effects = Effects {
                links: self.links(),
                on_topic: self.learn.then_some(near),
                nearness: self.learn.then_some(Nearness::Likely(near)),
                ..Effects::default()
            };
            self.frontier
                .finish(&task, Outcome::Done, effects, ANSWER, self.now, |_| {
                    Ok::<_, StoreError>(Written::default())
                })
                .unwrap();
            if self.frontier.is_rescoring() {
                self.frontier.rescore_slice(self.now).unwrap();
            }
            return;
        }
    }

    fn grow_to(&mut self, urls: u64) {
        let mut reported = Instant::now();
        while self.queued() < urls {
            self.page();
            if reported.elapsed() > Duration::from_secs(60) {
                reported = Instant::now();
                eprintln!(
                    "  {} queued, {:.0} MB resident",
                    self.queued(),
                    resident_mb("VmRSS:")
                );
            }
        }
    }

    /// One round.
    fn measure(&mut self) -> Measured {
        let before = self.calls.lock().unwrap().clone();
        let (begin, cpu) = (Instant::now(), cpu_ms());
        for _ in 0..ROUND {
            self.page();
        }
        Measured {
            rate: ROUND as f64 / begin.elapsed().as_secs_f64(),
            cpu: (cpu_ms() - cpu) / ROUND as f64,
            calls: self.calls.lock().unwrap().report(&before, ROUND),
        }
    }

    fn report(&self, round: &Measured) {
        println!(
            "at {:>10} URLs: {:>7.0} pages/s, {:.3} ms of CPU a page (lease, finish, {LINKS} links)",
            self.queued(),
            round.rate,
            round.cpu
        );
        println!("a page:     {}", round.calls);
    }
}

fn arguments() -> Load {
    let mut load = Load {
        urls: 100_000,
        hosts: 100_000,
        kind: StoreKind::Fjall,
        learn: false,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .unwrap_or_else(|| panic!("{word} needs a value"))
        };
        match word.as_str() {
            "--urls" => load.urls = value().parse().expect("a number of URLs"),
            "--hosts" => load.hosts = value().parse().expect("a number of hosts"),
            "--store" => {
                load.kind = match value().as_str() {
                    "sled" => StoreKind::Sled,
                    "fjall" => StoreKind::Fjall,
                    other => panic!("no store {other}; sled or fjall"),
                }
            }
            "--learn" => load.learn = true,
            // Flags that cargo bench adds.
            "--bench" => {}
            other => {
                panic!("unknown argument {other}; --urls N --hosts N --store sled|fjall --learn")
            }
        }
    }
    load
}

fn digits(host: &str) -> u32 {
    let digits: String = host.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_default()
}

fn resident_mb(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with(field));
    let kb = line.and_then(|l| l.split_whitespace().nth(1));
    kb.and_then(|kb| kb.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e3
}

fn size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(|entry| match entry.metadata().unwrap() {
            meta if meta.is_dir() => size(&entry.path()),
            meta => meta.len(),
        })
        .sum()
}
