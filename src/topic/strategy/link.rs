//! The link score (Werner 2015): the perplexity of the page, lowered by an anchor that is near the
//! topic, amplified by keywords in the anchor.

use super::document::StrategyDocument;
use super::{Parameters, Score, Strategy};
use crate::address::PageUrl;
use crate::page::LinkParts;
use crate::score::{Weights, weighted};

pub(super) struct StrategyLink {
    pub parameters: Parameters,
}

impl StrategyLink {
    pub fn rate(&self, parts: &LinkParts) -> Score {
        let score = link_score(parts, &self.parameters.weights);
        (score, self.parameters.boundaries.bucket(score))
    }
}

impl Strategy for StrategyLink {
    fn link(&self, _: &PageUrl, parts: &LinkParts) -> Score {
        self.rate(parts)
    }

    fn formula(&self, _: &PageUrl, parts: &LinkParts) -> String {
        link_formula(parts, &self.parameters.weights)
    }

    fn image(&self, document: f64) -> Score {
        StrategyDocument {
            parameters: self.parameters,
        }
        .image(document)
    }

    fn listed(&self) -> Score {
        StrategyDocument {
            parameters: self.parameters,
        }
        .listed()
    }
}

/// The link score of Werner 2015: the document's perplexity, lowered by an anchor that is near the
/// topic and nearer than its page, and amplified by the keywords of the anchor.
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

/// The link score's formula with its numbers filled in, for display.
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
    let clamped = if gamma_keyword * keyword > 1.0 {
        "below 0, so "
    } else {
        ""
    };
    format!("{base} * (1 - {gamma_keyword} * {keyword:.6}) = {clamped}{score:.3}{note}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::*;
    use crate::score::rating::tests::{cases, number, perplexities};

    #[test]
    fn formulas_show_their_numbers() {
        let said = |document, anchor, keyword| {
            let parts = LinkParts {
                document,
                anchor,
                keyword,
            };
            link_formula(&parts, &Weights::default())
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

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

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
    }
}
