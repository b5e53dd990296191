//! `spoor export JOB.toml --format FORMAT [--top N] [--to FOLDER] [--urls-only]`

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde_json::json;
use spoor::config::Config;
use spoor::export::{self, Request};
use spoor::steps::Step;

use super::print_json;

/// Write a job's images as a data set.
#[derive(Debug, Args)]
pub struct Export {
    /// The job's TOML file.
    job: PathBuf,
    /// What to write.
    #[arg(long)]
    format: Format,
    /// Write only the best N.
    #[arg(long, value_name = "N")]
    top: Option<NonZeroUsize>,
    /// The folder to write, by default exports/FORMAT in the job's folder. An earlier
    /// export there is replaced; anything else is left alone.
    #[arg(long, value_name = "FOLDER")]
    to: Option<PathBuf>,
    /// Write the addresses of the images instead of their bytes.
    #[arg(long)]
    urls_only: bool,
    /// Print what was written as JSON.
    #[arg(long)]
    json: bool,
}

/// A format.
#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "lower")]
pub enum Format {
    /// Image files with metadata.jsonl, for Hugging Face datasets.
    ImageFolder,
    /// Tar files, for webdataset.
    WebDataset,
    /// Parquet with the bytes in a column, for datasets, pandas and others.
    Parquet,
    /// A line of JSON for each image, and the image files.
    Jsonl,
}

impl Export {
    pub fn run(self) -> Result<()> {
        let config = Config::load(&self.job)?;
        let job = std::fs::read_to_string(&self.job)
            .with_context(|| format!("{}: reading failed", self.job.display()))?;
        let request = Request {
            format: match self.format {
                Format::ImageFolder => export::Format::ImageFolder,
                Format::WebDataset => export::Format::WebDataset,
                Format::Parquet => export::Format::Parquet,
                Format::Jsonl => export::Format::JsonLines,
            },
            top: self.top,
            to: self.to,
            urls_only: self.urls_only,
            job: &job,
            date: &jiff::Timestamp::now().strftime("%Y-%m-%d").to_string(),
        };
        let mut step = None;
        let exported = export::export(&config, &request, |done, total| {
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
        Ok(())
    }
}
