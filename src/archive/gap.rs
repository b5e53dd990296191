//! The parts of a file that could not be read, and why.

use std::{fmt, io};

use serde::Serialize;

/// The place of a record or a gap.
///
/// Usually these are bytes of the file: a compressed member that holds one record, or the
/// record itself in a file without compression. If several records share one compressed
/// member, `inside` is set; then `offset` is where that member begins, and `inside` and
/// `length` count the bytes that come out of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct RecordSpan {
    /// The first byte, counted from the beginning of the file.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
    /// The first byte in the decompressed contents of what begins at `offset`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside: Option<u64>,
}

/// A part of a file from which no whole record was returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// Where: from the first byte that is lost to the next good record, or to the end.
    #[serde(flatten)]
    pub place: RecordSpan,
    /// Why.
    pub why: Why,
}

impl Gap {
    /// One sentence for people, with the name of the file.
    pub fn describe(&self, file: impl fmt::Display) -> String {
        let (offset, why) = (self.place.offset, self.why.text());
        format!("{file}, byte {offset}: {why}; `spoor archive check` shows more")
    }
}

/// Why a part of a file could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// The file ends within a record.
    Truncated,
    /// The compressed data are damaged (RFC 1951, RFC 8878).
    Compression,
    /// The checksum or the length after the compressed data differs (RFC 1952 section 2.3.1).
    Checksum,
    /// There is a run of zeros where a record should begin.
    Zeros,
    /// No record begins there.
    NoRecord,
    /// The head of a record is malformed.
    Head,
    /// The head of a record is longer than any sensible one.
    HeadTooLong,
    /// The head of a record has no usable length.
    NoLength,
    /// The record does not end where its length says.
    Length,
    /// The line ends between two records are not those that ISO 28500 section 4 prescribes.
    /// Both records are returned. A file whose records all end this way gets a single gap.
    Separator,
    /// The dictionary of a zstd file is damaged, missing, or too large.
    Dictionary,
}

impl Why {
    /// A few words, for tables.
    pub fn text(self) -> &'static str {
        match self {
            Self::Truncated => "the file ends within a record",
            Self::Compression => "damaged compression",
            Self::Checksum => "wrong checksum of the compression",
            Self::Zeros => "zeros",
            Self::NoRecord => "no record begins here",
            Self::Head => "malformed head of a record",
            Self::HeadTooLong => "head of a record too long",
            Self::NoLength => "no usable length",
            Self::Length => "wrong length of a record",
            Self::Separator => "wrong line ends after a record",
            Self::Dictionary => "damaged or missing dictionary",
        }
    }

    /// The error that the reader of a block gets.
    pub(super) fn error(self) -> io::Error {
        let kind = match self {
            Self::Truncated => io::ErrorKind::UnexpectedEof,
            _ => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, Damaged(self))
    }
}

/// The record that is being read is damaged: the bytes read so far are incomplete, or differ
/// from those written. The reader continues with the next record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the record cannot be read to its end: {}", .0.text())]
pub struct Damaged(pub Why);

/// Why a step of reading failed.
#[derive(Debug)]
pub(super) enum ReadFault {
    /// The operating system reported an error; nothing can be read any more.
    Io(io::Error),
    /// The file is damaged here.
    Damage(Why),
}

impl From<io::Error> for ReadFault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
