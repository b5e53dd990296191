//! Turns a file into stretches of decompressed bytes, and finds the next stretch after damage.
//!
//! A stretch is decompressed without a break: a gzip member, a zstd frame, or the whole file
//! if it is not compressed. A record that continues in the next member extends its stretch.

mod probe;

use std::io::{self, Read};

use super::gap::{ReadFault, Why};
use super::gzip::{self, Header, InflateStep, Inflater};
use super::window::StreamWindow;
use super::zstd::{self, Frame, MAX_DICTIONARY, ZstdFrames};

/// The number of bytes read and decompressed at a time.
const CHUNK: usize = 64 << 10;
/// How a stretch is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemberCoding {
    Plain,
    Gzip,
    Zstd,
}

/// What begins at the present place of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StretchStart {
    /// A stretch; the decoder is at its first byte.
    Stretch,
    /// Nothing that can be read.
    Garbage(Why),
    /// The end of the file.
    End,
}

/// Whether there was more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum More {
    Bytes,
    /// The stretch is over, and its checksum was right.
    End,
}

/// A file, decompressed.
#[derive(Debug)]
pub(super) struct ArchiveDecoder<R> {
    source: R,
    raw: StreamWindow,
    source_ended: bool,
    /// All bytes of the source that were read.
    fetched: u64,
    /// Decompressed bytes of the stretch; unused if nothing is compressed.
    plain: StreamWindow,
    coding: MemberCoding,
    /// The compression of the file, once a record was found.
    seen: Option<MemberCoding>,
    /// A member or frame was begun and has not ended.
    open: bool,
    /// Why the stretch cannot be decompressed any further.
    broken: Option<Why>,
    /// Where the stretch begins in the file.
    begin: u64,
    /// Where its last member begins.
    member: u64,
    /// The place in the file before the last step of decompressing.
    before: u64,
    /// All bytes that were decompressed, of every stretch.
    produced: u64,
    gzip: Inflater,
    zstd: ZstdFrames,
    scout: Inflater,
}

impl<R: Read> ArchiveDecoder<R> {
    pub(super) fn new(source: R) -> Self {
        Self {
            source,
            raw: StreamWindow::default(),
            source_ended: false,
            fetched: 0,
            plain: StreamWindow::default(),
            coding: MemberCoding::Plain,
            seen: None,
            open: false,
            broken: None,
            begin: 0,
            member: 0,
            before: 0,
            produced: 0,
            gzip: Inflater::default(),
            zstd: ZstdFrames::default(),
            scout: Inflater::default(),
        }
    }

    /// The window from which the bytes of the stretch are read.
    fn view(&mut self) -> &mut StreamWindow {
        match self.coding {
            MemberCoding::Plain => &mut self.raw,
            MemberCoding::Gzip | MemberCoding::Zstd => &mut self.plain,
        }
    }

    /// The unread bytes of the stretch that are in memory.
    pub(super) fn unread(&self) -> &[u8] {
        match self.coding {
            MemberCoding::Plain => self.raw.unread(),
            MemberCoding::Gzip | MemberCoding::Zstd => self.plain.unread(),
        }
    }

    /// Marks bytes of the stretch as read.
    pub(super) fn consume(&mut self, n: usize) {
        self.view().consume(n);
    }

    /// The position within the stretch; in a file without compression within the file.
    pub(super) fn position(&self) -> u64 {
        match self.coding {
            MemberCoding::Plain => self.raw.position(),
            MemberCoding::Gzip | MemberCoding::Zstd => self.plain.position(),
        }
    }

    /// Promises not to return to anything before the position.
    pub(super) fn mark(&mut self) {
        self.view().mark();
    }

    /// Returns to a position of the stretch, or as near as possible.
    pub(super) fn rewind(&mut self, to: u64) {
        self.view().rewind(to);
    }

    /// Where the stretch begins in the file.
    pub(super) fn begin_of_stretch(&self) -> u64 {
        self.begin
    }

    /// A place in the file at or before the compressed form of the unread bytes.
    pub(super) fn before(&self) -> u64 {
        self.before
    }

    /// The place in the file up to which it was read.
    pub(super) fn file_position(&self) -> u64 {
        self.raw.position()
    }

    /// How many bytes of the file were read. It never decreases.
    pub(super) fn fetched(&self) -> u64 {
        self.fetched
    }

    /// How many bytes were decompressed, or read if the file is not compressed.
    pub(super) fn produced(&self) -> u64 {
        self.produced.max(self.fetched)
    }

    pub(super) fn is_compressed(&self) -> bool {
        self.coding != MemberCoding::Plain
    }

    /// Whether a record was found.
    pub(super) fn is_known(&self) -> bool {
        self.seen.is_some()
    }

    /// Whether the compressed data of the stretch were damaged.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// A record was found, so the rest of the file is compressed like this stretch.
    pub(super) fn confirm(&mut self) {
        self.seen = Some(self.coding);
    }

    /// Reads more of the file; `false` at its end.
    fn read(&mut self) -> io::Result<bool> {
        while !self.source_ended {
            match self.source.read(self.raw.room(CHUNK)) {
                Ok(0) => self.source_ended = true,
                Ok(n) => {
                    self.raw.filled(n);
                    self.fetched += n as u64;
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Reads until this many bytes of the file are in memory; `false` if it ends before.
    fn want(&mut self, length: usize) -> io::Result<bool> {
        while self.raw.unread().len() < length {
            if !self.read()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Begins the stretch at the present place of the file.
    pub(super) fn start(&mut self) -> io::Result<StretchStart> {
        self.broken = None;
        self.open = false;
        loop {
            self.raw.mark();
            self.before = self.raw.position();
            if self.raw.unread().is_empty() && !self.read()? {
                return Ok(StretchStart::End);
            }
            let begin = self.raw.position();
            let coding = match (
                gzip::header(self.raw.unread()),
                zstd::frame(self.raw.unread()),
            ) {
                (Header::Whole(length), _) => {
                    self.raw.consume(length);
                    self.gzip.begin();
                    MemberCoding::Gzip
                }
                (_, Frame::Data) => {
                    if let Err(why) = self.zstd.begin() {
                        return Ok(StretchStart::Garbage(why));
                    }
                    MemberCoding::Zstd
                }
                (_, Frame::Skippable(length)) => {
                    if !self.skip(8 + length)? {
                        return Ok(StretchStart::Garbage(Why::Truncated));
                    }
                    continue;
                }
                (_, Frame::Dictionary(length)) => match self.take_dictionary(length)? {
                    Ok(()) => continue,
                    Err(why) => return Ok(StretchStart::Garbage(why)),
                },
                (Header::Part, _) | (_, Frame::Part) if self.read()? => continue,
                _ => match self.seen {
                    None | Some(MemberCoding::Plain) => MemberCoding::Plain,
                    Some(_) => return Ok(StretchStart::Garbage(self.garbage())),
                },
            };
            (self.begin, self.member, self.coding) = (begin, begin, coding);
            self.open = coding != MemberCoding::Plain;
            self.plain.restart();
            return Ok(StretchStart::Stretch);
        }
    }

    fn garbage(&self) -> Why {
        match self.raw.unread() {
            [0, ..] => Why::Zeros,
            bytes if gzip::header(bytes) == Header::Part => Why::Truncated,
            bytes if zstd::frame(bytes) == Frame::Part => Why::Truncated,
            _ => Why::NoRecord,
        }
    }

    /// Skips bytes of the file; `false` if it ends before.
    fn skip(&mut self, mut length: u64) -> io::Result<bool> {
        while length > 0 {
            let there = self.raw.unread().len();
            let n = usize::try_from(length).map_or(there, |length| length.min(there));
            self.raw.consume(n);
            length -= n as u64;
            if length > 0 && !self.read()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn take_dictionary(&mut self, length: u64) -> io::Result<Result<(), Why>> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > MAX_DICTIONARY {
            return Ok(Err(Why::Dictionary));
        }
        if !self.want(8 + length)? {
            return Ok(Err(Why::Truncated));
        }
        let stored = self.raw.unread().get(8..8 + length).unwrap_or_default();
        let used = self.zstd.use_dictionary(stored);
        if used.is_ok() {
            self.raw.consume(8 + length);
        }
        Ok(used)
    }

    /// Adds bytes to the stretch.
    pub(super) fn more(&mut self) -> Result<More, ReadFault> {
        if self.coding == MemberCoding::Plain {
            let more = self.read()?;
            return Ok(if more { More::Bytes } else { More::End });
        }
        if let Some(why) = self.broken {
            return Err(ReadFault::Damage(why));
        }
        let done = self.decompress();
        if let Err(ReadFault::Damage(why)) = done {
            self.broken = Some(why);
        }
        done
    }

    fn decompress(&mut self) -> Result<More, ReadFault> {
        while self.open {
            self.before = self.raw.position();
            let output = self.plain.room(CHUNK);
            let input = self.raw.unread();
            let step = match self.coding {
                MemberCoding::Zstd => self.zstd.step(input, output),
                MemberCoding::Gzip | MemberCoding::Plain => self.gzip.step(input, output),
            };
            let InflateStep {
                read,
                written,
                ended,
            } = step.map_err(ReadFault::Damage)?;
            // Both decompressors continue as long as there is input and room.
            let is_stuck = !ended && read == 0 && written == 0;
            if is_stuck && !input.is_empty() {
                return Err(ReadFault::Damage(Why::Compression));
            }
            self.raw.consume(read);
            self.plain.filled(written);
            self.produced += written as u64;
            if ended {
                self.open = false;
                if self.coding == MemberCoding::Gzip {
                    self.trailer()?;
                }
            }
            if written > 0 {
                return Ok(More::Bytes);
            }
            if is_stuck && !self.read()? {
                return Err(ReadFault::Damage(Why::Truncated));
            }
        }
        Ok(More::End)
    }

    fn trailer(&mut self) -> Result<(), ReadFault> {
        if !self.want(gzip::TRAILER)? {
            return Err(ReadFault::Damage(Why::Truncated));
        }
        let trailer = self.raw.unread().first_chunk().copied();
        self.raw.consume(gzip::TRAILER);
        let right = trailer.ok_or(Why::Truncated);
        let right = right.and_then(|trailer| self.gzip.check(trailer));
        right.map_err(ReadFault::Damage)
    }
}
