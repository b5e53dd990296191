//! The outputs of a job: images with sidecars, documents, sentences, the crawl log.
//!
//! Everything that grows is append-only, and written through to the operating
//! system before the frontier commits. [`Outputs::stamp`] says how long each
//! file is; the frontier keeps that in the same batch as the effects of the
//! task, and [`Outputs::open`] cuts the files back to it, so that after a crash
//! the outputs and the frontier agree to the byte. Image files and sidecars are
//! written whole under a temporary name and renamed. The row in `images.tsv` goes
//! before them, so that the rows beyond the stamp name every image and every
//! context that must be taken back with them (`undo`).
//!
//! Bytes that were kept before under another address are not written again: the
//! image is a hard link to the earlier file. No file is ever written in place, so
//! that no name changes what lies under another.
//!
//! The outputs decide nothing: they do not rate, choose or queue.
//!
//! Reading order: this file, `output` (the list of what grows), `append` (files that grow),
//! `log` (rows), `names`
//! (where an image lies), `sidecar`, `sightings` (what is to be written into sidecars),
//! `known` (what is remembered of them), `document`, `schema` (what sidecars and documents
//! may contain), `rows` and `rotate` (tables of several files, to read and to write),
//! `undo`, `remove`, `samples` (who may read or remove them), `texts` (which sentences are of
//! which page).

mod append;
mod document;
mod known;
mod log;
mod names;
mod output;
mod remove;
mod rotate;
mod rows;
mod samples;
mod schema;
mod sidecar;
mod sightings;
#[cfg(test)]
mod tests;
mod texts;
mod undo;

use std::collections::BTreeMap;
use std::collections::btree_map;
use std::path::{Path, PathBuf};

pub use self::document::{DOCUMENTS, Document, Documents, Replaced, document_at, documents};
pub use self::log::Row;
pub(crate) use self::log::cell;
pub use self::remove::{
    Leaving, Rewriting, Shares, count_rows, forget_first, generation, image_row_names,
    remove_contexts, remove_image,
};
pub(crate) use self::rotate::append_line;
pub use self::rows::{Line, Part, Table, each_line, lines, parts};
pub use self::samples::{Hold, read_samples, remove_samples};
pub use self::schema::{document_schema, sidecar_schema};
pub use self::sidecar::{Sidecar, image_files};
pub use self::texts::{PageText, PageTexts, TextPlace, page_texts, sentences_at};
use crate::address::PageUrl;
use crate::fs::IoError;
use crate::fs::atomic::{self, Durability};
use crate::fs::beneath::{self, JobPath};
use crate::page::{ImageContext, Terms};
use crate::picture::ImageInfo;
use known::{Entry, Known, Memory};
use output::{OUTPUTS, Open, Output, Stamp};
use rotate::Packer;
use sightings::{Change, Sightings};

/// Why an output cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The operating system refused.
    #[error("{}; {}, then run the job again: it resumes", .0, remedy(&.0.source))]
    Io(#[from] IoError),
    /// A file is shorter than the frontier knows it to have been.
    #[error(
        "{}: {found} bytes long, but the frontier recorded {expected}; \
         after a loss of power, move the job's frontier folder away and `spoor frontier import` the newest \
         file in its checkpoints folder; where it was changed from outside, restore it, or move it away \
         if it is crawl.jsonl or images.tsv: the crawl goes on with a new one then",
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
    /// A sidecar is no valid sidecar.
    #[error("{}: not a sidecar that spoor wrote ({why}); move it away: the image stays, and pages met later are not recorded with it", path.display())]
    Sidecar {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// What pages said of an image cannot be read.
    #[error("{}:{line}: not a line that spoor wrote ({why}); move the file away: what some pages said of one image is then lost", path.display())]
    Sightings {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// A document cannot be read.
    #[error("{}: damaged at byte {at} ({why}); the documents behind it are read; restore the file from a copy to have this one", path.display())]
    Document {
        /// The file.
        path: PathBuf,
        /// Where its frame begins.
        at: u64,
        /// What is wrong.
        why: String,
    },
    /// Samples are being removed.
    #[error("{}: a takedown removes samples from this job; wait for it", .0.display())]
    Removing(PathBuf),
    /// Something is being made of the samples.
    #[error("{}: `spoor rank`, `spoor export` or `spoor annotate` works on the samples of this job; wait for it or stop it first", .0.display())]
    Reading(PathBuf),
    /// The recorded positions do not decode.
    #[error("the frontier's record of the outputs is damaged ({why})")]
    Stamp {
        /// What is wrong.
        why: String,
    },
}

/// An image that is ready to be kept.
#[derive(Debug)]
pub struct NewImageFile<'a> {
    /// Its address.
    pub url: &'a PageUrl,
    /// The bytes as served.
    pub bytes: &'a [u8],
    /// What the header says.
    pub info: ImageInfo,
    /// The `Content-Type` as sent.
    pub content_type: Option<&'a str>,
    /// What the answer that brought it says of its use.
    pub terms: Terms,
    /// When it was fetched, RFC 3339 in UTC.
    pub fetched: &'a str,
    /// Every context in which it was met so far.
    pub contexts: Vec<ImageContext>,
}

#[cfg(test)]
impl<'a> NewImageFile<'a> {
    /// An image of which nothing else is known, fetched at [`tests::NOON`].
    pub(crate) fn bare(url: &'a PageUrl, bytes: &'a [u8], info: ImageInfo) -> Self {
        Self {
            url,
            bytes,
            info,
            content_type: None,
            terms: Terms::default(),
            fetched: tests::NOON,
            contexts: Vec::new(),
        }
    }
}

/// Where an image was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Path below the job's folder.
    pub file: String,
    /// False where it has the bytes of an earlier file.
    pub first: bool,
}

/// The open outputs of a job.
pub struct Outputs {
    folder: PathBuf,
    /// By the name of each.
    open: BTreeMap<&'static str, Open>,
    /// How often rows were removed from them.
    generation: u64,
    sightings: Sightings,
    memory: Memory,
    packer: Packer,
    /// Bytes of a table from which on another file is begun.
    rotate: u64,
}

/// The length of a table, in bytes, at which a new file is begun by default.
pub const ROTATE: u64 = 256 << 20;

impl Outputs {
    /// Opens the outputs in a job's folder. `stamp` is what [`Outputs::stamp`]
    /// gave at the last commit: all beyond is cut off. An empty one means that no
    /// frontier knows these files, so what lies there is kept and added to;
    /// texts begin a new file then, as the last one may end in the middle of
    /// a page. The same holds where the stamp is of before rows were removed
    /// ([`Rewriting`]): its lengths mean nothing any more.
    ///
    /// # Errors
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
                        "the frontier is of before a takedown: what was fetched since is fetched again, and its rows are kept"
                    );
                }
                (stamp.generation == generation).then_some(stamp)
            }
        };
        std::fs::create_dir_all(folder).map_err(IoError::at(folder, "making the folder"))?;
        make_folder(folder, "images")?;
        let mut open = BTreeMap::new();
        let mut packer = Packer::default();
        for output in OUTPUTS {
            let position = known.as_ref().map(|stamp| stamp.of(output));
            open.insert(output.name(), Open::at(output, folder, position)?);
            for name in output::unpacked(output, folder)? {
                packer.add(folder, name);
            }
        }
        // After what was lost was taken back.
        sightings::fold_all(folder)?;
        Ok(Self {
            folder: folder.to_owned(),
            open,
            generation,
            sightings: Sightings::new(folder),
            memory: Memory::default(),
            packer,
            rotate: ROTATE,
        })
    }

    /// Sets the length in bytes at which a new file of a table is begun.
    pub fn rotate_at(&mut self, bytes: u64) {
        self.rotate = bytes;
    }

    /// Checks whether somebody has moved or cut a table while it is written, and if so
    /// begins a new file. Returns true in that case; [`Outputs::stamp`] has then changed.
    ///
    /// # Errors
    /// [`OutputError::Io`] names the file.
    pub fn find_again(&mut self) -> Result<bool, OutputError> {
        let mut moved = false;
        for open in self.open.values_mut() {
            moved |= open.find_again()?;
        }
        Ok(moved)
    }

    /// Where the outputs stand now.
    pub fn stamp(&self) -> Vec<u8> {
        let open = self.open.iter();
        let stamp = Stamp {
            generation: self.generation,
            outputs: open
                .map(|(name, open)| ((*name).to_owned(), open.position()))
                .collect(),
        };
        stamp.to_bytes()
    }

    /// Appends to an output, and says where that lies.
    fn append(
        &mut self,
        output: &'static dyn Output,
        bytes: &[u8],
    ) -> Result<TextPlace, OutputError> {
        let open = match self.open.entry(output.name()) {
            btree_map::Entry::Occupied(open) => open.into_mut(),
            btree_map::Entry::Vacant(place) => place.insert(Open::at(output, &self.folder, None)?),
        };
        if let Some(name) = open.rotate(self.rotate)? {
            self.packer.add(&self.folder, name);
        }
        open.append(bytes)
    }

    /// Appends what the outputs have to say of a finished task: a line to `logs/crawl.jsonl`.
    ///
    /// # Errors
    /// [`OutputError::Io`].
    pub fn log(&mut self, task: &Row<'_>) -> Result<(), OutputError> {
        for output in OUTPUTS {
            if let Some(lines) = output.of_task(task) {
                self.append(output, lines.as_bytes())?;
            }
        }
        Ok(())
    }

    /// Appends sentences, one a line with its end, to `sentences/*.txt.gz`. Each call makes a
    /// gzip member of its own. Returns where they lie, if there are any.
    ///
    /// # Errors
    /// [`OutputError::Io`].
    pub fn sentences(&mut self, sentences: &str) -> Result<Option<TextPlace>, OutputError> {
        if sentences.is_empty() {
            return Ok(None);
        }
        let path = self.folder.join("sentences");
        let member = append::gzip(sentences).map_err(IoError::at(&path, "compressing"))?;
        self.append(&texts::Sentences, &member).map(Some)
    }

    /// Appends a document to `documents/*.jsonl.zst`, and says where it lies.
    ///
    /// # Errors
    /// [`OutputError::Io`].
    pub fn document(&mut self, document: &Document) -> Result<TextPlace, OutputError> {
        let path = self.folder.join(DOCUMENTS);
        let frame = document
            .to_frame()
            .map_err(IoError::at(&path, "compressing"))?;
        self.append(&document::DocumentLines, &frame)
    }

    /// Keeps an image: its bytes, its sidecar, a row for each context. Returns
    /// where the image lies, relative to the job's folder.
    ///
    /// # Errors
    /// [`OutputError`] names the file.
    pub fn image(&mut self, new: NewImageFile<'_>) -> Result<String, OutputError> {
        Ok(self.image_or_link(new, None)?.file)
    }

    /// The same where the frontier knows of an `earlier` file with these bytes: the
    /// image becomes another name of that file (a hard link), or a copy where the file
    /// system has none. Its sidecar says so, and all else is as for any image. An
    /// earlier file that is gone or has other bytes now is no copy, and the image is
    /// kept as the first.
    ///
    /// # Errors
    /// [`OutputError`] names the file.
    pub fn image_or_link(
        &mut self,
        new: NewImageFile<'_>,
        earlier: Option<&str>,
    ) -> Result<Kept, OutputError> {
        let date = new.fetched.get(..10).unwrap_or("undated");
        let (mut file, mut sidecar) = sidecar::place(&self.folder, date, &new)?;
        if !sidecar.contexts().is_empty() {
            // It was kept before, and what was said of it since may be on its way.
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

    /// Adds a context to the sidecar of an image that lies at `file`, unless it
    /// is full, and a row. Where the sidecar was moved away, neither.
    ///
    /// # Errors
    /// [`OutputError`] names the file.
    pub fn extend_image(
        &mut self,
        file: &str,
        context: ImageContext,
        visit: Visit,
    ) -> Result<(), OutputError> {
        let Some(known) = self.known(file, &context.page)? else {
            return Ok(());
        };
        let entry = Entry::of(&context);
        let has_row = match visit {
            Visit::First => false,
            // A page that is visited again often still says the same.
            Visit::Changed => known.has(&context.page, entry),
            Visit::Same => !known.has_room(&context.page, entry) || known.has(&context.page, entry),
        };
        if has_row {
            self.memory.put(file, known);
            return Ok(());
        }
        self.put(file, known, context, entry)
    }

    /// Marks the alt text that the image at `file` has on `page` as one that says
    /// nothing, and adds a row; `unknown` is the perplexity of a run of unknown words.
    /// Where the sidecar was moved away or knows of no such page, nothing is done.
    ///
    /// # Errors
    /// [`OutputError`] names the file.
    pub fn mark_boilerplate(
        &mut self,
        file: &str,
        page: &PageUrl,
        unknown: f64,
    ) -> Result<(), OutputError> {
        let Some(known) = self.known(file, page)? else {
            return Ok(());
        };
        let sidecar = Sidecar::load(&self.folder, file)?;
        let Some(mut context) = sidecar.contexts().iter().find(|c| c.page == *page).cloned() else {
            self.memory.put(file, known);
            return Ok(());
        };
        context.mark_boilerplate(unknown);
        let entry = Entry::of(&context);
        // A crash may have left it marked already, without the row.
        self.put(file, known, context, entry)
    }

    /// Notes in the sidecar of the image at `file` what `page` says of its use by now.
    /// Where the sidecar was moved away or knows of no such page, nothing is done.
    ///
    /// # Errors
    /// [`OutputError`] names the file.
    pub fn restate_terms(
        &mut self,
        file: &str,
        page: &PageUrl,
        terms: &Terms,
    ) -> Result<(), OutputError> {
        let Some(known) = self.known(file, page)? else {
            return Ok(());
        };
        let mut sidecar = Sidecar::load(&self.folder, file)?;
        if !sidecar.restate(page, terms) {
            self.memory.put(file, known);
            return Ok(());
        }
        // The row of this context says nothing of terms. What the page says is another
        // thing now, so the sidecar is read again when the image is met next.
        let (page, terms) = (page.clone(), terms.clone());
        let added = self.sightings.add(file, Change::Terms { page, terms })?;
        self.fold_due(file, known.journal + added, known.sidecar)
            .map(drop)
    }

    /// What is remembered of the sidecar of an image that `page` speaks of, or what is
    /// read of it now.
    fn known(&mut self, file: &str, page: &PageUrl) -> Result<Option<Known>, OutputError> {
        self.sightings.check()?;
        // An imported frontier may name any file.
        let is_there = match image_path(file) {
            Some(file) => is_there(&self.folder, &sidecar::name_of(file.as_str()))?,
            None => false,
        };
        if !is_there {
            let path = sidecar::path_of(&self.folder, file);
            tracing::warn!(path = %path.display(), %page, "no sidecar to add this page to");
            return Ok(None);
        }
        match self.memory.take(file) {
            Some(known) => Ok(Some(known)),
            None => Known::load(&self.folder, file).map(Some),
        }
    }

    /// Adds a row, and a context where there is room.
    fn put(
        &mut self,
        file: &str,
        mut known: Known,
        context: ImageContext,
        entry: Entry,
    ) -> Result<(), OutputError> {
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
        Ok(())
    }

    fn fold_due(&mut self, file: &str, journal: u64, sidecar: u64) -> Result<bool, OutputError> {
        Ok(Sightings::is_due(journal, sidecar) && self.sightings.fold(file)?)
    }

    /// Writes all that pages said of images into their sidecars, as at the end of a crawl.
    /// Until then it is in journals, which [`Sidecar::load`] reads as well.
    ///
    /// # Errors
    /// [`OutputError`] names the file.
    pub fn fold(&mut self) -> Result<(), OutputError> {
        self.memory = Memory::default();
        self.sightings.settle_all()
    }

    /// Returns when everything written so far, images included, survives the
    /// loss of power. A store that is flushed before would know of tasks whose
    /// outputs are lost.
    ///
    /// # Errors
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

/// Which visit of a page says something of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visit {
    /// The first one: no row of it was committed. Its words may stand in the sidecar all the
    /// same, where a power cut took a row that was not on the disk yet and left the sidecar.
    First,
    /// A later one that found another text.
    Changed,
    /// A later one that found the same text: it has its row already where the sidecar is full.
    Same,
}

/// Whether there is a regular file of this name below the job's folder.
fn is_there(folder: &Path, name: &str) -> Result<bool, OutputError> {
    let found = beneath::look(folder, name);
    Ok(found
        .map_err(IoError::at(&folder.join(name), "looking for"))?
        .is_some())
}

/// Refuses a job in which a link leads out where its parts lie: every command looks
/// before it opens files by names that are always the same. Those that files of the job
/// name are opened beneath its folder.
///
/// # Errors
/// [`OutputError::Io`] names the link.
pub fn refuse_links_out(folder: &Path) -> Result<(), OutputError> {
    let parts = [
        ("", 0),
        ("logs", 0),
        ("images", 0),
        ("sentences", 0),
        (DOCUMENTS, 0),
        ("annotations", 0),
        ("exports", 0),
        ("report", 1),
        ("checkpoints", 0),
        ("takedowns", 0),
        ("frontier", 8),
    ];
    for (name, deeper) in parts {
        beneath::refuse_links_out(folder, name, deeper)
            .map_err(IoError::at(folder, "opening the job"))?;
    }
    Ok(())
}

/// Returns when every file below `folder` that was written so far is on the
/// disk: one call for its whole file system, as there are a lot of images.
///
/// # Errors
/// [`OutputError::Io`].
#[cfg(target_os = "linux")]
pub fn sync_folder(folder: &Path) -> Result<(), OutputError> {
    let opened = std::fs::File::open(folder).map_err(IoError::at(folder, "opening"))?;
    let synced = rustix::fs::syncfs(opened).map_err(std::io::Error::from);
    Ok(synced.map_err(IoError::at(folder, "syncing"))?)
}

/// Other systems have no call for a whole file system; images written shortly
/// before a loss of power may be lost there.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub fn sync_folder(_folder: &Path) -> Result<(), OutputError> {
    Ok(())
}

fn make_folder(folder: &Path, name: &str) -> Result<(), OutputError> {
    let made = beneath::create_dir_all(folder, name);
    Ok(made.map_err(IoError::at(&folder.join(name), "making the folder"))?)
}

/// A path that something from outside names as that of an image; `None` where it can be
/// none.
fn image_path(file: &str) -> Option<JobPath> {
    let path = file.starts_with("images/").then(|| JobPath::parse(file));
    path?.ok()
}

/// Makes the folder that a file lies in; `name` is its path below the job's folder.
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

/// Whether the file at `name`, a path below the job's folder, has these bytes.
/// The digest alone would not tell whether it has changed since.
fn holds(folder: &Path, name: &JobPath, bytes: &[u8]) -> bool {
    beneath::length(folder, name) == Some(bytes.len() as u64)
        && !beneath::is_link(folder, name)
        && beneath::read(folder, name).is_ok_and(|found| found == bytes)
}

/// Makes `name` another name of the file at `known`, as whole as [`write_whole`].
/// False where the file system refuses, as some do always and all do after some
/// thousand names.
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

/// Removes a file where there is one.
fn remove(folder: &Path, name: &str) -> Result<(), OutputError> {
    match beneath::remove_file(folder, name) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(IoError::at(&folder.join(name), "removing")(e).into())
        }
        _ => Ok(()),
    }
}

/// The temporary name beside a file.
fn part_of(name: &str) -> String {
    format!("{name}.part")
}

/// What to do where the system refused.
fn remedy(error: &std::io::Error) -> &'static str {
    // EMFILE and ENFILE have no kind of their own.
    match error.raw_os_error() {
        Some(23 | 24) => "raise the limit of open files (ulimit -n)",
        // spoor itself refused, and the message says what is wrong.
        None if error.kind() == std::io::ErrorKind::InvalidInput => "mend that",
        _ => "free space or mend the permissions",
    }
}
