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
//! - `options`, `handler`, `completion`: what a run is given, and what it gets for a task;
//! - `drive`: the loop; `leasing` and `concurrency`: how many tasks it leases; `journey`: one
//!   task from lease to completion; `outage`: a network that is gone; `steer`: questions and
//!   changes to a running loop;
//! - `reader`: what bodies are read with, and how links are rated; `reading`: which reader is in
//!   force; `work`: from a body to a `product`; `workshop`: where the work is done that may take
//!   long; `fields`: what rules find on a page;
//! - `companion`: what goes on beside a crawl of one of several machines; `gate`: what its
//!   requests pass through before they are sent;
//! - `crawl`: what a crawl does with a product, in the steps `refusal`, `write` (with
//!   `documents`) and `log_row`;
//! - `replay`: the same over stored answers; `shelf`: the answers that an archive has; `rerun`:
//!   all pages of an archive in its order; `fd_limit`: what the system permits.
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
pub use fd_limit::fit_open_files;
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
