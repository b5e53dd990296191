//! Maps a measure of documents to how far each is on topic.
//!
//! Training measures documents of both kinds, and the curve lies between them. If nothing
//! can be measured, the curve is derived from neutral documents alone, or from the classes
//! of perplexities.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// Maps a measure of documents to how far each is on topic, by a logistic curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Topicality {
    /// The measure at which a document is as likely on topic as off topic.
    pub midpoint: f64,
    /// The change of the measure that changes the odds by the factor e; negative if lower
    /// means nearer to the topic.
    pub width: f64,
    /// The midpoint for counting pages, if it differs from `midpoint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<f64>,
    /// Whether there are so few texts about the topic that the result is only a guess.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub few: bool,
    /// The contrasts of neutral documents by their words
    /// ([`Measured::of_words`](super::contrast::Measured::of_words)); `None` for other
    /// measures, and in models of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neutral: Option<Lump>,
    /// The measures of documents about the topic that were held out whole; `None` if there
    /// were too few. Sentences held out from within documents score too well, because they
    /// share the subject of the rest of their document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<Lump>,
    /// The means of both kinds by the language model
    /// ([`Measured::by_model`](super::contrast::Measured::by_model)): of neutral documents
    /// and of those of `topic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_model: Option<(f64, f64)>,
    /// The values of neutral documents by their nearest passages
    /// ([`Measured::of_passages`](super::contrast::Measured::of_passages)); `None` if neutral text
    /// is known only by its words, and in models of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_passages: Option<Lump>,
    /// How uncertain the midpoint for counting is with the given documents, in units of the
    /// measure: its standard deviation over curves of documents drawn from them with
    /// replacement (the bootstrap; Efron 1979). `None` if no curve lies between two kinds,
    /// and in models of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scatter: Option<f64>,
}

/// The distribution of one kind of documents on a measure.
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
    /// The distribution of these measures; `None` if there are fewer than four.
    pub fn of(measures: &[f64]) -> Option<Self> {
        let (mean, deviation) = moments(measures);
        (measures.len() >= MIN_DOCUMENTS).then_some(Self {
            mean,
            deviation: deviation.max(1e-6),
            documents: measures.len(),
        })
    }
}

/// The fewest documents of either kind for a curve.
const MIN_DOCUMENTS: usize = 4;
/// If nothing is known about documents of the topic, a document this many standard
/// deviations above the neutral ones is as likely on topic as off topic, and one deviation
/// changes the odds by the factor e.
pub const ABOVE_NEUTRAL: f64 = 3.0;
/// The log-odds that the curve over perplexities gives the mean document of the topic: 95
/// %.
pub const SURE: f64 = 2.944;
/// The same for the curve over contrasts: 83 %.
const LIKE: f64 = 1.6;
/// For counting pages, if the two kinds of texts do not overlap, the midpoint moves halfway to a
/// point below the lowest text of the topic: by this share of the distance to the highest neutral
/// one.
const BETWEEN: f64 = 1.0 / 3.0;
/// Draws of the bootstrap: its standard deviation is then right to about 5 %.
const DRAWS: u64 = 200;
/// The factor by which the log-odds are larger for counting pages. The uncertainty of the
/// midpoint takes about an eighth of it away.
const COUNTED: f64 = 2.3;
/// The least distance of the midpoint for counting from the topic's mean, as a share of the
/// distance to the neutral texts: a few texts by one author are more similar than the pages of a
/// crawl.
const LEAST: f64 = 0.15;

impl Topicality {
    /// The curve between two kinds of documents. Its midpoint is as many standard
    /// deviations below the mean of the topic's as above that of the neutral ones, but at
    /// most one deviation or 15 % of the distance between the means. It gives the mean
    /// document of the topic 83 %. `None` if there are too few documents, or the two kinds
    /// cannot be separated.
    ///
    /// The limit is there because off-topic pages of a crawl are not neutral: pages of the
    /// topic link to them, so they are nearer to it than any sample of the language at
    /// large.
    fn curve_between(positive: &[f64], neutral: &[f64]) -> Option<Self> {
        if positive.len().min(neutral.len()) < MIN_DOCUMENTS {
            return None;
        }
        let ((p, p_deviation), (n, n_deviation)) = (moments(positive), moments(neutral));
        let deviations = (p_deviation + n_deviation).max(1e-9);
        let between = (p - n) * p_deviation / deviations;
        let below = between.min(p_deviation.max(LEAST * (p - n)));
        let midpoint = p - below;
        let width = below / LIKE;
        // If no text of one kind comes near the other kind, the texts are few and similar, and
        // their variance says little about the pages of a crawl. Any cut between them fits the
        // texts; but off-topic pages of a crawl are nearer to the topic than neutral text is.
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
            of_passages: None,
            scatter: None,
        })
    }

    /// The curve between two kinds of documents, with its [`Topicality::scatter`]. `None` if there
    /// are too few documents, or the two kinds cannot be separated. Equal documents give equal
    /// curves.
    pub fn between(positive: &[f64], neutral: &[f64]) -> Option<Self> {
        let curve = Self::curve_between(positive, neutral)?;
        let again = |draw: u64| {
            let mut number = draw << 32;
            let mut drawn = |from: &[f64]| -> Vec<f64> {
                let mut one = || {
                    number += 1;
                    let place = xxh3_64(&number.to_le_bytes()) % from.len() as u64;
                    from.get(place as usize).copied()
                };
                (0..from.len()).filter_map(|_| one()).collect()
            };
            Self::curve_between(&drawn(positive), &drawn(neutral)).map(|curve| curve.middle())
        };
        let (_, deviation) = moments(&(0..DRAWS).filter_map(again).collect::<Vec<f64>>());
        Some(Self {
            scatter: Some(deviation),
            ..curve
        })
    }

    /// The curve if no document about the topic could be measured: documents far above the
    /// neutral ones are on topic. It is a guess. `None` if there are too few neutral
    /// documents.
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
            of_passages: None,
            scatter: None,
        })
    }

    /// The curve over ln perplexity, if only the boundaries of the classes `high` and
    /// `medium` are known.
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
            of_passages: None,
            scatter: None,
        }
    }

    /// The key of an impossible number, if there is one: the file was edited.
    pub fn unusable(&self) -> Option<&'static str> {
        let finite = |value: Option<f64>| value.is_none_or(f64::is_finite);
        let sound = |lump: Option<Lump>| {
            lump.is_none_or(|l| l.mean.is_finite() && l.deviation.is_finite() && l.deviation > 0.0)
        };
        let by_model = self.by_model.map_or([None; 2], |(n, t)| [Some(n), Some(t)]);
        let keys = [
            ("midpoint", self.midpoint.is_finite()),
            ("width", self.width.is_finite() && self.width > 0.0),
            ("counted", finite(self.counted)),
            ("neutral", sound(self.neutral)),
            ("topic", sound(self.topic)),
            ("by_model", by_model.into_iter().all(finite)),
            ("of_passages", sound(self.of_passages)),
            (
                "scatter",
                finite(self.scatter) && self.scatter.is_none_or(|s| s >= 0.0),
            ),
        ];
        keys.into_iter()
            .find_map(|(key, is_sound)| (!is_sound).then_some(key))
    }

    /// How far a document with this measure is on topic, 0 to 1.
    pub fn of(&self, measure: f64) -> f64 {
        logistic((measure - self.midpoint) / self.width)
    }

    /// The probability that a document with this contrast is on topic, for counting: as
    /// [`Topicality::of`] with log-odds about twice as large. A crawl learns best from a curve
    /// that keeps some doubt about every page, and gives the mean page of the topic 83 %; a sum
    /// of these would miss one page in five. So for counting the mean page gets some 96 %, which
    /// matches the truth about whole crawls.
    ///
    /// If the midpoint is uncertain, this is the mean over the possible midpoints (the moderated
    /// output of MacKay 1992).
    pub fn counted(&self, contrast: f64) -> f64 {
        let odds = COUNTED / self.width;
        let uncertain = odds * self.scatter.unwrap_or(0.0);
        let moderated = (1.0 + PI / 8.0 * uncertain * uncertain).sqrt();
        logistic(odds * (contrast - self.middle()) / moderated)
    }

    /// The midpoint for counting pages.
    fn middle(&self) -> f64 {
        self.counted.unwrap_or(self.midpoint)
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
        let curve = Topicality::curve_between(&positive, &neutral).unwrap();
        assert!((curve.of(2.0) - 0.832).abs() < 1e-3);
        assert!(curve.of(-2.0) < 1e-3);
        assert!((curve.of(curve.midpoint) - 0.5).abs() < 1e-12);
        // One standard deviation below the topic's mean; if the two kinds are closer together than
        // that, between them.
        assert!((curve.midpoint - (2.0 - 0.5_f64.sqrt())).abs() < 1e-12);
        // For counting it is more certain about both, and if the kinds overlap it is no less
        // strict.
        assert!(curve.counted(2.0) > 0.95 && curve.counted(-2.0) < 1e-4);
        let apart = [-7.0, -8.0, -6.0, -7.0];
        let apart = Topicality::curve_between(&positive, &apart).unwrap();
        let cut = f64::midpoint(apart.midpoint, 1.0 - 7.0 / 3.0);
        assert!((apart.counted.unwrap() - cut).abs() < 1e-12);
        assert!(apart.counted(0.3) > 0.5 && apart.of(0.3) < 0.5);
        let overlap = [-2.0, -3.0, 1.5, -2.0];
        let overlap = Topicality::curve_between(&positive, &overlap).unwrap();
        assert_eq!(overlap.counted, None);
        assert_eq!(overlap.counted(overlap.midpoint), 0.5);
        let near = [1.5, 0.5, 1.5, 0.5];
        let curve = Topicality::curve_between(&positive, &near).unwrap();
        assert!(curve.midpoint > 1.4 && curve.midpoint < 1.5);
        assert_eq!(Topicality::curve_between(&positive[..2], &neutral), None);
        // Without documents about the topic, only documents far above the others are on topic.
        let above = Topicality::above(&neutral).unwrap();
        assert!(above.few && above.of(-2.0) < 0.06 && above.of(0.0) > 0.5);
        assert_eq!(Topicality::above(&neutral[..3]), None);
        assert_eq!(Topicality::curve_between(&neutral, &positive), None);
        let by_perplexity = Topicality::of_perplexities(300.0, 600.0);
        assert!(by_perplexity.of(300_f64.ln()) > 0.9 && by_perplexity.of(1_200_f64.ln()) < 0.1);
        assert!(curve.of(f64::MAX) <= 1.0 && curve.of(f64::MIN) >= 0.0);
    }

    #[test]
    fn numbers_that_no_curve_has_are_named() {
        let sound = Topicality {
            neutral: Lump::of(&[-1.0, -2.0, -1.0, -2.0]),
            by_model: Some((0.0, 1.0)),
            ..Topicality::between(&[1.0, 2.0, 3.0, 2.0], &[-2.0, -3.0, -1.0, -2.0]).unwrap()
        };
        assert_eq!(sound.unusable(), None);
        for (width, key) in [(0.0, "width"), (-0.5, "width"), (f64::NAN, "width")] {
            assert_eq!(Topicality { width, ..sound }.unusable(), Some(key));
        }
        let neutral = |mean, deviation| Topicality {
            neutral: Some(Lump {
                mean,
                deviation,
                documents: 4,
            }),
            ..sound
        };
        for (mean, deviation) in [(0.0, 0.0), (0.0, f64::NAN), (f64::INFINITY, 1.0)] {
            assert_eq!(neutral(mean, deviation).unusable(), Some("neutral"));
        }
        let scatter = Some(f64::NAN);
        assert_eq!(Topicality { scatter, ..sound }.unusable(), Some("scatter"));
        let by_model = Some((f64::NAN, 1.0));
        assert_eq!(
            Topicality { by_model, ..sound }.unusable(),
            Some("by_model")
        );
    }

    #[test]
    fn few_documents_leave_the_midpoint_uncertain() {
        let alternating = |n: u32, at: f64| -> Vec<f64> {
            let scatter = |i: u32| f64::from(i % 5) - 2.0;
            (0..n).map(|i| at + scatter(i)).collect()
        };
        let curve = |n| Topicality::between(&alternating(n, 1.9), &alternating(500, -1.9)).unwrap();
        let [few, more, many] = [5, 20, 500].map(curve);
        let scatter = |curve: &Topicality| curve.scatter.unwrap();
        // The midpoint is one deviation (the root of 2) below the mean, so its error combines that
        // of the mean and of the deviation: 1.4 times as much for a normal distribution, and less
        // for a uniform one.
        let expected = |n: f64| (2.0 / n).sqrt();
        for (curve, n) in [(&more, 20.0), (&many, 500.0)] {
            let ratio = scatter(curve) / expected(n);
            assert!((0.9..1.4).contains(&ratio), "{n}: {ratio}");
        }
        assert!(scatter(&few) > scatter(&more));
        assert_eq!(curve(20), more, "equal documents, equal curves");
        // Far from the midpoint all are nearly as certain as possible.
        assert_eq!(few.counted(few.middle()), 0.5);
        let sure = |curve: &Topicality| curve.counted(curve.middle() + curve.width);
        assert!(sure(&few) < sure(&more) && sure(&more) < sure(&many));
        assert!((sure(&many) - logistic(COUNTED)).abs() < 0.01);
        assert_eq!(
            Topicality::between(&[1.0; 3], &[-1.0; 9]),
            None,
            "too few for a curve"
        );
    }
}
