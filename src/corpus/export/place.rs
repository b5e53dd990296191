//! The folder of a data set: written under a temporary name and renamed when it is complete.
//! An existing folder is replaced only if it is empty or has the mark of such a data set.

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::fs::{IoError, atomic};
use crate::outputs::sync_folder;
use crate::tool_error::{ToolError, lock};

/// The file that marks an export; readers of data sets ignore files whose names begin
/// with a dot.
pub(crate) const MARK: &str = ".spoor-export";

/// Whether a folder is real and has one of these marks.
pub(crate) fn has_mark(folder: &Path, marks: &[&str]) -> bool {
    let is_real = fs::symlink_metadata(folder).is_ok_and(|about| about.is_dir());
    is_real && marks.iter().any(|mark| folder.join(mark).is_file())
}

/// Whether the place has a folder with one of these marks, an empty folder or none.
pub(crate) fn may_replace(to: &Path, marks: &[&str]) -> Result<bool, IoError> {
    let about = match fs::symlink_metadata(to) {
        Ok(about) => about,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(IoError::at(to, "looking")(error)),
    };
    let is_empty = || fs::read_dir(to).is_ok_and(|mut entries| entries.next().is_none());
    Ok(has_mark(to, marks) || (about.is_dir() && is_empty()))
}

/// Puts a complete folder in a place that [`may_replace`] has examined, and removes the earlier
/// one, which is `old` in between.
pub(crate) fn replace(new: &Path, to: &Path, old: &Path, marks: &[&str]) -> Result<(), IoError> {
    let remove = || {
        if has_mark(old, marks) {
            fs::remove_dir_all(old).map_err(IoError::at(old, "removing"))?;
        }
        Ok(())
    };
    remove()?;
    atomic::replace_folder(new, to, old)?;
    remove()?;
    // A formerly empty folder has no mark.
    if old.is_dir() {
        fs::remove_dir(old).map_err(IoError::at(old, "removing"))?;
    }
    Ok(())
}

/// A temporary name in the same folder, so that renaming moves no bytes; `None` if the path
/// cannot be that of a folder.
pub(crate) fn beside(to: &Path, what: &str) -> Option<PathBuf> {
    let name = to.file_name()?.to_string_lossy();
    Some(to.with_file_name(format!(".{name}.spoor-{what}")))
}

/// An unfinished export folder. It is removed when dropped before
/// [`finish`](Self::finish).
pub(super) struct ExportFolder {
    to: PathBuf,
    partial: PathBuf,
    /// The folders around it that were made for it, the outer ones last.
    made: Vec<PathBuf>,
    /// Locked, so that no two exports write the same folder.
    mark: File,
}

impl ExportFolder {
    /// Creates a new folder beside `to`; the remains of a killed export are removed.
    ///
    /// # Errors
    /// [`ToolError`] names the folder.
    pub(super) fn prepare(to: &Path) -> Result<Self, ToolError> {
        examine(to)?;
        let busy = || {
            let why = "another export is being written there; wait for it or name another folder \
                       with --to";
            ToolError::busy(to, why)
        };
        let partial = beside(to, "partial").ok_or_else(|| no_name(to))?;
        if partial.exists() {
            if let Ok(mark) = crate::fs::open(partial.join(MARK))
                && matches!(mark.try_lock(), Err(TryLockError::WouldBlock))
            {
                return Err(busy());
            }
            fs::remove_dir_all(&partial).map_err(IoError::at(&partial, "removing"))?;
        }
        let around = partial.ancestors().skip(1);
        let made = around.take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists());
        let made = made.map(Path::to_owned).collect();
        if let Some(parent) = partial.parent() {
            fs::create_dir_all(parent).map_err(IoError::at(parent, "making the folder"))?;
        }
        fs::create_dir(&partial).map_err(IoError::at(&partial, "making the folder"))?;
        let path = partial.join(MARK);
        let mark = File::create(&path).map_err(IoError::at(&path, "creating"))?;
        let place = Self {
            to: to.to_owned(),
            partial,
            made,
            mark,
        };
        lock(&place.mark, &path, busy)?;
        Ok(place)
    }

    /// The folder to write to.
    pub(super) fn path(&self) -> &Path {
        &self.partial
    }

    /// Moves the complete and synced folder to its place, and returns its path. The mark
    /// file names the `format`.
    ///
    /// # Errors
    /// [`ToolError`] names the folder.
    pub(super) fn finish(mut self, format: &str) -> Result<PathBuf, ToolError> {
        let version = env!("CARGO_PKG_VERSION");
        let written = writeln!(self.mark, "spoor {version}, {format}");
        written.map_err(IoError::at(&self.partial.join(MARK), "writing"))?;
        let synced = sync_folder(&self.partial).map_err(std::io::Error::other);
        synced.map_err(IoError::at(&self.partial, "writing to the disk"))?;
        // Checked again, because writing may have taken a long time.
        examine(&self.to)?;
        let old = beside(&self.to, "old").ok_or_else(|| no_name(&self.to))?;
        replace(&self.partial, &self.to, &old, &[MARK])?;
        Ok(self.to.clone())
    }
}

impl Drop for ExportFolder {
    fn drop(&mut self) {
        // After `finish` there is nothing under this name.
        drop(fs::remove_dir_all(&self.partial));
        // A folder with the export, or with anything else, stays.
        for folder in &self.made {
            drop(fs::remove_dir(folder));
        }
    }
}

fn examine(to: &Path) -> Result<(), ToolError> {
    if may_replace(to, &[MARK])? {
        Ok(())
    } else {
        let why = format_args!(
            "already exists, and is not an export of spoor (it has no {MARK}); move it away or \
             name another folder with --to"
        );
        Err(ToolError::at(to, why))
    }
}

fn no_name(to: &Path) -> ToolError {
    ToolError::at(to, "not the path of a folder; give one with --to")
}
