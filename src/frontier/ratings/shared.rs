//! What a page teaches all machines of a cluster.

use serde::{Deserialize, Serialize};

use super::clues::Example;
use super::verdicts::Verdict;
use crate::page::Nearness;

/// The most hashed features of a link, and the most words of a page, that are accepted from another
/// machine.
const MOST_TRAITS: usize = 4_096;
const MOST_WORDS: usize = 8_192;

/// What a page teaches: input for the judge, and its link as an example.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SharedLesson {
    /// The input for the judge of pages.
    pub heard: Option<Nearness>,
    /// The value of the link to the page.
    pub example: Option<Example>,
    /// The value of the page, for the pages that link to it.
    pub verdict: Option<Verdict>,
}

impl SharedLesson {
    /// Whether it teaches nothing.
    pub fn is_empty(&self) -> bool {
        self.heard.is_none() && self.example.is_none() && self.verdict.is_none()
    }

    /// Whether a machine may have written it: all numbers are finite and all lists are short.
    pub fn is_sound(&self) -> bool {
        let heard = self.heard.as_ref().is_none_or(|heard| match heard {
            Nearness::Likely(likely) => (0.0..=1.0).contains(likely),
            Nearness::Above { deviations, seed } => {
                let words = seed.as_ref().map_or(0, |words| words.len());
                deviations.is_finite() && words <= MOST_WORDS
            }
        });
        let example = self.example.as_ref().is_none_or(|example| {
            let Example { clues, reward } = example;
            (0.0..=1.0).contains(reward)
                && clues.traits.len() <= MOST_TRAITS
                && clues.numbers().into_iter().all(f32::is_finite)
        });
        let verdict = self.verdict.is_none_or(|verdict| verdict.is_sound());
        heard && example && verdict
    }
}
