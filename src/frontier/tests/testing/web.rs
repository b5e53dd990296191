//! A small web that is derived from a number, and how a frontier crawls it.

use std::ops::ControlFlow;
use std::time::Duration;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64;

use crate::added::NewTask;
use crate::address::PageUrl;
use crate::host_files::RobotsAnswer;
use crate::outcome::{Effects, Written};
use crate::page::{Bucket, Outcome, Reason, Task, TaskKind};
use crate::parts::Frontier;
use crate::record::{Counts, State, UrlRecord};
use crate::settings::JobSettings;
use crate::store::{Readable, StoreError};
use crate::web::scope::Scope;

/// Hosts, and pages of each.
const HOSTS: u64 = 12;
const PAGES: u64 = 4;
const LINKS: u64 = 5;

/// How long an answer takes.
const ELAPSED: Duration = Duration::from_millis(20);

/// The scope of a job without scope settings.
pub fn scope() -> Scope {
    Scope::new(JobSettings::default().scope)
}

/// A web.
pub struct Web {
    seed: u64,
}

impl Web {
    /// The web of a number.
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// A number derived from texts.
    fn number(&self, of: &str, n: u64) -> u64 {
        xxh3_64(format!("{} {of} {n}", self.seed).as_bytes())
    }

    fn page(&self, number: u64) -> PageUrl {
        let (host, page) = (number % HOSTS, number / HOSTS % PAGES);
        // Some hosts share a domain.
        let name = format!("http://h{host}.d{}.org/{page}", host / 2);
        PageUrl::parse(&name).unwrap()
    }

    /// Where a crawl begins.
    pub fn seeds(&self) -> Vec<PageUrl> {
        (0..3).map(|n| self.page(self.number("seed", n))).collect()
    }

    /// The outcome of a page; a redirect leads only to a page that does not redirect.
    fn outcome(&self, url: &PageUrl, attempts: u16) -> Outcome {
        match self.number(url.as_str(), 100) % 10 {
            0 => {
                let others = (0..).map(|n| self.page(self.number(url.as_str(), 200 + n)));
                let is_none = |to: &PageUrl| !self.number(to.as_str(), 100).is_multiple_of(10);
                match others.take(20).find(is_none) {
                    Some(to) => Outcome::Redirect { to },
                    None => Outcome::Done,
                }
            }
            1 => Outcome::Drop {
                reason: Reason::ClientError,
            },
            2 if attempts == 0 => Outcome::Retry {
                reason: Reason::Protocol,
                retry_after: None,
                host_backs_off: false,
            },
            // One page of a host, so that no host is ever given up.
            3 if attempts == 0 && url.path() == "/0" => Outcome::Retry {
                reason: Reason::Overloaded,
                retry_after: None,
                host_backs_off: true,
            },
            _ => Outcome::Done,
        }
    }

    fn links(&self, url: &PageUrl) -> Vec<NewTask> {
        let links = (0..LINKS).map(|n| {
            let url = self.page(self.number(url.as_str(), n));
            // Depends only on the address, not on the linking page.
            let score = (self.number(url.as_str(), 300) % 1_000) as f64;
            NewTask {
                bucket: (score < 900.0).then_some(Bucket::Normal),
                score,
                ..NewTask::seed(&url)
            }
        });
        links.collect()
    }

    /// Answers a leased task.
    pub fn finish(&self, frontier: &mut Frontier, task: &Task, now: u64) -> Result<(), StoreError> {
        let host = task.host.as_str();
        match task.kind {
            TaskKind::Robots => {
                let other = self.page(self.number(host, 400)).host_key();
                let rules = format!(
                    "User-agent: *\nDisallow: /3\nSitemap: http://{}/sitemap.xml\n",
                    other.as_str()
                );
                let answer = match self.number(host, 401) % 3 {
                    0 => RobotsAnswer::Rules(Bytes::from(rules)),
                    _ => RobotsAnswer::Missing,
                };
                let stamp = frontier.stamp();
                let write = |_: &_| Ok::<_, StoreError>(stamp);
                frontier.finish_robots(task, answer, ELAPSED, now, write)?;
                Ok(())
            }
            TaskKind::Sitemap => {
                let effects = Effects {
                    links: self.links(&task.url),
                    ..Effects::default()
                };
                answer(frontier, task, Outcome::Done, effects, now)
            }
            _ => {
                let outcome = self.outcome(&task.url, task.attempts.into());
                let links = match outcome {
                    Outcome::Done => self.links(&task.url),
                    _ => Vec::new(),
                };
                let effects = Effects {
                    links,
                    bytes: 10,
                    ..Effects::default()
                };
                answer(frontier, task, outcome, effects, now)
            }
        }
    }
}

/// Finishes a leased task of any kind; a robots.txt is missing.
pub fn answer(
    frontier: &mut Frontier,
    task: &Task,
    outcome: Outcome,
    effects: Effects,
    now: u64,
) -> Result<(), StoreError> {
    if task.kind == TaskKind::Robots {
        let write = |_: &_| Ok::<_, StoreError>(Vec::new());
        frontier.finish_robots(task, RobotsAnswer::Missing, ELAPSED, now, write)?;
        return Ok(());
    }
    frontier.finish(task, outcome, effects, ELAPSED, now, |_| {
        Ok::<_, StoreError>(Written::default())
    })?;
    Ok(())
}

/// All records of addresses in a store, by key.
pub fn records(store: &dyn Readable) -> Vec<(Vec<u8>, UrlRecord)> {
    let mut found = Vec::new();
    store
        .scan(b"U", &[], &mut |key, value| {
            found.push((key.to_vec(), postcard::from_bytes(value).unwrap()));
            ControlFlow::Continue(())
        })
        .unwrap();
    found
}

/// The parts of a record that do not depend on the order of a crawl.
pub fn state(record: &UrlRecord) -> String {
    match &record.state {
        State::Done { .. } => "done".to_owned(),
        State::Redirected { to, .. } => format!("redirected to {to}"),
        State::Dropped { reason } => format!("dropped: {reason:?}"),
        other => format!("{other:?}"),
    }
}

/// The counters without those that are zero.
pub fn lasting(counts: &Counts) -> Counts {
    let mut counts = counts.clone();
    counts.dropped.retain(|_, n| *n > 0);
    counts
}
