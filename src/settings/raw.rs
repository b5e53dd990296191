//! Values as a file gives them. What reads the file fills them in, so that settings know
//! no file format.

use std::borrow::Cow;
use std::ops::Range;

/// A value of a file with its place.
#[derive(Debug)]
pub struct FileValue<'t> {
    /// The value.
    pub raw: Raw<'t>,
    /// Its bytes in the file.
    pub span: Range<usize>,
}

/// What a file can give as a value.
#[derive(Debug)]
pub enum Raw<'t> {
    /// A text.
    Text(Cow<'t, str>),
    /// A whole number.
    Whole {
        /// The number; `None` beyond 128 bits.
        value: Option<i128>,
        /// As the file has it.
        written: String,
    },
    /// Any other number.
    Number {
        /// The number; `None` where it cannot be read.
        value: Option<f64>,
        /// As the file has it.
        written: String,
    },
    /// True or false.
    Truth(bool),
    /// A date or a time, as the file has it. No setting is one.
    Date(String),
    /// A list.
    List(Vec<FileValue<'t>>),
    /// A table.
    Table(Vec<FileEntry<'t>>),
}

/// A key of a table, and its value.
#[derive(Debug)]
pub struct FileEntry<'t> {
    /// The key.
    pub key: Cow<'t, str>,
    /// Its bytes in the file.
    pub span: Range<usize>,
    /// The value.
    pub value: FileValue<'t>,
}

impl FileValue<'_> {
    /// Its bytes in the file.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }
}
