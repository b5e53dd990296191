//! How a learning crawl judges pages while it runs.
//!
//! The texts about a topic may be a few sentences, which show little about the position of its
//! pages. The crawl itself knows more: its seeds are about the topic, if they resemble its texts at
//! all, and the fetched pages show how much pages differ. So the judge of a crawl
//!
//! - *adopts* the words of the seeds' own pages, as if they were in the texts, if the
//!   seeds are clearly above neutral text;
//! - puts the *midpoint* of its curve between neutral text and the *level* of the topic,
//!   which is estimated from whole held-out documents and the seeds; if neither is
//!   available, a page far above neutral text is on topic;
//! - moves the midpoint and the width towards those of recently seen pages: if nearly all are
//!   similar, only outliers teach anything;
//! - compares a page with the nearest passages of the texts, if there are several;
//! - gives the language model a share of a quarter, if whole held-out documents show how
//!   to weigh it.
//!
//! All contrasts are measured in standard deviations above neutral text, so that they stay
//! comparable when further words are adopted.
//!
//! Pages that the crawl itself is sure of are not adopted. In the lab that made crawls with little
//! text drift: their first finds became the topic.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::contrast::{Adopted, Contrast, Measured};
use super::passages::Passages;
use super::topicality::{ABOVE_NEUTRAL, Lump, Topicality, logistic};
use crate::page::{Heard, Nearness, WordCounts};

/// The most seeds whose pages are used, the first to arrive.
pub const SEEDS: usize = 20;
/// How many of the latest pages are remembered.
pub const SEEN: usize = 512;
/// From this many pages on, they influence the midpoint.
const ENOUGH_SEEN: usize = 20;
/// The mean of the seeds, in deviations above neutral text, at which they count as being about
/// the topic: with up to [`SHORT`] tokens about it, and how much it grows with their logarithm. The
/// more text there is, the further any page of a similar kind is above neutral text. In the lab the
/// mean of seeds on topic was 2.2 and more with up to 1,500 tokens, 3.4 and more with up to 6,000,
/// 5.1 and more with 30,000 to 80,000. That of others was at most 1.1, 1.6 and 2.5.
const SEEDS_ON_TOPIC: f64 = 1.8;
const SEEDS_GROWTH: f64 = 0.4;
const SHORT: f64 = 1_200.0;
/// The deviations that a single such seed must reach for its words to be adopted.
const SEED_ADOPTED: f64 = 0.5;
/// From this many adopted seeds on, they define a level by comparison with each other.
const ENOUGH_SEEDS: usize = 3;
/// Crawled pages vary more than chosen texts: the level of the topic is that of held-out
/// documents, reduced to this share of its distance from neutral text.
const MET: f64 = 0.85;
/// The most seeds that held-out documents can count as.
const DOCUMENTS_WEIGH: f64 = 10.0;
/// The weight of the language model relative to the words, if it is used. In the lab 0.35
/// brought 2,590 pages instead of 2,500; 0.2 and 0.5 brought no more.
const MODEL_WEIGHS: f64 = 0.35;
/// The weight of the passages nearest to a page relative to its words, if there are enough of them.
const PASSAGES_WEIGH: f64 = 0.75;
/// By how much pages differ more by their words than by their passages, both in standard
/// deviations of neutral text: in the lab by 4.3 to 6.7 on four topics in six sizes.
const PASSAGES_SCATTER: f64 = 5.0;
/// The midpoint as a share of the way from neutral text to the level of the topic, and the
/// log-odds of a page at that level.
const MIDPOINT: f64 = 0.75;
const LIKE: f64 = 1.6;
/// The lowest level that is accepted.
const LEAST_LEVEL: f64 = 1.0;
/// The share of recent pages below the point to which the midpoint moves, and how far it
/// goes there. In the lab the mean differs little (off-topic seeds, two draws: 69.4,
/// 71.3 and 70.9 % of the oracle at 0.5, 0.65 and 0.75), but half of the way teaches the
/// neighbours of a topic with few pages, and all of the way costs topics with many pages up
/// to a sixth.
const SEEN_MIDPOINT: f64 = 0.4;
const SEEN_WEIGHS: f64 = 0.65;
/// The same if no level is known: the midpoint moves halfway there with [`ENOUGH_TOKENS`] tokens
/// about the topic, and three quarters of the way with [`MANY_TOKENS`]. With fewer, pages differ
/// mostly by chance.
const SEEN_MIDDLE: f64 = 0.5;
const ENOUGH_TOKENS: f64 = 600.0;
const MANY_TOKENS: f64 = 40_000.0;
/// The quantiles of recent pages that bound their scatter; half of that times the last value is
/// their width.
const SEEN_SCATTER: (f64, f64) = (0.15, 0.85);
const SEEN_WIDTH: f64 = 0.7;

/// The evidence of the seeds' pages about the crawl that starts from them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SeedsStand {
    /// How many were examined.
    pub seeds: usize,
    /// How many of them were adopted.
    pub adopted: usize,
    /// Their mean, in standard deviations above neutral text, by the given texts alone.
    pub mean: f64,
    /// The least mean with which seeds count as being about the topic.
    pub least: f64,
}

impl SeedsStand {
    /// Whether they are about the topic.
    pub fn are_on_topic(&self) -> bool {
        self.mean >= self.least
    }
}

/// The judge of one crawl. See the module's documentation.
#[derive(Debug, Clone)]
pub struct Judge {
    contrast: Arc<Contrast>,
    neutral: Lump,
    topic: Option<Lump>,
    /// The values of neutral documents and of those about the topic by the language model.
    by_model: Option<(f64, f64)>,
    /// The values of neutral documents by the passages nearest to them.
    of_passages: Option<Lump>,
    /// Mean and scatter of the words of neutral text by the given texts alone.
    given: (f64, f64),
    /// The same including what was adopted.
    now: (f64, f64),
    adopted: Arc<Adopted>,
    seeds: Vec<WordCounts>,
    stand: Option<SeedsStand>,
    /// The level of the adopted seeds, each measured by the words of all others.
    seeds_level: Option<f64>,
    /// The latest pages, and the number of all pages.
    seen: VecDeque<f64>,
    number: u64,
    /// Whether the warning about off-topic seeds was given.
    has_warned: bool,
}

impl Judge {
    /// A judge that has seen nothing yet; `None` if training could not measure neutral
    /// documents.
    pub fn new(contrast: Arc<Contrast>, topicality: &Topicality) -> Option<Self> {
        let given = contrast.of_neutral(&Adopted::default());
        Some(Self {
            contrast,
            neutral: topicality.neutral?,
            topic: topicality.topic,
            by_model: topicality
                .by_model
                .filter(|(neutral, topic)| topic > neutral),
            of_passages: topicality.of_passages,
            given,
            now: given,
            adopted: Arc::default(),
            seeds: Vec::new(),
            stand: None,
            seeds_level: None,
            seen: VecDeque::new(),
            number: 0,
            has_warned: false,
        })
    }

    /// The words that it counts as the topic's in addition to those of the given texts.
    pub fn adopted(&self) -> Arc<Adopted> {
        Arc::clone(&self.adopted)
    }

    /// A contrast as standard deviations above neutral text, with the words adopted so
    /// far.
    pub fn deviations(&self, contrast: f64) -> f64 {
        let scale = self.now.1 / self.given.1.max(1e-9);
        let mean = self.now.0 + (self.neutral.mean - self.given.0) * scale;
        (contrast - mean) / (self.neutral.deviation * scale).max(1e-9)
    }

    /// How far a page is above neutral text, in standard deviations of neutral text: by
    /// the contrast of its words, by the passages that are nearest to it, and by the language
    /// model if whole documents about the topic show how to weigh it.
    pub fn nearness(&self, page: &Measured) -> f64 {
        let by_model = page.by_model;
        let mut words = self.deviations(page.of_words);
        if let (Some(of_page), Some(neutral)) = (page.of_passages, self.of_passages) {
            let weight = PASSAGES_WEIGH * self.contrast.passages().map_or(0.0, Passages::weight);
            let passages = PASSAGES_SCATTER * (of_page - neutral.mean) / neutral.deviation;
            words = (words + weight * passages) / (1.0 + weight);
        }
        let (Some((neutral, topic)), Some(level)) = (self.by_model, self.documents_level()) else {
            return words;
        };
        let model = level * (by_model - neutral) / (topic - neutral);
        (words + MODEL_WEIGHS * model) / (1.0 + MODEL_WEIGHS)
    }

    /// The level of pages about the topic as estimated from held-out documents.
    fn documents_level(&self) -> Option<f64> {
        let topic = self.topic?;
        Some(MET * self.stands_by_given(topic.mean))
    }

    /// The deviations of a contrast by the given texts alone.
    fn stands_by_given(&self, contrast: f64) -> f64 {
        (contrast - self.neutral.mean) / self.neutral.deviation
    }

    /// Takes a page into account from now on: the words of a seed, for the first seeds, and the
    /// value of any other page. The result must be stored for [`Judge::restore`].
    pub fn hear(&mut self, nearness: &Nearness) -> Option<Heard> {
        match nearness {
            Nearness::Likely(_) => None,
            Nearness::Above {
                seed: Some(words), ..
            } => {
                let number = u16::try_from(self.seeds.len()).ok()?;
                if self.seeds.len() >= SEEDS || words.is_empty() {
                    return None;
                }
                self.seeds.push(words.clone());
                self.weigh_seeds();
                Some(heard(SEED_PLACES | number, words))
            }
            Nearness::Above { deviations, .. } => {
                let seen = SeenPage {
                    number: self.number,
                    deviations: *deviations,
                };
                deviations.is_finite().then(|| {
                    self.remember(seen);
                    heard((seen.number % SEEN as u64) as u16, &seen)
                })
            }
        }
    }

    /// The evidence of the seeds so far; `None` if there was none.
    pub fn seeds(&self) -> Option<SeedsStand> {
        self.stand
    }

    /// The evidence of the seeds if they look off topic, returned once: after three seeds,
    /// or at the first page after them.
    pub fn doubts_seeds(&mut self) -> Option<SeedsStand> {
        let enough = self.seeds.len() >= ENOUGH_SEEDS || self.number > 0;
        let doubt = self
            .stand
            .filter(|stand| enough && !self.has_warned && !stand.are_on_topic());
        self.has_warned |= doubt.is_some();
        doubt
    }

    fn weigh_seeds(&mut self) {
        let none = Adopted::default();
        let of_given = |words: &WordCounts| {
            let contrast = self.contrast.of_words(words, &none)?;
            Some(self.stands_by_given(contrast))
        };
        let stands: Vec<(f64, &WordCounts)> = self
            .seeds
            .iter()
            .filter_map(|words| Some((of_given(words)?, words)))
            .collect();
        let mean = stands.iter().map(|(at, _)| at).sum::<f64>() / stands.len().max(1) as f64;
        let mut adopted = Adopted::default();
        let tokens = self.contrast.tokens();
        let least = SEEDS_ON_TOPIC + SEEDS_GROWTH * (tokens / SHORT).max(1.0).ln();
        let taken: Vec<&WordCounts> = if mean >= least {
            stands
                .iter()
                .filter(|(at, _)| *at >= SEED_ADOPTED)
                .map(|(_, words)| *words)
                .collect()
        } else {
            Vec::new()
        };
        for words in &taken {
            adopted.add(words);
        }
        self.stand = (!stands.is_empty()).then_some(SeedsStand {
            seeds: self.seeds.len(),
            adopted: taken.len(),
            mean,
            least,
        });
        let now = self.contrast.of_neutral(&adopted);
        let alone: Vec<f64> = taken
            .iter()
            .filter_map(|words| self.contrast.of_words(words, &adopted.without(words)))
            .collect();
        self.now = now;
        self.adopted = Arc::new(adopted);
        self.seeds_level = match alone.len() {
            0 => None,
            n if n < ENOUGH_SEEDS => Some(mean),
            n => Some(alone.iter().map(|c| self.deviations(*c)).sum::<f64>() / n as f64),
        };
    }

    /// The level of pages about the topic, as estimated from held-out documents and seeds.
    pub fn level(&self) -> Option<f64> {
        let weight = |topic: Lump| (topic.documents as f64).min(DOCUMENTS_WEIGH);
        let documents = self.documents_level().zip(self.topic.map(weight));
        let adopted = self.stand.map_or(0, |stand| stand.adopted);
        let seeds = self.seeds_level.map(|level| (level, adopted as f64));
        let known = documents.into_iter().chain(seeds);
        let (sum, weight) = known.fold((0.0, 0.0), |(sum, all), (level, weight)| {
            (sum + level * weight, all + weight)
        });
        (weight > 0.0).then(|| (sum / weight).max(LEAST_LEVEL))
    }

    /// How far a page with these standard deviations above neutral text is on topic, 0 to
    /// 1, for learning.
    pub fn reward(&self, deviations: f64) -> f64 {
        let level = self.level();
        let (mut midpoint, mut width, below) = match level {
            Some(level) => (
                level * MIDPOINT,
                level * (1.0 - MIDPOINT) / LIKE,
                SEEN_MIDPOINT,
            ),
            None => (ABOVE_NEUTRAL, 1.0, SEEN_MIDDLE),
        };
        if let Some((of_seen, scatter)) = self.lately(below) {
            let (way, of_seen, scatter) = match level {
                Some(_) => (SEEN_WEIGHS, of_seen, scatter),
                // If no level is known, all crawled pages may be off topic, and must not
                // lower the bar.
                None => (self.way_up(), of_seen.max(midpoint), scatter.max(width)),
            };
            midpoint += way * (of_seen - midpoint);
            width += way * (scatter - width);
        }
        logistic((deviations - midpoint) / width.max(1e-6))
    }

    /// How far the midpoint rises towards recently seen pages if no level is known, 0 to 1.
    fn way_up(&self) -> f64 {
        let tokens = self.contrast.tokens();
        let more = (tokens - ENOUGH_TOKENS) / (MANY_TOKENS - ENOUGH_TOKENS);
        0.5 * (tokens / ENOUGH_TOKENS).min(1.0) + 0.25 * more.clamp(0.0, 1.0)
    }

    /// The value below which the share `below` of recent pages is, and their width.
    fn lately(&self, below: f64) -> Option<(f64, f64)> {
        if self.seen.len() < ENOUGH_SEEN {
            return None;
        }
        let mut seen = Vec::from_iter(self.seen.iter().copied());
        seen.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| {
            seen.get(((seen.len() - 1) as f64 * share) as usize)
                .copied()
        };
        let (low, high) = (at(SEEN_SCATTER.0)?, at(SEEN_SCATTER.1)?);
        Some((at(below)?, SEEN_WIDTH * (high - low) / 2.0))
    }

    fn remember(&mut self, page: SeenPage) {
        if self.seen.len() >= SEEN {
            self.seen.pop_front();
        }
        self.seen.push_back(page.deviations);
        self.number = page.number.saturating_add(1);
    }

    /// Restores the stored states of an earlier run, in any order; false if they are of
    /// another version.
    pub fn restore(&mut self, kept: impl Iterator<Item = Heard>) -> bool {
        let (mut seeds, mut seen) = (Vec::new(), Vec::new());
        for Heard { place, state } in kept {
            let is_sound = match place & SEED_PLACES {
                0 => postcard::from_bytes(&state).map(|page: SeenPage| seen.push(page)),
                _ => postcard::from_bytes(&state).map(|words| seeds.push((place, words))),
            };
            if is_sound.is_err() {
                return false;
            }
        }
        seeds.sort_unstable_by_key(|(place, _)| *place);
        seen.sort_unstable_by_key(|page| page.number);
        self.seeds = seeds.into_iter().map(|(_, words)| words).collect();
        self.seeds.truncate(SEEDS);
        self.weigh_seeds();
        self.seen.clear();
        for page in seen.into_iter().filter(|page| page.deviations.is_finite()) {
            self.remember(page);
        }
        true
    }
}

/// The first slot of seeds; pages have lower ones.
const SEED_PLACES: u16 = 1 << 15;

fn heard(place: u16, of: &impl Serialize) -> Heard {
    // Numbers and words can always be serialised.
    let state = postcard::to_stdvec(of).unwrap_or_default();
    Heard { place, state }
}

/// A remembered page.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct SeenPage {
    /// Its number, from 0.
    number: u64,
    /// Its contrast, in standard deviations above neutral text.
    deviations: f64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lm::normalise;
    use crate::score::{CountTable, PassageTable};

    const TOPIC: &str = "bees make honey in the hive and the queen of the hive lays eggs";
    const OTHER: &str = "the law of the land is made by the parliament of the state in a town";
    const SEED: &str = "a keeper smokes the hive so that the bees and the queen stay calm while the \
                        keeper takes honey and wax from the frames of the hive";

    fn contrast() -> Arc<Contrast> {
        contrast_of(1)
    }

    /// From this many repetitions of the same text.
    fn contrast_of(times: usize) -> Arc<Contrast> {
        let mut counts = CountTable::default();
        counts.add_positive(&vec![normalise(TOPIC); times]);
        counts.add_neutral(&vec![normalise(OTHER); 50 * times]);
        Arc::new(Contrast::new(&counts).unwrap())
    }

    fn judge(topic: Option<Lump>) -> Judge {
        judge_of(contrast(), topic)
    }

    fn judge_of(contrast: Arc<Contrast>, topic: Option<Lump>) -> Judge {
        let (mean, deviation) = contrast.of_neutral(&Adopted::default());
        let curve = Topicality {
            neutral: Lump::of(&[mean - deviation, mean + deviation, mean, mean]),
            topic,
            ..Topicality::of_perplexities(1.0, 2.0)
        };
        Judge::new(contrast, &curve).unwrap()
    }

    fn seed(text: &str) -> Nearness {
        let words = normalise(text);
        let above = Nearness::Above {
            deviations: 0.0,
            seed: None,
        };
        above.of_seed(words.as_str())
    }

    fn above(deviations: f64) -> Nearness {
        Nearness::Above {
            deviations,
            seed: None,
        }
    }

    #[test]
    fn what_lies_far_above_neutral_text_is_on_topic_where_no_level_is_known() {
        let judge = judge(None);
        assert_eq!(judge.level(), None);
        assert!(judge.reward(1.0) < 0.2 && judge.reward(5.0) > 0.8);
        let without = Topicality::of_perplexities(1.0, 2.0);
        assert!(Judge::new(contrast(), &without).is_none());
    }

    #[test]
    fn words_of_seeds_on_topic_are_adopted_and_those_of_others_are_not() {
        let mut judge = judge(None);
        let measure = |judge: &Judge| {
            let page = [normalise("the keeper smokes the frames")];
            let adopted = judge.adopted();
            let measured = contrast().document(&page, 50.0, &adopted, None).unwrap();
            judge.deviations(measured.of_words)
        };
        let before = measure(&judge);
        assert!(judge.hear(&seed(OTHER)).is_some());
        let stand = judge.seeds().unwrap();
        assert!(!stand.are_on_topic() && stand.adopted == 0, "{stand:?}");
        assert_eq!(judge.doubts_seeds(), None, "one seed is too few to tell");
        assert_eq!((measure(&judge), judge.level()), (before, None));
        // The more seeds there are, the less one that is off topic counts.
        for _ in 0..8 {
            judge.hear(&seed(SEED));
        }
        let stand = judge.seeds().unwrap();
        assert!(stand.are_on_topic(), "{stand:?}");
        assert_eq!((stand.seeds, stand.adopted), (9, 8));
        assert!(measure(&judge) > before + 1.0);
        assert!(judge.level().unwrap() > SEEDS_ON_TOPIC);
        for _ in 0..2 * SEEDS {
            judge.hear(&seed(SEED));
        }
        assert_eq!(judge.seeds().unwrap().seeds, SEEDS);
        assert_eq!(judge.hear(&seed(SEED)), None);
        assert_eq!(judge.doubts_seeds(), None);
    }

    #[test]
    fn seeds_that_are_off_topic_are_reported_once() {
        let mut judge = judge(None);
        judge.hear(&seed(OTHER));
        judge.hear(&above(0.5));
        assert_eq!(judge.doubts_seeds().unwrap().seeds, 1);
        judge.hear(&seed(OTHER));
        assert_eq!(judge.doubts_seeds(), None);
    }

    #[test]
    fn the_midpoint_moves_to_what_was_seen_lately() {
        let topic = Lump {
            mean: judge(None).neutral.mean + 10.0 * judge(None).neutral.deviation,
            deviation: 1.0,
            documents: 5,
        };
        let mut judge = judge(Some(topic));
        // 85 % of the way to the held-out documents, and the midpoint at 75 % of that.
        assert!((judge.level().unwrap() - 8.5).abs() < 1e-9);
        assert!((judge.reward(8.5 * 0.75) - 0.5).abs() < 1e-9);
        let before = judge.reward(6.0);
        for n in 0..20 {
            judge.hear(&above(f64::from(n % 5)));
        }
        assert!(judge.reward(6.0) > before + 0.2);
        for _ in 0..SEEN {
            judge.hear(&above(9.0));
        }
        assert!(judge.reward(6.0) < before);
        // If no level is known, poor pages do not lower it, and good ones raise it.
        let mut judge = super::tests::judge(None);
        let before = judge.reward(4.0);
        for _ in 0..SEEN {
            judge.hear(&above(0.0));
        }
        assert_eq!(judge.reward(4.0), before);
        for _ in 0..SEEN {
            judge.hear(&above(9.0));
        }
        // The few words of these texts allow that only slightly.
        let little = judge.reward(4.0);
        assert!(little < before && before > 0.7 && little > 0.5, "{little}");
        assert_eq!(judge.hear(&above(f64::NAN)), None);
        assert_eq!(judge.hear(&Nearness::Likely(0.9)), None);
    }

    #[test]
    fn with_more_text_more_is_asked_of_seeds_and_of_pages() {
        let judged = |times| {
            let mut judge = judge_of(contrast_of(times), None);
            judge.hear(&seed(OTHER));
            for _ in 0..SEEN {
                judge.hear(&above(9.0));
            }
            judge
        };
        let (little, much) = (judged(1), judged(4_000));
        let least = |judge: &Judge| judge.seeds().unwrap().least;
        assert_eq!(least(&little), SEEDS_ON_TOPIC);
        // 14 words 4,000 times.
        let expected = SEEDS_ON_TOPIC + SEEDS_GROWTH * (56_000.0 / SHORT).ln();
        assert!((least(&much) - expected).abs() < 1e-9);
        // Three quarters of the way from 3 to 9.
        assert!((much.reward(7.5) - 0.5).abs() < 1e-9);
        assert!(little.reward(7.5) > 0.9);
    }

    #[test]
    fn the_language_model_has_a_say_where_documents_show_what_it_is_worth() {
        let curve = |topic| Topicality {
            neutral: Lump::of(&[0.0, 1.0, 0.0, 1.0]),
            topic,
            by_model: Some((1.0, 3.0)),
            ..Topicality::of_perplexities(1.0, 2.0)
        };
        let topic = Lump {
            mean: 5.5,
            deviation: 1.0,
            documents: 5,
        };
        let of = |topic| Judge::new(contrast(), &curve(topic)).unwrap();
        let (alone, both) = (of(None), of(Some(topic)));
        let page = |by_model| page(by_model, None);
        assert_eq!(alone.nearness(&page(3.0)), alone.deviations(2.5));
        // The words give 4 deviations, the model the whole level of 8.5.
        let expected = (4.0 + 0.35 * 8.5) / 1.35;
        assert!((both.nearness(&page(3.0)) - expected).abs() < 1e-9);
        assert!(both.nearness(&page(1.0)) < 4.0);
    }

    /// A page whose words have the contrast 2.5.
    fn page(by_model: f64, of_passages: Option<f64>) -> Measured {
        Measured {
            counting: 0.0,
            of_words: 2.5,
            by_model,
            of_passages,
        }
    }

    #[test]
    fn the_nearest_passages_have_a_say_where_there_are_enough() {
        let curve = Topicality {
            neutral: Lump::of(&[0.0, 1.0, 0.0, 1.0]),
            of_passages: Lump::of(&[-0.1, 0.1, -0.1, 0.1]),
            ..Topicality::of_perplexities(1.0, 2.0)
        };
        let judge = |topic: usize| {
            let mut table = PassageTable::default();
            let document = |sentence: &str| vec![normalise(sentence); 10];
            for _ in 0..topic {
                table.add_positive(&document(TOPIC));
            }
            table.add_neutral(&document(OTHER));
            let contrast = Contrast::clone(&contrast()).with_passages(Passages::new(&table));
            Judge::new(Arc::new(contrast), &curve).unwrap()
        };
        let (few, many) = (judge(5), judge(40));
        // The words give 4 deviations, the passages 2, each of them counted fivefold.
        let near = page(3.0, Some(0.2));
        assert_eq!(few.nearness(&near), 4.0);
        let expected = (4.0 + PASSAGES_WEIGH * 5.0 * 2.0) / (1.0 + PASSAGES_WEIGH);
        assert!((many.nearness(&near) - expected).abs() < 1e-9);
        assert_eq!(many.nearness(&page(3.0, None)), 4.0);
    }

    #[test]
    fn what_was_kept_gives_the_same_judge_in_any_order() {
        let mut judge = judge(None);
        let mut kept = std::collections::BTreeMap::new();
        let pages = (0..SEEN as u32 + 30).map(|n| above(f64::from(n % 7)));
        for page in [SEED, OTHER, SEED, SEED].map(seed).into_iter().chain(pages) {
            let Heard { place, state } = judge.hear(&page).unwrap();
            kept.insert(place, state);
        }
        assert_eq!(kept.len(), SEEN + 4);
        let mut again = super::tests::judge(None);
        let records = kept.into_iter().rev();
        assert!(again.restore(records.map(|(place, state)| Heard { place, state })));
        for judge in [&mut judge, &mut again] {
            judge.hear(&above(6.5));
        }
        for deviations in [-1.0, 2.0, 3.5, 9.0] {
            assert_eq!(judge.reward(deviations), again.reward(deviations));
        }
        assert_eq!(
            (judge.seeds(), judge.level()),
            (again.seeds(), again.level())
        );
        let broken = Heard {
            place: SEED_PLACES,
            state: vec![9, 200],
        };
        assert!(!again.restore(std::iter::once(broken)));
    }
}
