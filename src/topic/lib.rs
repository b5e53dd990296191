//! How near a text is to the topic: pure ratings.
//!
//! | module | one line | may import |
//! |---|---|---|
//! | `lm` | the Kneser-Ney estimator, ARPA files, KenLM (the only FFI), perplexity | nothing |
//! | `keywords` | the TF-IDF difference table and the keyword score | lm |
//! | `neutral` | word frequencies of languages: the built-in tables | lm |
//! | `score` | ratings of documents, links and images; online learning from links | keywords, lm |
//! | `strategy` | the order of links: a trait, and a file for each strategy | score |
//! | `model` | the folder of a trained model | keywords, lm, score |
//!
//! Nothing here knows the network, the frontier, a job or a file of a crawl: equal texts
//! and models give equal numbers.

// Tests name their own files.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod keywords;
pub mod lm;
pub mod model;
pub mod neutral;
pub mod score;
pub mod strategy;

use spoor_settings as settings;
use spoor_values::{address, fs, language, page, words};
