//! Files of Parquet, read as lines of JSON with the same keys.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{Array, RecordBatch};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Map, Value};

use super::super::BuildError;
use super::super::document::Document;
use super::Push;
use super::lines::raw;
use crate::clock::timestamp;
use crate::fs::IoError;

/// Columns that are read of tables.
const COLUMNS: [&str; 23] = [
    "id",
    "text",
    "content",
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
];

/// Rows that are in memory. A few bytes may unfold to a megabyte in each.
const ROWS: usize = 16;

pub(super) fn each(path: &Path, after: Option<[u64; 3]>, push: Push<'_>) -> Result<(), BuildError> {
    let archive = path.file_name().unwrap_or_default().to_string_lossy();
    let file = crate::fs::open(path).map_err(IoError::at(path, "opening"))?;
    let broken = |error: String| BuildError::Source {
        path: path.to_owned(),
        why: format!("{error}; give files of Parquet or of JSON lines with a column `text`"),
    };
    let builder = ParquetRecordBatchReaderBuilder::try_new(file);
    let builder = builder.map_err(|error| broken(error.to_string()))?;
    let schema = builder.parquet_schema();
    // A column is a root, whatever it has below it.
    let wanted = schema.root_schema().get_fields().iter().enumerate();
    let wanted = wanted.filter(|(_, field)| COLUMNS.contains(&field.name()));
    let mask = ProjectionMask::roots(schema, wanted.map(|(at, _)| at).collect::<Vec<_>>());
    let reader = builder.with_projection(mask).with_batch_size(ROWS).build();
    let reader = reader.map_err(|error| broken(error.to_string()))?;
    let mut number = 0;
    for batch in reader {
        let batch = batch.map_err(|error| broken(error.to_string()))?;
        for row in 0..batch.num_rows() {
            let here = number;
            number += 1;
            if after.is_some_and(|[last, ..]| here <= last) {
                continue;
            }
            let place = Document {
                archive: Some(archive.clone().into_owned()),
                offset: Some(here),
                url: format!("{archive}#{here}"),
                ..Document::default()
            };
            if !push(raw(Ok(map(&batch, row)), place), [here, 0, 0], 0) {
                return Ok(());
            }
        }
    }
    Ok(())
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
