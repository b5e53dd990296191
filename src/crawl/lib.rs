//! The journey of a page, from the queue to the commit.
//!
//! A seed or a link is added to the frontier, which says when it is due. The
//! [`pipeline`] leases it, fetches it, extracts text, links and images, scores them, writes the
//! outputs, and finishes the task; the frontier commits the task's state, its links and the
//! lengths of the outputs in one batch. [`checkpoint`] opens a job where its last batch left it.
//!
//! Begin with `pipeline`: it is the one place that sees every stage.
//!
//! | module | one line |
//! |---|---|
//! | `pipeline` | the journey of a page: lease, fetch, extract, score, write, commit |
//! | `checkpoint` | opens a job where its last commit left it |
//! | `figures` | the figures of a crawl, from the rows of its log |
//! | `metrics` | counters and levels, for Prometheus |
//! | `objects` | files in a folder or a bucket |
//! | `saved` | checkpoints of a running job in a folder or a bucket, and back |
//! | `few` | a crawl of a few given pages, for training and for a look at one page |
//! | `train` | texts, or the best pages of a crawl, to a model |
//!
//! This crate knows nothing of processes, signals, the API, or later uses of the results.

// Tests name their own files.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod checkpoint;
pub mod few;
pub mod figures;
pub mod metrics;
pub mod objects;
pub mod pipeline;
pub mod saved;
pub mod train;

#[cfg(test)]
use spoor_config as config;
use spoor_outputs as outputs;
use spoor_values::{
    address, clock, coding, fs, language, page, parallel, progress, sanitize, tool_error, words,
};
use {
    spoor_archive as archive, spoor_fetch as fetch, spoor_frontier as frontier, spoor_pdf as pdf,
    spoor_rules as rules, spoor_settings as settings, spoor_topic as topic, spoor_web as web,
};
