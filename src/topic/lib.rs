//! How near a text is to the topic: pure ratings.
//!
//! | module | one line |
//! |---|---|
//! | `lm` | the Kneser-Ney estimator, ARPA files, KenLM (the only FFI), perplexity |
//! | `keywords` | the TF-IDF difference table and the keyword score |
//! | `neutral` | word frequencies of languages: the built-in tables |
//! | `score` | ratings of documents, links and images; online learning from links |
//! | `strategy` | the order of links: a trait, and a file for each strategy |
//! | `model` | the folder of a trained model |
//!
//! Begin with `lm`, then `score` and `strategy`. This crate does not know the network, the frontier, a job or the files of a crawl: equal texts
//! and models give equal numbers.

// Tests choose their own file names.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod keywords;
pub mod lm;
pub mod model;
pub mod neutral;
pub mod score;
pub mod strategy;

use spoor_settings as settings;
use spoor_values::{address, fs, language, page, tool_error, words};
