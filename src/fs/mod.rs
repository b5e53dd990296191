//! The files of a job: opened relative to its folder, so that no path or link leads out
//! of it ([`beneath`]), and replaced atomically (`atomic`).

use std::io;
use std::path::{Path, PathBuf};

pub(crate) mod atomic;
pub mod beneath;

/// An operation on a file or a folder that failed.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what} failed: {source}", path.display())]
pub struct IoError {
    /// The file or the folder.
    pub path: PathBuf,
    /// The attempted operation, such as `reading` in "reading failed".
    pub what: &'static str,
    /// The system's error.
    pub source: io::Error,
}

impl IoError {
    /// For `map_err`: adds the path and the attempted operation.
    pub fn at(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self {
            path: path.to_owned(),
            what,
            source,
        }
    }
}
