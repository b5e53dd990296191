//! The lines of a file of documents with their places: plain, in members of gzip, or in
//! frames of zstd. The file may still grow: what is not whole yet is left for later.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::bufread::GzDecoder;

use super::schema::Place;
use crate::fs::beneath;
use crate::fs::tracked::Tracked;

/// The longest line that is read, in bytes. Text of 2 MiB needs at most six times that as
/// JSON; other corpora have longer texts.
const MAX_LINE: u64 = if cfg!(test) { 1 << 20 } else { 64 << 20 };

/// How a file is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    Plain,
    Gzip,
    Zstd,
}

impl Packing {
    /// By the name of a file; `None` if it is no file of documents.
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

/// How far a file was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Position {
    /// Everything before this byte was read.
    pub byte: u64,
    /// Lines of the compressed part that begins there which were read as well.
    pub inside: u64,
    /// All lines that were read.
    pub lines: u64,
}

/// What is read next.
#[derive(Debug)]
pub(super) enum Item {
    /// A whole line without its end.
    Line(Place, Vec<u8>),
    /// Something that cannot be read, and why. Reading goes on after it, if it can.
    Damage { byte: u64, why: String },
}

/// The lines of a file from a position on.
pub(super) struct Lines {
    name: String,
    packing: Packing,
    now: Position,
    /// Lines of the open part that were read in an earlier run.
    skip: u64,
    open: Option<Open>,
}

/// The file, between parts or within one.
enum Open {
    Between(Tracked),
    Plain(Tracked),
    Gzip(Box<BufReader<GzDecoder<Tracked>>>),
    Zstd(BufReader<zstd::Decoder<'static, Tracked>>),
}

/// What stands at the position.
enum Met {
    Line(Vec<u8>),
    /// The same without a line end, at the end of the part.
    Unended(Vec<u8>),
    /// A line longer than the limit.
    Long,
    /// The end of the part.
    End,
    /// The part is not whole: it is still being written, or was cut.
    Cut,
    /// The part is damaged.
    Damaged(io::Error),
}

impl Lines {
    /// Opens the file `name` below `folder`.
    pub(super) fn open(folder: &Path, name: &str, from: Position) -> io::Result<Self> {
        let packing = Packing::of(name).ok_or(ErrorKind::InvalidInput)?;
        let mut file = beneath::open(folder, name)?;
        file.seek(SeekFrom::Start(from.byte))?;
        let counted = Tracked::new(file, from.byte);
        Ok(Self {
            name: name.to_owned(),
            packing,
            now: Position {
                lines: from.lines - from.inside.min(from.lines),
                inside: 0,
                ..from
            },
            skip: from.inside,
            open: Some(Open::Between(counted)),
        })
    }

    /// How far the file was read.
    pub(super) fn position(&self) -> Position {
        self.now
    }

    /// The next item; `None` if nothing whole is left.
    pub(super) fn next(&mut self) -> io::Result<Option<Item>> {
        loop {
            let place = self.place();
            match self.met()? {
                None => return Ok(None),
                Some(Met::Unended(bytes)) if !self.is_whole(&bytes) => return Ok(None),
                Some(Met::Line(bytes) | Met::Unended(bytes)) => {
                    self.count();
                    if self.skip > 0 {
                        self.skip -= 1;
                    } else if !bytes.is_empty() {
                        return Ok(Some(Item::Line(place, bytes)));
                    }
                }
                Some(Met::Long) => {
                    self.count();
                    return Ok(Some(Item::Damage {
                        byte: place.byte,
                        why: format!("line {} has more than {MAX_LINE} bytes", place.line),
                    }));
                }
                Some(Met::End) => self.end()?,
                Some(Met::Cut) if !self.has_more()? => return Ok(None),
                Some(Met::Cut) => {
                    return self.resume("the compressed part ends early");
                }
                Some(Met::Damaged(error)) => return self.resume(&error.to_string()),
            }
        }
    }

    fn place(&self) -> Place {
        Place {
            file: self.name.clone(),
            line: self.now.lines + 1,
            byte: self.now.byte,
            inside: self.now.inside,
        }
    }

    /// Whether a line without an end will not become longer. In a compressed part it is the
    /// last one; otherwise it is still being written unless its JSON is complete.
    fn is_whole(&self, line: &[u8]) -> bool {
        self.packing != Packing::Plain
            || serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok()
    }

    fn count(&mut self) {
        self.now.lines += 1;
        match &self.open {
            Some(Open::Plain(counted)) => self.now.byte = counted.at(),
            _ => self.now.inside += 1,
        }
    }

    /// Reads on; `None` at the end of the file.
    fn met(&mut self) -> io::Result<Option<Met>> {
        let open = match self.open.take() {
            Some(Open::Between(mut counted)) => {
                if counted.fill_buf()?.is_empty() {
                    self.open = Some(Open::Between(counted));
                    return Ok(None);
                }
                match self.packing {
                    Packing::Plain => Open::Plain(counted),
                    Packing::Gzip => Open::Gzip(Box::new(BufReader::new(GzDecoder::new(counted)))),
                    Packing::Zstd => {
                        let decoder = zstd::Decoder::with_buffer(counted)?.single_frame();
                        Open::Zstd(BufReader::new(decoder))
                    }
                }
            }
            Some(open) => open,
            None => return Ok(None),
        };
        let open = self.open.insert(open);
        Ok(Some(match open {
            Open::Plain(counted) => match line(counted) {
                // Not compressed: the error is the disk's.
                Met::Damaged(error) => return Err(error),
                met => met,
            },
            Open::Gzip(from) => line(from.as_mut()),
            Open::Zstd(from) => line(from),
            Open::Between(_) => return Ok(None),
        }))
    }

    /// Leaves a part that was read to its end.
    fn end(&mut self) -> io::Result<()> {
        let Some(counted) = self.open.take().map(Open::into_inner) else {
            return Ok(());
        };
        self.now.byte = counted.at();
        self.now.inside = 0;
        self.skip = 0;
        self.open = Some(Open::Between(counted));
        Ok(())
    }

    /// Whether another frame begins after the present one, so that nobody is writing to this one.
    fn has_more(&mut self) -> io::Result<bool> {
        if self.packing != Packing::Zstd {
            return Ok(false);
        }
        let Some(mut counted) = self.open.take().map(Open::into_inner) else {
            return Ok(false);
        };
        let more = counted.find_frame_after(self.now.byte)?;
        self.open = Some(Open::Between(counted));
        Ok(more)
    }

    /// Goes on at the next frame, or leaves the rest of the file.
    fn resume(&mut self, why: &str) -> io::Result<Option<Item>> {
        let byte = self.now.byte;
        let Some(mut counted) = self.open.take().map(Open::into_inner) else {
            return Ok(None);
        };
        if self.packing == Packing::Zstd {
            counted.find_frame_after(byte)?;
            self.now.byte = counted.at();
            self.now.inside = 0;
            self.skip = 0;
            self.open = Some(Open::Between(counted));
        }
        Ok(Some(Item::Damage {
            byte,
            why: why.to_owned(),
        }))
    }
}

impl Open {
    fn into_inner(self) -> Tracked {
        match self {
            Self::Between(counted) | Self::Plain(counted) => counted,
            Self::Gzip(from) => from.into_inner().into_inner(),
            Self::Zstd(from) => from.into_inner().finish(),
        }
    }
}

/// The next line of a part.
fn line(from: &mut impl BufRead) -> Met {
    let mut bytes = Vec::new();
    match from.take(MAX_LINE + 1).read_until(b'\n', &mut bytes) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Met::Cut,
        Err(error) => return Met::Damaged(error),
        Ok(0) => return Met::End,
        Ok(_) => {}
    }
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
        return Met::Line(bytes);
    }
    if bytes.len() as u64 <= MAX_LINE {
        return Met::Unended(bytes);
    }
    // The rest of the line, without keeping it.
    loop {
        let buffer = match from.fill_buf() {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Met::Cut,
            Err(error) => return Met::Damaged(error),
            Ok([]) => return Met::Cut,
            Ok(buffer) => buffer,
        };
        let end = memchr::memchr(b'\n', buffer);
        let used = end.map_or(buffer.len(), |at| at + 1);
        from.consume(used);
        if end.is_some() {
            return Met::Long;
        }
    }
}
