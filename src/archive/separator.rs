//! The bytes between two records: two line ends in a WARC (ISO 28500 section 4), one or more in
//! an ARC. They are the only sign that a length was right.

use memchr::memmem;

use super::head::{self, Formats, ParsedHead};
use super::record::Version;

/// The number of bytes that are examined after a record if no other record follows.
pub(super) const AHEAD: usize = 1 << 20;
/// The most line ends that are taken for a separator.
const MOST: usize = 16;

/// The length of the usual separator; `None` if there is another or none.
pub(super) fn length(bytes: &[u8], version: Version) -> Option<usize> {
    if version.is_arc() {
        let ends = odd(bytes).len();
        return (ends > 0).then_some(ends);
    }
    let usual: [&[u8]; 2] = [b"\r\n\r\n", b"\n\n"];
    let found = usual.iter().find(|usual| bytes.starts_with(usual))?;
    Some(found.len())
}

/// Whether more line ends may follow these bytes, which are all that is known so far.
pub(super) fn may_go_on(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.len() < MOST && odd(bytes).len() == bytes.len()
}

/// The line ends that the bytes begin with.
pub(super) fn odd(bytes: &[u8]) -> &[u8] {
    let ends = bytes.iter().take(MOST);
    let count = ends
        .take_while(|byte| matches!(byte, b'\r' | b'\n'))
        .count();
    bytes.get(..count).unwrap_or_default()
}

/// Whether bytes after a usual separator that are not a record do not belong to the previous
/// record either. If they do, the length of that record was too small.
pub(super) fn is_foreign(bytes: &[u8], version: Version) -> bool {
    if bytes.starts_with(&[0]) {
        return true;
    }
    if version.is_arc() {
        return false;
    }
    // The next record, with a damaged head.
    let begin = bytes.get(..4 << 10).unwrap_or(bytes);
    if memmem::find(begin, b"\nWARC-").is_some() {
        return true;
    }
    // The rest of a record ends with a separator, before the next one.
    let formats = Formats {
        only_warc: true,
        arc: None,
    };
    let mut from = 0;
    let end = loop {
        let Some(at) = head::find(bytes, from, formats) else {
            break bytes.len();
        };
        let rest = bytes.get(at..).unwrap_or_default();
        if matches!(head::parse(rest, formats), ParsedHead::Head(..)) {
            break at;
        }
        from = at + 1;
    };
    let own = bytes.get(..end).unwrap_or_default();
    !own.ends_with(b"\r\n\r\n") && !own.ends_with(b"\n\n")
}
