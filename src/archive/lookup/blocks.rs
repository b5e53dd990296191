//! An index of compressed blocks, and a small index of these: the form that Common Crawl,
//! pywb and WACZ use for large indexes (ZipNum). Each block has some thousand lines of the
//! large index in a separate gzip member. A line of the small index has the key and the time
//! of a block's first line, and the place of the block:
//!
//! ```text
//! org,example)/ 20260102030405<TAB>cdx-00000.gz<TAB>0<TAB>189321<TAB>1
//! org,example)/ 20260102030405 {"offset": 0, "length": 189321}
//! ```

use std::fmt::Display;
use std::io::{BufRead, BufReader, Read};

use flate2::read::MultiGzDecoder;
use serde::Deserialize;

use super::lines::{IndexLines, MAX_LINE, text_of};
use super::shelf::Shelf;
use crate::tool_error::ToolError;

/// The largest compressed block in bytes. Usual ones have 3,000 lines and some 300 KB.
const MAX_BLOCK: u64 = 16 << 20;
/// The maximum decompressed size of a block in bytes.
const MAX_LINES: u64 = 64 << 20;

/// The place of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
struct IndexBlock {
    file: Option<String>,
    offset: u64,
    length: u64,
}

/// The JSON in a line of a small index.
#[derive(Deserialize)]
struct BlockFields {
    filename: Option<String>,
    #[serde(default)]
    offset: u64,
    #[serde(default)]
    length: u64,
}

impl IndexBlock {
    /// Reads a line of the small index; `None` if it is malformed.
    fn parse(line: &str) -> Option<Self> {
        let columns: Vec<&str> = line.split('\t').collect();
        if let [_, file, offset, length, ..] = columns.as_slice() {
            return Some(Self {
                file: Some((*file).to_owned()),
                offset: offset.parse().ok()?,
                length: length.parse().ok()?,
            });
        }
        let json = line.get(line.find('{')?..)?;
        let fields: BlockFields = serde_json::from_str(json).ok()?;
        Some(Self {
            file: fields.filename,
            offset: fields.offset,
            length: fields.length,
        })
    }
}

/// Calls `each` with the lines from `begin` on and before `end`, until it returns false.
pub(super) fn each_line(
    shelf: &dyn Shelf,
    index: &str,
    (begin, end): (&str, &str),
    each: &mut dyn FnMut(&str) -> Result<bool, ToolError>,
) -> Result<bool, ToolError> {
    let wrong = |line: &str| {
        let line: String = line.chars().take(60).collect();
        ToolError::new(format_args!(
            "{index}: `{line}` does not say where a block lies; make the index again with \
             `spoor archive index`"
        ))
    };
    let mut named = None;
    let mut head = IndexLines::from(shelf.open(index)?, "")?;
    if let Some(first) = head.next()?.filter(|first| first.starts_with('!')) {
        named = IndexBlock::parse(&first).and_then(|block| block.file);
    }
    // A block may begin before the range and reach into it.
    let mut blocks = IndexLines::before(shelf.open(index)?, begin)?;
    while let Some(line) = blocks.next()? {
        if line.is_empty() || line.starts_with('!') {
            continue;
        }
        if line.as_str() >= end {
            break;
        }
        let block = IndexBlock::parse(&line).ok_or_else(|| wrong(&line))?;
        let file = block.file.as_ref().or(named.as_ref());
        let file = file.ok_or_else(|| wrong(&line))?;
        let bad = |why: &dyn Display| {
            let offset = block.offset;
            ToolError::new(format_args!("{file}: the block at byte {offset} is {why}"))
        };
        let large = "too large: more than 16 MiB, 64 MiB of lines or 1 MiB in a line; make the \
                     index again with `spoor archive index`";
        if block.length > MAX_BLOCK {
            return Err(bad(&large));
        }
        let bytes = shelf.open(file)?.read(block.offset, block.length)?;
        let mut lines = BufReader::new(MultiGzDecoder::new(bytes.as_slice()));
        let (mut line, mut read) = (Vec::new(), 0);
        loop {
            line.clear();
            let mut most = lines.by_ref().take(MAX_LINE as u64 + 1);
            let length = most.read_until(b'\n', &mut line);
            let length = length.map_err(|error| {
                bad(&format_args!(
                    "damaged: {error}; fetch or make the index again"
                ))
            })?;
            read += length as u64;
            if length > MAX_LINE || read > MAX_LINES {
                return Err(bad(&large));
            }
            if length == 0 {
                break;
            }
            let line = text_of(line.strip_suffix(b"\n").unwrap_or(&line));
            if line.as_str() >= end {
                return Ok(true);
            }
            if line.as_str() >= begin && !each(&line)? {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_forms() {
        let block = |file: Option<&str>| {
            Some(IndexBlock {
                file: file.map(str::to_owned),
                offset: 12,
                length: 345,
            })
        };
        let common = "org,example)/ 20260102030405\tcdx-00000.gz\t12\t345\t7";
        assert_eq!(IndexBlock::parse(common), block(Some("cdx-00000.gz")));
        let wacz = r#"org,example)/ 20260102030405 {"offset": 12, "length": 345, "digest": "x"}"#;
        assert_eq!(IndexBlock::parse(wacz), block(None));
        for bad in ["", "org,example)/ 2026", "a\tb\tc\td", "a {"] {
            assert_eq!(IndexBlock::parse(bad), None, "{bad}");
        }
    }
}
