//! The growth of the outputs between two stamps, as ranges of their files, and the places of
//! these ranges in another folder: for checkpoints of a running job.
//!
//! A range identifies its file by the output and a number that never changes, although the
//! file may be renamed or compressed meanwhile. Its bytes are the appended ones: for a table
//! the plain text, even if its file was compressed since.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use super::list::OUTPUTS;
use super::output::{Form, Output, Stamp};
use super::segments::Naming;
use super::{OutputError, Sidecar, log, rows, sidecar};
use crate::fs::IoError;
use crate::fs::atomic::Durability;
use crate::fs::beneath;

/// The number of attempts to find a file that is being renamed.
const ATTEMPTS: usize = 10;

/// The growth of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Growth {
    /// The name of the output.
    pub output: &'static str,
    /// The number of the file.
    pub number: u32,
    /// Its name, if that says more than the number.
    pub file: Option<String>,
    /// The first byte; 0 if the whole file is sent.
    pub from: u64,
    /// The byte after the last one; `None` for the end of a complete file.
    pub to: Option<u64>,
}

impl Growth {
    /// Whether its bytes are already compressed.
    pub fn is_packed(&self) -> bool {
        output(self.output).is_some_and(|output| matches!(output.form(), Form::Pieces { .. }))
    }

    /// Whether these are rows of `images.tsv`.
    pub fn is_of_images(&self) -> bool {
        self.output == log::Images.name()
    }
}

fn output(name: &str) -> Option<&'static dyn Output> {
    OUTPUTS.into_iter().find(|output| output.name() == name)
}

/// How often rows were removed from the outputs before a stamp.
///
/// # Errors
/// [`OutputError::Stamp`].
pub fn generation_of(stamp: &[u8]) -> Result<u64, OutputError> {
    Ok(read(stamp)?.generation)
}

fn read(stamp: &[u8]) -> Result<Stamp, OutputError> {
    match stamp {
        [] => Ok(Stamp::default()),
        bytes => Stamp::read(bytes),
    }
}

/// The growth of the outputs in `folder` from one stamp to a later one; an empty stamp means
/// empty outputs.
///
/// # Errors
/// [`OutputError`] if a stamp or a folder cannot be read.
pub fn growth(folder: &Path, before: &[u8], after: &[u8]) -> Result<Vec<Growth>, OutputError> {
    let (before, after) = (read(before)?, read(after)?);
    let mut all = Vec::new();
    for output in OUTPUTS {
        let (old, new) = (before.of(output), after.of(output));
        for number in old.segment..=new.segment {
            let from = if number == old.segment { old.length } else { 0 };
            let to = (number == new.segment).then_some(new.length);
            // A table that was moved away while the crawl wrote to it starts over.
            let from = if to.is_some_and(|to| to < from) {
                0
            } else {
                from
            };
            if to == Some(from) {
                continue;
            }
            let file = match file_of(output, folder, number)? {
                Found::No => {
                    tracing::warn!(
                        "{}: file {number} of the output `{}` is missing; the checkpoint lacks it",
                        folder.display(),
                        output.name()
                    );
                    continue;
                }
                Found::Numbered => None,
                Found::Named(name) => Some(name),
            };
            all.push(Growth {
                output: output.name(),
                number,
                file,
                from,
                to,
            });
        }
    }
    Ok(all)
}

enum Found {
    No,
    Numbered,
    Named(String),
}

fn file_of(output: &dyn Output, folder: &Path, number: u32) -> Result<Found, OutputError> {
    let Form::Pieces {
        folder: below,
        naming,
    } = output.form()
    else {
        return Ok(Found::Numbered);
    };
    let below = folder.join(below);
    if !below.is_dir() {
        return Ok(Found::No);
    }
    let found = naming.find(&below, number)?;
    Ok(match (found, naming) {
        (None, _) => Found::No,
        (Some(_), Naming::Numbered(_)) => Found::Numbered,
        (Some(segment), Naming::Dated(_)) => Found::Named(segment.name),
    })
}

/// The bytes of a growth.
///
/// # Errors
/// [`OutputError::Io`] names the missing file.
pub fn bytes_of(folder: &Path, growth: &Growth) -> Result<Box<dyn Read + Send>, OutputError> {
    let length = growth
        .to
        .map_or(u64::MAX, |to| to.saturating_sub(growth.from));
    let opened: Box<dyn Read + Send> = match output(growth.output).map(Output::form) {
        Some(Form::Lines(name)) => lines_of(folder, name, growth)?,
        Some(Form::Pieces {
            folder: below,
            naming,
        }) => piece_of(folder, below, naming, growth)?,
        None => Box::new(std::io::empty()),
    };
    Ok(Box::new(opened.take(length)))
}

fn lines_of(
    folder: &Path,
    name: &'static str,
    growth: &Growth,
) -> Result<Box<dyn Read + Send>, OutputError> {
    let number = growth.number.saturating_add(1);
    for _ in 0..ATTEMPTS {
        for zst in [true, false] {
            let rotated = rows::rotated_name(name, number, zst);
            if beneath::is_file(folder, &rotated) {
                match rows::open_named(folder, &rotated) {
                    Ok(mut text) => {
                        let skipped = &mut (&mut text).take(growth.from);
                        std::io::copy(skipped, &mut std::io::sink())
                            .map_err(IoError::at(&folder.join(&rotated), "reading"))?;
                        return Ok(Box::new(text));
                    }
                    Err(OutputError::Io(error)) if error.source.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        let path = folder.join(name);
        let opened = beneath::open(folder, name).map_err(IoError::at(&path, "opening"));
        // It may have been renamed before it was opened.
        if !rows::rotated(folder, name)?.contains_key(&number) {
            let mut file = opened?;
            file.seek(SeekFrom::Start(growth.from))
                .map_err(IoError::at(&path, "reading"))?;
            return Ok(Box::new(file));
        }
    }
    let busy = std::io::Error::other("it keeps being renamed");
    Err(IoError::at(&folder.join(name), "reading")(busy).into())
}

fn piece_of(
    folder: &Path,
    below: &str,
    naming: Naming,
    growth: &Growth,
) -> Result<Box<dyn Read + Send>, OutputError> {
    let inner = folder.join(below);
    let mut tried = None;
    for _ in 0..ATTEMPTS {
        let Some(segment) = naming.find(&inner, growth.number)? else {
            continue;
        };
        let path = inner.join(segment.present());
        match beneath::open_at(&path) {
            // Renamed between the two calls.
            Err(error) if error.kind() == ErrorKind::NotFound => tried = Some((path, error)),
            opened => {
                let mut file = opened.map_err(IoError::at(&path, "opening"))?;
                file.seek(SeekFrom::Start(growth.from))
                    .map_err(IoError::at(&path, "reading"))?;
                return Ok(Box::new(file));
            }
        }
    }
    let gone = || (inner, std::io::Error::from(ErrorKind::NotFound));
    let (path, error) = tried.unwrap_or_else(gone);
    Err(IoError::at(&path, "opening")(error).into())
}

/// The path of a file of an output, below the folder of a job whose outputs end at `stamp`;
/// `None` if there is no such output, or the name is not one of its files.
///
/// # Errors
/// [`OutputError::Stamp`].
pub fn place_of(
    stamp: &[u8],
    name: &str,
    number: u32,
    file: Option<&str>,
) -> Result<Option<String>, OutputError> {
    let stamp = read(stamp)?;
    let Some(output) = output(name) else {
        return Ok(None);
    };
    Ok(match (output.form(), file) {
        (Form::Lines(table), None) if stamp.of(output).segment == number => Some(table.to_owned()),
        (Form::Lines(table), None) => {
            Some(rows::rotated_name(table, number.saturating_add(1), false))
        }
        (Form::Lines(_), Some(_)) => None,
        (Form::Pieces { folder, naming }, None) => {
            let segment = naming.begin(number, &super::segments::Label::default());
            matches!(naming, Naming::Numbered(_)).then(|| format!("{folder}/{}", segment.name))
        }
        (Form::Pieces { folder, naming }, Some(file)) => {
            let segment = naming
                .parse(file)
                .filter(|segment| segment.number == number);
            segment.map(|segment| format!("{folder}/{}", segment.name))
        }
    })
}

/// Adds the images in rows of `images.tsv`, as paths below the job's folder.
pub fn images_in(rows: &[u8], found: &mut BTreeSet<String>) {
    for row in rows.split(|byte| *byte == b'\n') {
        let row = String::from_utf8_lossy(row);
        if let Some((file, _)) = log::file_and_page(&row)
            && super::image_path(file).is_some()
        {
            found.insert(file.to_owned());
        }
    }
}

/// The part of an image in a checkpoint: its present sidecar.
#[derive(Debug)]
pub struct SavedImage {
    /// The path of the sidecar below the job's folder.
    pub name: String,
    /// Its text.
    pub text: String,
    /// The SHA-256 of the image, in hexadecimal.
    pub sha256: String,
    /// The earlier file with the same bytes, to which this one is a link.
    pub same_as: Option<String>,
}

/// The image at `file`, a path below the job's folder; `None` if it no longer has a sidecar.
///
/// # Errors
/// [`OutputError`] if the sidecar cannot be read.
pub fn saved_image(folder: &Path, file: &str) -> Result<Option<SavedImage>, OutputError> {
    let name = sidecar::name_of(file);
    if !super::is_there(folder, &name)? {
        return Ok(None);
    }
    let sidecar = Sidecar::load(folder, file)?;
    Ok(Some(SavedImage {
        text: sidecar.to_text(folder)?,
        name,
        sha256: sidecar.sha256().to_owned(),
        same_as: sidecar.same_as().map(str::to_owned),
    }))
}

/// Recreates the links of those images that are links to earlier ones.
///
/// # Errors
/// [`OutputError`] names the file.
pub fn link_copies(folder: &Path, files: &[String]) -> Result<(), OutputError> {
    for file in files {
        let Some(SavedImage {
            same_as: Some(first),
            ..
        }) = saved_image(folder, file)?
        else {
            continue;
        };
        if super::image_path(&first).is_none() || !super::is_there(folder, &first)? {
            tracing::warn!("{file}: {first}, which it is a copy of, is missing");
            continue;
        }
        if !super::link_whole(folder, &first, file)? {
            let bytes = beneath::read(folder, &first);
            let bytes = bytes.map_err(IoError::at(&folder.join(&first), "reading"))?;
            super::write_whole(folder, file, &bytes, Durability::Later)?;
        }
    }
    Ok(())
}
