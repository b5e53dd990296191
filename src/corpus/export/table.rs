//! Parquet files; an image is a struct of bytes and path and marked as an image for
//! Hugging Face `datasets`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{Float64Builder, Int64Builder, ListBuilder, StringBuilder};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
    StructArray, TimestampMillisecondArray,
};
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use super::columns::{Column, Kind, Sample, Value};
use super::{ExportError, SHARD_BYTES, Writer};
use crate::fs::IoError;

/// Rows are collected up to this many bytes or rows.
const BATCH_BYTES: usize = 8 << 20;
const BATCH_ROWS: usize = if cfg!(test) { 4 } else { 256 };

/// A row group is closed at this size; the writer holds one in memory.
const GROUP_BYTES: usize = 64 << 20;

/// The images of an export with their columns.
pub(super) struct Pictures {
    columns: Vec<Column>,
    table: Table,
}

impl Pictures {
    pub(super) fn create(folder: &Path, columns: Vec<Column>) -> Result<Self, ExportError> {
        let names = columns.iter().map(|c| (c.name.as_ref(), c.kind));
        let table = Table::create(folder.join("data"), SHARD_BYTES, names)?;
        Ok(Self { columns, table })
    }
}

impl Writer for Pictures {
    fn add(&mut self, sample: &Sample<'_>, bytes: Option<&[u8]>) -> Result<(), ExportError> {
        let values = self.columns.iter().map(|column| column.value(sample));
        self.table.add(values, bytes)
    }

    fn finish(self: Box<Self>) -> Result<(), ExportError> {
        self.table.finish().map(drop)
    }
}

/// Rows of columns in files of one size, in the folder `data`.
pub(in crate::corpus) struct Table {
    folder: PathBuf,
    limit: u64,
    kinds: Vec<Kind>,
    schema: Arc<Schema>,
    open: Option<Shard>,
    begun: u32,
    /// By column, the rows not yet written.
    rows: Vec<Vec<Value>>,
    images: Vec<Option<Vec<u8>>>,
    held: usize,
}

struct Shard {
    path: PathBuf,
    out: ArrowWriter<File>,
}

impl Table {
    /// In the folder, which is made. Files are closed at `limit` bytes.
    pub(in crate::corpus) fn create<'a>(
        folder: PathBuf,
        limit: u64,
        columns: impl Iterator<Item = (&'a str, Kind)>,
    ) -> Result<Self, ExportError> {
        // A folder with only Parquet files, so that it can be read as a whole.
        std::fs::create_dir(&folder).map_err(IoError::at(&folder, "making the folder"))?;
        let (fields, kinds): (Vec<Field>, Vec<Kind>) = columns
            .map(|(name, kind)| (Field::new(name, data_type(kind), true), kind))
            .unzip();
        let schema = Schema::new(fields);
        let mut metadata = std::collections::HashMap::new();
        if kinds.contains(&Kind::Image) {
            // Columns not named here have their declared type.
            let features = r#"{"info": {"features": {"image": {"_type": "Image"}}}}"#;
            metadata.insert("huggingface".to_owned(), features.to_owned());
        }
        Ok(Self {
            folder,
            limit,
            rows: kinds.iter().map(|_| Vec::new()).collect(),
            kinds,
            schema: Arc::new(schema.with_metadata(metadata)),
            open: None,
            begun: 0,
            images: Vec::new(),
            held: 0,
        })
    }

    fn write_batch(&mut self) -> Result<(), ExportError> {
        if self.images.is_empty() {
            return Ok(());
        }
        let images = std::mem::take(&mut self.images);
        self.held = 0;
        let arrays: Vec<ArrayRef> = self
            .kinds
            .iter()
            .zip(&mut self.rows)
            .map(|(kind, values)| array(*kind, std::mem::take(values), &images))
            .collect();
        let mut shard = match self.open.take() {
            Some(open) => open,
            None => self.begin()?,
        };
        let written = RecordBatch::try_new(self.schema.clone(), arrays)
            .map_err(Into::into)
            .and_then(|batch| shard.out.write(&batch))
            .and_then(|()| {
                if shard.out.in_progress_size() < GROUP_BYTES {
                    Ok(())
                } else {
                    shard.out.flush()
                }
            });
        written.map_err(|e| IoError::at(&shard.path, "writing")(std::io::Error::other(e)))?;
        let size = shard.out.bytes_written() + shard.out.in_progress_size();
        if size as u64 >= self.limit {
            close(shard)
        } else {
            self.open = Some(shard);
            Ok(())
        }
    }

    fn begin(&mut self) -> Result<Shard, ExportError> {
        let path = self.folder.join(format!("{:05}.parquet", self.begun));
        self.begun = self.begun.saturating_add(1);
        let file = File::create(&path).map_err(IoError::at(&path, "creating"))?;
        // Images are compressed already, and their bytes are not searched for.
        let image = ColumnPath::from(vec!["image".to_owned(), "bytes".to_owned()]);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_column_compression(image.clone(), Compression::UNCOMPRESSED)
            .set_column_dictionary_enabled(image.clone(), false)
            .set_column_statistics_enabled(image, EnabledStatistics::None)
            .build();
        let out = ArrowWriter::try_new(file, self.schema.clone(), Some(properties))
            .map_err(|e| IoError::at(&path, "creating")(std::io::Error::other(e)))?;
        Ok(Shard { path, out })
    }

    /// Adds a row with a value for each column, and the bytes of its image.
    pub(in crate::corpus) fn add(
        &mut self,
        values: impl Iterator<Item = Value>,
        image: Option<&[u8]>,
    ) -> Result<(), ExportError> {
        for (value, values) in values.zip(&mut self.rows) {
            if let Value::Text(Some(text)) = &value {
                self.held += text.len();
            }
            values.push(value);
        }
        self.held += image.map_or(0, <[u8]>::len);
        self.images.push(image.map(<[u8]>::to_vec));
        if self.held >= BATCH_BYTES || self.images.len() >= BATCH_ROWS {
            self.write_batch()
        } else {
            Ok(())
        }
    }

    /// Writes buffered rows, and returns the number of files.
    pub(in crate::corpus) fn finish(mut self) -> Result<u32, ExportError> {
        self.write_batch()?;
        self.open.take().map_or(Ok(()), close)?;
        Ok(self.begun)
    }
}

fn close(shard: Shard) -> Result<(), ExportError> {
    let closed = shard.out.close().map_err(std::io::Error::other);
    closed.map_err(IoError::at(&shard.path, "writing"))?;
    Ok(())
}

fn list(of: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(of, true)))
}

fn image_fields() -> Fields {
    let field = |name, kind| Field::new(name, kind, true);
    vec![
        field("bytes", DataType::Binary),
        field("path", DataType::Utf8),
    ]
    .into()
}

fn data_type(kind: Kind) -> DataType {
    match kind {
        Kind::Image => DataType::Struct(image_fields()),
        Kind::Text => DataType::Utf8,
        Kind::Time => DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        Kind::Whole => DataType::Int64,
        Kind::Number => DataType::Float64,
        Kind::Flag => DataType::Boolean,
        Kind::Texts => list(DataType::Utf8),
        Kind::Numbers => list(DataType::Float64),
        Kind::Wholes => list(DataType::Int64),
    }
}

/// The values of a column; one of another type counts as absent.
fn array(kind: Kind, values: Vec<Value>, images: &[Option<Vec<u8>>]) -> ArrayRef {
    let text = |value: Value| match value {
        Value::Text(text) => text,
        _ => None,
    };
    let values = values.into_iter();
    match kind {
        Kind::Image => {
            let bytes = BinaryArray::from_iter(images.iter().map(Option::as_deref));
            let paths = StringArray::from_iter(values.map(text));
            let parts: Vec<ArrayRef> = vec![Arc::new(bytes), Arc::new(paths)];
            Arc::new(StructArray::new(image_fields(), parts, None))
        }
        Kind::Text => Arc::new(StringArray::from_iter(values.map(text))),
        Kind::Time => {
            let time = |text: String| text.parse::<jiff::Timestamp>().ok();
            let times = values.map(|v| text(v).and_then(time).map(jiff::Timestamp::as_millisecond));
            Arc::new(TimestampMillisecondArray::from_iter(times).with_timezone("UTC"))
        }
        Kind::Whole => Arc::new(Int64Array::from_iter(values.map(|value| match value {
            Value::Whole(number) => number.and_then(|n| i64::try_from(n).ok()),
            _ => None,
        }))),
        Kind::Number => Arc::new(Float64Array::from_iter(values.map(|value| match value {
            Value::Number(number) => number,
            _ => None,
        }))),
        Kind::Flag => Arc::new(BooleanArray::from_iter(values.map(|value| match value {
            Value::Flag(flag) => flag,
            _ => None,
        }))),
        Kind::Texts => {
            let mut lists = ListBuilder::new(StringBuilder::new());
            for value in values {
                match value {
                    Value::Texts(texts) => lists.append_value(texts.into_iter().map(Some)),
                    _ => lists.append_null(),
                }
            }
            Arc::new(lists.finish())
        }
        Kind::Numbers => {
            let mut lists = ListBuilder::new(Float64Builder::new());
            for value in values {
                match value {
                    Value::Numbers(numbers) => lists.append_value(numbers.into_iter().map(Some)),
                    _ => lists.append_null(),
                }
            }
            Arc::new(lists.finish())
        }
        Kind::Wholes => {
            let mut lists = ListBuilder::new(Int64Builder::new());
            for value in values {
                match value {
                    Value::Wholes(numbers) => {
                        let numbers = numbers.into_iter();
                        lists.append_value(numbers.map(|n| i64::try_from(n).ok()));
                    }
                    _ => lists.append_null(),
                }
            }
            Arc::new(lists.finish())
        }
    }
}
