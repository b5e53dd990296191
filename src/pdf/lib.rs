//! PDF files: their text with positions, as it stands on the pages and as running text.
//!
//! A PDF says where each glyph is painted, and nothing of words, lines or paragraphs. These
//! are found again in steps, each a pure function of the one before:
//!
//! 1. `glyphs` has an interpreter paint the pages, and notes every glyph with its place and
//!    its characters. `about` takes what the file says of itself, and its links.
//! 2. `layout` makes lines of them: glyphs that follow one another are a segment, segments
//!    are ordered by columns, rows become lines, and lines of right-to-left script are put
//!    in the order in which they are read. The result is an [`Original`].
//! 3. `clean` makes running text of that: it leaves out headers and footers, joins words that
//!    were divided at the ends of lines, and unfolds ligatures. The result is a [`Cleaned`].
//! 4. `offsets` has the form with positions: every character of the cleaned text leads back
//!    to its character in the original.
//!
//! PDFs are hostile: a few kilobytes can ask for hours and for all memory. So the first two
//! steps run in a process of their own (`child`), with limits of time and memory, and what
//! goes wrong there is one [`Failure`] here.
//!
//! This module must not know what a text is for; it asks for no network and no clock but the
//! time that a child may take.
//!
//! | room | one line |
//! |---|---|
//! | `original` | the original text of a file, what the file says of itself, its links |
//! | `glyphs` | bytes to glyphs with places |
//! | `about` | title, authors, dates and links, as the file states them |
//! | `layout` | glyphs to lines in reading order, and the title among them |
//! | `clean` | headers, footers, hyphens and ligatures; paragraphs and sentences |
//! | `offsets` | the cleaned text with positions, as JSON |
//! | `printed` | what `spoor pdf --json` prints, and its JSON Schema |
//! | `child` | the process that reads one file, and its limits |

// Tests name their own files.
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

/// Whether a body begins as PDF files do. Readers accept up to a kilobyte before it.
pub fn begins_as_pdf(body: &[u8]) -> bool {
    let head = body.get(..1_024).unwrap_or(body);
    head.windows(5).any(|window| window == b"%PDF-")
}
