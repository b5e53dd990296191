//! The parts of a checkpoint besides the frontier: outputs, images, small files.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::Xxh3;

use super::SaveError;
use super::manifest::{Grown, Manifest, Piece};
use super::pairs::{JOB, MODEL, key_of_file, pack};
use super::session::Session;
use crate::checkpoint::{RECEIPTS, TAKEDOWNS};
use crate::fs::{IoError, beneath, files_beneath, if_there};
use crate::objects::Objects;
use crate::outputs::growth::{self, Growth};
use crate::outputs::{self, OutputError};
use crate::parallel;

/// The size in bytes, before compression, of an object with a part of an output.
const PART: u64 = if cfg!(test) { 3_000 } else { 8 << 20 };
/// The size in bytes of a small file's part in one record.
const CHUNK: usize = if cfg!(test) { 1_000 } else { 4 << 20 };
/// The number of images sent at a time.
const AT_ONCE: usize = 8;
/// The most images that are remembered as sent.
const REMEMBERED: usize = 1 << 20;

/// A key and its value.
type Pair = (Vec<u8>, Vec<u8>);

impl Session {
    /// Sends the growth of the outputs, and adds images that were kept or found again.
    pub(super) fn grow(
        &mut self,
        next: &mut Manifest,
        before: &[u8],
        after: &[u8],
        images: &mut BTreeSet<String>,
    ) -> Result<(), SaveError> {
        if !self.outputs {
            return Ok(());
        }
        let folder = self.folder.clone();
        for grown in growth::growth(&folder, before, after)? {
            let mut bytes = growth::bytes_of(&folder, &grown)?;
            let mut from = grown.from;
            let mut rest = Vec::new();
            loop {
                let part = read_part(&folder, &grown, &mut *bytes)?;
                let length = part.len() as u64;
                if length > 0 || from == 0 {
                    if grown.is_of_images() {
                        rest.extend_from_slice(&part);
                        let whole = rest
                            .iter()
                            .rposition(|b| *b == b'\n')
                            .map_or(0, |at| at + 1);
                        let rows: Vec<u8> = rest.drain(..whole).collect();
                        growth::images_in(&rows, images);
                    }
                    let packed = !grown.is_packed();
                    let part = if packed { pack(&part)? } else { part };
                    let piece = self.put("grown", part)?;
                    next.grown.push(Grown {
                        output: grown.output.to_owned(),
                        number: grown.number,
                        file: grown.file.clone(),
                        from,
                        piece,
                        packed,
                    });
                }
                from += length;
                if length < PART {
                    break;
                }
            }
            if grown.to.is_some_and(|to| from < to) {
                let why = format!(
                    "{}: file {} of the output `{}` ends at byte {from}, but the frontier knows \
                     of {:?}",
                    folder.display(),
                    grown.number,
                    grown.output,
                    grown.to
                );
                return Err(OutputError::Stamp { why }.into());
            }
        }
        Ok(())
    }

    /// Sends images that are not in the store yet, and returns the sidecars.
    pub(super) fn images(&mut self, files: Vec<String>) -> Result<Vec<Pair>, SaveError> {
        let mut pairs = Vec::new();
        let mut unsent = Vec::new();
        for file in files {
            let Some(image) = growth::saved_image(&self.folder, &file)? else {
                continue;
            };
            pairs.push((chunk_key(JOB, &image.name, 0), image.text.into_bytes()));
            if !self.known.contains(&image.sha256) {
                unsent.push((file, image.sha256));
            }
        }
        let sent = parallel::each(AT_ONCE, &unsent, |(file, sha256)| {
            send_image(&*self.objects, &self.folder, file, sha256)
        })?;
        self.sent += sent.iter().flatten().sum::<u64>();
        if self.known.len() + sent.len() > REMEMBERED {
            self.known.clear();
        }
        let there = unsent
            .into_iter()
            .zip(sent)
            .filter(|(_, sent)| sent.is_some());
        self.known.extend(there.map(|((_, sha256), _)| sha256));
        Ok(pairs)
    }

    /// Sends the small files that have changed, or all of them.
    pub(super) fn put_files(
        &mut self,
        kind: &str,
        next: &mut Manifest,
        all: bool,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), SaveError> {
        let mut there = BTreeSet::new();
        for (name, path) in small_files(&self.folder, &self.model)? {
            there.insert(name.clone());
            let about = if_there(path.metadata()).map_err(IoError::at(&path, "measuring"))?;
            // It may have been removed in the meantime.
            let Some(about) = about else {
                continue;
            };
            let now = (about.len(), about.modified().ok());
            if !all && self.looked.get(&name) == Some(&now) {
                continue;
            }
            let bytes = crate::fs::read(&path).map_err(IoError::at(&path, "reading"))?;
            let mut hash = Xxh3::new();
            hash.update(&bytes);
            let digest = format!("{:032x}", hash.digest128());
            self.looked.insert(name.clone(), now);
            if all || next.files.get(&name) != Some(&digest) {
                let mut pairs = BTreeMap::new();
                let chunks = bytes.chunks(CHUNK).map(<[u8]>::to_vec);
                let chunks = chunks.chain(bytes.is_empty().then(Vec::new));
                for (number, chunk) in (0..).zip(chunks) {
                    pairs.insert(chunk_key("", &name, number), Some(chunk));
                }
                self.put_pairs(kind, pairs, pieces)?;
                next.files.insert(name, digest);
            }
        }
        let gone: Vec<String> = next.files.keys().cloned().collect();
        for name in gone.into_iter().filter(|name| !there.contains(name)) {
            let removed = [(chunk_key("", &name, 0), None)];
            self.put_pairs(kind, removed.into(), pieces)?;
            next.files.remove(&name);
            self.looked.remove(&name);
        }
        Ok(())
    }

    /// Removes objects that the manifest no longer names; with `images` also images.
    pub(super) fn sweep(&mut self, images: bool) -> Result<(), SaveError> {
        let Some(named) = self.named()? else {
            return Ok(());
        };
        let most = self.swept_up_to()?;
        for kind in ["base", "changes", "grown", "lists"] {
            for name in self.objects.list(kind)? {
                let own = name
                    .rsplit('/')
                    .next()
                    .and_then(|name| name.split('-').next());
                let written: Option<u64> = own.and_then(|number| number.parse().ok());
                // Objects of a later owner belong to another process.
                if written.is_some_and(|written| written <= most) && !named.contains(&name) {
                    self.objects.delete(&name)?;
                }
            }
        }
        if images {
            let mut kept = HashSet::new();
            if self.outputs {
                let listed = outputs::image_files(&self.folder);
                let folder = self.folder.join("images");
                for file in listed.map_err(IoError::at(&folder, "listing"))? {
                    let image = growth::saved_image(&self.folder, &file)?;
                    kept.extend(image.map(|image| image_name(&image.sha256)));
                }
            }
            for name in self.objects.list("images")? {
                if !kept.contains(&name) {
                    self.objects.delete(&name)?;
                }
            }
            self.known.clear();
        }
        Ok(())
    }
}

/// The key of a part of a small file. Part 0 starts the file anew.
fn chunk_key(place: &str, name: &str, number: u32) -> Vec<u8> {
    let mut key = key_of_file(place, name);
    key.push(0);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

fn read_part(
    folder: &Path,
    grown: &Growth,
    bytes: &mut (dyn Read + Send),
) -> Result<Vec<u8>, SaveError> {
    let mut part = Vec::new();
    let read = bytes.take(PART).read_to_end(&mut part);
    read.map_err(IoError::at(&folder.join(grown.output), "reading"))?;
    Ok(part)
}

/// The object name of an image.
pub(super) fn image_name(sha256: &str) -> String {
    format!("images/{}/{sha256}", sha256.get(..2).unwrap_or_default())
}

/// Sends an image unless it is in the store. Returns the number of bytes sent; `None` if the file
/// has changed or is gone.
fn send_image(
    objects: &dyn Objects,
    folder: &Path,
    file: &str,
    sha256: &str,
) -> Result<Option<u64>, SaveError> {
    let name = image_name(sha256);
    if objects.has(&name)? {
        return Ok(Some(0));
    }
    let read = if_there(beneath::read(folder, file));
    let Some(bytes) = read.map_err(IoError::at(&folder.join(file), "reading"))? else {
        return Ok(None);
    };
    if base16ct::lower::encode_string(&Sha256::digest(&bytes)) != sha256 {
        return Ok(None);
    }
    let length = bytes.len() as u64;
    objects.put(&name, bytes)?;
    Ok(Some(length))
}

/// The files of a job that are small or rarely change, by their names in a checkpoint.
fn small_files(folder: &Path, model: &Path) -> Result<Vec<(String, PathBuf)>, SaveError> {
    let mut found = Vec::new();
    for name in [TAKEDOWNS, "generation", "paused"] {
        if beneath::is_file(folder, name) {
            found.push((format!("{JOB}{name}"), folder.join(name)));
        }
    }
    for (place, root, below) in [
        (JOB, folder, RECEIPTS),
        (JOB, folder, "annotations"),
        (MODEL, model, ""),
    ] {
        let inner = root.join(below);
        if !inner.is_dir() {
            continue;
        }
        // The binary form of a model is derived from the other one.
        let wanted = |path: &Path| {
            let name = path.to_string_lossy();
            !name.ends_with(".partial") && !name.ends_with("lm.binary") && path.is_file()
        };
        for path in files_beneath(&inner, wanted)? {
            let name = path.strip_prefix(root).ok().and_then(Path::to_str);
            if let Some(name) = name {
                found.push((format!("{place}{name}"), path.clone()));
            }
        }
    }
    Ok(found)
}
