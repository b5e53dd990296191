//! Why a job cannot run.

use crate::cluster::node::NodeError;
use crate::config::{ContactMissing, FileErrors};
use crate::control::AccessError;
use crate::crawl::checkpoint::OpenError;
use crate::crawl::metrics::MetricsError;
use crate::crawl::pipeline::CrawlError;
use crate::crawl::saved::SaveError;
use crate::crawl::train::TrainError;
use crate::fetch::SetupError;
use crate::frontier::dump::DumpError;
use crate::frontier::store::StoreError;
use crate::fs::IoError;
use crate::tool_error::ToolError;
use crate::topic::score::BoundariesError;

/// Why a job cannot run.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The job has no contact.
    #[error(transparent)]
    Contact(#[from] ContactMissing),
    /// Something that the job needs is missing or wrong.
    #[error(transparent)]
    Config(#[from] FileErrors),
    /// The model cannot be trained or loaded.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// The client cannot be built.
    #[error(transparent)]
    Fetch(#[from] SetupError),
    /// The job's folder cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The checkpoint outside of the job's folder forbids the crawl.
    #[error(transparent)]
    Saved(#[from] SaveError),
    /// The machine cannot join the job's cluster.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The configured boundaries do not ascend.
    #[error(transparent)]
    Boundaries(#[from] BoundariesError),
    /// The metrics cannot be created.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// The archive of a replay cannot be read.
    #[error(transparent)]
    Archive(#[from] ToolError),
    /// A dump of the frontier cannot be written or read.
    #[error(transparent)]
    Dump(#[from] DumpError),
    /// A file or folder cannot be read or written.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The request cannot be carried out in this situation; the text says what to do.
    #[error("{0}")]
    Refused(String),
    /// The crawl failed while running.
    #[error(transparent)]
    Crawl(#[from] CrawlError),
    /// The store failed at the end.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The control API is not permitted, or cannot be opened, as configured.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// Every request would fail in the same way.
    #[error("stopped, and nothing is lost: {0}")]
    Hopeless(String),
    /// The async runtime cannot be started.
    #[error("the async runtime cannot be started: {0}")]
    Runtime(std::io::Error),
}
