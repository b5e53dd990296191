//! The body of a stored response without its transfer and content codings (RFC 9112 section
//! 7.1, RFC 9110 section 8.4.1).
//!
//! Archives are inexact about codings: some writers decode a body and keep the header that
//! names its coding. So a coding counts only if the body looks as if it had it.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::bufread::{DeflateDecoder, GzDecoder, ZlibDecoder};

use super::gap::Damaged;

/// The longest line before a chunk.
const MAX_LINE: u64 = 4 << 10;
/// Bytes by which a coding is recognised.
const BEGIN: usize = 32;
/// The first bytes of a member of gzip.
const GZIP: [u8; 2] = [0x1F, 0x8B];
/// The most codings of one body.
const MAX_CODINGS: usize = 4;

/// A body, or its beginning.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Body {
    pub(super) bytes: Vec<u8>,
    /// There were more bytes than asked for.
    pub(super) truncated: bool,
    /// The stored form ends before its coding does.
    pub(super) cut: bool,
}

/// Why a body cannot be decoded.
#[derive(Debug)]
pub(super) enum BodyError {
    /// The block cannot be read.
    Block(io::Error),
    /// The body is not what its headers say.
    Coding(io::Error),
}

/// Reads a body of at most `cap` bytes. `chunked`: the transfer coding; `codings`: the
/// content codings in the order in which they were applied.
pub(super) fn read(
    block: &mut dyn BufRead,
    chunked: bool,
    codings: &[String],
    cap: usize,
) -> Result<Body, BodyError> {
    let decoded = decode(block, chunked, codings, cap);
    decoded.map_err(|error| {
        let inner = error.get_ref();
        let is_damage = inner.is_some_and(|inner| inner.is::<Damaged>());
        // Decoders report what they find with these; all others come from the stream.
        let is_coding = matches!(
            error.kind(),
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::Other
        );
        if is_coding && !is_damage {
            BodyError::Coding(error)
        } else {
            BodyError::Block(error)
        }
    })
}

fn decode(
    block: &mut dyn BufRead,
    chunked: bool,
    codings: &[String],
    cap: usize,
) -> io::Result<Body> {
    let mut stream: Box<dyn BufRead + '_> = Box::new(block);
    if chunked {
        stream = unchunked(stream)?;
    }
    for coding in codings.iter().rev().take(MAX_CODINGS) {
        stream = uncoded(stream, coding)?;
    }
    let mut body = Body::default();
    let limit = u64::try_from(cap).unwrap_or(u64::MAX).saturating_add(1);
    if let Err(error) = stream.by_ref().take(limit).read_to_end(&mut body.bytes) {
        let is_damage = error.get_ref().is_some_and(|inner| inner.is::<Damaged>());
        if error.kind() != io::ErrorKind::UnexpectedEof || is_damage {
            return Err(error);
        }
        body.cut = true;
    }
    body.truncated = body.bytes.len() > cap;
    body.bytes.truncate(cap);
    Ok(body)
}

/// The first bytes of a stream, and the stream with them.
fn begin<'s>(mut stream: Box<dyn BufRead + 's>) -> io::Result<(Vec<u8>, Box<dyn BufRead + 's>)> {
    let mut begin = Vec::new();
    stream.by_ref().take(BEGIN as u64).read_to_end(&mut begin)?;
    Ok((begin.clone(), Box::new(Cursor::new(begin).chain(stream))))
}

/// Whether these are the first bytes of a text, which no compression begins with.
fn is_text(begin: &[u8]) -> bool {
    let is_printable = |byte: &u8| byte.is_ascii_graphic() || b" \t\r\n".contains(byte);
    begin.len() >= BEGIN / 2 && begin.iter().all(is_printable)
}

/// The stream without a content coding, if it has it.
fn uncoded<'s>(stream: Box<dyn BufRead + 's>, coding: &str) -> io::Result<Box<dyn BufRead + 's>> {
    let (begin, stream) = begin(stream)?;
    let coding = coding.to_ascii_lowercase();
    let plain: Box<dyn Read + 's> = match coding.as_str() {
        "gzip" | "x-gzip" if begin.starts_with(&GZIP) => {
            Box::new(Members(Some(GzDecoder::new(stream))))
        }
        "deflate" if is_zlib(&begin) => Box::new(ZlibDecoder::new(stream)),
        // Some servers leave the wrapping out (RFC 9110 section 8.4.1.2, note).
        "deflate" if !is_text(&begin) && !begin.is_empty() => Box::new(DeflateDecoder::new(stream)),
        "br" if !is_text(&begin) && !begin.is_empty() => {
            Box::new(brotli_decompressor::Decompressor::new(stream, 16 << 10))
        }
        "zstd" if begin.starts_with(&super::zstd::MAGIC) => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(stream)?;
            // As much as the client accepts: 128 MiB.
            decoder.window_log_max(27)?;
            Box::new(decoder)
        }
        _ => return Ok(stream),
    };
    Ok(Box::new(BufReader::new(plain)))
}

/// Members of gzip, one after the other. What follows them and is none is left out, as
/// `gzip` itself does.
struct Members<R>(Option<GzDecoder<R>>);

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.0 {
            let read = member.read(to)?;
            if read > 0 || to.is_empty() {
                return Ok(read);
            }
            let mut rest = self.0.take().map(GzDecoder::into_inner);
            let begin = rest.as_mut().map(BufRead::fill_buf).transpose()?;
            if begin.is_some_and(|begin| begin.starts_with(&GZIP)) {
                self.0 = rest.map(GzDecoder::new);
            }
        }
        Ok(0)
    }
}

/// Whether a body begins as its coding does, as far as that can be told.
pub(super) fn begins_as(body: &[u8], coding: &str) -> bool {
    match coding {
        _ if body.is_empty() => true,
        "gzip" | "x-gzip" => body.starts_with(&GZIP),
        "zstd" => body.starts_with(&super::zstd::MAGIC),
        "br" | "deflate" => !is_text(body.get(..BEGIN).unwrap_or(body)),
        _ => true,
    }
}

/// Whether these bytes begin as RFC 1950 section 2.2 says.
fn is_zlib(begin: &[u8]) -> bool {
    match begin {
        [a, b, ..] => a & 0xF == 8 && u16::from_be_bytes([*a, *b]) % 31 == 0,
        _ => false,
    }
}

/// The stream joined from its chunks, or as it is if it has none.
fn unchunked<'s>(stream: Box<dyn BufRead + 's>) -> io::Result<Box<dyn BufRead + 's>> {
    let (begin, stream) = begin(stream)?;
    let is_chunked = match httparse::parse_chunk_size(&begin) {
        Ok(httparse::Status::Complete(_)) => true,
        // An extension may be longer than what was looked at.
        Ok(httparse::Status::Partial) => begin.contains(&b';'),
        Err(_) => false,
    };
    if !is_chunked {
        return Ok(stream);
    }
    Ok(Box::new(BufReader::new(Chunks {
        stream,
        left: Some(0),
        is_first: true,
    })))
}

struct Chunks<'s> {
    stream: Box<dyn BufRead + 's>,
    /// What is left of the chunk; `None` behind the last one.
    left: Option<u64>,
    is_first: bool,
}

impl Chunks<'_> {
    /// Reads the line before a chunk.
    fn next_chunk(&mut self) -> io::Result<()> {
        if !self.is_first {
            // Each chunk ends with a line end of its own.
            let mut end = Vec::new();
            self.line(&mut end)?;
            if !end.trim_ascii().is_empty() {
                return Err(wrong("a chunk is longer than it says"));
            }
        }
        self.is_first = false;
        let mut line = Vec::new();
        self.line(&mut line)?;
        if !line.ends_with(b"\r\n") {
            line.truncate(line.len().saturating_sub(1));
            line.extend_from_slice(b"\r\n");
        }
        match httparse::parse_chunk_size(&line) {
            Ok(httparse::Status::Complete((_, 0))) => self.left = None,
            Ok(httparse::Status::Complete((_, length))) => self.left = Some(length),
            _ => return Err(wrong("a chunk has no length")),
        }
        Ok(())
    }

    fn line(&mut self, line: &mut Vec<u8>) -> io::Result<()> {
        self.stream
            .by_ref()
            .take(MAX_LINE)
            .read_until(b'\n', line)?;
        if line.ends_with(b"\n") {
            Ok(())
        } else if line.len() as u64 == MAX_LINE {
            Err(wrong("a chunk has no length"))
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }
}

fn wrong(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl Read for Chunks<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.left == Some(0) {
            self.next_chunk()?;
        }
        let Some(left) = &mut self.left else {
            return Ok(0);
        };
        let n = self.stream.by_ref().take(*left).read(buffer)?;
        if n == 0 && !buffer.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        *left -= n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    const TEXT: &[u8] = b"<!DOCTYPE html><title>A page</title><p>With some text in it.</p>";

    fn body(stored: &[u8], chunked: bool, codings: &[&str], cap: usize) -> Result<Body, String> {
        let codings: Vec<String> = codings.iter().map(|c| (*c).to_owned()).collect();
        let read = read(&mut &*stored, chunked, &codings, cap);
        read.map_err(|error| format!("{error:?}"))
    }

    fn packed(coding: &str) -> Vec<u8> {
        let level = Compression::default();
        match coding {
            "gzip" => {
                let mut to = GzEncoder::new(Vec::new(), level);
                to.write_all(TEXT).unwrap();
                to.finish().unwrap()
            }
            "deflate" => {
                let mut to = ZlibEncoder::new(Vec::new(), level);
                to.write_all(TEXT).unwrap();
                to.finish().unwrap()
            }
            "raw" => {
                let mut to = DeflateEncoder::new(Vec::new(), level);
                to.write_all(TEXT).unwrap();
                to.finish().unwrap()
            }
            "zstd" => zstd::bulk::compress(TEXT, 3).unwrap(),
            // Stored in one block without compression: RFC 7932 section 9.2.
            _ => {
                let length = u32::try_from(TEXT.len()).unwrap() - 1;
                // Window, not the last, four nibbles: all zero. Length, and the mark of no
                // compression.
                let bits = (length << 4) | (1 << 20);
                let mut out = bits.to_le_bytes()[..3].to_vec();
                out.extend_from_slice(TEXT);
                out.push(3);
                out
            }
        }
    }

    fn chunked(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for chunk in bytes.chunks(20) {
            out.extend_from_slice(format!("{:x};a=b\r\n", chunk.len()).as_bytes());
            out.extend_from_slice(chunk);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"0\r\nTrailer: x\r\n\r\n");
        out
    }

    #[test]
    fn every_coding_is_undone() {
        for coding in ["gzip", "deflate", "raw", "zstd", "br"] {
            let named = if coding == "raw" { "deflate" } else { coding };
            let stored = packed(coding);
            let whole = Body {
                bytes: TEXT.to_vec(),
                ..Body::default()
            };
            assert_eq!(
                body(&stored, false, &[named], 999).as_ref(),
                Ok(&whole),
                "{coding}"
            );
            assert_eq!(
                body(&chunked(&stored), true, &[named], 999),
                Ok(whole),
                "{coding}"
            );
            let part = body(&stored, false, &[named], 10).unwrap();
            assert_eq!((part.bytes.as_slice(), part.truncated), (&TEXT[..10], true));
        }
        let twice = {
            let mut to = GzEncoder::new(Vec::new(), Compression::fast());
            to.write_all(&packed("deflate")).unwrap();
            to.finish().unwrap()
        };
        assert_eq!(
            body(&twice, false, &["deflate", "gzip"], 999)
                .unwrap()
                .bytes,
            TEXT
        );
    }

    #[test]
    fn what_was_decoded_already_stays() {
        for coding in ["gzip", "deflate", "br", "zstd", "identity", "other"] {
            for chunked in [true, false] {
                let read = body(TEXT, chunked, &[coding], 999).unwrap();
                assert_eq!(read.bytes, TEXT, "{coding}");
                assert!(!read.cut && !read.truncated);
                assert_eq!(body(b"", chunked, &[coding], 9), Ok(Body::default()));
            }
        }
    }

    #[test]
    fn what_is_missing_is_told() {
        let stored = packed("gzip");
        let part = body(&stored[..stored.len() / 2], false, &["gzip"], 999).unwrap();
        assert!(part.cut && part.bytes.len() < TEXT.len());
        let chunks = chunked(TEXT);
        let part = body(&chunks[..30], true, &[], 999).unwrap();
        assert!(part.cut && TEXT.starts_with(&part.bytes));
        let mut bad = stored.clone();
        bad[20] ^= 0xFF;
        assert!(
            body(&bad, false, &["gzip"], 999)
                .unwrap_err()
                .contains("Coding")
        );
        let longer = b"2\r\nabc\r\n0\r\n\r\n";
        assert!(body(longer, true, &[], 999).unwrap_err().contains("longer"));
    }

    proptest::proptest! {
        #![proptest_config(crate::tests::usual())]

        #[test]
        fn no_body_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
            for coding in ["gzip", "deflate", "br", "zstd"] {
                for chunked in [true, false] {
                    drop(body(&bytes, chunked, &[coding], 1_000));
                    let mut begun = packed(coding);
                    begun.truncate(12);
                    begun.extend_from_slice(&bytes);
                    drop(body(&begun, chunked, &[coding], 1_000));
                }
            }
        }
    }
}
