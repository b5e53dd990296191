//! The formats of text: Parquet, JSON lines, plain text. Files are closed at the same size
//! as those of images, and a document is never split.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

use super::super::table::Table;
use super::super::{ExportError, SHARD_BYTES};
use super::columns::{Column, Object, Sample, TEXT};
use super::{TextFormat, TextRequest, paragraphs};
use crate::fs::IoError;
use crate::sanitize;

/// The index of the documents in plain text.
pub(super) const INDEX: &str = "documents.jsonl";

/// Writes one format.
pub(super) trait Writer {
    /// Writes a document.
    fn add(&mut self, sample: &Sample<'_>) -> Result<(), ExportError>;

    /// Writes buffered data, and returns the number of data files.
    fn finish(self: Box<Self>) -> Result<u32, ExportError>;
}

/// The writer of the requested format.
pub(super) fn writer(
    request: &TextRequest<'_>,
    folder: &Path,
    columns: &[Column],
) -> Result<Box<dyn Writer>, ExportError> {
    let columns = columns.to_vec();
    Ok(match request.format {
        TextFormat::Parquet => {
            let names = columns.iter().map(|c| (c.name, c.kind));
            let table = Table::create(folder.join("data"), SHARD_BYTES, names)?;
            Box::new(Columns { table, columns })
        }
        TextFormat::JsonLines => {
            let files = Files::create(folder, "jsonl", request.gzip)?;
            Box::new(JsonLines { files, columns })
        }
        TextFormat::Text => {
            let path = folder.join(INDEX);
            let index = File::create(&path).map_err(IoError::at(&path, "creating"))?;
            Box::new(Plain {
                files: Files::create(folder, "txt", false)?,
                index: BufWriter::new(index),
                path,
                columns: columns.into_iter().filter(|c| c.name != TEXT).collect(),
            })
        }
    })
}

struct Columns {
    table: Table,
    columns: Vec<Column>,
}

impl Writer for Columns {
    fn add(&mut self, sample: &Sample<'_>) -> Result<(), ExportError> {
        let values = self.columns.iter().map(|column| column.value(sample));
        self.table.add(values, None)
    }

    fn finish(self: Box<Self>) -> Result<u32, ExportError> {
        self.table.finish()
    }
}

struct JsonLines {
    files: Files,
    columns: Vec<Column>,
}

impl Writer for JsonLines {
    fn add(&mut self, sample: &Sample<'_>) -> Result<(), ExportError> {
        let line = serde_json::to_string(&Object(&self.columns, sample));
        let line = line.map_err(|e| IoError::at(&self.files.folder, "writing")(e.into()))?;
        self.files.begin()?;
        self.files.write(&[sanitize::json(&line).as_bytes(), b"\n"])
    }

    fn finish(self: Box<Self>) -> Result<u32, ExportError> {
        self.files.finish()
    }
}

/// A paragraph is a line, and an empty line separates two documents, which `spoor train`
/// and many other programs understand.
struct Plain {
    files: Files,
    index: BufWriter<File>,
    path: PathBuf,
    columns: Vec<Column>,
}

impl Writer for Plain {
    fn add(&mut self, sample: &Sample<'_>) -> Result<(), ExportError> {
        let (file, from) = self.files.begin()?;
        if from > 0 {
            self.files.write(&[b"\n"])?;
        }
        let from = from + u64::from(from > 0);
        let mut bytes = 0;
        for paragraph in paragraphs::of(sample.text) {
            for line in paragraph.lines() {
                let line = plain(line);
                let line = line.trim();
                if !line.is_empty() {
                    bytes += line.len() as u64 + 1;
                    self.files.write(&[line.as_bytes(), b"\n"])?;
                }
            }
        }
        let row = Row {
            file,
            from,
            bytes,
            rest: Object(&self.columns, sample),
        };
        let written = serde_json::to_string(&row)
            .map_err(std::io::Error::from)
            .and_then(|row| writeln!(self.index, "{}", sanitize::json(&row)));
        written.map_err(IoError::at(&self.path, "writing"))?;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<u32, ExportError> {
        self.index
            .flush()
            .map_err(IoError::at(&self.path, "writing"))?;
        self.files.finish()
    }
}

/// The position of a document in the plain text, and its data.
#[derive(serde::Serialize)]
struct Row<'a> {
    file: String,
    from: u64,
    bytes: u64,
    #[serde(flatten)]
    rest: Object<'a>,
}

/// A line without invisible control characters, because plain text is often printed to
/// terminals. Line separators become spaces.
fn plain(line: &str) -> String {
    let parts = |c: char| {
        matches!(
            c,
            '\t' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let tame = |c: char| match c {
        c if parts(c) => Some(' '),
        c if sanitize::acts(c) => None,
        c => Some(c),
    };
    line.chars().filter_map(tame).collect()
}

/// Files of one kind in the folder `data`.
struct Files {
    folder: PathBuf,
    extension: &'static str,
    gzip: bool,
    open: Option<(PathBuf, Out)>,
    begun: u32,
    /// Bytes of the open file, before they are compressed.
    bytes: u64,
}

enum Out {
    Plain(BufWriter<File>),
    Gzip(Box<GzEncoder<BufWriter<File>>>),
}

impl Files {
    fn create(folder: &Path, extension: &'static str, gzip: bool) -> Result<Self, ExportError> {
        let folder = folder.join("data");
        std::fs::create_dir(&folder).map_err(IoError::at(&folder, "making the folder"))?;
        Ok(Self {
            folder,
            extension,
            gzip,
            open: None,
            begun: 0,
            bytes: 0,
        })
    }

    /// Opens a new file if there is none or the last one is full. Returns the name and the
    /// size of the open file.
    fn begin(&mut self) -> Result<(String, u64), ExportError> {
        if self.bytes >= SHARD_BYTES {
            self.close()?;
        }
        let name = |number: u32| {
            let gz = if self.gzip { ".gz" } else { "" };
            format!("data/{number:05}.{}{gz}", self.extension)
        };
        if self.open.is_some() {
            return Ok((name(self.begun.saturating_sub(1)), self.bytes));
        }
        let name = name(self.begun);
        let path = self.folder.with_file_name(&name);
        let file = File::create(&path).map_err(IoError::at(&path, "creating"))?;
        let file = BufWriter::new(file);
        let out = if self.gzip {
            Out::Gzip(Box::new(GzEncoder::new(file, Compression::default())))
        } else {
            Out::Plain(file)
        };
        self.begun = self.begun.saturating_add(1);
        self.bytes = 0;
        self.open = Some((path, out));
        Ok((name, 0))
    }

    fn write(&mut self, parts: &[&[u8]]) -> Result<(), ExportError> {
        let Some((path, out)) = &mut self.open else {
            return Ok(());
        };
        for part in parts {
            let written = match out {
                Out::Plain(out) => out.write_all(part),
                Out::Gzip(out) => out.write_all(part),
            };
            written.map_err(IoError::at(path, "writing"))?;
            self.bytes += part.len() as u64;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), ExportError> {
        let Some((path, out)) = self.open.take() else {
            return Ok(());
        };
        let written = match out {
            Out::Plain(mut out) => out.flush(),
            Out::Gzip(out) => out.finish().and_then(|mut out| out.flush()),
        };
        written.map_err(IoError::at(&path, "writing"))?;
        Ok(())
    }

    fn finish(mut self) -> Result<u32, ExportError> {
        self.close()?;
        Ok(self.begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_acts_in_a_plain_line() {
        let line = "a\u{1b}[31m\tb\u{2028}c\u{202e}d\u{0}\u{85}e می\u{200c}خواهم";
        assert_eq!(plain(line), "a[31m b cd e می\u{200c}خواهم");
    }
}
