//! Maintenance of a job's frontier while no crawl runs: convert, compact, check, repair,
//! export, import.
//!
//! A new store is built beside the old one, and the two are swapped by renaming, so that
//! a failure leaves the old one in its place. The job's lock is held during the whole
//! operation.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::config::Config;
use crate::crawl::checkpoint::{self, OpenError};
use crate::frontier::consistency::{self, Consistency};
use crate::frontier::dump::{self, DumpError, Found};
use crate::frontier::store::{self, Readable, Store, StoreError};
use crate::frontier::{check_format, only, whole};
use crate::fs::{IoError, atomic};
use crate::settings::StoreKind;

/// Why maintenance failed; the frontier is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum MaintenanceError {
    /// The job's folder cannot be opened, or a crawl is using it.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A dump cannot be written or read.
    #[error(transparent)]
    Archive(#[from] DumpError),
    /// There is no frontier yet.
    #[error("{}: no frontier lies here; run `spoor crawl` first", .0.display())]
    Missing(PathBuf),
    /// An import would replace an existing frontier.
    #[error("{}: a frontier lies here already; move it away first", .0.display())]
    Present(PathBuf),
    /// Nothing of a damaged frontier can be read.
    #[error(
        "{}: nothing can be read from it ({why}), so it was left as it is; move it away, and run \
         `spoor frontier import` with the newest file in `checkpoints` beside it, or the crawl \
         again where there is none: what was fetched is kept",
        path.display()
    )]
    Lost {
        /// The frontier's folder.
        path: PathBuf,
        /// What the store says.
        why: String,
    },
    /// A file or folder cannot be read or written.
    #[error(transparent)]
    Io(#[from] IoError),
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
/// [`MaintenanceError`].
pub fn convert(config: &Config, to: StoreKind) -> Result<Sizes, MaintenanceError> {
    let place = StoreFolder::lock(config)?;
    let old = place.open()?;
    place.rewrite(old, to, |old, new| {
        dump::copy(old, new)?;
        Ok(())
    })
}

/// Frees the space that the store takes beyond its contents. sled's file never shrinks,
/// so a sled store is rewritten.
///
/// # Errors
/// [`MaintenanceError`].
pub fn compact(config: &Config) -> Result<Sizes, MaintenanceError> {
    let place = StoreFolder::lock(config)?;
    let kind = place.kind()?;
    let mut old = place.open()?;
    if old.compact()? {
        drop(old);
        let after = folder_size(&place.frontier)?;
        let before = place.before;
        return Ok(Sizes { before, after });
    }
    place.rewrite(old, kind, |old, new| {
        dump::copy(old, new)?;
        Ok(())
    })
}

/// Reads a job's frontier once and checks its consistency. It is a copy that is read: a
/// backend that meets a damaged file cuts it off where it is opened.
///
/// # Errors
/// [`MaintenanceError`] where it cannot be read at all.
pub fn check(config: &Config) -> Result<Consistency, MaintenanceError> {
    let place = StoreFolder::lock(config)?;
    let copy = place.copy()?;
    let mut found = consistency::check(&*copy.open(&place, store::open)?)?;
    let [copied, own] = [&copy.folder, &place.frontier].map(|folder| folder.display().to_string());
    for problem in &mut found.problems {
        *problem = problem.replace(&copied, &own);
    }
    Ok(found)
}

/// Rebuilds a job's frontier from all readable records; queues and counters are derived
/// from these. The damaged store is kept as `frontier.damaged`, as it was found.
///
/// # Errors
/// [`MaintenanceError`], also where nothing can be read: import an export from `checkpoints/`
/// then. The frontier is then unchanged.
pub fn repair(config: &Config) -> Result<Found, MaintenanceError> {
    let place = StoreFolder::lock(config)?;
    let kind = place.kind()?;
    let copy = place.copy()?;
    let lost = |why: String| MaintenanceError::Lost {
        path: place.frontier.clone(),
        why,
    };
    let old = match copy.open(&place, store::open_what_is_left) {
        Err(MaintenanceError::Store(
            StoreError::Open { why, .. } | StoreError::Damaged { why, .. },
        )) => return Err(lost(why)),
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
    remove(&new_folder)?;
    let mut new = only(store::open(kind, &new_folder)?)?;
    dump::read_file(&mut *new, &file)?;
    drop(new);
    let damaged = place.beside("damaged");
    remove(&damaged)?;
    atomic::replace_folder(&new_folder, &place.frontier, &damaged)?;
    std::fs::remove_file(&file).map_err(IoError::at(&file, "removing"))?;
    Ok(found)
}

/// Writes a job's frontier as compressed lines of JSON.
///
/// # Errors
/// [`MaintenanceError`].
pub fn export(config: &Config, file: &Path) -> Result<Found, MaintenanceError> {
    let place = StoreFolder::lock(config)?;
    Ok(dump::write_file(&*whole(place.open()?), file)?)
}

/// Restores a job's frontier from an export.
///
/// # Errors
/// [`MaintenanceError::Present`] where the job already has a frontier.
pub fn import(config: &Config, file: &Path) -> Result<Found, MaintenanceError> {
    let folder = config.job_folder();
    std::fs::create_dir_all(&folder).map_err(IoError::at(&folder, "making the folder"))?;
    let place = StoreFolder::lock(config)?;
    if place.frontier.exists() {
        return Err(MaintenanceError::Present(place.frontier.clone()));
    }
    let new_folder = place.beside("new");
    remove(&new_folder)?;
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
    fn lock(config: &Config) -> Result<Self, MaintenanceError> {
        let folder = config.job_folder();
        if !folder.is_dir() {
            return Err(MaintenanceError::Missing(folder));
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

    fn kind(&self) -> Result<StoreKind, MaintenanceError> {
        store::backend_in(&self.frontier).ok_or_else(|| match self.before {
            0 => MaintenanceError::Missing(self.frontier.clone()),
            _ => MaintenanceError::Store(StoreError::Open {
                path: self.frontier.clone(),
                why: "files are missing that every store has".to_owned(),
            }),
        })
    }

    fn open(&self) -> Result<Box<dyn Store>, MaintenanceError> {
        Ok(opened(self.kind()?, &self.frontier, store::open)?)
    }

    /// Copies it, to be read without changing a file of it.
    fn copy(&self) -> Result<Copy, MaintenanceError> {
        let kind = self.kind()?;
        let folder = self.beside("copy");
        remove(&folder)?;
        let copy = Copy { kind, folder };
        copy_folder(&self.frontier, &copy.folder)?;
        Ok(copy)
    }

    fn beside(&self, what: &str) -> PathBuf {
        self.frontier.with_file_name(format!("frontier.{what}"))
    }

    /// Builds a new store from the old one and swaps them.
    fn rewrite(
        &self,
        old: Box<dyn Store>,
        to: StoreKind,
        build: impl FnOnce(&dyn Store, &mut dyn Store) -> Result<(), MaintenanceError>,
    ) -> Result<Sizes, MaintenanceError> {
        let new_folder = self.beside("new");
        remove(&new_folder)?;
        let mut new = store::open(to, &new_folder)?;
        build(&*old, &mut *new)?;
        new.compact()?;
        drop((old, new));
        let aside = self.beside("old");
        remove(&aside)?;
        atomic::replace_folder(&new_folder, &self.frontier, &aside)?;
        remove(&aside)?;
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
    /// Opens it. Errors name the place of the original.
    fn open(
        &self,
        original: &StoreFolder,
        open: Open,
    ) -> Result<Box<dyn Readable>, MaintenanceError> {
        let opened = opened(self.kind, &self.folder, open).map(whole);
        Ok(opened.map_err(|error| error.at(&original.frontier))?)
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.folder) {
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

fn copy_folder(from: &Path, to: &Path) -> Result<(), MaintenanceError> {
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

fn folder_size(folder: &Path) -> Result<u64, MaintenanceError> {
    let mut size = 0;
    for entry in std::fs::read_dir(folder).map_err(IoError::at(folder, "listing"))? {
        let entry = entry.map_err(IoError::at(folder, "listing"))?;
        let path = entry.path();
        let meta = entry.metadata().map_err(IoError::at(&path, "measuring"))?;
        size += if meta.is_dir() {
            folder_size(&path)?
        } else {
            meta.len()
        };
    }
    Ok(size)
}

fn remove(folder: &Path) -> Result<(), MaintenanceError> {
    match std::fs::remove_dir_all(folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(IoError::at(folder, "removing")(e).into())
        }
        _ => Ok(()),
    }
}
