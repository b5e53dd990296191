//! A web made of the WARC and ARC files of a crawl. Each answer is read on request.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;

use spoor::address::PageUrl;
use spoor::archive;
use spoor::archive::captures::Captures;
use spoor::crawl::pipeline::{Caps, Reply, Shelf, Stored};
use spoor::fs::IoError;
use spoor::page::TaskKind;
use spoor::tool_error::ToolError;

/// Only the beginning of a longer body is read; no page is that long.
const MAX_BYTES: usize = 32 << 20;

/// Why a WARC file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The operating system reported an error.
    #[error("{0}; correct `web` in the plan")]
    Io(#[from] IoError),
    /// A file could not be read to its end.
    #[error(transparent)]
    Read(#[from] ToolError),
    /// It contains no response.
    #[error("{path} contains no response of a web server; give a WARC file of a crawl", path = path.display())]
    Empty {
        /// The file or folder.
        path: PathBuf,
    },
}

/// The responses of WARC files.
pub(super) struct Archive {
    shelf: Shelf,
    /// Redirect targets by address: an oracle needs them for every link.
    moved: Mutex<FxHashMap<PageUrl, Option<PageUrl>>>,
}

/// The archives at a path: itself, or those in the folder, by name; empty for anything else.
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
    /// Finds the responses of the files of `path`.
    ///
    /// # Errors
    ///
    /// [`ArchiveError`] names the file.
    pub(super) fn open(files: Vec<PathBuf>, path: &Path) -> Result<Self, ArchiveError> {
        let captures = Captures::of(files)?;
        if captures.is_empty() {
            return Err(ArchiveError::Empty {
                path: path.to_owned(),
            });
        }
        let caps = Caps {
            page: MAX_BYTES,
            image: MAX_BYTES,
            sitemap: MAX_BYTES,
        };
        Ok(Self {
            shelf: Shelf::new(captures, caps),
            moved: Mutex::default(),
        })
    }

    /// Where an address redirects to.
    pub(super) fn moved(&self, url: &PageUrl) -> Option<PageUrl> {
        let lock = || self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(url) {
            return known.clone();
        }
        let to = match self.answer(url, TaskKind::Page) {
            Stored::Redirect { to, .. } => Some(to),
            _ => None,
        };
        lock().insert(url.clone(), to.clone());
        to
    }

    /// The answer of an address. An unreadable file is reported, and its addresses count as
    /// missing.
    pub(super) fn answer(&self, url: &PageUrl, kind: TaskKind) -> Stored {
        match self.shelf.first(url, kind) {
            Ok(Reply { stored, .. }) => stored,
            Err(error) => {
                tracing::warn!("{url} counts as missing: {error}");
                Stored::Missing
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use flate2::{Compression, write::GzEncoder};
    use tempfile::TempDir;

    use super::*;

    fn pack(body: &[u8]) -> io::Result<Vec<u8>> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(body)?;
        packed.finish()
    }

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

    /// The archive, and the folder that it reads from.
    fn open(bytes: &[u8], name: &str) -> Result<(TempDir, Archive), ArchiveError> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(name), bytes).unwrap();
        let archive = Archive::open(files(folder.path()).unwrap(), folder.path())?;
        Ok((folder, archive))
    }

    fn answered(archive: &Archive, address: &str) -> Stored {
        archive.answer(&url(address), TaskKind::Page)
    }

    fn body(archive: &Archive, address: &str) -> String {
        match answered(archive, address) {
            Stored::Body(fetched) => String::from_utf8(fetched.body.to_vec()).unwrap(),
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
            let (_folder, archive) = open(&bytes, name).unwrap();
            assert_eq!(body(&archive, "http://a.test/"), "<p>first");
            assert_eq!(body(&archive, "http://a.test/c?d=1"), "<p>packed");
            assert_eq!(body(&archive, "http://a.test/pdf"), "%PDF");
            let to = url("http://a.test/new");
            for _ in 0..2 {
                assert_eq!(archive.moved(&url("http://a.test/old")), Some(to.clone()));
            }
            assert!(matches!(
                answered(&archive, "http://a.test/old"),
                Stored::Redirect { status: 301, .. }
            ));
            assert!(matches!(
                answered(&archive, "http://a.test/no"),
                Stored::Failed(_)
            ));
            assert!(matches!(
                answered(&archive, "http://a.test/new"),
                Stored::Missing
            ));
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
                let (_folder, archive) = open(&bytes, "a.warc").unwrap();
                assert_eq!(body(&archive, "http://a.test/"), "<p>a");
            }
            let error = open(rest, "b.warc").err().unwrap().to_string();
            assert!(error.contains("no response"), "{error}");
        }
        let cut = pack(&good).unwrap();
        assert!(open(&cut[..cut.len() / 2], "a.warc.gz").is_err());
    }

    proptest::proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn no_file_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..400)) {
            let head = b"WARC/1.0\r\nWARC-Type: response\r\nContent-Length: 20\r\n\r\n";
            drop(open(&[head.as_slice(), &bytes].concat(), "a.warc"));
        }
    }
}
