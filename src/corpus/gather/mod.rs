//! Merges the folders that several machines wrote for one job into one job folder, for all
//! commands on a finished corpus: `export`, `rank`, `report`, `annotate`, `corpus`, `index`,
//! `search`, `archive`, `takedown`.
//!
//! [`outputs::merge`] merges the outputs. This module adds the rest of a job's folder: the
//! record of its configuration, and the list of takedowns, which combines those of all parts
//! and of the folder that was gathered before. The listed samples are removed from the merged
//! outputs, because a machine may have ended before it received a takedown.
//!
//! A folder that was gathered before is moved aside as a whole, so that nothing that people
//! have put into it is lost. Its annotations, its exports and the receipts of its takedowns are
//! also in the new folder.
//!
//! A gathered folder has no frontier, so a crawl cannot continue in it. A file marks it, and
//! opening it for a crawl fails with an error that says so.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::takedown::{self, Request};
use crate::clock::timestamp;
use crate::crawl::checkpoint::{self, GATHERED, RECEIPTS, RECORD, TAKEDOWNS, UNFINISHED};
use crate::fs::atomic;
use crate::fs::beneath::{self, Kind};
use crate::fs::{IoError, if_there};
use crate::outputs::merge::{MachinePart, Merged, merge};
use crate::outputs::{self, SampleLock};
use crate::settings::JobSettings;
use crate::settings::Name;
use crate::tool_error::{ToolError, lock};
use crate::web::scope::Takedowns;

/// Suffixes to the name of a job's folder, for the folder in which it is gathered and for the
/// folder that was gathered before.
const BESIDE: &str = ".gathering";
const BEFORE: &str = ".before-";
/// The job's folder in there while it is being made.
const NEW: &str = "job";
/// The lock file in there that prevents a second gather.
const LOCK: &str = "lock";

/// Folders in a gathered folder that contain people's own work.
const KEPT: [&str; 2] = ["annotations", "exports"];

/// The version of the file that marks a gathered folder; keys are only ever added.
const VERSION: u32 = 1;

/// What went into the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gathered {
    /// The outputs.
    pub merged: Merged,
    /// Takedowns that were applied.
    pub orders: usize,
    /// The present place of the folder that was gathered before.
    pub before: Option<PathBuf>,
}

/// The file that marks a gathered folder.
#[derive(Debug, Serialize)]
struct GatherMark {
    version: u32,
    /// When it was gathered.
    time: String,
    /// The names of the parts, in their order.
    parts: Vec<String>,
}

/// Merges the outputs of all `parts`, in the order in which the machines began, into the job
/// folder `into`; the gathered job has these `settings`; `now` is milliseconds since 1970.
///
/// - The parts are only read. They must be elsewhere, and complete up to their last stamp,
///   with no process writing to them.
/// - The folder is created atomically: an error, a kill or a power failure leaves the one that
///   was gathered before, or none. Between two renames there is no folder of this name for a
///   moment; the next gather repairs a kill at that point.
/// - A folder that was not gathered is never replaced, and nothing that people have put into a
///   gathered one is lost.
///
/// # Errors
///
/// [`ToolError`] names the part and the file, or the folder.
pub fn gather(
    parts: &[MachinePart],
    into: &Path,
    settings: &JobSettings,
    now: u64,
) -> Result<Gathered, ToolError> {
    let place = GatherFolder::of(into)?;
    let lock = place.lock()?;
    let gathered = gather_with(parts, &place, (settings, now), &mut |_| Ok(()));
    let cleared = place.clear();
    if cleared.is_ok() {
        place.remove_beside();
    }
    drop(lock);
    let gathered = gathered?;
    cleared?;
    Ok(gathered)
}

/// Called after each step; an error ends everything, as a kill would.
type GatherWatch<'w> = &'w mut dyn FnMut(&'static str) -> Result<(), ToolError>;

/// The same in a locked folder, without cleaning up after an error.
fn gather_with(
    parts: &[MachinePart],
    place: &GatherFolder,
    (settings, now): (&JobSettings, u64),
    watch: GatherWatch<'_>,
) -> Result<Gathered, ToolError> {
    place.clear()?;
    // Fails early if the old folder is in use.
    drop(place.hold()?);
    watch("begun")?;
    let new = place.beside.join(NEW);
    std::fs::create_dir_all(&new).map_err(IoError::at(&new, "making the folder"))?;
    let merged = merge(parts, &new)?;
    watch("merged")?;
    // From here on no other process may read or change the old folder.
    let held = place.hold()?;
    let orders = orders(parts, place, &new)?;
    watch("orders")?;
    for name in KEPT {
        link_all(&place.into, name, &new)?;
    }
    take_down(&orders, place, now)?;
    watch("taken down")?;
    outputs::sync_folder(&new)?;
    describe(parts, place, settings, now)?;
    watch("described")?;
    let before = place.put(&new, now, watch)?;
    drop(held);
    Ok(Gathered {
        merged,
        orders: orders.orders().len(),
        before,
    })
}

/// Where a folder is gathered.
struct GatherFolder {
    into: PathBuf,
    /// The folder that contains it.
    above: PathBuf,
    name: Name,
    /// The folder in which it is made.
    beside: PathBuf,
}

impl GatherFolder {
    fn of(into: &Path) -> Result<Self, ToolError> {
        let wrong = |why: String| no_name(into, &why);
        let name = into.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| wrong("it is none".to_owned()))?;
        let checked = Name::parse(name).map_err(wrong)?;
        let above = match into.parent() {
            Some(above) if !above.as_os_str().is_empty() => above,
            _ => Path::new("."),
        };
        std::fs::create_dir_all(above).map_err(IoError::at(above, "making the folder"))?;
        // The record of the job contains this path, so it must be absolute.
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
    fn lock(&self) -> Result<File, ToolError> {
        let beside = &self.beside;
        std::fs::create_dir_all(beside).map_err(IoError::at(beside, "making the folder"))?;
        let file = beneath::open_or_create(beside, LOCK)
            .map_err(IoError::at(&beside.join(LOCK), "creating"))?;
        lock(&file, &beside.join(LOCK), || {
            let why = "another process gathers into this folder; wait for it";
            ToolError::busy(&self.into, why)
        })?;
        Ok(file)
    }

    /// Removes what a killed gather left. If it was killed between the two renames, the new folder
    /// is complete and moved to its place instead.
    fn clear(&self) -> Result<(), ToolError> {
        let new = self.beside.join(NEW);
        // The mark is written last.
        if !exists(&self.into)? && beneath::is_file(&new, GATHERED) {
            return Ok(atomic::rename_durably(&new, &self.into)?);
        }
        remove(&self.beside, NEW)
    }

    /// Removes the working folder. A process that locks the file at this moment creates it again.
    fn remove_beside(&self) {
        if let Err(error) = std::fs::remove_dir_all(&self.beside) {
            tracing::debug!("{}: not removed: {error}", self.beside.display());
        }
    }

    /// Locks the old folder against all other processes, and refuses one that was not gathered;
    /// `None` if there is no folder.
    fn hold(&self) -> Result<Option<(SampleLock, File)>, ToolError> {
        if !self.is_taken()? {
            return Ok(None);
        }
        if !beneath::is_file(&self.into, GATHERED) {
            let why = "there is a folder that was not made by gathering; choose another one, or \
                       move it away";
            return Err(ToolError::at(&self.into, why));
        }
        let samples = outputs::remove_samples(&self.into)?;
        Ok(Some((samples, checkpoint::lock(&self.into)?)))
    }

    /// Whether there is a folder with anything in it.
    fn is_taken(&self) -> Result<bool, IoError> {
        let entries = exists(&self.into)?.then(|| beneath::entries(&self.into, ""));
        let entries = entries.transpose();
        let entries = entries.map_err(IoError::at(&self.into, "listing"))?;
        Ok(entries.is_some_and(|entries| !entries.is_empty()))
    }

    /// Replaces the old folder by the new one. Returns where the old one is now.
    fn put(
        &self,
        new: &Path,
        now: u64,
        watch: GatherWatch<'_>,
    ) -> Result<Option<PathBuf>, ToolError> {
        let mut before = None;
        if self.is_taken()? {
            let name = format!("{}{BEFORE}{now}", self.name.as_str());
            let aside = before.insert(self.above.join(name));
            atomic::rename_durably(&self.into, aside)?;
        }
        watch("moved aside")?;
        atomic::rename_durably(new, &self.into)?;
        beneath::sync_folder_of(&self.beside, NEW).map_err(IoError::at(&self.beside, "syncing"))?;
        watch("in place")?;
        Ok(before)
    }
}

fn no_name(folder: &Path, why: &str) -> ToolError {
    let why = format_args!("the folder's name cannot be that of a job: {why}");
    ToolError::at(folder, why)
}

fn exists(path: &Path) -> Result<bool, IoError> {
    path.try_exists().map_err(IoError::at(path, "looking for"))
}

fn remove(folder: &Path, name: &str) -> Result<(), ToolError> {
    let removed = if_there(beneath::remove_all(folder, name));
    removed.map_err(IoError::at(&folder.join(name), "removing"))?;
    Ok(())
}

/// The takedowns of all parts and of the old folder, with their receipts.
fn orders(parts: &[MachinePart], place: &GatherFolder, new: &Path) -> Result<Takedowns, ToolError> {
    let mut all = Takedowns::default();
    let into = exists(&place.into)?.then_some(place.into.as_path());
    let folders = (1..).zip(parts.iter().map(|part| part.folder.as_path()));
    let mut has_list = false;
    for (number, folder) in into.map(|old| (0, old)).into_iter().chain(folders) {
        has_list |= beneath::is_file(folder, TAKEDOWNS);
        for order in checkpoint::takedowns(folder)?.orders() {
            all.add(order.clone());
        }
        receipts(folder, number, new)?;
    }
    if has_list {
        atomic::write_bytes(new, TAKEDOWNS, all.to_lines().as_bytes())
            .map_err(IoError::at(&new.join(TAKEDOWNS), "writing"))?;
    }
    Ok(all)
}

/// Copies the receipts of a part. Two machines may have written one at the same moment.
fn receipts(folder: &Path, number: usize, new: &Path) -> Result<(), ToolError> {
    let entries = if_there(beneath::entries(folder, RECEIPTS));
    let entries = entries.map_err(IoError::at(&folder.join(RECEIPTS), "listing"))?;
    for (name, kind) in entries.into_iter().flatten() {
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

fn write(new: &Path, name: &str, bytes: &[u8]) -> Result<(), ToolError> {
    if let Some((below, _)) = name.rsplit_once('/') {
        beneath::create_dir_all(new, below)
            .map_err(IoError::at(&new.join(below), "making the folder"))?;
    }
    let written = atomic::write_bytes(new, name, bytes);
    Ok(written.map_err(IoError::at(&new.join(name), "writing"))?)
}

/// Links all files of a subfolder of the old folder, or copies them if the file system has no
/// links.
fn link_all(old: &Path, below: &str, new: &Path) -> Result<(), ToolError> {
    let entries = if_there(beneath::entries(old, below));
    let Some(entries) = entries.map_err(IoError::at(&old.join(below), "listing"))? else {
        return Ok(());
    };
    beneath::create_dir_all(new, below)
        .map_err(IoError::at(&new.join(below), "making the folder"))?;
    for (entry, kind) in entries {
        let name = format!("{below}/{entry}");
        match kind {
            Kind::Folder => link_all(old, &name, new)?,
            // Votes are appended, and the old folder must not change.
            Kind::File
                if !below.starts_with("annotations")
                    && beneath::hard_link_into(old, &name, new, &name).is_ok() => {}
            Kind::File => {
                let bytes = beneath::read(old, &name);
                let bytes = bytes.map_err(IoError::at(&old.join(&name), "reading"))?;
                write(new, &name, &bytes)?;
            }
            // The folder remains where it is.
            Kind::Link | Kind::Other => {}
        }
    }
    Ok(())
}

/// Removes what was taken down from the new folder.
fn take_down(orders: &Takedowns, place: &GatherFolder, now: u64) -> Result<(), ToolError> {
    if orders.orders().is_empty() {
        return Ok(());
    }
    let mut config = JobSettings::default();
    config.job.folder = place.beside.clone();
    let new = place.beside.join(NEW);
    config.job.name = Name::parse(NEW).map_err(|why| no_name(&new, &why))?;
    let targets = orders.orders().iter().map(|order| order.target.clone());
    let request = Request {
        targets: targets.collect(),
        reason: Some("taken down before the outputs were gathered".to_owned()),
        dry_run: false,
    };
    let (receipt, path) = takedown::take_down(&config, &request, now)?;
    let mut left = vec!["frontier", "checkpoints", "lock", "samples.lock"];
    // Usually the parts have already removed everything.
    let name = path.as_deref().and_then(Path::file_name);
    let name = name.map(|name| format!("{RECEIPTS}/{}", name.to_string_lossy()));
    if receipt.is_empty() {
        left.extend(name.as_deref());
    }
    left.into_iter().try_for_each(|name| remove(&new, name))
}

/// Writes the settings of the gathered job, and the mark.
fn describe(
    parts: &[MachinePart],
    place: &GatherFolder,
    settings: &JobSettings,
    now: u64,
) -> Result<(), ToolError> {
    let new = place.beside.join(NEW);
    let mut settings = checkpoint::alone(settings.clone());
    settings.job.folder = place.above.clone();
    settings.job.name = place.name.clone();
    write(&new, RECORD, settings.to_toml().as_bytes())?;
    let names = parts.iter().map(|part| part.name.clone());
    let mark = GatherMark {
        version: VERSION,
        time: timestamp(now),
        parts: names.collect(),
    };
    // Strings and numbers always serialise.
    let mark = serde_json::to_string_pretty(&mark).unwrap_or_default();
    write(&new, GATHERED, format!("{mark}\n").as_bytes())
}
