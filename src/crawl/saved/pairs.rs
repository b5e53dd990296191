//! The pairs of a checkpoint: those of the frontier's store, and small files of the job.
//!
//! A piece is a zstd frame with records as in [`crate::frontier::store::changes`]: a key, and a
//! value, or none if the key was removed. The key of a file is its path after a byte that begins no
//! key of the frontier.

use std::io::{Read, Write as _};

use super::SaveError;
use crate::frontier::store::changes::{WriteRef, push_write, take_write};

/// The prefix of a file's key.
const FILE: u8 = 0xff;
/// The prefixes of paths below the job's folder, and below the model's.
pub(super) const JOB: &str = "job/";
pub(super) const MODEL: &str = "model/";
/// The size of a piece in bytes before compression, if its last record is small.
const PIECE: usize = if cfg!(test) { 4_000 } else { 16 << 20 };
/// The most bytes that are read of a piece; in practice the largest record has half a megabyte.
const MOST: u64 = 256 << 20;
/// The level of compression.
const LEVEL: i32 = 1;

/// The key of a file.
pub(super) fn key_of_file(place: &str, name: &str) -> Vec<u8> {
    let mut key = vec![FILE];
    key.extend_from_slice(place.as_bytes());
    key.extend_from_slice(name.as_bytes());
    key
}

/// The path of a file from its key; `None` for a key of the frontier.
pub(super) fn file_of_key(key: &[u8]) -> Option<&[u8]> {
    key.strip_prefix(&[FILE])
}

/// The first two bytes of the first and last key of a piece. As its records are sorted by key, they
/// show whether it has anything of a cell, or any files.
pub(super) type Span = (u16, u16);

/// The first two bytes of a key.
fn head(key: &[u8]) -> u16 {
    let byte = |at: usize| key.get(at).copied().unwrap_or(0);
    u16::from_be_bytes([byte(0), byte(1)])
}

/// Whether a piece may have files; one with an unknown span may have anything.
pub(super) fn may_have_files(span: Option<Span>) -> bool {
    span.is_none_or(|(_, last)| last >= u16::from_be_bytes([FILE, 0]))
}

/// Receives a piece: its bytes and its span.
pub(super) type PutPiece<'p> = dyn FnMut(Vec<u8>, Span) -> Result<(), SaveError> + 'p;

/// Groups records into pieces, and passes each to `put`.
pub(super) struct Pieces<'p> {
    raw: Vec<u8>,
    span: Option<Span>,
    put: &'p mut PutPiece<'p>,
}

impl<'p> Pieces<'p> {
    pub fn new(put: &'p mut PutPiece<'p>) -> Self {
        Self {
            raw: Vec::new(),
            span: None,
            put,
        }
    }

    /// Adds a record, whose key must sort after those before.
    pub fn add(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), SaveError> {
        let head = head(key);
        let first = self.span.map_or(head, |(first, _)| first);
        self.span = Some((first, head));
        push_write(&mut self.raw, key, value);
        if self.raw.len() >= PIECE {
            self.flush()?;
        }
        Ok(())
    }

    pub fn finish(mut self) -> Result<(), SaveError> {
        self.flush()
    }

    fn flush(&mut self) -> Result<(), SaveError> {
        let Some(span) = self.span.take() else {
            return Ok(());
        };
        let piece = pack(&self.raw)?;
        self.raw.clear();
        (self.put)(piece, span)
    }
}

pub(super) fn pack(bytes: &[u8]) -> Result<Vec<u8>, SaveError> {
    let defect = |error: std::io::Error| SaveError::Damaged {
        name: "a piece".to_owned(),
        why: error.to_string(),
    };
    let mut out = zstd::Encoder::new(Vec::new(), LEVEL).map_err(defect)?;
    out.write_all(bytes).map_err(defect)?;
    out.finish().map_err(defect)
}

/// Decompresses bytes; `name` is that of the object.
pub(super) fn unpack(name: &str, bytes: &[u8]) -> Result<Vec<u8>, SaveError> {
    let damaged = |why: String| SaveError::Damaged {
        name: name.to_owned(),
        why,
    };
    let mut raw = Vec::new();
    let decoder = zstd::Decoder::new(bytes).map_err(|error| damaged(error.to_string()))?;
    let read = decoder.take(MOST + 1).read_to_end(&mut raw);
    read.map_err(|error| damaged(error.to_string()))?;
    if raw.len() as u64 > MOST {
        return Err(damaged(format!("it has more than {MOST} bytes")));
    }
    Ok(raw)
}

/// Passes the records of a piece in order; `name` is that of the object.
pub(super) fn each(
    name: &str,
    piece: &[u8],
    visit: &mut dyn FnMut(WriteRef<'_>) -> Result<(), SaveError>,
) -> Result<(), SaveError> {
    let raw = unpack(name, piece)?;
    let mut rest = raw.as_slice();
    while !rest.is_empty() {
        let (write, left) = take_write(rest).ok_or_else(|| SaveError::Damaged {
            name: name.to_owned(),
            why: "a record is cut off".to_owned(),
        })?;
        visit(write)?;
        rest = left;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_damage_is_reported() {
        let record = |n: u8| (vec![n, 7], (!n.is_multiple_of(3)).then(|| vec![n; 90]));
        let records = Vec::from_iter((0..200).map(record));
        let mut pieces = Vec::new();
        let mut spans = Vec::new();
        let mut put = |piece, span| {
            pieces.push(piece);
            spans.push(span);
            Ok(())
        };
        let mut out = Pieces::new(&mut put);
        for (key, value) in &records {
            out.add(key, value.as_deref()).unwrap();
        }
        out.finish().unwrap();
        assert!(pieces.len() > 2);
        let mut found = Vec::new();
        for piece in &pieces {
            each("x", piece, &mut |(key, value)| {
                found.push((key.to_vec(), value.map(<[u8]>::to_vec)));
                Ok(())
            })
            .unwrap();
        }
        assert_eq!(found, records);
        assert_eq!(spans[0].0, 7);
        assert_eq!(spans.last().unwrap().1, 199 << 8 | 7);
        assert!(spans.iter().all(|span| !may_have_files(Some(*span))));
        assert!(may_have_files(None) && may_have_files(Some((7, 0xff00 | u16::from(b'j')))));
        let cut = &pieces[0][..pieces[0].len() / 2];
        let error = each("x", cut, &mut |_| Ok(())).unwrap_err().to_string();
        assert!(error.starts_with("x: "), "{error}");
        let wild = pack(&[0xff; 40]).unwrap();
        assert!(each("x", &wild, &mut |_| Ok(())).is_err());
        assert_eq!(file_of_key(&key_of_file(JOB, "a/b")), Some(&b"job/a/b"[..]));
        assert_eq!(file_of_key(b"Uhost"), None);
    }
}
