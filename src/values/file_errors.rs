//! Problems in files that people write, reported all at once by file, line and key.

use std::fmt;

/// One problem in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// The file as the operator named it.
    pub file: String,
    /// Where in the file; `None` if the file could not be read at all.
    pub place: Option<FilePosition>,
    /// The full key, such as `politeness.min_delay`; empty if no key is concerned.
    pub key: String,
    /// What is wrong, and what is allowed.
    pub message: String,
}

/// A position in a text file, with both numbers counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FilePosition {
    /// Line.
    pub line: usize,
    /// Column, in characters.
    pub column: usize,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(FilePosition { line, column }) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)
    }
}

/// All problems, in the order of files and lines; never empty.
///
/// Displayed as one line per error and a last line with their number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileErrors {
    subject: String,
    errors: Vec<FileError>,
    /// Number of errors that were found but are not shown.
    more: usize,
}

impl FileErrors {
    /// The errors one by one.
    pub fn errors(&self) -> &[FileError] {
        &self.errors
    }

    /// The errors one by one, without the subject.
    pub fn into_errors(self) -> Vec<FileError> {
        self.errors
    }

    /// `subject` is what the final count refers to: a file's name, or a phrase such as "the rules".
    pub fn new(subject: &str, errors: Vec<FileError>) -> Self {
        Self {
            subject: subject.to_owned(),
            errors,
            more: 0,
        }
    }

    /// Adds the number of errors that were found but are not shown.
    pub fn and_more(self, more: usize) -> Self {
        Self { more, ..self }
    }

    /// The only problem of a file.
    pub fn of_file(file: &str, place: Option<FilePosition>, message: String) -> Self {
        let error = FileError {
            file: file.to_owned(),
            place,
            key: String::new(),
            message,
        };
        Self::new(file, vec![error])
    }
}

impl fmt::Display for FileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for error in &self.errors {
            writeln!(f, "{error}")?;
        }
        if self.more > 0 {
            writeln!(f, "and {} more, shown once these are fixed", self.more)?;
        }
        let count = self.errors.len() + self.more;
        let plural = if count == 1 { "" } else { "s" };
        write!(f, "{count} error{plural} in {}", self.subject)
    }
}

impl std::error::Error for FileErrors {}
