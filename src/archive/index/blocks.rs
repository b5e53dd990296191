//! Writes an index as compressed blocks of lines, and the small index of these, in the form
//! that other programs read: see [`lookup`](crate::lookup).

use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use sha2::{Digest, Sha256};

/// The number of lines in a block, as in `wacz`.
const LINES: usize = 1_024;

/// The name of the small index of an index of blocks; `None` if the name does not end in
/// `.cdx.gz` or `.cdxj.gz`.
pub fn small_index_of(index: &Path) -> Option<PathBuf> {
    let name = index.file_name()?.to_str()?;
    let bare = name
        .strip_suffix(".cdx.gz")
        .or_else(|| name.strip_suffix(".cdxj.gz"))?;
    Some(index.with_file_name(format!("{bare}.idx")))
}

/// Receives lines and writes blocks.
pub(super) struct Blocks<W: Write, I: Write> {
    blocks: W,
    small: BufWriter<I>,
    /// The lines of the unfinished block, and an incomplete line.
    lines: Vec<u8>,
    count: usize,
    offset: u64,
}

impl<W: Write, I: Write> Blocks<W, I> {
    /// `name` is that of the file of blocks.
    pub fn new(blocks: W, small: I, name: &str) -> io::Result<Self> {
        let mut small = BufWriter::new(small);
        let about = json!({"format": "cdxj-gzip-1.0", "filename": name});
        writeln!(small, "!meta 0 {about}")?;
        Ok(Self {
            blocks,
            small,
            lines: Vec::new(),
            count: 0,
            offset: 0,
        })
    }

    fn end_block(&mut self) -> io::Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let mut member = GzEncoder::new(Vec::new(), Compression::default());
        member.write_all(&self.lines)?;
        let member = member.finish()?;
        self.blocks.write_all(&member)?;
        let first = self.lines.split(|byte| *byte == b'{').next();
        let first = String::from_utf8_lossy(first.unwrap_or_default());
        let place = json!({
            "offset": self.offset,
            "length": member.len(),
            "digest": format!("sha256:{}", hex(&Sha256::digest(&member))),
        });
        writeln!(self.small, "{} {place}", first.trim_end())?;
        self.offset += member.len() as u64;
        self.lines.clear();
        self.count = 0;
        Ok(())
    }

    /// Writes the rest; returns both files.
    pub fn finish(mut self) -> io::Result<(W, I)> {
        self.end_block()?;
        let small = self.small.into_inner();
        Ok((self.blocks, small.map_err(io::IntoInnerError::into_error)?))
    }
}

impl<W: Write, I: Write> Write for Blocks<W, I> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut rest = bytes;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, behind) = rest.split_at(end + 1);
            self.lines.extend_from_slice(line);
            rest = behind;
            self.count += 1;
            if self.count == LINES {
                self.end_block()?;
            }
        }
        self.lines.extend_from_slice(rest);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes the sorted lines of an index as blocks. `name` is that of the file of blocks.
/// Returns both files.
pub(crate) fn in_blocks<W: Write, I: Write>(
    lines: &mut impl io::Read,
    blocks: W,
    small: I,
    name: &str,
) -> io::Result<(W, I)> {
    let mut out = Blocks::new(blocks, small, name)?;
    io::copy(lines, &mut out)?;
    out.finish()
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string does not fail.
        write!(text, "{byte:02x}").ok();
    }
    text
}
