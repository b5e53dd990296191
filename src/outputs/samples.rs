//! A lock between using a job's samples (for a ranking, a data set, an annotation page)
//! and removing some, because otherwise removed samples could reappear in results. Several
//! readers are allowed, and a crawl may run meanwhile.

use std::fs::{File, TryLockError};
use std::io::ErrorKind;
use std::path::Path;

use super::{OutputError, refuse_links_out};
use crate::fs::IoError;
use crate::fs::beneath;

/// The file that is locked, in the job's folder.
const LOCK: &str = "samples.lock";

/// Holds the lock on a job's samples until it is dropped. The system releases it however
/// the process ends.
#[must_use]
#[derive(Debug)]
pub struct SampleLock {
    _file: Option<File>,
}

/// Prevents the removal of samples.
///
/// # Errors
///
/// [`OutputError::Removing`] if some are being removed, [`OutputError::Io`] if a link
/// leads out of the job.
pub fn read_samples(folder: &Path) -> Result<SampleLock, OutputError> {
    refuse_links_out(folder)?;
    let path = folder.join(LOCK);
    let file = match beneath::open_or_create(folder, LOCK) {
        // If nothing can be written, nothing can be removed either.
        Err(e) => match e.kind() {
            ErrorKind::NotFound | ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                return Ok(SampleLock { _file: None });
            }
            _ => return Err(IoError::at(&path, "creating")(e).into()),
        },
        Ok(file) => file,
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(SampleLock { _file: Some(file) }),
        Err(TryLockError::WouldBlock) => Err(OutputError::Removing(folder.to_owned())),
        Err(TryLockError::Error(e)) => Err(IoError::at(&path, "locking")(e).into()),
    }
}

/// Prevents the reading of samples.
///
/// # Errors
///
/// [`OutputError::Reading`] if they are being read, [`OutputError::Io`].
pub fn remove_samples(folder: &Path) -> Result<SampleLock, OutputError> {
    refuse_links_out(folder)?;
    let path = folder.join(LOCK);
    let file = beneath::open_or_create(folder, LOCK).map_err(IoError::at(&path, "creating"))?;
    match file.try_lock() {
        Ok(()) => Ok(SampleLock { _file: Some(file) }),
        Err(TryLockError::WouldBlock) => Err(OutputError::Reading(folder.to_owned())),
        Err(TryLockError::Error(e)) => Err(IoError::at(&path, "locking")(e).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_may_read_and_nobody_while_samples_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let reading = [(); 2].map(|()| read_samples(folder.path()).unwrap());
        let busy = remove_samples(folder.path()).unwrap_err();
        assert!(matches!(busy, OutputError::Reading(_)), "{busy}");
        drop(reading);
        let removing = remove_samples(folder.path()).unwrap();
        let busy = read_samples(folder.path()).unwrap_err();
        assert!(matches!(busy, OutputError::Removing(_)), "{busy}");
        drop(removing);
        drop(read_samples(folder.path()).unwrap());
        // A job that does not exist has other ways to say so.
        drop(read_samples(&folder.path().join("none")).unwrap());
        assert!(remove_samples(&folder.path().join("none")).is_err());
    }
}
