//! The order in which links are followed.
//!
//! A strategy is one file with one type that implements [`Strategy`]. To add one: write the file,
//! add a variant to [`StrategyKind`] (crate `settings`), and a line to [`of`]. No other code in the crate knows which
//! strategies exist.
//!
//! | file | order |
//! |---|---|
//! | `unfocused.rs` | breadth first |
//! | `document.rs` | by the perplexity of the page that contains a link (Remus & Biemann 2016) |
//! | `link.rs` | by the link score (Werner 2015) |
//! | `learn.rs` | by what the crawl learns, from the link score on; the default |
//!
//! Scores are on the scale of perplexities: lower is better, and the boundaries of the buckets
//! apply to all of them.

use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::score::{Boundaries, Weights};
use crate::address::PageUrl;
use crate::page::{Bucket, LinkParts};
use crate::settings::StrategyKind;

mod document;
mod learn;
mod learning;
mod link;
mod unfocused;

pub use learn::Learned;
pub use learning::Learning;
pub use link::link_score;

/// Incremented with each change after which the same parameters give other scores, so that a crawl
/// that continues after an upgrade rates its links again.
const FORM: u32 = 2;

/// Priority of a link: its score and its bucket; without a bucket it is above the cutoff
/// (`razor`) and not followed.
pub type Score = (f64, Option<Bucket>);

/// The parameters of all strategies: the weights of the parts of a rating, the boundaries of
/// the buckets, and how sharply perplexities separate the topic from other texts.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Parameters {
    /// The weights of the parts.
    pub weights: Weights,
    /// The boundaries of the buckets.
    pub boundaries: Boundaries,
    /// The width of the curve of being on topic
    /// ([`OnTopic::width`](crate::score::calibration::OnTopic)), in units of the natural
    /// logarithm of a perplexity; 0 if it was not measured.
    pub width: f64,
}

impl Parameters {
    /// A hash that is the same in every process for all crawls with this kind of strategy and these
    /// parameters.
    pub fn digest(&self, kind: StrategyKind) -> u64 {
        let Self {
            weights,
            boundaries,
            width,
        } = self;
        // Numbers are written in their shortest exact form.
        let text = format!(
            "{} {FORM} {weights:?} {boundaries:?} {width:?}",
            kind.name()
        );
        let hash = Sha256::digest(text);
        let first = hash.iter().take(8);
        first.fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    }
}

/// Decides the order in which links, images and listed pages are fetched.
pub trait Strategy: Send + Sync {
    /// Rates a link by its target and its parts.
    fn link(&self, target: &PageUrl, parts: &LinkParts) -> Score;

    /// Explains [`Strategy::link`] to people: the formula with its numbers filled in.
    fn formula(&self, target: &PageUrl, parts: &LinkParts) -> String;

    /// Rates an image by the perplexity of its page.
    fn image(&self, document: f64) -> Score;

    /// Rates a page that is known only by its address, for example from a sitemap.
    fn listed(&self) -> Score;

    /// Whether it prefers some links to others. If not, a random control sample would show
    /// nothing.
    fn prefers(&self) -> bool {
        true
    }

    /// The part that learns from clues, if this strategy learns. Links without clues are
    /// rated by their parts.
    fn learning(&self) -> Option<&dyn Learning> {
        None
    }
}

/// The strategy of a kind. Learning strategies share what was learned so far.
pub fn of(kind: StrategyKind, parameters: Parameters, learned: &Learned) -> Arc<dyn Strategy> {
    match kind {
        StrategyKind::Unfocused => Arc::new(unfocused::Unfocused),
        StrategyKind::Document => Arc::new(document::StrategyDocument { parameters }),
        StrategyKind::Link => Arc::new(link::StrategyLink { parameters }),
        StrategyKind::Learn => Arc::new(learn::Learn::new(parameters, learned.clone())),
    }
}

/// Whether strategies of a kind prefer some links to others ([`Strategy::prefers`]).
pub fn prefers(kind: StrategyKind) -> bool {
    of(kind, Parameters::default(), &Learned::default()).prefers()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::*;
    use crate::score::rating::tests::perplexities;

    const PARTS: LinkParts = LinkParts {
        document: 900.0,
        anchor: 100.0,
        keyword: 0.1,
    };

    fn made(kind: StrategyKind, parameters: Parameters) -> Arc<dyn Strategy> {
        of(kind, parameters, &Learned::default())
    }

    #[test]
    fn strategies_differ_as_named() {
        let target = PageUrl::parse("http://a.org/").unwrap();
        let rated = |kind| made(kind, Parameters::default()).link(&target, &PARTS);
        assert_eq!(rated(StrategyKind::Unfocused), (0.0, Some(Bucket::Normal)));
        assert_eq!(rated(StrategyKind::Document), (900.0, Some(Bucket::Medium)));
        let (score, bucket) = rated(StrategyKind::Link);
        assert!((score - 660.0 * 0.7).abs() < 1e-9);
        assert_eq!(bucket, Some(Bucket::High));
        // A link without clues.
        assert_eq!(rated(StrategyKind::Learn), (score, bucket));
        let document = made(StrategyKind::Document, Parameters::default());
        assert_eq!(document.image(1e9).1, None);
    }

    #[test]
    fn only_one_strategy_prefers_nothing_and_only_one_learns() {
        for &kind in StrategyKind::ALL {
            let strategy = made(kind, Parameters::default());
            assert_eq!(prefers(kind), kind != StrategyKind::Unfocused);
            let learns = strategy.learning().is_some();
            assert_eq!(learns, kind == StrategyKind::Learn);
        }
    }

    #[test]
    fn other_terms_and_other_strategies_have_other_digests() {
        let parameters = Parameters::default();
        let weights = Weights {
            gamma_anchor: 0.4,
            ..parameters.weights
        };
        let digests = [
            parameters.digest(StrategyKind::Link),
            parameters.digest(StrategyKind::Learn),
            Parameters {
                weights,
                ..parameters
            }
            .digest(StrategyKind::Link),
            Parameters {
                width: 0.3,
                ..parameters
            }
            .digest(StrategyKind::Link),
        ];
        assert_eq!(digests[0], Parameters::default().digest(StrategyKind::Link));
        assert!(digests[0] != digests[1] && digests[0] != digests[2]);
        assert_ne!(digests[0], digests[3]);
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn scores_are_finite_and_not_negative(
            document in perplexities(), anchor in perplexities(), keyword in 0.0..5.0,
            gamma_document in 0.0..10.0, gamma_anchor in 0.0..10.0, gamma_keyword in 0.0..10.0,
            anchor_threshold in perplexities(),
        ) {
            let weights = Weights { gamma_document, gamma_anchor, gamma_keyword, anchor_threshold };
            let parts = LinkParts { document, anchor, keyword };
            for &kind in StrategyKind::ALL {
                let strategy = made(kind, Parameters { weights, ..Parameters::default() });
                let target = PageUrl::parse("http://a.org/").unwrap();
                let (score, _) = strategy.link(&target, &parts);
                prop_assert!(score.is_finite() && score >= 0.0, "{}", score);
            }
        }
    }
}
