//! Finds the entities of a list in the title and text of a document.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::super::annotations::DocumentFinder;
use super::super::document::Document;
use super::super::plan::Entities;
use super::grammar::Taggers;
use super::{DocumentStep, Trace, Value};
use crate::entities::{Finder, Index, Lists};
use crate::tool_error::ToolError;

/// The step, prepared.
pub(super) struct EntityNames {
    finder: DocumentFinder,
    least: u32,
}

impl EntityNames {
    pub(super) fn of(step: &Entities) -> Result<Self, ToolError> {
        let mut lists = Lists::default();
        let index = Index::of_file(&step.list, &mut lists)?;
        for problem in &lists.problems {
            tracing::warn!("left out: {problem}");
        }
        Ok(Self {
            finder: DocumentFinder {
                finder: Finder::new(Arc::new(index), step.pronouns).whole_names(step.whole_names),
                taggers: step
                    .nouns
                    .then(|| Taggers::load(&step.taggers))
                    .transpose()?,
            },
            least: step.least,
        })
    }
}

impl DocumentStep for EntityNames {
    fn apply(&self, document: &mut Document, trace: &mut Trace) {
        let found = self.finder.mentions(document);
        let mut known = FxHashSet::default();
        let names = found.iter().map(|mention| &mention.entity);
        let names = names.filter(|name| known.insert(name.as_str()));
        document.entity_names = names.cloned().collect();
        // Texts and numbers always serialise.
        document.entities = serde_json::to_string(&found)
            .ok()
            .filter(|_| !found.is_empty());
        let count = Value::Number(found.len() as f64);
        let is_enough = found.len() >= self.least as usize;
        let bound = || format!("at least {}", self.least);
        trace.note("mentions", count, bound, is_enough);
    }
}
