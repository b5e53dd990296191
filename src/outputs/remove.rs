//! Removes images, contexts, and the data of pages in the growing files.
//!
//! The frontier records the lengths of the growing files, so they cannot simply be
//! rewritten: it would truncate them at meaningless positions. So the remaining data are
//! first written beside each of them; then a journal with the new lengths is written; then
//! the frontier records these; and finally the new files replace the old ones. Opening the
//! job completes what a journal still asks for, so a crash at any point leaves either the
//! old files and the old record or both new.
//!
//! The texts of a page (its sentences, its document) are pieces of larger files. The row
//! of the page in the log gives their positions, so they are found through the rows to
//! remove, and the remaining rows get the new positions of their texts.
//!
//! Afterwards the outputs have a new generation, which their stamp names. A frontier
//! restored from an older export names an older one, and its lengths are ignored.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::chores;
use super::list::OUTPUTS;
use super::output::{self, Form, Output, Position, Stamp, remove_leftovers};
use super::pieces::{Rewritten, Taken};
use super::segments::OPEN;
use super::{
    OutputError, Sidecar, Table, TextPlace, image_path, log, part_of, rotate, rows, sidecar,
    sightings, sync_folder, write_whole,
};
use crate::fs::atomic::Durability;
use crate::fs::beneath::{self, JobPath};
use crate::fs::packed::Packed;
use crate::fs::{IoError, if_there};
use crate::page::ImageContext;
use crate::sanitize;

/// The journal, in the job's folder.
pub(super) const JOURNAL: &str = "rewriting.json";

/// The file with the generation of the outputs, in the job's folder; 0 without it.
const GENERATION: &str = "generation";

/// The suffix of a file that is to replace another.
const BESIDE: &str = ".rewritten";

/// The keys of a row of the log that name another page.
const NAMING: [&str; 5] = [
    "via",
    "redirect",
    "duplicate_of",
    "near_copy_of",
    "instead_of",
];

/// What is to be removed from the outputs.
pub trait Leaving {
    /// Whether a row of the table with this name, `images.tsv` or `logs/crawl.jsonl`, is
    /// removed.
    fn row(&self, table: &str, row: &str) -> bool;

    /// Whether the page at this address is removed.
    fn page(&self, url: &str) -> bool;

    /// Whether the image at this address is removed.
    fn image(&self, url: &str) -> bool;
}

/// What is removed from the outputs, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shares {
    /// Rows, by the path of the table below the job's folder.
    pub rows: BTreeMap<String, u64>,
    /// Pages whose text is removed, by the path of the file.
    pub pages: BTreeMap<String, u64>,
    /// Remaining rows and documents from which removed addresses were deleted.
    pub unnamed: u64,
    /// Addresses of the pages whose text is removed, each once.
    pub urls: BTreeSet<String>,
    /// Bytes of texts that belong to no known page, by the path of the file: no row of the
    /// log refers to them, and they are damaged or do not name their page.
    pub untold: BTreeMap<String, u64>,
}

impl Shares {
    fn are_empty(&self) -> bool {
        self.rows.values().all(|rows| *rows == 0) && self.pages.is_empty() && self.unnamed == 0
    }
}

/// The growing files without the removed data.
#[derive(Debug, Serialize, Deserialize)]
pub struct Rewriting {
    #[serde(skip)]
    folder: PathBuf,
    stamp: Vec<u8>,
    generation: u64,
    /// The files to replace, as paths below the folder.
    files: Vec<JobPath>,
}

impl Rewriting {
    /// Writes the remaining data beside the growing files, and the journal. The outputs
    /// must end at `stamp` and not be open. `None` if there is nothing to remove.
    ///
    /// # Errors
    ///
    /// [`OutputError`] names the file; then the outputs are unchanged.
    pub fn prepare(
        folder: &Path,
        stamp: &[u8],
        leaving: &dyn Leaving,
    ) -> Result<Option<Self>, OutputError> {
        for output in OUTPUTS {
            remove_leftovers(output, folder, BESIDE)?;
        }
        let (shares, files) = rewrite_all(folder, leaving, true)?;
        if shares.are_empty() {
            return Ok(None);
        }
        let mut stamp = Stamp::read(stamp)?;
        stamp.generation = generation(folder)?.saturating_add(1);
        for output in OUTPUTS {
            let mut position = stamp.of(output);
            let name = match output.form() {
                Form::Lines(name) => Some(name.to_owned()),
                Form::Pieces {
                    folder: name,
                    naming,
                } => files
                    .keys()
                    .find(|path| {
                        let file = path.strip_prefix(name).and_then(|p| p.strip_prefix('/'));
                        let segment = file.and_then(|file| naming.parse(file));
                        segment.is_some_and(|segment| segment.number == position.segment)
                    })
                    .cloned(),
            };
            if let Some(length) = name.and_then(|name| files.get(&name)) {
                position.length = *length;
            }
            if output.is_stamped_empty() || position != Position::default() {
                stamp.outputs.insert(output.name().to_owned(), position);
            }
        }
        let rewriting = Self {
            folder: folder.to_owned(),
            generation: stamp.generation,
            stamp: stamp.to_bytes(),
            // Each is one of the outputs' own.
            files: files
                .keys()
                .filter_map(|name| JobPath::parse(name).ok())
                .collect(),
        };
        // Names and numbers always serialise.
        let journal = serde_json::to_vec(&rewriting).unwrap_or_default();
        write_whole(folder, JOURNAL, &journal, Durability::Whole)?;
        sync_folder(folder)?;
        Ok(Some(rewriting))
    }

    /// The unfinished removal that a journal in the job's folder describes, if there is
    /// one.
    ///
    /// # Errors
    ///
    /// [`OutputError`] if it cannot be read.
    pub fn pending(folder: &Path) -> Result<Option<Self>, OutputError> {
        let Some(bytes) = read_if_there(folder, JOURNAL)? else {
            return Ok(None);
        };
        let wrong = |why: String| OutputError::Stamp {
            why: format!("{}: {why}", folder.join(JOURNAL).display()),
        };
        let mut read: Self = serde_json::from_slice(&bytes).map_err(|e| wrong(e.to_string()))?;
        if let Some(other) = read
            .files
            .iter()
            .find(|name| !is_output_file(name.as_str()))
        {
            return Err(wrong(format!("{other} is not an output of the crawl")));
        }
        read.folder = folder.to_owned();
        Ok(Some(read))
    }

    /// The stamp that the frontier has to record before [`Rewriting::finish`].
    pub fn stamp(&self) -> &[u8] {
        &self.stamp
    }

    /// Replaces the old files.
    ///
    /// # Errors
    ///
    /// [`OutputError`]; then the journal still exists, and this is done again.
    pub fn finish(self) -> Result<(), OutputError> {
        for name in &self.files {
            let name = name.as_str();
            if let Some(index) = index_of(name) {
                super::remove(&self.folder, &index)?;
            }
            let beside = beside(name);
            // Without one it was done before a crash.
            let renamed = if_there(beneath::rename(&self.folder, &beside, name));
            renamed.map_err(IoError::at(&self.folder.join(&beside), "renaming"))?;
            // A table has at least its header; of a file of texts nothing may be left.
            if beneath::length(&self.folder, name) == Some(0) && is_piece_file(name) {
                super::remove(&self.folder, name)?;
            }
        }
        for output in OUTPUTS {
            for name in output::unindexed(output, &self.folder)? {
                chores::index(&self.folder, &name);
            }
        }
        let generation = self.generation.to_string();
        write_whole(
            &self.folder,
            GENERATION,
            generation.as_bytes(),
            Durability::Whole,
        )?;
        sync_folder(&self.folder)?;
        let journal = self.folder.join(JOURNAL);
        beneath::remove_file(&self.folder, JOURNAL).map_err(IoError::at(&journal, "removing"))?;
        Ok(())
    }
}

/// The number of times that rows were removed from the outputs in a folder.
///
/// # Errors
///
/// [`OutputError`] if the number cannot be read.
pub fn generation(folder: &Path) -> Result<u64, OutputError> {
    let text = read_if_there(folder, GENERATION)?.unwrap_or_else(|| b"0".to_vec());
    let number = String::from_utf8_lossy(&text).trim().parse();
    number.map_err(|_| OutputError::Stamp {
        why: format!("{} is not a number", folder.join(GENERATION).display()),
    })
}

/// What would be removed from the outputs, without changing anything.
///
/// # Errors
///
/// [`OutputError`] names the file.
pub fn count_rows(folder: &Path, leaving: &dyn Leaving) -> Result<Shares, OutputError> {
    rewrite_all(folder, leaving, false).map(|(shares, _)| shares)
}

/// The changes to each file of pieces, by its path.
type Edited = BTreeMap<String, Rewritten>;

/// Determines what is removed from every output. With `write` the remaining data are
/// written beside the old files, and the new lengths are returned by path.
fn rewrite_all(
    folder: &Path,
    leaving: &dyn Leaving,
    write: bool,
) -> Result<(Shares, BTreeMap<String, u64>), OutputError> {
    let mut shares = Shares::default();
    let mut files = BTreeMap::new();
    let claims = claims(folder, leaving, &mut shares)?;
    let none = BTreeMap::new();
    let mut edited = Edited::new();
    for output in OUTPUTS {
        let Form::Pieces { .. } = output.form() else {
            continue;
        };
        for name in output::files(output, folder)? {
            // The log has the final names.
            let own = name.strip_suffix(OPEN).unwrap_or(&name);
            let claim = claims.get(own);
            let taken = Taken {
                pieces: claim.map_or(&none, |claim| &claim.going),
                staying: claim.map_or(0, |claim| claim.staying),
                page: &|url| leaving.page(url),
                image: &|url| leaving.image(url),
            };
            let mut out = FileRewrite::new(folder, &name, write)?;
            let done = output.rewrite(&folder.join(&name), &taken, &mut out)?;
            if done.removed > 0 {
                shares.pages.insert(name.clone(), done.removed);
            }
            if done.unreadable > 0 {
                shares.untold.insert(name.clone(), done.unreadable);
            }
            shares.unnamed += done.replaced;
            shares.urls.extend(done.urls.iter().cloned());
            if let Some(length) = out.finish(done.is_changed())? {
                files.insert(name.clone(), length);
            }
            if done.is_changed() {
                edited.insert(own.to_owned(), done);
            }
        }
    }
    for output in OUTPUTS {
        let Form::Lines(name) = output.form() else {
            continue;
        };
        let is_log = output.name() == log::Log.name();
        let mut all = 0;
        for file in output::files(output, folder)? {
            let mut out = FileRewrite::new(folder, &file, write)?;
            let (mut removed, mut changed) = (0, false);
            let path = folder.join(&file);
            each_line(folder, &file, &mut |line| {
                let page = output.page_of(line);
                if leaving.row(name, line) || page.is_some_and(|url| leaving.page(url)) {
                    removed += 1;
                    return Ok(());
                }
                let line = if is_log {
                    amended(line, leaving, &edited, &mut shares.unnamed)
                } else {
                    Cow::Borrowed(line)
                };
                changed |= matches!(line, Cow::Owned(_));
                let written = out.write_all(line.as_bytes());
                written
                    .and_then(|()| out.write_all(b"\n"))
                    .map_err(IoError::at(&path, "rewriting"))?;
                Ok(())
            })?;
            all += removed;
            if let Some(length) = out.finish(removed > 0 || changed)? {
                files.insert(file, length);
            }
        }
        if all > 0 || output.is_stamped_empty() {
            shares.rows.insert(name.to_owned(), all);
        }
    }
    Ok((shares, files))
}

/// What the log says about one file of pieces.
#[derive(Debug, Default)]
struct LoggedPieces {
    /// First byte and length of the pieces to remove.
    going: BTreeMap<u64, u64>,
    /// Bytes of the other pieces.
    staying: u64,
}

/// What the log says about the files of pieces, by their paths.
fn claims(
    folder: &Path,
    leaving: &dyn Leaving,
    shares: &mut Shares,
) -> Result<BTreeMap<String, LoggedPieces>, OutputError> {
    let mut claims: BTreeMap<String, LoggedPieces> = BTreeMap::new();
    for file in output::files(&log::Log, folder)? {
        each_line(folder, &file, &mut |line| {
            let Ok(row) = serde_json::from_str::<Value>(line) else {
                return Ok(());
            };
            let mut goes = None;
            for (path, place) in places(&row) {
                let claim = claims.entry(path).or_default();
                if *goes.get_or_insert_with(|| leaving.row(Table::Log.name(), line)) {
                    claim.going.insert(place.from, place.bytes);
                } else {
                    claim.staying += place.bytes;
                }
            }
            if goes == Some(true)
                && let Some(url) = row.get("url").and_then(Value::as_str)
            {
                shares.urls.insert(url.to_owned());
            }
            Ok(())
        })?;
    }
    Ok(claims)
}

/// The positions of pieces in a row of the log, with the paths of their files.
fn places(row: &Value) -> impl Iterator<Item = (String, TextPlace)> {
    OUTPUTS.into_iter().filter_map(|output| {
        let Form::Pieces { folder, .. } = output.form() else {
            return None;
        };
        let place = TextPlace::deserialize(row.get(output.name())?).ok()?;
        Some((format!("{folder}/{}", place.file), place))
    })
}

/// A remaining row of the log, with the new positions of its texts and without removed
/// addresses.
fn amended<'a>(
    line: &'a str,
    leaving: &dyn Leaving,
    edited: &Edited,
    unnamed: &mut u64,
) -> Cow<'a, str> {
    let Ok(row) = serde_json::from_str::<Value>(line) else {
        return line.into();
    };
    let mut now = Cow::Borrowed(line);
    for output in OUTPUTS {
        let key = output.name();
        let Form::Pieces { folder, .. } = output.form() else {
            continue;
        };
        let place = row.get(key).and_then(|p| TextPlace::deserialize(p).ok());
        if let Some(place) = place
            && let Some(done) = edited.get(&format!("{folder}/{}", place.file))
        {
            let moved = done.moved(&place);
            if moved.as_ref() != Some(&place) {
                now = Cow::Owned(with(&now, key, &place, moved.as_ref()));
            }
        }
    }
    let mut names = false;
    for key in NAMING {
        let named = row.get(key).and_then(Value::as_str);
        if let Some(url) = named.filter(|url| leaving.page(url)) {
            now = Cow::Owned(with(&now, key, &url, None));
            names = true;
        }
    }
    *unnamed += u64::from(names);
    now
}

/// A row of JSON with one value replaced or removed. The rest of the row is unchanged.
pub(super) fn with<T: Serialize>(row: &str, key: &str, old: &T, new: Option<&T>) -> String {
    // Texts, numbers and places always serialise.
    let pair = |value| {
        format!(
            "\"{key}\":{}",
            serde_json::to_string(value).unwrap_or_default()
        )
    };
    let old = pair(old);
    // Within a string its quotation marks would be escaped, so there are no other matches.
    if row.matches(&old).count() == 1 {
        return match new {
            Some(new) => row.replace(&old, &pair(new)),
            None => {
                if row.contains(&format!(",{old}")) {
                    row.replace(&format!(",{old}"), "")
                } else {
                    row.replace(&format!("{old},"), "")
                }
            }
        };
    }
    // It was written by another program.
    let mut value: Value = serde_json::from_str(row).unwrap_or_default();
    if let Some(fields) = value.as_object_mut() {
        match new.and_then(|new| serde_json::to_value(new).ok()) {
            Some(new) => drop(fields.insert(key.to_owned(), new)),
            None => drop(fields.remove(key)),
        }
    }
    sanitize::json(&value.to_string()).into_owned()
}

/// A file that is to replace another, or a dry run.
enum FileRewrite {
    Counting,
    File {
        folder: PathBuf,
        name: String,
        out: Packed<BufWriter<File>>,
        length: u64,
    },
}

impl FileRewrite {
    fn new(folder: &Path, name: &str, write: bool) -> Result<Self, OutputError> {
        if !write {
            return Ok(Self::Counting);
        }
        // Files of pieces are compressed too, but each piece separately.
        let packed = is_table_file(name) && name.ends_with(rows::ZST);
        let name = beside(name);
        let created = beneath::create(folder, &name);
        let out = BufWriter::new(created.map_err(IoError::at(&folder.join(&name), "creating"))?);
        let out = if !packed {
            Packed::Plain(out)
        } else {
            Packed::zstd(out, rotate::LEVEL).map_err(IoError::at(&folder.join(&name), "writing"))?
        };
        let (folder, length) = (folder.to_owned(), 0);
        Ok(Self::File {
            folder,
            name,
            out,
            length,
        })
    }

    /// Ends the file, on the disk if it is to be kept; returns its length.
    fn finish(self, stays: bool) -> Result<Option<u64>, OutputError> {
        let Self::File {
            folder,
            name,
            out,
            length,
        } = self
        else {
            return Ok(None);
        };
        if !stays {
            drop(out);
            super::remove(&folder, &name)?;
            return Ok(None);
        }
        let path = folder.join(name);
        let written = out.finish();
        written
            .and_then(|out| out.get_ref().sync_all())
            .map_err(IoError::at(&path, "writing"))?;
        Ok(Some(length))
    }
}

impl Write for FileRewrite {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Counting => Ok(bytes.len()),
            Self::File { out, length, .. } => {
                let written = out.write(bytes)?;
                *length += written as u64;
                Ok(written)
            }
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self {
            Self::Counting => Ok(()),
            Self::File { out, .. } => out.flush(),
        }
    }
}

/// Whether this is the path of a growing file of any output.
fn is_output_file(name: &str) -> bool {
    OUTPUTS.iter().any(|output| match output.form() {
        Form::Lines(own) => name == own || rows::is_rotated(name, own),
        Form::Pieces { folder, naming } => name
            .strip_prefix(folder)
            .and_then(|rest| rest.strip_prefix('/'))
            .is_some_and(|file| naming.parse(file).is_some()),
    })
}

/// The path of the index of a file of pieces, if it has one.
fn index_of(name: &str) -> Option<String> {
    OUTPUTS.iter().find_map(|output| match output.form() {
        Form::Lines(_) => None,
        Form::Pieces { folder, .. } => name
            .starts_with(&format!("{folder}/"))
            .then(|| output.index_of(name))?,
    })
}

/// Whether this is the path of a file of a table.
fn is_table_file(name: &str) -> bool {
    OUTPUTS.iter().any(|output| match output.form() {
        Form::Lines(own) => name == own || rows::is_rotated(name, own),
        Form::Pieces { .. } => false,
    })
}

/// Whether this is the path of a file of pieces of any output.
fn is_piece_file(name: &str) -> bool {
    OUTPUTS.iter().any(|output| match output.form() {
        Form::Lines(_) => false,
        Form::Pieces { folder, .. } => name.starts_with(&format!("{folder}/")),
    })
}

/// The image file, the address and the page in a row of `images.tsv`.
pub fn image_row_names(row: &str) -> Option<(&str, &str, &str)> {
    let mut cells = row.split('\t');
    let url = cells.next()?;
    let file = cells.next().filter(|f| f.starts_with("images/"))?;
    Some((file, url, cells.nth(4)?))
}

/// Removes an image and then its sidecar, which describes the image until the end.
///
/// # Errors
///
/// [`OutputError::Io`].
pub fn remove_image(folder: &Path, file: &str) -> Result<(), OutputError> {
    let Some(file) = image_path(file) else {
        return Err(IoError::at(&folder.join(file), "removing")(no_image()).into());
    };
    let (bytes, beside) = (file.as_str().to_owned(), sidecar::name_of(file.as_str()));
    for name in [part_of(&bytes), part_of(&beside), bytes, beside] {
        super::remove(folder, &name)?;
    }
    sightings::forget(folder, file.as_str())
}

/// Removes the reference to a removed first image with the same bytes from the sidecar of
/// the image at `file`. Without a sidecar nothing is done.
///
/// # Errors
///
/// [`OutputError`] names the file.
pub fn forget_first(folder: &Path, file: &str) -> Result<(), OutputError> {
    if !super::is_there(folder, &sidecar::name_of(file))? {
        return Ok(());
    }
    let mut sidecar = Sidecar::load(folder, file)?;
    let gone = |first: &str| !beneath::is_file(folder, first);
    if sidecar.same_as().is_some_and(gone) {
        sidecar.set_same_as(None);
        sidecar.save(folder)?;
    }
    Ok(())
}

fn no_image() -> std::io::Error {
    std::io::Error::new(ErrorKind::InvalidInput, "not a path of an image in a job")
}

/// Removes contexts from the sidecar of the image at `file`.
///
/// # Errors
///
/// [`OutputError`] if it cannot be read or written.
pub fn remove_contexts(
    folder: &Path,
    file: &str,
    gone: impl Fn(&ImageContext) -> bool,
) -> Result<(), OutputError> {
    let mut sidecar = Sidecar::load(folder, file)?;
    sidecar.forget(gone);
    sidecar.save(folder)
}

fn beside(name: &str) -> String {
    format!("{name}{BESIDE}")
}

fn each_line(
    folder: &Path,
    name: &str,
    visit: &mut dyn FnMut(&str) -> Result<(), OutputError>,
) -> Result<(), OutputError> {
    let path = folder.join(name);
    for line in rows::open_named(folder, name)?.split(b'\n') {
        let line = line.map_err(IoError::at(&path, "reading"))?;
        // Both files are written as UTF-8; anything else was changed from outside.
        visit(&String::from_utf8_lossy(&line))?;
    }
    Ok(())
}

fn read_if_there(folder: &Path, name: &str) -> Result<Option<Vec<u8>>, OutputError> {
    let read = if_there(beneath::read(folder, name));
    Ok(read.map_err(IoError::at(&folder.join(name), "reading"))?)
}
