//! From a measure of documents to how far each is on topic.
//!
//! Training measures documents of both kinds, and the curve lies between them. Where nothing can
//! be measured it follows from neutral documents alone, or from the classes of perplexities.

use serde::{Deserialize, Serialize};

/// From a measure of documents to how far each is on topic: a logistic curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Topicality {
    /// The measure at which a document is as likely on topic as not.
    pub midpoint: f64,
    /// The change of the measure by which the odds change by the factor e; negative
    /// where lower means nearer to the topic.
    pub width: f64,
    /// The measure at which it counts as on topic as likely as not, where that is another
    /// one than `midpoint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<f64>,
    /// Whether the texts about the topic are too few for what it says to be more than a
    /// guess.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub few: bool,
    /// Where neutral documents lie by the contrast of their words
    /// ([`Measured::of_words`](super::contrast::Measured::of_words)); `None` for a measure that is no contrast.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neutral: Option<Lump>,
    /// Where documents about the topic lie that were held out whole; `None` where there were
    /// too few. Sentences that were held out of documents say too much: they speak of what
    /// the rest of their document speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<Lump>,
    /// Where both kinds lie by the language model ([`Measured::by_model`](super::contrast::Measured::by_model)): neutral documents
    /// and those of `topic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_model: Option<(f64, f64)>,
}

/// Where documents of one kind lie on a measure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Lump {
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation, above 0.
    pub deviation: f64,
    /// How many there were.
    pub documents: usize,
}

impl Lump {
    /// Where these measures lie; `None` where they are fewer than four.
    pub fn of(measures: &[f64]) -> Option<Self> {
        let (mean, deviation) = moments(measures);
        (measures.len() >= MIN_DOCUMENTS).then_some(Self {
            mean,
            deviation: deviation.max(1e-6),
            documents: measures.len(),
        })
    }
}

/// Documents of either kind below which no curve is drawn.
const MIN_DOCUMENTS: usize = 4;
/// Where nothing is known of documents about the topic, a document is as likely on topic as
/// not that lies so many standard deviations above the neutral ones, and one deviation
/// changes the odds by the factor e.
pub const ABOVE_NEUTRAL: f64 = 3.0;
/// How sure the curve over perplexities is of the mean document of the topic, as log-odds:
/// 95 %.
pub const SURE: f64 = 2.944;
/// The same of the curve over contrasts: 83 %.
const LIKE: f64 = 1.6;
/// Where pages are counted and the two kinds of texts do not overlap, the midpoint moves half
/// way to a point below the lowest text of the topic: by this share of the way to the
/// highest neutral one.
const BETWEEN: f64 = 1.0 / 3.0;
/// How many times as large the log-odds are by which pages are counted.
const COUNTED: f64 = 2.0;
/// The least distance of its midpoint from the topic's mean, as a share of the way to the
/// neutral texts: a few texts of one hand are more alike than what a crawl will meet.
const LEAST: f64 = 0.15;

impl Topicality {
    /// The curve between two kinds of documents: its midpoint is as many standard
    /// deviations below the mean of the topic's as above that of the neutral ones, but
    /// not more than one or 15 % of the way to these, and the mean document of the topic is
    /// on it with 83 %. `None` where there are too few, or the two cannot be told apart.
    ///
    /// Not more than one, as what a crawl meets beside the topic is not neutral: it is
    /// what the pages of the topic link to, and nearer to it than any sample of the
    /// language at large.
    pub fn between(positive: &[f64], neutral: &[f64]) -> Option<Self> {
        if positive.len().min(neutral.len()) < MIN_DOCUMENTS {
            return None;
        }
        let ((p, p_deviation), (n, n_deviation)) = (moments(positive), moments(neutral));
        let deviations = (p_deviation + n_deviation).max(1e-9);
        let between = (p - n) * p_deviation / deviations;
        let below = between.min(p_deviation.max(LEAST * (p - n)));
        let midpoint = p - below;
        let width = below / LIKE;
        // Where no text of either kind comes near the other, they are few and alike, and how
        // much they vary says little of what a crawl will meet. Any cut between them fits
        // then; what a crawl meets beside the topic is nearer to it than neutral text is.
        let lowest = positive.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = neutral.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let between = lowest - (lowest - highest) * BETWEEN;
        let apart = lowest > highest && between < midpoint;
        let counted = apart.then_some(f64::midpoint(midpoint, between));
        (width > 1e-6).then_some(Self {
            midpoint,
            width,
            counted,
            few: false,
            neutral: None,
            topic: None,
            by_model: None,
        })
    }

    /// The curve where no document about the topic could be measured: what lies far above
    /// the neutral ones is on topic. It is a guess. `None` where these are too few.
    pub fn above(neutral: &[f64]) -> Option<Self> {
        let neutral = Lump::of(neutral)?;
        Some(Self {
            midpoint: neutral.mean + ABOVE_NEUTRAL * neutral.deviation,
            width: neutral.deviation,
            counted: None,
            few: true,
            neutral: None,
            topic: None,
            by_model: None,
        })
    }

    /// The curve over ln perplexity, where nothing better is known than the boundaries
    /// of the classes `high` and `medium`.
    pub fn of_perplexities(high: f64, medium: f64) -> Self {
        let midpoint = medium.max(1.0).ln();
        Self {
            midpoint,
            width: -((midpoint - high.max(1.0).ln()) / SURE).max(0.05),
            counted: None,
            few: false,
            neutral: None,
            topic: None,
            by_model: None,
        }
    }

    /// How far a document of this measure is on topic, 0 to 1.
    pub fn of(&self, measure: f64) -> f64 {
        logistic((measure - self.midpoint) / self.width)
    }

    /// How likely a document of this contrast is on topic, for counting: as [`Topicality::of`]
    /// with odds squared. A crawl learns best by a curve that keeps some doubt of every page,
    /// and the mean page of the topic is on that with 83 %; a sum over it would miss one page
    /// in five. So the mean page counts with 96 %, which fits what is true of whole crawls.
    pub fn counted(&self, contrast: f64) -> f64 {
        let midpoint = self.counted.unwrap_or(self.midpoint);
        logistic(COUNTED * (contrast - midpoint) / self.width)
    }
}

/// `1 / (1 + exp(-x))`.
pub fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Mean and standard deviation.
pub(super) fn moments(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
    (mean, variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_lies_between_the_two_kinds() {
        let positive = [1.0, 2.0, 3.0, 2.0];
        let neutral = [-2.0, -3.0, -1.0, -2.0, -2.0];
        let curve = Topicality::between(&positive, &neutral).unwrap();
        assert!((curve.of(2.0) - 0.832).abs() < 1e-3);
        assert!(curve.of(-2.0) < 1e-3);
        assert!((curve.of(curve.midpoint) - 0.5).abs() < 1e-12);
        // One standard deviation below the topic's mean, and where the two kinds are nearer
        // to one another than that allows, between them.
        assert!((curve.midpoint - (2.0 - 0.5_f64.sqrt())).abs() < 1e-12);
        // For counting it is surer of both, and where the kinds overlap no less strict.
        assert!(curve.counted(2.0) > 0.95 && curve.counted(-2.0) < 1e-4);
        let apart = [-7.0, -8.0, -6.0, -7.0];
        let apart = Topicality::between(&positive, &apart).unwrap();
        let cut = f64::midpoint(apart.midpoint, 1.0 - 7.0 / 3.0);
        assert!((apart.counted.unwrap() - cut).abs() < 1e-12);
        assert!(apart.counted(0.3) > 0.5 && apart.of(0.3) < 0.5);
        let overlap = [-2.0, -3.0, 1.5, -2.0];
        let overlap = Topicality::between(&positive, &overlap).unwrap();
        assert_eq!(overlap.counted, None);
        assert_eq!(overlap.counted(overlap.midpoint), 0.5);
        let near = [1.5, 0.5, 1.5, 0.5];
        let curve = Topicality::between(&positive, &near).unwrap();
        assert!(curve.midpoint > 1.4 && curve.midpoint < 1.5);
        assert_eq!(Topicality::between(&positive[..2], &neutral), None);
        // Without documents about the topic, only what lies far above the others is on it.
        let above = Topicality::above(&neutral).unwrap();
        assert!(above.few && above.of(-2.0) < 0.06 && above.of(0.0) > 0.5);
        assert_eq!(Topicality::above(&neutral[..3]), None);
        assert_eq!(Topicality::between(&neutral, &positive), None);
        let by_perplexity = Topicality::of_perplexities(300.0, 600.0);
        assert!(by_perplexity.of(300_f64.ln()) > 0.9 && by_perplexity.of(1_200_f64.ln()) < 0.1);
        assert!(curve.of(f64::MAX) <= 1.0 && curve.of(f64::MIN) >= 0.0);
    }
}
