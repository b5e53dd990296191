//! Files of the archive, copied as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::super::archive::Archive;
use super::super::output::{Form, Output};
use super::super::segments::{Naming, OPEN};
use super::super::{OutputError, TextPlace, make_folder};
use super::{Earlier, MergeError, Merged, Part, created};
use crate::archive::check;
use crate::archive::index::{self, Reads, is_unfinished, name_beside};
use crate::fs::IoError;
use crate::fs::beneath;

/// A file that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Archived {
    /// The part.
    pub part: String,
    /// Its path there.
    pub file: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// When it was changed, in nanoseconds since 1970.
    pub changed: u64,
    /// Its name now.
    pub name: String,
}

/// Where the files are now.
#[derive(Default)]
pub(super) struct Archives {
    /// The new name and the length of a file, by its part and its name there.
    files: BTreeMap<(usize, String), (String, u64)>,
}

impl Archives {
    /// Takes the files of all parts, checks every record, and writes the indexes.
    pub fn gather(
        parts: &[Part],
        into: &Path,
        earlier: Option<Earlier<'_>>,
        merged: &mut Merged,
    ) -> Result<Self, MergeError> {
        let mut archives = Self::default();
        let Form::Pieces { folder, naming } = Archive.form() else {
            return Ok(archives);
        };
        let mut taken: BTreeSet<String> = BTreeSet::new();
        let mut copied = Vec::new();
        for (number, part) in parts.iter().enumerate() {
            let below = part.folder.join(folder);
            if !below.is_dir() {
                continue;
            }
            let segments = naming.list(&below).map_err(|error| part.wrong(error))?;
            for segment in segments {
                let name = free(&segment.name, &taken, naming);
                make_folder(into, folder)?;
                let file = format!("{folder}/{}", segment.present());
                let (bytes, changed) = look(part, &file)?;
                let mut archived = Archived {
                    part: part.name.clone(),
                    file,
                    bytes,
                    changed,
                    name: name.clone(),
                };
                let to = format!("{folder}/{name}");
                if link_same(&archived, earlier, into, &to) {
                    merged.reused += 1;
                } else {
                    archived.bytes = copy(part, &archived.file, into, &to)?;
                    copied.push((part, archived.file.clone(), into.join(to)));
                }
                taken.insert(name.clone());
                archives
                    .files
                    .insert((number, segment.name), (name, archived.bytes));
                merged.archives.push(archived);
            }
        }
        let paths: Vec<_> = copied.iter().map(|(_, _, path)| path.clone()).collect();
        let checked = check::check_all(&paths).map_err(IoError::at(into, "checking"))?;
        for ((part, file, path), checked) in copied.iter().zip(checked) {
            if !checked.is_sound() {
                return Err(part.damaged(file, said(&checked)));
            }
            index::beside(path, Reads::Heads)
                .map_err(|error| part.damaged(file, error.to_string()))?;
        }
        Ok(archives)
    }

    /// The new place of an exchange. The error is one of the row that names it.
    pub fn moved(&self, part: usize, place: &TextPlace) -> Result<TextPlace, String> {
        let found = self.files.get(&(part, place.file.clone()));
        let (file, length) =
            found.ok_or_else(|| format!("it names archive/{}, which is missing", place.file))?;
        let end = place.from.checked_add(place.bytes);
        if end.is_none_or(|end| end > *length) {
            return Err(format!(
                "it names bytes of archive/{} behind its end at byte {length}",
                place.file
            ));
        }
        Ok(TextPlace {
            file: file.clone(),
            ..place.clone()
        })
    }
}

/// The name itself, or that with the next number where it is taken. The name that is written
/// in the first record of the file then differs.
fn free(name: &str, taken: &BTreeSet<String>, naming: Naming) -> String {
    let Some(mut segment) = naming.parse(name) else {
        return name.to_owned();
    };
    while taken.contains(&segment.name) {
        let number = format!("-{:05}", segment.number);
        segment.number = segment.number.saturating_add(1);
        let next = format!("-{:05}", segment.number);
        // The last such part is the number; what is behind it is the suffix.
        if let Some((before, suffix)) = segment.name.rsplit_once(number.as_str()) {
            segment.name = format!("{before}{next}{suffix}");
        }
    }
    segment.name
}

/// The length of a file, and when it was changed.
fn look(part: &Part, file: &str) -> Result<(u64, u64), MergeError> {
    let opened = beneath::open(&part.folder, file).and_then(|file| file.metadata());
    let about = opened.map_err(part.unread(file, "measuring"))?;
    let changed = about.modified().ok();
    let changed = changed.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let changed = changed.and_then(|time| u64::try_from(time.as_nanos()).ok());
    Ok((about.len(), changed.unwrap_or(0)))
}

/// Makes a link to the copy of a file in what was merged before, and to its index; false where
/// the file or the copy has changed.
fn link_same(file: &Archived, earlier: Option<Earlier<'_>>, into: &Path, to: &str) -> bool {
    let Some(earlier) = earlier.filter(|earlier| earlier.archives.contains(file)) else {
        return false;
    };
    let index = name_beside(to);
    let link = |name: &str| beneath::hard_link_into(earlier.folder, name, into, name).is_ok();
    let is_whole = |name: &str| beneath::length(into, name) == Some(file.bytes);
    if link(to) && is_whole(to) && link(&index) && !is_unfinished(&into.join(&index)) {
        return true;
    }
    // A copy is written over neither.
    for name in [to, &index] {
        beneath::remove_file(into, name).ok();
    }
    false
}

/// Copies a file, which may still have been growing when the machine ended.
fn copy(part: &Part, from: &str, into: &Path, to: &str) -> Result<u64, MergeError> {
    debug_assert!(!to.ends_with(OPEN));
    let mut file = beneath::open(&part.folder, from).map_err(part.unread(from, "opening"))?;
    let mut out = created(into, to)?;
    let copied = std::io::copy(&mut file, &mut out);
    // Either may have failed; the message names both.
    Ok(copied.map_err(|error| {
        let what = format!("copying {}", part.folder.join(from).display());
        let error = std::io::Error::new(error.kind(), format!("{what}: {error}"));
        OutputError::from(IoError::at(&into.join(to), "writing")(error))
    })?)
}

/// The first thing that is wrong with a file.
fn said(checked: &check::Checked) -> String {
    if let Some(why) = &checked.failed {
        return why.clone();
    }
    if let Some(gap) = checked.gaps.first() {
        let (why, at) = (gap.why.text(), gap.place.offset);
        return format!("{why}, at byte {at}; `spoor archive check` lists all damage");
    }
    let offset = checked.wrong.first().map_or(0, |wrong| wrong.offset);
    format!(
        "the record at byte {offset} has a wrong digest; `spoor archive check` lists all damage"
    )
}
