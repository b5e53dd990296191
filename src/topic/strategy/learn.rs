//! Online relevance feedback: links are rated by what the crawl has learned about which
//! links lead to the topic ([`Learner`]). It starts from the link score, and learned
//! evidence gains weight as it grows.
//!
//! The learner gives log-odds of a page being on topic, while scores are on the scale of
//! perplexities: even odds are mapped to the boundary `medium`, and 95 % to `high`.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use xxhash_rust::xxh3::xxh3_64;

use super::link::StrategyLink;
use super::{Learning, Parameters, Score, Strategy};
use crate::address::PageUrl;
use crate::page::{Clues, Heard, LinkParts, Nearness, Part};
use crate::score::topicality::{SURE, logistic};
use crate::score::{Contrast, Judge, Learner, Topicality};
use crate::settings::StrategySection;

/// Significant digits of a score: further ones carry no information, and would reorder the
/// queue for nothing.
const DIGITS: f64 = 1e3;
/// The log-odds of the link score, for or against a link, beyond which only their logarithm
/// counts. So a score far beyond the boundaries keeps its place in the order, and evidence
/// can still outweigh it.
const PLAIN_ODDS: f64 = 8.0;
/// The minimum log-odds width of a score, as a share of the width of the measured curve. With
/// little text the boundaries may be close together by chance, and nearly every score would then be
/// certain. On four topics with 10 to 300 lines of text and the built-in neutral words, from
/// off-topic seeds, a share of one half found 50.3 % of what an oracle finds, zero 48.0 %, and one
/// 50.4 % but a third less in the worst case.
const CURVE_SHARE: f64 = 0.5;
/// The log-odds against a link below which it is never above the cutoff (`razor`). Little text has
/// a wide curve and a cutoff near the other boundaries: with ten lines about Linux and the built-in
/// neutral words, links with log-odds of -0.24 were above it, and of twelve crawls of 500 fetches
/// two had nothing left after 46 and 166.
const RAZOR_ODDS: f64 = 8.0;
/// The minimum width if no curve was measured.
const LEAST_WIDTH: f64 = 0.02;

/// What one crawl has learned. Clones share it, so that another strategy or other weights
/// continue with it.
#[derive(Clone, Default)]
pub struct Learned {
    model: Arc<RwLock<Learner>>,
    /// The basis of the judge; `None` if the model cannot separate the words of the topic
    /// from others.
    contrast: Option<(Arc<Contrast>, Topicality)>,
    /// Created when the first learning strategy needs it, because that visits every word.
    judge: Arc<OnceLock<Option<Arc<RwLock<Judge>>>>>,
    /// Whether it does not log warnings.
    silent: bool,
    /// The share of fetches that explore.
    explore: f64,
    /// The seed of the random draws.
    seed: u64,
    /// [`Learning::patience`].
    patience: f64,
}

impl Learned {
    /// Starts without anything learned. `contrast` separates the words of the topic from
    /// others, if the model can.
    pub fn new(section: &StrategySection, contrast: Option<&(Arc<Contrast>, Topicality)>) -> Self {
        Self {
            model: Arc::new(RwLock::new(Learner::of(&section.clues))),
            contrast: contrast.cloned(),
            ..Self::default().changed(section)
        }
    }

    /// The same, but without warnings in the log.
    #[must_use]
    pub fn silent(self) -> Self {
        Self {
            silent: true,
            ..self
        }
    }

    /// The same, with the exploration and patience of this section.
    #[must_use]
    pub fn changed(&self, section: &StrategySection) -> Self {
        Self {
            explore: section.explore,
            seed: section.seed,
            patience: section.patience,
            ..self.clone()
        }
    }

    /// The judge of pages, which all clones share.
    pub fn judge(&self) -> Option<Arc<RwLock<Judge>>> {
        let make = || {
            let (contrast, curve) = self.contrast.as_ref()?;
            let judge = Judge::new(Arc::clone(contrast), curve)?;
            Some(Arc::new(RwLock::new(judge)))
        };
        self.judge.get_or_init(make).clone()
    }

    fn read<T>(&self, ask: impl FnOnce(&Learner) -> T) -> T {
        ask(&self.model.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, change: impl FnOnce(&mut Learner) -> T) -> T {
        change(&mut self.model.write().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(super) struct Learn {
    link: StrategyLink,
    learned: Learned,
    /// How much the logarithm of a score falls when the log-odds rise by 1.
    width: f64,
    /// The same for log-odds against a link: so small that only links with hardly a chance are
    /// above the cutoff.
    width_against: f64,
}

impl Learn {
    pub fn new(parameters: Parameters, learned: Learned) -> Self {
        let Parameters {
            boundaries, width, ..
        } = parameters;
        let of_boundaries = (boundaries.medium / boundaries.high).ln() / SURE;
        let width = of_boundaries.max(width * CURVE_SHARE).max(LEAST_WIDTH);
        let to_razor = (boundaries.razor / boundaries.medium).ln() / RAZOR_ODDS;
        Self {
            link: StrategyLink { parameters },
            learned,
            width,
            width_against: width.min(to_razor),
        }
    }

    /// The link score as log-odds of being on topic.
    fn odds_of_formula(&self, link: &LinkParts) -> f64 {
        let (score, _) = self.link.rate(link);
        let odds = (self.link.parameters.boundaries.medium / score.max(1.0)).ln() / self.width;
        let beyond = (odds.abs() - PLAIN_ODDS).max(0.0);
        (odds.abs().min(PLAIN_ODDS) + beyond.ln_1p()).copysign(odds)
    }

    /// The log-odds of a link according to the learned model and to its link score, each with its
    /// weight.
    fn odds(&self, of_learner: impl FnOnce(&Learner) -> f64, link: Option<&LinkParts>) -> f64 {
        let (learned, weight) = self.learned.read(|l| (of_learner(l), l.weight()));
        match link {
            Some(link) => weight * learned + (1.0 - weight) * self.odds_of_formula(link),
            None => learned,
        }
    }

    /// The score of a link with these log-odds.
    fn score(&self, odds: f64) -> Score {
        let boundaries = self.link.parameters.boundaries;
        let score = boundaries.medium * (-self.width_on_side_of(odds) * odds).exp();
        let unit = 10_f64.powf(score.log10().floor()) / DIGITS;
        let score = ((score / unit).round() * unit).clamp(0.0, f64::MAX);
        (score, boundaries.bucket(score))
    }

    /// The width for log-odds of this sign.
    fn width_on_side_of(&self, odds: f64) -> f64 {
        if odds < 0.0 {
            self.width_against
        } else {
            self.width
        }
    }
}

/// A link without clues is rated by the link score.
impl Strategy for Learn {
    fn link(&self, target: &PageUrl, parts: &LinkParts) -> Score {
        self.link.link(target, parts)
    }

    fn formula(&self, target: &PageUrl, parts: &LinkParts) -> String {
        self.link.formula(target, parts)
    }

    fn image(&self, document: f64) -> Score {
        self.link.image(document)
    }

    fn listed(&self) -> Score {
        self.link.listed()
    }

    fn learning(&self) -> Option<&dyn Learning> {
        Some(self)
    }
}

impl Learning for Learn {
    fn rate(&self, clues: &Clues, link: Option<&LinkParts>) -> Score {
        self.score(self.odds(|learner| learner.value(clues), link))
    }

    fn chance(&self, score: f64) -> f64 {
        let better = (self.link.parameters.boundaries.medium / score).ln();
        logistic(better / self.width_on_side_of(better))
    }

    fn patience(&self) -> f64 {
        self.learned.patience
    }

    fn link_value(&self, clues: &Clues, link: Option<&LinkParts>) -> f64 {
        self.odds(|learner| learner.link_value(clues), link)
    }

    fn judge(&self, nearness: &Nearness) -> f64 {
        match (nearness, self.learned.judge()) {
            (Nearness::Above { deviations, .. }, Some(judge)) => {
                let judge = judge.read().unwrap_or_else(PoisonError::into_inner);
                judge.reward(*deviations)
            }
            (Nearness::Likely(likely), _) => *likely,
            // Only a judge can measure how far a page is above neutral text.
            (Nearness::Above { .. }, None) => 0.0,
        }
    }

    fn hear(&self, nearness: &Nearness) -> Option<Heard> {
        let judge = self.learned.judge()?;
        let mut judge = judge.write().unwrap_or_else(PoisonError::into_inner);
        let heard = judge.hear(nearness)?;
        if let Some(stand) = judge.doubts_seeds().filter(|_| !self.learned.silent) {
            tracing::warn!(
                seeds = stand.seeds,
                deviations = (stand.mean * 10.0).round() / 10.0,
                least = (stand.least * 10.0).round() / 10.0,
                "the seeds do not read like the texts about the topic, so the crawl goes by the texts \
                 alone: on average they lie `deviations` above neutral text, and seeds on topic \
                 `least` or more; look at one with `spoor score --url`, and choose other seeds or \
                 name more texts in train.positive"
            );
        }
        Some(heard)
    }

    fn restore_judge(&self, kept: Vec<Heard>) -> bool {
        let Some(judge) = self.learned.judge() else {
            return true;
        };
        let mut judge = judge.write().unwrap_or_else(PoisonError::into_inner);
        judge.restore(kept.into_iter())
    }

    fn learn(&self, clues: &Clues, reward: f64) {
        self.learned.write(|learner| learner.learn(clues, reward));
    }

    fn examples(&self) -> u64 {
        self.learned.read(Learner::examples)
    }

    fn snapshot(&self) -> Vec<u8> {
        self.learned.read(Learner::snapshot)
    }

    fn restore(&self, snapshot: &[u8]) -> bool {
        let Some(restored) = Learner::restore(snapshot) else {
            return false;
        };
        self.learned
            .write(|learner| *learner = restored.heeding_as(learner));
        true
    }

    fn explores(&self, fetch: u64) -> Option<u64> {
        let (number, share) = drawn(self.learned.seed, fetch);
        (share < self.learned.explore).then_some(number)
    }

    fn weight(&self) -> f64 {
        self.learned.read(Learner::weight)
    }

    fn parts(&self, clues: &Clues, link: Option<&LinkParts>) -> Vec<Part> {
        let mut parts = self.learned.read(|learner| learner.parts(clues));
        let Some(link) = link else {
            return parts;
        };
        let (weight, value) = (Learning::weight(self), self.odds_of_formula(link));
        for part in &mut parts {
            part.adds *= weight;
        }
        let formula = Part {
            name: "formula",
            value,
            adds: (1.0 - weight) * value,
        };
        parts.insert(0, formula);
        parts
    }
}

/// A number drawn for the fetch `fetch`, the same for equal seeds, and a uniform share
/// from 0 to 1.
fn drawn(seed: u64, fetch: u64) -> (u64, f64) {
    let bytes = [seed.to_le_bytes(), fetch.to_le_bytes()].concat();
    let number = xxh3_64(&bytes);
    (
        number.rotate_left(32),
        (number >> 11) as f64 / (1_u64 << 53) as f64,
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert, proptest};

    use super::*;
    use crate::score::Boundaries;
    use crate::score::rating::tests::perplexities;

    #[test]
    fn a_link_begins_in_the_order_of_the_formula_and_becomes_the_learners() {
        let learn = Learn::new(Parameters::default(), Learned::default());
        let link = LinkParts {
            document: 700.0,
            anchor: 700.0,
            keyword: 0.0,
        };
        let (clues, boundaries) = (Clues::default(), Boundaries::default());
        let odds = |score: f64| (boundaries.medium / score).ln();
        let (before, _) = learn.rate(&clues, Some(&link));
        assert!((before / 700.0 - 1.0).abs() < 0.01, "{before}");
        let parts = learn.parts(&clues, Some(&link));
        assert_eq!((parts[0].name, learn.weight()), ("formula", 0.0));
        assert!(parts[1..].iter().all(|part| part.adds == 0.0));
        for _ in 0..1_000 {
            learn.learn(&clues, 1.0);
        }
        let (after, _) = learn.rate(&clues, Some(&link));
        assert!(after < before && learn.weight() > 0.98);
        // The sum of the parts gives the score.
        let parts = learn.parts(&clues, Some(&link));
        let sum: f64 = parts.iter().map(|part| part.adds).sum();
        let one = odds(learn.rate(&clues, Some(&link)).0) / sum;
        let learned_alone = odds(learn.rate(&clues, None).0);
        let of_parts: f64 = parts[1..].iter().map(|part| part.adds).sum();
        let weight = learn.weight();
        assert!((one * of_parts / weight / learned_alone - 1.0).abs() < 0.01);
    }

    /// With little text, a score twice as good can be 30 boundary widths away.
    fn of_narrow_boundaries(width: f64) -> Learn {
        let boundaries = Boundaries {
            high: 290.0,
            medium: 300.0,
            ..Boundaries::default()
        };
        let parameters = Parameters {
            boundaries,
            width,
            ..Parameters::default()
        };
        Learn::new(parameters, Learned::default())
    }

    #[test]
    fn links_far_beyond_the_boundaries_keep_their_order() {
        let learn = of_narrow_boundaries(0.0);
        let scores = [10.0, 40.0, 150.0, 240.0, 300.0, 400.0, 600.0, 2_000.0, 1e5];
        let rated = scores.map(|document| {
            let link = LinkParts {
                document,
                anchor: document,
                keyword: 0.0,
            };
            learn.rate(&Clues::default(), Some(&link)).0
        });
        assert!(rated.is_sorted_by(|a, b| a < b), "{rated:?}");
    }

    #[test]
    fn only_links_with_hardly_a_chance_lie_above_the_cutoff() {
        // As measured in training for ten lines of text.
        let boundaries = Boundaries {
            high: 199.0,
            medium: 199.0,
            normal: 219.0,
            razor: 656.0,
        };
        let parameters = |width| Parameters {
            boundaries,
            width,
            ..Parameters::default()
        };
        for width in [0.0, 0.4, 10.0] {
            let learn = Learn::new(parameters(width), Learned::default());
            for odds in [-7.9, -2.0, -0.24, 0.0, 2.0, 7.9] {
                let (score, bucket) = learn.score(odds);
                assert!(bucket.is_some(), "{width} {odds}: {score}");
                assert!((learn.chance(score) - logistic(odds)).abs() < 0.01);
            }
        }
        let learn = Learn::new(parameters(10.0), Learned::default());
        assert_eq!(learn.score(-8.1).1, None);
    }

    #[test]
    fn a_score_is_no_surer_than_half_the_measured_curve() {
        // Twice as good a score: certain by the boundaries alone, 3.5 widths away by the curve.
        let chance = |width| of_narrow_boundaries(width).chance(150.0);
        assert!(chance(0.0) > 0.999_999);
        assert!((chance(0.4) - logistic(2.0_f64.ln() / 0.2)).abs() < 1e-9);
        // If the boundaries are far apart they decide alone.
        let far = |width| {
            Learn::new(
                Parameters {
                    width,
                    ..Parameters::default()
                },
                Learned::default(),
            )
        };
        assert_eq!(far(0.0).chance(150.0), far(0.4).chance(150.0));
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn without_evidence_the_order_is_that_of_the_formula(
            [document, other] in [perplexities(), perplexities()],
            [anchor, other_anchor] in [perplexities(), perplexities()],
            [keyword, other_keyword] in [0.0..1.0_f64, 0.0..1.0_f64],
            [parent, other_parent] in [0.0..1.0_f32, 0.0..1.0_f32],
            width in 0.0..2.0,
        ) {
            let one = LinkParts { document, anchor, keyword };
            let two = LinkParts { document: other, anchor: other_anchor, keyword: other_keyword };
            let clues = |parent| Clues { parent, ..Clues::default() };
            let learn = of_narrow_boundaries(width);
            let [plain, other_plain] = [one, two].map(|link| learn.link.rate(&link).0);
            let [(score, _), (other_score, _)] =
                [(one, parent), (two, other_parent)].map(|(l, p)| learn.rate(&clues(p), Some(&l)));
            let [value, other_value] = [(one, parent), (two, other_parent)]
                .map(|(link, parent)| learn.link_value(&clues(parent), Some(&link)));
            if plain < other_plain {
                prop_assert!(score <= other_score, "{} {}", score, other_score);
                prop_assert!(value >= other_value, "{} {}", value, other_value);
            }
        }
    }
}
