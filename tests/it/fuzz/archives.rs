//! WARC and ARC files, whose reader must go on whatever it meets.

use std::io::{Read, Write};
use std::path::Path;

use flate2::{Compression, write::GzEncoder};
use spoor::archive::check::check;
use spoor::archive::digest::Digests;
use spoor::archive::http::Response;
use spoor::archive::reader::{Item, Reader};

use super::Target;

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
                // Each takes at least a byte of the input.
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
