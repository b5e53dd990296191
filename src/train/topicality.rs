//! From the contrast of documents of either kind to how far any document is on topic.
//!
//! The words of a document must not have been counted where it is measured, nor its
//! sentences trained on. So the documents are parted into folds, each measured with the
//! words of all others, and of those about the topic only sentences that were held out.

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

/// Measures a fresh model; `held_out` are the sentences it was not trained on.
pub(super) fn measure(
    lm: &dyn LanguageModel,
    positive: &[Document],
    neutral: &[Document],
    held_out: &[&Sentence],
) -> Measured {
    let held_out: HashSet<&str> = held_out.iter().map(|s| s.as_str()).collect();
    let of_topic: Vec<Vec<Sentence>> = positive
        .iter()
        .map(|document| {
            let sentences = document.as_ref().iter();
            let unseen = sentences.filter(|s| held_out.contains(s.as_str()));
            unseen.cloned().collect()
        })
        .collect();
    let (mut topic, mut other) = (Vec::new(), Vec::new());
    for fold in 0..FOLDS {
        let within = |i: usize| i % FOLDS == fold;
        let Some(contrast) = Contrast::new(&counts(positive, neutral, |i| !within(i))) else {
            continue;
        };
        let measure = |sentences: &[Sentence], to: &mut Vec<f64>| {
            if sentences.iter().map(Sentence::len).sum::<usize>() >= MIN_TOKENS {
                let perplexity = perplexity::document(lm, sentences).perplexity;
                to.extend(contrast.document(sentences, perplexity));
            }
        };
        for (_, sentences) in of_topic.iter().enumerate().filter(|(i, _)| within(*i)) {
            measure(sentences, &mut topic);
        }
        for (_, document) in neutral.iter().enumerate().filter(|(i, _)| within(*i)) {
            measure(document.as_ref(), &mut other);
        }
    }
    Measured {
        counts: counts(positive, neutral, |_| true),
        topicality: Topicality::between(&topic, &other),
    }
}

/// The words of the documents whose numbers `take` takes.
fn counts(positive: &[Document], neutral: &[Document], take: impl Fn(usize) -> bool) -> Counts {
    let mut counts = Counts::default();
    let taken = |documents: &'_ [Document], add: &mut dyn FnMut(&[Sentence])| {
        for (_, document) in documents.iter().enumerate().filter(|(i, _)| take(*i)) {
            add(document.as_ref());
        }
    };
    taken(positive, &mut |sentences| counts.add_positive(sentences));
    taken(neutral, &mut |sentences| counts.add_neutral(sentences));
    counts
}
