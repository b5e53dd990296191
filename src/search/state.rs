//! The positions up to which documents were indexed. They are part of each commit of the
//! index, so that both agree after a kill at any moment.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::read::{FilePacking, ReadPosition};
use super::schema::VERSION;
use crate::fs::beneath;
use crate::outputs::DOCUMENTS;

/// The state of an index.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IndexState {
    pub version: u32,
    /// How often samples had been removed from the job.
    pub generation: u64,
    /// By the path below the folder.
    pub files: BTreeMap<String, IndexedFile>,
    /// The position up to which `images.tsv` was read.
    pub images: TablePlace,
    /// The position up to which the log was read for places in the archive.
    pub captures: TablePlace,
    /// The entities that are found in the documents.
    #[serde(default)]
    pub entities: Option<EntityListState>,
}

/// A list of entities.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EntityListState {
    /// The file of the list or of its index.
    pub path: PathBuf,
    /// A hash that identifies its index.
    pub print: u64,
}

/// A place in a table of several files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TablePlace {
    /// The number of the file.
    pub part: u32,
    /// The byte in it.
    pub byte: u64,
}

/// A file whose documents were indexed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IndexedFile {
    byte: u64,
    #[serde(default)]
    inside: u64,
    lines: u64,
    /// The hash of everything before `byte`.
    hash: u64,
    /// The length and modification time of the file at that time.
    length: u64,
    changed: u64,
}

/// The state of a file compared with the recorded one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileChange {
    /// The file is unchanged.
    Same,
    /// The indexed part is unchanged.
    Grown,
    /// The indexed part was changed.
    Changed,
}

impl IndexState {
    /// For a new index.
    pub(super) fn new(generation: u64) -> Self {
        Self {
            version: VERSION,
            generation,
            ..Self::default()
        }
    }

    /// The state in a commit; `None` if it has another form.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let state: Self = serde_json::from_str(text).ok()?;
        (state.version == VERSION).then_some(state)
    }

    /// Bytes of the files of documents that were not read yet.
    pub(super) fn behind(&self, folder: &Path) -> u64 {
        let entries = beneath::entries(folder, DOCUMENTS).unwrap_or_default();
        let names = entries
            .into_iter()
            .map(|(entry, _)| format!("{DOCUMENTS}/{entry}"));
        let names = names.filter(|name| FilePacking::of(name).is_some());
        let left = names.map(|name| {
            let read = self.files.get(&name).map_or(0, |known| known.byte);
            beneath::length(folder, &name)
                .unwrap_or(0)
                .saturating_sub(read)
        });
        left.sum()
    }

    pub(super) fn to_text(&self) -> String {
        // Numbers and names always serialise.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl IndexedFile {
    /// The state of a file that was read up to a position.
    pub(super) fn at(folder: &Path, name: &str, position: ReadPosition) -> io::Result<Self> {
        let (length, changed) = about(folder, name)?;
        Ok(Self {
            byte: position.byte,
            inside: position.inside,
            lines: position.lines,
            hash: hash(folder, name, position.byte)?,
            length,
            changed,
        })
    }

    pub(super) fn position(&self) -> ReadPosition {
        ReadPosition {
            byte: self.byte,
            inside: self.inside,
            lines: self.lines,
        }
    }

    /// Compares with the file as it is now. Its contents are read only if its length or
    /// its time has changed.
    pub(super) fn compare(&self, folder: &Path, name: &str) -> io::Result<FileChange> {
        let now = about(folder, name)?;
        if now == (self.length, self.changed) {
            return Ok(FileChange::Same);
        }
        let is_grown = now.0 >= self.byte && hash(folder, name, self.byte)? == self.hash;
        Ok(if is_grown {
            FileChange::Grown
        } else {
            FileChange::Changed
        })
    }
}

/// The length of a file, and its modification time in nanoseconds since 1970.
fn about(folder: &Path, name: &str) -> io::Result<(u64, u64)> {
    let about = beneath::open(folder, name)?.metadata()?;
    let changed = about.modified()?.duration_since(UNIX_EPOCH);
    let changed = changed.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(0));
    Ok((about.len(), changed))
}

/// The hash of the first bytes of a file.
fn hash(folder: &Path, name: &str, bytes: u64) -> io::Result<u64> {
    let mut file = beneath::open(folder, name)?.take(bytes);
    let mut hash = Xxh3::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(hash.digest());
        }
        hash.update(buffer.get(..read).unwrap_or_default());
    }
}
