//! The keys of a table, and the problems with them.

use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::NOWHERE;
use crate::file_errors::{FileError, FilePosition};

/// Maximum number of reported problems in a file.
const MOST: usize = 100;

/// Problems of a file.
pub(super) struct Problems<'t> {
    text: &'t str,
    pub file: &'t Path,
    all: Vec<(Range<usize>, String, String)>,
}

impl<'t> Problems<'t> {
    pub fn new(text: &'t str, file: &'t Path) -> Self {
        Self {
            text,
            file,
            all: Vec::new(),
        }
    }

    /// Records a problem with `key` at bytes `span`.
    pub fn add(&mut self, span: Range<usize>, key: &str, message: String) {
        if self.all.len() < MOST {
            let key = key.chars().filter(|c| !c.is_control()).take(200).collect();
            let message = message.replace(['\n', '\r'], " ");
            self.all.push((span, key, message));
        }
    }

    /// The line of a byte, from 1.
    pub fn line(&self, at: usize) -> usize {
        let before = self.text.get(..at).unwrap_or_default();
        before.matches('\n').count() + 1
    }

    fn column(&self, at: usize) -> usize {
        let before = self.text.get(..at).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        line.chars().count() + 1
    }

    pub fn into_errors(mut self) -> Vec<FileError> {
        let mut all = std::mem::take(&mut self.all);
        all.sort_by_key(|(span, ..)| span.start);
        let errors = all.into_iter().map(|(span, key, message)| FileError {
            file: self.file.display().to_string(),
            place: Some(FilePosition {
                line: self.line(span.start),
                column: self.column(span.start),
            }),
            key,
            message,
        });
        errors.collect()
    }
}

/// A table whose keys are known.
pub(super) struct KeyTable<'v, 'p, 't> {
    table: &'v DeTable<'v>,
    span: Range<usize>,
    key: &'p str,
    pub problems: &'p mut Problems<'t>,
}

impl<'v, 'p, 't> KeyTable<'v, 'p, 't> {
    /// The table in `value`; reports unknown keys.
    pub fn new(
        value: &'v Spanned<DeValue<'v>>,
        key: &'p str,
        known: &[&str],
        problems: &'p mut Problems<'t>,
    ) -> Option<Self> {
        let DeValue::Table(table) = value.get_ref() else {
            problems.add(value.span(), key, "is not a table".to_owned());
            return None;
        };
        for name in table.keys() {
            let name_text: &str = name.get_ref();
            if known.contains(&name_text) {
                continue;
            }
            let near = known
                .iter()
                .find(|known| strsim::osa_distance(&shortened(name_text), known) <= 2);
            let message = match near {
                Some(near) => format!("unknown key; did you mean `{near}`?"),
                None => format!("unknown key; known are {}", known.join(", ")),
            };
            problems.add(name.span(), &format!("{key}.{name_text}"), message);
        }
        Some(Self {
            table,
            span: value.span(),
            key,
            problems,
        })
    }

    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    pub fn value(&self, key: &str) -> Option<&'v Spanned<DeValue<'v>>> {
        self.table.get(key)
    }

    /// Records a problem with a key of the table.
    pub fn wrong(&mut self, key: &str, message: String) {
        let span = self.value(key).map_or(self.span.clone(), Spanned::span);
        let span = if span == NOWHERE {
            self.span.clone()
        } else {
            span
        };
        self.problems
            .add(span, &format!("{}.{key}", self.key), message);
    }

    /// A non-empty text.
    pub fn text(&mut self, key: &str) -> Option<String> {
        let value = self.value(key)?;
        match value.get_ref() {
            DeValue::String(text) if !text.trim().is_empty() => Some(text.to_string()),
            DeValue::String(_) => {
                self.wrong(key, "is empty".to_owned());
                None
            }
            other => {
                let message = format!("is {} and not a text", article(other));
                self.wrong(key, message);
                None
            }
        }
    }

    /// A list of texts, each with its position.
    pub fn texts(&mut self, key: &str) -> Option<Vec<(Range<usize>, String)>> {
        let value = self.value(key)?;
        let items = match value.get_ref() {
            DeValue::Array(items) => items,
            _ => {
                let message = "is not a list of texts, such as [\"a\", \"b\"]".to_owned();
                self.wrong(key, message);
                return None;
            }
        };
        if items.is_empty() {
            self.wrong(key, "is empty".to_owned());
        }
        let mut texts = Vec::new();
        for item in items.iter() {
            match item.get_ref() {
                DeValue::String(text) => texts.push((item.span(), text.to_string())),
                other => {
                    let message = format!("{} is not a text", article(other));
                    let key = format!("{}.{key}", self.key);
                    self.problems.add(item.span(), &key, message);
                }
            }
        }
        Some(texts)
    }

    /// `true` or `false`; false if it is missing.
    pub fn flag(&mut self, key: &str) -> bool {
        match self.value(key).map(Spanned::get_ref) {
            None => false,
            Some(DeValue::Boolean(is)) => *is,
            Some(_) => {
                self.wrong(key, "is neither true nor false".to_owned());
                false
            }
        }
    }

    /// The full name of a key.
    pub fn full(&self, key: &str) -> String {
        format!("{}.{key}", self.key)
    }
}

/// The blocks of an array of tables.
pub(super) fn blocks<'v>(
    value: Option<&'v Spanned<DeValue<'v>>>,
    key: &str,
    problems: &mut Problems<'_>,
) -> Vec<&'v Spanned<DeValue<'v>>> {
    match value.map(|value| (value, value.get_ref())) {
        None => Vec::new(),
        Some((_, DeValue::Array(blocks))) => blocks.iter().collect(),
        Some((value, _)) => {
            problems.add(
                value.span(),
                key,
                format!("is not a list; write `[[{}]]`", plain(key)),
            );
            Vec::new()
        }
    }
}

/// `rule.news.field` as the header of its blocks.
fn plain(key: &str) -> String {
    let last = key.rsplit('.').next().unwrap_or_default();
    format!("rule.{last}")
}

/// A key, short enough for comparisons.
fn shortened(key: &str) -> String {
    key.chars().take(40).collect()
}

/// A kind of value with its article.
pub(super) fn article(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
