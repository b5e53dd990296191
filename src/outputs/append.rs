//! Append-only files, truncated after a crash.

use std::fs::{File, Metadata};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use flate2::Crc;

use super::OutputError;
use crate::fs::{IoError, beneath, if_there, packed};

/// A file that is only appended to, each piece in one system call.
pub(super) struct Appender {
    path: PathBuf,
    file: File,
    length: u64,
}

impl Appender {
    /// Opens or creates a file and truncates it to `length`, if given. Otherwise it is
    /// kept whole, and an incomplete last line is ended.
    pub fn open(path: PathBuf, length: Option<u64>) -> Result<Self, OutputError> {
        let file = beneath::append_at(&path).map_err(IoError::at(&path, "opening"))?;
        let found = file
            .metadata()
            .map_err(IoError::at(&path, "measuring"))?
            .len();
        let mut appender = Self {
            path,
            file,
            length: found,
        };
        match length {
            Some(expected) if found < expected => {
                return Err(OutputError::Short {
                    path: appender.path,
                    found,
                    expected,
                });
            }
            Some(expected) => {
                if found > expected {
                    let cut = appender.file.set_len(expected);
                    cut.map_err(IoError::at(&appender.path, "cutting"))?;
                    appender.length = expected;
                }
            }
            None => {
                if found > 0 && last_byte(&appender.path)? != Some(b'\n') {
                    appender.append(b"\n")?;
                }
            }
        }
        Ok(appender)
    }

    /// Whether the file is still at its path and as long as was written.
    pub fn is_in_place(&self) -> Result<bool, OutputError> {
        let own = self
            .file
            .metadata()
            .map_err(IoError::at(&self.path, "measuring"))?;
        let there = if_there(std::fs::metadata(&self.path));
        let there = there.map_err(IoError::at(&self.path, "measuring"))?;
        Ok(own.len() == self.length && there.is_some_and(|there| is_same(&own, &there)))
    }

    pub fn length(&self) -> u64 {
        self.length
    }

    /// Appends all of `bytes`. After an error the file may contain a part, which is cut
    /// off at the next opening.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        self.file
            .write_all(bytes)
            .map_err(IoError::at(&self.path, "writing"))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Returns when everything appended is on the disk.
    pub fn sync(&self) -> Result<(), OutputError> {
        Ok(self
            .file
            .sync_data()
            .map_err(IoError::at(&self.path, "syncing"))?)
    }
}

#[cfg(unix)]
fn is_same(own: &Metadata, there: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (own.dev(), own.ino()) == (there.dev(), there.ino())
}

#[cfg(not(unix))]
fn is_same(own: &Metadata, there: &Metadata) -> bool {
    own.len() == there.len()
}

/// Text as one gzip member (RFC 1952 section 2.2), so that a file cut between two members
/// is whole. It contains no time, so equal texts give equal bytes.
pub(super) fn gzip(text: &str) -> Vec<u8> {
    /// Deflate, no name, no time, no stated level, an unknown system.
    const HEADER: [u8; 10] = [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 255];
    let mut member = HEADER.to_vec();
    packed::deflate(text.as_bytes(), &mut member);
    let mut crc = Crc::new();
    crc.update(text.as_bytes());
    member.extend_from_slice(&crc.sum().to_le_bytes());
    member.extend_from_slice(&crc.amount().to_le_bytes());
    member
}

fn last_byte(path: &Path) -> Result<Option<u8>, OutputError> {
    let mut file = beneath::open_at(path).map_err(IoError::at(path, "opening"))?;
    let mut last = [0];
    file.seek(SeekFrom::End(-1))
        .and_then(|_| file.read_exact(&mut last))
        .map_err(IoError::at(path, "reading"))?;
    Ok(last.first().copied())
}
