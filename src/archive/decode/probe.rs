//! Looks ahead in a file without reading on: whether a record begins there, and where the
//! next one begins.

use std::io::{self, Read};

use memchr::memmem;

use super::super::gap::Why;
use super::super::gzip::{self, Header, InflateStep};
use super::super::head::{self, Formats, ParsedHead};
use super::super::zstd::{self, Frame};
use super::{ArchiveDecoder, MemberCoding};

/// The number of compressed bytes that are examined to see whether a record begins.
const PROBE: usize = 16 << 10;
/// The number of decompressed bytes that are examined for the same.
const PROBED: usize = 2 << 10;

impl<R: Read> ArchiveDecoder<R> {
    /// Extends the stretch by the next member, unless a record begins there.
    pub(crate) fn lengthen(&mut self, formats: Formats) -> io::Result<bool> {
        if self.coding == MemberCoding::Plain || self.open || self.broken.is_some() {
            return Ok(false);
        }
        let member = self.raw.position();
        if self.probe(self.coding, formats)? != Probe::Other {
            return Ok(false);
        }
        match (self.coding, gzip::header(self.raw.unread())) {
            (MemberCoding::Gzip, Header::Whole(length)) => {
                self.raw.consume(length);
                self.gzip.begin();
            }
            (MemberCoding::Zstd, _) if self.zstd.begin().is_ok() => {}
            _ => return Ok(false),
        }
        self.member = member;
        self.open = true;
        Ok(true)
    }

    /// Examines what begins at the present place of the file.
    fn probe(&mut self, coding: MemberCoding, formats: Formats) -> io::Result<Probe> {
        self.want(PROBE)?;
        let bytes = self.raw.unread();
        let bytes = bytes.get(..PROBE).unwrap_or(bytes);
        let mut output = [0; PROBED];
        let written = match coding {
            MemberCoding::Plain => None,
            MemberCoding::Gzip => match gzip::header(bytes) {
                Header::Whole(length) => {
                    self.scout.begin();
                    let input = bytes.get(length..).unwrap_or_default();
                    try_out(input, &mut output, |i, o| self.scout.step(i, o))
                }
                Header::Part | Header::Not => None,
            },
            MemberCoding::Zstd if zstd::frame(bytes) == Frame::Data => {
                let mut scout = self.zstd.scout();
                let begun = scout.begin().ok();
                begun.and_then(|()| try_out(bytes, &mut output, |i, o| scout.step(i, o)))
            }
            MemberCoding::Zstd => None,
        };
        Ok(match written.and_then(|n| output.get(..n)) {
            None => Probe::Nothing,
            Some(bytes) if head::is_plausible(bytes, formats) => Probe::Record,
            Some(_) => Probe::Other,
        })
    }

    /// Whether the present place of the file is its end, or a member in which a record
    /// begins.
    pub(crate) fn is_at_start(&mut self, formats: Formats) -> io::Result<bool> {
        if self.raw.unread().is_empty() && !self.read()? {
            return Ok(true);
        }
        let coding = self.seen.unwrap_or(self.coding);
        Ok(self.probe(coding, formats)? == Probe::Record)
    }

    /// The byte after the first one of the member in which damage was found.
    pub(crate) fn behind_member(&self) -> u64 {
        self.member + 1
    }

    /// Searches the file from `from` on for the next place where a record begins, and goes there,
    /// or to the end.
    pub(crate) fn seek(&mut self, from: u64, formats: Formats) -> io::Result<()> {
        /// Up to as many bytes as are needed to recognise a place.
        const OVERLAP: usize = 40;
        // The first bytes of a file say how it is compressed, even if they cannot be decompressed:
        // text that the compression left unchanged must not be taken for records.
        let begins = self.is_compressed() && self.begin == 0;
        let seen = self.seen.or(Some(self.coding).filter(|_| begins));
        self.raw.rewind(from);
        self.open = false;
        loop {
            self.raw.mark();
            if let Some((at, coding)) = candidate(self.raw.unread(), seen, formats) {
                self.raw.consume(at);
                let is_record = match coding {
                    MemberCoding::Plain => self.is_head(formats)?,
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

    /// Whether a complete head is at the present place of the file.
    fn is_head(&mut self, formats: Formats) -> io::Result<bool> {
        loop {
            match head::parse(self.raw.unread(), formats) {
                ParsedHead::Head(..) => return Ok(true),
                ParsedHead::Not(_) => return Ok(false),
                ParsedHead::Part => {
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

/// Decompresses the beginning of a member; `None` if there is no member.
fn try_out(
    mut input: &[u8],
    output: &mut [u8],
    mut step: impl FnMut(&[u8], &mut [u8]) -> Result<InflateStep, Why>,
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
fn candidate(
    bytes: &[u8],
    seen: Option<MemberCoding>,
    formats: Formats,
) -> Option<(usize, MemberCoding)> {
    let search = |coding: MemberCoding| match coding {
        MemberCoding::Plain => head::find(bytes, 0, formats),
        MemberCoding::Gzip => memmem::find(bytes, &gzip::MAGIC),
        MemberCoding::Zstd => memmem::find(bytes, &zstd::MAGIC),
    };
    let all = [MemberCoding::Gzip, MemberCoding::Zstd, MemberCoding::Plain];
    let tried = all
        .into_iter()
        .filter(|c| seen.is_none_or(|seen| seen == *c));
    let found = tried.filter_map(|coding| Some((search(coding)?, coding)));
    found.min_by_key(|(at, _)| *at)
}
