//! Records copied from one archive into another.

use std::io::{self, BufRead, Read, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::gap::Place;
use super::lookup::shelf::{Parts, ShelfError, Stretch};
use super::lookup::stored::{self, StoredError};
use super::reader::{Entry, ReadError};
use super::record::{Kind, Record};
use super::writer;
use crate::fs::IoError;

/// Why a record cannot be copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The record cannot be read.
    #[error(transparent)]
    Stored(#[from] StoredError),
    /// It is damaged.
    #[error("{file}: the record at byte {offset} is damaged: {error}")]
    Damaged {
        /// The file.
        file: String,
        /// Where it begins.
        offset: u64,
        /// What is wrong.
        error: String,
    },
    /// The copy cannot be written.
    #[error(transparent)]
    Write(#[from] IoError),
}

impl From<ShelfError> for CopyError {
    fn from(error: ShelfError) -> Self {
        Self::Stored(error.into())
    }
}

impl From<ReadError> for CopyError {
    fn from(error: ReadError) -> Self {
        Self::Stored(error.into())
    }
}

/// A record that was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// Its head.
    pub record: Record,
    /// Where it ends in its file; `None` where it shares a compressed member with others.
    pub end: Option<u64>,
}

/// Copies the record at a place as a gzip member of its own: the bytes as they are, if they
/// are such a member, else compressed. `None` if no record begins there, or not one that
/// `is_wanted`.
///
/// # Errors
///
/// [`CopyError`]; then `out` may have a part of it.
pub fn copy(
    parts: &mut dyn Parts,
    place: Place,
    is_wanted: &dyn Fn(&Record) -> bool,
    out: &mut dyn Write,
) -> Result<Option<Copied>, CopyError> {
    // First, whether it is whole and whether it has a member for itself.
    let read = stored::at(parts, place, |entry| {
        let record = entry.record.clone();
        if !is_wanted(&record) {
            return Ok(None);
        }
        match entry.finish()? {
            Some(whole) => Ok(Some((record, whole))),
            None => Err(damaged(&record, "it cannot be read to its end")),
        }
    })?;
    let Some((record, whole)) = read.flatten() else {
        return Ok(None);
    };
    let is_alone = place.inside.is_none() && whole.inside.is_none();
    let end = place.offset + whole.length;
    let magic = parts.read(place.offset, 2)?;
    if is_alone && magic == GZIP && !record.version.is_arc() {
        let mut bytes = Stretch::new(parts, place.offset, end);
        copied(&mut bytes, out, &record)?;
    } else {
        stored::at(parts, place, |entry| compressed(entry, out))?;
    }
    Ok(Some(Copied {
        record,
        end: is_alone.then_some(end),
    }))
}

/// How a gzip member begins.
const GZIP: [u8; 2] = [0x1F, 0x8B];

fn damaged(record: &Record, error: &str) -> CopyError {
    CopyError::Damaged {
        file: record.file.display().to_string(),
        offset: record.offset,
        error: error.to_owned(),
    }
}

/// Copies bytes, and tells a failure of either side.
fn copied(from: &mut dyn Read, to: &mut dyn Write, record: &Record) -> Result<(), CopyError> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(damaged(record, &error.to_string())),
        };
        let written = to.write_all(buffer.get(..read).unwrap_or_default());
        written.map_err(writing)?;
    }
}

fn writing(source: io::Error) -> CopyError {
    IoError {
        path: "the new archive".into(),
        what: "writing",
        source,
    }
    .into()
}

/// Writes a record as a gzip member.
fn compressed<R: Read>(entry: &mut Entry<'_, R>, out: &mut dyn Write) -> Result<(), CopyError> {
    let mut member = GzEncoder::new(out, Compression::default());
    plain(entry, &mut member)?;
    member.finish().map_err(writing)?;
    Ok(())
}

/// Writes a record without compression. One of an ARC becomes one of a WARC.
///
/// # Errors
///
/// [`CopyError`].
pub fn plain<R: Read>(entry: &mut Entry<'_, R>, out: &mut dyn Write) -> Result<(), CopyError> {
    let begin = entry.fill_buf().unwrap_or_default();
    let begin = begin.get(..5).unwrap_or_default();
    let is_http = begin.eq_ignore_ascii_case(b"HTTP/");
    let record = entry.record.clone();
    let head = if record.version.is_arc() {
        of_arc(&record, is_http)
    } else {
        as_it_is(&record)
    };
    out.write_all(head.as_bytes()).map_err(writing)?;
    copied(entry, out, &record)?;
    out.write_all(b"\r\n\r\n").map_err(writing)
}

fn as_it_is(record: &Record) -> String {
    let mut head = format!("{}\r\n", record.version.name());
    for (name, value) in &record.headers {
        writer::field(&mut head, name, value);
    }
    head.push_str("\r\n");
    head
}

/// The head of a WARC record for one of an ARC.
fn of_arc(record: &Record, is_http: bool) -> String {
    let kind = match (&record.kind, is_http) {
        (Kind::Response, true) => "response",
        (Kind::Filedesc, _) => "metadata",
        _ => "resource",
    };
    let media = if is_http {
        "application/http; msgtype=response"
    } else {
        record.content_type().unwrap_or("application/octet-stream")
    };
    let date = record.timestamp().map(|date| date.to_string());
    let date = date.unwrap_or_else(|| "1970-01-01T00:00:00Z".to_owned());
    let uri = record.uri.as_deref().unwrap_or_default();
    let place = format!("{} {}", record.offset, record.length);
    let id = writer::id(&["arc", kind, uri, &date, &place]);
    let mut head = writer::begin(kind, &date, &id, media);
    writer::field(&mut head, "WARC-Target-URI", uri);
    if let Some(ip) = record.header("ip-address") {
        writer::field(&mut head, "WARC-IP-Address", ip);
    }
    writer::field(&mut head, "Content-Length", &record.length.to_string());
    head.push_str("\r\n");
    head
}
