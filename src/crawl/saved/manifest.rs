//! The manifest: the one object that says which objects form a checkpoint, and who owns it.
//!
//! On one machine, only compare-and-set replaces it; a session of a cluster has one manifest for
//! each checkpoint. Objects that no manifest names are garbage: their checkpoint was not finished
//! or is no longer needed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use super::SaveError;
use super::pairs::Span;
use crate::frontier::{Amount, CellId, CellMark, Mark};
use crate::objects::{LONGEST, Objects, Version};

/// Its object name.
pub(super) const NAME: &str = "manifest.json";
/// The most bytes of a manifest.
const MOST: u64 = 32 << 20;
/// The version of the layout of all objects.
const FORMAT: u32 = 1;

/// An object of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Piece {
    pub name: String,
    pub bytes: u64,
    /// The xxh3 of its bytes.
    pub digest: String,
    /// The keys that it spans; only in a session of a cluster, where a part of them may be wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<Span>,
}

impl Piece {
    pub fn of(name: String, bytes: &[u8]) -> Self {
        Self {
            name,
            bytes: bytes.len() as u64,
            digest: digest(bytes),
            span: None,
        }
    }

    /// Reads it and checks its digest.
    pub fn read(&self, objects: &dyn Objects) -> Result<Vec<u8>, SaveError> {
        let damaged = |why: &str| SaveError::Damaged {
            name: format!("{}/{}", objects.address(), self.name),
            why: why.to_owned(),
        };
        let (bytes, _) = objects
            .get(&self.name, self.bytes.min(LONGEST))?
            .ok_or_else(|| damaged("it is missing"))?;
        if digest(&bytes) != self.digest {
            return Err(damaged("its bytes are not those that were written"));
        }
        Ok(bytes)
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

pub(super) fn digest(bytes: &[u8]) -> String {
    format!("{:032x}", xxh3_128(bytes))
}

/// The growth of an output file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Grown {
    /// The output, and the number of the file.
    pub output: String,
    pub number: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The offset of the bytes in the file.
    pub from: u64,
    /// The object, which has nothing else.
    pub piece: Piece,
    /// Whether the object is compressed.
    #[serde(default)]
    pub packed: bool,
}

/// A process that crawls the job, or did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The random ID of the job's folder.
    pub folder: String,
    /// The name of the machine.
    pub host: String,
    /// The running system and its PID namespace, if known.
    pub system: String,
    /// The process ID.
    pub process: u32,
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {} on {}", self.process, self.host)
    }
}

/// See the module's documentation. Times are milliseconds since 1970, by the clock of the
/// machine that wrote them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    pub format: u32,
    pub job: String,
    /// Counts the owners.
    pub term: u64,
    /// Counts the changes of the manifest.
    pub beat: u64,
    pub owner: Owner,
    /// Whether the owner has ended.
    pub ended: bool,
    /// How often the owner changes the manifest while it lives.
    pub every: u64,
    /// When the state was saved; 0 if nothing is saved yet.
    pub saved: u64,
    pub commits: u64,
    pub documents: u64,
    pub images: u64,
    /// The position of the outputs, in hexadecimal digits.
    pub stamp: String,
    /// The session's use of what the job may limit.
    #[serde(default, skip_serializing_if = "Amount::is_zero")]
    pub used: Amount,
    /// The position in the shared lessons up to which it has learned; 0 on one machine.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub learned: u64,
    /// What the checkpoint has of each cell.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cells: BTreeMap<CellId, CellMark>,
    /// Its number in its session; 0 on one machine.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub number: u64,
    /// Whether the outputs are included.
    pub outputs: bool,
    /// All pairs at one commit, followed by those that changed since, in order.
    pub base: Vec<Piece>,
    pub changes: Vec<Piece>,
    /// The small files by their names, with digests.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Objects with lists of earlier output growth, and the growth since then.
    pub lists: Vec<Piece>,
    pub grown: Vec<Grown>,
}

impl Manifest {
    /// The objects with pairs, in the order in which they were written.
    pub fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.base.iter().chain(&self.changes)
    }

    /// Whether a state is saved.
    pub fn has_state(&self) -> bool {
        self.saved > 0
    }

    pub fn stamp(&self) -> Vec<u8> {
        base16ct::mixed::decode_vec(&self.stamp).unwrap_or_default()
    }

    /// The frontier's commit in it.
    pub fn mark(&self) -> Mark {
        Mark {
            commits: self.commits,
            stamp: self.stamp(),
            documents: self.documents,
            images: self.images,
            used: self.used,
            learned: self.learned,
            cells: self.cells.clone(),
        }
    }

    /// Records which commit it shows, and when that was the latest.
    pub fn set_mark(&mut self, mark: Mark, at: u64) {
        self.saved = at;
        self.commits = mark.commits;
        self.documents = mark.documents;
        self.images = mark.images;
        self.used = mark.used;
        self.learned = mark.learned;
        self.cells = mark.cells;
        self.stamp = base16ct::lower::encode_string(&mark.stamp);
    }

    /// The names of all objects that it names itself, and of those in its lists.
    pub fn names(&self, objects: &dyn Objects) -> Result<Vec<String>, SaveError> {
        let own = self.pieces().chain(&self.lists);
        let mut names: Vec<String> = own.map(|piece| piece.name.clone()).collect();
        let mut grown = |all: &[Grown]| names.extend(all.iter().map(|g| g.piece.name.clone()));
        grown(&self.grown);
        for list in &self.lists {
            grown(&list_of(list, objects)?);
        }
        Ok(names)
    }

    /// All growth of the outputs, in order.
    pub fn each_grown(
        &self,
        objects: &dyn Objects,
        visit: &mut dyn FnMut(&Grown) -> Result<(), SaveError>,
    ) -> Result<(), SaveError> {
        for list in &self.lists {
            list_of(list, objects)?.iter().try_for_each(&mut *visit)?;
        }
        self.grown.iter().try_for_each(visit)
    }
}

/// The growth of the outputs that an object with a list records.
pub(super) fn list_of(piece: &Piece, objects: &dyn Objects) -> Result<Vec<Grown>, SaveError> {
    let bytes = super::pairs::unpack(&piece.name, &piece.read(objects)?)?;
    serde_json::from_slice(&bytes).map_err(|error| SaveError::Damaged {
        name: piece.name.clone(),
        why: error.to_string(),
    })
}

/// Reads the manifest, if there is one.
pub(super) fn read(objects: &dyn Objects) -> Result<Option<(Manifest, Version)>, SaveError> {
    read_as(objects, NAME)
}

/// The same for a manifest of this name.
pub(super) fn read_as(
    objects: &dyn Objects,
    name: &str,
) -> Result<Option<(Manifest, Version)>, SaveError> {
    let Some((bytes, version)) = objects.get(name, MOST)? else {
        return Ok(None);
    };
    let damaged = |why: String| SaveError::Damaged {
        name: format!("{}/{name}", objects.address()),
        why,
    };
    let manifest: Manifest =
        serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    if manifest.format != FORMAT {
        return Err(damaged(format!(
            "it has format {}, this spoor reads format {FORMAT}",
            manifest.format
        )));
    }
    Ok(Some((manifest, version)))
}

/// Replaces the manifest of this version; `None` if another process was faster. A refusal is not
/// final: the response may have been lost and the request repeated. So the stored manifest is
/// compared.
pub(super) fn swap(
    objects: &dyn Objects,
    manifest: &mut Manifest,
    was: Option<&Version>,
) -> Result<Option<Version>, SaveError> {
    swap_as(objects, NAME, manifest, was)
}

/// The same for a manifest of this name.
pub(super) fn swap_as(
    objects: &dyn Objects,
    name: &str,
    manifest: &mut Manifest,
    was: Option<&Version>,
) -> Result<Option<Version>, SaveError> {
    manifest.format = FORMAT;
    manifest.beat += 1;
    // Names and numbers always serialise.
    let bytes = serde_json::to_vec(manifest).unwrap_or_default();
    let swapped = objects.swap(name, &bytes, was);
    let there = objects.get(name, MOST)?;
    match there {
        Some((found, version)) if found == bytes => Ok(Some(version)),
        // No other process has changed it.
        Some((_, version)) if was == Some(&version) => match swapped {
            Err(error) => Err(error.into()),
            Ok(_) => Err(SaveError::Damaged {
                name: format!("{}/{name}", objects.address()),
                why: "the store accepted a new one but still returns the old one".to_owned(),
            }),
        },
        None if was.is_none() => match swapped {
            Err(error) => Err(error.into()),
            Ok(_) => Ok(None),
        },
        _ => Ok(None),
    }
}
