//! The body of a stored response without its transfer and content codings (RFC 9112 section
//! 7.1, RFC 9110 section 8.4.1). Archives are inexact about both, so each counts only if the
//! body looks as if it had it.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use super::gap::Damaged;
use crate::coding::{Coding, Decoded, Decoder, Headers};

/// The longest line before a chunk.
const MAX_LINE: u64 = 4 << 10;
/// Bytes by which chunks are recognised.
const BEGIN: usize = 32;

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
    codings: &[Coding],
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
    codings: &[Coding],
    cap: usize,
) -> io::Result<Body> {
    let mut stream: Box<dyn BufRead + '_> = Box::new(block);
    if chunked {
        stream = unchunked(stream)?;
    }
    let decoder = Decoder::new(codings, Headers::Stored);
    let decoder = decoder.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let mut stream: Box<dyn Read + '_> = match decoder {
        Some(decoder) => Box::new(Decoded::new(stream, decoder)),
        None => Box::new(stream),
    };
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
    use flate2::write::GzEncoder;

    use super::*;

    const TEXT: &[u8] = b"<!DOCTYPE html><title>A page</title><p>With some text in it.</p>";

    fn body(stored: &[u8], chunked: bool, codings: &[&str], cap: usize) -> Result<Body, String> {
        let codings = Coding::list(codings);
        let read = read(&mut &*stored, chunked, &codings, cap);
        read.map_err(|error| format!("{error:?}"))
    }

    fn gzip() -> Vec<u8> {
        let mut to = GzEncoder::new(Vec::new(), Compression::default());
        to.write_all(TEXT).unwrap();
        to.finish().unwrap()
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
    fn chunks_are_joined_and_codings_undone() {
        let stored = gzip();
        let whole = Body {
            bytes: TEXT.to_vec(),
            ..Body::default()
        };
        assert_eq!(body(&stored, false, &["gzip"], 999).as_ref(), Ok(&whole));
        assert_eq!(body(&chunked(&stored), true, &["gzip"], 999), Ok(whole));
        let part = body(&stored, false, &["gzip"], 10).unwrap();
        assert_eq!((part.bytes.as_slice(), part.truncated), (&TEXT[..10], true));
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
        let stored = gzip();
        let part = body(&stored[..stored.len() / 2], false, &["gzip"], 999).unwrap();
        assert!(part.cut && part.bytes.len() < TEXT.len());
        let chunks = chunked(TEXT);
        let part = body(&chunks[..30], true, &[], 999).unwrap();
        assert!(part.cut && TEXT.starts_with(&part.bytes));
        let mut bad = stored.clone();
        bad[20] ^= 0xFF;
        let error = body(&bad, false, &["gzip"], 999).unwrap_err();
        assert!(error.contains("Coding"), "{error}");
        let longer = b"2\r\nabc\r\n0\r\n\r\n";
        assert!(body(longer, true, &[], 999).unwrap_err().contains("longer"));
    }

    proptest::proptest! {
        #![proptest_config(crate::tests::usual())]

        #[test]
        fn no_body_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
            for chunked in [true, false] {
                drop(body(&bytes, chunked, &["gzip"], 1_000));
            }
        }
    }
}
