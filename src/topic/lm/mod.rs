//! The language model of a topic: estimated from its sentences, used to score others.
//!
//! The module [`words`](crate::words) turns running text into [`Sentence`]s. [`mod@estimate`]
//! builds an interpolated modified Kneser-Ney model from sentences (`corpus` numbers their words,
//! `runs` sorts and counts their n-grams), [`arpa`] writes it to a file, [`kenlm`] loads such a
//! file and scores sentences with it, [`binary`] keeps beside it KenLM's binary form (`probing`),
//! so that it loads at once, [`perplexity`] turns log probabilities into the measure behind all
//! ratings.
//!
//! A model is trained once and then only read, from any number of threads. This module does not
//! know pages, links, keywords, scores or the source of sentences.
//!
//! ```
//! use spoor_topic::lm::{KenLm, arpa, estimate, perplexity, sentences};
//!
//! let texts = [
//!     "The cat sleeps on the sofa all day. A kitten plays with the cat in the garden.",
//!     "The kitten sleeps beside the cat. At night the cat plays in the garden.",
//! ];
//! let model = estimate(sentences(texts), 3)?;
//! let folder = tempfile::tempdir()?;
//! let file = folder.path().join("lm.arpa");
//! arpa::write(&model, &file)?;
//!
//! // The lower the perplexity, the nearer is a text to the topic.
//! let model = KenLm::load(&file)?;
//! let of = |text| perplexity::document(&model, &sentences([text])).perplexity;
//! let near = of("At night the kitten plays on the sofa.");
//! let far = of("The parliament will vote on taxes tomorrow.");
//! assert!(near < far / 2.0, "{near} {far}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod arpa;
pub mod binary;
mod corpus;
mod error;
pub mod estimate;
pub mod kenlm;
pub mod perplexity;
mod probing;
mod runs;

#[cfg(test)]
mod tests;

pub use crate::words::{MIN_TOKENS, Sentence, normalise, sentences};
pub use error::EstimateError;
pub use estimate::{Discount, Estimate, estimate};
pub use kenlm::{KenLm, LanguageModel, ModelError, Running, SentenceScore};
