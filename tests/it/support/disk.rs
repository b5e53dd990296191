//! Separate file systems for a test, if the machine permits mounts.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system that is unmounted when this is dropped.
#[derive(Debug)]
pub struct Mount {
    at: PathBuf,
}

impl Mount {
    /// Mounts with these arguments of mount(8) at a folder, which is created. `None`, with a
    /// message, if the machine does not permit it.
    pub fn new(arguments: &[&str], at: &Path) -> Option<Self> {
        std::fs::create_dir_all(at).unwrap();
        match run(Command::new("mount").args(arguments).arg(at)) {
            Ok(()) => Some(Self { at: at.to_owned() }),
            Err(why) => {
                println!("SKIPPED: this machine does not let the test mount a file system: {why}");
                None
            }
        }
    }

    /// A file system in memory with this many bytes.
    pub fn memory(bytes: u64, at: &Path) -> Option<Self> {
        let size = format!("size={bytes}");
        Self::new(&["-t", "tmpfs", "-o", &size, "tmpfs"], at)
    }

    /// Remounts it with other options.
    pub fn remount(&self, options: &str) {
        let options = format!("remount,{options}");
        run(Command::new("mount").args(["-o", &options]).arg(&self.at)).unwrap();
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // A process of a failed test may still use it; then it is unmounted when that process ends.
        let lazy = std::thread::panicking();
        let mut command = Command::new("umount");
        command.args(lazy.then_some("-l")).arg(&self.at);
        let ended = run(&mut command);
        assert!(lazy || ended.is_ok(), "{}: {ended:?}", self.at.display());
    }
}

/// Runs a tool to its end; the error is its output.
pub fn run(command: &mut Command) -> Result<(), String> {
    let out = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    if out.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&out.stderr).trim().to_owned())
    }
}

/// The bytes that the files below a folder take on the disk.
pub fn used(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(folder).unwrap();
    let sizes = entries.map(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            used(&path)
        } else {
            path.metadata().unwrap().blocks() * 512
        }
    });
    sizes.sum()
}
