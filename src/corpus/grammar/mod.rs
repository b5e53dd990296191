//! Grammar: the tokens of a text with their stems, lemmas, synonyms and parts of speech.
//!
//! `tokens` splits a text, `stems` are those of Snowball, `lists` has the user's lemmas and the
//! stopwords, `tagger` knows parts of speech, `conllu` reads what it is trained on.
//!
//! Everything is pure but for reading and writing files.

pub mod conllu;
mod lists;
mod stems;
pub mod tagger;
mod tokens;

pub use lists::{Lemmas, Stopwords};
pub use stems::Stemmer;
pub use tokens::{Token, tokens};

use std::path::PathBuf;

use crate::fs::IoError;

/// Why grammar is not to be had.
#[derive(Debug, thiserror::Error)]
pub enum GrammarError {
    /// A file cannot be read or written.
    #[error("{0}; correct the path, or free space and correct the permissions")]
    Io(#[from] IoError),
    /// A line of a list is wrong.
    #[error("{}, line {line}: {why}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
        /// The problem, and what to do.
        why: String,
    },
    /// A file is no tagger.
    #[error(
        "{}: is no tagger of this version of spoor; train one with `spoor tagger train`",
        .0.display()
    )]
    NoTagger(PathBuf),
    /// There is nothing to learn from.
    #[error("{}: has no sentence with parts of speech; give files in CoNLL-U", .0.display())]
    Empty(PathBuf),
    /// There is too much to learn from.
    #[error("more than 250 tags; name the column with fewer: --column upos")]
    TooManyTags,
}

/// Whether a tag is that of a noun, by the names of Universal Dependencies, Penn or STTS.
pub fn is_noun(tag: &str) -> bool {
    tag == "PROPN" || (tag.starts_with('N') && tag != "NUM")
}
