//! Restores a checkpoint into a job's folder.
//!
//! The frontier comes last: it is built next to its place, then renamed. Until then, a file marks
//! the folder as being restored, so that an interrupted restore starts anew.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::cells::unreadable;
use super::claim::RESTORING;
use super::manifest::{Manifest, Piece};
use super::pairs::{self, JOB, MODEL, file_of_key};
use super::send::image_name;
use super::{SaveError, numbered};
use crate::checkpoint;
use crate::clock::now;
use crate::frontier::store::changes::WriteRef;
use crate::frontier::store::{self, Batch, Store};
use crate::frontier::{Mark, note_restored};
use crate::fs::atomic::{self, Durability};
use crate::fs::beneath::{self, JobPath};
use crate::fs::{IoError, if_there, remove_folder, sync_file_system};
use crate::objects::{self, LONGEST, Objects};
use crate::outputs::{self, growth};
use crate::parallel;
use crate::settings::JobSettings;
use crate::settings::StoreKind;

/// The most pairs, and bytes, of a batch.
const PAIRS: usize = 2_000;
const BYTES: usize = 8 << 20;
/// The number of images read at a time.
const AT_ONCE: usize = 8;

/// Restores a checkpoint into the job's folder, which is locked.
pub(super) fn restore(
    config: &JobSettings,
    objects: &dyn Objects,
    manifest: &Manifest,
    say: &mut dyn FnMut(&str),
) -> Result<(), SaveError> {
    let folder = config.job_folder();
    say(&format!(
        "restoring the checkpoint of {} in {}: {} pages, {} images",
        crate::clock::timestamp(manifest.saved),
        objects.address(),
        manifest.documents,
        manifest.images
    ));
    let marker = folder.join(RESTORING);
    atomic::write_bytes(&folder, RESTORING, b"").map_err(IoError::at(&marker, "writing"))?;
    let work = Restoring {
        objects,
        manifest,
        folder: &folder,
        model: Some(config.model_folder()),
    };
    let new = folder.join("frontier.new");
    remove_folder(&new)?;
    work.frontier(config.frontier.store, &new)?;
    work.outputs()?;
    work.images()?;
    note_restored(&new, now())?;
    sync_file_system(&folder).map_err(IoError::at(&folder, "syncing"))?;
    let place = folder.join("frontier");
    remove_folder(&place)?;
    atomic::rename_durably(&new, &place)?;
    Ok(beneath::remove_file(&folder, RESTORING).map_err(IoError::at(&marker, "removing"))?)
}

/// Restores the outputs in a checkpoint of a cluster session into an empty folder, without the
/// frontier and the model, but with the other small files of the job. Returns the stamp of their
/// position.
///
/// # Errors
/// [`SaveError::NotEmpty`]; [`SaveError::Unreadable`] names the missing or damaged object.
pub fn outputs_of(
    store: &str,
    session: &str,
    number: u64,
    folder: &Path,
) -> Result<Vec<u8>, SaveError> {
    let objects = objects::open(&numbered::address(store, session))?;
    restore_outputs(&*objects, number, folder).map_err(unreadable)
}

/// The same from objects that are already open.
pub(super) fn restore_outputs(
    objects: &dyn Objects,
    number: u64,
    folder: &Path,
) -> Result<Vec<u8>, SaveError> {
    let manifest = numbered::manifest_of(objects, number)?;
    std::fs::create_dir_all(folder).map_err(IoError::at(folder, "making the folder"))?;
    let mut entries = std::fs::read_dir(folder).map_err(IoError::at(folder, "listing"))?;
    if entries.next().is_some() {
        return Err(SaveError::NotEmpty(folder.to_owned()));
    }
    let work = Restoring {
        objects,
        manifest: &manifest,
        folder,
        model: None,
    };
    work.pairs(&|piece| pairs::may_have_files(piece.span), &mut |_| Ok(()))?;
    work.outputs()?;
    work.images()?;
    Ok(manifest.stamp())
}

/// Moves a job's folder aside, so that a checkpoint can be restored in its place. Returns the new
/// path; `None` if there was nothing to keep.
///
/// # Errors
/// [`SaveError`], also if a crawl uses the job.
pub fn set_aside(config: &JobSettings) -> Result<Option<PathBuf>, SaveError> {
    let folder = config.job_folder();
    if !folder.join("frontier").exists() && !folder.join("logs/crawl.jsonl").exists() {
        return Ok(None);
    }
    let _lock = checkpoint::lock(&folder)?;
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(format!(".before-{}", now()));
    let aside = folder.with_file_name(name);
    atomic::rename_durably(&folder, &aside)?;
    Ok(Some(aside))
}

/// Moves a folder back that was set aside, if nothing could be restored in its place.
///
/// # Errors
/// [`SaveError::Io`].
pub fn put_back(config: &JobSettings, aside: &Path) -> Result<(), SaveError> {
    let folder = config.job_folder();
    if folder.join("frontier").exists() {
        return Ok(());
    }
    remove_folder(&folder)?;
    Ok(atomic::rename_durably(aside, &folder)?)
}

struct Restoring<'r> {
    objects: &'r dyn Objects,
    manifest: &'r Manifest,
    folder: &'r Path,
    /// The model's folder, if its files are wanted.
    model: Option<PathBuf>,
}

impl Restoring<'_> {
    fn damaged(&self, why: String) -> SaveError {
        SaveError::Damaged {
            name: self.objects.address().to_owned(),
            why,
        }
    }

    /// Builds the frontier's store in `new`, and writes the small files.
    fn frontier(&self, kind: StoreKind, new: &Path) -> Result<(), SaveError> {
        let mut store = store::open(kind, new)?;
        let mut batch = Batch::default();
        let (mut pairs, mut bytes) = (0, 0);
        self.pairs(&|_| true, &mut |(key, value)| {
            pairs += 1;
            bytes += key.len() + value.map_or(0, <[u8]>::len);
            match value {
                Some(value) => batch.put(key.to_vec(), value.to_vec()),
                None => batch.delete(key.to_vec()),
            }
            if pairs >= PAIRS || bytes >= BYTES {
                (pairs, bytes) = (0, 0);
                store.apply(std::mem::take(&mut batch))?;
            }
            Ok(())
        })?;
        store.apply(batch)?;
        self.check(&*store)?;
        if !self.manifest.outputs {
            Mark::forget_outputs(&mut *store)?;
        }
        Ok(store.flush()?)
    }

    /// Writes the small files, and passes on the frontier's pairs, from the wanted pieces.
    fn pairs(
        &self,
        is_wanted: &dyn Fn(&Piece) -> bool,
        visit: &mut dyn FnMut(WriteRef<'_>) -> Result<(), SaveError>,
    ) -> Result<(), SaveError> {
        for piece in self.manifest.pieces().filter(|piece| is_wanted(piece)) {
            let packed = piece.read(self.objects)?;
            pairs::each(
                &piece.name,
                &packed,
                &mut |(key, value)| match file_of_key(key) {
                    Some(file) => self.file(file, value),
                    None => visit((key, value)),
                },
            )?;
        }
        Ok(())
    }

    fn check(&self, store: &dyn Store) -> Result<(), SaveError> {
        let found = Mark::of(store)?.map(|mark| mark.commits);
        if found == Some(self.manifest.commits) {
            return Ok(());
        }
        Err(self.damaged(format!(
            "its frontier is at commit {found:?}, but the manifest says {}",
            self.manifest.commits
        )))
    }

    /// Writes a part of a small file, or removes the file.
    fn file(&self, key: &[u8], value: Option<&[u8]>) -> Result<(), SaveError> {
        let no_file = || self.damaged(format!("{} is not a file of a job", key.escape_ascii()));
        let (rest, number) = key.split_last_chunk::<4>().ok_or_else(no_file)?;
        let name = rest.strip_suffix(&[0]).ok_or_else(no_file)?;
        let name = std::str::from_utf8(name).map_err(|_| no_file())?;
        let places = (name.strip_prefix(JOB), name.strip_prefix(MODEL));
        let (root, name) = match (places, &self.model) {
            ((Some(name), _), _) => (self.folder, name),
            ((_, Some(name)), Some(model)) => (model.as_path(), name),
            ((_, Some(_)), None) => return Ok(()),
            _ => return Err(no_file()),
        };
        // A name from the store must not lead out of the folder.
        let name = JobPath::parse(name).map_err(|_| no_file())?;
        let path = root.join(name.as_str());
        let Some(value) = value else {
            let removed = if_there(beneath::remove_file(root, name.as_str()));
            return Ok(removed.map(drop).map_err(IoError::at(&path, "removing"))?);
        };
        let mut file = create(root, name.as_str(), *number == [0; 4])?;
        Ok(file
            .write_all(value)
            .map_err(IoError::at(&path, "writing"))?)
    }

    /// Writes the output files.
    fn outputs(&self) -> Result<(), SaveError> {
        let stamp = self.manifest.stamp();
        let mut lengths: BTreeMap<String, u64> = BTreeMap::new();
        self.manifest.each_grown(self.objects, &mut |grown| {
            let place =
                growth::place_of(&stamp, &grown.output, grown.number, grown.file.as_deref())?;
            let place = place
                .and_then(|place| JobPath::parse(&place).ok())
                .ok_or_else(|| {
                    self.damaged(format!(
                        "file {} of `{}` has no place",
                        grown.number, grown.output
                    ))
                })?;
            let name = place.as_str().to_owned();
            let mut bytes = grown.piece.read(self.objects)?;
            if grown.packed {
                bytes = pairs::unpack(&grown.piece.name, &bytes)?;
            }
            let length = lengths.entry(name.clone()).or_default();
            if grown.from == 0 {
                *length = 0;
            }
            if *length != grown.from {
                return Err(self.damaged(format!(
                    "{name} continues at byte {}, not at {length}",
                    grown.from
                )));
            }
            *length += bytes.len() as u64;
            let mut file = create(self.folder, &name, grown.from == 0)?;
            Ok(file
                .write_all(&bytes)
                .map_err(IoError::at(&self.folder.join(&name), "writing"))?)
        })
    }

    /// Reads the images of all restored sidecars.
    fn images(&self) -> Result<(), SaveError> {
        if !self.folder.join("images").is_dir() {
            return Ok(());
        }
        let listed = outputs::image_files(self.folder);
        let files = listed.map_err(IoError::at(&self.folder.join("images"), "listing"))?;
        parallel::each(AT_ONCE, &files, |file| self.image(file))?;
        // Links need all images to be there.
        Ok(growth::link_copies(self.folder, &files)?)
    }

    fn image(&self, file: &str) -> Result<(), SaveError> {
        let Some(image) = growth::saved_image(self.folder, file)? else {
            return Ok(());
        };
        if image.same_as.is_some() {
            return Ok(());
        }
        self.fetch_image(file, &image.sha256)
    }

    fn fetch_image(&self, file: &str, sha256: &str) -> Result<(), SaveError> {
        let name = image_name(sha256);
        let Some((bytes, _)) = self.objects.get(&name, LONGEST)? else {
            // The image changed before it could be sent; it is fetched again.
            tracing::warn!("{file}: the image is not in the checkpoint; its sidecar stays");
            return Ok(());
        };
        if base16ct::lower::encode_string(&Sha256::digest(&bytes)) != sha256 {
            return Err(self.damaged(format!("{name} differs from what was written")));
        }
        let part = format!("{file}.part");
        let written = atomic::write_through(self.folder, &part, file, &bytes, Durability::Later);
        Ok(written.map_err(IoError::at(&self.folder.join(file), "writing"))?)
    }
}

/// Opens a file below a folder for writing: truncated, or at its end.
fn create(root: &Path, name: &str, anew: bool) -> Result<File, SaveError> {
    let path = root.join(name);
    std::fs::create_dir_all(root).map_err(IoError::at(root, "making the folder"))?;
    if let Some((parent, _)) = name.rsplit_once('/') {
        let made = beneath::create_dir_all(root, parent);
        made.map_err(IoError::at(&path, "making the folder of"))?;
    }
    let opened = if anew {
        beneath::create(root, name)
    } else {
        beneath::append(root, name)
    };
    Ok(opened.map_err(IoError::at(&path, "opening"))?)
}
