//! `removed.jsonl`: the data left out, why, and by which bound. One line for each
//! document, followed by one for each paragraph that a host repeats.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::super::ExportError;
use super::paragraphs::Line;
use crate::fs::IoError;
use crate::outputs::Document;
use crate::sanitize;

/// The file's name.
pub(super) const FILE: &str = "removed.jsonl";

/// A step that leaves documents out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    OlderVisit,
    Language,
    OnTopic,
    ExactCopy,
    Short,
    NearCopy,
}

/// The name of the step that leaves paragraphs out.
pub(super) const REPEATED: &str = "repeated paragraph";

impl Step {
    /// All, in order of application.
    pub(super) const ALL: [Self; 6] = [
        Self::OlderVisit,
        Self::Language,
        Self::OnTopic,
        Self::ExactCopy,
        Self::Short,
        Self::NearCopy,
    ];

    /// The name in the file and in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::OlderVisit => "older visit",
            Self::Language => "other language",
            Self::OnTopic => "not on topic",
            Self::ExactCopy => "exact copy",
            Self::Short => "too short",
            Self::NearCopy => "near copy",
        }
    }
}

/// A measured value, or its bound.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum Measure {
    #[default]
    None,
    Number(f64),
    Text(String),
}

/// A document that was left out.
#[derive(Debug, Serialize)]
pub(super) struct Left<'a> {
    step: &'static str,
    url: &'a str,
    fetched: &'a str,
    value: Measure,
    bound: Measure,
    /// The document that it is a copy of.
    copy_of: Option<&'a str>,
}

impl<'a> Left<'a> {
    /// Left out at a step because of a value outside its bound.
    pub(super) fn new(step: Step, document: &'a Document, value: Measure, bound: Measure) -> Self {
        Self {
            step: step.name(),
            url: &document.url,
            fetched: &document.fetched,
            value,
            bound,
            copy_of: None,
        }
    }

    /// As a copy of the document with this address.
    pub(super) fn of(mut self, url: &'a str) -> Self {
        self.copy_of = Some(url);
        self
    }
}

/// A paragraph that was left out of many documents.
#[derive(Serialize)]
struct Paragraph<'a> {
    step: &'static str,
    host: &'a str,
    paragraph: &'a str,
    /// Pages of the host that have it.
    value: u32,
    bound: u32,
    /// Exported pages of the host.
    pages: u32,
    /// How often it was left out.
    removed: u64,
}

/// The file being written.
pub(super) struct Removed {
    path: PathBuf,
    out: BufWriter<File>,
}

impl Removed {
    pub(super) fn create(folder: &Path) -> Result<Self, ExportError> {
        let path = folder.join(FILE);
        let file = File::create(&path).map_err(IoError::at(&path, "creating"))?;
        Ok(Self {
            path,
            out: BufWriter::new(file),
        })
    }

    pub(super) fn document(&mut self, left: &Left<'_>) -> Result<(), ExportError> {
        self.line(left)
    }

    pub(super) fn paragraph(&mut self, host: &str, line: &Line) -> Result<(), ExportError> {
        self.line(&Paragraph {
            step: REPEATED,
            host,
            paragraph: &line.text,
            value: line.pages,
            bound: line.bound,
            pages: line.of,
            removed: line.removed,
        })
    }

    pub(super) fn finish(mut self) -> Result<(), ExportError> {
        self.out
            .flush()
            .map_err(IoError::at(&self.path, "writing"))?;
        Ok(())
    }

    fn line(&mut self, line: &impl Serialize) -> Result<(), ExportError> {
        let written = serde_json::to_string(line)
            .map_err(std::io::Error::from)
            .and_then(|line| writeln!(self.out, "{}", sanitize::json(&line)));
        written.map_err(IoError::at(&self.path, "writing"))?;
        Ok(())
    }
}
