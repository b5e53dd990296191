//! Where a configuration was written, so that later errors can name the line, and relative paths
//! have a folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{FileError, FilePosition};

/// The file of a configuration and the positions of its keys.
///
/// All origins compare equal, so that configurations with the same values are equal regardless of
/// their origin.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    file: String,
    folder: PathBuf,
    places: BTreeMap<String, FilePosition>,
}

impl PartialEq for Origin {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Origin {
    pub(super) fn new(file: &str, places: BTreeMap<String, FilePosition>) -> Self {
        Self {
            file: file.to_owned(),
            folder: PathBuf::new(),
            places,
        }
    }

    /// The same, with the folder of relative paths.
    pub(super) fn in_folder(mut self, folder: &Path) -> Self {
        folder.clone_into(&mut self.folder);
        self
    }

    /// The file's name in messages; empty if the configuration was not read from a file.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The folder of relative paths in the file; empty for the working directory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// An error about `key` at the line that gives it, or else at its section.
    pub fn error(&self, key: &str, message: impl Into<String>) -> FileError {
        let section = key.split_once('.').map_or(key, |(section, _)| section);
        let place = self.places.get(key).or_else(|| self.places.get(section));
        FileError {
            file: self.file.clone(),
            place: place.copied(),
            key: key.to_owned(),
            message: message.into(),
        }
    }
}
