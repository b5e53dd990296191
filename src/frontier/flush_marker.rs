//! How far the store has been flushed, in a separate file beside the backend's.
//!
//! A backend may come back in an older state without noticing: sled takes a damaged end of its log
//! for an incomplete write, and its flush does not survive every power cut. So each flush writes
//! the number of its last commit to a file, and opening compares the two. A missing file proves
//! nothing: a store that was copied, converted or imported begins without one.

use std::io::ErrorKind;
use std::path::Path;

use super::store::StoreError;
use crate::fs::atomic::{self, Durability};
use crate::fs::beneath;

const NAME: &str = "flushed";

/// Notes that everything up to `commit` has been flushed to the store in `folder`.
pub(super) fn write(folder: &Path, commit: u64) -> Result<(), StoreError> {
    let (text, durability) = (commit.to_string(), Durability::Synced);
    let written = atomic::write_through(folder, "flushed.part", NAME, text.as_bytes(), durability);
    written.map_err(|e| failed(folder, &e))
}

/// Compares the store in `folder`, which is at `commit`, with its last flush.
pub(super) fn check(folder: &Path, commit: u64) -> Result<(), StoreError> {
    let text = match beneath::read(folder, NAME) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        read => read.map_err(|e| failed(folder, &e))?,
    };
    let number = std::str::from_utf8(&text).ok().and_then(|t| t.parse().ok());
    match number {
        Some(flushed) if flushed <= commit => Ok(()),
        Some(flushed) => Err(StoreError::Older {
            path: folder.to_owned(),
            found: commit,
            flushed,
        }),
        None => Err(StoreError::Damaged {
            path: folder.to_owned(),
            why: format!("the file `{NAME}` holds no number"),
        }),
    }
}

fn failed(folder: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Io {
        path: folder.to_owned(),
        why: format!("the file `{NAME}`: {error}"),
    }
}
