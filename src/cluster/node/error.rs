//! Why a machine cannot continue.

use crate::crawl::checkpoint::OpenError;
use crate::crawl::pipeline::CrawlError;
use crate::crawl::saved::SaveError;
use crate::frontier::store::StoreError;
use crate::frontier::{CellId, CellsError};
use crate::fs::IoError;
use crate::packed::MessagesError;
use crate::wanted::WantedError;
use crate::{EngineError, Over, WrongNode};

/// Why a machine cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The frontier failed.
    #[error(transparent)]
    Cells(#[from] CellsError),
    /// Links or lessons cannot be exchanged.
    #[error(transparent)]
    Messages(#[from] MessagesError),
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The state that all machines should apply cannot be written.
    #[error(transparent)]
    Wanted(#[from] WantedError),
    /// The job's folder cannot be used.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The folder of an earlier session cannot be moved away.
    #[error(transparent)]
    Saved(#[from] SaveError),
    /// A file failed.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The job file, the model or the store has to be changed before the machine can join. A name
    /// that is in use is not such an error: it may be the last sign of life of a process that was
    /// killed.
    #[error("{0}")]
    JobFile(String),
    /// The machine cannot continue, and no change of its job file would help.
    #[error("{0}")]
    Stopped(String),
    /// A cell was taken away.
    #[error(
        "the cluster no longer knows that this machine had {0}, because the brokers have lost data; what it did since its last checkpoint is done again. Run the command again: it begins a new session"
    )]
    Lost(CellId),
    /// The session is over.
    #[error("{}", reason(*.0))]
    Over(Over),
}

impl NodeError {
    /// There is no place for checkpoints.
    pub fn no_store() -> Self {
        let text = "cluster.store is not set; write `store = \"s3://BUCKET/PATH\"` under [cluster]";
        Self::JobFile(text.to_owned())
    }
}

impl From<WrongNode> for NodeError {
    fn from(wrong: WrongNode) -> Self {
        Self::JobFile(format!("{wrong}; set it by cluster.node"))
    }
}

fn reason(over: Over) -> &'static str {
    match over {
        Over::Left => "this machine has left the cluster",
        Over::Fenced => {
            "the other machines have taken over the hosts of this one, because it was silent for too long; what it did since its last checkpoint is done again by them. Run the command again: it begins a new session"
        }
        Over::Forgotten => {
            "the brokers have lost what they knew of this machine; what it did since its last checkpoint is done again. Run the command again: it begins a new session"
        }
        Over::NameTaken => {
            "another machine of the cluster has the same name; give this one another name, with cluster.node = \"NAME\""
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

impl From<MessagesError> for CrawlError {
    fn from(error: MessagesError) -> Self {
        NodeError::from(error).into()
    }
}
