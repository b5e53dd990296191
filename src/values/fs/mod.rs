//! The files of a job: opened relative to its folder, so that no path or link leads out of it
//! ([`beneath`]), and replaced atomically (`atomic`). `tracked` tracks the position while reading;
//! `packed` compresses short texts, each by itself. `regular` opens files elsewhere.

use std::io;
use std::path::{Path, PathBuf};

pub mod atomic;
pub mod beneath;
pub mod packed;
mod regular;
pub mod tracked;

pub use regular::{open, open_folder, read, read_to_string};

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

/// What an operation brought; `None` where the file or the folder is not there.
///
/// # Errors
/// All others of the operation.
pub fn if_there<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes a folder with all that is in it, if it is there.
///
/// # Errors
/// [`IoError`].
pub fn remove_folder(folder: &Path) -> Result<(), IoError> {
    let removed = if_there(std::fs::remove_dir_all(folder));
    removed.map(drop).map_err(IoError::at(folder, "removing"))
}

/// The files in a folder and in those beneath it that are `wanted`, in the order of their
/// paths. Links to folders are not followed.
pub fn files_beneath(
    folder: &Path,
    wanted: impl Fn(&Path) -> bool,
) -> Result<Vec<PathBuf>, IoError> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().map_err(IoError::at(&folder, "listing"))? {
            let entry = entry.map_err(IoError::at(&folder, "listing"))?;
            let path = entry.path();
            let kind = entry.file_type().map_err(IoError::at(&path, "reading"))?;
            if kind.is_dir() {
                folders.push(path);
            } else if wanted(&path) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns when everything written so far to the file system of a folder is on the disk.
#[cfg(target_os = "linux")]
pub fn sync_file_system(folder: &Path) -> io::Result<()> {
    rustix::fs::syncfs(open_folder(folder)?).map_err(io::Error::from)
}

/// Other systems have no call for a whole file system.
#[cfg(not(target_os = "linux"))]
pub fn sync_file_system(_folder: &Path) -> io::Result<()> {
    Ok(())
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
