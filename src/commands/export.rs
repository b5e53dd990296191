//! `spoor export JOB.toml --format FORMAT` for images, `--text` for documents.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde_json::json;
use spoor::config::Config;
use spoor::corpus::export::{self, Request};
use spoor::corpus::pipeline::{TextRequest, export_text, plan};
use spoor::language::Language;
use spoor::progress::Step;

use super::corpus::print_built;
use super::print_json;

/// Write a job's images, or with --text its documents, as a data set.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  spoor export job.toml --format imagefolder --top 2000
  spoor export job.toml --text
  spoor export job.toml --text --min-on-topic 0.5 --language en --format jsonl")]
pub struct Export {
    /// The job's TOML file.
    job: PathBuf,
    /// What to write: imagefolder, webdataset, parquet or jsonl for images; parquet (the
    /// default), jsonl, txt or markdown with --text.
    #[arg(long, required_unless_present = "text", hide_possible_values = true)]
    format: Option<Format>,
    /// The folder to write, by default exports/FORMAT or exports/text-FORMAT in the job's
    /// folder. An earlier export there is replaced; a folder with anything else is
    /// refused.
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    /// Print what was written as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    images: Images,
    #[command(flatten)]
    text: Text,
}

/// The options for images.
#[derive(Debug, Args)]
#[command(next_help_heading = "Images")]
struct Images {
    /// Write only the best N.
    #[arg(long, value_name = "N", conflicts_with = "text")]
    top: Option<NonZeroUsize>,
    /// Write the addresses of the images instead of their bytes.
    #[arg(long, conflicts_with = "text")]
    urls_only: bool,
}

/// The options for documents.
#[derive(Debug, Args)]
#[command(next_help_heading = "Text")]
struct Text {
    /// Write the documents instead of the images, as a corpus: each page once with its newest
    /// text, without copies and repeated paragraphs.
    #[arg(long)]
    text: bool,
    /// Write only documents that are about the topic with at least this probability, from
    /// 0 to 1.
    #[arg(long, value_name = "P", requires = "text", value_parser = share)]
    min_on_topic: Option<f64>,
    /// Write only documents in this language, as en; may be given several times.
    #[arg(long, value_name = "CODE", requires = "text", value_parser = language)]
    language: Vec<Language>,
    /// Write only documents of at least N words.
    #[arg(long, value_name = "N", requires = "text", default_value_t = 1)]
    min_words: u32,
    /// Leave out documents that have at least this share of their words in common with an
    /// earlier one, in passages of five words or more; 1 leaves out only exact copies.
    #[arg(long, value_name = "SHARE", requires = "text", default_value_t = 0.8, value_parser = share)]
    near: f64,
    /// Keep paragraphs that a host repeats on many of its pages.
    #[arg(long, requires = "text")]
    keep_repeated: bool,
    /// Compress the files of --format jsonl.
    #[arg(long, requires = "text")]
    gzip: bool,
}

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
pub enum Format {
    /// Image files with metadata.jsonl, for Hugging Face datasets.
    ImageFolder,
    /// Tar files, for webdataset.
    WebDataset,
    /// Parquet, for datasets, pandas and others, with the bytes of an image in a column.
    Parquet,
    /// One line of JSON per image, with the image files, or per document.
    Jsonl,
    /// Plain text, with --text: one paragraph per line, an empty line between documents.
    Txt,
    /// Markdown, with --text: headings, lists, tables and code as such.
    Markdown,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok();
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "give a number from 0 to 1, as 0.5".to_owned())
}

fn language(text: &str) -> Result<Language, String> {
    Language::of_code(text).map_err(|e| e.to_string())
}

impl Export {
    pub fn run(self) -> Result<()> {
        let config = Config::load(&self.job)?;
        let date = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
        if self.text.text {
            return self.documents(&config, date);
        }
        let job = spoor::fs::read_to_string(&self.job)
            .with_context(|| format!("{}: reading failed", self.job.display()))?;
        self.images(&config, &job, &date)
    }

    fn images(self, config: &Config, job: &str, date: &str) -> Result<()> {
        let format = match self.format {
            Some(Format::ImageFolder) => export::Format::ImageFolder,
            Some(Format::WebDataset) => export::Format::WebDataset,
            Some(Format::Parquet) => export::Format::Parquet,
            Some(Format::Jsonl) => export::Format::JsonLines,
            // clap requires one.
            Some(Format::Txt | Format::Markdown) | None => bail!(
                "images are written with --format imagefolder, webdataset, parquet or jsonl; txt \
                 and markdown are for documents, with --text"
            ),
        };
        let request = Request {
            format,
            top: self.images.top,
            to: self.to,
            urls_only: self.images.urls_only,
            job,
            date,
        };
        let mut step = None;
        let exported = export::export(config, &request, |done, total| {
            let begin = || Step::begin("writing images", Some(total as u64));
            step.get_or_insert_with(begin).reach(done as u64);
        });
        drop(step);
        let exported = exported?;
        if self.json {
            return print_json(&json!({
                "images": exported.samples,
                "bytes": exported.bytes,
                "folder": exported.folder,
                "vanished": exported.vanished,
            }));
        }
        println!(
            "{} images, {} bytes, written to {}",
            exported.samples,
            exported.bytes,
            exported.folder.display()
        );
        if exported.vanished > 0 {
            println!("gone or changed since the ranking: {}", exported.vanished);
        }
        let folder = exported.folder.display();
        println!("description, and other ways to read it: {folder}/README.md\n");
        println!("datasets  load_dataset(\"{folder}\", split=\"train\")");
        Ok(())
    }

    fn documents(self, config: &Config, date: String) -> Result<()> {
        let format = match self.format {
            None | Some(Format::Parquet) => plan::Format::Parquet,
            Some(Format::Jsonl) => plan::Format::Jsonl,
            Some(Format::Txt) => plan::Format::Paragraphs,
            Some(Format::Markdown) => plan::Format::Markdown,
            Some(Format::ImageFolder | Format::WebDataset) => bail!(
                "documents are written with --format parquet, jsonl, txt or markdown; imagefolder and \
                 webdataset are for images, without --text"
            ),
        };
        if self.text.gzip && format != plan::Format::Jsonl {
            bail!("--gzip compresses the files of --format jsonl only");
        }
        let request = TextRequest {
            min_on_topic: self.text.min_on_topic,
            languages: self.text.language,
            min_words: self.text.min_words,
            near: self.text.near,
            keep_repeated: self.text.keep_repeated,
            gzip: self.text.gzip,
            to: self.to,
            ..TextRequest::new(format)
        };
        print_built(&export_text(config, &request, date)?, self.json)
    }
}
