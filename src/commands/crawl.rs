//! `spoor crawl JOB.toml`

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use spoor::config::Config;
use spoor::daemon;
use spoor::pipeline::Control;

use super::log::LogFormat;
use super::progress::Progress;
use super::summary::Told;
use super::{exit, print_json};

/// Crawl: train if need be, begin or resume, stop at the job's limits.
#[derive(Debug, Args)]
#[command(after_help = exit::HELP)]
pub struct Crawl {
    /// The job's TOML file.
    job: PathBuf,
    /// Print what came of it as JSON.
    #[arg(long)]
    json: bool,
    /// The form of the log. With `json` all of standard output is lines of JSON: the log,
    /// how the crawl stands every 30 seconds, and what came of it, as the last line and as
    /// --json has it.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    log_format: LogFormat,
}

impl Crawl {
    /// The form of the log.
    pub fn log_format(&self) -> LogFormat {
        self.log_format
    }

    /// Crawls; returns the exit code.
    pub fn run(self) -> Result<u8> {
        crawl(&self.job, self.json, self.log_format)
    }
}

/// Crawls the job in this file; returns the exit code.
fn crawl(job: &Path, json: bool, log_format: LogFormat) -> Result<u8> {
    let config = Config::load(job)?;
    let runtime = daemon::runtime()?;
    let mut progress = Progress::crawl(&config, None);
    let control = Control::default();
    let desk = daemon::desk(&config, &control);
    daemon::reload_on_hangup(runtime.handle(), desk.clone(), job);
    let crawled = daemon::crawl(&config, runtime.handle(), &mut progress, control, desk);
    progress.finish();
    let summary = crawled?;
    let code = exit::of_crawl(&summary);
    let told = Told {
        job,
        topic: config.job.name.as_str(),
        limits: &config.limits,
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
