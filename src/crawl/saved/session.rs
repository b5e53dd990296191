//! Making a checkpoint: what is sent, and the commit.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::SystemTime;

use super::SaveError;
use super::claim::{self, TakeOver};
use super::manifest::{self, Manifest, Owner, Piece};
use super::pairs::{Pieces, pack};
use crate::clock::{now, timestamp};
use crate::config::Config;
use crate::crawl::frontier::store::Readable;
use crate::crawl::frontier::store::changes::Changes;
use crate::crawl::frontier::{Frontier, Mark};
use crate::fs::IoError;
use crate::objects::{Objects, Version};
use crate::outputs::growth;
use crate::outputs::{self, Restated};

/// Bytes of changed pairs that are sorted at once.
const SLICE: usize = if cfg!(test) { 6_000 } else { 32 << 20 };
/// Changes below this never ask for a new base.
const LEAST: u64 = if cfg!(test) { 5_000 } else { 4 << 20 };
/// The most objects with changes before a new base.
const MOST_CHANGES: usize = if cfg!(test) { 12 } else { 1_000 };
/// The most parts of outputs in the manifest itself.
const MOST_GROWN: usize = if cfg!(test) { 6 } else { 256 };

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
    pub(super) model: PathBuf,
    pub(super) outputs: bool,
    /// Counts the objects that this process writes.
    sequence: u64,
    /// Bytes that this process has sent.
    pub(super) sent: u64,
    /// The lengths and times of small files when they were last read.
    pub(super) looked: BTreeMap<String, (u64, Option<SystemTime>)>,
    /// Images that are known to be there.
    pub(super) known: HashSet<String>,
    restated: Option<Restated>,
    /// The next base replaces the outputs too.
    is_anew: bool,
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
            restated: None,
            is_anew: false,
        }
    }

    /// Names the images whose terms were stated anew without a row of their own.
    pub fn watch(&mut self, restated: Restated) {
        self.restated = Some(restated);
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

    /// Makes a checkpoint of a job that nobody crawls, and ends. `anew` is whether also the
    /// outputs are sent that are there, because they may be others.
    ///
    /// # Errors
    /// [`SaveError`].
    pub fn save_all(mut self, frontier: &Frontier, anew: bool) -> Result<(), SaveError> {
        self.is_anew = anew;
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
        let restated = self.restated.as_ref().map(Arc::clone).unwrap_or_default();
        let take = || std::mem::take(&mut *restated.lock().unwrap_or_else(PoisonError::into_inner));
        let images = take();
        let saved = self.save_with(changes, until, images.clone());
        if !matches!(saved, Ok(Saved::Made)) {
            let mut restated = restated.lock().unwrap_or_else(PoisonError::into_inner);
            restated.extend(images);
        }
        saved
    }

    /// The same with these images, the terms of whose pages were stated anew.
    fn save_with(
        &mut self,
        changes: &Changes,
        until: u64,
        mut images: BTreeSet<String>,
    ) -> Result<Saved, SaveError> {
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
        changes.read(next.commits, until, &mut |(key, value)| {
            let value = value.map(<[u8]>::to_vec);
            size += key.len() + value.as_ref().map_or(0, Vec::len);
            if let Some(value) = &value
                && Mark::is_key(key)
            {
                // The last one counts, and only that is decoded.
                mark = Some(value.clone());
            }
            match slice.get_mut(key) {
                Some(known) => *known = value,
                None => drop(slice.insert(key.to_vec(), value)),
            }
            if size >= SLICE {
                size = 0;
                self.put_pairs("changes", std::mem::take(&mut slice), &mut pieces)?;
            }
            Ok::<_, SaveError>(())
        })?;
        let mark = mark.and_then(|value| Mark::read(&value));
        let Some(mark) = mark.filter(|mark| mark.commits == until) else {
            return Ok(Saved::NeedsBase);
        };
        let before = next.stamp();
        if growth::generation_of(&before)? != growth::generation_of(&mark.stamp)? {
            return Ok(Saved::NeedsBase);
        }
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
        let is_new = std::mem::take(&mut self.is_anew)
            || !next.has_state()
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
    pub(super) fn put(&mut self, kind: &str, bytes: Vec<u8>) -> Result<Piece, SaveError> {
        self.sequence += 1;
        let term = self.manifest()?.term;
        let name = format!("{kind}/{term:06}-{:08}", self.sequence);
        let piece = Piece::of(name, &bytes);
        self.objects.put(&piece.name, bytes)?;
        self.sent += piece.bytes;
        Ok(piece)
    }

    pub(super) fn put_pairs(
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
