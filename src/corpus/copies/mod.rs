//! Near copies of texts: found by sketches, and confirmed by their common passages.
//!
//! A text is compared as its words in lower case (UAX #29). Candidates agree in all hashes of
//! one band of a MinHash sketch over runs of words (Broder 1997; Leskovec, Rajaraman and
//! Ullman, Mining of Massive Datasets, chapter 3). The alignment then decides: the passages of
//! at least a few words that both texts contain, in any order, each used once. So a similarity
//! is never estimated from a sketch, and always comes with its passages in both texts.
//!
//! Everything is pure: no file, no clock.

use std::ops::Range;

use rustc_hash::FxHashMap;
use unicode_segmentation::UnicodeSegmentation;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// A word of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word {
    /// Hash of the word in lower case.
    hash: u64,
    from: usize,
    to: usize,
}

/// The words of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words(Vec<Word>);

/// Which words count as the same, besides those that differ only in case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Alike {
    /// From the hash of a word to that of the word that represents it.
    synonyms: FxHashMap<u64, u64>,
    /// The words that represent others, by their hashes.
    words: FxHashMap<u64, String>,
    /// All numbers are the same word.
    numbers: bool,
}

impl Alike {
    /// No words are the same, except all numbers if requested.
    pub fn new(numbers: bool) -> Self {
        Self {
            numbers,
            ..Self::default()
        }
    }

    /// Adds the words of a list: a line has synonyms, separated by white space or commas. A
    /// word in two lines joins them.
    pub fn add_synonyms(&mut self, list: &str) {
        for line in list.lines() {
            let words = line.split(|c: char| c.is_whitespace() || c == ',');
            let words = words.filter(|word| !word.is_empty());
            let words: Vec<String> = words.map(str::to_lowercase).collect();
            let hashes: Vec<u64> = words.iter().map(|w| xxh3_64(w.as_bytes())).collect();
            let (Some(first), Some(word)) = (hashes.first().copied(), words.first()) else {
                continue;
            };
            let known = hashes.iter().filter_map(|hash| self.synonyms.get(hash));
            let mut known: Vec<u64> = known.copied().collect();
            let all = known.first().copied().unwrap_or(first);
            known.retain(|other| *other != all);
            self.words.entry(first).or_insert_with(|| word.clone());
            if !known.is_empty() {
                let joined = self.synonyms.values_mut();
                joined
                    .filter(|of| known.contains(of))
                    .for_each(|of| *of = all);
            }
            self.synonyms
                .extend(hashes.into_iter().map(|hash| (hash, all)));
        }
    }

    /// The word that represents this one and its synonyms, in lower case.
    pub fn synonym(&self, word: &str) -> Option<&str> {
        let hash = xxh3_64(word.to_lowercase().as_bytes());
        let stands = self.synonyms.get(&hash)?;
        self.words.get(stands).map(String::as_str)
    }

    /// Whether only words that differ in case count as the same.
    pub fn is_empty(&self) -> bool {
        self.synonyms.is_empty() && !self.numbers
    }

    fn hash(&self, lower: &str) -> u64 {
        let is_number = || {
            let mut all = lower.chars();
            all.clone().any(char::is_numeric) && !all.any(char::is_alphabetic)
        };
        if self.numbers && is_number() {
            return xxh3_64(b"0");
        }
        let hash = xxh3_64(lower.as_bytes());
        self.synonyms.get(&hash).copied().unwrap_or(hash)
    }
}

/// The same run of words in two texts, by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    /// In the first text.
    pub first: Range<usize>,
    /// In the second.
    pub second: Range<usize>,
}

impl Words {
    /// Splits a text.
    pub fn of(text: &str) -> Self {
        Self::like(text, &Alike::default())
    }

    /// Splits a text; some words count as the same.
    pub fn like(text: &str, alike: &Alike) -> Self {
        let mut lower = String::new();
        let words = text.unicode_word_indices().map(|(from, word)| {
            lower.clear();
            lower.extend(word.chars().flat_map(char::to_lowercase));
            Word {
                hash: alike.hash(&lower),
                from,
                to: from + word.len(),
            }
        });
        Self(words.collect())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no words.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes of the text from the first to the last word of a run.
    pub fn bytes(&self, run: &Range<usize>) -> Range<usize> {
        let words = self.0.get(run.clone()).unwrap_or_default();
        let from = words.first().map_or(0, |word| word.from);
        from..words.last().map_or(from, |word| word.to)
    }

    /// A fingerprint that texts share if they have the same words in the same order.
    pub fn print(&self) -> u128 {
        let bytes: Vec<u8> = self.0.iter().flat_map(|w| w.hash.to_le_bytes()).collect();
        xxh3_128(&bytes)
    }

    /// The hashes of all runs of `n` words. A text of fewer words is one run.
    fn runs(&self, n: usize) -> Vec<u64> {
        let hash = |words: &[Word]| {
            let bytes = words
                .iter()
                .fold(0_u64, |hash, word| mixed(hash ^ word.hash));
            mixed(bytes)
        };
        match self.0.len() {
            0 => Vec::new(),
            few if few < n => vec![hash(&self.0)],
            _ => self.0.windows(n).map(hash).collect(),
        }
    }

    /// The bands of its sketch over runs of `n` words: texts which share most runs agree in
    /// some band. Empty for a text without words.
    pub fn bands(&self, n: usize, bands: usize, rows: usize) -> Vec<u32> {
        let mut runs = self.runs(n);
        if runs.is_empty() {
            return Vec::new();
        }
        runs.sort_unstable();
        runs.dedup();
        let of_band = |band: usize| {
            let minima = (0..rows).flat_map(|row| {
                let seed = mixed((band * rows + row + 1) as u64);
                let least = runs.iter().map(|run| mixed(run ^ seed)).min();
                least.unwrap_or_default().to_le_bytes()
            });
            xxh3_64(&minima.collect::<Vec<u8>>()) as u32
        };
        (0..bands).map(of_band).collect()
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014).
fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// How many occurrences of the same run are examined. Lists repeat a run thousands of times.
const PLACES: usize = 8;

/// The passages of at least `n` words that two texts share, in the order of the first. They
/// do not overlap in either text. Texts of fewer words share one passage if they are the
/// same.
pub fn passages(first: &Words, second: &Words, n: usize) -> Vec<Passage> {
    let (a, b) = (&first.0, &second.0);
    let n = n.max(1);
    if a.len().min(b.len()) < n {
        let hashes = |words: &[Word]| words.iter().map(|word| word.hash).collect::<Vec<_>>();
        let is_same = !a.is_empty() && hashes(a) == hashes(b);
        let whole = Passage {
            first: 0..a.len(),
            second: 0..b.len(),
        };
        return is_same.then_some(whole).into_iter().collect();
    }
    let mut places: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
    for (at, run) in second.runs(n).into_iter().enumerate() {
        let known = places.entry(run).or_default();
        if known.len() < PLACES {
            known.push(at);
        }
    }
    let mut used = vec![false; b.len()];
    let mut found = Vec::new();
    let runs = first.runs(n);
    let mut at = 0;
    while let Some(run) = runs.get(at) {
        let candidates = places.get(run).map(Vec::as_slice).unwrap_or_default();
        let mut best = (0, 0);
        for from in candidates {
            let pairs = a.iter().skip(at).zip(b.iter().zip(&used).skip(*from));
            let same = pairs.take_while(|(x, (y, used))| x.hash == y.hash && !**used);
            let length = same.count();
            if length > best.0 {
                best = (length, *from);
            }
        }
        let (length, from) = best;
        if length < n {
            at += 1;
            continue;
        }
        used.iter_mut()
            .skip(from)
            .take(length)
            .for_each(|used| *used = true);
        found.push(Passage {
            first: at..at + length,
            second: from..from + length,
        });
        at += length;
    }
    found
}

/// The share of the words of both texts that are in common passages.
pub fn of_both(first: &Words, second: &Words, passages: &[Passage]) -> f64 {
    share(2 * common(passages), first.len() + second.len())
}

/// The share of the words of the shorter text.
pub fn of_shorter(first: &Words, second: &Words, passages: &[Passage]) -> f64 {
    share(common(passages), first.len().min(second.len()))
}

fn common(passages: &[Passage]) -> usize {
    passages.iter().map(|passage| passage.first.len()).sum()
}

fn share(part: usize, whole: usize) -> f64 {
    match whole {
        0 => 0.0,
        _ => part as f64 / whole as f64,
    }
}

/// The cosine of the counts of the words of two texts.
pub fn cosine(first: &Words, second: &Words) -> f64 {
    let counted = |words: &Words| {
        let mut counts: FxHashMap<u64, f64> = FxHashMap::default();
        for word in &words.0 {
            *counts.entry(word.hash).or_default() += 1.0;
        }
        counts
    };
    let (a, b) = (counted(first), counted(second));
    // All sums are of whole numbers, so their order does not matter.
    let length = |counts: &FxHashMap<u64, f64>| counts.values().map(|n| n * n).sum::<f64>();
    let product: f64 = a
        .iter()
        .filter_map(|(word, n)| Some(n * b.get(word)?))
        .sum();
    match length(&a) * length(&b) {
        0.0 => 0.0,
        lengths => (product / lengths.sqrt()).min(1.0),
    }
}

#[cfg(test)]
mod tests;
