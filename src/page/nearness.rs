//! How near a page's own text says that it is to the topic.

use std::collections::BTreeMap;

/// Different words of a seed that are kept, the first on its page.
const MAX_WORDS: usize = 4_096;

/// The words of one text in order, each with how often it occurs there.
pub type WordCounts = BTreeMap<String, u32>;

/// How near a page's own text says that it is to the topic, as a learning crawl is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Nearness {
    /// How likely it is on topic, 0 to 1: of a page whose words cannot be compared with
    /// those of the topic, as it has none, or the model knows no other texts.
    Likely(f64),
    /// How its words compare.
    Above {
        /// How far it lies above neutral text, in standard deviations of that.
        deviations: f64,
        /// Its words, of a seed that the model was not trained on.
        seed: Option<WordCounts>,
    },
}

/// What a judge of pages keeps of one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// Where it is kept, in place of what is kept there.
    pub place: u16,
    /// What is kept, as the judge itself writes it.
    pub state: Vec<u8>,
}

impl Nearness {
    /// The same of a seed of these normalised sentences, a line each.
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

    /// Whether it brings the words of a seed.
    pub fn is_of_seed(&self) -> bool {
        matches!(self, Self::Above { seed: Some(_), .. })
    }
}
