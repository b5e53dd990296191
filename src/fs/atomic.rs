//! Puts files and folders in their places so that they are there whole or not at all.
//!
//! A new file is written under a temporary name and renamed when it is whole. What must
//! outlive a loss of power is synced first, and the folder after: a rename is an entry of the
//! folder, and neither the bytes of the file nor its name reach the disk with the other.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::fs::IoError;
use crate::fs::beneath::{self, Kind, create, entries, open, remove_file};

/// What a loss of power leaves of a file that was put in its place. A killed process leaves
/// the old file or the new one in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// The new file, once the call has returned.
    Synced,
    /// The old file or the new one, each whole: the folder is not synced. For a caller that
    /// does without the new one, or that syncs the folder after several files.
    Whole,
    /// Anything. For a caller that writes so often that it cannot wait for the disk, and
    /// that syncs all of it at once before it relies on it.
    Later,
}

/// A file in the making, under a temporary name. It is removed where it is dropped before
/// its end.
pub(crate) struct Unfinished<'a> {
    folder: &'a Path,
    part: PathBuf,
    name: &'a Path,
    file: File,
    is_put: bool,
}

impl<'a> Unfinished<'a> {
    /// Makes the file `part`, which is to become `name`; both are below `folder` and lie
    /// beside each other.
    ///
    /// # Errors
    /// As [`create`].
    pub(crate) fn begin(
        folder: &'a Path,
        part: impl Into<PathBuf>,
        name: &'a (impl AsRef<Path> + ?Sized),
    ) -> io::Result<Self> {
        let part = part.into();
        let file = create(folder, &part)?;
        Ok(Self {
            folder,
            part,
            name: name.as_ref(),
            file,
            is_put: false,
        })
    }

    /// The same by whole paths.
    ///
    /// # Errors
    /// As [`create`].
    pub(crate) fn begin_at(part: &Path, path: &'a Path) -> io::Result<Self> {
        let part = part.file_name().ok_or_else(no_name)?;
        let name = path.file_name().ok_or_else(no_name)?;
        Self::begin(path.parent().unwrap_or(Path::new("")), part, name)
    }

    /// Where to write; what is buffered must be flushed before the end.
    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Puts the file in its place, over whatever stood there, a link included.
    ///
    /// # Errors
    /// What the system said; also where a link leads out.
    pub(crate) fn put(mut self, durability: Durability) -> io::Result<()> {
        if durability != Durability::Later {
            self.file.sync_all()?;
        }
        beneath::rename(self.folder, &self.part, self.name)?;
        self.is_put = true;
        match durability {
            Durability::Synced => beneath::sync_folder_of(self.folder, self.name),
            Durability::Whole | Durability::Later => Ok(()),
        }
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.is_put {
            // What went wrong before is the error to report.
            drop(remove_file(self.folder, &self.part));
        }
    }
}

/// Writes a file under the name `part` and puts it in its place, both below `folder`. For
/// files that one process alone writes; [`write_in`] is for all others.
///
/// # Errors
/// What the system said; also where a link leads out. Nothing is left behind then.
pub(crate) fn write_through(
    folder: &Path,
    part: &str,
    name: &str,
    bytes: &[u8],
    durability: Durability,
) -> io::Result<()> {
    let mut unfinished = Unfinished::begin(folder, part, name)?;
    unfinished.file().write_all(bytes)?;
    unfinished.put(durability)
}

/// The same as [`write_in`] by its whole path.
pub(crate) fn write(
    path: &Path,
    body: impl FnOnce(&mut BufWriter<&mut File>) -> io::Result<()>,
) -> io::Result<()> {
    let name = path.file_name().ok_or_else(no_name)?;
    write_in(path.parent().unwrap_or(Path::new("")), name, body)
}

/// Writes a file below a folder; it is on the disk when this returns. The temporary name
/// has the number of the process, so that several may write the same file.
///
/// # Errors
/// What `body` or the system said; also where a link leads out. Nothing is left behind then.
pub(crate) fn write_in(
    folder: &Path,
    name: impl AsRef<Path>,
    body: impl FnOnce(&mut BufWriter<&mut File>) -> io::Result<()>,
) -> io::Result<()> {
    let name = name.as_ref();
    let mut part = name.file_name().ok_or_else(no_name)?.to_owned();
    part.push(format!(".{}.partial", std::process::id()));
    // A kill leaves that of its process.
    let of_this = name.file_name().and_then(|own| own.to_str());
    let below = name.parent().unwrap_or(Path::new(""));
    of_this.inspect(|own| sweep_of(folder, below, Some(own)));
    let mut unfinished = Unfinished::begin(folder, name.with_file_name(part), name)?;
    // Says that somebody writes it, also to those who do not see the process. Some
    // file systems have no locks.
    unfinished.file().try_lock().ok();
    let mut out = BufWriter::new(unfinished.file());
    body(&mut out)?;
    out.flush()?;
    drop(out);
    unfinished.put(Durability::Synced)
}

/// The same for bytes that are there.
///
/// # Errors
/// As [`write_in`].
pub(crate) fn write_bytes(folder: &Path, name: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
    write_in(folder, name, |out| out.write_all(bytes))
}

fn no_name() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "the path has no file name")
}

/// Gives a file or folder that is whole and on the disk its name, and syncs the folder
/// above. Both names lie in the same folder.
///
/// # Errors
/// [`IoError`] names the path.
pub(crate) fn rename_durably(from: &Path, to: &Path) -> Result<(), IoError> {
    fs::rename(from, to).map_err(IoError::at(from, "renaming"))?;
    sync_above(to)
}

/// Puts a new folder in the place of another, which is moved `aside`. Where the second
/// rename fails the first is taken back, so that only a crash between the two leaves no
/// folder in the place. All three names lie in the same folder.
///
/// # Errors
/// [`IoError`] names the path.
pub(crate) fn replace_folder(new: &Path, place: &Path, aside: &Path) -> Result<(), IoError> {
    let was_there = match fs::rename(place, aside) {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::NotFound => false,
        Err(error) => return Err(IoError::at(place, "moving aside")(error)),
    };
    if let Err(error) = fs::rename(new, place) {
        if was_there {
            // The first error is the one to report.
            drop(fs::rename(aside, place));
        }
        return Err(IoError::at(new, "moving into place")(error));
    }
    sync_above(place)
}

fn sync_above(path: &Path) -> Result<(), IoError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let name = path.file_name().unwrap_or_default();
    beneath::sync_folder_of(folder, name).map_err(IoError::at(folder, "syncing"))
}

/// Removes what killed processes left half written in a folder below `folder`. What
/// cannot be removed is named in the program's log.
pub(crate) fn sweep(folder: &Path, name: impl AsRef<Path>) {
    sweep_of(folder, name.as_ref(), None);
}

/// The same, only of the file with a name.
fn sweep_of(folder: &Path, below: &Path, of: Option<&str>) {
    // A folder that is not there has nothing in it.
    for (name, kind) in entries(folder, below).unwrap_or_default() {
        let Some((own, process)) = partial_of(&name) else {
            continue;
        };
        let other = kind != Kind::File || of.is_some_and(|of| of != own);
        if other || lives(process) || is_locked(folder, &below.join(&name)) {
            continue;
        }
        if let Err(error) = remove_file(folder, below.join(&name)) {
            let path = folder.join(below).join(&name);
            tracing::debug!("{}: not removed: {error}", path.display());
        }
    }
}

/// The name that a partial file will get, and the process that writes it.
fn partial_of(name: &str) -> Option<(&str, u32)> {
    let (own, process) = name.strip_suffix(".partial")?.rsplit_once('.')?;
    let process: u32 = process.parse().ok()?;
    let is_own = !own.is_empty() && name == format!("{own}.{process}.partial");
    is_own.then_some((own, process))
}

/// Whether somebody writes a file, as one in another container whose processes are not
/// seen here.
fn is_locked(folder: &Path, name: &Path) -> bool {
    let locked = open(folder, name).map(|file| file.try_lock());
    matches!(locked, Ok(Err(TryLockError::WouldBlock)))
}

/// Whether there is such a process; where nobody can tell, there is.
#[cfg(unix)]
fn lives(process: u32) -> bool {
    let process = i32::try_from(process).ok();
    let Some(process) = process.and_then(rustix::process::Pid::from_raw) else {
        return false;
    };
    rustix::process::test_kill_process(process) != Err(rustix::io::Errno::SRCH)
}

#[cfg(not(unix))]
fn lives(_process: u32) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = entries(folder, "")
            .unwrap()
            .into_iter()
            .map(|e| e.0)
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        write(&path, |out| out.write_all(b"old")).unwrap();
        let failed = write(&path, |out| {
            out.write_all(b"new")?;
            Err(io::Error::other("no more"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "no more");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["a.txt"]);
        write(&path, |out| out.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert!(write(Path::new("/"), |_| Ok(())).is_err());
    }

    #[test]
    fn a_file_comes_whole_whatever_its_durability() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::create_dir(folder.join("sub")).unwrap();
        for durability in [Durability::Synced, Durability::Whole, Durability::Later] {
            let text = format!("{durability:?}");
            write_through(folder, "sub/a.part", "sub/a", text.as_bytes(), durability).unwrap();
            assert_eq!(fs::read_to_string(folder.join("sub/a")).unwrap(), text);
            let mut half = Unfinished::begin(folder, "sub/a.part", "sub/a").unwrap();
            half.file().write_all(b"half").unwrap();
            drop(half);
            assert_eq!(names(&folder.join("sub")), ["a"]);
            assert_eq!(fs::read_to_string(folder.join("sub/a")).unwrap(), text);
        }
        // A folder cannot be replaced by a file.
        fs::create_dir(folder.join("taken")).unwrap();
        let refused = write_through(folder, "taken.part", "taken", b"x", Durability::Synced);
        assert!(refused.is_err());
        assert_eq!(names(folder), ["sub", "taken"]);
    }

    #[test]
    fn a_folder_takes_the_place_of_another_or_leaves_it() {
        let folder = tempfile::tempdir().unwrap();
        let [new, place, aside] = ["new", "place", "aside"].map(|name| folder.path().join(name));
        let mark = |folder: &Path| fs::read_to_string(folder.join("mark")).unwrap();
        let make = |folder: &Path, text: &str| {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("mark"), text).unwrap();
        };
        make(&new, "1");
        replace_folder(&new, &place, &aside).unwrap();
        assert_eq!(names(folder.path()), ["place"]);
        make(&new, "2");
        replace_folder(&new, &place, &aside).unwrap();
        assert_eq!((mark(&place), mark(&aside)), ("2".into(), "1".into()));
        fs::remove_dir_all(&aside).unwrap();
        let error = replace_folder(&new, &place, &aside).unwrap_err();
        assert!(error.to_string().contains("moving into place"), "{error}");
        assert_eq!(names(folder.path()), ["place"]);
        assert_eq!(mark(&place), "2");
        rename_durably(&place, &new).unwrap();
        assert_eq!(names(folder.path()), ["new"]);
        assert!(rename_durably(&place, &new).is_err());
    }

    #[test]
    fn what_a_killed_process_left_half_written_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        // No process has a higher number than 2^22 (PID_MAX_LIMIT of Linux). A child of our
        // own that has ended would hold the locks of other tests for a moment.
        let (gone, own) = ((1_u32 << 22) + 1, std::process::id());
        let put = |name: &str| fs::write(folder.join(name), "half").unwrap();
        let left = || names(folder);
        let stay = ["a.0123.partial", "a.partial", "mine.txt", "x.partial.1"];
        let alive = format!("b.{own}.partial");
        for name in stay.iter().copied().chain([alive.as_str()]) {
            put(name);
        }
        let mut expected: Vec<String> = left();
        for name in ["a", "b", "c"] {
            put(&format!("{name}.{gone}.partial"));
        }
        // Of a process that is not seen from here.
        let elsewhere = format!("c.{gone}.partial");
        let held = fs::File::open(folder.join(&elsewhere)).unwrap();
        held.try_lock().unwrap();
        expected.push(elsewhere);
        write_bytes(folder, "a", b"whole").unwrap();
        expected.push("a".to_owned());
        expected.push(format!("b.{gone}.partial"));
        expected.sort();
        assert_eq!(left(), expected, "only those of the same file");
        sweep(folder, "");
        expected.retain(|name| *name != format!("b.{gone}.partial"));
        assert_eq!(left(), expected);
        sweep(folder, "nowhere");
    }
}
