//! Opens a job's folder so that a crawl resumes at its last commit.
//!
//! The frontier's store is authoritative; the outputs are cut back to the lengths that it
//! records. A lock file keeps a second process out. The system releases it when the first
//! process ends, however it ends.

mod backups;

use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::archive::writer::{Compression, Dictionary};
use crate::frontier::store::changes::{Changes, Logged};
use crate::frontier::store::{self, Store, StoreError};
use crate::frontier::{CellCount, Cells, CellsError, Counts, Mark, Policy};
use crate::fs::IoError;
use crate::fs::{atomic, beneath};
use crate::outputs::{About, OutputError, Outputs, Rewriting, Table, refuse_links_out};
use crate::settings::JobSettings;
use crate::settings::{Archive, ArchiveCompression, Cluster};
use crate::tool_error::{ToolCause, ToolError, ToolFault};
use crate::web::scope::{Scope, Takedowns};

pub use backups::{Backups, renew as renew_backups, within as backups_of};

/// Why a job cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process is using the job.
    #[error(
        "{}: another spoor works on this job{}; wait for it, or end a crawl with `spoor ctl \
         JOB stop`",
        folder.display(),
        process(*pid)
    )]
    Busy {
        /// The job's folder.
        folder: PathBuf,
        /// The process id of the other one, if its lock file holds one.
        pid: Option<u32>,
    },
    /// The folder cannot be created or locked.
    #[error("{0}; choose another job.folder or fix its permissions")]
    Io(#[from] IoError),
    /// The frontier cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The folder was merged from those of several machines.
    #[error(
        "{}: this folder was gathered from the outputs of several machines and has no frontier; \
         crawl with the job that was gathered, or ask that one",
        .0.display()
    )]
    Gathered(PathBuf),
    /// The frontier is damaged, but an export of it exists.
    #[error("{source}; the newest export is {}", export.display())]
    Damaged {
        /// The problem.
        source: StoreError,
        /// The export.
        export: PathBuf,
    },
    /// The frontier or an output is damaged, but a checkpoint may be elsewhere.
    #[error(
        "{why}; or go on from the checkpoint in {store}: `spoor checkpoint restore JOB.toml --replace`"
    )]
    Restorable {
        /// The problem.
        why: String,
        /// The store of the checkpoint.
        store: String,
    },
    /// The frontier has another number of cells, or cannot have several.
    #[error(transparent)]
    Cells(CellsError),
    /// An output cannot be opened.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The dictionary of the archive cannot be used.
    #[error("archive.dictionary: {0}")]
    Dictionary(#[from] ToolError),
    /// The list of takedowns is missing, although a receipt proves that there was one.
    #[error(
        "{}: the file is missing, but {receipt} shows that it listed what must not be fetched \
         again; restore it from a copy, or write into it one line for each entry under `asked` \
         of every receipt, with the receipt's `time` added; an empty file lifts all orders",
        path.display()
    )]
    TakedownsGone {
        /// The missing list.
        path: PathBuf,
        /// The receipt, by its path in the job's folder.
        receipt: String,
    },
    /// The list of takedowns cannot be read. Nothing is fetched until it can be.
    #[error("{}:{line}: {why}; correct the line: it lists what must not be fetched again", path.display())]
    Takedowns {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The problem.
        why: String,
    },
}

impl ToolCause for OpenError {
    fn fault(&self) -> ToolFault {
        match self {
            Self::Busy { .. } => ToolFault::Busy,
            _ => ToolFault::Other,
        }
    }
}

fn process(pid: Option<u32>) -> String {
    pid.map_or(String::new(), |pid| format!(" (process {pid})"))
}

/// The folder of the takedown receipts, in a job's folder.
pub const RECEIPTS: &str = "takedowns";

/// The receipt of an interrupted takedown, in a job's folder.
pub const UNFINISHED: &str = "takedowns/unfinished.json";

/// The file in a job's folder that records the configuration that it was made with.
pub const RECORD: &str = "job.toml";

/// The file in a job's folder that lists the takedowns, one order per line.
pub const TAKEDOWNS: &str = "takedown.jsonl";

/// The file in a folder that was merged from the folders of several machines.
pub const GATHERED: &str = "gathered.json";

/// The file that a process locks while it uses a job.
const LOCK: &str = "lock";

/// A job that is open for crawling.
pub struct OpenJob {
    /// The frontier, as of the last commit.
    pub frontier: Cells,
    /// The outputs, cut back to the same moment.
    pub outputs: Outputs,
    /// True if an earlier run had started.
    pub resumed: bool,
    /// Held while the job is open.
    pub lock: File,
    /// The log of changes to the frontier's store, if checkpoints are kept elsewhere.
    pub changes: Option<Arc<Changes>>,
}

/// Opens or starts the job that `config` describes; `now` is milliseconds since 1970.
///
/// # Errors
/// [`OpenError`] names the file or folder; everything up to the last commit is kept. A folder
/// that was gathered from several is refused.
pub fn open(config: &JobSettings, now: u64) -> Result<OpenJob, OpenError> {
    let folder = config.job_folder();
    refuse_gathered(&folder)?;
    std::fs::create_dir_all(&folder).map_err(IoError::at(&folder, "making the folder"))?;
    let lock = lock(&folder)?;
    open_any(config, lock, now)
}

/// Like [`open`], for a caller that has [locked](lock) the folder.
///
/// # Errors
/// As [`open`].
pub fn open_locked(config: &JobSettings, lock: File, now: u64) -> Result<OpenJob, OpenError> {
    refuse_gathered(&config.job_folder())?;
    open_any(config, lock, now)
}

/// Like [`open_locked`], but for removing samples, even if the folder was gathered: its frontier
/// then holds only what was taken down, and its configuration comes from [`of_gathered`].
///
/// # Errors
/// As [`open`].
pub fn open_to_remove(config: &JobSettings, now: u64) -> Result<OpenJob, OpenError> {
    let folder = config.job_folder();
    let lock = lock(&folder)?;
    open_any(config, lock, now)
}

/// Refuses a folder that was gathered from several, for callers that need a frontier.
///
/// # Errors
/// [`OpenError::Gathered`].
pub fn refuse_gathered(folder: &Path) -> Result<(), OpenError> {
    if beneath::is_file(folder, GATHERED) {
        return Err(OpenError::Gathered(folder.to_owned()));
    }
    Ok(())
}

/// The configuration for work on a job's folder that was gathered from several; `None` if it was
/// not. The frontiers and the checkpoints stay with the machines.
pub fn of_gathered(config: &JobSettings) -> Option<JobSettings> {
    beneath::is_file(&config.job_folder(), GATHERED).then(|| alone(config.clone()))
}

/// A configuration of a single machine that keeps its frontier only on its disk.
pub fn alone(mut config: JobSettings) -> JobSettings {
    config.cluster = Cluster::default();
    config.checkpoint.store = None;
    config.frontier.cells = 1;
    config
}

fn open_any(config: &JobSettings, lock: File, now: u64) -> Result<OpenJob, OpenError> {
    let folder = config.job_folder();
    atomic::sweep(&folder, "");
    for below in ["annotations", "checkpoints", "report", RECEIPTS] {
        atomic::sweep(&folder, below);
    }
    let store_folder = folder.join("frontier");
    let had_begun = store_folder.exists() && Table::Log.has_rows(&folder);
    let scope = Scope::new(config.scope.clone()).with_takedowns(takedowns(&folder)?);
    let mut changes = None;
    let mut frontier = store::open(config.frontier.store, &store_folder)
        .and_then(|store| logged(store, &store_folder, config, &mut changes))
        .map_err(CellsError::from)
        .and_then(|store| cells(store, config, scope, now))
        .map_err(|error| match error {
            CellsError::Store(error) => error_with_remedy(error, &folder, config),
            error => OpenError::Cells(error),
        })?;
    let has_stamp = !frontier.stamp()?.is_empty();
    let resumed = has_stamp || *frontier.counts() != Counts::default();
    if had_begun && !resumed {
        // sled starts an empty store if it can read none of its files; the crawl would then repeat
        // everything into the same outputs.
        let error = StoreError::Damaged {
            path: store_folder,
            why: "it is empty, but the job's log is not".to_owned(),
        };
        return Err(error_with_remedy(error, &folder, config));
    }
    if beneath::is_file(&folder, UNFINISHED) {
        tracing::warn!(job = %folder.display(), "a takedown was interrupted; run it again to complete it");
    }
    if let Some(rewriting) = Rewriting::pending(&folder)? {
        frontier.set_stamp(rewriting.stamp().to_vec())?;
        rewriting.finish()?;
    }
    let mut outputs = Outputs::open(&folder, &frontier.stamp()?)
        .map_err(|error| output_error_with_remedy(error, config))?;
    outputs.rotate_at(config.logs.rotate.bytes());
    outputs.about(about(config)?);
    if !has_stamp {
        // The frontier is new, or was repaired without the record that holds the stamp.
        // The data that the stamp counts must be on disk first, because the system may
        // write the store's files before the outputs.
        outputs.sync()?;
        frontier.set_stamp(outputs.stamp())?;
    }
    // A readable record of the configuration that made this corpus. Its paths are
    // absolute because it is in another folder than the job's file.
    let record = folder.join(RECORD);
    let absolute = config.absolute().map_err(IoError::at(&record, "writing"))?;
    atomic::write_bytes(&folder, RECORD, absolute.to_toml().as_bytes())
        .map_err(IoError::at(&record, "writing"))?;
    Ok(OpenJob {
        frontier,
        outputs,
        resumed,
        lock,
        changes,
    })
}

/// The frontier in a store, with all of its cells open. In a cluster the caller opens the cells
/// that this machine has.
fn cells(
    store: Box<dyn Store>,
    config: &JobSettings,
    scope: Scope,
    now: u64,
) -> Result<Cells, CellsError> {
    let mut cells = Cells::over(store, cells_of(config), policy(config), scope)?;
    if !config.cluster.is_there() {
        cells.open_all(now)?;
    }
    Ok(cells)
}

/// The number of cells of a job: that of its cluster, if it has one.
pub fn cells_of(config: &JobSettings) -> CellCount {
    let cells = if config.cluster.is_there() {
        config.cluster.cells
    } else {
        config.frontier.cells
    };
    let cells = u16::try_from(cells).ok().and_then(CellCount::new);
    cells.unwrap_or(CellCount::ONE)
}

/// The store with its changes logged, if the job keeps checkpoints elsewhere.
fn logged(
    store: Box<dyn Store>,
    folder: &Path,
    config: &JobSettings,
    changes: &mut Option<Arc<Changes>>,
) -> Result<Box<dyn Store>, StoreError> {
    if config.checkpoint.store.is_none() && !config.cluster.is_there() {
        return Ok(store);
    }
    let commits = Mark::of(&*store)?.map_or(0, |mark| mark.commits);
    let log = changes.insert(Arc::new(Changes::open(folder, commits)?));
    Ok(Box::new(Logged::over(store, Arc::clone(log))))
}

/// The politeness, retry and recrawl policy of a job's frontier.
pub fn policy(config: &JobSettings) -> Policy {
    Policy {
        sitemaps: config.seeds.sitemaps,
        ..Policy::new(&config.politeness, &config.network)
            .with_recrawl(&config.recrawl)
            .with_control(&config.control_sample, config.strategy.kind)
            .with_images(&config.images)
            .with_consent(&config.consent, keeps_anything(config))
    }
}

/// Whether the job keeps anything that publishers could forbid.
pub fn keeps_anything(config: &JobSettings) -> bool {
    let text = config.text.sentences || config.text.documents;
    text || config.images.enabled || config.archive.enabled
}

/// The takedowns of the job in `folder`; none if there is no list. The list is kept
/// beside the frontier, not in it, so that it also holds for a frontier that was
/// converted, restored from an earlier export, or started again.
///
/// # Errors
/// [`OpenError::Takedowns`] names the line that cannot be read.
pub fn takedowns(folder: &Path) -> Result<Takedowns, OpenError> {
    let path = folder.join(TAKEDOWNS);
    let text = match beneath::read_to_string(folder, TAKEDOWNS) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return match receipt(folder)? {
                Some(receipt) => Err(OpenError::TakedownsGone { path, receipt }),
                None => Ok(Takedowns::default()),
            };
        }
        read => read.map_err(IoError::at(&path, "reading"))?,
    };
    Takedowns::parse(&text).map_err(|(line, why)| OpenError::Takedowns { path, line, why })
}

/// The newest takedown receipt, by its path in the job's folder; `None` if there is none.
fn receipt(folder: &Path) -> Result<Option<String>, OpenError> {
    let entries = match beneath::entries(folder, RECEIPTS) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(IoError::at(&folder.join(RECEIPTS), "listing"))?,
    };
    let names = entries.into_iter().map(|(name, _)| name);
    let newest = names.filter(|name| name.ends_with(".json")).max();
    Ok(newest.map(|name| format!("{RECEIPTS}/{name}")))
}

/// Whether another process holds the lock of a job.
pub fn is_locked(folder: &Path) -> bool {
    let file = beneath::open(folder, LOCK);
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// How often a lock that is held is retried, and the pause before each retry.
const LOOKS: u32 = 10;
const A_LOOK: Duration = Duration::from_millis(20);

/// Keeps every other process off a job for as long as the returned file is open. The file
/// holds the process id.
///
/// # Errors
/// [`OpenError::Busy`] if another process holds the lock.
pub fn lock(folder: &Path) -> Result<File, OpenError> {
    // Every command that changes a job calls this first.
    refuse_links_out(folder)?;
    let path = folder.join(LOCK);
    // Not truncated here: the content may be the other process's.
    let mut file = beneath::open_or_create(folder, LOCK).map_err(IoError::at(&path, "creating"))?;
    let mut tried = file.try_lock();
    for _ in 0..LOOKS {
        if !matches!(tried, Err(TryLockError::WouldBlock)) {
            break;
        }
        // A process that only checks whether a crawl runs holds it for a moment.
        std::thread::sleep(A_LOOK);
        tried = file.try_lock();
    }
    match tried {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            // If this fails, the message lacks the process id.
            file.read_to_string(&mut text).ok();
            return Err(OpenError::Busy {
                folder: folder.to_owned(),
                pid: text.trim().parse().ok(),
            });
        }
        Err(TryLockError::Error(e)) => return Err(IoError::at(&path, "locking")(e).into()),
    }
    let pid = std::process::id();
    // On a full disk the lock still holds, and its file may stay empty.
    let written = file.set_len(0).and_then(|()| writeln!(file, "{pid}"));
    if let Err(error) = written {
        tracing::debug!(
            "{}: the process id cannot be written: {error}",
            path.display()
        );
    }
    Ok(file)
}

/// Adds to the error of a damaged frontier what it can be restored from, if anything.
fn error_with_remedy(error: StoreError, job: &Path, config: &JobSettings) -> OpenError {
    use StoreError::{Closed, Corrupt, Damaged, Io, Old, Older, Open, SeveralCells, Version};
    let export = backups::newest(job);
    if let (Open { .. } | Damaged { .. } | Corrupt { .. } | Older { .. }, Some(store)) =
        (&error, &config.checkpoint.store)
    {
        return OpenError::Restorable {
            why: error.to_string(),
            store: store.to_string(),
        };
    }
    match (&error, export) {
        (Open { .. } | Damaged { .. } | Corrupt { .. } | Older { .. }, Some(export)) => {
            OpenError::Damaged {
                source: error,
                export,
            }
        }
        (Open { .. } | Damaged { .. } | Corrupt { .. } | Older { .. }, None)
        | (Io { .. } | Version { .. } | Old { .. } | SeveralCells { .. } | Closed { .. }, _) => {
            error.into()
        }
    }
}

/// Does the same for an output that lacks data that the frontier knows of.
fn output_error_with_remedy(error: OutputError, config: &JobSettings) -> OpenError {
    match (&error, &config.checkpoint.store) {
        (OutputError::Short { .. }, Some(store)) => OpenError::Restorable {
            why: error.to_string(),
            store: store.to_string(),
        },
        _ => error.into(),
    }
}

/// What the `warcinfo` record of each file of the archive says; the names of fields are those
/// of ISO 28500 section 6.2.
fn about(config: &JobSettings) -> Result<About, ToolError> {
    let text = config.to_toml();
    let digest = Sha256::digest(text.as_bytes());
    let mut fields = vec![
        ("software", format!("spoor/{}", env!("CARGO_PKG_VERSION"))),
        ("format", "WARC File Format 1.1".to_owned()),
        (
            "conformsTo",
            "https://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"
                .to_owned(),
        ),
        ("isPartOf", config.job.name.to_string()),
        ("robots", "obey".to_owned()),
        ("spoor-job-sha256", base16ct::lower::encode_string(&digest)),
    ];
    if config.identity.key.is_some() {
        let left_out = "signature, signature-input and signature-agent in requests";
        fields.push(("spoor-left-out", left_out.to_owned()));
    }
    if let Ok(contact) = config.contact() {
        fields.push(("operator", contact.as_str().to_owned()));
    }
    Ok(About {
        job: config.job.name.to_string(),
        fields,
        compression: compression(&config.archive)?,
    })
}

/// How the job's archive is compressed.
///
/// # Errors
///
/// [`ToolError`] names the file.
pub fn compression(archive: &Archive) -> Result<Compression, ToolError> {
    Ok(match archive.compression {
        ArchiveCompression::Gzip => Compression::Gzip,
        ArchiveCompression::Zstd => {
            let path = archive.dictionary.as_deref();
            Compression::Zstd(path.map(Dictionary::open).transpose()?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::PageUrl;
    use crate::config::Config;
    use crate::outputs::PackedSentences;
    use crate::page::TaskKind;

    fn config(folder: &Path) -> Config {
        let text = format!("[job]\nname = \"test\"\nfolder = {folder:?}\n");
        Config::parse(&text, "test.toml").unwrap()
    }

    #[test]
    fn a_job_is_open_once_and_resumes() {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path());
        let mut job = open(&config, 0).unwrap();
        assert!(!job.resumed);
        let seed = PageUrl::parse("http://a.org/").unwrap();
        job.frontier
            .add_seeds(std::slice::from_ref(&seed), 0)
            .unwrap();
        let busy = open(&config, 0).err().unwrap();
        let own = format!("(process {})", std::process::id());
        assert!(busy.to_string().contains(&own), "{busy}");
        let record = folder.path().join("test/job.toml");
        let text = std::fs::read_to_string(record).unwrap();
        let record = Config::parse(&text, "job.toml").unwrap();
        assert_eq!(record.settings, config.absolute().unwrap());
        assert!(record.model.folder.is_absolute());
        drop(job);
        let job = open(&config, 0).unwrap();
        assert!(job.resumed);
        let known = job.frontier.look_up(&seed, TaskKind::Page).unwrap();
        assert!(known.is_some());
    }

    #[test]
    fn receipts_that_cannot_be_listed_refuse_the_job() {
        let folder = tempfile::tempdir().unwrap();
        let job = folder.path().join("test");
        std::fs::create_dir(&job).unwrap();
        assert!(takedowns(&job).is_ok());
        // A file in place of the receipts folder: what was taken down is unknown.
        std::fs::write(job.join(RECEIPTS), "").unwrap();
        let refused = takedowns(&job).unwrap_err().to_string();
        assert!(refused.contains(RECEIPTS), "{refused}");
    }

    #[test]
    fn a_lost_frontier_begins_anew_beside_the_outputs() {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path());
        let mut job = open(&config, 0).unwrap();
        job.outputs
            .sentences(&PackedSentences::of("old words\n"))
            .unwrap();
        let stamp = job.outputs.stamp();
        job.frontier.set_stamp(stamp).unwrap();
        drop(job);
        let sentences = folder.path().join("test/sentences/00000.txt.gz");
        let before = std::fs::read(&sentences).unwrap();
        std::fs::remove_dir_all(folder.path().join("test/frontier")).unwrap();
        for resumed in [false, true] {
            let job = open(&config, 0).unwrap();
            assert_eq!(job.resumed, resumed);
            assert_eq!(std::fs::read(&sentences).unwrap(), before);
        }
    }

    #[test]
    fn a_shortened_output_is_named_and_the_job_is_free_again() {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path());
        drop(open(&config, 0).unwrap());
        std::fs::write(folder.path().join("test/images.tsv"), "url").unwrap();
        for _ in 0..2 {
            let error = open(&config, 0).err().unwrap();
            assert!(error.to_string().contains("images.tsv"), "{error}");
        }
    }
}
