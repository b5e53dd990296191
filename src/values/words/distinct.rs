//! The distinct words of a text, numbered.

use super::map::WordMap;

/// Words, numbered from 0 in the order of their first occurrence.
#[derive(Debug, Default)]
pub struct Distinct<'t> {
    numbers: WordMap<&'t str, u32>,
    words: Vec<&'t str>,
}

impl<'t> Distinct<'t> {
    /// No words yet, with room for this many short ones.
    pub fn with_room(words: usize) -> Self {
        Self {
            numbers: WordMap::with_room(words),
            words: Vec::new(),
        }
    }

    /// The number of a word, a new one if the word is new. There are fewer than 2^32, because texts
    /// are shorter.
    pub fn number(&mut self, word: &'t str) -> u32 {
        self.numbers.get(word).copied().unwrap_or_else(|| {
            let number = self.words.len() as u32;
            self.words.push(word);
            self.numbers.insert(word, number);
            number
        })
    }

    /// The number of a known word.
    pub fn find(&self, word: &str) -> Option<u32> {
        self.numbers.get(word).copied()
    }

    /// The words, in the order of their numbers.
    pub fn words(&self) -> &[&'t str] {
        &self.words
    }
}
