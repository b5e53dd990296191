//! Opens files relative to a folder, without ever leaving that folder.
//!
//! A job's folder and its files may come from an untrusted source. Every path in a file
//! is a [`JobPath`], which is checked once when it is read. Every file of a job is opened
//! relative to the job's folder, so that neither `..` nor a symbolic link leads out of
//! it. The folder itself may be a link. Links inside the folder that stay inside it are
//! followed for reading; spoor never writes through a link.

use std::borrow::Borrow;
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Component, Path};
use std::str::FromStr;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The longest path of a file in a job, in bytes; spoor's own paths are far shorter.
const LONGEST: usize = 4_096;

/// The system's error number for a missing permission; a path that leads out has none.
const EACCES: i32 = 13;

/// A path below a job's folder, as in the job's files: names separated by `/`, none of
/// which leads out of the folder.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, with = "String")]
pub struct JobPath(String);

/// Why a text is not a path below a job's folder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not a path of a file in a job: {why}", shown(text))]
pub struct JobPathError {
    text: String,
    why: &'static str,
}

/// An untrusted text, shortened and without control characters.
fn shown(text: &str) -> String {
    let short: String = text.chars().take(200).collect();
    short.escape_debug().to_string()
}

impl JobPath {
    /// Checks a text.
    ///
    /// # Errors
    /// [`JobPathError`] if it is empty, absolute, too long, or has a part that leads
    /// out of the folder or has a special meaning on some file system.
    pub fn parse(text: &str) -> Result<Self, JobPathError> {
        let wrong = |why| {
            let text = text.to_owned();
            Err(JobPathError { text, why })
        };
        if text.is_empty() {
            return wrong("it is empty");
        }
        if text.len() > LONGEST {
            return wrong("it is longer than 4,096 bytes");
        }
        if text.contains(|c: char| c == '\\' || c.is_control()) {
            return wrong("it has a backslash or a control character");
        }
        if text.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return wrong("it begins or ends with `/`, or has an empty part, `.` or `..`");
        }
        // Excludes drive letters, for example.
        let plain = |part| matches!(part, Component::Normal(_));
        if !Path::new(text).components().all(plain) {
            return wrong("it does not begin in the job's folder");
        }
        Ok(Self(text.to_owned()))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for JobPath {
    type Err = JobPathError;

    fn from_str(text: &str) -> Result<Self, JobPathError> {
        Self::parse(text)
    }
}

impl TryFrom<String> for JobPath {
    type Error = JobPathError;

    fn try_from(text: String) -> Result<Self, JobPathError> {
        Self::parse(&text)
    }
}

impl From<JobPath> for String {
    fn from(path: JobPath) -> Self {
        path.0
    }
}

impl AsRef<Path> for JobPath {
    fn as_ref(&self) -> &Path {
        Path::new(&self.0)
    }
}

impl Borrow<str> for JobPath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq<str> for JobPath {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl fmt::Display for JobPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Opens a file for reading.
///
/// # Errors
/// The system's error; also if a link leads out, or it is not a regular file.
pub fn open(folder: &Path, name: impl AsRef<Path>) -> io::Result<File> {
    open_with(folder, name, OpenOptions::new().read(true))
}

/// Opens a file for reading, by its full path.
///
/// # Errors
/// As [`open`].
pub fn open_at(path: &Path) -> io::Result<File> {
    let (folder, name) = split(path)?;
    open(folder, name)
}

/// The same as [`append`] with a full path.
///
/// # Errors
/// As [`append`].
pub fn append_at(path: &Path) -> io::Result<File> {
    let (folder, name) = split(path)?;
    append(folder, name)
}

fn split(path: &Path) -> io::Result<(&Path, &OsStr)> {
    let no_name = || io::Error::new(ErrorKind::InvalidInput, "the path has no file name");
    let name = path.file_name().ok_or_else(no_name)?;
    Ok((path.parent().unwrap_or(Path::new("")), name))
}

/// Opens a file for reading and appending, and creates it if it is missing.
///
/// # Errors
/// As [`open`], and if it is a link.
pub fn append(folder: &Path, name: impl AsRef<Path>) -> io::Result<File> {
    let name = name.as_ref();
    refuse_link(folder, name)?;
    open_with(
        folder,
        name,
        OpenOptions::new().read(true).append(true).create(true),
    )
}

/// Opens a file for reading and writing without truncating it, and creates it if it is missing; for
/// lock files.
///
/// # Errors
/// As [`append`].
pub fn open_or_create(folder: &Path, name: impl AsRef<Path>) -> io::Result<File> {
    let name = name.as_ref();
    refuse_link(folder, name)?;
    let mut options = OpenOptions::new();
    open_with(
        folder,
        name,
        options.read(true).write(true).create(true).truncate(false),
    )
}

/// Creates a new file. Any entry with its name is removed first, so that nothing is
/// written through a link.
///
/// # Errors
/// The system's error; also if a link leads out.
pub fn create(folder: &Path, name: impl AsRef<Path>) -> io::Result<File> {
    let name = name.as_ref();
    let dir = dir(folder)?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    let made = match dir.open_with(name, &options) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            dir.remove_file(name).map_err(explained)?;
            dir.open_with(name, &options)
        }
        made => made,
    };
    made.map(cap_std::fs::File::into_std).map_err(explained)
}

/// All bytes of a file.
///
/// # Errors
/// As [`open`].
pub fn read(folder: &Path, name: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut file = open(folder, name)?;
    let length = file.metadata().map_or(0, |m| m.len());
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0).min(1 << 26));
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A file as text.
///
/// # Errors
/// As [`open`], and if it is not UTF-8.
pub fn read_to_string(folder: &Path, name: impl AsRef<Path>) -> io::Result<String> {
    String::from_utf8(read(folder, name)?)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
}

/// Creates a folder and its parents; existing ones are kept.
///
/// # Errors
/// The system's error; also if a link leads out.
pub fn create_dir_all(folder: &Path, name: impl AsRef<Path>) -> io::Result<()> {
    let name = name.as_ref();
    let dir = dir(folder)?;
    // Checked here, because a link that leads out would otherwise be reported as "already
    // exists".
    match dir.metadata(name) {
        Ok(found) if found.is_dir() => return Ok(()),
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(explained(error)),
        _ => {}
    }
    dir.create_dir_all(name).map_err(explained)
}

/// Removes a file, or a link but not its target. A missing file is an error of that kind.
///
/// # Errors
/// The system's error; also if a link leads out.
pub fn remove_file(folder: &Path, name: impl AsRef<Path>) -> io::Result<()> {
    dir(folder)?.remove_file(name).map_err(explained)
}

/// Removes a folder and its contents, or a file or a link; links inside are removed, not
/// followed.
///
/// # Errors
/// The system's error; also if a link leads out.
pub fn remove_all(folder: &Path, name: impl AsRef<Path>) -> io::Result<()> {
    let dir = dir(folder)?;
    let removed = match dir.symlink_metadata(&name) {
        Ok(found) if found.is_dir() => dir.remove_dir_all(name),
        Ok(_) => dir.remove_file(name),
        Err(error) => Err(error),
    };
    removed.map_err(explained)
}

/// Renames a file, replacing any entry with the new name. Nothing is synced; use `atomic`
/// to move a new file to its place.
///
/// # Errors
/// The system's error; also if a link leads out.
pub fn rename(folder: &Path, from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let dir = dir(folder)?;
    dir.rename(from, &dir, to).map_err(explained)
}

/// Syncs the folder that contains `name`: otherwise a synced file may have lost its name after a
/// loss of power.
///
/// # Errors
/// The system's error, if it can sync folders; also if a link leads out.
pub fn sync_folder_of(folder: &Path, name: impl AsRef<Path>) -> io::Result<()> {
    let parent = match name.as_ref().parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // `Dir` itself may be open as a path only, which cannot be synced.
    let opened = match dir(folder).and_then(|dir| dir.open(parent)) {
        // Some systems cannot open a folder; there is nothing to sync then.
        Err(_) if cfg!(not(unix)) => return Ok(()),
        // A folder may be writable but not readable, and can then not be synced.
        Err(error) if error.raw_os_error() == Some(EACCES) => return Ok(()),
        opened => opened.map_err(explained)?,
    };
    match opened.sync_all() {
        // Some file systems do not support this call for folders (fsync(2)).
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

/// Adds a hard link to a file.
///
/// # Errors
/// The system's error; also if a link leads out, or the name exists.
pub fn hard_link(folder: &Path, from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let dir = dir(folder)?;
    dir.hard_link(from, &dir, to).map_err(explained)
}

/// Adds a hard link in another folder to a file.
///
/// # Errors
/// The system's error; also if a link leads out of either folder, the name exists, or the
/// folders are on two file systems.
pub fn hard_link_into(
    folder: &Path,
    from: impl AsRef<Path>,
    into: &Path,
    to: impl AsRef<Path>,
) -> io::Result<()> {
    dir(folder)?
        .hard_link(from, &dir(into)?, to)
        .map_err(explained)
}

/// The length of a regular file; `None` if it is missing, or a link to it leads out.
pub fn length(folder: &Path, name: impl AsRef<Path>) -> Option<u64> {
    look(folder, name).ok().flatten()
}

/// The length of the regular file with this name; `None` if it is missing.
///
/// # Errors
/// The system's error, for example when no file descriptor is left: treating that as a
/// missing file would lose its contents.
pub fn look(folder: &Path, name: impl AsRef<Path>) -> io::Result<Option<u64>> {
    match dir(folder).and_then(|dir| dir.metadata(name)) {
        Ok(found) => Ok(found.is_file().then_some(found.len())),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Whether there is a regular file with this name.
pub fn is_file(folder: &Path, name: impl AsRef<Path>) -> bool {
    length(folder, name).is_some()
}

/// Whether there is a symbolic link with this name.
pub fn is_link(folder: &Path, name: impl AsRef<Path>) -> bool {
    let found = dir(folder).and_then(|dir| dir.symlink_metadata(name));
    found.is_ok_and(|found| found.is_symlink())
}

/// Whether there is a folder with this name.
pub fn is_dir(folder: &Path, name: impl AsRef<Path>) -> bool {
    dir(folder).is_ok_and(|dir| dir.is_dir(name))
}

/// The entries of a folder below `folder`, in no order. A link is reported as a link, regardless of
/// its target. Names that are not UTF-8 are not from spoor and are left out.
///
/// # Errors
/// The system's error; also if a link leads out.
pub fn entries(folder: &Path, name: impl AsRef<Path>) -> io::Result<Vec<(String, Kind)>> {
    let name = name.as_ref();
    let name = if name.as_os_str().is_empty() {
        Path::new(".")
    } else {
        name
    };
    let mut found = Vec::new();
    for entry in dir(folder)?.read_dir(name).map_err(explained)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let kind = match entry.file_type()? {
            kind if kind.is_dir() => Kind::Folder,
            kind if kind.is_file() => Kind::File,
            kind if kind.is_symlink() => Kind::Link,
            _ => Kind::Other,
        };
        found.push((name, kind));
    }
    Ok(found)
}

/// The type of a folder's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link.
    Link,
    /// A socket, a pipe, a device.
    Other,
}

/// Refuses links that lead out of `folder`, among the entries of the folder `name` below it and
/// `deeper` levels further down; does nothing if there is no such folder. For files that other code
/// opens, such as a store.
///
/// # Errors
/// An error that names the link.
pub fn refuse_links_out(folder: &Path, name: &str, deeper: usize) -> io::Result<()> {
    let (dir, all) = match dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        opened => {
            let dir = opened?;
            if dir.is_dir(match name {
                "" => ".",
                name => name,
            }) {
                (dir, entries(folder, name)?)
            } else {
                return Ok(());
            }
        }
    };
    for (entry, kind) in all {
        let below = match name {
            "" => entry,
            name => format!("{name}/{entry}"),
        };
        match kind {
            Kind::Link => {
                if let Err(error) = dir.metadata(&below).map_err(explained)
                    && error.kind() == ErrorKind::InvalidInput
                {
                    let named = format!("{}: {error}", shown(&below));
                    return Err(io::Error::new(ErrorKind::InvalidInput, named));
                }
            }
            Kind::Folder if deeper > 0 => refuse_links_out(folder, &below, deeper - 1)?,
            Kind::File | Kind::Folder | Kind::Other => {}
        }
    }
    Ok(())
}

fn dir(folder: &Path) -> io::Result<Dir> {
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    Dir::open_ambient_dir(folder, ambient_authority())
}

fn open_with(folder: &Path, name: impl AsRef<Path>, options: &OpenOptions) -> io::Result<File> {
    let (dir, name) = (dir(folder)?, name.as_ref());
    // Opening a pipe would wait for its other end.
    match dir.metadata(name) {
        Ok(found) if !found.is_file() => {
            return Err(io::Error::new(
                ErrorKind::InvalidInput,
                "it is not a regular file; move it away",
            ));
        }
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(explained(error)),
        _ => {}
    }
    let opened = dir.open_with(name, options).map_err(explained)?;
    Ok(opened.into_std())
}

fn refuse_link(folder: &Path, name: &Path) -> io::Result<()> {
    match dir(folder)?.symlink_metadata(name) {
        Ok(found) if found.is_symlink() => Err(io::Error::new(
            ErrorKind::InvalidInput,
            "it is a symbolic link, and spoor does not write through links in a job; remove it",
        )),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(explained(error)),
        _ => Ok(()),
    }
}

/// Explains the error that a path leads out of the folder.
fn explained(error: io::Error) -> io::Error {
    // Errors of the system itself have a number.
    match error.kind() {
        ErrorKind::PermissionDenied if error.raw_os_error().is_none() => io::Error::new(
            ErrorKind::InvalidInput,
            "the path leads out of the folder, by `..` or a symbolic link; remove it (only \
             the job's folder itself may be a link)",
        ),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::atomic;

    use std::fs;

    #[test]
    fn only_paths_below_are_paths() {
        for good in [
            "a",
            "images/2026-01-02/a.org/%2E%2E~.jpg",
            "a/..b/c..",
            "a b/ü",
        ] {
            assert_eq!(JobPath::parse(good).unwrap().as_str(), good);
        }
        let long = "a/".repeat(3_000) + "b";
        for bad in [
            "",
            "/",
            "/etc/passwd",
            "..",
            "../x",
            "a/../b",
            "a/..",
            "./a",
            "a/./b",
            "a//b",
            "a/",
            "a\\..\\b",
            "a\0b",
            "a\nb",
            "a\u{7f}",
            &long,
        ] {
            let error = JobPath::parse(bad).unwrap_err().to_string();
            assert!(!error.contains(['\n', '\0']), "{error:?}");
            let json = serde_json::to_string(bad).unwrap();
            assert!(serde_json::from_str::<JobPath>(&json).is_err(), "{bad}");
        }
        let path: JobPath = serde_json::from_str("\"images/a.jpg\"").unwrap();
        assert_eq!(serde_json::to_string(&path).unwrap(), "\"images/a.jpg\"");
    }

    /// A folder with a job that is reached through a link, and links in the job to a file
    /// and a folder outside of it.
    #[cfg(unix)]
    fn trapped() -> (tempfile::TempDir, std::path::PathBuf) {
        use std::os::unix::fs::symlink;
        let root = tempfile::tempdir().unwrap();
        let real = root.path().join("real");
        fs::create_dir_all(real.join("sub")).unwrap();
        fs::create_dir(root.path().join("other")).unwrap();
        fs::write(root.path().join("other/file"), "theirs").unwrap();
        fs::write(real.join("sub/own"), "own").unwrap();
        let job = root.path().join("job");
        symlink("real", &job).unwrap();
        symlink("../other/file", real.join("out")).unwrap();
        symlink(root.path().join("other/file"), real.join("absolute")).unwrap();
        symlink("../other", real.join("folder")).unwrap();
        symlink("../other/none", real.join("dangling")).unwrap();
        symlink("sub/own", real.join("within")).unwrap();
        (root, job)
    }

    #[cfg(unix)]
    #[test]
    fn nothing_leads_out_and_what_stays_within_is_reached() {
        let (root, job) = trapped();
        assert_eq!(read(&job, "within").unwrap(), b"own");
        let outs = [
            "out",
            "absolute",
            "folder/file",
            "../other/file",
            "sub/../../other/file",
        ];
        for name in outs {
            assert!(read(&job, name).is_err(), "{name}");
            assert!(!is_file(&job, name), "{name}");
            assert!(append(&job, name).is_err(), "{name}");
            assert!(open_or_create(&job, name).is_err(), "{name}");
            assert!(hard_link(&job, name, "taken").is_err() || read(&job, "taken").is_err());
        }
        for name in ["folder/file", "folder/new", "../other/file", "dangling/new"] {
            assert!(create(&job, name).is_err(), "{name}");
            assert!(atomic::write_bytes(&job, name, b"x").is_err(), "{name}");
            assert!(remove_file(&job, name).is_err(), "{name}");
            assert!(remove_all(&job, name).is_err(), "{name}");
            assert!(rename(&job, "sub/own", name).is_err(), "{name}");
        }
        assert!(append(&job, "dangling").is_err());
        assert!(create_dir_all(&job, "folder/deeper").is_err());
        assert!(create_dir_all(&job, "folder").is_err());
        assert!(entries(&job, "folder").is_err());
        assert!(remove_all(&job, "folder/.").is_err());
        // Links are replaced and removed, but not followed.
        atomic::write_bytes(&job, "out", b"new").unwrap();
        create(&job, "absolute").unwrap();
        remove_all(&job, "folder").unwrap();
        assert!(!root.path().join("real/folder").exists());
        assert_eq!(read(&job, "out").unwrap(), b"new");
        assert_eq!(fs::read_dir(root.path().join("other")).unwrap().count(), 1);
        let theirs = fs::read(root.path().join("other/file")).unwrap();
        assert_eq!(theirs, b"theirs");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn links_out_are_named_and_pipes_do_not_hold_anybody_up() {
        let (_root, job) = trapped();
        assert!(refuse_links_out(&job, "sub", 1).is_ok());
        assert!(refuse_links_out(&job, "none", 1).is_ok());
        assert!(refuse_links_out(&job.join("none"), "", 1).is_ok());
        for name in ["out", "absolute", "dangling"] {
            let error = read(&job, name).unwrap_err().to_string();
            assert!(error.contains("leads out"), "{error}");
        }
        assert!(refuse_links_out(&job, "", 0).is_err());
        let deep = job.join("sub/deep");
        fs::create_dir(&deep).unwrap();
        std::os::unix::fs::symlink("../../../other", deep.join("x")).unwrap();
        assert!(refuse_links_out(&job, "sub", 0).is_ok());
        let error = refuse_links_out(&job, "sub", 1).unwrap_err().to_string();
        assert!(error.starts_with("sub/deep/x: "), "{error}");
        let pipe = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, job.join("pipe"), pipe, 0o600.into(), 0).unwrap();
        for error in [open(&job, "pipe").err(), append(&job, "pipe").err()] {
            assert_eq!(error.unwrap().kind(), ErrorKind::InvalidInput);
        }
        let mut kinds = entries(&job, "").unwrap();
        kinds.sort_by(|a, b| a.0.cmp(&b.0));
        let kinds: Vec<_> = kinds.iter().map(|(n, k)| (n.as_str(), *k)).collect();
        assert_eq!(kinds[4], ("pipe", Kind::Other));
        assert_eq!(kinds[5], ("sub", Kind::Folder));
        assert_eq!(kinds[6], ("within", Kind::Link));
    }
}
