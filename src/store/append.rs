//! Files that only grow, and are cut back after a crash.

use std::fs::{File, OpenOptions};
use std::io::Write;
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
    /// Opens or creates a file and cuts it to `length`, if given.
    pub fn open(path: PathBuf, length: Option<u64>) -> Result<Self, OutputError> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(io(&path, "opening"))?;
        let found = file.metadata().map_err(io(&path, "measuring"))?.len();
        let length = match length {
            Some(expected) if found < expected => {
                return Err(OutputError::Short {
                    path,
                    found,
                    expected,
                });
            }
            Some(expected) => {
                if found > expected {
                    file.set_len(expected).map_err(io(&path, "cutting"))?;
                }
                expected
            }
            None => found,
        };
        Ok(Self { path, file, length })
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

    /// Appends lines as one gzip member. The member carries no time, so equal
    /// lines give equal bytes.
    pub fn append_gzip(&mut self, lines: &[String]) -> Result<(), OutputError> {
        let mut encoder = GzBuilder::new()
            .mtime(0)
            .write(Vec::new(), Compression::default());
        for line in lines {
            encoder
                .write_all(line.as_bytes())
                .and_then(|()| encoder.write_all(b"\n"))
                .map_err(io(&self.path, "compressing"))?;
        }
        let member = encoder.finish().map_err(io(&self.path, "compressing"))?;
        self.append(&member)
    }
}

/// The number of the newest sentence file, 0 where there is none.
pub(super) fn last_segment(folder: &Path) -> Result<u32, OutputError> {
    Ok(segments(folder)?.into_iter().max().unwrap_or(0))
}

/// Removes sentence files that the frontier does not know of.
pub(super) fn remove_segments_after(folder: &Path, last: u32) -> Result<(), OutputError> {
    for number in segments(folder)? {
        if number > last {
            let path = folder.join(format!("{number:05}.txt.gz"));
            std::fs::remove_file(&path).map_err(io(&path, "removing"))?;
        }
    }
    Ok(())
}

fn segments(folder: &Path) -> Result<Vec<u32>, OutputError> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io(folder, "listing"))? {
        let entry = entry.map_err(io(folder, "listing"))?;
        let name = entry.file_name();
        let number: Option<u32> = name
            .to_str()
            .and_then(|n| n.strip_suffix(".txt.gz"))
            .and_then(|n| n.parse().ok());
        numbers.extend(number);
    }
    Ok(numbers)
}
