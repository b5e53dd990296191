//! Texts of pages, copied piece by piece in the order in which rows name them.

use std::fs::File;
use std::io::{BufRead, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::bufread::GzDecoder;

use super::super::TextPlace;
use super::super::output::{Form, Open, Output};
use super::super::segments::{Naming, Segment};
use super::{MergeError, Part};
use crate::fs::beneath;
use crate::fs::packed;
use crate::fs::tracked::Tracked;

/// The longest piece, compressed and not, in bytes; pages are limited to far less.
const MAX_PIECE: u64 = 64 << 20;

/// The pieces of one output.
pub(super) struct Texts<'p> {
    folder: &'static str,
    out: Open,
    sources: Vec<Source<'p>>,
}

/// The files of one part.
struct Source<'p> {
    part: &'p Part,
    folder: &'static str,
    files: Vec<Segment>,
    /// The file that comes next, and how many bytes of it were copied.
    at: usize,
    done: u64,
    /// That file, or another one of which a row names a piece.
    open: Option<(usize, File)>,
    /// The bytes that cannot be read and that no row has named.
    left_out: u64,
}

/// What a piece is packed as.
#[derive(Debug, Clone, Copy)]
enum Packing {
    Gzip,
    Zstd,
}

impl<'p> Texts<'p> {
    pub fn of(
        output: &'static dyn Output,
        parts: &'p [Part],
        into: &Path,
    ) -> Result<Self, MergeError> {
        let (folder, naming) = match output.form() {
            Form::Pieces { folder, naming } => (folder, naming),
            Form::Lines(name) => (name, Naming::Numbered("")),
        };
        let mut sources = Vec::new();
        for part in parts {
            let below = part.folder.join(folder);
            let files = if below.is_dir() {
                naming.list(&below).map_err(|error| part.wrong(error))?
            } else {
                Vec::new()
            };
            sources.push(Source {
                part,
                folder,
                files,
                at: 0,
                done: 0,
                open: None,
                left_out: 0,
            });
        }
        Ok(Self {
            folder,
            out: Open::at(output, into, None)?,
            sources,
        })
    }

    /// Copies the piece that a row of a part names, and what is before it in its file and was
    /// not copied yet. The outer error is one of the row.
    pub fn copy(
        &mut self,
        part: usize,
        place: &TextPlace,
    ) -> Result<Result<TextPlace, MergeError>, String> {
        let name = format!("{}/{}", self.folder, place.file);
        let gone = || format!("it names {name}, which is missing");
        let source = self.sources.get_mut(part).ok_or_else(gone)?;
        let of_name = |segment: &Segment| segment.name == place.file;
        let at = source.files.iter().position(of_name).ok_or_else(gone)?;
        let end = place.from.checked_add(place.bytes);
        let end = end.filter(|_| place.bytes > 0 && place.bytes <= MAX_PIECE);
        let end = end.ok_or("the place of its text cannot be one")?;
        Ok(source.put(at, place.from, end, &mut self.out))
    }

    /// Copies what no row has named. Returns the bytes that were left out because they cannot
    /// be read.
    pub fn finish(mut self) -> Result<u64, MergeError> {
        for source in &mut self.sources {
            let end = source.files.len();
            source.skip_to(end, 0, &mut self.out)?;
        }
        Ok(self.sources.iter().map(|source| source.left_out).sum())
    }
}

impl Source<'_> {
    /// Copies the piece from `from` to `end` of a file.
    fn put(
        &mut self,
        at: usize,
        from: u64,
        end: u64,
        out: &mut Open,
    ) -> Result<TextPlace, MergeError> {
        // A row that was moved by hand may name what was copied before.
        let is_ahead = (at, from) >= (self.at, self.done);
        if is_ahead {
            self.skip_to(at, from, out)?;
        }
        let name = self.name_of(at);
        let part = self.part;
        let mut file = self.opened(at, from)?;
        let bytes = usize::try_from(end - from).unwrap_or(usize::MAX);
        let mut piece = vec![0; bytes];
        file.read_exact(&mut piece).map_err(|error| {
            if error.kind() == std::io::ErrorKind::UnexpectedEof {
                let length = file.metadata().map_or(0, |about| about.len());
                let why = format!("it ends at byte {length}, but the log names bytes up to {end}");
                part.damaged(&name, why)
            } else {
                part.unread(&name, "reading")(error)
            }
        })?;
        let mut text = piece.as_slice();
        let whole = unpack(&mut text, packing(&name));
        if let Err(why) = whole.and_then(|()| match text {
            [] => Ok(()),
            _ => Err("there is more than one text".to_owned()),
        }) {
            let why = format!("the text at byte {from}, which the log names, is damaged: {why}");
            return Err(part.damaged(&name, why));
        }
        if is_ahead {
            self.done = end;
        }
        Ok(out.append(&piece)?)
    }

    /// Copies all up to the byte `from` of the file `at` that no row has named.
    fn skip_to(&mut self, at: usize, from: u64, out: &mut Open) -> Result<(), MergeError> {
        while self.at < at {
            let name = self.name_of(self.at);
            let length = beneath::length(&self.part.folder, &name).unwrap_or(0);
            self.unnamed(length, out)?;
            self.at += 1;
            self.done = 0;
        }
        self.unnamed(from, out)
    }

    /// Copies the pieces from where copying stands up to the byte `to` of the same file.
    fn unnamed(&mut self, to: u64, out: &mut Open) -> Result<(), MergeError> {
        while self.done < to {
            let (name, from) = (self.name_of(self.at), self.done);
            let mut reader = Tracked::new(self.opened(self.at, from)?, from);
            if unpack(&mut reader, packing(&name)).is_err() || reader.at() > to {
                self.left_out += to - from;
                self.done = to;
                tracing::warn!(
                    "{}: {} bytes from byte {from} on are left out: they cannot be read, and \
                     no row of the log names them",
                    self.part.folder.join(&name).display(),
                    to - from
                );
                return Ok(());
            }
            let mut piece = Vec::new();
            let length = reader.at() - from;
            self.opened(self.at, from)?
                .take(length)
                .read_to_end(&mut piece)
                .map_err(self.part.unread(&name, "reading"))?;
            out.append(&piece)?;
            self.done += length;
        }
        Ok(())
    }

    fn name_of(&self, at: usize) -> String {
        let name = self.files.get(at).map_or("", |segment| &segment.name);
        format!("{}/{name}", self.folder)
    }

    /// A file at a byte.
    fn opened(&mut self, at: usize, from: u64) -> Result<File, MergeError> {
        let name = self.name_of(at);
        let read = |error| self.part.unread(&name, "reading")(error);
        let file = match self.open.take() {
            Some((number, file)) if number == at => file,
            _ => beneath::open(&self.part.folder, &name)
                .map_err(self.part.unread(&name, "opening"))?,
        };
        let mut copy = file.try_clone().map_err(read)?;
        copy.seek(SeekFrom::Start(from)).map_err(read)?;
        self.open = Some((at, file));
        Ok(copy)
    }
}

fn packing(name: &str) -> Packing {
    if name.ends_with(".gz") {
        Packing::Gzip
    } else {
        Packing::Zstd
    }
}

/// Reads one piece, and nothing behind it.
fn unpack(from: &mut impl BufRead, packing: Packing) -> Result<(), String> {
    let read = match packing {
        Packing::Gzip => {
            let mut text = GzDecoder::new(from).take(MAX_PIECE + 1);
            std::io::copy(&mut text, &mut std::io::sink())
        }
        Packing::Zstd => packed::of_frame(from, MAX_PIECE).map(|text| text.len() as u64),
    };
    match read {
        Ok(length) if length > MAX_PIECE => Err("it is longer than any text".to_owned()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
