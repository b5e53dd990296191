//! Values as they are in a file. The reader of a file format fills them in, so that settings know
//! no file format.

use std::borrow::Cow;
use std::ops::Range;

/// A value with its position in a file.
#[derive(Debug)]
pub struct FileValue<'t> {
    /// The value.
    pub raw: Raw<'t>,
    /// Its bytes in the file.
    pub span: Range<usize>,
}

/// The types of values that a file can contain.
#[derive(Debug)]
pub enum Raw<'t> {
    /// A text.
    Text(Cow<'t, str>),
    /// A whole number.
    Whole {
        /// The number; `None` beyond 128 bits.
        value: Option<i128>,
        /// As written in the file.
        written: String,
    },
    /// Any other number.
    Number {
        /// The number; `None` if it cannot be read.
        value: Option<f64>,
        /// As written in the file.
        written: String,
    },
    /// True or false.
    Truth(bool),
    /// A date or a time as written in the file. No setting has this type.
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
