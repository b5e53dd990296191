//! The steps that judge a document by itself. They are pure: the same document always gives
//! the same result.

mod c4;
mod consent;
mod entities;
pub(crate) mod grammar;
mod language;
mod mask;
pub(super) mod measures;
mod perplexity;
mod quality;
mod rules;
mod topic;

use std::fmt;

use serde::{Deserialize, Serialize};

pub(super) use self::grammar::synonyms_of;
use self::perplexity::Meter;
pub(super) use self::quality::measures_of;
pub(super) use self::rules::{note as note_rules, of_plan as rules_of};
use super::document::Document;
use super::plan::Step;
use crate::tool_error::ToolError;

/// A measured value.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// There is none.
    #[default]
    None,
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
}

impl Value {
    /// A text, if there is one.
    pub(super) fn text(text: Option<&str>) -> Self {
        text.map_or(Self::None, |text| Self::Text(text.to_owned()))
    }

    /// A number, if there is one.
    pub(super) fn number(number: Option<f64>) -> Self {
        number.map_or(Self::None, |number| Self::Number(rounded(number)))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Six decimals are enough.
pub(super) fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

/// A measurement of a document.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// The name of the rule.
    pub rule: String,
    /// The value.
    pub value: Value,
    /// The bound, in words.
    pub bound: String,
    /// Whether the document passes.
    pub stays: bool,
}

/// The rules of a step for one document. A normal build stops at the first rule that a
/// document breaks; an explanation continues.
#[derive(Debug, Default)]
pub(super) struct Trace {
    pub(super) measured: Vec<Measured>,
    /// Rules that changed or marked it.
    pub(super) marked: Vec<String>,
    is_whole: bool,
}

impl Trace {
    /// A trace that records all rules.
    pub(super) fn whole() -> Self {
        Self {
            is_whole: true,
            ..Self::default()
        }
    }

    /// Records a rule; returns whether to continue with the next.
    pub(super) fn note(
        &mut self,
        rule: &str,
        value: Value,
        bound: impl FnOnce() -> String,
        stays: bool,
    ) -> bool {
        if self.is_whole || !stays {
            self.measured.push(Measured {
                rule: rule.to_owned(),
                value,
                bound: bound(),
                stays,
            });
        }
        self.is_whole || stays
    }

    /// The rule that removes the document.
    pub(super) fn broken(&self) -> Option<&Measured> {
        self.measured.iter().find(|measured| !measured.stays)
    }
}

/// A step on one document.
pub(super) trait DocumentStep: Send + Sync {
    /// Changes or measures the document, and records each rule.
    fn apply(&self, document: &mut Document, trace: &mut Trace);

    /// Whether it only measures, and a comparing step decides and counts the documents that stay.
    fn is_half(&self) -> bool {
        false
    }

    /// Whether documents that break a rule stay.
    fn marks(&self) -> bool {
        false
    }
}

/// The work of a step on each document by itself; `None` if it only compares documents.
pub(super) fn local(step: &Step) -> Result<Option<Box<dyn DocumentStep>>, ToolError> {
    Ok(match step {
        // Pages are extracted where they are read.
        Step::Extract(_) | Step::Copies(_) | Step::Repeated(_) => None,
        Step::Language(step) => Some(Box::new(step.clone())),
        Step::Topic(step) => Some(Box::new(step.clone())),
        Step::Consent(step) => Some(Box::new(step.clone())),
        Step::Quality(step) => Some(Box::new(quality::Checks::of(step))),
        Step::Perplexity(step) => Some(Box::new(Meter::load(step)?)),
        Step::Rules(step) => Some(Box::new(step.clone())),
        Step::Mask(step) => Some(Box::new(mask::Masks::of(step))),
        Step::Grammar(step) => Some(Box::new(grammar::Analysis::of(step)?)),
        Step::Entities(step) => Some(Box::new(entities::EntityNames::of(step)?)),
    })
}
