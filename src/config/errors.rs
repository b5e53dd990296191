//! Errors of a configuration file, reported all at once by line.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use spoor_settings::messages::{Cursor, MOST_SHOWN};

use crate::file_errors::{FileError, FileErrors, FilePosition};

/// The most syntax errors shown, one per line.
pub(super) const MOST_LINES: usize = 100;

/// The findings of the readers while they walk one file: problems, and the position of
/// each given key's value.
#[derive(Debug, Default)]
pub(super) struct Findings {
    problems: Vec<ConfigProblem>,
    places: BTreeMap<String, Range<usize>>,
    broken: BTreeSet<String>,
    /// Number of problems that were found but not kept.
    more: usize,
}

#[derive(Debug)]
struct ConfigProblem {
    span: Range<usize>,
    key: String,
    message: String,
}

impl Findings {
    /// Records that `key` is given, with its value at `span`.
    pub fn given(&mut self, key: &str, span: Range<usize>) {
        self.places.insert(key.to_owned(), span);
    }

    /// Where the value of `key` is, if the file gives it.
    pub fn place(&self, key: &str) -> Option<&Range<usize>> {
        self.places.get(key)
    }

    /// Whether there is a problem with `key`, so that its value cannot be used.
    pub fn is_broken(&self, key: &str) -> bool {
        self.broken.contains(key)
    }

    /// Records a problem at bytes `span` of the file.
    pub fn wrong(&mut self, span: Range<usize>, key: impl Into<String>, message: String) {
        if self.is_full() {
            return self.pass_over();
        }
        let key = key.into();
        self.broken.insert(key.clone());
        self.problems.push(ConfigProblem { span, key, message });
    }

    /// Whether further problems are only counted.
    pub fn is_full(&self) -> bool {
        self.problems.len() >= MOST_SHOWN
    }

    /// Counts a problem without keeping it.
    pub fn pass_over(&mut self) {
        self.more += 1;
    }

    /// Records a syntax error, which is shown before all others because they may follow
    /// from it.
    pub fn unreadable(&mut self, span: Range<usize>, key: String, message: String) {
        self.problems.push(ConfigProblem { span, key, message });
    }

    /// Removes the problems of `line` and of values that contain byte `at`.
    pub fn forget(&mut self, line: &Range<usize>, at: usize) {
        self.problems.retain(|problem| {
            let Range { start, end } = problem.span;
            !line.contains(&start) && !(start..=end).contains(&at)
        });
    }

    /// The position of each given section and key.
    pub fn places(&self, text: &str) -> BTreeMap<String, FilePosition> {
        let mut given: Vec<(&String, usize)> = self
            .places
            .iter()
            .map(|(k, span)| (k, span.start))
            .collect();
        given.sort_by_key(|(_, start)| *start);
        let mut cursor = Cursor::new(text);
        let places = given.into_iter();
        places
            .map(|(key, start)| (key.clone(), cursor.place(start)))
            .collect()
    }

    /// All problems as errors of the file `name`, or `None` if there are none.
    pub fn into_errors(mut self, text: &str, name: &str) -> Option<FileErrors> {
        if self.problems.is_empty() {
            return None;
        }
        self.problems.sort_by_key(|problem| problem.span.start);
        let mut cursor = Cursor::new(text);
        let mut errors = Vec::with_capacity(self.problems.len());
        for ConfigProblem { span, key, message } in self.problems {
            errors.push(FileError {
                file: name.to_owned(),
                place: Some(cursor.place(span.start)),
                key,
                message,
            });
        }
        Some(FileErrors::new(name, errors).and_more(self.more))
    }
}
