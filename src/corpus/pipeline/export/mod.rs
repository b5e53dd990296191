//! `spoor export --text`: the documents of a job as a corpus, by a built-in plan.
//!
//! Each page occurs once with its newest text. Of copies the page that was crawled first is
//! kept, so that an export of a longer crawl keeps what an earlier one kept. Exact copies are
//! removed before repeated paragraphs, so that mirrors of a page do not make its paragraphs
//! count as repeated; near copies afterwards, so that menus do not make pages similar.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use super::plan::{Format, ImageFilter, Plan};
use super::{Built, How, build};
use crate::language::Language;
use crate::outputs;
use crate::settings::JobSettings;
use crate::tool_error::ToolError;

/// Which documents to export, and how.
#[derive(Debug, Clone)]
pub struct TextRequest {
    /// The wanted format; JSON lines are always written.
    pub format: Format,
    /// Only documents with at least this probability of being on topic; documents without one are
    /// removed too.
    pub min_on_topic: Option<f64>,
    /// Only documents in these languages; empty means all.
    pub languages: Vec<Language>,
    /// Only documents with at least this many words.
    pub min_words: u32,
    /// The least similarity of near copies, from 0 to 1.
    pub near: f64,
    /// Keeps paragraphs that a host repeats.
    pub keep_repeated: bool,
    /// Compresses JSON lines with gzip.
    pub gzip: bool,
    /// The folder to write; by default `exports/text-FORMAT` in the job's folder, and
    /// `exports/FORMAT` with images.
    pub to: Option<PathBuf>,
    /// The images of the interleaved formats.
    pub images: ImageFilter,
}

impl TextRequest {
    /// Everything except copies and repeated paragraphs.
    pub fn new(format: Format) -> Self {
        Self {
            format,
            min_on_topic: None,
            languages: Vec::new(),
            min_words: 1,
            near: 0.8,
            keep_repeated: false,
            gzip: false,
            to: None,
            images: ImageFilter::default(),
        }
    }

    /// The plan for a job.
    fn plan(&self, config: &JobSettings) -> Result<Plan, ToolError> {
        let job = config.job_folder();
        let name = match self.format {
            Format::Jsonl => "jsonl",
            Format::Paragraphs => "txt",
            other => other.name(),
        };
        let is_interleaved = self.format.is_interleaved();
        let kind = if is_interleaved { "" } else { "text-" };
        let end = if self.images.addresses { "-urls" } else { "" };
        let usual = || job.join(format!("exports/{kind}{name}{end}"));
        let folder = self.to.clone().unwrap_or_else(usual);
        let mut text = format!("[source]\njobs = [{}]\n", path(&job));
        let mut step = |kind: &str, keys: &str| {
            text.push_str(&format!("\n[[step]]\nkind = \"{kind}\"\n{keys}"));
        };
        step("copies", "level = \"url\"\nkeep = \"last\"\n");
        if !self.languages.is_empty() {
            let codes: Vec<&str> = self.languages.iter().map(|l| l.code()).collect();
            step("language", &format!("languages = {codes:?}\n"));
        }
        if let Some(least) = self.min_on_topic {
            step("topic", &format!("least = {least:?}\n"));
        }
        step("copies", "least = 1.0\n");
        if !self.keep_repeated {
            step("repeated", "");
        }
        if self.min_words > 1 {
            let bounds = format!("bounds = {{ words = {{ least = {} }} }}\n", self.min_words);
            step("quality", &bounds);
        }
        step("copies", &format!("least = {:?}\n", self.near));
        let compression = match self.format {
            _ if self.gzip => "gzip",
            Format::Jsonl | Format::Paragraphs | Format::Markdown => "none",
            _ => "zstd",
        };
        let formats = match self.format {
            Format::Jsonl => "",
            Format::Paragraphs => "\"paragraphs\"",
            Format::Markdown => "\"markdown\"",
            Format::Interleaved => "\"interleaved\"",
            Format::InterleavedTar => "\"interleaved-webdataset\"",
            _ => "\"parquet\"",
        };
        let name = toml::Value::from(config.job.name.as_str());
        text.push_str(&format!(
            "\n[output]\nfolder = {}\nname = {name}\nformats = [{formats}]\n\
             compression = \"{compression}\"\n",
            path(&folder)
        ));
        if is_interleaved {
            let ImageFilter {
                addresses,
                min_width,
                min_height,
                min_images,
                words,
                licensed,
            } = self.images;
            text.push_str(&format!(
                "[output.images]\naddresses = {addresses}\nmin_width = {min_width}\n\
                 min_height = {min_height}\nmin_images = {min_images}\nwords = {words:?}\n\
                 licensed = {licensed}\n"
            ));
        }
        Plan::parse(&folder.join(super::PLAN), &text)
    }
}

/// The path for a plan in any folder: an absolute one.
fn path(path: &Path) -> toml::Value {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    toml::Value::from(whole.to_string_lossy().into_owned())
}

/// Exports a job's documents; `date` is today, as `2026-01-31`. An earlier export is replaced
/// when the new one is complete; a killed one continues where it was, if the job has not grown
/// since.
///
/// # Errors
///
/// [`ToolError`]; then an earlier export is unchanged.
pub fn export_text(
    config: &JobSettings,
    request: &TextRequest,
    date: String,
) -> Result<Built, ToolError> {
    let folder = config.job_folder();
    let _samples = outputs::read_samples(&folder)?;
    if outputs::documents(&folder)?.next().is_none() {
        let why = "no documents to export; `spoor crawl` keeps them in documents/, and jobs that \
                   an older spoor crawled have none";
        return Err(ToolError::at(&folder, why));
    }
    let how = How {
        date,
        is_export: true,
        ..How::default()
    };
    build(&request.plan(config)?, &how)
}
