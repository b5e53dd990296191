//! Opening a job's folder so that a crawl goes on where the last commit left it.
//!
//! The frontier's store holds the truth; the outputs are cut back to what it
//! says. A lock file keeps a second process out for as long as the first one
//! lives, and is released by the system however that one ends.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::frontier::store::{SledStore, StoreError};
use crate::frontier::{Frontier, Policy};
use crate::scope::Scope;
use crate::store::{OutputError, Outputs};

/// Why a job cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process works on the job.
    #[error("{}: another spoor works on this job; wait for it or stop it", .0.display())]
    Busy(PathBuf),
    /// The folder cannot be made or locked.
    #[error("{}: {what} failed: {source}; choose another job.folder or mend the permissions", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was attempted.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The frontier cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An output cannot be opened.
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// A job that is open for crawling.
pub struct OpenJob {
    /// The frontier, as of the last commit.
    pub frontier: Frontier,
    /// The outputs, cut back to the same moment.
    pub outputs: Outputs,
    /// True where an earlier run had begun.
    pub resumed: bool,
    /// Held while the job is open.
    pub lock: File,
}

/// Opens or begins the job that `config` describes; `now` is milliseconds since
/// 1970.
///
/// # Errors
/// [`OpenError`] names the file or folder, and nothing is changed.
pub fn open(config: &Config, now: u64) -> Result<OpenJob, OpenError> {
    let folder = config.job_folder();
    std::fs::create_dir_all(&folder).map_err(io(&folder, "making the folder"))?;
    let lock = lock(&folder)?;
    let store_folder = folder.join("frontier");
    let log = folder.join("logs/crawl.jsonl");
    let had_begun = store_folder.exists() && log.metadata().is_ok_and(|m| m.len() > 0);
    let store = Box::new(SledStore::open(&store_folder)?);
    let policy = Policy::new(&config.politeness, &config.network);
    let mut frontier = Frontier::open(store, policy, Scope::new(config.scope.clone()), now)?;
    let resumed = !frontier.stamp().is_empty();
    if had_begun && !resumed {
        // sled begins anew where it can read nothing of what it wrote; the whole
        // crawl would be repeated into the same outputs.
        return Err(OpenError::Store(StoreError::Open {
            path: store_folder,
            why: "it is empty, but the job's log is not, so its files are damaged".to_owned(),
        }));
    }
    let outputs = Outputs::open(&folder, frontier.stamp())?;
    if !resumed {
        frontier.set_stamp(outputs.stamp())?;
    }
    // A record for people of what this corpus was made with.
    let record = folder.join("job.toml");
    std::fs::write(&record, config.to_toml()).map_err(io(&record, "writing"))?;
    Ok(OpenJob {
        frontier,
        outputs,
        resumed,
        lock,
    })
}

fn lock(folder: &Path) -> Result<File, OpenError> {
    let path = folder.join("lock");
    let file = File::create(&path).map_err(io(&path, "creating"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::Busy(folder.to_owned())),
        Err(TryLockError::Error(e)) => Err(io(&path, "locking")(e)),
    }
}

fn io<'a>(path: &'a Path, what: &'static str) -> impl FnOnce(std::io::Error) -> OpenError + 'a {
    move |source| OpenError::Io {
        path: path.to_owned(),
        what,
        source,
    }
}
