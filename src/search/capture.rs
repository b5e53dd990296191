//! The stored capture of a page, read from its archive.

use std::path::{Path, PathBuf};

use super::Home;
use super::schema::Stored;
use crate::archive::files;
use crate::archive::gap::RecordSpan;
use crate::archive::http::Response;
use crate::archive::lookup::shelf::OnDisk;
use crate::archive::lookup::stored;
use crate::archive::record::Kind;
use crate::fs::beneath;
use crate::tool_error::ToolError;

/// The longest body that is shown, in bytes.
pub(super) const MAX_BODY: usize = 16 << 20;

/// Reads a capture.
pub(super) fn read(home: &Home, stored: &Stored) -> Result<Response, ToolError> {
    let name = &stored.file;
    let none = || {
        ToolError::new(format_args!(
            "{name} no longer exists, or is not a WARC or ARC file"
        ))
    };
    let no_record = || {
        let byte = stored.byte;
        ToolError::new(format_args!(
            "{name}: no response can be read at byte {byte}; `spoor archive check` looks for damage"
        ))
    };
    let path = file(home, &stored.file).ok_or_else(none)?;
    let mut parts = OnDisk::open(&path).map_err(|_| none())?;
    let place = RecordSpan {
        offset: stored.byte,
        ..RecordSpan::default()
    };
    let read = stored::at(&mut parts, place, |entry| {
        if entry.record.kind == Kind::Revisit {
            return Err(ToolError::new(
                "the page was the same as at an earlier visit, and only that is stored; find its \
                 capture with `spoor archive get`",
            ));
        }
        Response::read(entry, MAX_BODY).map_err(|_| no_record())
    })?;
    read.ok_or_else(no_record)
}

/// The archive with a name. That of a job is beneath its folder; a corpus may name files
/// elsewhere, which must have the names of archives.
fn file(home: &Home, name: &str) -> Option<PathBuf> {
    let folder = home.folder();
    // A file that still grows has a different name.
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
