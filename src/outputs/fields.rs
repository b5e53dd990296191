//! The fields that the job's rules found, beside the sentences of their pages: a line of JSON
//! a page in `sentences/fields.jsonl`.

use serde::Serialize;

use super::Row;
use super::output::{Form, Output};
use crate::page::TaskKind;
use crate::rules::FieldResult;
use crate::sanitize;

/// One page on which a rule found fields per line, at each visit that brought another text.
pub(super) struct Fields;

/// The line of a page. Its row of the log has the same time and address, and the position of
/// its sentences.
#[derive(Serialize)]
struct FieldsLine<'a> {
    time: &'a str,
    kind: TaskKind,
    url: &'a str,
    rule: &'a str,
    fields: &'a [FieldResult],
}

impl Output for Fields {
    fn name(&self) -> &'static str {
        "fields"
    }

    fn form(&self) -> Form {
        Form::Lines("sentences/fields.jsonl")
    }

    fn is_optional(&self) -> bool {
        true
    }

    fn of_task(&self, task: &Row<'_>) -> Option<String> {
        let found = task.rules?;
        // At a visit that brought the same text, nothing is written again.
        if task.changed == Some(false) || found.fields.is_empty() {
            return None;
        }
        let line = FieldsLine {
            time: task.time,
            kind: task.kind,
            url: task.url,
            rule: found.rule.as_deref()?,
            fields: &found.fields,
        };
        let line = serde_json::to_string(&line).ok()?;
        Some(format!("{}\n", sanitize::json(&line)))
    }
}
