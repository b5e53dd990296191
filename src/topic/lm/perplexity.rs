//! Perplexity: how much a text surprises the model of the topic.
//!
//! Every token counts, including unknown ones, and so does the `</s>` of every sentence.

use std::borrow::Borrow;

use super::kenlm::{LanguageModel, SentenceScore};
use crate::words::{MIN_TOKENS, Sentence};

/// `10^(-log10_sum / n)`, at most the largest finite number.
///
/// `log10_sum` is the sum over `n` scored tokens, including `</s>`; for `n` = 0 the
/// perplexity is undefined, see [`unknown`].
pub fn perplexity(log10_sum: f64, n: usize) -> f64 {
    10_f64.powf(-log10_sum / n as f64).min(f64::MAX)
}

/// The perplexity of a run of unknown words, used for text with nothing to score.
pub fn unknown(lm: &dyn LanguageModel) -> f64 {
    perplexity(lm.unknown_log10(), 1)
}

/// The perplexity of a document with its counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DocumentPerplexity {
    /// Over everything that was scored; [`unknown`] if nothing was.
    pub perplexity: f64,
    /// How many sentences were scored.
    pub sentences: usize,
    /// How many tokens these have, excluding `</s>`.
    pub tokens: usize,
    /// How many of the tokens the model does not know.
    pub unknown: usize,
}

/// The perplexity over all sentences of at least [`MIN_TOKENS`] tokens together.
pub fn document<S: Borrow<Sentence>>(
    lm: &dyn LanguageModel,
    sentences: &[S],
) -> DocumentPerplexity {
    let sentences = sentences.iter().map(Borrow::borrow);
    let sentences = sentences.filter(|s: &&Sentence| s.len() >= MIN_TOKENS);
    of_sentences(lm, sentences.map(|s| (s.len(), lm.score(s))))
}

/// The joint perplexity of sentences with these lengths and scores.
pub fn of_sentences(
    lm: &dyn LanguageModel,
    sentences: impl Iterator<Item = (usize, SentenceScore)>,
) -> DocumentPerplexity {
    let mut log10 = 0.0;
    let mut result = DocumentPerplexity {
        perplexity: 0.0,
        sentences: 0,
        tokens: 0,
        unknown: 0,
    };
    for (tokens, score) in sentences {
        log10 += score.log10;
        result.sentences += 1;
        result.tokens += tokens;
        result.unknown += score.unknown;
    }
    result.perplexity = match result.sentences {
        0 => unknown(lm),
        _ => perplexity(log10, result.tokens + result.sentences),
    };
    result
}

/// The perplexity of a short text scored whole as one sentence; [`unknown`] if it has no
/// token.
pub fn text(lm: &dyn LanguageModel, text: &Sentence) -> f64 {
    if text.is_empty() {
        return unknown(lm);
    }
    of_text(lm.score(text), text.len())
}

/// The perplexity of a short text of at least one token with this score.
pub fn of_text(score: SentenceScore, tokens: usize) -> f64 {
    perplexity(score.log10, tokens + 1)
}
