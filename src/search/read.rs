//! The lines of a file of documents with their places: plain, in gzip members, or in zstd
//! frames. The file may still grow: an incomplete end is left for later.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::bufread::GzDecoder;

use super::schema::DocumentPlace;
use crate::fs::beneath;
use crate::fs::tracked::Tracked;

/// The longest line that is read, in bytes. Text of 2 MiB needs at most six times that as
/// JSON; other corpora have longer texts.
const MAX_LINE: u64 = if cfg!(test) { 1 << 20 } else { 64 << 20 };

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FilePacking {
    Plain,
    Gzip,
    Zstd,
}

impl FilePacking {
    /// From the name of a file; `None` if it is not a file of documents.
    pub(super) fn of(name: &str) -> Option<Self> {
        let packings = [
            (".jsonl", Self::Plain),
            (".jsonl.gz", Self::Gzip),
            (".jsonl.zst", Self::Zstd),
        ];
        let named = packings.into_iter().find(|(end, _)| name.ends_with(end));
        named.map(|(_, packing)| packing)
    }
}

/// The position up to which a file was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ReadPosition {
    /// Everything before this byte was read.
    pub byte: u64,
    /// Lines that were also read of the compressed part that begins there.
    pub inside: u64,
    /// All lines that were read.
    pub lines: u64,
}

/// The next item.
#[derive(Debug)]
pub(super) enum ReadItem {
    /// A complete line without its end.
    Line(DocumentPlace, Vec<u8>),
    /// A part that cannot be read, and why. Reading continues after it if possible.
    Damage { byte: u64, why: String },
}

/// The lines of a file from a position on.
pub(super) struct Lines {
    name: String,
    packing: FilePacking,
    now: ReadPosition,
    /// Lines of the open part that were read in an earlier run.
    skip: u64,
    open: Option<OpenState>,
}

/// The file, between parts or within one.
enum OpenState {
    Between(Tracked),
    Plain(Tracked),
    Gzip(Box<BufReader<GzDecoder<Tracked>>>),
    Zstd(BufReader<zstd::Decoder<'static, Tracked>>),
}

/// The data at the position.
enum LineKind {
    Line(Vec<u8>),
    /// The same without a line end, at the end of the part.
    Unended(Vec<u8>),
    /// A line longer than the limit.
    Long,
    /// The end of the part.
    End,
    /// The part is incomplete: it is still being written, or was truncated.
    Cut,
    /// The part is damaged.
    Damaged(io::Error),
}

impl Lines {
    /// Opens the file `name` below `folder`.
    pub(super) fn open(folder: &Path, name: &str, from: ReadPosition) -> io::Result<Self> {
        let packing = FilePacking::of(name).ok_or(ErrorKind::InvalidInput)?;
        let mut file = beneath::open(folder, name)?;
        file.seek(SeekFrom::Start(from.byte))?;
        let counted = Tracked::new(file, from.byte);
        Ok(Self {
            name: name.to_owned(),
            packing,
            now: ReadPosition {
                lines: from.lines - from.inside.min(from.lines),
                inside: 0,
                ..from
            },
            skip: from.inside,
            open: Some(OpenState::Between(counted)),
        })
    }

    /// The position up to which the file was read.
    pub(super) fn position(&self) -> ReadPosition {
        self.now
    }

    /// The next item; `None` if nothing complete is left.
    pub(super) fn next(&mut self) -> io::Result<Option<ReadItem>> {
        loop {
            let place = self.place();
            match self.met()? {
                None => return Ok(None),
                Some(LineKind::Unended(bytes)) if !self.is_whole(&bytes) => return Ok(None),
                Some(LineKind::Line(bytes) | LineKind::Unended(bytes)) => {
                    self.count();
                    if self.skip > 0 {
                        self.skip -= 1;
                    } else if !bytes.is_empty() {
                        return Ok(Some(ReadItem::Line(place, bytes)));
                    }
                }
                Some(LineKind::Long) => {
                    self.count();
                    return Ok(Some(ReadItem::Damage {
                        byte: place.byte,
                        why: format!("line {} has more than {MAX_LINE} bytes", place.line),
                    }));
                }
                Some(LineKind::End) => self.end()?,
                Some(LineKind::Cut) if !self.has_more()? => return Ok(None),
                Some(LineKind::Cut) => {
                    return self.resume("the compressed part ends early");
                }
                Some(LineKind::Damaged(error)) => return self.resume(&error.to_string()),
            }
        }
    }

    fn place(&self) -> DocumentPlace {
        DocumentPlace {
            file: self.name.clone(),
            line: self.now.lines + 1,
            byte: self.now.byte,
            inside: self.now.inside,
        }
    }

    /// Whether a line without an end is complete. In a compressed part it is the last line;
    /// otherwise it is still being written unless its JSON is complete.
    fn is_whole(&self, line: &[u8]) -> bool {
        self.packing != FilePacking::Plain
            || serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok()
    }

    fn count(&mut self) {
        self.now.lines += 1;
        match &self.open {
            Some(OpenState::Plain(counted)) => self.now.byte = counted.at(),
            _ => self.now.inside += 1,
        }
    }

    /// Reads on; `None` at the end of the file.
    fn met(&mut self) -> io::Result<Option<LineKind>> {
        let open = match self.open.take() {
            Some(OpenState::Between(mut counted)) => {
                if counted.fill_buf()?.is_empty() {
                    self.open = Some(OpenState::Between(counted));
                    return Ok(None);
                }
                match self.packing {
                    FilePacking::Plain => OpenState::Plain(counted),
                    FilePacking::Gzip => {
                        OpenState::Gzip(Box::new(BufReader::new(GzDecoder::new(counted))))
                    }
                    FilePacking::Zstd => {
                        let decoder = zstd::Decoder::with_buffer(counted)?.single_frame();
                        OpenState::Zstd(BufReader::new(decoder))
                    }
                }
            }
            Some(open) => open,
            None => return Ok(None),
        };
        let open = self.open.insert(open);
        Ok(Some(match open {
            OpenState::Plain(counted) => match line(counted) {
                // Not compressed, so the error comes from the disk.
                LineKind::Damaged(error) => return Err(error),
                met => met,
            },
            OpenState::Gzip(from) => line(from.as_mut()),
            OpenState::Zstd(from) => line(from),
            OpenState::Between(_) => return Ok(None),
        }))
    }

    /// Moves past a part that was read to its end.
    fn end(&mut self) -> io::Result<()> {
        let Some(counted) = self.open.take().map(OpenState::into_inner) else {
            return Ok(());
        };
        self.now.byte = counted.at();
        self.now.inside = 0;
        self.skip = 0;
        self.open = Some(OpenState::Between(counted));
        Ok(())
    }

    /// Whether another frame begins after this one, so that this one is no longer being written.
    fn has_more(&mut self) -> io::Result<bool> {
        if self.packing != FilePacking::Zstd {
            return Ok(false);
        }
        let Some(mut counted) = self.open.take().map(OpenState::into_inner) else {
            return Ok(false);
        };
        let more = counted.find_frame_after(self.now.byte)?;
        self.open = Some(OpenState::Between(counted));
        Ok(more)
    }

    /// Continues at the next frame, or leaves the rest of the file.
    fn resume(&mut self, why: &str) -> io::Result<Option<ReadItem>> {
        let byte = self.now.byte;
        let Some(mut counted) = self.open.take().map(OpenState::into_inner) else {
            return Ok(None);
        };
        if self.packing == FilePacking::Zstd {
            counted.find_frame_after(byte)?;
            self.now.byte = counted.at();
            self.now.inside = 0;
            self.skip = 0;
            self.open = Some(OpenState::Between(counted));
        }
        Ok(Some(ReadItem::Damage {
            byte,
            why: why.to_owned(),
        }))
    }
}

impl OpenState {
    fn into_inner(self) -> Tracked {
        match self {
            Self::Between(counted) | Self::Plain(counted) => counted,
            Self::Gzip(from) => from.into_inner().into_inner(),
            Self::Zstd(from) => from.into_inner().finish(),
        }
    }
}

/// The next line of a part.
fn line(from: &mut impl BufRead) -> LineKind {
    let mut bytes = Vec::new();
    match from.take(MAX_LINE + 1).read_until(b'\n', &mut bytes) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return LineKind::Cut,
        Err(error) => return LineKind::Damaged(error),
        Ok(0) => return LineKind::End,
        Ok(_) => {}
    }
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        return LineKind::Line(bytes);
    }
    if bytes.len() as u64 <= MAX_LINE {
        return LineKind::Unended(bytes);
    }
    // The rest of the line, without keeping it.
    loop {
        let buffer = match from.fill_buf() {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return LineKind::Cut,
            Err(error) => return LineKind::Damaged(error),
            Ok([]) => return LineKind::Cut,
            Ok(buffer) => buffer,
        };
        let end = memchr::memchr(b'\n', buffer);
        let used = end.map_or(buffer.len(), |at| at + 1);
        from.consume(used);
        if end.is_some() {
            return LineKind::Long;
        }
    }
}
