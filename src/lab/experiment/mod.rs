//! Experiments: crawls of one stored web with different settings, side by side.
//!
//! ```text
//!  plan (TOML) --> runs: topic x beginning x variant x lines x seed --> harvests --> table, plot
//!                          each: frontier, ratings, a stored web instead of the network
//! ```
//!
//! A run is a crawl as in [`spoor::crawl::pipeline`] but without the network and with its own
//! clock, so its harvest depends only on the plan and the web. Fetched pages are judged by labels.
//! Only the *oracle* sees them: it follows links to pages of the topic first, which no real crawl
//! can do, and so gives an upper bound.
//!
//! Reading order: `plan` (the runs), `sizes` (texts cut to a number of lines), `web` (the stored
//! responses; those of WARC files by `warc`), `trial` (one run), `at_once` (its requests, one or
//! several at once), `clustered` (one run of several machines, each with its own store), `claims`
//! (claimed and true shares), `harvest` (the results, as table and plot), `by_lines` (the results
//! by amount of text).

mod at_once;
mod by_lines;
mod claims;
mod clustered;
mod harvest;
mod plan;
mod sizes;
#[cfg(test)]
mod tests;
mod trial;
mod warc;
mod web;

use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::{LabError, Labels};
use spoor::cluster::links::EnvelopeError;
use spoor::config::{Config, FileErrors};
use spoor::crawl::train::{self, TrainError};
use spoor::daemon::DaemonError;
use spoor::frontier::CellsError;
use spoor::frontier::store::StoreError;
use spoor::fs::IoError;
use spoor::fs::atomic;
use spoor::progress::Step;
use spoor::topic::lm;
use spoor::topic::model::Model;

pub use claims::{Beside, Claim};
pub use harvest::{Harvest, Outcome};
pub use plan::{Plan, TopicPlan, Variant};
pub use warc::ArchiveError;
pub use web::{Web, WebError};

use sizes::SizedTopic;

/// Why an experiment cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// A file or folder cannot be read or written.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The plan is invalid.
    #[error("{}: {why}", path.display())]
    Plan {
        /// The plan.
        path: PathBuf,
        /// The problem, and what to write instead.
        why: String,
    },
    /// The job that the plan defines for a run is invalid.
    #[error("{0}; these keys are under `job` of the plan or of a variant")]
    Job(#[from] FileErrors),
    /// The web cannot be opened.
    #[error(transparent)]
    Web(#[from] WebError),
    /// The labels cannot be read.
    #[error(transparent)]
    Labels(#[from] LabError),
    /// No model could be trained.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// The parts of a crawl cannot be created.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// The frontier's store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A crawl cannot be divided among machines.
    #[error(transparent)]
    Cells(#[from] CellsError),
    /// A message between simulated machines cannot be written or read.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
}

/// One run: its crawl and its model.
struct ExperimentRun<'a> {
    topic: &'a TopicPlan,
    begin: &'a str,
    /// How many lines of the texts about the topic; `None` for all.
    lines: Option<u64>,
    /// `None` for the oracle.
    variant: Option<&'a Variant>,
    seed: u64,
    config: Config,
    model: Arc<Model>,
}

/// Runs a plan and writes `table.md`, `table.tsv`, `runs.json` and plots for each topic
/// and beginning into its folder. `say` is called with each step, in words, on any thread.
/// Must be called on a thread that may block.
///
/// # Errors
///
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
    let sizes = sizes::sized(plan)?;
    let web = Web::open(&plan.web)?;
    let runs = runs(plan, &sizes.topics, runtime, say)?;
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
                // No further run is started.
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
    let harvests = harvests.into_iter().map(|(_, harvest)| harvest);
    let outcome = Outcome::new(plan, sizes.texts, harvests.collect());
    write(plan, &outcome)?;
    Ok(outcome)
}

/// All runs in order, each with its model; missing models are trained first.
fn runs<'a>(
    plan: &'a Plan,
    topics: &'a [Vec<SizedTopic>],
    runtime: &tokio::runtime::Handle,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Vec<ExperimentRun<'a>>, ExperimentError> {
    let mut models: Vec<(PathBuf, Arc<Model>)> = Vec::new();
    let mut runs = Vec::new();
    for (begin, sizes) in topics.iter().flat_map(|sizes| {
        let begins = sizes.last().map(|whole| whole.topic.begin.keys());
        begins
            .into_iter()
            .flatten()
            .map(move |begin| (begin, sizes))
    }) {
        let oracle = plan.oracle.then_some(None);
        for variant in oracle.into_iter().chain(plan.variant.iter().map(Some)) {
            // The oracle depends neither on chance nor on the text.
            let (sizes, seeds) = match variant {
                Some(_) => (sizes.as_slice(), plan.seeds.as_slice()),
                None => (last(sizes), first(&plan.seeds)),
            };
            for (SizedTopic { lines, topic }, seed) in sizes
                .iter()
                .flat_map(|size| seeds.iter().map(move |seed| (size, seed)))
            {
                let config = plan.job(topic, begin, variant, *seed)?;
                let folder = config.model_folder();
                let known = models.iter().find(|(at, _)| *at == folder);
                let model = match known {
                    Some((_, model)) => Arc::clone(model),
                    None => {
                        let model = model(&config, runtime, say);
                        let model = Arc::new(
                            model.map_err(|error| too_little(plan, &topic.name, *lines, error))?,
                        );
                        models.push((folder, Arc::clone(&model)));
                        model
                    }
                };
                runs.push(ExperimentRun {
                    topic,
                    begin,
                    lines: *lines,
                    variant,
                    seed: *seed,
                    config,
                    model,
                });
            }
        }
    }
    Ok(runs)
}

fn first<T>(all: &[T]) -> &[T] {
    all.get(..1).unwrap_or_default()
}

fn last<T>(all: &[T]) -> &[T] {
    let from = all.len().saturating_sub(1);
    all.get(from..).unwrap_or_default()
}

/// Suggests a change to the plan if a text is too small for a model, because training itself
/// suggests an option of another command.
fn too_little(plan: &Plan, topic: &str, lines: Option<u64>, error: TrainError) -> ExperimentError {
    let (sentences, needed) = match (&error, lines) {
        (TrainError::TooLittle { sentences, needed }, _) => (*sentences, *needed),
        (TrainError::EmptyCorpus { .. }, Some(_)) => (0, 1),
        _ => return error.into(),
    };
    let (what, more) = match lines {
        Some(lines) => (
            format!("with `lines` at {lines} the texts"),
            "name larger sizes in `lines`",
        ),
        None => ("the texts".to_owned(), "name more texts in `positive`"),
    };
    let or = match sentences {
        0 => String::new(),
        _ => format!(", or allow it by `train.min_sentences = {sentences}` under `[job]`"),
    };
    ExperimentError::Plan {
        path: plan.path.clone(),
        why: format!(
            "{what} about the topic `{topic}` hold {sentences} sentences of {} words or more, and \
             a model needs {needed}; {more}{or}",
            lm::MIN_TOKENS
        ),
    }
}

fn model(
    config: &Config,
    runtime: &tokio::runtime::Handle,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Model, TrainError> {
    let folder = config.model_folder();
    if Model::exists(&folder) {
        say(&format!("model {} found", folder.display()));
        return Ok(Model::load(&folder)?);
    }
    say(&format!("training {}", folder.display()));
    let fetcher = || -> Result<spoor::fetch::Fetcher, TrainError> {
        // An experiment fetches nothing.
        Err(TrainError::NoSources)
    };
    train::train(config, runtime, fetcher, &mut |_| {})
}

fn write(plan: &Plan, outcome: &Outcome) -> Result<(), ExperimentError> {
    let folder = &plan.out;
    std::fs::create_dir_all(folder).map_err(IoError::at(folder, "making the folder"))?;
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        atomic::write(&path, |out| out.write_all(text.as_bytes()))
            .map_err(IoError::at(&path, "writing"))
    };
    file("table.md", &outcome.markdown())?;
    file("table.tsv", &outcome.tsv())?;
    file("runs.json", &outcome.json())?;
    for (name, svg) in outcome.plots() {
        file(&format!("{name}.svg"), &svg)?;
    }
    Ok(())
}
