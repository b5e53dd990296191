//! Reads ranges of lines of a sorted file, without reading the whole file.

use super::shelf::Parts;
use crate::tool_error::ToolError;

/// The longest line in bytes; a longer one is not a line of an index.
pub(super) const MAX_LINE: usize = 1 << 20;

/// An iterator over lines, without their ends.
pub(super) struct IndexLines {
    parts: Box<dyn Parts>,
    /// The position up to which the file was read.
    offset: u64,
    bytes: Vec<u8>,
    /// The bytes of the lines returned so far.
    taken: usize,
    is_at_end: bool,
}

impl IndexLines {
    /// All lines from the first that is not less than `text`, in a file whose lines are
    /// sorted by their bytes.
    pub fn from(mut parts: Box<dyn Parts>, text: &str) -> Result<Self, ToolError> {
        let offset = first(parts.as_mut(), text.as_bytes())?;
        Ok(Self::at(parts, offset))
    }

    /// The same with the line before it, if there is one.
    pub fn before(mut parts: Box<dyn Parts>, text: &str) -> Result<Self, ToolError> {
        let offset = first(parts.as_mut(), text.as_bytes())?;
        // Without the end of the previous line.
        let end = offset.saturating_sub(1);
        let from = end.saturating_sub(MAX_LINE as u64);
        let piece = parts.read(from, end - from)?;
        let begin = piece.iter().rposition(|b| *b == b'\n');
        let begin = begin.map_or(from, |at| from + at as u64 + 1);
        Ok(Self::at(parts, begin))
    }

    fn at(parts: Box<dyn Parts>, offset: u64) -> Self {
        Self {
            parts,
            offset,
            bytes: Vec::new(),
            taken: 0,
            is_at_end: false,
        }
    }

    /// The next line; malformed UTF-8 is replaced.
    pub fn next(&mut self) -> Result<Option<String>, ToolError> {
        let mut searched = 0;
        loop {
            let rest = self.bytes.get(self.taken..).unwrap_or_default();
            let unread = rest.get(searched..).unwrap_or_default();
            if let Some(end) = memchr::memchr(b'\n', unread) {
                let line = rest.get(..searched + end).unwrap_or_default();
                let line = text_of(line);
                self.taken += searched + end + 1;
                return Ok(Some(line));
            }
            searched = rest.len();
            if searched > MAX_LINE {
                return Err(too_long(self.parts.as_ref()));
            }
            if self.is_at_end {
                let line = text_of(rest);
                self.taken = self.bytes.len();
                return Ok((searched > 0).then_some(line));
            }
            let wanted = self.parts.piece();
            let piece = self.parts.read(self.offset, wanted)?;
            self.offset += piece.len() as u64;
            self.is_at_end = (piece.len() as u64) < wanted;
            self.bytes.drain(..self.taken);
            self.taken = 0;
            self.bytes.extend(piece);
        }
    }
}

fn too_long(parts: &dyn Parts) -> ToolError {
    let why = "a line has more than 1 MiB, so this is no index; make one with `spoor archive \
               index`";
    ToolError::at(parts.name(), why)
}

pub(super) fn text_of(line: &[u8]) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    String::from_utf8_lossy(line).into_owned()
}

/// The position of the first line that is not less than `text`.
fn first(parts: &mut dyn Parts, text: &[u8]) -> Result<u64, ToolError> {
    if text.is_empty() {
        return Ok(0);
    }
    // All lines that begin before `low` are less; those that begin at `high` or later are not.
    // `low` is always the beginning of a line.
    let (mut low, mut high) = (0, parts.length()?);
    while high.saturating_sub(low) > parts.piece() {
        let middle = low + (high - low) / 2;
        match line_from(parts, middle, high)? {
            // One line extends from before the middle to `high`.
            None => high = middle,
            Some((next, line)) if line.as_slice() < text => low = next,
            Some(_) => high = middle,
        }
    }
    // The rest is a single piece, whose lines are examined one by one.
    let left = high.saturating_sub(low);
    let piece = parts.read(low, if left == 0 { 0 } else { left + MAX_LINE as u64 })?;
    let mut at = 0;
    while low + (at as u64) < high {
        let rest = piece.get(at..).unwrap_or_default();
        let end = rest.iter().position(|b| *b == b'\n');
        let line = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        if line >= text || rest.is_empty() {
            break;
        }
        at += end.map_or(rest.len(), |end| end + 1);
    }
    Ok(low + at as u64)
}

/// The first line that begins at `begin` or later and before `high`: the position of the next
/// line, and the line. `begin` is not 0.
fn line_from(
    parts: &mut dyn Parts,
    begin: u64,
    high: u64,
) -> Result<Option<(u64, Vec<u8>)>, ToolError> {
    // The end of a line right before `begin` counts.
    let offset = begin.saturating_sub(1);
    let mut bytes = Vec::new();
    loop {
        let from = offset + bytes.len() as u64;
        let wanted = parts.piece();
        let piece = parts.read(from, wanted)?;
        let is_end = (piece.len() as u64) < wanted;
        bytes.extend(piece);
        let mut ends = bytes.iter().enumerate().filter(|(_, b)| **b == b'\n');
        let (first, second) = (ends.next(), ends.next());
        let Some((end, _)) = first else {
            if is_end {
                return Ok(None);
            }
            if bytes.len() > MAX_LINE {
                return Err(too_long(parts));
            }
            continue;
        };
        let begin = offset + end as u64 + 1;
        if begin >= high {
            return Ok(None);
        }
        let next = match second {
            Some((next, _)) => next + 1,
            None if is_end => bytes.len(),
            None if bytes.len() > 2 * MAX_LINE => return Err(too_long(parts)),
            None => continue,
        };
        let line = bytes.get(end + 1..next).unwrap_or_default();
        let line = line.strip_suffix(b"\n").unwrap_or(line).to_vec();
        return Ok(Some((offset + next as u64, line)));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    /// A file in memory that is read in pieces of a few bytes.
    struct Small(Vec<u8>);

    impl Parts for Small {
        fn name(&self) -> &Path {
            Path::new("small")
        }

        fn length(&mut self) -> Result<u64, ToolError> {
            Ok(self.0.len() as u64)
        }

        fn read(&mut self, offset: u64, length: u64) -> Result<Vec<u8>, ToolError> {
            let from = (offset as usize).min(self.0.len());
            let to = (offset.saturating_add(length) as usize).min(self.0.len());
            Ok(self.0[from..to].to_vec())
        }

        fn piece(&self) -> u64 {
            7
        }
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn the_lines_from_a_text_on_are_found(
            mut lines in prop::collection::vec("[a-c]{1,30}", 0..60),
            text in "[a-c]{0,4}",
            has_end in any::<bool>(),
        ) {
            lines.sort();
            let mut file = lines.join("\n");
            if has_end && !lines.is_empty() {
                file.push('\n');
            }
            let mut found = IndexLines::from(Box::new(Small(file.into_bytes())), &text).unwrap();
            for expected in lines.iter().filter(|line| **line >= text) {
                prop_assert_eq!(found.next().unwrap(), Some(expected.clone()));
            }
            prop_assert_eq!(found.next().unwrap(), None);
            let mut found = IndexLines::before(Box::new(Small(lines.join("\n").into_bytes())), &text).unwrap();
            let less = lines.iter().filter(|line| **line < text).count();
            for expected in lines.iter().skip(less.saturating_sub(1)) {
                prop_assert_eq!(found.next().unwrap(), Some(expected.clone()));
            }
        }
    }
}
