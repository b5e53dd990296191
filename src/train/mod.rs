//! Training: from pages about the topic to a model folder.
//!
//! ```text
//!  sources --> documents --> sentences --70 %--> Kneser-Ney model --> lm.arpa
//!  (URLs, files, folders)        |      --30 %--> held-out perplexity, boundaries
//!                                +--------------> keyword table --> keywords.tsv
//! ```
//!
//! Text goes through the same extraction, sentences and tokens as a crawled
//! page. Pages of the web are fetched by the same frontier, politeness and
//! address guard as a crawl. The folder appears whole: it is written beside its
//! place and renamed.
//!
//! Reading order: this file, `corpus` (sources to documents), `pages` (fetching),
//! `boundaries` (what is proposed from the measured perplexities), `model` (the
//! folder, written and read).

mod boundaries;
mod corpus;
mod model;
mod pages;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::PathBuf;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use sha2::{Digest, Sha256};
use tokio::runtime::Handle;

use crate::config::{Config, ContactMissing};
use crate::fetch::{Fetcher, SetupError};
use crate::frontier::store::StoreError;
use crate::keywords::{KeywordError, KeywordTable};
use crate::language::{self, Language};
use crate::lm::{self, Sentence, arpa};

pub use corpus::Document;
pub use model::{Model, ModelFacts, keywords_in};

/// Why no model could be made or read.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The job names no positive text.
    #[error("train.positive names no text about the topic; list pages, files or folders there")]
    NoSources,
    /// What is named holds no sentence to train on.
    #[error(
        "the positive texts hold no sentence of {} words or more ({}); name pages with running text",
        lm::MIN_TOKENS,
        .sources.join(", ")
    )]
    EmptyCorpus {
        /// The sources, as named.
        sources: Vec<String>,
    },
    /// A file or folder cannot be read or written.
    #[error("{}: {what} failed: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was attempted.
        what: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// A training page could not be fetched.
    #[error("training pages could not be had:\n  {}\nmend or remove them under [train]", .0.join("\n  "))]
    Pages(Vec<String>),
    /// The job names nobody who answers for its requests.
    #[error(transparent)]
    Contact(#[from] ContactMissing),
    /// The client for fetching training pages cannot be built.
    #[error(transparent)]
    Fetch(#[from] SetupError),
    /// The store of the fetching frontier failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The model cannot be estimated.
    #[error(transparent)]
    Estimate(#[from] lm::EstimateError),
    /// The model cannot be written.
    #[error(transparent)]
    Arpa(#[from] arpa::ArpaError),
    /// The model cannot be loaded.
    #[error(transparent)]
    Model(#[from] lm::ModelError),
    /// The keyword table cannot be written or read.
    #[error(transparent)]
    Keywords(#[from] KeywordError),
    /// `model.toml` is no such file.
    #[error("{}: {why}; train the model again", path.display())]
    Facts {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

/// Trains the model that a job names and returns it loaded. `say` is told of
/// each step, for people. Must be called on a thread that may block.
///
/// # Errors
/// [`TrainError`]; a model that was there before stays as it was.
pub fn train(
    config: &Config,
    runtime: &Handle,
    fetcher: impl FnOnce() -> Result<Fetcher, TrainError>,
    say: &mut dyn FnMut(&str),
) -> Result<Model, TrainError> {
    let section = &config.train;
    if section.positive.is_empty() {
        return Err(TrainError::NoSources);
    }
    let mut corpus = corpus::Gatherer::new(config, runtime, fetcher);
    let (positive, neutral) = corpus.gather(&section.positive, &section.neutral, say)?;
    say(&format!(
        "{} positive and {} neutral documents read",
        positive.len(),
        neutral.len()
    ));
    if neutral.is_empty() {
        tracing::warn!(
            "train.neutral names no text, so no keyword can be told from a common word: \
             the keyword table is empty and boundaries rest on the topic alone"
        );
    }
    let (training, held_out) = split(&positive, section.held_out, section.seed);
    if training.is_empty() {
        return Err(TrainError::EmptyCorpus {
            sources: section.positive.iter().map(ToString::to_string).collect(),
        });
    }
    if held_out.is_empty() {
        tracing::warn!(
            held_out = section.held_out,
            "no sentence is held out (train.held_out, or too little text), so the bucket \
             boundaries cannot be measured: set buckets.boundaries and its keys"
        );
    }
    let estimate = lm::estimate(training.iter().copied(), section.order)?;
    for order in estimate.fallbacks() {
        tracing::warn!(
            order,
            "too little text to estimate the discounts of this order: 0.5, 1 and 1.5 are used"
        );
    }
    say(&format!(
        "model of order {}: {} sentences, {} n-grams",
        estimate.order(),
        estimate.sentences(),
        estimate.ngram_counts().iter().sum::<usize>()
    ));
    let keywords = KeywordTable::train(&positive, &neutral, section.keywords);
    let draft = model::Draft::begin(&config.model_folder())?;
    let arpa_path = draft.path().join(model::ARPA);
    arpa::write(&estimate, &arpa_path)?;
    let kenlm = lm::KenLm::load(&arpa_path)?;
    let measured = boundaries::measure(&kenlm, &held_out, &neutral);
    let facts = ModelFacts {
        version: model::VERSION,
        order: section.order,
        corpus_sha256: corpus_hash(&positive, &neutral),
        language: language_of(&training),
        positive_documents: positive.len(),
        neutral_documents: neutral.len(),
        training_sentences: training.len(),
        training_tokens: training.iter().map(|s| s.len()).sum(),
        held_out_sentences: held_out.len(),
        held_out_perplexity: measured.held_out,
        neutral_perplexity: measured.neutral,
        seed: section.seed,
        ngrams: estimate.ngram_counts(),
        discounts: estimate.discounts().to_vec(),
        keywords: keywords.len(),
        boundaries: measured.boundaries,
    };
    keywords.save(&draft.path().join(model::KEYWORDS))?;
    draft.finish(&facts)?;
    say(&format!(
        "held-out perplexity {:.1} over {} sentences{}",
        facts.held_out_perplexity,
        facts.held_out_sentences,
        match facts.neutral_perplexity {
            Some(neutral) => format!(", {neutral:.1} on the neutral documents"),
            None => String::new(),
        }
    ));
    Model::load(&config.model_folder())
}

/// Draws the sentences that are held out, the same ones for the same seed, and
/// leaves at least one to train on. Copies of a sentence stay together: a menu or
/// a quotation that stands on several pages would otherwise be trained on and
/// then measured.
fn split(documents: &[Document], held_out: f64, seed: u64) -> (Vec<&Sentence>, Vec<&Sentence>) {
    let all: Vec<&Sentence> = documents.iter().flat_map(AsRef::as_ref).collect();
    let mut seen = HashSet::new();
    let mut distinct: Vec<&str> = all.iter().map(|s| s.as_str()).collect();
    distinct.retain(|text| seen.insert(*text));
    distinct.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    // The share is at most 0.9, so the cut lies within.
    let share = (distinct.len() as f64 * held_out) as usize;
    distinct.truncate(share);
    let held: HashSet<&str> = distinct.into_iter().collect();
    all.into_iter().partition(|s| !held.contains(s.as_str()))
}

/// The language of sentences, by some that are drawn evenly from all of them.
fn language_of(sentences: &[&Sentence]) -> Option<Language> {
    const DRAWN: usize = 60;
    let step = sentences.len().div_ceil(DRAWN).max(1);
    language::recognise(sentences.iter().step_by(step).map(|s| s.as_str()))
}

/// SHA-256 over every sentence, a line each, neutral after positive.
fn corpus_hash(positive: &[Document], neutral: &[Document]) -> String {
    let mut hash = Sha256::new();
    for part in [positive, neutral] {
        for sentence in part.iter().flat_map(AsRef::as_ref) {
            hash.update(sentence.as_str().as_bytes());
            hash.update(b"\n");
        }
        hash.update(b"\n");
    }
    base16ct::lower::encode_string(&hash.finalize())
}
