//! The formats of text: Parquet, JSON lines, plain text. Files are closed at the same size
//! as those of images, and a document is never split.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use super::super::files::{Files, Packing};
use super::super::table::Table;
use super::super::{ExportError, SHARD_BYTES};
use super::columns::{Column, Object, Sample, TEXT};
use super::{TextFormat, TextRequest, paragraphs};
use crate::fs::IoError;
use crate::sanitize;

/// The index of the documents in plain text.
pub(super) const INDEX: &str = "documents.jsonl";

/// The folder of the data files.
const DATA: &str = "data";

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
            let table = Table::create(folder.join(DATA), SHARD_BYTES, names)?;
            Box::new(Columns { table, columns })
        }
        TextFormat::JsonLines => {
            let packing = if request.gzip {
                Packing::Gzip
            } else {
                Packing::Plain
            };
            Box::new(JsonLines {
                files: Files::create(folder.join(DATA), "jsonl", packing, SHARD_BYTES)?,
                path: folder.join(DATA),
                columns,
            })
        }
        TextFormat::Text => {
            let path = folder.join(INDEX);
            let index = File::create(&path).map_err(IoError::at(&path, "creating"))?;
            Box::new(Plain {
                files: Files::create(folder.join(DATA), "txt", Packing::Plain, SHARD_BYTES)?,
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
    path: PathBuf,
    columns: Vec<Column>,
}

impl Writer for JsonLines {
    fn add(&mut self, sample: &Sample<'_>) -> Result<(), ExportError> {
        let line = serde_json::to_string(&Object(&self.columns, sample));
        let line = line.map_err(|e| IoError::at(&self.path, "writing")(e.into()))?;
        self.files.begin()?;
        let line = sanitize::json(&line);
        Ok(self.files.write(&[line.as_bytes(), b"\n"])?)
    }

    fn finish(self: Box<Self>) -> Result<u32, ExportError> {
        Ok(self.files.finish()?)
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
            file: format!("{DATA}/{file}"),
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
        Ok(self.files.finish()?)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_acts_in_a_plain_line() {
        let line = "a\u{1b}[31m\tb\u{2028}c\u{202e}d\u{0}\u{85}e می\u{200c}خواهم";
        assert_eq!(plain(line), "a[31m b cd e می\u{200c}خواهم");
    }
}
