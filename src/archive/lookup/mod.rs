//! Finds captures through an index, without reading the archives: a sorted CDXJ index, or an
//! index of compressed blocks.
//!
//! | module | one line |
//! |---|---|
//! | `shelf` | files that are read in parts, local or on a server |
//! | `lines` | ranges of lines of a sorted file |
//! | `blocks` | an index of compressed blocks |
//! | `zip` | the list of the files in a ZIP |
//! | `wacz` | the files in a WACZ |
//! | `stored` | the record at a place |
//!
//! An index is searched by bisection, so a search in an index of any size reads a few pieces.

mod blocks;
mod lines;
pub mod shelf;
pub mod stored;
pub mod wacz;
pub mod zip;

use self::lines::IndexLines;
use self::shelf::Shelf;
use super::cdxj::CdxjLine;
use super::select::Selection;
use crate::tool_error::ToolError;

/// The extension of an index of blocks.
pub const BLOCKS: &str = ".idx";

/// Calls `each` with all wanted captures of an index, in its order, until `each` returns false,
/// which is then also the result. `index` is its name on the shelf; a name that ends with
/// [`BLOCKS`] means an index of blocks.
///
/// # Errors
///
/// [`ToolError`] names the file, or the error of `each`.
pub fn each_capture(
    shelf: &dyn Shelf,
    index: &str,
    wanted: &Selection,
    each: &mut dyn FnMut(CdxjLine) -> Result<bool, ToolError>,
) -> Result<bool, ToolError> {
    let mut taken = |line: &str| {
        // Some indexes begin with lines that describe them.
        if line.is_empty() || line.starts_with(['!', ' ']) {
            return Ok(true);
        }
        let parsed = CdxjLine::parse(line);
        let line = parsed.map_err(|error| ToolError::new(format_args!("{index}: {error}")))?;
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
                return Ok(false);
            }
            continue;
        }
        let mut lines = IndexLines::from(shelf.open(index)?, begin)?;
        while let Some(line) = lines.next()?.filter(|line| line.as_str() < end) {
            if !taken(&line)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
