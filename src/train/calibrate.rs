//! Bucket boundaries from what the model itself measures.
//!
//! A perplexity means nothing by itself: it grows with the vocabulary and
//! shrinks with the corpus. What can be compared is where, on this model's own
//! scale, the topic lies (sentences held out from training) and where everything
//! else does (the neutral documents).

use crate::lm::{LanguageModel, Sentence, perplexity};
use crate::score::Boundaries;

/// Perplexities measured after training, and what follows.
#[derive(Debug, Clone)]
pub(super) struct Measured {
    /// Over all held-out sentences.
    pub held_out: f64,
    /// Median over the neutral documents.
    pub neutral: Option<f64>,
    pub boundaries: Boundaries,
}

/// Distance between the thesis's boundaries, 600 : 2,000 : 10,000 : 30,000, for
/// a model without neutral text to measure the far end by.
const THESIS_STEPS: [f64; 3] = [2_000.0 / 600.0, 10_000.0 / 600.0, 30_000.0 / 600.0];

/// Measures a fresh model.
pub(super) fn measure<D: AsRef<[Sentence]>>(
    lm: &dyn LanguageModel,
    held_out: &[&Sentence],
    neutral: &[D],
) -> Measured {
    let held: Vec<Sentence> = held_out.iter().map(|s| (*s).clone()).collect();
    let held = perplexity::document(lm, &held).perplexity;
    let mut documents: Vec<f64> = neutral
        .iter()
        .map(|d| perplexity::document(lm, d.as_ref()).perplexity)
        .collect();
    documents.sort_by(f64::total_cmp);
    let neutral = quantile(&documents, 0.5);
    let far = quantile(&documents, 0.95);
    Measured {
        held_out: held,
        neutral,
        boundaries: propose(held, neutral.zip(far)),
    }
}

/// `high` is the topic's own perplexity; `normal` the middle of everything else;
/// `medium` their geometric mean; and the razor lies above nearly all text of the
/// language, three times beyond `normal` at least, as the thesis set it.
fn propose(held_out: f64, neutral: Option<(f64, f64)>) -> Boundaries {
    let high = held_out.max(1.0);
    let (medium, normal, razor) = match neutral {
        Some((middle, far)) => {
            let normal = middle.max(high * 1.1);
            ((high * normal).sqrt(), normal, far.max(normal * 3.0))
        }
        None => {
            let [medium, normal, razor] = THESIS_STEPS.map(|step| high * step);
            (medium, normal, razor)
        }
    };
    let rounded = |x: f64| x.ceil();
    Boundaries {
        high: rounded(high),
        medium: rounded(medium),
        normal: rounded(normal),
        razor: rounded(razor),
    }
}

fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    sorted.get((last as f64 * share).round() as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proposals_ascend_whatever_was_measured() {
        for (held, neutral) in [
            (600.0, None),
            (600.0, Some((10_000.0, 12_000.0))),
            (600.0, Some((100.0, 100.0))),
            (1.0, Some((1.0, 1.0))),
            (0.0, None),
        ] {
            let b = propose(held, neutral);
            assert!(b.validate().is_ok(), "{b:?}");
        }
        let b = propose(600.0, None);
        assert_eq!(
            (b.high, b.medium, b.normal, b.razor),
            (600.0, 2_000.0, 10_000.0, 30_000.0)
        );
        let b = propose(400.0, Some((2_500.0, 9_000.0)));
        assert_eq!(
            (b.high, b.medium, b.normal, b.razor),
            (400.0, 1_000.0, 2_500.0, 9_000.0)
        );
    }

    #[test]
    fn quantiles() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[1.0, 2.0, 9.0], 0.5), Some(2.0));
        assert_eq!(quantile(&[1.0, 2.0, 9.0], 0.95), Some(9.0));
    }
}
