//! The journey of a page, from the queue to the commit.
//!
//! | module | one line | may import |
//! |---|---|---|
//! | `frontier` | add, lease, finish: queues, clocks of hosts, what is known of addresses; the only user of a store crate | topic::strategy, web::robots, web::scope |
//! | `pipeline` | the journey of a page: lease, fetch, extract, score, write, commit | frontier, outputs, topic::neutral, topic::score, topic::strategy, web::extract, fetch, web::robots, web::sitemap |
//! | `checkpoint` | opens a job where its last commit left it | frontier, outputs, topic::strategy, web::scope |
//! | `figures` | the figures of a crawl, from the rows of its log | frontier, pipeline, outputs |
//! | `saved` | checkpoints of a running job in a folder or a bucket, and back | checkpoint, frontier, outputs |
//! | `cluster` | who asks which hosts where several machines crawl one job, and until when; links between them | frontier, fetch, web::scope |
//! | `node` | a machine of a cluster: session, cells, links and checkpoints beside its crawl | checkpoint, cluster, frontier, pipeline, saved, topic::model, fetch, web::scope |
//! | `train` | texts, or the best pages of a crawl, to a model | frontier, pipeline, outputs, topic, web::extract, fetch, web::scope |
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
