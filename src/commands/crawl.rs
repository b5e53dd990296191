//! `spoor crawl JOB.toml`, `spoor crawl --seed URL --contact ADDRESS`

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use spoor::config::{Config, Given};
use spoor::crawl::pipeline::Control;
use spoor::daemon;

use super::init::NewJob;
use super::log::LogFormat;
use super::progress::Progress;
use super::summary::RunSummary;
use super::{exit, print_json, screen};

/// Crawl: train if necessary, start or resume, stop at the job's limits.
#[derive(Debug, Args)]
#[command(
    after_help = exit::HELP,
    override_usage = "spoor crawl [OPTIONS] <JOB>\n       \
        spoor crawl [OPTIONS] --seed <URL>... --contact <ADDRESS>"
)]
pub struct Crawl {
    /// The job's TOML file; --pages, --time and --set then replace its keys for this run, until a
    /// reload.
    #[arg(conflicts_with_all = ["seeds", "contact", "name", "texts"])]
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
        let (job, given) = match self.job {
            Some(job) => (job, self.new.given()?),
            None if self.new.is_empty() => {
                eprintln!("spoor: {NEITHER}");
                return Ok(exit::USAGE);
            }
            None => (self.new.place()?.file, Vec::new()),
        };
        crawl(&job, &given, self.force, self.json, self.log_format)
    }
}

/// The arguments to write after `spoor crawl`.
const NEITHER: &str = "\
give a job file, or pages about the topic to start from:
  spoor crawl JOB.toml
  spoor crawl --seed https://example.org/page --contact you@your.domain
`spoor init` asks for what a new job needs, and `spoor demo` crawls without a network";

/// Crawls the job in this file with the `given` keys; returns the exit code.
fn crawl(
    job: &Path,
    given: &[Given],
    force: bool,
    json: bool,
    log_format: LogFormat,
) -> Result<u8> {
    let mut config = Config::load(job)?.with(given)?;
    if force {
        config.train.min_sentences = 1;
    }
    if !given.is_empty() {
        let keys: Vec<String> = given.iter().map(Given::to_string).collect();
        screen::say(&format!("for this run: {}", keys.join(", ")));
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
    let run_summary = RunSummary {
        job,
        topic: config.job.name.as_str(),
        summary: &summary,
    };
    match (log_format, json) {
        (LogFormat::Json, _) => run_summary.event(code)?,
        (LogFormat::Text, true) => print_json(&run_summary.json(code))?,
        (LogFormat::Text, false) => {
            print!("{}", run_summary.text());
            if let Some(why) = run_summary.nothing() {
                eprintln!("spoor: {why}");
            }
        }
    }
    Ok(code)
}
