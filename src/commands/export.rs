//! `spoor export JOB.toml --format FORMAT` for images, `--text` for documents, and `--format
//! interleaved` for documents with their images.

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

/// Write a job's images, or with --text its documents, or both in their order, as a data set.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  spoor export job.toml --format imagefolder --top 2000
  spoor export job.toml --text
  spoor export job.toml --text --min-on-topic 0.5 --language en --format jsonl
  spoor export job.toml --format interleaved --min-side 200")]
pub struct Export {
    /// The job's TOML file.
    job: PathBuf,
    /// What to write: imagefolder, webdataset, parquet or jsonl for images; parquet (the
    /// default), jsonl, txt or markdown with --text; interleaved or
    /// interleaved-webdataset for documents with their images in order.
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
    #[command(flatten)]
    interleaved: Interleaved,
}

/// The options for images.
#[derive(Debug, Args)]
#[command(next_help_heading = "Images")]
struct Images {
    /// Write only the best N.
    #[arg(long, value_name = "N", conflicts_with = "text")]
    top: Option<NonZeroUsize>,
    /// Write the addresses of the images instead of their bytes.
    #[arg(long, alias = "addresses", conflicts_with = "text")]
    urls_only: bool,
}

/// The options for documents with their images.
#[derive(Debug, Args)]
#[command(next_help_heading = "Interleaved; the options for text hold as well")]
struct Interleaved {
    /// Leave out images with a side below N pixels.
    #[arg(long, value_name = "N", default_value_t = 0)]
    min_side: u32,
    /// Leave out documents with fewer images.
    #[arg(long, value_name = "N", default_value_t = 1)]
    min_images: usize,
    /// Leave out documents of whose images a smaller share has words of its own: a caption, an
    /// alt text, a title or a label.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    own_words: f64,
    /// Leave out images for which neither they nor their page name a licence.
    #[arg(long)]
    licensed: bool,
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
    #[arg(long, value_name = "P", value_parser = share)]
    min_on_topic: Option<f64>,
    /// Write only documents in this language, as en; may be given several times.
    #[arg(long, value_name = "CODE", value_parser = language)]
    language: Vec<Language>,
    /// Write only documents of at least N words.
    #[arg(long, value_name = "N", default_value_t = 1)]
    min_words: u32,
    /// Leave out documents that have at least this share of their words in common with an
    /// earlier one, in passages of five words or more; 1 leaves out only exact copies.
    #[arg(long, value_name = "SHARE", default_value_t = 0.8, value_parser = share)]
    near: f64,
    /// Keep paragraphs that a host repeats on many of its pages.
    #[arg(long)]
    keep_repeated: bool,
    /// Compress the files of --format jsonl.
    #[arg(long)]
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
    /// Documents with their images in order, as Parquet in the form of OBELICS.
    Interleaved,
    /// The same as tar files, in the form of MINT-1T.
    #[value(name = "interleaved-webdataset")]
    InterleavedTar,
}

impl Interleaved {
    /// Refuses options that mean nothing for other formats.
    fn check_unused(&self) -> Result<()> {
        let given = [
            ("--min-side", self.min_side != 0),
            ("--min-images", self.min_images != 1),
            ("--own-words", self.own_words != 0.0),
            ("--licensed", self.licensed),
        ];
        refuse(&given, "is for --format interleaved; leave it out")
    }
}

impl Text {
    /// Refuses options that mean nothing for images.
    fn check_unused(&self) -> Result<()> {
        let given = [
            ("--min-on-topic", self.min_on_topic.is_some()),
            ("--language", !self.language.is_empty()),
            ("--min-words", self.min_words != 1),
            ("--near", self.near != 0.8),
            ("--keep-repeated", self.keep_repeated),
            ("--gzip", self.gzip),
        ];
        refuse(&given, "is for documents; add --text")
    }
}

/// Refuses the first option that is given.
fn refuse(options: &[(&str, bool)], why: &str) -> Result<()> {
    match options.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => bail!("{option} {why}"),
        None => Ok(()),
    }
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
        let is_interleaved = matches!(
            self.format,
            Some(Format::Interleaved | Format::InterleavedTar)
        );
        if is_interleaved && (self.images.top.is_some() || self.text.gzip) {
            bail!("--top and --gzip have no effect on interleaved documents; leave them out");
        }
        if !is_interleaved {
            self.interleaved.check_unused()?;
        }
        if self.text.text || is_interleaved {
            return self.documents(&config, date);
        }
        self.text.check_unused()?;
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
            _ => bail!(
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
            Some(Format::Interleaved) => plan::Format::Interleaved,
            Some(Format::InterleavedTar) => plan::Format::InterleavedTar,
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
            images: plan::ImageFilter {
                addresses: self.images.urls_only,
                min_width: self.interleaved.min_side,
                min_height: self.interleaved.min_side,
                min_images: self.interleaved.min_images,
                words: self.interleaved.own_words,
                licensed: self.interleaved.licensed,
            },
            ..TextRequest::new(format)
        };
        print_built(&export_text(config, &request, date)?, self.json)
    }
}
