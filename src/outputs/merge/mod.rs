//! Merges the outputs of several machines that crawled one job into the outputs of one.
//!
//! A [`MachinePart`] has the outputs of one machine: those of an ordinary job folder that is no
//! longer written to. The result is what a single machine would have written:
//!
//! - **Tables are in order of time**, over all parts: readers take the last row of a page that
//!   was visited twice, measure the pauses between two requests to a host from one row to the
//!   next, and plot findings over time. The rows of one part keep their order even if its clock
//!   went back. Rows of images have no time; the parts follow one another.
//! - **Sentences and documents** are copied as the rows come that name them, so they are in the
//!   same order, and the last line of a page is its last.
//! - **Files of the archive** are links, or copies if the file system has no links. Each keeps
//!   its name unless two have the same.
//! - **Images** are links in the same way, under their paths. Two parts have the same path if a
//!   host moved to another machine and the image was fetched again on the same day: the later
//!   one counts, and gets the words of both. If two addresses share a path, the second gets a
//!   mark, as in a crawl. Equal files become links to the one that was fetched first.
//! - **Changes of images that another part has kept** (`edits`) are applied last, in order of
//!   time.
//!
//! If anything that a row names is missing, the merge fails; `spoor cluster check` and
//! `spoor archive check` verify the bytes. Memory grows by the path and the digest of each image.

mod archives;
mod edited;
mod images;
mod rows_in_order;
mod texts;

use std::fmt::Display;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use self::images::Images;
use self::rows_in_order::in_order;
use self::texts::Texts;
use super::output::{Form, Open, Output};
use super::{
    OutputError, Outputs, TextPlace, fields, log, make_folder_of, remove, rotate,
    texts as sentences, withdrawn,
};
use super::{document, refuse_links_out};
use crate::fs::IoError;
use crate::fs::beneath;
use crate::progress::Step;
use crate::tool_error::ToolError;

/// The outputs of one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachinePart {
    /// Its name in messages.
    pub name: String,
    /// The folder of its outputs, which are no longer written to.
    pub folder: PathBuf,
}

/// A file of a part is missing, truncated or not written by spoor.
fn damaged(part: &str, path: &Path, why: impl Display) -> ToolError {
    let path = path.display();
    ToolError::new(format_args!(
        "the part {part}: {path}: {why}; restore the file, or leave this part out"
    ))
}

/// A file of a part cannot be read.
fn unread(part: &str, error: &IoError) -> ToolError {
    ToolError::new(format_args!(
        "the part {part}: {error}; correct that, or leave this part out"
    ))
}

impl MachinePart {
    fn damaged(&self, file: &str, why: impl Display) -> ToolError {
        damaged(&self.name, &self.folder.join(file), why)
    }

    fn unread(&self, file: &str, what: &'static str) -> impl FnOnce(std::io::Error) -> ToolError {
        let path = self.folder.join(file);
        let part = self.name.clone();
        move |error| match error.kind() {
            ErrorKind::NotFound => damaged(&part, &path, "it is missing"),
            _ => unread(&part, &IoError::at(&path, what)(error)),
        }
    }

    /// An error of a function that reads outputs, as an error of this part.
    fn wrong(&self, error: OutputError) -> ToolError {
        match error {
            OutputError::Io(source) => unread(&self.name, &source),
            OutputError::Sidecar { path, why } => damaged(&self.name, &path, why),
            other => self.damaged("", other),
        }
    }

    /// Refuses a part that is still being written.
    fn check(&self) -> Result<(), ToolError> {
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

    /// Links a file of the part into another folder, or copies it if the file system has no links.
    fn link(&self, file: &str, into: &Path, to: &str) -> Result<(), ToolError> {
        make_folder_of(into, to)?;
        super::remove(into, to)?;
        // Linked files are never written in place.
        if beneath::hard_link_into(&self.folder, file, into, to).is_ok() {
            return Ok(());
        }
        let mut from = beneath::open(&self.folder, file).map_err(self.unread(file, "opening"))?;
        let path = into.join(to);
        let mut copy = beneath::create(into, to).map_err(IoError::at(&path, "creating"))?;
        std::io::copy(&mut from, &mut copy).map_err(IoError::at(&path, "copying to"))?;
        Ok(())
    }
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
    /// Changes that were made to images of another part.
    pub edits: u64,
    /// Changes that were left out, because no part has the image with that page.
    pub lost_edits: u64,
}

/// Writes the outputs of all `parts` into the existing folder `into`, which has no outputs. If
/// times are equal, the later part wins, so the parts are given in the order in which the
/// machines began. The parts are only read.
///
/// # Errors
///
/// [`ToolError`]; then the folder has incomplete outputs and is useless.
pub fn merge(parts: &[MachinePart], into: &Path) -> Result<Merged, ToolError> {
    let mut merged = Merged::default();
    for part in parts {
        part.check()?;
    }
    let images = Images::gather(parts, into, &mut merged)?;
    let archives = archives::gather(parts, into)?;
    log_rows(parts, into, &images, &archives, &mut merged)?;
    let mut found = TableOut::of(&fields::Fields, into)?;
    in_order(parts, &fields::Fields, &mut |row| found.line(row.text))?;
    let mut gone = TableOut::of(&withdrawn::WithdrawnLines, into)?;
    in_order(parts, &withdrawn::WithdrawnLines, &mut |row| {
        gone.line(row.text)
    })?;
    image_rows(parts, into, &images)?;
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
    fn of(output: &'static dyn Output, folder: &'m Path) -> Result<Self, ToolError> {
        let open = Open::at(output, folder, None)?;
        Ok(Self { open, folder })
    }

    fn line(&mut self, line: &str) -> Result<(), ToolError> {
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

/// The parts of a row of the log that name places.
#[derive(Deserialize)]
struct Named {
    sentences: Option<TextPlace>,
    documents: Option<TextPlace>,
    archive: Option<TextPlace>,
    file: Option<String>,
}

/// Merges the logs, and the texts that they name.
fn log_rows(
    parts: &[MachinePart],
    into: &Path,
    images: &Images,
    archives: &archives::Moved,
    merged: &mut Merged,
) -> Result<(), ToolError> {
    let mut out = TableOut::of(&log::Log, into)?;
    let mut sentences = Texts::of(&sentences::Sentences, into)?;
    let mut documents = Texts::of(&document::DocumentLines, into)?;
    let mut step = Step::begin("gathering rows of the log", None);
    in_order(parts, &log::Log, &mut |row| {
        let places: Named = row.parse()?;
        let mut line = row.text.to_owned();
        for (key, place, texts) in [
            ("sentences", places.sentences, &mut sentences),
            ("documents", places.documents, &mut documents),
        ] {
            if let Some(place) = place {
                let now = texts.copy(row.number, row.part, &place)?;
                line = remove::with(&line, key, &place, Some(&now));
            }
        }
        if let Some(place) = places.archive {
            let now = archives::place(archives, row, &place)?;
            if now != place {
                line = remove::with(&line, "archive", &place, Some(&now));
            }
        }
        if let Some(file) = places.file
            && let Some(now) = images.renamed(row.number, &file)
        {
            line = remove::with(&line, "file", &file, Some(&now.to_owned()));
        }
        merged.rows += 1;
        step.advance(1);
        out.line(&line)
    })
}

/// Appends the rows of `images.tsv` of one part after the other.
fn image_rows(parts: &[MachinePart], into: &Path, images: &Images) -> Result<(), ToolError> {
    let mut out = TableOut::of(&log::Images, into)?;
    rows_in_order::one_after_another(parts, &log::Images, &mut |row| {
        // Each file has the header.
        if row.text == log::IMAGES_HEADER.trim_end() {
            return Ok(());
        }
        let file = row.text.split('\t').nth(1);
        match file.and_then(|file| Some((file, images.renamed(row.number, file)?))) {
            Some((file, now)) => {
                let cell = |name: &str| format!("\t{name}\t");
                out.line(&row.text.replacen(&cell(file), &cell(now), 1))
            }
            None => out.line(row.text),
        }
    })
}
