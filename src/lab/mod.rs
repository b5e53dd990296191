//! The lab: webs that can be crawled without leaving this machine.
//!
//! A crawler is judged by what it asks and what it brings home, and neither can
//! be measured on the live web, where no run is like another. The lab gives a
//! web that stands still. It is a folder tree `DIR/<host>/<path>` served by
//! `Host` header on one loopback port, two small tables beside it (redirects,
//! images), and labels that say which page is on topic.
//!
//! Reading order: [`tree`] (what lies at an address: a file, a redirect, a
//! picture to be drawn, or nothing), [`picture`] (drawing it), [`mod@serve`] (the
//! same over HTTP, with latency, faults and a log for tests), [`judge`] (how
//! many of the first N fetches were on topic), [`demo`] (a small web made of
//! text written for this project, with two topics, noise, islands, link farms
//! and traps, for the quick start and the tests), [`traps`] (sites without end,
//! and what of them is worth a fetch), [`endless`] (a web of which every
//! page is new, for crawls of any length), [`gallery`] (pictures in several sizes, of which
//! some are gone), [`tarpits`] (hosts that keep requests open), [`zoo`] (hostile servers, and what must
//! become of each).
//!
//! A crawl reaches the lab by a resolver that sends every host to the lab's
//! address, or by naming the lab as its HTTP proxy: request targets in absolute
//! form are understood (RFC 9112 section 3.2.2).
//!
//! | module | one line | may import |
//! |---|---|---|
//! | `picture` | draws images | nothing |
//! | `tree` | what lies at an address | picture, serve |
//! | `serve` | the same over HTTP, with latency and faults | picture, tree |
//! | `judge` | how many fetches were on topic | tree |
//! | `demo` | a small web with two topics | tree |
//! | `traps` | sites without end | demo, tree |
//! | `endless` | a web of which every page is new | demo, traps, tree |
//! | `gallery` | pictures in several sizes | serve, tree |
//! | `tarpits` | hosts that keep requests open | demo, traps |
//! | `zoo` | hostile servers | picture |
//! | `experiment` | the same crawls with other settings, side by side, over one stored web | everything but the commands |
//!
//! Only the experiments know the crawler. The webs import nothing but `address`, give no stage a
//! short cut past HTTP, and never lie in their answers unless a test asks them to by a
//! [`Behaviour`]. Labels are for judging; no part of a crawl may read them. The zoo lies in
//! everything.

pub mod demo;
pub mod endless;
pub mod experiment;
pub mod gallery;
pub mod judge;
pub mod picture;
pub mod serve;
pub mod tarpits;
pub mod traps;
pub mod tree;
pub mod zoo;

#[cfg(test)]
mod tests;

pub use judge::{Labels, Verdict};
pub use serve::{Behaviour, Fault, Request, Running, serve, spawn};
pub use tree::{Lab, LabError, LabResponse, MemoryTree};
