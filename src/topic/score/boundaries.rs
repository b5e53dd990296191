//! From a score to a priority class.

use serde::{Deserialize, Serialize};

use crate::page::Bucket;

/// The highest score of each bucket, inclusive.
///
/// Perplexities differ between models, so training proposes its own boundaries; the defaults are
/// those of the thesis's model of cats.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Boundaries {
    /// The highest score of `high`.
    pub high: f64,
    /// The highest score of `medium`.
    pub medium: f64,
    /// The highest score of `normal`.
    pub normal: f64,
    /// The highest score of `low`; a link above it is not followed.
    pub razor: f64,
}

impl Default for Boundaries {
    fn default() -> Self {
        Self {
            high: 600.0,
            medium: 2_000.0,
            normal: 10_000.0,
            razor: 30_000.0,
        }
    }
}

/// The boundaries do not ascend from above 0.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error(
    "the boundary `{name}` is {value}, but must be a number above 0 and not below {least}; \
     boundaries ascend in the order high, medium, normal, razor"
)]
pub struct BoundariesError {
    /// The first boundary that is wrong.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
    /// The boundary before it, 0 for the first.
    pub least: f64,
}

impl Boundaries {
    /// The bucket of a score; `None` above the cutoff (`razor`) and for NaN.
    pub fn bucket(&self, score: f64) -> Option<Bucket> {
        [
            (self.high, Bucket::High),
            (self.medium, Bucket::Medium),
            (self.normal, Bucket::Normal),
            (self.razor, Bucket::Low),
        ]
        .into_iter()
        .find(|(highest, _)| score <= *highest)
        .map(|(_, bucket)| bucket)
    }

    /// Checks that the boundaries are above 0 and ascend. Two may be equal, and the cutoff
    /// (`razor`) may be infinite.
    ///
    /// # Errors
    ///
    /// The first one that is wrong.
    pub fn validate(&self) -> Result<(), BoundariesError> {
        let mut least = 0.0;
        for (name, value) in [
            ("high", self.high),
            ("medium", self.medium),
            ("normal", self.normal),
            ("razor", self.razor),
        ] {
            // Only comparisons that must be true, so that NaN is refused.
            if !(value > 0.0 && value >= least) {
                return Err(BoundariesError { name, value, least });
            }
            least = value;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_belong_to_the_better_bucket() {
        let boundaries = Boundaries::default();
        for (score, bucket) in [
            (-1.0, Some(Bucket::High)),
            (0.0, Some(Bucket::High)),
            (600.0, Some(Bucket::High)),
            (600.1, Some(Bucket::Medium)),
            (2_000.0, Some(Bucket::Medium)),
            (10_000.0, Some(Bucket::Normal)),
            (10_000.1, Some(Bucket::Low)),
            (30_000.0, Some(Bucket::Low)),
            (30_000.1, None),
            (f64::INFINITY, None),
            (f64::NAN, None),
        ] {
            assert_eq!(boundaries.bucket(score), bucket, "{score}");
        }
    }

    #[test]
    fn boundaries_must_ascend() {
        let good = Boundaries::default();
        assert_eq!(good.validate(), Ok(()));
        let endless = Boundaries {
            medium: 600.0,
            razor: f64::INFINITY,
            ..good
        };
        assert_eq!(endless.validate(), Ok(()));
        for (wrong, name) in [
            (Boundaries { high: 0.0, ..good }, "high"),
            (
                Boundaries {
                    high: f64::NAN,
                    ..good
                },
                "high",
            ),
            (
                Boundaries {
                    medium: 599.0,
                    ..good
                },
                "medium",
            ),
            (
                Boundaries {
                    normal: f64::NAN,
                    ..good
                },
                "normal",
            ),
            (
                Boundaries {
                    razor: 9_999.0,
                    ..good
                },
                "razor",
            ),
        ] {
            let error = wrong.validate().unwrap_err();
            assert_eq!(error.name, name);
            assert!(error.to_string().contains(&format!("`{name}`")));
        }
    }

    #[test]
    fn the_written_form_is_the_read_one() {
        let text = toml::to_string(&Boundaries::default()).unwrap();
        assert_eq!(
            toml::from_str::<Boundaries>(&text).unwrap(),
            Boundaries::default()
        );
        assert!(toml::from_str::<Boundaries>(&format!("{text}low = 1.0")).is_err());
    }
}
