//! The journey of a page, from lease to commit; the one place that sees every
//! stage.
//!
//! ```text
//!  frontier --lease--> fetch --Fetched--> extract --Extracted--> score --Scored--> store --> frontier
//! ```
//!
//! [`drive()`] is the loop. It is shared with training, which fetches its pages by the same
//! rules. [`Crawl`] is the handler of a real crawl: its processor turns bytes into a rated
//! product, and its `complete` writes the outputs and lets the frontier commit.
//!
//! In reading order:
//!
//! - `options`, `handler`, `completion`: the settings of a run, its callbacks, and the result of a
//!   task;
//! - `drive`: the loop; `leasing` and `concurrency`: how many tasks it leases; `journey`: one task
//!   from lease to completion; `outage`: what to do when the network is down; `steer`: questions
//!   and changes to a running loop;
//! - `reader`: how bodies are read and links are rated; `reading`: the current reader; `work`: from
//!   a body to a `product`; `workshop`: where slow work is done; `fields`: what the rules find on a
//!   page;
//! - `companion`: what runs beside the crawl of a machine in a cluster; `passes`: the gate for the
//!   requests of such a machine;
//! - `crawl`: what a crawl does with a product, in the steps `refusal`, `write` (with `documents`)
//!   and `log_row`;
//! - `replay`: a crawl over stored answers; `shelf`: the answers in an archive; `rerun`: all pages
//!   of an archive in its order; `fd_limit`: how many requests the limit of open files allows.
//!
//! No stage imports another one. Only the pipeline reads the network and the clock.

mod companion;
mod completion;
mod concurrency;
mod crawl;
mod documents;
mod drive;
mod fd_limit;
mod fields;
mod handler;
mod journey;
mod leasing;
mod log_row;
mod options;
mod outage;
mod passes;
mod product;
mod reader;
mod reading;
mod refusal;
mod replay;
mod rerun;
mod shelf;
mod steer;
#[cfg(test)]
mod tests;
mod work;
mod workshop;
mod write;

pub use companion::{Allowance, Companion, Course};
pub use completion::Completion;
pub use crawl::{Crawl, CrawlError, End};
pub use drive::drive;
pub use fd_limit::{files_for, fit_open_files};
pub use handler::{Admission, Handler, Processor};
pub use options::{Limits, LoopOptions, USUAL_WAIT};
pub use passes::{Entry, Pass, PassGate};
pub use product::{PageProduct, Product, SitemapProduct};
pub use reader::{ImageRules, Languages, Reader, pdf_reader};
pub use reading::Reading;
pub use replay::{Reply, Stored, replay, replay_task};
pub use rerun::{ReplayStatus, ReplayTally, rerun};
pub use shelf::{Caps, Shelf};
pub use steer::{Asker, Control, Phase, RunStatus, Steering, Stop, Stopper, Watch};
pub use work::NoContents;
pub use workshop::{Rest, Work};
