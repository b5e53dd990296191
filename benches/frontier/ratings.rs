//! Ratings of links: one that learns, and one that is applied at the end.

use std::sync::Arc;

use spoor::address::PageUrl;
use spoor::frontier::{NewTask, Rating};
use spoor::page::{Bucket, Clues, LinkParts, Words};
use spoor::settings::StrategyKind;
use spoor::topic::strategy::{self, Learned, Learning, Parameters, Score, Strategy};

/// Features of a link that others share.
const TRAITS: u64 = 16;

/// Half of the anchor's perplexity.
pub struct Halved;

impl Strategy for Halved {
    fn link(&self, _: &PageUrl, parts: &LinkParts) -> Score {
        let score = parts.anchor / 2.0;
        (score, Some(bucket(score)))
    }

    fn image(&self, document: f64) -> Score {
        (document, Some(bucket(document)))
    }

    fn listed(&self) -> Score {
        (0.0, Some(Bucket::Normal))
    }

    fn formula(&self, _: &PageUrl, _: &LinkParts) -> String {
        String::new()
    }
}

impl Rating for Halved {
    fn digest(&self) -> u64 {
        1
    }

    fn keywords(&self) -> u64 {
        1
    }

    fn keyword(&self, anchor: &str) -> f64 {
        anchor.len() as f64
    }
}

pub fn bucket(score: f64) -> Bucket {
    match score {
        s if s <= 600.0 => Bucket::High,
        s if s <= 2_000.0 => Bucket::Medium,
        s if s <= 10_000.0 => Bucket::Normal,
        _ => Bucket::Low,
    }
}

/// The strategy `learn`, with nothing learned yet.
pub struct Taught(Arc<dyn Strategy>);

impl Default for Taught {
    fn default() -> Self {
        let learned = Learned::default();
        let terms = Parameters::default();
        Self(strategy::of(StrategyKind::Learn, terms, &learned))
    }
}

impl Strategy for Taught {
    fn link(&self, target: &PageUrl, parts: &LinkParts) -> Score {
        self.0.link(target, parts)
    }

    fn image(&self, document: f64) -> Score {
        self.0.image(document)
    }

    fn listed(&self) -> Score {
        self.0.listed()
    }

    fn formula(&self, target: &PageUrl, parts: &LinkParts) -> String {
        self.0.formula(target, parts)
    }

    fn learning(&self) -> Option<&dyn Learning> {
        self.0.learning()
    }
}

impl Rating for Taught {
    fn digest(&self) -> u64 {
        2
    }

    fn keywords(&self) -> u64 {
        1
    }

    fn keyword(&self, _: &str) -> f64 {
        0.0
    }
}

/// To what degree page `n` is on topic, 0 to 1: one section in four is about it.
pub fn nearness(n: u64) -> f64 {
    let share = mixed(n) % 1_000;
    let mean = if (n % 97).is_multiple_of(4) { 0.6 } else { 0.1 };
    mean + 0.3 * share as f64 / 1_000.0
}

/// The same link with the features that a learning crawl rates it by; `n` is the number
/// of its page and `draw` a random number.
pub fn with_clues(link: NewTask, n: u64, draw: u64) -> NewTask {
    let section = n % 97;
    let traits = (0..TRAITS).map(|i| match i {
        0..12 => mixed(section * TRAITS + i) as u32,
        _ => mixed(draw ^ i) as u32,
    });
    let words = Words {
        anchor: (draw % 100) as f32 / 50.0 - 1.0,
        best: (draw % 70) as f32 / 50.0,
        ..Words::default()
    };
    let clues = Clues {
        words,
        traits: traits.collect(),
        ..Clues::default()
    };
    NewTask {
        clues: Some(clues),
        ..link
    }
}

fn mixed(n: u64) -> u64 {
    let n = (n ^ (n >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (n ^ (n >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 16
}
