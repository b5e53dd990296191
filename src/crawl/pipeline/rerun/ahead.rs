//! Exchanges that are processed before their turn, with what is known of their tasks then.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::super::handler::Processor;
use super::super::product::Product;
use super::super::replay::Stored;
use crate::address::PageUrl;
use crate::archive::record::Spot;
use crate::clock::of_timestamp;
use crate::frontier::Cells;
use crate::page::{Bucket, Fetched, HostTerms, LinkParts, Outcome, Reason, Task, TaskKind};

/// The result of processing a body.
pub(super) type Processed = (Outcome, Option<Product>);

/// An exchange that waits for its turn.
pub(super) struct Ahead {
    pub spot: Spot,
    pub read: u64,
    pub url: PageUrl,
    pub kind: TaskKind,
    pub date: Option<u64>,
    pub about: About,
    pub stored: Stored,
    /// Its processing, if it was begun.
    pub begun: Option<Begun>,
    /// Why it is left out, if that was clear before its turn.
    pub left_out: Option<&'static str>,
}

impl Ahead {
    /// How many bytes it holds.
    pub fn bytes(&self) -> usize {
        match &self.stored {
            Stored::Body(fetched) => fetched.body.len(),
            _ => 0,
        }
    }
}

/// A processing that was begun with what was known of the task.
pub(super) struct Begun {
    terms: HostTerms,
    is_seed: bool,
    done: Receiver<Processed>,
}

impl Begun {
    /// Its result, if it was begun with the terms and the seed state that the task has now.
    pub fn result(self, task: &Task) -> Option<Processed> {
        let is_seed = task.bucket == Bucket::Seed;
        if self.terms != task.terms || self.is_seed != is_seed {
            return None;
        }
        self.done.recv().ok()
    }
}

/// A body for a processor thread.
pub(super) struct Job {
    task: Task,
    body: Fetched,
    done: Sender<Processed>,
}

/// Begins to process a body.
pub(super) fn begin(task: Task, body: &Fetched, jobs: &Sender<Job>) -> Option<Begun> {
    let (done, result) = std::sync::mpsc::channel();
    let begun = Begun {
        terms: task.terms.clone(),
        is_seed: task.bucket == Bucket::Seed,
        done: result,
    };
    let body = body.clone();
    jobs.send(Job { task, body, done }).ok().map(|()| begun)
}

/// A processor thread, until the queue is closed.
pub(super) fn process(queue: &Mutex<Receiver<Job>>, processor: &Processor<Product>) {
    loop {
        // The lock protects no data of its own.
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { task, body, done }) = next else {
            return;
        };
        // The result may not be wanted any more.
        done.send(processed(processor, &task, body)).ok();
    }
}

/// A defect on one body ends the work on that body alone, as in a crawl.
pub(super) fn processed(processor: &Processor<Product>, task: &Task, body: Fetched) -> Processed {
    let reason = Reason::Internal;
    let why = || "the work on this body ended in a defect of spoor; please report the URL";
    catch_unwind(AssertUnwindSafe(|| processor(task, body).here())).unwrap_or_else(|_| {
        let why = why().to_owned();
        (Outcome::Drop { reason }, Some(Product::Refused { why }))
    })
}

/// What the crawler noted of an exchange.
#[derive(Debug, Default)]
pub(super) struct About(pub BTreeMap<String, String>);

impl About {
    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.text(name)?.parse().ok()
    }

    /// The kind of task that requested it.
    pub fn kind(&self) -> Option<TaskKind> {
        let all = [
            TaskKind::Page,
            TaskKind::Image,
            TaskKind::Sitemap,
            TaskKind::Robots,
            TaskKind::Tdmrep,
        ];
        let name = self.text("spoor-kind")?;
        all.into_iter().find(|kind| kind.name() == name)
    }

    /// The priority class.
    pub fn bucket(&self) -> Option<Bucket> {
        let name = self.text("spoor-bucket")?;
        Bucket::ALL.into_iter().find(|bucket| bucket.name() == name)
    }

    /// Links from the nearest seed.
    pub fn hops(&self) -> Option<u32> {
        self.number("hopsFromSeed")
    }

    /// When the exchange was complete, in milliseconds since 1970.
    pub fn time(&self) -> Option<u64> {
        of_timestamp(self.text("spoor-time")?)
    }

    /// How long the exchange took.
    pub fn elapsed(&self) -> Duration {
        Duration::from_millis(self.number("fetchTimeMs").unwrap_or_default())
    }

    /// Adds to a task what the crawler knew about it.
    pub fn give(&self, task: &mut Task, frontier: &Cells) {
        let is_named = |via: &PageUrl| frontier.scope().taken_down(via, TaskKind::Page).is_none();
        if let Some(via) = self.text("via").and_then(|via| PageUrl::parse(via).ok()) {
            task.via = Some(via).filter(is_named);
        }
        task.hops = self.hops().unwrap_or(task.hops);
        task.bucket = self.bucket().unwrap_or(task.bucket);
        task.score = self.number("spoor-score").unwrap_or(task.score);
        let parts = (
            self.number("spoor-via-perplexity"),
            self.number("spoor-anchor-perplexity"),
            self.number("spoor-anchor-keyword"),
        );
        if let (Some(document), Some(anchor), Some(keyword)) = parts {
            task.parts = Some(LinkParts {
                document,
                anchor,
                keyword,
            });
        }
        task.control = self.text("spoor-control").is_some();
    }
}
