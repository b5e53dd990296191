//! The lines of one file.

use std::io::Read;
use std::path::Path;

use crate::cdxj::{CdxjLine, REVISIT};
use crate::digest;
use crate::gap::RecordSpan;
use crate::http::Response;
use crate::reader::{Item, ReadError, Reader, RecordEntry};
use crate::record::{Kind, Record};
use crate::tool_error::ToolError;

/// The interval of progress reports, in bytes.
const EVERY: u64 = 1 << 20;

/// What was found in a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileLines {
    /// Lines that were passed on.
    pub lines: u64,
    /// Gaps; `spoor archive check` lists them.
    pub gaps: u64,
}

/// Calls `each` with the line of every undamaged record of a file that belongs into an index, in
/// the order of the file, until it returns false. `progress` is called from time to time with
/// the number of bytes read since the last call. Lines name the file as `name`.
///
/// # Errors
///
/// [`ToolError`] if the file cannot be read, or the error of `each`.
pub fn each_line(
    source: impl Read,
    path: &Path,
    name: &str,
    mut progress: impl FnMut(u64),
    mut each: impl FnMut(CdxjLine) -> Result<bool, ToolError>,
) -> Result<FileLines, ToolError> {
    let mut reader = Reader::new(source, path);
    let mut found = FileLines::default();
    let mut before = 0;
    while let Some(item) = reader.next_item()? {
        match item {
            Item::Gap(_) => found.gaps += 1,
            Item::Record(entry) => {
                if let Some(line) = line_of(entry, name)? {
                    found.lines += 1;
                    if !each(line)? {
                        break;
                    }
                }
            }
        }
        let position = reader.position();
        if position - before >= EVERY {
            progress(position - before);
            before = position;
        }
    }
    progress(reader.position() - before);
    Ok(found)
}

/// `None` for a record that is not indexed, and for a damaged one.
fn line_of<R: Read>(
    mut entry: RecordEntry<'_, R>,
    name: &str,
) -> Result<Option<CdxjLine>, ReadError> {
    let Some(mut line) = begun(&entry.record, name) else {
        return Ok(None);
    };
    let is_http = has_head(&entry.record);
    let head = is_http.then(|| Response::head(&mut entry));
    match &head {
        Some(Ok(head)) => answered(&mut line, &entry.record, head),
        // An ARC record may have only a body, with its type in the head of the record.
        Some(Err(_)) if entry.record.version.is_arc() => {
            line.mime = media(entry.record.content_type());
        }
        _ => {}
    }
    if line.digest.is_none() && !matches!(head, Some(Err(_))) {
        line.digest = digest::of_payload(&mut entry);
    }
    line.place = entry.finish()?.map(|place| member(&entry.record, place));
    Ok(line.place.is_some().then_some(line))
}

/// Whether the head of an HTTP message is read for an index: like in other programs, only for
/// schemes in lower case.
pub(super) fn has_head(record: &Record) -> bool {
    let is_lower = |uri: &String| uri.starts_with("http");
    record.is_http() && record.uri.as_ref().is_some_and(is_lower)
}

/// The host and port of a tunnel (RFC 9110 section 9.3.6), which is not the address of a page.
fn is_tunnel(uri: &str) -> bool {
    uri.rsplit_once(':').is_some_and(|(host, port)| {
        !host.contains('/') && !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit())
    })
}

/// The part of a line that comes from the head of a record; `None` for a record that is not
/// indexed.
pub(super) fn begun(record: &Record, name: &str) -> Option<CdxjLine> {
    const FIELDS: &str = "application/warc-fields";
    let is_indexed = match record.kind {
        Kind::Response | Kind::Revisit => true,
        Kind::Resource | Kind::Metadata => record.content_type() != Some(FIELDS),
        _ => false,
    };
    let url = record.uri.as_ref().filter(|_| is_indexed)?;
    if is_tunnel(url) {
        return None;
    }
    let url = &url.replace(' ', "%20");
    let time = record.timestamp();
    let time = time.map_or_else(String::new, |time| {
        time.strftime("%Y%m%d%H%M%S").to_string()
    });
    let mut line = CdxjLine::of(url, time);
    line.digest = record.header("warc-payload-digest").map(str::to_owned);
    line.filename = Some(name.to_owned());
    match record.kind {
        Kind::Revisit => line.mime = Some(REVISIT.to_owned()),
        Kind::Resource | Kind::Metadata => line.mime = media(record.content_type()),
        _ => {}
    }
    Some(line)
}

/// Adds the part of a line that comes from the head of a response.
pub(super) fn answered(line: &mut CdxjLine, record: &Record, head: &Response) {
    line.status = Some(head.status.to_string());
    if record.kind != Kind::Revisit {
        line.mime = media(head.all("content-type").first().map(String::as_str));
    }
}

fn media(declared: Option<&str>) -> Option<String> {
    let first = declared?
        .trim_start_matches(['"', ' '])
        .split([';', ' ', '\t', '"']);
    let first = first.into_iter().next().unwrap_or_default();
    (!first.is_empty()).then(|| first.to_owned())
}

/// The place as stated in indexes.
fn member(record: &Record, place: RecordSpan) -> RecordSpan {
    RecordSpan {
        inside: record.inside.filter(|inside| *inside > 0).or(place.inside),
        ..place
    }
}
