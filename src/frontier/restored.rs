//! A note beside a store that was restored from a checkpoint elsewhere.
//!
//! The lost machine may have requested hosts after the checkpoint, and their delays may have grown
//! since. So no host is requested until its delay has passed since the restore, or the longest
//! delay of a slow host if that is more. The time stays noted, so that this holds across restarts;
//! once it has passed it has no effect.

use std::path::Path;

use super::store::StoreError;
use crate::fs::atomic::{self, Durability};
use crate::fs::beneath;

const NAME: &str = "restored";

/// Notes that the store in `folder` was restored at `now`.
///
/// # Errors
/// [`StoreError::Io`].
pub fn note_restored(folder: &Path, now: u64) -> Result<(), StoreError> {
    let text = now.to_string();
    let written = atomic::write_through(
        folder,
        "restored.part",
        NAME,
        text.as_bytes(),
        Durability::Synced,
    );
    written.map_err(|error| StoreError::Io {
        path: folder.to_owned(),
        why: format!("the file `{NAME}`: {error}"),
    })
}

/// When the store in `folder` was restored, if it was.
pub(super) fn when(folder: &Path) -> Option<u64> {
    let text = beneath::read_to_string(folder, NAME).ok()?;
    text.parse().ok()
}
