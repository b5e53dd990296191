//! The sentences of a job in the order they were crawled, and their perplexity packet by
//! packet (figure 5.1 of Werner 2015).
//!
//! A packet has a fixed number of sentences, chosen so that there are at most 240 of
//! them. Its perplexity is that of its sentences together, not a mean of theirs.

use std::io::{BufReader, ErrorKind};
use std::ops::AddAssign;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use serde::Serialize;

use super::Figures;
use crate::crawl::figures::Steps;
use crate::fs::if_there;
use crate::outputs;
use crate::progress::Step;
use crate::settings::JobSettings;
use crate::topic::lm::{self, MIN_TOKENS};
use crate::topic::model::FolderError;
use crate::topic::model::{Model, ModelFacts};
use crate::topic::strategy;

/// The fewest sentences of a packet.
const PACKET: u64 = 25;

/// The longest line that is read, in bytes; pages are limited to far less.
const MAX_LINE: usize = 64 << 20;

/// The perplexity of all sentences and of each packet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Perplexity {
    /// The folder of the model.
    pub model: PathBuf,
    /// The role of the model in the crawl.
    pub model_use: ModelUse,
    /// Over all sentences together.
    pub all: f64,
    /// Sentences of a packet; the last one may have fewer.
    pub packet: u64,
    /// The packets in the order they were crawled.
    pub packets: Vec<Packet>,
}

/// The role of a model in a crawl.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelUse {
    /// It decided which links were followed first, so it flatters the results.
    Steered,
    /// It is the job's, but the strategy is unfocused, so it decided nothing.
    Rated,
    /// It is another one, trained on another corpus.
    HeldOut,
    /// It is another one, and the corpus of the job's own is unknown.
    Other,
}

/// A packet of sentences.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Packet {
    /// Sentences crawled up to its end.
    pub sentences: u64,
    /// Its rated tokens, including the ends of sentences.
    pub tokens: usize,
    /// Its perplexity.
    pub perplexity: f64,
}

/// Log probability and number of tokens, including ends of sentences.
#[derive(Debug, Clone, Copy, Default)]
struct ScoredTokens {
    sentences: u64,
    log10: f64,
    tokens: usize,
}

impl AddAssign for ScoredTokens {
    fn add_assign(&mut self, other: Self) {
        self.sentences += other.sentences;
        self.log10 += other.log10;
        self.tokens += other.tokens;
    }
}

/// The models: one for all jobs, or each job's own.
pub(super) struct Models {
    all: bool,
    loaded: Option<Model>,
}

impl Models {
    pub fn new(folder: Option<&Path>) -> Result<Self, FolderError> {
        Ok(Self {
            all: folder.is_some(),
            loaded: folder.map(Model::load).transpose()?,
        })
    }

    /// The model for a job, and its role in the crawl.
    fn of(&mut self, config: &JobSettings) -> Result<Option<(&Model, ModelUse)>, FolderError> {
        let own = config.model_folder();
        if !self.all && self.loaded.as_ref().is_none_or(|m| m.folder != own) {
            self.loaded = if Model::exists(&own) {
                Some(Model::load(&own)?)
            } else {
                None
            };
        }
        let Some(model) = &self.loaded else {
            return Ok(None);
        };
        // Two folders may contain the same model.
        let corpus = ModelFacts::read(&own).map(|facts| facts.corpus_sha256);
        let is_own = model.folder == own
            || corpus
                .as_ref()
                .is_ok_and(|c| *c == model.facts.corpus_sha256);
        let model_use = match (is_own, corpus) {
            (true, _) if !strategy::prefers(config.strategy.kind) => ModelUse::Rated,
            (true, _) => ModelUse::Steered,
            (false, Ok(_)) => ModelUse::HeldOut,
            (false, Err(_)) => ModelUse::Other,
        };
        Ok(Some((model, model_use)))
    }
}

/// Reads `sentences/*.txt.gz` into `figures`.
pub(super) fn read(figures: &mut Figures, config: &JobSettings, models: &mut Models) {
    let folder = config.job_folder().join("sentences");
    let files = match segments(&folder) {
        Ok(files) => files,
        Err(error) => {
            let trouble = format!("{}: cannot be read: {error}", folder.display());
            return figures.troubles.add(trouble);
        }
    };
    let model = models.of(config).unwrap_or_else(|error| {
        figures.troubles.add(error);
        None
    });
    let mut steps: Steps<ScoredTokens> = Steps::of(PACKET);
    let mut all = ScoredTokens::default();
    let last = files.last().cloned();
    let mut step = Step::begin("rating sentences", None);
    for path in files {
        let torn = Some(&path) == last.as_ref();
        let Figures {
            troubles,
            sentences,
            tokens,
            ..
        } = figures;
        let file = match crate::fs::open(&path) {
            Ok(file) => MultiGzDecoder::new(BufReader::new(file)),
            Err(error) => {
                troubles.add(format!("{}: cannot be read: {error}", path.display()));
                continue;
            }
        };
        let (read, end) = outputs::lines(BufReader::new(file), MAX_LINE, |line, n, _| {
            let Some(Ok(line)) = line.map(std::str::from_utf8) else {
                let what = "not a sentence that spoor wrote; left out";
                return troubles.add(format!("{}:{n}: {what}", path.display()));
            };
            // Normalised text is unchanged.
            let sentence = lm::normalise(line);
            *tokens += sentence.len() as u64;
            if let Some((model, _)) = model
                && sentence.len() >= MIN_TOKENS
            {
                let scored = ScoredTokens {
                    sentences: 1,
                    log10: model.lm.score(&sentence).log10,
                    tokens: sentence.len() + 1,
                };
                steps.add(*sentences, scored);
                all += scored;
            }
            *sentences += 1;
            step.reach(*sentences);
        });
        match end {
            // A crawl is appending to it, or was when it was killed.
            Err(error) if torn && error.kind() == ErrorKind::UnexpectedEof => {}
            Err(error) => troubles.add(format!(
                "{}: damaged behind line {read}, and the rest left out: {error}",
                path.display()
            )),
            Ok(()) => {}
        }
    }
    let model = model.filter(|_| all.tokens > 0);
    figures.perplexity = model.map(|of| perplexity(of, &all, &steps, figures.sentences));
}

/// The perplexity of all sentences and of each packet of them.
fn perplexity(
    (model, model_use): (&Model, ModelUse),
    all: &ScoredTokens,
    steps: &Steps<ScoredTokens>,
    sentences: u64,
) -> Perplexity {
    let packet = steps.width();
    let filled = (1..).zip(steps.sums()).filter(|(_, s)| s.tokens > 0);
    let of = |scored: &ScoredTokens| lm::perplexity::perplexity(scored.log10, scored.tokens);
    Perplexity {
        model: model.folder.clone(),
        model_use,
        all: of(all),
        packet,
        packets: filled
            .map(|(n, scored)| Packet {
                sentences: (packet * n).min(sentences),
                tokens: scored.tokens,
                perplexity: of(scored),
            })
            .collect(),
    }
}

/// The files of sentences in order; empty if there is no folder.
fn segments(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = if_there(std::fs::read_dir(folder))?;
    let mut files = Vec::new();
    for entry in entries.into_iter().flatten() {
        let path = entry?.path();
        if path.to_string_lossy().ends_with(".txt.gz") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
