//! The stored capture of a page, read from its archive.

use std::path::{Path, PathBuf};

use super::Home;
use super::schema::Stored;
use crate::archive::files;
use crate::archive::gap::RecordSpan;
use crate::archive::http::Response;
use crate::archive::lookup::shelf::OnDisk;
use crate::archive::lookup::stored::{self, StoredError};
use crate::archive::record::Kind;
use crate::fs::beneath;

/// The longest body that is shown, in bytes.
pub(super) const MAX_BODY: usize = 16 << 20;

/// Why a capture cannot be shown.
#[derive(Debug, thiserror::Error)]
pub(super) enum CaptureError {
    /// Its file is not there.
    #[error("{0} is not there any more, or is no WARC or ARC file")]
    NoFile(String),
    /// Nothing can be read at its place.
    #[error(
        "{file}: no response can be read at byte {byte}; `spoor archive check` looks for damage"
    )]
    NoRecord {
        /// The file.
        file: String,
        /// The place.
        byte: u64,
    },
    /// The page was as at an earlier visit, so that only this is stored.
    #[error(
        "the page was the same as at an earlier visit, and only that is stored; find its capture \
         with `spoor archive get`"
    )]
    Revisit,
    /// The file cannot be read.
    #[error(transparent)]
    Stored(#[from] StoredError),
}

/// Reads a capture.
pub(super) fn read(home: &Home, stored: &Stored) -> Result<Response, CaptureError> {
    let none = || CaptureError::NoFile(stored.file.clone());
    let path = file(home, &stored.file).ok_or_else(none)?;
    let mut parts = OnDisk::open(&path).map_err(|_| none())?;
    let place = RecordSpan {
        offset: stored.byte,
        ..RecordSpan::default()
    };
    let read = stored::at::<_, StoredError>(&mut parts, place, |entry| {
        if entry.record.kind == Kind::Revisit {
            return Ok(Err(CaptureError::Revisit));
        }
        let response = Response::read(entry, MAX_BODY);
        Ok(response.map_err(|_| CaptureError::NoRecord {
            file: stored.file.clone(),
            byte: stored.byte,
        }))
    })?;
    read.unwrap_or_else(|| {
        Err(CaptureError::NoRecord {
            file: stored.file.clone(),
            byte: stored.byte,
        })
    })
}

/// The archive with a name. That of a job lies beneath its folder; a corpus may name files
/// elsewhere, and those must have the names of archives.
fn file(home: &Home, name: &str) -> Option<PathBuf> {
    let folder = home.folder();
    // A file that still grows has a name of its own.
    for name in [name.to_owned(), format!("{name}.open")] {
        let path = Path::new(&name);
        if !files::is_named(path) {
            continue;
        }
        if !path.is_absolute() && beneath::is_file(folder, path) {
            return Some(folder.join(path));
        }
        if !home.is_job && path.is_file() {
            return Some(path.to_owned());
        }
    }
    None
}
