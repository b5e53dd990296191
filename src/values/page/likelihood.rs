//! The probability that a page is on topic, in the steps in which it is counted and
//! logged.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A probability in steps of a thousandth. Sums are exact, so the numbers in the log add
/// up to the totals. In JSON it is a number from 0 to 1, such as 0.873.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Likelihood(u16);

/// The judgement about a fetched page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judged {
    /// The probability of being on topic by its own text.
    pub text: Likelihood,
    /// The same, corrected by those targets of its links that were fetched before it. A
    /// crawl that does not learn makes no such correction.
    pub on_topic: Likelihood,
    /// Whether it is a guess because the model was trained on too little text.
    pub guessed: bool,
}

impl Likelihood {
    /// The number of steps from 0 to 1.
    pub const ONE: u16 = 1_000;

    /// In thousandths, 0 to 1,000.
    pub fn thousandths(self) -> u16 {
        self.0
    }

    /// From 0 to 1.
    pub fn get(self) -> f64 {
        f64::from(self.0) / f64::from(Self::ONE)
    }

    /// This probability with its log-odds raised by `by`, as a stricter or laxer judge
    /// would rate it.
    pub fn raised(self, by: f64) -> Self {
        // 0 and 1 are rounded too and do not mean certainty.
        let p = self.get().clamp(1e-3, 1.0 - 1e-3);
        Self::from(1.0 / (1.0 + (1.0 - p) / p * (-by).exp()))
    }

    /// Whether it is at least one half.
    pub fn is_likely(self) -> bool {
        self.0 >= Self::ONE / 2
    }
}

/// Rounds to the nearest step; NaN counts as 0.
impl From<f64> for Likelihood {
    fn from(probability: f64) -> Self {
        // Casting turns NaN into 0.
        Self((probability.clamp(0.0, 1.0) * f64::from(Self::ONE)).round() as u16)
    }
}

impl Serialize for Likelihood {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_f64(self.get())
        } else {
            serializer.serialize_u16(self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Likelihood {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(if deserializer.is_human_readable() {
            Self::from(f64::deserialize(deserializer)?)
        } else {
            Self(u16::deserialize(deserializer)?.min(Self::ONE))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stricter_judge_finds_less_likely() {
        let likely = |p: f64, by: f64| Likelihood::from(p).raised(by).thousandths();
        assert_eq!(likely(0.5, 0.0), 500);
        assert_eq!((likely(0.5, 1.6), likely(0.5, -1.6)), (832, 168));
        assert_eq!((likely(1.0, -1.6), likely(0.0, 1.6)), (995, 5));
    }

    #[test]
    fn a_likelihood_is_the_same_after_it_was_written() {
        for (given, thousandths, json) in [
            (0.0, 0, "0.0"),
            (0.4994, 499, "0.499"),
            (0.4996, 500, "0.5"),
            (0.8734, 873, "0.873"),
            (1.0, 1_000, "1.0"),
            (7.0, 1_000, "1.0"),
            (-1.0, 0, "0.0"),
            (f64::NAN, 0, "0.0"),
        ] {
            let likelihood = Likelihood::from(given);
            assert_eq!(likelihood.thousandths(), thousandths);
            assert_eq!(likelihood.is_likely(), thousandths >= 500);
            let text = serde_json::to_string(&likelihood).unwrap();
            assert_eq!(text, json);
            assert_eq!(
                serde_json::from_str::<Likelihood>(&text).unwrap(),
                likelihood
            );
            let bytes = postcard::to_stdvec(&likelihood).unwrap();
            assert_eq!(
                postcard::from_bytes::<Likelihood>(&bytes).unwrap(),
                likelihood
            );
        }
    }
}
