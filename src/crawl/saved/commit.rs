//! How a checkpoint becomes the current one, once all of its objects are written.
//!
//! On one machine, compare-and-set replaces the manifest: [`Replaced`]. A session of a cluster
//! numbers its manifests, and its key at the broker names the current one:
//! [`Numbered`](super::numbered::Numbered).

use super::SaveError;
use super::claim::{self, TakeOver};
use super::manifest::{self, Manifest, Owner};
use crate::clock::timestamp;
use crate::objects::{Objects, Version};
use crate::settings::JobSettings;

/// See the module's documentation.
pub(super) trait Commit: Send {
    /// Reads the current manifest when this process may continue from it.
    fn begin(&mut self, objects: &dyn Objects) -> Result<Manifest, SaveError>;

    /// The prefix for the names of the objects that the manifest after `last` adds. It begins with
    /// a number that never decreases, followed by `-`: see [`Commit::swept_up_to`].
    fn prefix(&self, last: &Manifest) -> String;

    /// Commits the checkpoint `next`, which follows the current one, `last`. Returns it as written.
    fn commit(
        &mut self,
        objects: &dyn Objects,
        last: &Manifest,
        next: Manifest,
    ) -> Result<Manifest, SaveError>;

    /// Whether the checkpoint belongs to a session of a cluster. Then the session's key says
    /// whether the process lives, and an unchanged manifest is not written again.
    fn is_of_session(&self) -> bool;

    /// Removes manifests that are no longer needed. Returns those, besides `last`, that may still
    /// be needed; `None` if that is unknown.
    fn sweep(
        &mut self,
        objects: &dyn Objects,
        last: &Manifest,
    ) -> Result<Option<Vec<Manifest>>, SaveError>;

    /// Objects whose names begin with a higher number belong to another process.
    fn swept_up_to(&self, last: &Manifest) -> u64;
}

/// A single manifest, which names the process that may replace it.
pub(super) struct Replaced {
    config: JobSettings,
    own: Owner,
    /// The version of the manifest that this process wrote; `None` until the store can be reached.
    version: Option<Version>,
}

impl Replaced {
    pub fn new(config: &JobSettings, own: Owner, version: Option<Version>) -> Self {
        let config = config.clone();
        Self {
            config,
            own,
            version,
        }
    }
}

impl Commit for Replaced {
    fn begin(&mut self, objects: &dyn Objects) -> Result<Manifest, SaveError> {
        let found = manifest::read(objects)?;
        let if_dead = TakeOver::IfDead;
        let (config, own) = (&self.config, &self.own);
        let claimed = claim::claim(config, objects, own, found, true, if_dead, &mut |_| {})?;
        self.version = Some(claimed.1);
        Ok(claimed.0)
    }

    fn prefix(&self, last: &Manifest) -> String {
        format!("{:06}", last.term)
    }

    fn commit(
        &mut self,
        objects: &dyn Objects,
        last: &Manifest,
        mut next: Manifest,
    ) -> Result<Manifest, SaveError> {
        match manifest::swap(objects, &mut next, self.version.as_ref())? {
            Some(version) => {
                self.version = Some(version);
                Ok(next)
            }
            None => Err(overtaken(objects, last)?),
        }
    }

    fn is_of_session(&self) -> bool {
        false
    }

    fn sweep(&mut self, _: &dyn Objects, _: &Manifest) -> Result<Option<Vec<Manifest>>, SaveError> {
        Ok(Some(Vec::new()))
    }

    fn swept_up_to(&self, last: &Manifest) -> u64 {
        last.term
    }
}

/// Why the manifest of this process was not replaced.
fn overtaken(objects: &dyn Objects, own: &Manifest) -> Result<SaveError, SaveError> {
    let (store, since) = (objects.address(), since(own));
    Ok(match manifest::read(objects)? {
        Some((Manifest { owner, .. }, _)) => SaveError::Overtaken(format!(
            "{store}: {owner} has taken this job over and continues it; this process has stopped, \
             and the checkpoint lacks its work since {since}. To continue here later, stop the \
             other process and run `spoor checkpoint restore JOB.toml --replace`"
        )),
        None => SaveError::Damaged {
            name: format!("{store}/{}", manifest::NAME),
            why: "it was removed while this job used it".to_owned(),
        },
    })
}

/// The time of the last checkpoint, for messages.
pub(super) fn since(last: &Manifest) -> String {
    match last.saved {
        0 => "its beginning".to_owned(),
        saved => timestamp(saved),
    }
}
