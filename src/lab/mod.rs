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
//! What the lab must not know: the crawler. It imports nothing but `address`,
//! gives no stage a short cut past HTTP, and never lies in its answers unless a
//! test asks it to by a [`Behaviour`]. Labels are for judging; no part of a
//! crawl may read them. The zoo lies in everything.

pub mod demo;
pub mod endless;
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
pub use tree::{Answer, Lab, LabError, MemoryTree};
