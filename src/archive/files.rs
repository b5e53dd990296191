//! Which files are archives, by their names.

use std::path::{Path, PathBuf};

use crate::fs::{IoError, files_beneath};

/// The names of archives end with one of these, and while they grow also in `.open`.
const ENDINGS: [&str; 8] = [
    ".warc",
    ".warc.gz",
    ".warc.zst",
    ".arc",
    ".arc.gz",
    ".arc.zst",
    ".warc.wet",
    ".warc.wet.gz",
];

/// Whether a file is named as an archive.
pub fn is_named(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.to_ascii_lowercase();
    let name = name.strip_suffix(".open").unwrap_or(&name);
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Whether a file is named as one that has the text of pages instead of what servers sent, as
/// Common Crawl has them.
pub fn is_text(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.to_ascii_lowercase();
    name.ends_with(".wet") || name.ends_with(".wet.gz")
}

/// The archives in a folder and in those beneath it, in the order of their paths. Links to
/// folders are not followed.
///
/// # Errors
///
/// [`IoError`] names what cannot be listed.
pub fn beneath(folder: &Path) -> Result<Vec<PathBuf>, IoError> {
    files_beneath(folder, is_named)
}

/// The archives that paths name: files whatever their names, and those in folders.
///
/// # Errors
///
/// [`FilesError`] names the path that leads to none.
pub fn listed(paths: &[PathBuf]) -> Result<Vec<PathBuf>, FilesError> {
    let mut files = Vec::new();
    for path in paths {
        let about = path.metadata().map_err(IoError::at(path, "opening"))?;
        if !about.is_dir() {
            files.push(path.clone());
            continue;
        }
        let found = beneath(path)?;
        if found.is_empty() {
            return Err(FilesError::None(path.clone()));
        }
        files.extend(found);
    }
    Ok(files)
}

/// Why there are no files to read.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The operating system reported an error.
    #[error("{0}; give WARC or ARC files, or folders of them")]
    Io(#[from] IoError),
    /// A folder has no archive.
    #[error(
        "{path} contains no file named *.warc, *.arc, or so with .gz or .zst; name files of \
         other names one by one",
        path = .0.display()
    )]
    None(PathBuf),
}
