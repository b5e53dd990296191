//! The tables of a job, each read as one: the current file, and those before it.
//!
//! A table that has become long is renamed with a number, `crawl.00001.jsonl` for
//! `crawl.jsonl`, and a new file is started. A renamed file never changes, so it is
//! compressed to `crawl.00001.jsonl.zst`. Readers of a table read all of these in order,
//! and only this module needs to know how many there are.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::OutputError;
use crate::fs::beneath::{self, Kind};
use crate::fs::{IoError, if_there};
use crate::page::TaskKind;

/// The suffix of compressed files.
pub(super) const ZST: &str = ".zst";

/// The longest row that is read, in bytes.
pub const MAX_ROW: usize = 16 << 20;

/// How often listing a table is attempted while a crawl renames its files.
const ATTEMPTS: usize = 10;

/// A table of lines in a job's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// Every finished task.
    Log,
    /// Every image on every page.
    Images,
    /// Every change of a running crawl.
    Audit,
    /// Every visit that forbids what an earlier one permitted.
    Withdrawn,
}

impl Table {
    /// The current file, by its path below the job's folder.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Log => "logs/crawl.jsonl",
            Self::Images => "images.tsv",
            Self::Audit => "logs/audit.jsonl",
            Self::Withdrawn => "logs/withdrawn.jsonl",
        }
    }

    /// Whether the table exists.
    pub fn is_there(self, folder: &Path) -> bool {
        beneath::is_file(folder, self.name())
            || rotated(folder, self.name()).is_ok_and(|files| !files.is_empty())
    }

    /// Whether anything was ever written to it.
    pub fn has_rows(self, folder: &Path) -> bool {
        beneath::length(folder, self.name()).is_some_and(|length| length > 0)
            || rotated(folder, self.name()).is_ok_and(|files| !files.is_empty())
    }
}

/// A line of a table.
#[derive(Debug)]
pub struct TableLine<'a> {
    /// The file that contains it.
    pub path: &'a Path,
    /// Its number there, from 1.
    pub number: u64,
    /// The line without its end; `None` if it is longer than the requested limit.
    pub bytes: Option<&'a [u8]>,
}

/// One file of a table.
#[derive(Debug)]
pub struct Part {
    /// Its number; that of the current file comes after all others.
    pub number: u32,
    /// Where it was found.
    pub path: PathBuf,
    /// The folder of the job and the table's name, for finding it again.
    folder: PathBuf,
    name: &'static str,
    /// The current file, opened at once because it may be renamed.
    live: Option<File>,
}

/// The files of a table in order, the current one last; empty if there is no such table.
///
/// # Errors
///
/// [`OutputError::Io`] names the file.
pub fn parts(folder: &Path, table: Table) -> Result<Vec<Part>, OutputError> {
    let name = table.name();
    let path = folder.join(name);
    let part = |number, file: &str, live| Part {
        number,
        path: folder.join(file),
        folder: folder.to_owned(),
        name,
        live,
    };
    let numbers = || rotated(folder, name).map(|all| all.into_keys().collect::<Vec<u32>>());
    let mut before: Vec<u32> = numbers()?;
    for _ in 0..ATTEMPTS {
        let live = if_there(beneath::open(folder, name));
        let live = live.map_err(IoError::at(&path, "opening"))?;
        // If a crawl has just renamed it, a different file may have been opened.
        let after = numbers()?;
        if before != after {
            before = after;
            continue;
        }
        let next = after.last().map_or(1, |last| last.saturating_add(1));
        let old = after.iter().map(|n| part(*n, &plain_name(name, *n), None));
        let mut parts: Vec<Part> = old.collect();
        parts.extend(live.map(|file| part(next, name, Some(file))));
        return Ok(parts);
    }
    let busy = std::io::Error::other("it keeps being renamed; try again");
    Err(IoError::at(&path, "listing its files")(busy).into())
}

impl Part {
    /// Its text from a byte position on.
    ///
    /// # Errors
    ///
    /// [`OutputError::Io`] names the file.
    pub fn text_from(self, from: u64) -> Result<(PathBuf, Box<dyn BufRead + Send>), OutputError> {
        if let Some(file) = self.live {
            // Rows written from now on are not included.
            let length = file
                .metadata()
                .map_err(IoError::at(&self.path, "measuring"))?
                .len();
            let text = plain(file, &self.path, from)?;
            let text = text.take(length.saturating_sub(from));
            return Ok((self.path, Box::new(text)));
        }
        // It may be compressed between the attempts.
        let [bare, packed] = [false, true].map(|zst| rotated_name(self.name, self.number, zst));
        for name in [&packed, &bare, &packed] {
            let path = self.folder.join(name);
            let file = if_there(beneath::open(&self.folder, name));
            if let Some(file) = file.map_err(IoError::at(&path, "opening"))? {
                let text = if name == &packed {
                    unpacked(file, &path, from)?
                } else {
                    plain(file, &path, from)?
                };
                return Ok((path, text));
            }
        }
        let gone = std::io::Error::from(ErrorKind::NotFound);
        Err(IoError::at(&self.folder.join(&packed), "opening")(gone).into())
    }

    /// Whether it is the current file.
    pub fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// The open file, if it is the current one.
    pub fn into_live(self) -> Option<File> {
        self.live
    }

    /// Its length in bytes, if it is the current one.
    pub fn length(&self) -> Option<u64> {
        Some(self.live.as_ref()?.metadata().ok()?.len())
    }
}

fn plain(mut file: File, path: &Path, from: u64) -> Result<Box<dyn BufRead + Send>, OutputError> {
    file.seek(SeekFrom::Start(from))
        .map_err(IoError::at(path, "reading"))?;
    Ok(Box::new(BufReader::with_capacity(1 << 16, file)))
}

fn unpacked(file: File, path: &Path, from: u64) -> Result<Box<dyn BufRead + Send>, OutputError> {
    let text = zstd::Decoder::new(file).map_err(IoError::at(path, "reading"))?;
    let mut text = BufReader::with_capacity(1 << 16, text);
    let skipped = std::io::copy(&mut text.by_ref().take(from), &mut std::io::sink());
    skipped.map_err(IoError::at(path, "reading"))?;
    Ok(Box::new(text))
}

/// Opens one file of a table by its path, compressed or not.
pub(super) fn open_named(
    folder: &Path,
    name: &str,
) -> Result<Box<dyn BufRead + Send>, OutputError> {
    let path = folder.join(name);
    let file = beneath::open(folder, name).map_err(IoError::at(&path, "opening"))?;
    if name.ends_with(ZST) {
        unpacked(file, &path, 0)
    } else {
        plain(file, &path, 0)
    }
}

/// Calls `visit` for every complete line of a table; a line of more than `max` bytes is
/// passed without its content. If a file cannot be read to its end, reading continues with
/// the next one.
///
/// # Errors
///
/// The first of these errors, after everything is read; [`OutputError::Io`] names the
/// file.
pub fn each_line(
    folder: &Path,
    table: Table,
    max: usize,
    mut visit: impl FnMut(TableLine<'_>),
) -> Result<(), OutputError> {
    let mut first = Ok(());
    for part in parts(folder, table)? {
        let read = part.text_from(0).and_then(|(path, text)| {
            let (_, end) = lines(text, max, |bytes, number, _| {
                let path = &path;
                visit(TableLine {
                    path,
                    number,
                    bytes,
                });
            });
            Ok(end.map_err(IoError::at(&path, "reading"))?)
        });
        first = first.and(read);
    }
    first
}

/// The addresses of a job's page requests in the order in which they ended, with redirects and
/// errors.
///
/// # Errors
///
/// [`OutputError::Io`] names the file, and a line that does not belong in a crawl's log; a
/// folder without a log is an error.
pub fn fetched_pages(folder: &Path) -> Result<Vec<String>, OutputError> {
    #[derive(Deserialize)]
    struct Request {
        kind: TaskKind,
        url: String,
    }
    let wrong = |path: &Path, why: String| {
        OutputError::from(IoError::at(path, "reading")(io::Error::other(why)))
    };
    if !Table::Log.is_there(folder) {
        let why = "there is no crawl log; name the folder of a job".to_owned();
        return Err(wrong(&folder.join(Table::Log.name()), why));
    }
    let (mut urls, mut first) = (Vec::new(), Ok(()));
    each_line(
        folder,
        Table::Log,
        MAX_ROW,
        |line| match serde_json::from_slice::<Request>(line.bytes.unwrap_or_default()) {
            Ok(row) if row.kind == TaskKind::Page => urls.push(row.url),
            Ok(_) => {}
            Err(error) if first.is_ok() => {
                let why = format!("line {} is not of a crawl's log: {error}", line.number);
                first = Err(wrong(line.path, why));
            }
            Err(_) => {}
        },
    )?;
    first.map(|()| urls)
}

/// Calls `each` with every complete line of `text`, or `None` for a line of more than `max`
/// bytes, which is not kept in memory; also with its number, from 1, and with the bytes of
/// `text` up to its end. A last line without an end is skipped, because it is being written.
/// Returns how many there were, and how it ended.
pub fn lines(
    mut text: impl BufRead,
    max: usize,
    mut each: impl FnMut(Option<&[u8]>, u64, u64),
) -> (u64, std::io::Result<()>) {
    let mut line = Vec::new();
    let (mut number, mut read) = (0, 0);
    let mut long = false;
    loop {
        let chunk = match text.fill_buf() {
            Ok([]) => return (number, Ok(())),
            Ok(chunk) => chunk,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return (number, Err(error)),
        };
        let end = chunk.iter().position(|b| *b == b'\n');
        let part = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
        long |= line.len() + part.len() > max;
        if !long {
            line.extend_from_slice(part);
        }
        let used = part.len() + usize::from(end.is_some());
        text.consume(used);
        read += used as u64;
        if end.is_some() {
            number += 1;
            each((!long).then_some(&line), number, read);
            line.clear();
            long = false;
        }
    }
}

/// The existing forms of a renamed file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Forms {
    pub plain: bool,
    pub zst: bool,
}

/// The renamed files of a table, by their numbers.
pub(super) fn rotated(folder: &Path, name: &str) -> Result<BTreeMap<u32, Forms>, OutputError> {
    let (below, file) = name.rsplit_once('/').unwrap_or(("", name));
    let mut found: BTreeMap<u32, Forms> = BTreeMap::new();
    let entries = if_there(beneath::entries(folder, below));
    let entries = entries.map_err(IoError::at(&folder.join(below), "listing"))?;
    for (entry, kind) in entries.into_iter().flatten() {
        let (bare, zst) = match entry.strip_suffix(ZST) {
            Some(bare) => (bare, true),
            None => (entry.as_str(), false),
        };
        if kind != Kind::File {
            continue;
        }
        if let Some(number) = number_of(bare, file) {
            let forms = found.entry(number).or_default();
            forms.zst |= zst;
            forms.plain |= !zst;
        }
    }
    Ok(found)
}

/// The existing files of the table at `name`, as paths below the job's folder, in order.
pub(super) fn files(folder: &Path, name: &str) -> Result<Vec<String>, OutputError> {
    let path = |(number, forms): (u32, Forms)| rotated_name(name, number, forms.zst);
    let live = super::is_there(folder, name)?.then(|| name.to_owned());
    let rotated = rotated(folder, name)?.into_iter();
    Ok(rotated.map(path).chain(live).collect())
}

/// The path of a renamed file of the table at `name`, compressed or not.
pub(super) fn rotated_name(name: &str, number: u32, zst: bool) -> String {
    let plain = plain_name(name, number);
    if zst { plain + ZST } else { plain }
}

fn plain_name(name: &str, number: u32) -> String {
    match name.rsplit_once('.') {
        Some((stem, extension)) => format!("{stem}.{number:05}.{extension}"),
        None => format!("{name}.{number:05}"),
    }
}

/// Whether a path is that of a renamed file of the table at `name`.
pub(super) fn is_rotated(path: &str, name: &str) -> bool {
    number_of(path.strip_suffix(ZST).unwrap_or(path), name).is_some()
}

/// The number in the name of a renamed file of `file`; foreign files have other names.
fn number_of(name: &str, file: &str) -> Option<u32> {
    let (stem, extension) = file.rsplit_once('.')?;
    let number = name.strip_prefix(stem)?.strip_prefix('.')?;
    let number = number.strip_suffix(extension)?.strip_suffix('.')?;
    let number = number.parse().ok().filter(|number| *number > 0)?;
    (name == plain_name(file, number)).then_some(number)
}
