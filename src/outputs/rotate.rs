//! Rotates a table that has become long: renames it, compresses it, and undoes both.
//!
//! In this order: the file is synced and renamed to its number, and an empty one is
//! created in its place; then the folder is synced. From then on the recorded end of the
//! output has the next number. The compressed file is written under another name and
//! synced before it gets its own, and only then the plain one is removed. So at every
//! point each row is in a whole file, and a crash leaves at most one file too many.
//!
//! A crash may also lose the commit of the page after the renaming. The recorded end is
//! then in a file that already has a number. That file becomes the current one again.

use std::io::{BufReader, Read, Write};
use std::path::Path;

use super::output::Position;
use super::rows::{self, Table, rotated, rotated_name};
use super::{OutputError, make_folder_of, part_of, remove};
use crate::fs::IoError;
use crate::fs::atomic::{Durability, Unfinished};
use crate::fs::beneath;
use crate::fs::packed::Packed;

/// The compression level; higher ones are slow and gain little.
pub(super) const LEVEL: i32 = 3;

/// How many missing files a message lists.
const NAMED: usize = 5;

/// Renames the file of a table to a number, lets `begin` create a new one, and syncs the
/// folder.
pub(super) fn set_apart<T>(
    folder: &Path,
    name: &str,
    number: u32,
    begin: impl FnOnce() -> Result<T, OutputError>,
) -> Result<T, OutputError> {
    let apart = rotated_name(name, number, false);
    beneath::rename(folder, name, apart).map_err(IoError::at(&folder.join(name), "renaming"))?;
    let begun = begin()?;
    sync_folder_of(folder, name)?;
    Ok(begun)
}

fn sync_folder_of(folder: &Path, name: &str) -> Result<(), OutputError> {
    let synced = beneath::sync_folder_of(folder, name);
    Ok(synced.map_err(IoError::at(&folder.join(name), "syncing its folder"))?)
}

/// The number for the next file.
pub(super) fn last_number(folder: &Path, name: &str) -> Result<u32, OutputError> {
    let all = rotated(folder, name)?;
    Ok(all.last_key_value().map_or(0, |(number, _)| *number))
}

/// Restores the files of a table to the state at `position`, except that the last one
/// still has to be truncated. Logs missing files.
pub(super) fn restore(folder: &Path, name: &str, position: Position) -> Result<(), OutputError> {
    let first = position.segment.saturating_add(1);
    let all = rotated(folder, name)?;
    let gone: Vec<u32> = (1..first).filter(|n| !all.contains_key(n)).collect();
    if !gone.is_empty() {
        let some = gone.iter().take(NAMED);
        let mut some: Vec<String> = some.map(|n| rotated_name(name, *n, true)).collect();
        if gone.len() > NAMED {
            some.push(format!("and {} more", gone.len() - NAMED));
        }
        tracing::warn!(
            "{}: parts of this table are missing: {}; the crawl continues, and reports lack what \
             they held",
            folder.join(name).display(),
            some.join(", ")
        );
    }
    let beyond: Vec<u32> = all.range(first..).map(|(number, _)| *number).collect();
    // The last one first, so that a crash leaves no gap.
    for number in beyond.iter().rev().filter(|number| **number > first) {
        remove_both(folder, name, *number)?;
    }
    let Some(forms) = all.get(&first) else {
        if !beyond.is_empty() {
            remove(folder, name)?;
        }
        return Ok(());
    };
    let [bare, packed] = [false, true].map(|zst| rotated_name(name, first, zst));
    if forms.plain {
        beneath::rename(folder, &bare, name)
            .map_err(IoError::at(&folder.join(name), "renaming"))?;
    } else {
        let mut text = rows::open_named(folder, &packed)?.take(position.length);
        let unpacked = Unfinished::begin(folder, part_of(name), name).and_then(|mut file| {
            std::io::copy(&mut text, file.file())?;
            // The folder is synced below.
            file.put(Durability::Whole)
        });
        unpacked.map_err(IoError::at(&folder.join(&packed), "unpacking"))?;
    }
    remove(folder, &packed)?;
    sync_folder_of(folder, name)
}

fn remove_both(folder: &Path, name: &str, number: u32) -> Result<(), OutputError> {
    for zst in [false, true] {
        remove(folder, &rotated_name(name, number, zst))?;
    }
    Ok(())
}

/// Removes what a crash left, and returns the paths of the uncompressed files.
pub(super) fn tidy(folder: &Path, name: &str) -> Result<Vec<String>, OutputError> {
    let mut plain = Vec::new();
    for (number, forms) in rotated(folder, name)? {
        let [bare, packed] = [false, true].map(|zst| rotated_name(name, number, zst));
        remove(folder, &part_of(&packed))?;
        match (forms.plain, forms.zst) {
            (true, true) => remove(folder, &bare)?,
            (true, false) => plain.push(bare),
            _ => {}
        }
    }
    Ok(plain)
}

/// Compresses one renamed file.
pub(super) fn pack(folder: &Path, name: &str) -> Result<(), OutputError> {
    let packed = format!("{name}{}", rows::ZST);
    let from = beneath::open(folder, name).map_err(IoError::at(&folder.join(name), "opening"))?;
    let written = Unfinished::begin(folder, part_of(&packed), &packed).and_then(|mut file| {
        let mut out = Packed::zstd(file.file(), LEVEL)?;
        std::io::copy(&mut BufReader::new(from), &mut out)?;
        out.finish()?;
        file.put(Durability::Synced)
    });
    written.map_err(IoError::at(&folder.join(&packed), "writing"))?;
    remove(folder, name)
}

/// Appends a line to a table that is not an output of the crawl, and syncs it to the disk.
/// If the file already has `limit` bytes, a new one is started.
///
/// # Errors
///
/// [`OutputError::Io`] names the file.
pub fn append_line(folder: &Path, table: Table, line: &str, limit: u64) -> Result<(), OutputError> {
    let name = table.name();
    let path = folder.join(name);
    make_folder_of(folder, name)?;
    let open = || Ok(beneath::append(folder, name).map_err(IoError::at(&path, "opening"))?);
    let mut file = open()?;
    let length = file
        .metadata()
        .map_err(IoError::at(&path, "measuring"))?
        .len();
    let full = length > 0 && length >= limit;
    if full {
        file.sync_all().map_err(IoError::at(&path, "syncing"))?;
        let number = last_number(folder, name)?.saturating_add(1);
        file = set_apart(folder, name, number, open)?;
    }
    file.write_all(format!("{line}\n").as_bytes())
        .and_then(|()| file.sync_data())
        .map_err(IoError::at(&path, "writing"))?;
    if full {
        for name in tidy(folder, name)? {
            pack(folder, &name)?;
        }
    }
    Ok(())
}
