//! The socket itself: its path, and opening it even if the path is too long.

use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

/// The name of the socket in the job's folder.
pub(super) const NAME: &str = "control.sock";

/// The temporary name under which the socket is created, in the same folder.
const PRIVATE: &str = ".control";

/// The longest path, in bytes, that every system accepts for a socket: `sun_path` of
/// `sockaddr_un` has 108 on Linux and 104 elsewhere, including the final NUL.
const LONGEST: usize = 103;

/// The socket's name in the folder, which is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Socket {
    path: PathBuf,
}

/// Opens the socket of the job in `folder`, inside a runtime. An existing one was left by
/// a killed process and is replaced.
///
/// # Errors
///
/// The system's error.
pub(super) fn open(folder: &Path) -> io::Result<(Socket, UnixListener)> {
    let path = folder.join(NAME);
    match std::fs::symlink_metadata(&path) {
        Ok(meta) if meta.file_type().is_socket() => std::fs::remove_file(&path)?,
        Ok(_) => return Err(io::Error::other("a file that is not a socket exists there")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // It gets its name after its mode is set: otherwise others could connect to it in
    // between, if the umask permits.
    let private = folder.join(PRIVATE);
    match DirBuilder::new().mode(0o700).create(&private) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => std::fs::set_permissions(&private, Permissions::from_mode(0o700))?,
    }
    let unnamed = private.join(NAME);
    std::fs::remove_file(&unnamed).ok();
    let listener = UnixListener::bind(&ShortPath::of(&private)?.path)?;
    std::fs::set_permissions(&unnamed, Permissions::from_mode(0o600))?;
    std::fs::rename(&unnamed, &path)?;
    std::fs::remove_dir(&private)?;
    Ok((Socket { path }, listener))
}

impl Drop for Socket {
    fn drop(&mut self) {
        // If it stays, the next run replaces it.
        std::fs::remove_file(&self.path).ok();
    }
}

/// A name of the socket that is short enough, valid while this lives.
pub(super) struct ShortPath {
    pub path: PathBuf,
    _folder: Option<File>,
}

impl ShortPath {
    pub fn of(folder: &Path) -> io::Result<Self> {
        let path = folder.join(NAME);
        if path.as_os_str().len() <= LONGEST {
            let _folder = None;
            return Ok(Self { path, _folder });
        }
        // On Linux the open folder has a short name in `/proc`.
        let open = crate::fs::open_folder(folder)?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
        if !path.exists() {
            let why = "the path of the job's folder is too long for a socket";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Ok(Self {
            path: path.join(NAME),
            _folder: Some(open),
        })
    }
}
