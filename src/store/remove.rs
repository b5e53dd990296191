//! Removing what was kept: images, contexts, and rows of the files that grow.
//!
//! The frontier records how long the growing files are, so they cannot merely be
//! written anew: it would cut them at a place that means nothing any more. So what
//! stays is written beside each of them first; then a journal is written that says
//! where the outputs will stand; then the frontier is told; and last the new files
//! take their places. Whoever opens the job does what a journal still asks for, so
//! a crash at any point leaves either the old files and the old record or both new.
//!
//! Afterwards the outputs are of another generation, which their stamp names. A
//! frontier that comes back from an older export names an older one, and its
//! lengths are not used.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{OutputError, Sidecar, Stamp, append, io, part_of, sidecar, sync_folder, write_whole};
use crate::page::ImageContext;

/// The journal, in the job's folder.
const JOURNAL: &str = "rewriting.json";

/// The number of the outputs' generation, in the job's folder; 0 without it.
const GENERATION: &str = "generation";

/// The files that are rewritten.
const FILES: [&str; 2] = [IMAGES, LOG];
const IMAGES: &str = "images.tsv";
const LOG: &str = "logs/crawl.jsonl";

/// Rows of the growing files without those that are to go.
#[derive(Debug, Serialize, Deserialize)]
pub struct Rewriting {
    #[serde(skip)]
    folder: PathBuf,
    stamp: Vec<u8>,
    generation: u64,
}

impl Rewriting {
    /// Writes the rows that stay beside the files that grow, and the journal. The
    /// outputs must stand where `stamp` says and not be open. Sentences go on in a
    /// new file, so that those that are there may be changed by hand. `None` where
    /// nothing is to go.
    ///
    /// # Errors
    /// [`OutputError`] names the file; the outputs are as before then.
    pub fn prepare(
        folder: &Path,
        stamp: &[u8],
        gone: impl Fn(&'static str, &str) -> bool,
    ) -> Result<Option<Self>, OutputError> {
        let (mut stamp, _) = Stamp::read(stamp)?;
        let mut removed = 0;
        for name in FILES {
            let length = match name {
                IMAGES => &mut stamp.images,
                _ => &mut stamp.log,
            };
            let path = folder.join(name);
            let beside = beside(folder, name);
            let mut out = BufWriter::new(File::create(&beside).map_err(io(&beside, "creating"))?);
            let mut kept: u64 = 0;
            each_line(&path, &mut |line| {
                if gone(name, line) {
                    removed += 1;
                    return Ok(());
                }
                kept += line.len() as u64 + 1;
                let written = out.write_all(line.as_bytes());
                written
                    .and_then(|()| out.write_all(b"\n"))
                    .map_err(io(&beside, "writing"))
            })?;
            let written = out
                .into_inner()
                .map_err(std::io::IntoInnerError::into_error);
            written
                .and_then(|file| file.sync_all())
                .map_err(io(&beside, "writing"))?;
            *length = kept;
        }
        if removed == 0 {
            for name in FILES {
                let beside = beside(folder, name);
                std::fs::remove_file(&beside).map_err(io(&beside, "removing"))?;
            }
            return Ok(None);
        }
        stamp.segment = append::next_segment(&folder.join("sentences"))?;
        stamp.sentences = 0;
        let generation = generation(folder)?.saturating_add(1);
        let rewriting = Self {
            folder: folder.to_owned(),
            stamp: stamp.to_bytes(generation),
            generation,
        };
        // A value of two fields always serialises.
        let journal = serde_json::to_vec(&rewriting).unwrap_or_default();
        write_whole(&folder.join(JOURNAL), &journal)?;
        sync_folder(folder)?;
        Ok(Some(rewriting))
    }

    /// What a journal in a job's folder still asks for, if one is there.
    ///
    /// # Errors
    /// [`OutputError`] where it cannot be read.
    pub fn pending(folder: &Path) -> Result<Option<Self>, OutputError> {
        let path = folder.join(JOURNAL);
        let Some(bytes) = read_if_there(&path)? else {
            return Ok(None);
        };
        let mut read: Self = serde_json::from_slice(&bytes).map_err(|e| OutputError::Stamp {
            why: format!("{}: {e}", path.display()),
        })?;
        read.folder = folder.to_owned();
        Ok(Some(read))
    }

    /// What the frontier is to record before [`Rewriting::finish`].
    pub fn stamp(&self) -> &[u8] {
        &self.stamp
    }

    /// Puts the new files in their places.
    ///
    /// # Errors
    /// [`OutputError`]; the journal is still there then, and this is done again.
    pub fn finish(self) -> Result<(), OutputError> {
        for name in FILES {
            let (beside, path) = (beside(&self.folder, name), self.folder.join(name));
            match std::fs::rename(&beside, &path) {
                // Done before a crash.
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                renamed => renamed.map_err(io(&beside, "renaming"))?,
            }
        }
        let generation = self.generation.to_string();
        write_whole(&self.folder.join(GENERATION), generation.as_bytes())?;
        sync_folder(&self.folder)?;
        let journal = self.folder.join(JOURNAL);
        std::fs::remove_file(&journal).map_err(io(&journal, "removing"))
    }
}

/// The generation of the outputs in a folder.
pub(super) fn generation(folder: &Path) -> Result<u64, OutputError> {
    let path = folder.join(GENERATION);
    let text = read_if_there(&path)?.unwrap_or_else(|| b"0".to_vec());
    let number = String::from_utf8_lossy(&text).trim().parse();
    number.map_err(|_| OutputError::Stamp {
        why: format!("{} is no number", path.display()),
    })
}

/// Whether this is one of the files that grow, by its path below the job's folder.
pub fn grows(name: &str) -> bool {
    FILES.contains(&name)
}

/// The rows of one of the files that grow for which `gone` is true: `images.tsv`
/// or `logs/crawl.jsonl`, each by this name.
///
/// # Errors
/// [`OutputError::Io`].
pub fn count_rows(
    folder: &Path,
    gone: impl Fn(&'static str, &str) -> bool,
) -> Result<Vec<(&'static str, u64)>, OutputError> {
    let mut counts = Vec::new();
    for name in FILES {
        let mut rows = 0;
        each_line(&folder.join(name), &mut |line| {
            rows += u64::from(gone(name, line));
            Ok(())
        })?;
        counts.push((name, rows));
    }
    Ok(counts)
}

/// The image file, the address and the page that a row of `images.tsv` names.
pub fn image_row_names(row: &str) -> Option<(&str, &str, &str)> {
    let mut cells = row.split('\t');
    let url = cells.next()?;
    let file = cells.next().filter(|f| f.starts_with("images/"))?;
    Some((file, url, cells.nth(4)?))
}

/// Removes an image and its sidecar, the sidecar last: as long as it is there it
/// says what the image was.
///
/// # Errors
/// [`OutputError::Io`].
pub fn remove_image(folder: &Path, file: &str) -> Result<(), OutputError> {
    let (bytes, beside) = (folder.join(file), sidecar::path_of(folder, file));
    for path in [part_of(&bytes), part_of(&beside), bytes, beside] {
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            removed => removed.map_err(io(&path, "removing"))?,
        }
    }
    Ok(())
}

/// Lets the sidecar of the image at `file` no longer name the image that had the same
/// bytes first, where that is gone. Where there is no sidecar, nothing is done.
///
/// # Errors
/// [`OutputError`] names the file.
pub fn forget_first(folder: &Path, file: &str) -> Result<(), OutputError> {
    if !sidecar::path_of(folder, file).exists() {
        return Ok(());
    }
    let mut sidecar = Sidecar::load(folder, file)?;
    let gone = |first: &str| !folder.join(first).exists();
    if sidecar.same_as().is_some_and(gone) {
        sidecar.set_same_as(None);
        sidecar.save(folder)?;
    }
    Ok(())
}

/// Removes contexts from the sidecar of the image at `file`.
///
/// # Errors
/// [`OutputError`] where it cannot be read or written.
pub fn remove_contexts(
    folder: &Path,
    file: &str,
    gone: impl Fn(&ImageContext) -> bool,
) -> Result<(), OutputError> {
    let mut sidecar = Sidecar::load(folder, file)?;
    sidecar.forget(gone);
    sidecar.save(folder)
}

fn beside(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.rewritten"))
}

fn each_line(
    path: &Path,
    visit: &mut dyn FnMut(&str) -> Result<(), OutputError>,
) -> Result<(), OutputError> {
    let file = File::open(path).map_err(io(path, "opening"))?;
    for line in BufReader::new(file).split(b'\n') {
        let line = line.map_err(io(path, "reading"))?;
        // Both files are written as UTF-8; what is not was changed from outside.
        visit(&String::from_utf8_lossy(&line))?;
    }
    Ok(())
}

fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, OutputError> {
    match std::fs::read(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some).map_err(io(path, "reading")),
    }
}
