//! What can be wrong with a file, and how it is told: all at once, by line.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

/// One thing that is wrong with a configuration or seed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// The file as the operator named it.
    pub file: String,
    /// Where in the file; `None` where the file could not be read at all.
    pub place: Option<Place>,
    /// The full key, as `politeness.min_delay`; empty where no key is concerned.
    pub key: String,
    /// What is wrong, and what is allowed.
    pub message: String,
}

/// A position in a text file, both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Line.
    pub line: usize,
    /// Column, in characters.
    pub column: usize,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(Place { line, column }) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Everything that is wrong, in the order of files and lines; never empty.
///
/// Shown as a line for each error and a last line that counts them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigErrors {
    subject: String,
    errors: Vec<ConfigError>,
    /// Number of errors that were found but are not shown.
    more: usize,
}

/// Errors of a file that are shown at most, besides those of its syntax. Nobody mends more
/// than these at once, and to keep them all would only cost memory.
pub(super) const MOST_TOLD: usize = 100;

/// Syntax errors that are shown at most, one a line.
pub(super) const MOST_LINES: usize = 100;

impl ConfigErrors {
    /// The errors one by one.
    pub fn errors(&self) -> &[ConfigError] {
        &self.errors
    }

    /// `subject` is what the count speaks of, a file's name or "the seed files".
    pub fn new(subject: &str, errors: Vec<ConfigError>) -> Self {
        Self {
            subject: subject.to_owned(),
            errors,
            more: 0,
        }
    }

    pub(super) fn of_file(file: &str, place: Option<Place>, message: String) -> Self {
        let error = ConfigError {
            file: file.to_owned(),
            place,
            key: String::new(),
            message,
        };
        Self::new(file, vec![error])
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for error in &self.errors {
            writeln!(f, "{error}")?;
        }
        if self.more > 0 {
            writeln!(
                f,
                "and {} more, which are shown once these are mended",
                self.more
            )?;
        }
        let count = self.errors.len() + self.more;
        let plural = if count == 1 { "" } else { "s" };
        write!(f, "{count} error{plural} in {}", self.subject)
    }
}

impl std::error::Error for ConfigErrors {}

/// What the readers find while they walk one file: problems, and where each key
/// that is given has its value.
#[derive(Debug, Default)]
pub(super) struct Findings {
    problems: Vec<Problem>,
    places: BTreeMap<String, Range<usize>>,
    broken: BTreeSet<String>,
    /// Problems that were found and are not told.
    more: usize,
}

#[derive(Debug)]
struct Problem {
    span: Range<usize>,
    key: String,
    message: String,
}

impl Findings {
    /// Notes that `key` is given, with its value at `span`.
    pub fn given(&mut self, key: &str, span: Range<usize>) {
        self.places.insert(key.to_owned(), span);
    }

    /// Where the value of `key` stands, if the file gives it.
    pub fn place(&self, key: &str) -> Option<&Range<usize>> {
        self.places.get(key)
    }

    /// Whether something is wrong with `key`, so that its value means nothing.
    pub fn is_broken(&self, key: &str) -> bool {
        self.broken.contains(key)
    }

    /// Notes a problem at bytes `span` of the file.
    pub fn wrong(&mut self, span: Range<usize>, key: impl Into<String>, message: String) {
        if self.is_full() {
            return self.pass_over();
        }
        let key = key.into();
        self.broken.insert(key.clone());
        self.problems.push(Problem { span, key, message });
    }

    /// Whether what is found further is only counted.
    pub fn is_full(&self) -> bool {
        self.problems.len() >= MOST_TOLD
    }

    /// Counts a problem that is not told.
    pub fn pass_over(&mut self) {
        self.more += 1;
    }

    /// Notes an error of syntax, which is told before all others that may follow from it.
    pub fn unreadable(&mut self, span: Range<usize>, key: String, message: String) {
        self.problems.push(Problem { span, key, message });
    }

    /// Takes back what was said of `line` and of values that byte `at` lies in.
    pub fn forget(&mut self, line: &Range<usize>, at: usize) {
        self.problems.retain(|problem| {
            let Range { start, end } = problem.span;
            !line.contains(&start) && !(start..=end).contains(&at)
        });
    }

    /// Where each section and each key that is given stands.
    pub fn places(&self, text: &str) -> BTreeMap<String, Place> {
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

    /// Everything as errors of the file `name`, or `None` where nothing is wrong.
    pub fn into_errors(mut self, text: &str, name: &str) -> Option<ConfigErrors> {
        if self.problems.is_empty() {
            return None;
        }
        self.problems.sort_by_key(|problem| problem.span.start);
        let mut cursor = Cursor::new(text);
        let mut errors = Vec::with_capacity(self.problems.len());
        for Problem { span, key, message } in self.problems {
            errors.push(ConfigError {
                file: name.to_owned(),
                place: Some(cursor.place(span.start)),
                key,
                message,
            });
        }
        let more = self.more;
        Some(ConfigErrors {
            more,
            ..ConfigErrors::new(name, errors)
        })
    }
}

/// Counts lines and columns in one pass, for places that ascend.
struct Cursor<'t> {
    text: &'t str,
    at: usize,
    place: Place,
}

impl<'t> Cursor<'t> {
    fn new(text: &'t str) -> Self {
        let place = Place { line: 1, column: 1 };
        Self { text, at: 0, place }
    }

    fn place(&mut self, at: usize) -> Place {
        let passed = self.text.get(self.at..at).unwrap_or_default();
        for c in passed.chars() {
            match c {
                '\n' => {
                    self.place.line += 1;
                    self.place.column = 1;
                }
                // A byte order mark is no column.
                '\u{feff}' => {}
                _ => self.place.column += 1,
            }
        }
        self.at = at.max(self.at);
        self.place
    }
}

/// The place of byte `at` of a text that need not be UTF-8 as a whole, but up to
/// there.
pub(super) fn place_in_bytes(bytes: &[u8], at: usize) -> Place {
    let before = String::from_utf8_lossy(bytes.get(..at).unwrap_or(bytes));
    Cursor::new(&before).place(before.len())
}

/// The candidate that `word` was most probably meant to be, if one is near: a third of its
/// characters may differ, swapped neighbours counting once, or it goes on behind `word`.
pub(super) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let word = word.to_lowercase().replace('-', "_");
    // The distance costs length times length, and a key may be a whole page.
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

/// `text` on one line and not longer than a message bears.
pub(super) fn shown(text: &str) -> String {
    shown_up_to(text, 100)
}

/// The same for a whole sentence, which says at its end what to do.
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
    // Direction marks and the like would garble a terminal as controls do.
    if c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{feff}')
    {
        Box::new(c.escape_unicode())
    } else {
        Box::new(std::iter::once(c))
    }
}
