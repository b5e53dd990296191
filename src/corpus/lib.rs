//! Work on the results of a crawl: ranked images, data sets, corpora from plans, human
//! judgements, reports, and takedowns.
//!
//! A document of a job or a record of an archive enters `pipeline` through a source and passes
//! the steps of a plan. Each step keeps it, changes it, or removes it with a reason. What is left
//! becomes a row in each format. Begin with `pipeline`.
//!
//! | module | one line |
//! |---|---|
//! | `rank` | the images of a job in order, each picture once |
//! | `annotate` | a page on which people judge images |
//! | `agreement` | the agreement of the annotators |
//! | `columns` | columns of data sets: name, kind, meaning and value |
//! | `export` | the best images as a data set |
//! | `report` | what jobs found, as HTML |
//! | `stored` | the stored pages of archives in figures |
//! | `ruled` | rules over stored pages: files, and the responses of archives |
//! | `before` | what an earlier crawl kept, compared with a replay |
//! | `copies` | near copies of texts, confirmed by their common passages |
//! | `grammar` | tokens with stems, lemmas and parts of speech |
//! | `entities` | a list of names, found in texts |
//! | `pipeline` | a corpus from a plan: sources, steps, formats; work on stored documents |
//! | `print` | documents and images as lines of JSON, for other programs |
//! | `takedown` | removes samples from a job permanently |
//! | `gather` | one job folder of those of several machines |
//!
//! These modules read and rewrite the outputs of a job. They do not know running crawls,
//! and nothing here fetches anything; `pipeline` uploads a corpus if its plan names a store.

// Tests name their own files.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod agreement;
pub mod annotate;
pub mod before;
mod columns;
pub mod copies;
pub mod entities;
pub mod export;
pub mod gather;
pub mod grammar;
pub mod pipeline;
pub mod print;
pub mod rank;
pub mod report;
pub mod ruled;
pub mod stored;
pub mod takedown;

use spoor_outputs as outputs;
use spoor_values::{
    address, clock, fs, language, limit, page, progress, sanitize, tool_error, words,
};
use {
    spoor_archive as archive, spoor_crawl as crawl, spoor_frontier as frontier,
    spoor_local as local, spoor_pdf as pdf, spoor_rules as rules, spoor_settings as settings,
    spoor_topic as topic, spoor_web as web,
};
#[cfg(test)]
use {spoor_config as config, spoor_daemon as daemon};
