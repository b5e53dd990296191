//! Pending changes to sidecars: the contexts of images that are already kept.
//!
//! A sidecar is one JSON file and is always written whole. A picture in the layout of a
//! site occurs on every one of its pages: if each page rewrote the sidecar, the bytes
//! written would grow with the square of the pages. So a page only appends a line to a
//! journal of that image, and the journal is folded into the sidecar when it is as long as
//! the sidecar. The sidecar then doubles with every fold, and all folds together write
//! only a few times the size of the contexts.
//!
//! A separate thread does the folding. The journal is first renamed, so that the crawl
//! continues with a new one; then the whole sidecar is written and synced; then the
//! renamed journal is removed. Applying a change twice is harmless, so a crash at any
//! point costs nothing. [`read`] goes through the files in the same order, so loading a
//! sidecar includes all changes, also while a crawl runs or after it was killed. Opening
//! the outputs and ending a crawl fold all remaining journals.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{
    OutputError, Sidecar, image_path, is_there, make_folder, remove, sidecar, sync_folder,
};
use crate::address::PageUrl;
use crate::fs::atomic::Durability;
use crate::fs::beneath;
use crate::fs::{IoError, if_there};
use crate::page::{ImageContext, Terms};

/// The folder of the journals, in the job's folder.
const FOLDER: &str = "sightings";
/// Suffixes of journals: of the current one, and of one being folded.
const NEW: &str = ".jsonl";
const OLD: &str = ".folding.jsonl";

/// A journal shorter than this is not folded, even if the sidecar is short.
const LEAST: u64 = 16 * 1024;

/// Sidecars folded between two syncs of the file system, when all are folded.
const AT_ONCE: usize = 256;

/// A change to a sidecar.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Change {
    /// The words around the image, replacing those of the same page.
    Context(Box<ImageContext>),
    /// Only the current terms of the page.
    Terms { page: PageUrl, terms: Terms },
}

/// A line of a journal.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct JournalLine {
    /// The image.
    file: String,
    #[serde(flatten)]
    change: Change,
}

impl Change {
    /// Applies the change; applying it twice is harmless.
    fn apply(self, sidecar: &mut Sidecar) {
        match self {
            Self::Context(context) => sidecar.put(*context),
            Self::Terms { page, terms } => drop(sidecar.restate(&page, &terms)),
        }
    }
}

/// The journal of an image by name. The name is a digest, so that no two images from the
/// web share one.
fn journal(file: &str, ending: &str) -> String {
    let mut name = base16ct::lower::encode_string(&Sha256::digest(file.as_bytes()));
    name.truncate(32);
    format!("{FOLDER}/{name}{ending}")
}

/// The changes for the image at `file` that may not be in its sidecar, in order. Must be
/// read before the sidecar.
pub(super) fn read(folder: &Path, file: &str) -> Result<Vec<Change>, OutputError> {
    // In the direction in which lines move, so that none is missed.
    let new = changes(folder, &journal(file, NEW), file)?;
    let mut all = changes(folder, &journal(file, OLD), file)?;
    all.extend(new);
    Ok(all)
}

/// Applies the changes of [`read`].
pub(super) fn apply(changes: Vec<Change>, sidecar: &mut Sidecar) {
    for change in changes {
        change.apply(sidecar);
    }
}

/// Removes the journals of an image whose sidecar contains all changes, or is removed.
pub(super) fn forget(folder: &Path, file: &str) -> Result<(), OutputError> {
    for ending in [NEW, OLD] {
        remove(folder, &journal(file, ending))?;
    }
    Ok(())
}

/// The changes in a journal; empty if it does not exist. An incomplete last line belongs
/// to a page that was never finished.
fn changes(folder: &Path, name: &str, file: &str) -> Result<Vec<Change>, OutputError> {
    let lines = lines(folder, name)?;
    let lines = lines.into_iter().filter(|line| line.file == file);
    Ok(lines.map(|line| line.change).collect())
}

fn lines(folder: &Path, name: &str) -> Result<Vec<JournalLine>, OutputError> {
    let path = folder.join(name);
    let bytes = if_there(beneath::read(folder, name));
    let bytes = bytes.map_err(IoError::at(&path, "reading"))?;
    let bytes = bytes.unwrap_or_default();
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let whole = lines.filter(|line| line.ends_with(b"\n"));
    let read = (1..).zip(whole).map(|(number, line)| {
        serde_json::from_slice(line).map_err(|e| OutputError::Sightings {
            path: path.clone(),
            line: number,
            why: e.to_string(),
        })
    });
    read.collect()
}

/// Appends to a journal after its last complete line.
fn append(folder: &Path, name: &str, line: &[u8]) -> Result<(), OutputError> {
    let path = folder.join(name);
    let mut file = match beneath::append(folder, name) {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            make_folder(folder, FOLDER)?;
            beneath::append(folder, name)
        }
        opened => opened,
    }
    .map_err(IoError::at(&path, "opening"))?;
    cut_torn(&mut file).map_err(IoError::at(&path, "reading"))?;
    Ok(file
        .write_all(line)
        .map_err(IoError::at(&path, "writing"))?)
}

/// Cuts off an incomplete last line, which a full disk may leave.
fn cut_torn(file: &mut File) -> std::io::Result<()> {
    let length = file.metadata()?.len();
    if length == 0 {
        return Ok(());
    }
    let mut last = [0];
    file.seek(SeekFrom::Start(length - 1))?;
    file.read_exact(&mut last)?;
    if last == *b"\n" {
        return Ok(());
    }
    let mut all = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut all)?;
    let whole = all.iter().rposition(|byte| *byte == b'\n');
    file.set_len(whole.map_or(0, |at| at as u64 + 1))
}

/// The journals of a job, and the thread that folds them.
pub(super) struct Sightings {
    folder: PathBuf,
    under_way: Arc<UnderWay>,
    /// Not started before the first fold.
    worker: Option<(Sender<String>, JoinHandle<()>)>,
}

/// The images whose journals are being folded.
#[derive(Default)]
struct UnderWay {
    state: Mutex<SightingsState>,
    changed: Condvar,
}

#[derive(Default)]
struct SightingsState {
    files: HashSet<String>,
    /// Why a fold failed, until it is reported.
    failed: Option<OutputError>,
}

impl UnderWay {
    fn state(&self) -> MutexGuard<'_, SightingsState> {
        // A set of names stays consistent if a thread panics.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn done(&self, file: &str, folded: Result<(), OutputError>) {
        let mut state = self.state();
        state.files.remove(file);
        if let Err(error) = folded {
            state.failed.get_or_insert(error);
        }
        self.changed.notify_all();
    }
}

impl Sightings {
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            under_way: Arc::default(),
            worker: None,
        }
    }

    /// Records a change for the image at `file`; returns the number of bytes written.
    pub fn add(&self, file: &str, change: Change) -> Result<u64, OutputError> {
        let name = journal(file, NEW);
        let line = JournalLine {
            file: file.to_owned(),
            change,
        };
        let mut json = serde_json::to_vec(&line).map_err(|e| OutputError::Sightings {
            path: self.folder.join(&name),
            line: 0,
            why: e.to_string(),
        })?;
        json.push(b'\n');
        append(&self.folder, &name, &json)?;
        Ok(json.len() as u64)
    }

    /// Whether a journal of this length should be folded into a sidecar of that length.
    pub fn is_due(journal: u64, sidecar: u64) -> bool {
        journal >= sidecar.max(LEAST)
    }

    /// Starts folding the journal of an image; false if an earlier one is still being
    /// folded.
    pub fn fold(&mut self, file: &str) -> Result<bool, OutputError> {
        self.check()?;
        if !self.under_way.state().files.insert(file.to_owned()) {
            return Ok(false);
        }
        let begun = set_apart(&self.folder, file).and_then(|()| self.send(file));
        if let Err(error) = begun {
            self.under_way.state().files.remove(file);
            return Err(error);
        }
        Ok(true)
    }

    fn send(&mut self, file: &str) -> Result<(), OutputError> {
        let worker = match self.worker.take() {
            Some(worker) => worker,
            None => start(&self.folder, Arc::clone(&self.under_way))
                .map_err(IoError::at(&self.folder, "starting a thread"))?,
        };
        // The thread ends only when this end is dropped.
        worker.0.send(file.to_owned()).ok();
        self.worker = Some(worker);
        Ok(())
    }

    /// Reports a failed fold.
    pub fn check(&self) -> Result<(), OutputError> {
        self.under_way.state().failed.take().map_or(Ok(()), Err)
    }

    /// Folds the journals of an image now, so that its sidecar may be written.
    pub fn settle(&self, file: &str) -> Result<(), OutputError> {
        let mut state = self.under_way.state();
        while state.files.contains(file) {
            let waited = self.under_way.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        self.check()?;
        if read(&self.folder, file)?.is_empty() {
            Ok(())
        } else {
            Sidecar::load(&self.folder, file)?.save(&self.folder)
        }
    }

    /// Folds all journals and returns when that is done.
    pub fn settle_all(&mut self) -> Result<(), OutputError> {
        self.wait();
        self.check()?;
        fold_all(&self.folder)
    }

    fn wait(&mut self) {
        if let Some((sender, thread)) = self.worker.take() {
            drop(sender);
            // Its errors are in the state.
            thread.join().ok();
        }
    }
}

impl Drop for Sightings {
    /// Waits for the thread, so that the job is not written to after it was released.
    fn drop(&mut self) {
        self.wait();
    }
}

/// Renames the journal of an image, so that a new one is started. One that was renamed
/// before is folded first.
fn set_apart(folder: &Path, file: &str) -> Result<(), OutputError> {
    let [new, old] = [NEW, OLD].map(|ending| journal(file, ending));
    if !is_there(folder, &old)? {
        beneath::rename(folder, &new, old).map_err(IoError::at(&folder.join(&new), "renaming"))?;
    }
    Ok(())
}

fn start(
    folder: &Path,
    under_way: Arc<UnderWay>,
) -> std::io::Result<(Sender<String>, JoinHandle<()>)> {
    let (sender, files) = channel::<String>();
    let folder = folder.to_owned();
    let work = move || {
        for file in files {
            let old = journal(&file, OLD);
            let folded = changes(&folder, &old, &file)
                .and_then(|changes| fold(&folder, &file, changes, Durability::Whole))
                .and_then(|()| remove(&folder, &old));
            under_way.done(&file, folded);
        }
    };
    let thread = std::thread::Builder::new().name("spoor-fold".to_owned());
    Ok((sender, thread.spawn(work)?))
}

/// Writes a sidecar with the changes. Does nothing if the sidecar was moved away.
fn fold(
    folder: &Path,
    file: &str,
    changes: Vec<Change>,
    durability: Durability,
) -> Result<(), OutputError> {
    if !is_there(folder, &sidecar::name_of(file))? {
        let path = sidecar::path_of(folder, file);
        tracing::warn!(path = %path.display(), "no sidecar to add pages to");
        return Ok(());
    }
    let mut sidecar = Sidecar::load_alone(folder, file)?;
    apply(changes, &mut sidecar);
    sidecar.save_alone(folder, durability)
}

/// Folds every journal in a job's folder. One that cannot be folded is logged and kept,
/// and loading its sidecar reports the error again.
pub(super) fn fold_all(folder: &Path) -> Result<(), OutputError> {
    let below = folder.join(FOLDER);
    let entries = if_there(beneath::entries(folder, FOLDER));
    let entries = entries.map_err(IoError::at(&below, "listing"))?;
    // By image, the older journal first.
    let mut journals: BTreeMap<String, [bool; 2]> = BTreeMap::new();
    for (name, _) in entries.into_iter().flatten() {
        if let Some(stem) = name.strip_suffix(OLD) {
            journals.entry(stem.to_owned()).or_default()[0] = true;
        } else if let Some(stem) = name.strip_suffix(NEW) {
            journals.entry(stem.to_owned()).or_default()[1] = true;
        }
    }
    let journals: Vec<_> = journals.into_iter().collect();
    for some in journals.chunks(AT_ONCE) {
        let mut folded = Vec::new();
        for (stem, there) in some {
            let there = [OLD, NEW]
                .into_iter()
                .zip(there)
                .filter(|(_, there)| **there);
            let names: Vec<String> = there
                .map(|(ending, _)| format!("{FOLDER}/{stem}{ending}"))
                .collect();
            match fold_named(folder, &names) {
                Ok(()) => folded.extend(names),
                Err(error) => tracing::warn!("not added to its sidecar: {error}"),
            }
        }
        // A journal is removed when all its changes are on the disk.
        sync_folder(folder)?;
        for name in folded {
            remove(folder, &name)?;
        }
    }
    Ok(())
}

fn fold_named(folder: &Path, names: &[String]) -> Result<(), OutputError> {
    let mut by_file: BTreeMap<String, Vec<Change>> = BTreeMap::new();
    for name in names {
        for line in lines(folder, name)? {
            if ![NEW, OLD].iter().any(|e| journal(&line.file, e) == *name) {
                continue;
            }
            by_file.entry(line.file).or_default().push(line.change);
        }
    }
    for (file, changes) in by_file {
        // A tampered journal must not make us touch a file elsewhere.
        if image_path(&file).is_some() {
            fold(folder, &file, changes, Durability::Later)?;
        }
    }
    Ok(())
}
