//! `removed.jsonl.zst`: every document that a step removed, with the step, the rule, the
//! value and the bound, followed by every paragraph that hosts repeat.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::document::Document;
use super::steps::{Measured, Value};
use crate::fs::IoError;
use crate::sanitize;
use crate::tool_error::ToolError;

/// The file's name.
pub const REMOVED: &str = "removed.jsonl.zst";

/// A removed document, or a paragraph removed from many documents.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Removed {
    /// Its number; absent if there was no text.
    pub id: Option<String>,
    /// Its address.
    pub url: String,
    /// Its title.
    pub title: Option<String>,
    /// The kind of the step.
    pub step: String,
    /// The number of the step in the plan, from 1; 0 where a page was read.
    pub number: usize,
    /// The rule that it breaks.
    pub rule: String,
    /// The value.
    pub value: Value,
    /// The bound, in words.
    pub bound: String,
    /// The document that it is a copy of.
    pub copy_of: Option<String>,
    /// The address of that document.
    pub copy_of_url: Option<String>,
    /// The file that contains it.
    pub archive: Option<String>,
    /// Where in that file.
    pub offset: Option<u64>,
    /// The job that it comes from.
    pub job: Option<String>,
    /// The beginning of a paragraph that was removed from documents; the address is that of the
    /// first document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paragraph: Option<String>,
}

impl Removed {
    /// A document that a step removed.
    pub(super) fn of(
        document: &Document,
        (number, step): (usize, &str),
        measured: &Measured,
        copy_of_url: Option<&str>,
    ) -> Self {
        Self {
            id: Some(document.id.clone()).filter(|id| !id.is_empty()),
            url: document.url.clone(),
            title: document.title.clone(),
            step: step.to_owned(),
            number,
            rule: measured.rule.clone(),
            value: measured.value.clone(),
            bound: measured.bound.clone(),
            copy_of: document.copy_of.clone(),
            copy_of_url: copy_of_url.map(str::to_owned),
            archive: document.archive.clone(),
            offset: document.offset,
            job: document.job.clone(),
            paragraph: None,
        }
    }
}

/// A line of JSON with its end.
pub(super) fn line(value: &impl Serialize) -> String {
    // Strings, lists and numbers always serialise.
    let line = serde_json::to_string(value).unwrap_or_default();
    let mut line = sanitize::json(&line).into_owned();
    line.push('\n');
    line
}

/// The number of lines in a frame.
const FRAME: usize = 1 << 20;

/// A file of JSON lines in zstd frames.
pub(super) struct LineFile {
    path: PathBuf,
    out: BufWriter<File>,
    open: String,
}

impl LineFile {
    pub(super) fn create(path: PathBuf) -> Result<Self, ToolError> {
        let out = File::create(&path).map_err(IoError::at(&path, "creating"))?;
        Ok(Self {
            path,
            out: BufWriter::new(out),
            open: String::new(),
        })
    }

    pub(super) fn add(&mut self, value: &impl Serialize) -> Result<(), ToolError> {
        self.open.push_str(&line(value));
        if self.open.len() >= FRAME {
            self.pack()?;
        }
        Ok(())
    }

    fn pack(&mut self) -> Result<(), ToolError> {
        let written = packed(&self.open).and_then(|frame| self.out.write_all(&frame));
        written.map_err(IoError::at(&self.path, "writing"))?;
        self.open.clear();
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<(), ToolError> {
        self.pack()?;
        let written = self.out.flush();
        Ok(written.map_err(IoError::at(&self.path, "writing"))?)
    }
}

/// Lines as a zstd frame; consecutive frames are a valid file.
pub(super) fn packed(lines: &str) -> std::io::Result<Vec<u8>> {
    let mut encoder = zstd::Encoder::new(Vec::new(), zstd::DEFAULT_COMPRESSION_LEVEL)?;
    encoder.write_all(lines.as_bytes())?;
    encoder.finish()
}
