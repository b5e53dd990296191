//! A rating that learns, for tests.

use std::sync::Mutex;

use crate::Rating;
use crate::address::PageUrl;
use crate::page::{Bucket, Clues, Heard, LinkParts, Nearness, Part};
use crate::topic::strategy::{self, Learning, Score};

/// Links are better the more on-topic pages link to them, minus the losses at links with the same
/// features.
#[derive(Default)]
pub struct Taught {
    examples: Mutex<Vec<(Clues, f64)>>,
    heard: Mutex<Vec<Heard>>,
    patience: f64,
    /// A rating of another version rates stored links again.
    version: u64,
}

/// Links with this feature are poor from the start.
pub const POOR: u32 = 99;

impl Taught {
    /// A rating whose stored ratings are of another version.
    pub fn of_version(version: u64) -> Self {
        Self {
            version,
            ..Self::default()
        }
    }

    /// A rating that waits this long for better hosts.
    pub fn patient(patience: f64) -> Self {
        Self {
            patience,
            ..Self::default()
        }
    }

    /// The examples it has learned.
    pub fn examples_so_far(&self) -> Vec<(Clues, f64)> {
        self.examples.lock().unwrap().clone()
    }

    /// What its judge has received.
    pub fn heard_so_far(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }

    /// The rewards of the examples, to two decimals.
    pub fn rewards(&self) -> Vec<f64> {
        let rounded = |r: f64| (r * 100.0).round() / 100.0;
        let examples = self.examples_so_far().into_iter();
        examples.map(|(_, reward)| rounded(reward)).collect()
    }
}

impl Learning for Taught {
    fn rate(&self, clues: &Clues, _: Option<&LinkParts>) -> Score {
        let examples = self.examples_so_far();
        let similar = examples.iter().filter(|(c, _)| c.traits == clues.traits);
        let lost: f64 = similar.map(|(_, reward)| 1.0 - reward).sum();
        let poor = if clues.traits == [POOR] { 400.0 } else { 0.0 };
        let score = 500.0 - 100.0 * f64::from(clues.good) + 50.0 * lost + poor;
        (score, Some(Bucket::High))
    }

    fn link_value(&self, clues: &Clues, link: Option<&LinkParts>) -> f64 {
        f64::from(clues.parent) + link.map_or(0.0, |parts| parts.keyword)
    }

    fn learn(&self, clues: &Clues, reward: f64) {
        self.examples.lock().unwrap().push((clues.clone(), reward));
    }

    fn examples(&self) -> u64 {
        self.examples.lock().unwrap().len() as u64
    }

    fn snapshot(&self) -> Vec<u8> {
        postcard::to_stdvec(&self.examples_so_far()).unwrap()
    }

    fn restore(&self, snapshot: &[u8]) -> bool {
        *self.examples.lock().unwrap() = postcard::from_bytes(snapshot).unwrap();
        true
    }

    fn explores(&self, _: u64) -> Option<u64> {
        None
    }

    fn chance(&self, score: f64) -> f64 {
        (1.0 - score / 1_000.0).clamp(0.0, 1.0)
    }

    fn patience(&self) -> f64 {
        self.patience
    }

    fn weight(&self) -> f64 {
        1.0
    }

    fn judge(&self, nearness: &Nearness) -> f64 {
        match nearness {
            Nearness::Likely(likely) => *likely,
            Nearness::Above { deviations, .. } => *deviations,
        }
    }

    fn hear(&self, nearness: &Nearness) -> Option<Heard> {
        let mut heard = self.heard.lock().unwrap();
        let place = u16::try_from(heard.len()).unwrap();
        let state = postcard::to_stdvec(&self.judge(nearness)).unwrap();
        heard.push(Heard { place, state });
        heard.last().cloned()
    }

    fn restore_judge(&self, heard: Vec<Heard>) -> bool {
        *self.heard.lock().unwrap() = heard;
        true
    }

    fn parts(&self, _: &Clues, _: Option<&LinkParts>) -> Vec<Part> {
        Vec::new()
    }
}

impl strategy::Strategy for Taught {
    fn link(&self, _: &PageUrl, _: &LinkParts) -> Score {
        (600.0, Some(Bucket::High))
    }

    fn image(&self, document: f64) -> Score {
        (document, Some(Bucket::High))
    }

    fn listed(&self) -> Score {
        (600.0, Some(Bucket::Normal))
    }

    fn formula(&self, _: &PageUrl, _: &LinkParts) -> String {
        String::new()
    }

    fn learning(&self) -> Option<&dyn Learning> {
        Some(self)
    }
}

impl Rating for Taught {
    fn digest(&self) -> u64 {
        1 + self.version
    }

    fn keywords(&self) -> u64 {
        1
    }

    fn keyword(&self, _: &str) -> f64 {
        0.0
    }
}
