//! The steps that compare documents with one another. They read all documents that a phase
//! has left, and then decide on each one, in any order and on any thread.

mod all;
mod buckets;
mod clusters;
mod copies;
mod records;
mod repeated;
mod sweep;
mod units;

pub use self::clusters::{COPIES, Cluster, Matched};

use super::document::Document;
use super::plan::{Copies, Perplexity, Repetition, Step};
use super::steps::Measured;
use super::store::PhaseStore;
use super::work::Workplace;
use crate::tool_error::ToolError;

/// The decision of a comparing step on a document.
pub(super) enum DocumentFate {
    Stays,
    /// It stays, although it breaks the rule of this name or was changed by it.
    Marked(&'static str),
    /// It is removed; the address is that of the document that it is a copy of.
    Goes(Measured, Option<String>),
}

/// Decides on documents by their number in the store.
pub(super) trait Decide: Sync {
    fn decide(&self, index: usize, document: &mut Document) -> DocumentFate;
}

/// A step that compares documents.
pub(super) enum Barrier {
    Buckets(Perplexity),
    Copies(Copies),
    Repeated(Repetition),
}

impl Barrier {
    /// The part of a step that compares documents, if it has one.
    pub(super) fn of(step: &Step) -> Option<Self> {
        match step {
            Step::Perplexity(step) if step.buckets.is_some() => Some(Self::Buckets(step.clone())),
            Step::Copies(step) => Some(Self::Copies(step.clone())),
            Step::Repeated(step) => Some(Self::Repeated(step.clone())),
            _ => None,
        }
    }

    /// Reads all documents of a store.
    pub(super) fn decider(
        &self,
        number: usize,
        store: &PhaseStore,
        place: &Workplace,
    ) -> Result<Box<dyn Decide>, ToolError> {
        Ok(match self {
            Self::Buckets(step) => Box::new(buckets::LanguageBounds::of(step, store)?),
            Self::Copies(step) => copies::decider(step, number, store, place)?,
            Self::Repeated(step) => Box::new(repeated::Repeated::of(step, number, store, place)?),
        })
    }
}
