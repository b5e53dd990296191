//! The measures of the quality rules.
//!
//! Words are those of UAX #29, including numbers. Only lines with text count; empty lines
//! separate paragraphs. Shares of characters refer to the whole text.

use std::collections::HashSet;
use std::hash::{BuildHasher, Hash};

use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use unicode_segmentation::UnicodeSegmentation;

use super::super::document::paragraphs;

/// The eight words of Gopher.
const STOPWORDS: [&str; 8] = ["the", "be", "to", "of", "and", "that", "have", "with"];
/// The most characters of a short line.
const SHORT: usize = 30;

/// A measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::pipeline) enum QualityMeasure {
    Words,
    MeanWordLength,
    LongestWord,
    HashesToWords,
    EllipsesToWords,
    BulletLines,
    EllipsisLines,
    AlphabeticWords,
    Stopwords,
    DuplicateParagraphs,
    DuplicateParagraphCharacters,
    DuplicateLines,
    DuplicateLineCharacters,
    TopGrams(u8),
    DuplicateGrams(u8),
    EndedLines,
    ShortLines,
    RepeatedCharacters,
    LinesToWords,
    Sentences,
    LoremIpsum,
    CurlyBrackets,
}

impl QualityMeasure {
    /// All of them.
    pub(in crate::pipeline) fn all() -> impl Iterator<Item = Self> {
        let single = [
            Self::Words,
            Self::MeanWordLength,
            Self::LongestWord,
            Self::HashesToWords,
            Self::EllipsesToWords,
            Self::BulletLines,
            Self::EllipsisLines,
            Self::AlphabeticWords,
            Self::Stopwords,
            Self::DuplicateParagraphs,
            Self::DuplicateParagraphCharacters,
            Self::DuplicateLines,
            Self::DuplicateLineCharacters,
            Self::EndedLines,
            Self::ShortLines,
            Self::RepeatedCharacters,
            Self::LinesToWords,
            Self::Sentences,
            Self::LoremIpsum,
            Self::CurlyBrackets,
        ];
        let grams = (2..=4)
            .map(Self::TopGrams)
            .chain((5..=10).map(Self::DuplicateGrams));
        single.into_iter().chain(grams)
    }

    /// The measure with a name.
    pub(in crate::pipeline) fn named(name: &str) -> Option<Self> {
        Self::all().find(|rule| rule.name() == name)
    }

    /// Its name in plans and columns.
    pub(in crate::pipeline) fn name(self) -> String {
        let name = match self {
            Self::TopGrams(n) => return format!("top_{n}_grams"),
            Self::DuplicateGrams(n) => return format!("duplicate_{n}_grams"),
            Self::Words => "words",
            Self::MeanWordLength => "mean_word_length",
            Self::LongestWord => "longest_word",
            Self::HashesToWords => "hashes_to_words",
            Self::EllipsesToWords => "ellipses_to_words",
            Self::BulletLines => "bullet_lines",
            Self::EllipsisLines => "ellipsis_lines",
            Self::AlphabeticWords => "alphabetic_words",
            Self::Stopwords => "stopwords",
            Self::DuplicateParagraphs => "duplicate_paragraphs",
            Self::DuplicateParagraphCharacters => "duplicate_paragraph_characters",
            Self::DuplicateLines => "duplicate_lines",
            Self::DuplicateLineCharacters => "duplicate_line_characters",
            Self::EndedLines => "ended_lines",
            Self::ShortLines => "short_lines",
            Self::RepeatedCharacters => "repeated_characters",
            Self::LinesToWords => "lines_to_words",
            Self::Sentences => "sentences",
            Self::LoremIpsum => "lorem_ipsum",
            Self::CurlyBrackets => "curly_brackets",
        };
        name.to_owned()
    }

    /// Its value for a text.
    pub(super) fn measure(self, of: &Features<'_>) -> f64 {
        let lines = of.lines.as_slice();
        let share = |n: usize| ratio(n, lines.len());
        let by_words = |n: usize| ratio(n, of.words.len());
        let ellipsis = |line: &str| line.ends_with("...") || line.ends_with('…');
        let count = |is: &dyn Fn(&str) -> bool| lines.iter().filter(|line| is(line)).count();
        match self {
            Self::Words => of.words.len() as f64,
            Self::MeanWordLength => ratio(of.lengths.iter().sum(), of.words.len()),
            Self::LongestWord => of.lengths.iter().max().copied().unwrap_or_default() as f64,
            Self::HashesToWords => by_words(of.text.matches('#').count()),
            Self::EllipsesToWords => {
                by_words(of.text.matches("...").count() + of.text.matches('…').count())
            }
            Self::BulletLines => share(count(&|line| line.starts_with('•'))),
            Self::EllipsisLines => share(count(&ellipsis)),
            Self::AlphabeticWords => {
                let has_letter = |word: &&&str| word.chars().any(char::is_alphabetic);
                by_words(of.words.iter().filter(has_letter).count())
            }
            Self::Stopwords => {
                let is_stop = |word: &&&str| STOPWORDS.iter().any(|s| word.eq_ignore_ascii_case(s));
                of.words.iter().filter(is_stop).count() as f64
            }
            Self::DuplicateParagraphs => {
                let all: Vec<&str> = paragraphs(of.text).collect();
                ratio(repeated(&all).0, all.len())
            }
            Self::DuplicateParagraphCharacters => {
                let all: Vec<&str> = paragraphs(of.text).collect();
                ratio(repeated(&all).1, of.characters)
            }
            Self::DuplicateLines => share(repeated(lines).0),
            Self::DuplicateLineCharacters => ratio(repeated(lines).1, of.characters),
            Self::TopGrams(n) => ratio(of.top_gram(n.into()), of.characters),
            Self::DuplicateGrams(n) => ratio(of.duplicate_grams(n.into()), of.characters),
            Self::EndedLines => share(count(&|l| l.ends_with(['.', '\'', '"', '!', '?']))),
            Self::ShortLines => share(count(&|line| line.chars().nth(SHORT).is_none())),
            Self::RepeatedCharacters => {
                let ends = of.text.matches('\n').count();
                ratio(repeated(lines).1, of.characters - ends)
            }
            Self::LinesToWords => by_words(lines.len().saturating_sub(1)),
            Self::Sentences => {
                let sentences = paragraphs(of.text).map(|p| p.unicode_sentences().count());
                sentences.sum::<usize>() as f64
            }
            Self::LoremIpsum => of.text.to_lowercase().matches("lorem ipsum").count() as f64,
            Self::CurlyBrackets => of.text.matches('{').count() as f64,
        }
    }
}

/// A share; 0 if the whole is 0.
fn ratio(part: usize, whole: usize) -> f64 {
    match whole {
        0 => 0.0,
        whole => part as f64 / whole as f64,
    }
}

/// The number of elements that have occurred before, and their characters.
fn repeated(all: &[&str]) -> (usize, usize) {
    let mut met = HashSet::new();
    let again = all.iter().filter(|element| !met.insert(**element));
    again.fold((0, 0), |(n, characters), element| {
        (n + 1, characters + element.chars().count())
    })
}

/// A text, split once for all measures.
pub(super) struct Features<'t> {
    text: &'t str,
    characters: usize,
    words: Vec<&'t str>,
    /// Characters of each word.
    lengths: Vec<usize>,
    lines: Vec<&'t str>,
}

impl<'t> Features<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        let words: Vec<&str> = text.unicode_words().collect();
        Self {
            text,
            characters: text.chars().count(),
            lengths: words.iter().map(|word| word.chars().count()).collect(),
            words,
            lines: text
                .lines()
                .map(str::trim)
                .filter(|line| !line.is_empty())
                .collect(),
        }
    }

    /// The hash and the characters of each run of `n` words.
    fn grams(&self, n: usize) -> impl Iterator<Item = (u64, usize)> {
        let lengths = self.lengths.windows(n);
        self.words
            .windows(n)
            .zip(lengths)
            .map(move |(words, lengths)| (hash(words), lengths.iter().sum::<usize>() + n - 1))
    }

    /// The characters in the most frequent run of `n` words; ties go to the first.
    fn top_gram(&self, n: usize) -> usize {
        let mut counts: FxHashMap<u64, (usize, usize, usize)> = FxHashMap::default();
        for (at, (gram, length)) in self.grams(n).enumerate() {
            counts.entry(gram).or_insert((0, length, at)).0 += 1;
        }
        let top = counts
            .values()
            .max_by_key(|(times, _, at)| (*times, std::cmp::Reverse(*at)));
        top.map_or(0, |(times, length, _)| times * length)
    }

    /// The characters in runs of `n` words that have occurred before; those that overlap
    /// count once.
    fn duplicate_grams(&self, n: usize) -> usize {
        let mut met: FxHashSet<u64> = FxHashSet::default();
        let (mut again, mut free) = (0, 0);
        for (at, (gram, length)) in self.grams(n).enumerate() {
            if at < free {
                continue;
            }
            if !met.insert(gram) {
                again += length;
                free = at + n;
            }
        }
        again
    }
}

fn hash(words: &[impl Hash]) -> u64 {
    FxBuildHasher.hash_one(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(name: &str, text: &str) -> f64 {
        QualityMeasure::named(name)
            .unwrap()
            .measure(&Features::of(text))
    }

    #[test]
    fn values_by_hand() {
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        // 11 characters, and twice "a b" of 3.
        near(measured("top_2_grams", "a b a b c d"), 6.0 / 11.0);
        near(measured("top_3_grams", "a b c"), 1.0);
        near(measured("top_4_grams", "a b c"), 0.0);
        // "a b c d e" again, 9 of 19 characters.
        near(
            measured("duplicate_5_grams", "a b c d e a b c d e"),
            9.0 / 19.0,
        );
        near(measured("duplicate_6_grams", "a b c d e a b c d e"), 0.0);
        near(measured("duplicate_lines", "a\nb\na\n\na"), 0.5);
        near(
            measured("duplicate_line_characters", "a\nb\na\n\na"),
            2.0 / 8.0,
        );
        near(
            measured("duplicate_paragraphs", "a\nb\n\na\nb\n\nc"),
            1.0 / 3.0,
        );
        near(measured("mean_word_length", "The lamp burns"), 4.0);
        near(
            measured("longest_word", &format!("Pi {}", "3".repeat(3_776))),
            3_776.0,
        );
        near(measured("stopwords", "The lamp of the keeper with"), 4.0);
        near(measured("lines_to_words", "one two\nthree\n\nfour"), 0.5);
        near(
            measured(
                "short_lines",
                &format!("{}\n{}", "x".repeat(30), "x".repeat(31)),
            ),
            0.5,
        );
        near(measured("ended_lines", "One.\nTwo?\nThree\nFour\""), 0.75);
    }

    #[test]
    fn nothing_has_values_too() {
        for rule in QualityMeasure::all() {
            assert_eq!(QualityMeasure::named(&rule.name()), Some(rule));
            for text in ["", "\n\n", "•", "...", "#"] {
                assert!(
                    rule.measure(&Features::of(text)).is_finite(),
                    "{rule:?} {text:?}"
                );
            }
        }
    }
}
