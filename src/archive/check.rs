//! Reads whole files and reports what is in them and what is wrong.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;
use serde::Serialize;

use super::digest::{Compared, DigestMatch, Digests};
use super::gap::Gap;
use super::reader::{Item, ReadError, Reader, RecordEntry};
use crate::progress::Step;

/// The most gaps and wrong digests that are kept for a file; all are counted.
const MOST: usize = 1_000;
/// The most names of types that are kept; a hostile file may invent any number.
const MOST_NAMES: usize = 50;
/// The interval of progress reports, in bytes.
const EVERY: u64 = 1 << 20;

/// The contents of one file.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Checked {
    /// The file.
    pub file: PathBuf,
    /// How many bytes of it were read.
    pub bytes: u64,
    /// Records that were read to their end.
    pub records: u64,
    /// The bytes of their blocks.
    pub block_bytes: u64,
    /// Records by format, as `WARC/1.1`.
    pub versions: BTreeMap<String, u64>,
    /// Records by type, as `response`.
    pub kinds: BTreeMap<String, u64>,
    /// Digests of whole records.
    pub digests: Counts,
    /// Records with wrong digests, at most 1000.
    pub wrong: Vec<Wrong>,
    /// The number of gaps.
    pub gap_count: u64,
    /// The gaps, at most 1000.
    pub gaps: Vec<Gap>,
    /// Why the file could not be read any further.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// The number of digests by the result of the comparison.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Digests that match the bytes.
    pub right: u64,
    /// Digests that do not match.
    pub wrong: u64,
    /// Digests of unknown algorithms, or malformed ones.
    pub unknown: u64,
}

/// A record with a wrong digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Wrong {
    /// Where the record begins in the file.
    pub offset: u64,
    /// Where it begins in the decompressed member at `offset`, if it is not the first record
    /// there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside: Option<u64>,
    /// Its type.
    pub kind: String,
    /// Its address.
    pub uri: Option<String>,
    /// The digest.
    #[serde(flatten)]
    pub compared: Compared,
}

impl Checked {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.gap_count == 0 && self.digests.wrong == 0 && self.failed.is_none()
    }

    fn count<R: Read>(&mut self, mut entry: RecordEntry<'_, R>) -> Result<(), ReadError> {
        let mut digests = Digests::of(&entry.record);
        if !digests.is_empty() {
            // The reader reports damage as a gap.
            while let Ok(piece) = entry.fill_buf() {
                if piece.is_empty() {
                    break;
                }
                digests.update(piece);
                let n = piece.len();
                entry.consume(n);
            }
        }
        if entry.finish()?.is_none() {
            return Ok(());
        }
        let record = &entry.record;
        self.records += 1;
        self.block_bytes += record.length;
        add(&mut self.versions, record.version.name());
        add(&mut self.kinds, record.kind.name());
        for compared in digests.finish() {
            match compared.verdict {
                DigestMatch::Right => self.digests.right += 1,
                DigestMatch::Unknown => self.digests.unknown += 1,
                DigestMatch::Wrong => {
                    self.digests.wrong += 1;
                    if self.wrong.len() < MOST {
                        self.wrong.push(Wrong {
                            offset: record.offset,
                            inside: record.inside,
                            kind: record.kind.name().to_owned(),
                            uri: record.uri.clone(),
                            compared,
                        });
                    }
                }
            }
        }
        Ok(())
    }
}

fn add(names: &mut BTreeMap<String, u64>, name: &str) {
    let is_kept = names.contains_key(name) || names.len() < MOST_NAMES;
    let name = if is_kept { name } else { "others" };
    *names.entry(name.to_owned()).or_default() += 1;
}

/// Reads a stream to its end. `read` is called from time to time with the number of bytes read
/// since the last call.
pub fn check(source: impl Read, file: &Path, mut read: impl FnMut(u64)) -> Checked {
    let mut checked = Checked {
        file: file.to_owned(),
        ..Checked::default()
    };
    let mut reader = Reader::new(source, file);
    loop {
        let done = match reader.next_item() {
            Ok(None) => break,
            Ok(Some(Item::Record(entry))) => checked.count(entry),
            Ok(Some(Item::Gap(gap))) => {
                checked.gap_count += 1;
                if checked.gaps.len() < MOST {
                    checked.gaps.push(gap);
                }
                Ok(())
            }
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            checked.failed = Some(error.to_string());
            break;
        }
        let position = reader.position();
        if position - checked.bytes >= EVERY {
            read(position - checked.bytes);
            checked.bytes = position;
        }
    }
    read(reader.position() - checked.bytes);
    checked.bytes = reader.position();
    checked
}

/// Runs `work` on each file, on all cores; returns the results in the order of the files.
/// `work` gets a function to report how many more bytes it has read, for the progress step
/// named `what`.
///
/// # Errors
///
/// The first file whose size cannot be read.
pub fn on_all_cores<T: Send>(
    files: &[PathBuf],
    what: &'static str,
    work: impl Fn(&Path, &dyn Fn(u64)) -> T + Sync,
) -> io::Result<Vec<T>> {
    let sizes = files.iter().map(|file| Ok(file.metadata()?.len()));
    let total: u64 = sizes.sum::<io::Result<u64>>()?;
    let step = Mutex::new(Step::begin(what, Some(total)));
    let read = |bytes: u64| {
        let mut step = step.lock().unwrap_or_else(PoisonError::into_inner);
        step.advance(bytes);
    };
    let all = files.par_iter().map(|file| work(file, &read));
    Ok(all.collect())
}

/// Checks files on all cores.
///
/// # Errors
///
/// The first file whose size cannot be read. Other read errors are reported in
/// [`Checked::failed`].
pub fn check_all(files: &[PathBuf]) -> io::Result<Vec<Checked>> {
    on_all_cores(files, "reading archives", |path, read| {
        let opened = crate::fs::open(path);
        match opened {
            Ok(file) => check(file, path, read),
            Err(error) => Checked {
                file: path.to_owned(),
                failed: Some(error.to_string()),
                ..Checked::default()
            },
        }
    })
}
