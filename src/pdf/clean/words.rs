//! The words of the text itself, used to recognise divided words.

use rustc_hash::FxHashMap;

/// How often each word occurs within lines, in lower case; a compound with hyphens counts as
/// one word, and its parts as well.
#[derive(Debug, Default)]
pub(super) struct Vocabulary {
    counts: FxHashMap<String, u32>,
    /// How often a word is part of a compound with hyphens.
    parts: FxHashMap<String, u32>,
}

impl Vocabulary {
    /// The vocabulary of some lines. A word that is divided at the end of its line does not count,
    /// and neither does its other half.
    pub(super) fn of(lines: &[&str], kept: &[usize]) -> Self {
        let mut all = Self::default();
        let mut was_divided = false;
        for line in kept.iter().filter_map(|number| lines.get(*number)) {
            let mut words: Vec<&str> = line.split(|c| !is_of_word(c)).collect();
            if was_divided && !words.is_empty() {
                words.remove(0);
            }
            was_divided = line.ends_with(is_hyphen);
            if was_divided {
                words.pop();
            }
            for word in words {
                all.add(word);
            }
        }
        all
    }

    fn add(&mut self, word: &str) {
        let word = word.trim_matches(is_hyphen);
        if word.is_empty() {
            return;
        }
        let word = folded(word);
        if word.contains('-') {
            for part in word.split('-').filter(|part| !part.is_empty()) {
                *self.parts.entry(part.to_owned()).or_default() += 1;
            }
        }
        *self.counts.entry(word).or_default() += 1;
    }

    /// How often a word occurs, given in lower case with `-` for every hyphen.
    pub(super) fn count(&self, word: &str) -> u32 {
        self.counts.get(word).copied().unwrap_or(0)
    }

    /// How often it is part of a compound.
    pub(super) fn as_part(&self, word: &str) -> u32 {
        self.parts.get(word).copied().unwrap_or(0)
    }
}

/// A word in lower case, its ligatures unfolded, with `-` for every hyphen.
pub(super) fn folded(word: &str) -> String {
    let mut text = String::with_capacity(word.len());
    for c in word.chars() {
        match super::unfolded(c) {
            _ if is_hyphen(c) => text.push('-'),
            Some(letters) => text.push_str(&letters),
            None => text.extend(c.to_lowercase()),
        }
    }
    text
}

/// Whether a character is a hyphen.
pub(super) fn is_hyphen(c: char) -> bool {
    matches!(c, '-' | '\u{ad}' | '\u{2010}')
}

/// Whether it may be part of a word with hyphens.
pub(super) fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || is_hyphen(c) || matches!(c, '\'' | '’')
}
