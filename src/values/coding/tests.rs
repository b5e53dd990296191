//! Every coding, in every order and with its bytes split in any way.

use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use proptest::prelude::*;

use super::*;

const TEXT: &[u8] = b"<!DOCTYPE html><title>A page</title><p>With some text in it.</p>";

/// Brotli without compression: stored blocks of at most 64 KiB (RFC 7932 section 9.2).
fn brotli(bytes: &[u8]) -> Vec<u8> {
    let (mut out, mut bits, mut count) = (Vec::new(), 0_u64, 0);
    let mut put = |out: &mut Vec<u8>, value: usize, width: u32, align: bool| {
        bits |= (value as u64) << count;
        count += width;
        while count >= 8 || (align && count > 0) {
            out.push(bits.to_le_bytes()[0]);
            (bits, count) = (bits >> 8, count.saturating_sub(8));
        }
    };
    // A window of 16 bits.
    put(&mut out, 0, 1, false);
    for block in bytes.chunks(1 << 16) {
        // Not the last, four nibbles of length, stored.
        put(&mut out, 0, 1, false);
        put(&mut out, 0, 2, false);
        put(&mut out, block.len() - 1, 16, false);
        put(&mut out, 1, 1, true);
        out.extend_from_slice(block);
    }
    put(&mut out, 3, 2, true);
    out
}

fn packed(bytes: &[u8], coding: &str) -> Vec<u8> {
    let level = Compression::fast();
    let written = match coding {
        "gzip" => {
            let mut to = GzEncoder::new(Vec::new(), level);
            to.write_all(bytes).and_then(|()| to.finish())
        }
        "deflate" => {
            let mut to = ZlibEncoder::new(Vec::new(), level);
            to.write_all(bytes).and_then(|()| to.finish())
        }
        "raw" => {
            let mut to = DeflateEncoder::new(Vec::new(), level);
            to.write_all(bytes).and_then(|()| to.finish())
        }
        "zstd" => zstd::bulk::compress(bytes, 1),
        _ => Ok(brotli(bytes)),
    };
    written.unwrap()
}

/// Decodes pieces of `length` bytes into buffers of `room`.
fn pieces(
    bytes: &[u8],
    codings: &[Coding],
    headers: Headers,
    (length, room): (usize, usize),
) -> Result<Vec<u8>, CodingError> {
    let mut decoder = Decoder::new(codings, headers)?.unwrap();
    let (mut out, mut buffer) = (Vec::new(), vec![0; room]);
    let chunks = bytes.chunks(length).map(|chunk| (chunk, false));
    for (mut chunk, is_last) in chunks.chain([(&[][..], true)]) {
        loop {
            let n = decoder.decode(&mut chunk, &mut buffer, is_last)?;
            out.extend_from_slice(&buffer[..n]);
            if n == 0 {
                break;
            }
        }
        assert!(chunk.is_empty());
    }
    Ok(out)
}

fn live(bytes: &[u8], header: &str) -> Result<Vec<u8>, CodingError> {
    decoded(bytes, &Coding::list([header]), 1_000)
}

#[test]
fn names_of_every_form() {
    use Coding::*;
    let unknown = |name: &str| Unknown(name.to_owned());
    for (lines, expected) in [
        (&["gzip"] as &[&str], vec![Gzip]),
        (&["GZIP"], vec![Gzip]),
        (&["X-GZip"], vec![Gzip]),
        (&[" Br ,, zstd"], vec![Brotli, Zstd]),
        (&["deflate", "gzip,"], vec![Deflate, Gzip]),
        (&["identity, gzip", "identity"], vec![Gzip]),
        (&["\"gzip\"", "'br'"], vec![Gzip, Brotli]),
        (&["gzip;q=1.0, br ; x"], vec![Gzip, Brotli]),
        (&["UTF-8", "none", ""], vec![]),
        (
            &["compress, dcb"],
            vec![unknown("compress"), unknown("dcb")],
        ),
    ] {
        assert_eq!(Coding::list(lines), expected, "{lines:?}");
    }
}

#[test]
fn what_cannot_be_undone_is_an_error_that_names_it() {
    let gzip = packed(TEXT, "gzip");
    for (bytes, header, error) in [
        (
            &gzip[..],
            "compress",
            "its coding compress cannot be undone",
        ),
        (
            &gzip,
            "gzip, aes128gcm",
            "its coding aes128gcm cannot be undone",
        ),
        (&gzip, "br,br,br,br,br", "it has more than 4 codings"),
        (TEXT, "gzip", "it does not begin as gzip does"),
        (TEXT, "br", "it does not begin as br does"),
        (TEXT, "deflate", "it does not begin as deflate does"),
        (TEXT, "zstd", "it does not begin as zstd does"),
        (&gzip, "gzip, gzip", "it does not begin as gzip does"),
        (&gzip[..30], "gzip", "its gzip ends too early"),
        (&packed(TEXT, "br")[..30], "br", "its br ends too early"),
        (
            &packed(TEXT, "zstd")[..30],
            "zstd",
            "its zstd ends too early",
        ),
        (
            &packed(TEXT, "raw")[..30],
            "deflate",
            "its deflate ends too early",
        ),
    ] {
        let found = live(bytes, header).map_err(|error| error.to_string());
        assert_eq!(found, Err(error.to_owned()), "{header}");
    }
    let mut bad = gzip.clone();
    let middle = bad.len() - 12;
    bad[middle] ^= 0xFF;
    assert_eq!(live(&bad, "gzip"), Err(CodingError::Damaged(Coding::Gzip)));
}

#[test]
fn members_follow_each_other_and_a_rest_is_seen() {
    for coding in ["gzip", "zstd"] {
        let twice = [packed(b"one ", coding), packed(b"two", coding)].concat();
        assert_eq!(live(&twice, coding).as_deref(), Ok(&b"one two"[..]));
    }
    let gzip = packed(TEXT, "gzip");
    for (rest, is_seen) in [(&b""[..], false), (b"\0\0", false), (b"x", true)] {
        let bytes = [&gzip, rest].concat();
        let mut decoder = Decoder::new(&[Coding::Gzip], Headers::Live)
            .unwrap()
            .unwrap();
        let mut buffer = [0; 999];
        let mut input = &bytes[..];
        let n = decoder.decode(&mut input, &mut buffer, true).unwrap();
        assert_eq!(&buffer[..n], TEXT);
        assert_eq!(decoder.decode(&mut input, &mut buffer, true), Ok(0));
        assert_eq!(decoder.has_rest(), is_seen, "{rest:?}");
    }
}

#[test]
fn archives_may_have_undone_what_their_headers_name() {
    for header in [
        "gzip", "deflate", "br", "zstd", "identity", "other", "gzip, br",
    ] {
        let codings = Coding::list([header]);
        let Some(decoder) = Decoder::new(&codings, Headers::Stored).unwrap() else {
            continue;
        };
        let mut text = Vec::new();
        Decoded::new(TEXT, decoder).read_to_end(&mut text).unwrap();
        assert_eq!(text, TEXT, "{header}");
    }
    let cut = packed(TEXT, "gzip");
    let decoder = Decoder::new(&[Coding::Gzip], Headers::Stored).unwrap();
    let mut text = Vec::new();
    let mut stream = Decoded::new(&cut[..cut.len() / 2], decoder.unwrap());
    let error = stream.read_to_end(&mut text).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    assert!(TEXT.starts_with(&text));
}

#[test]
fn a_bomb_gives_no_more_than_is_asked_for() {
    let zeros = vec![0; 10 << 20];
    for coding in ["gzip", "deflate", "zstd"] {
        let bomb = packed(&packed(&zeros, coding), coding);
        let header = format!("{coding}, {coding}");
        assert_eq!(live(&bomb, &header).map(|out| out.len()), Ok(1_000));
    }
}

proptest! {
    #![proptest_config(spoor_testing::usual!())]

    #[test]
    fn every_coding_is_undone_however_it_comes(
        text in prop_oneof![
            proptest::collection::vec(any::<u8>(), 1..40_000),
            "[a-z \n]{40,4000}".prop_map(String::into_bytes),
        ],
        names in proptest::collection::vec(
            proptest::sample::select(&["gzip", "deflate", "raw", "br", "zstd"][..]), 1..=MAX_CODINGS),
        length in 1_usize..5_000, room in 1_usize..5_000,
    ) {
        let mut bytes = text.clone();
        for name in &names {
            bytes = packed(&bytes, name);
        }
        let named = names.iter().map(|name| if *name == "raw" { "deflate" } else { name });
        let codings = Coding::list(named);
        for headers in [Headers::Live, Headers::Stored] {
            let out = pieces(&bytes, &codings, headers, (length, room));
            prop_assert_eq!(out.as_deref(), Ok(&text[..]));
        }
    }

    #[test]
    fn no_body_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300), length in 1_usize..99) {
        for name in ["gzip", "deflate", "br", "zstd"] {
            let mut begun = packed(TEXT, name);
            begun.truncate(12);
            begun.extend_from_slice(&bytes);
            for body in [&bytes, &begun] {
                for headers in [Headers::Live, Headers::Stored] {
                    drop(pieces(body, &Coding::list([name]), headers, (length, 64)));
                }
            }
        }
    }
}
