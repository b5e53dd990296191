//! The entities of a list in the title and text of a document.

use std::sync::Arc;

use super::super::BuildError;
use super::super::annotations::Entitled;
use super::super::document::Document;
use super::super::plan::Entities;
use super::grammar::Taggers;
use super::{Local, Trace, Value};
use crate::corpus::entities::{Finder, Index, Lists};

/// What the step does.
pub(super) struct Names {
    finder: Entitled,
    least: u32,
}

impl Names {
    pub(super) fn of(step: &Entities) -> Result<Self, BuildError> {
        let mut lists = Lists::default();
        let index = Index::of_file(&step.list, &mut lists)?;
        for told in &lists.told {
            tracing::warn!("left out: {told}");
        }
        Ok(Self {
            finder: Entitled {
                finder: Finder::new(Arc::new(index), step.pronouns),
                taggers: step
                    .nouns
                    .then(|| Taggers::load(&step.taggers))
                    .transpose()?,
            },
            least: step.least,
        })
    }
}

impl Local for Names {
    fn apply(&self, document: &mut Document, trace: &mut Trace) {
        let found = self.finder.mentions(document);
        let mut names: Vec<String> = Vec::new();
        for mention in &found {
            if !names.contains(&mention.entity) {
                names.push(mention.entity.clone());
            }
        }
        document.entity_names = names;
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
