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
