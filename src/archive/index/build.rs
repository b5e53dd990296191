//! The index of many files.
//!
//! Each file is read separately, on all cores, and its sorted lines are kept in a folder beside
//! the index until that is complete. So after a kill only unfinished files are read again.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::blocks::{Blocks, small_index_of};
use super::lines::{FileLines, each_line};
use super::sorted::{Runs, merge};
use super::stated::each_stated;
use crate::cdxj::CdxjLine;
use crate::check::on_all_cores;
use crate::fs::IoError;
use crate::tool_error::ToolError;

/// The size of an index.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Indexed {
    /// The files.
    pub files: u64,
    /// The lines: responses, revisits and resources.
    pub lines: u64,
    /// Gaps in the files; `spoor archive check` lists them.
    pub gaps: u64,
}

/// How the files of an index are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// Read whole: damage is found, and has no lines.
    Whole,
    /// Read only the heads of members that state their lengths: for files that spoor itself has
    /// just written.
    Heads,
}

/// The sorted lines of one file, as they are kept until the index is complete.
#[derive(Debug, Serialize, Deserialize)]
struct Part {
    runs: Vec<PathBuf>,
    gaps: u64,
}

/// The folder beside the index that keeps finished work.
fn parts_of(output: &Path) -> PathBuf {
    with_ending(output, ".parts")
}

/// Whether a killed run has left something beside an index. The next run of [`beside`] removes
/// it.
pub fn is_unfinished(output: &Path) -> bool {
    parts_of(output).is_dir()
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Writes the index of files to `output`. Lines name a file by its name without folders. If
/// the name ends in `.cdx.gz` or `.cdxj.gz`, the index is written as compressed blocks, and a
/// small index of these beside it; see [`small_index_of`].
///
/// # Errors
///
/// [`ToolError`] names the file. Finished work is kept, and the next run continues from there.
pub fn index(files: &[PathBuf], output: &Path) -> Result<Indexed, ToolError> {
    let indexed = index_by(files, output, Reads::Whole);
    indexed.map_err(|error| error.and("run the same command again to go on"))
}

fn index_by(files: &[PathBuf], output: &Path, reads: Reads) -> Result<Indexed, ToolError> {
    let folder = parts_of(output);
    std::fs::create_dir_all(&folder).map_err(IoError::at(&folder, "making the folder"))?;
    let parts = on_all_cores(files, "bytes indexed", |path, progress| {
        part(path, &folder, reads, progress)
    });
    let parts = parts.map_err(IoError::at(output, "reading the files of"))?;
    let mut indexed = Indexed::default();
    let mut runs = Vec::new();
    for part in parts {
        let part = part?;
        indexed.files += 1;
        indexed.gaps += part.gaps;
        runs.extend(part.runs);
    }
    let unfinished = with_ending(output, ".part");
    let file = File::create(&unfinished).map_err(IoError::at(&unfinished, "creating"))?;
    let mut out = BufWriter::new(file);
    match small_index_of(output) {
        None => indexed.lines = merge(runs, &folder, &mut out)?,
        Some(small) => {
            let part = with_ending(&small, ".part");
            let file = File::create(&part).map_err(IoError::at(&part, "creating"))?;
            let name = output.file_name().unwrap_or_default().to_string_lossy();
            let blocks = Blocks::new(out, file, &name);
            let mut blocks = blocks.map_err(IoError::at(&part, "writing"))?;
            indexed.lines = merge(runs, &folder, &mut blocks)?;
            let done = blocks
                .finish()
                .map_err(IoError::at(&unfinished, "writing"))?;
            out = done.0;
            put(BufWriter::new(done.1), &part, &small)?;
        }
    }
    put(out, &unfinished, output)?;
    std::fs::remove_dir_all(&folder).map_err(IoError::at(&folder, "removing"))?;
    Ok(indexed)
}

/// The extensions of an index.
pub const INDEX: &str = ".cdxj";

/// The name of the index beside the file of this name: without the endings of an archive, so
/// that a pattern for archives does not match it.
pub fn name_beside(file: &str) -> String {
    let endings = [".gz", ".zst", ".warc", ".arc"];
    let name = endings.iter().fold(file, |name, ending| {
        name.strip_suffix(ending).unwrap_or(name)
    });
    format!("{name}{INDEX}")
}

/// The index of one file beside it, see [`name_beside`].
///
/// # Errors
///
/// [`ToolError`] names the file.
pub fn beside(file: &Path, reads: Reads) -> Result<Indexed, ToolError> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let index = file.with_file_name(name_beside(&name));
    index_by(&[file.to_owned()], &index, reads)
}

fn put(out: BufWriter<File>, unfinished: &Path, output: &Path) -> Result<(), IoError> {
    let file = out
        .into_inner()
        .map_err(std::io::IntoInnerError::into_error);
    let written = file
        .and_then(|file| file.sync_all())
        .and_then(|()| std::fs::rename(unfinished, output));
    written.map_err(IoError::at(output, "writing"))
}

/// The lines of a file: those of an earlier run if the file is still the same.
fn part(
    path: &Path,
    folder: &Path,
    reads: Reads,
    progress: &dyn Fn(u64),
) -> Result<Part, ToolError> {
    let about = path.metadata().map_err(IoError::at(path, "reading"))?;
    let changed = about.modified().ok();
    let changed = changed.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let changed = changed.map_or(0, |time| time.as_nanos());
    let length = about.len();
    let key = format!("{} {length} {changed}", path.display());
    let beginning = folder.join(format!("{:016x}", xxh3_64(key.as_bytes())));
    let done = with_ending(&beginning, ".done");
    if let Ok(bytes) = crate::fs::read(&done)
        && let Ok(part) = serde_json::from_slice::<Part>(&bytes)
    {
        progress(length);
        return Ok(part);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let part = match reads {
        Reads::Heads => by_heads(path, &name, &beginning)?,
        Reads::Whole => None,
    };
    let part = match part {
        Some(part) => {
            progress(length);
            part
        }
        None => by_reading(path, &name, beginning, progress)?,
    };
    let unfinished = with_ending(&done, ".part");
    let created = File::create(&unfinished).map_err(IoError::at(&unfinished, "creating"))?;
    let mut out = BufWriter::new(created);
    // Paths and numbers always serialise, except paths that are not Unicode.
    let text = serde_json::to_vec(&part).unwrap_or_default();
    out.write_all(&text)
        .map_err(IoError::at(&unfinished, "writing"))?;
    put(out, &unfinished, &done)?;
    Ok(part)
}

fn by_reading(
    path: &Path,
    name: &str,
    beginning: PathBuf,
    progress: &dyn Fn(u64),
) -> Result<Part, ToolError> {
    let file = crate::fs::open(path).map_err(IoError::at(path, "opening"))?;
    let mut runs = Runs::new(beginning);
    let add = |line: CdxjLine| Ok(runs.add(line.to_text()).map(|()| true)?);
    let FileLines { gaps, .. } = each_line(file, path, name, progress, add)?;
    Ok(Part {
        runs: runs.finish()?,
        gaps,
    })
}

/// `None` if the file has to be read whole.
fn by_heads(path: &Path, name: &str, beginning: &Path) -> Result<Option<Part>, ToolError> {
    let mut runs = Runs::new(beginning.to_owned());
    let add = |line: CdxjLine| runs.add(line.to_text());
    let is_complete = each_stated(path, name, add)?;
    let runs = runs.finish()?;
    Ok(is_complete.then_some(Part { runs, gaps: 0 }))
}
