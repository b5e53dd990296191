//! The journey of a page, from the queue to the commit.
//!
//! | module | one line | may import |
//! |---|---|---|
//! | `frontier` | add, lease, finish: queues, clocks of hosts, what is known of addresses; the only user of a store crate | nothing |
//! | `pipeline` | the journey of a page: lease, fetch, extract, score, write, commit | frontier, outputs |
//! | `checkpoint` | opens a job where its last commit left it | frontier, outputs |
//! | `figures` | the figures of a crawl, from the rows of its log | frontier, pipeline, outputs |
//! | `saved` | checkpoints of a running job in a folder or a bucket, and back | checkpoint, frontier, outputs |
//! | `cluster` | who asks which hosts where several machines crawl one job, and until when; links between them | frontier |
//! | `node` | a machine of a cluster: session, cells, links and checkpoints beside its crawl | checkpoint, cluster, frontier, pipeline, saved |
//! | `train` | texts, or the best pages of a crawl, to a model | frontier, pipeline, outputs |
//!
//! Processes, signals, the API and later uses of the results are unknown here.

pub mod checkpoint;
pub mod cluster;
pub mod figures;
pub mod frontier;
pub mod node;
pub mod pipeline;
pub mod saved;
pub mod train;
