//! Which part of a page's text is its text.

use serde::{Deserialize, Serialize};

/// How the text of a page is told from what stands around it. The names are stable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Extractor {
    /// It is not: all text of the body counts.
    #[default]
    All,
    /// The main content, as the reader modes of browsers find it.
    Article,
    /// The segments that are dense, or speak of what the title speaks of.
    Density,
}

impl Extractor {
    /// Its name in job files and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Article => "article",
            Self::Density => "density",
        }
    }
}

/// Which part of a page's text was taken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextShare {
    /// What chose it; [`Extractor::All`] where the job's own left too little.
    pub extractor: Extractor,
    /// Its words, numbers not counted.
    pub words: u32,
    /// The words of the whole page.
    pub of: u32,
}

/// The main text of a page as its author wrote it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MainText {
    /// The text; an empty line parts two paragraphs.
    pub text: String,
    /// Which part of the page's text it is.
    pub share: TextShare,
}

/// What a page says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metadata {
    /// When it was published, in ISO 8601 as exact as the page is.
    pub published: Option<String>,
    /// When it was changed last, likewise.
    pub modified: Option<String>,
    /// What it calls itself, without the name of the site where that can be told.
    pub title: Option<String>,
    /// Who wrote it, in its order.
    pub authors: Vec<String>,
}
