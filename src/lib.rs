//! spoor follows a topic through the web.
//!
//! Given seed URLs and a handful of pages that are about the topic, it trains a 5-gram
//! Kneser-Ney language model and a keyword table, then crawls politely, always taking next
//! the link that most probably leads to more of the topic. It collects a parallel corpus:
//! the text, and every topical image with the words around it.
//!
//! # What is stable
//!
//! spoor is a program. Its command line, its job files and the files that it writes are
//! what it promises; the library under it has **no stable interface before 1.0**, and any
//! version may change or remove any part of it. Programs that use it nevertheless should
//! keep to these items:
//!
//! - [`address::PageUrl`], a canonical address;
//! - [`config::Config`], a checked job file;
//! - [`web::robots::Robots`], the rules of a robots.txt;
//! - [`web::extract::extract_text`], the contents of a page;
//! - [`topic::lm::KenLm`], a language model, with [`topic::lm::estimate()`] and [`mod@topic::lm::perplexity`].
//!
//! The [`guide`] describes the program, from the first job to the last export.
//!
//! # How a page travels
//!
//! ```text
//!             +------------------ new tasks, robots rules, host clocks ------------------+
//!             v                                                                          |
//!  seeds -> frontier --lease--> fetch --Fetched--> extract --Extracted--> score --Scored--> store
//!           (sled)             (reqwest)         (html, charset)      (lm, keywords)  (images, sentences, logs)
//! ```
//!
//! The frontier decides *when* and *which*, fetch only *how*. Every request is a leased
//! task of the frontier, for pages, robots.txt and images alike, so that one clock per
//! host covers them all. A redirect is an outcome that re-enters the frontier as a new
//! task. [`crawl::pipeline`] is the one place that sees every stage; stages never import
//! each other.
//!
//! # Crate map
//!
//! In reading order: plain values first, then the wings, each of which may import those
//! above it. The `mod.rs` of a wing has the same table of its modules. A test checks the
//! last columns against the source.
//!
//! | module | one line | may import |
//! |---|---|---|
//! | `objects` | whole objects in a folder or an S3-compatible bucket, with one compare-and-set | nothing |
//! | `local_access` | the secret of a local server, in a header, a cookie or a link | nothing |
//! | `local_origin` | whether a request to a local server comes from a foreign page | nothing |
//! | `local_server` | HTTP connections of a local server, with limits | nothing |
//! | `guide` | the guide for users: Markdown to plain text | nothing |
//! | `config` | raw TOML to a checked config, reporting all errors at once; new job files | nothing |
//! | `metrics` | counters and timings of a run, for Prometheus | nothing |
//! | `picture` | what an image file is and looks like, from its bytes | nothing |
//! | `outputs` | append-only outputs: images and sidecars, sentences, documents, archive, logs; those of several machines as one | values |
//! | `crawl` | the journey: frontier, pipeline, checkpoint, training | values, outputs |
//! | `daemon` | the process that crawls a job: wiring, running, signals, the API | values, outputs, crawl |
//! | `corpus` | work on a finished corpus: gathering, ranking, data sets, judgements, reports, takedown | values, outputs, crawl |
//!
//! The commands belong to the binary: one thin file each under `src/commands`.
//!
//! # Invariants
//!
//! - A URL is queued, leased, waiting to retry, done, or dropped with a reason:
//!   always exactly one.
//! - A host never gets two requests closer together than its delay, whatever is
//!   restarted or redirected in between.
//! - A page's effects (its state, new links, contexts, the lengths of the outputs) are one
//!   batch of the store; opening a job truncates outputs to the last batch. If the process
//!   is killed, only what was in flight is lost.
//! - Stages are pure: the same bytes give the same ratings. Time and network are
//!   arguments; no stage accesses them behind the pipeline's back.
//! - No input from the web, a config or the disk panics; errors say what to do.

// Tests name their own files.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod config;
pub mod corpus;
pub mod crawl;
pub mod daemon;
pub mod guide;
pub mod local_access;
pub mod local_origin;
mod local_server;
pub mod metrics;
pub mod objects;
pub mod outputs;
pub mod picture;
pub use spoor_values::{
    address, clock, coding, file_errors, fold, fs, language, limit, page, progress, sanitize, words,
};
pub use {
    spoor_archive as archive, spoor_fetch as fetch, spoor_pdf as pdf, spoor_rules as rules,
    spoor_settings as settings, spoor_topic as topic, spoor_web as web,
};

#[cfg(test)]
mod tests;
