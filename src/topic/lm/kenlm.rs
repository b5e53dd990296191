//! Scoring: the [`LanguageModel`] trait behind all ratings, and its implementation with
//! KenLM.
//!
//! This is the only file that knows the binding to KenLM's C++, and that binding is the
//! only foreign code that spoor itself calls.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};

use kenlm::{ArpaLoadComplain, Config, LoadMethod, Model, State, WordIndex};
use rustc_hash::FxHashMap;

use super::tokens::Sentence;

/// The log probability of one sentence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SentenceScore {
    /// log10 of the probability of its tokens and of `</s>`, after `<s>`.
    pub log10: f64,
    /// How many of its tokens the model does not know.
    pub unknown: usize,
}

/// A model that gives the probability of sentences.
pub trait LanguageModel: Send + Sync {
    /// The longest n-gram it knows.
    fn order(&self) -> u8;

    /// Scores a sentence from `<s>` to `</s>`, even one without tokens.
    fn score(&self, sentence: &Sentence) -> SentenceScore;

    /// log10 of the probability of an unknown word in a run of unknown words.
    fn unknown_log10(&self) -> f64;

    /// Reads a text that contains many parts to score; `None` if the model has no faster
    /// way than scoring each part by itself.
    fn read<'m>(&'m self, _tokens: &mut dyn Iterator<Item = &str>) -> Option<Running<'m>> {
        None
    }
}

/// A running text that is read once, so that parts of it can be scored, however they
/// overlap. For the model a token has the same probability in a part as in the whole,
/// except for those at the part's beginning that have fewer words before them.
pub struct Running<'m> {
    model: &'m KenLm,
    words: Vec<WordIndex>,
    /// The probability of each word given those before it.
    log10: Vec<f64>,
}

impl Running<'_> {
    /// The score of a range of tokens, equal to that of a sentence of them.
    pub fn score(&self, tokens: Range<usize>) -> SentenceScore {
        let KenLm { model, begin, .. } = self.model;
        let words = self.words.get(tokens.clone()).unwrap_or_default();
        let memory = usize::from(model.order()).saturating_sub(1);
        let (first, others) = words.split_at(memory.min(words.len()));
        let mut from = model.null_context_state();
        let mut to = model.null_context_state();
        let mut log10 = 0.0;
        for (place, word) in first.iter().enumerate() {
            let context = if place == 0 { begin } else { &from };
            log10 += self.model.step(context, *word, &mut to);
            std::mem::swap(&mut from, &mut to);
        }
        if !others.is_empty() {
            let known = self.log10.get(tokens).unwrap_or_default();
            log10 = known
                .iter()
                .skip(first.len())
                .fold(log10, |sum, log10| sum + log10);
            // The words before the end, as far as the model's memory reaches.
            from = model.null_context_state();
            for word in words.iter().skip(words.len().saturating_sub(memory)) {
                self.model.step(&from, *word, &mut to);
                std::mem::swap(&mut from, &mut to);
            }
        }
        let context = if words.is_empty() { begin } else { &from };
        log10 += self
            .model
            .step(context, model.end_sentence_index(), &mut to);
        let not_found = model.not_found_index();
        SentenceScore {
            log10,
            unknown: words.iter().filter(|word| **word == not_found).count(),
        }
    }
}

/// Why a model file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// It does not exist, is a folder, or is not readable.
    #[error("cannot read the language model {path}: {source}; train one, or correct the path", path = path.display())]
    Read {
        /// The model file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// KenLM takes its path as text.
    #[error("the path of the language model {path} is not UTF-8; rename the file or its folders", path = path.display())]
    Path {
        /// The model file.
        path: PathBuf,
    },
    /// It is neither ARPA nor a KenLM binary, or is truncated, or its order is above 6.
    #[error("the language model {path} is broken: {why}; train it again", path = path.display())]
    Broken {
        /// The model file.
        path: PathBuf,
        /// KenLM's error.
        why: String,
    },
    /// Its order is not the expected one.
    #[error("the language model {path} has order {found}, not {expected}; train it again or correct the order", path = path.display())]
    Order {
        /// The model file.
        path: PathBuf,
        /// The order of the file.
        found: u8,
        /// The order it should have.
        expected: u8,
    },
}

/// A model in memory, loaded from ARPA or KenLM's binary format.
pub struct KenLm {
    model: Model,
    path: PathBuf,
    begin: State,
    unknown_log10: f64,
    /// The numbers of the most frequent words, which make up most of any text: a lookup in
    /// the binding costs an allocation and a cache miss.
    frequent: FxHashMap<Box<str>, WordIndex>,
}

/// How many words are kept in this table; it fits a processor's cache.
const FREQUENT: usize = 4096;

impl KenLm {
    /// Loads a model file; nothing is printed.
    ///
    /// # Errors
    /// [`ModelError`] names the file.
    pub fn load(path: &Path) -> Result<Self, ModelError> {
        Self::load_by(path, path)
    }

    /// Loads a binary that was made of an ARPA file.
    ///
    /// # Errors
    /// [`ModelError`] names the binary.
    pub(super) fn load_binary(binary: &Path, arpa: &Path) -> Result<Self, ModelError> {
        Self::load_by(binary, arpa)
    }

    /// Loads the file `path`; `arpa` is where its words are.
    fn load_by(path: &Path, arpa: &Path) -> Result<Self, ModelError> {
        // KenLM's message about a wrong path would be less clear.
        let readable = fs::File::open(path).and_then(|file| file.metadata());
        let readable = readable.and_then(|metadata| {
            if metadata.is_dir() {
                Err(io::ErrorKind::IsADirectory.into())
            } else {
                Ok(())
            }
        });
        readable.map_err(|source| ModelError::Read {
            path: path.to_owned(),
            source,
        })?;
        let Some(text) = path.to_str() else {
            return Err(ModelError::Path {
                path: path.to_owned(),
            });
        };

        let config = Config {
            show_progress: false,
            arpa_complain: ArpaLoadComplain::None,
            // Mapped, a binary of 272 MB loads in 0.11 s instead of 0.19 s, but 30 % fewer
            // tokens a second are scored, as files have no huge pages. And whoever copies
            // another model over a mapped file ends the process.
            load_method: LoadMethod::Read,
            ..Config::default()
        };
        let model = Model::with_config(text, config).map_err(|error| ModelError::Broken {
            path: path.to_owned(),
            why: reason(&error.to_string()),
        })?;
        let begin = model.begin_sentence_state();
        let mut loaded = Self {
            frequent: frequent(arpa, &model),
            model,
            path: arpa.to_owned(),
            begin,
            unknown_log10: f64::from(f32::MIN),
        };
        loaded.unknown_log10 = loaded.run_of_unknown();
        Ok(loaded)
    }

    /// Checks that the model has the expected order.
    ///
    /// # Errors
    ///
    /// [`ModelError::Order`] if it does not.
    pub fn of_order(self, expected: u8) -> Result<Self, ModelError> {
        match self.model.order() {
            found if found == expected => Ok(self),
            found => Err(ModelError::Order {
                path: self.path,
                found,
                expected,
            }),
        }
    }

    /// The probability of an unknown word after a whole context of unknown words.
    fn run_of_unknown(&self) -> f64 {
        let unknown = self.model.not_found_index();
        let mut from = self.model.null_context_state();
        let mut to = self.model.null_context_state();
        let mut log10 = 0.0;
        for _ in 0..self.model.order() {
            log10 = self.step(&from, unknown, &mut to);
            std::mem::swap(&mut from, &mut to);
        }
        log10
    }

    /// The number of a token; that of unknown words if the model does not know it.
    fn word(&self, token: &str) -> WordIndex {
        match self.frequent.get(token) {
            Some(&word) => word,
            // Only a NUL could be refused, and tokens contain none.
            None => {
                let word = self.model.index(token);
                word.unwrap_or_else(|_| self.model.not_found_index())
            }
        }
    }

    fn step(&self, from: &State, word: WordIndex, to: &mut State) -> f64 {
        // The binding refuses states of other models, but none ever gets here; KenLM
        // itself cannot fail at this point.
        let scored = self.model.base_score(from, word, to);
        debug_assert!(scored.is_ok());
        scored.map_or(self.unknown_log10, f64::from)
    }
}

impl LanguageModel for KenLm {
    fn order(&self) -> u8 {
        self.model.order()
    }

    fn score(&self, sentence: &Sentence) -> SentenceScore {
        let not_found = self.model.not_found_index();
        let mut from = self.model.null_context_state();
        let mut to = self.model.null_context_state();
        let mut log10 = 0.0;
        let mut unknown = 0;
        let end = self.model.end_sentence_index();
        let words = sentence.tokens().map(|token| self.word(token));
        let mut first = true;
        for word in words.chain([end]) {
            let context = if first { &self.begin } else { &from };
            first = false;
            unknown += usize::from(word == not_found);
            log10 += self.step(context, word, &mut to);
            std::mem::swap(&mut from, &mut to);
        }
        SentenceScore { log10, unknown }
    }

    fn unknown_log10(&self) -> f64 {
        self.unknown_log10
    }

    fn read<'m>(&'m self, tokens: &mut dyn Iterator<Item = &str>) -> Option<Running<'m>> {
        let words: Vec<WordIndex> = tokens.map(|token| self.word(token)).collect();
        let mut from = self.model.null_context_state();
        let mut to = self.model.null_context_state();
        let log10 = words.iter().map(|word| {
            let log10 = self.step(&from, *word, &mut to);
            std::mem::swap(&mut from, &mut to);
            log10
        });
        Some(Running {
            log10: log10.collect(),
            model: self,
            words,
        })
    }
}

impl std::fmt::Debug for KenLm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KenLm")
            .field("path", &self.path)
            .field("order", &self.model.order())
            .finish_non_exhaustive()
    }
}

/// The most probable words of an ARPA file and their numbers; empty for a binary file.
fn frequent(path: &Path, model: &Model) -> FxHashMap<Box<str>, WordIndex> {
    let mut words = unigrams(path).unwrap_or_default();
    words.sort_unstable_by(|(a, one), (b, other)| b.total_cmp(a).then_with(|| one.cmp(other)));
    words.truncate(FREQUENT);
    let number = |(_, word): (f32, Box<str>)| {
        let number = model.index(&word).ok()?;
        Some((word, number))
    };
    words.into_iter().filter_map(number).collect()
}

/// The words of an ARPA file that KenLM has already accepted, and their log10.
fn unigrams(path: &Path) -> io::Result<Vec<(f32, Box<str>)>> {
    let mut file = BufReader::new(File::open(path)?);
    let mut words = Vec::new();
    // A binary file has no lines; an ARPA file starts with a short marker.
    if !file.fill_buf()?.trim_ascii_start().starts_with(b"\\data\\") {
        return Ok(words);
    }
    let mut lines = file.lines();
    for line in lines.by_ref() {
        if line?.starts_with("\\1-grams:") {
            break;
        }
    }
    for line in lines {
        let line = line?;
        let mut columns = line.split(['\t', ' ']);
        match (columns.next().map(str::parse), columns.next()) {
            (Some(Ok(log10)), Some(word)) => words.push((log10, word.into())),
            // An empty line, or the next section.
            _ => break,
        }
    }
    Ok(words)
}

/// The first sentence of KenLM's message, without the source location before it and the
/// advice to developers after it.
fn reason(message: &str) -> String {
    let message = message
        .strip_prefix("failed to load KenLM model: ")
        .unwrap_or(message);
    let told = match message.split_once('\n') {
        Some((place, told)) if place.contains(" threw ") && !told.trim().is_empty() => told,
        _ => message,
    };
    let told = told.split_whitespace().collect::<Vec<_>>().join(" ");
    match told.split_once(". ") {
        Some((first, _)) => first.to_owned(),
        None => told,
    }
}
