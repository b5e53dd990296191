//! A journal of batches: what was gathered and is not in the store for certain.
//!
//! Each batch is a frame: its length and a number, both little-endian, the xxh3 digest of
//! number and writes, and the writes in postcard. A frame is one call of the system, so it
//! survives the death of the process. It is not synced, so it need not survive a loss of
//! power.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::StoreError;
use crate::fs::beneath;

/// A key, and its value or `None` where it is removed.
type Write = (Vec<u8>, Option<Vec<u8>>);

/// A batch with its number.
pub(super) type Numbered = (u64, Vec<Write>);

/// Bytes of a frame before its digest, and before its writes.
const NUMBERED: usize = 4 + 8;
const HEAD: usize = NUMBERED + 8;

/// A journal, open for appending.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    length: u64,
    frame: Vec<u8>,
}

impl Journal {
    /// Opens the journal at `path`, or creates it. Also returns its batches with their
    /// numbers, up to the first frame that is not whole.
    pub(super) fn open(path: &Path) -> Result<(Self, Vec<Numbered>), StoreError> {
        let failed = |error: std::io::Error| StoreError::Io {
            path: path.to_owned(),
            why: error.to_string(),
        };
        let mut file = beneath::append_at(path).map_err(failed)?;
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        file.read_to_end(&mut bytes).map_err(failed)?;
        let mut batches = Vec::new();
        let mut rest = bytes.as_slice();
        while let Some((batch, after)) = frame(rest) {
            batches.push(batch);
            rest = after;
        }
        let journal = Self {
            path: path.to_owned(),
            file,
            length: bytes.len() as u64,
            frame: Vec::new(),
        };
        Ok((journal, batches))
    }

    /// Its length in bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Appends a batch. After an error the journal is as before.
    pub(super) fn append<'w>(
        &mut self,
        number: u64,
        writes: impl Iterator<Item = (&'w Vec<u8>, &'w Option<Vec<u8>>)>,
    ) -> Result<(), StoreError> {
        let mut frame = std::mem::take(&mut self.frame);
        frame.clear();
        frame.resize(HEAD, 0);
        for write in writes {
            // Bytes can always be encoded.
            frame = postcard::to_extend(&write, frame).unwrap_or_default();
        }
        seal(&mut frame, number);
        let written = self.file.write_all(&frame);
        match &written {
            Ok(()) => self.length += frame.len() as u64,
            // If this fails as well, the frame is not whole, and those behind it are lost
            // at a kill: the store still has them.
            Err(_) => self.file.set_len(self.length).unwrap_or_default(),
        }
        self.frame = frame;
        written.map_err(|error| self.failed(&error))
    }

    /// Empties the journal, once the store has all its batches.
    pub(super) fn clear(&mut self) -> Result<(), StoreError> {
        if self.length > 0 {
            let cut = self.file.set_len(0);
            cut.map_err(|error| self.failed(&error))?;
            self.length = 0;
        }
        Ok(())
    }

    fn failed(&self, error: &std::io::Error) -> StoreError {
        StoreError::Io {
            path: self.path.clone(),
            why: error.to_string(),
        }
    }
}

/// Fills in the head of a frame.
fn seal(frame: &mut [u8], number: u64) {
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

/// The batch of the first frame, and what comes behind it; `None` if it is not whole.
fn frame(bytes: &[u8]) -> Option<(Numbered, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (number, rest) = rest.split_first_chunk()?;
    let (sum, rest) = rest.split_first_chunk()?;
    let (mut writes, after) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let number = u64::from_le_bytes(*number);
    if digest(number, writes) != u64::from_le_bytes(*sum) {
        return None;
    }
    let mut batch = Vec::new();
    while !writes.is_empty() {
        let (write, left) = postcard::take_from_bytes(writes).ok()?;
        batch.push(write);
        writes = left;
    }
    Some(((number, batch), after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(key: u8, value: Option<u8>) -> Write {
        (vec![key; 3], value.map(|v| vec![v; 50]))
    }

    fn open(path: &Path) -> (Journal, Vec<Numbered>) {
        Journal::open(path).unwrap()
    }

    #[test]
    fn batches_come_back_up_to_the_first_that_is_not_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let batches = [
            (7, vec![write(1, Some(2)), write(2, None)]),
            (8, vec![]),
            (9, vec![write(3, Some(4))]),
        ];
        let (mut journal, found) = open(&path);
        assert!(found.is_empty());
        let mut ends = vec![0];
        for (number, batch) in &batches {
            let writes = batch.iter().map(|(key, value)| (key, value));
            journal.append(*number, writes).unwrap();
            ends.push(journal.length());
        }
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(open(&path).1, batches);
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            let (_, found) = open(&path);
            let complete = ends.iter().filter(|end| **end <= length as u64).count() - 1;
            assert_eq!(found, batches[..complete]);
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            std::fs::write(&path, &damaged).unwrap();
            let (_, found) = open(&path);
            let sound = ends.iter().filter(|end| **end <= at as u64).count() - 1;
            assert_eq!(found, batches[..sound], "{at}");
        }
    }

    #[test]
    fn a_cleared_journal_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let (mut journal, _) = open(&path);
        let one = write(1, Some(2));
        journal.append(1, [(&one.0, &one.1)].into_iter()).unwrap();
        journal.clear().unwrap();
        journal.append(2, [(&one.0, &one.1)].into_iter()).unwrap();
        drop(journal);
        assert_eq!(open(&path).1, [(2, vec![one])]);
    }
}
