//! The main text of a page, and how it was chosen.

use serde::{Deserialize, Serialize};

/// How the main text of a page is separated from its surroundings. The names are stable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Extractor {
    /// Not at all: all text of the body counts.
    #[default]
    All,
    /// The main text of a page of any kind, chosen block by block by a model.
    #[serde(alias = "article")]
    Main,
    /// The segments that are dense in text or share the title's words.
    Density,
}

impl Extractor {
    /// Its name in job files and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Main => "main",
            Self::Density => "density",
        }
    }
}

/// How much of a page's text was taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextShare {
    /// The extractor that chose it; [`Extractor::All`] if the configured one left too
    /// little.
    pub extractor: Extractor,
    /// Its number of words, excluding numbers.
    pub words: u32,
    /// The number of words of the whole page.
    pub of: u32,
}

/// The main text of a page as its author wrote it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MainText {
    /// The text; paragraphs are separated by an empty line.
    pub text: String,
    /// How much of the page's text it is.
    pub share: TextShare,
}

/// The metadata that a page states about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// The date of publication in ISO 8601, as precise as the page states it.
    pub published: Option<String>,
    /// The date of the last change, in the same form.
    pub modified: Option<String>,
    /// Its title, without the name of the site if that can be recognised.
    pub title: Option<String>,
    /// Its authors, in the order of the page.
    pub authors: Vec<String>,
}
