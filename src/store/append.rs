//! Files that only grow, and are cut back after a crash.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use flate2::{Compression, GzBuilder};

use super::{OutputError, io};

/// A file that is written at its end, each piece in one call to the system.
pub(super) struct Appender {
    path: PathBuf,
    file: File,
    length: u64,
}

impl Appender {
    /// Opens or creates a file and cuts it to `length`, if given. Otherwise it
    /// is kept whole, and a last line that a crash cut short is ended.
    pub fn open(path: PathBuf, length: Option<u64>) -> Result<Self, OutputError> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(io(&path, "opening"))?;
        let found = file.metadata().map_err(io(&path, "measuring"))?.len();
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
                    cut.map_err(io(&appender.path, "cutting"))?;
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

    pub fn length(&self) -> u64 {
        self.length
    }

    /// Appends all of `bytes`; after an error the file may hold a part, which
    /// the next opening cuts off.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), OutputError> {
        self.file
            .write_all(bytes)
            .map_err(io(&self.path, "writing"))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Returns when all that was appended is on the disk.
    pub fn sync(&self) -> Result<(), OutputError> {
        self.file.sync_data().map_err(io(&self.path, "syncing"))
    }

    /// Appends text as one gzip member. The member carries no time, so equal
    /// texts give equal bytes.
    pub fn append_gzip(&mut self, text: &str) -> Result<(), OutputError> {
        let mut encoder = GzBuilder::new()
            .mtime(0)
            .write(Vec::new(), Compression::default());
        encoder
            .write_all(text.as_bytes())
            .map_err(io(&self.path, "compressing"))?;
        let member = encoder.finish().map_err(io(&self.path, "compressing"))?;
        self.append(&member)
    }
}

/// The number of the first sentence file after all that exist.
pub(super) fn next_segment(folder: &Path) -> Result<u32, OutputError> {
    let last = segments(folder)?.into_iter().max();
    Ok(last.map_or(0, |n| n.saturating_add(1)))
}

/// Name of the sentence file with that number.
pub(super) fn segment_name(number: u32) -> String {
    format!("{number:05}.txt.gz")
}

/// Whether this is the name of a sentence file; other people's files have other names, as
/// `7.txt.gz` or `+7.txt.gz`.
pub(super) fn is_segment(name: &str) -> bool {
    number_of(name).is_some()
}

fn number_of(name: &str) -> Option<u32> {
    let number = name.strip_suffix(".txt.gz")?.parse().ok()?;
    (name == segment_name(number)).then_some(number)
}

/// Removes sentence files that the frontier does not know of.
pub(super) fn remove_segments_from(folder: &Path, first: u32) -> Result<(), OutputError> {
    for number in segments(folder)? {
        if number >= first {
            let path = folder.join(segment_name(number));
            std::fs::remove_file(&path).map_err(io(&path, "removing"))?;
        }
    }
    Ok(())
}

fn last_byte(path: &Path) -> Result<Option<u8>, OutputError> {
    let mut file = File::open(path).map_err(io(path, "opening"))?;
    let mut last = [0];
    file.seek(SeekFrom::End(-1))
        .and_then(|_| file.read_exact(&mut last))
        .map_err(io(path, "reading"))?;
    Ok(last.first().copied())
}

fn segments(folder: &Path) -> Result<Vec<u32>, OutputError> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io(folder, "listing"))? {
        let entry = entry.map_err(io(folder, "listing"))?;
        numbers.extend(entry.file_name().to_str().and_then(number_of));
    }
    Ok(numbers)
}
