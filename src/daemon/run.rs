//! Runs a job: opens it, crawls until it ends, and reports the result.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::error::DaemonError;
use super::machine::{self, Machine};
use super::nothing::{Fruitless, Troubles};
use super::observer::{self, Observer};
use super::service::Service;
use super::signals::watch_signals;
use super::wiring::{fetch_options, identity, model, reader, remaker, terms};
use crate::address::PageUrl;
use crate::clock::now;
use crate::config::Config;
use crate::control::{self, ControlHandle, RatingReloader, Served, Stage, Status};
use crate::crawl::checkpoint::{self, Backups, OpenError, OpenJob};
use crate::crawl::metrics::Metrics;
use crate::crawl::pipeline::{
    Companion, Control, Crawl, End, LoopOptions, Reading, Stop, USUAL_WAIT, drive, fit_open_files,
};
use crate::crawl::saved::{self, Keeper, SaveError, Session, TakeOver};
use crate::fetch::{self, Fetcher};
use crate::frontier::store::changes::Changes;
use crate::frontier::{Cells, Counts, Focus, ImageLedger, ImagesLeft};
use crate::outputs::{Outputs, Row};
use crate::ready::{self, Ready};
use crate::settings;
use crate::topic::strategy::Learned;

/// Size of all bodies in memory above which nothing more is leased, in bytes.
const MAX_BYTES_IN_FLIGHT: u64 = 128 * 1024 * 1024;

/// How long a checkpoint waits for the crawl to flush what it has committed.
const LONGEST_FLUSH: Duration = Duration::from_secs(30);

/// The result of a run.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Why it ended.
    pub end: End,
    /// The reason for stopping, if it was stopped.
    pub stop: Option<Stop>,
    /// The figures at the start of this run.
    pub before: Status,
    /// The figures at its end, over all runs. On a machine of a cluster the counters are those of
    /// the hosts that it had then, including pages that other machines fetched; `machine` is its
    /// own work.
    pub status: Status,
    /// The counts of pages found by score and by chance, over all runs.
    pub focus: Focus,
    /// Why the seeds yielded nothing, if no run has fetched a page.
    pub nothing: Vec<Fruitless>,
    /// The image ledger, over all runs.
    pub images: ImageLedger,
    /// The images still to fetch.
    pub images_left: ImagesLeft,
    /// Whether a run fetches them after its last page.
    pub finishes_images: bool,
    /// The job's folder.
    pub folder: PathBuf,
    /// Whether other machines crawl the job as well.
    pub is_shared: bool,
    /// The limits at the end; they may have changed during the run.
    pub limits: settings::Limits,
}

/// Answers questions about the crawl that has, or will have, `control` and `config`.
pub fn control_handle(config: &Config, control: &Control) -> ControlHandle {
    ControlHandle::new(control, terms(config), config)
}

/// Crawls until a limit is reached, nothing is left, or `control` or a signal stops it.
/// Call it on a thread that may block.
///
/// # Errors
/// [`DaemonError`]; everything committed before is kept, and the job can be resumed.
pub fn crawl(
    config: &Config,
    runtime: &Handle,
    observer: &mut dyn Observer,
    mut control: Control,
    desk: ControlHandle,
) -> Result<Summary, DaemonError> {
    // Checked before a model is trained for it.
    checkpoint::refuse_gathered(&config.job_folder())?;
    let mut run = CrawlRun {
        config,
        runtime,
        desk,
        observer,
    };
    // This comes first because the model may be in the checkpoint.
    let session = saved::prepare(config, TakeOver::IfDead, &mut |text| run.observer.say(text))?;
    let seeds = seeds(config)?;
    let entrance = observer::open(config, run.observer)?;
    let mut served = control::serve(runtime, run.desk.clone(), entrance);
    let metrics = Metrics::new()?;
    let (reading, ratings) = run.read_with(&metrics)?;
    // As late as possible, since it takes hosts.
    let (machine, lock) = machine::join(config, runtime, run.observer)?.unzip();
    let reports = machine
        .as_ref()
        .map(|machine| machine::show(machine, runtime, &run.desk));
    let fetcher = run.fetcher(machine.as_ref())?;
    // Dropped in reverse order: the lock goes last, even if an error ends the run.
    let OpenJob {
        lock,
        mut frontier,
        mut outputs,
        resumed,
        changes,
    } = open(config, lock)?;
    let (keeper, mut member) = match machine {
        Some(machine) => {
            outputs.shares_files();
            let (session, commits) = machine.checkpoints(config)?;
            let keeper = run.keeper(Some(session), changes, &mut outputs, &control)?;
            let seeds = machine::beginning(config, &seeds);
            let with = (&metrics, &mut frontier);
            let member = machine::member(machine, config, seeds, (keeper, commits), with)?;
            (None, Some(member))
        }
        None => (run.keeper(session, changes, &mut outputs, &control)?, None),
    };
    let before = run.desk.figures(&frontier, Stage::Starting, now());
    run.report_opening(&frontier, resumed)?;
    frontier.set_rating(reading.now())?;
    run.desk.set_ratings(ratings);
    if member.is_none() {
        take_up(&mut frontier, config, &seeds)?;
    }
    let options = options(config);
    run.desk.begin(metrics);
    watch_signals(runtime, control.stopper());
    run.let_in(&mut control, &mut served);
    if let Some(member) = &mut member {
        machine::obey(member, &run.desk, runtime, config);
    }
    let mut rounds = Rounds::begin(config, keeper, &frontier);
    let watch = control.watch();
    let mut troubles = Troubles::default();
    let desk = run.desk.clone();
    let mut progress = |frontier: &Cells, row: Option<&Row<'_>>| {
        if row.is_none() {
            rounds.round(frontier);
        }
        troubles.observe(frontier, row);
        desk.observe(frontier, row);
        run.observer.crawl(frontier, row, &watch.now());
    };
    let mut handler = Crawl::new(reading, outputs, control::limits(config), &mut progress)
        .beside(member.as_mut().map(|member| member as &mut dyn Companion));
    let driven = drive(
        runtime,
        &mut frontier,
        &fetcher,
        &options,
        control,
        &mut handler,
    );
    let in_force = runtime.block_on(desk.in_force());
    let stop = match driven {
        Ok(stop) => stop,
        Err(error) => {
            let error = DaemonError::from(error);
            desk.end(&frontier, Err(&error.to_string()), &in_force);
            served.close(runtime);
            return Err(error);
        }
    };
    let end = end_of(stop, handler.limit_reached());
    let hopeless = watch.now().hopeless;
    let ended = hopeless.as_deref().map_or(Ok(end), Err);
    let mut status = desk.end(&frontier, ended, &in_force);
    // The link has the token, and the summary goes to logs.
    status.link = None;
    let mut summary = summary(&frontier, (before, status), (end, stop), &in_force)?;
    // The summary must count the crawl's work before its cells go to others.
    machine::leave(&mut handler, &mut frontier, options.drain)?;
    if summary.status.pages == 0 && member.is_none() {
        summary.nothing = troubles.of_seeds(&frontier, &terms(config), &seeds)?;
    }
    let kept = rounds.end(&frontier);
    let kept = kept.and_then(|()| member.map_or(Ok(()), |member| member.end(&frontier)));
    frontier.close()?;
    drop(reports);
    served.close(runtime);
    drop(lock);
    kept?;
    match hopeless {
        Some(why) => Err(DaemonError::Hopeless(why)),
        None => Ok(summary),
    }
}

/// The valid seeds of a job.
fn seeds(config: &Config) -> Result<Vec<PageUrl>, DaemonError> {
    let Ready { seeds, warnings } = ready::for_crawl(config)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    Ok(seeds)
}

/// What all steps of a run need.
struct CrawlRun<'r> {
    config: &'r Config,
    runtime: &'r Handle,
    desk: ControlHandle,
    observer: &'r mut dyn Observer,
}

impl CrawlRun<'_> {
    /// The reader and ratings of pages, and the means to replace them during the crawl. Trains a
    /// model if there is none.
    fn read_with(&mut self, metrics: &Metrics) -> Result<(Reading, RatingReloader), DaemonError> {
        let (config, desk, observer) = (self.config, &self.desk, &mut *self.observer);
        let model = model(config, self.runtime, &mut |text| {
            desk.preparing(text);
            observer.say(text);
        })?;
        let learned = Learned::new(&config.strategy, model.contrast.as_ref());
        let reading = Reading::from(reader(config, &model, metrics.clone(), &learned)?);
        let remaker = remaker(model, metrics.clone(), learned);
        Ok((reading.clone(), RatingReloader::new(reading, remaker)))
    }

    fn fetcher(&self, machine: Option<&Machine>) -> Result<Fetcher, DaemonError> {
        let _entered = self.runtime.enter();
        let options = fetch::Options {
            term: machine.map(Machine::term),
            identity: identity(self.config).map_err(fetch::SetupError::from)?,
            ..fetch_options(self.config)?
        };
        Ok(Fetcher::new(options)?)
    }

    /// Keeps the checkpoint up to date, if the crawl has one elsewhere.
    fn keeper(
        &self,
        session: Option<Session>,
        changes: Option<Arc<Changes>>,
        outputs: &mut Outputs,
        control: &Control,
    ) -> Result<Option<Keeper>, DaemonError> {
        let (Some(mut session), Some(changes)) = (session, changes) else {
            return Ok(None);
        };
        session.watch(outputs.watch_restated());
        let stopper = control.stopper();
        let stop = move || stopper.stop(Stop::Told);
        let (asker, runtime) = (control.asker(), self.runtime.clone());
        let flush = move || {
            let flushed = async { tokio::time::timeout(LONGEST_FLUSH, asker.checkpoint()).await };
            // If the run has ended or is busy for this long, less is sent.
            drop(runtime.block_on(flushed));
        };
        let mut config = self.config.clone();
        if config.cluster.is_there() {
            config.checkpoint.every = config.cluster.checkpoint;
        }
        let keeper = Keeper::begin(session, changes, &config, flush, stop)?;
        self.desk.set_checkpoint(Box::new(keeper.reader()));
        Ok(Some(keeper))
    }

    fn report_opening(&mut self, frontier: &Cells, resumed: bool) -> Result<(), DaemonError> {
        let folder = self.config.job_folder();
        self.observer.opened(&folder)?;
        let folder = folder.display();
        self.observer.say(&if !resumed {
            format!("beginning {folder}")
        } else if self.config.cluster.is_there() {
            format!(
                "resuming {folder}; the hosts of this machine follow when the brokers confirm them"
            )
        } else {
            format!(
                "resuming {folder}: {} pages done, {} queued",
                frontier.counts().documents,
                frontier.counts().queued_pages()
            )
        });
        Ok(())
    }

    /// Opens the socket, and starts paused if the job is paused.
    fn let_in(&mut self, control: &mut Control, served: &mut Served) {
        let folder = self.config.job_folder();
        if let Some(since) = control::paused(&folder) {
            control.begin_paused();
            let text = format!("the job is paused {since}; `spoor ctl JOB resume` resumes it");
            tracing::warn!("{text}");
            self.observer.say(&text);
        }
        if let Err(error) = served.open_socket(self.runtime, &folder) {
            tracing::warn!(
                "{}: no control channel: {error}; the crawl continues, but `spoor ctl` cannot \
                 reach it",
                folder.display()
            );
        }
    }
}

/// Work in every round of the loop besides the crawl itself.
struct Rounds {
    keeper: Option<Keeper>,
    /// `None` if there are several cells, which cannot be exported.
    backups: Option<Backups>,
    service: Service,
}

impl Rounds {
    fn begin(config: &Config, keeper: Option<Keeper>, frontier: &Cells) -> Self {
        let whole = frontier.only().ok();
        let backups = whole.map(|whole| Backups::new(config, whole, now()));
        if backups.is_none() {
            tracing::info!("a frontier with several cells is not exported to checkpoints/");
        }
        Self {
            keeper,
            backups,
            service: Service::ready(),
        }
    }

    fn round(&mut self, frontier: &Cells) {
        self.keeper.iter().for_each(|keeper| keeper.round(frontier));
        if let (Ok(whole), Some(backups)) = (frontier.only(), &mut self.backups) {
            backups.round(whole, now());
        }
        self.service.round(|| tally(frontier.counts()));
    }

    /// Makes the last checkpoint.
    fn end(self, frontier: &Cells) -> Result<(), SaveError> {
        drop(self.backups);
        self.keeper.map_or(Ok(()), |keeper| keeper.end(frontier))
    }
}

/// Opens the job; if a lock is given, it is already locked.
fn open(config: &Config, lock: Option<File>) -> Result<OpenJob, OpenError> {
    match lock {
        Some(lock) => checkpoint::open_locked(config, lock, now()),
        None => checkpoint::open(config, now()),
    }
}

/// The options of the loop.
fn options(config: &Config) -> LoopOptions {
    LoopOptions {
        concurrency: fit_open_files(config.network.concurrency),
        max_bytes: MAX_BYTES_IN_FLIGHT,
        checkpoint: config.checkpoint.interval,
        drain: config.checkpoint.drain,
        longest_wait: if config.cluster.is_there() {
            machine::LONGEST_WAIT
        } else {
            USUAL_WAIT
        },
    }
}

/// Applies the changes of the job file since the last run to the frontier.
fn take_up(frontier: &mut Cells, config: &Config, seeds: &[PageUrl]) -> Result<(), DaemonError> {
    let watch = config.seeds.watch.iter();
    let watch: Vec<_> = watch.map(|w| (w.url.clone(), w.every)).collect();
    frontier.catch_up_takedowns(now())?;
    frontier.add_seeds(seeds, now())?;
    frontier.watch(&watch, now())?;
    Ok(())
}

fn end_of(stop: Option<Stop>, limit: Option<&'static str>) -> End {
    match (stop, limit) {
        (Some(_), _) => End::Stopped,
        (None, Some(limit)) => End::Limit(limit),
        (None, None) => End::Exhausted,
    }
}

fn tally(counts: &Counts) -> String {
    let queued = counts.queued_pages() + counts.queued_images;
    let Counts {
        documents, images, ..
    } = counts;
    format!("{documents} pages, {images} images, {queued} queued")
}

/// The result of a run that had these figures at its start.
fn summary(
    frontier: &Cells,
    (before, status): (Status, Status),
    (end, stop): (End, Option<Stop>),
    config: &Config,
) -> Result<Summary, DaemonError> {
    Ok(Summary {
        end,
        stop,
        before,
        status,
        focus: frontier.focus(),
        nothing: Vec::new(),
        images: frontier.images(),
        images_left: frontier.images_left()?,
        finishes_images: config.images.are_finished(),
        folder: config.job_folder(),
        is_shared: config.cluster.is_there(),
        limits: config.limits.clone(),
    })
}
