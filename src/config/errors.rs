//! Errors of a configuration file, reported all at once by line.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::file_errors::{FileError, FileErrors, FilePosition};

/// The most errors shown for a file, besides those of its syntax. Nobody fixes more than
/// these at once, and keeping all of them would only cost memory.
pub(super) const MOST_TOLD: usize = 100;

/// The most syntax errors shown, one per line.
pub(super) const MOST_LINES: usize = 100;

/// The findings of the readers while they walk one file: problems, and the position of
/// each given key's value.
#[derive(Debug, Default)]
pub(super) struct Findings {
    problems: Vec<Problem>,
    places: BTreeMap<String, Range<usize>>,
    broken: BTreeSet<String>,
    /// Number of problems that were found but not kept.
    more: usize,
}

#[derive(Debug)]
struct Problem {
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
        self.problems.push(Problem { span, key, message });
    }

    /// Whether further problems are only counted.
    pub fn is_full(&self) -> bool {
        self.problems.len() >= MOST_TOLD
    }

    /// Counts a problem without keeping it.
    pub fn pass_over(&mut self) {
        self.more += 1;
    }

    /// Records a syntax error, which is shown before all others because they may follow
    /// from it.
    pub fn unreadable(&mut self, span: Range<usize>, key: String, message: String) {
        self.problems.push(Problem { span, key, message });
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
        for Problem { span, key, message } in self.problems {
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

/// Counts lines and columns in one pass, for ascending positions.
struct Cursor<'t> {
    text: &'t str,
    at: usize,
    place: FilePosition,
}

impl<'t> Cursor<'t> {
    fn new(text: &'t str) -> Self {
        let place = FilePosition { line: 1, column: 1 };
        Self { text, at: 0, place }
    }

    fn place(&mut self, at: usize) -> FilePosition {
        let passed = self.text.get(self.at..at).unwrap_or_default();
        for c in passed.chars() {
            match c {
                '\n' => {
                    self.place.line += 1;
                    self.place.column = 1;
                }
                // A byte order mark does not count as a column.
                '\u{feff}' => {}
                _ => self.place.column += 1,
            }
        }
        self.at = at.max(self.at);
        self.place
    }
}

/// The position of byte `at` in a text that is UTF-8 at least up to there.
pub(super) fn place_in_bytes(bytes: &[u8], at: usize) -> FilePosition {
    let before = String::from_utf8_lossy(bytes.get(..at).unwrap_or(bytes));
    Cursor::new(&before).place(before.len())
}

/// The candidate most similar to `word`, if one is close enough: a third of its characters
/// may differ, with swapped neighbours counting once, or it may start with `word`.
pub(super) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let word = word.to_lowercase().replace('-', "_");
    // The cost of the distance is the product of the lengths, and a key may be as long as
    // a page.
    if word.len() > 64 {
        return None;
    }
    let most = |candidate: &str| (candidate.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&word, candidate), candidate))
        .filter(|(distance, candidate)| {
            let goes_on = word.len() >= 3 && candidate.starts_with(&word);
            *distance <= most(candidate) || goes_on
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `text` on one line, shortened for a message.
pub(super) fn shown(text: &str) -> String {
    shown_up_to(text, 100)
}

/// The same for a whole sentence, whose advice at the end must be kept.
pub(super) fn shown_whole(text: &str) -> String {
    shown_up_to(text, 600)
}

fn shown_up_to(text: &str, longest: usize) -> String {
    let mut out: String = text.chars().take(longest).flat_map(escaped).collect();
    if text.chars().nth(longest).is_some() {
        out.push_str("...");
    }
    out
}

fn escaped(c: char) -> Box<dyn Iterator<Item = char>> {
    // Direction marks and similar characters garble a terminal as control characters do.
    if c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{feff}')
    {
        Box::new(c.escape_unicode())
    } else {
        Box::new(std::iter::once(c))
    }
}
