//! A small model that learns, while the crawl runs, which links lead to the topic.
//!
//! After every page it receives how far the page turned out to be on topic, and corrects
//! its prediction from the clues that led there: online relevance feedback (Chakrabarti,
//! Punera & Subramanyam 2002; Meusel, Mika & Blanco 2014). It is a logistic regression
//! whose steps shrink with what a weight has already learned (AdaGrad; Duchi, Hazan &
//! Singer 2011), over
//!
//! - *measures* of a link, which have initial weights: best-first crawling uses the page's
//!   own topic (Cho, Garcia-Molina & Page 1998), Shark-Search the words at the link
//!   (Hersovici et al. 1998), and a page that many pages of the topic link to is likely on
//!   topic (Chakrabarti, van den Berg & Dom 1999);
//! - *traits*, whose weights start at zero: words of anchor and address, the position on
//!   the page, the list on this very page, host and beginning of the path. They are hashed
//!   into a table of fixed size (Weinberger et al. 2009), so memory is bounded, and a
//!   source that no longer yields pages fades as its weight falls.
//!
//! A crawl of a few hundred pages has few examples, and a single step extracts little from each. So
//! with every new example some of the latest ones are replayed, drawn by a hash (experience replay;
//! Lin 1992).
//!
//! A poor page between two good ones costs its links only the weight of one measure among
//! several, so the crawl tunnels through it if nothing better is known (Diligenti et al.
//! 2000). Equal examples in equal order give equal models, on every machine.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::topicality::logistic;
use crate::page::{Clues, Part};
use crate::settings::Clue;

/// Slots of the table of traits.
const SLOTS: usize = 1 << 16;
/// Initial step sizes for the weights of traits and of measures.
const TRAIT_STEP: f64 = 0.2;
const MEASURE_STEP: f64 = 0.3;
/// How many of the latest examples are remembered, and how many of them are replayed with
/// each new one.
const REMEMBERED: usize = 512;
const REPEATED: u64 = 6;
/// How much less an example counts if the page is as likely on topic as off topic, compared with a
/// certain one.
const DOUBT: f64 = 0.8;
/// The number of certain examples at which what was learned weighs as much as the link score.
const EVIDENCE: f64 = 10.0;
/// Initial sums of squared gradients: the larger, the longer a weight stays near its
/// initial value.
const TRAIT_CALM: f32 = 1.0;
const MEASURE_CALM: f64 = 20.0;

/// The measures with their initial weights, in order.
const MEASURES: [(&str, f64); 11] = [
    ("bias", -1.5),
    ("page", 2.0),
    ("pages that link there", 2.0),
    ("pages on topic that link there", 3.0),
    ("pages off topic that link there", -3.0),
    ("anchor", 0.5),
    ("best word of the anchor", 0.5),
    ("address", 0.5),
    ("text around", 0.0),
    ("heading", 0.0),
    ("hops since a page on topic", 0.0),
];

type Measures = [f64; MEASURES.len()];

/// The model. See the module's documentation.
#[derive(Debug, Clone, PartialEq)]
pub struct Learner {
    examples: u64,
    /// How many of them were certain; doubtful examples count for less.
    evidence: f64,
    weights: Measures,
    squares: Measures,
    /// Weight and sum of squared gradients by slot. Empty until something is learned about a trait,
    /// which saves half a megabyte.
    traits: Vec<(f32, f32)>,
    /// The latest examples; example number `n` is at index `n` modulo [`REMEMBERED`].
    memory: Vec<Remembered>,
    /// Whether it uses the pages that link to a target, and the hops to it.
    heeds: [bool; 2],
}

/// An example as it was learned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Remembered {
    measures: Measures,
    traits: Box<[u32]>,
    reward: f64,
}

/// The stored form.
#[derive(Serialize, Deserialize)]
struct StoredLearner {
    examples: u64,
    weights: Vec<f64>,
    squares: Vec<f64>,
    /// Slot, weight and sum of those that differ from their initial values.
    traits: Vec<(u16, f32, f32)>,
}

impl Default for Learner {
    fn default() -> Self {
        Self {
            examples: 0,
            evidence: 0.0,
            weights: MEASURES.map(|(_, weight)| weight),
            squares: [MEASURE_CALM; MEASURES.len()],
            traits: Vec::new(),
            memory: Vec::new(),
            heeds: [true; 2],
        }
    }
}

impl Learner {
    /// Starts without anything learned, using only these clues.
    pub fn of(clues: &[Clue]) -> Self {
        Self {
            heeds: [Clue::Pages, Clue::Hops].map(|clue| clues.contains(&clue)),
            ..Self::default()
        }
    }

    /// The same model, using the same clues as `other`.
    #[must_use]
    pub fn heeding_as(self, other: &Self) -> Self {
        Self {
            heeds: other.heeds,
            ..self
        }
    }

    /// How many pages it has learned from.
    pub fn examples(&self) -> u64 {
        self.examples
    }

    /// The weight of its value relative to the rating without it, 0 to 1: nothing before
    /// the first example, half after ten certain ones.
    pub fn weight(&self) -> f64 {
        self.evidence / (self.evidence + EVIDENCE)
    }

    /// The log-odds that the target of a link with these clues is on topic.
    pub fn value(&self, clues: &Clues) -> f64 {
        self.sum(&self.measures(clues), &clues.traits)
    }

    /// The same for the best link alone, without the evidence of other pages. This selects
    /// the best of several links to one address.
    pub fn link_value(&self, clues: &Clues) -> f64 {
        let mut measures = self.measures(clues);
        for of_pages in &mut measures[2..5] {
            *of_pages = 0.0;
        }
        self.sum(&measures, &clues.traits)
    }

    /// Learns that these clues led to a page that is on topic to this degree, 0 to 1, and
    /// replays some of the latest examples.
    pub fn learn(&mut self, clues: &Clues, reward: f64) {
        let example = Remembered {
            measures: self.measures(clues),
            traits: clues.traits.as_slice().into(),
            reward: reward.clamp(0.0, 1.0),
        };
        if !self.step(&example) {
            return;
        }
        self.evidence += certainty(example.reward);
        let place = (self.examples % REMEMBERED as u64) as usize;
        match self.memory.get_mut(place) {
            Some(oldest) => *oldest = example,
            None => self.memory.push(example),
        }
        // Taken out, because a step changes the weights.
        let memory = std::mem::take(&mut self.memory);
        for turn in 0..REPEATED {
            let drawn = xxh3_64_with_seed(&self.examples.to_le_bytes(), turn);
            let again = (drawn % memory.len() as u64) as usize;
            if let Some(example) = memory.get(again) {
                self.step(example);
            }
        }
        self.memory = memory;
        self.examples += 1;
    }

    /// Corrects the weights by an example; false if nothing can be learned from it.
    fn step(&mut self, example: &Remembered) -> bool {
        let Remembered {
            measures,
            traits,
            reward,
        } = example;
        let doubt = 1.0 - certainty(*reward);
        let error = (reward - logistic(self.sum(measures, traits))) * (1.0 - DOUBT * doubt);
        if !error.is_finite() {
            return false;
        }
        for ((weight, square), x) in self.weights.iter_mut().zip(&mut self.squares).zip(measures) {
            let gradient = error * x;
            *square += gradient * gradient;
            *weight += MEASURE_STEP * gradient / square.sqrt();
        }
        if !traits.is_empty() {
            self.make_table();
        }
        for of_link in traits {
            if let Some((weight, square)) = self.traits.get_mut(slot(*of_link)) {
                *square += (error * error) as f32;
                *weight += (TRAIT_STEP * error / f64::from(*square).sqrt()) as f32;
            }
        }
        true
    }

    /// The parts of the value, in order; the last one sums up all traits, and its value is
    /// their number.
    pub fn parts(&self, clues: &Clues) -> Vec<Part> {
        let measures = self.measures(clues);
        let parts = MEASURES.iter().zip(self.weights).zip(measures);
        let parts = parts.map(|(((name, _), weight), value)| Part {
            name,
            value,
            adds: weight * value,
        });
        let traits = Part {
            name: "traits",
            value: clues.traits.len() as f64,
            adds: self.of_traits(&clues.traits),
        };
        parts.chain(std::iter::once(traits)).collect()
    }

    /// The state from which [`Learner::restore`] recreates the model.
    pub fn snapshot(&self) -> Vec<u8> {
        let traits = (0..=u16::MAX).zip(&self.traits);
        let stored = StoredLearner {
            examples: self.examples,
            weights: self.weights.to_vec(),
            squares: self.squares.to_vec(),
            traits: traits
                .filter(|(_, state)| **state != (0.0, TRAIT_CALM))
                .map(|(slot, (weight, square))| (slot, *weight, *square))
                .collect(),
        };
        // Numbers and lists of them can always be serialised.
        let of_weights = postcard::to_stdvec(&stored).unwrap_or_default();
        let remembered = postcard::to_extend(&self.memory, of_weights).unwrap_or_default();
        postcard::to_extend(&self.evidence, remembered).unwrap_or_default()
    }

    /// The model of a snapshot; `None` if it is of another version.
    pub fn restore(snapshot: &[u8]) -> Option<Self> {
        let (stored, memory) = postcard::take_from_bytes::<StoredLearner>(snapshot).ok()?;
        let (memory, evidence) = postcard::take_from_bytes::<Vec<Remembered>>(memory).ok()?;
        let evidence = postcard::from_bytes(evidence).ok()?;
        let remembers = usize::try_from(stored.examples).map_or(REMEMBERED, |n| n.min(REMEMBERED));
        if memory.len() != remembers {
            return None;
        }
        let mut learner = Self {
            memory,
            evidence,
            examples: stored.examples,
            weights: stored.weights.try_into().ok()?,
            squares: stored.squares.try_into().ok()?,
            ..Self::default()
        };
        if !stored.traits.is_empty() {
            learner.make_table();
        }
        for (slot, weight, square) in stored.traits {
            *learner.traits.get_mut(usize::from(slot))? = (weight, square);
        }
        let numbers = learner.weights.iter().chain(&learner.squares);
        let sound = learner.evidence.is_finite()
            && learner.evidence >= 0.0
            && numbers.copied().all(f64::is_finite)
            && learner
                .traits
                .iter()
                .all(|(w, s)| w.is_finite() && *s > 0.0);
        let remembered = learner.memory.iter();
        let remembered = remembered
            .flat_map(|m| m.measures.iter().chain([&m.reward]))
            .copied()
            .all(f64::is_finite);
        (sound && remembered).then_some(learner)
    }

    fn make_table(&mut self) {
        self.traits.resize(SLOTS, (0.0, TRAIT_CALM));
    }

    fn sum(&self, measures: &Measures, traits: &[u32]) -> f64 {
        let measured: f64 = self.weights.iter().zip(measures).map(|(w, x)| w * x).sum();
        measured + self.of_traits(traits)
    }

    fn measures(&self, clues: &Clues) -> Measures {
        let Clues {
            parent,
            words,
            good,
            bad,
            hops,
            ..
        } = clues;
        let [pages, far] = self.heeds.map(|heeds| if heeds { 1.0 } else { 0.0 });
        let (good, bad) = (f64::from(*good), f64::from(*bad));
        // Beyond these limits a contrast only shows that a word is rare.
        let of = |contrast: f32| f64::from(contrast).clamp(-2.0, 4.0);
        [
            1.0,
            f64::from(*parent) * pages,
            (good + 0.3) / (good + bad + 1.0) * pages,
            good.ln_1p() * pages,
            bad.ln_1p() * pages,
            of(words.anchor),
            of(words.best),
            of(words.address),
            of(words.near),
            of(words.heading),
            f64::from((*hops).min(3)) * far,
        ]
    }

    fn of_traits(&self, traits: &[u32]) -> f64 {
        let weights = traits.iter().filter_map(|t| self.traits.get(slot(*t)));
        weights.map(|(weight, _)| f64::from(*weight)).sum()
    }
}

/// How certain it is whether a page is on topic, 0 to 1.
fn certainty(reward: f64) -> f64 {
    (2.0 * reward - 1.0).abs()
}

fn slot(of_link: u32) -> usize {
    of_link as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::page::Words;

    fn clues(parent: f32, traits: &[u32]) -> Clues {
        let mut clues = Clues {
            parent,
            traits: traits.to_vec(),
            ..Clues::default()
        };
        clues.cite(f64::from(parent));
        clues
    }

    #[test]
    fn it_begins_with_what_others_found() {
        let learner = Learner::default();
        let value = |clues: &Clues| learner.value(clues);
        assert!(value(&clues(0.9, &[])) > value(&clues(0.1, &[])));
        let mut cited = clues(0.9, &[]);
        cited.cite(0.9);
        assert!(value(&cited) > value(&clues(0.9, &[])));
        let mut off = clues(0.9, &[]);
        off.cite(0.0);
        assert!(value(&off) < value(&clues(0.9, &[])));
        let mut spoken = clues(0.5, &[]);
        spoken.words = Words {
            anchor: 2.0,
            ..Words::default()
        };
        assert!(value(&spoken) > value(&clues(0.5, &[])));
    }

    #[test]
    fn traits_that_yield_rise_and_fade_when_they_stop() {
        let mut learner = Learner::default();
        let (menu, list) = (clues(0.5, &[1, 2]), clues(0.5, &[3, 4]));
        for _ in 0..30 {
            learner.learn(&list, 1.0);
            learner.learn(&menu, 0.0);
        }
        assert_eq!(learner.examples(), 60);
        let high = learner.value(&list);
        assert!(high > learner.value(&menu) + 1.0);
        for _ in 0..30 {
            learner.learn(&list, 0.0);
        }
        assert!(learner.value(&list) < high - 1.0);
    }

    #[test]
    fn it_weighs_the_more_the_more_certain_its_examples_were() {
        let mut learner = Learner::default();
        assert_eq!(learner.weight(), 0.0);
        let before = learner.value(&clues(0.5, &[1]));
        learner.learn(&clues(0.5, &[1]), 0.5);
        assert_eq!(learner.weight(), 0.0);
        let doubtful = (learner.value(&clues(0.5, &[1])) - before).abs();
        let mut sure = Learner::default();
        sure.learn(&clues(0.5, &[1]), 0.0);
        assert!(before - sure.value(&clues(0.5, &[1])) > 2.0 * doubtful);
        for _ in 1..10 {
            sure.learn(&clues(0.5, &[1]), 1.0);
        }
        assert!((sure.weight() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn its_parts_add_up() {
        let mut learner = Learner::default();
        let link = clues(0.7, &[5, 6]);
        learner.learn(&link, 1.0);
        let parts = learner.parts(&link);
        let sum: f64 = parts.iter().map(|part| part.adds).sum();
        assert!((sum - learner.value(&link)).abs() < 1e-12);
        assert_eq!(parts.last().unwrap().name, "traits");
    }

    #[test]
    fn what_is_no_snapshot_gives_no_model() {
        assert_eq!(Learner::restore(b""), None);
        assert_eq!(Learner::restore(b"nonsense that is long enough"), None);
        let broken = Learner {
            weights: [f64::NAN; 11],
            ..Learner::default()
        };
        assert_eq!(Learner::restore(&broken.snapshot()), None);
    }

    #[test]
    fn it_remembers_the_latest_examples_and_reads_no_part_of_a_snapshot() {
        let mut learner = Learner::default();
        for n in 0..600 {
            learner.learn(&clues(0.5, &[n]), 0.5);
        }
        assert_eq!(learner.memory.len(), REMEMBERED);
        let mut resumed = Learner::restore(&learner.snapshot()).unwrap();
        for model in [&mut learner, &mut resumed] {
            model.learn(&clues(0.9, &[1]), 1.0);
        }
        assert!(learner == resumed);
        let snapshot = learner.snapshot();
        // The evidence is in the last eight bytes.
        for part in [8, 9].map(|cut| &snapshot[..snapshot.len() - cut]) {
            assert_eq!(Learner::restore(part), None);
        }
        let forgetful = Learner {
            memory: Vec::new(),
            ..learner.clone()
        };
        let many = Learner {
            examples: 9,
            ..learner
        };
        for other in [forgetful, many] {
            assert_eq!(Learner::restore(&other.snapshot()), None);
        }
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn a_snapshot_goes_on_as_the_model_would_have(
            examples in proptest::collection::vec((0.0_f32..=1.0, proptest::collection::vec(any::<u32>(), 0..6), 0.0..=1.0), 0..40),
            cut in 0_usize..40,
        ) {
            let mut whole = Learner::default();
            let mut resumed = Learner::default();
            for (i, (parent, traits, reward)) in examples.iter().enumerate() {
                if i == cut {
                    resumed = Learner::restore(&resumed.snapshot()).unwrap();
                }
                whole.learn(&clues(*parent, traits), *reward);
                resumed.learn(&clues(*parent, traits), *reward);
            }
            prop_assert!(whole == resumed);
            let value = whole.value(&clues(0.5, &[1]));
            prop_assert!(value.is_finite());
        }
    }
}
