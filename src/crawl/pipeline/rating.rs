//! The reader in force, which another one may replace while the crawl runs, and what it
//! tells the frontier of how links are rated.
//!
//! A body is read by the reader that is in force when it has arrived. What a page in work
//! brings was rated by the former one where that was replaced meanwhile; the frontier
//! rates it by the new one when it is added, so no score stays behind.

use std::sync::{Arc, PoisonError, RwLock};

use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::xxh3_64;

use super::work::Reader;
use crate::config::StrategySection;
use crate::crawl::frontier::{Learning, Rating, Score};
use crate::page::{Bucket, Clues, Heard, LinkParts, Nearness, Part};
use crate::topic::score::contrast::{SURE, logistic};
use crate::topic::score::{Contrast, Judge, Learner, Strategy, Topicality};

/// The reader in force. Clones share it.
#[derive(Clone)]
pub struct Reading(Arc<RwLock<Arc<Reader>>>);

impl From<Reader> for Reading {
    fn from(reader: Reader) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(reader))))
    }
}

impl Reading {
    /// The reader in force now.
    pub fn now(&self) -> Arc<Reader> {
        let reader = self.0.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&reader)
    }

    /// Puts another one in force. The frontier is to be told as well
    /// ([`Frontier::set_rating`](crate::crawl::frontier::Frontier::set_rating)), on the thread
    /// that owns it.
    pub fn replace(&self, reader: Arc<Reader>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = reader;
    }
}

/// What learns while the crawl runs, whatever reader is in force. Clones share it.
#[derive(Clone)]
pub struct Learned {
    model: Arc<RwLock<Learner>>,
    /// `None` where the model cannot tell the words of the topic from others.
    judge: Option<Arc<RwLock<Judge>>>,
    /// Whether it says in the log what a person should know.
    tells: bool,
    /// The share of fetches that explore.
    explore: f64,
    /// The seed of the draw.
    seed: u64,
    /// [`Learning::patience`].
    patience: f64,
}

impl Learned {
    /// Nothing learned yet, with what tells the words of the topic from others, where the
    /// model has that.
    pub fn new(section: &StrategySection, contrast: Option<&(Arc<Contrast>, Topicality)>) -> Self {
        let model = Arc::new(RwLock::new(Learner::of(&section.clues)));
        let judge = contrast.and_then(|(contrast, curve)| Judge::new(Arc::clone(contrast), curve));
        let judge = judge.map(|judge| Arc::new(RwLock::new(judge)));
        Self::with(model, judge, section)
    }

    /// The same, which says nothing in the log.
    #[must_use]
    pub fn silent(self) -> Self {
        Self {
            tells: false,
            ..self
        }
    }

    /// The judge of pages, which all clones share.
    pub fn judge(&self) -> Option<Arc<RwLock<Judge>>> {
        self.judge.clone()
    }

    /// The same model, which explores and waits otherwise.
    #[must_use]
    pub fn changed(&self, section: &StrategySection) -> Self {
        Self {
            tells: self.tells,
            ..Self::with(Arc::clone(&self.model), self.judge.clone(), section)
        }
    }

    fn with(
        model: Arc<RwLock<Learner>>,
        judge: Option<Arc<RwLock<Judge>>>,
        section: &StrategySection,
    ) -> Self {
        let StrategySection {
            explore,
            seed,
            patience,
            ..
        } = *section;
        Self {
            model,
            judge,
            tells: true,
            explore,
            seed,
            patience,
        }
    }

    fn read<T>(&self, ask: impl FnOnce(&Learner) -> T) -> T {
        ask(&self.model.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Digits of a score that count: those beyond say nothing, and links would change their
/// place in the queue for no use.
const DIGITS: f64 = 1e3;
/// The most that the formula says for or against a link, as log-odds.
const MOST_ODDS: f64 = 8.0;

impl Learning for Reader {
    /// The perplexity at which a page is on topic with the same odds: on the boundary
    /// `medium` with even ones, and on `high` with 95 %.
    fn rate(&self, clues: &Clues, link: Option<&LinkParts>) -> Score {
        let (learned, weight) = match &self.learned {
            Some(learned) => learned.read(|learner| (learner.value(clues), learner.weight())),
            None => (0.0, 0.0),
        };
        let odds = match link {
            Some(link) => weight * learned + (1.0 - weight) * self.odds_of_formula(link),
            None => learned,
        };
        let score = self.boundaries.medium * (-self.width() * odds).exp();
        let unit = 10_f64.powf(score.log10().floor()) / DIGITS;
        let score = ((score / unit).round() * unit).clamp(0.0, f64::MAX);
        (score, self.boundaries.bucket(score))
    }

    fn chance(&self, score: f64) -> f64 {
        logistic((self.boundaries.medium / score).ln() / self.width())
    }

    fn patience(&self) -> f64 {
        let learned = self.learned.as_ref();
        learned.map_or(0.0, |learned| learned.patience)
    }

    fn link_value(&self, clues: &Clues) -> f64 {
        let learned = self.learned.as_ref();
        learned.map_or(0.0, |learned| learned.read(|l| l.link_value(clues)))
    }

    fn judge(&self, nearness: &Nearness) -> f64 {
        let judge = self.learned.as_ref().and_then(|l| l.judge.as_ref());
        match (nearness, judge) {
            (Nearness::Above { deviations, .. }, Some(judge)) => {
                let judge = judge.read().unwrap_or_else(PoisonError::into_inner);
                judge.reward(*deviations)
            }
            (Nearness::Likely(likely), _) => *likely,
            // Only a judge measures how far a page lies above neutral text.
            (Nearness::Above { .. }, None) => 0.0,
        }
    }

    fn hear(&self, nearness: &Nearness) -> Option<Heard> {
        let learned = self.learned.as_ref()?;
        let judge = learned.judge.as_ref()?;
        let mut judge = judge.write().unwrap_or_else(PoisonError::into_inner);
        let heard = judge.hear(nearness)?;
        if let Some(stand) = judge.doubts_seeds().filter(|_| learned.tells) {
            tracing::warn!(
                seeds = stand.seeds,
                deviations = (stand.mean * 10.0).round() / 10.0,
                "the seeds do not read like the texts about the topic (seeds on topic lie 1.8 and \
                 more deviations above neutral text), so the crawl goes by the texts alone; look \
                 at one with `spoor score --url`, and choose other seeds or name more texts in \
                 train.positive"
            );
        }
        Some(heard)
    }

    fn restore_judge(&self, kept: Vec<Heard>) -> bool {
        let judge = self.learned.as_ref().and_then(|l| l.judge.as_ref());
        let Some(judge) = judge else {
            return true;
        };
        let mut judge = judge.write().unwrap_or_else(PoisonError::into_inner);
        judge.restore(kept.into_iter())
    }

    fn learn(&self, clues: &Clues, reward: f64) {
        if let Some(learned) = &self.learned {
            let mut learner = learned
                .model
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            learner.learn(clues, reward);
        }
    }

    fn examples(&self) -> u64 {
        let learned = self.learned.as_ref();
        learned.map_or(0, |learned| learned.read(Learner::examples))
    }

    fn snapshot(&self) -> Vec<u8> {
        let learned = self.learned.as_ref();
        learned.map_or_else(Vec::new, |learned| learned.read(Learner::snapshot))
    }

    fn restore(&self, snapshot: &[u8]) -> bool {
        let (Some(learned), Some(learner)) = (&self.learned, Learner::restore(snapshot)) else {
            return false;
        };
        let mut model = learned
            .model
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *model = learner.heeding_as(&model);
        true
    }

    fn explores(&self, fetch: u64) -> Option<u64> {
        let learned = self.learned.as_ref()?;
        let (number, share) = drawn(learned.seed, fetch);
        (share < learned.explore).then_some(number)
    }

    fn weight(&self) -> f64 {
        let learned = self.learned.as_ref();
        learned.map_or(0.0, |learned| learned.read(Learner::weight))
    }

    fn parts(&self, clues: &Clues, link: Option<&LinkParts>) -> Vec<Part> {
        let Some(learned) = &self.learned else {
            return Vec::new();
        };
        let mut parts = learned.read(|learner| learner.parts(clues));
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

impl Reader {
    /// What the formula of the strategy `link` says of a link, as log-odds of being on topic.
    fn odds_of_formula(&self, link: &LinkParts) -> f64 {
        let score = self.scorer.link(link).max(1.0);
        let odds = (self.boundaries.medium / score).ln() / self.width();
        odds.clamp(-MOST_ODDS, MOST_ODDS)
    }

    /// How much the logarithm of a score falls where the log-odds rise by 1.
    fn width(&self) -> f64 {
        let (high, medium) = (self.boundaries.high, self.boundaries.medium);
        ((medium / high).ln() / SURE).max(0.02)
    }
}

impl Rating for Reader {
    fn learning(&self) -> Option<&dyn Learning> {
        self.learned.is_some().then_some(self)
    }

    fn digest(&self) -> u64 {
        let (strategy, weights) = (self.scorer.strategy(), self.scorer.weights());
        // Numbers are written in the shortest form that gives them back.
        let text = format!("{} {weights:?} {:?}", strategy.name(), self.boundaries);
        let hash = Sha256::digest(text);
        let first = hash.iter().take(8);
        first.fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    }

    fn keywords(&self) -> u64 {
        self.scorer.keywords_digest()
    }

    fn link(&self, parts: &LinkParts) -> Score {
        let score = self.scorer.link(parts);
        let strategy = self.scorer.strategy();
        (score, strategy.bucket(score, &self.boundaries))
    }

    /// An image takes the perplexity of its page.
    fn image(&self, document: f64) -> Score {
        let strategy = self.scorer.strategy();
        let score = match strategy {
            Strategy::Unfocused => 0.0,
            Strategy::Document | Strategy::Link | Strategy::Learn => document,
        };
        (score, strategy.bucket(score, &self.boundaries))
    }

    /// It goes behind every link of the class `normal` that was rated.
    fn listed(&self) -> Score {
        let score = match self.scorer.strategy() {
            Strategy::Unfocused => 0.0,
            Strategy::Document | Strategy::Link | Strategy::Learn => self.boundaries.normal,
        };
        (score, Some(Bucket::Normal))
    }

    fn keyword(&self, anchor: &str) -> f64 {
        self.scorer.anchor_keyword(anchor)
    }

    fn formula(&self, parts: &LinkParts) -> String {
        let scorer = &self.scorer;
        scorer.strategy().formula(parts, scorer.weights())
    }
}

/// A number drawn for the fetch of this number, the same for the same seed, and a share
/// of 0 to 1 that is as likely anywhere.
fn drawn(seed: u64, fetch: u64) -> (u64, f64) {
    let bytes = [seed.to_le_bytes(), fetch.to_le_bytes()].concat();
    let number = xxh3_64(&bytes);
    (
        number.rotate_left(32),
        (number >> 11) as f64 / (1_u64 << 53) as f64,
    )
}
