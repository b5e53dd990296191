//! Recognises archives by their file names; and archives that are parts of a file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Take};
use std::path::{Path, PathBuf};

use crate::fs::{IoError, files_beneath};
use crate::tool_error::ToolError;

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

/// Whether the name is that of an archive.
pub fn is_named(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.to_ascii_lowercase();
    let name = name.strip_suffix(".open").unwrap_or(&name);
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Whether the name is that of a file with the text of pages instead of responses, as from
/// Common Crawl (WET).
pub fn is_text(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.to_ascii_lowercase();
    name.ends_with(".wet") || name.ends_with(".wet.gz")
}

/// Whether the name is that of a WACZ.
pub fn is_wacz(path: &Path) -> bool {
    let ending = path.extension().unwrap_or_default();
    ending.eq_ignore_ascii_case("wacz")
}

/// An archive: a file, or a part of one, as in a WACZ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveFile {
    /// Its name; that of a part is the file's name followed by its own.
    name: PathBuf,
    path: PathBuf,
    /// The first byte of the part, and its length.
    part: Option<(u64, u64)>,
}

impl ArchiveFile {
    /// A whole file.
    pub fn whole(path: PathBuf) -> Self {
        Self {
            name: path.clone(),
            path,
            part: None,
        }
    }

    /// `length` bytes of a file from `begin` on, with their name in the file.
    pub fn part(path: &Path, name: &str, begin: u64, length: u64) -> Self {
        Self {
            name: path.join(name),
            path: path.to_owned(),
            part: Some((begin, length)),
        }
    }

    /// Its name for messages. Only that of a whole file is a path.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// The file that contains it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its length in bytes.
    ///
    /// # Errors
    ///
    /// [`ToolError`] if there is no such file.
    pub fn length(&self) -> Result<u64, ToolError> {
        if let Some((_, length)) = self.part {
            return Ok(length);
        }
        let about = self.path.metadata();
        Ok(about.map_err(no_archive(&self.path))?.len())
    }

    /// Opens it at one of its bytes.
    ///
    /// # Errors
    ///
    /// [`ToolError`] if it cannot be opened.
    pub fn open(&self, at: u64) -> Result<Take<File>, ToolError> {
        let mut file = crate::fs::open(&self.path).map_err(no_archive(&self.path))?;
        let (begin, length) = self.part.unwrap_or((0, u64::MAX));
        file.seek(SeekFrom::Start(begin.saturating_add(at)))
            .map_err(IoError::at(&self.path, "reading"))?;
        Ok(file.take(length.saturating_sub(at)))
    }
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

/// The archives that paths name: files with any name, and those in folders.
///
/// # Errors
///
/// [`ToolError`] names the path without any archive.
pub fn listed(paths: &[PathBuf]) -> Result<Vec<PathBuf>, ToolError> {
    let mut files = Vec::new();
    for path in paths {
        let about = path.metadata().map_err(no_archive(path))?;
        if !about.is_dir() {
            files.push(path.clone());
            continue;
        }
        let found = beneath(path)?;
        if found.is_empty() {
            return Err(ToolError::new(format_args!(
                "{} contains no file named *.warc, *.arc, or so with .gz or .zst; name files of \
                 other names one by one",
                path.display()
            )));
        }
        files.extend(found);
    }
    Ok(files)
}

/// For `map_err`: a path at which no archive can be opened.
fn no_archive(path: &Path) -> impl FnOnce(io::Error) -> ToolError {
    let failed = IoError::at(path, "opening");
    |error| ToolError::advising("give WARC or ARC files, or folders of them")(failed(error))
}
