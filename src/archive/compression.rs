//! How the records of an archive are compressed.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use flate2::Crc;
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use super::gzip;
use super::zstd::{DICTIONARY, MAX_DICTIONARY};
use crate::fs::{IoError, packed};
use crate::tool_error::ToolError;

/// The zstd level. The default, 3, takes half as long again and saves 4 %.
const ZSTD_LEVEL: i32 = 1;

/// How records are compressed, each by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Compression {
    /// As gzip members, which every program reads.
    #[default]
    Gzip,
    /// As zstd frames (RFC 8878), which are smaller, but few programs read them yet.
    Zstd(Option<Dictionary>),
}

/// Common parts of many records, so that zstd frames need not contain them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dictionary(Arc<[u8]>);

impl Dictionary {
    /// Reads a dictionary as `zstd --train` makes it (RFC 8878 section 5).
    ///
    /// # Errors
    ///
    /// [`ToolError`] names the file.
    pub fn open(path: &Path) -> Result<Self, ToolError> {
        let other = || {
            let why = "not a dictionary of zstd of at most 16 MB; make one from pages with \
                       `zstd --train`";
            ToolError::at(path, why)
        };
        let length = path.metadata().map_err(IoError::at(path, "opening"))?.len();
        if length > MAX_DICTIONARY as u64 {
            return Err(other());
        }
        let bytes = crate::fs::read(path).map_err(IoError::at(path, "reading"))?;
        let loads = bytes.starts_with(&TRAINED) && Compressor::with_dictionary(1, &bytes).is_ok();
        if loads {
            Ok(Self(bytes.into()))
        } else {
            Err(other())
        }
    }
}

/// The first bytes of a trained dictionary.
const TRAINED: [u8; 4] = [0x37, 0xA4, 0x30, 0xEC];

/// Extra capacity of a member's buffer in bytes, because the other members of its exchange are
/// appended to it.
const ROOM: usize = 4 << 10;
/// The longest stored block of deflate (RFC 1951 section 3.2.4).
const STORED: usize = 0xFFFF;

thread_local! {
    /// The dictionary of this thread's records, and its compressor.
    static ZSTD: RefCell<Option<(Option<Dictionary>, Compressor<'static>)>> =
        const { RefCell::new(None) };
}

impl Compression {
    /// The bytes of a file before its first record: the dictionary (IIPC, "WARC file
    /// compression using Zstandard", section 4).
    pub(super) fn beginning(&self) -> Vec<u8> {
        let Self::Zstd(Some(Dictionary(bytes))) = self else {
            return Vec::new();
        };
        let length = u32::try_from(bytes.len()).unwrap_or_default();
        [&DICTIONARY.to_le_bytes(), &length.to_le_bytes(), &bytes[..]].concat()
    }

    /// Compresses one record, given in parts because bodies are too long to copy them after
    /// their heads. The result contains no time, so equal records give equal bytes.
    /// `is_compressed` says that most of the record is already compressed.
    pub(super) fn packed(&self, record: &[&[u8]], is_compressed: bool) -> Vec<u8> {
        match self {
            Self::Gzip => member(record, is_compressed),
            Self::Zstd(dictionary) => frame(&record.concat(), dictionary.as_ref()),
        }
    }
}

/// A gzip member (RFC 1952) that states its length, so that indexing the file need not
/// decompress all of it.
fn member(record: &[&[u8]], is_compressed: bool) -> Vec<u8> {
    let length: usize = record.iter().map(|part| part.len()).sum();
    let room = if is_compressed {
        length + length / 1_000
    } else {
        length / 3
    };
    let mut member = Vec::with_capacity(room + ROOM);
    gzip::begin_member(&mut member);
    if is_compressed {
        store(record, length, &mut member);
    } else {
        packed::deflate(&record.concat(), &mut member);
    }
    let mut crc = Crc::new();
    record.iter().for_each(|part| crc.update(part));
    member.extend_from_slice(&crc.sum().to_le_bytes());
    member.extend_from_slice(&crc.amount().to_le_bytes());
    gzip::state_length(&mut member);
    member
}

fn store(record: &[&[u8]], length: usize, to: &mut Vec<u8>) {
    let mut left = length;
    // The remaining bytes of the open block.
    let mut open = 0;
    for part in record {
        let mut part = *part;
        while !part.is_empty() {
            if open == 0 {
                open = left.min(STORED);
                left -= open;
                let bytes = u16::try_from(open).unwrap_or(u16::MAX);
                to.push(u8::from(left == 0));
                to.extend_from_slice(&bytes.to_le_bytes());
                to.extend_from_slice(&(!bytes).to_le_bytes());
            }
            let (now, rest) = part.split_at(part.len().min(open));
            to.extend_from_slice(now);
            open -= now.len();
            part = rest;
        }
    }
}

/// A frame of zstd with a checksum.
fn frame(record: &[u8], dictionary: Option<&Dictionary>) -> Vec<u8> {
    ZSTD.with_borrow_mut(|own| {
        if own
            .as_ref()
            .is_none_or(|(own, _)| own.as_ref() != dictionary)
        {
            *own = compressor(dictionary).map(|made| (dictionary.cloned(), made));
        }
        let packed = own.as_mut().map(|(_, own)| own.compress(record));
        // Compressing in memory does not fail, and the dictionary was loaded before.
        packed.and_then(Result::ok).unwrap_or_default()
    })
}

fn compressor(dictionary: Option<&Dictionary>) -> Option<Compressor<'static>> {
    let bytes = dictionary.map_or(&[][..], |Dictionary(bytes)| bytes);
    let mut made = Compressor::with_dictionary(ZSTD_LEVEL, bytes).ok()?;
    made.set_parameter(CParameter::ChecksumFlag(true)).ok()?;
    Some(made)
}
