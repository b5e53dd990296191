//! Image files that are decompression bombs, contain lies, end too early, or are also something
//! else.

use std::io::{Read, Write};

use flate2::{Compression, Crc, write::DeflateEncoder};

use super::{Case, Expect, Parts, chain, many, repeat, whole};
use crate::picture;

/// An SVG with everything that SVG can do.
pub(super) const SVG: &str = "<?xml version=\"1.0\"?>\n<!DOCTYPE svg [\n\
    <!ENTITY file SYSTEM \"file:///etc/passwd\"><!ENTITY net SYSTEM \"http://127.0.0.1/\">\n\
    <!ENTITY a \"lol\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;\"><!ENTITY c \"&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;\">\n\
    <!ENTITY d \"&c;&c;&c;&c;&c;&c;&c;&c;&c;&c;\"><!ENTITY e \"&d;&d;&d;&d;&d;&d;&d;&d;&d;&d;\">]>\n\
    <svg xmlns=\"http://www.w3.org/2000/svg\" width=\"200\" height=\"200\" onload=\"alert(1)\">\n\
    <script>alert(2)</script><text>&file;&net;&e;&e;&e;&e;</text><image href=\"http://127.0.0.1/x.png\"/></svg>";

/// The cases of this group.
pub(super) fn cases() -> Vec<Case> {
    let of = |rows: &[ImageRow], expect: Expect| -> Vec<Case> {
        let image = |(name, about, path, content_type, body): ImageRow| {
            super::case(name, about, path, content_type, body, expect.clone())
        };
        rows.iter().copied().map(image).collect()
    };
    [
        of(HUGE, Expect::dropped("image", "image_size")),
        of(KEPT, Expect::done("image")),
        of(
            CUT,
            Expect::dropped("image", "bad_image").saying("truncated"),
        ),
        of(BROKEN, Expect::dropped("image", "bad_image")),
        of(SVGS, Expect::dropped("image", "bad_image").saying("SVG")),
        of(TOO_LARGE, Expect::dropped("image", "too_large")),
    ]
    .concat()
}

/// Name, description, path, `Content-Type`, and body.
type ImageRow = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    fn() -> Parts,
);

#[rustfmt::skip]
const HUGE: &[ImageRow] = &[
    ("png-60000", "a PNG header of 60,000 x 60,000", "/a.png", "image/png", || whole(png(60_000, 60_000, &[], 10))),
    ("jpeg-60000", "a JPEG header of 60,000 x 60,000", "/a.jpg", "image/jpeg", || {
        whole(patched(&drawn("jpg"), &[0xff, 0xc0], 5, &[0xea, 0x60, 0xea, 0x60]))
    }),
    ("gif-60000", "a GIF header of 60,000 x 60,000", "/a.gif", "image/gif", || {
        whole(patched(&drawn("gif"), b"GIF8", 6, &[0x60, 0xea, 0x60, 0xea]))
    }),
    ("bmp-60000", "a BMP header of 60,000 x 60,000", "/a.bmp", "image/bmp", || {
        whole(patched(&drawn("bmp"), b"BM", 18, &[0x60, 0xea, 0, 0, 0x60, 0xea, 0, 0]))
    }),
    ("tiff-60000", "a TIFF header of 60,000 x 60,000", "/a.tif", "image/tiff", || whole(tiff(60_000, 0))),
    ("webp-60000", "a WebP canvas of 60,000 x 60,000", "/a.webp", "image/webp", || whole(webp(60_000))),
    ("ico-60000", "an icon with a PNG of 60,000 x 60,000", "/a.ico", "image/x-icon", || whole(icon(1, &png(60_000, 60_000, &[], 10)))),
];

#[rustfmt::skip]
const KEPT: &[ImageRow] = &[
    ("png-14000", "a PNG that unfolds to 588 MB", "/a.png", "image/png", || whole(png(14_000, 14_000, &[], 1_000))),
    ("png-5000", "a PNG that unfolds to 75 MB", "/a.png", "image/png", || whole(png(5_000, 5_000, &[], 5_000 * (5_000 * 3 + 1)))),
    ("webp-16000", "a WebP canvas of 16,000 x 16,000", "/a.webp", "image/webp", || whole(webp(16_000))),
    ("gif-frames", "a GIF of 150,000 frames", "/a.gif", "image/gif", || gif_frames(150_000)),
    ("apng-lie", "a PNG that says it has four billion frames", "/a.png", "image/png", || {
        whole(png(200, 200, &chunk(b"acTL", &[0xff; 8]), 200 * 601))
    }),
    ("png-text-bomb", "a PNG with a compressed text of 100 MB", "/a.png", "image/png", || {
        let text = [b"bomb\0\0", &packed(100_000_000)[..]].concat();
        whole(png(200, 200, &chunk(b"zTXt", &text), 200 * 601))
    }),
    ("png-profile-bomb", "a PNG with a colour profile of 100 MB", "/a.png", "image/png", || {
        let profile = [b"bomb\0\0", &packed(100_000_000)[..]].concat();
        whole(png(200, 200, &chunk(b"iCCP", &profile), 200 * 601))
    }),
    ("jpeg-tables", "a JPEG with 65,536 Huffman tables", "/a.jpg", "image/jpeg", || {
        let jpeg = drawn("jpg");
        let table = [&[0xff, 0xc4, 0, 19, 0][..], &[0; 16]].concat();
        chain([whole(jpeg[..2].to_vec()), many(65_536, move |_| table.clone()), whole(jpeg[2..].to_vec())])
    }),
    ("jpeg-restarts", "a JPEG that says it restarts with every block, and does not", "/a.jpg", "image/jpeg", || {
        let jpeg = drawn("jpg");
        whole([&jpeg[..2], &[0xff, 0xdd, 0, 4, 0, 1], &jpeg[2..]].concat())
    }),
    ("gif-script", "a GIF that is a script", "/a.gif", "text/javascript", || {
        let gif = drawn("gif");
        let comment = b"\x21\xfe\x10*/=1;alert(1)//x\0";
        whole([&gif[..gif.len() - 1], comment, b";"].concat())
    }),
    ("png-zip", "a PNG with an archive behind it", "/a.png", "image/png", || {
        whole([&drawn("png")[..], b"PK\x03\x04../../evil.sh", &[0; 64]].concat())
    }),
    ("jpeg-html", "a JPEG with a page in a comment", "/a.html", "text/html", || {
        let jpeg = drawn("jpg");
        let page = b"<html><script>alert(1)</script></html>";
        let comment = [&[0xff, 0xfe, 0, 2 + page.len() as u8][..], page].concat();
        whole([&jpeg[..2], &comment, &jpeg[2..]].concat())
    }),
    ("png-html-name", "a PNG that is called a page", "/a.html", "text/html", || whole(drawn("png"))),
];

#[rustfmt::skip]
const CUT: &[ImageRow] = &[
    ("cut-jpeg", "half a JPEG", "/a.jpg", "image/jpeg", || whole(half("jpg"))),
    ("cut-png", "half a PNG", "/a.png", "image/png", || whole(half("png"))),
    ("cut-gif", "half a GIF", "/a.gif", "image/gif", || whole(half("gif"))),
    ("cut-webp", "half a WebP", "/a.webp", "image/webp", || whole(half("webp"))),
    ("cut-bmp", "half a BMP", "/a.bmp", "image/bmp", || whole(half("bmp"))),
];

#[rustfmt::skip]
const BROKEN: &[ImageRow] = &[
    ("cut-tiff", "a TIFF without its pixels", "/a.tif", "image/tiff", || {
        let tiff = tiff(120, 0);
        whole(tiff[..tiff.len() - 5_000].to_vec())
    }),
    ("tiff-loop", "a TIFF whose directories lead to each other", "/a.tif", "image/tiff", || whole(tiff(120, 8))),
    ("pdf-jpeg", "a PDF with a JPEG in it", "/a.jpg", "image/jpeg", || whole([b"%PDF-1.7\n", &drawn("jpg")[..]].concat())),
    ("html-image", "a page that is sent as an image", "/a.png", "image/png", || whole("<html><script>alert(1)</script>")),
    ("zeros-image", "4 MB of zeros that are sent as an image", "/a.png", "image/png", || repeat("\0\0\0\0\0\0\0\0", 500_000)),
    ("png-chunks", "a PNG of 300,000 empty chunks and no pixels", "/a.png", "image/png", || {
        let empty = chunk(b"teXt", &[]);
        let head = png(200, 200, &[], 0);
        chain([whole(head[..33].to_vec()), many(300_000, move |_| empty.clone()), whole(chunk(b"IEND", &[]))])
    }),
    ("png-length", "a PNG chunk of 2 GB that is not there", "/a.png", "image/png", || {
        whole([&png(200, 200, &[], 0)[..33], &[0x7f, 0xff, 0xff, 0xff], b"IDATx"].concat())
    }),
    ("ico-entries", "an icon of 65,535 entries, none of them there", "/a.ico", "image/x-icon", || whole(icon(u16::MAX, b"no picture"))),
];

#[rustfmt::skip]
const SVGS: &[ImageRow] = &[
    ("svg-image", "an SVG with a script, entities of files and of hosts, and a billion laughs", "/drawing", "image/svg+xml", || whole(SVG)),
    ("svg-as-png", "the same, called a PNG", "/a.png", "image/png", || whole(SVG)),
];

#[rustfmt::skip]
const TOO_LARGE: &[ImageRow] = &[
    ("gif-million", "a GIF of a million frames", "/a.gif", "image/gif", || gif_frames(1_000_000)),
    ("endless-png", "a PNG of 1 GB", "/a.png", "image/png", || {
        let head = png(200, 200, &[], 0);
        chain([whole(head[..33].to_vec()), repeat("\0\0\0\0teXt\0\0\0\0", 90_000_000)])
    }),
];

/// A drawn picture of 160 x 120.
fn drawn(extension: &str) -> Vec<u8> {
    let drawn = picture::draw(&format!("http://zoo.test/x.{extension}"), 160, 120);
    drawn.map(|drawn| drawn.bytes).unwrap_or_default()
}

fn half(extension: &str) -> Vec<u8> {
    let mut bytes = drawn(extension);
    bytes.truncate(bytes.len() / 2);
    bytes
}

/// The file with these bytes this far after the first occurrence of a mark.
fn patched(file: &[u8], mark: &[u8], behind: usize, bytes: &[u8]) -> Vec<u8> {
    let mut file = file.to_vec();
    let at = file.windows(mark.len()).position(|w| w == mark);
    let place = at.and_then(|at| file.get_mut(at + behind..at + behind + bytes.len()));
    if let Some(place) = place {
        place.copy_from_slice(bytes);
    }
    file
}

/// Packed zeros (RFC 1950). A megabyte of them is packed once and repeated, so that a bomb costs
/// the server nothing.
fn packed(zeros: u64) -> Vec<u8> {
    const BLOCK: u64 = 1 << 20;
    let blocks = usize::try_from(zeros / BLOCK).unwrap_or(0);
    let sum = u32::try_from(zeros % 65_521).unwrap_or(0) << 16 | 1;
    [
        &b"\x78\x01"[..],
        &flushed(BLOCK).repeat(blocks),
        &flushed(zeros % BLOCK),
        // An empty block, the last one.
        &[1, 0, 0, 0xff, 0xff],
        &sum.to_be_bytes(),
    ]
    .concat()
}

/// Packed zeros (RFC 1951) up to a byte boundary.
fn flushed(zeros: u64) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    let mut all = std::io::repeat(0).take(zeros);
    // Writing to memory cannot fail.
    let written = std::io::copy(&mut all, &mut encoder).and_then(|_| encoder.flush());
    debug_assert!(written.is_ok());
    encoder.get_ref().clone()
}

/// A chunk of a PNG.
fn chunk(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let mut crc = Crc::new();
    crc.update(kind);
    crc.update(data);
    [
        &length.to_be_bytes()[..],
        kind,
        data,
        &crc.sum().to_be_bytes(),
    ]
    .concat()
}

/// A PNG of black RGB pixels, preceded by other chunks, with only this many bytes of pixels.
fn png(width: u32, height: u32, chunks: &[u8], pixels: u64) -> Vec<u8> {
    let header = [
        &width.to_be_bytes()[..],
        &height.to_be_bytes(),
        &[8, 2, 0, 0, 0],
    ]
    .concat();
    [
        &b"\x89PNG\r\n\x1a\n"[..],
        &chunk(b"IHDR", &header),
        chunks,
        &chunk(b"IDAT", &packed(pixels)),
        &chunk(b"IEND", &[]),
    ]
    .concat()
}

/// A TIFF of grey pixels whose first directory leads to the byte `next`; at 8 is that directory
/// again. There are always 120 x 120 pixels, regardless of the stated width.
fn tiff(width: u32, next: u32) -> Vec<u8> {
    let entries: [[u32; 3]; 8] = [
        [256, 4, width],
        [257, 4, width],
        [258, 3, 8],
        [259, 3, 1],
        [262, 3, 1],
        [273, 4, 200],
        [278, 4, width],
        [279, 4, 120 * 120],
    ];
    let mut out = b"II\x2a\0\x08\0\0\0\x08\0".to_vec();
    for [tag, kind, value] in entries {
        let tag_and_kind = tag | kind << 16;
        for number in [tag_and_kind, 1, value] {
            out.extend_from_slice(&number.to_le_bytes());
        }
    }
    out.extend_from_slice(&next.to_le_bytes());
    out.resize(200, 0);
    out.resize(200 + 120 * 120, 0x55);
    out
}

/// A WebP with a canvas of this size around a small animated picture.
fn webp(side: u32) -> Vec<u8> {
    let riff = |kind: &[u8; 4], data: &[u8]| {
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let mut chunk = [kind, &length.to_le_bytes()[..], data].concat();
        chunk.resize(chunk.len() + data.len() % 2, 0);
        chunk
    };
    let three = |number: u32| number.to_le_bytes().into_iter().take(3);
    let canvas: Vec<u8> = three(side - 1).chain(three(side - 1)).collect();
    let small: Vec<u8> = three(159).chain(three(119)).collect();
    let still = drawn("webp");
    let picture = still.get(12..).unwrap_or_default();
    // A separate file has its canvas before the picture.
    let bitstream = picture.windows(4).position(|w| w == b"VP8L").unwrap_or(0);
    let frame = [&[0; 6], &small[..], &[100, 0, 0, 0], &picture[bitstream..]].concat();
    let body = [
        &b"WEBP"[..],
        &riff(b"VP8X", &[&[2, 0, 0, 0], &canvas[..]].concat()),
        &riff(b"ANIM", &[0; 6]),
        &riff(b"ANMF", &frame),
    ]
    .concat();
    riff(b"RIFF", &body)
}

/// An icon with one picture for this many entries.
fn icon(entries: u16, picture: &[u8]) -> Vec<u8> {
    let length = u32::try_from(picture.len()).unwrap_or(u32::MAX);
    let at = 6 + 16 * u32::from(entries);
    let entry = [
        &[0, 0, 0, 0, 1, 0, 32, 0][..],
        &length.to_le_bytes(),
        &at.to_le_bytes(),
    ]
    .concat();
    let head = [&[0, 0, 1, 0][..], &entries.to_le_bytes()].concat();
    [&head[..], &entry.repeat(entries.into()), picture].concat()
}

/// A GIF of 160 x 120 with this many frames of one pixel after the first.
fn gif_frames(frames: u64) -> Parts {
    let mut still = drawn("gif");
    // The trailer comes last.
    still.pop();
    let frame = b"\x2c\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0";
    chain([whole(still), many(frames, move |_| frame), whole(";")])
}
