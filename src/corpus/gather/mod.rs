//! One job folder of those that several machines wrote of one job, for all that is done with
//! a finished corpus: `export`, `rank`, `report`, `annotate`, `corpus`, `index`, `search`,
//! `archive`, `takedown`.
//!
//! [`outputs::merge`] makes one of the outputs. What else a job's
//! folder needs is made here: the record of its configuration, and the list of takedowns,
//! which is that of all parts and of the folder that is replaced. What it lists is removed
//! from the merged outputs, as a machine may have ended before it was told.
//!
//! A folder that was gathered before is replaced as a whole, by two renames. What people
//! and other commands have put into it goes along: annotations, exports, receipts of
//! takedowns, and every file that no crawl writes. What is made of the outputs at no cost but
//! time, and would be wrong now, does not: the ranking, the report, the search index. Images
//! and files of the archive that have not changed are taken from there, and not read again.
//!
//! A gathered folder has no frontier, and no crawl can go on in it: a file marks it, and
//! opening it to crawl says so.

#[cfg(test)]
mod tests;

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::takedown::{self, Request, TakedownError};
use crate::clock::timestamp;
use crate::config::Config;
use crate::crawl::checkpoint::{
    self, GATHERED, OpenError, RECEIPTS, RECORD, TAKEDOWNS, UNFINISHED,
};
use crate::fs::IoError;
use crate::fs::atomic;
use crate::fs::beneath::{self, Kind};
use crate::outputs::merge::{Archived, Earlier, MergeError, Merged, Part, merge};
use crate::outputs::{self, OutputError, SampleLock};
use crate::settings::Name;
use crate::web::scope::Takedowns;

/// What is added to the name of a job's folder for the folder in which it is gathered.
const BESIDE: &str = ".gathering";
/// The job's folder in there while it is made, and the old one while it is replaced.
const NEW: &str = "job";
const OLD: &str = "before";
/// The file in there that keeps a second gather away.
const LOCK: &str = "lock";

/// What of a gathered folder is made again, or would be wrong beside new outputs. Tables of
/// several files are known by the beginnings of their names.
const MADE: [&str; 21] = [
    "archive",
    "checkpoint.id",
    "checkpoints",
    "documents",
    "duplicates.tsv",
    "frontier",
    "frontier.new",
    GATHERED,
    "generation",
    RECORD,
    "images",
    "images.tsv",
    "lock",
    "logs",
    "ranking.tsv",
    "report",
    "rewriting.json",
    "samples.lock",
    "search",
    "sentences",
    "sightings",
];

/// The version of the file that marks a gathered folder; keys are only ever added.
const VERSION: u32 = 1;

/// Why outputs cannot be gathered. The folder that was gathered before is as it was.
#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    /// Something is wrong with a part, or the outputs cannot be written.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// The samples of the folder are in use, or its outputs cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The folder is in use, or a list of takedowns cannot be read.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// What was taken down cannot be removed.
    #[error(transparent)]
    Takedown(#[from] Box<TakedownError>),
    /// A file cannot be read or written.
    #[error("{0}; free space or correct the permissions, then gather again")]
    Io(#[from] IoError),
    /// The folder's name cannot be that of a job.
    #[error("{}: the folder's name cannot be that of a job: {why}", path.display())]
    Name {
        /// The folder.
        path: PathBuf,
        /// The problem.
        why: String,
    },
    /// There is another folder in the place.
    #[error(
        "{}: this folder was not made by gathering, and would be replaced; choose another one, \
         or move it away",
        .0.display()
    )]
    Taken(PathBuf),
    /// A part is in the folder that is written, or the other way round.
    #[error("the part {part} and {} lie in each other; gather into another folder", into.display())]
    Overlap {
        /// The part.
        part: String,
        /// The folder.
        into: PathBuf,
    },
    /// Another process gathers into the folder.
    #[error("{}: another process gathers into this folder; wait for it", .0.display())]
    Busy(PathBuf),
}

/// What the folder was made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gathered {
    /// The outputs.
    pub merged: Merged,
    /// Takedowns that were applied.
    pub orders: usize,
}

/// The file that marks a gathered folder.
#[derive(Debug, Serialize, Deserialize)]
struct Mark {
    version: u32,
    /// When it was gathered.
    time: String,
    /// The names of the parts, in their order.
    parts: Vec<String>,
    /// The files of the archive, so that they need not be read again.
    #[serde(default)]
    archives: Vec<Archived>,
}

impl Mark {
    /// That of a folder; `None` where nothing can be taken from there.
    fn of(folder: &Path) -> Option<Self> {
        let bytes = beneath::read(folder, GATHERED).ok()?;
        serde_json::from_slice(&bytes).ok()
    }
}

/// Makes one job folder, `into`, of the outputs of all `parts`, in the order in which the
/// machines began; `now` is milliseconds since 1970.
///
/// - The parts are only read. They must be at rest, up to their last stamp.
/// - The folder is there as a whole or not at all: an error, a kill or a loss of power leaves
///   the one that was gathered before, or none. Between two renames it has no name for a
///   moment; a kill right there is mended by the next gather.
/// - A folder that was not gathered is never replaced, and nothing of a gathered one that
///   people have put there is lost.
/// - Every byte that is taken was checked.
///
/// # Errors
///
/// [`GatherError`] names the part and the file, or the folder.
pub fn gather(parts: &[Part], into: &Path, now: u64) -> Result<Gathered, GatherError> {
    let place = Place::of(into)?;
    let lock = place.lock()?;
    let gathered = gather_with(parts, &place, now, &mut |_| Ok(()));
    // The old folder is in its place again, and what was begun is of no use.
    let cleared = place.recover().and_then(|()| place.clear());
    if cleared.is_ok() {
        place.remove_beside();
    }
    drop(lock);
    let gathered = gathered?;
    cleared?;
    Ok(gathered)
}

/// Called after each step; an error ends everything, as a kill would.
type Watch<'w> = &'w mut dyn FnMut(&'static str) -> Result<(), GatherError>;

/// The same in a folder that is locked, without removing what an error leaves.
fn gather_with(
    parts: &[Part],
    place: &Place,
    now: u64,
    watch: Watch<'_>,
) -> Result<Gathered, GatherError> {
    place.recover()?;
    place.clear()?;
    place.check(parts)?;
    watch("begun")?;
    let new = place.beside.join(NEW);
    std::fs::create_dir_all(&new).map_err(IoError::at(&new, "making the folder"))?;
    let mark = Mark::of(&place.into);
    let earlier = mark.as_ref().map(|mark| Earlier {
        folder: &place.into,
        archives: &mark.archives,
    });
    let merged = merge(parts, &new, earlier)?;
    watch("merged")?;
    // From here on nobody may read or change the old folder.
    let held = place.hold()?;
    let orders = orders(parts, place, &new)?;
    watch("orders")?;
    carry(&place.into, "", &new)?;
    watch("carried")?;
    take_down(&orders, place, now)?;
    watch("taken down")?;
    describe(parts, &merged, place, now)?;
    watch("described")?;
    outputs::sync_folder(&new)?;
    watch("synced")?;
    place.put(&new, watch)?;
    drop(held);
    Ok(Gathered {
        merged,
        orders: orders.orders().len(),
    })
}

/// Where a folder is gathered.
struct Place {
    into: PathBuf,
    /// The folder that contains it.
    above: PathBuf,
    name: Name,
    /// The folder in which it is made.
    beside: PathBuf,
}

impl Place {
    fn of(into: &Path) -> Result<Self, GatherError> {
        let wrong = |why: String| GatherError::Name {
            path: into.to_owned(),
            why,
        };
        let name = into.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| wrong("it is none".to_owned()))?;
        let checked = Name::parse(name).map_err(wrong)?;
        let above = match into.parent() {
            Some(above) if !above.as_os_str().is_empty() => above,
            _ => Path::new("."),
        };
        std::fs::create_dir_all(above).map_err(IoError::at(above, "making the folder"))?;
        // The record of the job names it, wherever it is read.
        let above = above
            .canonicalize()
            .map_err(IoError::at(above, "looking for"))?;
        Ok(Self {
            into: above.join(name),
            beside: above.join(format!("{name}{BESIDE}")),
            name: checked,
            above,
        })
    }

    /// Keeps other gathers away.
    fn lock(&self) -> Result<File, GatherError> {
        let beside = &self.beside;
        std::fs::create_dir_all(beside).map_err(IoError::at(beside, "making the folder"))?;
        let file = beneath::open_or_create(beside, LOCK)
            .map_err(IoError::at(&beside.join(LOCK), "creating"))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(GatherError::Busy(self.into.clone())),
            Err(TryLockError::Error(e)) => {
                Err(IoError::at(&beside.join(LOCK), "locking")(e).into())
            }
        }
    }

    /// Puts the old folder back, where a kill came between the two renames.
    fn recover(&self) -> Result<(), GatherError> {
        let old = self.beside.join(OLD);
        if old.is_dir() && !exists(&self.into)? {
            atomic::rename_durably(&old, &self.into)?;
        }
        Ok(())
    }

    /// Removes what is beside the folder, but for the lock.
    fn clear(&self) -> Result<(), GatherError> {
        for name in [NEW, OLD] {
            match beneath::remove_all(&self.beside, name) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(IoError::at(&self.beside.join(name), "removing")(error).into());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes the folder beside. Whoever locks the file at this moment makes it again.
    fn remove_beside(&self) {
        if let Err(error) = std::fs::remove_dir_all(&self.beside) {
            tracing::debug!("{}: not removed: {error}", self.beside.display());
        }
    }

    /// Refuses to replace what was not gathered, and to read what is written. Says early that
    /// the old folder is in use.
    fn check(&self, parts: &[Part]) -> Result<(), GatherError> {
        for part in parts {
            // One that is missing is told with its name later.
            let Ok(folder) = part.folder.canonicalize() else {
                continue;
            };
            if folder.starts_with(&self.into) || self.into.starts_with(&folder) {
                return Err(GatherError::Overlap {
                    part: part.name.clone(),
                    into: self.into.clone(),
                });
            }
        }
        drop(self.hold()?);
        Ok(())
    }

    /// Keeps everybody off the old folder; nothing where there is none.
    fn hold(&self) -> Result<Option<(SampleLock, File)>, GatherError> {
        if !exists(&self.into)? {
            return Ok(None);
        }
        let entries = beneath::entries(&self.into, "");
        let entries = entries.map_err(IoError::at(&self.into, "listing"))?;
        if entries.is_empty() {
            return Ok(None);
        }
        if !beneath::is_file(&self.into, GATHERED) {
            return Err(GatherError::Taken(self.into.clone()));
        }
        let samples = outputs::remove_samples(&self.into)?;
        Ok(Some((samples, checkpoint::lock(&self.into)?)))
    }

    /// Puts the new folder into the place of the old one.
    fn put(&self, new: &Path, watch: Watch<'_>) -> Result<(), GatherError> {
        let old = self.beside.join(OLD);
        if exists(&self.into)? {
            atomic::rename_durably(&self.into, &old)?;
        }
        watch("moved aside")?;
        atomic::rename_durably(new, &self.into)?;
        beneath::sync_folder_of(&self.beside, NEW).map_err(IoError::at(&self.beside, "syncing"))?;
        watch("in place")
    }
}

fn exists(path: &Path) -> Result<bool, IoError> {
    path.try_exists().map_err(IoError::at(path, "looking for"))
}

/// The takedowns of all parts and of the old folder, with their receipts.
fn orders(parts: &[Part], place: &Place, new: &Path) -> Result<Takedowns, GatherError> {
    let mut all = Takedowns::default();
    let folders = parts.iter().map(|part| part.folder.as_path());
    let into = place.into.as_path();
    let mut has_list = false;
    for folder in folders.chain(exists(into)?.then_some(into)) {
        has_list |= beneath::is_file(folder, TAKEDOWNS);
        for order in checkpoint::takedowns(folder)?.orders() {
            all.add(order.clone());
        }
    }
    for (number, part) in (1..).zip(parts) {
        receipts(&part.folder, number, new)?;
    }
    if has_list {
        atomic::write_bytes(new, TAKEDOWNS, all.to_lines().as_bytes())
            .map_err(IoError::at(&new.join(TAKEDOWNS), "writing"))?;
    }
    Ok(all)
}

/// Copies the receipts of a part. Two machines may have written one at the same moment.
fn receipts(folder: &Path, number: usize, new: &Path) -> Result<(), GatherError> {
    let entries = match beneath::entries(folder, RECEIPTS) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(IoError::at(&folder.join(RECEIPTS), "listing"))?,
    };
    for (name, kind) in entries {
        let from = format!("{RECEIPTS}/{name}");
        if kind != Kind::File || !name.ends_with(".json") || from == UNFINISHED {
            continue;
        }
        let bytes = beneath::read(folder, &from);
        let bytes = bytes.map_err(IoError::at(&folder.join(&from), "reading"))?;
        let mut to = from.clone();
        if beneath::is_file(new, &to) && beneath::read(new, &to).ok().as_ref() != Some(&bytes) {
            let stem = from.trim_end_matches(".json");
            to = format!("{stem}-part-{number}.json");
        }
        write(new, &to, &bytes)?;
    }
    Ok(())
}

fn write(new: &Path, name: &str, bytes: &[u8]) -> Result<(), GatherError> {
    if let Some((below, _)) = name.rsplit_once('/') {
        beneath::create_dir_all(new, below)
            .map_err(IoError::at(&new.join(below), "making the folder"))?;
    }
    let written = atomic::write_bytes(new, name, bytes);
    Ok(written.map_err(IoError::at(&new.join(name), "writing"))?)
}

/// Takes from the old folder what no gather makes, as links where the file system can.
/// `below` is a folder below both.
fn carry(old: &Path, below: &str, new: &Path) -> Result<(), GatherError> {
    let entries = match beneath::entries(old, below) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(IoError::at(&old.join(below), "listing"))?,
    };
    for (entry, kind) in entries {
        let is_own = below.is_empty() && is_made(&entry);
        let name = match below {
            "" => entry,
            below => format!("{below}/{entry}"),
        };
        let path = new.join(&name);
        // The new one has what the parts have.
        if is_own || beneath::is_file(new, &name) {
            continue;
        }
        match kind {
            Kind::Folder => {
                beneath::create_dir_all(new, &name)
                    .map_err(IoError::at(&path, "making the folder"))?;
                carry(old, &name, new)?;
            }
            Kind::File => {
                if beneath::hard_link_into(old, &name, new, &name).is_err() {
                    let mut from = beneath::open(old, &name)
                        .map_err(IoError::at(&old.join(&name), "opening"))?;
                    let to = beneath::create(new, &name).map_err(IoError::at(&path, "creating"));
                    std::io::copy(&mut from, &mut to?).map_err(IoError::at(&path, "writing"))?;
                }
            }
            Kind::Link | Kind::Other => {
                let path = old.join(&name);
                tracing::warn!("{}: left out: it is no file", path.display());
            }
        }
    }
    Ok(())
}

/// Whether a name in a gathered folder is of what a gather or a crawl makes.
fn is_made(name: &str) -> bool {
    let is_part = name.starts_with("images.") && name.contains(".tsv");
    is_part || name.ends_with(".partial") || MADE.contains(&name)
}

/// Removes what was taken down from the new folder.
fn take_down(orders: &Takedowns, place: &Place, now: u64) -> Result<(), GatherError> {
    if orders.orders().is_empty() {
        return Ok(());
    }
    let mut config = Config::default();
    config.job.folder = place.beside.clone();
    config.job.name = Name::parse(NEW).map_err(|why| GatherError::Name {
        path: place.beside.join(NEW),
        why,
    })?;
    let targets = orders.orders().iter().map(|order| order.target.clone());
    let request = Request {
        targets: targets.collect(),
        reason: Some("taken down before the outputs were gathered".to_owned()),
        dry_run: false,
    };
    let (receipt, path) = takedown::take_down(&config, &request, now).map_err(Box::new)?;
    let new = place.beside.join(NEW);
    let mut left = vec!["frontier", "checkpoints", "lock", "samples.lock"];
    // Usually the parts have removed it all.
    let name = path.as_deref().and_then(Path::file_name);
    let name = name.map(|name| format!("{RECEIPTS}/{}", name.to_string_lossy()));
    if receipt.is_empty() {
        left.extend(name.as_deref());
    }
    for name in left {
        match beneath::remove_all(&new, name) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(IoError::at(&new.join(name), "removing")(error).into());
            }
            _ => {}
        }
    }
    Ok(())
}

/// Writes the record of the configuration, and the mark.
fn describe(parts: &[Part], merged: &Merged, place: &Place, now: u64) -> Result<(), GatherError> {
    let new = place.beside.join(NEW);
    let records = parts.iter().rev().filter_map(|part| {
        let path = part.folder.join(RECORD);
        let text = beneath::read_to_string(&part.folder, RECORD).ok()?;
        let read = Config::parse(&text, RECORD);
        read.inspect_err(|error| tracing::warn!("{}: passed over: {error}", path.display()))
            .ok()
    });
    if let Some(config) = records.into_iter().next() {
        let mut config = checkpoint::alone(config);
        config.job.folder = place.above.clone();
        config.job.name = place.name.clone();
        write(&new, RECORD, config.to_toml().as_bytes())?;
    } else if beneath::is_file(&new, RECORD) {
        // That of the takedown.
        beneath::remove_file(&new, RECORD).map_err(IoError::at(&new.join(RECORD), "removing"))?;
    }
    let names = parts.iter().map(|part| part.name.clone());
    let mark = Mark {
        version: VERSION,
        time: timestamp(now),
        parts: names.collect(),
        archives: merged.archives.clone(),
    };
    // Strings and numbers always serialise.
    let mark = serde_json::to_string_pretty(&mark).unwrap_or_default();
    write(&new, GATHERED, format!("{mark}\n").as_bytes())
}
