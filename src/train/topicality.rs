//! From the contrast of documents of either kind to how far any document is on topic.
//!
//! The words of a document must not have been counted where it is measured, nor its
//! sentences trained on. So of the documents about the topic only what was held out is
//! measured, with the words of all else, and the neutral ones are parted into folds, each
//! measured with the words of the others.

use std::collections::HashSet;

use super::corpus::Document;
use crate::lm::{LanguageModel, Sentence, perplexity};
use crate::score::{Contrast, Counts, Topicality};

/// Parts that each are measured with the words of the others.
const FOLDS: usize = 4;
/// Tokens of the shortest document that is measured.
const MIN_TOKENS: usize = 30;

/// The words of all documents, and where the two kinds of documents lie.
pub(super) struct Measured {
    pub counts: Counts,
    /// `None` where there are too few documents, or no neutral ones.
    pub topicality: Option<Topicality>,
}

/// Measures a fresh model by the texts that people gave; `held_out` is what it was not
/// trained on of each document.
pub(super) fn measure(
    lm: &dyn LanguageModel,
    positive: &[Document],
    neutral: &[Document],
    held_out: &[Vec<&Sentence>],
) -> Measured {
    let unseen: HashSet<&str> = held_out.iter().flatten().map(|s| s.as_str()).collect();
    let (mut topic, mut other) = (Vec::new(), Vec::new());
    for fold in 0..FOLDS {
        let mut counts = Counts::default();
        for document in positive {
            let seen = document.as_ref().iter();
            counts.add_positive(seen.filter(|s| !unseen.contains(s.as_str())));
        }
        for (_, document) in neutral
            .iter()
            .enumerate()
            .filter(|(i, _)| i % FOLDS != fold)
        {
            counts.add_neutral(document.as_ref());
        }
        let Some(contrast) = Contrast::new(&counts) else {
            continue;
        };
        let measure = |sentences: &[Sentence], to: &mut Vec<f64>| {
            if sentences.iter().map(Sentence::len).sum::<usize>() >= MIN_TOKENS {
                let perplexity = perplexity::document(lm, sentences).perplexity;
                to.extend(contrast.document(sentences, perplexity));
            }
        };
        for (_, document) in held_out
            .iter()
            .enumerate()
            .filter(|(i, _)| i % FOLDS == fold)
        {
            let sentences: Vec<Sentence> = document.iter().map(|s| (*s).clone()).collect();
            measure(&sentences, &mut topic);
        }
        for (_, document) in neutral
            .iter()
            .enumerate()
            .filter(|(i, _)| i % FOLDS == fold)
        {
            measure(document.as_ref(), &mut other);
        }
    }
    let mut counts = Counts::default();
    for document in positive {
        counts.add_positive(document.as_ref());
    }
    for document in neutral {
        counts.add_neutral(document.as_ref());
    }
    Measured {
        counts,
        topicality: Topicality::between(&topic, &other),
    }
}
