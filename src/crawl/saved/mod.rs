//! Checkpoints of a running job in a folder or a bucket, and back: the part of a job that survives
//! the machine that crawls it.
//!
//! # Layout
//!
//! | object | content |
//! |---|---|
//! | `manifest.json` | which of the others form the checkpoint, and who owns it |
//! | `base/*` | all pairs of the frontier's store at one commit, and the small files of the job |
//! | `changes/*` | the pairs that changed since, checkpoint by checkpoint |
//! | `grown/*` | the growth of the outputs |
//! | `lists/*` | where these belong, in order |
//! | `images/*` | kept images by their SHA-256 |
//!
//! Each session of a cluster has its own folder like that, with `manifests/*` instead of the single
//! manifest.
//!
//! A checkpoint shows one commit of the frontier. All of its objects are written first, under names
//! that have never been used. Then compare-and-set replaces the manifest; that is the commit. When
//! the changes have more bytes than the base, a new base is written. Once it is committed, objects
//! that no manifest names are removed.
//!
//! # Ownership
//!
//! The manifest names the process that may replace it. Another one takes over only if that process
//! has ended, is known to be dead, or has not changed the manifest for several times the interval
//! that it promised. A process that was taken over while it lived finds out at its next checkpoint,
//! and stops.
//!
//! # Concurrency with the crawl
//!
//! The store logs its batches into files ([`crate::frontier::store::changes`]). A thread reads
//! these and the outputs, and makes all requests. A checkpoint ends at a commit that was flushed to
//! this machine's disk, so it is never ahead of the job's folder.
//!
//! Reading order: this file, `manifest`, `pairs`, `claim` (ownership), `session` (making a
//! checkpoint), `commit` and `numbered` (how it becomes the current one), `send` (everything
//! besides the frontier), `keeper` (the thread), `restore` and `cells` (restoring the whole or
//! single cells), `look` (the content), `verify` (whether it is intact).

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
    /// Whether this process can never make a checkpoint again: another process has its place, or
    /// the session is over.
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
    /// An object is not as it was written.
    #[error(
        "{name}: {why}; it was damaged or removed outside of spoor. If the job's folder is intact, `spoor checkpoint save JOB.toml --whole` writes the whole checkpoint anew"
    )]
    Damaged {
        /// The object.
        name: String,
        /// The problem.
        why: String,
    },
    /// The same in the folder of a cluster session.
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
    /// The checkpoint belongs to another job.
    #[error(
        "{store}: this is the checkpoint of the job `{other}`; give this job another checkpoint.store"
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
    /// Outputs cannot be restored into a folder that is not empty.
    #[error("{}: the folder is not empty; name an empty one for the outputs of a session", .0.display())]
    NotEmpty(PathBuf),
}
