//! The neutral side of training: given texts, or the built-in words of the topic's
//! language.
//!
//! The keyword table and the counts of the contrast need only the words. Where whole
//! neutral texts are measured, documents are drawn from the words one by one. Such
//! documents have a higher perplexity under any model than written texts, whose words
//! follow one another, and they are more alike. Both effects were measured, and are
//! corrected ([`EASIER`], [`SPREAD`], [`Neutral::as_written`]).

use super::corpus::Document;
use crate::language::{self, Language};
use crate::topic::keywords::{self, KeywordTable, Stopword};
use crate::topic::neutral::Words;
use crate::topic::score::topicality::Lump;

/// Number of documents drawn from words, and the tokens of each.
const DRAWN: usize = 400;
const DRAWN_TOKENS: usize = 260;

/// The ratio of the median written document's perplexity to that of the median drawn one:
/// 0.62 to 0.83, for models of four topics from much text, from five pages and from one
/// page.
const EASIER: f64 = 0.73;

/// How much more the perplexities of written documents vary, on a logistic curve of ln
/// perplexity, measured with the same models.
const SPREAD: f64 = 0.24;

/// The ratio of the scatter of contrasts of written documents to that of drawn ones, by
/// the number of tokens about the topic: 1.7 for 217 tokens, 2.9 for 3,400, 4.4 for
/// 45,000 (four topics of the lab in six sizes, and 2,343 written documents).
fn scatter_of_written(tokens: f64) -> f64 {
    0.645 * tokens.powf(0.18)
}

/// How far their mean is above that of drawn ones, in standard deviations of the drawn ones,
/// measured with the same texts.
fn lift_of_written(tokens: f64) -> f64 {
    (0.463 * tokens.ln() - 2.06).clamp(0.0, 1.75)
}

/// The neutral text or words that a topic is compared with.
pub(super) struct Neutral {
    documents: Vec<Document>,
    words: Option<Words>,
}

impl Neutral {
    /// Given texts; there may be none.
    pub fn of_texts(documents: Vec<Document>) -> Self {
        Self {
            documents,
            words: None,
        }
    }

    /// The built-in words in the language of the texts about the topic.
    ///
    /// # Errors
    /// The language without a table; `None` if the language is uncertain.
    pub fn builtin(positive: &[Document], seed: u64) -> Result<Self, Option<Language>> {
        let sentences = positive.iter().flat_map(AsRef::as_ref);
        let language = language::recognise(sentences.map(|s| s.as_str())).ok_or(None)?;
        let words = Words::of(language).ok_or(Some(language))?;
        let drawn = words.draw(DRAWN, DRAWN_TOKENS, seed);
        Ok(Self {
            documents: drawn.into_iter().map(Document::of_sentences).collect(),
            words: Some(words),
        })
    }

    /// The texts, given or drawn.
    pub fn documents(&self) -> &[Document] {
        &self.documents
    }

    /// The number of given texts.
    pub fn given(&self) -> usize {
        match self.words {
            Some(_) => 0,
            None => self.documents.len(),
        }
    }

    /// The built-in words, if they are used.
    pub fn words(&self) -> Option<&Words> {
        self.words.as_ref()
    }

    /// Factors for the perplexities of its documents, which make them comparable with
    /// those of written documents.
    pub fn easier(&self) -> Vec<f64> {
        let count = self.documents.len();
        let easier = |at: usize| {
            let below = (at as f64 + 0.5) / count as f64;
            EASIER * (below / (1.0 - below)).powf(SPREAD)
        };
        match self.words {
            Some(_) => (0..count).map(easier).collect(),
            None => vec![1.0; count],
        }
    }

    /// The contrasts of its documents, for a topic with this many tokens, corrected to
    /// those of written documents.
    pub fn as_written(&self, contrasts: Vec<f64>, tokens: u64) -> Vec<f64> {
        let (Some(_), Some(drawn)) = (&self.words, Lump::of(&contrasts)) else {
            return contrasts;
        };
        let tokens = (tokens as f64).max(1.0);
        let mean = drawn.mean + lift_of_written(tokens) * drawn.deviation;
        let scatter = scatter_of_written(tokens).max(1.0);
        let written = |contrast: f64| mean + scatter * (contrast - drawn.mean);
        contrasts.into_iter().map(written).collect()
    }

    /// The keyword table of the topic, compared with the neutral side.
    pub fn keywords(&self, positive: &[&Document], size: usize) -> KeywordTable {
        match &self.words {
            Some(words) => {
                let df = |word: &str| words.documents_with(word);
                KeywordTable::train_by(positive, df, words.documents(), size)
            }
            None => KeywordTable::train(positive, &self.documents, size),
        }
    }

    /// The stopword candidates of the topic and the neutral side.
    pub fn stopwords(&self, positive: &[&Document]) -> Vec<Stopword> {
        match &self.words {
            Some(words) => {
                let df = |word: &str| words.documents_with(word);
                keywords::stopwords_by(positive, df, words.documents())
            }
            None => keywords::stopwords(positive, &self.documents),
        }
    }
}
