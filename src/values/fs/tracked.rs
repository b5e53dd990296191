//! A file that tracks how far it was read, and finds zstd frames after damage.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

/// The beginning of every zstd frame (RFC 8878 section 3.1.1).
const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// A file that tracks how far it was read.
#[derive(Debug)]
pub struct Tracked {
    inner: BufReader<File>,
    at: u64,
}

impl Tracked {
    /// Continues reading from the file's position, which is `at` bytes from its beginning.
    pub fn new(file: File, at: u64) -> Self {
        let inner = BufReader::with_capacity(1 << 16, file);
        Self { inner, at }
    }

    /// How far the file was read, in bytes from its beginning.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Moves to the next start of a frame after `began`, or to the end; returns whether
    /// there is one.
    pub fn find_frame_after(&mut self, began: u64) -> io::Result<bool> {
        self.at = self.inner.seek(SeekFrom::Start(began.saturating_add(1)))?;
        let mut met = 0;
        loop {
            let buffer = self.inner.fill_buf()?;
            if buffer.is_empty() {
                return Ok(false);
            }
            let mut used = 0;
            for byte in buffer {
                used += 1;
                // Only the first byte of the magic number can start it again.
                met = if MAGIC.get(met) == Some(byte) {
                    met + 1
                } else {
                    usize::from(MAGIC.first() == Some(byte))
                };
                if met == MAGIC.len() {
                    break;
                }
            }
            self.consume(used);
            if met == MAGIC.len() {
                let start = self.at - MAGIC.len() as u64;
                self.at = self.inner.seek(SeekFrom::Start(start))?;
                return Ok(true);
            }
        }
    }
}

impl Read for Tracked {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl BufRead for Tracked {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.inner.consume(amount);
        self.at += amount as u64;
    }
}
