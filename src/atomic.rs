//! Writing a file so that it is there whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::Path;

/// Writes a file through a temporary one in the same folder, which then takes the
/// place of whatever stood at `path`. Without success nothing is left behind.
pub(crate) fn write(
    path: &Path,
    body: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let mut name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?
        .to_owned();
    name.push(format!(".{}.partial", std::process::id()));
    let partial = path.with_file_name(name);
    let written = File::create(&partial).and_then(|file| {
        let mut out = BufWriter::new(file);
        body(&mut out)?;
        out.into_inner()?.sync_all()?;
        fs::rename(&partial, path)
    });
    if written.is_err() {
        // The first error is the one to report; this file may not even exist.
        drop(fs::remove_file(&partial));
    }
    written
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

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
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        write(&path, |out| out.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert!(write(Path::new("/"), |_| Ok(())).is_err());
    }
}
