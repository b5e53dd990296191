//! The list of the files in a ZIP, and the place of each (PKWARE APPNOTE section 4.3).
//!
//! Statements of a server or a file are trusted only within limits: the end of a ZIP is searched
//! for once, and the list is read with one request and at most 4 MiB long. So opening a ZIP
//! takes a few requests and little memory.

use std::collections::BTreeMap;

use memchr::memmem;

use super::shelf::Parts;
use crate::tool_error::ToolError;

/// The longest list of files in bytes: some 40,000 files with usual names.
const MAX_LIST: u64 = 4 << 20;

const LOCAL: &[u8] = b"PK\x03\x04";
const ENTRY: &[u8] = b"PK\x01\x02";
const END: &[u8] = b"PK\x05\x06";
const END_64: &[u8] = b"PK\x06\x06";
const LOCATOR_64: &[u8] = b"PK\x06\x07";

/// The length of an entry in the list without its texts.
const LOCAL_BYTES: usize = 30;
const ENTRY_BYTES: usize = 46;
const END_BYTES: usize = 22;
const END_64_BYTES: usize = 56;
const LOCATOR_64_BYTES: usize = 20;

/// The longest end of a ZIP: the three records, and a comment.
const TAIL: u64 = (END_64_BYTES + LOCATOR_64_BYTES + END_BYTES + 0xFFFF) as u64;

/// How a file is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ZipMethod {
    Stored,
    Deflated,
    /// Encrypted, or compressed with another method.
    Other,
}

/// A file in a ZIP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ZipMember {
    /// The first byte of its head.
    head: u64,
    pub(super) packing: ZipMethod,
    /// Its compressed length.
    pub(super) packed: u64,
    /// Its uncompressed length.
    pub(super) length: u64,
    pub(super) crc: u32,
}

impl ZipMember {
    /// The first of its bytes; `None` if its head is damaged.
    pub(super) fn begin(&self, parts: &mut dyn Parts) -> Result<Option<u64>, ToolError> {
        // A whole piece, because the bytes after it are read next.
        let head = parts.read(self.head, parts.piece())?;
        let texts = [26, 28].map(|at| number::<2>(&head, at));
        Ok(match texts {
            [Some(name), Some(extra)] if head.starts_with(LOCAL) => {
                self.head.checked_add(LOCAL_BYTES as u64 + name + extra)
            }
            _ => None,
        })
    }
}

/// The files in a ZIP by their names.
pub(super) fn members(parts: &mut dyn Parts) -> Result<BTreeMap<String, ZipMember>, ToolError> {
    let all = parts.length()?;
    let from = all.saturating_sub(TAIL);
    let tail = parts.read(from, all - from)?;
    let no_end = || ToolError::new("it does not end as a ZIP does");
    let (end, length, stated) = end(parts, from, &tail)?.ok_or_else(no_end)?;
    if length > MAX_LIST {
        return Err(ToolError::new(format_args!(
            "its list of files is longer than {} MiB",
            MAX_LIST >> 20
        )));
    }
    // The list is directly before the end. There may be other data before the ZIP.
    let begin = end.checked_sub(length).ok_or_else(no_end)?;
    let before = begin.checked_sub(stated).ok_or_else(no_end)?;
    let list = parts.read(begin, length)?;
    listed(&list, before).ok_or_else(damaged)
}

/// The list of files, or the head of a file, is damaged.
pub(super) fn damaged() -> ToolError {
    ToolError::new("its list of files is damaged")
}

/// The end of the list of files, its length, and its beginning as the ZIP states it.
fn end(
    parts: &mut dyn Parts,
    from: u64,
    tail: &[u8],
) -> Result<Option<(u64, u64, u64)>, ToolError> {
    let is_end = |at: &usize| {
        let comment = number::<2>(tail, at + 20);
        comment.is_some_and(|length| length <= (tail.len() - at - END_BYTES) as u64)
    };
    // The end records are searched backwards in memory.
    let Some(at) = memmem::rfind_iter(tail, END).find(is_end) else {
        return Ok(None);
    };
    let locator = at.checked_sub(LOCATOR_64_BYTES);
    let locator = locator.and_then(|from| tail.get(from..at));
    let stated = locator.filter(|locator| locator.starts_with(LOCATOR_64));
    let Some(stated) = stated.and_then(|locator| number::<8>(locator, 8)) else {
        let fields = (number::<4>(tail, at + 12), number::<4>(tail, at + 16));
        return Ok(match fields {
            (Some(length), Some(stated)) => Some((from + at as u64, length, stated)),
            _ => None,
        });
    };
    let usual = from + (at - LOCATOR_64_BYTES) as u64;
    let usual = usual.checked_sub(END_64_BYTES as u64);
    for place in usual.into_iter().chain([stated]) {
        let record = match place
            .checked_sub(from)
            .and_then(|n| usize::try_from(n).ok())
        {
            Some(at) => tail.get(at..).unwrap_or_default().to_vec(),
            None => parts.read(place, END_64_BYTES as u64)?,
        };
        let fields = (number::<8>(&record, 40), number::<8>(&record, 48));
        if let (Some(length), Some(stated), true) = (fields.0, fields.1, record.starts_with(END_64))
        {
            return Ok(Some((place, length, stated)));
        }
    }
    Ok(None)
}

/// Reads a list of files with places relative to `before`; `None` if it is damaged.
fn listed(mut list: &[u8], before: u64) -> Option<BTreeMap<String, ZipMember>> {
    let mut members = BTreeMap::new();
    while !list.is_empty() {
        if !list.starts_with(ENTRY) {
            return None;
        }
        let head = list.get(..ENTRY_BYTES)?;
        let texts = [28, 30, 32].map(|at| number::<2>(head, at));
        let [name, extra, comment] = texts.map(|n| n.and_then(|n| usize::try_from(n).ok()));
        let texts = list.get(ENTRY_BYTES..)?;
        let (name, rest) = texts.split_at_checked(name?)?;
        let (extra, rest) = rest.split_at_checked(extra?)?;
        list = rest.get(comment?..)?;
        let mut large = large(extra);
        let mut field = |at| match number::<4>(head, at)? {
            0xFFFF_FFFF => {
                let (number, rest) = large.split_at_checked(8)?;
                large = rest;
                Some(u64::from_le_bytes(number.try_into().ok()?))
            }
            number => Some(number),
        };
        let (length, packed, place) = (field(24)?, field(20)?, field(42)?);
        let is_encrypted = number::<2>(head, 8)? & 1 == 1;
        let packing = match number::<2>(head, 10)? {
            _ if is_encrypted => ZipMethod::Other,
            0 => ZipMethod::Stored,
            8 => ZipMethod::Deflated,
            _ => ZipMethod::Other,
        };
        let member = ZipMember {
            head: before.checked_add(place)?,
            packing,
            packed,
            length,
            crc: u32::try_from(number::<4>(head, 16)?).ok()?,
        };
        members.insert(String::from_utf8_lossy(name).into_owned(), member);
    }
    Some(members)
}

/// The 64-bit numbers in the extra fields of an entry.
fn large(mut extra: &[u8]) -> &[u8] {
    while let (Some(id), Some(length)) = (number::<2>(extra, 0), number::<2>(extra, 2)) {
        let rest = extra.get(4..).unwrap_or_default();
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let (field, behind) = rest.split_at(length.min(rest.len()));
        if id == 1 {
            return field;
        }
        extra = behind;
    }
    &[]
}

/// The number of `N` bytes at a place.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.get(..N)?;
    let digits = bytes.iter().rev();
    Some(digits.fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};
    use std::path::Path;

    use ::zip::write::SimpleFileOptions;
    use ::zip::{CompressionMethod, ZipArchive, ZipWriter};
    use proptest::prelude::*;

    use super::*;

    /// A file in memory that counts how often it is read.
    struct Counted(Vec<u8>, u32);

    impl Parts for Counted {
        fn name(&self) -> &Path {
            Path::new("counted")
        }

        fn length(&mut self) -> Result<u64, ToolError> {
            Ok(self.0.len() as u64)
        }

        fn read(&mut self, offset: u64, length: u64) -> Result<Vec<u8>, ToolError> {
            self.1 += 1;
            let place = |n: u64| usize::try_from(n).unwrap().min(self.0.len());
            Ok(self.0[place(offset)..place(offset.saturating_add(length))].to_vec())
        }

        fn piece(&self) -> u64 {
            64
        }
    }

    /// A ZIP with files of these names and lengths, every other one deflated.
    fn zip(files: &[(String, usize)], large: bool, before: &[u8], comment: &str) -> Vec<u8> {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        for (n, (name, length)) in files.iter().enumerate() {
            let methods = [CompressionMethod::Stored, CompressionMethod::Deflated];
            let options = SimpleFileOptions::default().compression_method(methods[n % 2]);
            zip.start_file(name.as_str(), options.large_file(large))
                .unwrap();
            zip.write_all(&vec![b'a'; *length]).unwrap();
        }
        zip.set_comment(comment).unwrap();
        let zip = zip.finish().unwrap().into_inner();
        [before, &zip].concat()
    }

    proptest! {
        #![proptest_config(spoor_testing::usual!())]

        /// As another program lists them.
        #[test]
        fn files_are_listed(
            files in prop::collection::btree_map("[a-z/\u{e9}]{1,20}", 0_usize..300, 0..12),
            large in any::<bool>(),
            before in prop::collection::vec(any::<u8>(), 0..40),
            comment in "[a-zPK\u{5}\u{6}]{0,40}",
        ) {
            let files: Vec<_> = files.into_iter().collect();
            let bytes = zip(&files, large, &before, &comment);
            let mut parts = Counted(bytes.clone(), 0);
            let found = members(&mut parts).unwrap();
            prop_assert_eq!(parts.1, 2);
            prop_assert_eq!(found.len(), files.len());
            let mut theirs = ZipArchive::new(Cursor::new(bytes)).unwrap();
            for number in 0..theirs.len() {
                let file = theirs.by_index_raw(number).unwrap();
                let member = found[file.name().unwrap().as_ref()];
                prop_assert_eq!(member.length, file.size());
                prop_assert_eq!(member.packed, file.compressed_size());
                prop_assert_eq!(member.crc, file.crc32());
                let is_stored = file.compression() == CompressionMethod::Stored;
                prop_assert_eq!(member.packing == ZipMethod::Stored, is_stored);
                prop_assert_eq!(member.begin(&mut parts).unwrap(), file.data_start());
            }
        }

        #[test]
        fn no_bytes_panic(
            at in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = zip(&[("a".to_owned(), 9), ("b".to_owned(), 9)], true, b"", "");
            let length = bytes.len();
            at.iter().for_each(|(at, byte)| bytes[at.index(length)] = *byte);
            bytes.truncate(cut.index(4 * length));
            let mut parts = Counted(bytes, 0);
            if let Ok(found) = members(&mut parts) {
                found.values().for_each(|member| drop(member.begin(&mut parts)));
            }
        }
    }

    #[test]
    fn more_files_than_16_bits_count_are_listed_and_too_many_are_not() {
        let files = |count: usize, name: &str| {
            (0..count)
                .map(|n| (format!("{name}{n:x}"), 0))
                .collect::<Vec<_>>()
        };
        let mut parts = Counted(zip(&files(66_000, ""), false, b"", ""), 0);
        assert!(parts.0.windows(4).any(|four| four == END_64));
        assert_eq!(members(&mut parts).unwrap().len(), 66_000);
        assert_eq!(parts.1, 2);
        let long = "n".repeat(60_000);
        let mut parts = Counted(zip(&files(80, &long), false, b"", ""), 0);
        let error = members(&mut parts).unwrap_err().to_string();
        assert_eq!(error, "its list of files is longer than 4 MiB");
    }
}
