//! Why an index cannot be searched.

use std::io;

use super::shelf::ShelfError;
use crate::cdxj::LineError;

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
