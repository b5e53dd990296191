//! Creates files and folders atomically: they are complete or absent.
//!
//! A new file is written under a temporary name and renamed when it is complete. To
//! survive a loss of power it is synced before the rename, and its folder afterwards: the
//! rename is an entry of the folder, and the contents and the name of a file reach the
//! disk separately.

use std::fs::{self, File, TryLockError};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::fs::IoError;
use crate::fs::beneath::{self, Kind, create, entries, open, remove_file};

/// The state of a replaced file after a loss of power. After the end of the process
/// alone, there is always the old file or the new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The new file, once the call has returned.
    Synced,
    /// The old file or the new one, each complete: the folder is not synced. For a caller
    /// that can do without the new one, or that syncs the folder after several files.
    Whole,
    /// Undefined. For a caller that writes too often to wait for the disk, and that syncs
    /// everything at once before it relies on it.
    Later,
}

/// An unfinished file under a temporary name. Dropping it before [`put`](Self::put)
/// removes the file.
pub struct Unfinished<'a> {
    folder: &'a Path,
    part: PathBuf,
    name: &'a Path,
    file: File,
    is_put: bool,
}

impl<'a> Unfinished<'a> {
    /// Creates the file `part`, which is to become `name`. Both are below `folder`, in
    /// the same folder.
    ///
    /// # Errors
    /// As [`create`].
    pub fn begin(
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

    /// The same with absolute paths.
    ///
    /// # Errors
    /// As [`create`].
    pub fn begin_at(part: &Path, path: &'a Path) -> io::Result<Self> {
        let part = part.file_name().ok_or_else(no_name)?;
        let name = path.file_name().ok_or_else(no_name)?;
        Self::begin(path.parent().unwrap_or(Path::new("")), part, name)
    }

    /// The file to write to; buffered data must be flushed before [`put`](Self::put).
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Moves the file to its place and replaces any entry with its name, even a link.
    ///
    /// # Errors
    /// The system's error; also if a link leads out of the folder.
    pub fn put(mut self, durability: Durability) -> io::Result<()> {
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
            // The earlier error is the one to report.
            drop(remove_file(self.folder, &self.part));
        }
    }
}

/// Writes a file under the name `part` and moves it to its place, both below `folder`.
/// For files that only one process writes; [`write_in`] is for all others.
///
/// # Errors
/// The system's error; also if a link leads out. The partial file is then removed.
pub fn write_through(
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

/// The same as [`write_in`] with an absolute path.
pub fn write(
    path: &Path,
    body: impl FnOnce(&mut BufWriter<&mut File>) -> io::Result<()>,
) -> io::Result<()> {
    let name = path.file_name().ok_or_else(no_name)?;
    write_in(path.parent().unwrap_or(Path::new("")), name, body)
}

/// Writes a file below a folder; it is synced to disk when this returns. The temporary
/// name contains the process id, so that several processes may write the same file.
///
/// # Errors
/// The error of `body` or of the system; also if a link leads out. The partial file is
/// then removed.
pub fn write_in(
    folder: &Path,
    name: impl AsRef<Path>,
    body: impl FnOnce(&mut BufWriter<&mut File>) -> io::Result<()>,
) -> io::Result<()> {
    let name = name.as_ref();
    let mut part = name.file_name().ok_or_else(no_name)?.to_owned();
    part.push(format!(".{}.partial", std::process::id()));
    // A killed process leaves its partial file behind.
    let of_this = name.file_name().and_then(|own| own.to_str());
    let below = name.parent().unwrap_or(Path::new(""));
    of_this.inspect(|own| sweep_of(folder, below, Some(own)));
    let mut unfinished = Unfinished::begin(folder, name.with_file_name(part), name)?;
    // The lock shows that the file is being written, even to processes that cannot see
    // this one. Some file systems have no locks.
    unfinished.file().try_lock().ok();
    let mut out = BufWriter::new(unfinished.file());
    body(&mut out)?;
    out.flush()?;
    drop(out);
    unfinished.put(Durability::Synced)
}

/// The same for given bytes.
///
/// # Errors
/// As [`write_in`].
pub fn write_bytes(folder: &Path, name: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
    write_in(folder, name, |out| out.write_all(bytes))
}

fn no_name() -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, "the path has no file name")
}

/// Renames a complete and synced file or folder, and syncs the parent folder. Both names
/// are in the same folder.
///
/// # Errors
/// [`IoError`] names the path.
pub fn rename_durably(from: &Path, to: &Path) -> Result<(), IoError> {
    fs::rename(from, to).map_err(IoError::at(from, "renaming"))?;
    sync_above(to)
}

/// Replaces a folder by a new one and moves the old one `aside`. If the second rename
/// fails, the first is reverted, so only a crash between the two leaves no folder in the
/// place. All three names are in the same folder.
///
/// # Errors
/// [`IoError`] names the path.
pub fn replace_folder(new: &Path, place: &Path, aside: &Path) -> Result<(), IoError> {
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

/// Removes the partial files that killed processes left in a folder below `folder`.
/// Failures are logged.
pub fn sweep(folder: &Path, name: impl AsRef<Path>) {
    sweep_of(folder, name.as_ref(), None);
}

/// The same, but only for the file with this name.
fn sweep_of(folder: &Path, below: &Path, of: Option<&str>) {
    // A missing folder has no entries.
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

/// The final name of a partial file, and the process that writes it.
fn partial_of(name: &str) -> Option<(&str, u32)> {
    let (own, process) = name.strip_suffix(".partial")?.rsplit_once('.')?;
    let process: u32 = process.parse().ok()?;
    let is_own = !own.is_empty() && name == format!("{own}.{process}.partial");
    is_own.then_some((own, process))
}

/// Whether a process holds a lock on the file, possibly one in another container that is
/// not visible here.
fn is_locked(folder: &Path, name: &Path) -> bool {
    let locked = open(folder, name).map(|file| file.try_lock());
    matches!(locked, Ok(Err(TryLockError::WouldBlock)))
}

/// Whether the process exists; true if that is unknown.
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
    fn a_file_is_complete_with_any_durability() {
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
        // No process has a number above 2^22 (PID_MAX_LIMIT of Linux). A finished child
        // process would hold the locks of other tests for a moment.
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
        // From a process that is not visible here.
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
