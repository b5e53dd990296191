//! The checkpoints of a cluster session: they are numbered, and the session's key at the broker
//! names the current one.
//!
//! They are stored in `sessions/<node>.<number>/` of the cluster's store. A manifest is written
//! once, under the next number, and then committed to the session's key. What is written but not in
//! the key counts as not done: a session that continues after its process died starts behind it,
//! and never uses its number again.
//!
//! Cells that other machines have taken may still have their state in an older checkpoint. So a
//! manifest, and all that it names, stays as long as a cell's key names it.

use std::collections::{BTreeMap, BTreeSet};

use super::SaveError;
use super::cells::unreadable;
use super::commit::{Commit, since};
use super::manifest::{self, Manifest};
use super::session::Session;
use crate::frontier::{Amount, CellId};
use crate::fs::IoError;
use crate::objects::{self, Objects};
use crate::settings::JobSettings;

/// The folder of the manifests.
const FOLDER: &str = "manifests";
/// How many numbers are tried if they turn out to be in use.
const ATTEMPTS: usize = 100;

/// A checkpoint of a session that is written but not committed yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// Its number.
    pub number: u64,
    /// The frontier's commit in it.
    pub commits: u64,
    /// The session's use, at that time, of what the job may limit.
    pub used: Amount,
    /// The cells that it holds completely, with the positions up to which they have read their
    /// logs.
    pub cells: BTreeMap<CellId, u64>,
    /// The position in the shared lessons up to which it had learned.
    pub learned: u64,
}

/// The outcome of committing a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committed {
    /// The session's key names it.
    Yes,
    /// The session is over, and the key will never name it.
    Over,
}

/// Commits a checkpoint to the session's key, and returns when the outcome is known.
pub type Committing = Box<dyn FnMut(Made) -> Committed + Send>;

/// The numbers of the session's checkpoints that the keys of cells name or are about to name.
/// `None` if these are unknown: then nothing is removed.
pub type Named = Box<dyn FnMut() -> Option<BTreeSet<u64>> + Send>;

/// A session, as far as its checkpoints need it.
pub struct Life {
    /// The cluster's store.
    pub store: String,
    /// The session's name, as in its key.
    pub session: String,
    /// The number in its key; 0 for none.
    pub committed: u64,
    /// The highest known number of its checkpoints.
    pub made: u64,
    /// See [`Committing`].
    pub commit: Committing,
    /// See [`Named`].
    pub named: Named,
}

impl Session {
    /// The checkpoints of a session of a cluster. Nothing is requested yet.
    ///
    /// # Errors
    /// [`SaveError::Objects`] if the store's address is invalid.
    pub fn of_cluster(config: &JobSettings, life: Life) -> Result<Self, SaveError> {
        let objects = objects::open(&address(&life.store, &life.session))?;
        Self::numbered(config, objects.into(), life)
    }

    /// The same for objects that are already open.
    pub(super) fn numbered(
        config: &JobSettings,
        objects: std::sync::Arc<dyn Objects>,
        life: Life,
    ) -> Result<Self, SaveError> {
        let mut tag = [0; 4];
        let drawn = getrandom::fill(&mut tag).map_err(std::io::Error::other);
        drawn.map_err(IoError::at(&config.job_folder(), "drawing a number for"))?;
        let commit = Numbered {
            job: config.job.name.as_str().to_owned(),
            tag: base16ct::lower::encode_string(&tag),
            made: life.made.max(life.committed),
            life,
        };
        Ok(Self::new(config, objects, Box::new(commit), None))
    }
}

/// The address of a session's folder in the cluster's store.
pub(super) fn address(store: &str, session: &str) -> String {
    format!("{}/sessions/{session}", store.trim_end_matches('/'))
}

/// Reads a manifest of a session, which must exist.
pub(super) fn manifest_of(objects: &dyn Objects, number: u64) -> Result<Manifest, SaveError> {
    let name = name(number);
    let missing = || SaveError::Unreadable {
        name: format!("{}/{name}", objects.address()),
        why: "it is missing".to_owned(),
    };
    let found = manifest::read_as(objects, &name).map_err(unreadable)?;
    Ok(found.ok_or_else(missing)?.0)
}

/// The name of a manifest.
pub(super) fn name(number: u64) -> String {
    format!("{FOLDER}/{number:010}")
}

/// The numbers of all existing manifests, committed or not.
fn numbers(objects: &dyn Objects) -> Result<BTreeSet<u64>, SaveError> {
    let names = objects.list(FOLDER)?;
    let number = |name: &String| name.rsplit('/').next()?.parse().ok();
    Ok(names.iter().filter_map(number).collect())
}

/// See the module's documentation.
struct Numbered {
    job: String,
    /// Distinguishes the objects of this process from those of other processes with the same
    /// session.
    tag: String,
    /// The highest number in use.
    made: u64,
    life: Life,
}

impl Commit for Numbered {
    fn begin(&mut self, objects: &dyn Objects) -> Result<Manifest, SaveError> {
        let highest = numbers(objects)?.pop_last();
        self.made = self.made.max(highest.unwrap_or(0));
        if self.life.committed == 0 {
            let job = self.job.clone();
            return Ok(Manifest {
                job,
                ..Manifest::default()
            });
        }
        let manifest = manifest_of(objects, self.life.committed)?;
        if manifest.job != self.job {
            return Err(SaveError::OtherJob {
                store: objects.address().to_owned(),
                other: manifest.job,
            });
        }
        Ok(manifest)
    }

    fn prefix(&self, _: &Manifest) -> String {
        format!("{:010}-{}", self.made + 1, self.tag)
    }

    fn commit(
        &mut self,
        objects: &dyn Objects,
        last: &Manifest,
        mut next: Manifest,
    ) -> Result<Manifest, SaveError> {
        // Another process may have written this number meanwhile.
        let mut is_written = false;
        for _ in 0..ATTEMPTS {
            self.made += 1;
            next.number = self.made;
            is_written = manifest::swap_as(objects, &name(self.made), &mut next, None)?.is_some();
            if is_written {
                break;
            }
        }
        if !is_written {
            return Err(SaveError::Damaged {
                name: format!("{}/{}", objects.address(), name(self.made)),
                why: "another process writes the checkpoints of this session".to_owned(),
            });
        }
        let made = Made {
            number: next.number,
            commits: next.commits,
            used: next.used,
            cells: next.mark().held(),
            learned: next.learned,
        };
        match (self.life.commit)(made) {
            Committed::Yes => Ok(next),
            Committed::Over => Err(SaveError::Over(format!(
                "{}: this session is over: it was ended, or the other machines heard nothing from \
                 it for too long; its work since {} counts as not done, and others do it again",
                objects.address(),
                since(last)
            ))),
        }
    }

    fn is_of_session(&self) -> bool {
        true
    }

    fn sweep(
        &mut self,
        objects: &dyn Objects,
        last: &Manifest,
    ) -> Result<Option<Vec<Manifest>>, SaveError> {
        let Some(named) = (self.life.named)() else {
            return Ok(None);
        };
        let mut stay = Vec::new();
        for number in numbers(objects)? {
            if number == last.number {
                continue;
            }
            if number > last.number || named.contains(&number) {
                stay.push(manifest_of(objects, number)?);
            } else {
                // The manifest goes before the objects, so that no existing manifest lacks any.
                objects.delete(&name(number))?;
            }
        }
        Ok(Some(stay))
    }

    fn swept_up_to(&self, last: &Manifest) -> u64 {
        last.number
    }
}
