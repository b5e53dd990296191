//! Rows of a job's tables that belong to its documents: the images of a page, and where the
//! archive has it.

use serde::Deserialize;

use super::schema::{Picture, Stored};
use super::state::TablePlace;
use super::{Home, schema};
use crate::fs::IoError;
use crate::outputs::{self, Table, TextPlace};
use crate::tool_error::ToolError;

/// The longest row that is read, in bytes.
const MAX_ROW: usize = 1 << 20;

/// The most characters of an alternative text.
const ALT: usize = 200;

/// Calls `each` with the address of a page and an image of it, for rows since `from`.
/// Returns the position up to which the table was read.
pub(super) fn images(
    home: &Home,
    from: TablePlace,
    mut each: impl FnMut(&str, &Picture) -> Result<(), ToolError>,
) -> Result<TablePlace, ToolError> {
    since(home, Table::Images, from, |row| {
        let row = String::from_utf8_lossy(row);
        let mut cells = row.split('\t');
        let (Some(file), Some(page)) = (cells.nth(1), cells.nth(4)) else {
            return Ok(());
        };
        // The header, and rows that were not written by spoor.
        if !file.starts_with("images/") {
            return Ok(());
        }
        let alt = cells.nth(3).unwrap_or_default();
        each(
            page,
            &Picture {
                file: file.to_owned(),
                alt: alt.chars().take(ALT).collect(),
            },
        )
    })
}

/// The part of a row of the log that is read.
#[derive(Deserialize)]
struct LoggedRow {
    documents: Option<TextPlace>,
    archive: Option<TextPlace>,
}

/// Calls `each` with the key of a document and its place in the archive, for rows since
/// `from`. Returns the position up to which the log was read.
pub(super) fn captures(
    home: &Home,
    from: TablePlace,
    mut each: impl FnMut(u64, &Stored) -> Result<(), ToolError>,
) -> Result<TablePlace, ToolError> {
    since(home, Table::Log, from, |row| {
        let Ok(row) = serde_json::from_slice::<LoggedRow>(row) else {
            return Ok(());
        };
        let (Some(document), Some(stored)) = (row.documents, row.archive) else {
            return Ok(());
        };
        let name = format!("{}/{}", outputs::DOCUMENTS, document.file);
        let stored = Stored {
            file: format!("archive/{}", stored.file),
            byte: stored.from,
            bytes: stored.bytes,
        };
        each(schema::key(&name, document.from, 0), &stored)
    })
}

/// Calls `each` with every complete row of a table from a place on. If the table no longer has
/// the place, it was moved away, and the new one is read from its beginning.
fn since(
    home: &Home,
    table: Table,
    from: TablePlace,
    mut each: impl FnMut(&[u8]) -> Result<(), ToolError>,
) -> Result<TablePlace, ToolError> {
    let parts = outputs::parts(&home.folder, table)?;
    let is_known = |number: u32, length: Option<u64>| {
        number == from.part && length.is_none_or(|length| length >= from.byte)
    };
    let is_there = parts
        .iter()
        .any(|part| is_known(part.number, part.length()));
    let from = if is_there {
        from
    } else {
        TablePlace::default()
    };
    let mut now = from;
    for part in parts.into_iter().filter(|part| part.number >= from.part) {
        let number = part.number;
        let begin = if number == from.part { from.byte } else { 0 };
        let (path, text) = part.text_from(begin)?;
        let mut whole = begin;
        let mut first = Ok(());
        let (_, end) = outputs::lines(text, MAX_ROW, |row, _, read| {
            whole = begin + read;
            if let (Some(row), Ok(())) = (row, &first) {
                first = each(row);
            }
        });
        first?;
        end.map_err(IoError::at(&path, "reading"))?;
        now = TablePlace {
            part: number,
            byte: whole,
        };
    }
    Ok(now)
}
