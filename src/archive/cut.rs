//! A new archive of chosen captures.
//!
//! 1. The captures that are wanted are looked for, and those that the revisits among them
//!    stand for. Their lines are sorted on the disk by file and place.
//! 2. Their records are copied in that order, each with the records behind it that belong to
//!    it. From time to time the state is noted, so that a run that was killed goes on there.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::copy::{CopyError, copy};
use super::find::{self, Capture, FindError, Source};
use super::gap::Place;
use super::index::{self, IndexError, Reads, Runs, merge};
use super::lookup::shelf::{AnyShelf, Parts};
use super::record::{Kind, Record};
use super::select::Selection;
use super::writer::{Compression, beginning};
use crate::clock;
use crate::fs::IoError;
use crate::progress::Step;

/// How many bytes are copied between two notes of the state.
const NOTED: u64 = 64 << 20;
/// Captures that are listed of those that could not be copied.
const LISTED: usize = 20;

/// Why an archive cannot be cut.
#[derive(Debug, thiserror::Error)]
pub enum CutError {
    /// The captures cannot be found.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The files cannot be indexed.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The new archive cannot be written, or its folder of notes.
    #[error("{0}; run the same command again to go on")]
    Io(#[from] IoError),
    /// No capture is wanted.
    #[error(
        "no capture fits the selection, so nothing was written; `spoor archive list` shows what \
         is there"
    )]
    Nothing,
}

/// What became of a cut.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Captures that were copied.
    pub captures: u64,
    /// Of these, what was not chosen itself, but has the contents of a revisit that was.
    pub originals: u64,
    /// Revisits whose contents are in no capture that was found.
    pub unresolved: u64,
    /// Requests and metadata that were copied with them.
    pub accompanying: u64,
    /// The length of the new archive in bytes.
    pub bytes: u64,
    /// Captures that could not be copied.
    pub left_out: u64,
    /// The reasons, of the first of them.
    pub reasons: Vec<String>,
}

/// A capture to be copied: a line of the sorted list.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Chosen {
    source: usize,
    file: String,
    offset: u64,
    inside: Option<u64>,
    length: u64,
}

impl Chosen {
    fn of(capture: &Capture) -> Result<Self, FindError> {
        let (file, place) = capture.place()?;
        Ok(Self {
            source: capture.source,
            file: file.to_owned(),
            offset: place.offset,
            inside: place.inside,
            length: place.length,
        })
    }

    /// A text that sorts as files are read best.
    fn to_text(&self) -> String {
        let Self {
            source,
            file,
            offset,
            inside,
            length,
        } = self;
        let inside = inside.map_or(String::new(), |inside| format!("{inside:020}"));
        format!("{source:06}\t{file}\t{offset:020}\t{inside}\t{length}")
    }

    fn parse(line: &str) -> Option<Self> {
        let columns: Vec<&str> = line.split('\t').collect();
        let [source, file, offset, inside, length] = columns.as_slice() else {
            return None;
        };
        Some(Self {
            source: source.parse().ok()?,
            file: (*file).to_owned(),
            offset: offset.parse().ok()?,
            inside: match *inside {
                "" => None,
                inside => Some(inside.parse().ok()?),
            },
            length: length.parse().ok()?,
        })
    }
}

/// How far a run has come.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Noted {
    lines: u64,
    bytes: u64,
    cut: Cut,
}

/// The notes of a run beside its output, in a folder that is removed at the end.
struct Notes {
    folder: PathBuf,
}

impl Notes {
    /// Those of an earlier run with the same arguments are used, others removed.
    fn open(output: &Path, arguments: &str) -> Result<Self, IoError> {
        let folder = with_ending(output, ".parts");
        let key = folder.join(format!("{:016x}", xxh3_64(arguments.as_bytes())));
        if !key.exists() && folder.exists() {
            std::fs::remove_dir_all(&folder).map_err(IoError::at(&folder, "removing"))?;
        }
        std::fs::create_dir_all(&folder).map_err(IoError::at(&folder, "making the folder"))?;
        File::create(&key).map_err(IoError::at(&key, "creating"))?;
        Ok(Self { folder })
    }

    fn remove(&self) -> Result<(), IoError> {
        let folder = &self.folder;
        std::fs::remove_dir_all(folder).map_err(IoError::at(folder, "removing"))
    }

    fn list(&self) -> PathBuf {
        self.folder.join("chosen")
    }

    fn state(&self) -> Noted {
        let bytes = crate::fs::read(self.folder.join("state")).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    fn note(&self, noted: &Noted) -> Result<(), IoError> {
        let path = self.folder.join("state");
        // Numbers and texts always serialise.
        let text = serde_json::to_vec(noted).unwrap_or_default();
        let part = with_ending(&path, ".part");
        let written = std::fs::write(&part, text).and_then(|()| std::fs::rename(&part, &path));
        written.map_err(IoError::at(&path, "writing"))
    }
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Writes an archive of what is wanted of some sources, compressed by gzip, and its index
/// beside it. `about`: names and values for the first record, which says how the contents
/// came about. A run that was killed is resumed by the next with the same arguments.
///
/// # Errors
///
/// [`CutError`]. Captures that are damaged are left out and counted.
pub fn cut(
    sources: &[Source],
    wanted: &Selection,
    output: &Path,
    about: &[(&str, String)],
) -> Result<Cut, CutError> {
    let names: Vec<String> = sources.iter().map(Source::name).collect();
    let notes = Notes::open(output, &format!("{names:?} {wanted:?}"))?;
    let sources = find::indexed(sources, &notes.folder)?;
    let list = notes.list();
    let counted = notes.folder.join("found");
    if !list.exists() {
        let found = choose(&sources, wanted, &notes)?;
        // Numbers always serialise.
        let text = serde_json::to_vec(&found).unwrap_or_default();
        std::fs::write(&counted, text).map_err(IoError::at(&counted, "writing"))?;
        let sorted = notes.folder.join("sorted");
        std::fs::rename(&sorted, &list).map_err(IoError::at(&list, "writing"))?;
    }
    if std::fs::metadata(&list).is_ok_and(|about| about.len() == 0) {
        notes.remove()?;
        return Err(CutError::Nothing);
    }
    let found = crate::fs::read(&counted).map_err(IoError::at(&counted, "reading"))?;
    let found: Cut = serde_json::from_slice(&found).unwrap_or_default();
    let shelves: Vec<AnyShelf> = sources.iter().map(Source::archives).collect();
    let open = with_ending(output, ".open");
    let mut copying = Copying::resume(&notes, &open, output, about, found)?;
    copying.all(&shelves, &list)?;
    let cut = copying.finish()?;
    std::fs::rename(&open, output).map_err(IoError::at(output, "renaming to"))?;
    index::beside(output, Reads::Whole)?;
    notes.remove()?;
    Ok(cut)
}

/// Lists what is to be copied.
fn choose(sources: &[Source], wanted: &Selection, notes: &Notes) -> Result<Cut, CutError> {
    let mut step = Step::begin("captures chosen", None);
    let mut found = Cut::default();
    let mut runs = Runs::new(notes.folder.join("run"));
    find::each(sources, wanted, &mut |capture: Capture| {
        runs.add(Chosen::of(&capture)?.to_text())?;
        step.advance(1);
        if !capture.line.is_revisit() {
            return Ok(true);
        }
        match find::contents_of(sources, &capture)? {
            Some(original) => {
                if !wanted.takes(&original.line) {
                    found.originals += 1;
                }
                runs.add(Chosen::of(&original)?.to_text())?;
            }
            None => found.unresolved += 1,
        }
        Ok::<bool, CutError>(true)
    })?;
    let path = notes.folder.join("sorted");
    let file = File::create(&path).map_err(IoError::at(&path, "creating"))?;
    let mut out = BufWriter::new(file);
    merge(runs.finish()?, &notes.folder, &mut out)?;
    out.flush().map_err(IoError::at(&path, "writing"))?;
    Ok(found)
}

/// Copies the chosen captures.
struct Copying<'n> {
    notes: &'n Notes,
    path: PathBuf,
    out: BufWriter<File>,
    done: Noted,
    noted: u64,
    last: Option<Chosen>,
}

impl<'n> Copying<'n> {
    fn resume(
        notes: &'n Notes,
        open: &Path,
        output: &Path,
        about: &[(&str, String)],
        found: Cut,
    ) -> Result<Self, IoError> {
        let mut done = notes.state();
        let mut options = OpenOptions::new();
        options.create(true).write(true).truncate(false);
        let mut file = options.open(open).map_err(IoError::at(open, "creating"))?;
        let length = file.metadata().map_err(IoError::at(open, "reading"))?.len();
        if length < done.bytes {
            // The copy was removed, or never reached the disk.
            done = Noted::default();
        }
        if done.bytes == 0 {
            done.cut = found;
        }
        let cut = file.set_len(done.bytes);
        let moved = cut.and_then(|()| file.seek(SeekFrom::End(0)));
        moved.map_err(IoError::at(open, "writing"))?;
        let mut copying = Self {
            notes,
            path: open.to_owned(),
            out: BufWriter::new(file),
            noted: done.bytes,
            done,
            last: None,
        };
        if copying.done.bytes == 0 {
            let name = output.file_name().unwrap_or_default().to_string_lossy();
            let first = beginning(&name, clock::now(), about, &Compression::Gzip);
            let written = copying.out.write_all(&first);
            written.map_err(IoError::at(open, "writing"))?;
            copying.done.bytes = first.len() as u64;
        }
        Ok(copying)
    }

    fn all(&mut self, shelves: &[AnyShelf], list: &Path) -> Result<(), CutError> {
        let file = crate::fs::open(list).map_err(IoError::at(list, "opening"))?;
        let total = BufReader::new(file).lines().count() as u64;
        let mut step = Step::begin("captures copied", Some(total));
        let file = crate::fs::open(list).map_err(IoError::at(list, "opening"))?;
        let mut number = 0;
        for line in BufReader::new(file).lines() {
            let line = line.map_err(IoError::at(list, "reading"))?;
            number += 1;
            let Some(chosen) = Chosen::parse(&line) else {
                continue;
            };
            // Two revisits may have the same contents.
            let is_new = self.last.as_ref() != Some(&chosen);
            if number > self.done.lines && is_new {
                if let Some(shelf) = shelves.get(chosen.source) {
                    self.one(shelf, &chosen)?;
                }
                self.done.lines = number;
                if self.done.bytes - self.noted >= NOTED {
                    self.note()?;
                }
            }
            self.last = Some(chosen);
            step.reach(number);
        }
        Ok(())
    }

    fn one(&mut self, shelf: &AnyShelf, chosen: &Chosen) -> Result<(), CutError> {
        let place = Place {
            offset: chosen.offset,
            length: chosen.length,
            inside: chosen.inside,
        };
        match self.with_its_company(shelf, &chosen.file, place) {
            Ok(true) => self.done.cut.captures += 1,
            Ok(false) => {
                let why = format!("no record begins at byte {}", place.offset);
                self.leave_out(format!("{}: {why}", chosen.file))?;
            }
            Err(CopyError::Write(error)) => {
                return Err(IoError {
                    path: self.path.clone(),
                    ..error
                }
                .into());
            }
            Err(error) => self.leave_out(error.to_string())?,
        }
        Ok(())
    }

    /// Takes back what was written of a record, and counts it.
    fn leave_out(&mut self, why: String) -> Result<(), IoError> {
        let bytes = self.done.bytes;
        let flushed = self.out.flush();
        let file = self.out.get_mut();
        let cut = flushed.and_then(|()| file.set_len(bytes));
        let moved = cut.and_then(|()| file.seek(SeekFrom::End(0)));
        moved.map_err(IoError::at(&self.path, "writing"))?;
        let cut = &mut self.done.cut;
        cut.left_out += 1;
        if cut.reasons.len() < LISTED {
            cut.reasons.push(why);
        }
        Ok(())
    }

    /// Copies a capture and the requests and metadata behind it that belong to it. Returns
    /// whether it was there.
    fn with_its_company(
        &mut self,
        shelf: &AnyShelf,
        file: &str,
        place: Place,
    ) -> Result<bool, CopyError> {
        let mut parts = shelf.open(file)?;
        let copied = self.copied(parts.as_mut(), place, &|_| true)?;
        let Some((first, mut end)) = copied else {
            return Ok(false);
        };
        let id = first.header("warc-record-id").map(str::to_owned);
        let belongs = |record: &Record| {
            let is_company = matches!(record.kind, Kind::Request | Kind::Metadata);
            let to = record.header("warc-concurrent-to");
            is_company && to.is_some() && to == id.as_deref()
        };
        // Elsewhere each record would cost a request, and most indexes say nothing of them.
        while let Some(offset) = end.filter(|_| !parts.is_far()) {
            let next = Place {
                offset,
                ..Place::default()
            };
            match self.copied(parts.as_mut(), next, &belongs) {
                Ok(Some((_, next))) => {
                    self.done.cut.accompanying += 1;
                    end = next;
                }
                Ok(None) => break,
                Err(CopyError::Write(error)) => return Err(error.into()),
                Err(error) => {
                    self.leave_out(error.to_string())?;
                    break;
                }
            }
        }
        Ok(true)
    }

    fn copied(
        &mut self,
        parts: &mut dyn Parts,
        place: Place,
        is_wanted: &dyn Fn(&Record) -> bool,
    ) -> Result<Option<(Record, Option<u64>)>, CopyError> {
        let mut out = Counted(&mut self.out, 0);
        let copied = copy(parts, place, is_wanted, &mut out)?;
        self.done.bytes += out.1;
        Ok(copied.map(|copied| (copied.record, copied.end)))
    }

    fn note(&mut self) -> Result<(), IoError> {
        let written = self.out.flush();
        let synced = written.and_then(|()| self.out.get_ref().sync_data());
        synced.map_err(IoError::at(&self.path, "writing"))?;
        self.noted = self.done.bytes;
        self.notes.note(&self.done)
    }

    fn finish(mut self) -> Result<Cut, IoError> {
        self.note()?;
        Ok(Cut {
            bytes: self.done.bytes,
            ..self.done.cut
        })
    }
}

/// Counts the bytes that are written.
struct Counted<'o>(&'o mut BufWriter<File>, u64);

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.0.write(bytes)?;
        self.1 += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_captures_are_sorted_by_file_and_place() {
        let chosen = |file: &str, offset, inside| Chosen {
            source: 3,
            file: file.to_owned(),
            offset,
            inside,
            length: 17,
        };
        let sorted = [
            chosen("a b.warc.gz", 9, None),
            chosen("a b.warc.gz", 10, None),
            chosen("a b.warc.gz", 10, Some(9)),
            chosen("a b.warc.gz", 10, Some(80)),
            chosen("b.warc.gz", 0, None),
        ];
        let texts: Vec<String> = sorted.iter().map(Chosen::to_text).collect();
        assert!(texts.is_sorted());
        for (text, chosen) in texts.iter().zip(&sorted) {
            assert_eq!(Chosen::parse(text).as_ref(), Some(chosen));
        }
        assert_eq!(Chosen::parse("a\tb"), None);
    }
}
