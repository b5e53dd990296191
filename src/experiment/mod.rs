//! Experiments: the same crawls with other settings, side by side, over one stored web.
//!
//! ```text
//!  plan (TOML) --> runs: topic x beginning x variant x seed --> harvests --> table, plot
//!                          each: frontier, ratings, a stored web instead of the network
//! ```
//!
//! A run is a crawl as [`crate::pipeline`] does it but for the network, by a clock of its
//! own, so its harvest depends on the plan and the web alone. Labels judge what was
//! fetched, and nothing of a crawl sees them but the *oracle*: a walk that follows links
//! to pages of the topic first, which no crawl can, and that bounds what one could find.
//!
//! Reading order: `plan` (what is run), `web` (the stored answers; those of WARC files by
//! `archive`), `trial` (one run), `claims` (what it says of itself, beside the truth),
//! `harvest` (what the runs found, as table and plot).

mod archive;
mod claims;
mod harvest;
mod plan;
#[cfg(test)]
mod tests;
mod trial;
mod web;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::atomic;
use crate::config::{Config, ConfigErrors};
use crate::daemon::DaemonError;
use crate::frontier::store::StoreError;
use crate::lab::{LabError, Labels};
use crate::steps::Step;
use crate::train::{self, Model, TrainError};

pub use archive::ArchiveError;
pub use claims::{Beside, Claim};
pub use harvest::{Harvest, Outcome};
pub use plan::{Plan, TopicPlan, Variant};
pub use web::{Web, WebError};

/// Why an experiment cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// A file or folder cannot be read or written.
    #[error("{}: {what} failed: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was attempted.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The plan says something that makes no sense.
    #[error("{}: {why}", path.display())]
    Plan {
        /// The plan.
        path: PathBuf,
        /// What is wrong and what to write instead.
        why: String,
    },
    /// The job that the plan makes for a run is no valid one.
    #[error("{0}; these keys stand under `job` of the plan or of a variant")]
    Job(#[from] ConfigErrors),
    /// The web cannot be opened.
    #[error(transparent)]
    Web(#[from] WebError),
    /// The labels cannot be read.
    #[error(transparent)]
    Labels(#[from] LabError),
    /// No model could be made.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// The parts of a crawl cannot be made.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// The frontier's store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn io(path: &Path, what: &'static str) -> impl FnOnce(std::io::Error) -> ExperimentError {
    let path = path.to_owned();
    move |source| ExperimentError::Io { path, what, source }
}

/// One run: which crawl, and by which model.
struct Run<'a> {
    topic: &'a TopicPlan,
    begin: &'a str,
    /// `None` for the oracle.
    variant: Option<&'a Variant>,
    seed: u64,
    config: Config,
    model: Arc<Model>,
}

/// Runs a plan and writes `table.md`, `table.tsv`, `runs.json` and a plot for each topic
/// and beginning into its folder. `say` is told of each step, for people, on any thread.
/// Must be called on a thread that may block.
///
/// # Errors
/// [`ExperimentError`], the first of all runs.
pub fn run(
    plan: &Plan,
    runtime: &tokio::runtime::Handle,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Outcome, ExperimentError> {
    let labels = Labels::read(&plan.labels)?;
    for topic in &plan.topic {
        if labels.known(&topic.name) == 0 {
            return Err(ExperimentError::Plan {
                path: plan.path.clone(),
                why: format!(
                    "{} has no page of the topic `{}`; correct the name or the labels",
                    plan.labels.display(),
                    topic.name
                ),
            });
        }
    }
    let web = Web::open(&plan.web)?;
    let runs = runs(plan, runtime, say)?;
    say(&format!(
        "{} crawls of {} fetches",
        runs.len(),
        plan.fetches
    ));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let harvests = Mutex::new(Vec::new());
    let step = Mutex::new(Step::begin("crawling", Some(runs.len() as u64)));
    let worker = || -> Result<(), ExperimentError> {
        while let Some((number, run)) = {
            let number = next.fetch_add(1, Ordering::Relaxed);
            runs.get(number).map(|run| (number, run))
        } {
            let harvest = trial::crawl(plan, run, &web, &labels).inspect_err(|_| {
                // Nobody begins another run.
                next.store(runs.len(), Ordering::Relaxed);
            })?;
            say(&harvest.line());
            step.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .advance(1);
            let mut harvests = harvests.lock().unwrap_or_else(PoisonError::into_inner);
            harvests.push((number, harvest));
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores.min(runs.len()))
            .map(|_| scope.spawn(worker))
            .collect();
        let ended = workers.into_iter().map(|w| match w.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.collect::<Result<(), _>>()
    })?;
    drop(step);
    let mut harvests = harvests
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    harvests.sort_by_key(|(number, _)| *number);
    let outcome = Outcome::new(plan, harvests.into_iter().map(|(_, h)| h).collect());
    write(plan, &outcome)?;
    Ok(outcome)
}

/// All runs in order, each with its model; what is missing is trained first.
fn runs<'a>(
    plan: &'a Plan,
    runtime: &tokio::runtime::Handle,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Vec<Run<'a>>, ExperimentError> {
    let mut models: Vec<(PathBuf, Arc<Model>)> = Vec::new();
    let mut runs = Vec::new();
    for topic in &plan.topic {
        for begin in topic.begin.keys() {
            let oracle = plan.oracle.then_some(None);
            for variant in oracle.into_iter().chain(plan.variant.iter().map(Some)) {
                // Chance has no part in the oracle.
                let seeds = plan.seeds.iter().take(match variant {
                    Some(_) => usize::MAX,
                    None => 1,
                });
                for seed in seeds {
                    let config = plan.job(topic, begin, variant, *seed)?;
                    let folder = config.model_folder();
                    let known = models.iter().find(|(at, _)| *at == folder);
                    let model = match known {
                        Some((_, model)) => Arc::clone(model),
                        None => {
                            let model = Arc::new(model(&config, runtime, say)?);
                            models.push((folder, Arc::clone(&model)));
                            model
                        }
                    };
                    runs.push(Run {
                        topic,
                        begin,
                        variant,
                        seed: *seed,
                        config,
                        model,
                    });
                }
            }
        }
    }
    Ok(runs)
}

fn model(
    config: &Config,
    runtime: &tokio::runtime::Handle,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Model, ExperimentError> {
    let folder = config.model_folder();
    if Model::exists(&folder) {
        say(&format!("model {} found", folder.display()));
        return Ok(Model::load(&folder)?);
    }
    say(&format!("training {}", folder.display()));
    let fetcher = || -> Result<crate::fetch::Fetcher, TrainError> {
        // An experiment asks nobody.
        Err(TrainError::NoSources)
    };
    Ok(train::train(config, runtime, fetcher, &mut |_| {})?)
}

fn write(plan: &Plan, outcome: &Outcome) -> Result<(), ExperimentError> {
    let folder = &plan.out;
    std::fs::create_dir_all(folder).map_err(io(folder, "making the folder"))?;
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        atomic::write(&path, |out| out.write_all(text.as_bytes())).map_err(io(&path, "writing"))
    };
    file("table.md", &outcome.markdown())?;
    file("table.tsv", &outcome.tsv())?;
    file("runs.json", &outcome.json())?;
    for (name, svg) in outcome.plots() {
        file(&format!("{name}.svg"), &svg)?;
    }
    Ok(())
}
