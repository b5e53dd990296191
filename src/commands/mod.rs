//! The commands: one thin file each. They read arguments, call the library and
//! print; nothing is decided here.

mod agreement;
mod annotate;
mod config;
mod crawl;
mod ctl;
mod demo;
pub mod exit;
#[cfg(feature = "lab")]
mod experiment;
mod explain;
mod export;
mod frontier;
mod help;
mod init;
mod lab;
mod licenses;
pub mod log;
mod manual;
mod progress;
mod rank;
mod reload;
mod report;
mod schema;
mod score;
mod screen;
mod steps;
mod summary;
mod takedown;
mod train;
mod ui;

use std::path::PathBuf;

use anyhow::Result;
use clap::{ArgAction, Parser, Subcommand};
use serde::Serialize;
use spoor::sanitize;

use log::LogFormat;

/// Where the options stand that every command has: behind its own.
const GENERAL: &str = "Of every command";

/// Follows one topic through the web and brings home its text and images.
#[derive(Debug, Parser)]
#[command(name = "spoor", version, max_term_width = 100, after_help = exit::HELP)]
#[command(disable_help_subcommand = true)]
pub struct Arguments {
    /// Say more on standard error: -v for steps, -vv for every fetch. The
    /// variable SPOOR_LOG takes a filter, as `spoor=debug`.
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = GENERAL)]
    pub verbose: u8,
    /// Show no progress; only warnings, errors and what came of it.
    #[arg(short, long, global = true, help_heading = GENERAL)]
    pub quiet: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train on a topic and crawl a small built-in web, all on this machine.
    Demo(demo::Demo),
    /// Train the model that a job names, or a new one from the best pages it has crawled.
    Train(train::Train),
    /// Crawl, from a job file or from seeds: train if need be, begin or resume, stop at the
    /// job's limits.
    Crawl(crawl::Crawl),
    /// Write a job file from seeds, without starting it.
    Init(init::Init),
    /// Say what a job, running or stopped, knows of an address: state, when it is
    /// due, reason, score, robots, host.
    Explain {
        /// The job's TOML file.
        job: PathBuf,
        /// The address.
        url: String,
        /// Print it as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Say what a job, running or stopped, knows of a host: clock, failures, robots
    /// rules.
    Host {
        /// The job's TOML file.
        job: PathBuf,
        /// The host, as www.example.org.
        name: String,
        /// Print it as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Put in force what of a changed job file may change while the job runs.
    Reload {
        /// The job's TOML file.
        job: PathBuf,
        /// Print it as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Compare settings by crawling a stored web with each, offline.
    #[cfg(feature = "lab")]
    Experiment(experiment::Experiment),
    /// Ask and steer a running crawl.
    Ctl(ctl::Ctl),
    /// Rank a job's images by their words, each picture once, into ranking.tsv.
    Rank(rank::Rank),
    /// Serve a page on which people judge a job's images.
    Annotate(annotate::Annotate),
    /// Write a job's best images and their words, or with --text its documents, as a
    /// data set that other programs read.
    Export(export::Export),
    /// Print the JSON Schema of files that spoor writes.
    #[command(subcommand)]
    Schema(schema::Schema),
    /// Say how far those who judged a job's images agree.
    Agreement(agreement::Agreement),
    /// Write the figures of a job, or of several side by side, as HTML and Markdown.
    Report(report::Report),
    /// Show all jobs of a folder on one page of this machine, with their reports.
    Ui(ui::Ui),
    /// Remove samples from a job that does not run, and never fetch them again.
    Takedown(takedown::Takedown),
    /// Rate a text with a model.
    Score(score::Score),
    /// Check a job file, or list every key.
    #[command(subcommand)]
    Config(config::Config),
    /// Convert, compact, check, export or import a job's frontier.
    #[command(alias = "store")]
    Frontier(frontier::Upkeep),
    /// Serve and judge webs on this machine, for tests and experiments.
    #[command(subcommand)]
    Lab(lab::Lab),
    /// Print the licences of spoor and of everything linked into it, and how to link
    /// another KenLM.
    Licenses,
    /// Print the completions of a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write those of all commands and topics.
    Man {
        /// The folder that they are written to.
        #[arg(long, value_name = "FOLDER")]
        out: Option<PathBuf>,
    },
    /// Print this, the help of a command, or a topic of the guide.
    Help {
        /// A command, as `lab serve`, or a topic; without it, the list of both.
        #[arg(value_name = "COMMAND OR TOPIC")]
        what: Vec<String>,
    },
}

impl Command {
    /// What of the log is printed where nothing more is asked for.
    pub fn level(&self) -> &'static str {
        match self {
            // Its texts are few, and nobody can give it more.
            Self::Demo(_) => "spoor=warn,spoor::crawl::train=error",
            _ => "spoor=warn",
        }
    }

    /// The form of the log while it works.
    pub fn log_format(&self) -> LogFormat {
        match self {
            Self::Crawl(crawl) => crawl.log_format(),
            _ => LogFormat::Text,
        }
    }

    /// Whether it works on, whoever still reads what it prints.
    pub fn serves(&self) -> bool {
        matches!(
            self,
            Self::Demo(_)
                | Self::Train(_)
                | Self::Crawl(_)
                | Self::Annotate(_)
                | Self::Ui(_)
                | Self::Lab(_)
        )
    }
}

/// An error with its causes, each once: many of ours say their cause themselves, and would
/// say it twice with the chain behind them.
pub fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Prints a value for programs; what strangers wrote in it does nothing to a terminal.
fn print_json(value: &impl Serialize) -> Result<()> {
    println!("{}", sanitize::json(&serde_json::to_string_pretty(value)?));
    Ok(())
}

/// Runs a command; returns the exit code.
///
/// # Errors
/// Whatever went wrong, in words for people.
pub fn run(command: Command) -> Result<u8> {
    let done = match command {
        Command::Demo(demo) => demo.run(),
        Command::Train(train) => train.run(),
        Command::Crawl(crawl) => return crawl.run(),
        Command::Init(init) => init.run(),
        Command::Explain { job, url, json } => explain::url(&job, &url, json),
        Command::Host { job, name, json } => explain::host(&job, &name, json),
        Command::Reload { job, json } => reload::run(&job, json),
        #[cfg(feature = "lab")]
        Command::Experiment(experiment) => experiment.run(),
        Command::Ctl(ctl) => ctl.run(),
        Command::Rank(rank) => rank.run(),
        Command::Annotate(annotate) => annotate.run(),
        Command::Export(export) => export.run(),
        Command::Schema(schema) => schema.run(),
        Command::Agreement(agreement) => agreement.run(),
        Command::Report(report) => report.run(),
        Command::Ui(ui) => ui.run(),
        Command::Takedown(takedown) => takedown.run(),
        Command::Score(score) => score.run(),
        Command::Config(config) => config.run(),
        Command::Frontier(frontier) => frontier.run(),
        Command::Lab(lab) => lab.run(),
        Command::Licenses => licenses::run(),
        Command::Completions { shell } => {
            manual::completions(shell);
            Ok(())
        }
        Command::Man { out } => manual::man(out.as_deref()),
        Command::Help { what } => help::run(&what),
    };
    done.map(|()| 0)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("texts: reading failed: {source}")]
    struct Own {
        source: io::Error,
    }

    #[test]
    fn each_cause_is_told_once() {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let own = anyhow::Error::new(Own { source: missing() });
        assert_eq!(told(&own), "texts: reading failed: entity not found");
        let around = own.context("serving the web");
        let expected = "serving the web: texts: reading failed: entity not found";
        assert_eq!(told(&around), expected);
        let plain = anyhow::Error::new(missing()).context("reading x");
        assert_eq!(told(&plain), "reading x: entity not found");
    }
}
