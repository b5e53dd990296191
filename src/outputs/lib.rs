//! The outputs of a job: images with sidecars, documents, sentences, the crawl log.
//!
//! Everything that grows is append-only, and written through to the operating system
//! before the frontier commits. [`Outputs::stamp`] records the length of each file; the
//! frontier stores it in the same batch as the effects of the task, and [`Outputs::open`]
//! truncates the files to it, so that after a crash the outputs and the frontier agree to
//! the byte. Image files and sidecars are written whole under a temporary name and
//! renamed. The row in `images.tsv` is written before them, so that the rows beyond the
//! stamp name every image and every context that must be removed with them (`undo`).
//!
//! Bytes that were kept before under another address are not written again: the image is a
//! hard link to the earlier file. No file is written in place, so writing one name never
//! changes the content under another.
//!
//! The outputs make no decisions: they do not rate, choose or queue.
//!
//! Reading order: this file, `output` (the list of growing outputs), `append` (append-only
//! files), `segments` (names of numbered files), `log` (rows), `names` (paths of images),
//! `sidecar`, `sightings` (pending changes to sidecars), `known` (a cache of sidecars),
//! `document`, `fields` (what rules found), `schema` (of sidecars and documents), `rows` and
//! `rotate` (reading and writing tables of several files), `chores` (work on complete files),
//! `undo`, `growth` (what checkpoints send), `remove`, `samples` (locking samples for reading
//! or removal), `texts` (the sentences of each page).

// Tests name their own files.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod append;
mod archive;
mod chores;
mod document;
mod edits;
mod fields;
pub mod growth;
mod known;
mod list;
mod log;
pub mod merge;
mod names;
mod output;
pub mod picture;
mod pieces;
mod remove;
mod rotate;
mod rows;
mod samples;
mod schema;
mod segments;
mod sidecar;
mod sightings;
#[cfg(test)]
mod tests;
mod texts;
mod undo;
mod withdrawn;

use spoor_rules as rules;
use spoor_values::{address, clock, fs, page, progress, sanitize, tool_error};
use std::collections::btree_map;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub use self::archive::About;
pub use self::document::{
    DOCUMENTS, Document, Documents, Replaced, document_at, documents, forget, forget_images,
};
pub use self::edits::ImageEdit;
pub use self::log::Row;
pub use self::log::cell;
pub use self::remove::{
    Leaving, Rewriting, Shares, count_rows, forget_first, generation, image_row_names,
    remove_contexts, remove_image,
};
pub use self::rotate::append_line;
pub use self::rows::{MAX_ROW, Part, Table, TableLine, each_line, fetched_pages, lines, parts};
pub use self::samples::{SampleLock, read_samples, remove_samples};
pub use self::schema::{document_schema, fields_schema, sidecar_schema};
pub use self::sidecar::{Sidecar, image_files};
pub use self::texts::{PackedSentences, PageText, PageTexts, TextPlace, page_texts, sentences_at};
use crate::address::PageUrl;
use crate::fs::atomic::{self, Durability};
use crate::fs::beneath::{self, JobPath};
use crate::fs::{IoError, if_there};
use crate::page::{ImageContext, Terms};
use crate::picture::ImageInfo;
use crate::tool_error::ToolCause;
use chores::{Chore, Chores};
use known::{Known, KnownContext, KnownImages};
use list::OUTPUTS;
use output::{Open, Output, Stamp};
use sightings::{Change, Sightings};
use spoor_archive::writer::Compression;
pub use withdrawn::Withdrawn;

/// Why an output cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The operating system reported an error.
    #[error("{}; {}, then run the job again: it resumes", .0, remedy(&.0.source))]
    Io(#[from] IoError),
    /// A file is shorter than the frontier recorded.
    #[error(
        "{}: {found} bytes long, but the frontier recorded {expected}; \
         after a loss of power, move the job's frontier folder away and `spoor frontier import` the newest \
         file in its checkpoints folder; where it was changed from outside, restore it, or move it away \
         if it is crawl.jsonl or images.tsv: the crawl then continues with a new one",
        path.display()
    )]
    Short {
        /// The file.
        path: PathBuf,
        /// Its length now.
        found: u64,
        /// Its length at the last commit.
        expected: u64,
    },
    /// A sidecar is invalid.
    #[error("{}: not a sidecar that spoor wrote ({why}); move it away: the image stays, and later pages are not recorded with it", path.display())]
    Sidecar {
        /// The file.
        path: PathBuf,
        /// The problem.
        why: String,
    },
    /// The pending changes to a sidecar cannot be read.
    #[error("{}:{line}: not a line that spoor wrote ({why}); move the file away: the words of some pages about one image are then lost", path.display())]
    Sightings {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The problem.
        why: String,
    },
    /// A document cannot be read.
    #[error("{}: damaged at byte {at} ({why}); the documents after it are read; restore the file from a copy to recover this one", path.display())]
    Document {
        /// The file.
        path: PathBuf,
        /// Where its frame begins.
        at: u64,
        /// The problem.
        why: String,
    },
    /// Samples are being removed.
    #[error("{}: a takedown removes samples from this job; wait for it", .0.display())]
    Removing(PathBuf),
    /// The samples are in use.
    #[error("{}: `spoor rank`, `spoor export`, `spoor annotate`, `spoor index` or `spoor search` uses the samples of this job; wait for it or stop it first", .0.display())]
    Reading(PathBuf),
    /// The recorded lengths cannot be decoded.
    #[error("the frontier's record of the outputs is damaged ({why})")]
    Stamp {
        /// The problem.
        why: String,
    },
}

impl ToolCause for OutputError {}

/// An image to be kept.
#[derive(Debug)]
pub struct NewImageFile<'a> {
    /// Its address.
    pub url: &'a PageUrl,
    /// The bytes as served.
    pub bytes: &'a [u8],
    /// Format and size, from its header.
    pub info: ImageInfo,
    /// The `Content-Type` as sent.
    pub content_type: Option<&'a str>,
    /// The terms of use of the response that contained it.
    pub terms: Terms,
    /// When it was fetched, RFC 3339 in UTC.
    pub fetched: &'a str,
    /// Every context found so far.
    pub contexts: Vec<ImageContext>,
}

impl<'a> NewImageFile<'a> {
    /// An image with no terms and no contexts, fetched at this time.
    pub fn new(url: &'a PageUrl, bytes: &'a [u8], info: ImageInfo, fetched: &'a str) -> Self {
        Self {
            url,
            bytes,
            info,
            content_type: None,
            terms: Terms::default(),
            fetched,
            contexts: Vec::new(),
        }
    }
}

/// Where an image was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Path below the job's folder.
    pub file: String,
    /// False if it has the bytes of an earlier file.
    pub first: bool,
}

/// The open outputs of a job.
pub struct Outputs {
    folder: PathBuf,
    /// The outputs by name.
    open: BTreeMap<&'static str, Open>,
    /// How often rows were removed from them.
    generation: u64,
    sightings: Sightings,
    memory: KnownImages,
    chores: Chores,
    /// The size in bytes at which a table starts a new file.
    rotate: u64,
    /// The description of the crawl in its archive.
    about: About,
    /// Numbers of the caller, by name.
    marks: BTreeMap<String, u64>,
    /// Nothing is written.
    discards: bool,
    /// Images of the job may be in another folder.
    shares: bool,
    restated: Option<Restated>,
}

/// The images whose sidecars have changed without a row in `images.tsv`.
pub type Restated = Arc<Mutex<BTreeSet<String>>>;

/// The default size in bytes at which a table starts a new file.
pub const ROTATE: u64 = 256 << 20;

impl Outputs {
    /// Opens the outputs in a job's folder. `stamp` is the result of [`Outputs::stamp`] at
    /// the last commit: everything beyond it is cut off. An empty stamp means that the
    /// frontier does not know these files, so existing data are kept and appended to;
    /// texts then start a new file, because the last one may end in the middle of a page.
    /// The same applies if rows were removed after the stamp ([`Rewriting`]), because its
    /// lengths are no longer valid.
    ///
    /// # Errors
    ///
    /// [`OutputError`] names the file.
    pub fn open(folder: &Path, stamp: &[u8]) -> Result<Self, OutputError> {
        let generation = remove::generation(folder)?;
        let known: Option<Stamp> = match stamp {
            [] => None,
            bytes => {
                let stamp = Stamp::read(bytes)?;
                if stamp.generation != generation {
                    tracing::warn!(
                        path = %folder.display(),
                        "the frontier is older than a takedown: pages fetched since then are fetched again, and their rows are kept"
                    );
                }
                (stamp.generation == generation).then_some(stamp)
            }
        };
        std::fs::create_dir_all(folder).map_err(IoError::at(folder, "making the folder"))?;
        make_folder(folder, "images")?;
        let mut open = BTreeMap::new();
        let mut chores = Chores::default();
        for output in OUTPUTS {
            let position = known.as_ref().map(|stamp| stamp.of(output));
            open.insert(output.name(), Open::at(output, folder, position)?);
            for name in output::unpacked(output, folder)? {
                chores.add(folder, Chore::Pack(name));
            }
            for name in output::unindexed(output, folder)? {
                chores.add(folder, Chore::Index(name));
            }
        }
        // After the lost effects were undone.
        sightings::fold_all(folder)?;
        Ok(Self {
            folder: folder.to_owned(),
            open,
            generation,
            sightings: Sightings::new(folder),
            memory: KnownImages::default(),
            chores,
            rotate: ROTATE,
            about: About::default(),
            marks: known.map(Stamp::into_marks).unwrap_or_default(),
            discards: false,
            shares: false,
            restated: None,
        })
    }

    /// From now on records the images whose sidecars change without a row in `images.tsv`, so
    /// that the caller can take them.
    pub fn watch_restated(&mut self) -> Restated {
        Arc::clone(self.restated.get_or_insert_default())
    }

    /// From now on nothing is written: for a dry run.
    pub fn discard(&mut self) {
        self.discards = true;
    }

    /// From now on the job has images that another machine has kept. Their changes are written to
    /// `logs/edits.jsonl`, which otherwise is not written.
    pub fn shares_files(&mut self) {
        self.shares = true;
    }

    /// Sets a number that is stored with the lengths of the outputs, in the same batch, such as
    /// the progress of a replay.
    pub fn mark(&mut self, name: &str, value: u64) {
        match self.marks.get_mut(name) {
            Some(known) => *known = value,
            None => {
                self.marks.insert(name.to_owned(), value);
            }
        }
    }

    /// The numbers as of the last commit, with changes since.
    pub fn marks(&self) -> &BTreeMap<String, u64> {
        &self.marks
    }

    /// Sets the size in bytes at which a table starts a new file.
    pub fn rotate_at(&mut self, bytes: u64) {
        self.rotate = bytes;
    }

    /// Checks whether a table was moved or truncated while in use, and if so starts a new
    /// file. Returns true in that case; [`Outputs::stamp`] has then changed.
    ///
    /// # Errors
    ///
    /// [`OutputError::Io`] names the file.
    pub fn find_again(&mut self) -> Result<bool, OutputError> {
        let mut moved = false;
        for open in self.open.values_mut() {
            moved |= open.find_again()?;
        }
        Ok(moved)
    }

    /// The present lengths of the outputs.
    pub fn stamp(&self) -> Vec<u8> {
        let open = self.open.iter().filter(|(_, open)| open.is_stamped());
        let stamp = Stamp {
            generation: self.generation,
            outputs: open
                .map(|(name, open)| ((*name).to_owned(), open.position()))
                .collect(),
        }
        .with_marks(&self.marks);
        stamp.to_bytes()
    }

    /// Appends to an output, and returns the position.
    fn append(
        &mut self,
        output: &'static dyn Output,
        bytes: &[u8],
    ) -> Result<TextPlace, OutputError> {
        if self.discards {
            return Ok(TextPlace {
                file: String::new(),
                from: 0,
                bytes: bytes.len() as u64,
            });
        }
        let limit = self.rotate;
        let open = self.opened(output)?;
        if let Some(name) = open.rotate(limit)? {
            self.chores.add(&self.folder, Chore::Pack(name));
        }
        self.opened(output)?.append(bytes)
    }

    fn opened(&mut self, output: &'static dyn Output) -> Result<&mut Open, OutputError> {
        Ok(match self.open.entry(output.name()) {
            btree_map::Entry::Occupied(open) => open.into_mut(),
            btree_map::Entry::Vacant(place) => place.insert(Open::at(output, &self.folder, None)?),
        })
    }

    /// Records a finished task in the outputs: a line in `logs/crawl.jsonl`.
    ///
    /// # Errors
    ///
    /// [`OutputError::Io`].
    pub fn log(&mut self, task: &Row<'_>) -> Result<(), OutputError> {
        for output in OUTPUTS {
            if let Some(lines) = output.of_task(task) {
                self.append(output, lines.as_bytes())?;
            }
        }
        Ok(())
    }

    /// Appends sentences to `sentences/*.txt.gz`, as a separate gzip member. Returns the position,
    /// if there are any sentences.
    ///
    /// # Errors
    ///
    /// [`OutputError::Io`].
    pub fn sentences(
        &mut self,
        sentences: &PackedSentences,
    ) -> Result<Option<TextPlace>, OutputError> {
        match sentences.bytes() {
            [] => Ok(None),
            member => self.append(&texts::Sentences, member).map(Some),
        }
    }

    /// Appends the records of an exchange to `archive/*.warc.gz`, and returns their position.
    ///
    /// # Errors
    ///
    /// [`OutputError::Io`].
    pub fn exchange(&mut self, records: &[u8], now: u64) -> Result<TextPlace, OutputError> {
        let label = self.about.label(now);
        let archive = self.opened(&archive::Archive)?;
        if archive.is_full() {
            let complete = archive.complete()?;
            let name = archive.begin(&label)?;
            if let Some(complete) = complete {
                self.chores.add(&self.folder, Chore::Index(complete));
            }
            let beginning = self.about.beginning(&name, now);
            self.append(&archive::Archive, &beginning)?;
        }
        self.append(&archive::Archive, records)
    }

    /// Sets the description of the crawl in its archive.
    pub fn about(&mut self, about: About) {
        self.about = about;
    }

    /// How the records of the archive are to be compressed.
    pub fn compression(&self) -> Compression {
        self.about.compression.clone()
    }

    /// Appends a document to `documents/*.jsonl.zst`, and returns its position.
    ///
    /// # Errors
    ///
    /// [`OutputError::Io`].
    pub fn document(&mut self, document: &Document) -> Result<TextPlace, OutputError> {
        let path = self.folder.join(DOCUMENTS);
        let frame = document
            .to_frame()
            .map_err(IoError::at(&path, "compressing"))?;
        self.append(&document::DocumentLines, &frame)
    }

    /// Keeps an image: its bytes, its sidecar, a row for each context. Returns the path of
    /// the image relative to the job's folder.
    ///
    /// # Errors
    ///
    /// [`OutputError`] names the file.
    pub fn image(&mut self, new: NewImageFile<'_>) -> Result<String, OutputError> {
        Ok(self.image_or_link(new, None)?.file)
    }

    /// The same if the frontier knows an `earlier` file with these bytes: the image
    /// becomes a hard link to that file, or a copy if the file system does not support
    /// links. Its sidecar records this, and everything else is as for any image. If the
    /// earlier file is missing or has other bytes by now, the image is kept as the first
    /// one.
    ///
    /// # Errors
    ///
    /// [`OutputError`] names the file.
    pub fn image_or_link(
        &mut self,
        new: NewImageFile<'_>,
        earlier: Option<&str>,
    ) -> Result<Kept, OutputError> {
        let date = new.fetched.get(..10).unwrap_or("undated");
        if self.discards {
            let (file, _) = sidecar::place(&self.folder, date, &new)?;
            return Ok(Kept {
                file: file.as_str().to_owned(),
                first: earlier.is_none(),
            });
        }
        let (mut file, mut sidecar) = sidecar::place(&self.folder, date, &new)?;
        if !sidecar.contexts().is_empty() {
            // It was kept before, and changes to its sidecar may be pending.
            self.sightings.settle(file.as_str())?;
            (file, sidecar) = sidecar::place(&self.folder, date, &new)?;
        }
        self.memory.take(file.as_str());
        let earlier = earlier.and_then(image_path);
        let earlier = earlier.filter(|e| *e != file && holds(&self.folder, e, new.bytes));
        sidecar.set_same_as(earlier.clone());
        let rows: String = new
            .contexts
            .iter()
            .map(|context| log::image_row(&log::image_head(&sidecar), context))
            .collect();
        sidecar.add(new.contexts);
        self.append(&log::Images, rows.as_bytes())?;
        let linked = match &earlier {
            Some(earlier) => link_whole(&self.folder, earlier.as_str(), file.as_str())?,
            None => false,
        };
        if !linked {
            // Waiting for the disk at each image would hold up the crawl. A checkpoint
            // syncs them all (`sync`).
            write_whole(&self.folder, file.as_str(), new.bytes, Durability::Later)?;
        }
        sidecar.save(&self.folder)?;
        let first = earlier.is_none();
        let file = file.as_str().to_owned();
        Ok(Kept { file, first })
    }

    /// Changes an image that was kept before, at `time`, RFC 3339 in UTC. If the job shares files
    /// ([`shares_files`](Self::shares_files)) and another machine may have kept it, the change is
    /// recorded for the merge of all machines' outputs.
    ///
    /// # Errors
    ///
    /// [`OutputError`] names the file.
    pub fn edit_image(
        &mut self,
        time: &str,
        file: &str,
        edit: ImageEdit,
    ) -> Result<(), OutputError> {
        let shared = self.shares.then(|| edit.clone());
        let effect = self.change_image(file, edit)?;
        if let Some(edit) = shared.filter(|edit| edit.is_for_merge(effect)) {
            let line = edits::EditLine::new(time, file, edit).to_line();
            self.append(&edits::Edits, line.as_bytes())?;
        }
        Ok(())
    }

    /// Changes an image.
    fn change_image(&mut self, file: &str, edit: ImageEdit) -> Result<Effect, OutputError> {
        match edit {
            ImageEdit::Context { context, changed } => {
                self.extend_image(file, *context, ImageEdit::visit(changed))
            }
            ImageEdit::Boilerplate { page, unknown } => self.mark_boilerplate(file, &page, unknown),
            ImageEdit::Terms { page, terms } => self.restate_terms(file, &page, &terms),
        }
    }

    /// Adds a context to the sidecar of the image at `file`, unless it is full, and a row.
    /// If the sidecar was moved away, neither is written.
    ///
    /// # Errors
    ///
    /// [`OutputError`] names the file.
    pub fn extend_image(
        &mut self,
        file: &str,
        context: ImageContext,
        visit: VisitKind,
    ) -> Result<Effect, OutputError> {
        let Some(known) = self.known(file, &context.page)? else {
            return Ok(Effect::Missing);
        };
        let entry = KnownContext::of(&context);
        let has_row = match visit {
            VisitKind::First => false,
            // A page at a revisit often has the same context.
            VisitKind::Changed => known.has(&context.page, entry),
            VisitKind::Same => {
                !known.has_room(&context.page, entry) || known.has(&context.page, entry)
            }
        };
        if has_row {
            self.memory.put(file, known);
            return Ok(Effect::Nothing);
        }
        self.put(file, known, context, entry)
    }

    /// Marks the alt text that `page` gives the image at `file` as boilerplate, and adds a
    /// row; `unknown` is the perplexity of a run of unknown words. If the sidecar was
    /// moved away or does not contain the page, nothing is done.
    ///
    /// # Errors
    ///
    /// [`OutputError`] names the file.
    pub fn mark_boilerplate(
        &mut self,
        file: &str,
        page: &PageUrl,
        unknown: f64,
    ) -> Result<Effect, OutputError> {
        let Some(known) = self.known(file, page)? else {
            return Ok(Effect::Missing);
        };
        let sidecar = Sidecar::load(&self.folder, file)?;
        let Some(mut context) = sidecar.contexts().iter().find(|c| c.page == *page).cloned() else {
            self.memory.put(file, known);
            return Ok(Effect::Missing);
        };
        context.mark_boilerplate(unknown);
        let entry = KnownContext::of(&context);
        // A crash may have left the mark without the row.
        self.put(file, known, context, entry)
    }

    /// Updates the terms of `page` in the sidecar of the image at `file`. If the sidecar
    /// was moved away or does not contain the page, nothing is done.
    ///
    /// # Errors
    ///
    /// [`OutputError`] names the file.
    pub fn restate_terms(
        &mut self,
        file: &str,
        page: &PageUrl,
        terms: &Terms,
    ) -> Result<Effect, OutputError> {
        let Some(known) = self.known(file, page)? else {
            return Ok(Effect::Missing);
        };
        let mut sidecar = Sidecar::load(&self.folder, file)?;
        if !sidecar.restate(page, terms) {
            self.memory.put(file, known);
            return Ok(if sidecar.has_page(page) {
                Effect::Nothing
            } else {
                Effect::Missing
            });
        }
        // Rows do not contain terms. The context has changed, so the sidecar is read again
        // at the next use of the image.
        if let Some(restated) = &self.restated {
            let mut restated = restated.lock().unwrap_or_else(PoisonError::into_inner);
            restated.insert(file.to_owned());
        }
        let (page, terms) = (page.clone(), terms.clone());
        let added = self.sightings.add(file, Change::Terms { page, terms })?;
        self.fold_due(file, known.journal + added, known.sidecar)?;
        Ok(Effect::Changed)
    }

    /// The cached or freshly read sidecar of an image that `page` refers to.
    fn known(&mut self, file: &str, page: &PageUrl) -> Result<Option<Known>, OutputError> {
        if self.discards {
            return Ok(None);
        }
        self.sightings.check()?;
        // An imported frontier may name any file.
        let is_there = match image_path(file) {
            Some(file) => is_there(&self.folder, &sidecar::name_of(file.as_str()))?,
            None => false,
        };
        if !is_there {
            // Another machine may have it.
            if !self.shares {
                let path = sidecar::path_of(&self.folder, file);
                tracing::warn!(path = %path.display(), %page, "no sidecar to add this page to");
            }
            return Ok(None);
        }
        match self.memory.take(file) {
            Some(known) => Ok(Some(known)),
            None => Known::load(&self.folder, file).map(Some),
        }
    }

    /// Adds a row, and a context if there is room.
    fn put(
        &mut self,
        file: &str,
        mut known: Known,
        context: ImageContext,
        entry: KnownContext,
    ) -> Result<Effect, OutputError> {
        let row = log::image_row(&known.head, &context);
        self.append(&log::Images, row.as_bytes())?;
        if known.has_room(&context.page, entry) {
            known.note(&context.page, entry);
            let change = Change::Context(Box::new(context));
            known.journal += self.sightings.add(file, change)?;
            if self.fold_due(file, known.journal, known.sidecar)? {
                known.sidecar += std::mem::take(&mut known.journal);
            }
        }
        self.memory.put(file, known);
        Ok(Effect::Changed)
    }

    fn fold_due(&mut self, file: &str, journal: u64, sidecar: u64) -> Result<bool, OutputError> {
        Ok(Sightings::is_due(journal, sidecar) && self.sightings.fold(file)?)
    }

    /// Writes all pending changes into their sidecars, as at the end of a crawl. Until
    /// then they are in journals, which [`Sidecar::load`] reads as well.
    ///
    /// # Errors
    ///
    /// [`OutputError`] names the file.
    pub fn fold(&mut self) -> Result<(), OutputError> {
        self.memory = KnownImages::default();
        self.sightings.settle_all()
    }

    /// Completes the files that have `.open` in their names while they grow, at the end of a
    /// crawl. Later pieces begin new ones.
    ///
    /// # Errors
    ///
    /// [`OutputError::Io`] names the file.
    pub fn complete(&mut self) -> Result<(), OutputError> {
        for open in self.open.values_mut() {
            if let Some(name) = open.complete()? {
                self.chores.add(&self.folder, Chore::Index(name));
            }
        }
        Ok(())
    }

    /// Returns when everything written so far, including images, would survive a power
    /// loss. It must be called before the store is flushed, or the store could contain
    /// tasks whose outputs are lost.
    ///
    /// # Errors
    ///
    /// [`OutputError::Io`].
    pub fn sync(&self) -> Result<(), OutputError> {
        self.open.values().try_for_each(Open::sync)?;
        sync_folder(&self.folder)
    }

    /// The job's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// The effect of a change of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// There was nothing to change.
    Nothing,
    /// The sidecar, or the rows, or both were changed.
    Changed,
    /// Nothing was changed: there is no such sidecar here, or it does not have the page.
    Missing,
}

/// The visit of a page that refers to an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VisitKind {
    /// The first one: no row of it was committed. Its words may still be in the sidecar, if a
    /// power failure lost a row that was not on the disk yet but left the sidecar.
    First,
    /// A later one with a different text.
    Changed,
    /// A later one with the same text.
    Same,
}

/// Whether there is a regular file of this name below the job's folder.
fn is_there(folder: &Path, name: &str) -> Result<bool, OutputError> {
    let found = beneath::look(folder, name);
    Ok(found
        .map_err(IoError::at(&folder.join(name), "looking for"))?
        .is_some())
}

/// Refuses a job in which a link leads out of its folder: every command checks this before
/// it opens files with fixed names. Files that other files of the job name are opened
/// beneath its folder.
///
/// # Errors
///
/// [`OutputError::Io`] names the link.
pub fn refuse_links_out(folder: &Path) -> Result<(), OutputError> {
    let parts = [
        ("", 0),
        ("logs", 0),
        ("images", 0),
        ("sentences", 0),
        (DOCUMENTS, 0),
        ("archive", 0),
        ("annotations", 0),
        ("exports", 0),
        ("report", 1),
        ("checkpoints", 0),
        ("takedowns", 0),
        ("search", 0),
        ("frontier", 8),
    ];
    for (name, deeper) in parts {
        beneath::refuse_links_out(folder, name, deeper)
            .map_err(IoError::at(folder, "opening the job"))?;
    }
    Ok(())
}

/// Returns when every file below `folder` that was written so far is on the disk. This
/// syncs its whole file system at once, because there are many images.
///
/// # Errors
///
/// [`OutputError::Io`].
pub fn sync_folder(folder: &Path) -> Result<(), OutputError> {
    Ok(crate::fs::sync_file_system(folder).map_err(IoError::at(folder, "syncing"))?)
}

fn make_folder(folder: &Path, name: &str) -> Result<(), OutputError> {
    let made = beneath::create_dir_all(folder, name);
    Ok(made.map_err(IoError::at(&folder.join(name), "making the folder"))?)
}

/// The path of an image from an untrusted source; `None` if it cannot be one.
fn image_path(file: &str) -> Option<JobPath> {
    let path = file.starts_with("images/").then(|| JobPath::parse(file));
    path?.ok()
}

/// Creates the parent folder of a file; `name` is its path below the job's folder.
fn make_folder_of(folder: &Path, name: &str) -> Result<(), OutputError> {
    match name.rsplit_once('/') {
        None => Ok(()),
        Some((parent, _)) => make_folder(folder, parent),
    }
}

/// Writes a file under a temporary name and renames it, so that no reader and
/// no crash ever sees half of it.
fn write_whole(
    folder: &Path,
    name: &str,
    bytes: &[u8],
    durability: Durability,
) -> Result<(), OutputError> {
    make_folder_of(folder, name)?;
    let written = atomic::write_through(folder, &part_of(name), name, bytes, durability);
    Ok(written.map_err(IoError::at(&folder.join(name), "writing"))?)
}

/// Whether the file at `name`, a path below the job's folder, has these bytes. Its
/// recorded digest would not show whether it has changed since.
fn holds(folder: &Path, name: &JobPath, bytes: &[u8]) -> bool {
    beneath::length(folder, name) == Some(bytes.len() as u64)
        && !beneath::is_link(folder, name)
        && beneath::read(folder, name).is_ok_and(|found| found == bytes)
}

/// Makes `name` a hard link to the file at `known`, atomically as in [`write_whole`].
/// False if the file system refuses, as some always do and all do after some thousand
/// links.
fn link_whole(folder: &Path, known: &str, name: &str) -> Result<bool, OutputError> {
    make_folder_of(folder, name)?;
    let part = part_of(name);
    remove(folder, &part)?;
    let path = folder.join(name);
    if let Err(error) = beneath::hard_link(folder, known, &part) {
        tracing::debug!(path = %path.display(), %error, "a copy instead of a link");
        return Ok(false);
    }
    // No bytes are written, and the name may come later, as that of an image that is written.
    beneath::rename(folder, &part, name).map_err(IoError::at(&path, "renaming"))?;
    // Two names of one file are not renamed onto each other (POSIX `rename`).
    remove(folder, &part)?;
    Ok(true)
}

/// Removes a file if it exists.
fn remove(folder: &Path, name: &str) -> Result<(), OutputError> {
    let removed = if_there(beneath::remove_file(folder, name));
    removed.map_err(IoError::at(&folder.join(name), "removing"))?;
    Ok(())
}

/// The temporary name for writing a file.
fn part_of(name: &str) -> String {
    format!("{name}.part")
}

/// Advice after an error of the system.
fn remedy(error: &std::io::Error) -> &'static str {
    // EMFILE and ENFILE have no kind of their own.
    match error.raw_os_error() {
        Some(23 | 24) => "raise the limit of open files (ulimit -n)",
        // spoor itself refused, and the message explains the problem.
        None if error.kind() == std::io::ErrorKind::InvalidInput => "correct that",
        _ => "free space or correct the permissions",
    }
}
