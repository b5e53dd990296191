//! The original text of a file: the text of its pages, line by line.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The text of a file as it is on its pages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Original {
    /// The lines of all pages in reading order, each with a line end.
    pub text: String,
    /// The positions of these lines.
    pub lines: Vec<PdfLine>,
    /// Where each page begins, in characters of the text.
    pub pages: Vec<u32>,
    /// The file's metadata.
    pub about: About,
    /// The links on its pages.
    pub links: Vec<Link>,
    /// How many glyphs have no known character; they are U+FFFD in the text.
    pub unknown: u32,
    /// Whether pages or text beyond the limits were left out.
    pub cut: bool,
}

/// A line of the original.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PdfLine {
    /// Where it begins, in characters of the text.
    pub at: u32,
    /// How it follows the previous line.
    pub start: Start,
}

/// How a line follows the previous line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Start {
    /// In the same paragraph.
    Within,
    /// As the first line of a page or column: the paragraph may continue.
    Region,
    /// As the first line of a paragraph.
    Paragraph,
}

/// What a file says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct About {
    /// Its title.
    pub title: Option<String>,
    /// Its authors.
    pub authors: Vec<String>,
    /// When it was made, in ISO 8601.
    pub created: Option<String>,
    /// When it was changed, in ISO 8601.
    pub modified: Option<String>,
    /// The language of its text, as a tag such as `en-GB`.
    pub language: Option<String>,
}

/// A link of a page to an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Link {
    /// The address as the file has it.
    pub url: String,
    /// The text under it.
    pub text: String,
    /// The page, from 1 on.
    pub page: u32,
}

/// The number of characters, in the unit of offsets.
pub(super) fn characters(text: &str) -> u32 {
    u32::try_from(text.chars().count()).unwrap_or(u32::MAX)
}
