//! The files of a job: opened from its folder downwards, so that no path or link leads out of it
//! ([`beneath`]), and put in their places whole or not at all (`atomic`).

use std::io;
use std::path::{Path, PathBuf};

pub(crate) mod atomic;
pub mod beneath;

/// What a file or a folder did not permit.
#[derive(Debug, thiserror::Error)]
#[error("{}: {what} failed: {source}", path.display())]
pub struct IoError {
    /// The file or the folder.
    pub path: PathBuf,
    /// What was attempted, as in `reading failed`.
    pub what: &'static str,
    /// What the system said.
    pub source: io::Error,
}

impl IoError {
    /// For `map_err`: names the path and what was attempted there.
    pub fn at(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self {
            path: path.to_owned(),
            what,
            source,
        }
    }
}
