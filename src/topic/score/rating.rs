//! The formulas of the ratings.

use serde::{Deserialize, Serialize};

use super::boundaries::Boundaries;
use crate::page::{Bucket, LinkParts};

/// How much each part of a rating weighs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weights {
    /// Share of the document's perplexity in a link's base.
    pub gamma_document: f64,
    /// Share of the anchor's perplexity in a link's base.
    pub gamma_anchor: f64,
    /// How strongly keywords amplify: a keyword score of `1 / gamma_keyword` is
    /// enough for the best rating there is.
    pub gamma_keyword: f64,
    /// The highest perplexity at which an anchor has a say.
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

/// `perplexity * (1 - gamma_keyword * keyword)`, and 1 where that is below 0.
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

/// The link score of Werner 2015: the document's perplexity, lowered by an anchor
/// that is near the topic and nearer than its page, amplified by the keywords of the
/// anchor.
pub fn link_score(parts: &LinkParts, weights: &Weights) -> f64 {
    let LinkParts {
        document,
        anchor,
        keyword,
    } = *parts;
    let base = if anchor <= weights.anchor_threshold && anchor <= document {
        weights.gamma_document * document + weights.gamma_anchor * anchor
    } else {
        document
    };
    weighted(base, keyword, weights.gamma_keyword)
}

/// The link score's formula with its numbers filled in, for people.
fn link_formula(parts: &LinkParts, weights: &Weights) -> String {
    let LinkParts {
        document,
        anchor,
        keyword,
    } = *parts;
    let Weights {
        gamma_document,
        gamma_anchor,
        gamma_keyword,
        anchor_threshold,
    } = *weights;
    let (base, note) = if anchor > anchor_threshold {
        let note =
            format!("; the anchor's {anchor:.3} is above anchor_threshold {anchor_threshold}");
        (format!("{document:.3}"), note)
    } else if anchor > document {
        let note = format!("; the anchor's {anchor:.3} is above the page's");
        (format!("{document:.3}"), note)
    } else {
        let base = format!("({gamma_document} * {document:.3} + {gamma_anchor} * {anchor:.3})");
        (base, String::new())
    };
    let score = link_score(parts, weights);
    let clamped = match gamma_keyword * keyword > 1.0 {
        true => "below 0, so ",
        false => "",
    };
    format!("{base} * (1 - {gamma_keyword} * {keyword:.6}) = {clamped}{score:.3}{note}")
}

/// What decides the order in which links are followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// Breadth first: all links are equal, the oldest comes first.
    Unfocused,
    /// A link takes the perplexity of its page (Remus & Biemann 2016).
    Document,
    /// The link score (Werner 2015).
    #[default]
    Link,
    /// What the crawl itself has learned of which links lead to the topic
    /// ([`Learner`](super::Learner)); the link score where nothing else is known of a link.
    Learn,
}

impl Strategy {
    /// All strategies, the simplest first.
    pub const ALL: [Strategy; 4] = [
        Strategy::Unfocused,
        Strategy::Document,
        Strategy::Link,
        Strategy::Learn,
    ];

    /// The name used in configuration, logs and tables.
    pub fn name(self) -> &'static str {
        match self {
            Strategy::Unfocused => "unfocused",
            Strategy::Document => "document",
            Strategy::Link => "link",
            Strategy::Learn => "learn",
        }
    }

    /// The score of a link; 0 for every link of an unfocused crawl.
    pub fn score(self, parts: &LinkParts, weights: &Weights) -> f64 {
        match self {
            Strategy::Unfocused => 0.0,
            Strategy::Document => parts.document,
            Strategy::Link | Strategy::Learn => link_score(parts, weights),
        }
    }

    /// How [`Strategy::score`] comes about, with the numbers filled in, for people.
    pub fn formula(self, parts: &LinkParts, weights: &Weights) -> String {
        match self {
            Strategy::Unfocused => "0 for every link of an unfocused crawl".to_owned(),
            Strategy::Document => format!("{:.3}, the page's perplexity", parts.document),
            Strategy::Link | Strategy::Learn => link_formula(parts, weights),
        }
    }

    /// The bucket of a link that has this score, `None` above the razor. An
    /// unfocused crawl knows no razor, and one bucket only.
    pub fn bucket(self, score: f64, boundaries: &Boundaries) -> Option<Bucket> {
        match self {
            Strategy::Unfocused => Some(Bucket::Normal),
            Strategy::Document | Strategy::Link | Strategy::Learn => boundaries.bucket(score),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{Just, prop_assert, prop_assert_eq, prop_oneof, proptest};
    use serde_json::Value;

    use super::*;

    fn cases(part: &str) -> Vec<Value> {
        let thesis: Value =
            serde_json::from_str(include_str!("../../../tests/fixtures/thesis/thesis.json"))
                .unwrap();
        let cases = thesis[part]["cases"].as_array().unwrap().clone();
        assert!(!cases.is_empty());
        cases
    }

    #[test]
    fn formulas_show_their_numbers() {
        let said = |document, anchor, keyword| {
            let parts = LinkParts {
                document,
                anchor,
                keyword,
            };
            Strategy::Link.formula(&parts, &Weights::default())
        };
        for (parts, expected) in [
            (
                (1000.0, 500.0, 0.1),
                "(0.7 * 1000.000 + 0.3 * 500.000) * (1 - 3 * 0.100000) = 595.000",
            ),
            (
                (100.0, 500.0, 0.0),
                "100.000 * (1 - 3 * 0.000000) = 100.000; the anchor's 500.000 is above the page's",
            ),
            (
                (9000.0, 4000.0, 0.5),
                "9000.000 * (1 - 3 * 0.500000) = below 0, so 1.000; \
                 the anchor's 4000.000 is above anchor_threshold 3000",
            ),
        ] {
            assert_eq!(said(parts.0, parts.1, parts.2), expected);
        }
    }

    fn number(case: &Value, key: &str) -> f64 {
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

    #[test]
    fn link_score_of_the_thesis() {
        for case in cases("link_score") {
            let parts = LinkParts {
                document: number(&case, "pp_document"),
                anchor: number(&case, "pp_anchor"),
                keyword: number(&case, "keyword_score"),
            };
            let ours = link_score(&parts, &Weights::default());
            assert!(
                (ours / number(&case, "score") - 1.0).abs() < 1e-9,
                "{case}: {ours}"
            );
        }
    }

    #[test]
    fn an_anchor_has_a_say_only_below_its_threshold_and_its_page() {
        let score = |document, anchor| {
            let parts = LinkParts {
                document,
                anchor,
                keyword: 0.0,
            };
            link_score(&parts, &Weights::default())
        };
        assert_eq!(score(5_000.0, 3_000.0), 0.7 * 5_000.0 + 0.3 * 3_000.0);
        assert_eq!(score(5_000.0, 3_000.1), 5_000.0);
        assert_eq!(score(500.0, 501.0), 500.0);
    }

    #[test]
    fn strategies_differ_as_named() {
        let parts = LinkParts {
            document: 900.0,
            anchor: 100.0,
            keyword: 0.1,
        };
        let weights = Weights::default();
        let boundaries = Boundaries::default();
        let rated = Strategy::ALL.map(|strategy| {
            let score = strategy.score(&parts, &weights);
            (score, strategy.bucket(score, &boundaries))
        });
        assert_eq!(rated[0], (0.0, Some(Bucket::Normal)));
        assert_eq!(rated[1], (900.0, Some(Bucket::Medium)));
        assert!((rated[2].0 - 660.0 * 0.7).abs() < 1e-9);
        assert_eq!(rated[2].1, Some(Bucket::High));
        assert_eq!(Strategy::Document.bucket(1e9, &boundaries), None);
        for strategy in Strategy::ALL {
            let name = serde_json::to_value(strategy).unwrap();
            assert_eq!(name, strategy.name());
        }
    }

    fn perplexities() -> impl proptest::strategy::Strategy<Value = f64> {
        prop_oneof![
            1.0..50_000.0,
            1.0..1e12,
            Just(f64::MAX),
            Just(1.0),
            Just(3_000.0)
        ]
    }

    proptest! {
        #![proptest_config(crate::tests::usual())]

        #[test]
        fn scores_are_finite_and_not_negative(
            document in perplexities(), anchor in perplexities(), keyword in 0.0..5.0,
            gamma_document in 0.0..10.0, gamma_anchor in 0.0..10.0, gamma_keyword in 0.0..10.0,
            anchor_threshold in perplexities(),
        ) {
            let weights = Weights { gamma_document, gamma_anchor, gamma_keyword, anchor_threshold };
            let parts = LinkParts { document, anchor, keyword };
            for strategy in Strategy::ALL {
                let score = strategy.score(&parts, &weights);
                prop_assert!(score.is_finite() && score >= 0.0, "{}", score);
            }
        }

        #[test]
        fn a_better_page_never_makes_a_worse_link(
            one in perplexities(), other in perplexities(), anchor in perplexities(), keyword in 0.0..1.0,
        ) {
            let score = |document| {
                link_score(&LinkParts { document, anchor, keyword }, &Weights::default())
            };
            prop_assert!(score(one.min(other)) <= score(one.max(other)) * (1.0 + 1e-12));
        }

        #[test]
        fn neither_anchor_nor_keywords_make_a_link_worse_than_its_page(
            document in perplexities(), anchor in perplexities(), keyword in 0.0..1.0,
        ) {
            let parts = LinkParts { document, anchor, keyword };
            prop_assert!(link_score(&parts, &Weights::default()) <= document * (1.0 + 1e-12));
        }

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
