//! The system's clock as one process sees it, set while it runs (libfaketime).

use std::path::{Path, PathBuf};
use std::process::Command;

/// A clock that differs from the machine's.
#[derive(Debug)]
pub struct Clock {
    library: PathBuf,
    file: PathBuf,
}

impl Clock {
    /// A clock that is right. `None`, with a message, without the library.
    pub fn right(folder: &Path) -> Option<Self> {
        let Some(library) = library() else {
            println!("SKIPPED: no libfaketime on this machine (Debian: package `faketime`)");
            return None;
        };
        let file = folder.join("clock");
        let clock = Self { library, file };
        clock.set(0);
        Some(clock)
    }

    /// Sets it to this many seconds before or after the machine's clock.
    pub fn set(&self, seconds: i64) {
        let part = self.file.with_extension("part");
        std::fs::write(&part, format!("{seconds:+}\n")).unwrap();
        std::fs::rename(&part, &self.file).unwrap();
    }

    /// Makes a process see this clock. As on a machine whose clock is set, the time since boot is
    /// unchanged.
    pub fn shown_to(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library);
        command.env("FAKETIME_TIMESTAMP_FILE", &self.file);
        command.env("FAKETIME_NO_CACHE", "1");
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
}

fn library() -> Option<PathBuf> {
    let places = std::fs::read_dir("/usr/lib").ok()?.flatten();
    let folders = places.map(|place| place.path()).chain(["/usr/lib".into()]);
    let mut libraries = folders.map(|f| f.join("faketime/libfaketimeMT.so.1"));
    libraries.find(|library| library.exists())
}
