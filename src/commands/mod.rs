//! The commands: one thin file each. They read arguments, call the library and
//! print; nothing is decided here.

mod agreement;
mod annotate;
mod config;
mod crawl;
mod demo;
mod explain;
mod export;
mod lab;
mod progress;
mod rank;
mod reload;
mod report;
mod schema;
mod score;
mod store;
mod takedown;
mod train;

use std::path::PathBuf;

use anyhow::Result;
use clap::{ArgAction, Parser, Subcommand};

/// Follows one topic through the web and brings home its text and images.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
pub struct Arguments {
    /// Say more on standard error: -v for steps, -vv for every fetch. The
    /// variable SPOOR_LOG takes a filter, as `spoor=debug`.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train on a topic and crawl a small built-in web, all on this machine.
    Demo(demo::Demo),
    /// Train the model that a job names.
    Train {
        /// The job's TOML file.
        job: PathBuf,
    },
    /// Crawl: train if need be, begin or resume, stop at the job's limits.
    Crawl {
        /// The job's TOML file.
        job: PathBuf,
    },
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
    /// Put the [scope] of a changed job file in force while the job runs.
    Reload {
        /// The job's TOML file.
        job: PathBuf,
    },
    /// Rank a job's images by their words, each picture once, into ranking.tsv.
    Rank(rank::Rank),
    /// Serve a page on which people judge a job's images.
    Annotate(annotate::Annotate),
    /// Write a job's best images and their words as a data set that other programs
    /// read.
    Export(export::Export),
    /// Print the JSON Schema of files that spoor writes.
    #[command(subcommand)]
    Schema(schema::Schema),
    /// Say how far those who judged a job's images agree.
    Agreement(agreement::Agreement),
    /// Write the figures of a job, or of several side by side, as HTML and Markdown.
    Report(report::Report),
    /// Remove samples from a job that does not run, and never fetch them again.
    Takedown(takedown::Takedown),
    /// Rate a text with a model.
    Score(score::Score),
    /// Check a job file, or list every key.
    #[command(subcommand)]
    Config(config::Config),
    /// Convert, compact, check, export or import a job's frontier.
    #[command(subcommand)]
    Store(store::Store),
    /// Serve and judge webs on this machine, for tests and experiments.
    #[command(subcommand)]
    Lab(lab::Lab),
}

impl Command {
    /// Whether it works on, whoever still reads what it prints.
    pub fn serves(&self) -> bool {
        matches!(
            self,
            Self::Demo(_)
                | Self::Train { .. }
                | Self::Crawl { .. }
                | Self::Annotate(_)
                | Self::Lab(_)
        )
    }
}

/// Runs a command.
///
/// # Errors
/// Whatever went wrong, in words for people.
pub fn run(command: Command) -> Result<()> {
    match command {
        Command::Demo(demo) => demo.run(),
        Command::Train { job } => train::run(&job),
        Command::Crawl { job } => crawl::run(&job),
        Command::Explain { job, url, json } => explain::url(&job, &url, json),
        Command::Host { job, name, json } => explain::host(&job, &name, json),
        Command::Reload { job } => reload::run(&job),
        Command::Rank(rank) => rank.run(),
        Command::Annotate(annotate) => annotate.run(),
        Command::Export(export) => export.run(),
        Command::Schema(schema) => schema.run(),
        Command::Agreement(agreement) => agreement.run(),
        Command::Report(report) => report.run(),
        Command::Takedown(takedown) => takedown.run(),
        Command::Score(score) => score.run(),
        Command::Config(config) => config.run(),
        Command::Store(store) => store.run(),
        Command::Lab(lab) => lab.run(),
    }
}
