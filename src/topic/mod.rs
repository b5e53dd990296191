//! How near a text is to the topic: the wing of pure ratings.
//!
//! | module | one line | may import |
//! |---|---|---|
//! | `lm` | tokens, the Kneser-Ney estimator, ARPA files, KenLM (the only FFI), perplexity | nothing |
//! | `keywords` | the TF-IDF difference table and the keyword score | lm |
//! | `neutral` | how frequent words are in a language: the built-in tables | lm |
//! | `score` | ratings of documents, links and images; what a crawl learns of its links | keywords, lm |
//! | `strategy` | what decides the order of links: a trait, and a file for each strategy | score |
//! | `model` | the folder of a trained model | keywords, lm, score |
//!
//! Nothing here knows the network, a frontier, a job or a file of a crawl: the same text and
//! the same model give the same number.

pub mod keywords;
pub mod lm;
pub mod model;
pub mod neutral;
pub mod score;
pub mod strategy;
