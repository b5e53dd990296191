//! Runs a job on an archive instead of the web.
//!
//! The results have a folder of their own, as if from a crawl. A replay that was killed continues
//! where it was; a folder with another crawl is refused.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::DaemonError;
use super::wiring::reader;
use crate::address::PageUrl;
use crate::archive::captures::Captures;
use crate::archive::chosen::Chosen;
use crate::archive::files::ArchiveFile;
use crate::clock::now;
use crate::config::Config;
use crate::control;
use crate::crawl::checkpoint::{self, OpenJob, TAKEDOWNS};
use crate::crawl::metrics::Metrics;
use crate::crawl::pipeline::{self, Caps, Crawl, Reading, ReplayTally, Shelf};
use crate::crawl::train::TrainError;
use crate::fetch::Options;
use crate::frontier::{Cells, Counts};
use crate::fs::{IoError, atomic, if_there};
use crate::outputs::Row;
use crate::settings::{Name, Recrawl};
use crate::topic::model::Model;
use crate::topic::strategy::Learned;

/// The file in the folder of a replay that names what is replayed.
const RECORD: &str = "replay.json";

/// How an archive is replayed.
#[derive(Debug, Clone)]
pub struct Replay {
    /// The archives, and which of their captures to use.
    pub from: Chosen,
    /// The folder for the results; by default next to the job's folder, with `-replay` appended to
    /// its name.
    pub output: Option<PathBuf>,
    /// Whether to follow links from the seeds instead of taking all pages.
    pub follow: bool,
    /// Whether nothing is written.
    pub dry_run: bool,
}

/// Receives the progress of a replay.
pub trait ReplayObserver {
    /// A step, in words.
    fn say(&mut self, text: &str);
    /// A finished task.
    fn row(&mut self, row: &Row<'_>);
    /// The progress so far.
    fn going(&mut self, going: Going<'_>);
}

/// The progress of a replay.
#[derive(Debug, Clone, Copy)]
pub struct Going<'g> {
    /// The counters, over all runs.
    pub counts: &'g Counts,
    /// How many bytes of the archive were read, and how many there are; `None` if links are
    /// followed, because the number of bytes to read is unknown.
    pub bytes: Option<(u64, u64)>,
    /// How often the archive was read before.
    pub passes: u64,
}

/// The result of a replay.
#[derive(Debug, Clone)]
pub struct Replayed {
    /// The folder with the results; `None` for a dry run.
    pub folder: Option<PathBuf>,
    /// The counters, over all runs.
    pub counts: Counts,
    /// The use of the archive's exchanges; `None` if links were followed.
    pub tally: Option<ReplayTally>,
    /// The limit of the job that ended it.
    pub limit: Option<&'static str>,
    /// How many responses the archive has.
    pub responses: usize,
    /// The size of its files in bytes.
    pub bytes: u64,
}

/// The sources of a folder of results.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Sources {
    follow: bool,
    files: Vec<SourceFile>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SourceFile {
    file: PathBuf,
    bytes: u64,
}

/// Replays archives with the settings of a job. Call it on a thread that may block.
///
/// # Errors
/// [`DaemonError`]; everything committed before is kept, and the replay can be resumed.
pub fn replay(
    config: &Config,
    how: &Replay,
    observer: &mut dyn ReplayObserver,
) -> Result<Replayed, DaemonError> {
    let model_folder = config.model_folder();
    if !Model::exists(&model_folder) {
        return Err(DaemonError::Refused(format!(
            "{}: the job has no model, and a replay fetches no texts to train on; run `spoor train \
             JOB` first",
            model_folder.display()
        )));
    }
    let seeds = config.seeds.read()?;
    if how.follow && seeds.is_empty() {
        let why =
            "the job has no seed, so there is nowhere to begin; list addresses under seeds.urls";
        return Err(DaemonError::Refused(why.to_owned()));
    }
    let sources = Sources::of(how)?;
    let scratch = how.dry_run.then(Scratch::new).transpose()?;
    let own = of_replay(config, how, scratch.as_ref())?;
    let folder = own.job_folder();
    if scratch.is_none() {
        sources.settle(&folder)?;
    }
    copy_takedowns(&config.job_folder(), &folder)?;
    observer.say("finding the responses of the archive");
    let captures = Captures::of_chosen(how.from.clone())?;
    if captures.is_empty() {
        let why = "these files have no response of a web server; give the WARC files of a crawl";
        return Err(DaemonError::Refused(why.to_owned()));
    }
    let (responses, bytes) = (captures.len(), captures.bytes());
    let shelf = Shelf::new(captures, caps(config));
    let model = Model::load(&model_folder).map_err(TrainError::from)?;
    let (counts, tally, limit) = run(&own, &shelf, &model, &seeds, how, observer)?;
    Ok(Replayed {
        folder: scratch.is_none().then_some(folder),
        counts,
        tally,
        limit,
        responses,
        bytes,
    })
}

/// The job without checkpoints elsewhere, since a replay has its archive, and with one cell: a
/// replay takes the pages in the order of the archive, in a folder of its own.
fn alone(config: &Config) -> Config {
    let mut config = config.clone();
    config.checkpoint.store = None;
    config.frontier.cells = 1;
    config
}

fn run(
    config: &Config,
    shelf: &Shelf,
    model: &Model,
    seeds: &[PageUrl],
    how: &Replay,
    observer: &mut dyn ReplayObserver,
) -> Result<(Counts, Option<ReplayTally>, Option<&'static str>), DaemonError> {
    let captures = shelf.captures();
    // The replay uses the archive's clock.
    let clock = captures.first().unwrap_or_else(now);
    let OpenJob {
        lock,
        mut frontier,
        mut outputs,
        resumed,
        ..
    } = checkpoint::open(&alone(config), clock)?;
    if how.dry_run {
        outputs.discard();
    }
    if resumed {
        observer.say(&format!(
            "resuming {}: {} pages done",
            config.job_folder().display(),
            frontier.counts().documents
        ));
    }
    let learned = Learned::new(&config.strategy, model.contrast.as_ref());
    let reading = Reading::from(reader(config, model, Metrics::new()?, &learned)?);
    frontier.set_rating(reading.now())?;
    frontier.catch_up_takedowns(clock)?;
    frontier.add_seeds(seeds, clock)?;
    let observer = RefCell::new(observer);
    let mut progress = |frontier: &Cells, row: Option<&Row<'_>>| {
        let mut observer = observer.borrow_mut();
        if let Some(row) = row {
            observer.row(row);
        }
        if how.follow {
            observer.going(Going {
                counts: frontier.counts(),
                bytes: None,
                passes: 0,
            });
        }
    };
    let limits = control::limits(config);
    let mut handler = Crawl::new(reading, outputs, limits, &mut progress);
    let tally = if how.follow {
        let mut answer = |task: &_| Ok(shelf.answer(task)?);
        pipeline::replay(&mut frontier, &mut answer, &mut handler, clock)?;
        None
    } else {
        let bytes = captures.bytes();
        let mut report = |status: pipeline::ReplayStatus<'_>| {
            observer.borrow_mut().going(Going {
                counts: status.counts,
                bytes: Some((status.tally.read_bytes(), bytes)),
                passes: status.tally.passes,
            });
        };
        Some(pipeline::rerun(
            &mut frontier,
            shelf,
            &mut handler,
            &mut report,
        )?)
    };
    let limit = handler.limit_reached();
    let counts = frontier.counts().clone();
    drop(handler);
    frontier.close()?;
    drop(lock);
    Ok((counts, tally, limit))
}

/// The job of the replay: that of the crawl, in a folder of its own. Nothing is archived or
/// revisited.
fn of_replay(
    config: &Config,
    how: &Replay,
    scratch: Option<&Scratch>,
) -> Result<Config, DaemonError> {
    let mut own = config.clone();
    own.model.name = Some(config.model_name().clone());
    own.archive.enabled = false;
    own.recrawl = Recrawl::default();
    own.seeds.watch.clear();
    let default = || {
        let name = format!("{}-replay", config.job.name.as_str());
        config.job.folder.join(name)
    };
    let folder = match scratch {
        Some(scratch) => scratch.0.join("dry-run"),
        None => how.output.clone().unwrap_or_else(default),
    };
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    own.job.name = Name::parse(&name).map_err(|why| {
        let what = "the last part of the path is the name of the new job";
        DaemonError::Refused(format!("{}: {what}: {why}", folder.display()))
    })?;
    own.job.folder = folder.parent().unwrap_or(Path::new("")).to_owned();
    Ok(own)
}

fn caps(config: &Config) -> Caps {
    let size = |size: u64| usize::try_from(size).unwrap_or(usize::MAX);
    Caps {
        page: size(config.network.max_page_bytes.bytes()),
        image: size(config.images.max_bytes.bytes()),
        sitemap: Options::default().sitemap_cap,
    }
}

impl Sources {
    fn of(how: &Replay) -> Result<Self, DaemonError> {
        let mut files = Vec::new();
        let archives = how.from.files.iter().map(ArchiveFile::path);
        for path in archives.chain(how.from.indexes.iter().map(PathBuf::as_path)) {
            let read = path.canonicalize().and_then(|file| {
                let bytes = file.metadata()?.len();
                Ok(SourceFile { file, bytes })
            });
            files.push(read.map_err(IoError::at(path, "opening"))?);
        }
        let follow = how.follow;
        Ok(Self { follow, files })
    }

    /// Reserves the folder for this replay, if it is free.
    fn settle(&self, folder: &Path) -> Result<(), DaemonError> {
        let path = folder.join(RECORD);
        let known = if_there(crate::fs::read(&path)).map_err(IoError::at(&path, "reading"))?;
        let known = known.map(|known| serde_json::from_slice::<Self>(&known).ok());
        if matches!(&known, Some(Some(known)) if known == self) {
            return Ok(());
        }
        // A replay that failed at once leaves at most these files.
        let begins = [RECORD, TAKEDOWNS];
        let is_result = |name: std::ffi::OsString| begins.iter().all(|begin| name != *begin);
        let has_something = folder.read_dir().is_ok_and(|entries| {
            let mut entries = entries.flatten();
            entries.any(|entry| is_result(entry.file_name()))
        });
        if has_something {
            let what = match known {
                Some(_) => "a replay of other files, or with another --follow",
                None => "something else",
            };
            return Err(DaemonError::Refused(format!(
                "{}: this folder has the results of {what}; name another one with --output, or \
                 remove it",
                folder.display()
            )));
        }
        std::fs::create_dir_all(folder).map_err(IoError::at(folder, "making the folder"))?;
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        atomic::write_bytes(folder, RECORD, text.as_bytes())
            .map_err(IoError::at(&path, "writing"))?;
        Ok(())
    }
}

/// Content that was taken down from the job is not taken from its archive either.
fn copy_takedowns(from: &Path, to: &Path) -> Result<(), DaemonError> {
    let orders = checkpoint::takedowns(from)?;
    if orders.orders().is_empty() {
        return Ok(());
    }
    std::fs::create_dir_all(to).map_err(IoError::at(to, "making the folder"))?;
    // The results may have had their own takedowns since.
    let mut all = checkpoint::takedowns(to)?;
    orders
        .orders()
        .iter()
        .for_each(|order| all.add(order.clone()));
    atomic::write_bytes(to, TAKEDOWNS, all.to_lines().as_bytes())
        .map_err(IoError::at(&to.join(TAKEDOWNS), "writing"))?;
    Ok(())
}

/// A folder that is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, DaemonError> {
        let folder = std::env::temp_dir().join(format!("spoor-replay-{}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(IoError::at(&folder, "making the folder"))?;
        Ok(Self(folder))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!("{} could not be removed: {error}", self.0.display());
        }
    }
}
