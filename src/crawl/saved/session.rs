//! Makes a checkpoint: sends its parts, and commits it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};
use std::time::SystemTime;

use super::SaveError;
use super::claim::{self, TakeOver};
use super::commit::{Commit, Replaced};
use super::manifest::{self, Manifest, Owner, Piece};
use super::pairs::{Pieces, Span, pack};
use crate::clock::now;
use crate::frontier::store::Readable;
use crate::frontier::store::changes::Changes;
use crate::frontier::{Cells, Mark, MarkReader};
use crate::fs::IoError;
use crate::objects::{Objects, Version};
use crate::outputs::growth;
use crate::outputs::{self, Restated};
use crate::settings::JobSettings;

/// The bytes of changed pairs that are sorted at a time.
const SLICE: usize = if cfg!(test) { 6_000 } else { 32 << 20 };
/// Up to this many bytes of changes never cause a new base.
const LEAST: u64 = if cfg!(test) { 5_000 } else { 4 << 20 };
/// More objects with changes than this cause a new base.
const MOST_CHANGES: usize = if cfg!(test) { 12 } else { 1_000 };
/// The most parts of outputs in the manifest itself.
const MOST_GROWN: usize = if cfg!(test) { 6 } else { 256 };

/// The result of an attempt to make a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Saved {
    Made,
    /// The whole frontier has to be sent.
    NeedsBase,
}

/// The checkpoint of a job as its owner sees it.
pub struct Session {
    pub(super) objects: Arc<dyn Objects>,
    /// The current manifest; `None` until it could be read.
    pub(super) last: Option<Manifest>,
    commit: Box<dyn Commit>,
    pub(super) folder: PathBuf,
    pub(super) model: PathBuf,
    pub(super) outputs: bool,
    /// Counts the objects that this process writes.
    sequence: u64,
    /// Bytes that this process has sent.
    pub(super) sent: u64,
    /// The lengths and times of small files when they were last read.
    pub(super) looked: BTreeMap<String, (u64, Option<SystemTime>)>,
    /// Images that are known to be in the store.
    pub(super) known: HashSet<String>,
    restated: Option<Restated>,
    /// The next base replaces the outputs too.
    is_anew: bool,
}

impl Session {
    pub(super) fn new(
        config: &JobSettings,
        objects: Arc<dyn Objects>,
        commit: Box<dyn Commit>,
        last: Option<Manifest>,
    ) -> Self {
        Self {
            objects,
            last,
            commit,
            folder: config.job_folder(),
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

    /// A session that replaces its manifest. `claimed` is `None` if the store cannot be reached.
    pub(super) fn replacing(
        config: &JobSettings,
        objects: Arc<dyn Objects>,
        own: Owner,
        claimed: Option<(Manifest, Version)>,
    ) -> Self {
        let (last, version) = claimed.unzip();
        let commit = Box::new(Replaced::new(config, own, version));
        Self::new(config, objects, commit, last)
    }

    /// Names the images whose terms were restated without a row of their own.
    pub fn watch(&mut self, restated: Restated) {
        self.restated = Some(restated);
    }

    /// Reads the last checkpoint if that has not been possible yet.
    pub(super) fn begin(&mut self) -> Result<(), SaveError> {
        if self.last.is_none() {
            self.last = Some(self.commit.begin(&*self.objects)?);
        }
        Ok(())
    }

    pub(super) fn manifest(&self) -> Result<&Manifest, SaveError> {
        let nothing = || SaveError::Nothing(self.objects.address().to_owned());
        self.last.as_ref().ok_or_else(nothing)
    }

    /// Refuses a job's folder with a frontier at `commits` if the checkpoint is ahead.
    ///
    /// # Errors
    /// [`SaveError::Refused`], in a session of a cluster [`SaveError::Over`].
    pub fn check(&self, commits: u64) -> Result<(), SaveError> {
        let Some(last) = self.last.as_ref().filter(|last| last.commits > commits) else {
            return Ok(());
        };
        let (store, folder, there) = (self.objects.address(), self.folder.display(), last.commits);
        let lost = "the folder has lost something, or is an older copy";
        Err(if self.commit.is_of_session() {
            SaveError::Over(format!(
                "{store}: the session's checkpoint is ahead of the frontier in {folder}: commit \
                 {there} and not {commits}; {lost}. Begin a new session: remove that folder, and \
                 the node starts from the checkpoints"
            ))
        } else {
            SaveError::Refused(format!(
                "{store}: the checkpoint there is ahead of {folder}: commit {there} and not \
                 {commits}; {lost}. `spoor checkpoint restore JOB.toml --replace` moves it aside \
                 and continues from the checkpoint; `spoor checkpoint save JOB.toml --whole` \
                 makes a checkpoint of the folder as it is"
            ))
        })
    }

    /// Records in the manifest that this process lives, or has ended. Does nothing in a session of
    /// a cluster, where the session's key records that.
    pub(super) fn beat(&mut self, ended: bool) -> Result<(), SaveError> {
        if self.commit.is_of_session() {
            return Ok(());
        }
        let next = Manifest {
            ended,
            ..self.manifest()?.clone()
        };
        self.commit(next)
    }

    /// Makes a checkpoint of a job that is not being crawled, and ends. With `anew`, sends the
    /// existing outputs again, because they may have changed.
    ///
    /// # Errors
    /// [`SaveError`].
    pub fn save_all(mut self, view: Box<dyn Readable>, anew: bool) -> Result<(), SaveError> {
        self.is_anew = anew;
        self.base(view, |_| {})?;
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

    /// The same with these images, whose pages' terms were restated.
    fn save_with(
        &mut self,
        changes: &Changes,
        until: u64,
        mut images: BTreeSet<String>,
    ) -> Result<Saved, SaveError> {
        let begun = now();
        let mut next = self.manifest()?.clone();
        let whole = !next.has_state() || next.outputs != self.outputs;
        if whole || is_outgrown(&next) || !changes.reach_back_to(next.commits) {
            return Ok(Saved::NeedsBase);
        }
        if until <= next.commits {
            self.beat(false)?;
            return Ok(Saved::Made);
        }
        let mut mark = MarkReader::after(next.mark());
        let mut pieces = Vec::new();
        let mut slice = BTreeMap::new();
        let mut size = 0;
        changes.read(next.commits, until, &mut |(key, value)| {
            mark.see(key, value);
            let value = value.map(<[u8]>::to_vec);
            size += key.len() + value.as_ref().map_or(0, Vec::len);
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
        let Some(mark) = mark.mark().ok().filter(|mark| mark.commits == until) else {
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
        next.set_mark(mark, begun);
        self.commit(next)?;
        Ok(Saved::Made)
    }

    /// Makes a checkpoint of everything in `view`. `wait` returns when its last commit is on this
    /// machine's disk.
    pub(super) fn base(
        &mut self,
        view: Box<dyn Readable>,
        wait: impl FnOnce(u64),
    ) -> Result<(), SaveError> {
        let begun = now();
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
            let mut put = |piece: Vec<u8>, span| {
                pieces.push(self.put_spanning("base", piece, span)?);
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
        // Snapshots have a cost while they are open.
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
        let commits = mark.commits;
        next.set_mark(mark, begun);
        wait(commits);
        self.commit(next)?;
        self.sweep(is_new)
    }

    /// Commits a checkpoint.
    fn commit(&mut self, mut next: Manifest) -> Result<(), SaveError> {
        if next.grown.len() > MOST_GROWN {
            // Names and numbers always serialise.
            let list = serde_json::to_vec(&next.grown).unwrap_or_default();
            let piece = self.put("lists", pack(&list)?)?;
            next.lists.push(piece);
            next.grown.clear();
        }
        self.objects.settle()?;
        let last = self.manifest()?.clone();
        self.last = Some(self.commit.commit(&*self.objects, &last, next)?);
        Ok(())
    }

    /// Removes manifests that are no longer needed, and returns the names of the objects that the
    /// others name; `None` if these are unknown.
    pub(super) fn named(&mut self) -> Result<Option<HashSet<String>>, SaveError> {
        let last = self.manifest()?.clone();
        let Some(others) = self.commit.sweep(&*self.objects, &last)? else {
            return Ok(None);
        };
        let mut named = HashSet::new();
        for manifest in others.iter().chain([&last]) {
            named.extend(manifest.names(&*self.objects)?);
        }
        Ok(Some(named))
    }

    /// Objects whose names begin with a higher number must not be swept.
    pub(super) fn swept_up_to(&self) -> Result<u64, SaveError> {
        Ok(self.commit.swept_up_to(self.manifest()?))
    }

    /// Writes an object under a name that is used only once.
    pub(super) fn put(&mut self, kind: &str, bytes: Vec<u8>) -> Result<Piece, SaveError> {
        self.sequence += 1;
        let prefix = self.commit.prefix(self.manifest()?);
        let name = format!("{kind}/{prefix}-{:08}", self.sequence);
        let piece = Piece::of(name, &bytes);
        self.objects.put(&piece.name, bytes)?;
        self.sent += piece.bytes;
        Ok(piece)
    }

    /// The same for pairs; a reader may want only some of them.
    fn put_spanning(&mut self, kind: &str, bytes: Vec<u8>, span: Span) -> Result<Piece, SaveError> {
        let mut piece = self.put(kind, bytes)?;
        piece.span = self.commit.is_of_session().then_some(span);
        Ok(piece)
    }

    pub(super) fn put_pairs(
        &mut self,
        kind: &str,
        pairs: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), SaveError> {
        let mut put = |piece: Vec<u8>, span| {
            pieces.push(self.put_spanning(kind, piece, span)?);
            Ok(())
        };
        let mut out = Pieces::new(&mut put);
        for (key, value) in &pairs {
            out.add(key, value.as_deref())?;
        }
        out.finish()
    }
}

/// Makes a complete checkpoint of a job that is not being crawled, so that removed content also
/// leaves the checkpoint. `None` if the job has no store, or the store has no checkpoint.
///
/// # Errors
/// [`SaveError`].
pub fn renew(config: &JobSettings, frontier: &Cells) -> Result<Option<Session>, SaveError> {
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
    let mut session = Session::replacing(config, objects.into(), own, Some(claimed));
    session.base(frontier.snapshot(), |_| {})?;
    Ok(Some(session))
}

/// Whether a new base is due.
fn is_outgrown(manifest: &Manifest) -> bool {
    let bytes = |pieces: &[Piece]| pieces.iter().map(|piece| piece.bytes).sum::<u64>();
    bytes(&manifest.changes) > bytes(&manifest.base).max(LEAST)
        || manifest.changes.len() > MOST_CHANGES
}
