//! Ownership of a checkpoint: taking it over, and continuing from it if the job's folder is empty.

use std::path::Path;
use std::time::{Duration, Instant};

use super::SaveError;
use super::manifest::{self, Manifest, Owner};
use super::restore;
use super::session::Session;
use crate::checkpoint;
use crate::clock::{millis, now};
use crate::frontier::store;
use crate::fs::{IoError, atomic, beneath, if_there};
use crate::objects::{self, Objects, Version};
use crate::settings::JobSettings;

/// The file with the random ID of the job's folder.
const FOLDER_ID: &str = "checkpoint.id";
/// The file that exists while a checkpoint is being restored.
pub const RESTORING: &str = "restoring";
/// An owner counts as dead after this many times the interval that it promised.
const PATIENCE: u64 = 3;
/// The pause between two checks whether an owner lives.
const LOOK: Duration = Duration::from_millis(500);

/// Whether to wait for signs of life of another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeOver {
    /// Take over only if the owner is known to be gone.
    IfDead,
    /// Take over at once: the operator says that the other process is gone.
    AtOnce,
}

/// Prepares a job with `checkpoint.store` for a crawl, before anything else of it is read: takes
/// over its checkpoint, and restores it if the job's folder has no frontier. Returns `None` if the
/// job has no such store. Reports long steps to `say`.
///
/// # Errors
/// [`SaveError`]; the checkpoint is then left to its owner, and the folder stays as it was.
pub fn prepare(
    config: &JobSettings,
    take_over: TakeOver,
    say: &mut dyn FnMut(&str),
) -> Result<Option<Session>, SaveError> {
    let Some(store) = &config.checkpoint.store else {
        return Ok(None);
    };
    let objects = objects::open(store.as_str())?;
    let folder = config.job_folder();
    std::fs::create_dir_all(&folder).map_err(IoError::at(&folder, "making the folder"))?;
    let _lock = checkpoint::lock(&folder)?;
    let own = own(&folder)?;
    let has_frontier = store::backend_in(&folder.join("frontier")).is_some()
        && !beneath::is_file(&folder, RESTORING);
    let found = match manifest::read(&*objects) {
        Err(SaveError::Objects(error)) if has_frontier => {
            tracing::warn!(%error, "the checkpoint cannot be reached; the crawl starts without it \
                                    and tries again later");
            return Ok(Some(Session::replacing(config, objects.into(), own, None)));
        }
        found => found?,
    };
    let (manifest, version) = claim(config, &*objects, &own, found, has_frontier, take_over, say)?;
    if !has_frontier && manifest.has_state() {
        restore::restore(config, &*objects, &manifest, say)?;
    }
    let session = Session::replacing(config, objects.into(), own, Some((manifest, version)));
    Ok(Some(session))
}

/// Makes this process the owner of a checkpoint, or reserves the place for one.
pub(super) fn claim(
    config: &JobSettings,
    objects: &dyn Objects,
    own: &Owner,
    found: Option<(Manifest, Version)>,
    has_frontier: bool,
    take_over: TakeOver,
    say: &mut dyn FnMut(&str),
) -> Result<(Manifest, Version), SaveError> {
    let is_first = found.is_none();
    let (mut manifest, version) = match found {
        Some((manifest, version)) => (manifest, Some(version)),
        None => (Manifest::default(), None),
    };
    if !is_first && manifest.job != config.job.name.as_str() {
        return Err(SaveError::OtherJob {
            store: objects.address().to_owned(),
            other: manifest.job,
        });
    }
    let version = match version {
        Some(version) if !is_same(&manifest.owner, own) => {
            // The same folder on a machine with another name means a new container or a copy.
            let is_other = manifest.owner.folder != own.folder;
            if is_other && has_frontier && manifest.has_state() {
                return Err(SaveError::Refused(format!(
                    "{}: the checkpoint there was last written by {}, from another folder than \
                     {}; `spoor checkpoint restore JOB.toml --replace` moves this folder aside \
                     and continues from the checkpoint",
                    objects.address(),
                    manifest.owner,
                    config.job_folder().display()
                )));
            }
            Some(wait(objects, &manifest, version, take_over, say)?)
        }
        version => version,
    };
    manifest.job = config.job.name.as_str().to_owned();
    manifest.term += 1;
    manifest.owner = own.clone();
    manifest.ended = false;
    manifest.every = millis(config.checkpoint.every);
    let claimed = manifest::swap(objects, &mut manifest, version.as_ref())?;
    let Some(version) = claimed else {
        let other = manifest::read(objects)?.map(|(other, _)| other);
        return Err(alive(objects, other.unwrap_or(manifest)));
    };
    if is_first && objects.swap(manifest::NAME, b"{}", None)? {
        objects.delete(manifest::NAME)?;
        return Err(SaveError::Refused(format!(
            "{}: this store ignores `If-None-Match` and overwrites existing objects, so two \
             machines could overwrite each other's checkpoint; use another one",
            objects.address()
        )));
    }
    Ok((manifest, version))
}

/// Waits until the owner of a checkpoint is known to be gone; returns the version of its manifest
/// at that time.
fn wait(
    objects: &dyn Objects,
    manifest: &Manifest,
    version: Version,
    take_over: TakeOver,
    say: &mut dyn FnMut(&str),
) -> Result<Version, SaveError> {
    if manifest.ended || take_over == TakeOver::AtOnce || is_dead(&manifest.owner) {
        return Ok(version);
    }
    let patience = Duration::from_millis(manifest.every.saturating_mul(PATIENCE));
    say(&format!(
        "{}: the checkpoint belongs to {}; waiting {} s for a sign of life (`spoor checkpoint \
         restore JOB.toml --take-over` does not wait)",
        objects.address(),
        manifest.owner,
        patience.as_secs()
    ));
    let begun = Instant::now();
    while begun.elapsed() < patience {
        std::thread::sleep(LOOK.min(patience));
        match manifest::read(objects)? {
            Some((_, now)) if now == version => {}
            Some((now, version)) if now.ended => return Ok(version),
            other => {
                let manifest = other.map_or_else(|| manifest.clone(), |(m, _)| m);
                return Err(alive(objects, manifest));
            }
        }
    }
    Ok(version)
}

fn alive(objects: &dyn Objects, manifest: Manifest) -> SaveError {
    let ago = now().saturating_sub(manifest.saved) / 1_000;
    let ago = match manifest.saved {
        0 => "moments".to_owned(),
        _ => format!("{ago} s"),
    };
    let (store, owner) = (objects.address(), manifest.owner);
    SaveError::Alive(format!(
        "{store}: {owner} is crawling this job and keeps its checkpoint there (last made {ago} \
         ago); stop it first"
    ))
}

/// This process as the owner of a checkpoint.
pub(super) fn own(folder: &Path) -> Result<Owner, SaveError> {
    let path = folder.join(FOLDER_ID);
    let known = if_there(beneath::read_to_string(folder, FOLDER_ID));
    let known = known.map_err(IoError::at(&path, "reading"))?;
    let id = match known.as_deref().map(str::trim) {
        Some(id) if !id.is_empty() => id.to_owned(),
        _ => {
            let mut id = [0; 16];
            let drawn = getrandom::fill(&mut id).map_err(std::io::Error::other);
            drawn.map_err(IoError::at(&path, "drawing a number for"))?;
            let id = base16ct::lower::encode_string(&id);
            let written = atomic::write_bytes(folder, FOLDER_ID, format!("{id}\n").as_bytes());
            written.map_err(IoError::at(&path, "writing"))?;
            id
        }
    };
    Ok(Owner {
        folder: id,
        host: host(),
        system: system(),
        process: std::process::id(),
    })
}

/// The host name of this machine.
pub fn host() -> String {
    let name = crate::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| std::env::var("HOSTNAME").ok());
    let name = name.map(|name| name.trim().to_owned());
    name.filter(|name| !name.is_empty())
        .unwrap_or_else(|| "an unnamed machine".to_owned())
}

/// The running system and its PID namespace; empty if it cannot be read.
fn system() -> String {
    let boot = crate::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let numbers = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    match boot.trim() {
        "" => String::new(),
        boot => format!("{boot} {}", numbers.display()),
    }
}

/// Whether a process is this one or an earlier one of the same folder, which is locked. If it still
/// lives on this system, its folder is a copy.
fn is_same(owner: &Owner, own: &Owner) -> bool {
    let lives = owner.system == own.system && owner.process != own.process && !is_dead(owner);
    owner.folder == own.folder && owner.host == own.host && (owner.system.is_empty() || !lives)
}

/// Whether a process is certainly gone: it ran on this system, and no process has its ID now.
fn is_dead(owner: &Owner) -> bool {
    !owner.system.is_empty()
        && owner.system == system()
        && !Path::new(&format!("/proc/{}", owner.process)).exists()
}
