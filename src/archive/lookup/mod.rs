//! Captures found through an index, without reading the archives: a sorted CDXJ index, or
//! one of compressed blocks.
//!
//! | module | one line | may import |
//! |---|---|---|
//! | `shelf` | files that are read in parts, wherever they lie | nothing |
//! | `lines` | the lines of a sorted file of which only a part is read | shelf |
//! | `blocks` | an index of compressed blocks | lines, shelf |
//! | `zip` | the list of the files in a ZIP | shelf |
//! | `wacz` | the files in a WACZ | shelf, zip |
//! | `stored` | the record at a place | shelf |
//!
//! An index is searched by bisection, so a search in one of any size reads a few pieces.

mod blocks;
mod lines;
pub mod shelf;
pub mod stored;
pub mod wacz;
pub mod zip;

use std::io;

use self::lines::Lines;
use self::shelf::{Shelf, ShelfError};
use super::cdxj::{Line, LineError};
use super::select::Selection;

/// Why an index cannot be searched.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// A file cannot be read.
    #[error(transparent)]
    Shelf(#[from] ShelfError),
    /// A line of the index is malformed.
    #[error("{index}: {error}")]
    Line {
        /// The index.
        index: String,
        /// What is wrong.
        error: LineError,
    },
    /// A line of the index of blocks is malformed.
    #[error(
        "{index}: `{line}` does not say where a block lies; make the index again with \
         `spoor archive index`"
    )]
    Block {
        /// The index.
        index: String,
        /// The line, shortened.
        line: String,
    },
    /// A block cannot be decompressed.
    #[error(
        "{file}: the block at byte {offset} is damaged: {error}; fetch or make the index again"
    )]
    Damaged {
        /// The file.
        file: String,
        /// Where the block begins.
        offset: u64,
        /// What the decompressor reports.
        error: io::Error,
    },
    /// A block has more lines than any index.
    #[error(
        "{file}: the block at byte {offset} is too large: more than 16 MiB, 64 MiB of lines or \
         1 MiB in a line; make the index again with `spoor archive index`"
    )]
    Large {
        /// The file.
        file: String,
        /// Where the block begins.
        offset: u64,
    },
}

/// The ending of an index of blocks.
pub const BLOCKS: &str = ".idx";

/// Calls `each` with all captures of an index that are wanted, in its order, until it
/// returns false. `index` is its name on the shelf; one that ends with [`BLOCKS`] names
/// blocks.
///
/// # Errors
///
/// [`LookupError`] names the file, or the error of `each`.
pub fn each_capture(
    shelf: &dyn Shelf,
    index: &str,
    wanted: &Selection,
    each: &mut dyn FnMut(Line) -> Result<bool, LookupError>,
) -> Result<(), LookupError> {
    let mut taken = |line: &str| {
        // The first lines of some indexes say what they are.
        if line.is_empty() || line.starts_with(['!', ' ']) {
            return Ok(true);
        }
        let line = Line::parse(line).map_err(|error| LookupError::Line {
            index: index.to_owned(),
            error,
        })?;
        if wanted.takes(&line) {
            each(line)
        } else {
            Ok(true)
        }
    };
    for range in wanted.ranges() {
        let (begin, end) = (range.begin.as_str(), range.end.as_str());
        if index.ends_with(BLOCKS) {
            if !blocks::each_line(shelf, index, (begin, end), &mut taken)? {
                return Ok(());
            }
            continue;
        }
        let mut lines = Lines::from(shelf.open(index)?, begin)?;
        while let Some(line) = lines.next()?.filter(|line| line.as_str() < end) {
            if !taken(&line)? {
                return Ok(());
            }
        }
    }
    Ok(())
}
