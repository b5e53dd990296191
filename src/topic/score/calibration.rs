//! The meaning of the perplexities of one model: measured by training, stored with the
//! model in `model.toml`, and used by all ratings.
//!
//! A perplexity has no absolute meaning: it grows with the vocabulary and shrinks with the corpus.
//! What can be compared is the position of held-out text about the topic, and of other text, on the
//! model's own scale. Documents and texts as short as anchors are measured separately, because
//! short texts are far more surprising. Training does the fitting; this is its result.

use serde::{Deserialize, Serialize};

use super::boundaries::{Boundaries, BoundariesError};

/// The ratio of the anchor threshold of Werner 2015 to its boundary `high`, 3,000 : 600,
/// for a model that was not measured with neutral text.
const THESIS_ANCHOR: f64 = 3_000.0 / 600.0;

/// The narrowest transition between on and off topic, in ln units. Held-out text and
/// neutral text can be so far apart that any step would separate them; crawled pages, with
/// their menus and tables, are not.
pub const MIN_WIDTH: f64 = 0.1;

/// How a calibration was obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// From held-out and neutral text.
    Measured,
    /// From held-out text alone, with the distances of Werner 2015 between the boundaries,
    /// because there was no neutral text.
    TopicAlone,
}

/// The meaning of the perplexities of one model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// How it was obtained.
    pub method: Method,
    /// The highest perplexity at which an anchor counts: the cut that best separates short
    /// texts about the topic from others.
    pub anchor_threshold: f64,
    /// Maps scores to priority classes. `medium` is the cut that best separates documents
    /// about the topic from others.
    pub boundaries: Boundaries,
    /// Maps the perplexity of a document to the probability that it is on topic.
    pub on_topic: OnTopic,
    /// The measured documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<Measured>,
    /// The measured texts of 1 to 5 words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_texts: Option<Measured>,
}

/// A logistic curve over the logarithm of a document's perplexity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnTopic {
    /// The perplexity at which a document is as likely on topic as off topic, if both
    /// kinds are equally frequent.
    pub midpoint: f64,
    /// How wide the transition is, in units of the natural logarithm: at `midpoint` times
    /// `e^width` it is 0.27, at `midpoint` over `e^width` 0.73. Above 0.
    pub width: f64,
}

/// Perplexities of two kinds of text, and the cut that separates them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The highest perplexity at which a text counts as about the topic: where the share of
    /// positive texts below it exceeds that of neutral ones most (Youden 1950).
    pub cut: f64,
    /// The share of positive texts above the cut, 0 to 1.
    pub missed: f64,
    /// The share of neutral texts up to the cut, 0 to 1.
    pub mistaken: f64,
    /// Held-out text about the topic.
    pub positive: Spread,
    /// Text about anything else.
    pub neutral: Spread,
}

/// The distribution of perplexities of one kind of text.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    /// How many texts.
    pub texts: usize,
    /// 5 % of them are at or below.
    pub p5: f64,
    /// 25 %.
    pub p25: f64,
    /// Half.
    pub p50: f64,
    /// 75 %.
    pub p75: f64,
    /// 95 %.
    pub p95: f64,
}

/// Why a calibration cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum CalibrationError {
    /// The boundaries do not ascend.
    #[error(transparent)]
    Boundaries(#[from] BoundariesError),
    /// A value that must be above 0 and finite is not.
    #[error("`{name}` of the calibration is {value}, but must be a finite number above 0")]
    Number {
        /// The name of the value.
        name: &'static str,
        /// The value.
        value: f64,
    },
}

impl Calibration {
    /// The probability that a document with this perplexity is on topic, from 0 to 1, if
    /// documents on topic and others are equally frequent. Falls as the perplexity rises;
    /// 0 for NaN.
    pub fn on_topic(&self, perplexity: f64) -> f64 {
        self.on_topic.likelihood(perplexity)
    }

    /// A calibration derived from boundaries alone: the anchor threshold at the thesis's distance
    /// from `high`, and a curve with 0.5 at `medium` and 0.9 at `high`.
    pub fn of_boundaries(method: Method, boundaries: Boundaries) -> Self {
        let Boundaries { high, medium, .. } = boundaries;
        Self {
            method,
            anchor_threshold: high * THESIS_ANCHOR,
            boundaries,
            on_topic: OnTopic {
                midpoint: medium,
                width: ((medium / high).ln() / 9_f64.ln()).max(MIN_WIDTH),
            },
            documents: None,
            short_texts: None,
        }
    }

    /// Checks the values that ratings use: boundaries, anchor threshold, curve.
    ///
    /// # Errors
    ///
    /// The first value that is wrong.
    pub fn validate(&self) -> Result<(), CalibrationError> {
        self.boundaries.validate()?;
        for (name, value) in [
            ("anchor_threshold", self.anchor_threshold),
            ("midpoint", self.on_topic.midpoint),
            ("width", self.on_topic.width),
        ] {
            if !(value > 0.0 && value.is_finite()) {
                return Err(CalibrationError::Number { name, value });
            }
        }
        Ok(())
    }
}

/// Derived from the thesis's boundaries.
impl Default for Calibration {
    fn default() -> Self {
        Self::of_boundaries(Method::TopicAlone, Boundaries::default())
    }
}

impl OnTopic {
    /// As [`Calibration::on_topic`].
    pub fn likelihood(&self, perplexity: f64) -> f64 {
        let off = (perplexity.ln() - self.midpoint.ln()) / self.width;
        if off.is_nan() {
            0.0
        } else {
            1.0 / (1.0 + off.exp())
        }
    }
}

impl Spread {
    /// The distribution of perplexities in ascending order; `None` if there are none.
    pub fn of(sorted: &[f64]) -> Option<Self> {
        let last = sorted.len().checked_sub(1)?;
        let quantile = |share: f64| sorted.get((last as f64 * share).round() as usize).copied();
        Some(Self {
            texts: sorted.len(),
            p5: quantile(0.05)?,
            p25: quantile(0.25)?,
            p50: quantile(0.5)?,
            p75: quantile(0.75)?,
            p95: quantile(0.95)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::*;

    #[test]
    fn the_thesis_gives_the_thesis() {
        let thesis = Calibration::default();
        assert_eq!(thesis.anchor_threshold, 3_000.0);
        assert_eq!(thesis.on_topic.midpoint, 2_000.0);
        assert_eq!(thesis.validate(), Ok(()));
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} {b}");
        near(thesis.on_topic(2_000.0), 0.5);
        near(thesis.on_topic(600.0), 0.9);
        assert_eq!(thesis.on_topic(f64::INFINITY), 0.0);
        assert_eq!(thesis.on_topic(0.0), 1.0);
        for nothing in [f64::NAN, -1.0] {
            assert_eq!(thesis.on_topic(nothing), 0.0);
        }
        let text = toml::to_string(&thesis).unwrap();
        assert_eq!(toml::from_str::<Calibration>(&text).unwrap(), thesis);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let good = Calibration::default();
        for (name, wrong) in [
            (
                "anchor_threshold",
                Calibration {
                    anchor_threshold: f64::NAN,
                    ..good.clone()
                },
            ),
            (
                "width",
                Calibration {
                    on_topic: OnTopic {
                        width: 0.0,
                        ..good.on_topic
                    },
                    ..good.clone()
                },
            ),
            (
                "high",
                Calibration {
                    boundaries: Boundaries {
                        high: 0.0,
                        ..good.boundaries
                    },
                    ..good.clone()
                },
            ),
        ] {
            let text = wrong.validate().unwrap_err().to_string();
            assert!(text.contains(&format!("`{name}`")), "{text}");
        }
    }

    #[test]
    fn spreads() {
        assert_eq!(Spread::of(&[]), None);
        let one = Spread::of(&[7.0]).unwrap();
        assert_eq!((one.texts, one.p5, one.p95), (1, 7.0, 7.0));
        let sorted: Vec<f64> = (0..=100).map(f64::from).collect();
        let spread = Spread::of(&sorted).unwrap();
        assert_eq!((spread.p5, spread.p50, spread.p95), (5.0, 50.0, 95.0));
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn a_likelihood_lies_in_its_range_and_falls(
            high in 1.0..1e6_f64,
            step in 1.0..100.0_f64,
            a: f64,
            b: f64,
        ) {
            let boundaries = Boundaries { high, medium: high * step, normal: 1e9, razor: 1e9 };
            let calibration = Calibration::of_boundaries(Method::TopicAlone, boundaries);
            prop_assert!(calibration.validate().is_ok());
            let (low, up) = (a.abs().min(b.abs()), a.abs().max(b.abs()));
            let (p, q) = (calibration.on_topic(low), calibration.on_topic(up));
            prop_assert!((0.0..=1.0).contains(&p) && (0.0..=1.0).contains(&q));
            prop_assert!(p >= q || low.is_nan() || up.is_nan());
        }
    }
}
