//! Measures perplexity under a topic's model or by the words of the language, and filters by it.

use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;

use super::super::document::{Document, paragraphs};
use super::super::plan::Perplexity;
use super::{DocumentStep, Trace, Value, rounded};
use crate::language::Language;
use crate::tool_error::ToolError;
use crate::topic::lm::{Sentence, perplexity, sentences};
use crate::topic::model::Model;
use crate::topic::neutral::Words;
use crate::topic::score::Adopted;

/// Measures perplexity.
pub(super) struct Meter {
    step: Perplexity,
    by: By,
}

enum By {
    Topic(Box<Model>),
    Neutral(Mutex<FxHashMap<String, Option<Arc<Words>>>>),
}

impl Meter {
    pub(super) fn load(step: &Perplexity) -> Result<Self, ToolError> {
        let by = if step.is_neutral() {
            By::Neutral(Mutex::default())
        } else {
            By::Topic(Box::new(Model::load(&step.model)?))
        };
        Ok(Self {
            step: step.clone(),
            by,
        })
    }

    /// The perplexity of a document; `None` if there is no sentence to score, or no table for
    /// its language.
    fn measure(&self, document: &mut Document) -> Option<f64> {
        let sentences = sentences(paragraphs(&document.text));
        match &self.by {
            By::Topic(model) => {
                let measured = perplexity::document(&*model.lm, &sentences);
                let value = (measured.sentences > 0).then(|| rounded(measured.perplexity));
                document.perplexity = value;
                document.contrast = model.contrast.as_ref().and_then(|(contrast, _)| {
                    let none = Adopted::default();
                    let measured =
                        contrast.document(&sentences, measured.perplexity, &none, None)?;
                    Some(rounded(measured.of_words))
                });
                value
            }
            By::Neutral(tables) => {
                let code = document.language.as_deref()?;
                let words = table(tables, code)?;
                let value = of_words(&words, &sentences).map(rounded);
                document.perplexity_neutral = value;
                value
            }
        }
    }
}

/// The table of a language, decompressed once.
fn table(tables: &Mutex<FxHashMap<String, Option<Arc<Words>>>>, code: &str) -> Option<Arc<Words>> {
    let mut tables = tables.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = tables.get(code) {
        return known.clone();
    }
    let words = Language::of_code(code)
        .ok()
        .and_then(Words::of)
        .map(Arc::new);
    tables.insert(code.to_owned(), words.clone());
    words
}

/// The perplexity by single words: `exp` of the mean of their negative log shares. A word
/// that is not in the table counts as half as frequent as the rarest one.
fn of_words(words: &Words, sentences: &[Sentence]) -> Option<f64> {
    let unknown = words.least_share() / 2.0;
    let (mut sum, mut tokens) = (0.0, 0_u64);
    for token in sentences.iter().flat_map(Sentence::tokens) {
        sum -= words.share(token).unwrap_or(unknown).ln();
        tokens += 1;
    }
    (tokens > 0).then(|| (sum / tokens as f64).exp())
}

impl DocumentStep for Meter {
    fn apply(&self, document: &mut Document, trace: &mut Trace) {
        let value = self.measure(document);
        let Perplexity { least, most, .. } = self.step;
        let name = if self.step.is_neutral() {
            "perplexity_neutral"
        } else {
            "perplexity"
        };
        let stays = value.is_none_or(|value| {
            least.is_none_or(|least| value >= least) && most.is_none_or(|most| value <= most)
        });
        let bound = || match (least, most) {
            (None, None) => "any".to_owned(),
            (Some(least), None) => format!("at least {least}"),
            (None, Some(most)) => format!("at most {most}"),
            (Some(least), Some(most)) => format!("{least} to {most}"),
        };
        trace.note(name, Value::number(value), bound, stays);
    }

    fn is_half(&self) -> bool {
        self.step.buckets.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_english_is_less_surprising_than_other_text() {
        let step = Perplexity {
            model: "neutral".into(),
            most: Some(3_000.0),
            ..Perplexity::default()
        };
        let meter = Meter::load(&step).unwrap();
        let measured = |language: Option<&str>, text: &str| {
            let mut document = Document {
                text: text.to_owned(),
                language: language.map(str::to_owned),
                ..Document::default()
            };
            let mut trace = Trace::default();
            meter.apply(&mut document, &mut trace);
            (document.perplexity_neutral, trace.broken().is_some())
        };
        let (plain, goes) = measured(
            Some("en"),
            "This is the house that he had been looking for.",
        );
        assert!(plain.unwrap() < 1_000.0 && !goes, "{plain:?}");
        let (odd, goes) = measured(Some("en"), "Zxq qwrt plmk vbnn ghjk.");
        assert!(odd.unwrap() > 100_000.0 && goes, "{odd:?}");
        assert_eq!(measured(None, "This is a house."), (None, false));
        assert_eq!(measured(Some("am"), "This is a house."), (None, false));
        assert_eq!(measured(Some("en"), "77 88."), (None, false));
    }
}
