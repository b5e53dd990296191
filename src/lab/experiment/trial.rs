//! One run: a crawl over a stored web, with its results.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use super::claims::Witness;
use super::harvest::Harvest;
use super::plan::ORACLE;
use super::plan::Plan;
use super::web::Web;
use super::{ExperimentError, Run};
use crate::address::PageUrl;
use crate::crawl::checkpoint;
use crate::crawl::frontier::store::{self, StoreError};
use crate::crawl::frontier::{Effects, Frontier, RobotsAnswer, Written};
use crate::crawl::pipeline::{
    Admission, Completion, Handler, PageProduct, Processor, Product, Reader, Reply, replay,
};
use crate::daemon;
use crate::fs::IoError;
use crate::lab::Labels;
use crate::lab::judge::Relevance;
use crate::metrics::Metrics;
use crate::page::{Bucket, Task, TaskKind};
use crate::topic::strategy::Learned;
use crate::web::scope::Scope;

/// The start of every run's clock, in milliseconds since 1970: 2026-01-01.
const BEGINNING: u64 = 1_767_225_600_000;

/// Crawls.
pub(super) fn crawl(
    plan: &Plan,
    run: &Run<'_>,
    web: &Web,
    labels: &Labels,
) -> Result<Harvest, ExperimentError> {
    let begun = Instant::now();
    let config = &run.config;
    let strategy = &config.strategy;
    let metrics = Metrics::new().map_err(daemon::DaemonError::from)?;
    let learned = Learned::new(strategy, run.model.contrast.as_ref()).silent();
    let reader = Arc::new(daemon::reader(config, &run.model, metrics, &learned)?);
    std::fs::create_dir_all(&plan.out).map_err(IoError::at(&plan.out, "making the folder"))?;
    let folder = Scratch::new(&plan.out)?;
    let store = store::open(config.frontier.store, &folder.0.join("frontier"))?;
    let scope = Scope::new(config.scope.clone());
    let mut frontier = Frontier::open(store, checkpoint::policy(config), scope, BEGINNING)?;
    if run.variant.is_some() {
        frontier.set_rating(Arc::clone(&reader) as Arc<dyn crate::crawl::frontier::Rating>)?;
    }
    frontier.add_seeds(&config.seeds.read()?, BEGINNING)?;
    let topic = run.topic.name.as_str();
    let mut trial = Trial {
        reader,
        fetches: plan.fetches,
        labels,
        topic,
        oracle: run.variant.is_none().then_some(web),
        fetched: Vec::new(),
        images: HashSet::new(),
        witness: Witness::new(&plan.marks_within()),
    };
    replay(
        &mut frontier,
        &mut |task| {
            let (stored, dated) = (web.answer(task), None);
            Ok(Reply { stored, dated })
        },
        &mut trial,
        BEGINNING,
    )?;
    Ok(Harvest {
        topic: topic.to_owned(),
        begin: run.begin.to_owned(),
        lines: run.lines,
        variant: run.variant.map_or(ORACLE, |v| v.name.as_str()).to_owned(),
        seed: run.seed,
        curve: labels.curve(topic, &trial.fetched),
        images: trial.images.len(),
        claims: match run.variant {
            Some(_) => trial.witness.claims(),
            // It chooses by the labels and claims nothing.
            None => Vec::new(),
        },
        seconds: begun.elapsed().as_secs_f64(),
    })
}

/// A folder that is removed at the end.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(within: &std::path::Path) -> Result<Self, ExperimentError> {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = within.join(format!(".run-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(IoError::at(&folder, "making the folder"))?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!("{} is left behind: {error}", self.0.display());
        }
    }
}

/// Handles the tasks of a run. It keeps only the addresses fetched.
struct Trial<'a> {
    reader: Arc<Reader>,
    fetches: u64,
    labels: &'a Labels,
    topic: &'a str,
    /// The web, if links are chosen by their targets.
    oracle: Option<&'a Web>,
    /// In order, including failures and redirects, because each costs a fetch.
    fetched: Vec<String>,
    /// Images that pages of the topic embed.
    images: HashSet<PageUrl>,
    witness: Witness,
}

impl Trial<'_> {
    /// Rates links by their targets.
    fn foresee(&self, web: &Web, page: &mut PageProduct) {
        for link in &mut page.links {
            let target = web.target(&link.url);
            let redirects = target != link.url;
            let relevance = self.labels.relevance(target.as_str(), self.topic);
            (link.bucket, link.score) = match (relevance, redirects) {
                (Relevance::OnTopic, false) => (Some(Bucket::High), 0.0),
                (Relevance::OnTopic, true) => (Some(Bucket::Medium), 0.0),
                (Relevance::Related, _) => (Some(Bucket::Normal), 0.0),
                (Relevance::None, _) => (Some(Bucket::Low), 0.0),
            };
            link.clues = None;
        }
    }
}

impl Handler for Trial<'_> {
    type Product = Product;
    type Error = StoreError;

    fn processor(&self) -> Processor<Product> {
        let reader = Arc::clone(&self.reader);
        Arc::new(move |task: &Task, fetched| reader.read(task, fetched))
    }

    fn admission(&mut self, frontier: &mut Frontier, _: u64) -> Result<Admission, StoreError> {
        Ok(if frontier.counts().fetches < self.fetches {
            Admission::Lease
        } else {
            Admission::End
        })
    }

    fn complete(
        &mut self,
        frontier: &mut Frontier,
        completion: Completion<Product>,
        now: u64,
    ) -> Result<(), StoreError> {
        let Completion {
            task,
            outcome,
            product,
            elapsed,
            ..
        } = completion;
        let written = || Ok::<_, StoreError>(Vec::new());
        match task.kind {
            TaskKind::Robots => {
                let body = match product {
                    Some(Product::Robots(body)) => Some(body),
                    _ => None,
                };
                let answer = RobotsAnswer::of(&outcome, body);
                frontier.finish_robots(&task, answer, elapsed, now, |_| written())?;
                return Ok(());
            }
            TaskKind::Tdmrep => {
                let body = match product {
                    Some(Product::Tdmrep(body)) => Some(body),
                    _ => None,
                };
                frontier.finish_tdmrep(&task, &outcome, body, elapsed, now, |_| written())?;
                return Ok(());
            }
            TaskKind::Page => self.fetched.push(task.url.as_str().to_owned()),
            TaskKind::Image | TaskKind::Sitemap => {}
        }
        let mut effects = Effects::default();
        let on_topic = self.labels.on_topic(task.url.as_str(), self.topic);
        if let Some(Product::Page(mut page)) = product {
            if let Some(web) = self.oracle {
                self.foresee(web, &mut page);
            }
            page.give(&mut effects);
            let images = std::mem::take(&mut effects.images);
            if on_topic {
                self.images
                    .extend(images.into_iter().map(|image| image.url));
            }
        }
        frontier.finish(&task, outcome, effects, elapsed, now, |_| {
            Ok::<_, StoreError>(Written::default())
        })?;
        let fetches = frontier.counts().fetches;
        self.witness.fetched(fetches, frontier.focus(), on_topic);
        Ok(())
    }

    fn round(&mut self, _: &Frontier) {}
}
