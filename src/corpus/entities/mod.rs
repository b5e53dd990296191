//! Entities: a list of names, classes, popularity and aliases, found in texts.
//!
//! ```text
//! list (TSV, Wikidata) --list--> Entity --builder--> index file --index--> Index
//! text --written--> characters as aliases are written --find--> Mention
//! ```
//!
//! An alias matches as it is written, at word boundaries. If several entities have the same
//! alias, the most popular one counts; if two matches overlap, the longer one. A pronoun means
//! the last entity whose gender fits.
//!
//! The aliases are one transducer: they share prefixes and suffixes, so a million of them take
//! about as many bytes as they have letters. It is built in one pass over the sorted aliases,
//! and used in the form that the file has.
//!
//! Everything except reading and writing the two files is pure.

mod builder;
mod find;
mod index;
mod list;
mod paragraph;
mod pronouns;
mod wikidata;
mod written;

#[cfg(test)]
mod tests;

pub use builder::{Builder, Counts};
pub use find::{Field, Finder, Mention, Nouns, Text, Words};
pub use index::Index;
pub use list::{Lists, read};
pub use paragraph::{Passage, passages};

use serde::{Deserialize, Serialize};

/// Something with a name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entity {
    /// Its number in Wikidata; else its name.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its classes, such as country or human.
    pub classes: Vec<String>,
    /// How well known it is; of several with the same alias the highest counts.
    pub popularity: u64,
    /// Which pronouns may mean it.
    pub gender: Gender,
    /// Other names.
    pub aliases: Vec<String>,
}

/// Which pronouns may mean an entity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Gender {
    /// None.
    #[default]
    None,
    /// She.
    Female,
    /// He.
    Male,
}

impl Gender {
    /// The gender that a word in a list means.
    fn of(word: &str) -> Option<Self> {
        match word.to_lowercase().as_str() {
            "" => Some(Self::None),
            "f" | "female" => Some(Self::Female),
            "m" | "male" => Some(Self::Male),
            _ => None,
        }
    }
}
