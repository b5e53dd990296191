//! From the contrasts of positive and neutral documents to the topicality of any
//! document.
//!
//! A document is only measured with word counts that exclude it and a model that was not
//! trained on its sentences. So from the documents about the topic only held-out
//! sentences are measured, with the words of everything else. The neutral documents are
//! divided into folds, each measured with the words of the others.

use std::collections::HashSet;

use super::calibrate::{PIECE, pieces};
use super::corpus::Document;
use super::neutral::Neutral;
use super::split::Split;
use crate::topic::lm::{LanguageModel, Sentence, perplexity};
use crate::topic::score::contrast::{Adopted, Measured as Contrasts};
use crate::topic::score::topicality::Lump;
use crate::topic::score::{Contrast, CountTable, PassageTable, Passages, Topicality};

/// Number of folds.
const FOLDS: usize = 4;
/// Tokens of the shortest document that is measured.
const MIN_TOKENS: usize = 30;

/// The minimum number of documents about the topic that are measured whole.
const WHOLE: usize = 5;

/// Sentences about the topic, without those held out, below which a judge only guesses.
/// The contrast of texts that are compared with few others is higher than that of any
/// page of a crawl. On the lab, judges of 31 to 650 sentences took the topic's own pages
/// for something else in 63 of 64 cases; with 829 and more they did not.
pub(super) const ENOUGH: usize = 700;

/// The words of all documents, and the measurements of both kinds.
pub(super) struct Measured {
    pub counts: CountTable,
    /// Their passages; `None` if neutral text is known only by its words.
    pub passages: Option<PassageTable>,
    /// `None` if there are too few neutral documents.
    pub topicality: Option<Topicality>,
}

/// Measures the given texts; `split` separates the sentences that the model was trained
/// on from the others.
pub(super) fn measure(
    lm: &dyn LanguageModel,
    positive: &[Document],
    neutral: &Neutral,
    split: &Split<'_>,
) -> Measured {
    let unseen: HashSet<&str> = split.held_out().map(Sentence::as_str).collect();
    let seen = |sentence: &Sentence| !unseen.contains(sentence.as_str());
    let (topic, other) = in_folds(lm, positive, neutral, split, &seen);
    let sentences = || positive.iter().flat_map(|document| document.as_ref());
    let trained = sentences().filter(|s| seen(s)).count();
    let tokens: usize = sentences().map(Sentence::len).sum();
    let whole = split.whole && topic.len() >= WHOLE;
    let between = Topicality::between(&counting(&topic), &counting(&other));
    let curve = between
        .map(|curve| Topicality {
            few: trained < ENOUGH || !whole,
            ..curve
        })
        .or_else(|| Topicality::above(&counting(&other)));
    Measured {
        counts: count(positive, neutral, |_| true, |_| true),
        passages: passages(positive, neutral, |_| true, |_| true),
        topicality: curve.map(|curve| Topicality {
            neutral: Lump::of(&neutral.as_written(of_words(&other), tokens as u64)),
            topic: Lump::of(&of_words(&topic)).filter(|_| whole),
            by_model: by_model(&other).zip(by_model(&topic)).filter(|_| whole),
            of_passages: Lump::of(&of_passages(&other)),
            ..curve
        }),
    }
}

/// The contrasts of the held-out text about the topic and of the neutral documents, each
/// with the words of other documents. `seen` marks the sentences that the model was
/// trained on.
fn in_folds(
    lm: &dyn LanguageModel,
    positive: &[Document],
    neutral: &Neutral,
    split: &Split<'_>,
    seen: &impl Fn(&Sentence) -> bool,
) -> (Vec<Contrasts>, Vec<Contrasts>) {
    let easier = neutral.easier();
    // A few pages are few documents, but their pieces are enough to measure the scatter.
    let held_out = &split.held_out;
    let held_out: Vec<&[&Sentence]> = if held_out.len() < WHOLE {
        held_out.iter().flat_map(|d| pieces(d, PIECE)).collect()
    } else {
        held_out.iter().map(Vec::as_slice).collect()
    };
    let (mut topic, mut other) = (Vec::new(), Vec::new());
    for fold in 0..FOLDS {
        let counts = count(positive, neutral, seen, |i| i % FOLDS != fold);
        let Some(contrast) = Contrast::new(&counts) else {
            continue;
        };
        let passages = passages(positive, neutral, seen, |i| i % FOLDS != fold);
        let contrast = contrast.with_passages(passages.and_then(|table| Passages::new(&table)));
        let measure = |sentences: &[Sentence], easier: f64, passages: Option<&Passages>| {
            let tokens: usize = sentences.iter().map(Sentence::len).sum();
            let measured = (tokens >= MIN_TOKENS).then(|| {
                let perplexity = perplexity::document(lm, sentences).perplexity * easier;
                contrast.document(sentences, perplexity, &Adopted::default(), passages)
            });
            measured.flatten()
        };
        let held_out = held_out.iter().enumerate();
        for (_, document) in held_out.filter(|(i, _)| i % FOLDS == fold) {
            let sentences: Vec<Sentence> = document.iter().map(|s| (*s).clone()).collect();
            // How near topic documents are to passages is not used.
            topic.extend(measure(&sentences, 1.0, None));
        }
        let others = neutral.documents().iter().zip(&easier).enumerate();
        for (_, (document, easier)) in others.filter(|(i, _)| i % FOLDS == fold) {
            other.extend(measure(document.as_ref(), *easier, contrast.passages()));
        }
    }
    (topic, other)
}

fn counting(all: &[Contrasts]) -> Vec<f64> {
    all.iter().map(|c| c.counting).collect()
}

fn of_words(all: &[Contrasts]) -> Vec<f64> {
    all.iter().map(|c| c.of_words).collect()
}

fn of_passages(all: &[Contrasts]) -> Vec<f64> {
    all.iter().filter_map(|c| c.of_passages).collect()
}

/// The mean contrast by the language model; `None` if there are too few documents.
fn by_model(all: &[Contrasts]) -> Option<f64> {
    let all: Vec<f64> = all.iter().map(|c| c.by_model).collect();
    Lump::of(&all).map(|lump| lump.mean)
}

/// Counts the words of the sentences that `takes` accepts and of the neutral documents
/// whose number `counts_in` accepts.
fn count(
    positive: &[Document],
    neutral: &Neutral,
    takes: impl Fn(&Sentence) -> bool,
    counts_in: impl Fn(usize) -> bool,
) -> CountTable {
    let mut counts = CountTable::default();
    for document in positive {
        counts.add_positive(document.as_ref().iter().filter(|s| takes(s)));
    }
    add_neutral(&mut counts, neutral, counts_in);
    counts
}

/// The passages of the sentences that `takes` accepts and of the neutral documents whose number
/// `counts_in` accepts; `None` if neutral text is known only by its words.
fn passages(
    positive: &[Document],
    neutral: &Neutral,
    takes: impl Fn(&Sentence) -> bool,
    counts_in: impl Fn(usize) -> bool,
) -> Option<PassageTable> {
    if neutral.words().is_some() {
        return None;
    }
    let mut table = PassageTable::default();
    for document in positive {
        table.add_positive(document.as_ref().iter().filter(|s| takes(s)));
    }
    let documents = neutral.documents().iter().enumerate();
    for (_, document) in documents.filter(|(i, _)| counts_in(*i)) {
        table.add_neutral(document.as_ref());
    }
    Some(table.bounded())
}

/// Adds the neutral words: the built-in ones, or those of the documents whose number
/// `counts_in` accepts.
fn add_neutral(counts: &mut CountTable, neutral: &Neutral, counts_in: impl Fn(usize) -> bool) {
    match neutral.words() {
        Some(words) => counts.add_neutral_words(words.counts()),
        None => {
            let documents = neutral.documents().iter().enumerate();
            for (_, document) in documents.filter(|(i, _)| counts_in(*i)) {
                counts.add_neutral(document.as_ref());
            }
        }
    }
}
