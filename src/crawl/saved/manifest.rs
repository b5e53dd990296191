//! The manifest: the one object that says which others are a checkpoint, and whose it is.
//!
//! On one machine it is replaced by compare-and-set alone; a session of a cluster has one for
//! each of its checkpoints. Objects that it does not name are rubbish of a
//! checkpoint that was not finished or is not needed any more.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use super::SaveError;
use super::pairs::Span;
use crate::frontier::{Amount, CellId, CellMark, Mark};
use crate::objects::{LONGEST, Objects, Version};

/// Its name.
pub(super) const NAME: &str = "manifest.json";
/// The most bytes of one.
const MOST: u64 = 32 << 20;
/// The layout of all objects.
const FORMAT: u32 = 1;

/// An object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Piece {
    pub name: String,
    pub bytes: u64,
    /// The xxh3 of its bytes.
    pub digest: String,
    /// Which keys it has, where a part of them may be wanted: in a session of a cluster.
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

    /// Reads it, and checks that it is what was written.
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

/// What a file of an output grew by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Grown {
    /// The output, and the number of the file.
    pub output: String,
    pub number: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Where the bytes belong in the file.
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
    /// The job's folder, by a number drawn for it.
    pub folder: String,
    /// The name of the machine.
    pub host: String,
    /// The system and its processes, where that is known.
    pub system: String,
    /// The process.
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
    /// When the state was saved; 0 where nothing is saved yet.
    pub saved: u64,
    pub commits: u64,
    pub documents: u64,
    pub images: u64,
    /// Where the outputs stood, in hexadecimal digits.
    pub stamp: String,
    /// What the session has done of what the job may limit.
    #[serde(default, skip_serializing_if = "Amount::is_zero")]
    pub used: Amount,
    /// Up to where it has learned what all machines teach each other; 0 on one machine.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub learned: u64,
    /// What is there of each cell.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cells: BTreeMap<CellId, CellMark>,
    /// Its number in its session; 0 on one machine.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub number: u64,
    /// Whether the outputs are here.
    pub outputs: bool,
    /// All pairs at some commit, and in their order those that changed since.
    pub base: Vec<Piece>,
    pub changes: Vec<Piece>,
    /// The small files by their names, with digests.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Objects with lists of what the outputs grew by, and what they grew by since.
    pub lists: Vec<Piece>,
    pub grown: Vec<Grown>,
}

impl Manifest {
    /// Its objects with pairs, in the order in which they were written.
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

    /// The commit that it shows.
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

    /// Notes which commit it shows, and when that was the last one.
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

    /// The names of all objects that it names by itself, and of those in its lists.
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

    /// All that the outputs grew by, in its order.
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

/// What the outputs grew by, as an object with a list of that says.
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

/// The same of one with this name.
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

/// Puts a manifest in the place of the one with this version; `None` where another process
/// was faster. A refusal is not the last word: an answer may have been lost, and the request
/// repeated. So what is there is compared.
pub(super) fn swap(
    objects: &dyn Objects,
    manifest: &mut Manifest,
    was: Option<&Version>,
) -> Result<Option<Version>, SaveError> {
    swap_as(objects, NAME, manifest, was)
}

/// The same for one with this name.
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
        // Nobody else has changed it.
        Some((_, version)) if was == Some(&version) => match swapped {
            Err(error) => Err(error.into()),
            Ok(_) => Err(SaveError::Damaged {
                name: format!("{}/{name}", objects.address()),
                why: "the store took a new one and gives back the old one".to_owned(),
            }),
        },
        None if was.is_none() => match swapped {
            Err(error) => Err(error.into()),
            Ok(_) => Ok(None),
        },
        _ => Ok(None),
    }
}
