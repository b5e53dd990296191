//! The outputs of several machines that crawled one job, as the outputs of one.
//!
//! A [`Part`] is what one machine wrote: the outputs of an ordinary job folder, at rest. What
//! comes out is what one machine would have written that crawled alone:
//!
//! - **The log is in the order of time**, over all parts: readers take the last row of a page
//!   that was visited twice, measure the pauses between two requests to a host from one row
//!   to the next, and draw what was found over time. Each part is in this order, so the rows
//!   are merged as streams, and the rows of one part keep their order even where its clock
//!   went back. The fields and the journals of the process are merged in the same way. Rows
//!   of images have no time; those of one part follow those of another.
//! - **Sentences and documents** are copied piece by piece, as the rows that name them come,
//!   so they are in the same order, and the last line of a page is its last. Pieces that no
//!   row names are kept as well.
//! - **Files of the archive** are copied as they are. Each stays beside the dictionary that
//!   it begins with, and keeps its name unless two are called the same.
//! - **Images** keep their paths, as links to the files of the parts where the file system
//!   can. Two parts have the same path where a host moved to another machine and the image
//!   was fetched again on the same day: the later one counts, and has the words of both.
//!   Where two addresses share a path, the second gets a mark, as in a crawl. Equal bytes
//!   become links to the one that was fetched first.
//! - **Changes of images that another part has kept** (`edits`) are made last, in the order
//!   of their times.
//!
//! Every byte that is taken is checked against what says what it is: digests of images,
//! checksums of texts, the digests and lengths of archived records. What is wrong is told
//! with its part and file. Memory does not grow with the parts but by 32 bytes an image, the
//! path of each image that has copies, and the listing of the fullest folder.

mod archives;
mod edited;
mod images;
mod texts;
mod timed;

use std::path::{Path, PathBuf};

use serde::Deserialize;

pub use self::archives::Archived;
use self::archives::Archives;
use self::images::Images;
use self::texts::Texts;
use self::timed::{Clock, Sorted};
use super::output::{Form, Open, Output};
use super::{
    Effect, OutputError, Outputs, TextPlace, fields, log, remove, rotate, rows, texts as sentences,
};
use super::{Table, document, is_there, refuse_links_out};
use crate::fs::IoError;
use crate::fs::beneath::{self, Kind};
use crate::progress::Step;

/// What one machine wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// What it is called in messages.
    pub name: String,
    /// The folder of its outputs, which nothing writes to.
    pub folder: PathBuf,
}

/// Why outputs cannot be merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// A file of a part is missing, cut off or damaged.
    #[error(
        "the part {part}: {}: {why}; restore the file, or leave this part out", path.display()
    )]
    Damaged {
        /// The part.
        part: String,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A file of a part cannot be read.
    #[error("the part {part}: {source}; correct that, or leave this part out")]
    Unread {
        /// The part.
        part: String,
        /// The problem.
        source: IoError,
    },
    /// The merged outputs cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl From<IoError> for MergeError {
    fn from(error: IoError) -> Self {
        Self::Output(error.into())
    }
}

impl Part {
    fn damaged(&self, file: &str, why: impl Into<String>) -> MergeError {
        MergeError::Damaged {
            part: self.name.clone(),
            path: self.folder.join(file),
            why: why.into(),
        }
    }

    fn unread(&self, file: &str, what: &'static str) -> impl FnOnce(std::io::Error) -> MergeError {
        let path = self.folder.join(file);
        let part = self.name.clone();
        move |error| MergeError::Unread {
            part,
            source: IoError::at(&path, what)(error),
        }
    }

    /// An error of a function that reads outputs, as one of this part.
    fn wrong(&self, error: OutputError) -> MergeError {
        let part = self.name.clone();
        match error {
            OutputError::Io(source) => MergeError::Unread { part, source },
            OutputError::Sidecar { path, why } => MergeError::Damaged { part, path, why },
            OutputError::Sightings { path, line, why } => MergeError::Damaged {
                part,
                path,
                why: format!("line {line} is not one that spoor wrote: {why}"),
            },
            OutputError::Document { path, at, why } => MergeError::Damaged {
                part,
                path,
                why: format!("damaged at byte {at}: {why}"),
            },
            other => MergeError::Damaged {
                part,
                path: self.folder.clone(),
                why: other.to_string(),
            },
        }
    }

    /// Refuses what is not at rest.
    fn check(&self) -> Result<(), MergeError> {
        if !self.folder.is_dir() {
            return Err(self.damaged("", "there is no such folder"));
        }
        refuse_links_out(&self.folder).map_err(|error| self.wrong(error))?;
        if beneath::is_file(&self.folder, remove::JOURNAL) {
            let why = "a takedown was interrupted here; run it again to complete it";
            return Err(self.damaged(remove::JOURNAL, why));
        }
        Ok(())
    }
}

/// What was merged before, from which files are taken that have not changed, so that the
/// parts' are not read again.
#[derive(Debug, Clone, Copy)]
pub struct Earlier<'e> {
    /// The folder.
    pub folder: &'e Path,
    /// What [`Merged::archives`] was.
    pub archives: &'e [Archived],
}

/// What was merged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Merged {
    /// Rows of the log.
    pub rows: u64,
    /// Images, each path once.
    pub images: u64,
    /// Images that are links to an earlier one with the same bytes.
    pub copies: u64,
    /// Images that two parts have kept under one path.
    pub united: u64,
    /// Images and files of the archive that were taken from what was merged before.
    pub reused: u64,
    /// Files of the archive.
    pub archives: Vec<Archived>,
    /// Changes that were made to images of another part.
    pub edits: u64,
    /// Changes of images that no part has, or not with that page. They are left out.
    pub lost_edits: u64,
    /// Bytes of texts that no row of a log names and that cannot be read; they are left out.
    pub left_out: u64,
}

/// Writes the outputs of all `parts` into the folder `into`, which is there and has no
/// outputs. Later parts count more where times are equal, so they come in the order in which
/// the machines began. The parts are only read. Of what was merged `earlier`, images with the
/// same address and digest are taken, and files of the archive whose originals are as they were;
/// logs and texts are merged anew, as a late part may have rows of long ago.
///
/// # Errors
///
/// [`MergeError`]; then the folder holds a part of the outputs, and is of no use.
pub fn merge(
    parts: &[Part],
    into: &Path,
    earlier: Option<Earlier<'_>>,
) -> Result<Merged, MergeError> {
    let mut merged = Merged::default();
    for part in parts {
        part.check()?;
    }
    let images = Images::gather(parts, into, earlier, &mut merged)?;
    let archives = Archives::gather(parts, into, earlier, &mut merged)?;
    log_rows(parts, into, &images, &archives, &mut merged)?;
    timed_rows(parts, into, &fields::Fields)?;
    image_rows(parts, into, &images)?;
    journals(parts, into)?;
    let mut outputs = Outputs::open(into, &[])?;
    edited::apply(parts, &images, &mut outputs, &mut merged)?;
    outputs.fold()?;
    outputs.complete()?;
    outputs.sync()?;
    Ok(merged)
}

/// A table that is being written.
struct TableOut<'m> {
    open: Open,
    folder: &'m Path,
}

impl<'m> TableOut<'m> {
    fn of(output: &'static dyn Output, folder: &'m Path) -> Result<Self, MergeError> {
        let open = Open::at(output, folder, None)?;
        Ok(Self { open, folder })
    }

    fn line(&mut self, line: &str) -> Result<(), MergeError> {
        if let Some(full) = self.open.rotate(super::ROTATE)? {
            rotate::pack(self.folder, &full)?;
        }
        self.open.append(format!("{line}\n").as_bytes())?;
        Ok(())
    }
}

/// The name of a table of lines.
fn table_of(output: &dyn Output) -> &'static str {
    match output.form() {
        Form::Lines(name) => name,
        Form::Pieces { folder, .. } => folder,
    }
}

/// What of a row of the log names a place.
#[derive(Deserialize)]
struct Named {
    sentences: Option<TextPlace>,
    documents: Option<TextPlace>,
    archive: Option<TextPlace>,
    file: Option<String>,
}

/// Merges the logs, and the texts that they name.
fn log_rows(
    parts: &[Part],
    into: &Path,
    images: &Images<'_>,
    archives: &Archives,
    merged: &mut Merged,
) -> Result<(), MergeError> {
    let mut out = TableOut::of(&log::Log, into)?;
    let mut sentences = Texts::of(&sentences::Sentences, parts, into)?;
    let mut documents = Texts::of(&document::DocumentLines, parts, into)?;
    let name = table_of(&log::Log);
    let mut step = Step::begin("gathering rows of the log", None);
    let mut rows = Sorted::of(parts, Clock::Rows, &mut |part| {
        rows::files(&part.folder, name).map_err(|error| part.wrong(error))
    })?;
    while let Some(row) = rows.next()? {
        let part = row.part;
        let places: Named = row.parse()?;
        let mut line = row.text.to_owned();
        for (key, place, texts) in [
            ("sentences", places.sentences, &mut sentences),
            ("documents", places.documents, &mut documents),
        ] {
            if let Some(place) = place {
                let now = texts.copy(part, &place).map_err(|why| row.damaged(why))?;
                let now = now?;
                line = remove::with(&line, key, &place, Some(&now));
            }
        }
        if let Some(place) = places.archive {
            let now = archives.moved(part, &place);
            let now = now.map_err(|why| row.damaged(why))?;
            if now != place {
                line = remove::with(&line, "archive", &place, Some(&now));
            }
        }
        if let Some(file) = places.file
            && let Some(now) = images.renamed(part, &file)
        {
            line = remove::with(&line, "file", &file, Some(&now.to_owned()));
        }
        out.line(&line)?;
        merged.rows += 1;
        step.advance(1);
    }
    merged.left_out += sentences.finish()? + documents.finish()?;
    Ok(())
}

/// Merges a table of JSON whose lines need no change.
fn timed_rows(parts: &[Part], into: &Path, output: &'static dyn Output) -> Result<(), MergeError> {
    let mut out = TableOut::of(output, into)?;
    let name = table_of(output);
    let mut rows = Sorted::of(parts, Clock::Rows, &mut |part| {
        rows::files(&part.folder, name).map_err(|error| part.wrong(error))
    })?;
    while let Some(row) = rows.next()? {
        out.line(row.text)?;
    }
    Ok(())
}

/// Appends the rows of `images.tsv` of one part after the other.
fn image_rows(parts: &[Part], into: &Path, images: &Images<'_>) -> Result<(), MergeError> {
    let mut out = TableOut::of(&log::Images, into)?;
    let name = table_of(&log::Images);
    for (number, part) in parts.iter().enumerate() {
        let files = rows::files(&part.folder, name).map_err(|error| part.wrong(error))?;
        let mut lines = timed::Lines::of(part, files);
        while let Some(line) = lines.next()? {
            // Each file has the header.
            if line.text == log::IMAGES_HEADER.trim_end() {
                continue;
            }
            let file = line.text.split('\t').nth(1);
            match file.and_then(|file| Some((file, images.renamed(number, file)?))) {
                Some((file, now)) => {
                    let cell = |name: &str| format!("\t{name}\t");
                    out.line(&line.text.replacen(&cell(file), &cell(now), 1))?;
                }
                None => out.line(line.text)?,
            }
        }
    }
    Ok(())
}

/// Merges what is for people to read: the changes that were made to running crawls, and the
/// events of the processes, a file each day. Lines without a time stay behind the ones that
/// they follow, and one that was being written is left out.
fn journals(parts: &[Part], into: &Path) -> Result<(), MergeError> {
    let audit = Table::Audit.name();
    let mut names = std::collections::BTreeSet::from([audit.to_owned()]);
    for part in parts {
        let entries = match beneath::entries(&part.folder, "logs") {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            entries => entries.map_err(part.unread("logs", "listing"))?,
        };
        let is_daily = |name: &str| name.starts_with("spoor.") && name.ends_with(".jsonl");
        for (name, kind) in entries {
            if kind == Kind::File && is_daily(&name) {
                names.insert(format!("logs/{name}"));
            }
        }
    }
    for name in names {
        let mut files = |part: &Part| {
            if name == audit {
                return rows::files(&part.folder, audit).map_err(|error| part.wrong(error));
            }
            let found = is_there(&part.folder, &name).map_err(|error| part.wrong(error))?;
            Ok(found.then(|| name.clone()).into_iter().collect())
        };
        let mut rows = Sorted::of(parts, Clock::Events, &mut files)?;
        let mut out = None;
        while let Some(row) = rows.next()? {
            let out = match &mut out {
                Some(out) => out,
                None => out.insert(std::io::BufWriter::new(created(into, &name)?)),
            };
            std::io::Write::write_all(out, format!("{}\n", row.text).as_bytes())
                .map_err(IoError::at(&into.join(&name), "writing"))?;
        }
        if let Some(mut out) = out {
            std::io::Write::flush(&mut out).map_err(IoError::at(&into.join(&name), "writing"))?;
        }
    }
    Ok(())
}

fn created(into: &Path, name: &str) -> Result<std::fs::File, MergeError> {
    super::make_folder_of(into, name)?;
    Ok(beneath::create(into, name).map_err(IoError::at(&into.join(name), "creating"))?)
}

/// Whether a change of an image was made, or the image has it already.
fn is_made(effect: Effect) -> bool {
    effect != Effect::Missing
}
