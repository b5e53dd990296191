//! Checkpoints of a running job in a folder or a bucket, and back: what of a job survives the
//! machine that crawls it.
//!
//! # What is there
//!
//! | object | what it is |
//! |---|---|
//! | `manifest.json` | which of the others are the checkpoint, and whose it is |
//! | `base/*` | all pairs of the frontier's store at some commit, and the small files of the job |
//! | `changes/*` | the pairs that changed since, checkpoint by checkpoint |
//! | `grown/*` | what the outputs grew by |
//! | `lists/*` | which of these belong where, in their order |
//! | `images/*` | kept images by their SHA-256 |
//!
//! A session of a cluster has a folder like that of its own, with `manifests/*` in place of the
//! one manifest.
//!
//! A checkpoint shows one commit of the frontier. All of its objects are written first, under
//! names that nobody has used before; then the manifest is replaced by compare-and-set.
//! That is the commit. When the changes have more bytes than the base, a new base is written.
//! What no manifest names is removed after the next one.
//!
//! # Whose it is
//!
//! The manifest names the process that may replace it. Another one takes it over only where
//! that one has ended, is known to be dead, or has not changed the manifest for several times
//! as long as it promised to. One that lives, and was taken over nevertheless, finds out at its
//! next checkpoint, and stops.
//!
//! # How the crawl goes on meanwhile
//!
//! The store logs its batches into files ([`crate::frontier::store::changes`]). A thread
//! reads these and the outputs, and does all requests. A checkpoint ends at a commit that was
//! flushed to this machine's disk, so that it is never ahead of the job's folder.
//!
//! Reading order: this file, `manifest`, `pairs`, `claim` (whose it is), `session` (making a
//! checkpoint), `commit` and `numbered` (how it becomes the one that counts), `send` (what it
//! has besides the frontier), `keeper` (the thread), `restore`, `cells` (back, as a whole and
//! cell by cell), `look` (what is there), `verify` (whether it is what was written).

mod cells;
mod claim;
mod commit;
mod keeper;
mod look;
mod manifest;
mod numbered;
mod pairs;
mod restore;
mod send;
mod session;
#[cfg(test)]
mod tests;
mod verify;

use std::path::PathBuf;

pub use self::cells::{SavedCells, WritePair};
pub use self::claim::RESTORING;
pub use self::claim::{TakeOver, host, prepare};
pub use self::keeper::{CheckpointStatus, Keeper};
pub use self::look::{CheckpointContent, check, look};
pub use self::manifest::Owner;
pub use self::numbered::{Committed, Committing, Life, Made, Named};
pub use self::restore::{outputs_of, put_back, set_aside};
pub use self::session::{Session, renew};
pub use self::verify::{Flaw, SavedSession, Verified};
use crate::checkpoint::OpenError;
use crate::frontier::CellsError;
use crate::frontier::store::StoreError;
use crate::fs::IoError;
use crate::objects::ObjectsError;
use crate::outputs::OutputError;

impl SaveError {
    /// Whether this process makes no checkpoint any more, whatever happens: another one has
    /// its place, or the session is over.
    fn is_final(&self) -> bool {
        matches!(self, Self::Overtaken(_) | Self::Over(_))
    }
}

/// Why a checkpoint cannot be made or used.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The job has no store for checkpoints.
    #[error(
        "checkpoint.store is not set; write `store = \"s3://BUCKET/PATH\"` or \"file:///PATH\" under [checkpoint]"
    )]
    NoStore,
    /// The store failed.
    #[error("the checkpoint: {0}")]
    Objects(#[from] ObjectsError),
    /// The job's frontier failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A cell cannot be loaded.
    #[error(transparent)]
    Cells(#[from] CellsError),
    /// The job's outputs failed.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The job's folder cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A file failed.
    #[error(transparent)]
    Io(#[from] IoError),
    /// An object is not what was written.
    #[error(
        "{name}: {why}; it was damaged or removed outside of spoor. Where the job's folder is whole, `spoor checkpoint save JOB.toml --whole` writes all of it anew"
    )]
    Damaged {
        /// The object.
        name: String,
        /// The problem.
        why: String,
    },
    /// The same in the folder of a session of a cluster.
    #[error(
        "{name}: {why}; it was damaged or removed outside of spoor. Put it back from a copy of the cluster's store; without it, what only this checkpoint holds is lost"
    )]
    Unreadable {
        /// The object.
        name: String,
        /// The problem.
        why: String,
    },
    /// A session of a cluster has ended, or its store is older than its last checkpoint.
    #[error("{0}")]
    Over(String),
    /// There is no checkpoint.
    #[error("{0}: there is no checkpoint of this job yet")]
    Nothing(String),
    /// The checkpoint is one of another job.
    #[error(
        "{store}: there is the checkpoint of the job `{other}`; give this job another checkpoint.store"
    )]
    OtherJob {
        /// The store.
        store: String,
        /// The name of the other job.
        other: String,
    },
    /// Another process is crawling the job.
    #[error("{0}")]
    Alive(String),
    /// Another process has taken the job over.
    #[error("{0}")]
    Overtaken(String),
    /// The checkpoint cannot be used for the job's folder, or at all.
    #[error("{0}")]
    Refused(String),
    /// Outputs are to be restored into a folder that has something.
    #[error("{}: the folder is not empty; name an empty one for the outputs of a session", .0.display())]
    NotEmpty(PathBuf),
}
