//! How many documents each step received and left, and why the others were removed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The most rules that are counted by name; the media type of a response may be anything.
const RULES: usize = 200;

/// The figures of a step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepCount {
    /// Its kind, as in the plan.
    pub step: String,
    /// Documents that it received.
    pub read: u64,
    /// Documents that it left.
    pub left: u64,
    /// The number of documents removed by each of its rules.
    pub why: BTreeMap<String, u64>,
    /// The number of documents changed or marked by each of its rules and kept.
    pub marked: BTreeMap<String, u64>,
}

impl StepCount {
    /// The empty figures of a step of this kind.
    pub(super) fn of(step: &str) -> Self {
        Self {
            step: step.to_owned(),
            ..Self::default()
        }
    }

    /// Counts a document that stays.
    pub(super) fn stays(&mut self) {
        self.read += 1;
        self.left += 1;
    }

    /// Counts a document that a rule removes.
    pub(super) fn goes(&mut self, rule: &str) {
        self.read += 1;
        add(&mut self.why, rule, 1);
    }

    /// Counts a document that breaks a rule and stays.
    pub(super) fn mark(&mut self, rule: &str) {
        add(&mut self.marked, rule, 1);
    }

    /// Adds the figures of another part of the same step.
    pub(super) fn merge(&mut self, other: &Self) {
        self.read += other.read;
        self.left += other.left;
        for (rule, n) in &other.why {
            add(&mut self.why, rule, *n);
        }
        for (rule, n) in &other.marked {
            add(&mut self.marked, rule, *n);
        }
    }
}

fn add(counts: &mut BTreeMap<String, u64>, rule: &str, n: u64) {
    let is_new = !counts.contains_key(rule);
    let rule = if is_new && counts.len() >= RULES {
        "others"
    } else {
        rule
    };
    *counts.entry(rule.to_owned()).or_default() += n;
}
