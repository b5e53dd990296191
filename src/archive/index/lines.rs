//! The lines of one file.

use std::io::Read;
use std::path::Path;

use crate::archive::cdxj::{Line, REVISIT};
use crate::archive::gap::Place;
use crate::archive::http::Response;
use crate::archive::reader::{Entry, Item, ReadError, Reader};
use crate::archive::record::{Kind, Record};
use crate::page::media_type;

/// What a response without a declared type has in an index, as other programs write it.
const UNKNOWN: &str = "unk";
/// How often the number of bytes is told.
const EVERY: u64 = 1 << 20;

/// What was found in a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileLines {
    /// Lines that were handed out.
    pub lines: u64,
    /// Gaps, of which `spoor archive check` says more.
    pub gaps: u64,
}

/// Calls `each` with the line of every response, revisit and resource of a file that is
/// whole, in the order of the file. `told` learns from time to time how many more bytes were
/// read. Lines name the file as `name`.
///
/// # Errors
///
/// [`ReadError`] if the file cannot be read, or the error of `each`.
pub fn each_line<E: From<ReadError>>(
    source: impl Read,
    path: &Path,
    name: &str,
    mut told: impl FnMut(u64),
    mut each: impl FnMut(Line) -> Result<(), E>,
) -> Result<FileLines, E> {
    let mut reader = Reader::new(source, path);
    let mut found = FileLines::default();
    let mut before = 0;
    while let Some(item) = reader.next_item()? {
        match item {
            Item::Gap(_) => found.gaps += 1,
            Item::Record(entry) => {
                if let Some(line) = line_of(entry, name)? {
                    found.lines += 1;
                    each(line)?;
                }
            }
        }
        let position = reader.position();
        if position - before >= EVERY {
            told(position - before);
            before = position;
        }
    }
    told(reader.position() - before);
    Ok(found)
}

/// `None` for a record that no index has, and for one that is damaged.
fn line_of<R: Read>(mut entry: Entry<'_, R>, name: &str) -> Result<Option<Line>, ReadError> {
    let Some(mut line) = begun(&entry.record, name) else {
        return Ok(None);
    };
    if entry.record.is_http()
        && let Ok(head) = Response::head(&mut entry)
    {
        answered(&mut line, &entry.record, &head);
    }
    line.place = entry.finish()?.map(|place| member(&entry.record, place));
    Ok(line.place.is_some().then_some(line))
}

/// What the head of a record says for its line; `None` for a record that no index has.
pub(super) fn begun(record: &Record, name: &str) -> Option<Line> {
    let is_indexed = matches!(record.kind, Kind::Response | Kind::Revisit | Kind::Resource);
    let url = record.uri.as_ref().filter(|_| is_indexed)?;
    let time = record.timestamp();
    let time = time.map_or_else(String::new, |time| {
        time.strftime("%Y%m%d%H%M%S").to_string()
    });
    let mut line = Line::of(url, time);
    line.digest = record.header("warc-payload-digest").map(str::to_owned);
    line.filename = Some(name.to_owned());
    match record.kind {
        Kind::Revisit => line.mime = Some(REVISIT.to_owned()),
        Kind::Resource => {
            line.status = Some("200".to_owned());
            line.mime = media(record.content_type());
        }
        _ => {}
    }
    Some(line)
}

/// What the head of a response says for the line of its record.
pub(super) fn answered(line: &mut Line, record: &Record, head: &Response) {
    line.status = Some(head.status.to_string());
    if record.kind != Kind::Revisit {
        line.mime = media(head.all("content-type").first().map(String::as_str));
    }
}

fn media(declared: Option<&str>) -> Option<String> {
    let media = declared
        .map(media_type)
        .filter(|media| !media.is_empty() && !media.contains(char::is_whitespace));
    Some(media.unwrap_or(UNKNOWN).to_owned())
}

/// The place as indexes state it.
fn member(record: &Record, place: Place) -> Place {
    Place {
        inside: record.inside.filter(|inside| *inside > 0).or(place.inside),
        ..place
    }
}
