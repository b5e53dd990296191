//! Hostile bodies: their length, their framing, their speed, and their contents when unpacked.

use std::io::{self, Write};
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

use super::{CAP, Case, Expect, Reply, Serve};

/// The pause between two dripped bytes: below `read_timeout`.
const DRIP: Duration = Duration::from_millis(500);

const HTML: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n";

/// 64 MiB of blanks after the beginning of a page, packed by the `brotli` crate at
/// quality 11 with a window of 22 bits.
#[rustfmt::skip]
const BROTLI_BOMB: &[u8] = &[
    0xcb, 0xff, 0xff, 0x3f, 0xf8, 0x25, 0x41, 0x7c, 0xe0, 0x6a, 0x98, 0xcf, 0x0a, 0x01, 0x7f, 0x78,
    0xf3, 0xe9, 0xfd, 0xdf, 0xc1, 0xff, 0xff, 0x3f, 0xf8, 0x25, 0x00, 0xe2, 0xb0, 0x08, 0x40, 0xf7,
    0xfe, 0x8f, 0xff, 0xff, 0x7f, 0xf0, 0x4b, 0x00, 0xc4, 0x61, 0x01, 0x80, 0xee, 0xfd, 0x1f, 0xff,
    0xff, 0xff, 0xe0, 0x97, 0x00, 0x88, 0xc3, 0x02, 0x00, 0xdd, 0xfb, 0x3f, 0xfe, 0xff, 0xff, 0xc1,
    0x2f, 0x01, 0x10, 0x87, 0x05, 0x00, 0xba, 0xf7, 0x7f, 0xfc, 0xff, 0xff, 0x83, 0x5f, 0x02, 0x20,
    0x0e, 0x0b, 0x00, 0x74, 0xef, 0xff, 0xf8, 0xff, 0xff, 0x07, 0xbf, 0x04, 0x40, 0x1c, 0x16, 0x00,
    0xe8, 0xde, 0xff, 0xf1, 0xff, 0xff, 0x0f, 0x7e, 0x09, 0x80, 0x38, 0x2c, 0x00, 0xd0, 0xbd, 0xff,
    0x43, 0x04, 0x00, 0xfc, 0x12, 0x00, 0x31, 0x44, 0x00, 0x80, 0x01, 0x03,
];

fn case(name: &'static str, about: &'static str, serve: Serve, expect: Expect) -> Case {
    let path = match expect.kind {
        "robots" => "/robots.txt",
        "image" => "/a.png",
        _ => "/",
    };
    Case {
        name,
        about,
        path,
        serve,
        expect,
    }
}

/// A head and a body, sent unchanged.
fn raw(headers: &str, body: &[u8]) -> Serve {
    let mut bytes = format!("{HTML}{headers}\r\n").into_bytes();
    bytes.extend(body);
    Serve::bytes(bytes)
}

fn chunked(body: &[u8]) -> Serve {
    raw("Transfer-Encoding: chunked\r\n", body)
}

/// `first`, then `again` for ever with a pause before each.
fn drip(first: &'static str, again: &'static [u8], pause: Duration) -> Serve {
    Serve::raw(move |mut connection| async move {
        connection.send(first.as_bytes()).await?;
        loop {
            tokio::time::sleep(pause).await;
            connection.send(again).await?;
        }
    })
}

/// The same part for ever, many at a time.
fn endless(content_type: &'static str, part: &[u8]) -> Serve {
    let parts = Bytes::from(part.repeat((16 << 10) / part.len()));
    Serve::web(move || Reply::stream(content_type, std::iter::repeat(parts.clone())))
}

/// A body under a content coding.
fn coded(content_type: &'static str, coding: &'static str, body: Vec<u8>) -> Serve {
    let body = Bytes::from(body);
    Serve::web(move || Reply::new(content_type, body.clone()).header("Content-Encoding", coding))
}

/// The beginning of a page and this many MiB of blanks.
fn pack<W: Write>(mut into: W, mib: usize) -> io::Result<W> {
    into.write_all(b"<!DOCTYPE html><p>")?;
    for _ in 0..mib {
        into.write_all(&[b' '; 1 << 20])?;
    }
    Ok(into)
}

// Writing to memory cannot fail.

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.unwrap_or_default()
}

fn gzip_bomb(mib: usize) -> Vec<u8> {
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let packed = pack(encoder, mib).and_then(GzEncoder::finish);
    packed.unwrap_or_default()
}

fn zlib_bomb(mib: usize) -> Vec<u8> {
    let encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    let packed = pack(encoder, mib).and_then(ZlibEncoder::finish);
    packed.unwrap_or_default()
}

/// A Zstandard frame (RFC 8878 section 3.1.1) with this window descriptor and this many blocks of
/// 128 KiB, each a single repeated byte.
fn zstd(window: u8, blocks: usize) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, window];
    for block in 1..=blocks {
        let last = u32::from(block == blocks);
        let head = (128 << 10 << 3) | (1 << 1) | last;
        frame.extend(head.to_le_bytes().iter().take(3));
        frame.push(b' ');
    }
    frame
}

/// The window descriptor of 2 to the power of `bits` bytes.
const fn window(bits: u8) -> u8 {
    (bits - 10) << 3
}

/// The cases of this group.
pub fn cases() -> Vec<Case> {
    let mut cases = slow();
    cases.extend(without_end());
    cases.extend(chunks());
    cases.extend(lengths());
    cases.extend(bombs());
    cases.extend(codings());
    cases.extend(codings_of_robots());
    cases
}

fn slow() -> Vec<Case> {
    let late = || Expect::dropped("page", "timeout").bytes(64);
    let hour = Duration::from_secs(3600);
    vec![
        case(
            "silent",
            "answers nothing",
            drip("", b"", hour),
            late().saying("took too long: no response"),
        ),
        case(
            "silent-head",
            "stops within the head",
            drip("HTTP/1.1 200 OK\r\nContent-", b"", hour),
            late().saying("took too long: no response"),
        ),
        case(
            "silent-body",
            "stops after the head",
            drip(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 9\r\n\r\n",
                b"",
                hour,
            ),
            late().saying("took too long: no more of the body"),
        ),
        case(
            "drip-head",
            "sends a byte of the head every half second",
            drip("HTTP/1.1 200 OK\r\nX: ", b"a", DRIP),
            late().saying("took too long: no response"),
        ),
        case(
            "drip-body",
            "sends a byte of the body every half second",
            drip(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
                b"a",
                DRIP,
            ),
            late().saying("took too long: the response was not complete"),
        ),
        case(
            "drip-large-body",
            "sends 3 MiB of a page at once, and then a byte every half second",
            Serve::raw(|mut connection| async move {
                let head = format!("{HTML}\r\n");
                connection.send(head.as_bytes()).await?;
                connection.send(&[b' '; 3 << 20]).await?;
                loop {
                    tokio::time::sleep(DRIP).await;
                    connection.send(b"a").await?;
                }
            }),
            Expect::dropped("page", "timeout"),
        ),
        case(
            "drip-robots",
            "sends a byte of robots.txt every half second",
            drip(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n",
                b"a",
                DRIP,
            ),
            Expect::retrying("robots", "timeout")
                .bytes(64)
                .saying("took too long"),
        ),
        case(
            "drip-chunk-size",
            "sends a digit of a chunk's size every half second",
            drip(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n",
                b"0",
                DRIP,
            ),
            late().saying("took too long: no more of the body"),
        ),
    ]
}

fn without_end() -> Vec<Case> {
    const LINE: &[u8] = b"<p>There is more to come of this page than anybody has room for.\n";
    vec![
        case(
            "endless-page",
            "sends a page without end",
            endless("text/html", LINE),
            Expect::done("page"),
        ),
        case(
            "endless-raw",
            "sends a page without end, length or chunks",
            Serve::raw(|mut connection| async move {
                connection
                    .send(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
                    .await?;
                let lines = LINE.repeat(256);
                loop {
                    connection.send(&lines).await?;
                }
            }),
            Expect::done("page"),
        ),
        case(
            "endless-image",
            "sends an image without end",
            endless("image/png", b"\x89PNG\r\n\x1a\n"),
            Expect::dropped("image", "too_large"),
        ),
        case(
            "endless-robots",
            "sends a robots.txt without end",
            endless("text/plain", b"User-agent: a\nDisallow: /a\n"),
            Expect::done("robots").bytes(500 << 10),
        ),
    ]
}

fn chunks() -> Vec<Case> {
    let bad = || Expect::dropped("page", "protocol").bytes(64);
    let flood = |line: &str| {
        [
            b"3\r\nabc\r\n0\r\n",
            line.repeat(100_000).as_bytes(),
            b"\r\n",
        ]
        .concat()
    };
    vec![
        case(
            "chunk-bad-size",
            "gives a chunk the size `zoo`",
            chunked(b"zoo\r\nabc\r\n0\r\n\r\n"),
            bad(),
        ),
        case(
            "chunk-negative",
            "gives a chunk a negative size",
            chunked(b"-1\r\nabc\r\n0\r\n\r\n"),
            bad(),
        ),
        case(
            "chunk-overflow",
            "gives a chunk a size beyond 64 bits",
            chunked(b"fffffffffffffffff\r\nabc\r\n0\r\n\r\n"),
            bad().saying("overflow"),
        ),
        case(
            "chunk-huge",
            "promises a chunk of 8 EiB and sends 3 bytes",
            chunked(b"7fffffffffffffff\r\nabc"),
            Expect::dropped("page", "connection").bytes(3),
        ),
        case(
            "chunk-short",
            "sends more than a chunk's size",
            chunked(b"3\r\nabcdef\r\n0\r\n\r\n"),
            bad(),
        ),
        case(
            "chunk-no-end",
            "leaves out the last chunk",
            chunked(b"3\r\nabc\r\n"),
            Expect::dropped("page", "connection").bytes(3),
        ),
        case(
            "chunk-extension",
            "gives a chunk an extension of 1 MB",
            chunked(
                &[
                    b"3;",
                    "a".repeat(1 << 20).as_bytes(),
                    b"\r\nabc\r\n0\r\n\r\n",
                ]
                .concat(),
            ),
            bad().saying("extensions over limit"),
        ),
        case(
            "chunk-trailers",
            "sends 100,000 trailers",
            chunked(&flood("X-Zoo: 1\r\n")),
            bad().saying("trailers"),
        ),
        case(
            "chunk-bytes",
            "sends 100,000 chunks of a byte",
            chunked(&[&b"1\r\na\r\n".repeat(100_000)[..], b"0\r\n\r\n"].concat()),
            Expect::done("page").bytes(100_000),
        ),
        case(
            "chunk-unknown-coding",
            "names a transfer coding that is not chunked",
            raw("Transfer-Encoding: zoo\r\n", b"<p>abc"),
            bad().saying("zoo cannot be undone"),
        ),
    ]
}

fn lengths() -> Vec<Case> {
    let bad = || Expect::dropped("page", "protocol").bytes(0);
    let of = |length: &str| raw(&format!("Content-Length: {length}\r\n"), b"<p>abc");
    vec![
        case(
            "length-longer",
            "promises 1,000 bytes and sends 6",
            of("1000"),
            Expect::dropped("page", "connection").bytes(6),
        ),
        case(
            "length-shorter",
            "promises 3 bytes and sends 6",
            of("3"),
            Expect::done("page").bytes(3),
        ),
        case(
            "length-negative",
            "promises -1 bytes",
            of("-1"),
            bad().saying("content-length"),
        ),
        case(
            "length-overflow",
            "promises more bytes than 64 bits count",
            of("99999999999999999999"),
            bad(),
        ),
        case(
            "length-differing",
            "promises 3 bytes and 6",
            of("3\r\nContent-Length: 6"),
            bad().saying("content-length"),
        ),
        case(
            "length-huge",
            "promises 16 EiB and sends 6 bytes",
            of("18446744073709551613"),
            Expect::dropped("page", "connection").bytes(6),
        ),
        case(
            "length-huge-image",
            "promises an image of 1 TB",
            Serve::bytes(
                "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 1000000000000\r\n\r\n",
            ),
            Expect::dropped("image", "too_large").bytes(0),
        ),
        case(
            "length-and-chunks",
            "names a length and chunks, as request smuggling does",
            raw(
                "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
                b"6\r\n<p>abc\r\n0\r\n\r\nHTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n",
            ),
            Expect::done("page").bytes(6),
        ),
    ]
}

fn bombs() -> Vec<Case> {
    let capped = || Expect::done("page").bytes(CAP);
    let html = "text/html";
    vec![
        case(
            "bomb-gzip",
            "unpacks 64 MiB (gzip)",
            coded(html, "gzip", gzip_bomb(64)),
            capped(),
        ),
        case(
            "bomb-deflate",
            "unpacks 64 MiB (deflate)",
            coded(html, "deflate", zlib_bomb(64)),
            capped(),
        ),
        case(
            "bomb-brotli",
            "unpacks 64 MiB of 124 bytes (br)",
            coded(html, "br", BROTLI_BOMB.to_vec()),
            capped(),
        ),
        case(
            "bomb-zstd",
            "unpacks 1 GiB of 32 KiB (zstd)",
            coded(html, "zstd", zstd(window(20), 8192)),
            capped(),
        ),
        case(
            "bomb-zstd-window",
            "asks for a window of 128 MiB to unpack a page (zstd)",
            coded(html, "zstd", zstd(window(27), 8192)),
            Expect::dropped("page", "protocol").bytes(0),
        ),
        case(
            "bomb-zstd-window-max",
            "asks for a window of 2 TiB to unpack a page (zstd)",
            coded(html, "zstd", zstd(window(41), 1)),
            Expect::dropped("page", "protocol").bytes(0),
        ),
        case(
            "bomb-image",
            "unpacks an image of 64 MiB (gzip)",
            coded("image/png", "gzip", gzip_bomb(64)),
            Expect::dropped("image", "too_large"),
        ),
        case(
            "bomb-robots",
            "unpacks a robots.txt of 64 MiB (gzip)",
            coded("text/plain", "gzip", gzip_bomb(64)),
            Expect::done("robots").bytes(500 << 10),
        ),
        case(
            "bomb-nested",
            "packs a bomb three times (gzip, gzip, gzip)",
            coded(html, "gzip, gzip, gzip", gzip(&gzip(&gzip_bomb(64)))),
            capped(),
        ),
        case(
            "bomb-members",
            "sends empty members for ever (gzip)",
            unpacking_to_nothing(&[], &gzip(b"")),
            Expect::dropped("page", "timeout").bytes(0),
        ),
        case(
            "bomb-nothing",
            "sends empty blocks for ever (gzip), which unpack to nothing",
            unpacking_to_nothing(
                &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255],
                &[0, 0, 0, 255, 255],
            ),
            Expect::dropped("page", "timeout").bytes(0),
        ),
    ]
}

/// A gzip stream with this beginning and this part repeated for ever.
fn unpacking_to_nothing(first: &[u8], again: &[u8]) -> Serve {
    let head = format!("{HTML}Content-Encoding: gzip\r\n\r\n");
    let first = Bytes::from([head.as_bytes(), first].concat());
    let again = Bytes::from(again.repeat(100));
    Serve::raw(move |mut connection| {
        let (first, again) = (first.clone(), again.clone());
        async move {
            connection.send(&first).await?;
            loop {
                connection.send(&again).await?;
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    })
}

fn codings() -> Vec<Case> {
    let bad = || Expect::dropped("page", "protocol").bytes(64);
    let html = "text/html";
    let page = b"<!DOCTYPE html><p>An animal of the zoo.".to_vec();
    let whole = gzip(&page);
    let half = whole.iter().copied().take(whole.len() / 2).collect();
    let trailed = [whole.clone(), b"garbage".to_vec()].concat();
    vec![
        case(
            "coding-lie",
            "says gzip and sends none",
            coded(html, "gzip", page.clone()),
            bad().saying("could not be decoded"),
        ),
        case(
            "coding-lie-br",
            "says br and sends none",
            coded(html, "br", page.clone()),
            bad().saying("could not be decoded"),
        ),
        case(
            "coding-lie-zstd",
            "says zstd and sends none",
            coded(html, "zstd", page.clone()),
            bad().saying("could not be decoded"),
        ),
        case(
            "coding-truncated",
            "ends within the packed body",
            coded(html, "gzip", half),
            bad().saying("could not be decoded"),
        ),
        case(
            "coding-trailed",
            "has garbage after the packed body",
            coded(html, "gzip", trailed),
            Expect::done("page").bytes(64),
        ),
        case(
            "coding-unknown",
            "names a content coding that nobody knows",
            coded(html, "zoo", page),
            bad().saying("zoo cannot be undone"),
        ),
        case(
            "coding-empty",
            "says gzip and sends nothing",
            coded(html, "gzip", Vec::new()),
            Expect::done("page").bytes(0),
        ),
    ]
}

/// Rules that forbid everything, in readable and unreadable forms.
fn codings_of_robots() -> Vec<Case> {
    let bad = || Expect::retrying("robots", "protocol").bytes(64);
    let good = || Expect::done("robots").bytes(64);
    let rules = b"User-agent: *\nDisallow: /\n".to_vec();
    let (whole, plain) = (gzip(&rules), "text/plain");
    let twice = [gzip(b"User-agent: *\n"), gzip(b"Disallow: /\n")].concat();
    let trailed = [&whole[..], b"Allow: /\n"].concat();
    let part = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-12/26\r\nContent-Length: 13\r\n\r\nUser-agent: *";
    vec![
        case(
            "robots-coding-case",
            "says x-GZIP of its robots.txt, and identity before it",
            coded(plain, "identity, x-GZIP", whole.clone()),
            good(),
        ),
        case(
            "robots-members",
            "packs its robots.txt in two members",
            coded(plain, "gzip", twice),
            good(),
        ),
        case(
            "robots-coding-lost",
            "packs its robots.txt and does not say so",
            Serve::web(move || Reply::new("application/gzip", whole.clone())),
            good(),
        ),
        case(
            "robots-coding-unknown",
            "names a coding of its robots.txt that nobody knows",
            coded(plain, "zoo", rules.clone()),
            bad().saying("zoo cannot be undone"),
        ),
        case(
            "robots-coding-lie",
            "says br of its robots.txt and sends none",
            coded(plain, "br", rules),
            bad().saying("does not begin as br"),
        ),
        case(
            "robots-trailed",
            "has other rules after its packed robots.txt",
            coded(plain, "gzip", trailed),
            bad().saying("do not belong to it"),
        ),
        case(
            "robots-part",
            "sends a part of its robots.txt unasked",
            Serve::bytes(part),
            bad().saying("206"),
        ),
    ]
}
