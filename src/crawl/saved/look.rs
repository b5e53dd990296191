//! The content of a checkpoint, and whether it is complete.

use serde::Serialize;

use super::SaveError;
use super::manifest::{self, Manifest, Owner, Piece};
use super::verify::{Verified, verify};
use crate::clock::timestamp;
use crate::objects::{self, Objects};
use crate::settings::JobSettings;

/// The content of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckpointContent {
    /// The store.
    pub store: String,
    /// When it was made, RFC 3339 in UTC; `None` if its place is only reserved.
    pub saved: Option<String>,
    /// The process that made it.
    pub owner: Owner,
    /// Whether that process ended in good order.
    pub ended: bool,
    /// How many owners there have been.
    pub term: u64,
    /// The frontier's commit in it.
    pub commits: u64,
    /// Pages done.
    pub documents: u64,
    /// Images kept.
    pub images: u64,
    /// Whether it includes the outputs.
    pub outputs: bool,
    /// Bytes of the base, of the changes since then, and of the outputs without images.
    pub bytes: [u64; 3],
    /// Objects of each.
    pub objects: [usize; 3],
}

fn open(config: &JobSettings) -> Result<(Box<dyn Objects>, Manifest), SaveError> {
    let store = config.checkpoint.store.as_ref().ok_or(SaveError::NoStore)?;
    let objects = objects::open(store.as_str())?;
    let nothing = || SaveError::Nothing(store.as_str().to_owned());
    let (manifest, _) = manifest::read(&*objects)?.ok_or_else(nothing)?;
    Ok((objects, manifest))
}

/// The content of a job's checkpoint.
///
/// # Errors
/// [`SaveError`], also if there is none.
pub fn look(config: &JobSettings) -> Result<CheckpointContent, SaveError> {
    let (objects, manifest) = open(config)?;
    found(&*objects, &manifest)
}

fn found(objects: &dyn Objects, manifest: &Manifest) -> Result<CheckpointContent, SaveError> {
    let bytes = |pieces: &[Piece]| pieces.iter().map(|piece| piece.bytes).sum();
    let (mut grown, mut count) = (0, 0);
    manifest.each_grown(objects, &mut |part| {
        grown += part.piece.bytes;
        count += 1;
        Ok(())
    })?;
    Ok(CheckpointContent {
        store: objects.address().to_owned(),
        saved: manifest.has_state().then(|| timestamp(manifest.saved)),
        owner: manifest.owner.clone(),
        ended: manifest.ended,
        term: manifest.term,
        commits: manifest.commits,
        documents: manifest.documents,
        images: manifest.images,
        outputs: manifest.outputs,
        bytes: [bytes(&manifest.base), bytes(&manifest.changes), grown],
        objects: [manifest.base.len(), manifest.changes.len(), count],
    })
}

/// Reads all objects of a job's checkpoint and reports what is wrong with them.
///
/// # Errors
/// [`SaveError`], also if there is none. Damage is not an error.
pub fn check(config: &JobSettings) -> Result<(CheckpointContent, Verified), SaveError> {
    let (objects, manifest) = open(config)?;
    let verified = verify(&*objects, &manifest)?;
    Ok((found(&*objects, &manifest)?, verified))
}
