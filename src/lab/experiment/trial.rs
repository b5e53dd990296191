//! One run: a crawl over a stored web, with its results.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use super::at_once::AtOnce;
use super::claims::Witness;
use super::clustered;
use super::harvest::Harvest;
use super::plan::{Division, ORACLE, Plan};
use super::web::Web;
use super::{ExperimentError, ExperimentRun, Variant};
use crate::Labels;
use crate::judge::Relevance;
use spoor::address::PageUrl;
use spoor::crawl::checkpoint;
use spoor::crawl::metrics::Metrics;
use spoor::crawl::pipeline::{
    Admission, Completion, Handler, PageProduct, Processor, Product, Reader, Reply, replay_task,
};
use spoor::daemon;
use spoor::frontier::store::{self, StoreError};
use spoor::frontier::{CellId, Cells, Effects, Policy, Rating, RobotsAnswer, Written};
use spoor::fs::IoError;
use spoor::page::{Bucket, Task, TaskKind};
use spoor::settings::StoreKind;
use spoor::topic::strategy::Learned;
use spoor::web::scope::Scope;

/// The start of every run's clock, in milliseconds since 1970: 2026-01-01.
pub(super) const BEGINNING: u64 = 1_767_225_600_000;

/// Crawls.
pub(super) fn crawl(
    plan: &Plan,
    run: &ExperimentRun<'_>,
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
    let place = TrialPlace {
        kind: config.frontier.store,
        folder: folder.0.join("frontier"),
        policy: checkpoint::policy(config),
        scope: Scope::new(config.scope.clone()),
        rating: run.variant.map(|_| Arc::clone(&reader) as Arc<dyn Rating>),
        seeds: config.seeds.read()?,
    };
    let division = run.variant.map(Variant::division).transpose();
    let division = division.map_err(|why| ExperimentError::Plan {
        path: plan.path.clone(),
        why,
    })?;
    let division = division.flatten();
    // The oracle chooses by the labels and claims nothing.
    let is_whole = run.variant.is_some() && division.is_none();
    let topic = run.topic.name.as_str();
    let mut trial = Trial {
        reader,
        fetches: plan.fetches,
        labels,
        topic,
        oracle: run.variant.is_none().then_some(web),
        fetched: Vec::new(),
        images: HashSet::new(),
        witness: is_whole.then(|| Witness::new(&plan.marks_within())),
    };
    match division {
        None => place.crawl_whole(web, &mut trial, AtOnce::of(plan, run))?,
        Some(division) => match division.linger {
            None => place.crawl_divided(division, web, &mut trial)?,
            Some(linger) => clustered::crawl(place, division, linger, web, &mut trial)?,
        },
    }
    Ok(Harvest {
        topic: topic.to_owned(),
        begin: run.begin.to_owned(),
        lines: run.lines,
        variant: run.variant.map_or(ORACLE, |v| v.name.as_str()).to_owned(),
        seed: run.seed,
        curve: labels.curve(topic, &trial.fetched),
        images: trial.images.len(),
        claims: trial.witness.map_or_else(Vec::new, Witness::claims),
        seconds: begun.elapsed().as_secs_f64(),
    })
}

/// The place and the rules of a run.
pub(super) struct TrialPlace {
    pub kind: StoreKind,
    pub folder: PathBuf,
    pub policy: Policy,
    pub scope: Scope,
    /// `None` for the oracle.
    pub rating: Option<Arc<dyn Rating>>,
    pub seeds: Vec<PageUrl>,
}

impl TrialPlace {
    fn crawl_whole(
        self,
        web: &Web,
        trial: &mut Trial<'_>,
        at_once: AtOnce,
    ) -> Result<(), ExperimentError> {
        let store = store::open(self.kind, &self.folder)?;
        let mut frontier = Cells::alone(store, self.policy, self.scope, BEGINNING)?;
        if let Some(rating) = self.rating {
            frontier.set_rating(rating)?;
        }
        frontier.add_seeds(&self.seeds, BEGINNING)?;
        at_once.crawl(&mut frontier, web, trial)
    }

    /// Machines take turns, each with a task from its own cells of one store. Links to other cells
    /// arrive at once, and all machines know what one of them learns.
    fn crawl_divided(
        self,
        Division {
            machines, cells, ..
        }: Division,
        web: &Web,
        trial: &mut Trial<'_>,
    ) -> Result<(), ExperimentError> {
        let mut all = Cells::open(self.kind, &self.folder, cells, self.policy, self.scope)?;
        all.open_all(BEGINNING)?;
        if let Some(rating) = self.rating {
            all.set_rating(rating)?;
        }
        all.add_seeds(&self.seeds, BEGINNING)?;
        let is_of = |machine: u16| move |cell: &CellId| cell.number() % machines == machine;
        let owned: Vec<Vec<CellId>> = (0..machines)
            .map(|machine| cells.all().filter(is_of(machine)).collect())
            .collect();
        let processor = trial.processor();
        let mut now = BEGINNING;
        loop {
            let mut idle = true;
            for own in &owned {
                while all.rejudge(now)? {}
                if all.counts().fetches >= trial.fetches {
                    return Ok(());
                }
                let Some((_, task)) = all.lease(own, now)? else {
                    continue;
                };
                idle = false;
                let answer = &mut |task: &Task| reply(web, task);
                now = replay_task(&mut all, task, answer, trial, &processor, now)?;
                // There are no outputs.
                all.deliver(now, &mut |_| Ok::<_, StoreError>(Vec::new()))?;
            }
            if idle {
                match all.next_event() {
                    Some(at) => now = now.max(at).saturating_add(1),
                    None => return Ok(()),
                }
            }
        }
    }
}

pub(super) fn reply(web: &Web, task: &Task) -> Result<Reply, StoreError> {
    let (stored, dated) = (web.answer(task), None);
    Ok(Reply { stored, dated })
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

/// Handles the tasks of a run. It keeps only the fetched addresses.
pub(super) struct Trial<'a> {
    reader: Arc<Reader>,
    pub fetches: u64,
    labels: &'a Labels,
    topic: &'a str,
    /// The web, if links are chosen by their targets.
    oracle: Option<&'a Web>,
    /// In order, including failures and redirects, because each costs a fetch.
    fetched: Vec<String>,
    /// Images that pages of the topic embed.
    images: HashSet<PageUrl>,
    /// `None` if each cell would claim its own share.
    witness: Option<Witness>,
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
        Arc::new(move |task: &Task, fetched| reader.begin(task, fetched))
    }

    fn admission(&mut self, frontier: &mut Cells, _: u64) -> Result<Admission, StoreError> {
        Ok(if frontier.counts().fetches < self.fetches {
            Admission::Lease
        } else {
            Admission::End
        })
    }

    fn complete(
        &mut self,
        frontier: &mut Cells,
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
                frontier.of_task(&task, |cell| {
                    cell.finish_robots(&task, answer, elapsed, now, |_| written())
                })?;
                return Ok(());
            }
            TaskKind::Tdmrep | TaskKind::Rsl => {
                let body = match product {
                    Some(Product::TermsFile(body)) => Some(body),
                    _ => None,
                };
                frontier.of_task(&task, |cell| {
                    cell.finish_terms_file(&task, &outcome, body, elapsed, now, |_| written())
                })?;
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
        let written = |_: &_| Ok::<_, StoreError>(Written::default());
        frontier.of_task(&task, |cell| {
            cell.finish(&task, outcome, effects, elapsed, now, written)
        })?;
        let fetches = frontier.counts().fetches;
        if let Some(witness) = &mut self.witness {
            witness.fetched(fetches, frontier.focus(), on_topic);
        }
        Ok(())
    }

    fn round(&mut self, _: &mut Cells, _: u64) -> Result<(), Self::Error> {
        Ok(())
    }
}
