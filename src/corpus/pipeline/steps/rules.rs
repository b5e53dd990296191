//! Filters documents by what rules found on their pages. The rules themselves are applied when
//! pages are read, because they need the markup.

use std::sync::Arc;

use super::super::document::Document;
use super::super::plan::{ByRules, Need, Plan, Step};
use super::{DocumentStep, Trace, Value};
use crate::rules::{Applied, RuleSet};
use crate::tool_error::ToolError;

impl DocumentStep for ByRules {
    fn apply(&self, document: &mut Document, trace: &mut Trace) {
        if self.need == Need::Nothing {
            return;
        }
        let rule = Value::text(document.rule.as_deref());
        let matches = document.rule.is_some();
        if !trace.note("rule", rule, || "one that matches".to_owned(), matches) {
            return;
        }
        if self.need == Need::Required {
            let missing = document.fields_missing.join(", ");
            let value = Value::text(Some(missing.as_str()).filter(|text| !text.is_empty()));
            let is_whole = document.fields_missing.is_empty();
            trace.note("missing fields", value, || "none".to_owned(), is_whole);
        }
    }
}

/// The rules of a plan, if it has a step for them.
pub(in crate::pipeline) fn of_plan(plan: &Plan) -> Result<Option<Arc<RuleSet>>, ToolError> {
    let files = plan.steps.iter().find_map(|step| match step {
        Step::Rules(step) => Some(&step.files),
        _ => None,
    });
    match files {
        None => Ok(None),
        Some(files) => Ok(Some(Arc::new(RuleSet::read(files)?))),
    }
}

/// Records in a document what rules found on its page.
pub(in crate::pipeline) fn note(document: &mut Document, applied: &Applied) {
    document.rule = applied.rule.clone();
    document.fields_missing = applied.missing.clone();
    if !applied.fields.is_empty() {
        // Texts, numbers and lists always serialise.
        document.fields = serde_json::to_string(&applied.fields).ok();
    }
}
