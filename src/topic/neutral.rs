//! Word frequencies of whole languages, for use without neutral texts.
//!
//! The tables are in `models/neutral` and are compiled in: the 20,000 most frequent words of each
//! language with rounded frequencies. `models/README.md` gives their sources and licences. They
//! contain single words, so they say nothing about word order in neutral text.

use std::collections::HashMap;
use std::io::Read;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use flate2::read::GzDecoder;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rustc_hash::FxHashMap;

use crate::language::Language;
use crate::lm::{Sentence, normalise};

/// The number of tokens of neutral text that a table represents. The rarest words of a
/// table occur at least twice in this many tokens.
const TOKENS: f64 = 1e6;

/// The number of neutral documents that a table represents, and the tokens of each, for
/// computing document frequencies.
const DOCUMENTS: usize = 1_000;
const DOCUMENT_TOKENS: f64 = 1_000.0;

/// The number of tokens of a sampled sentence.
const SENTENCE_TOKENS: usize = 20;

macro_rules! tables {
    ($($code:literal)*) => {
        /// Every language with its packed table.
        const TABLES: &[(&str, &[u8])] = &[
            $(($code, include_bytes!(concat!("../../models/neutral/", $code, ".gz"))),)*
        ];
    };
}
tables!("ar" "bg" "bn" "ca" "cs" "da" "de" "el" "en" "es" "fa" "fi" "fr" "he" "hi" "hr" "hu"
    "id" "it" "lt" "lv" "mk" "nb" "nl" "pl" "pt" "ro" "ru" "sk" "sl" "sv" "ta" "tl" "tr" "uk"
    "ur" "vi");

/// The languages with a table, in the order of their codes.
pub fn languages() -> impl Iterator<Item = Language> {
    TABLES
        .iter()
        .filter_map(|(code, _)| Language::of_code(code).ok())
}

/// Tables by the codes of their languages; `None` for languages without one.
type Tables = HashMap<&'static str, Option<Arc<Words>>>;

/// The tables used to look up single words. Reading one takes some milliseconds.
static READ: LazyLock<Mutex<Tables>> = LazyLock::new(Mutex::default);

/// Whether a word (in lower case) is one of the frequent ones of a language.
pub fn knows(language: Option<Language>, word: &str) -> bool {
    let Some(language) = language else {
        return false;
    };
    let words = {
        let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
        let own = read.entry(language.code());
        own.or_insert_with(|| Words::of(language).map(Arc::new))
            .clone()
    };
    words.is_some_and(|words| words.share(word).is_some())
}

/// The frequent words of a language.
#[derive(Debug, Clone)]
pub struct Words {
    language: Language,
    /// Each with its share of all tokens, most frequent first.
    words: Vec<(String, f64)>,
    shares: FxHashMap<String, f64>,
}

impl Words {
    /// The words of a language; `None` if there is no table.
    pub fn of(language: Language) -> Option<Self> {
        let (_, packed) = TABLES.iter().find(|(code, _)| *code == language.code())?;
        let mut text = String::new();
        GzDecoder::new(*packed).read_to_string(&mut text).ok()?;
        let mut words = Vec::new();
        for line in text.lines() {
            let (step, tokens) = line.split_once('\t')?;
            let share = 10_f64.powf(-step.parse::<f64>().ok()? / 100.0);
            words.extend(tokens.split(' ').map(|token| (token.to_owned(), share)));
        }
        let shares = words.iter().cloned().collect();
        Some(Self {
            language,
            words,
            shares,
        })
    }

    /// Their language.
    pub fn language(&self) -> Language {
        self.language
    }

    /// The share of a word among all tokens; `None` if the table lacks it.
    pub fn share(&self, word: &str) -> Option<f64> {
        self.shares.get(word).copied()
    }

    /// The share of the rarest word of the table.
    pub fn least_share(&self) -> f64 {
        self.words.last().map_or(1.0 / TOKENS, |(_, share)| *share)
    }

    /// Every word with its number of occurrences in the neutral text that the table
    /// represents.
    pub fn counts(&self) -> impl Iterator<Item = (&str, u64)> {
        self.words
            .iter()
            .map(|(word, share)| (word.as_str(), (share * TOKENS).round().max(1.0) as u64))
    }

    /// The number of documents that the table represents.
    pub fn documents(&self) -> usize {
        DOCUMENTS
    }

    /// How many of them contain a word; `None` if the table lacks it. Words of a text are
    /// assumed to be independent.
    pub fn documents_with(&self, word: &str) -> Option<u64> {
        let share = self.shares.get(word)?;
        let within = 1.0 - (-DOCUMENT_TOKENS * share).exp();
        Some((within * DOCUMENTS as f64).round().max(1.0) as u64)
    }

    /// Samples documents of `tokens` tokens word by word; equal seeds give equal
    /// documents.
    pub fn draw(&self, documents: usize, tokens: usize, seed: u64) -> Vec<Vec<Sentence>> {
        let mut total = 0.0;
        let sums: Vec<f64> = self
            .words
            .iter()
            .map(|(_, share)| {
                total += share;
                total
            })
            .collect();
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut word = || {
            let at = random.random::<f64>() * total;
            let place = sums.partition_point(|sum| *sum <= at);
            self.words.get(place).map_or("", |(word, _)| word.as_str())
        };
        let mut sentence = |tokens: usize| {
            let words: Vec<&str> = (0..tokens).map(|_| word()).collect();
            normalise(&words.join(" "))
        };
        let whole = tokens / SENTENCE_TOKENS;
        (0..documents)
            .map(|_| {
                (0..whole.max(1))
                    .map(|_| sentence(SENTENCE_TOKENS))
                    .collect()
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: &str) -> Words {
        Words::of(Language::of_code(code).unwrap()).unwrap()
    }

    #[test]
    fn every_table_is_whole_and_its_words_are_tokens() {
        assert_eq!(languages().count(), TABLES.len());
        for language in languages() {
            let words = Words::of(language).unwrap();
            let count = words.words.len();
            assert!((9_000..=20_000).contains(&count), "{language}: {count}");
            let total: f64 = words.words.iter().map(|(_, share)| share).sum();
            assert!((0.7..1.05).contains(&total), "{language}: {total}");
            assert_eq!(
                words.shares.len(),
                count,
                "{language}: a word stands there twice"
            );
            let strange: Vec<&str> = words
                .words
                .iter()
                .map(|(word, _)| word.as_str())
                .filter(|word| {
                    let normal = normalise(word);
                    normal.as_str() != *word || normal.len() != 1
                })
                .collect();
            assert!(strange.is_empty(), "{language}: {strange:?}");
        }
    }

    #[test]
    fn common_words_are_common() {
        let english = of("en");
        let (word, count) = english.counts().next().unwrap();
        assert_eq!((word, count), ("the", 56_234));
        assert_eq!(english.documents_with("the"), Some(1_000));
        let lighthouse = english.documents_with("lighthouse").unwrap();
        assert!((1..20).contains(&lighthouse), "{lighthouse}");
        assert_eq!(english.documents_with("syzygy"), None);
        assert!(of("de").documents_with("der") == Some(1_000));
        assert!(Words::of(Language::of_code("zh").unwrap()).is_none());
    }

    #[test]
    fn what_is_drawn_is_the_same_each_time() {
        let english = of("en");
        let drawn = english.draw(3, 100, 7);
        assert_eq!(drawn, english.draw(3, 100, 7));
        assert_ne!(drawn, english.draw(3, 100, 8));
        let lengths: Vec<usize> = drawn.iter().map(Vec::len).collect();
        assert_eq!(lengths, [5, 5, 5]);
        assert!(drawn.iter().flatten().all(|s| s.len() == SENTENCE_TOKENS));
        let words: Vec<&str> = drawn.iter().flatten().flat_map(Sentence::tokens).collect();
        assert!(words.contains(&"the"));
    }
}
