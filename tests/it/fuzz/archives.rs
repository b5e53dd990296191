//! WARC and ARC files, whose reader must continue after any error; WACZ files and indexes, also on
//! a server, which must cause few requests and little memory.

use std::io::{Cursor, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use flate2::{Compression, write::GzEncoder};
use spoor::address::PageUrl;
use spoor::archive::check::check;
use spoor::archive::digest::Digests;
use spoor::archive::find::{self, Capture, Source, in_wacz};
use spoor::archive::http::Response;
use spoor::archive::lookup::shelf::{Parts, Shelf, beneath};
use spoor::archive::reader::{Item, Reader};
use spoor::archive::select::Selection;

use super::Target;
use spoor::tool_error::ToolError;

const WORDS: &[&str] = &[
    "WARC/1.0\r\n",
    "WARC/1.1\r\n",
    "\r\n\r\n",
    "WARC-Type: response\r\n",
    "Content-Length: ",
    "18446744073709551615",
    "filedesc://a.arc 0.0.0.0 20120214055058 text/plain 20\n",
    "http://a.test/ 1.2.3.4 20120214055058 text/html 9\n",
    "\u{1f}",
    "HTTP/1.1 200 OK\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Content-Encoding: br\r\n",
];

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

fn record(n: usize) -> Vec<u8> {
    let block = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n\
         {:x}\r\n{}\r\n0\r\n\r\n",
        7 * n,
        "<p>text".repeat(n)
    );
    let head = format!(
        "WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.test/{n}\r\n\
         WARC-Block-Digest: sha1:AAAA\r\nContent-Length: {}\r\n\r\n",
        block.len()
    );
    [head, block, "\r\n\r\n".to_owned()].concat().into_bytes()
}

pub(super) fn warc() -> Target {
    let records: Vec<Vec<u8>> = (1..6).map(record).collect();
    let arc = b"filedesc://a.arc 0.0.0.0 20120214055058 text/plain 8\n1 0 One\n\n\
        http://a.test/ 1.2.3.4 20120214055058 text/html 20\nHTTP/1.0 200 OK\r\n\r\na\n";
    let dictionary = [&0x184D_2A5D_u32.to_le_bytes()[..], &[4, 0, 0, 0], b"text"].concat();
    let frames = records.iter().map(|r| zstd::bulk::compress(r, 3).unwrap());
    let seeds = vec![
        records.concat(),
        records.iter().flat_map(|record| gzip(record)).collect(),
        gzip(&records.concat()),
        frames.clone().flatten().collect(),
        std::iter::once(dictionary)
            .chain(frames)
            .flatten()
            .collect(),
        arc.to_vec(),
        gzip(arc),
    ];
    Target {
        name: "warc",
        seeds,
        words: WORDS,
        cases: 1_500,
        run: Box::new(|input| {
            drop(check(input, Path::new("fuzzed.warc"), |_| {}));
            let mut reader = Reader::new(input, Path::new("fuzzed.warc"));
            let mut items = 0;
            while let Some(item) = reader.next_item().unwrap() {
                items += 1;
                // Each item takes at least a byte of the input.
                assert!(items <= 40 * input.len() + 10, "there is no end");
                let Item::Record(mut entry) = item else {
                    continue;
                };
                match items % 4 {
                    0 => drop(Response::read(&mut entry, 10_000)),
                    1 => {
                        let mut digests = Digests::of(&entry.record);
                        let mut piece = [0; 333];
                        while let Ok(1..) = entry.read(&mut piece) {
                            digests.update(&piece);
                        }
                        drop(digests.finish());
                    }
                    2 => drop(entry.finish().unwrap()),
                    _ => {}
                }
            }
        }),
    }
}

/// A server that sends the same bytes for every name.
#[derive(Clone)]
struct Far {
    bytes: Arc<Vec<u8>>,
    base: PageUrl,
    requests: Arc<AtomicUsize>,
}

impl Far {
    fn of(bytes: &[u8]) -> Self {
        Self {
            bytes: Arc::new(bytes.to_vec()),
            base: PageUrl::parse("http://a.test:81/x/all.idx").unwrap(),
            requests: Arc::default(),
        }
    }
}

impl Shelf for Far {
    fn open(&self, name: &str) -> Result<Box<dyn Parts>, ToolError> {
        let url = beneath(&self.base, name)?;
        assert!(url.as_str().starts_with("http://a.test:81/x/"), "{url}");
        let mut path = url.as_str().to_owned();
        for _ in 0..5 {
            let is_up = |part: &str| part.trim() == "..";
            assert!(!path.split(['/', '\\', ';']).any(is_up), "{url}");
            let plain = percent_encoding::percent_decode_str(&path);
            path = plain.decode_utf8_lossy().into_owned();
        }
        Ok(Box::new(self.clone()))
    }

    fn name_of(&self, name: &str) -> String {
        name.to_owned()
    }
}

impl Parts for Far {
    fn name(&self) -> &Path {
        Path::new("far")
    }

    fn length(&mut self) -> Result<u64, ToolError> {
        Ok(self.bytes.len() as u64)
    }

    fn read(&mut self, offset: u64, length: u64) -> Result<Vec<u8>, ToolError> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let place = |n: u64| usize::try_from(n).unwrap().min(self.bytes.len());
        Ok(self.bytes[place(offset)..place(offset.saturating_add(length))].to_vec())
    }

    fn piece(&self) -> u64 {
        64 << 10
    }

    fn is_far(&self) -> bool {
        true
    }
}

/// Reads all captures of a source.
fn look(source: Source) {
    drop(find::each(
        &[source],
        &Selection::default(),
        &mut |capture: Capture| {
            drop(capture.read(|entry| {
                let mut piece = [0; 333];
                while let Ok(1..) = entry.read(&mut piece) {}
                Ok(())
            }));
            Ok(true)
        },
    ));
}

const LINES: &str = "test,a)/1 20260102030405 {\"url\":\"http://a.test/1\",\"length\":\"300\",\
    \"offset\":\"0\",\"filename\":\"a.warc.gz\"}\n";

pub(super) fn wacz() -> Target {
    let packed = gzip(LINES.as_bytes());
    let small = format!(
        "!meta 0 {{\"filename\":\"index.cdx.gz\"}}\ntest,a)/1 20260102030405 \
        {{\"offset\":0,\"length\":{}}}\n",
        packed.len()
    );
    let seed = |method: zip::CompressionMethod, name: &str, index: &[u8]| {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        let options = zip::write::SimpleFileOptions::default().compression_method(method);
        for (name, bytes) in [
            (name, index),
            ("indexes/index.cdx.gz", &packed),
            ("archive/a.warc.gz", &gzip(&record(3))),
        ] {
            zip.start_file(name, options).unwrap();
            zip.write_all(bytes).unwrap();
        }
        zip.finish().unwrap().into_inner()
    };
    let methods = [
        zip::CompressionMethod::Stored,
        zip::CompressionMethod::Deflated,
    ];
    let seeds = methods.into_iter().flat_map(|method| {
        [
            seed(method, "indexes/index.cdxj", LINES.as_bytes()),
            seed(method, "indexes/index.idx", small.as_bytes()),
        ]
    });
    Target {
        name: "wacz",
        seeds: seeds.collect(),
        words: &[
            "PK\u{1}\u{2}",
            "PK\u{3}\u{4}",
            "PK\u{5}\u{6}",
            "PK\u{6}\u{6}",
            "PK\u{6}\u{7}",
            "\u{8}\u{0}",
            "\u{1}\u{0}\u{18}\u{0}",
            "\u{7f}\u{7f}\u{7f}\u{7f}",
            "\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}\u{0}",
            "indexes/index.cdx",
            "archive/",
            "\"offset\":0",
        ],
        cases: 1_500,
        run: Box::new(|input| {
            let far = Far::of(input);
            let source = in_wacz(Arc::new(far.clone()), "a.wacz");
            assert!(far.requests.load(Ordering::Relaxed) <= 4);
            source.into_iter().for_each(look);
        }),
    }
}

pub(super) fn remote() -> Target {
    let seeds = vec![
        LINES.as_bytes().to_vec(),
        gzip(LINES.as_bytes()),
        b"test,a)/1 20260102030405\tcdx-1.gz\t0\t99\t1\n".to_vec(),
        b"!meta 0 {\"filename\":\"a/../b\"}\ntest,a)/1 2026 {\"offset\":0,\"length\":9}\n".to_vec(),
        b"http://b.test/".to_vec(),
    ];
    Target {
        name: "remote",
        seeds,
        words: &[
            "..",
            "/",
            "\\",
            "%2e",
            "%2f",
            "%5c",
            "%25",
            "%",
            ";",
            ":",
            "@",
            "?",
            "#",
            "\t",
            "http:",
            "//b.test",
            "[::1]",
            "\u{ff0e}",
            "\"filename\":\"",
            "\n",
        ],
        cases: 2_000,
        run: Box::new(|input| {
            let far = Far::of(input);
            // The input as a name, and as an index that contains names.
            drop(far.open(&String::from_utf8_lossy(input)));
            for name in ["all.cdxj", "all.idx"] {
                look(Source::Index {
                    shelf: Arc::new(far.clone()),
                    name: name.to_owned(),
                    archives: Arc::new(far.clone()),
                });
            }
        }),
    }
}
