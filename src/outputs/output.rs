//! An output that a crawl appends to. Each defines its name, the form of its
//! files, and its lines for a finished task; the rest is common to all. A new output is a
//! file that implements [`Output`] and a line in [`OUTPUTS`](super::list::OUTPUTS).
//!
//! The length of each is stored in the batch of a page, by the output's name: an output
//! that an earlier crawl did not have starts at zero.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::append::Appender;
use super::pieces::{Rewritten, Taken, copy_without};
use super::segments::{Label, Naming, Segment};
use super::{OutputError, Row, TextPlace, make_folder, make_folder_of, rotate, rows};
use crate::fs::beneath;
use crate::fs::{IoError, if_there};
use spoor_archive::index::is_unfinished;

/// Approximate size of a file of pieces, so that a corpus can be read and moved in parts.
pub(super) const SEGMENT_BYTES: u64 = if cfg!(test) { 1024 } else { 256 * 1024 * 1024 };

/// An output that a crawl appends to.
pub(super) trait Output: Sync {
    /// Its name in the stamp, and in log rows that give the position of a page in it. It
    /// must never change.
    fn name(&self) -> &'static str;

    /// The form of its files.
    fn form(&self) -> Form;

    /// The size in bytes at which a file of pieces is complete.
    fn piece_limit(&self) -> u64 {
        SEGMENT_BYTES
    }

    /// Whether its folder, or its table, is made only when something is written.
    fn is_optional(&self) -> bool {
        false
    }

    /// Whether the stamp has it before anything was written to it.
    fn is_stamped_empty(&self) -> bool {
        true
    }

    /// The beginning of an empty file.
    fn header(&self) -> &'static str {
        ""
    }

    /// The lines, each with its end, for a finished task; `None` for none. Outputs whose
    /// positions are in the log, such as texts, and rows of images are appended by
    /// separate methods of [`Outputs`](super::Outputs).
    fn of_task(&self, _task: &Row<'_>) -> Option<String> {
        None
    }

    /// The address of the page in a line of a table, so that a takedown of the page
    /// removes the line. Not needed for lines of JSON with `kind` and `url`, as in the
    /// log.
    fn page_of<'l>(&self, _line: &'l str) -> Option<&'l str> {
        None
    }

    /// The path of the index of one of its files; `None` if there is none, as for a file that
    /// still grows.
    fn index_of(&self, _name: &str) -> Option<String> {
        None
    }

    /// Removes data elsewhere that belong to the pieces about to be cut off: everything beyond
    /// `position`.
    fn undo_after(&self, _folder: &Path, _position: Position) -> Result<(), OutputError> {
        Ok(())
    }

    /// Writes the remaining pieces of one file to `out`. The log lists the pieces of
    /// removed and of other pages; an output whose pieces contain the address of their
    /// page checks these too.
    fn rewrite(
        &self,
        path: &Path,
        taken: &Taken<'_>,
        out: &mut dyn Write,
    ) -> Result<Rewritten, OutputError> {
        copy_without(path, taken, out)
    }
}

/// The form of an output's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A table of lines (`rows`), by the path of its current file below the job's folder.
    Lines(&'static str),
    /// Numbered files in a folder. Each page is a separately compressed piece.
    Pieces {
        /// The folder below the job's folder.
        folder: &'static str,
        /// The names of the files.
        naming: Naming,
    },
}

/// The end of an output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    /// The number of the current file of pieces; for a table, that of the last file before
    /// the current one, 0 if there is none.
    pub segment: u32,
    /// The length of that file in bytes.
    pub length: u64,
}

/// The ends of all outputs, as the frontier stores them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    /// How often rows were removed from the outputs.
    pub generation: u64,
    /// By the name of the output.
    pub outputs: BTreeMap<String, Position>,
}

/// The beginning of the names of such numbers.
const MARK: &str = "mark ";

/// The beginning of every stamp, which distinguishes it from other bytes.
const BEGIN: [u8; 2] = [0x80, 0x00];

impl Stamp {
    pub fn to_bytes(&self) -> Vec<u8> {
        // Numbers and names can always be encoded.
        let encoded = postcard::to_stdvec(self).unwrap_or_default();
        [&BEGIN[..], &encoded].concat()
    }

    pub fn read(bytes: &[u8]) -> Result<Self, OutputError> {
        let wrong = |why: String| OutputError::Stamp { why };
        let Some(encoded) = bytes.strip_prefix(&BEGIN) else {
            return Err(wrong("it does not begin as a stamp does".to_owned()));
        };
        postcard::from_bytes(encoded).map_err(|error| wrong(error.to_string()))
    }

    /// The same with numbers of the caller. They are stored like outputs, under names that no
    /// output has, so that versions of spoor without them can read the stamp too.
    pub fn with_marks(mut self, marks: &BTreeMap<String, u64>) -> Self {
        let marks = marks.iter().map(|(name, number)| {
            let position = Position {
                segment: 0,
                length: *number,
            };
            (format!("{MARK}{name}"), position)
        });
        self.outputs.extend(marks);
        self
    }

    /// Those numbers.
    pub fn into_marks(self) -> BTreeMap<String, u64> {
        let all = self.outputs.into_iter();
        let marks = all.filter_map(|(name, position)| {
            let name = name.strip_prefix(MARK)?;
            Some((name.to_owned(), position.length))
        });
        marks.collect()
    }

    /// The end of an output; zero for one that did not exist then.
    pub fn of(&self, output: &dyn Output) -> Position {
        self.outputs.get(output.name()).copied().unwrap_or_default()
    }
}

/// An open output.
pub(super) struct Open {
    output: &'static dyn Output,
    /// The job's folder.
    folder: PathBuf,
    segment: u32,
    /// The current file; none before the first piece, and where it is complete.
    file: Option<Appender>,
    /// The current file of pieces, if there is one.
    current: Option<Segment>,
    /// Its length if it is complete, else 0.
    complete: u64,
}

impl Open {
    /// Opens an output and cuts off what is beyond `position`. Without one everything is
    /// kept, and pieces start a new file, because the last one may end in the middle of a
    /// piece.
    pub fn at(
        output: &'static dyn Output,
        folder: &Path,
        position: Option<Position>,
    ) -> Result<Self, OutputError> {
        let mut open = Self {
            output,
            folder: folder.to_owned(),
            segment: 0,
            file: None,
            current: None,
            complete: 0,
        };
        match output.form() {
            Form::Lines(_)
                if output.is_optional()
                    && position.unwrap_or_default() == Position::default()
                    && files(output, folder)?.is_empty() => {}
            Form::Lines(name) => {
                let path = folder.join(name);
                make_folder_of(folder, name)?;
                let mut length = None;
                if let Some(position) = position {
                    output.undo_after(folder, position)?;
                    rotate::restore(folder, name, position)?;
                    open.segment = position.segment;
                    length = Some(position.length);
                } else {
                    open.segment = rotate::last_number(folder, name)?;
                }
                let is_gone = beneath::length(folder, name).unwrap_or(0) == 0;
                if is_gone && length.is_some_and(|length| length > 0) {
                    tracing::warn!(
                        "{}: the file was moved away or emptied; the crawl continues with a new one, \
                         and reports lack what the old one held",
                        path.display()
                    );
                    length = Some(0);
                }
                let file = Appender::open(path, length)?;
                let file = open.file.insert(file);
                if file.length() == 0 {
                    file.append(output.header().as_bytes())?;
                }
            }
            Form::Pieces {
                folder: name,
                naming,
            } => {
                let below = folder.join(name);
                if output.is_optional() && !below.is_dir() {
                    if let Some(position) = position {
                        open.segment = position.segment;
                    }
                    return Ok(open);
                }
                make_folder(folder, name)?;
                match position {
                    None => {
                        for segment in naming.list(&below)? {
                            segment.complete(&below)?;
                        }
                        open.segment = naming.next(&below)?;
                    }
                    Some(position) => open.resume(&below, naming, position)?,
                }
            }
        }
        Ok(open)
    }

    /// Cuts off the pieces beyond `position`.
    fn resume(
        &mut self,
        below: &Path,
        naming: Naming,
        position: Position,
    ) -> Result<(), OutputError> {
        let Position { segment, length } = position;
        self.segment = segment;
        let begun = length > 0;
        self.remove_indexes(below, naming, position)?;
        naming.remove_from(below, segment.saturating_add(u32::from(begun)))?;
        if !begun {
            return Ok(());
        }
        let found = naming.find(below, segment)?;
        if found.is_none() && matches!(naming, Naming::Dated(_)) {
            tracing::warn!(
                "{}: file {segment} was moved away; the crawl continues with a new one",
                below.display()
            );
            self.complete = length;
            return Ok(());
        }
        let current = found.unwrap_or_else(|| naming.begin(segment, &Label::default()));
        let path = below.join(current.present());
        let file = Appender::open(path, Some(length))?;
        if let Naming::Dated(_) = naming {
            // Its beginning says how it is compressed, and this job may use another compression.
            self.complete = length;
            current.complete(below)?;
        } else {
            self.file = Some(file);
            self.current = Some(current);
        }
        Ok(())
    }

    /// Removes the indexes of files from which something is about to be cut off.
    fn remove_indexes(
        &self,
        below: &Path,
        naming: Naming,
        position: Position,
    ) -> Result<(), OutputError> {
        for segment in naming.list(below)? {
            let path = below.join(segment.present());
            let about = path.symlink_metadata();
            let length = about.map_err(IoError::at(&path, "measuring"))?.len();
            let end = Position {
                segment: segment.number,
                length,
            };
            if segment.number < position.segment || end == position {
                continue;
            }
            if let Some(index) = self.output.index_of(&segment.name) {
                let index = below.join(index);
                let removed = if_there(std::fs::remove_file(&index));
                removed.map_err(IoError::at(&index, "removing"))?;
            }
        }
        Ok(())
    }

    /// Whether its end is part of the stamp.
    pub fn is_stamped(&self) -> bool {
        self.output.is_stamped_empty() || self.position() != Position::default()
    }

    /// Its present end.
    pub fn position(&self) -> Position {
        Position {
            segment: self.segment,
            length: self.file.as_ref().map_or(self.complete, Appender::length),
        }
    }

    /// Starts a new file of a table if the current one has `limit` bytes; returns the path
    /// of the file to compress.
    pub fn rotate(&mut self, limit: u64) -> Result<Option<String>, OutputError> {
        let (Form::Lines(name), Some(file)) = (self.output.form(), &self.file) else {
            return Ok(None);
        };
        let header = self.output.header();
        if file.length() < limit || file.length() <= header.len() as u64 {
            return Ok(None);
        }
        file.sync()?;
        let number = self.segment.saturating_add(1);
        let path = self.folder.join(name);
        let begun = rotate::set_apart(&self.folder, name, number, || {
            let mut file = Appender::open(path, Some(0))?;
            file.append(header.as_bytes())?;
            Ok(file)
        })?;
        self.file = Some(begun);
        self.segment = number;
        Ok(Some(rows::rotated_name(name, number, false)))
    }

    /// Checks that the current file of a table is at its path and as long as was written;
    /// otherwise starts a new one and returns true.
    pub fn find_again(&mut self) -> Result<bool, OutputError> {
        let (Form::Lines(name), Some(file)) = (self.output.form(), &self.file) else {
            return Ok(false);
        };
        if file.is_in_place()? {
            return Ok(false);
        }
        let path = self.folder.join(name);
        tracing::warn!(
            "{}: the file was moved away or truncated while the crawl writes to it; the crawl continues \
             with a new one, and reports lack what the old one held",
            path.display()
        );
        let mut file = Appender::open(path, None)?;
        if file.length() == 0 {
            file.append(self.output.header().as_bytes())?;
        }
        self.file = Some(file);
        Ok(true)
    }

    /// Whether the next piece needs a new file.
    pub fn is_full(&self) -> bool {
        match &self.file {
            Some(file) => file.length() >= self.output.piece_limit(),
            None => true,
        }
    }

    /// Completes the current file of pieces and begins another. Returns the name of the new
    /// one.
    pub fn begin(&mut self, label: &Label) -> Result<String, OutputError> {
        let Form::Pieces { folder, naming } = self.output.form() else {
            return Ok(String::new());
        };
        if self.position().length > 0 {
            self.complete()?;
            self.complete = 0;
            self.segment = self.segment.saturating_add(1);
        }
        make_folder(&self.folder, folder)?;
        let segment = naming.begin(self.segment, label);
        let path = self.folder.join(folder).join(segment.present());
        self.file = Some(Appender::open(path, Some(0))?);
        let name = segment.name.clone();
        self.current = Some(segment);
        Ok(name)
    }

    /// Completes the current file of pieces: it gets its final name and does not grow any
    /// more. Returns its path below the job's folder if this changed it.
    pub fn complete(&mut self) -> Result<Option<String>, OutputError> {
        let Form::Pieces { folder, .. } = self.output.form() else {
            return Ok(None);
        };
        let (Some(file), Some(current)) = (&self.file, &self.current) else {
            return Ok(None);
        };
        if !current.is_open {
            return Ok(None);
        }
        file.sync()?;
        self.complete = file.length();
        let current = current.complete(&self.folder.join(folder))?;
        self.file = None;
        self.current = None;
        Ok(Some(format!("{folder}/{}", current.name)))
    }

    /// Appends lines or a piece, and returns the position.
    pub fn append(&mut self, bytes: &[u8]) -> Result<TextPlace, OutputError> {
        // A dated file is begun by the caller that knows its label.
        let naming = match self.output.form() {
            Form::Lines(_) => None,
            Form::Pieces { naming, .. } => Some(naming),
        };
        if matches!(naming, Some(Naming::Numbered(_))) && self.is_full() {
            self.begin(&Label::default())?;
        }
        let name = match self.output.form() {
            Form::Lines(name) => name,
            Form::Pieces { .. } => self.current.as_ref().map_or("", |current| &current.name),
        };
        let name = name.to_owned();
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                make_folder_of(&self.folder, &name)?;
                let path = self.folder.join(&name);
                self.file.insert(Appender::open(path, Some(0))?)
            }
        };
        let from = file.length();
        file.append(bytes)?;
        Ok(TextPlace {
            file: name,
            from,
            bytes: bytes.len() as u64,
        })
    }

    /// Returns when everything appended is on the disk.
    pub fn sync(&self) -> Result<(), OutputError> {
        self.file.as_ref().map_or(Ok(()), Appender::sync)
    }
}

/// The existing files of an output, as paths below the job's folder, in order.
pub(super) fn files(output: &dyn Output, folder: &Path) -> Result<Vec<String>, OutputError> {
    match output.form() {
        Form::Lines(name) => rows::files(folder, name),
        Form::Pieces {
            folder: name,
            naming,
        } => {
            let below = folder.join(name);
            let segments = if below.is_dir() {
                naming.list(&below)?
            } else {
                Vec::new()
            };
            let path = |segment: Segment| format!("{name}/{}", segment.present());
            Ok(segments.into_iter().map(path).collect())
        }
    }
}

/// Removes what a crash left of a table's renamed files, and returns the paths of those
/// still to be compressed.
pub(super) fn unpacked(output: &dyn Output, folder: &Path) -> Result<Vec<String>, OutputError> {
    match output.form() {
        Form::Lines(name) => rotate::tidy(folder, name),
        Form::Pieces { .. } => Ok(Vec::new()),
    }
}

/// The complete files of an output without a finished index beside them, if it has indexes, as
/// paths below the job's folder.
pub(super) fn unindexed(output: &dyn Output, folder: &Path) -> Result<Vec<String>, OutputError> {
    let mut names = files(output, folder)?;
    names.retain(|name| {
        output.index_of(name).is_some_and(|index| {
            let path = folder.join(&index);
            !beneath::is_file(folder, index) || is_unfinished(&path)
        })
    });
    Ok(names)
}

/// Removes what a crash left of files that were being rewritten.
pub(super) fn remove_leftovers(
    output: &dyn Output,
    folder: &Path,
    ending: &str,
) -> Result<(), OutputError> {
    let below = match output.form() {
        Form::Lines(name) => {
            for number in rows::rotated(folder, name)?.into_keys() {
                for zst in [false, true] {
                    let name = rows::rotated_name(name, number, zst);
                    super::remove(folder, &format!("{name}{ending}"))?;
                }
            }
            return super::remove(folder, &format!("{name}{ending}"));
        }
        Form::Pieces { folder: name, .. } => name,
    };
    if !beneath::is_dir(folder, below) {
        return Ok(());
    }
    let entries =
        beneath::entries(folder, below).map_err(IoError::at(&folder.join(below), "listing"))?;
    for (name, _) in entries {
        if name.ends_with(ending) {
            super::remove(folder, &format!("{below}/{name}"))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_and_nothing_else() {
        let stamp = Stamp {
            generation: 3,
            outputs: [("log", 0, 7), ("documents", 2, 9)]
                .map(|(name, segment, length)| (name.to_owned(), Position { segment, length }))
                .into(),
        };
        assert_eq!(Stamp::read(&stamp.to_bytes()).unwrap(), stamp);
        let unknown = Stamp::default();
        assert_eq!(Stamp::read(&unknown.to_bytes()).unwrap(), unknown);
        for other in [&[][..], &[1, 2], &[128, 1, 5, 1, 6]] {
            assert!(Stamp::read(other).is_err(), "{other:?}");
        }
        assert!(Stamp::read(&[0x80, 0x00, 9]).is_err());
    }
}
