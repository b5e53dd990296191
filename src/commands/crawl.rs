//! `spoor crawl JOB.toml`, `spoor crawl --seed URL --contact ADDRESS`

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use spoor::config::Config;
use spoor::crawl::pipeline::Control;
use spoor::daemon;

use super::init::NewJob;
use super::log::LogFormat;
use super::progress::Progress;
use super::summary::Told;
use super::{exit, print_json};

/// Crawl: train if necessary, start or resume, stop at the job's limits.
#[derive(Debug, Args)]
#[command(
    after_help = exit::HELP,
    override_usage = "spoor crawl [OPTIONS] <JOB>\n       \
        spoor crawl [OPTIONS] --seed <URL>... --contact <ADDRESS>"
)]
pub struct Crawl {
    /// The job's TOML file.
    #[arg(
        required_unless_present = "seeds",
        conflicts_with_all = ["seeds", "contact", "name", "texts", "pages", "time", "set"]
    )]
    job: Option<PathBuf>,
    #[command(flatten)]
    new: NewJob,
    /// Train even with fewer sentences than train.min_sentences.
    #[arg(long)]
    force: bool,
    /// Print the summary as JSON.
    #[arg(long)]
    json: bool,
    /// The format of the log. With `json` all of standard output is lines of JSON: the
    /// log, the state of the crawl every 30 seconds, and as the last line the summary as
    /// with --json.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    log_format: LogFormat,
}

impl Crawl {
    /// The format of the log.
    pub fn log_format(&self) -> LogFormat {
        self.log_format
    }

    /// Crawls; returns the exit code.
    pub fn run(self) -> Result<u8> {
        let job = match self.job {
            Some(job) => job,
            None => self.new.place()?.file,
        };
        crawl(&job, self.force, self.json, self.log_format)
    }
}

/// Crawls the job in this file; returns the exit code.
fn crawl(job: &Path, force: bool, json: bool, log_format: LogFormat) -> Result<u8> {
    let mut config = Config::load(job)?;
    if force {
        config.train.min_sentences = 1;
    }
    let runtime = daemon::runtime()?;
    let mut progress = Progress::crawl(&config, None);
    let control = Control::default();
    let handle = daemon::control_handle(&config, &control);
    handle.name_file(job);
    daemon::reload_on_hangup(runtime.handle(), handle.clone(), job);
    let crawled = daemon::crawl(&config, runtime.handle(), &mut progress, control, handle);
    progress.finish();
    let summary = crawled?;
    let code = exit::of_crawl(&summary);
    let told = Told {
        job,
        topic: config.job.name.as_str(),
        keeps_documents: config.text.documents,
        summary: &summary,
    };
    match (log_format, json) {
        (LogFormat::Json, _) => told.event(code)?,
        (LogFormat::Text, true) => print_json(&told.json(code))?,
        (LogFormat::Text, false) => {
            print!("{}", told.text());
            if let Some(why) = told.nothing() {
                eprintln!("spoor: {why}");
            }
        }
    }
    Ok(code)
}
