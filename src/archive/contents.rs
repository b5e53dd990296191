//! The contents of captures, for people and other programs: decoded, as files.

use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

use super::cdxj::CdxjLine;
use super::find::{self, Capture, Source};
use super::http::Response;
use super::record::{Kind, Record};
use super::select::Selection;
use super::writer;
use crate::fs::IoError;
use crate::page::media_type;
use crate::progress::Step;
use crate::tool_error::ToolError;

/// The most bytes of one body, which is written while it is read. A few kilobytes may
/// decompress to any length.
const CAP: usize = 1 << 30;
/// The most unreadable captures that are listed.
const LISTED: usize = 20;
/// The list of the files in a folder.
const LIST: &str = "captures.jsonl";
/// File extensions by media type; all others have `.bin`.
const ENDINGS: [(&str, &str); 20] = [
    ("text/html", "html"),
    ("application/xhtml+xml", "html"),
    ("text/plain", "txt"),
    ("text/css", "css"),
    ("text/csv", "csv"),
    ("text/javascript", "js"),
    ("application/javascript", "js"),
    ("application/json", "json"),
    ("application/xml", "xml"),
    ("text/xml", "xml"),
    ("application/rss+xml", "xml"),
    ("application/pdf", "pdf"),
    ("image/jpeg", "jpg"),
    ("image/png", "png"),
    ("image/gif", "gif"),
    ("image/webp", "webp"),
    ("image/svg+xml", "svg"),
    ("image/x-icon", "ico"),
    ("video/mp4", "mp4"),
    ("audio/mpeg", "mp3"),
];

/// A description of the contents of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// Whether the body is longer, or was stored only in part.
    pub is_cut: bool,
    /// The media type as declared.
    pub media: Option<String>,
}

/// Writes the decoded contents of a capture, at most 1 GiB; for a revisit, the contents that it
/// refers to.
///
/// # Errors
///
/// [`ToolError`] names the capture. Some of the contents may already have been written.
pub fn write(
    sources: &[Source],
    capture: &Capture,
    out: &mut dyn Write,
) -> Result<Contents, ToolError> {
    let line = &capture.line;
    if line.is_revisit() {
        let Some(original) = find::contents_of(sources, capture)? else {
            let (url, time) = (&line.url, &line.time);
            return Err(ToolError::new(format_args!(
                "{url}, captured at {time}: the archives have only a revisit of it, and not the \
                 capture that has its contents"
            )));
        };
        return write(sources, &original, out);
    }
    let other = |why: &dyn Error| about(line, why);
    capture.read(|entry| {
        let media = entry.record.content_type().map(str::to_owned);
        let is_http = entry.record.is_http() && entry.record.kind == Kind::Response;
        let declared = entry.record.header("warc-truncated").is_some();
        if is_http {
            let response = Response::copy(&mut *entry, CAP, out);
            let response = response.map_err(|error| other(&error))?;
            return Ok(Contents {
                is_cut: response.truncated || response.cut || declared,
                media: response.all("content-type").into_iter().next(),
            });
        }
        let copied = io::copy(&mut io::Read::take(&mut *entry, CAP as u64), out);
        copied.map_err(|error| other(&error))?;
        Ok(Contents {
            is_cut: entry.record.length > CAP as u64 || declared,
            media,
        })
    })
}

/// Writes the record of a capture with its head, decompressed.
///
/// # Errors
///
/// [`ToolError`] names the capture.
pub fn write_record(capture: &Capture, out: &mut dyn Write) -> Result<(), ToolError> {
    capture.read(|entry| {
        let (head, end) = head_of(&entry.record);
        let written = out
            .write_all(head.as_bytes())
            .and_then(|()| io::copy(entry, out))
            .and_then(|_| out.write_all(end));
        written.map_err(|error| about(&capture.line, &error))
    })
}

/// An error that names a capture.
fn about(line: &CdxjLine, why: &dyn Error) -> ToolError {
    let (url, time) = (&line.url, &line.time);
    ToolError::new(format_args!("{url}, captured at {time}: {why}"))
}

/// The head of a record in its format, and the bytes after its block.
fn head_of(record: &Record) -> (String, &'static [u8]) {
    if record.version.is_arc() {
        let values: Vec<&str> = record.headers.iter().map(|(_, value)| &**value).collect();
        return (format!("{}\n", values.join(" ")), b"\n");
    }
    let mut head = format!("{}\r\n", record.version.name());
    for (name, value) in &record.headers {
        writer::field(&mut head, name, value);
    }
    head.push_str("\r\n");
    (head, b"\r\n\r\n")
}

/// The result of saving many captures.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Saved {
    /// The files.
    pub files: u64,
    /// Captures that could not be read.
    pub left_out: u64,
    /// The reasons for the first of these.
    pub reasons: Vec<String>,
}

/// A line of the list.
#[derive(Serialize)]
struct ContentsLine<'l> {
    name: &'l str,
    url: &'l str,
    time: &'l str,
    status: Option<&'l str>,
    media: Option<&'l str>,
    bytes: u64,
    is_cut: bool,
}

/// Writes the contents of all wanted captures to files in a folder, and a list of them. An
/// existing file is kept, so that a killed run continues.
///
/// # Errors
///
/// [`ToolError`] if a file cannot be written. Captures that cannot be read are counted.
pub fn save_all(sources: &[Source], wanted: &Selection, folder: &Path) -> Result<Saved, ToolError> {
    std::fs::create_dir_all(folder).map_err(IoError::at(folder, "making the folder"))?;
    let list = folder.join(LIST);
    let mut out = File::create(&list).map_err(IoError::at(&list, "creating"))?;
    let mut saved = Saved::default();
    let mut step = Step::begin("captures saved", None);
    find::each(sources, wanted, &mut |capture: Capture| {
        step.advance(1);
        let base = name_of(&capture);
        let part = folder.join(format!("{base}.part"));
        let file = File::create(&part).map_err(IoError::at(&part, "creating"))?;
        let mut file = BufWriter::new(file);
        let contents = match write(sources, &capture, &mut file) {
            Ok(contents) => contents,
            Err(error) => {
                std::fs::remove_file(&part).map_err(IoError::at(&part, "removing"))?;
                saved.left_out += 1;
                if saved.reasons.len() < LISTED {
                    saved.reasons.push(error.to_string());
                }
                return Ok(true);
            }
        };
        let name = format!("{base}.{}", ending_of(contents.media.as_deref()));
        let path = folder.join(&name);
        let written = file.into_inner().map_err(|error| error.into_error());
        let written = written.and_then(|file| {
            let length = file.metadata()?.len();
            std::fs::rename(&part, &path)?;
            Ok(length)
        });
        let bytes = written.map_err(IoError::at(&path, "writing"))?;
        let listed = ContentsLine {
            name: &name,
            url: &capture.line.url,
            time: &capture.line.time,
            status: capture.line.status.as_deref(),
            media: contents.media.as_deref(),
            bytes,
            is_cut: contents.is_cut,
        };
        // Texts and numbers always serialise.
        let line = serde_json::to_string(&listed).unwrap_or_default();
        writeln!(out, "{line}").map_err(IoError::at(&list, "writing"))?;
        saved.files += 1;
        Ok(true)
    })?;
    Ok(saved)
}

fn ending_of(media: Option<&str>) -> &'static str {
    let media = media_type(media.unwrap_or_default()).to_ascii_lowercase();
    let known = ENDINGS.iter().find(|(name, _)| *name == media);
    known.map_or("bin", |(_, ending)| *ending)
}

/// A unique name with the host and the time of a capture, without an extension.
fn name_of(capture: &Capture) -> String {
    let line = &capture.line;
    let host = line.key.split([')', ':']).next().unwrap_or_default();
    let host: Vec<&str> = host.split(',').rev().collect();
    let safe = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '.'
        }
    };
    let host: String = host.join(".").chars().take(80).map(safe).collect();
    let time: String = line.time.chars().filter(char::is_ascii_digit).collect();
    let place = line.place.map(|place| (place.offset, place.inside));
    let key = format!("{} {:?} {place:?}", line.url, line.filename);
    format!("{time}-{host}-{:016x}", xxh3_64(key.as_bytes()))
}
