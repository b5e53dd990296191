//! Making a checkpoint: what is sent, and the commit.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::Xxh3;

use super::SaveError;
use super::claim::{self, TakeOver};
use super::manifest::{self, Grown, Manifest, Owner, Piece};
use super::pairs::{JOB, MODEL, Pieces, key_of_file, pack};
use crate::clock::{now, timestamp};
use crate::config::Config;
use crate::crawl::checkpoint::{RECEIPTS, TAKEDOWNS};
use crate::crawl::frontier::store::Readable;
use crate::crawl::frontier::store::changes::Changes;
use crate::crawl::frontier::{Frontier, Mark};
use crate::fs::{IoError, beneath, files_beneath};
use crate::objects::{Objects, Version};
use crate::outputs::growth::{self, Growth};
use crate::outputs::{self, OutputError};

/// Bytes of changed pairs that are sorted at once.
const SLICE: usize = if cfg!(test) { 6_000 } else { 32 << 20 };
/// The bytes of an object with a part of an output, before it is compressed.
const PART: u64 = if cfg!(test) { 3_000 } else { 8 << 20 };
/// The bytes of a small file in one record.
const CHUNK: usize = if cfg!(test) { 1_000 } else { 4 << 20 };
/// Changes below this never ask for a new base.
const LEAST: u64 = if cfg!(test) { 5_000 } else { 4 << 20 };
/// The most objects with changes before a new base.
const MOST_CHANGES: usize = if cfg!(test) { 12 } else { 1_000 };
/// The most parts of outputs in the manifest itself.
const MOST_GROWN: usize = if cfg!(test) { 6 } else { 256 };
/// Images that are sent at once.
const AT_ONCE: usize = 8;
/// The most images that are remembered as sent.
const REMEMBERED: usize = 1 << 20;

/// What a checkpoint was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Saved {
    /// It is made.
    Made,
    /// The whole frontier has to be sent.
    NeedsBase,
}

/// The checkpoint of a job as its owner sees it.
pub struct Session {
    pub(super) objects: Arc<dyn Objects>,
    /// The last manifest of this process; `None` while the store could not be reached.
    pub(super) claimed: Option<(Manifest, Version)>,
    pub(super) own: Owner,
    pub(super) folder: PathBuf,
    config: Config,
    model: PathBuf,
    outputs: bool,
    /// Counts the objects that this process writes.
    sequence: u64,
    /// Bytes that this process has sent.
    pub(super) sent: u64,
    /// The lengths and times of small files when they were last read.
    looked: BTreeMap<String, (u64, Option<SystemTime>)>,
    /// Images that are known to be there.
    known: HashSet<String>,
}

impl Session {
    pub(super) fn new(
        config: &Config,
        objects: Arc<dyn Objects>,
        own: Owner,
        claimed: Option<(Manifest, Version)>,
    ) -> Self {
        Self {
            objects,
            claimed,
            own,
            folder: config.job_folder(),
            config: config.clone(),
            model: config.model_folder(),
            outputs: config.checkpoint.outputs,
            sequence: 0,
            sent: 0,
            looked: BTreeMap::new(),
            known: HashSet::new(),
        }
    }

    /// The same while the store cannot be reached.
    pub(super) fn unclaimed(config: &Config, objects: Arc<dyn Objects>, own: Owner) -> Self {
        Self::new(config, objects, own, None)
    }

    /// Takes the checkpoint over where that has not been possible yet.
    pub(super) fn claim(&mut self) -> Result<(), SaveError> {
        if self.claimed.is_none() {
            let found = manifest::read(&*self.objects)?;
            let objects = Arc::clone(&self.objects);
            let claimed = claim::claim(
                &self.config,
                &*objects,
                &self.own,
                found,
                true,
                TakeOver::IfDead,
                &mut |_| {},
            )?;
            self.claimed = Some(claimed);
        }
        Ok(())
    }

    pub(super) fn manifest(&self) -> Result<&Manifest, SaveError> {
        let nothing = || SaveError::Nothing(self.objects.address().to_owned());
        let claimed = self.claimed.as_ref();
        claimed.map(|(manifest, _)| manifest).ok_or_else(nothing)
    }

    /// Refuses a job's folder whose frontier is at `commits` if the checkpoint is ahead.
    ///
    /// # Errors
    /// [`SaveError::Ahead`].
    pub fn check(&self, commits: u64) -> Result<(), SaveError> {
        match &self.claimed {
            Some((manifest, _)) if manifest.commits > commits => Err(SaveError::Ahead {
                store: self.objects.address().to_owned(),
                folder: self.folder.clone(),
                there: manifest.commits,
                here: commits,
            }),
            _ => Ok(()),
        }
    }

    /// Says that this process lives, or has ended.
    pub(super) fn beat(&mut self, ended: bool) -> Result<(), SaveError> {
        let next = Manifest {
            ended,
            ..self.manifest()?.clone()
        };
        self.commit(next)
    }

    /// Makes a checkpoint of the whole job, which nobody crawls, and ends.
    ///
    /// # Errors
    /// [`SaveError`].
    pub fn save_whole(mut self, frontier: &Frontier) -> Result<(), SaveError> {
        self.base(frontier.snapshot(), |_| {})?;
        self.end()
    }

    /// Adds the small files of the job as they are now, and ends.
    ///
    /// # Errors
    /// [`SaveError`].
    pub fn end(mut self) -> Result<(), SaveError> {
        let mut next = self.manifest()?.clone();
        let mut pieces = Vec::new();
        self.put_files("changes", &mut next, false, &mut pieces)?;
        next.changes.extend(pieces);
        next.ended = true;
        self.commit(next)
    }

    /// Makes a checkpoint of the commit `until` from the changes since the last one.
    pub(super) fn save(&mut self, changes: &Changes, until: u64) -> Result<Saved, SaveError> {
        let mut next = self.manifest()?.clone();
        let whole = !next.has_state() || next.outputs != self.outputs;
        if whole || is_outgrown(&next) || !changes.reach_back_to(next.commits) {
            return Ok(Saved::NeedsBase);
        }
        if until <= next.commits {
            self.beat(false)?;
            return Ok(Saved::Made);
        }
        let mut mark = None;
        let mut pieces = Vec::new();
        let mut slice = BTreeMap::new();
        let mut size = 0;
        changes.read(next.commits, until, &mut |_, writes| {
            for (key, value) in writes {
                if let Some(value) = &value {
                    mark = Mark::within(&key, value).or(mark.take());
                }
                size += key.len() + value.as_ref().map_or(0, Vec::len);
                slice.insert(key, value);
            }
            if size >= SLICE {
                size = 0;
                self.put_pairs("changes", std::mem::take(&mut slice), &mut pieces)?;
            }
            Ok::<_, SaveError>(())
        })?;
        let Some(mark) = mark.filter(|mark| mark.commits == until) else {
            return Ok(Saved::NeedsBase);
        };
        let before = next.stamp();
        if growth::generation_of(&before)? != growth::generation_of(&mark.stamp)? {
            return Ok(Saved::NeedsBase);
        }
        let mut images = BTreeSet::new();
        self.grow(&mut next, &before, &mark.stamp, &mut images)?;
        for (key, value) in self.images(images.into_iter().collect())? {
            slice.insert(key, Some(value));
        }
        self.put_pairs("changes", slice, &mut pieces)?;
        self.put_files("changes", &mut next, false, &mut pieces)?;
        next.changes.extend(pieces);
        set_mark(&mut next, &mark);
        self.commit(next)?;
        Ok(Saved::Made)
    }

    /// Makes a checkpoint of all that `view` shows. `wait` returns when its last commit is on
    /// this machine's disk.
    pub(super) fn base(
        &mut self,
        view: Box<dyn Readable>,
        wait: impl FnOnce(u64),
    ) -> Result<(), SaveError> {
        let Some(mark) = Mark::of(&*view)? else {
            return Ok(());
        };
        let mut next = self.manifest()?.clone();
        let before = next.stamp();
        let is_new = !next.has_state()
            || next.outputs != self.outputs
            || growth::generation_of(&before)? != growth::generation_of(&mark.stamp)?;
        let mut pieces = Vec::new();
        let mut result = Ok(());
        {
            let mut put = |piece: Vec<u8>| {
                pieces.push(self.put("base", piece)?);
                Ok(())
            };
            let mut out = Pieces::new(&mut put);
            view.scan(&[], &[], &mut |key, value| {
                result = out.add(key, Some(value));
                match result {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                }
            })?;
            result?;
            out.finish()?;
        }
        // An open snapshot has a cost.
        drop(view);
        next.base = Vec::new();
        next.changes = Vec::new();
        if is_new {
            next.lists = Vec::new();
            next.grown = Vec::new();
            next.outputs = self.outputs;
        }
        let from = if is_new { Vec::new() } else { before };
        self.grow(&mut next, &from, &mark.stamp, &mut BTreeSet::new())?;
        if self.outputs {
            let listed = outputs::image_files(&self.folder);
            let images = self.folder.join("images");
            let files = listed.map_err(IoError::at(&images, "listing"))?;
            for some in files.chunks(256) {
                let pairs = self.images(some.to_vec())?;
                let pairs = pairs.into_iter().map(|(key, value)| (key, Some(value)));
                self.put_pairs("base", pairs.collect(), &mut pieces)?;
            }
        }
        self.put_files("base", &mut next, true, &mut pieces)?;
        next.base = pieces;
        set_mark(&mut next, &mark);
        wait(mark.commits);
        self.commit(next)?;
        self.sweep(is_new)
    }

    /// Replaces the manifest.
    fn commit(&mut self, mut next: Manifest) -> Result<(), SaveError> {
        if next.grown.len() > MOST_GROWN {
            // Names and numbers always serialise.
            let list = serde_json::to_vec(&next.grown).unwrap_or_default();
            let piece = self.put("lists", pack(&list)?)?;
            next.lists.push(piece);
            next.grown.clear();
        }
        self.objects.settle()?;
        let was = self.claimed.as_ref().map(|(_, version)| version.clone());
        match manifest::swap(&*self.objects, &mut next, was.as_ref())? {
            Some(version) => {
                self.claimed = Some((next, version));
                Ok(())
            }
            None => Err(self.overtaken()?),
        }
    }

    fn overtaken(&self) -> Result<SaveError, SaveError> {
        let own = self.manifest()?;
        let store = self.objects.address().to_owned();
        Ok(match manifest::read(&*self.objects)? {
            Some((other, _)) => SaveError::Overtaken {
                store,
                owner: other.owner,
                since: match own.saved {
                    0 => "its beginning".to_owned(),
                    saved => timestamp(saved),
                },
            },
            None => SaveError::Damaged {
                name: format!("{store}/{}", manifest::NAME),
                why: "it was removed while this job used it".to_owned(),
            },
        })
    }

    /// Writes an object under a name that is used once.
    fn put(&mut self, kind: &str, bytes: Vec<u8>) -> Result<Piece, SaveError> {
        self.sequence += 1;
        let term = self.manifest()?.term;
        let name = format!("{kind}/{term:06}-{:08}", self.sequence);
        let piece = Piece::of(name, &bytes);
        self.objects.put(&piece.name, bytes)?;
        self.sent += piece.bytes;
        Ok(piece)
    }

    fn put_pairs(
        &mut self,
        kind: &str,
        pairs: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), SaveError> {
        let mut put = |piece: Vec<u8>| {
            pieces.push(self.put(kind, piece)?);
            Ok(())
        };
        let mut out = Pieces::new(&mut put);
        for (key, value) in &pairs {
            out.add(key, value.as_deref())?;
        }
        out.finish()
    }

    /// Sends what the outputs grew by, and adds the images that were kept or met again.
    fn grow(
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
                    "{}: file {} of the output `{}` ends at byte {from}, and the frontier knows of {:?}",
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

    /// Sends images that are not there yet, and returns the sidecars.
    fn images(&mut self, files: Vec<String>) -> Result<Vec<(Vec<u8>, Vec<u8>)>, SaveError> {
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
        let next = AtomicUsize::new(0);
        let failed = Mutex::new(None);
        let sent = Mutex::new((0, Vec::new()));
        let work = || {
            while let Some((file, sha256)) = unsent.get(next.fetch_add(1, Ordering::Relaxed)) {
                match send_image(&*self.objects, &self.folder, file, sha256) {
                    Ok(bytes) => {
                        let mut sent = sent.lock().unwrap_or_else(PoisonError::into_inner);
                        sent.0 += bytes.unwrap_or(0);
                        sent.1.extend(bytes.map(|_| sha256.clone()));
                    }
                    Err(error) => {
                        *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                        return;
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE.min(unsent.len()) {
                scope.spawn(work);
            }
        });
        if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        let (bytes, sent) = sent.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.sent += bytes;
        if self.known.len() + sent.len() > REMEMBERED {
            self.known.clear();
        }
        self.known.extend(sent);
        Ok(pairs)
    }

    /// Sends the small files that have changed, or all of them.
    fn put_files(
        &mut self,
        kind: &str,
        next: &mut Manifest,
        all: bool,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), SaveError> {
        let mut there = BTreeSet::new();
        for (name, path) in small_files(&self.folder, &self.model)? {
            there.insert(name.clone());
            let about = match path.metadata() {
                // It was removed in between.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                about => about.map_err(IoError::at(&path, "measuring"))?,
            };
            let now = (about.len(), about.modified().ok());
            if !all && self.looked.get(&name) == Some(&now) {
                continue;
            }
            let bytes = std::fs::read(&path).map_err(IoError::at(&path, "reading"))?;
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

    /// Removes what the manifest does not name any more, and with `images` also these.
    fn sweep(&mut self, images: bool) -> Result<(), SaveError> {
        let manifest = self.manifest()?;
        let term = manifest.term;
        let named: HashSet<String> = manifest.names(&*self.objects)?.into_iter().collect();
        for kind in ["base", "changes", "grown", "lists"] {
            for name in self.objects.list(kind)? {
                let own = name
                    .rsplit('/')
                    .next()
                    .and_then(|name| name.split('-').next());
                let written: Option<u64> = own.and_then(|term| term.parse().ok());
                // A later owner's are none of this process's business.
                if written.is_some_and(|written| written <= term) && !named.contains(&name) {
                    self.objects.delete(&name)?;
                }
            }
        }
        if images {
            let mut kept = HashSet::new();
            let listed = outputs::image_files(&self.folder);
            let folder = self.folder.join("images");
            for file in listed.map_err(IoError::at(&folder, "listing"))? {
                let image = growth::saved_image(&self.folder, &file)?;
                kept.extend(image.map(|image| image_name(&image.sha256)));
            }
            for name in self.objects.list("images")? {
                if !self.outputs || !kept.contains(&name) {
                    self.objects.delete(&name)?;
                }
            }
            self.known.clear();
        }
        Ok(())
    }
}

/// Makes a whole checkpoint of a job that is not crawled, so that what was removed from it is
/// not in the checkpoint any more. `None` where the job has no store, or nothing there.
///
/// # Errors
/// [`SaveError`].
pub fn renew(config: &Config, frontier: &Frontier) -> Result<Option<Session>, SaveError> {
    let Some(store) = &config.checkpoint.store else {
        return Ok(None);
    };
    let objects = crate::objects::open(store.as_str())?;
    let Some(found) = manifest::read(&*objects)? else {
        return Ok(None);
    };
    let own = claim::own(&config.job_folder())?;
    let claimed = claim::claim(
        config,
        &*objects,
        &own,
        Some(found),
        true,
        TakeOver::IfDead,
        &mut |_| {},
    )?;
    let mut session = Session::new(config, objects.into(), own, Some(claimed));
    session.base(frontier.snapshot(), |_| {})?;
    Ok(Some(session))
}

/// Whether a new base is due.
fn is_outgrown(manifest: &Manifest) -> bool {
    let bytes = |pieces: &[Piece]| pieces.iter().map(|piece| piece.bytes).sum::<u64>();
    bytes(&manifest.changes) > bytes(&manifest.base).max(LEAST)
        || manifest.changes.len() > MOST_CHANGES
}

fn set_mark(manifest: &mut Manifest, mark: &Mark) {
    manifest.saved = now();
    manifest.commits = mark.commits;
    manifest.documents = mark.documents;
    manifest.images = mark.images;
    manifest.set_stamp(&mark.stamp);
}

/// The key of a part of a small file. The first one begins the file anew.
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

/// The name of the object of an image.
pub(super) fn image_name(sha256: &str) -> String {
    format!("images/{}/{sha256}", sha256.get(..2).unwrap_or_default())
}

/// Sends an image unless it is there. Returns the bytes that were sent; `None` where the file
/// has other bytes by now, or is gone.
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
    let bytes = match beneath::read(folder, file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(IoError::at(&folder.join(file), "reading"))?,
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
        // The binary form of a model is made of the other one.
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
