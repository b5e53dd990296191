//! How a checkpoint becomes the one that counts, once all of its objects are written.
//!
//! On one machine the manifest is replaced by compare-and-set: [`Replaced`]. A session of a
//! cluster numbers its manifests, and its key at the broker says which one counts:
//! [`Numbered`](super::numbered::Numbered).

use super::SaveError;
use super::claim::{self, TakeOver};
use super::manifest::{self, Manifest, Owner};
use crate::clock::timestamp;
use crate::objects::{Objects, Version};
use crate::settings::JobSettings;

/// See the module's documentation.
pub(super) trait Commit: Send {
    /// The last manifest that counts, read when this process may go on from it.
    fn begin(&mut self, objects: &dyn Objects) -> Result<Manifest, SaveError>;

    /// The beginning of the names of the objects that go with the manifest behind `last`. They
    /// begin with a number that never falls, and `-` follows it: see [`Commit::swept_up_to`].
    fn prefix(&self, last: &Manifest) -> String;

    /// Makes the checkpoint `next`, which follows `last`, the one that counts; returns it as it
    /// was written.
    fn commit(
        &mut self,
        objects: &dyn Objects,
        last: &Manifest,
        next: Manifest,
    ) -> Result<Manifest, SaveError>;

    /// Whether it is that of a session of a cluster. Then the session's key says whether the
    /// process lives, and the manifest is not written when nothing has changed.
    fn is_of_session(&self) -> bool;

    /// Removes manifests that nobody needs. Returns those that somebody may, beside `last`;
    /// `None` where that is not known.
    fn sweep(
        &mut self,
        objects: &dyn Objects,
        last: &Manifest,
    ) -> Result<Option<Vec<Manifest>>, SaveError>;

    /// Objects whose names begin with a higher number are none of this process's business.
    fn swept_up_to(&self, last: &Manifest) -> u64;
}

/// One manifest, which names the process that may replace it.
pub(super) struct Replaced {
    config: JobSettings,
    own: Owner,
    /// That of the manifest that this process has written; `None` while the store could not be
    /// reached.
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
            "{store}: {owner} has taken this job over and goes on with it; this one has stopped, \
             and the checkpoint lacks what it did since {since}. To go on here later, stop the \
             other one and run `spoor checkpoint restore JOB.toml --replace`"
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
