//! The sentences that a model is estimated from, as word numbers.

use std::borrow::Borrow;

use rustc_hash::FxHashMap;

use super::error::EstimateError;
use crate::words::Sentence;

/// In every vocabulary, but in no sentence.
pub(super) const UNK: u32 = 0;
pub(super) const BOS: u32 = 1;
const EOS: u32 = 2;
const SPECIAL: [&str; 3] = ["<unk>", "<s>", "</s>"];

/// The sentences as word numbers: `<unk>`, then each between `<s>` and `</s>`.
#[derive(Debug, Clone)]
pub(super) struct NgramCorpus {
    pub(super) words: Vec<u32>,
    /// By number. Words after the special ones are sorted, so that numbers compare like words,
    /// regardless of the order of sentences.
    pub(super) names: WordNames,
    pub(super) sentences: usize,
}

impl NgramCorpus {
    pub(super) fn read(
        sentences: impl IntoIterator<Item: Borrow<Sentence>>,
    ) -> Result<Self, EstimateError> {
        let mut words = vec![UNK];
        let mut numbers: FxHashMap<Box<str>, u32> = FxHashMap::default();
        let mut count = 0;
        for sentence in sentences {
            let sentence = sentence.borrow();
            if sentence.is_empty() {
                continue;
            }
            count += 1;
            words.push(BOS);
            for token in sentence.tokens() {
                let number = match numbers.get(token) {
                    Some(&number) => number,
                    None => {
                        let next = (SPECIAL.len() + numbers.len()) as u32;
                        numbers.insert(token.into(), next);
                        next
                    }
                };
                words.push(number);
            }
            words.push(EOS);
            if u32::try_from(words.len()).is_err() {
                return Err(EstimateError::TooLarge);
            }
        }
        if count == 0 {
            return Err(EstimateError::EmptyCorpus);
        }

        let mut sorted: Vec<(Box<str>, u32)> = numbers.into_iter().collect();
        sorted.sort_unstable();
        let mut renumbered: Vec<u32> = (0..(SPECIAL.len() + sorted.len()) as u32).collect();
        for (new, (_, old)) in (SPECIAL.len() as u32..).zip(&sorted) {
            renumbered[*old as usize] = new;
        }
        for word in &mut words {
            *word = renumbered[*word as usize];
        }
        words.shrink_to_fit();
        let names = SPECIAL
            .into_iter()
            .chain(sorted.iter().map(|(name, _)| &**name))
            .collect();
        Ok(Self {
            words,
            names,
            sentences: count,
        })
    }
}

/// Words by number, stored in one text.
#[derive(Debug, Clone, Default)]
pub(super) struct WordNames {
    text: String,
    ends: Vec<usize>,
}

impl WordNames {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len() as u32).map(|number| self.get(number))
    }

    pub(super) fn get(&self, number: u32) -> &str {
        let number = number as usize;
        let start = match number {
            0 => 0,
            _ => self.ends[number - 1],
        };
        &self.text[start..self.ends[number]]
    }
}

impl<'a> FromIterator<&'a str> for WordNames {
    fn from_iter<T: IntoIterator<Item = &'a str>>(names: T) -> Self {
        let mut all = WordNames::default();
        for name in names {
            all.text.push_str(name);
            all.ends.push(all.text.len());
        }
        all
    }
}
