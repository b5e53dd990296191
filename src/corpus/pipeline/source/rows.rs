//! Reads Parquet files as lines of JSON with the same keys.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{Array, RecordBatch};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Map, Value};

use super::{Push, lines};
use crate::clock::timestamp;
use crate::fs::IoError;
use crate::tool_error::ToolError;

/// The columns that are read from tables.
const COLUMNS: &[&str] = &[
    "id",
    "text",
    "content",
    "block_kinds",
    "block_offsets",
    "image_urls",
    "image_blocks",
    "url",
    "title",
    "fetched",
    "timestamp",
    "date",
    "published",
    "modified",
    "declared_language",
    "lang",
    "charset_declared",
    "charset_used",
    "mime",
    "authors",
    "licences",
    "noindex",
    "noai",
    "noml",
    "tdm_reservation",
    "tdm_policy",
    "content_signals",
    "noimageindex",
    "noimageai",
    "noarchive",
    "unavailable_after",
    "rsl_prohibits",
];

/// The number of rows that are decoded at once. A few bytes may decompress to a megabyte in
/// each.
const ROWS: usize = 16;
/// The most memory of the process that decodes: a file can declare any length for a page, a
/// dictionary, and the [`ROWS`] rows decoded from them.
const MEMORY: u64 = 1 << 30;
/// The maximum length of that process's error message.
const MAX_WORDS: u64 = 8 << 10;

/// The hidden command of the process that decodes.
const WORKER: &str = "parquet-worker";

pub(super) fn each(path: &Path, after: Option<[u64; 3]>, push: Push<'_>) -> Result<(), ToolError> {
    // Reports a missing file before another process does.
    drop(crate::fs::open(path).map_err(IoError::at(path, "opening"))?);
    let mut rows = Rows::of(path).map_err(IoError::at(path, "starting a process for"))?;
    let mut is_wanted = true;
    lines::of_reader(path, &mut *rows.lines, |here, line| {
        let is_known = after.is_some_and(|[last, ..]| here <= last);
        is_wanted = is_known || push(lines::raw(path, here, line), [here, 0, 0], 0);
        Ok(is_wanted)
    })?;
    if !is_wanted {
        return Ok(());
    }
    rows.end().map_err(|why| ToolError::at(path, why))
}

/// Prints the rows of a Parquet file as lines of JSON, after limiting this process: the work of
/// the command `parquet-worker`.
///
/// # Errors
///
/// What is wrong with the file, in words.
pub fn print_rows(path: &Path) -> Result<(), String> {
    crate::limit::this_process(MEMORY, None).map_err(|error| error.to_string())?;
    let mut out = BufWriter::new(io::stdout().lock());
    print(path, &mut out)?;
    out.flush().map_err(|error| error.to_string())
}

fn print(path: &Path, out: &mut dyn Write) -> Result<(), String> {
    let broken = |error: &dyn std::fmt::Display| {
        format!("{error}; give files of Parquet or of JSON lines with a column `text`")
    };
    let file = crate::fs::open(path).map_err(|error| broken(&error))?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|e| broken(&e))?;
    let schema = builder.parquet_schema();
    // Only roots count as columns, not the fields below them.
    let wanted = schema.root_schema().get_fields().iter().enumerate();
    let wanted = wanted.filter(|(_, field)| COLUMNS.contains(&field.name()));
    let mask = ProjectionMask::roots(schema, wanted.map(|(at, _)| at).collect::<Vec<_>>());
    let reader = builder.with_projection(mask).with_batch_size(ROWS).build();
    for batch in reader.map_err(|error| broken(&error))? {
        let batch = batch.map_err(|error| broken(&error))?;
        for row in 0..batch.num_rows() {
            let written = serde_json::to_writer(&mut *out, &map(&batch, row));
            written.map_err(|error| error.to_string())?;
            out.write_all(b"\n").map_err(|error| error.to_string())?;
        }
    }
    Ok(())
}

/// The rows of a file, printed by another process.
struct Rows {
    lines: Box<dyn BufRead>,
    process: Option<Child>,
}

impl Rows {
    fn of(path: &Path) -> io::Result<Self> {
        if cfg!(test) {
            // Test programs have no such command.
            let mut lines = Vec::new();
            print(path, &mut lines).map_err(io::Error::other)?;
            return Ok(Self {
                lines: Box::new(io::Cursor::new(lines)),
                process: None,
            });
        }
        let mut process = Command::new(std::env::current_exe()?)
            .args([OsStr::new(WORKER), path.as_os_str()])
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let lines: Box<dyn BufRead> = match process.stdout.take() {
            Some(out) => Box::new(BufReader::new(out)),
            None => Box::new(io::empty()),
        };
        Ok(Self {
            lines,
            process: Some(process),
        })
    }

    /// Waits for the end of the process; an error says why it failed.
    fn end(mut self) -> Result<(), String> {
        let Some(mut process) = self.process.take() else {
            return Ok(());
        };
        let mut words = Vec::new();
        if let Some(output) = process.stderr.take() {
            output.take(MAX_WORDS).read_to_end(&mut words).ok();
        }
        let status = process.wait().map_err(|error| error.to_string())?;
        if status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&words);
        if crate::limit::is_of_memory(&words) {
            return Err(format!(
                "its rows take more than {} MiB of memory; write it again with smaller row \
                 groups and pages",
                MEMORY >> 20
            ));
        }
        let words = words.trim().trim_start_matches("spoor: ");
        if words.is_empty() {
            return Err(format!("the process that read it ended with {status}"));
        }
        Err(words.to_owned())
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            process.kill().ok();
            process.wait().ok();
        }
    }
}

/// The texts, lists of texts, flags and times of a row.
fn map(batch: &RecordBatch, row: usize) -> Map<String, Value> {
    let mut map = Map::new();
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        if let Some(value) = value(column.as_ref(), row) {
            map.insert(field.name().clone(), value);
        }
    }
    map
}

fn value(column: &dyn Array, row: usize) -> Option<Value> {
    if column.is_null(row) {
        return None;
    }
    if let Some(flags) = column.as_boolean_opt() {
        return Some(Value::Bool(flags.value(row)));
    }
    if let Some(lists) = column.as_list_opt::<i32>() {
        let list = lists.value(row);
        let texts = (0..list.len()).filter_map(|at| text(list.as_ref(), at));
        return Some(Value::Array(texts.map(Value::String).collect()));
    }
    text(column, row).map(Value::String)
}

fn text(column: &dyn Array, row: usize) -> Option<String> {
    if column.is_null(row) {
        return None;
    }
    if let Some(texts) = column.as_string_opt::<i32>() {
        return Some(texts.value(row).to_owned());
    }
    if let Some(texts) = column.as_string_opt::<i64>() {
        return Some(texts.value(row).to_owned());
    }
    if let Some(texts) = column.as_string_view_opt() {
        return Some(texts.value(row).to_owned());
    }
    let times = column.as_primitive_opt::<TimestampMillisecondType>()?;
    Some(timestamp(u64::try_from(times.value(row)).ok()?))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, StringArray};
    use parquet::arrow::ArrowWriter;
    use parquet::basic::Compression;
    use parquet::file::properties::WriterProperties;

    use super::*;

    #[test]
    fn files_in_the_compressions_of_others_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let texts: Vec<String> = (0..50).map(|n| format!("The text of row {n}.")).collect();
        let column: ArrayRef = Arc::new(StringArray::from(texts.clone()));
        let batch = RecordBatch::try_from_iter([("text", column)]).unwrap();
        for compression in [
            Compression::UNCOMPRESSED,
            Compression::SNAPPY,
            Compression::GZIP(Default::default()),
            Compression::LZ4,
            Compression::LZ4_RAW,
            Compression::ZSTD(Default::default()),
        ] {
            let path = folder.path().join("texts.parquet");
            let properties = WriterProperties::builder().set_compression(compression);
            let file = std::fs::File::create(&path).unwrap();
            let mut writer =
                ArrowWriter::try_new(file, batch.schema(), Some(properties.build())).unwrap();
            writer.write(&batch).unwrap();
            writer.close().unwrap();
            let mut read = Vec::new();
            each(&path, None, &mut |raw, _, _| {
                read.push(format!("{raw:?}"));
                true
            })
            .unwrap();
            assert_eq!(read.len(), texts.len(), "{compression:?}");
            for (row, text) in read.iter().zip(&texts) {
                assert!(row.contains(text), "{compression:?}: {row}");
            }
        }
    }
}
