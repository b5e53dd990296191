//! Grammar: the tokens of a text with their stems, lemmas, synonyms and parts of speech.
//!
//! `tokens` splits a text, `stems` are those of Snowball, `lists` has the user's lemmas and the
//! stopwords, `tagger` knows parts of speech, `conllu` reads what it is trained on.
//!
//! Everything is pure except reading and writing files.

pub mod conllu;
mod lists;
mod stems;
pub mod tagger;
mod tokens;

pub use lists::{Lemmas, Stopwords};
pub use stems::Stemmer;
pub use tokens::{Token, tokens};

/// Whether a tag means a noun in Universal Dependencies, Penn or STTS.
pub fn is_noun(tag: &str) -> bool {
    tag == "PROPN" || (tag.starts_with('N') && tag != "NUM")
}
