//! Bodies without their codings: content codings (RFC 9110 section 8.4), and transfer codings
//! other than chunks (RFC 9112 section 7).
//!
//! One decoder serves both bodies from servers and bodies in archives. It accepts coded bytes as
//! they arrive and fills buffers of the caller, so the caller bounds memory, even if the coded form
//! is tiny.

use std::fmt;
use std::io::{self, BufRead, Read};

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Decoder as ZstdDecoder, Operation};

/// The most codings of one body.
const MAX_CODINGS: usize = 4;
/// The number of bytes by which a coding is recognised.
const BEGIN: usize = 32;
/// The size of the buffer for coded bytes between two codings.
const HELD: usize = 16 << 10;
/// The first bytes of a member of gzip.
const GZIP: [u8; 2] = [0x1F, 0x8B];
/// The first bytes of a frame of zstd.
const ZSTD: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
/// The largest window of zstd is 2^23 bytes, as in browsers (RFC 9659), because each of several
/// codings has its own window.
const ZSTD_WINDOW_LOG: u32 = 23;

/// A coding of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Coding {
    /// `gzip` or `x-gzip`: members of RFC 1952.
    Gzip,
    /// `deflate`: RFC 1950, or only its contents (RFC 1951), as some servers send it.
    Deflate,
    /// `br`: RFC 7932.
    Brotli,
    /// `zstd`: RFC 8878.
    Zstd,
    /// A coding that cannot be undone, in lower case.
    Unknown(String),
}

impl fmt::Display for Coding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
            Self::Unknown(name) => name,
        })
    }
}

impl Coding {
    /// The codings that header lines list, in the order in which they were applied. Case, quotes
    /// and parameters are ignored, and so are values that mean no coding: servers also name
    /// charsets here.
    pub fn list<S: AsRef<str>>(lines: impl IntoIterator<Item = S>) -> Vec<Self> {
        let mut all = Vec::new();
        for line in lines {
            for member in line.as_ref().split(',') {
                let name = member.split(';').next().unwrap_or_default();
                let name = name.trim().trim_matches(['"', '\'']).trim();
                all.extend(Self::of(&name.to_ascii_lowercase()));
            }
        }
        all
    }

    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "" | "identity" | "none" | "binary" | "8bit" | "7bit" => return None,
            "gzip" | "x-gzip" => Self::Gzip,
            "deflate" => Self::Deflate,
            "br" => Self::Brotli,
            "zstd" => Self::Zstd,
            name if encoding_rs::Encoding::for_label(name.as_bytes()).is_some() => return None,
            name => Self::Unknown(name.to_owned()),
        })
    }

    fn recognised(begin: &[u8]) -> Option<Self> {
        if begin.starts_with(&GZIP) {
            Some(Self::Gzip)
        } else {
            begin.starts_with(&ZSTD).then_some(Self::Zstd)
        }
    }

    /// Whether a body begins as its coding requires, as far as this is visible.
    fn fits(&self, begin: &[u8]) -> bool {
        match self {
            Self::Gzip => begin.starts_with(&GZIP),
            Self::Zstd => begin.starts_with(&ZSTD) || is_skippable(begin),
            Self::Deflate | Self::Brotli | Self::Unknown(_) => !is_text(begin),
        }
    }
}

/// Whether this is the start of a frame that zstd skips (RFC 8878 section 3.1.2).
fn is_skippable(begin: &[u8]) -> bool {
    matches!(begin, [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..])
}

/// Whether these are the first bytes of a text, with which no compression begins. One byte may be
/// the whole of an empty body in brotli.
fn is_text(begin: &[u8]) -> bool {
    let is_printable = |byte: &u8| byte.is_ascii_graphic() || b" \t\r\n".contains(byte);
    begin.len() > 1 && begin.iter().all(is_printable)
}

/// Whether these bytes begin as in RFC 1950 section 2.2.
fn is_zlib(begin: &[u8]) -> bool {
    match begin {
        [a, b, ..] => a & 0xF == 8 && u16::from_be_bytes([*a, *b]) % 31 == 0,
        _ => false,
    }
}

/// Why a body cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodingError {
    /// Its coding is unknown.
    #[error("its coding {0} cannot be undone")]
    Unknown(String),
    /// It has more codings than any honest body.
    #[error("it has more than {MAX_CODINGS} codings")]
    TooMany,
    /// It does not match its header.
    #[error("it does not begin as {0} does")]
    Other(Coding),
    /// The coded form is damaged.
    #[error("its {0} is damaged")]
    Damaged(Coding),
    /// The coded form is incomplete.
    #[error("its {0} ends too early")]
    Cut(Coding),
    /// The coded form is far longer than its contents.
    #[error("its coded form is far longer than what is in it")]
    Hollow,
    /// Something follows the coded form.
    #[error("bytes follow its coded form that do not belong to it")]
    Rest,
}

/// How far the headers of a body are trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Headers {
    /// A server has just sent them. A body that does not match them is an error.
    Live,
    /// They come from an archive. Some writers decode a body and keep the header that names its
    /// coding, so a coding counts only if the body begins accordingly.
    Stored,
}

/// Undoes the codings of one body.
#[derive(Debug)]
pub struct Decoder {
    /// The coding that was applied last comes first.
    stages: Vec<CodingStage>,
}

impl Decoder {
    /// A decoder for a body with these codings; `None` if it has none.
    ///
    /// # Errors
    ///
    /// One of them is unknown, or there are too many. For an archive, the body decides instead.
    pub fn new(codings: &[Coding], headers: Headers) -> Result<Option<Self>, CodingError> {
        if codings.len() > MAX_CODINGS {
            return Err(CodingError::TooMany);
        }
        for coding in codings {
            if let (Coding::Unknown(name), Headers::Live) = (coding, headers) {
                return Err(CodingError::Unknown(name.clone()));
            }
        }
        let stage = |coding: &Coding| CodingStage::new(coding.clone(), headers);
        let stages: Vec<CodingStage> = codings.iter().rev().map(stage).collect();
        Ok((!stages.is_empty()).then_some(Self { stages }))
    }

    /// Fills `output` with decoded bytes and takes coded ones from `input`. `is_last` is whether
    /// nothing follows `input`. Returns how many bytes were decoded; 0 means that more input is
    /// needed, or that the body is complete.
    ///
    /// # Errors
    ///
    /// The body does not match its codings, or ends too early.
    pub fn decode(
        &mut self,
        input: &mut &[u8],
        output: &mut [u8],
        is_last: bool,
    ) -> Result<usize, CodingError> {
        let done = pull(&mut self.stages, input, output, is_last)?;
        Ok(done.0)
    }

    /// Whether something follows the coded body that does not belong to it.
    pub fn has_rest(&self) -> bool {
        self.stages.iter().any(|stage| stage.has_rest)
    }
}

/// Decodes through all stages. Returns the number of bytes, and whether no more will come.
fn pull(
    stages: &mut [CodingStage],
    input: &mut &[u8],
    output: &mut [u8],
    is_last: bool,
) -> Result<(usize, bool), CodingError> {
    let Some((stage, before)) = stages.split_last_mut() else {
        let n = input.len().min(output.len());
        let (taken, rest) = input.split_at(n);
        output[..n].copy_from_slice(taken);
        *input = rest;
        return Ok((n, is_last && rest.is_empty()));
    };
    loop {
        let written = stage.step(output)?;
        if written > 0 || output.is_empty() {
            return Ok((written, false));
        }
        if stage.is_fed {
            return stage.end().map(|()| (0, true));
        }
        let (n, is_over) = pull(before, input, stage.room(), is_last)?;
        stage.fill(n, is_over);
        if n == 0 && !is_over {
            return Ok((0, false));
        }
    }
}

/// One coding of a body.
#[derive(Debug)]
struct CodingStage {
    coding: Coding,
    headers: Headers,
    state: DecoderState,
    /// Coded bytes; those from `at` to `end` are unread.
    held: Vec<u8>,
    at: usize,
    end: usize,
    /// Whether the input has ended.
    is_fed: bool,
    has_rest: bool,
}

enum DecoderState {
    /// Too few bytes were seen to choose.
    Begin,
    /// The body has no coding.
    Plain,
    Inflate(Box<Decompress>),
    Brotli(Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>),
    Zstd(Box<ZstdDecoder<'static>>),
    /// After a member or frame. Another one may follow.
    Between(Option<Box<ZstdDecoder<'static>>>),
}

impl fmt::Debug for DecoderState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Begin => "Begin",
            Self::Plain => "Plain",
            Self::Inflate(_) => "Inflate",
            Self::Brotli(_) => "Brotli",
            Self::Zstd(_) => "Zstd",
            Self::Between(_) => "Between",
        })
    }
}

impl CodingStage {
    fn new(coding: Coding, headers: Headers) -> Self {
        Self {
            coding,
            headers,
            state: DecoderState::Begin,
            held: Vec::new(),
            at: 0,
            end: 0,
            is_fed: false,
            has_rest: false,
        }
    }

    /// The room for further coded bytes.
    fn room(&mut self) -> &mut [u8] {
        self.held.copy_within(self.at..self.end, 0);
        (self.at, self.end) = (0, self.end - self.at);
        self.held.resize(HELD, 0);
        &mut self.held[self.end..]
    }

    fn fill(&mut self, n: usize, is_over: bool) {
        self.end += n;
        self.is_fed = is_over;
    }

    /// Decodes as much as fits into `output`; 0 if more input is needed.
    fn step(&mut self, output: &mut [u8]) -> Result<usize, CodingError> {
        loop {
            let damaged = || CodingError::Damaged(self.coding.clone());
            let input = self.held.get(self.at..self.end).unwrap_or_default();
            let (read, written, is_end) = match &mut self.state {
                DecoderState::Begin | DecoderState::Between(_) => {
                    if self.choose()? {
                        continue;
                    }
                    return Ok(0);
                }
                DecoderState::Plain => {
                    let n = input.len().min(output.len());
                    output[..n].copy_from_slice(&input[..n]);
                    (n, n, false)
                }
                DecoderState::Inflate(inflate) => {
                    let before = (inflate.total_in(), inflate.total_out());
                    let done = inflate.decompress(input, output, FlushDecompress::None);
                    let done = done.map_err(|_| damaged())?;
                    let count = |now: u64, before: u64| usize::try_from(now - before).unwrap_or(0);
                    let read = count(inflate.total_in(), before.0);
                    let written = count(inflate.total_out(), before.1);
                    (read, written, done == Status::StreamEnd)
                }
                DecoderState::Brotli(state) => {
                    let (mut left, mut read) = (input.len(), 0);
                    let (mut room, mut written) = (output.len(), 0);
                    let done = BrotliDecompressStream(
                        &mut left,
                        &mut read,
                        input,
                        &mut room,
                        &mut written,
                        output,
                        &mut 0,
                        state,
                    );
                    if matches!(done, BrotliResult::ResultFailure) {
                        return Err(damaged());
                    }
                    (read, written, matches!(done, BrotliResult::ResultSuccess))
                }
                DecoderState::Zstd(decoder) => {
                    let done = decoder.run_on_buffers(input, output);
                    let done = done.map_err(|_| damaged())?;
                    // At the end of a frame alone, there is nothing left to do.
                    (done.bytes_read, done.bytes_written, done.remaining == 0)
                }
            };
            self.at += read;
            if is_end {
                self.state = match std::mem::replace(&mut self.state, DecoderState::Begin) {
                    DecoderState::Zstd(decoder) => DecoderState::Between(Some(decoder)),
                    _ => DecoderState::Between(None),
                };
            }
            if written > 0 || (read == 0 && !is_end) {
                return Ok(written);
            }
        }
    }

    /// Chooses how the next bytes are read; `false` if more of them are needed.
    fn choose(&mut self) -> Result<bool, CodingError> {
        let is_fed = self.is_fed;
        let unread = self.held.get(self.at..self.end).unwrap_or_default();
        if let DecoderState::Between(decoder) = &mut self.state {
            // Nothing is left, or one byte that may be the first of another member.
            if unread.is_empty() || (!is_fed && unread.len() < GZIP.len()) {
                return Ok(false);
            }
            match (&self.coding, decoder.take()) {
                (Coding::Gzip, _) if unread.starts_with(&GZIP) => {
                    self.state = DecoderState::Inflate(Box::new(Decompress::new_gzip(15)));
                }
                (Coding::Zstd, Some(decoder)) => self.state = DecoderState::Zstd(decoder),
                // As browsers do.
                _ => {
                    self.has_rest |= unread.iter().any(|byte| *byte != 0);
                    self.at = self.end;
                }
            }
            return Ok(true);
        }
        if unread.len() < BEGIN && !is_fed {
            return Ok(false);
        }
        let begin = unread.get(..BEGIN).unwrap_or(unread);
        if begin.is_empty() {
            self.state = DecoderState::Plain;
            return Ok(false);
        }
        self.state = match (&self.coding, self.coding.fits(begin), self.headers) {
            (_, false, Headers::Stored) => DecoderState::Plain,
            (coding, false, Headers::Live) => return Err(CodingError::Other(coding.clone())),
            (Coding::Unknown(name), ..) => return Err(CodingError::Unknown(name.clone())),
            (Coding::Gzip, ..) => DecoderState::Inflate(Box::new(Decompress::new_gzip(15))),
            (Coding::Deflate, ..) => {
                DecoderState::Inflate(Box::new(Decompress::new(is_zlib(begin))))
            }
            (Coding::Brotli, ..) => {
                let (a, b, c) = Default::default();
                DecoderState::Brotli(Box::new(BrotliState::new_strict(a, b, c)))
            }
            (Coding::Zstd, ..) => {
                let damaged = |_| CodingError::Damaged(Coding::Zstd);
                let mut decoder = ZstdDecoder::new().map_err(damaged)?;
                let limit = DParameter::WindowLogMax(ZSTD_WINDOW_LOG);
                decoder.set_parameter(limit).map_err(damaged)?;
                DecoderState::Zstd(Box::new(decoder))
            }
        };
        Ok(true)
    }

    /// Whether the coded form is complete.
    fn end(&self) -> Result<(), CodingError> {
        match self.state {
            DecoderState::Plain | DecoderState::Between(_) => Ok(()),
            _ => Err(CodingError::Cut(self.coding.clone())),
        }
    }
}

/// A stream without its codings.
pub struct Decoded<R> {
    source: R,
    decoder: Decoder,
}

impl<R: BufRead> Decoded<R> {
    /// Reads `source` through a decoder.
    pub fn new(source: R, decoder: Decoder) -> Self {
        Self { source, decoder }
    }
}

impl<R: BufRead> Read for Decoded<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            let coded = self.source.fill_buf()?;
            let (length, is_last) = (coded.len(), coded.is_empty());
            let mut rest = coded;
            let done = self.decoder.decode(&mut rest, to, is_last);
            let taken = length - rest.len();
            self.source.consume(taken);
            match done {
                Ok(0) if !is_last && !to.is_empty() => {}
                Ok(n) => return Ok(n),
                Err(error @ CodingError::Cut(_)) => {
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, error));
                }
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            }
        }
    }
}

/// At most `cap` bytes of a file, decoded if it begins with a recognisable coding. Some servers
/// send a compressed file without a header that says so.
///
/// # Errors
///
/// It is damaged.
pub fn unpacked(body: Bytes, cap: usize) -> Result<Bytes, CodingError> {
    match Coding::recognised(&body) {
        Some(coding) => decoded(&body, &[coding], cap).map(Bytes::from),
        None => Ok(body),
    }
}

/// At most `cap` bytes of a body that is complete in memory, decoded.
///
/// # Errors
///
/// The body does not match its codings, or ends too early.
pub fn decoded(mut body: &[u8], codings: &[Coding], cap: usize) -> Result<Vec<u8>, CodingError> {
    let mut out = Vec::new();
    let Some(mut decoder) = Decoder::new(codings, Headers::Live)? else {
        out.extend_from_slice(body.get(..cap).unwrap_or(body));
        return Ok(out);
    };
    let mut piece = vec![0; HELD];
    while out.len() < cap {
        let n = decoder.decode(&mut body, &mut piece, true)?;
        if n == 0 {
            break;
        }
        out.extend_from_slice(&piece[..n.min(cap - out.len())]);
    }
    Ok(out)
}

#[cfg(test)]
mod tests;
