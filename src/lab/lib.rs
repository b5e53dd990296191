//! The lab: local webs for crawling offline.
//!
//! A crawler is judged by its requests and its results, and neither can be measured on the
//! live web, where every run differs. The lab provides a web that does not change. It is a
//! folder tree `DIR/<host>/<path>` served by `Host` header on one loopback port, two small
//! tables beside it (redirects, images), and labels that say which page is on topic.
//!
//! Reading order: [`tree`] (the content of an address: a file, a redirect, a picture to be
//! drawn, or nothing), [`picture`] (drawing it), [`mod@serve`] (the same over HTTP, with
//! latency, faults and a log for tests), [`judge`] (how many of the first N fetches were
//! on topic), [`demo`] (a small web made of text written for this project, with two
//! topics, noise, islands, link farms and traps, for the quick start and the tests),
//! [`traps`] (endless sites, and which of their pages are worth a fetch), [`endless`] (a
//! web in which every page is new, for crawls of any length), [`gallery`] (pictures in
//! several sizes, some of which are missing), [`tarpits`] (hosts that keep requests open),
//! [`zoo`] (hostile servers with expected outcomes).
//!
//! A crawl reaches the lab through a resolver that sends every host to the lab's address, or with
//! the lab as its HTTP proxy: request targets in absolute form are understood (RFC 9112 section
//! 3.2.2).
//!
//! | module | one line |
//! |---|---|
//! | `picture` | draws images |
//! | `tree` | the content of an address |
//! | `serve` | the same over HTTP, with latency and faults |
//! | `judge` | how many fetches were on topic |
//! | `demo` | a small web with two topics |
//! | `traps` | endless sites |
//! | `endless` | a web in which every page is new |
//! | `gallery` | pictures in several sizes |
//! | `tarpits` | hosts that keep requests open |
//! | `zoo` | hostile servers |
//! | `experiment` | crawls of one stored web, side by side |
//!
//! The webs import nothing but addresses and files, give no stage a shortcut past HTTP, and
//! their responses are correct unless a test requests a fault by a [`Behaviour`]. Labels are
//! for judging; no part of a crawl may read them. The zoo's responses are never trustworthy.
//!
//! The program `spoor-lab` serves these webs and runs experiments: crawls of one stored web with
//! different settings, side by side. Only the experiments know the crawler, so they are a feature
//! (`program`), and the tests of other crates use the webs without it.

// Tests choose their own file names.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod demo;
pub mod endless;
#[cfg(feature = "program")]
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

pub use judge::{Labels, TopicVerdict};
pub use serve::{Behaviour, Fault, Request, Running, serve, spawn};
pub use tree::{Lab, LabError, LabResponse, MemoryTree};

use spoor_values::{address, fs};
