//! Objects as the files of a folder, which may be on a disk that several machines share.
//!
//! A file is written under another name and then renamed. The compare-and-set locks a file beside
//! the object while it compares and renames; the system releases the lock when the process ends. An
//! object that must not exist yet is created by a hard link, if the file system supports links.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use xxhash_rust::xxh3::xxh3_128;

use super::{Done, LONGEST, Objects, ObjectsError, Version, check};
use crate::fs::{files_beneath, sync_file_system};

/// The suffixes of an object that is being written, and of its lock.
const PART: &str = ".part";
const LOCK: &str = ".lock";

pub(super) struct Folder {
    address: String,
    root: PathBuf,
    /// Distinguishes the files that this instance writes.
    next: AtomicU64,
}

impl Folder {
    pub(super) fn new(address: &str, root: &Path) -> Self {
        Self {
            address: address.to_owned(),
            root: root.to_owned(),
            next: AtomicU64::new(0),
        }
    }

    /// The file of an object; an error if the name is not valid.
    fn path(&self, name: &str) -> Done<PathBuf> {
        check(&self.address, name)?;
        Ok(self.root.join(name))
    }

    fn failed(&self, name: &str, what: &'static str) -> impl FnOnce(io::Error) -> ObjectsError {
        let to = self.root.join(name).display().to_string();
        move |error| ObjectsError::Failed {
            to,
            what,
            why: error.to_string(),
        }
    }

    fn write(&self, name: &str, bytes: &[u8], is_synced: bool) -> io::Result<()> {
        self.write_and(name, bytes, is_synced, |part, path| fs::rename(part, path))
    }

    /// Writes a file beside the place of an object, and calls `put` to move it there.
    fn write_and(
        &self,
        name: &str,
        bytes: &[u8],
        is_synced: bool,
        put: impl FnOnce(&Path, &Path) -> io::Result<()>,
    ) -> io::Result<()> {
        let path = self.root.join(name);
        let parent = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(parent)?;
        let (part, mut file) = self.part(name)?;
        let write = || {
            file.write_all(bytes)?;
            // Elsewhere `settle` syncs all of them at once.
            if is_synced || cfg!(not(target_os = "linux")) {
                file.sync_all()?;
            }
            put(&part, &path)
        };
        let written = write();
        if written.is_err() {
            // The first error is the one to report.
            fs::remove_file(&part).ok();
        }
        written?;
        if is_synced {
            crate::fs::open_folder(parent)?.sync_all()?;
        }
        Ok(())
    }

    /// A new file beside the place of an object. A process on another machine may have the same
    /// number.
    fn part(&self, name: &str) -> io::Result<(PathBuf, File)> {
        let process = std::process::id();
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let part = self.root.join(format!("{name}.{process}-{number}{PART}"));
            match File::create_new(&part) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                created => return Ok((part, created?)),
            }
        }
    }

    /// Writes an object if there is none, if the file system can do that in one step. A lock would
    /// leave a file behind for every name ever used.
    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        let created = self.write_and(name, bytes, true, |part, path| {
            fs::hard_link(part, path)?;
            fs::remove_file(part)
        });
        match created {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            created => created.map(|()| true),
        }
    }

    fn swap_locked(&self, name: &str, bytes: &[u8], was: Option<&Version>) -> io::Result<bool> {
        fs::create_dir_all(self.root.join(name).parent().unwrap_or(&self.root))?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.root.join(format!("{name}{LOCK}")))?;
        lock.lock()?;
        let is = read(&self.root.join(name), LONGEST)?;
        if is.map(|bytes| version(&bytes)).as_ref() != was {
            return Ok(false);
        }
        self.write(name, bytes, true)?;
        Ok(true)
    }
}

fn version(bytes: &[u8]) -> Version {
    Version(format!("{:032x}", xxh3_128(bytes)))
}

/// The bytes of a file, at most one more than `most`.
fn read(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match crate::fs::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

impl Objects for Folder {
    fn get(&self, name: &str, most: u64) -> Done<Option<(Vec<u8>, Version)>> {
        let path = self.path(name)?;
        let Some(bytes) = read(&path, most).map_err(self.failed(name, "reading"))? else {
            return Ok(None);
        };
        if bytes.len() as u64 > most {
            let to = path.display().to_string();
            return Err(ObjectsError::Long { to, most });
        }
        let version = version(&bytes);
        Ok(Some((bytes, version)))
    }

    fn length(&self, name: &str) -> Done<Option<u64>> {
        match fs::metadata(self.path(name)?) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            found => found
                .map(|found| Some(found.len()))
                .map_err(self.failed(name, "looking")),
        }
    }

    fn put(&self, name: &str, bytes: Vec<u8>) -> Done<()> {
        self.path(name)?;
        let written = self.write(name, &bytes, false);
        written.map_err(self.failed(name, "writing"))
    }

    fn settle(&self) -> Done<()> {
        if !self.root.is_dir() {
            return Ok(());
        }
        sync_file_system(&self.root).map_err(self.failed("", "syncing"))
    }

    fn swap(&self, name: &str, bytes: &[u8], was: Option<&Version>) -> Done<bool> {
        self.path(name)?;
        let created = match was {
            None => self.create(name, bytes).ok(),
            Some(_) => None,
        };
        let swapped = match created {
            Some(created) => Ok(created),
            None => self.swap_locked(name, bytes, was),
        };
        swapped.map_err(self.failed(name, "writing"))
    }

    fn list(&self, folder: &str) -> Done<Vec<String>> {
        let below = self.path(folder)?;
        if !below.is_dir() {
            return Ok(Vec::new());
        }
        let is_object = |path: &Path| !path.to_string_lossy().ends_with(LOCK);
        let found = files_beneath(&below, is_object).map_err(|error| ObjectsError::Failed {
            to: error.path.display().to_string(),
            what: "listing",
            why: error.source.to_string(),
        })?;
        let name = |path: PathBuf| {
            let name = path.strip_prefix(&self.root).ok()?.to_str()?;
            check(&self.address, name).ok()?;
            Some(name.to_owned())
        };
        Ok(found.into_iter().filter_map(name).collect())
    }

    fn delete(&self, name: &str) -> Done<()> {
        match fs::remove_file(self.path(name)?) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(self.failed(name, "removing")(error))
            }
            _ => Ok(()),
        }
    }

    fn address(&self) -> &str {
        &self.address
    }
}
