//! PDF files: their text with positions, as on the pages and as running text.
//!
//! A PDF states where each glyph is painted, but nothing about words, lines or paragraphs. These
//! are recovered in steps, each a pure function of the previous one:
//!
//! 1. `glyphs` has an interpreter paint the pages, and records every glyph with its position and
//!    its characters. `about` takes the file's metadata and its links.
//! 2. `layout` turns them into lines: adjacent glyphs form a segment, segments are ordered by
//!    columns, rows become lines, and lines of right-to-left script are put into reading order. The
//!    result is an [`Original`].
//! 3. `clean` turns that into running text: it removes headers and footers, joins words that were
//!    divided at the ends of lines, and unfolds ligatures. The result is a [`Cleaned`].
//! 4. `offsets` has the form with positions: every character of the cleaned text maps to its
//!    character in the original.
//!
//! PDFs are hostile: a few kilobytes can demand hours and all memory. So the first two steps run in
//! a separate process (`child`), with limits on time and memory, and every error there becomes a
//! [`Failure`] here.
//!
//! This crate must not know what a text is for. It uses no network, and no clock except for the
//! time limit of a child.
//!
//! | room | one line |
//! |---|---|
//! | `original` | the original text of a file, its metadata, its links |
//! | `glyphs` | bytes to glyphs with positions |
//! | `about` | title, authors, dates and links, as the file states them |
//! | `layout` | glyphs to lines in reading order, and the title among them |
//! | `clean` | headers, footers, hyphens and ligatures; paragraphs and sentences |
//! | `offsets` | the cleaned text with positions, as JSON |
//! | `printed` | what `spoor pdf --json` prints, and its JSON Schema |
//! | `child` | the process that reads one file, and its limits |

// Tests choose their own file names.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod about;
mod child;
mod clean;
mod glyphs;
mod layout;
mod offsets;
mod original;
mod printed;

#[cfg(test)]
#[path = "../../tests/it/support/pdfs.rs"]
mod made;
#[cfg(test)]
mod tests;

use spoor_values::{language, limit};

pub use child::{Failure, Limits, Reader, WORKER, work};
pub use clean::{Cleaned, Counts, Joint, Piece, WordList};
pub use offsets::Offsets;
pub use original::{About, Link, Original, PdfLine, Start};
pub use printed::{Printed, schema};

/// The media type of PDF files.
pub const MEDIA_TYPE: &str = "application/pdf";

/// Whether a body begins like a PDF file. Readers accept up to a kilobyte before that.
pub fn begins_as_pdf(body: &[u8]) -> bool {
    let head = body.get(..1_024).unwrap_or(body);
    head.windows(5).any(|window| window == b"%PDF-")
}
