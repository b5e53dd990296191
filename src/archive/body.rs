//! The body of a stored response without its transfer and content codings (RFC 9112 section
//! 7.1, RFC 9110 section 8.4.1). Archives declare both inexactly, so a coding is only undone if
//! the body looks as if it has it.

use std::io::{self, BufRead, BufReader, Cursor, Read, Write};

use super::gap::Damaged;
use super::http::unread;
use crate::coding::{Coding, Decoded, Decoder, Headers};
use crate::tool_error::ToolError;

/// The longest line before a chunk.
const MAX_LINE: u64 = 4 << 10;
/// The number of bytes that are examined to recognise chunks.
const BEGIN: usize = 32;

/// How a body ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct BodyEnd {
    /// There were more bytes than requested.
    pub(super) truncated: bool,
    /// The stored form ends before its coding does.
    pub(super) cut: bool,
}

/// The number of bytes that are copied at a time.
const PIECE: usize = 64 << 10;

/// Copies a body of at most `cap` bytes to `out`, using only the memory that its codings need.
/// `chunked`: the transfer coding; `codings`: the content codings in the order in which they
/// were applied.
pub(super) fn copy(
    block: &mut dyn BufRead,
    chunked: bool,
    codings: &[Coding],
    cap: u64,
    out: &mut dyn Write,
) -> Result<BodyEnd, ToolError> {
    let wrong = |error: io::Error| {
        let inner = error.get_ref();
        let is_damage = inner.is_some_and(|inner| inner.is::<Damaged>());
        // Decoders report damage with these kinds; all others come from the stream.
        let is_coding = matches!(
            error.kind(),
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::Other
        );
        if is_coding && !is_damage {
            ToolError::new(format_args!("the body cannot be decoded: {error}"))
        } else {
            unread(error)
        }
    };
    let mut stream = decoded(block, chunked, codings).map_err(wrong)?;
    let mut end = BodyEnd::default();
    let mut left = cap;
    let mut piece = vec![0; PIECE];
    loop {
        let read = match stream.read(&mut piece) {
            Ok(0) => return Ok(end),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if is_cut(&error) => {
                end.cut = true;
                return Ok(end);
            }
            Err(error) => return Err(wrong(error)),
        };
        let read = piece.get(..read).unwrap_or_default();
        let kept = usize::try_from(left).unwrap_or(usize::MAX).min(read.len());
        out.write_all(read.get(..kept).unwrap_or_default())
            .map_err(|error| ToolError::new(format_args!("the body cannot be written: {error}")))?;
        left -= kept as u64;
        if kept < read.len() {
            end.truncated = true;
            return Ok(end);
        }
    }
}

/// Whether the stored form ends before its coding does.
fn is_cut(error: &io::Error) -> bool {
    let is_damage = error.get_ref().is_some_and(|inner| inner.is::<Damaged>());
    error.kind() == io::ErrorKind::UnexpectedEof && !is_damage
}

fn decoded<'b>(
    block: &'b mut dyn BufRead,
    chunked: bool,
    codings: &[Coding],
) -> io::Result<Box<dyn Read + 'b>> {
    let mut stream: Box<dyn BufRead + 'b> = Box::new(block);
    if chunked {
        stream = unchunked(stream)?;
    }
    let decoder = Decoder::new(codings, Headers::Stored);
    let decoder = decoder.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(match decoder {
        Some(decoder) => Box::new(Decoded::new(stream, decoder)),
        None => Box::new(stream),
    })
}

/// The first bytes of a stream, and the stream with them.
fn begin<'s>(mut stream: Box<dyn BufRead + 's>) -> io::Result<(Vec<u8>, Box<dyn BufRead + 's>)> {
    let mut begin = Vec::new();
    stream.by_ref().take(BEGIN as u64).read_to_end(&mut begin)?;
    Ok((begin.clone(), Box::new(Cursor::new(begin).chain(stream))))
}

/// The stream joined from its chunks, or unchanged if it has none.
fn unchunked<'s>(stream: Box<dyn BufRead + 's>) -> io::Result<Box<dyn BufRead + 's>> {
    let (begin, stream) = begin(stream)?;
    let is_chunked = match httparse::parse_chunk_size(&begin) {
        Ok(httparse::Status::Complete(_)) => true,
        // An extension may be longer than the examined bytes.
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
    /// The remaining bytes of the chunk; `None` after the last one.
    left: Option<u64>,
    is_first: bool,
}

impl Chunks<'_> {
    /// Reads the line before a chunk.
    fn next_chunk(&mut self) -> io::Result<()> {
        if !self.is_first {
            // Each chunk ends with a line end.
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

    #[derive(Debug, Default, PartialEq, Eq)]
    struct Body {
        bytes: Vec<u8>,
        truncated: bool,
        cut: bool,
    }

    fn body(stored: &[u8], chunked: bool, codings: &[&str], cap: u64) -> Result<Body, String> {
        let codings = Coding::list(codings);
        let mut bytes = Vec::new();
        let end = copy(&mut &*stored, chunked, &codings, cap, &mut bytes);
        let BodyEnd { truncated, cut } = end.map_err(|error| error.to_string())?;
        Ok(Body {
            bytes,
            truncated,
            cut,
        })
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
    fn missing_bytes_are_reported() {
        let stored = gzip();
        let part = body(&stored[..stored.len() / 2], false, &["gzip"], 999).unwrap();
        assert!(part.cut && part.bytes.len() < TEXT.len());
        let chunks = chunked(TEXT);
        let part = body(&chunks[..30], true, &[], 999).unwrap();
        assert!(part.cut && TEXT.starts_with(&part.bytes));
        let mut bad = stored.clone();
        bad[20] ^= 0xFF;
        let error = body(&bad, false, &["gzip"], 999).unwrap_err();
        assert!(error.contains("cannot be decoded"), "{error}");
        let longer = b"2\r\nabc\r\n0\r\n\r\n";
        assert!(body(longer, true, &[], 999).unwrap_err().contains("longer"));
    }

    proptest::proptest! {
        #![proptest_config(spoor_testing::usual!())]

        #[test]
        fn no_body_panics(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
            for chunked in [true, false] {
                drop(body(&bytes, chunked, &["gzip"], 1_000));
            }
        }
    }
}
