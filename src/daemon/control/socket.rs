//! The socket itself: where it lies, and how it is opened however long the path.

use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

/// The name of the socket in the job's folder.
pub(super) const NAME: &str = "control.sock";

/// Where the socket is made, in the same folder.
const PRIVATE: &str = ".control";

/// Bytes of a path that every system takes for a socket: `sun_path` of `sockaddr_un`
/// has 108 on Linux and 104 elsewhere, the final NUL included.
const LONGEST: usize = 103;

/// The socket's name in the folder, which is taken away when this is dropped.
#[derive(Debug)]
pub(super) struct Socket {
    path: PathBuf,
}

/// Opens the socket of the job in `folder`, inside a runtime. One that lies there already
/// is one that a killed process left, and is replaced.
///
/// # Errors
/// What the system said.
pub(super) fn open(folder: &Path) -> io::Result<(Socket, UnixListener)> {
    let path = folder.join(NAME);
    match std::fs::symlink_metadata(&path) {
        Ok(meta) if meta.file_type().is_socket() => std::fs::remove_file(&path)?,
        Ok(_) => return Err(io::Error::other("something that is no socket lies there")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // It gets its name when its mode is set: between the two others could connect to
    // it, where the umask lets them.
    let private = folder.join(PRIVATE);
    match DirBuilder::new().mode(0o700).create(&private) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => std::fs::set_permissions(&private, Permissions::from_mode(0o700))?,
    }
    let unnamed = private.join(NAME);
    std::fs::remove_file(&unnamed).ok();
    let listener = UnixListener::bind(&Place::of(&private)?.path)?;
    std::fs::set_permissions(&unnamed, Permissions::from_mode(0o600))?;
    std::fs::rename(&unnamed, &path)?;
    std::fs::remove_dir(&private)?;
    Ok((Socket { path }, listener))
}

impl Drop for Socket {
    fn drop(&mut self) {
        // One that is left behind is replaced by the next run.
        std::fs::remove_file(&self.path).ok();
    }
}

/// A name of the socket that is short enough, valid while this lives.
pub(super) struct Place {
    pub path: PathBuf,
    _folder: Option<File>,
}

impl Place {
    pub fn of(folder: &Path) -> io::Result<Self> {
        let path = folder.join(NAME);
        if path.as_os_str().len() <= LONGEST {
            let _folder = None;
            return Ok(Self { path, _folder });
        }
        // The open folder has a short name of its own on Linux.
        let open = File::open(folder)?;
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
