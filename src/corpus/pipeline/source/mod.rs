//! The sources of documents: jobs, archives, folders and JSON lines, as one stream.
//!
//! Everything comes in a fixed order, each item with the place after it, so that a killed
//! build continues there.

mod archives;
mod folders;
mod host_words;
mod jobs;
mod lines;
mod read;
mod rows;

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub(crate) use self::lines::each_line;
pub(super) use self::read::{PageReading, READ, document};
pub use self::rows::print_rows;

use super::document::Document;
use super::plan::Source;
use crate::address::PageUrl;
use crate::archive::captures::Captures;
use crate::archive::chosen::Chosen;
use crate::archive::files;
use crate::archive::http::Response;
use crate::fs::IoError;
use crate::outputs;
use crate::tool_error::ToolError;

/// The longest body of a page that is read, as in a crawl; longer ones are cut.
const MAX_BODY: usize = 8 << 20;

/// The longest PDF file of a folder that is read. It is large because most of a PDF may be
/// pictures, and a part of a PDF cannot be read.
const MAX_PDF_FILE: usize = 256 << 20;

/// The longest PDF file of an archive, whose bodies may decompress to any length.
const MAX_PDF_BODY: usize = 64 << 20;

/// An item of a source.
#[derive(Debug)]
pub(super) enum RawItem {
    /// A server's response.
    Page(Box<SourcePage>),
    /// A document with its text.
    Text(Box<Document>),
    /// Not a document: what is known about it, the rule it breaks, the value, and the expected
    /// value.
    Other(Box<Document>, &'static str, String, &'static str),
}

/// A response with its metadata.
#[derive(Debug)]
pub(super) struct SourcePage {
    pub(super) url: PageUrl,
    pub(super) response: Response,
    pub(super) known: Document,
    /// Whether its known terms of use include those that the page itself states.
    pub(super) of_page: bool,
}

impl RawItem {
    /// The address.
    pub(super) fn url(&self) -> &str {
        match self {
            Self::Page(page) => &page.known.url,
            Self::Text(document) | Self::Other(document, ..) => &document.url,
        }
    }

    /// Its approximate size in bytes.
    fn bytes(&self) -> usize {
        match self {
            Self::Page(page) => page.response.body.len(),
            Self::Text(document) | Self::Other(document, ..) => document.text.len(),
        }
    }
}

/// The position up to which the sources were read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SourceCursor {
    unit: usize,
    /// The last item of the unit that was read.
    after: Option<[u64; 3]>,
}

/// Some items.
#[derive(Debug, Default)]
pub(super) struct ItemBatch {
    pub(super) items: Vec<RawItem>,
    /// The place after the last one.
    pub(super) cursor: SourceCursor,
    /// Approximately how many bytes of all sources were read up to there.
    pub(super) read: u64,
}

/// The most items of a batch.
const BATCH: usize = 32;
/// Their maximum size in bytes, not counting the last one.
const BATCH_BYTES: usize = 4 << 20;

/// A part of the sources.
#[derive(Debug)]
enum SourceUnit {
    Job(PathBuf),
    /// Indexed when they are about to be read.
    Archives(Chosen, Option<Box<Captures>>),
    /// The text of pages, in a WET file as from Common Crawl.
    Conversions(PathBuf),
    Folder(PathBuf, Vec<PathBuf>),
    Lines(PathBuf),
    Rows(PathBuf),
}

/// All sources.
#[derive(Debug)]
pub(super) struct CorpusSources {
    units: Vec<SourceUnit>,
    bytes: u64,
    /// Identifies them when the build begins: paths and sizes of files that do not grow.
    pub(super) print: String,
}

/// Receives an item: what it is, the place in the unit, and the bytes read of the unit.
type Push<'p> = &'p mut dyn FnMut(RawItem, [u64; 3], u64) -> bool;

impl CorpusSources {
    /// Examines the sources that a plan names.
    pub(super) fn of(source: &Source) -> Result<Self, ToolError> {
        let mut found = Self {
            units: Vec::new(),
            bytes: 0,
            print: String::new(),
        };
        let mut archives = Vec::new();
        for folder in &source.jobs {
            if found.job(folder)? {
                continue;
            }
            let stored = folder.join("archive");
            if !stored.is_dir() {
                let why = "no folder of a job with documents/ or archive/; crawl first";
                return Err(ToolError::at(folder, why));
            }
            archives.push(stored);
        }
        archives.extend(source.archives.iter().cloned());
        let all = files::listed(&archives)?;
        let (texts, stored): (Vec<_>, Vec<_>) = all.into_iter().partition(|p| files::is_text(p));
        let named: Vec<PathBuf> = stored
            .into_iter()
            .chain(source.selections.clone())
            .collect();
        if !named.is_empty() {
            let chosen = Chosen::of(&named)?;
            for file in &chosen.files {
                found.note(file.path())?;
                found.bytes += file.length()?;
            }
            for index in &source.selections {
                found.note(index)?;
            }
            found.units.push(SourceUnit::Archives(chosen, None));
        }
        for path in texts {
            found.bytes += found.note(&path)?;
            found.units.push(SourceUnit::Conversions(path));
        }
        for folder in &source.folders {
            let files = folders::beneath(folder)?;
            for file in &files {
                found.bytes += found.note(file)?;
            }
            found.units.push(SourceUnit::Folder(folder.clone(), files));
        }
        for path in &source.jsonl {
            found.bytes += found.note(path)?;
            let is_table = starts_with(path, b"PAR1")?;
            let unit = if is_table {
                SourceUnit::Rows
            } else {
                SourceUnit::Lines
            };
            found.units.push(unit(path.clone()));
        }
        Ok(found)
    }

    /// Earlier corpora: files of JSON lines.
    pub(super) fn earlier(files: &[PathBuf]) -> Result<Self, ToolError> {
        let source = Source {
            jsonl: files.to_vec(),
            ..Source::default()
        };
        Self::of(&source)
    }

    /// Passes the documents of earlier corpora, with their numbers there, in batches.
    pub(super) fn texts(
        &self,
        push: &mut dyn FnMut(Vec<Document>) -> bool,
    ) -> Result<(), ToolError> {
        self.each(SourceCursor::default(), None, &mut |batch| {
            let texts = batch.items.into_iter().filter_map(|raw| match raw {
                RawItem::Text(document) => {
                    let id = document.id.clone();
                    let begun = document.begin();
                    Some(Document {
                        id: if id.is_empty() { begun.id } else { id },
                        ..begun
                    })
                }
                _ => None,
            });
            push(texts.collect())
        })
    }

    /// Adds the documents of a job; false if it has none. Their files may grow.
    fn job(&mut self, folder: &Path) -> Result<bool, ToolError> {
        let documents = folder.join(outputs::DOCUMENTS);
        let Ok(entries) = documents.read_dir() else {
            return Ok(false);
        };
        let mut bytes = 0;
        for entry in entries {
            let entry = entry.map_err(IoError::at(&documents, "listing"))?;
            bytes += entry.metadata().map_or(0, |about| about.len());
        }
        if bytes == 0 {
            return Ok(false);
        }
        self.bytes += bytes;
        self.print.push_str(&format!("job {}\n", folder.display()));
        self.units.push(SourceUnit::Job(folder.to_owned()));
        Ok(true)
    }

    /// Records a file; returns its size.
    fn note(&mut self, path: &Path) -> Result<u64, ToolError> {
        let about = path.metadata().map_err(IoError::at(path, "opening"))?;
        self.print
            .push_str(&format!("{} {}\n", path.display(), about.len()));
        Ok(about.len())
    }

    /// Prepares them for reading: archives are indexed, which reads them once.
    pub(super) fn index(&mut self) -> Result<(), ToolError> {
        for unit in &mut self.units {
            if let SourceUnit::Archives(chosen, captures @ None) = unit {
                *captures = Some(Box::new(Captures::of_chosen(chosen.clone())?));
            }
        }
        Ok(())
    }

    /// How many parts they have.
    pub(super) fn units(&self) -> u64 {
        self.units.len() as u64
    }

    /// The size of all of them.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Passes everything after a place, in batches; at most `most` items of each unit.
    pub(super) fn each(
        &self,
        from: SourceCursor,
        most: Option<u64>,
        push: &mut dyn FnMut(ItemBatch) -> bool,
    ) -> Result<(), ToolError> {
        let mut before = 0;
        for (number, unit) in self.units.iter().enumerate() {
            let bytes = unit.bytes();
            if number >= from.unit {
                let after = from.after.filter(|_| number == from.unit);
                let mut batching = Batching {
                    open: ItemBatch::default(),
                    unit: number,
                    before,
                    bytes: 0,
                    left: most,
                    push,
                    goes_on: true,
                };
                unit.each(after, &mut |raw, place, read| {
                    batching.add(raw, place, read)
                })?;
                let end = SourceCursor {
                    unit: number + 1,
                    after: None,
                };
                if !batching.end(end, before + bytes) {
                    break;
                }
            }
            before += bytes;
        }
        Ok(())
    }
}

impl SourceUnit {
    fn bytes(&self) -> u64 {
        let size = |path: &PathBuf| path.metadata().map_or(0, |about| about.len());
        match self {
            Self::Archives(chosen, _) => {
                let lengths = chosen.files.iter().map(|file| file.length().unwrap_or(0));
                lengths.sum()
            }
            Self::Folder(_, files) => files.iter().map(size).sum(),
            Self::Conversions(path) | Self::Lines(path) | Self::Rows(path) => size(path),
            Self::Job(folder) => {
                let entries = folder.join(outputs::DOCUMENTS).read_dir();
                let entries = entries.into_iter().flatten().flatten();
                entries
                    .map(|entry| entry.metadata().map_or(0, |m| m.len()))
                    .sum()
            }
        }
    }

    fn each(&self, after: Option<[u64; 3]>, push: Push<'_>) -> Result<(), ToolError> {
        match self {
            Self::Job(folder) => jobs::each(folder, after, push),
            Self::Archives(_, None) => Ok(()),
            Self::Archives(_, Some(captures)) => archives::each(captures, after, push),
            Self::Conversions(path) => archives::conversions(path, after, push),
            Self::Folder(folder, files) => folders::each(folder, files, after, push),
            Self::Lines(path) => lines::each(path, after, push),
            Self::Rows(path) => rows::each(path, after, push),
        }
    }
}

/// Whether a file begins with these bytes.
fn starts_with(path: &Path, bytes: &[u8]) -> Result<bool, ToolError> {
    let file = crate::fs::open(path).map_err(IoError::at(path, "opening"))?;
    let mut begin = Vec::new();
    let read = file.take(bytes.len() as u64).read_to_end(&mut begin);
    read.map_err(IoError::at(path, "reading"))?;
    Ok(begin == bytes)
}

/// The batch that is being filled.
struct Batching<'p> {
    open: ItemBatch,
    unit: usize,
    /// Bytes of the previous units.
    before: u64,
    bytes: usize,
    left: Option<u64>,
    push: &'p mut dyn FnMut(ItemBatch) -> bool,
    goes_on: bool,
}

impl Batching<'_> {
    fn add(&mut self, raw: RawItem, place: [u64; 3], read: u64) -> bool {
        if let Some(left) = &mut self.left {
            if *left == 0 {
                return false;
            }
            *left -= 1;
        }
        self.bytes += raw.bytes();
        self.open.items.push(raw);
        self.open.cursor = SourceCursor {
            unit: self.unit,
            after: Some(place),
        };
        self.open.read = self.before + read;
        if self.open.items.len() >= BATCH || self.bytes >= BATCH_BYTES {
            self.bytes = 0;
            self.goes_on = (self.push)(std::mem::take(&mut self.open));
        }
        self.goes_on
    }

    fn end(mut self, end: SourceCursor, read: u64) -> bool {
        if self.goes_on {
            self.open.cursor = end;
            self.open.read = read;
            self.goes_on = (self.push)(self.open);
        }
        self.goes_on
    }
}
