//! The settings of a run: how much it does at once, and when it ends by itself. Both may be
//! changed while it runs.

use std::time::Duration;

/// How much a run does at once, and how often it flushes.
#[derive(Debug, Clone)]
pub struct LoopOptions {
    /// The greatest number of open requests; fewer if the machine could not keep up.
    pub concurrency: usize,
    /// The size of all bodies in memory, in bytes, above which nothing is leased.
    pub max_bytes: u64,
    /// The time between two flushes of the store.
    pub checkpoint: Duration,
    /// How long open tasks may take to finish when the run ends.
    pub drain: Duration,
    /// The longest time between two rounds, where nothing happens.
    pub longest_wait: Duration,
}

/// The longest time between two rounds, where nothing else goes on beside the tasks.
pub const USUAL_WAIT: Duration = Duration::from_secs(1);

/// When a crawl ends by itself; `None` means no limit.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// Pages fetched with success, each counted once.
    pub documents: Option<u64>,
    /// Page requests answered, whatever the status.
    pub fetches: Option<u64>,
    /// Bytes of all bodies.
    pub bytes: Option<u64>,
    /// Time spent crawling, over all runs.
    pub time: Option<Duration>,
    /// After the first two limits, images that are queued are still fetched.
    pub finish_images: bool,
}
