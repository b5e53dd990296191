//! The step `copies`.

use std::path::PathBuf;

use serde::Deserialize;

/// `kind = "copies"`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Copies {
    /// What is compared.
    pub level: Level,
    /// How far apart in time two copies may be; `None` for any distance.
    pub window: Option<Window>,
    /// Which of several copies stays.
    pub keep: Keep,
    /// The least similarity of near copies; 1 for exact ones alone.
    pub least: f64,
    /// How similarity is measured.
    pub measure: Measure,
    /// Words of a shingle, and of the shortest passage that counts as the same.
    pub words: usize,
    /// A list of synonyms, which then count as one word.
    pub synonyms: Option<PathBuf>,
    /// All numbers count as the same word.
    pub ignore_numbers: bool,
    /// Bands of the sketch by which candidates are found.
    pub bands: usize,
    /// Hashes of a band.
    pub rows: usize,
    /// Earlier corpora, whose copies are removed.
    pub against: Vec<PathBuf>,
}

impl Default for Copies {
    fn default() -> Self {
        Self {
            level: Level::Document,
            window: None,
            keep: Keep::First,
            least: 0.8,
            measure: Measure::Both,
            words: 5,
            synonyms: None,
            ignore_numbers: false,
            // 112 hashes as in FineWeb, but not in 14 bands of 8: the alignment decides, so there
            // may be more candidates. If a twentieth of the words of a text is changed, these bands
            // find nearly all such copies, and 14 of 8 a third.
            bands: 28,
            rows: 4,
            against: Vec::new(),
        }
    }
}

impl Copies {
    /// Words of a shingle. The cosine uses single words, whose order does not matter.
    pub fn shingle(&self) -> usize {
        match self.measure {
            Measure::Cosine => 1,
            Measure::Both | Measure::Shorter => self.words,
        }
    }
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Whole documents.
    Document,
    /// Paragraphs.
    Paragraph,
    /// Sentences.
    Sentence,
    /// Addresses.
    Url,
}

impl Level {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Document => "document",
            Self::Paragraph => "paragraph",
            Self::Sentence => "sentence",
            Self::Url => "url",
        }
    }

    /// Whether parts of documents are compared.
    pub fn is_part(self) -> bool {
        matches!(self, Self::Paragraph | Self::Sentence)
    }
}

/// Which of several copies stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// The first in the order of the sources.
    First,
    /// The last.
    Last,
    /// The one with the most words.
    Longest,
    /// The one with the lowest perplexity, as measured by the last such step.
    Best,
    /// None of them.
    None,
    /// All of them; the copies are marked.
    All,
}

/// How similarity is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// The share of the words of both that are in common passages.
    Both,
    /// The share of the words of the shorter one.
    Shorter,
    /// The cosine of the counts of their words.
    Cosine,
}

/// A time between two documents, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Window(pub i64);

impl TryFrom<String> for Window {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let units = [
            ("h", 3_600_000),
            ("d", 86_400_000),
            ("w", 7 * 86_400_000_i64),
        ];
        let found = units.iter().find_map(|(unit, millis)| {
            let number: i64 = text.strip_suffix(unit)?.trim().parse().ok()?;
            number.checked_mul(*millis).filter(|window| *window > 0)
        });
        found.map(Self).ok_or_else(|| {
            format!("`{text}` is not a time as \"12h\", \"3d\" or \"2w\", with a whole number")
        })
    }
}
