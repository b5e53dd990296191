//! A job's documents as a corpus: each page once with its newest text, without copies and
//! without the paragraphs that a host repeats, in formats that other programs read.
//!
//! The documents are read three times, one at a time:
//!
//! 1. which line is the newest of each address;
//! 2. which of these are wanted, which are exact copies, and on how many pages of its host
//!    each paragraph occurs;
//! 3. repeated paragraphs are removed, then short documents, then near copies; the rest is
//!    written.
//!
//! Of several copies the one crawled first is kept, so that an export of a longer crawl
//! keeps what an earlier one kept. Copies are detected by the exported text: exact ones
//! before repeated paragraphs are removed, so that mirrors of a page do not make its
//! paragraphs repeated ones, and near ones afterwards, so that menus do not make pages
//! similar.
//!
//! A document takes at most 800 bytes of memory, however long it is (120,000 took 156 MB
//! with the program). Other lookup data are in temporary files in the folder being written
//! (eight bytes per paragraph, four per word).
//!
//! Every document that is left out has a line in `removed.jsonl`, and so has every
//! paragraph that a host repeats.
//!
//! Reading order: this file, `readings`, `paragraphs`, `copies`, `columns`, `write`,
//! `removed`, `card`; `spool` is the file for lookups.

mod card;
mod columns;
mod copies;
mod paragraphs;
mod readings;
mod removed;
mod spool;
#[cfg(test)]
mod tests;
mod write;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use self::readings::{Survey, Work};
use self::removed::Removed;
use super::ExportError;
use super::place::Place;
use crate::config::Config;
use crate::fs::IoError;
use crate::language::Language;
use crate::outputs;

/// The format of a corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// Parquet files with a row for each document.
    Parquet,
    /// Files with a line of JSON for each document.
    JsonLines,
    /// Files of plain text: a paragraph is a line, and an empty line separates two
    /// documents.
    Text,
}

impl TextFormat {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::JsonLines => "jsonl",
            Self::Text => "txt",
        }
    }
}

/// Which documents to export, and how.
#[derive(Debug, Clone)]
pub struct TextRequest<'a> {
    /// What to write.
    pub format: TextFormat,
    /// Only documents with at least this probability of being on topic; unknown ones are
    /// left out too.
    pub min_on_topic: Option<f64>,
    /// Only documents in these languages; all if there are none.
    pub languages: Vec<Language>,
    /// Only documents with at least this many words; one without a word is never exported.
    pub min_words: u32,
    /// The least similarity of near copies, from 0 to 1.
    pub near: f64,
    /// Keeps paragraphs that a host repeats.
    pub keep_repeated: bool,
    /// Compress JSON lines.
    pub gzip: bool,
    /// The folder to write; by default `exports/text-FORMAT` in the job's folder.
    pub to: Option<PathBuf>,
    /// The text of the job file, for the data card.
    pub job: &'a str,
    /// Today, as `2026-01-31`, for the data card.
    pub date: &'a str,
}

impl TextRequest<'_> {
    /// Everything except copies and repeated paragraphs, as Parquet.
    pub fn new(format: TextFormat) -> Self {
        Self {
            format,
            min_on_topic: None,
            languages: Vec::new(),
            min_words: 1,
            near: 0.8,
            keep_repeated: false,
            gzip: false,
            to: None,
            job: "",
            date: "",
        }
    }

    /// The name in the mark and of the usual folder.
    fn name(&self) -> String {
        format!("text-{}", self.format.name())
    }
}

/// The result of an export.
#[derive(Debug, Clone, PartialEq)]
pub struct TextExported {
    /// The folder.
    pub folder: PathBuf,
    /// Documents in it.
    pub documents: u64,
    /// Their words, excluding numbers.
    pub words: u64,
    /// Files of data.
    pub files: u32,
    /// Lines of documents that were read.
    pub read: u64,
    /// Lines that are damaged; each was named in the program's log.
    pub damaged: u64,
    /// The steps in order, each with its bound and the number of documents it left out.
    pub steps: Vec<TextStep>,
    /// Paragraphs that were left out because their host repeats them.
    pub paragraphs: u64,
    /// Number of distinct ones, by host.
    pub different: u64,
    /// Documents that lost such paragraphs.
    pub shortened: u64,
}

/// A step that leaves documents out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextStep {
    /// Its name, as in `removed.jsonl`.
    pub name: &'static str,
    /// The condition for keeping a document, in words.
    pub bound: String,
    /// Documents that were left out.
    pub removed: u64,
    /// Documents that are left.
    pub left: u64,
}

/// Exports a job's documents.
///
/// # Errors
///
/// [`ExportError`]; then the folder is unchanged.
pub fn export_text(
    config: &Config,
    request: &TextRequest<'_>,
) -> Result<TextExported, ExportError> {
    let folder = config.job_folder();
    let _samples = outputs::read_samples(&folder)?;
    let usual = || folder.join("exports").join(request.name());
    let place = Place::prepare(&request.to.clone().unwrap_or_else(usual))?;
    let survey = Survey::of(&folder)?;
    if survey.newest.is_empty() {
        return Err(ExportError::NoDocuments(folder));
    }
    let mut work = Work::new(&folder, request, place, survey);
    let mut removed = Removed::create(work.place.path())?;
    let chosen = work.choose(&mut removed)?;
    let (tally, files, repeated) = work.write(chosen, &mut removed)?;
    let steps = work.steps();
    if tally.documents == 0 {
        return Err(ExportError::NoText(folder, told(&steps)));
    }
    let mut exported = TextExported {
        folder: PathBuf::new(),
        documents: tally.documents,
        words: tally.words,
        files,
        read: work.survey.read,
        damaged: work.survey.damaged,
        steps,
        paragraphs: 0,
        different: 0,
        shortened: tally.shortened,
    };
    for (host, line) in repeated.removed() {
        exported.paragraphs += line.removed;
        exported.different += 1;
        removed.paragraph(host, line)?;
    }
    removed.finish()?;
    work.remove_spools()?;
    let path = work.place.path().join("README.md");
    let written = File::create(&path).and_then(|file| {
        let mut out = BufWriter::new(file);
        let name = config.job.name.as_str();
        card::write(&mut out, name, request, &exported, &tally)?;
        out.flush()
    });
    written.map_err(IoError::at(&path, "writing"))?;
    exported.folder = work.place.finish(&request.name())?;
    Ok(exported)
}

/// The steps that left something out, for a message.
fn told(steps: &[TextStep]) -> String {
    let told = steps.iter().filter(|step| step.removed > 0);
    let told: Vec<String> = told
        .map(|step| format!("{} {}", step.removed, step.name))
        .collect();
    told.join(", ")
}
