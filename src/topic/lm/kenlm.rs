//! Scoring: the [`LanguageModel`] trait behind all ratings, and its implementation with
//! KenLM.
//!
//! This is the only file that knows the binding to KenLM's C++, and that binding is the
//! only foreign code that spoor itself calls.

use std::cell::RefCell;
use std::io::{self, BufRead, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::words::{Sentence, WordMap};
use kenlm::{ArpaLoadComplain, Config, LoadMethod, Model, State, WordIndex};

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

    /// The number of a token; all tokens unknown to the model have the same.
    fn word(&self, token: &str) -> u32;

    /// Scores a sentence of words with these numbers from `<s>` to `</s>`, even one without
    /// words.
    fn score_words(&self, words: &[u32]) -> SentenceScore;

    /// log10 of the probability of an unknown word in a run of unknown words.
    fn unknown_log10(&self) -> f64;

    /// Scores a sentence as [`LanguageModel::score_words`] does.
    fn score(&self, sentence: &Sentence) -> SentenceScore {
        let words: Vec<u32> = sentence.tokens().map(|token| self.word(token)).collect();
        self.score_words(&words)
    }

    /// Reads a text that contains many parts to score, of words with these numbers. `ends` are
    /// positions, counted in words and in order, at which parts are likely to end. `None` if the
    /// model cannot do this faster than scoring each part by itself.
    fn read<'m>(
        &'m self,
        _words: &'m [u32],
        _ends: &mut dyn Iterator<Item = usize>,
    ) -> Option<Running<'m>> {
        None
    }
}

/// A running text that is read once, so that its parts, even overlapping ones, can be scored. To
/// the model a token has the same probability in a part as in the whole, except for those at the
/// part's beginning that have fewer words before them.
pub struct Running<'m> {
    model: &'m KenLm,
    words: &'m [WordIndex],
    /// The probability of each word given those before it.
    log10: Vec<f64>,
    /// The probability of `</s>` after this many words; NaN if not known yet.
    ends: RefCell<Vec<f64>>,
    /// The probability of the first words after `<s>`, as many as the model's memory takes, by the
    /// number of the first.
    begins: RefCell<Vec<f64>>,
}

impl<'m> Running<'m> {
    fn of(model: &'m KenLm, words: &'m [WordIndex], ends: &mut dyn Iterator<Item = usize>) -> Self {
        let mut walk = ModelWalk::of(model);
        let mut next = ends.next();
        let mut of_ends = vec![f64::NAN; words.len() + 1];
        let mut log10 = Vec::with_capacity(words.len());
        for (word, of_end) in words.iter().zip(of_ends.iter_mut().skip(1)) {
            log10.push(walk.step(*word));
            while next.is_some_and(|end| end <= log10.len()) {
                if next == Some(log10.len()) && of_end.is_nan() {
                    *of_end = walk.end();
                }
                next = ends.next();
            }
        }
        Self {
            model,
            words,
            log10,
            ends: RefCell::new(of_ends),
            begins: RefCell::new(vec![f64::NAN; words.len()]),
        }
    }

    /// The score of a range of tokens, equal to that of a sentence with the same tokens.
    pub fn score(&self, tokens: Range<usize>) -> SentenceScore {
        let words = self.words.get(tokens.clone()).unwrap_or_default();
        let memory = usize::from(self.model.order()).saturating_sub(1);
        if words.len() <= memory {
            return self.model.score_words(words);
        }
        let begin = known(&self.begins, tokens.start, || {
            let (first, _) = words.split_at(memory);
            ModelWalk::of_sentence(self.model).steps(first)
        });
        let end = known(&self.ends, tokens.end, || {
            // The words before the end that fit into the model's memory.
            let (_, last) = words.split_at(words.len() - memory);
            let mut walk = ModelWalk::of(self.model);
            walk.steps(last);
            walk.end()
        });
        let others = self.log10.get(tokens.start + memory..tokens.end);
        let others = others.unwrap_or_default().iter();
        SentenceScore {
            log10: others.fold(begin, |sum, log10| sum + log10) + end,
            unknown: self.model.unknown_among(words),
        }
    }
}

/// The value for this position, computed at the first request.
fn known(places: &RefCell<Vec<f64>>, place: usize, work_out: impl FnOnce() -> f64) -> f64 {
    let found = places.borrow().get(place).copied();
    if let Some(found) = found.filter(|found| !found.is_nan()) {
        return found;
    }
    let found = work_out();
    if let Some(place) = places.borrow_mut().get_mut(place) {
        *place = found;
    }
    found
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
    frequent: WordMap<Box<str>, WordIndex>,
    /// Whether the model knows no other words.
    frequent_is_all: bool,
}

/// How many words are kept in this table, which takes about 40 bytes for each. The words of a page
/// are mostly among the first thousands, which stay in the processor's cache.
const FREQUENT: usize = 16_384;

impl KenLm {
    /// Loads a model file; nothing is printed.
    ///
    /// # Errors
    /// [`ModelError`] names the file.
    pub fn load(path: &Path) -> Result<Self, ModelError> {
        Self::load_by(path, path)
    }

    /// Loads a binary that was built from an ARPA file.
    ///
    /// # Errors
    /// [`ModelError`] names the binary.
    pub(super) fn load_binary(binary: &Path, arpa: &Path) -> Result<Self, ModelError> {
        Self::load_by(binary, arpa)
    }

    /// Loads the file `path`; `arpa` is the file with its words.
    fn load_by(path: &Path, arpa: &Path) -> Result<Self, ModelError> {
        // KenLM's message about a wrong path would be less clear.
        let readable = crate::fs::open(path).and_then(|file| file.metadata());
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
            // Mapped, a binary of 272 MB loads in 0.11 s instead of 0.19 s, but 30 % fewer tokens
            // per second are scored, because files have no huge pages. Also, copying another model
            // over a mapped file would kill the process.
            load_method: LoadMethod::Read,
            ..Config::default()
        };
        let model = Model::with_config(text, config).map_err(|error| ModelError::Broken {
            path: path.to_owned(),
            why: reason(&error.to_string()),
        })?;
        let begin = model.begin_sentence_state();
        let (frequent, frequent_is_all) = frequent(arpa, &model);
        let mut loaded = Self {
            frequent,
            frequent_is_all,
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

    /// The probability of an unknown word after a full context of unknown words.
    fn run_of_unknown(&self) -> f64 {
        let unknown = self.model.not_found_index();
        let mut walk = ModelWalk::of(self);
        let steps = (0..self.model.order()).map(|_| walk.step(unknown));
        steps.last().unwrap_or_default()
    }

    /// How many of these words are unknown.
    fn unknown_among(&self, words: &[WordIndex]) -> usize {
        let not_found = self.model.not_found_index();
        words.iter().filter(|word| **word == not_found).count()
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

    fn word(&self, token: &str) -> u32 {
        match self.frequent.get(token) {
            Some(&word) => word,
            None if self.frequent_is_all => self.model.not_found_index(),
            // Only a NUL could be refused, and tokens contain none.
            None => {
                let word = self.model.index(token);
                word.unwrap_or_else(|_| self.model.not_found_index())
            }
        }
    }

    fn score_words(&self, words: &[u32]) -> SentenceScore {
        let mut walk = ModelWalk::of_sentence(self);
        let log10 = walk.steps(words) + walk.end();
        SentenceScore {
            log10,
            unknown: self.unknown_among(words),
        }
    }

    fn unknown_log10(&self) -> f64 {
        self.unknown_log10
    }

    fn read<'m>(
        &'m self,
        words: &'m [u32],
        ends: &mut dyn Iterator<Item = usize>,
    ) -> Option<Running<'m>> {
        Some(Running::of(self, words, ends))
    }
}

/// A walk through the states of a model, word by word.
struct ModelWalk<'m> {
    model: &'m KenLm,
    /// Whether the next word is the first of a sentence.
    begins: bool,
    from: State,
    to: State,
}

impl<'m> ModelWalk<'m> {
    /// A walk without anything before it.
    fn of(model: &'m KenLm) -> Self {
        Self {
            model,
            begins: false,
            from: model.model.null_context_state(),
            to: model.model.null_context_state(),
        }
    }

    /// A walk that starts from `<s>`.
    fn of_sentence(model: &'m KenLm) -> Self {
        Self {
            begins: true,
            ..Self::of(model)
        }
    }

    /// The probability of the next word; moves past it.
    fn step(&mut self, word: WordIndex) -> f64 {
        let log10 = self.look(word);
        self.begins = false;
        std::mem::swap(&mut self.from, &mut self.to);
        log10
    }

    /// The sum over several words.
    fn steps(&mut self, words: &[WordIndex]) -> f64 {
        words.iter().fold(0.0, |sum, word| sum + self.step(*word))
    }

    /// The probability of `</s>` at this point.
    fn end(&mut self) -> f64 {
        self.look(self.model.model.end_sentence_index())
    }

    fn look(&mut self, word: WordIndex) -> f64 {
        let from = if self.begins {
            &self.model.begin
        } else {
            &self.from
        };
        self.model.step(from, word, &mut self.to)
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

/// The most probable words of an ARPA file and their numbers, and whether these are all
/// words of the model; none for a binary file.
fn frequent(path: &Path, model: &Model) -> (WordMap<Box<str>, WordIndex>, bool) {
    let mut words = unigrams(path).unwrap_or_default();
    let is_all = (1..=FREQUENT).contains(&words.len());
    words.sort_unstable_by(|(a, one), (b, other)| b.total_cmp(a).then_with(|| one.cmp(other)));
    words.truncate(FREQUENT);
    let number = |(_, word): (f32, Box<str>)| {
        let number = model.index(&word).ok()?;
        Some((word, number))
    };
    (words.into_iter().filter_map(number).collect(), is_all)
}

/// The words of an ARPA file that KenLM has already accepted, and their log10.
fn unigrams(path: &Path) -> io::Result<Vec<(f32, Box<str>)>> {
    let mut file = BufReader::new(crate::fs::open(path)?);
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
    let text = match message.split_once('\n') {
        Some((place, text)) if place.contains(" threw ") && !text.trim().is_empty() => text,
        _ => message,
    };
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.split_once(". ") {
        Some((first, _)) => first.to_owned(),
        None => text,
    }
}
