//! Copies a file of pieces, such as texts of pages, without some of them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::{OutputError, TextPlace};
use crate::fs::IoError;
use crate::fs::beneath;

/// What is to be removed from one file of pieces.
pub(super) struct Taken<'a> {
    /// First byte and length of the pieces to remove, by the log.
    pub pieces: &'a BTreeMap<u64, u64>,
    /// Bytes of the pieces to keep, by the log.
    pub staying: u64,
    /// Whether the page at an address is removed.
    pub page: &'a dyn Fn(&str) -> bool,
    /// Whether the image at an address is removed.
    pub image: &'a dyn Fn(&str) -> bool,
}

impl Taken<'_> {
    /// Whether the piece that starts here is to be removed, by the log.
    pub fn goes(&self, from: u64) -> bool {
        self.pieces.contains_key(&from)
    }
}

/// The changes to one file of pieces.
#[derive(Debug, Default)]
pub(super) struct Rewritten {
    edits: Vec<Edit>,
    /// Pieces that were removed.
    pub removed: u64,
    /// Pieces that were replaced.
    pub replaced: u64,
    /// Addresses of pages that were found by their pieces alone.
    pub urls: Vec<String>,
    /// Bytes that cannot be assigned to a page.
    pub unreadable: u64,
}

/// A piece that was removed or replaced.
#[derive(Debug, Clone, Copy)]
struct Edit {
    from: u64,
    /// Its new length in bytes.
    now: u64,
    /// How much closer to the beginning everything after it is than before.
    shift: i64,
}

impl Rewritten {
    /// Whether any piece was removed or replaced.
    pub fn is_changed(&self) -> bool {
        !self.edits.is_empty()
    }

    /// Records that a piece was left out, with its `url` if it contains that.
    pub fn remove(&mut self, from: u64, bytes: u64, url: Option<&str>) {
        self.removed += 1;
        self.urls.extend(url.map(str::to_owned));
        self.edit(from, bytes, 0);
    }

    /// Records that another piece replaced this one.
    pub fn replace(&mut self, from: u64, bytes: u64, now: u64) {
        self.replaced += 1;
        self.edit(from, bytes, now);
    }

    fn edit(&mut self, from: u64, bytes: u64, now: u64) {
        let before = self.edits.last().map_or(0, |edit| edit.shift);
        let shift = before + bytes.cast_signed() - now.cast_signed();
        self.edits.push(Edit { from, now, shift });
    }

    /// Copies a part of the file unchanged.
    pub fn copy(
        &mut self,
        file: &mut File,
        path: &Path,
        from: u64,
        to: u64,
        out: &mut dyn Write,
    ) -> Result<(), OutputError> {
        if from >= to {
            return Ok(());
        }
        file.seek(SeekFrom::Start(from))
            .map_err(IoError::at(path, "reading"))?;
        let copied = std::io::copy(&mut file.take(to - from), out);
        copied.map_err(IoError::at(path, "rewriting"))?;
        Ok(())
    }

    /// The new position of a piece; `None` if it was removed.
    pub fn moved(&self, place: &TextPlace) -> Option<TextPlace> {
        let before = self.edits.partition_point(|edit| edit.from < place.from);
        let shift = match before.checked_sub(1).and_then(|at| self.edits.get(at)) {
            Some(edit) => edit.shift,
            None => 0,
        };
        let own = self.edits.get(before).filter(|e| e.from == place.from);
        let bytes = own.map_or(place.bytes, |edit| edit.now);
        (bytes > 0).then(|| TextPlace {
            file: place.file.clone(),
            from: place.from.saturating_sub_signed(shift),
            bytes,
        })
    }
}

/// Copies a file of pieces without those that the log marks for removal.
pub(super) fn copy_without(
    path: &Path,
    taken: &Taken<'_>,
    out: &mut dyn Write,
) -> Result<Rewritten, OutputError> {
    let mut file = beneath::open_at(path).map_err(IoError::at(path, "opening"))?;
    let length = file
        .metadata()
        .map_err(IoError::at(path, "measuring"))?
        .len();
    let mut done = Rewritten::default();
    let (mut settled, mut gone) = (0, 0);
    for (from, bytes) in taken.pieces {
        let end = from.saturating_add(*bytes);
        // A log that was edited by hand must not cost pieces that it does not name.
        if *from < settled || end > length {
            continue;
        }
        done.copy(&mut file, path, settled, *from, out)?;
        done.remove(*from, *bytes, None);
        settled = end;
        gone += bytes;
    }
    done.copy(&mut file, path, settled, length, out)?;
    done.unreadable = length.saturating_sub(gone).saturating_sub(taken.staying);
    Ok(done)
}
