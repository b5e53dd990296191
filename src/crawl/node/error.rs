//! Why a machine cannot go on.

use super::loading::SourceError;
use crate::crawl::cluster::links::LinksError;
use crate::crawl::cluster::{KeptError, Over};
use crate::crawl::frontier::store::StoreError;
use crate::crawl::frontier::{CellId, CellsError};
use crate::crawl::pipeline::CrawlError;

/// Why a machine cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The frontier failed.
    #[error(transparent)]
    Cells(#[from] CellsError),
    /// Links cannot be exchanged.
    #[error(transparent)]
    Links(#[from] LinksError),
    /// What outlives the process cannot be written.
    #[error(transparent)]
    Kept(#[from] KeptError),
    /// The checkpoints of others cannot be used.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A cell was taken away.
    #[error(
        "the cluster does not know any more that this machine had {0}, because the brokers have lost something, so what it did since its last checkpoint is done again; run the command again: it begins a new session"
    )]
    Lost(CellId),
    /// The session is over.
    #[error("{}", told(*.0))]
    Over(Over),
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
