//! Reads a web from the WARC and ARC files of a crawl.
//!
//! The first response of each address counts. Bodies that a crawl would read are kept in
//! memory, compressed; for others only the type is kept. What is damaged is left out, with a
//! warning.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use flate2::read::GzDecoder;
use flate2::{Compression, write::GzEncoder};
use rustc_hash::FxHashMap;

use crate::address::PageUrl;
use crate::archive;
use crate::archive::gap::Gap;
use crate::archive::http::{Response, ResponseError};
use crate::archive::reader::{Item, ReadError, Reader};
use crate::archive::record::Kind;
use crate::fs::IoError;
use crate::page::{Fetched, TermsHeaders, Validators};

/// Of a longer body only the beginning is kept; no page is so long.
const MAX_BYTES: usize = 32 << 20;

/// Why a WARC file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The operating system reported an error.
    #[error("{0}; correct `web` in the plan")]
    Io(#[from] IoError),
    /// A file could not be read to its end.
    #[error("{0}; correct `web` in the plan")]
    Read(#[from] ReadError),
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

/// The archives at a path: itself, or those in the folder, by name; empty for anything
/// else.
pub(super) fn files(path: &Path) -> Result<Vec<PathBuf>, ArchiveError> {
    if !path.is_dir() {
        let named = archive::files::is_named(path).then(|| path.to_owned());
        return Ok(named.into_iter().collect());
    }
    let mut files = Vec::new();
    for entry in path.read_dir().map_err(IoError::at(path, "listing"))? {
        let path = entry.map_err(IoError::at(path, "listing"))?.path();
        if archive::files::is_named(&path) {
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
            let mut reader = Reader::open(path)?;
            while let Some(item) = reader.next_item()? {
                match item {
                    Item::Gap(Gap { place, why }) => tracing::warn!(
                        "{}: {} bytes from {} on are left out: {}",
                        path.display(),
                        place.length,
                        place.offset,
                        why.text()
                    ),
                    Item::Record(mut entry) => {
                        if entry.record.kind != Kind::Response {
                            continue;
                        }
                        let uri = entry.record.uri.as_deref().map(PageUrl::parse);
                        let Some(Ok(url)) = uri else { continue };
                        match Response::read(&mut entry, MAX_BYTES) {
                            Ok(response) => {
                                let page = archived(&url, response);
                                let page = page.map_err(IoError::at(path, "compressing"))?;
                                kept.entry(url).or_insert(page);
                            }
                            // It is told as a gap.
                            Err(ResponseError::Damaged(_)) => {}
                            Err(error) => tracing::warn!("{url} is left out: {error}"),
                        }
                    }
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

/// A response, with its body if a crawl would read it.
fn archived(url: &PageUrl, response: Response) -> io::Result<ArchivedPage> {
    let all = response.all("location");
    let to = all
        .first()
        .filter(|_| (300..400).contains(&response.status));
    let to = to.and_then(|to| url.join(to).ok());
    let fetched = response.into_fetched();
    let media = fetched.content_type.as_deref();
    let reads = fetched.status == 200 && media.is_none_or(is_text);
    let body = if reads { &fetched.body[..] } else { &[] };
    Ok(ArchivedPage {
        status: fetched.status,
        to,
        packed: pack(body)?,
        terms: fetched.terms,
        content_type: fetched.content_type,
    })
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
    fn a_broken_record_is_left_out() {
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
            for bytes in [[&good, rest].concat(), [rest, b"\r\n", &good].concat()] {
                let archive = open(&bytes, "a.warc").unwrap();
                assert_eq!(body(&archive, "http://a.test/"), "<p>a");
            }
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
        }
    }
}
