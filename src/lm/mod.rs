//! The language model of a topic.

pub mod tokens;

pub use tokens::{MIN_TOKENS, Sentence, normalise, sentences};
