//! How much more likely a text is for the topic than for the language at large.
//!
//! A perplexity alone cannot separate a plain page about anything from a difficult one
//! about the topic: both are middling. The difference between the likelihood of a text
//! under the topic and under the language at large can (cross-entropy difference; Moore &
//! Lewis 2010). The contrast of a document is the mean of
//! `ln p(word | topic) - ln p(word | neutral)` over its words, in nats:
//!
//! - the word counts of the topic are smoothed by the neutral ones (as in a naive Bayes
//!   classifier with a Dirichlet prior; Zhai & Lafferty 2004);
//! - a word missing from the topic's texts counts against it only to a limit, because
//!   these texts are few;
//! - the weight of the n-th occurrence of a word falls with n, because a document that has
//!   a word once is likely to repeat it (Rennie et al. 2003).
//!
//! A crawl uses it to compare pages with one another, smoothed so strongly that a word must occur
//! several times in the topic's texts before it counts much. To *count* pages on topic, it uses
//! little smoothing and the language model as well: with much text that estimates the number on
//! topic well, but it ranks pages worse, especially with little text.
//!
//! A contrast is not a probability: training measures the contrasts of documents of both kinds, and
//! [`Topicality`](super::Topicality) maps a contrast to a number from 0 to 1. The words that a
//! crawl adds to those of the topic while it runs are [`Adopted`].

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::log_counts;
use super::passages::{InPassages, Passages};
use crate::fs::{IoError, atomic};
use crate::lm::{LanguageModel, Sentence};
use crate::page::WordCounts;
use crate::words::{Distinct, WordMap};

/// How many tokens of neutral text smooth the counts of the topic when pages are compared
/// with one another. On four topics of the lab, with 10 lines of text up to all of it,
/// values from 3,000 to 30,000 ranked pages near the topic equally well; 20 ranked a tenth
/// of the pairs worse.
const PRIOR: f64 = 10_000.0;
/// The same for counting pages.
const COUNTING_PRIOR: f64 = 20.0;
/// Added to every count of neutral text, including those of unseen words.
const ADDED: f64 = 0.5;
/// The most that one word of a document counts against the topic. The texts about the
/// topic are few, so a missing word is weak evidence.
const AGAINST: f64 = -0.3;
/// The same for counting pages.
const COUNTING_AGAINST: f64 = -1.0;

/// Why a table of words cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum ContrastError {
    /// The file cannot be read or written.
    #[error("{0}; train the model again")]
    Io(#[from] IoError),
    /// A line is not a word and two counts.
    #[error(
        "{path}, line {line}: `{text}` is not a word and its two counts; train the model again",
        path = path.display()
    )]
    Line {
        /// The table's file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// The beginning of the line.
        text: String,
    },
    /// A line is not a kind of text and the words of a passage.
    #[error(
        "{path}, line {line}: `{text}` is not `topic` or `neutral` and the words of a passage; \
         train the model again",
        path = path.display()
    )]
    Passage {
        /// The table's file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// The beginning of the line.
        text: String,
    },
}

/// How often each word occurs in the texts about the topic and in the neutral ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CountTable {
    words: FxHashMap<String, (u64, u64)>,
}

impl CountTable {
    /// Counts the words of a text about the topic.
    pub fn add_positive<'a>(&mut self, sentences: impl IntoIterator<Item = &'a Sentence>) {
        self.add(sentences, |(positive, _)| *positive += 1);
    }

    /// Counts the words of a neutral text.
    pub fn add_neutral<'a>(&mut self, sentences: impl IntoIterator<Item = &'a Sentence>) {
        self.add(sentences, |(_, neutral)| *neutral += 1);
    }

    /// Adds words of neutral text that is known only by its counts.
    pub fn add_neutral_words<'a>(&mut self, words: impl Iterator<Item = (&'a str, u64)>) {
        for (word, count) in words {
            self.words.entry(word.to_owned()).or_default().1 += count;
        }
    }

    fn add<'a>(
        &mut self,
        sentences: impl IntoIterator<Item = &'a Sentence>,
        count: impl Fn(&mut (u64, u64)),
    ) {
        for token in sentences.into_iter().flat_map(Sentence::tokens) {
            match self.words.get_mut(token) {
                Some(counts) => count(counts),
                None => {
                    let mut counts = (0, 0);
                    count(&mut counts);
                    self.words.insert(token.to_owned(), counts);
                }
            }
        }
    }

    /// Writes the table atomically, one line `word<TAB>positive<TAB>neutral` each, sorted
    /// by word.
    ///
    /// # Errors
    ///
    /// [`ContrastError::Io`].
    pub fn save(&self, path: &Path) -> Result<(), ContrastError> {
        let mut rows: Vec<_> = self.words.iter().collect();
        rows.sort_unstable();
        let written = atomic::write(path, |out| {
            rows.iter()
                .try_for_each(|(word, (p, n))| writeln!(out, "{word}\t{p}\t{n}"))
        });
        Ok(written.map_err(IoError::at(path, "writing"))?)
    }

    /// Reads a table that [`CountTable::save`] wrote.
    ///
    /// # Errors
    ///
    /// [`ContrastError`] names the file and the line.
    pub fn load(path: &Path) -> Result<Self, ContrastError> {
        let text = crate::fs::read_to_string(path).map_err(IoError::at(path, "reading"))?;
        let mut counts = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            let row = || {
                let mut columns = line.split('\t');
                let word = columns.next().filter(|word| !word.is_empty())?;
                let positive = columns.next()?.parse().ok()?;
                let neutral = columns.next()?.parse().ok()?;
                Some((word.to_owned(), (positive, neutral)))
            };
            let (word, of_word) = row().ok_or_else(|| ContrastError::Line {
                path: path.to_owned(),
                line: number,
                text: line.chars().take(80).collect(),
            })?;
            counts.words.insert(word, of_word);
        }
        Ok(counts)
    }
}

/// A word's entry in the model. All of it is in one place, because looking up a word costs more
/// than most of the following computation.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownWord {
    stats: WordStats,
    /// Its number in the language model of the contrast, if there is one.
    pub(super) by_model: u32,
    in_passages: InPassages,
}

/// The statistics of a word.
#[derive(Debug, Clone, Copy)]
struct WordStats {
    /// How often it occurs in the texts about the topic.
    positive: f32,
    /// `p(word | neutral)`.
    neutral: f32,
    /// `ln p(word | topic) - ln p(word | neutral)`.
    ratio: f32,
    /// The same for counting pages.
    counting: f32,
}

/// Words that count as the topic's in addition to those of its texts: words of pages that
/// are certainly about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Adopted {
    words: WordMap<Box<str>, u32>,
    tokens: u64,
}

impl Adopted {
    /// Adds the words of a text.
    pub fn add(&mut self, text: &WordCounts) {
        for (word, times) in text {
            match self.words.get_mut(word) {
                Some(of_word) => *of_word = of_word.saturating_add(*times),
                None => self.words.insert(word.as_str().into(), *times),
            }
            self.tokens += u64::from(*times);
        }
    }

    /// The same without the words of a text that was added before.
    #[must_use]
    pub fn without(&self, text: &WordCounts) -> Self {
        let mut rest = self.clone();
        for (word, times) in text {
            if let Some(of_word) = rest.words.get_mut(word) {
                rest.tokens -= u64::from((*times).min(*of_word));
                *of_word = of_word.saturating_sub(*times);
            }
        }
        rest
    }
}

/// Separates the words of a topic from those of everything else.
#[derive(Clone)]
pub struct Contrast {
    words: WordMap<Box<str>, KnownWord>,
    /// The language model whose numbers the words have.
    model: Option<Arc<dyn LanguageModel>>,
    /// The words in the order in which they are summed up.
    all: Vec<(Box<str>, WordStats)>,
    /// Tokens of the texts about the topic.
    positive: f64,
    /// `p(word | neutral)` of an unseen word.
    unknown: f64,
    /// The passages of both kinds of text; `None` if neutral text is known only by its
    /// words, and in models of earlier versions.
    passages: Option<Passages>,
}

impl fmt::Debug for Contrast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Contrast")
            .field("words", &self.all.len())
            .field("positive", &self.positive)
            .finish_non_exhaustive()
    }
}

impl Contrast {
    /// Computes the weights from counts; `None` if one of the two kinds of text is
    /// missing, so that there is nothing to compare.
    pub fn new(counts: &CountTable) -> Option<Self> {
        let (positive, neutral) = counts
            .words
            .values()
            .fold((0, 0), |(p, n), counts| (p + counts.0, n + counts.1));
        if positive == 0 || neutral == 0 {
            return None;
        }
        let all = neutral as f64 + ADDED * counts.words.len() as f64;
        let mut contrast = Self {
            words: WordMap::default(),
            model: None,
            all: Vec::new(),
            positive: positive as f64,
            unknown: ADDED / all,
            passages: None,
        };
        let words = counts.words.iter().map(|(word, (p, n))| {
            let (p, neutral) = (*p as f64, (*n as f64 + ADDED) / all);
            let stats = WordStats {
                positive: p as f32,
                neutral: neutral as f32,
                ratio: contrast.ratio(p, neutral, 0.0) as f32,
                counting: contrast.counting(p, neutral) as f32,
            };
            (word.as_str(), stats)
        });
        // The result of a sum depends on the order, in its last digits; here it is the order of a
        // map.
        let words: FxHashMap<&str, WordStats> = words.collect();
        let words = words.into_iter();
        contrast.all = words.map(|(word, stats)| (word.into(), stats)).collect();
        let known = |(word, stats): &(Box<str>, WordStats)| {
            let known = KnownWord {
                stats: *stats,
                by_model: 0,
                in_passages: InPassages::default(),
            };
            (word.clone(), known)
        };
        contrast.words = contrast.all.iter().map(known).collect();
        Some(contrast)
    }

    /// The same, which compares pages with these passages as well.
    #[must_use]
    pub fn with_passages(mut self, passages: Option<Passages>) -> Self {
        self.passages = passages.map(|mut passages| {
            for (word, place) in passages.take_words() {
                // The texts contain all words of their passages, unless a file was changed.
                if let Some(known) = self.words.get_mut(&word) {
                    known.in_passages = place;
                }
            }
            passages
        });
        self
    }

    /// The same, with the numbers of its words in this language model.
    #[must_use]
    pub fn with_model(mut self, model: &Arc<dyn LanguageModel>) -> Self {
        for (word, _) in &self.all {
            if let Some(known) = self.words.get_mut(word) {
                known.by_model = model.word(word);
            }
        }
        self.model = Some(Arc::clone(model));
        self
    }

    /// The entry of a word; `None` if the texts lack it.
    pub(super) fn find(&self, word: &str) -> Option<&KnownWord> {
        self.words.get(word)
    }

    /// Whether it knows the numbers of words in this language model.
    pub(super) fn knows(&self, model: &dyn LanguageModel) -> bool {
        let place = |model: &dyn LanguageModel| std::ptr::from_ref(model).cast::<()>();
        let own = self.model.as_deref();
        own.is_some_and(|own| place(own) == place(model))
    }

    /// The passages that pages are compared with, if there are any.
    pub fn passages(&self) -> Option<&Passages> {
        self.passages.as_ref()
    }

    /// How many tokens the texts about the topic have.
    pub fn tokens(&self) -> f64 {
        self.positive
    }

    /// The ratio of a word with `occurs` occurrences and the share `neutral` of neutral
    /// text, after `adopted` tokens were adopted.
    fn ratio(&self, occurs: f64, neutral: f64, adopted: f64) -> f64 {
        ((occurs / neutral + PRIOR) / (self.positive + adopted + PRIOR)).ln()
    }

    /// The ratio of a word for counting pages. A word missing from the topic's texts
    /// counts against it, but not more the rarer it is.
    fn counting(&self, occurs: f64, neutral: f64) -> f64 {
        ((occurs / neutral + COUNTING_PRIOR) / (self.positive + COUNTING_PRIOR)).ln()
    }

    /// By how much the ratio of every word that was not adopted falls.
    fn fall(&self, adopted: &Adopted) -> f64 {
        match adopted.tokens {
            0 => 0.0,
            tokens => ((self.positive + PRIOR) / (self.positive + tokens as f64 + PRIOR)).ln(),
        }
    }

    /// The ratio of a word including what was adopted; 0 for an unseen word, which is no
    /// evidence.
    fn ratio_of(
        &self,
        known: Option<&WordStats>,
        token: &str,
        adopted: &Adopted,
        fall: f64,
    ) -> f64 {
        let given = known.map_or(0.0, |word| f64::from(word.ratio));
        if adopted.tokens == 0 {
            return given;
        }
        let more = adopted.words.get(token).map_or(0.0, |n| f64::from(*n));
        match known {
            None if more == 0.0 => 0.0,
            Some(_) if more == 0.0 => given + fall,
            Some(word) => self.ratio(
                f64::from(word.positive) + more,
                f64::from(word.neutral),
                adopted.tokens as f64,
            ),
            None => self.ratio(more, self.unknown, adopted.tokens as f64),
        }
    }

    /// The evidence of words that were looked up, in order.
    pub(super) fn evidence<'a>(
        &self,
        words: impl Iterator<Item = (&'a str, Option<&'a KnownWord>)>,
        adopted: &Adopted,
    ) -> Vec<WordEvidence> {
        let fall = self.fall(adopted);
        words
            .map(|(word, known)| self.evidence_of(word, known, adopted, fall))
            .collect()
    }

    fn evidence_of(
        &self,
        word: &str,
        known: Option<&KnownWord>,
        adopted: &Adopted,
        fall: f64,
    ) -> WordEvidence {
        let in_passages = known.map(|known| known.in_passages).unwrap_or_default();
        let known = known.map(|known| &known.stats);
        let share = known.map_or(self.unknown, |word| f64::from(word.neutral));
        WordEvidence {
            ratio: self.ratio_of(known, word, adopted, fall),
            counting: known.map_or(0.0, |word| f64::from(word.counting)),
            surprise: -share.ln(),
            in_passages,
        }
    }

    /// The contrasts of a document with this perplexity, compared with `passages` of this contrast
    /// if there are any; `None` if it has no token. Words are summed in the order in which they
    /// first occur.
    pub fn document(
        &self,
        sentences: &[Sentence],
        perplexity: f64,
        adopted: &Adopted,
        passages: Option<&Passages>,
    ) -> Option<Measured> {
        let times = times_of(sentences.iter().flat_map(Sentence::tokens));
        let words = times.iter().map(|(word, _)| (*word, self.find(word)));
        let evidence = self.evidence(words, adopted);
        let counted = evidence
            .iter()
            .zip(times)
            .map(|(counted, (_, times))| (counted, times));
        Measured::of(counted, perplexity, passages)
    }

    /// The contrast of the words of a text; `None` if it has none.
    pub fn of_words(&self, words: &WordCounts, adopted: &Adopted) -> Option<f64> {
        let fall = self.fall(adopted);
        let words = words.iter().filter(|(_, times)| **times > 0);
        let words: Vec<_> = words
            .map(|(word, times)| {
                (
                    self.evidence_of(word, self.find(word), adopted, fall),
                    *times,
                )
            })
            .collect();
        ContrastMeans::of(words.iter().map(|(evidence, times)| (evidence, *times)))
            .map(|means| means.of_words)
    }

    /// The mean and the standard deviation of the word weights of neutral text, including
    /// what was adopted: the expected contrast of such a text, and its scatter per word.
    pub fn of_neutral(&self, adopted: &Adopted) -> (f64, f64) {
        let fall = self.fall(adopted);
        let (mut mean, mut squares) = (0.0, 0.0);
        for (token, word) in &self.all {
            let ratio = self.ratio_of(Some(word), token, adopted, fall);
            let (share, weight) = (f64::from(word.neutral), ratio.max(AGAINST));
            mean += share * weight;
            squares += share * weight * weight;
        }
        (mean, (squares - mean * mean).max(0.0).sqrt())
    }

    /// The ratio of a word, 0 if it is unseen.
    pub(super) fn ratio_of_word(&self, word: &str, adopted: &Adopted) -> f64 {
        let stats = self.find(word).map(|known| &known.stats);
        self.ratio_of(stats, word, adopted, self.fall(adopted))
    }
}

/// The distinct words of a text in the order in which they first occur, and how often each
/// does.
pub(super) fn times_of<'a>(tokens: impl Iterator<Item = &'a str>) -> Vec<(&'a str, u32)> {
    let mut distinct = Distinct::default();
    let mut times: Vec<u32> = Vec::new();
    for token in tokens {
        match times.get_mut(distinct.number(token) as usize) {
            Some(times) => *times += 1,
            None => times.push(1),
        }
    }
    distinct.words().iter().copied().zip(times).collect()
}

/// The mean and the highest ratio of the words of a short text, 0 if it has none.
pub(super) fn mean_and_best(ratios: impl Iterator<Item = f64>) -> (f64, f64) {
    let (mut sum, mut best, mut count) = (0.0, 0.0_f64, 0_u32);
    for ratio in ratios {
        count += 1;
        sum += ratio;
        best = best.max(ratio);
    }
    (sum / f64::from(count.max(1)), best)
}

/// The evidence of one word about the topic, in nats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct WordEvidence {
    /// Its ratio including what was adopted; 0 if it is unseen.
    pub(super) ratio: f64,
    /// The ratio for counting pages; 0 if it is unseen.
    counting: f64,
    /// `-ln p(word | neutral)`.
    surprise: f64,
    in_passages: InPassages,
}

/// The contrasts of one document, in nats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// For counting pages: the contrast of the words with little smoothing, averaged with
    /// `by_model`, using the given texts alone.
    pub counting: f64,
    /// For comparing pages: the contrast of the words, including those that the crawl
    /// adopted.
    pub of_words: f64,
    /// How much likelier the text is under the language model than under the word
    /// frequencies of neutral text: the mean of `-ln p(word | neutral)` minus `ln
    /// perplexity`.
    pub by_model: f64,
    /// How much nearer the text is to passages about the topic than to neutral ones
    /// ([`Passages`]); `None` without passages.
    pub of_passages: Option<f64>,
}

impl Measured {
    /// From the evidence of each distinct word of a document, with its number of occurrences,
    /// compared with `passages` if there are any; `None` if there is no word.
    pub(super) fn of<'e>(
        words: impl Iterator<Item = (&'e WordEvidence, u32)> + Clone,
        perplexity: f64,
        passages: Option<&Passages>,
    ) -> Option<Self> {
        let means = ContrastMeans::of(words.clone())?;
        let placed = words.map(|(word, times)| (word.in_passages, times));
        let by_model = means.surprise - perplexity.max(1.0).ln();
        Some(Self {
            counting: means.counting + by_model,
            of_words: means.of_words,
            by_model,
            of_passages: passages.map(|passages| passages.nearness(placed)),
        })
    }
}

/// Means over the words of a text.
struct ContrastMeans {
    of_words: f64,
    counting: f64,
    /// The mean of `-ln p(word | neutral)` over its tokens.
    surprise: f64,
}

impl ContrastMeans {
    fn of<'e>(words: impl Iterator<Item = (&'e WordEvidence, u32)>) -> Option<Self> {
        let (mut of_words, mut counting, mut weights) = (0.0, 0.0, 0.0);
        let (mut surprise, mut tokens) = (0.0, 0.0);
        for (word, times) in words {
            // The weights of n occurrences add up to ln(1 + n).
            let weight = log_counts::double(times);
            let times = f64::from(times);
            of_words += weight * word.ratio.max(AGAINST);
            counting += weight * word.counting.max(COUNTING_AGAINST);
            weights += weight;
            surprise += times * word.surprise;
            tokens += times;
        }
        (tokens > 0.0).then(|| Self {
            of_words: of_words / weights,
            counting: counting / weights,
            surprise: surprise / tokens,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::lm::normalise;
    use crate::score::PassageTable;

    fn text(text: &str) -> Vec<Sentence> {
        vec![normalise(text)]
    }

    fn counts() -> CountTable {
        let mut counts = CountTable::default();
        counts.add_positive(&text("the cat hunts the mouse and the cat sleeps"));
        counts.add_neutral(&text(
            "the state and the law of the land and the parliament of the state",
        ));
        counts
    }

    fn measured(contrast: &Contrast, sentences: &[Sentence]) -> Measured {
        let measured = contrast.document(sentences, 50.0, &Adopted::default(), None);
        measured.unwrap()
    }

    fn given(contrast: &Contrast, sentences: &[Sentence]) -> f64 {
        measured(contrast, sentences).of_words
    }

    fn counted(text: &str) -> WordCounts {
        let mut words = WordCounts::new();
        for word in text.split(' ') {
            *words.entry(word.to_owned()).or_default() += 1;
        }
        words
    }

    #[test]
    fn words_of_the_topic_speak_for_it_and_others_against() {
        let contrast = Contrast::new(&counts()).unwrap();
        let none = Adopted::default();
        let ratio = |word: &str| contrast.ratio_of_word(word, &none);
        let of = |words: &str| mean_and_best(words.split(' ').map(ratio));
        let mean = |words: &str| of(words).0;
        assert!(mean("cat") > 0.0 && mean("parliament") < 0.0);
        assert!(mean("cat") > mean("the"));
        assert_eq!(mean("zebra"), 0.0);
        let none = mean_and_best(std::iter::empty());
        assert_eq!(none, (0.0, 0.0));
        let (mean_of_both, best) = of("the cat");
        assert!(best > mean_of_both);
        // Computed by hand: 9 words of the topic, 14 neutral ones, 11 different ones.
        let all = 14.0 + 0.5 * 11.0;
        let of_cat = 0.5 / all;
        let expected = ((2.0 / of_cat + PRIOR) / (9.0 + PRIOR)).ln();
        assert!((mean("cat") - expected).abs() < 1e-6);
    }

    #[test]
    fn documents_differ_by_their_words() {
        let contrast = Contrast::new(&counts()).unwrap();
        let (cat, state) = (text("the cat sleeps"), text("the law of the land"));
        assert!(given(&contrast, &cat) > given(&contrast, &state));
        assert_eq!(
            contrast.document(&[], 50.0, &Adopted::default(), None),
            None
        );
        let stats = |word: &str| contrast.find(word).unwrap().stats;
        // Computed by hand: `cat` twice counts ln 3, `law` once ln 2, and an unknown word ln 2.
        let of = |word: &str| f64::from(stats(word).ratio).max(AGAINST);
        let ratio = 3_f64.ln() * of("cat") + 2_f64.ln() * of("law");
        let expected = ratio / (3_f64.ln() + 2.0 * 2_f64.ln());
        let mixed = given(&contrast, &text("cat law cat zebra"));
        assert!((mixed - expected).abs() < 1e-6);
        let of_words = contrast.of_words(&counted("cat cat law zebra"), &Adopted::default());
        assert!((of_words.unwrap() - expected).abs() < 1e-6);
        // For counting pages, the language model contributes.
        let of = |word: &str| f64::from(stats(word).counting).max(COUNTING_AGAINST);
        let ratio = 3_f64.ln() * of("cat") + 2_f64.ln() * of("law");
        let surprise = |word: &str| -f64::from(stats(word).neutral).ln();
        let by_model = (2.0 * surprise("cat") + surprise("law") - contrast.unknown.ln()) / 4.0;
        let by_model = by_model - 50_f64.ln();
        let expected = ratio / (3_f64.ln() + 2.0 * 2_f64.ln()) + by_model;
        let mixed = measured(&contrast, &text("cat law cat zebra"));
        assert!((mixed.counting - expected).abs() < 1e-5);
        assert!((mixed.by_model - by_model).abs() < 1e-5);
        assert!(Contrast::new(&CountTable::default()).is_none());
    }

    #[test]
    fn a_document_is_compared_with_the_passages_by_the_same_words() {
        let topics = ["cat hunts", "mouse eats", "kitten purrs", "tail swings"];
        let others = [
            "state rules",
            "law binds",
            "court decides",
            "land yields",
            "king reigns",
        ];
        let mut counts = CountTable::default();
        counts.add_positive(&topics.map(normalise));
        counts.add_neutral(&others.map(normalise));
        let mut passages = PassageTable::default();
        for words in topics.iter().chain(&["paw scratches"]) {
            passages.add_positive(&vec![normalise(words); 20]);
        }
        for words in others {
            passages.add_neutral(&vec![normalise(words); 20]);
        }
        let contrast = Contrast::new(&counts).unwrap();
        let contrast = contrast.with_passages(Passages::new(&passages));
        let near = |words: &str| {
            let none = Adopted::default();
            let measured = contrast.document(&text(words), 50.0, &none, contrast.passages());
            measured.unwrap().of_passages.unwrap()
        };
        assert!(near("the cat hunts") > 0.1);
        assert!(near("law and state") < -0.1);
        assert_eq!(near("zebra"), 0.0);
        // Words that a passage has and the texts lack are no evidence.
        assert_eq!(near("paw"), 0.0);
    }

    #[test]
    fn words_that_were_adopted_count_as_if_the_texts_had_them() {
        let more = "cat hunts zebra and the state sleeps zebra";
        let mut all = counts();
        all.add_positive(&text(more));
        let (before, after) = (
            Contrast::new(&counts()).unwrap(),
            Contrast::new(&all).unwrap(),
        );
        let mut adopted = Adopted::default();
        adopted.add(&counted(more));
        let page = text("the zebra hunts the cat in the land");
        let both = before.document(&page, 50.0, &adopted, None).unwrap();
        assert_eq!(both.counting, measured(&before, &page).counting);
        assert!(both.of_words > given(&before, &page));
        // A word that neither kind of text had is one more word without occurrences in neutral
        // text.
        let close = |a: f64, b: f64| (a - b).abs() < 0.01;
        assert!(close(both.of_words, given(&after, &page)));
        let (mean, deviation) = before.of_neutral(&adopted);
        let (expected, scatter) = after.of_neutral(&Adopted::default());
        assert!(close(mean, expected) && close(deviation, scatter) && deviation > 0.0);
        let without = adopted.without(&counted(more));
        let back = before.document(&page, 50.0, &without, None).unwrap();
        assert_eq!(back.of_words, given(&before, &page));
    }

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("words.tsv");
        counts().save(&path).unwrap();
        assert_eq!(CountTable::load(&path).unwrap(), counts());
        fs::write(&path, "cat\t1\t2\ncat x\n").unwrap();
        let error = CountTable::load(&path).unwrap_err().to_string();
        assert!(
            error.contains("line 2") && error.contains("cat x"),
            "{error}"
        );
    }
}
