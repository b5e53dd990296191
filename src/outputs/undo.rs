//! Removes images and contexts whose commit was lost.
//!
//! The store under the frontier may lose the last commits before a crash, though never the
//! outputs that were written for them. Files that grow are truncated; images and sidecars
//! have no length to truncate to, but each has a row in `images.tsv`, written before it.
//! So the rows that are about to be cut off list what to undo. Undoing twice is harmless,
//! because the rows are removed last.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read};
use std::iter::repeat;
use std::path::Path;

use super::output::Position;
use super::rows::{self, Part, Table};
use super::{OutputError, Sidecar, image_path, log, part_of, remove, sidecar, sightings};
use crate::fs::IoError;

/// Pages by image file.
type Pages = BTreeMap<String, BTreeSet<String>>;

/// Undoes every image and context in `folder` whose row is beyond `position` of
/// `images.tsv`. Without such rows it costs nothing; otherwise the table is read once.
pub(super) fn images_after(folder: &Path, position: Position) -> Result<(), OutputError> {
    let is_beyond = |part: &Part| part.is_live() || part.number > position.segment;
    let files = || rows::parts(folder, Table::Images);
    let beyond: Vec<Part> = files()?.into_iter().filter(is_beyond).collect();
    let longer = |part: &Part| part.length().is_none_or(|found| found > position.length);
    if !beyond.first().is_some_and(longer) && beyond.len() <= 1 {
        return Ok(());
    }
    let mut lost = Pages::new();
    for (part, from) in beyond
        .into_iter()
        .zip([position.length].into_iter().chain(repeat(0)))
    {
        let (path, mut text) = part.text_from(from)?;
        each_row(&path, &mut text, |image, page| {
            let pages = lost.entry(image.to_owned()).or_default();
            pages.insert(page.to_owned());
        })?;
    }
    let mut kept = Pages::new();
    for part in files()? {
        let last = is_beyond(&part);
        let (path, text) = part.text_from(0)?;
        let most = if last { position.length } else { u64::MAX };
        each_row(&path, &mut text.take(most), |image, page| {
            if lost.contains_key(image) {
                let pages = kept.entry(image.to_owned()).or_default();
                pages.insert(page.to_owned());
            }
        })?;
        if last {
            break;
        }
    }
    for (image, pages) in &lost {
        // A tampered table must not make us touch a file elsewhere.
        if let Some(image) = image_path(image) {
            undo(folder, image.as_str(), pages, kept.get(image.as_str()))?;
        }
    }
    Ok(())
}

/// Undoes the contexts of `lost` pages for one image. The pages in `kept` remain; without
/// any, the image itself was lost. Of a file with several links only this one is removed.
fn undo(
    folder: &Path,
    image: &str,
    lost: &BTreeSet<String>,
    kept: Option<&BTreeSet<String>>,
) -> Result<(), OutputError> {
    let beside = sidecar::name_of(image);
    remove(folder, &part_of(image))?;
    remove(folder, &part_of(&beside))?;
    let Some(kept) = kept else {
        sightings::forget(folder, image)?;
        remove(folder, &beside)?;
        return remove(folder, image);
    };
    if !super::is_there(folder, &beside)? {
        return Ok(());
    }
    let mut sidecar = Sidecar::load(folder, image)?;
    sidecar.retain(|page| kept.contains(page) || !lost.contains(page));
    sidecar.save(folder)
}

fn each_row(
    table: &Path,
    rows: &mut dyn Read,
    mut visit: impl FnMut(&str, &str),
) -> Result<(), OutputError> {
    for row in BufReader::new(rows).split(b'\n') {
        let row = row.map_err(IoError::at(table, "reading"))?;
        if let Some((image, page)) = log::file_and_page(&String::from_utf8_lossy(&row)) {
            visit(image, page);
        }
    }
    Ok(())
}
