//! Lookup data of an export that are too large for memory: bytes that are appended to a
//! file and read back by position.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Size of the write buffer, in bytes.
const HELD: usize = if cfg!(test) { 64 } else { 1 << 20 };

/// A file that is appended to and read at any position.
pub(super) struct Spool {
    file: File,
    written: u64,
    tail: Vec<u8>,
}

impl Spool {
    /// Creates the file, which must not exist.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).open(path)?;
        Ok(Self {
            file,
            written: 0,
            tail: Vec::new(),
        })
    }

    /// Appends bytes and returns their position.
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let at = self.written + self.tail.len() as u64;
        self.tail.extend_from_slice(bytes);
        if self.tail.len() >= HELD {
            self.flush()?;
        }
        Ok(at)
    }

    /// `length` bytes from `at`.
    pub(super) fn read(&mut self, at: u64, length: usize) -> io::Result<Vec<u8>> {
        if at < self.written && at + length as u64 > self.written {
            self.flush()?;
        }
        if let Some(from) = at.checked_sub(self.written) {
            let from = usize::try_from(from).unwrap_or(usize::MAX);
            let bytes = self.tail.get(from..from.saturating_add(length));
            let bytes = bytes.ok_or(io::ErrorKind::UnexpectedEof)?;
            return Ok(bytes.to_vec());
        }
        self.file.seek(SeekFrom::Start(at))?;
        let mut bytes = vec![0; length];
        self.file.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Everything, from the first byte.
    pub(super) fn reader(&mut self) -> io::Result<impl Read + '_> {
        self.flush()?;
        self.file.seek(SeekFrom::Start(0))?;
        Ok(BufReader::new(&self.file))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.written))?;
        self.file.write_all(&self.tail)?;
        self.written += self.tail.len() as u64;
        self.tail.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_appended_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::create(&folder.path().join("spool")).unwrap();
        let mut places = Vec::new();
        for n in 0..200_u8 {
            let bytes = vec![n; usize::from(n % 7)];
            places.push((spool.append(&bytes).unwrap(), bytes));
            let (at, bytes) = &places[usize::from(n) / 2];
            assert_eq!(&spool.read(*at, bytes.len()).unwrap(), bytes);
        }
        for (at, bytes) in &places {
            assert_eq!(&spool.read(*at, bytes.len()).unwrap(), bytes);
        }
        let mut all = Vec::new();
        spool.reader().unwrap().read_to_end(&mut all).unwrap();
        let expected: Vec<u8> = places.iter().flat_map(|(_, b)| b.clone()).collect();
        assert_eq!(all, expected);
        assert!(spool.read(all.len() as u64, 1).is_err());
        assert!(Spool::create(&folder.path().join("spool")).is_err());
    }
}
