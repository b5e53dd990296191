//! What survives the process, shared with the thread that makes checkpoints.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Kept;
use crate::fs::IoError;

/// What a node keeps of its session in the job's folder. Clones share it.
#[derive(Debug, Clone)]
pub struct Keeping {
    folder: PathBuf,
    /// `None` once the session is over and the file was removed.
    kept: Arc<Mutex<Option<Kept>>>,
}

impl Keeping {
    /// Keeps this in a folder from now on.
    ///
    /// # Errors
    /// [`IoError`] if it cannot be written.
    pub fn begin(folder: &Path, kept: Kept) -> Result<Self, IoError> {
        kept.write(folder)?;
        Ok(Self {
            folder: folder.to_owned(),
            kept: Arc::new(Mutex::new(Some(kept))),
        })
    }

    /// The job's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What is kept; `None` if the session is over.
    pub fn kept(&self) -> Option<Kept> {
        self.lock().clone()
    }

    /// Changes it; the change is on disk when this returns. Nothing is kept for a session that is
    /// over.
    ///
    /// # Errors
    /// [`IoError`] if it cannot be written.
    pub fn change(&self, change: impl FnOnce(&mut Kept)) -> Result<(), IoError> {
        let mut kept = self.lock();
        let Some(kept) = kept.as_mut() else {
            return Ok(());
        };
        change(kept);
        kept.write(&self.folder)
    }

    /// Removes it, because the session is over.
    ///
    /// # Errors
    /// [`IoError`] if it cannot be removed.
    pub fn forget(&self) -> Result<(), IoError> {
        let mut kept = self.lock();
        *kept = None;
        Kept::forget(&self.folder)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Kept>> {
        // A change that was not written is written with the next one.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
