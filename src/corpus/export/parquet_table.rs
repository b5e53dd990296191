//! Parquet files; an image is a struct of bytes and path and marked as an image for
//! Hugging Face `datasets`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, Float64Builder, Int64Builder, ListBuilder, StringBuilder, StructBuilder,
};
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
    StructArray, TimestampMillisecondArray,
};
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use super::columns::ImageSample;
use super::{SHARD_BYTES, SampleWriter};
use crate::columns::{ColumnKind, ColumnValue, DataColumn};
use crate::fs::IoError;
use crate::tool_error::ToolError;

/// Rows are collected up to this many bytes or rows.
const BATCH_BYTES: usize = 8 << 20;
const BATCH_ROWS: usize = if cfg!(test) { 4 } else { 256 };

/// A row group is closed at this size; the writer holds one in memory.
const GROUP_BYTES: usize = 64 << 20;

/// The images of an export with their columns.
pub(super) struct Pictures {
    columns: Vec<DataColumn<ImageSample>>,
    table: Table,
}

impl Pictures {
    pub(super) fn create(
        folder: &Path,
        columns: Vec<DataColumn<ImageSample>>,
    ) -> Result<Self, ToolError> {
        let table = Table::create(folder.join("data"), SHARD_BYTES, &columns)?;
        Ok(Self { columns, table })
    }
}

impl SampleWriter for Pictures {
    fn add(&mut self, sample: &ImageSample, bytes: Option<&[u8]>) -> Result<(), ToolError> {
        let values = self.columns.iter().map(|column| column.value(sample));
        self.table.add(values, bytes)
    }

    fn finish(self: Box<Self>) -> Result<(), ToolError> {
        self.table.finish().map(drop)
    }
}

/// Rows of columns in files of one size, in the folder `data`.
pub(crate) struct Table {
    folder: PathBuf,
    limit: u64,
    kinds: Vec<ColumnKind>,
    schema: Arc<Schema>,
    open: Option<TableShard>,
    begun: u32,
    /// By column, the rows not yet written.
    rows: Vec<Vec<ColumnValue>>,
    images: Vec<Option<Vec<u8>>>,
    held: usize,
}

struct TableShard {
    path: PathBuf,
    out: ArrowWriter<File>,
}

impl Table {
    /// Creates the folder. Files are closed at `limit` bytes.
    pub(crate) fn create<S>(
        folder: PathBuf,
        limit: u64,
        columns: &[DataColumn<S>],
    ) -> Result<Self, ToolError> {
        // A folder with only Parquet files, so that it can be read as a whole.
        std::fs::create_dir(&folder).map_err(IoError::at(&folder, "making the folder"))?;
        let (fields, kinds): (Vec<Field>, Vec<ColumnKind>) = columns
            .iter()
            .map(|column| {
                (
                    Field::new(&*column.name, data_type(column.kind), true),
                    column.kind,
                )
            })
            .unzip();
        let schema = Schema::new(fields);
        let mut metadata = std::collections::HashMap::new();
        if kinds.contains(&ColumnKind::Image) {
            // Columns not named here have their declared type.
            let features = r#"{"info": {"features": {"image": {"_type": "Image"}}}}"#;
            metadata.insert("huggingface".to_owned(), features.to_owned());
        }
        if kinds.contains(&ColumnKind::Pictures) {
            let features = r#"{"info": {"features": {"images": [{"_type": "Image"}]}}}"#;
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

    fn write_batch(&mut self) -> Result<(), ToolError> {
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

    fn begin(&mut self) -> Result<TableShard, ToolError> {
        let path = self.folder.join(format!("{:05}.parquet", self.begun));
        self.begun = self.begun.saturating_add(1);
        let file = File::create(&path).map_err(IoError::at(&path, "creating"))?;
        // Images are compressed already, and their bytes are not searched for.
        let mut properties =
            WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default()));
        for path in [
            &["image", "bytes"][..],
            &["images", "list", "item", "bytes"],
        ] {
            let path: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
            let image = ColumnPath::from(path);
            properties = properties
                .set_column_compression(image.clone(), Compression::UNCOMPRESSED)
                .set_column_dictionary_enabled(image.clone(), false)
                .set_column_statistics_enabled(image, EnabledStatistics::None);
        }
        let properties = properties.build();
        let out = ArrowWriter::try_new(file, self.schema.clone(), Some(properties))
            .map_err(|e| IoError::at(&path, "creating")(std::io::Error::other(e)))?;
        Ok(TableShard { path, out })
    }

    /// Adds a row with a value for each column, and the bytes of its image.
    pub(crate) fn add(
        &mut self,
        values: impl Iterator<Item = ColumnValue>,
        image: Option<&[u8]>,
    ) -> Result<(), ToolError> {
        for (value, values) in values.zip(&mut self.rows) {
            self.held += match &value {
                ColumnValue::Text(Some(text)) => text.len(),
                ColumnValue::Parts(parts) => parts.iter().flatten().map(String::len).sum(),
                ColumnValue::Pictures(all) => all.iter().flatten().map(|(_, b)| b.len()).sum(),
                _ => 0,
            };
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
    pub(crate) fn finish(mut self) -> Result<u32, ToolError> {
        self.write_batch()?;
        self.open.take().map_or(Ok(()), close)?;
        Ok(self.begun)
    }
}

fn close(shard: TableShard) -> Result<(), ToolError> {
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

fn data_type(kind: ColumnKind) -> DataType {
    match kind {
        ColumnKind::Image => DataType::Struct(image_fields()),
        ColumnKind::Text => DataType::Utf8,
        ColumnKind::Time => DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
        ColumnKind::Whole => DataType::Int64,
        ColumnKind::Number => DataType::Float64,
        ColumnKind::Flag => DataType::Boolean,
        ColumnKind::Texts => list(DataType::Utf8),
        ColumnKind::Numbers => list(DataType::Float64),
        ColumnKind::Wholes => list(DataType::Int64),
        ColumnKind::Parts => list(DataType::Utf8),
        ColumnKind::Pictures => list(DataType::Struct(image_fields())),
    }
}

/// Lists of images.
fn pictures(values: impl Iterator<Item = ColumnValue>) -> ArrayRef {
    let mut lists = ListBuilder::new(StructBuilder::from_fields(image_fields(), 0));
    for value in values {
        let ColumnValue::Pictures(all) = value else {
            lists.append(false);
            continue;
        };
        for picture in all {
            let (path, bytes) =
                picture.map_or((None, None), |(path, bytes)| (Some(path), Some(bytes)));
            let structs = lists.values();
            // The builders are those of the fields.
            if let Some(builder) = structs.field_builder::<BinaryBuilder>(0) {
                builder.append_option(bytes.as_deref());
            }
            if let Some(builder) = structs.field_builder::<StringBuilder>(1) {
                builder.append_option(path.as_deref());
            }
            structs.append(path.is_some());
        }
        lists.append(true);
    }
    Arc::new(lists.finish())
}

/// The values of a column; one of another type counts as absent.
fn array(kind: ColumnKind, values: Vec<ColumnValue>, images: &[Option<Vec<u8>>]) -> ArrayRef {
    let values = values.into_iter();
    macro_rules! given {
        ($kind:ident) => {
            values.map(|value| match value {
                ColumnValue::$kind(given) => given,
                _ => None,
            })
        };
    }
    macro_rules! lists {
        ($kind:ident, $builder:expr, $item:expr) => {{
            let mut lists = ListBuilder::new($builder);
            for value in values {
                match value {
                    ColumnValue::$kind(all) => lists.append_value(all.into_iter().map($item)),
                    _ => lists.append_null(),
                }
            }
            Arc::new(lists.finish())
        }};
    }
    let whole = |number: u64| i64::try_from(number).ok();
    match kind {
        ColumnKind::Image => {
            let bytes = BinaryArray::from_iter(images.iter().map(Option::as_deref));
            let paths = StringArray::from_iter(given!(Text));
            let parts: Vec<ArrayRef> = vec![Arc::new(bytes), Arc::new(paths)];
            Arc::new(StructArray::new(image_fields(), parts, None))
        }
        ColumnKind::Text => Arc::new(StringArray::from_iter(given!(Text))),
        ColumnKind::Time => {
            let time = |text: String| text.parse::<jiff::Timestamp>().ok();
            let times = given!(Text).map(|text| text.and_then(time));
            let times = times.map(|time| time.map(jiff::Timestamp::as_millisecond));
            Arc::new(TimestampMillisecondArray::from_iter(times).with_timezone("UTC"))
        }
        ColumnKind::Whole => {
            let numbers = given!(Whole).map(|number| number.and_then(whole));
            Arc::new(Int64Array::from_iter(numbers))
        }
        ColumnKind::Number => Arc::new(Float64Array::from_iter(given!(Number))),
        ColumnKind::Flag => Arc::new(BooleanArray::from_iter(given!(Flag))),
        ColumnKind::Texts => lists!(Texts, StringBuilder::new(), Some),
        ColumnKind::Numbers => lists!(Numbers, Float64Builder::new(), Some),
        ColumnKind::Wholes => lists!(Wholes, Int64Builder::new(), whole),
        ColumnKind::Parts => lists!(Parts, StringBuilder::new(), |part| part),
        ColumnKind::Pictures => pictures(values),
    }
}
