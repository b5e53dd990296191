//! Files by arbitrary paths. A pipe, a device or a socket in the place of a file is refused:
//! opening a pipe waits for a writer, and a device may have no end. Links to files are followed.

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

/// Opens a file for reading.
///
/// # Errors
///
/// The system's error; also if there is something other than a file.
pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Without this flag, the system waits for a pipe's writer.
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    let file = options.open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        return Ok(file);
    }
    let error = format!("it is {}, not a file", name_of(kind));
    Err(io::Error::new(io::ErrorKind::InvalidInput, error))
}

/// Opens a folder, to sync changes in it.
///
/// # Errors
///
/// The system's error.
#[expect(clippy::disallowed_methods, reason = "a folder is no pipe")]
pub fn open_folder(path: impl AsRef<Path>) -> io::Result<File> {
    File::open(path)
}

/// The bytes of a file.
///
/// # Errors
///
/// As [`open`].
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text of a file.
///
/// # Errors
///
/// As [`open`]; also if it is not UTF-8.
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    let mut text = String::new();
    open(path)?.read_to_string(&mut text)?;
    Ok(text)
}

fn name_of(kind: FileType) -> &'static str {
    if kind.is_dir() {
        return "a folder";
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            return "a pipe";
        }
        if kind.is_socket() {
            return "a socket";
        }
    }
    "a device"
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_file_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        nix::unistd::mkfifo(&path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink("pipe", path("to-pipe")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", path("to-zero")).unwrap();
        std::fs::write(path("file"), "text").unwrap();
        std::os::unix::fs::symlink("file", path("to-file")).unwrap();
        for (name, says) in [
            ("pipe", "it is a pipe, not a file"),
            ("to-pipe", "it is a pipe, not a file"),
            ("to-zero", "it is a device, not a file"),
            (".", "it is a folder, not a file"),
        ] {
            let error = open(path(name)).unwrap_err().to_string();
            assert_eq!(error, says, "{name}");
            assert_eq!(read(path(name)).unwrap_err().to_string(), says);
            assert_eq!(read_to_string(path(name)).unwrap_err().to_string(), says);
        }
        assert_eq!(read_to_string(path("to-file")).unwrap(), "text");
        assert_eq!(read(path("file")).unwrap(), b"text");
        assert!(open(path("none")).is_err());
    }
}
