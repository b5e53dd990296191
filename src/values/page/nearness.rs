//! How near a page is to the topic, judged by its own text.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The most distinct words kept of a seed, counted from the start of its page.
const MAX_WORDS: usize = 4_096;

/// The words of one text in sorted order, each with its number of occurrences.
pub type WordCounts = BTreeMap<String, u32>;

/// How near a page is to the topic, judged by its own text, in the form that a learning
/// crawl needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Nearness {
    /// The probability of being on topic, 0 to 1. Used if the page's words cannot be
    /// compared with those of the topic, because it has none or the model was trained
    /// without neutral texts.
    Likely(f64),
    /// The result of comparing its words.
    Above {
        /// How far it is above neutral text, in standard deviations of neutral text.
        deviations: f64,
        /// Its words, if it is a seed that the model was not trained on.
        seed: Option<WordCounts>,
    },
}

/// What a judge of pages remembers of one page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// Its slot, which replaces the previous content of that slot.
    pub place: u16,
    /// The remembered state, in the judge's own encoding.
    pub state: Vec<u8>,
}

impl Nearness {
    /// The same for a seed with these normalised sentences, one per line.
    #[must_use]
    pub fn of_seed(self, sentences: &str) -> Self {
        match self {
            Self::Above { deviations, .. } => {
                let mut words = WordCounts::new();
                for word in sentences.split_whitespace() {
                    if let Some(times) = words.get_mut(word) {
                        *times += 1;
                    } else if words.len() < MAX_WORDS {
                        words.insert(word.to_owned(), 1);
                    }
                }
                Self::Above {
                    deviations,
                    seed: Some(words),
                }
            }
            likely @ Self::Likely(_) => likely,
        }
    }

    /// Whether it contains the words of a seed.
    pub fn is_of_seed(&self) -> bool {
        matches!(self, Self::Above { seed: Some(_), .. })
    }
}
