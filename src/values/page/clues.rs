//! What a learning crawl knows about a link before fetching it.

use serde::{Deserialize, Serialize};

/// The features by which a learning crawl rates a link, over all pages that link to it.
///
/// Kept with the address until it is fetched; after that only [`Clues::reward`] stays.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Clues {
    /// How far the page with the best link was on topic, 0 to 1.
    pub parent: f32,
    /// How strongly the words of the best link indicate the topic.
    pub words: Words,
    /// Hashed features that the best link shares with others: the words of its anchor and
    /// address, its position on the page, its host and the beginning of its path.
    pub traits: Vec<u32>,
    /// Over all pages that link here, the sum of how far each was on topic.
    pub good: f32,
    /// Over all pages that link here, the sum of how far each was off topic.
    pub bad: f32,
    /// Links since the last page on topic, over the shortest known path.
    pub hops: u8,
    /// How far the page itself was on topic, 0 to 1; set once it is fetched.
    pub reward: Option<f32>,
}

/// One part of a link's value, for display.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The name of the feature.
    pub name: &'static str,
    /// Its value for this link.
    pub value: f64,
    /// What it adds to the log-odds of the page being on topic.
    pub adds: f64,
}

/// Mean contrasts of the words in and around a link: above 0 if they indicate the topic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Words {
    /// The anchor.
    pub anchor: f32,
    /// The highest contrast of a word in the anchor.
    pub best: f32,
    /// The path and the query of its address.
    pub address: f32,
    /// The text around it.
    pub near: f32,
    /// The heading above it.
    pub heading: f32,
}

impl Clues {
    /// The features that remain of a fetched page.
    pub fn fetched(reward: f64) -> Self {
        Self {
            reward: Some(reward as f32),
            ..Self::default()
        }
    }

    /// Combines the features of two links to the same address, this one being the better:
    /// the evidence of the linking pages adds up.
    #[must_use]
    pub fn with(self, other: &Self) -> Self {
        Self {
            good: self.good + other.good,
            bad: self.bad + other.bad,
            hops: self.hops.min(other.hops),
            ..self
        }
    }

    /// All its numbers, to be checked if it comes from another machine.
    pub fn numbers(&self) -> [f32; 9] {
        let words = self.words;
        [
            self.parent,
            self.good,
            self.bad,
            self.reward.unwrap_or_default(),
            words.anchor,
            words.best,
            words.address,
            words.near,
            words.heading,
        ]
    }

    /// Counts another page that links here, which was on topic to this degree (0 to 1).
    pub fn cite(&mut self, reward: f64) {
        self.good += reward as f32;
        self.bad += (1.0 - reward) as f32;
    }
}
