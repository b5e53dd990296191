//! One process that crawls a job: the wing of what is wired, run and asked.
//!
//! | module | one line | may import |
//! |---|---|---|
//! | `explain` | what is known of an address or a host, and which rule decided | crawl::frontier, topic::score, topic::strategy, web::robots, web::scope |
//! | `control` | the API by which a running crawl is asked and told | explain, crawl, web::scope |
//! | `overview` | all jobs of a folder on one page | control |
//! | `ready` | what a job must have before it may train or crawl | control, topic::model, web::fetch, web::scope |
//! | `error` | why a job cannot run | control, crawl, topic::score, web::fetch |
//! | `observer` | what a run tells people on the way | control, error, crawl |
//! | `wiring` | from the config of a job to its parts | control, error, explain, observer, ready, crawl, topic, web |
//! | `nothing` | why the seeds brought nothing | explain, crawl::frontier |
//! | `service` | what a service manager is told | nothing |
//! | `signals` | SIGINT, SIGTERM and SIGHUP | control, service, crawl::pipeline |
//! | `run` | opens a job, crawls, and says what it came to | control, error, nothing, observer, ready, service, signals, wiring, crawl, topic, web |
//! | `look` | what a crawl would make of one page | error, wiring, crawl, topic, web |
//! | `maintenance` | converts, compacts, checks, repairs, exports and imports a frontier | crawl |
//!
//! Nothing here knows what is made of the results later, nor how anything is printed.

pub mod control;
mod error;
pub mod explain;
pub mod look;
pub mod maintenance;
mod nothing;
mod observer;
pub mod overview;
pub mod ready;
pub mod run;
mod service;
pub mod signals;
pub mod wiring;

pub use error::DaemonError;
pub use nothing::Fruitless;
pub use observer::Observer;
pub use run::{Summary, crawl, desk};
pub use signals::{Signals, reload_on_hangup};
pub use wiring::{
    boundaries, fetcher, model, reader, runtime, terms, train, train_from_job, weights,
};
