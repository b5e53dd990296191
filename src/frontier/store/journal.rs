//! A journal of batches that were gathered and may not be in the store yet.
//!
//! Each batch is a frame: its length and a number, both little-endian, the xxh3 digest of number
//! and writes, and the writes in postcard format. A frame is one system call, so it survives the
//! death of the process. Synced frames also survive a loss of power.
//!
//! There are two files. While one waits until the store has all its batches, the other takes new
//! ones.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::StoreError;
use crate::fs::beneath;

/// A key, and its value or `None` if it is removed.
type Write = (Vec<u8>, Option<Vec<u8>>);

/// A batch with its number.
pub(super) type Numbered = (u64, Vec<Write>);

/// The files in the folder of the store.
const NAMES: [&str; 2] = ["journal", "journal.2"];
/// Bytes of a frame before its digest, and before its writes.
const NUMBERED: usize = 4 + 8;
pub(super) const HEAD: usize = NUMBERED + 8;
/// At the first length, in bytes, a file ends with the next flush; at the second it ends without
/// one. Opening reads at most about twice as much.
const LONG: u64 = if cfg!(test) { 1_000 } else { 4 << 20 };
const TOO_LONG: u64 = if cfg!(test) { 3_000 } else { 24 << 20 };
/// The largest buffer that is kept for the next frame, in bytes.
const LARGE: usize = 1 << 20;

/// A file of a journal.
#[derive(Debug)]
pub(super) struct JournalFile {
    path: PathBuf,
    file: File,
}

impl JournalFile {
    /// Opens the file, or creates it. Also returns its batches with their numbers, up to the first
    /// incomplete frame, and its length.
    fn open(path: PathBuf) -> Result<(Self, Vec<Numbered>, u64), StoreError> {
        let failed = |error: std::io::Error| StoreError::Io {
            path: path.clone(),
            why: error.to_string(),
        };
        let mut file = beneath::append_at(&path).map_err(failed)?;
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        file.read_to_end(&mut bytes).map_err(failed)?;
        let mut batches = Vec::new();
        let mut rest = bytes.as_slice();
        while let Some((batch, after)) = frame(rest) {
            batches.push(batch);
            rest = after;
        }
        Ok((Self { path, file }, batches, bytes.len() as u64))
    }

    /// Returns when its contents are safe from a loss of power.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.file.sync_data().map_err(|error| self.failed(&error))
    }

    /// Empties it, once the store has all its batches.
    pub(super) fn clear(&self) -> Result<(), StoreError> {
        self.file.set_len(0).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &std::io::Error) -> StoreError {
        StoreError::Io {
            path: self.path.clone(),
            why: error.to_string(),
        }
    }
}

/// A journal, open for appending.
#[derive(Debug)]
pub(super) struct Journal {
    /// The file that takes new batches.
    file: Arc<JournalFile>,
    other: Arc<JournalFile>,
    /// The length of the first.
    length: u64,
    /// Whether either may contain anything.
    is_used: bool,
    frame: Vec<u8>,
}

impl Journal {
    /// Opens the journal in a folder, or creates it. Also returns its batches, in the order of
    /// their numbers.
    pub(super) fn open(folder: &Path) -> Result<(Self, Vec<Numbered>), StoreError> {
        let [name, other] = NAMES;
        let (file, mut batches, length) = JournalFile::open(folder.join(name))?;
        let (other, more, length_of_other) = JournalFile::open(folder.join(other))?;
        batches.extend(more);
        batches.sort_by_key(|(number, _)| *number);
        beneath::sync_folder_of(folder, name).map_err(|error| file.failed(&error))?;
        let journal = Self {
            file: Arc::new(file),
            other: Arc::new(other),
            length,
            is_used: length + length_of_other > 0,
            frame: Vec::new(),
        };
        Ok((journal, batches))
    }

    /// Whether it may contain batches.
    pub(super) fn is_used(&self) -> bool {
        self.is_used
    }

    /// Whether its file should end with the next flush.
    pub(super) fn is_long(&self) -> bool {
        self.length >= LONG
    }

    /// Whether its file should end without one.
    pub(super) fn is_too_long(&self) -> bool {
        self.length >= TOO_LONG
    }

    /// Ends the file that takes new batches, and returns it. Later batches go to the other file,
    /// which must be empty.
    pub(super) fn end(&mut self) -> Arc<JournalFile> {
        std::mem::swap(&mut self.file, &mut self.other);
        self.length = 0;
        Arc::clone(&self.other)
    }

    /// Appends a batch. After an error the journal is as before.
    pub(super) fn append<'w>(
        &mut self,
        number: u64,
        writes: impl Iterator<Item = (&'w Vec<u8>, &'w Option<Vec<u8>>)>,
    ) -> Result<(), StoreError> {
        let frame = &mut self.frame;
        frame.clear();
        frame.resize(HEAD, 0);
        for (key, value) in writes {
            push_write(frame, key, value.as_deref());
        }
        seal(frame, number);
        self.is_used = true;
        let written = (&self.file.file).write_all(frame);
        match &written {
            Ok(()) => self.length += frame.len() as u64,
            // If this fails as well, the frame is incomplete, and those after it are lost if the
            // process is killed: the store still has them.
            Err(_) => self.file.file.set_len(self.length).unwrap_or_default(),
        }
        if self.frame.capacity() > LARGE {
            self.frame = Vec::new();
        }
        written.map_err(|error| self.file.failed(&error))
    }

    /// Returns when all batches are safe from a loss of power.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        if !self.is_used {
            return Ok(());
        }
        self.other.sync()?;
        self.file.sync()
    }

    /// Empties the journal, once the store has all its batches.
    pub(super) fn clear(&mut self) -> Result<(), StoreError> {
        self.file.clear()?;
        self.length = 0;
        self.other.clear()?;
        self.is_used = false;
        Ok(())
    }
}

/// A write in postcard's format; postcard itself handles each byte separately and takes several
/// times as long.
pub fn push_write(to: &mut Vec<u8>, key: &[u8], value: Option<&[u8]>) {
    push_bytes(to, key);
    to.push(u8::from(value.is_some()));
    if let Some(value) = value {
        push_bytes(to, value);
    }
}

/// Bytes in postcard's format: the length in groups of seven bits, and the bytes.
fn push_bytes(frame: &mut Vec<u8>, bytes: &[u8]) {
    let mut length = bytes.len();
    while length >= 0x80 {
        frame.push(0x80 | (length & 0x7f) as u8);
        length >>= 7;
    }
    frame.push(length as u8);
    frame.extend_from_slice(bytes);
}

/// Fills in the head of a frame.
pub(super) fn seal(frame: &mut [u8], number: u64) {
    let length = u32::try_from(frame.len().saturating_sub(HEAD)).unwrap_or(u32::MAX);
    let digest = digest(number, frame.get(HEAD..).unwrap_or_default());
    let head = [
        &length.to_le_bytes()[..],
        &number.to_le_bytes(),
        &digest.to_le_bytes(),
    ];
    for (to, from) in frame.iter_mut().zip(head.concat()) {
        *to = from;
    }
}

fn digest(number: u64, writes: &[u8]) -> u64 {
    xxh3_64(writes) ^ xxh3_64(&number.to_le_bytes())
}

/// The batch of the first frame, and the remaining bytes; `None` if it is incomplete.
fn frame(bytes: &[u8]) -> Option<(Numbered, &[u8])> {
    let (number, mut writes, after) = open_frame(bytes)?;
    let mut batch = Vec::new();
    while !writes.is_empty() {
        let ((key, value), left) = take_write(writes)?;
        batch.push((key.to_vec(), value.map(<[u8]>::to_vec)));
        writes = left;
    }
    Some(((number, batch), after))
}

/// The number and the writes of the first frame, and the remaining bytes; `None` if it is
/// incomplete.
pub(super) fn open_frame(bytes: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (number, rest) = rest.split_first_chunk()?;
    let (sum, rest) = rest.split_first_chunk()?;
    let (writes, after) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let number = u64::from_le_bytes(*number);
    let is_whole = digest(number, writes) == u64::from_le_bytes(*sum);
    is_whole.then_some((number, writes, after))
}

/// A borrowed key, and its value or `None` if it is removed.
pub type WriteRef<'w> = (&'w [u8], Option<&'w [u8]>);

/// The first write in the format of [`push_write`], and the remaining bytes. postcard would handle
/// each byte separately.
pub fn take_write(bytes: &[u8]) -> Option<(WriteRef<'_>, &[u8])> {
    let (key, rest) = take_bytes(bytes)?;
    match rest.split_first()? {
        (0, rest) => Some(((key, None), rest)),
        (1, rest) => {
            let (value, rest) = take_bytes(rest)?;
            Some(((key, Some(value)), rest))
        }
        _ => None,
    }
}

fn take_bytes(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut length, mut shift, mut rest) = (0_usize, 0, bytes);
    loop {
        let (byte, after) = rest.split_first()?;
        rest = after;
        length |= usize::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return rest.split_at_checked(length);
        }
        shift += 7;
        if shift > 35 {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(key: u8, value: Option<u8>) -> Write {
        (vec![key; 3], value.map(|v| vec![v; 50]))
    }

    fn open(folder: &Path) -> (Journal, Vec<Numbered>) {
        Journal::open(folder).unwrap()
    }

    fn append(journal: &mut Journal, number: u64, batch: &[Write]) {
        let writes = batch.iter().map(|(key, value)| (key, value));
        journal.append(number, writes).unwrap();
    }

    #[test]
    fn batches_come_back_up_to_the_first_that_is_not_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let long = (vec![1; 127], Some(vec![2; 20_000]));
        let batches = [
            (7, vec![write(1, Some(2)), write(2, None)]),
            (8, vec![]),
            (9, vec![write(3, Some(4))]),
        ];
        let (mut journal, found) = open(folder.path());
        assert!(found.is_empty() && !journal.is_used());
        let mut ends = vec![0];
        for (number, batch) in &batches {
            append(&mut journal, *number, batch);
            ends.push(journal.length);
        }
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(open(folder.path()).1, batches);
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            let (journal, found) = open(folder.path());
            let complete = ends.iter().filter(|end| **end <= length as u64).count() - 1;
            assert_eq!(found, batches[..complete]);
            assert_eq!(journal.is_used(), length > 0);
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            std::fs::write(&path, &damaged).unwrap();
            let (_, found) = open(folder.path());
            let sound = ends.iter().filter(|end| **end <= at as u64).count() - 1;
            assert_eq!(found, batches[..sound], "{at}");
        }
        std::fs::write(&path, []).unwrap();
        append(&mut open(folder.path()).0, 1, std::slice::from_ref(&long));
        assert_eq!(open(folder.path()).1, [(1, vec![long])]);
    }

    #[test]
    fn a_cleared_journal_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(folder.path());
        let one = [write(1, Some(2))];
        append(&mut journal, 1, &one);
        journal.clear().unwrap();
        append(&mut journal, 2, &one);
        drop(journal);
        assert_eq!(open(folder.path()).1, [(2, one.to_vec())]);
    }

    #[test]
    fn one_file_ends_while_the_other_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(folder.path());
        let one = |n| vec![write(n, Some(n))];
        append(&mut journal, 1, &one(1));
        let first = journal.end();
        assert_eq!(journal.length, 0);
        append(&mut journal, 2, &one(2));
        let second = journal.end();
        // The batches of both files come in the order of their numbers.
        assert_eq!(open(folder.path()).1, [(1, one(1)), (2, one(2))]);
        append(&mut journal, 3, &one(3));
        let all = [(1, one(1)), (2, one(2)), (3, one(3))];
        assert_eq!(open(folder.path()).1, all);
        second.clear().unwrap();
        journal.sync().unwrap();
        assert_eq!(open(folder.path()).1, [(1, one(1)), (3, one(3))]);
        first.clear().unwrap();
        journal.clear().unwrap();
        assert!(open(folder.path()).1.is_empty());
    }
}
