//! Reads a web from WARC files (ISO 28500, WARC 1.0 and 1.1), compressed or not.
//!
//! The first response of each address counts. Bodies that a crawl would read are kept in
//! memory, compressed; for others only the type is kept. Everything after a broken record
//! is lost, with a warning.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use flate2::read::{DeflateDecoder, GzDecoder, MultiGzDecoder};
use flate2::{Compression, write::GzEncoder};
use rustc_hash::FxHashMap;

use crate::address::PageUrl;
use crate::fs::IoError;
use crate::page::{Fetched, TermsHeaders, Validators};

/// The most bytes of the header of a record, and of that of a response.
const MAX_HEAD: usize = 64 << 10;
/// The most header lines.
const MAX_LINES: usize = 256;
/// The body of a response longer than this is skipped; no page is so long.
const MAX_BYTES: u64 = 32 << 20;

/// Why a WARC file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The operating system reported an error.
    #[error("{0}; correct `web` in the plan")]
    Io(#[from] IoError),
    /// It contains no response.
    #[error("{path} contains no response of a web server; give a WARC file of a crawl", path = path.display())]
    Empty {
        /// The file or folder.
        path: PathBuf,
    },
}

/// A stored response.
#[derive(Debug, Clone)]
pub(super) enum Capture {
    /// A body, with status 200.
    Body(Box<Fetched>),
    /// The status, and the target of a redirect.
    Status(u16, Option<PageUrl>),
}

#[derive(Debug)]
struct ArchivedPage {
    status: u16,
    to: Option<PageUrl>,
    content_type: Option<String>,
    terms: TermsHeaders,
    /// The body, compressed by gzip.
    packed: Vec<u8>,
}

/// The responses of WARC files.
#[derive(Debug)]
pub(super) struct Archive(FxHashMap<PageUrl, ArchivedPage>);

/// The WARC files at a path: itself, or those in the folder, by name; empty for anything
/// else.
pub(super) fn files(path: &Path) -> Result<Vec<PathBuf>, ArchiveError> {
    let is_warc = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.to_ascii_lowercase();
        name.ends_with(".warc") || name.ends_with(".warc.gz")
    };
    if !path.is_dir() {
        return Ok(is_warc(path).then(|| path.to_owned()).into_iter().collect());
    }
    let mut files = Vec::new();
    for entry in path.read_dir().map_err(IoError::at(path, "listing"))? {
        let path = entry.map_err(IoError::at(path, "listing"))?.path();
        if is_warc(&path) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

impl Archive {
    /// Reads the files of `path`.
    ///
    /// # Errors
    ///
    /// [`ArchiveError`] names the file.
    pub(super) fn open(files: &[PathBuf], path: &Path) -> Result<Self, ArchiveError> {
        let mut kept = FxHashMap::default();
        for path in files {
            let file = File::open(path).map_err(IoError::at(path, "opening"))?;
            let mut file = BufReader::new(file);
            let begin = file.fill_buf().map_err(IoError::at(path, "reading"))?;
            let mut records: Box<dyn BufRead> = if begin.starts_with(&[0x1F, 0x8B]) {
                Box::new(BufReader::new(MultiGzDecoder::new(file)))
            } else {
                Box::new(file)
            };
            let mut number = 0_u64;
            while let Some(record) = {
                number += 1;
                next(&mut records).unwrap_or_else(|error| {
                    let path = path.display();
                    tracing::warn!("{path}: what comes after record {number} is lost: {error}");
                    None
                })
            } {
                if let Some((url, response)) = record.response() {
                    kept.entry(url).or_insert(response);
                }
            }
        }
        if kept.is_empty() {
            Err(ArchiveError::Empty {
                path: path.to_owned(),
            })
        } else {
            Ok(Self(kept))
        }
    }

    /// Where an address redirects to.
    pub(super) fn moved(&self, url: &PageUrl) -> Option<PageUrl> {
        self.0.get(url)?.to.clone()
    }

    /// The response of an address; `None` if it was not requested.
    pub(super) fn capture(&self, url: &PageUrl) -> Option<Capture> {
        let kept = self.0.get(url)?;
        if kept.status != 200 {
            return Some(Capture::Status(kept.status, kept.to.clone()));
        }
        let mut body = Vec::new();
        // It was compressed by this process.
        let _complete = GzDecoder::new(kept.packed.as_slice()).read_to_end(&mut body);
        Some(Capture::Body(Box::new(Fetched {
            status: kept.status,
            content_type: kept.content_type.clone(),
            terms: kept.terms.clone(),
            validators: Validators::default(),
            body: Bytes::from(body),
            truncated: false,
            elapsed: Duration::from_millis(1),
        })))
    }
}

fn wrong(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// A record of any kind.
struct Record {
    /// Its header lines.
    head: Vec<u8>,
    block: Vec<u8>,
}

/// The next record; `None` at the end of the file.
fn next(file: &mut dyn BufRead) -> io::Result<Option<Record>> {
    let mut line = Vec::new();
    // Two line ends stand between records.
    while line.trim_ascii().is_empty() {
        line.clear();
        if read_line(file, &mut line)? == 0 {
            return Ok(None);
        }
    }
    if !line.starts_with(b"WARC/") {
        return Err(wrong("it does not begin with `WARC/`"));
    }
    let mut head = Vec::new();
    while !head.ends_with(b"\n\r\n") && !head.ends_with(b"\n\n") {
        if read_line(file, &mut head)? == 0 {
            return Err(wrong("its header has no end"));
        }
    }
    let length = of_head(&head, "content-length").and_then(|n| n.parse::<u64>().ok());
    let length = length.ok_or_else(|| wrong("it has no Content-Length"))?;
    let mut block = Vec::new();
    let read = file.take(length.min(MAX_BYTES)).read_to_end(&mut block)?;
    let read = read as u64;
    let rest = length.saturating_sub(read);
    if read < length.min(MAX_BYTES) || io::copy(&mut file.take(rest), &mut io::sink())? < rest {
        return Err(wrong("it is truncated"));
    }
    if rest > 0 {
        block.clear();
    }
    Ok(Some(Record { head, block }))
}

/// Appends a line, including its end; returns its length.
fn read_line(file: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    let before = line.len();
    let read = file.take(MAX_HEAD as u64).read_until(b'\n', line)?;
    if before + read > MAX_HEAD {
        Err(wrong("its header is longer than any"))
    } else {
        Ok(read)
    }
}

/// A header line of a record, by its name in lower case.
fn of_head(head: &[u8], name: &str) -> Option<String> {
    let mut lines = [httparse::EMPTY_HEADER; MAX_LINES];
    let httparse::Status::Complete((_, lines)) = httparse::parse_headers(head, &mut lines).ok()?
    else {
        return None;
    };
    let line = lines.iter().find(|l| l.name.eq_ignore_ascii_case(name))?;
    Some(String::from_utf8_lossy(line.value).trim().to_owned())
}

impl Record {
    /// The response in the record, if it is one of HTTP with a known status.
    fn response(&self) -> Option<(PageUrl, ArchivedPage)> {
        if !of_head(&self.head, "warc-type")?.eq_ignore_ascii_case("response") {
            return None;
        }
        let url = of_head(&self.head, "warc-target-uri")?;
        let url = PageUrl::parse(url.trim_start_matches('<').trim_end_matches('>')).ok()?;
        let mut lines = [httparse::EMPTY_HEADER; MAX_LINES];
        let mut response = httparse::Response::new(&mut lines);
        let parsed = response.parse(&self.block).ok()?;
        let httparse::Status::Complete(head) = parsed else {
            return None;
        };
        let all = |name: &str| -> Vec<String> {
            let lines = response.headers.iter();
            let lines = lines.filter(|line| line.name.eq_ignore_ascii_case(name));
            let text = |line: &httparse::Header<'_>| String::from_utf8_lossy(line.value).into();
            lines.map(text).collect()
        };
        let one = |name: &str| all(name).into_iter().next();
        let status = response.code?;
        let content_type = one("content-type");
        let reads = status == 200 && content_type.as_deref().is_none_or(is_text);
        let body = self.block.get(head..).filter(|_| reads).unwrap_or_default();
        let body = decoded(body, one("transfer-encoding"), one("content-encoding"));
        let body = body.unwrap_or_else(|error| {
            tracing::warn!("the body of {url} counts as empty: {error}");
            Vec::new()
        });
        let to = one("location").filter(|_| (300..400).contains(&status));
        let kept = ArchivedPage {
            status,
            to: to.and_then(|to| url.join(&to).ok()),
            content_type,
            terms: TermsHeaders {
                robots_tags: all("x-robots-tag"),
                tdm_reservation: all("tdm-reservation"),
                tdm_policy: all("tdm-policy"),
                links: all("link"),
            },
            packed: pack(&body).ok()?,
        };
        Some((url, kept))
    }
}

fn is_text(content_type: &str) -> bool {
    let media = content_type.trim_start().to_ascii_lowercase();
    media.starts_with("text/") || media.contains("xml")
}

fn pack(body: &[u8]) -> io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(body)?;
    packed.finish()
}

/// The body without its transfer and content codings (RFC 9112 section 7.1, RFC 9110
/// section 8.4.1). Some archives keep the encoded body, others only the names of the
/// codings.
fn decoded(body: &[u8], transfer: Option<String>, content: Option<String>) -> io::Result<Vec<u8>> {
    let is = |coding: &Option<String>, name: &str| {
        let coding = coding.as_deref().unwrap_or_default().trim();
        coding.eq_ignore_ascii_case(name)
    };
    let body = match is(&transfer, "chunked").then(|| unchunked(body)).flatten() {
        Some(body) => body,
        None => body.to_vec(),
    };
    let mut plain = Vec::new();
    let read = |reader: &mut dyn Read, plain: &mut Vec<u8>| {
        let read = reader.take(MAX_BYTES).read_to_end(plain);
        read.map(|_| ())
    };
    if body.starts_with(&[0x1F, 0x8B]) {
        read(&mut MultiGzDecoder::new(body.as_slice()), &mut plain)?;
    } else if is(&content, "deflate") && !body.trim_ascii_start().starts_with(b"<") {
        let zlib = flate2::read::ZlibDecoder::new(body.as_slice());
        if read(&mut { zlib }, &mut plain).is_err() {
            plain.clear();
            read(&mut DeflateDecoder::new(body.as_slice()), &mut plain)?;
        }
    } else if (is(&content, "br") || is(&content, "zstd")) && std::str::from_utf8(&body).is_err() {
        return Err(wrong("its coding is neither gzip nor deflate"));
    } else {
        return Ok(body);
    }
    Ok(plain)
}

/// The body joined from its chunks; `None` if there are none.
fn unchunked(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let httparse::Status::Complete((head, length)) = httparse::parse_chunk_size(body).ok()?
        else {
            return None;
        };
        let chunk = body.get(head..)?;
        let length = usize::try_from(length).ok()?;
        if length == 0 {
            return Some(whole);
        }
        whole.extend_from_slice(chunk.get(..length)?);
        body = chunk.get(length..)?.strip_prefix(b"\r\n")?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: &str, url: &str, block: &[u8]) -> Vec<u8> {
        let length = block.len();
        let head = format!(
            "WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\n\
             Content-Type: application/http;msgtype=response\r\nContent-Length: {length}\r\n\r\n"
        );
        [head.as_bytes(), block, b"\r\n\r\n"].concat()
    }

    fn answer(head: &str, body: &[u8]) -> Vec<u8> {
        [b"HTTP/1.1 ", head.as_bytes(), b"\r\n\r\n", body].concat()
    }

    fn url(text: &str) -> PageUrl {
        PageUrl::parse(text).unwrap()
    }

    fn open(bytes: &[u8], name: &str) -> Result<Archive, ArchiveError> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(name), bytes).unwrap();
        Archive::open(&files(folder.path()).unwrap(), folder.path())
    }

    fn body(archive: &Archive, address: &str) -> String {
        match archive.capture(&url(address)) {
            Some(Capture::Body(fetched)) => String::from_utf8(fetched.body.to_vec()).unwrap(),
            other => panic!("{address}: {other:?}"),
        }
    }

    #[test]
    fn responses_are_found_by_their_address_in_either_form() {
        let html = "200 OK\r\nContent-Type: text/html; charset=utf-8";
        let chunked = format!("{html}\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip");
        let packed = pack(b"<p>packed").unwrap();
        let (one, two) = packed.split_at(7);
        let mut chunks = format!("{:x}\r\n", one.len()).into_bytes();
        chunks.extend_from_slice(one);
        chunks.extend_from_slice(format!("\r\n{:x};a=b\r\n", two.len()).as_bytes());
        chunks.extend_from_slice(two);
        chunks.extend_from_slice(b"\r\n0\r\n\r\n");
        let records = [
            record("warcinfo", "-", b"software: any\r\n"),
            record("request", "http://a.test/", b"GET / HTTP/1.1\r\n\r\n"),
            record("response", "<http://a.test/>", &answer(html, b"<p>first")),
            record("response", "http://a.test/", &answer(html, b"<p>again")),
            record(
                "response",
                "http://a.test/c?d=1",
                &answer(&chunked, &chunks),
            ),
            record(
                "response",
                "http://a.test/old",
                &answer("301 Moved\r\nLocation: /new", b""),
            ),
            record(
                "response",
                "http://a.test/no",
                &answer("404 Not Found", b""),
            ),
            record(
                "response",
                "http://a.test/pdf",
                &answer("200 OK\r\nContent-Type: application/pdf", b"%PDF"),
            ),
        ];
        let plain = records.concat();
        let members: Vec<u8> = records.iter().flat_map(|r| pack(r).unwrap()).collect();
        for (bytes, name) in [(plain, "a.warc"), (members, "a.WARC.gz")] {
            let archive = open(&bytes, name).unwrap();
            assert_eq!(body(&archive, "http://a.test/"), "<p>first");
            assert_eq!(body(&archive, "http://a.test/c?d=1"), "<p>packed");
            assert_eq!(body(&archive, "http://a.test/pdf"), "");
            let status = |address: &str| match archive.capture(&url(address))? {
                Capture::Status(status, to) => Some((status, to)),
                Capture::Body(_) => None,
            };
            let to = Some(url("http://a.test/new"));
            assert_eq!(status("http://a.test/old"), Some((301, to)));
            assert_eq!(
                archive.moved(&url("http://a.test/old")),
                Some(url("http://a.test/new"))
            );
            assert_eq!(status("http://a.test/no"), Some((404, None)));
            assert!(archive.capture(&url("http://a.test/new")).is_none());
        }
    }

    #[test]
    fn what_precedes_a_broken_record_counts() {
        let html = "200 OK\r\nContent-Type: text/html";
        let good = record("response", "http://a.test/", &answer(html, b"<p>a"));
        for rest in [
            b"WARC/1.1\r\nWARC-Type: response\r\nContent-Length: 99999999999999999999\r\n\r\n"
                .as_slice(),
            b"WARC/1.1\r\nContent-Length: 50\r\n\r\ncut off",
            b"WARC/1.1\r\nno end",
            b"no record\r\n",
            &[b"WARC/1.1\r\nA: ".as_slice(), &[b'a'; 100_000]].concat(),
        ] {
            let archive = open(&[&good, rest].concat(), "a.warc").unwrap();
            assert_eq!(body(&archive, "http://a.test/"), "<p>a");
            let error = open(rest, "b.warc").unwrap_err().to_string();
            assert!(error.contains("no response"), "{error}");
        }
        let cut = pack(&good).unwrap();
        assert!(open(&cut[..cut.len() / 2], "a.warc.gz").is_err());
    }

    proptest::proptest! {
        #![proptest_config(crate::tests::usual())]

        #[test]
        fn no_file_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..400)) {
            let head = b"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: 20\r\n\r\n";
            drop(open(&[head.as_slice(), &bytes].concat(), "a.warc"));
            drop(decoded(&bytes, Some("chunked".into()), Some("deflate".into())));
        }
    }
}
