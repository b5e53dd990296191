//! The captures that a user names: all captures of some archives, or those in an index.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::files::{self, ArchiveFile};
use super::find::{self, Capture, folder_of, through_index};
use super::index::INDEX;
use super::lookup::BLOCKS;
use super::lookup::shelf::Folder;
use super::lookup::wacz;
use super::record::Spot;
use super::select::Selection;
use crate::tool_error::ToolError;

/// Archives, and the selected captures in them.
#[derive(Debug, Clone, Default)]
pub struct Chosen {
    /// The archives.
    pub files: Vec<ArchiveFile>,
    /// The indexes that were named.
    pub indexes: Vec<PathBuf>,
    /// The places of captures in the files that only indexes name, sorted: 16 bytes each.
    places: BTreeMap<u32, Vec<(u64, u64)>>,
}

impl Chosen {
    /// The archives that paths name: files with any name, those in folders, the archives in files
    /// named *.wacz, and the captures of indexes, whose files are in the same folder.
    ///
    /// # Errors
    ///
    /// [`ToolError`] names the path without any archive.
    pub fn of(paths: &[PathBuf]) -> Result<Self, ToolError> {
        let is_index = |path: &&PathBuf| {
            let name = path.to_string_lossy();
            [INDEX, BLOCKS].iter().any(|ending| name.ends_with(ending))
        };
        let (indexes, others): (Vec<&PathBuf>, Vec<&PathBuf>) = paths.iter().partition(is_index);
        let others: Vec<PathBuf> = others.into_iter().cloned().collect();
        let mut chosen = Self::default();
        for path in files::listed(&others)? {
            if !files::is_wacz(&path) {
                chosen.files.push(ArchiveFile::whole(path));
                continue;
            }
            let parts = wacz::archives(&path)?.into_iter();
            chosen.files.extend(
                parts.map(|(name, begin, length)| ArchiveFile::part(&path, &name, begin, length)),
            );
        }
        let whole = chosen.files.len();
        for index in indexes {
            chosen.add(index, whole)?;
            chosen.indexes.push(index.clone());
        }
        for places in chosen.places.values_mut() {
            places.sort_unstable();
            places.dedup();
        }
        Ok(chosen)
    }

    fn add(&mut self, index: &Path, whole: usize) -> Result<(), ToolError> {
        let folder = folder_of(index);
        let source = through_index(index, &folder);
        let mut numbers: BTreeMap<String, usize> = BTreeMap::new();
        find::each(&[source], &Selection::default(), &mut |capture: Capture| {
            let (name, place) = capture.place()?;
            let number = match numbers.get(name) {
                Some(number) => *number,
                None => {
                    let path = Folder(folder.clone()).path(name);
                    let file = ArchiveFile::whole(path?);
                    let known = self.files.iter().position(|known| *known == file);
                    let number = known.unwrap_or(self.files.len());
                    if known.is_none() {
                        self.files.push(file);
                    }
                    numbers.insert(name.to_owned(), number);
                    number
                }
            };
            if number >= whole {
                let number = u32::try_from(number).unwrap_or(u32::MAX);
                let spot = (place.offset, place.inside.unwrap_or_default());
                self.places.entry(number).or_default().push(spot);
            }
            Ok(true)
        })
    }

    /// The files in which indexes name more captures than these, each with the number of missing
    /// ones and the number that the indexes name.
    pub fn missing(&self, found: impl Iterator<Item = Spot>) -> Vec<(&ArchiveFile, usize, usize)> {
        // Whole archives need no count, and may have millions of captures.
        if self.places.is_empty() {
            return Vec::new();
        }
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for spot in found {
            *counts.entry(spot.file).or_default() += 1;
        }
        let missing = self.places.iter().filter_map(|(number, places)| {
            let file = self.files.get(usize::try_from(*number).ok()?)?;
            let found = counts.get(number).copied().unwrap_or_default();
            let missing = places.len().saturating_sub(found);
            (missing > 0).then_some((file, missing, places.len()))
        });
        missing.collect()
    }

    /// Whether the capture at a place is selected.
    pub fn has(&self, spot: Spot) -> bool {
        let wanted = (spot.offset, spot.inside);
        self.places
            .get(&spot.file)
            .is_none_or(|places| places.binary_search(&wanted).is_ok())
    }
}
