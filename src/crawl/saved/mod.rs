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
        use SaveError::{Behind, Over, Overtaken};
        matches!(self, Overtaken { .. } | Over { .. } | Behind { .. })
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
    /// A session of a cluster has ended, and its last checkpoint does not count.
    #[error(
        "{store}: this session is over, because others heard nothing of it for too long or it was ended; what it did since {since} counts as not done, and others do it again"
    )]
    Over {
        /// What the session keeps in the cluster's store.
        store: String,
        /// The time of its last checkpoint that counts.
        since: String,
    },
    /// The store of a node is older than the last checkpoint of its session.
    #[error("{store}: the session's checkpoint is ahead of the frontier in {}: commit {there} and not {here}; the folder has lost something, or is an older copy. Begin a new session: remove that folder, and the node starts from the checkpoints", folder.display())]
    Behind {
        /// What the session keeps in the cluster's store.
        store: String,
        /// The job's folder.
        folder: PathBuf,
        /// The commit in the checkpoint.
        there: u64,
        /// That in the folder.
        here: u64,
    },
    /// The store ignores conditions.
    #[error(
        "{0}: this store overwrites what it was told to leave alone (`If-None-Match`), so two machines could overwrite each other's checkpoint; use another one"
    )]
    Unconditional(String),
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
    #[error(
        "{store}: {owner} crawls this job and keeps its checkpoint there (it was last there {ago} ago); stop it first"
    )]
    Alive {
        /// The store.
        store: String,
        /// The other process.
        owner: Box<Owner>,
        /// Since when it was not seen.
        ago: String,
    },
    /// Another process has taken the job over.
    #[error(
        "{store}: {owner} has taken this job over and goes on with it; this one has stopped, and the checkpoint lacks what it did since {since}. To go on here later, stop the other one and run `spoor checkpoint restore JOB.toml --replace`"
    )]
    Overtaken {
        /// The store.
        store: String,
        /// The other process.
        owner: Box<Owner>,
        /// The time of the last checkpoint that this process has made.
        since: String,
    },
    /// The job's folder and the checkpoint do not belong together.
    #[error("{store}: the checkpoint there was last written by {owner}, from another folder than {}; `spoor checkpoint restore JOB.toml --replace` moves this folder aside and goes on from the checkpoint", folder.display())]
    OtherFolder {
        /// The store.
        store: String,
        /// The other process.
        owner: Box<Owner>,
        /// The job's folder.
        folder: PathBuf,
    },
    /// The job's folder is older than the checkpoint.
    #[error("{store}: the checkpoint there is ahead of {}: commit {there} and not {here}; the folder has lost something, or is an older copy. `spoor checkpoint restore JOB.toml --replace` moves it aside and goes on from the checkpoint; `spoor checkpoint save JOB.toml --whole` makes a checkpoint of the folder as it is", folder.display())]
    Ahead {
        /// The store.
        store: String,
        /// The job's folder.
        folder: PathBuf,
        /// The commit in the store.
        there: u64,
        /// That in the folder.
        here: u64,
    },
    /// Outputs are to be restored into a folder that has something.
    #[error("{}: the folder is not empty; name an empty one for the outputs of a session", .0.display())]
    NotEmpty(PathBuf),
    /// A folder that is to be replaced is in use or cannot be moved.
    #[error("{}: the job was begun here; `--replace` moves this folder aside and restores the checkpoint in its place", .0.display())]
    Present(PathBuf),
}
