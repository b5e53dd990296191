//! Gzip members (RFC 1952).

use flate2::{Crc, Decompress, FlushDecompress, Status};
use memchr::memchr;

use super::gap::Why;

/// The first bytes of every member: two bytes of magic, and deflate as its method.
pub(super) const MAGIC: [u8; 3] = [0x1F, 0x8B, 8];
/// The length of the trailer after the compressed data: checksum and length.
pub(super) const TRAILER: usize = 8;
/// The longest header; its name and comment have no other limit.
const MAX_HEADER: usize = 70 << 10;

/// The kind of data at the beginning of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Header {
    /// A header of this many bytes.
    Whole(usize),
    /// A part of a header.
    Part,
    /// Something else.
    Not,
}

/// Reads the header of a member.
pub(super) fn header(bytes: &[u8]) -> Header {
    const FIXED: usize = 10;
    let begin = bytes.get(..MAGIC.len()).unwrap_or(bytes);
    if !MAGIC.starts_with(begin) {
        return Header::Not;
    }
    let Some(flags) = bytes.get(3) else {
        return Header::Part;
    };
    // Reserved bits must be zero.
    if flags & 0xE0 != 0 {
        return Header::Not;
    }
    match rest_of_header(bytes, *flags, FIXED) {
        Some(end) if end <= bytes.len() => Header::Whole(end),
        _ if bytes.len() > MAX_HEADER => Header::Not,
        _ => Header::Part,
    }
}

/// The end of the header; `None` if its length is not known yet.
fn rest_of_header(bytes: &[u8], flags: u8, mut end: usize) -> Option<usize> {
    const CHECK: u8 = 2;
    const EXTRA: u8 = 4;
    const NAME: u8 = 8;
    const COMMENT: u8 = 16;
    if flags & EXTRA != 0 {
        let length = bytes.get(end..end + 2)?;
        let [low, high] = length.try_into().ok()?;
        end += 2 + usize::from(u16::from_le_bytes([low, high]));
    }
    for field in [NAME, COMMENT] {
        if flags & field != 0 {
            end += memchr(0, bytes.get(end..)?)? + 1;
        }
    }
    if flags & CHECK != 0 {
        end += 2;
    }
    Some(end)
}

/// The subfield of a header that states the length of its member: its name from drafts of
/// WARC ("skip-lengths"), and four bytes.
const LENGTH: [u8; 4] = [b's', b'l', 4, 0];
/// The header of a member that states its length: deflate, the flag for extra fields, no
/// time, no further hints, an unknown system, and eight bytes of extra fields.
const STATED: [u8; 12] = [0x1F, 0x8B, 8, 4, 0, 0, 0, 0, 0, 255, 8, 0];

/// Begins a member that will state its length.
pub(super) fn begin_member(member: &mut Vec<u8>) {
    member.extend_from_slice(&STATED);
    member.extend_from_slice(&LENGTH);
    member.extend_from_slice(&[0; 4]);
}

/// Writes its length into a complete member. If the length does not fit, it stays zero.
pub(super) fn state_length(member: &mut [u8]) {
    let length = u32::try_from(member.len()).unwrap_or_default();
    let at = STATED.len() + LENGTH.len();
    if let Some(field) = member.get_mut(at..at + 4) {
        field.copy_from_slice(&length.to_le_bytes());
    }
}

/// The length of the member that begins with `bytes`, and that of its header, if it states
/// its length as [`begin_member`] does.
pub(super) fn stated_length(bytes: &[u8]) -> Option<(u64, usize)> {
    let rest = bytes.strip_prefix(&STATED)?.strip_prefix(&LENGTH)?;
    let length = u32::from_le_bytes(*rest.first_chunk()?);
    let header = STATED.len() + LENGTH.len() + 4;
    let least = u64::try_from(header + TRAILER).ok()?;
    (u64::from(length) > least).then_some((length.into(), header))
}

/// The progress of one step of decompression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InflateStep {
    /// Bytes taken from the input.
    pub(super) read: usize,
    /// Bytes written to the output.
    pub(super) written: usize,
    /// The compressed data ended.
    pub(super) ended: bool,
}

/// Decompresses the data of one member after another.
#[derive(Debug)]
pub(super) struct Inflater {
    inflate: Decompress,
    crc: Crc,
}

impl Default for Inflater {
    fn default() -> Self {
        Self {
            inflate: Decompress::new(false),
            crc: Crc::new(),
        }
    }
}

impl Inflater {
    /// Begins a member, after its header.
    pub(super) fn begin(&mut self) {
        self.inflate.reset(false);
        self.crc.reset();
    }

    /// Decompresses as much as fits into `output`.
    pub(super) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<InflateStep, Why> {
        let before = (self.inflate.total_in(), self.inflate.total_out());
        let status = self
            .inflate
            .decompress(input, output, FlushDecompress::None);
        let status = status.map_err(|_| Why::Compression)?;
        let count = |now: u64, before: u64| usize::try_from(now - before).unwrap_or_default();
        let written = count(self.inflate.total_out(), before.1);
        self.crc.update(output.get(..written).unwrap_or_default());
        Ok(InflateStep {
            read: count(self.inflate.total_in(), before.0),
            written,
            ended: status == Status::StreamEnd,
        })
    }

    /// Verifies the checksum and the length after the data.
    pub(super) fn check(&self, trailer: [u8; TRAILER]) -> Result<(), Why> {
        let [a, b, c, d, e, f, g, h] = trailer;
        let stated = (
            u32::from_le_bytes([a, b, c, d]),
            u32::from_le_bytes([e, f, g, h]),
        );
        if stated == (self.crc.sum(), self.crc.amount()) {
            Ok(())
        } else {
            Err(Why::Checksum)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, GzBuilder};

    use super::*;

    #[test]
    fn a_member_states_its_length() {
        let mut member = Vec::new();
        begin_member(&mut member);
        let header_length = member.len();
        assert_eq!(header(&member), Header::Whole(header_length));
        assert_eq!(stated_length(&member), None);
        member.extend([1; 100]);
        state_length(&mut member);
        let length = u64::try_from(member.len()).unwrap();
        assert_eq!(stated_length(&member), Some((length, header_length)));
        assert_eq!(stated_length(&member[..header_length - 1]), None);
        member[12] = b'x';
        assert_eq!(stated_length(&member), None);
    }

    #[test]
    fn headers_of_every_form() {
        let plain = GzBuilder::new().write(Vec::new(), Compression::fast());
        let full = GzBuilder::new()
            .extra(vec![7; 300])
            .filename("a.warc")
            .comment("b");
        for mut writer in [plain, full.write(Vec::new(), Compression::fast())] {
            writer.write_all(b"text").unwrap();
            let bytes = writer.finish().unwrap();
            let Header::Whole(length) = header(&bytes) else {
                panic!("{:?}", header(&bytes));
            };
            for n in 0..length {
                assert_eq!(header(&bytes[..n]), Header::Part, "{n} of {length}");
            }
            let mut inflater = Inflater::default();
            let mut out = [0; 10];
            inflater.begin();
            let step = inflater.step(&bytes[length..], &mut out).unwrap();
            assert!(step.ended && out.starts_with(b"text") && step.written == 4);
            let trailer = &bytes[length + step.read..];
            assert_eq!(inflater.check(trailer.try_into().unwrap()), Ok(()));
            assert_eq!(inflater.check([0; 8]), Err(Why::Checksum));
        }
        assert_eq!(header(b"\x1f\x8b\x07"), Header::Not);
        assert_eq!(header(b"\x1f\x8b\x08\xe0"), Header::Not);
        let endless = [b"\x1f\x8b\x08\x08\0\0\0\0\0\0".as_slice(), &[b'a'; 80_000]].concat();
        assert_eq!(header(&endless), Header::Not);
    }
}
