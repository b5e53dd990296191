//! A cell in a file: how it gets from one machine to another.
//!
//! The file begins with a line that names the format, the cell and how many there are. Pieces
//! follow, each a length and a zstd frame of records as in
//! [`changes`](crate::frontier::store::changes); a length of 0 ends them. Then come how
//! many records there were and the xxh3 digest of all of them, so that a file that was cut off
//! or damaged is never taken for a whole cell.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::ops::ControlFlow;
use std::path::Path;

use xxhash_rust::xxh3::Xxh3;

use super::{Cells, CellsError};
use crate::frontier::cell::CellId;
use crate::frontier::store::Readable;
use crate::frontier::store::changes::{push_write, take_write};
use crate::fs::atomic::{Durability, Unfinished};

/// The first line, before the numbers.
const FORMAT: &str = "spoor cell 1";
/// The longest first line, in bytes.
const LONGEST_LINE: u64 = 64;
/// Bytes of records in a piece, and the most that are read of one.
const PIECE: usize = if cfg!(test) { 500 } else { 1 << 20 };
const MOST: u64 = 64 << 20;
/// The level of compression.
const LEVEL: i32 = 1;

/// What closes a file.
#[derive(Default)]
struct Sum {
    records: u64,
    digest: Xxh3,
}

impl Sum {
    fn bytes(&self) -> [u8; 16] {
        let both = (u128::from(self.records) << 64) | u128::from(self.digest.digest());
        both.to_be_bytes()
    }
}

impl Cells {
    /// Writes a cell to a file, as of the last commit, without what all cells share. Where the cell is open, whoever reads the
    /// file takes it for one that was not closed in good order, and keeps its distance from the
    /// hosts.
    ///
    /// # Errors
    /// [`CellsError::Io`]; no file is left then. [`CellsError::Leaving`] while the cell is being
    /// deleted.
    pub fn export_cell(&self, cell: CellId, file: &Path) -> Result<(), CellsError> {
        let shared = self.shared()?;
        self.must_exist(cell)?;
        if self.sweep.is_leaving(cell) {
            return Err(CellsError::Leaving(cell));
        }
        let failed = |source| CellsError::Io {
            path: file.to_owned(),
            source,
        };
        let mut part = file.as_os_str().to_owned();
        part.push(".part");
        let mut unfinished = Unfinished::begin_at(Path::new(&part), file).map_err(failed)?;
        let mut out = BufWriter::new(unfinished.file());
        let cells = self.cells.number();
        writeln!(out, "{FORMAT} {} of {cells}", cell.number()).map_err(failed)?;
        let mut sum = Sum::default();
        let mut raw = Vec::new();
        let mut broken = None;
        shared
            .snapshot()
            .scan(&cell.space(), &[], &mut |key, value| {
                let key = key.get(cell.space().len()..).unwrap_or_default();
                push_write(&mut raw, key, Some(value));
                sum.records += 1;
                if raw.len() >= PIECE {
                    broken = piece_out(&mut out, &mut raw, &mut sum).err();
                }
                match broken {
                    None => ControlFlow::Continue(()),
                    Some(_) => ControlFlow::Break(()),
                }
            })?;
        if let Some(source) = broken {
            return Err(failed(source));
        }
        close(&mut out, &mut raw, &mut sum).map_err(failed)?;
        drop(out);
        unfinished.put(Durability::Synced).map_err(failed)
    }

    /// Reads a cell from a file into its place, which must be empty. Where it fails or the
    /// process dies, what was read is deleted again by [`Cells::sweep`].
    ///
    /// # Errors
    /// [`CellsError::File`] where the file holds no cell of a store with so many cells, or is
    /// damaged; [`CellsError::Present`] where the cell is here already.
    pub fn import_cell(&mut self, file: &Path) -> Result<CellId, CellsError> {
        let failed = |source| CellsError::Io {
            path: file.to_owned(),
            source,
        };
        let wrong = |why: String| CellsError::File {
            path: file.to_owned(),
            why,
        };
        let mut input = BufReader::new(crate::fs::open(file).map_err(failed)?);
        let line = first_line(&mut input).map_err(failed)?;
        let (cell, of) = numbers(&line).ok_or_else(|| {
            wrong("this is not a cell of a frontier; name a file that was exported".to_owned())
        })?;
        let own = self.cells.number();
        let cell = self.cells.cell(cell).filter(|_| of == own).ok_or_else(|| {
            wrong(format!(
                "it holds a cell of {of}, and this frontier has {own}, so other hosts belong to \
                 it; import it into a frontier with {of} cells"
            ))
        })?;
        let mut load = self.begin_load(&BTreeSet::from([cell]))?;
        let mut sum = Sum::default();
        while let Some(raw) = piece_in(&mut input).map_err(failed)? {
            sum.digest.update(&raw);
            let mut rest = raw.as_slice();
            while !rest.is_empty() {
                let Some(((key, Some(value)), left)) = take_write(rest) else {
                    return Err(wrong(damaged("a record is cut off")));
                };
                load.write(&[&cell.space(), key].concat(), Some(value))?;
                sum.records += 1;
                rest = left;
            }
        }
        let mut stored = [0; 16];
        input.read_exact(&mut stored).map_err(failed)?;
        if stored != sum.bytes() {
            return Err(wrong(damaged("its digest is another one")));
        }
        self.end_load(load)?;
        Ok(cell)
    }
}

fn damaged(why: &str) -> String {
    format!("{why}; the file is damaged: export the cell again")
}

/// Writes a piece, and empties it.
fn piece_out(out: &mut dyn Write, raw: &mut Vec<u8>, sum: &mut Sum) -> std::io::Result<()> {
    sum.digest.update(raw);
    let packed = zstd::bulk::compress(raw, LEVEL)?;
    let length = u32::try_from(packed.len()).map_err(std::io::Error::other)?;
    out.write_all(&length.to_be_bytes())?;
    out.write_all(&packed)?;
    raw.clear();
    Ok(())
}

/// Writes the last piece and what closes a file.
fn close(out: &mut dyn Write, raw: &mut Vec<u8>, sum: &mut Sum) -> std::io::Result<()> {
    if !raw.is_empty() {
        piece_out(out, raw, sum)?;
    }
    out.write_all(&0_u32.to_be_bytes())?;
    out.write_all(&sum.bytes())?;
    out.flush()
}

/// Reads a piece; `None` behind the last one.
fn piece_in(input: &mut dyn Read) -> std::io::Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let length = u64::from(u32::from_be_bytes(length));
    if length == 0 {
        return Ok(None);
    }
    let mut raw = Vec::new();
    let decoder = zstd::Decoder::new(input.take(length))?;
    decoder.take(MOST + 1).read_to_end(&mut raw)?;
    if raw.len() as u64 > MOST {
        let why = format!("a piece has more than {MOST} bytes");
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, why));
    }
    Ok(Some(raw))
}

/// The bytes up to the end of the first line, at most so many as one may have.
fn first_line(input: &mut dyn BufRead) -> std::io::Result<Vec<u8>> {
    let mut line = Vec::new();
    input.take(LONGEST_LINE).read_until(b'\n', &mut line)?;
    line.pop_if(|last| *last == b'\n');
    Ok(line)
}

/// The numbers of a first line: the cell, and how many there are.
fn numbers(line: &[u8]) -> Option<(u16, u16)> {
    let text = std::str::from_utf8(line).ok()?;
    let (cell, of) = text.strip_prefix(FORMAT)?.split_once(" of ")?;
    Some((cell.trim().parse().ok()?, of.parse().ok()?))
}
