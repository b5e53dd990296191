//! What jobs and corpora have, as lines of JSON: for other programs, which need not know how
//! documents are packed and which of them still count.

use std::collections::HashSet;
use std::path::Path;

use serde_json::Value;

use crate::fs::IoError;
use crate::outputs::{self, DOCUMENTS, Sidecar, Withdrawn};
use crate::page::Use;
use crate::pipeline::each_line;
use crate::tool_error::ToolError;

/// Receives a line of JSON without its end, and returns whether to go on.
pub type EachJson<'e> = &'e mut dyn FnMut(&str) -> Result<bool, ToolError>;

/// Passes the documents of a job, which may be running, in the order in which they were crawled:
/// each page once, as it was at the last visit, without those that a later visit found forbidden.
/// Damaged lines are logged.
///
/// # Errors
///
/// [`ToolError`]: that of `each`, or one that names the file.
pub fn of_job(folder: &Path, each: EachJson<'_>) -> Result<(), ToolError> {
    let withdrawn = Withdrawn::of(folder)?;
    // The earlier lines of pages that had changed.
    let mut replaced = HashSet::new();
    for document in outputs::documents(folder)?.flatten() {
        let earlier = document.replaces.and_then(|earlier| earlier.fetched);
        replaced.extend(earlier.map(|fetched| (document.url, fetched)));
    }
    for document in outputs::documents(folder)? {
        let document = match document {
            Ok(document) => document,
            Err(error) => {
                tracing::warn!("left out: {error}");
                continue;
            }
        };
        let key = (document.url, document.fetched);
        let is_withdrawn = withdrawn.by(&key.0, &key.1, Use::Text).is_some();
        if is_withdrawn || replaced.contains(&key) {
            continue;
        }
        let (url, fetched) = key;
        let document = outputs::Document {
            url,
            fetched,
            ..document
        };
        if !each(&json(folder, &document)?)? {
            break;
        }
    }
    Ok(())
}

/// Passes the images of a job in the order of their paths: the contents of the file beside each,
/// with the absolute path of the image as `path`.
///
/// # Errors
///
/// [`ToolError`]: that of `each`, or one that names the folder.
pub fn images(folder: &Path, each: EachJson<'_>) -> Result<(), ToolError> {
    let all = folder.join("images");
    let whole = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let mut files = match outputs::image_files(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        files => files.map_err(IoError::at(&all, "listing"))?,
    };
    files.sort();
    for file in files {
        let sidecar = match Sidecar::load(folder, &file) {
            Ok(sidecar) => sidecar,
            Err(error) => {
                tracing::warn!("left out: {error}");
                continue;
            }
        };
        let mut value = serde_json::to_value(&sidecar)
            .map_err(|error| ToolError::at(&folder.join(&file), error.to_string()))?;
        if let Value::Object(fields) = &mut value {
            let path = whole.join(&file).display().to_string();
            fields.insert("path".to_owned(), path.into());
        }
        if !each(&json(folder, &value)?)? {
            break;
        }
    }
    Ok(())
}

/// Passes the lines of a file of JSON lines, which may be packed with gzip or zstd, or of all such
/// files in the folder `documents` of a corpus.
///
/// # Errors
///
/// [`ToolError`]: that of `each`, or one that names the file and what is wrong.
pub fn of_files(path: &Path, each: EachJson<'_>) -> Result<(), ToolError> {
    let mut files = vec![path.to_owned()];
    if path.is_dir() {
        let folder = path.join(DOCUMENTS);
        let entries = folder.read_dir().map_err(IoError::at(&folder, "listing"))?;
        files = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|file| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            [".jsonl", ".jsonl.gz", ".jsonl.zst"]
                .iter()
                .any(|ending| name.ends_with(ending))
        });
        files.sort();
        if files.is_empty() {
            let why = "it has no files of JSON lines; add \"jsonl\" to output.formats of the plan, or \
                       read its Parquet files with another program";
            return Err(ToolError::at(&folder, why));
        }
    }
    let mut goes_on = true;
    for file in files {
        each_line(&file, &mut |number, _, line| {
            let line = line.and_then(|line| std::str::from_utf8(line).ok());
            let line = line
                .map(str::trim)
                .filter(|line| line.starts_with('{') && line.ends_with('}'));
            let Some(line) = line else {
                let why = format!("line {} is not an object of JSON", number + 1);
                return Err(ToolError::at(&file, why));
            };
            goes_on = each(line)?;
            Ok(goes_on)
        })?;
        if !goes_on {
            break;
        }
    }
    Ok(())
}

fn json(folder: &Path, value: &impl serde::Serialize) -> Result<String, ToolError> {
    serde_json::to_string(value).map_err(|error| ToolError::at(folder, error.to_string()))
}
