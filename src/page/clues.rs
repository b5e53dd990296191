//! What a learning crawl knows of a link before it is fetched.

use serde::{Deserialize, Serialize};

/// What a link is rated by in a crawl that learns, of all pages that lead to it.
///
/// Kept with the address until it is fetched; of what was fetched only
/// [`Clues::reward`] stays.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Clues {
    /// How far the page that the best link stands on was on topic, 0 to 1.
    pub parent: f32,
    /// How far these words of the best link speak for the topic, each the mean
    /// contrast of the words in it.
    pub words: Words,
    /// What the best link has in common with others, each as a number: the words of its
    /// anchor and address, its place on the page, its host and the beginning of its path.
    pub traits: Vec<u32>,
    /// Over the pages that lead here, the sum of how far each was on topic.
    pub good: f32,
    /// The same of how far each was not.
    pub bad: f32,
    /// Links since the last page on topic, over the shortest of the ways here.
    pub hops: u8,
    /// How far the page itself was on topic, 0 to 1, once it was fetched.
    pub reward: Option<f32>,
}

/// What a link's value is made of, for people.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// What is measured.
    pub name: &'static str,
    /// Its value at this link.
    pub value: f64,
    /// What it adds to the log-odds of the page being on topic.
    pub adds: f64,
}

/// Mean contrasts of the words at a link: above 0 where they speak for the topic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Words {
    /// Of its anchor.
    pub anchor: f32,
    /// The highest of its anchor.
    pub best: f32,
    /// Of the path and the query of its address.
    pub address: f32,
    /// Of the text around it.
    pub near: f32,
    /// Of the heading above it.
    pub heading: f32,
}

impl Clues {
    /// The clues of what is known of a page that was fetched.
    pub fn fetched(reward: f64) -> Self {
        Self {
            reward: Some(reward as f32),
            ..Self::default()
        }
    }

    /// The clues of two links to the same address, where this one is the better: what
    /// the pages that lead there say adds up.
    #[must_use]
    pub fn with(self, other: &Self) -> Self {
        Self {
            good: self.good + other.good,
            bad: self.bad + other.bad,
            hops: self.hops.min(other.hops),
            ..self
        }
    }

    /// Counts another page that leads here, which was on topic so far (0 to 1).
    pub fn cite(&mut self, reward: f64) {
        self.good += reward as f32;
        self.bad += (1.0 - reward) as f32;
    }
}
