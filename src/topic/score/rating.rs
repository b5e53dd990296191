//! The formulas of the ratings.

use serde::{Deserialize, Serialize};

/// The weights of the parts of a rating.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    /// Share of the document's perplexity in a link's base.
    pub gamma_document: f64,
    /// Share of the anchor's perplexity in a link's base.
    pub gamma_anchor: f64,
    /// How strongly keywords amplify: a keyword score of `1 / gamma_keyword` is enough for
    /// the best possible rating.
    pub gamma_keyword: f64,
    /// The highest perplexity at which an anchor counts.
    pub anchor_threshold: f64,
}

/// The weights of Werner 2015.
impl Default for Weights {
    fn default() -> Self {
        Self {
            gamma_document: 0.7,
            gamma_anchor: 0.3,
            gamma_keyword: 3.0,
            anchor_threshold: 3_000.0,
        }
    }
}

/// `perplexity * (1 - gamma_keyword * keyword)`, but at least 1.
///
/// Never negative; a number too large for `f64` becomes the largest finite one.
pub fn weighted(perplexity: f64, keyword: f64, gamma_keyword: f64) -> f64 {
    let amplified = perplexity * (1.0 - gamma_keyword * keyword);
    if amplified < 0.0 {
        1.0
    } else {
        // `min` also turns the NaN of infinity times 0 into a number.
        amplified.min(f64::MAX)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::{Just, prop_assert, prop_assert_eq, prop_oneof, proptest};
    use serde_json::Value;

    use super::*;

    /// The published cases of one formula.
    pub(crate) fn cases(part: &str) -> Vec<Value> {
        let thesis: Value =
            serde_json::from_str(include_str!("../../../tests/fixtures/thesis/thesis.json"))
                .unwrap();
        let cases = thesis[part]["cases"].as_array().unwrap().clone();
        assert!(!cases.is_empty());
        cases
    }

    pub(crate) fn number(case: &Value, key: &str) -> f64 {
        case[key].as_f64().unwrap()
    }

    #[test]
    fn weighted_perplexities_of_the_thesis() {
        for case in cases("weighted_perplexity") {
            let ours = weighted(
                number(&case, "pp"),
                number(&case, "keyword_score"),
                Weights::default().gamma_keyword,
            );
            assert!(
                (ours / number(&case, "weighted") - 1.0).abs() < 1e-9,
                "{case}: {ours}"
            );
        }
    }

    pub(crate) fn perplexities() -> impl proptest::strategy::Strategy<Value = f64> {
        prop_oneof![
            1.0..50_000.0,
            1.0..1e12,
            Just(f64::MAX),
            Just(1.0),
            Just(3_000.0)
        ]
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn more_keywords_are_better_until_the_score_is_used_up(
            perplexity in perplexities(), few in 0.0..0.33, more in 0.0..0.33,
        ) {
            let at = |keyword| weighted(perplexity, keyword, 3.0);
            prop_assert!(at(f64::max(few, more)) <= at(f64::min(few, more)));
            prop_assert_eq!(at(0.34), 1.0);
        }
    }
}
