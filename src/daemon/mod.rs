//! The process that crawls a job: wiring, running, control.
//!
//! | module | one line | may import |
//! |---|---|---|
//! | `allocator` | how the program's allocator is set up for long commands | nothing |
//! | `explain` | what is known about an address or a host, and which rule decided | crawl::frontier |
//! | `control` | the API that queries and controls a running crawl | explain, crawl |
//! | `overview` | all jobs of a folder on one page | control, crawl::figures |
//! | `ready` | what a job must have before it may train or crawl | control, crawl::checkpoint |
//! | `error` | why a job cannot run | control, crawl |
//! | `observer` | progress reports of a run | control, error, crawl |
//! | `wiring` | from the config of a job to its parts | control, error, explain, observer, ready, crawl |
//! | `nothing` | why no seed yielded a page | explain, crawl::frontier |
//! | `service` | notifications for a service manager | nothing |
//! | `signals` | SIGINT, SIGTERM and SIGHUP | control, service, crawl::pipeline |
//! | `machine` | the machine's place in a cluster, if the job has one | control, error, observer, crawl |
//! | `run` | opens a job, crawls, and returns a summary | control, error, machine, nothing, observer, ready, service, signals, wiring, crawl |
//! | `replay` | runs a job on an archive instead of the web | control, error, wiring, crawl |
//! | `look` | how a crawl would treat one page | error, wiring, crawl |
//! | `maintenance` | converts, compacts, checks, repairs, exports and imports a frontier | crawl |
//!
//! Nothing here knows how the results are used later, or how anything is printed.

pub mod allocator;
pub mod control;
mod error;
pub mod explain;
pub mod look;
mod machine;
pub mod maintenance;
mod nothing;
mod observer;
pub mod overview;
pub mod ready;
pub mod replay;
pub mod run;
mod service;
pub mod signals;
pub mod wiring;

pub use error::DaemonError;
pub use machine::{Broker, connect, silent_brokers};
pub use nothing::Fruitless;
pub use observer::Observer;
pub use run::{Summary, control_handle, crawl};
pub use signals::{Signals, reload_on_hangup};
pub use wiring::{
    boundaries, fetcher, model, reader, runtime, terms, train, train_from_job, weights,
};
