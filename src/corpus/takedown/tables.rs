//! Tables and votes about a job's images: removes the lines about removed ones.
//!
//! The only assumptions about a table are that its first line names its columns and that a
//! line identifies an image by its path, its address or its hash.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::TakedownSelection;
use crate::fs::IoError;
use crate::fs::{atomic, beneath};
use crate::outputs::Leaving;
use crate::tool_error::ToolError;

/// The files of a job's folder to search besides the growing ones, as paths below it: the
/// tables, and leftovers of a process that was killed while writing one.
pub(super) fn of(folder: &Path) -> Result<Vec<String>, ToolError> {
    let mut found = Vec::new();
    for below in ["", "annotations/"] {
        let path = folder.join(below);
        if !path.is_dir() {
            continue;
        }
        for (name, _) in beneath::entries(folder, below).map_err(IoError::at(&path, "listing"))? {
            let name = format!("{below}{name}");
            let is_table = match table_of(&name) {
                "ranking.tsv" | "duplicates.tsv" => true,
                other => {
                    !below.is_empty() && (other.ends_with(".tsv") || other.ends_with(".jsonl"))
                }
            };
            if is_table && beneath::is_file(folder, &name) {
                found.push(name);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The final name of a file that is written atomically.
fn table_of(name: &str) -> &str {
    let whole = name
        .strip_suffix(".partial")
        .and_then(|n| n.rsplit_once('.'));
    whole.map_or(name, |(whole, _)| whole)
}

/// How many lines of a table are about removed images; with `write` it is replaced by one
/// without them.
pub(super) fn without(
    folder: &Path,
    name: &str,
    gone: &TakedownSelection<'_>,
    write: bool,
) -> Result<u64, ToolError> {
    let path: PathBuf = folder.join(name);
    let bytes = beneath::read(folder, name).map_err(IoError::at(&path, "reading"))?;
    let text = String::from_utf8_lossy(&bytes);
    let mut speaks: Box<dyn FnMut(&str) -> bool> = if table_of(name).ends_with(".tsv") {
        Box::new(row_filter(gone, text.lines().next().unwrap_or_default()))
    } else {
        Box::new(vote_filter(gone))
    };
    let lines = text.split_inclusive('\n');
    let kept: Vec<&str> = lines
        .clone()
        .filter(|line| !speaks(line.trim_end()))
        .collect();
    let removed = (lines.count() - kept.len()) as u64;
    if write && removed > 0 {
        atomic::write_in(folder, name, |out| {
            kept.iter()
                .try_for_each(|line| out.write_all(line.as_bytes()))
        })
        .map_err(IoError::at(&path, "writing"))?;
    }
    Ok(removed)
}

/// A row identifies an image by its path in any column, or by an address in a column of
/// addresses.
fn row_filter<'a>(
    gone: &'a TakedownSelection<'_>,
    header: &str,
) -> impl FnMut(&str) -> bool + use<'a> {
    let is = |name: &str, what: &str| name == what || name.ends_with(&format!("_{what}"));
    let columns: Vec<(bool, bool)> = header
        .split('\t')
        .map(|name| (is(name, "url"), is(name, "page")))
        .collect();
    let mut first = true;
    move |row| {
        // The header is not a row.
        if std::mem::take(&mut first) {
            return false;
        }
        let mut cells = row.split('\t').enumerate();
        cells.any(|(at, cell)| {
            let (url, page) = columns.get(at).copied().unwrap_or_default();
            gone.file(cell) || (url && gone.image(cell)) || (page && gone.page(cell))
        })
    }
}

/// The part of a vote's line that is needed.
#[derive(Deserialize)]
struct VoteLine {
    vote: Option<u64>,
    undo: Option<u64>,
    #[serde(default)]
    image: String,
    #[serde(default)]
    url: String,
    #[serde(default)]
    file: String,
}

/// A vote is removed with its image, and an undo with its vote. An unreadable line is
/// kept.
fn vote_filter<'a>(gone: &'a TakedownSelection<'_>) -> impl FnMut(&str) -> bool + use<'a> {
    let mut votes = std::collections::HashSet::new();
    move |line| {
        let Ok(line) = serde_json::from_str::<VoteLine>(line) else {
            return false;
        };
        let speaks = gone.image(&line.url) || gone.file(&line.file) || gone.digest(&line.image);
        if speaks {
            votes.extend(line.vote);
        }
        speaks || line.undo.is_some_and(|vote| votes.contains(&vote))
    }
}
