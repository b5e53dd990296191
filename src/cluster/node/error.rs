//! Why a machine cannot go on.

use super::loading::SourceError;
use crate::crawl::checkpoint::OpenError;
use crate::crawl::pipeline::CrawlError;
use crate::crawl::saved::SaveError;
use crate::frontier::store::StoreError;
use crate::frontier::{CellId, CellsError};
use crate::fs::IoError;
use crate::lessons::LessonsError;
use crate::links::LinksError;
use crate::wanted::WantedError;
use crate::{EngineError, KeptError, Over, SessionId, WrongNode};

/// Why a machine cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The frontier failed.
    #[error(transparent)]
    Cells(#[from] CellsError),
    /// Links cannot be exchanged.
    #[error(transparent)]
    Links(#[from] LinksError),
    /// Machines cannot learn together.
    #[error(transparent)]
    Lessons(#[from] LessonsError),
    /// What outlives the process cannot be written.
    #[error(transparent)]
    Kept(#[from] KeptError),
    /// The checkpoints of others cannot be used.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// What all machines are to do cannot be written.
    #[error(transparent)]
    Wanted(#[from] WantedError),
    /// The job's folder cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The folder of an earlier session cannot be moved aside.
    #[error(transparent)]
    Saved(#[from] SaveError),
    /// A file failed.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The machine has no name that it can use.
    #[error("{0}; set it by cluster.node")]
    Name(#[from] WrongNode),
    /// There is no place for checkpoints.
    #[error("cluster.store is not set; write `store = \"s3://BUCKET/PATH\"` under [cluster]")]
    NoStore,
    /// The store is not that of the other machines.
    #[error(
        "cluster.store is {store}, which has nothing of what the machines of the cluster have saved, as checkpoint {number} of {session}; set it to the store of the other machines, or move what that has to this one first"
    )]
    OtherStore {
        /// The store of this machine.
        store: String,
        /// A session that has saved something.
        session: SessionId,
        /// Its checkpoint.
        number: u64,
    },
    /// The store has the sessions of a job that the brokers do not know.
    #[error(
        "cluster.store is {store}, which has what a cluster has saved that the brokers know nothing of ({sessions}), as after `spoor cluster end`; this job would replace it. Set cluster.store to another place, or remove the folder `sessions` there when nobody needs it"
    )]
    EarlierJob {
        /// The store.
        store: String,
        /// The first of the sessions.
        sessions: String,
    },
    /// The cluster has another number of cells.
    #[error(
        "the cluster was begun with cluster.cells = {there}, and this job says {here}; set it to {there}"
    )]
    OtherCells {
        /// That of the cluster.
        there: u16,
        /// That of this job.
        here: u16,
    },
    /// The cluster crawls with another configuration.
    #[error(
        "the machines of the cluster have another configuration: {0}. Copy the job file of one of them to this machine; or run `spoor reload JOB.toml` with this file on a machine that crawls, which changes it for all, but for keys of [cluster]"
    )]
    OtherConfig(String),
    /// The cluster crawls with another model.
    #[error(
        "{}: the machines of the cluster have another model; copy its folder from one of them to this machine, or run `spoor reload JOB.toml` on a machine with this model, which changes it for all at their next start",
        .0.display()
    )]
    OtherModel(std::path::PathBuf),
    /// The model cannot be read.
    #[error("the model cannot be compared with that of other machines: {0}")]
    Model(IoError),
    /// Its keys cannot be read.
    #[error(
        "the keys of the cluster are those of another version of spoor; all its machines have to run the same. Where an earlier version began it, gather and end it with that one, and set cluster.store to another place"
    )]
    OtherVersion,
    /// The system gives no random numbers.
    #[error("the system gives no random numbers, so the machine cannot tell itself from others")]
    NoNumber,
    /// The store lacks a cell that the machine kept.
    #[error(
        "the job's folder has no state of {0} any more, which this machine had; what it did since its last checkpoint is done again. Run the command again: it begins a new session"
    )]
    Gone(CellId),
    /// A cell was taken away.
    #[error(
        "the cluster does not know any more that this machine had {0}, because the brokers have lost something, so what it did since its last checkpoint is done again; run the command again: it begins a new session"
    )]
    Lost(CellId),
    /// The session is over.
    #[error("{}", told(*.0))]
    Over(Over),
}

impl NodeError {
    /// Whether the job file has to be changed before the machine can join. A name that is taken is
    /// another matter: the last sign of life of a process that was killed may come late.
    pub fn is_of_job_file(&self) -> bool {
        matches!(
            self,
            Self::Name(_)
                | Self::NoStore
                | Self::OtherStore { .. }
                | Self::EarlierJob { .. }
                | Self::OtherCells { .. }
                | Self::OtherConfig(_)
                | Self::OtherModel(_)
        )
    }
}

fn told(over: Over) -> &'static str {
    match over {
        Over::Left => "this machine has left the cluster",
        Over::Fenced => {
            "the other machines have taken over the hosts of this one, because nothing was heard of it for too long; what it did since its last checkpoint is done again by them. Run the command again: it begins a new session"
        }
        Over::Forgotten => {
            "the brokers have lost what they knew of this machine; what it did since its last checkpoint is done again. Run the command again: it begins a new session"
        }
        Over::NameTaken => {
            "another machine of the cluster has the same name; give this one another, as cluster.node = \"NAME\""
        }
    }
}

impl From<StoreError> for NodeError {
    fn from(error: StoreError) -> Self {
        Self::Cells(error.into())
    }
}

impl From<NodeError> for CrawlError {
    fn from(error: NodeError) -> Self {
        match error {
            NodeError::Cells(CellsError::Store(error)) => Self::Store(error),
            error => Self::Beside(Box::new(error)),
        }
    }
}

impl From<LinksError> for CrawlError {
    fn from(error: LinksError) -> Self {
        NodeError::from(error).into()
    }
}

impl From<KeptError> for CrawlError {
    fn from(error: KeptError) -> Self {
        NodeError::from(error).into()
    }
}
