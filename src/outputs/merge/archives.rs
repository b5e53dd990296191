//! Files of the archive, unchanged.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::super::TextPlace;
use super::super::archive::Archive;
use super::super::output::{Form, Output};
use super::super::segments::Naming;
use super::MachinePart;
use super::rows_in_order::PartRow;
use crate::fs::beneath;
use crate::tool_error::ToolError;
use spoor_archive::index::{Reads, beside};

/// The new name and the length of a file, by its part and its name there.
pub(super) type Moved = BTreeMap<(usize, String), (String, u64)>;

/// Adds the files of all parts, and writes the indexes.
pub(super) fn gather(parts: &[MachinePart], into: &Path) -> Result<Moved, ToolError> {
    let mut moved = Moved::new();
    let Form::Pieces { folder, naming } = Archive.form() else {
        return Ok(moved);
    };
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for (number, part) in parts.iter().enumerate() {
        let below = part.folder.join(folder);
        if !below.is_dir() {
            continue;
        }
        for segment in naming.list(&below).map_err(|error| part.wrong(error))? {
            let name = free(&segment.name, &taken, naming);
            let (file, to) = (
                format!("{folder}/{}", segment.present()),
                format!("{folder}/{name}"),
            );
            part.link(&file, into, &to)?;
            beside(&into.join(&to), Reads::Heads)
                .map_err(|error| part.damaged(&file, error.to_string()))?;
            let length = beneath::length(into, &to).unwrap_or(0);
            taken.insert(name.clone());
            moved.insert((number, segment.name), (name, length));
        }
    }
    Ok(moved)
}

/// The new place of an exchange that a row names.
pub(super) fn place(
    moved: &Moved,
    row: &PartRow<'_>,
    place: &TextPlace,
) -> Result<TextPlace, ToolError> {
    let Some((file, length)) = moved.get(&(row.number, place.file.clone())) else {
        return Err(row.damaged(format!("it names archive/{}, which is missing", place.file)));
    };
    if place
        .from
        .checked_add(place.bytes)
        .is_none_or(|end| end > *length)
    {
        return Err(row.damaged(format!(
            "it names bytes of archive/{} behind its end at byte {length}",
            place.file
        )));
    }
    Ok(TextPlace {
        file: file.clone(),
        ..place.clone()
    })
}

/// The name itself, or with the next number if it is taken. The name in the first record of
/// the file then differs.
fn free(name: &str, taken: &BTreeSet<String>, naming: Naming) -> String {
    let Some(mut segment) = naming.parse(name) else {
        return name.to_owned();
    };
    while taken.contains(&segment.name) {
        let number = format!("-{:05}", segment.number);
        segment.number = segment.number.saturating_add(1);
        let next = format!("-{:05}", segment.number);
        // The last such part is the number; the suffix follows it.
        if let Some((before, suffix)) = segment.name.rsplit_once(number.as_str()) {
            segment.name = format!("{before}{next}{suffix}");
        }
    }
    segment.name
}
