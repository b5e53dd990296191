//! Turns a file into stretches of decompressed bytes, and finds the next one after damage.
//!
//! A stretch is what is decompressed without a break: a member of gzip, a frame of zstd, or
//! the whole file if nothing is compressed. A record that goes on in the next member
//! lengthens its stretch.

use std::io::{self, Read};

use memchr::memmem;

use super::gap::{Fault, Why};
use super::gzip::{self, Header, Inflater, Step};
use super::head::{self, Formats, Parsed};
use super::window::Window;
use super::zstd::{self, Frame, Frames, MAX_DICTIONARY};

/// Bytes read and decompressed at a time.
const CHUNK: usize = 64 << 10;
/// Compressed bytes that are looked at to see whether a record begins.
const PROBE: usize = 16 << 10;
/// Decompressed bytes that are looked at for the same.
const PROBED: usize = 2 << 10;

/// How a stretch is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Plain,
    Gzip,
    Zstd,
}

/// What begins at the present place of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Start {
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
pub(super) struct Decoder<R> {
    source: R,
    raw: Window,
    source_ended: bool,
    /// Decompressed bytes of the stretch; unused if nothing is compressed.
    plain: Window,
    coding: Coding,
    /// The coding of the file, once a record was found.
    seen: Option<Coding>,
    /// A member or frame has begun and not ended.
    open: bool,
    /// Why the stretch cannot be decompressed any further.
    broken: Option<Why>,
    /// Where the stretch begins in the file.
    begin: u64,
    /// Where its last member begins.
    member: u64,
    /// The place in the file before the last step of decompressing.
    before: u64,
    gzip: Inflater,
    zstd: Frames,
    scout: Inflater,
}

impl<R: Read> Decoder<R> {
    pub(super) fn new(source: R) -> Self {
        Self {
            source,
            raw: Window::default(),
            source_ended: false,
            plain: Window::default(),
            coding: Coding::Plain,
            seen: None,
            open: false,
            broken: None,
            begin: 0,
            member: 0,
            before: 0,
            gzip: Inflater::default(),
            zstd: Frames::default(),
            scout: Inflater::default(),
        }
    }

    /// The window from which the bytes of the stretch are read.
    fn view(&mut self) -> &mut Window {
        match self.coding {
            Coding::Plain => &mut self.raw,
            Coding::Gzip | Coding::Zstd => &mut self.plain,
        }
    }

    /// The bytes of the stretch that are there and unread.
    pub(super) fn unread(&self) -> &[u8] {
        match self.coding {
            Coding::Plain => self.raw.unread(),
            Coding::Gzip | Coding::Zstd => self.plain.unread(),
        }
    }

    /// Takes bytes of the stretch as read.
    pub(super) fn consume(&mut self, n: usize) {
        self.view().consume(n);
    }

    /// The position within the stretch; in a file without compression within the file.
    pub(super) fn position(&self) -> u64 {
        match self.coding {
            Coding::Plain => self.raw.position(),
            Coding::Gzip | Coding::Zstd => self.plain.position(),
        }
    }

    /// What stands before the position is not returned to.
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

    pub(super) fn is_compressed(&self) -> bool {
        self.coding != Coding::Plain
    }

    /// Whether a record was found.
    pub(super) fn is_known(&self) -> bool {
        self.seen.is_some()
    }

    /// Whether the compressed data of the stretch were damaged.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// A record was found: the rest of the file is compressed as this stretch is.
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
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Reads until so many bytes of the file are there; `false` if it ends before.
    fn want(&mut self, length: usize) -> io::Result<bool> {
        while self.raw.unread().len() < length {
            if !self.read()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Begins the stretch at the present place of the file.
    pub(super) fn start(&mut self) -> io::Result<Start> {
        self.broken = None;
        self.open = false;
        loop {
            self.raw.mark();
            self.before = self.raw.position();
            if self.raw.unread().is_empty() && !self.read()? {
                return Ok(Start::End);
            }
            let begin = self.raw.position();
            let coding = match (
                gzip::header(self.raw.unread()),
                zstd::frame(self.raw.unread()),
            ) {
                (Header::Whole(length), _) => {
                    self.raw.consume(length);
                    self.gzip.begin();
                    Coding::Gzip
                }
                (_, Frame::Data) => {
                    if let Err(why) = self.zstd.begin() {
                        return Ok(Start::Garbage(why));
                    }
                    Coding::Zstd
                }
                (_, Frame::Skippable(length)) => {
                    if !self.skip(8 + length)? {
                        return Ok(Start::Garbage(Why::Truncated));
                    }
                    continue;
                }
                (_, Frame::Dictionary(length)) => match self.take_dictionary(length)? {
                    Ok(()) => continue,
                    Err(why) => return Ok(Start::Garbage(why)),
                },
                (Header::Part, _) | (_, Frame::Part) if self.read()? => continue,
                _ => match self.seen {
                    None | Some(Coding::Plain) => Coding::Plain,
                    Some(_) => return Ok(Start::Garbage(self.garbage())),
                },
            };
            (self.begin, self.member, self.coding) = (begin, begin, coding);
            self.open = coding != Coding::Plain;
            self.plain.restart();
            return Ok(Start::Stretch);
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
    pub(super) fn more(&mut self) -> Result<More, Fault> {
        if self.coding == Coding::Plain {
            let more = self.read()?;
            return Ok(if more { More::Bytes } else { More::End });
        }
        if let Some(why) = self.broken {
            return Err(Fault::Damage(why));
        }
        let done = self.decompress();
        if let Err(Fault::Damage(why)) = done {
            self.broken = Some(why);
        }
        done
    }

    fn decompress(&mut self) -> Result<More, Fault> {
        while self.open {
            self.before = self.raw.position();
            let output = self.plain.room(CHUNK);
            let input = self.raw.unread();
            let step = match self.coding {
                Coding::Zstd => self.zstd.step(input, output),
                Coding::Gzip | Coding::Plain => self.gzip.step(input, output),
            };
            let Step {
                read,
                written,
                ended,
            } = step.map_err(Fault::Damage)?;
            // Both decompressors go on as long as there is input and room.
            let is_stuck = !ended && read == 0 && written == 0;
            if is_stuck && !input.is_empty() {
                return Err(Fault::Damage(Why::Compression));
            }
            self.raw.consume(read);
            self.plain.filled(written);
            if ended {
                self.open = false;
                if self.coding == Coding::Gzip {
                    self.trailer()?;
                }
            }
            if written > 0 {
                return Ok(More::Bytes);
            }
            if is_stuck && !self.read()? {
                return Err(Fault::Damage(Why::Truncated));
            }
        }
        Ok(More::End)
    }

    fn trailer(&mut self) -> Result<(), Fault> {
        if !self.want(gzip::TRAILER)? {
            return Err(Fault::Damage(Why::Truncated));
        }
        let trailer = self.raw.unread().first_chunk().copied();
        self.raw.consume(gzip::TRAILER);
        let right = trailer.ok_or(Why::Truncated);
        let right = right.and_then(|trailer| self.gzip.check(trailer));
        right.map_err(Fault::Damage)
    }

    /// Lengthens the stretch by the next member, unless a record begins there.
    pub(super) fn lengthen(&mut self, formats: Formats) -> io::Result<bool> {
        if self.coding == Coding::Plain || self.open || self.broken.is_some() {
            return Ok(false);
        }
        let member = self.raw.position();
        if self.probe(self.coding, formats)? != Probe::Other {
            return Ok(false);
        }
        match (self.coding, gzip::header(self.raw.unread())) {
            (Coding::Gzip, Header::Whole(length)) => {
                self.raw.consume(length);
                self.gzip.begin();
            }
            (Coding::Zstd, _) if self.zstd.begin().is_ok() => {}
            _ => return Ok(false),
        }
        self.member = member;
        self.open = true;
        Ok(true)
    }

    /// Looks at what begins at the present place of the file.
    fn probe(&mut self, coding: Coding, formats: Formats) -> io::Result<Probe> {
        self.want(PROBE)?;
        let bytes = self.raw.unread();
        let bytes = bytes.get(..PROBE).unwrap_or(bytes);
        let mut output = [0; PROBED];
        let written = match coding {
            Coding::Plain => None,
            Coding::Gzip => match gzip::header(bytes) {
                Header::Whole(length) => {
                    self.scout.begin();
                    let input = bytes.get(length..).unwrap_or_default();
                    try_out(input, &mut output, |i, o| self.scout.step(i, o))
                }
                Header::Part | Header::Not => None,
            },
            Coding::Zstd if zstd::frame(bytes) == Frame::Data => {
                let mut scout = self.zstd.scout();
                let begun = scout.begin().ok();
                begun.and_then(|()| try_out(bytes, &mut output, |i, o| scout.step(i, o)))
            }
            Coding::Zstd => None,
        };
        Ok(match written.and_then(|n| output.get(..n)) {
            None => Probe::Nothing,
            Some(bytes) if head::is_plausible(bytes, formats) => Probe::Record,
            Some(_) => Probe::Other,
        })
    }

    /// Whether the present place of the file is its end, or a member in which a record
    /// begins.
    pub(super) fn is_at_start(&mut self, formats: Formats) -> io::Result<bool> {
        if self.raw.unread().is_empty() && !self.read()? {
            return Ok(true);
        }
        let coding = self.seen.unwrap_or(self.coding);
        Ok(self.probe(coding, formats)? == Probe::Record)
    }

    /// The first byte behind that of the member in which damage was found.
    pub(super) fn behind_member(&self) -> u64 {
        self.member + 1
    }

    /// Looks in the file for the next place where a record begins, from `from` on, and goes
    /// there, or to the end.
    pub(super) fn seek(&mut self, from: u64, formats: Formats) -> io::Result<()> {
        /// What a place is recognised by, or less.
        const OVERLAP: usize = 40;
        // What a file begins with says how it is compressed, even if nothing of that can be
        // decompressed: text that compression left as it is must not be taken for records.
        let begins = self.is_compressed() && self.begin == 0;
        let seen = self.seen.or(Some(self.coding).filter(|_| begins));
        self.raw.rewind(from);
        self.open = false;
        loop {
            self.raw.mark();
            if let Some((at, coding)) = candidate(self.raw.unread(), seen, formats) {
                self.raw.consume(at);
                let is_record = match coding {
                    Coding::Plain => self.is_head(formats)?,
                    _ => self.probe(coding, formats)? == Probe::Record,
                };
                if is_record {
                    return Ok(());
                }
                self.raw.consume(1);
                continue;
            }
            let there = self.raw.unread().len();
            if self.read()? {
                self.raw.consume(there.saturating_sub(OVERLAP));
            } else {
                self.raw.consume(there);
                return Ok(());
            }
        }
    }

    /// Whether a whole head stands at the present place of the file.
    fn is_head(&mut self, formats: Formats) -> io::Result<bool> {
        loop {
            match head::parse(self.raw.unread(), formats) {
                Parsed::Head(..) => return Ok(true),
                Parsed::Not(_) => return Ok(false),
                Parsed::Part => {
                    if !self.read()? {
                        return Ok(false);
                    }
                }
            }
        }
    }
}

/// What begins at a place of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    /// A member that begins with a record.
    Record,
    /// A member that begins otherwise.
    Other,
    /// Nothing that can be decompressed.
    Nothing,
}

/// Decompresses the beginning of a member; `None` if it is none.
fn try_out(
    mut input: &[u8],
    output: &mut [u8],
    mut step: impl FnMut(&[u8], &mut [u8]) -> Result<Step, Why>,
) -> Option<usize> {
    let mut written = 0;
    loop {
        let step = step(input, output.get_mut(written..)?).ok()?;
        input = input.get(step.read..)?;
        written += step.written;
        if step.ended || written == output.len() || (step.read, step.written) == (0, 0) {
            return Some(written);
        }
    }
}

/// The first place where a record may begin, and how it would be compressed there.
fn candidate(bytes: &[u8], seen: Option<Coding>, formats: Formats) -> Option<(usize, Coding)> {
    let search = |coding: Coding| match coding {
        Coding::Plain => head::find(bytes, 0, formats),
        Coding::Gzip => memmem::find(bytes, &gzip::MAGIC),
        Coding::Zstd => memmem::find(bytes, &zstd::MAGIC),
    };
    let all = [Coding::Gzip, Coding::Zstd, Coding::Plain];
    let tried = all
        .into_iter()
        .filter(|c| seen.is_none_or(|seen| seen == *c));
    let found = tried.filter_map(|coding| Some((search(coding)?, coding)));
    found.min_by_key(|(at, _)| *at)
}
