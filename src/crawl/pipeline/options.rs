//! The settings of a run: how much it does at once, and when it ends on its own. Both may be
//! changed while it runs.

use std::time::Duration;

/// How much a run does at once, and how often it flushes.
#[derive(Debug, Clone)]
pub struct LoopOptions {
    /// The maximum number of open requests; fewer if the machine cannot keep up.
    pub concurrency: usize,
    /// Nothing is leased while all bodies in memory exceed this many bytes.
    pub max_bytes: u64,
    /// The time between two flushes of the store.
    pub checkpoint: Duration,
    /// How long open tasks may take to finish when the run ends.
    pub drain: Duration,
    /// The longest time between two rounds when nothing happens.
    pub longest_wait: Duration,
}

/// The longest time between two rounds when nothing runs beside the tasks.
pub const USUAL_WAIT: Duration = Duration::from_secs(1);

/// When a crawl ends on its own; `None` means no limit.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// Pages fetched successfully, each counted once.
    pub documents: Option<u64>,
    /// Page requests that were answered, with any status.
    pub fetches: Option<u64>,
    /// Bytes of all bodies.
    pub bytes: Option<u64>,
    /// Time spent crawling, over all runs.
    pub time: Option<Duration>,
    /// Whether queued images are still fetched after one of the first two limits is reached.
    pub finish_images: bool,
}
