//! Reads the records of a file one after another, and continues after damage.

mod search;

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::Path;
use std::sync::Arc;

use self::search::LostBytes;
use super::decode::{ArchiveDecoder, More, StretchStart};
use super::gap::{Gap, ReadFault, RecordSpan, Why};
use super::head::{self, Formats, ParsedHead, RecordHead};
use super::http::{Block, Lines};
use super::record::{Kind, Record, Version};
use super::separator;
use crate::fs::IoError;
use crate::tool_error::ToolCause;

/// Why a file cannot be read any further. Damage is not a reason; it becomes a [`Gap`].
#[derive(Debug, thiserror::Error)]
#[error("{file}: reading failed at byte {offset}: {source}", file = file.display())]
pub struct ReadError {
    /// The file, as it was named to the reader.
    pub file: Arc<Path>,
    /// The position up to which it was read.
    pub offset: u64,
    /// What the operating system reported.
    pub source: io::Error,
}

impl ToolCause for ReadError {
    fn advice(&self) -> &'static str {
        "check the disk, or leave the file out"
    }
}

/// The next item in a file.
#[derive(Debug)]
pub enum Item<'r, R> {
    /// A record.
    Record(RecordEntry<'r, R>),
    /// A part that could not be read. If it truncated the previous record, the block of that one
    /// ended with an error.
    Gap(Gap),
}

/// Reads a WARC or an ARC from any stream of bytes, without seeking.
///
/// The format and the compression are detected from the contents: WARC/1.0, 1.1, 0.17 and 0.18,
/// ARC 1 and 2; plain, gzip with a member per record or with many records in a member, zstd
/// with a frame per record and the dictionary of a WARC. Memory is bounded for every input: some
/// megabytes, plus a window of 128 MB for zstd.
#[derive(Debug)]
pub struct Reader<R> {
    file: Arc<Path>,
    decoder: ArchiveDecoder<R>,
    formats: Formats,
    /// The decoder is within a stretch.
    in_stretch: bool,
    open: Option<OpenRecord>,
    lost: Option<LostBytes>,
    /// The line ends between the records of this file, if they are unusual.
    odd: Option<Vec<u8>>,
    /// A record of this file was followed by the usual line ends.
    is_usual: bool,
    note: Option<Gap>,
    /// The total number of bytes by which searches went back.
    gone_back: u64,
    /// The present record was found by a search within the stretch, or follows such a record.
    is_found: bool,
    /// A place in the file at or before the end of the last record that was read completely and
    /// was not found by a search within a stretch. No search goes back further.
    whole_until: u64,
}

/// The record that is being read.
#[derive(Debug)]
struct OpenRecord {
    begin: StreamSpot,
    version: Version,
    /// Where its block begins within the stretch.
    block: u64,
    /// The remaining bytes of the block.
    left: u64,
    /// How it ended, once it has.
    ended: Option<Result<RecordSpan, Why>>,
}

/// The place where something begins.
#[derive(Debug, Clone, Copy)]
struct StreamSpot {
    /// Where the stretch begins in the file.
    stretch: u64,
    /// The position within the stretch.
    inside: u64,
    /// A place in the file at or before it.
    before: u64,
}

/// What was found where a record should begin.
enum RecordStart {
    Head(StreamSpot, Box<RecordHead>, usize),
    End,
    Bad(StreamSpot, Why),
}

impl Reader<File> {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// [`IoError`] if it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, IoError> {
        let file = crate::fs::open(path).map_err(IoError::at(path, "opening"))?;
        Ok(Self::new(file, path))
    }
}

impl<R: Read> Block for &mut RecordEntry<'_, R> {
    /// An ARC may have the body alone, of HTTP/0.9 or as old crawlers stored it.
    fn bare(&self) -> Option<Lines> {
        let record = &self.record;
        let media = record.content_type().filter(|media| media.contains('/'));
        let header = |media: &str| ("Content-Type".to_owned(), media.as_bytes().to_vec());
        let is_arc = record.version.is_arc();
        is_arc.then(|| media.map(header).into_iter().collect())
    }
}

impl<R: Read> Reader<R> {
    /// Reads a stream whose records name `file` as their file. It is read in large pieces and
    /// needs no buffer.
    pub fn new(source: R, file: &Path) -> Self {
        Self {
            file: file.into(),
            decoder: ArchiveDecoder::new(source),
            formats: Formats::default(),
            in_stretch: false,
            open: None,
            lost: None,
            odd: None,
            is_usual: false,
            note: None,
            gone_back: 0,
            is_found: false,
            whole_until: 0,
        }
    }

    /// How many bytes of the file were read, for showing progress.
    pub fn position(&self) -> u64 {
        self.decoder.fetched()
    }

    /// The next record or gap; `None` at the end. The unread rest of the last record is skipped,
    /// and verified like the part that was read.
    ///
    /// # Errors
    ///
    /// [`ReadError`] if the stream itself fails.
    pub fn next_item(&mut self) -> Result<Option<Item<'_, R>>, ReadError> {
        match self.advance() {
            Ok(None) => Ok(None),
            Ok(Some(Next::Gap(gap))) => Ok(Some(Item::Gap(gap))),
            Ok(Some(Next::Record(record))) => Ok(Some(Item::Record(RecordEntry {
                record: *record,
                reader: self,
            }))),
            Err(error) => Err(self.error(error)),
        }
    }

    fn error(&self, source: io::Error) -> ReadError {
        ReadError {
            file: self.file.clone(),
            offset: self.decoder.file_position(),
            source,
        }
    }

    fn advance(&mut self) -> io::Result<Option<Next>> {
        if self.open.is_some() {
            self.skip()?;
            self.close();
        }
        loop {
            if let Some(note) = self.note.take() {
                return Ok(Some(Next::Gap(note)));
            }
            if let Some(lost) = self.lost.take() {
                return self.search(lost).map(|gap| Some(Next::Gap(gap)));
            }
            match self.find()? {
                RecordStart::End => return Ok(None),
                RecordStart::Head(begin, head, length) => {
                    let record = self.begin(begin, *head, length)?;
                    return Ok(Some(Next::Record(record)));
                }
                RecordStart::Bad(begin, why) => self.lost = Some(self.lose(begin, why, None)),
            }
        }
    }

    /// Removes the record that has ended.
    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        if let Some(Err(why)) = open.ended {
            self.lost = Some(self.lose(open.begin, why, Some(open.block)));
        }
    }

    /// The present place.
    fn spot(&self) -> StreamSpot {
        let decoder = &self.decoder;
        if self.in_stretch {
            StreamSpot {
                stretch: decoder.begin_of_stretch(),
                inside: decoder.position(),
                before: decoder.before(),
            }
        } else {
            StreamSpot {
                stretch: decoder.file_position(),
                inside: 0,
                before: decoder.file_position(),
            }
        }
    }

    /// Looks for a head at the present place.
    fn find(&mut self) -> io::Result<RecordStart> {
        let mut begin = self.spot();
        loop {
            if !self.in_stretch {
                begin = self.spot();
                match self.decoder.start()? {
                    StretchStart::End => return Ok(RecordStart::End),
                    StretchStart::Garbage(why) => return Ok(RecordStart::Bad(begin, why)),
                    StretchStart::Stretch => {
                        self.in_stretch = true;
                        self.is_found = false;
                    }
                }
                begin = self.spot();
            }
            self.decoder.mark();
            match head::parse(self.decoder.unread(), self.formats) {
                ParsedHead::Head(head, length) => {
                    return Ok(RecordStart::Head(begin, head, length));
                }
                ParsedHead::Not(why) => return Ok(RecordStart::Bad(begin, why)),
                ParsedHead::Part => {}
            }
            match self.decoder.more() {
                Ok(More::Bytes) => {}
                Ok(More::End) if self.decoder.unread().is_empty() => {
                    self.in_stretch = false;
                    if !self.decoder.is_compressed() {
                        return Ok(RecordStart::End);
                    }
                }
                Ok(More::End) if self.decoder.lengthen(self.formats)? => {}
                Ok(More::End) => return Ok(RecordStart::Bad(begin, Why::Truncated)),
                Err(ReadFault::Damage(why)) => return Ok(RecordStart::Bad(begin, why)),
                Err(ReadFault::Io(error)) => return Err(error),
            }
        }
    }

    /// Begins a record after its head.
    fn begin(
        &mut self,
        begin: StreamSpot,
        head: RecordHead,
        length: usize,
    ) -> io::Result<Box<Record>> {
        self.decoder.confirm();
        self.decoder.consume(length);
        let mut version = head.version;
        if head.kind == Kind::Filedesc {
            // The first line of an ARC's first block names its version.
            self.ensure(1)?;
            version = match self.decoder.unread() {
                [b'2', ..] => Version::Arc2,
                _ => Version::Arc1,
            };
            self.formats.arc = Some(version);
        }
        self.formats.only_warc |= !version.is_arc();
        self.open = Some(OpenRecord {
            begin,
            version,
            block: self.decoder.position(),
            left: head.length,
            ended: None,
        });
        let is_compressed = self.decoder.is_compressed();
        let offset = if is_compressed {
            begin.stretch
        } else {
            begin.inside
        };
        let inside = Some(begin.inside).filter(|inside| is_compressed && *inside > 0);
        let head = RecordHead { version, ..head };
        Ok(Box::new(head.at(self.file.clone(), offset, inside)))
    }

    /// Tries to get this many unread bytes of the stretch into memory. Damage after the available
    /// bytes is not reported here, but when those bytes are read.
    fn ensure(&mut self, length: usize) -> io::Result<()> {
        while self.decoder.unread().len() < length {
            match self.decoder.more() {
                Ok(More::Bytes) => {}
                Ok(More::End) if self.decoder.lengthen(self.formats)? => {}
                Ok(More::End) | Err(ReadFault::Damage(_)) => break,
                Err(ReadFault::Io(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Bytes of the open block; none at its end, after the end was verified.
    fn block(&mut self) -> io::Result<&[u8]> {
        let Some(open) = &self.open else {
            return Ok(&[]);
        };
        let left = match open.ended {
            Some(Err(why)) => return Err(why.error()),
            Some(Ok(_)) => return Ok(&[]),
            None => open.left,
        };
        if left == 0 {
            return match self.end() {
                Ok(()) => Ok(&[]),
                Err(ReadFault::Io(error)) => Err(error),
                Err(ReadFault::Damage(why)) => Err(self.cut(why)),
            };
        }
        while self.decoder.unread().is_empty() {
            match self.decoder.more() {
                Ok(More::Bytes) => {}
                Ok(More::End) if self.decoder.lengthen(self.formats)? => {}
                Ok(More::End) if self.decoder.is_compressed() => return Err(self.cut(Why::Length)),
                Ok(More::End) => return Err(self.cut(Why::Truncated)),
                Err(ReadFault::Damage(why)) => return Err(self.cut(why)),
                Err(ReadFault::Io(error)) => return Err(error),
            }
        }
        let there = self.decoder.unread();
        let most = usize::try_from(left).unwrap_or(usize::MAX);
        Ok(there.get(..most).unwrap_or(there))
    }

    /// The open record cannot be read to its end.
    fn cut(&mut self, why: Why) -> io::Error {
        if let Some(open) = &mut self.open {
            open.ended = Some(Err(why));
        }
        why.error()
    }

    fn consume(&mut self, n: usize) {
        if let Some(open) = &mut self.open {
            let n = n.min(usize::try_from(open.left).unwrap_or(usize::MAX));
            open.left -= n as u64;
            self.decoder.consume(n);
        }
    }

    /// Skips the rest of the open record; damage in it is kept in its `ended`.
    fn skip(&mut self) -> io::Result<()> {
        loop {
            let there = self.block().map(<[u8]>::len);
            let n = match there {
                Ok(n) => n,
                Err(_) if self.open.as_ref().is_some_and(|open| open.ended.is_some()) => {
                    return Ok(());
                }
                Err(error) => return Err(error),
            };
            if n == 0 {
                return Ok(());
            }
            self.consume(n);
        }
    }

    /// Verifies that the open record ends where its length says, and so do the compressed data if
    /// it is the last record of its member.
    fn end(&mut self) -> Result<(), ReadFault> {
        let Some(OpenRecord { begin, version, .. }) = self.open else {
            return Ok(());
        };
        self.ensure(if version.is_arc() { 1 } else { 4 })?;
        while version.is_arc() && separator::may_go_on(self.decoder.unread()) {
            // Damage after it belongs to the next record.
            if !matches!(self.decoder.more(), Ok(More::Bytes)) {
                break;
            }
        }
        let at = self.decoder.position();
        let usual = separator::length(self.decoder.unread(), version);
        let odd = separator::odd(self.decoder.unread()).to_vec();
        self.decoder.consume(usual.unwrap_or(odd.len()));
        let is_over = self.is_over()?;
        let is_fine = match usual {
            Some(_) => is_over || self.goes_on(version, true)?,
            None => self.takes(&odd, is_over) && (is_over || self.goes_on(version, false)?),
        };
        if !is_fine {
            return Err(ReadFault::Damage(Why::Length));
        }
        let compressed = self.decoder.is_compressed();
        let place = |from: u64, to: u64| RecordSpan {
            offset: if compressed { begin.stretch } else { from },
            length: to - from,
            inside: compressed.then_some(from),
        };
        let end = self.decoder.position();
        let mut whole = place(begin.inside, if usual.is_some() { end } else { at });
        if usual.is_some() {
            self.is_usual = true;
        } else if self.odd.replace(odd).is_none() {
            // Reported once, because a faulty writer does this after each record.
            self.note = Some(Gap {
                place: place(at, end),
                why: Why::Separator,
            });
        }
        if is_over {
            self.in_stretch = false;
            if compressed && begin.inside == 0 {
                whole = RecordSpan {
                    offset: begin.stretch,
                    length: self.decoder.file_position() - begin.stretch,
                    inside: None,
                };
            }
        }
        if !self.is_found {
            self.whole_until = self.decoder.before();
        }
        if let Some(open) = &mut self.open {
            open.ended = Some(Ok(whole));
        }
        Ok(())
    }

    /// Whether unusual line ends are those of the whole file, and not the sign of a length that
    /// is wrong by a few bytes.
    fn takes(&self, odd: &[u8], is_over: bool) -> bool {
        let is_end = is_over && !self.decoder.is_compressed() && odd.len() < 4;
        match &self.odd {
            Some(known) if known == odd => true,
            None if !self.is_usual => true,
            _ => is_end,
        }
    }

    /// Whether the stretch has no more bytes.
    fn is_over(&mut self) -> Result<bool, ReadFault> {
        Ok(self.decoder.unread().is_empty() && self.decoder.more()? == More::End)
    }

    /// Whether the next record begins here, or the bytes here do not belong to the open record.
    fn goes_on(&mut self, version: Version, is_usual: bool) -> io::Result<bool> {
        loop {
            match head::parse(self.decoder.unread(), self.formats) {
                ParsedHead::Head(..) => return Ok(true),
                ParsedHead::Not(_) => break,
                ParsedHead::Part => {
                    let before = self.decoder.unread().len();
                    self.ensure(before + 1)?;
                    if self.decoder.unread().len() == before {
                        return Ok(true);
                    }
                }
            }
        }
        if !is_usual {
            return Ok(false);
        }
        self.ensure(separator::AHEAD)?;
        Ok(separator::is_foreign(self.decoder.unread(), version))
    }
}

enum Next {
    Record(Box<Record>),
    Gap(Gap),
}

/// A record and its block, which can be read once.
///
/// The block ends with an error if it is damaged or truncated. So it is only complete when it
/// was read to the end (a read of zero bytes), or when [`Self::finish`] says so.
#[derive(Debug)]
pub struct RecordEntry<'r, R> {
    /// Its head.
    pub record: Record,
    reader: &'r mut Reader<R>,
}

impl<R: Read> RecordEntry<'_, R> {
    /// Skips the unread rest of the block, and verifies the end of the record. Returns its place,
    /// or `None` if it is damaged; then the next item is a gap.
    ///
    /// # Errors
    ///
    /// [`ReadError`] if the stream itself fails.
    pub fn finish(&mut self) -> Result<Option<RecordSpan>, ReadError> {
        let skipped = self.reader.skip();
        skipped.map_err(|error| self.reader.error(error))?;
        let open = self.reader.open.as_ref();
        Ok(open.and_then(|open| open.ended?.ok()))
    }
}

impl<R: Read> Read for RecordEntry<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut there = self.fill_buf()?;
        let n = there.read(buffer)?;
        self.consume(n);
        Ok(n)
    }
}

impl<R: Read> BufRead for RecordEntry<'_, R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader.block()
    }

    fn consume(&mut self, n: usize) {
        self.reader.consume(n);
    }
}
