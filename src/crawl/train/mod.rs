//! Training: from pages about the topic to a model folder.
//!
//! ```text
//!  sources --> documents --70 %--> Kneser-Ney model --> lm.arpa, lm.binary
//!  (URLs, files, folders)  --30 %--> held-out perplexity, calibration --> model.toml
//!                          --------> keyword table --> keywords.tsv
//! ```
//!
//! Text goes through the same extraction, sentence splitting and tokenisation as a
//! crawled page. Pages of the web are fetched with the same frontier, politeness and
//! address guard as in a crawl. The folder is written under a temporary name beside its
//! place and renamed, so it is always complete.
//!
//! Reading order: this file, `corpus` (sources to documents), `pages` (fetching), `split`
//! (held-out text), `calibrate` (boundaries from the measured perplexities), `topicality`
//! (how far a document is on topic), `grow` (the best pages of a crawl), `model` (the
//! folder, written and read).

mod calibrate;
mod corpus;
mod grow;
mod neutral;
mod pages;
mod split;
#[cfg(test)]
mod tests;
mod topicality;

use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tokio::runtime::Handle;

use crate::fetch::{Fetcher, SetupError};
use crate::frontier::store::StoreError;
use crate::fs::IoError;
use crate::language;
use crate::outputs::{self, OutputError};
use crate::pdf;
use crate::progress::Step;
use crate::settings;
use crate::settings::{ContactMissing, JobSettings};
use crate::topic::lm::{self, Sentence, arpa};
use crate::topic::model::{self, FolderError, Grown, Model, ModelFacts};
use crate::topic::neutral::Words;

pub use corpus::Document;
use grow::Harvest;
pub use grow::{Cut, Growth};

use neutral::Neutral;
use split::Split;

/// Why a model cannot be made or read.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The job names no positive text.
    #[error("train.positive names no text about the topic; list pages, files or folders there")]
    NoSources,
    /// The sources have no sentence to train on.
    #[error(
        "the positive texts hold no sentence of {} words or more ({}); name pages with running text",
        lm::MIN_TOKENS,
        .sources.join(", ")
    )]
    EmptyCorpus {
        /// The sources, as configured.
        sources: Vec<String>,
    },
    /// The sources have too few sentences for a usable model.
    #[error(
        "the texts about the topic hold {sentences} sentences of {} words or more, and a model \
         needs {needed}; name more texts under train.positive, or add --force to make one of so \
         little",
        lm::MIN_TOKENS
    )]
    TooLittle {
        /// The number of sentences.
        sentences: usize,
        /// The required number.
        needed: usize,
    },
    /// A file or folder cannot be read or written.
    #[error(transparent)]
    Io(#[from] IoError),
    /// A PDF file cannot be read.
    #[error(
        "{}: {failure}; leave the file out of [train], or see `spoor help pdfs`",
        path.display()
    )]
    Pdf {
        /// The file.
        path: PathBuf,
        /// Why.
        failure: pdf::Failure,
    },
    /// A training page could not be fetched.
    #[error("training pages could not be fetched:\n  {}\ncorrect or remove them under [train]", .0.join("\n  "))]
    Pages(Vec<String>),
    /// The job names no contact for its requests.
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
    /// The model's folder cannot be read or written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The outputs of a job cannot be read.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A job's crawl has no page to grow a model from.
    #[error("{}: nothing to grow a model from: {why}", folder.display())]
    NothingToGrow {
        /// The job's folder.
        folder: PathBuf,
        /// What is missing.
        why: String,
    },
    /// The folder of the grown model exists already.
    #[error(
        "{}: {what} is here already; name another one with --name, or replace it with --replace",
        place.display()
    )]
    Exists {
        /// The model's folder.
        place: PathBuf,
        /// The existing content.
        what: &'static str,
    },
}

/// Trains the model of a job and returns it loaded. `say` receives a message for each
/// step. Call it on a thread that may block.
///
/// # Errors
/// [`TrainError`]; an earlier model is then unchanged.
pub fn train(
    config: &JobSettings,
    runtime: &Handle,
    fetcher: impl FnOnce() -> Result<Fetcher, TrainError>,
    say: &mut dyn FnMut(&str),
) -> Result<Model, TrainError> {
    let given = Given::gather(config, runtime, fetcher, say)?;
    let split = given.split(config)?;
    given.make(config, &config.model_folder(), &split, None, say)
}

/// Trains a new model from the training text of a job's own model and the best pages that
/// the job has crawled, and returns it loaded. The job's own model stays, unless the new
/// one is to replace it under the same name.
///
/// # Errors
/// [`TrainError`]; an earlier model is then unchanged.
pub fn train_from_job(
    config: &JobSettings,
    growth: &Growth,
    runtime: &Handle,
    fetcher: impl FnOnce() -> Result<Fetcher, TrainError>,
    say: &mut dyn FnMut(&str),
) -> Result<Model, TrainError> {
    let own = config.model_folder();
    let name = match &growth.name {
        Some(name) => name.as_str().to_owned(),
        None => grow::grown_name(config.model_name().as_str()),
    };
    let place = config.model.folder.join(name);
    if Model::exists(&place) && !growth.replace {
        let what = if place == own {
            "the model that the job uses"
        } else {
            "a model"
        };
        return Err(TrainError::Exists { place, what });
    }
    let _hold = outputs::read_samples(&config.job_folder())?;
    let old = Model::load(&own)?;
    let given = Given::gather(config, runtime, fetcher, say)?;
    let split = given.split(config)?;
    let trained = split.training.len();
    let mut harvest = grow::harvest(config, &old, growth, &given.positive, trained)?;
    let held_out: Vec<_> = split.held_out().collect();
    let before = lm::perplexity::document(&*old.lm, &held_out).perplexity;
    harvest.grown.held_out_before = before;
    harvest.grown.comparable = grow::is_near(before, old.facts.held_out_perplexity);
    let Grown {
        pages,
        judged,
        cut,
        passed,
        added,
        sentences,
        ..
    } = harvest.grown;
    say(&format!(
        "{passed} of {judged} pages have a perplexity of at most {cut:.0} ({pages} have text); \
         the best {added} add {sentences} sentences to {trained}"
    ));
    given.make(config, &place, &split, Some(harvest), say)
}

/// The given training texts.
struct Given {
    positive: Vec<Document>,
    neutral: Neutral,
}

impl Given {
    fn gather(
        config: &JobSettings,
        runtime: &Handle,
        fetcher: impl FnOnce() -> Result<Fetcher, TrainError>,
        say: &mut dyn FnMut(&str),
    ) -> Result<Self, TrainError> {
        let section = &config.train;
        if section.positive.is_empty() {
            return Err(TrainError::NoSources);
        }
        let mut corpus = corpus::Gatherer::new(config, runtime, fetcher);
        let (positive, neutral) = corpus.gather(&section.positive, section.neutral.texts(), say)?;
        say(&format!(
            "read {} about the topic and {} neutral ones",
            documents(positive.len()),
            neutral.len()
        ));
        let neutral = match section.neutral {
            settings::Neutral::Texts(_) => Ok(Neutral::of_texts(neutral)),
            settings::Neutral::Builtin => Neutral::builtin(&positive, section.seed),
        };
        let why = match &neutral {
            Ok(neutral) => {
                if let Some(words) = neutral.words() {
                    let name = words.language().name();
                    say(&format!("neutral words: the built-in ones, {name}"));
                }
                if neutral.documents().is_empty() {
                    Some("train.neutral names no text".to_owned())
                } else {
                    None
                }
            }
            Err(Some(language)) => Some(format!(
                "there are no built-in words for {}",
                language.name()
            )),
            Err(None) => Some("the language of the texts is not certain".to_owned()),
        };
        if let Some(why) = why {
            tracing::warn!(
                "{why}, so there are no keywords, and how near a page is to the topic rests on \
                 its perplexity alone; name texts about anything else under train.neutral"
            );
        }
        let neutral = neutral.unwrap_or_else(|_| Neutral::of_texts(Vec::new()));
        Ok(Self { positive, neutral })
    }

    fn split(&self, config: &JobSettings) -> Result<Split<'_>, TrainError> {
        let section = &config.train;
        let split = Split::of(&self.positive, section.held_out, section.seed);
        if split.training.is_empty() {
            return Err(TrainError::EmptyCorpus {
                sources: section.positive.iter().map(ToString::to_string).collect(),
            });
        }
        let sentences = self.positive.iter().map(|d| d.as_ref().len()).sum();
        if sentences < section.min_sentences {
            return Err(TrainError::TooLittle {
                sentences,
                needed: section.min_sentences,
            });
        }
        if split.held_out.is_empty() {
            tracing::warn!(
                held_out = section.held_out,
                "no sentence is held out (train.held_out, or too little text), so nothing can be \
                 calibrated: set buckets.boundaries and its keys, and strategy.anchor_threshold"
            );
        }
        Ok(split)
    }

    /// Makes the model and moves it to `place`.
    fn make(
        &self,
        config: &JobSettings,
        place: &Path,
        split: &Split<'_>,
        harvest: Option<Harvest>,
        say: &mut dyn FnMut(&str),
    ) -> Result<Model, TrainError> {
        let section = &config.train;
        let (added, mut grown) = match harvest {
            Some(Harvest { documents, grown }) => (documents, Some(grown)),
            None => (Vec::new(), None),
        };
        let crawled = added.iter().flat_map(AsRef::as_ref);
        let training: Vec<&Sentence> = split.training.iter().copied().chain(crawled).collect();
        let positive: Vec<&Document> = self.positive.iter().chain(&added).collect();
        let estimate = estimate(&training, section.order, say)?;
        let keywords = self.neutral.keywords(&positive, section.keywords);
        let draft = model::Draft::begin(place)?;
        arpa::write(&estimate, &draft.arpa())?;
        let kenlm = draft.load_lm()?;
        let neutral = self.neutral.documents();
        let easier = self.neutral.easier();
        let measured = calibrate::calibrate(&kenlm, &split.held_out, neutral, &easier);
        if let Some(grown) = &mut grown {
            grown.held_out_after = measured.held_out;
        }
        let comparing = Step::begin("comparing words", None);
        let topical = topicality::measure(&kenlm, &self.positive, &self.neutral, split);
        drop(comparing);
        let facts = ModelFacts {
            version: model::VERSION,
            order: section.order,
            language: language::recognise(training.iter().map(|s| s.as_str())),
            corpus_sha256: corpus_hash(&positive, neutral),
            positive_documents: positive.len(),
            neutral_documents: self.neutral.given(),
            neutral_words: self.neutral.words().map(Words::language),
            training_sentences: training.len(),
            training_tokens: training.iter().map(|s| s.len()).sum(),
            held_out_documents: split.whole.then_some(split.held_out.len()),
            held_out_sentences: split.held_out().count(),
            held_out_perplexity: measured.held_out,
            neutral_perplexity: measured.neutral,
            seed: section.seed,
            ngrams: estimate.ngram_counts(),
            keywords: keywords.len(),
            grown,
            topicality: topical.topicality,
            calibration: measured.calibration,
            discounts: estimate.discounts().to_vec(),
        };
        let stopwords = self.neutral.stopwords(&positive);
        draft.save_tables(
            &topical.counts,
            topical.passages.as_ref(),
            &keywords,
            &stopwords,
        )?;
        draft.finish(&facts)?;
        report(&facts);
        Ok(Model::load(place)?)
    }
}

/// Estimates the language model, and reports the result.
fn estimate(
    training: &[&Sentence],
    order: usize,
    say: &mut dyn FnMut(&str),
) -> Result<lm::Estimate, TrainError> {
    let estimating = Step::begin("estimating the model", None);
    let estimate = lm::estimate(training.iter().copied(), order)?;
    drop(estimating);
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
    Ok(estimate)
}

fn documents(count: usize) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} document{s}")
}

/// Reports the quality of a model, as far as it was measured.
fn report(facts: &ModelFacts) {
    match facts.topicality {
        None => tracing::warn!(
            "too few documents about anything else to recognise the topic by its words (at least 4 \
             with 30 words are needed), so pages are judged by their perplexity alone"
        ),
        Some(curve) if curve.few && facts.training_sentences >= topicality::ENOUGH => {
            tracing::warn!(
                "{} about the topic are too few to estimate how many pages of a crawl are on topic: \
                 five of them have to be held out whole; name more texts under train.positive",
                documents(facts.positive_documents)
            );
        }
        Some(curve) if curve.few => tracing::warn!(
            "{} sentences in {} about the topic are too few to estimate how many pages of a crawl \
             are on topic: {} sentences are enough if five of the documents can be held out whole; \
             name more texts under train.positive",
            facts.training_sentences,
            documents(facts.positive_documents),
            topicality::ENOUGH
        ),
        Some(_) => {}
    }
    tracing::info!(
        held_out = facts.held_out_perplexity,
        neutral = facts.neutral_perplexity,
        sentences = facts.held_out_sentences,
        "perplexity of the held-out text"
    );
}

/// SHA-256 over every sentence, one per line, positive text before neutral text.
fn corpus_hash(positive: &[&Document], neutral: &[Document]) -> String {
    let mut hash = Sha256::new();
    let neutral: Vec<&Document> = neutral.iter().collect();
    for part in [positive, &neutral] {
        for sentence in part.iter().flat_map(|d| d.as_ref()) {
            hash.update(sentence.as_str().as_bytes());
            hash.update(b"\n");
        }
        hash.update(b"\n");
    }
    base16ct::lower::encode_string(&hash.finalize())
}
