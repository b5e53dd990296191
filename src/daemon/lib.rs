//! The process that crawls a job: wiring, running, control.
//!
//! A checked job file is made ready ([`ready`]), turned into the parts of a crawl ([`wiring`]) and
//! run to its end ([`mod@run`]); meanwhile, [`control`] answers queries and accepts changes. Begin
//! with `run`.
//!
//! | module | purpose |
//! |---|---|
//! | `allocator` | the settings of the program's allocator for long commands |
//! | `explain` | what is known about an address or a host, and which rule decided |
//! | `control` | the API that queries and controls a running crawl |
//! | `overview` | all jobs of a folder on one page |
//! | `ready` | what a job must have before it may train or crawl |
//! | `error` | why a job cannot run |
//! | `observer` | progress reports of a run |
//! | `wiring` | from the config of a job to its parts |
//! | `nothing` | why no seed yielded a page |
//! | `service` | notifications for a service manager |
//! | `signals` | SIGINT, SIGTERM and SIGHUP |
//! | `machine` | the machine's place in a cluster, if the job has one |
//! | `run` | opens a job, crawls, and returns a summary |
//! | `replay` | runs a job on an archive instead of the web |
//! | `doctor` | what is missing or odd on this machine |
//! | `look` | how a crawl would treat one page |
//! | `maintenance` | converts, compacts, checks, repairs, exports and imports a frontier |
//!
//! Nothing here knows how the results are used later, or how anything is printed.

// Tests name their own files.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod allocator;
pub mod control;
pub mod doctor;
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

use spoor_outputs as outputs;
use spoor_values::{address, clock, fs, page, sanitize, tool_error};
use {
    spoor_archive as archive, spoor_cluster as cluster, spoor_config as config,
    spoor_crawl as crawl, spoor_fetch as fetch, spoor_frontier as frontier, spoor_local as local,
    spoor_pdf as pdf, spoor_rules as rules, spoor_settings as settings, spoor_topic as topic,
    spoor_web as web,
};
