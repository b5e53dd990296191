//! Documents as texts and images in the order of their pages, in the two forms that are loaded for
//! training: Parquet with parallel lists of texts and images (Laurençon et al. 2023, "OBELICS"), and
//! tar files with a sample for each document (Awadalla et al. 2024, "MINT-1T").
//!
//! A crawl's documents name the addresses of images only. The files are joined here, so that an
//! image that came later, or was taken down since, is there or not there in the data set.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::super::document::Document;
use super::super::plan::{Format, ImageFilter, Output, Plan};
use super::FromJobs;
use super::kept::{KeptImage, KeptImages};
use crate::clock;
use crate::columns::{ColumnKind, ColumnValue, DataColumn, TERMS, columns};
use crate::export::parquet_table::Table;
use crate::export::verified;
use crate::export::webdataset::Tars;
use crate::outputs::picture;
use crate::page::{BlockKind, ImageContext, Signal, Terms, TextBlock, Use};
use crate::tool_error::ToolError;

/// A document as a sequence of texts and images.
pub(super) struct InterleavedSample {
    document: Document,
    parts: Vec<SamplePart>,
    /// Images of the document that are not in the sample, each with the reason.
    missing: Vec<MissingImage>,
    /// Where the page stands in an archive.
    record: Option<Value>,
}

/// An item of a sample.
enum SamplePart {
    Text(String),
    Image(Box<SampleImage>),
}

/// An image in a sample.
struct SampleImage {
    url: String,
    /// What is known about it.
    about: Map<String, Value>,
    /// Whether it has words of its own.
    has_words: bool,
    /// How many parts of the document come before it.
    blocks_before: usize,
    /// The extension of its format.
    extension: &'static str,
    /// The folder of the job that kept it, the file and its hash; `None` where only addresses are
    /// written.
    kept: Option<KeptFile>,
    /// Its file, once it is read.
    bytes: Option<Vec<u8>>,
}

/// A file of a job, as its sidecar describes it.
struct KeptFile {
    job: PathBuf,
    file: String,
    sha256: String,
}

/// The most bytes of images in a sample: they are in memory together.
const MAX_SAMPLE_BYTES: usize = if cfg!(test) { 200_000 } else { 64 << 20 };

/// Columns of documents that are not repeated beside the parts of their text.
const LEFT_OUT: [&str; 14] = [
    "text",
    "block_kinds",
    "block_offsets",
    "image_urls",
    "image_blocks",
    "tokens",
    "token_offsets",
    "stems",
    "lemmas",
    "synonyms",
    "tags",
    "copy_spans",
    "entities",
    "entity_names",
];

/// Joins documents with the images that jobs kept.
pub(super) struct SampleJoin {
    images: KeptImages,
    filter: ImageFilter,
}

/// What the interleaved formats of a corpus have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterleavedFigures {
    /// Documents.
    pub documents: u64,
    /// Images in them.
    pub images: u64,
    /// Images with words of their own: a caption, an alt text, a title or a label.
    pub with_words: u64,
    /// Images that were left out, by the reason.
    pub missing: BTreeMap<String, u64>,
}

impl InterleavedFigures {
    fn add(&mut self, sample: &InterleavedSample) {
        self.documents += 1;
        for image in sample.images() {
            self.images += 1;
            self.with_words += u64::from(image.has_words);
        }
        for missing in &sample.missing {
            *self.missing.entry(missing.why.clone()).or_default() += 1;
        }
    }
}

/// An image of a document that is not in its sample.
#[derive(Debug, Serialize)]
struct MissingImage {
    url: String,
    why: String,
    /// How many parts of the document come before it.
    blocks_before: usize,
}

/// The files of the interleaved formats.
pub(super) struct InterleavedFiles {
    filter: ImageFilter,
    figures: InterleavedFigures,
    columns: Vec<DataColumn<InterleavedSample>>,
    about: Vec<DataColumn<InterleavedSample>>,
    table: Option<Table>,
    tars: Option<Tars>,
}

impl SampleJoin {
    /// `None` if no format is interleaved.
    pub(super) fn of(output: &Output, jobs: &FromJobs<'_>) -> Result<Option<Self>, ToolError> {
        if !output.formats.iter().any(|format| format.is_interleaved()) {
            return Ok(None);
        }
        Ok(Some(Self {
            images: KeptImages::of(jobs.folders, jobs.all)?,
            filter: output.images.clone(),
        }))
    }

    /// The sample of a document; `None` if the filter leaves it out.
    pub(super) fn sample(&self, document: &Document) -> Option<InterleavedSample> {
        let mut sample = InterleavedSample {
            parts: Vec::new(),
            missing: Vec::new(),
            record: self.record(document),
            document: document.clone(),
        };
        let mut blocks = document.blocks();
        if blocks.is_empty() && !document.text.is_empty() {
            blocks.push(TextBlock {
                kind: BlockKind::Paragraph,
                text: 0..document.text.len(),
            });
        }
        let images = document.image_urls.iter().zip(&document.image_blocks);
        let mut written = 0;
        let mut text_until = |parts: &mut Vec<SamplePart>, until: usize| {
            let (Some(first), Some(last)) = (blocks.get(written), until.checked_sub(1)) else {
                return;
            };
            let Some(last) = blocks.get(last).filter(|_| until > written) else {
                return;
            };
            let text = document.text.get(first.text.start..last.text.end);
            parts.extend(text.map(|text| SamplePart::Text(text.to_owned())));
            written = until;
        };
        for (url, before) in images {
            let before = usize::try_from(*before)
                .unwrap_or(usize::MAX)
                .min(blocks.len());
            match self.image(document, url) {
                Ok(mut image) => {
                    image.blocks_before = before;
                    text_until(&mut sample.parts, before);
                    sample.parts.push(SamplePart::Image(Box::new(image)));
                }
                Err(why) => sample.missing.push(MissingImage {
                    url: url.to_owned(),
                    why,
                    blocks_before: before,
                }),
            }
        }
        text_until(&mut sample.parts, blocks.len());
        // A document without images needs no reading.
        (sample.images().count() >= self.filter.min_images).then_some(sample)
    }

    /// An image of a document, or why it is left out.
    fn image(&self, document: &Document, url: &str) -> Result<SampleImage, String> {
        let now = clock::now();
        let forbids = |terms: &Terms| terms.forbids(Use::Images, &Signal::ALL, now).join(", ");
        let of_page = document.terms.as_ref().map(forbids).unwrap_or_default();
        if !of_page.is_empty() {
            return Err(format!("forbidden by the page: {of_page}"));
        }
        let found = self.images.find(document.job.as_deref(), url);
        let KeptImage { folder, sidecar } = match found {
            Ok(kept) => kept,
            Err(why)
                if self.filter.addresses
                    && !self.filter.is_choosy()
                    && !["forbidden", "takedown"].contains(&why) =>
            {
                return Ok(SampleImage {
                    url: url.to_owned(),
                    about: [("url".to_owned(), url.into())].into_iter().collect(),
                    has_words: false,
                    blocks_before: 0,
                    extension: "",
                    kept: None,
                    bytes: None,
                });
            }
            Err(why) => return Err(why.to_owned()),
        };
        let info = sidecar.info();
        if info.width < self.filter.min_width || info.height < self.filter.min_height {
            return Err("smaller than wanted".to_owned());
        }
        // Words of other pages may be about other things, and are not taken down with this one.
        let mut contexts = sidecar.contexts().iter();
        let context = contexts.find(|context| context.page.as_str() == document.url);
        let licences = [
            sidecar.terms().licences.as_slice(),
            context.map_or(&[], |context| &context.terms.licences),
        ]
        .concat();
        if self.filter.licensed && licences.is_empty() {
            return Err("no licence is named".to_owned());
        }
        let forbidden = forbids(sidecar.terms());
        if !forbidden.is_empty() {
            return Err(format!("forbidden: {forbidden}"));
        }
        let extension = picture::extensions(&info.format).first().copied();
        let extension = extension.unwrap_or("bin");
        let words = context.and_then(ImageContext::words);
        let mut about: Map<String, Value> = Map::new();
        let mut put = |name: &str, value: Value| {
            if !value.is_null() && value.as_array().is_none_or(|list| !list.is_empty()) {
                about.insert(name.to_owned(), value);
            }
        };
        put("url", url.into());
        put("file", sidecar.file().into());
        put("sha256", sidecar.sha256().into());
        put("width", info.width.into());
        put("height", info.height.into());
        put("format", info.format.as_str().into());
        if let Some(context) = context {
            put("alt", context.texts.written_alt().into());
            put("caption", context.texts.any_caption().into());
            put("credit", context.texts.credit.as_deref().into());
        }
        put("words", words.map(|words| words.text).into());
        put("words_from", words.map(|words| words.from.name()).into());
        put("licences", licences.into());
        put("terms", stated(sidecar.terms()));
        Ok(SampleImage {
            url: url.to_owned(),
            about,
            has_words: words.is_some_and(|words| words.from.is_own()),
            blocks_before: 0,
            extension,
            kept: (!self.filter.addresses).then(|| KeptFile {
                job: folder.to_owned(),
                file: sidecar.file().to_owned(),
                sha256: sidecar.sha256().to_owned(),
            }),
            bytes: None,
        })
    }

    /// Where the page of a document stands in an archive.
    fn record(&self, document: &Document) -> Option<Value> {
        if let Some(archive) = &document.archive {
            return Some(json!({ "archive": archive, "offset": document.offset }));
        }
        let (file, from) = self.images.record(document.job.as_deref(), &document.url)?;
        Some(json!({ "archive": file, "offset": from }))
    }
}

impl InterleavedFiles {
    pub(super) fn create(
        output: &Output,
        out: &Path,
        of_documents: &[DataColumn<Document>],
    ) -> Result<Self, ToolError> {
        let about = about_columns(of_documents);
        let mut columns = parts_columns(output.images.addresses);
        columns.extend(about.iter().cloned());
        let folder = |format: Format| {
            let is_wanted = output.formats.contains(&format);
            is_wanted.then(|| out.join(format.name()))
        };
        let table = folder(Format::Interleaved);
        let table = table.map(|folder| Table::create(folder, output.shard_bytes, &columns));
        let tars = folder(Format::InterleavedTar);
        let tars = tars.map(|folder| Tars::create(folder, output.shard_bytes));
        Ok(Self {
            filter: output.images.clone(),
            figures: InterleavedFigures::default(),
            columns,
            about,
            table: table.transpose()?,
            tars: tars.transpose()?,
        })
    }

    /// Writes a sample. The files of its images are read here, one sample after the other, so that
    /// memory does not grow.
    pub(super) fn add(&mut self, mut sample: InterleavedSample) -> Result<(), ToolError> {
        sample.read_files();
        let images = sample.images().count();
        let with_words = sample.images().filter(|image| image.has_words).count();
        if images < self.filter.min_images
            || (with_words as f64) < self.filter.words * images as f64
        {
            return Ok(());
        }
        self.figures.add(&sample);
        if let Some(table) = &mut self.table {
            let values = self.columns.iter().map(|column| column.value(&sample));
            table.add(values, None)?;
        }
        if let Some(tars) = &mut self.tars {
            tars.add(&sample.document.id, &sample.members(&self.about))?;
        }
        Ok(())
    }

    /// Ends the files; returns their number, and what is in them.
    pub(super) fn finish(self) -> Result<(u32, InterleavedFigures), ToolError> {
        let rows = self.table.map_or(Ok(0), Table::finish)?;
        let tars = self.tars.map_or(Ok(0), Tars::finish)?;
        Ok((rows + tars, self.figures))
    }
}

/// The terms that were stated, as a JSON object; null if there are none.
fn stated(terms: &Terms) -> Value {
    let said = TERMS.iter().map(|term| (&term.name, term.value(terms)));
    let said = said.filter(|(_, value)| match value {
        ColumnValue::Flag(flag) => *flag == Some(true),
        ColumnValue::Text(text) => text.is_some(),
        ColumnValue::Texts(texts) => !texts.is_empty(),
        _ => false,
    });
    let said: Map<String, Value> = said
        .filter_map(|(name, value)| Some((name.to_string(), serde_json::to_value(value).ok()?)))
        .collect();
    if said.is_empty() {
        return Value::Null;
    }
    said.into()
}

/// The columns of documents that are beside the parts.
fn about_columns(of_documents: &[DataColumn<Document>]) -> Vec<DataColumn<InterleavedSample>> {
    let about = of_documents.iter();
    let about = about.filter(|column| !LEFT_OUT.contains(&&*column.name));
    let about = about.map(|column| column.within(|s: &InterleavedSample| &s.document));
    about.collect()
}

/// How many columns are of the parts.
pub(in crate::pipeline) const OF_PARTS: usize = 4;

/// The columns of the Parquet files, each with its kind and its meaning.
pub(in crate::pipeline) fn interleaved_columns(
    plan: &Plan,
    of_documents: &[DataColumn<Document>],
) -> Vec<(String, ColumnKind, String)> {
    let mut columns = parts_columns(plan.output.images.addresses);
    columns.extend(about_columns(of_documents));
    let columns = columns.into_iter();
    columns
        .map(|column| {
            (
                column.name.into_owned(),
                column.kind,
                column.about.into_owned(),
            )
        })
        .collect()
}

/// The lists of the parts, and what is said about them.
fn parts_columns(addresses: bool) -> Vec<DataColumn<InterleavedSample>> {
    let mut all = columns! { s: InterleavedSample;
        texts: Parts = s.texts(),
            "The texts in the order of the page, each up to the next image; null where `images` has \
             the item.";
    };
    all.push(if addresses {
        DataColumn::new(
            "images",
            ColumnKind::Parts,
            "Addresses of the images; null where `texts` has the item.",
            |s: &InterleavedSample| ColumnValue::Parts(s.addresses()),
        )
    } else {
        DataColumn::new(
            "images",
            ColumnKind::Pictures,
            "The files of the images as served; null where `texts` has the item.",
            |s: &InterleavedSample| ColumnValue::Pictures(s.pictures()),
        )
    });
    all.extend(columns! { s: InterleavedSample;
        metadata: Text = Value::from(s.about_images()).to_string(),
            "JSON, a list as long as `images`: for each image its address, size, SHA-256, alt text, \
             caption, credit, best words and their origin, licences and terms; null for texts.";
        general_metadata: Text = s.general().to_string(),
            "JSON: the address of the page, its record in an archive (`warc_record`), its terms, and \
             the images that were left out (`missing_images`) with the reason.";
    });
    all
}

impl InterleavedSample {
    /// Reads the files of its images. One that is not the kept one is left out, and so are those
    /// that are too much for one sample.
    fn read_files(&mut self) {
        let mut parts: Vec<SamplePart> = Vec::with_capacity(self.parts.len());
        let mut bytes = 0;
        for part in std::mem::take(&mut self.parts) {
            match (part, parts.last_mut()) {
                (SamplePart::Image(mut image), _) => match image.read(MAX_SAMPLE_BYTES - bytes) {
                    Ok(read) => {
                        bytes += read;
                        parts.push(SamplePart::Image(image));
                    }
                    Err(why) => self.missing.push(MissingImage {
                        blocks_before: image.blocks_before,
                        url: image.url,
                        why: why.to_owned(),
                    }),
                },
                // The image between them is left out.
                (SamplePart::Text(text), Some(SamplePart::Text(before))) => {
                    before.push_str("\n\n");
                    before.push_str(&text);
                }
                (text, _) => parts.push(text),
            }
        }
        self.parts = parts;
    }

    fn images(&self) -> impl Iterator<Item = &SampleImage> {
        self.parts.iter().filter_map(SamplePart::image)
    }

    fn texts(&self) -> ColumnValue {
        ColumnValue::Parts(
            self.parts
                .iter()
                .map(|part| part.text().map(str::to_owned))
                .collect(),
        )
    }

    fn addresses(&self) -> Vec<Option<String>> {
        let parts = self.parts.iter();
        parts
            .map(|part| part.image().map(|image| image.url.clone()))
            .collect()
    }

    fn pictures(&self) -> Vec<Option<(String, Vec<u8>)>> {
        let id = &self.document.id;
        let picture = |(at, part): (usize, &SamplePart)| {
            let image = part.image()?;
            let name = format!("{id}.{at}.{}", image.extension);
            Some((name, image.bytes.clone()?))
        };
        self.parts.iter().enumerate().map(picture).collect()
    }

    fn about_images(&self) -> Vec<Value> {
        let about = |part: &SamplePart| part.image().map(|image| Value::from(image.about.clone()));
        self.parts
            .iter()
            .map(|part| about(part).unwrap_or_default())
            .collect()
    }

    fn general(&self) -> Value {
        json!({
            "url": self.document.url,
            "warc_record": self.record,
            "terms": self.document.terms.as_ref().map(stated),
            "licences": self.document.licences,
            "missing_images": self.missing,
        })
    }

    /// The files of the sample in a tar file, by the ends of their names: the images by their
    /// numbers among the parts, which the lists in the JSON file refer to by name.
    fn members(&self, about: &[DataColumn<Self>]) -> Vec<(String, Vec<u8>)> {
        let id = &self.document.id;
        let mut files: Vec<(String, Vec<u8>)> = Vec::new();
        let mut names: Vec<Option<String>> = Vec::new();
        for (at, part) in self.parts.iter().enumerate() {
            names.push(part.image().map(|image| match &image.bytes {
                Some(bytes) => {
                    let end = format!("{at}.{}", image.extension);
                    files.push((end.clone(), bytes.clone()));
                    format!("{id}.{end}")
                }
                None => image.url.clone(),
            }));
        }
        let mut json = Map::new();
        json.insert(
            "texts".to_owned(),
            serde_json::to_value(self.texts()).unwrap_or_default(),
        );
        json.insert("images".to_owned(), names.into());
        json.insert(
            "image_metadata".to_owned(),
            self.images().map(|i| i.about.clone()).collect(),
        );
        json.insert("general_metadata".to_owned(), self.general());
        for column in about {
            let value = serde_json::to_value(column.value(self)).unwrap_or_default();
            json.insert(column.name.to_string(), value);
        }
        let json = Value::from(json).to_string();
        files.insert(
            0,
            (
                "json".to_owned(),
                crate::sanitize::json(&json).into_owned().into_bytes(),
            ),
        );
        files
    }
}

impl SampleImage {
    /// Reads its file, if it has at most this many bytes; returns how many.
    fn read(&mut self, most: usize) -> Result<usize, &'static str> {
        let Some(KeptFile { job, file, sha256 }) = &self.kept else {
            return Ok(0);
        };
        let bytes = verified(job, file, sha256).map_err(|_| "its file has changed")?;
        if bytes.len() > most {
            return Err("too much for one document");
        }
        Ok(self.bytes.insert(bytes).len())
    }
}

impl SamplePart {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Image(_) => None,
        }
    }

    fn image(&self) -> Option<&SampleImage> {
        match self {
            Self::Text(_) => None,
            Self::Image(image) => Some(image),
        }
    }
}
