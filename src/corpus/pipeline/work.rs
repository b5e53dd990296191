//! The folder next to its place in which a corpus is built, and the progress of the build.
//!
//! ```text
//! .NAME.spoor-build/
//!   state.json       what is built, and the progress
//!   lock             held while a process works on it
//!   phase-0/         the documents between two phases, in files of a few megabytes
//!   removed/         what was removed from each of these files
//!   out/             the corpus, moved to its place when complete
//! ```
//!
//! A file counts only if the state says so, and the state is replaced atomically. After a
//! kill the build writes the next file again.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::MARK;
use super::count::StepCount;
use super::error::{busy, changed, damaged, occupied};
use super::plan::{Plan, Step};
use super::source::SourceCursor;
use crate::export::place;
use crate::fs::{IoError, atomic, if_there};
use crate::tool_error::{ToolError, lock};

/// The file with the state.
const STATE: &str = "state.json";
/// The version of the state.
const VERSION: u32 = 1;

/// The progress of a build.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct BuildState {
    version: u32,
    /// The plan and its sources.
    pub(super) print: String,
    /// The day on which it began, for the data card.
    pub(super) date: String,
    /// The current phase; equal to the number of phases when all are done.
    pub(super) phase: usize,
    /// The complete files of each phase so far.
    pub(super) files: Vec<u32>,
    /// Where reading the sources continues.
    pub(super) cursor: SourceCursor,
    /// How many documents each step received and left.
    pub(super) counts: Vec<StepCount>,
}

/// What to do with an earlier corpus, and with an unfinished build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EarlierBuild {
    /// The build continues if plan and sources are the same, and is refused otherwise.
    GoesOn,
    /// The build is discarded.
    Goes,
    /// The build continues if plan and sources are the same, and is discarded otherwise. An
    /// export of an older spoor may be in the place.
    IsExport,
}

impl EarlierBuild {
    /// The marks of folders that may be replaced.
    fn marks(self) -> &'static [&'static str] {
        match self {
            Self::IsExport => &[MARK, place::MARK],
            Self::GoesOn | Self::Goes => &[MARK],
        }
    }
}

fn examine(to: &Path, earlier: EarlierBuild) -> Result<(), ToolError> {
    if place::may_replace(to, earlier.marks())? {
        Ok(())
    } else {
        Err(occupied(to))
    }
}

/// The folder of a build.
#[derive(Debug)]
pub(super) struct Workplace {
    to: PathBuf,
    earlier: EarlierBuild,
    folder: PathBuf,
    /// The lock, held while this is open.
    _lock: File,
    pub(super) state: BuildState,
}

impl Workplace {
    /// Opens or makes the folder for a corpus at `to`.
    pub(super) fn open(
        to: &Path,
        print: &str,
        date: &str,
        earlier: EarlierBuild,
    ) -> Result<Self, ToolError> {
        examine(to, earlier)?;
        let folder = beside(to, "build")?;
        fs::create_dir_all(&folder).map_err(IoError::at(&folder, "making the folder"))?;
        let path = folder.join("lock");
        let held = File::create(&path).map_err(IoError::at(&path, "creating"))?;
        lock(&held, &path, || busy(to))?;
        let begun = BuildState {
            version: VERSION,
            print: print.to_owned(),
            date: date.to_owned(),
            ..BuildState::default()
        };
        let is_same = |known: &BuildState| known.print == begun.print && known.version == VERSION;
        let known = match earlier {
            EarlierBuild::Goes => None,
            EarlierBuild::IsExport => read(&folder)?.filter(is_same),
            EarlierBuild::GoesOn => read(&folder)?,
        };
        if known.as_ref().is_some_and(|known| !is_same(known)) {
            return Err(changed(to));
        }
        let mut place = Self {
            to: to.to_owned(),
            earlier,
            folder,
            _lock: held,
            state: begun,
        };
        match known {
            Some(known) => place.state = known,
            None => {
                place.clear()?;
                place.commit()?;
            }
        }
        Ok(place)
    }

    /// A folder for a build that is discarded afterwards.
    pub(super) fn scratch(print: &str) -> Result<Self, ToolError> {
        let to = std::env::temp_dir().join(format!("spoor-corpus-{}", std::process::id()));
        Self::open(&to, print, "", EarlierBuild::Goes)
    }

    /// Removes all but the lock.
    fn clear(&self) -> Result<(), ToolError> {
        let entries = fs::read_dir(&self.folder).map_err(IoError::at(&self.folder, "listing"))?;
        for entry in entries {
            let path = entry.map_err(IoError::at(&self.folder, "listing"))?.path();
            if path.ends_with("lock") {
                continue;
            }
            let removed = if path.is_dir() {
                fs::remove_dir_all(&path)
            } else {
                fs::remove_file(&path)
            };
            removed.map_err(IoError::at(&path, "removing"))?;
        }
        Ok(())
    }

    /// A path in the folder.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The file of removals that belongs to a file of a phase.
    pub(super) fn removed(&self, phase: usize, file: u32) -> Result<PathBuf, ToolError> {
        let folder = self.folder.join("removed");
        fs::create_dir_all(&folder).map_err(IoError::at(&folder, "making the folder"))?;
        Ok(folder.join(format!("{phase:03}-{file:06}.zst")))
    }

    /// Writes the state.
    pub(super) fn commit(&self) -> Result<(), ToolError> {
        let path = self.folder.join(STATE);
        let text = serde_json::to_vec(&self.state).map_err(std::io::Error::from);
        let written = text.and_then(|text| atomic::write_bytes(&self.folder, STATE, &text));
        written.map_err(IoError::at(&path, "writing"))?;
        Ok(())
    }

    /// An empty folder for the corpus.
    pub(super) fn out(&self) -> Result<PathBuf, ToolError> {
        let out = self.folder.join("out");
        if out.exists() {
            fs::remove_dir_all(&out).map_err(IoError::at(&out, "removing"))?;
        }
        fs::create_dir_all(&out).map_err(IoError::at(&out, "making the folder"))?;
        Ok(out)
    }

    /// Moves the complete corpus to its place, and removes the rest.
    pub(super) fn finish(self) -> Result<PathBuf, ToolError> {
        let out = self.folder.join("out");
        let synced = crate::outputs::sync_folder(&out).map_err(std::io::Error::other);
        synced.map_err(IoError::at(&out, "writing to the disk"))?;
        examine(&self.to, self.earlier)?;
        let mark = unread(&self.to)?;
        let old = beside(&self.to, "old")?;
        place::replace(&out, &self.to, &old, self.earlier.marks())?;
        drop(mark);
        self.remove()?;
        Ok(self.to)
    }

    /// Removes the folder.
    pub(super) fn remove(&self) -> Result<(), ToolError> {
        fs::remove_dir_all(&self.folder).map_err(IoError::at(&self.folder, "removing"))?;
        Ok(())
    }
}

impl Workplace {
    /// The files of removals, in the order of the phases: first documents, then paragraphs.
    pub(super) fn all_removed(&self, plan: &Plan) -> Result<Vec<PathBuf>, ToolError> {
        let mut all = Vec::new();
        for (phase, files) in self.state.files.iter().enumerate() {
            for file in 0..*files {
                all.push(self.removed(phase, file)?);
            }
        }
        let is_repetition = |step: &Step| matches!(step, Step::Repeated(_));
        let numbers = (1..).zip(&plan.steps);
        let numbers = numbers.filter(|(_, step)| is_repetition(step));
        all.extend(numbers.map(|(number, _)| self.repeated(number)));
        Ok(all)
    }

    /// The files of copies, in the order of the steps.
    pub(super) fn all_copies(&self, plan: &Plan) -> Vec<PathBuf> {
        let numbers = (1..).zip(&plan.steps);
        let copies = numbers.filter(|(_, step)| matches!(step, Step::Copies(_)));
        copies.map(|(number, _)| self.copies(number)).collect()
    }

    /// The file of the paragraphs that a step found repeated.
    pub(super) fn repeated(&self, number: usize) -> PathBuf {
        self.folder.join(format!("repeated-{number:03}.zst"))
    }

    /// The file of the copies that a step found.
    pub(super) fn copies(&self, number: usize) -> PathBuf {
        self.folder.join(format!("copies-{number:03}.zst"))
    }
}

/// The name of the corpus in a folder, finished or being built.
pub(super) fn named(folder: &str) -> &str {
    let inner = folder.strip_prefix('.');
    inner
        .and_then(|name| name.strip_suffix(".spoor-build"))
        .unwrap_or(folder)
}

/// The state of an unfinished build of the corpus at `to`, if there is one.
pub(super) fn unfinished(to: &Path) -> bool {
    beside(to, "build").is_ok_and(|folder| folder.join(STATE).is_file())
}

/// Removes the unfinished build of a corpus, if there is one.
///
/// # Errors
///
/// [`ToolError`] if a process is working on it.
pub(super) fn discard(to: &Path) -> Result<(), ToolError> {
    let folder = beside(to, "build")?;
    if !folder.is_dir() {
        return Ok(());
    }
    let lock = folder.join("lock");
    if let Ok(lock) = crate::fs::open(&lock)
        && matches!(lock.try_lock(), Err(TryLockError::WouldBlock))
    {
        return Err(busy(to));
    }
    fs::remove_dir_all(&folder).map_err(IoError::at(&folder, "removing"))?;
    Ok(())
}

fn read(folder: &Path) -> Result<Option<BuildState>, ToolError> {
    let path = folder.join(STATE);
    let text = if_there(crate::fs::read(&path)).map_err(IoError::at(&path, "reading"))?;
    let Some(text) = text else { return Ok(None) };
    let state = serde_json::from_slice(&text);
    state.map(Some).map_err(|error| damaged(&path, error))
}

/// Whether a folder is a corpus.
pub fn is_corpus(folder: &Path) -> bool {
    place::has_mark(folder, &[MARK])
}

/// Prevents an earlier corpus from being read while it is replaced.
///
/// # Errors
///
/// [`ToolError`] if a process is searching or indexing it.
fn unread(to: &Path) -> Result<Option<File>, ToolError> {
    let path = to.join(MARK);
    let Ok(mark) = crate::fs::open(&path) else {
        return Ok(None);
    };
    lock(&mark, &path, || {
        let why = "`spoor search` or `spoor index` is reading it; stop that and run this again: \
                   what was done is kept";
        ToolError::at(to, why)
    })?;
    Ok(Some(mark))
}

/// A name in the same folder, so that renaming moves no bytes.
fn beside(to: &Path, what: &str) -> Result<PathBuf, ToolError> {
    place::beside(to, what).ok_or_else(|| {
        let why = "not the path of a folder; give another `folder` under [output]";
        ToolError::at(to, why)
    })
}
