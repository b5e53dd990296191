//! Checks whether all objects that a session's checkpoints name are present and intact.
//!
//! It names all damage, so that an operator knows what to put back from a copy.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::SaveError;
use super::manifest::{Manifest, Piece, list_of};
use super::numbered::{address, manifest_of, name};
use super::pairs::{self, JOB, file_of_key};
use super::send::image_name;
use crate::frontier::CellId;
use crate::objects::{self, LONGEST, Objects};
use crate::progress::Step;

/// An object that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{object}: {why}")]
pub struct Flaw {
    /// The object, including its store.
    pub object: String,
    /// The problem.
    pub why: String,
}

/// The state of a session's checkpoints.
#[derive(Debug, Default)]
pub struct Verified {
    /// The number of objects that they name, each counted once.
    pub objects: u64,
    /// Bytes of these objects, according to the manifests.
    pub bytes: u64,
    /// The damage found, each flaw once.
    pub flaws: BTreeSet<Flaw>,
    /// The cells that each checkpoint holds completely.
    pub held: BTreeMap<u64, BTreeSet<CellId>>,
}

/// A session's folder in the cluster's store.
pub struct SavedSession {
    objects: Box<dyn Objects>,
}

/// The data about an image that come from its sidecar.
#[derive(Debug, Deserialize)]
struct ImageOf {
    sha256: String,
    #[serde(default)]
    same_as: Option<String>,
}

impl SavedSession {
    /// The sessions that have any objects in a store, with the number of objects and bytes.
    ///
    /// # Errors
    /// [`SaveError::Objects`] if the store fails.
    pub fn all(store: &str) -> Result<BTreeMap<String, (u64, u64)>, SaveError> {
        const FOLDER: &str = "sessions";
        let objects = objects::open(store)?;
        let mut all: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for name in objects.list(FOLDER)? {
            let session = name.split('/').nth(1).filter(|name| !name.is_empty());
            if let Some(session) = session {
                let length = objects.length(&name)?.unwrap_or(0);
                let (count, bytes) = all.entry(session.to_owned()).or_default();
                *count += 1;
                *bytes += length;
            }
        }
        Ok(all)
    }

    /// Opens a session's folder. Nothing is requested yet.
    ///
    /// # Errors
    /// [`SaveError::Objects`] if the store's address is invalid.
    pub fn open(store: &str, session: &str) -> Result<Self, SaveError> {
        let objects = objects::open(&address(store, session))?;
        Ok(Self { objects })
    }

    /// Whether it has a checkpoint of this number.
    ///
    /// # Errors
    /// [`SaveError::Objects`] if the store fails.
    pub fn has(&self, number: u64) -> Result<bool, SaveError> {
        Ok(self.objects.length(&name(number))?.is_some())
    }

    /// Checks all objects that these checkpoints name. With `quick`, compares only their lengths;
    /// otherwise reads all of them. `step` counts the objects.
    ///
    /// # Errors
    /// [`SaveError::Objects`] if the store fails. Damage is not an error.
    pub fn verify(
        &self,
        numbers: &BTreeSet<u64>,
        quick: bool,
        step: &mut Step,
    ) -> Result<Verified, SaveError> {
        let mut work = VerifyWork::new(&*self.objects, quick, step);
        for number in numbers {
            match manifest_of(&*self.objects, *number) {
                Ok(manifest) => {
                    let held = manifest.mark().held().into_keys().collect();
                    work.found.held.insert(*number, held);
                    work.checkpoint(&manifest)?;
                }
                Err(error) => work.note(error)?,
            }
        }
        Ok(work.found)
    }
}

struct VerifyWork<'w> {
    objects: &'w dyn Objects,
    quick: bool,
    found: Verified,
    /// The objects that were checked.
    seen: HashSet<String>,
    /// The images that were checked, by their SHA-256.
    images: HashSet<String>,
    step: &'w mut Step,
}

/// Reads all objects of a checkpoint.
///
/// # Errors
/// [`SaveError::Objects`] if the store fails. Damage is not an error.
pub(super) fn verify(objects: &dyn Objects, manifest: &Manifest) -> Result<Verified, SaveError> {
    let mut step = Step::begin("objects checked", None);
    let mut work = VerifyWork::new(objects, false, &mut step);
    work.checkpoint(manifest)?;
    Ok(work.found)
}

impl<'w> VerifyWork<'w> {
    fn new(objects: &'w dyn Objects, quick: bool, step: &'w mut Step) -> Self {
        Self {
            objects,
            quick,
            found: Verified::default(),
            seen: HashSet::new(),
            images: HashSet::new(),
            step,
        }
    }

    fn checkpoint(&mut self, manifest: &Manifest) -> Result<(), SaveError> {
        let mut images = BTreeMap::new();
        for piece in manifest.pieces() {
            let Some(packed) = self.piece(piece)? else {
                continue;
            };
            let read = pairs::each(&piece.name, &packed, &mut |(key, value)| {
                if let Some(file) = file_of_key(key) {
                    see_sidecar(&mut images, file, value);
                }
                Ok(())
            });
            read.or_else(|error| self.note(error))?;
        }
        let mut grown = manifest.grown.clone();
        for list in &manifest.lists {
            // This list names the parts of the outputs, so it is read in any case.
            if self.look(list)? {
                match list_of(list, self.objects) {
                    Ok(more) => grown.extend(more),
                    Err(error) => self.note(error)?,
                }
            }
        }
        for grown in grown {
            if let Some(bytes) = self.piece(&grown.piece)?
                && grown.packed
                && let Err(error) = pairs::unpack(&grown.piece.name, &bytes)
            {
                self.note(error)?;
            }
        }
        for sha256 in images.into_values() {
            self.image(sha256)?;
        }
        Ok(())
    }

    /// Records damage; returns other errors.
    fn note(&mut self, error: SaveError) -> Result<(), SaveError> {
        let (SaveError::Damaged { name, why } | SaveError::Unreadable { name, why }) = error else {
            return Err(error);
        };
        let name = match name.strip_prefix(self.objects.address()) {
            Some(rest) => rest.trim_start_matches('/').to_owned(),
            None => name,
        };
        self.flaw(&name, why);
        Ok(())
    }

    fn flaw(&mut self, name: &str, why: impl Into<String>) {
        self.found.flaws.insert(Flaw {
            object: format!("{}/{name}", self.objects.address()),
            why: why.into(),
        });
    }

    /// Whether an object exists with the right length. Counts it the first time.
    fn look(&mut self, piece: &Piece) -> Result<bool, SaveError> {
        if self.seen.insert(piece.name.clone()) {
            self.found.objects += 1;
            self.found.bytes += piece.bytes;
            self.step.advance(1);
        }
        match self.objects.length(&piece.name)? {
            Some(length) if length == piece.bytes => return Ok(true),
            Some(length) => {
                let why = format!("it has {length} bytes, but {} were written", piece.bytes);
                self.flaw(&piece.name, why);
            }
            None => self.flaw(&piece.name, "it is missing"),
        }
        Ok(false)
    }

    /// The bytes of an intact object; `None` if it is damaged, or was not read.
    fn piece(&mut self, piece: &Piece) -> Result<Option<Vec<u8>>, SaveError> {
        if !self.look(piece)? || self.quick {
            return Ok(None);
        }
        match piece.read(self.objects) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) => self.note(error).map(|()| None),
        }
    }

    fn image(&mut self, sha256: String) -> Result<(), SaveError> {
        let name = image_name(&sha256);
        if !self.images.insert(sha256.clone()) {
            return Ok(());
        }
        let Some((bytes, _)) = self.objects.get(&name, LONGEST)? else {
            self.flaw(&name, "the image is missing");
            return Ok(());
        };
        self.found.objects += 1;
        self.found.bytes += bytes.len() as u64;
        self.step.advance(1);
        if base16ct::lower::encode_string(&Sha256::digest(&bytes)) != sha256 {
            self.flaw(&name, "its bytes are not those that were written");
        }
        Ok(())
    }
}

/// Records the image of a sidecar under the sidecar's name. The last one counts.
fn see_sidecar(images: &mut BTreeMap<Vec<u8>, String>, file: &[u8], value: Option<&[u8]>) {
    let name = |file: &[u8]| {
        let name = file.split_last_chunk::<5>()?.0;
        let below = name.strip_prefix(JOB.as_bytes())?;
        (below.starts_with(b"images/") && below.ends_with(b".json")).then(|| below.to_vec())
    };
    let Some(name) = name(file) else {
        return;
    };
    match value.map(serde_json::from_slice::<ImageOf>) {
        Some(Ok(image)) if image.same_as.is_none() => drop(images.insert(name, image.sha256)),
        _ => drop(images.remove(&name)),
    }
}
