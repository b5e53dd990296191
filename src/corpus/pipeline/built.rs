//! Reads a corpus that was built.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::document::Document;
use super::error::{damaged, missing};
use super::removed::{REMOVED, Removed};
use super::source::each_line;
use super::{COPIES, Cluster, is_corpus, output};
use crate::tool_error::ToolError;

/// The corpus folder that a path means: the folder itself, or the plan of the corpus.
///
/// # Errors
///
/// [`ToolError`] if there is none.
pub fn find(path: &Path) -> Result<PathBuf, ToolError> {
    let folder = if path.is_dir() {
        path.to_owned()
    } else {
        super::Plan::load(path)?.output.folder
    };
    if is_corpus(&folder) {
        Ok(folder)
    } else {
        Err(missing(&folder))
    }
}

/// Passes the documents of a corpus in their order, until `each` returns false.
///
/// # Errors
///
/// [`ToolError`]: that of `each`, or one that names what is damaged.
pub fn each_document(
    folder: &Path,
    each: &mut dyn FnMut(Document) -> Result<bool, ToolError>,
) -> Result<(), ToolError> {
    if !is_corpus(folder) {
        return Err(missing(folder));
    }
    let mut goes_on = true;
    for path in output::documents(folder)? {
        each_line(&path, &mut |number, _, line| {
            let document = output::of_line(line.unwrap_or_default());
            let document = document.map_err(|error| self::line(&path, number, &error))?;
            goes_on = each(document)?;
            Ok(goes_on)
        })?;
        if !goes_on {
            break;
        }
    }
    Ok(())
}

/// Passes the removed documents and paragraphs, in order.
///
/// # Errors
///
/// As [`each_document`].
pub fn each_removed(
    folder: &Path,
    each: &mut dyn FnMut(Removed) -> Result<bool, ToolError>,
) -> Result<(), ToolError> {
    each_value(&folder.join(REMOVED), each)
}

/// Passes the copies that were found; none if no step looked for copies.
///
/// # Errors
///
/// As [`each_document`].
pub fn each_copy(
    folder: &Path,
    each: &mut dyn FnMut(Cluster) -> Result<bool, ToolError>,
) -> Result<(), ToolError> {
    let path = folder.join(COPIES);
    if !path.is_file() {
        return Ok(());
    }
    each_value(&path, each)
}

fn each_value<T: DeserializeOwned>(
    path: &Path,
    each: &mut dyn FnMut(T) -> Result<bool, ToolError>,
) -> Result<(), ToolError> {
    each_line(path, &mut |number, _, line| {
        let value = serde_json::from_slice(line.unwrap_or_default());
        each(value.map_err(|error| self::line(path, number, &error))?)
    })
}

fn line(path: &Path, number: u64, error: &serde_json::Error) -> ToolError {
    damaged(path, format_args!("line {}: {error}", number + 1))
}
