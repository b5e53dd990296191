//! The daemon: builds the parts of a job from its config, lets them run, drains.
//!
//! Signals arrive here, and only here: the first SIGINT or SIGTERM stops leasing
//! and lets what is in flight finish; a second one ends the process at once,
//! which costs nothing but the work in flight.

mod nothing;
mod service;
mod view;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nothing::Troubles;
use service::Service;
use tokio::runtime::{Handle, Runtime};

use crate::checkpoint::{self, Exports, OpenError, OpenJob};
use crate::config::{Boundaries as BoundariesChoice, Config, ConfigErrors, ContactMissing};
use crate::config::{StrategyKind, StrategySection};
use crate::control::{self, AccessError, Changes, Desk, MakeReader, Ratings, Who};
use crate::explain::Terms;
use crate::extract;
use crate::fetch::{self, Fetcher, SetupError};
use crate::frontier::store::StoreError;
use crate::frontier::{self, Counts, Focus, Frontier, ImageLedger, ImagesLeft};
use crate::metrics::{Metrics, MetricsError};
use crate::pipeline::{
    Control, Crawl, CrawlError, End, ImageRules, Languages, Learned, Pace, Reader, Reading,
    Standing, Stop, Stopper, drive, now, room_for,
};
use crate::ready::{self, Ready};
use crate::score::{
    Boundaries, BoundariesError, Calibration, PageObserver, Scorer, Strategy, Weights,
};
use crate::store::Row;
use crate::train::{self, Growth, Model, ModelFacts, TrainError};

pub use nothing::Fruitless;

/// Bodies in memory above which nothing more is leased, in bytes.
const MAX_BYTES_IN_FLIGHT: u64 = 128 * 1024 * 1024;

/// Why a job cannot run.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The job names nobody who answers for it.
    #[error(transparent)]
    Contact(#[from] ContactMissing),
    /// Something that the job needs is missing or wrong.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// The model cannot be trained or loaded.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// The client cannot be built.
    #[error(transparent)]
    Fetch(#[from] SetupError),
    /// The job's folder cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The configured boundaries do not ascend.
    #[error(transparent)]
    Boundaries(#[from] BoundariesError),
    /// The metrics cannot be made.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// The log cannot be written.
    #[error(
        "{}: the log cannot be written there: {why}; set logs.level = \"off\" to do without",
        folder.display()
    )]
    Log {
        /// The folder of the logs.
        folder: PathBuf,
        /// What the system said.
        why: String,
    },
    /// The crawl failed on the way.
    #[error(transparent)]
    Crawl(#[from] CrawlError),
    /// The store failed at the end.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The control API must not, or cannot, be opened as the job says.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// Every request would have failed in the same way.
    #[error("stopped, and nothing is lost: {0}")]
    Hopeless(String),
    /// The async runtime cannot be started.
    #[error("the async runtime cannot be started: {0}")]
    Runtime(std::io::Error),
}

/// What a run came to.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Why it ended.
    pub end: End,
    /// Who stopped it, where it was stopped.
    pub stop: Option<Stop>,
    /// How much of everything there was when this run began.
    pub before: Counts,
    /// How much of everything there is, over all runs.
    pub counts: Counts,
    /// What was found by score and what by chance, over all runs.
    pub focus: Focus,
    /// Time spent crawling before this run.
    pub active_before: Duration,
    /// Time spent crawling, over all runs.
    pub active: Duration,
    /// Why the seeds brought nothing, where no run has fetched a page.
    pub nothing: Vec<Fruitless>,
    /// Hosts with something queued, and how many of them are given up for now.
    pub hosts: (usize, usize),
    /// The account of the images, over all runs.
    pub images: ImageLedger,
    /// What of the images is still to be had.
    pub images_left: ImagesLeft,
    /// The job's folder.
    pub folder: PathBuf,
}

/// What a run tells people on the way.
pub trait Observer {
    /// The job is open, its folder is there and nobody else works in it.
    ///
    /// # Errors
    /// Ends the run before anything is asked.
    fn opened(&mut self, _folder: &Path) -> Result<(), DaemonError> {
        Ok(())
    }
    /// A step, in words.
    fn say(&mut self, text: &str);
    /// A finished task, or merely that time has passed.
    fn crawl(&mut self, frontier: &Frontier, row: Option<&Row<'_>>, standing: &Standing);
}

/// The runtime that requests and CPU work run on.
///
/// # Errors
/// [`DaemonError::Runtime`].
pub fn runtime() -> Result<Runtime, DaemonError> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(DaemonError::Runtime)
}

/// Trains the job's model, also where one is there.
///
/// # Errors
/// [`DaemonError::Config`] and [`DaemonError::Train`]; an earlier model stays as it was.
pub fn train(
    config: &Config,
    runtime: &Handle,
    observer: &mut dyn Observer,
) -> Result<Model, DaemonError> {
    ready::for_training(config)?;
    let fetcher = || fetcher(config, runtime);
    Ok(train::train(config, runtime, fetcher, &mut |text| {
        observer.say(text);
    })?)
}

/// The client for a job's training pages.
///
/// # Errors
/// [`TrainError`] where the job has no contact or the client cannot be built.
pub fn fetcher(config: &Config, runtime: &Handle) -> Result<Fetcher, TrainError> {
    let _entered = runtime.enter();
    Ok(Fetcher::new(fetch_options(config)?)?)
}

/// Trains a new model from the best pages that the job has crawled.
///
/// # Errors
/// [`DaemonError::Train`]; an earlier model stays as it was.
pub fn train_from_job(
    config: &Config,
    growth: &Growth,
    runtime: &Handle,
    observer: &mut dyn Observer,
) -> Result<Model, DaemonError> {
    ready::for_training(config)?;
    let fetcher = || fetcher(config, runtime);
    let say = &mut |text: &str| observer.say(text);
    Ok(train::train_from_job(
        config, growth, runtime, fetcher, say,
    )?)
}

/// Loads the job's model, or trains it where it is missing.
///
/// # Errors
/// [`DaemonError::Train`].
pub fn model(
    config: &Config,
    runtime: &Handle,
    observer: &mut dyn Observer,
) -> Result<Model, DaemonError> {
    let folder = config.model_folder();
    if Model::exists(&folder) {
        observer.say(&format!("model {} found", folder.display()));
        Ok(Model::load(&folder)?)
    } else {
        observer.say(&format!("no model in {}: training", folder.display()));
        train(config, runtime, observer)
    }
}

/// What answers questions about the crawl that is or will be given `control` and `config`.
pub fn desk(config: &Config, control: &Control) -> Desk {
    Desk::new(control, terms(config), config)
}

/// Crawls until a limit, until nothing is left, or until `control` or a signal
/// stops it. Must be called on a thread that may block.
///
/// # Errors
/// [`DaemonError`]; everything committed until then is kept, and the job resumes.
pub fn crawl(
    config: &Config,
    runtime: &Handle,
    observer: &mut dyn Observer,
    mut control: Control,
    desk: Desk,
) -> Result<Summary, DaemonError> {
    let Ready { seeds, warnings } = ready::for_crawl(config)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let watch = config.seeds.watch.iter();
    let watch: Vec<_> = watch.map(|w| (w.url.clone(), w.every)).collect();
    let entrance = view::open(config, observer)?;
    let mut served = control::serve(runtime, desk.clone(), entrance);
    let model = model(config, runtime, &mut view::Told::of(observer, &desk))?;
    let metrics = Metrics::new()?;
    let learned = Learned::new(&config.strategy, model.contrast.as_ref());
    let reading = Reading::from(reader(config, &model, metrics.clone(), &learned)?);
    let fetcher = {
        let _entered = runtime.enter();
        Fetcher::new(fetch_options(config)?)?
    };
    let OpenJob {
        mut frontier,
        outputs,
        resumed,
        lock,
    } = checkpoint::open(config, now())?;
    let folder = config.job_folder();
    let before = frontier.counts().clone();
    let active_before = Duration::from_millis(frontier.active());
    observer.opened(&folder)?;
    observer.say(&match resumed {
        true => format!(
            "resuming {}: {} pages done, {} queued",
            folder.display(),
            frontier.counts().documents,
            frontier.counts().queued_pages()
        ),
        false => format!("beginning {}", folder.display()),
    });
    frontier.set_rating(reading.now())?;
    desk.set_ratings(Ratings::new(
        reading.clone(),
        remaker(model, metrics.clone(), learned),
    ));
    frontier.catch_up_takedowns(now())?;
    frontier.add_seeds(&seeds, now())?;
    frontier.watch(&watch, now())?;
    let pace = Pace {
        concurrency: room_for(config.network.concurrency),
        max_bytes: MAX_BYTES_IN_FLIGHT,
        checkpoint: config.checkpoint.interval,
        drain: config.checkpoint.drain,
    };
    desk.begin(runtime, metrics);
    watch_signals(runtime, control.stopper());
    let mut exports = Exports::new(config, &frontier, now());
    if let Some(since) = control::paused(&folder) {
        control.begin_paused();
        let text = format!("the job is paused {since}; `spoor ctl JOB resume` lets it go on");
        tracing::warn!("{text}");
        observer.say(&text);
    }
    if let Err(error) = served.open_socket(runtime, &folder) {
        tracing::warn!(
            "{}: no control channel: {error}; the crawl goes on, but `spoor ctl` cannot \
             reach it",
            folder.display()
        );
    }
    let mut service = Service::ready();
    let watch = control.watch();
    let mut troubles = Troubles::default();
    let watching = desk.clone();
    let mut progress = |frontier: &Frontier, row: Option<&Row<'_>>| {
        if row.is_none() {
            exports.round(frontier, now());
            service.round(|| {
                let counts = frontier.counts();
                let queued = counts.queued_pages() + counts.queued_images;
                let Counts {
                    documents, images, ..
                } = counts;
                format!("{documents} pages, {images} images, {queued} queued")
            });
        }
        troubles.observe(frontier, row);
        desk.observe(frontier, row);
        observer.crawl(frontier, row, &watch.now());
    };
    let mut crew = Crawl::new(reading, outputs, control::limits(config), &mut progress);
    let driven = drive(runtime, &mut frontier, &fetcher, &pace, control, &mut crew);
    let stop = match driven {
        Ok(stop) => stop,
        Err(error) => {
            let error = DaemonError::from(error);
            watching.end(&frontier, Err(&error.to_string()));
            served.close(runtime);
            return Err(error);
        }
    };
    let end = match (stop, crew.limit_reached()) {
        (Some(_), _) => End::Stopped,
        (None, Some(limit)) => End::Limit(limit),
        (None, None) => End::Exhausted,
    };
    let hopeless = watch.now().hopeless;
    watching.end(&frontier, hopeless.as_deref().map_or(Ok(end), Err));
    let nothing = match frontier.counts().documents {
        0 => troubles.of_seeds(&frontier, &terms(config), &seeds)?,
        _ => Vec::new(),
    };
    let summary = Summary {
        end,
        stop,
        before,
        active_before,
        nothing,
        counts: frontier.counts().clone(),
        focus: frontier.focus(),
        active: Duration::from_millis(frontier.active()),
        hosts: frontier.hosts(),
        images: frontier.images().clone(),
        images_left: frontier.images_left()?,
        folder,
    };
    drop(exports);
    frontier.close()?;
    served.close(runtime);
    drop(lock);
    match hopeless {
        Some(why) => Err(DaemonError::Hopeless(why)),
        None => Ok(summary),
    }
}

/// What of a job's configuration is needed to explain what it does. Where its model is
/// not there, or cannot be read, the anchor threshold of the thesis stands for its own.
pub fn terms(config: &Config) -> Terms {
    let facts = ModelFacts::read(&config.model_folder());
    let calibration = facts.map(|facts| facts.calibration).unwrap_or_default();
    Terms {
        agent: config.network.user_agent.as_str().to_owned(),
        strategy: strategy(config),
        weights: weights(&config.strategy, &calibration),
        rating: None,
    }
}

/// From now on every SIGHUP has the crawl behind `desk` read its job file again. Not on
/// systems without that signal.
pub fn reload_on_hangup(runtime: &Handle, desk: Desk, job: &Path) {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let listening = {
            let _entered = runtime.enter();
            signal(SignalKind::hangup())
        };
        let Ok(mut hangups) = listening else {
            tracing::warn!("SIGHUP cannot be watched; use `spoor reload` instead");
            return;
        };
        let job = job.to_owned();
        let who = Who("SIGHUP".to_owned());
        runtime.spawn(async move {
            while hangups.recv().await.is_some() {
                let reloaded = match Config::load(&job) {
                    Ok(config) => desk.reload(&config, &who).await,
                    Err(errors) => Err(errors.into()),
                };
                match reloaded {
                    Ok(Changes { later, .. }) if later.is_empty() => {}
                    Ok(Changes { later, .. }) => {
                        let later = later.join(", ");
                        tracing::warn!("takes effect at the next start: {later}");
                    }
                    Err(error) => tracing::warn!("nothing is changed: {error}"),
                }
            }
        });
    }
    #[cfg(not(unix))]
    let _ = (runtime, desk, job);
}

/// The boundaries a job's buckets have.
///
/// # Errors
/// [`BoundariesError`] where they do not ascend.
pub fn boundaries(config: &Config, model: &Model) -> Result<Boundaries, BoundariesError> {
    let section = &config.buckets;
    let boundaries = match section.boundaries {
        BoundariesChoice::Auto => model.facts.calibration.boundaries,
        BoundariesChoice::Fixed => Boundaries {
            high: section.high,
            medium: section.medium,
            normal: section.normal,
            razor: section.razor,
        },
    };
    boundaries.validate()?;
    Ok(boundaries)
}

/// The weights of a job's ratings with a model of this calibration.
pub fn weights(section: &StrategySection, calibration: &Calibration) -> Weights {
    Weights {
        gamma_document: section.gamma_document,
        gamma_anchor: section.gamma_anchor,
        gamma_keyword: section.gamma_keyword,
        anchor_threshold: section.anchor_threshold.or(calibration.anchor_threshold),
    }
}

fn strategy(config: &Config) -> Strategy {
    match config.strategy.kind {
        StrategyKind::Unfocused => Strategy::Unfocused,
        StrategyKind::Document => Strategy::Document,
        StrategyKind::Link => Strategy::Link,
        StrategyKind::Learn => Strategy::Learn,
    }
}

/// Makes readers of the same model with other ratings, and with the keyword table as it
/// lies in the model's folder then; they count in the same `metrics`.
fn remaker(model: Model, metrics: Metrics, learned: Learned) -> MakeReader {
    Arc::new(move |config| {
        let model = Model {
            keywords: train::keywords_in(&model.folder).map_err(|e| e.to_string())?,
            ..model.clone()
        };
        reader(config, &model, metrics.clone(), &learned).map_err(|e| e.to_string())
    })
}

/// How many times as likely as held-out text a page is whose text the model was trained on.
const TRAINED: f64 = 5.0;

/// What reads bodies as a job says.
///
/// # Errors
/// [`DaemonError::Boundaries`].
pub fn reader(
    config: &Config,
    model: &Model,
    metrics: Metrics,
    learned: &Learned,
) -> Result<Reader, DaemonError> {
    let images = &config.images;
    let section = &config.strategy;
    let boundaries = boundaries(config, model)?;
    let scorer = Scorer::new(
        Arc::clone(&model.lm),
        model.keywords.clone(),
        weights(section, &model.facts.calibration),
        strategy(config),
    );
    let learns = section.kind == StrategyKind::Learn;
    let observer = PageObserver::new(model.contrast.clone(), boundaries.high, boundaries.medium)
        .only(&section.clues);
    Ok(Reader {
        extract: extract::Options {
            parents: images.parents,
            siblings: images.siblings,
            max_text_bytes: config.text.max_bytes.as_len(),
            max_nesting: config.text.max_nesting,
            max_image: (images.max_width, images.max_height),
            extractor: config.text.extractor,
            documents: config
                .text
                .documents
                .then_some(config.text.documents_extractor),
            ..extract::Options::default()
        },
        scorer: scorer.observing(match learns {
            true => observer.asking(learned.judge()),
            false => observer.of_pages_alone(),
        }),
        boundaries,
        learned: learns.then(|| learned.changed(section)),
        trained: model.facts.calibration.boundaries.high / TRAINED,
        images: ImageRules {
            enabled: images.enabled,
            min: (images.min_width, images.min_height),
            max: (images.max_width, images.max_height),
            max_aspect: images.max_aspect,
            min_bytes: images.min_bytes.as_len(),
        },
        sentences: config.text.sentences,
        documents: config.text.documents,
        languages: Languages {
            model: model.facts.language,
            permitted: config.text.languages.clone(),
            follow_foreign: config.text.follow_foreign,
        },
        obeyed: frontier::obeyed(&config.consent),
        metrics,
    })
}

fn fetch_options(config: &Config) -> Result<fetch::Options, ContactMissing> {
    let network = &config.network;
    Ok(fetch::Options {
        product: network.user_agent.as_str().to_owned(),
        contact: config.contact()?.as_str().to_owned(),
        http2: network.http2,
        connect_timeout: network.connect_timeout,
        read_timeout: network.read_timeout,
        total_timeout: network.total_timeout,
        page_cap: network.max_page_bytes.as_len(),
        image_cap: config.images.max_bytes.as_len(),
        // What shares a clock with others waits for it.
        booked: !config.politeness.address_delay.is_zero()
            || !config.politeness.domain_delay.is_zero()
            || config.politeness.connections_per_host > 1,
        requests_per_second: config.politeness.requests_per_second,
        bytes_per_second: config.politeness.bytes_per_second.map(|size| size.bytes()),
        allow_private: network.allow_private,
        connect_to: network.connect_to.clone(),
        extra_ca: network.extra_ca.clone(),
        proxy: network.proxy.clone(),
        ..fetch::Options::default()
    })
}

/// The first signal drains, the second one ends the process.
fn watch_signals(runtime: &Handle, stopper: Stopper) {
    // Listening begins here and not in the task, so that no signal comes before.
    let listening = {
        let _entered = runtime.enter();
        Signals::listen()
    };
    let Some(mut signals) = listening else {
        tracing::warn!("signals cannot be watched; end the process to stop, it resumes");
        return;
    };
    runtime.spawn(async move {
        if let Some(why) = signals.which().await {
            tracing::info!("stopping: what is in flight is finished; once more to end at once");
            service::stopping();
            stopper.stop(why);
            if let Some(again) = signals.which().await {
                std::process::exit(match again {
                    Stop::Terminated => 143,
                    _ => 130,
                });
            }
        }
    });
}

/// SIGINT and SIGTERM, listened to from the beginning so that none is missed
/// between two.
#[cfg(unix)]
pub struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    /// Begins to listen, inside a runtime; `None` where the system refuses.
    pub fn listen() -> Option<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Some(Self {
            interrupt: signal(SignalKind::interrupt()).ok()?,
            terminate: signal(SignalKind::terminate()).ok()?,
        })
    }

    /// Waits for the next one; false where none can come any more.
    pub async fn next(&mut self) -> bool {
        self.which().await.is_some()
    }

    /// The same, and says which it was.
    async fn which(&mut self) -> Option<Stop> {
        tokio::select! {
            got = self.interrupt.recv() => got.map(|()| Stop::Interrupted),
            got = self.terminate.recv() => got.map(|()| Stop::Terminated),
        }
    }
}

/// Ctrl-C.
#[cfg(not(unix))]
pub struct Signals;

#[cfg(not(unix))]
impl Signals {
    /// Begins to listen, inside a runtime; `None` where the system refuses.
    pub fn listen() -> Option<Self> {
        Some(Self)
    }

    /// Waits for the next one; false where none can come any more.
    pub async fn next(&mut self) -> bool {
        self.which().await.is_some()
    }

    async fn which(&mut self) -> Option<Stop> {
        let got = tokio::signal::ctrl_c().await;
        got.is_ok().then_some(Stop::Interrupted)
    }
}
