//! The fields that the job's rules found, next to the sentences of their pages: one line of
//! JSON per page in `sentences/fields.jsonl`.

use serde::Serialize;

use super::Row;
use super::output::{Form, Output};
use crate::page::TaskKind;
use crate::rules::FieldResult;
use crate::sanitize;

/// One line for each page on which a rule found fields, at each visit with a different text.
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
        // A visit with the same text writes nothing.
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
