//! The model folder: `lm.arpa`, `lm.binary`, `keywords.tsv`, `stopwords.tsv`, `words.tsv`,
//! `passages.tsv`, `model.toml`.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::keywords::{KeywordError, KeywordTable, Stopword, save_stopwords};
use super::lm::{Discount, KenLm, LanguageModel, ModelError, binary};
use super::score::contrast::ContrastError;
use super::score::{Calibration, Contrast, CountTable, PassageTable, Passages, Topicality};
use crate::fs::{IoError, atomic};
use crate::language::Language;
use crate::tool_error::ToolCause;

const ARPA: &str = "lm.arpa";
/// The same in KenLM's binary form, built from the ARPA file if missing.
const BINARY: &str = "lm.binary";
const KEYWORDS: &str = "keywords.tsv";
const STOPWORDS: &str = "stopwords.tsv";
/// The number of occurrences of each word in the texts of either kind.
const WORDS: &str = "words.tsv";
/// The passages of the texts of either kind; absent if neutral text is known only by its words, and
/// in models of earlier versions.
const PASSAGES: &str = "passages.tsv";
const FACTS: &str = "model.toml";

/// Version of the folder's layout.
pub const VERSION: u32 = 1;

/// Why a model's folder cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The folder or one of its files cannot be read or written.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The language model cannot be loaded.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The keyword table cannot be written or read.
    #[error(transparent)]
    Keywords(#[from] KeywordError),
    /// The table of words cannot be written or read.
    #[error(transparent)]
    Words(#[from] ContrastError),
    /// `model.toml` is not in the form that spoor writes.
    #[error("{}: {why}; train the model again", path.display())]
    Facts {
        /// The file.
        path: PathBuf,
        /// The problem.
        why: String,
    },
}

impl ToolCause for FolderError {}

/// How a model was grown from the pages of a crawl, as recorded in `model.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Grown {
    /// The job whose pages were added.
    pub job: String,
    /// The model that chose them.
    pub from: String,
    /// Pages of the crawl whose sentences were kept, near copies left out.
    pub pages: usize,
    /// Pages with enough sentences to be judged.
    pub judged: usize,
    /// The perplexity up to which a page is among the best.
    pub cut: f64,
    /// Number of pages among the best.
    pub passed: usize,
    /// Number of pages added, best first, until the share was full.
    pub added: usize,
    /// The highest perplexity among them.
    pub reached: f64,
    /// Sentences that were added.
    pub sentences: usize,
    /// Their tokens.
    pub tokens: usize,
    /// Their share of all training sentences.
    pub share: f64,
    /// Perplexity of the held-out text of the given kind under the old model.
    pub held_out_before: f64,
    /// The same under the new one.
    pub held_out_after: f64,
    /// Whether the old model was also trained without any of that text: it was made from the same
    /// texts in the same way.
    pub comparable: bool,
}

/// The contents of `model.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelFacts {
    /// Version of the layout.
    pub version: u32,
    /// The order of the language model.
    pub order: usize,
    /// SHA-256 over all sentences of the corpus, neutral text included.
    pub corpus_sha256: String,
    /// The language of the texts about the topic, if it is certain; absent from models made before
    /// the language was detected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    /// Documents about the topic.
    pub positive_documents: usize,
    /// Documents about anything else.
    pub neutral_documents: usize,
    /// The language of the built-in words that were used instead of neutral documents, if
    /// any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neutral_words: Option<Language>,
    /// Sentences the model was estimated from.
    pub training_sentences: usize,
    /// Their tokens.
    pub training_tokens: usize,
    /// Documents that were held out as a whole; `None` if there were too few, and sentences of all
    /// of them were held out instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_out_documents: Option<usize>,
    /// Sentences that were held out.
    pub held_out_sentences: usize,
    /// Perplexity over the held-out sentences.
    pub held_out_perplexity: f64,
    /// Median perplexity of the neutral documents.
    pub neutral_perplexity: Option<f64>,
    /// Seed of the random choice of held-out text.
    pub seed: u64,
    /// Number of n-grams of every order, unigrams first.
    pub ngrams: Vec<usize>,
    /// Rows of the keyword table.
    pub keywords: usize,
    /// How the model was grown, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grown: Option<Grown>,
    /// The boundary between documents about the topic and neutral ones by their
    /// contrasts, in nats per token; `None` if there were too few neutral documents to
    /// measure it.
    #[serde(default, rename = "contrast")]
    pub topicality: Option<Topicality>,
    /// The meaning of its perplexities, and the measurements behind it.
    pub calibration: Calibration,
    /// Kneser-Ney discounts of every order, unigrams first.
    pub discounts: Vec<Discount>,
}

impl ModelFacts {
    /// Reads `model.toml` in a model's folder alone.
    ///
    /// # Errors
    /// [`FolderError`] names the file.
    pub fn read(folder: &Path) -> Result<Self, FolderError> {
        let path = folder.join(FACTS);
        let text = crate::fs::read_to_string(&path).map_err(IoError::at(&path, "reading"))?;
        let wrong = |why: String| FolderError::Facts {
            path: path.clone(),
            why,
        };
        let facts: Self = toml::from_str(&text).map_err(|e| wrong(e.to_string()))?;
        if facts.version != VERSION {
            return Err(wrong(format!(
                "it has version {}, this spoor reads version {VERSION}",
                facts.version
            )));
        }
        facts
            .calibration
            .validate()
            .map_err(|e| wrong(e.to_string()))?;
        if let Some(key) = facts.topicality.and_then(|curve| curve.unusable()) {
            return Err(wrong(format!("`contrast.{key}` has an impossible value")));
        }
        Ok(facts)
    }
}

/// A trained model, loaded.
#[derive(Clone)]
pub struct Model {
    /// Its folder.
    pub folder: PathBuf,
    /// The contents of its `model.toml`.
    pub facts: ModelFacts,
    /// The language model.
    pub lm: Arc<dyn LanguageModel>,
    /// The keyword table.
    pub keywords: KeywordTable,
    /// The contrast of its words with those of other texts, and the curve from a contrast
    /// to a probability; `None` if training could not measure it.
    pub contrast: Option<(Arc<Contrast>, Topicality)>,
}

impl Model {
    /// Whether there is a model in `folder`.
    pub fn exists(folder: &Path) -> bool {
        folder.join(FACTS).is_file()
    }

    /// The SHA-256 of the files of the model in `folder`: the same on two machines if they have
    /// the same model.
    ///
    /// # Errors
    /// [`IoError`] if a file cannot be read.
    pub fn sha256(folder: &Path) -> Result<String, IoError> {
        let mut digest = Sha256::new();
        // The binary file is built from the ARPA file.
        for name in [ARPA, KEYWORDS, STOPWORDS, WORDS, PASSAGES, FACTS] {
            let path = folder.join(name);
            let mut file = match crate::fs::open(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                file => file.map_err(IoError::at(&path, "opening"))?,
            };
            let mut own = Sha256::new();
            let mut part = vec![0; 1 << 16];
            loop {
                let read = file.read(&mut part);
                match read.map_err(IoError::at(&path, "reading"))? {
                    0 => break,
                    read => own.update(part.get(..read).unwrap_or_default()),
                }
            }
            digest.update(name);
            digest.update(own.finalize());
        }
        Ok(base16ct::lower::encode_string(&digest.finalize()))
    }

    /// Loads the model in `folder`.
    ///
    /// # Errors
    /// [`FolderError`] names the file that is missing or broken.
    pub fn load(folder: &Path) -> Result<Self, FolderError> {
        let facts = ModelFacts::read(folder)?;
        let wrong = |why: String| FolderError::Facts {
            path: folder.join(FACTS),
            why,
        };
        let order = u8::try_from(facts.order).map_err(|e| wrong(e.to_string()))?;
        let lm: Arc<dyn LanguageModel> = Arc::new(load_lm(folder)?.of_order(order)?);
        let contrast = match facts.topicality {
            Some(topicality) => {
                let contrast = Contrast::new(&CountTable::load(&folder.join(WORDS))?);
                let passages = PassageTable::load(&folder.join(PASSAGES))?;
                let passages = Passages::new(&passages);
                let complete =
                    |contrast: Contrast| contrast.with_passages(passages).with_model(&lm);
                contrast.map(|contrast| (Arc::new(complete(contrast)), topicality))
            }
            None => None,
        };
        Ok(Self {
            folder: folder.to_owned(),
            facts,
            lm,
            keywords: keywords_in(folder)?,
            contrast,
        })
    }
}

fn load_lm(folder: &Path) -> Result<KenLm, ModelError> {
    binary::load(&folder.join(ARPA), &folder.join(BINARY))
}

/// Reads the keyword table in a model's folder, which the operator may have edited.
///
/// # Errors
/// [`FolderError::Keywords`] names the file and the line.
pub fn keywords_in(folder: &Path) -> Result<KeywordTable, FolderError> {
    Ok(KeywordTable::load(&folder.join(KEYWORDS))?)
}

/// An unfinished model folder, beside its final place.
pub struct Draft {
    draft: PathBuf,
    place: PathBuf,
}

impl Draft {
    /// Begins a folder beside `place`.
    pub fn begin(place: &Path) -> Result<Self, FolderError> {
        let mut name = std::ffi::OsString::from(".");
        name.push(place.file_name().unwrap_or_default());
        name.push(".part");
        let draft = place.with_file_name(name);
        remove(&draft)?;
        std::fs::create_dir_all(&draft).map_err(IoError::at(&draft, "making the folder"))?;
        Ok(Self {
            draft,
            place: place.to_owned(),
        })
    }

    /// The path for writing the language model.
    pub fn arpa(&self) -> PathBuf {
        self.draft.join(ARPA)
    }

    /// Loads the language model that was written, and writes its binary form.
    pub fn load_lm(&self) -> Result<KenLm, FolderError> {
        Ok(load_lm(&self.draft)?)
    }

    /// Writes the counts of the words, the passages, the keyword table and the stopwords.
    pub fn save_tables(
        &self,
        counts: &CountTable,
        passages: Option<&PassageTable>,
        keywords: &KeywordTable,
        stopwords: &[Stopword],
    ) -> Result<(), FolderError> {
        counts.save(&self.draft.join(WORDS))?;
        if let Some(passages) = passages {
            passages.save(&self.draft.join(PASSAGES))?;
        }
        keywords.save(&self.draft.join(KEYWORDS))?;
        save_stopwords(stopwords, &self.draft.join(STOPWORDS))?;
        Ok(())
    }

    /// Writes `model.toml` and moves the folder to its place. An earlier model is moved
    /// aside first and removed afterwards, so that there is always a model except between
    /// two renames.
    pub fn finish(self, facts: &ModelFacts) -> Result<(), FolderError> {
        let path = self.draft.join(FACTS);
        let text = toml::to_string(facts).map_err(|e| FolderError::Facts {
            path: path.clone(),
            why: e.to_string(),
        })?;
        let text = format!(
            "# Written by `spoor train`; do not edit.\n{}",
            explained(&text)
        );
        atomic::write(&path, |out| out.write_all(text.as_bytes()))
            .map_err(IoError::at(&path, "writing"))?;
        let mut name = self.draft.file_name().unwrap_or_default().to_owned();
        name.push(".old");
        let old = self.draft.with_file_name(name);
        remove(&old)?;
        atomic::replace_folder(&self.draft, &self.place, &old)?;
        remove(&old)
    }
}

/// `model.toml` with an explanation above each table of the calibration.
fn explained(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2_000);
    for line in text.lines() {
        let about = TABLES.iter().find(|(table, _)| *table == line);
        for comment in about.into_iter().flat_map(|(_, about)| about.lines()) {
            out.push_str("# ");
            out.push_str(comment);
            out.push('\n');
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}

/// The tables of the calibration and their explanations.
const TABLES: &[(&str, &str)] = &[
    (
        "[calibration]",
        "What perplexities of this model mean, as it measured them itself.
anchor_threshold: the cut of the short texts below.",
    ),
    (
        "[calibration.boundaries]",
        "high: the median of held-out text; medium: the cut of the documents below;
normal: the median of neutral documents, and above medium; razor: their 95 %
quantile, and at least three times normal.",
    ),
    (
        "[calibration.on_topic]",
        "How likely a document of perplexity p is on topic, where both kinds are as
frequent: 1 / (1 + e^((ln p - ln midpoint) / width)).",
    ),
    (
        "[calibration.documents]",
        "Perplexities of documents: held-out text in pieces as long as the median neutral
document, and the neutral documents. cut: where the share of positive ones up to
it exceeds that of neutral ones most (Youden's J); missed: the share of positive
ones above it; mistaken: the share of neutral ones up to it.",
    ),
    (
        "[calibration.short_texts]",
        "The same of runs of 1 to 5 words, as long as anchors are.",
    ),
];

fn remove(folder: &Path) -> Result<(), FolderError> {
    match std::fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(IoError::at(folder, "removing")(e).into())
        }
        _ => Ok(()),
    }
}
