//! Maintenance of a job's frontier while no crawl runs: convert, compact, check, repair,
//! export, import.
//!
//! A new store is built next to the old one, and the two are swapped by renaming, so that a failure
//! leaves the old one in its place. The job's lock is held during the whole operation.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::crawl::checkpoint;
use crate::error::DaemonError;
use crate::frontier::consistency::{self, Consistency};
use crate::frontier::dump::{self, Found};
use crate::frontier::store::{self, Readable, Store, StoreError};
use crate::frontier::{check_format, only, whole};
use crate::fs::{IoError, atomic, files_beneath, remove_folder};
use crate::settings::StoreKind;

/// The error for a job without a frontier.
pub fn missing(folder: &Path) -> DaemonError {
    let what = "there is no frontier here; run `spoor crawl` first";
    DaemonError::Refused(format!("{}: {what}", folder.display()))
}

/// Sizes before and after, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Before.
    pub before: u64,
    /// After.
    pub after: u64,
}

/// Rewrites a job's frontier with another backend.
///
/// # Errors
/// [`DaemonError`].
pub fn convert(config: &Config, to: StoreKind) -> Result<Sizes, DaemonError> {
    let place = StoreFolder::lock(config)?;
    let old = place.open()?;
    place.rewrite(old, to)
}

/// Frees the space that the store takes beyond its contents. sled's file never shrinks,
/// so a sled store is rewritten.
///
/// # Errors
/// [`DaemonError`].
pub fn compact(config: &Config) -> Result<Sizes, DaemonError> {
    let place = StoreFolder::lock(config)?;
    let kind = place.kind()?;
    let mut old = place.open()?;
    if old.compact()? {
        drop(old);
        let after = folder_size(&place.frontier)?;
        let before = place.before;
        return Ok(Sizes { before, after });
    }
    place.rewrite(old, kind)
}

/// Reads a job's frontier once and checks its consistency. It reads a copy, because a backend that
/// finds a damaged file truncates it when opening it.
///
/// # Errors
/// [`DaemonError`] if it cannot be read at all.
pub fn check(config: &Config) -> Result<Consistency, DaemonError> {
    let place = StoreFolder::lock(config)?;
    let copy = place.copy()?;
    let mut found = consistency::check(&*copy.open(&place, store::open)?)?;
    let [copied, own] = [&copy.folder, &place.frontier].map(|folder| folder.display().to_string());
    for problem in &mut found.problems {
        *problem = problem.replace(&copied, &own);
    }
    Ok(found)
}

/// Rebuilds a job's frontier from all readable records; queues and counters are derived from these.
/// The damaged store is kept unchanged as `frontier.damaged`.
///
/// # Errors
/// [`DaemonError`], also if nothing can be read; then the frontier is unchanged, and an export from
/// `checkpoints/` can be imported instead.
pub fn repair(config: &Config) -> Result<Found, DaemonError> {
    let place = StoreFolder::lock(config)?;
    let kind = place.kind()?;
    let copy = place.copy()?;
    let lost = |why: String| {
        DaemonError::Refused(format!(
            "{}: nothing can be read from it ({why}), so it was left unchanged; move it away, \
             then run `spoor frontier import` with the newest file in the folder `checkpoints` \
             next to it, or the crawl again if there is none: everything fetched is kept",
            place.frontier.display()
        ))
    };
    let old = match copy.open(&place, store::open_what_is_left) {
        Err(DaemonError::Store(StoreError::Open { why, .. } | StoreError::Damaged { why, .. })) => {
            return Err(lost(why));
        }
        opened => opened?,
    };
    let file = place.beside("repair.jsonl.gz");
    let found = dump::write_file(&*old, &file)?;
    drop(old);
    if found.urls == 0 && !found.is_whole() {
        std::fs::remove_file(&file).map_err(IoError::at(&file, "removing"))?;
        return Err(lost("it has no address".to_owned()));
    }
    let new_folder = place.beside("new");
    remove_folder(&new_folder)?;
    let mut new = only(store::open(kind, &new_folder)?)?;
    dump::read_file(&mut *new, &file)?;
    drop(new);
    let damaged = place.beside("damaged");
    remove_folder(&damaged)?;
    atomic::replace_folder(&new_folder, &place.frontier, &damaged)?;
    std::fs::remove_file(&file).map_err(IoError::at(&file, "removing"))?;
    Ok(found)
}

/// Writes a job's frontier as compressed lines of JSON.
///
/// # Errors
/// [`DaemonError`].
pub fn export(config: &Config, file: &Path) -> Result<Found, DaemonError> {
    let place = StoreFolder::lock(config)?;
    Ok(dump::write_file(&*whole(place.open()?), file)?)
}

/// Restores a job's frontier from an export.
///
/// # Errors
/// [`DaemonError::Refused`] if the job already has a frontier.
pub fn import(config: &Config, file: &Path) -> Result<Found, DaemonError> {
    let folder = config.job_folder();
    std::fs::create_dir_all(&folder).map_err(IoError::at(&folder, "making the folder"))?;
    let place = StoreFolder::lock(config)?;
    if place.frontier.exists() {
        let what = "a frontier lies here already; move it away first";
        let text = format!("{}: {what}", place.frontier.display());
        return Err(DaemonError::Refused(text));
    }
    let new_folder = place.beside("new");
    remove_folder(&new_folder)?;
    let mut new = only(store::open(config.frontier.store, &new_folder)?)?;
    let found = dump::read_file(&mut *new, file)?;
    drop(new);
    atomic::rename_durably(&new_folder, &place.frontier)?;
    Ok(found)
}

/// A job's frontier folder, locked.
struct StoreFolder {
    frontier: PathBuf,
    before: u64,
    _lock: File,
}

impl StoreFolder {
    fn lock(config: &Config) -> Result<Self, DaemonError> {
        let folder = config.job_folder();
        if !folder.is_dir() {
            return Err(missing(&folder));
        }
        checkpoint::refuse_gathered(&folder)?;
        let lock = checkpoint::lock(&folder)?;
        let frontier = folder.join("frontier");
        let before = if frontier.exists() {
            folder_size(&frontier)?
        } else {
            0
        };
        Ok(Self {
            frontier,
            before,
            _lock: lock,
        })
    }

    fn kind(&self) -> Result<StoreKind, DaemonError> {
        store::backend_in(&self.frontier).ok_or_else(|| match self.before {
            0 => missing(&self.frontier),
            _ => DaemonError::Store(StoreError::Open {
                path: self.frontier.clone(),
                why: "files are missing that every store has".to_owned(),
            }),
        })
    }

    fn open(&self) -> Result<Box<dyn Store>, DaemonError> {
        Ok(opened(self.kind()?, &self.frontier, store::open)?)
    }

    /// Copies it, so that it can be read without changing any of its files.
    fn copy(&self) -> Result<Copy, DaemonError> {
        let kind = self.kind()?;
        let folder = self.beside("copy");
        remove_folder(&folder)?;
        let copy = Copy { kind, folder };
        copy_folder(&self.frontier, &copy.folder)?;
        Ok(copy)
    }

    fn beside(&self, what: &str) -> PathBuf {
        self.frontier.with_file_name(format!("frontier.{what}"))
    }

    /// Builds a new store from the old one and swaps them.
    fn rewrite(&self, old: Box<dyn Store>, to: StoreKind) -> Result<Sizes, DaemonError> {
        let new_folder = self.beside("new");
        remove_folder(&new_folder)?;
        let mut new = store::open(to, &new_folder)?;
        dump::copy(&*old, &mut *new)?;
        new.compact()?;
        drop((old, new));
        let aside = self.beside("old");
        remove_folder(&aside)?;
        atomic::replace_folder(&new_folder, &self.frontier, &aside)?;
        remove_folder(&aside)?;
        Ok(Sizes {
            before: self.before,
            after: folder_size(&self.frontier)?,
        })
    }
}

/// A copy of a frontier, which is removed at the end.
struct Copy {
    kind: StoreKind,
    folder: PathBuf,
}

impl Copy {
    /// Opens it. Errors name the original folder.
    fn open(&self, original: &StoreFolder, open: Open) -> Result<Box<dyn Readable>, DaemonError> {
        let opened = opened(self.kind, &self.folder, open).map(whole);
        Ok(opened.map_err(|error| error.at(&original.frontier))?)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        if let Err(error) = remove_folder(&self.folder) {
            tracing::warn!("{error}");
        }
    }
}

/// Opens a store: [`store::open`] or [`store::open_what_is_left`].
type Open = fn(StoreKind, &Path) -> Result<Box<dyn Store>, StoreError>;

/// The store in a folder, if it has the format of this version.
fn opened(kind: StoreKind, folder: &Path, open: Open) -> Result<Box<dyn Store>, StoreError> {
    let store = open(kind, folder)?;
    check_format(&*store)?;
    Ok(store)
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), DaemonError> {
    std::fs::create_dir_all(to).map_err(IoError::at(to, "making the folder"))?;
    for entry in std::fs::read_dir(from).map_err(IoError::at(from, "listing"))? {
        let entry = entry.map_err(IoError::at(from, "listing"))?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_folder(&path, &target)?;
        } else {
            std::fs::copy(&path, &target)
                .map_err(IoError::at(&target, "copying the frontier to"))?;
        }
    }
    Ok(())
}

fn folder_size(folder: &Path) -> Result<u64, DaemonError> {
    let files = files_beneath(folder, |_| true)?;
    let sizes = files.iter().map(|file| {
        let meta = file.metadata().map_err(IoError::at(file, "measuring"))?;
        Ok(meta.len())
    });
    sizes.sum()
}
