//! The lines of a file whose members state their lengths, as spoor writes them: only the heads
//! of the records are read, and the bytes between them are skipped. It takes a tenth of the
//! time of reading the whole file.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use super::lines::{answered, begun, has_head};
use crate::cdxj::CdxjLine;
use crate::digest::http_head_end;
use crate::fs::IoError;
use crate::gap::RecordSpan;
use crate::gzip::{Inflater, stated_length};
use crate::head::{self, Formats, ParsedHead};
use crate::http::Response;

/// The number of bytes of a member that are read for its heads, and the most decompressed
/// bytes of heads.
const READ: usize = 8 << 10;
const HEADS: usize = 32 << 10;
/// The number of bytes of heads that are tried first: nearly all heads need no more.
const FIRST: usize = 3 << 10;

/// Calls `each` with the lines of a file, which name it `name`. Returns whether they are
/// complete; if not, the file has to be read whole, because a member does not state its length
/// or its heads are too long.
///
/// # Errors
///
/// [`IoError`] if the file cannot be read, or the error of `each`.
pub(super) fn each_stated(
    path: &Path,
    name: &str,
    mut each: impl FnMut(CdxjLine) -> Result<(), IoError>,
) -> Result<bool, IoError> {
    let mut file = crate::fs::open(path).map_err(IoError::at(path, "opening"))?;
    let end = file.metadata().map_err(IoError::at(path, "reading"))?.len();
    let mut heads = MemberStart::new(path);
    let mut offset = 0;
    while offset < end {
        let begin = heads.read(&mut file, offset);
        begin.map_err(IoError::at(path, "reading"))?;
        let Some(length) = heads.member(end - offset) else {
            return Ok(false);
        };
        match heads.line(name) {
            MemberHeads::Line(mut line) => {
                line.place = Some(RecordSpan {
                    offset,
                    length,
                    inside: None,
                });
                each(*line)?;
            }
            MemberHeads::Nothing => {}
            MemberHeads::Unclear => return Ok(false),
        }
        offset += length;
    }
    Ok(offset == end)
}

/// The result of reading the heads of a member.
enum MemberHeads {
    Line(Box<CdxjLine>),
    /// The record is not indexed.
    Nothing,
    /// The heads are damaged, or longer than what was read.
    Unclear,
}

/// The beginning of a member.
struct MemberStart {
    file: Arc<Path>,
    inflater: Inflater,
    raw: Vec<u8>,
    /// The end of the member's header in `raw`.
    header: usize,
    plain: Vec<u8>,
}

impl MemberStart {
    fn new(path: &Path) -> Self {
        Self {
            file: path.into(),
            inflater: Inflater::default(),
            raw: Vec::with_capacity(READ),
            header: 0,
            plain: vec![0; HEADS],
        }
    }

    fn read(&mut self, file: &mut File, offset: u64) -> std::io::Result<()> {
        self.raw.clear();
        file.seek(SeekFrom::Start(offset))?;
        file.take(READ as u64).read_to_end(&mut self.raw)?;
        Ok(())
    }

    /// The length of the member, if it states one that the rest of the file has room for.
    fn member(&mut self, left: u64) -> Option<u64> {
        let (length, header) = stated_length(&self.raw)?;
        self.header = header;
        (length <= left).then_some(length)
    }

    fn line(&mut self, name: &str) -> MemberHeads {
        match self.line_within(name, FIRST) {
            MemberHeads::Unclear => self.line_within(name, HEADS),
            found => found,
        }
    }

    /// The line from the first `limit` bytes of the member's contents.
    fn line_within(&mut self, name: &str, limit: usize) -> MemberHeads {
        let data = self.raw.get(self.header..).unwrap_or_default();
        self.inflater.begin();
        let room = self.plain.get_mut(..limit).unwrap_or_default();
        let Ok(step) = self.inflater.step(data, room) else {
            return MemberHeads::Unclear;
        };
        let plain = self.plain.get(..step.written).unwrap_or_default();
        let ParsedHead::Head(head, length) = head::parse(plain, Formats::default()) else {
            return MemberHeads::Unclear;
        };
        let record = head.at(self.file.clone(), 0, None);
        let Some(mut line) = begun(&record, name) else {
            return MemberHeads::Nothing;
        };
        if line.digest.is_none() {
            // It is that of all bytes.
            return MemberHeads::Unclear;
        }
        if has_head(&record) {
            let block = plain.get(length..).unwrap_or_default();
            if http_head_end(block).is_none() {
                return MemberHeads::Unclear;
            }
            if let Ok(head) = Response::head(block) {
                answered(&mut line, &record, &head);
            }
        }
        MemberHeads::Line(Box::new(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::each_line;
    use crate::page::Wire;
    use crate::writer::{Compression, Packed, beginning};

    fn packed(n: usize, head: &str, body: &[u8]) -> Packed {
        let wire = Wire {
            asked: 1_767_323_045_678,
            ip: None,
            protocol: "http/1.1",
            status: 200,
            request: b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            response: format!("HTTP/1.1 200 OK\r\n{head}\r\n").into_bytes(),
            body: body.to_vec().into(),
            truncated: false,
            is_compressed: n % 2 == 1,
        };
        Packed::of(&format!("http://a.test/{n}"), &wire, &Compression::Gzip)
    }

    fn archive() -> Vec<u8> {
        let mut all = beginning(
            "a.warc.gz",
            0,
            &[("software", "spoor".to_owned())],
            &Compression::Gzip,
        );
        let noise: Vec<u8> = (0_u32..90_000)
            .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        for (n, body) in [&b""[..], b"short", &noise, &[b'x'; 70_000]]
            .into_iter()
            .enumerate()
        {
            let packed = packed(n, "Content-Type: text/html\r\n", body);
            let via = ("via", "http://a.test/".to_owned());
            all.extend(packed.clone().members(None, &[via]));
            let original = packed.original();
            all.extend(packed.members(Some(&original), &[]));
        }
        all
    }

    fn whole(path: &Path) -> Vec<CdxjLine> {
        let mut lines = Vec::new();
        let file = File::open(path).unwrap();
        let add = |line| {
            lines.push(line);
            Ok(true)
        };
        each_line(file, path, "a", |_| {}, add).unwrap();
        lines
    }

    fn stated(path: &Path) -> Option<Vec<CdxjLine>> {
        let mut lines = Vec::new();
        let add = |line| {
            lines.push(line);
            Ok(())
        };
        each_stated(path, "a", add).unwrap().then_some(lines)
    }

    #[test]
    fn heads_give_the_lines_that_reading_gives() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.warc.gz");
        let all = archive();
        std::fs::write(&path, &all).unwrap();
        let lines = stated(&path).unwrap();
        assert_eq!(lines.len(), 8);
        assert_eq!(lines, whole(&path));

        // A truncated file, and one that continues with a member that states no length.
        std::fs::write(&path, &all[..all.len() - 1]).unwrap();
        assert_eq!(stated(&path), None);
        let foreign = [
            &all[..],
            b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x03\0\0\0\0\0\0\0\0\0",
        ]
        .concat();
        std::fs::write(&path, foreign).unwrap();
        assert_eq!(stated(&path), None);
    }

    #[test]
    fn heads_that_are_too_long_need_the_whole_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.warc.gz");
        let long = format!("X-Long: {}\r\n", "y".repeat(HEADS));
        std::fs::write(&path, packed(0, &long, b"body").members(None, &[])).unwrap();
        assert_eq!(stated(&path), None);
        assert_eq!(whole(&path).len(), 1);
    }
}
