//! The commands: one thin file each. They read arguments, call the library and print; they
//! make no decisions.

mod agreement;
mod annotate;
mod archive;
mod checkpoint;
mod cluster;
mod config;
mod corpus;
mod crawl;
mod ctl;
mod demo;
mod doctor;
mod entities;
pub mod exit;
mod explain;
mod export;
mod frontier;
mod help;
mod index;
mod init;
mod keys;
mod licenses;
pub mod log;
mod manual;
mod pdf;
mod print;
mod progress;
mod rank;
mod reload;
mod replay;
mod report;
mod rules;
mod schema;
mod score;
mod screen;
mod search;
mod steps;
mod summary;
mod tagger;
mod takedown;
mod train;
mod ui;

use std::io::Write;
use std::path::PathBuf;
use std::pin::Pin;

use anyhow::{Context, Result};
use clap::{ArgAction, FromArgMatches, Parser, Subcommand};
use serde::Serialize;
use spoor::local::access::Access;
use spoor::{daemon, sanitize};
use tokio::net::TcpListener;

use log::LogFormat;

/// The heading for the options common to all commands, after each command's own.
const GENERAL: &str = "Options of every command";

/// Follows one topic through the web and collects its text and images.
#[derive(Debug, Parser)]
#[command(name = "spoor", version, max_term_width = 100, after_help = exit::HELP)]
#[command(disable_help_subcommand = true)]
pub struct Arguments {
    /// Print more on standard error: -v for steps, -vv for every fetch. The variable
    /// SPOOR_LOG takes a filter, as `spoor=debug`.
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = GENERAL)]
    pub verbose: u8,
    /// Show no progress; only warnings, errors and the result.
    #[arg(short, long, global = true, help_heading = GENERAL)]
    pub quiet: bool,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train on a topic and crawl a small built-in web, offline.
    Demo(demo::Demo),
    /// Train a job's model, from its texts or its best pages.
    Train(train::Train),
    /// Crawl a job, from its file or from seeds; start or continue it.
    Crawl(crawl::Crawl),
    /// Write a job file from seeds, without starting it.
    Init(init::Init),
    /// Show what a job knows about an address, and when it is due.
    Explain {
        /// The job's TOML file.
        job: PathBuf,
        /// The address.
        url: String,
        /// Print it as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show what a job knows about a host: clock, failures, robots.txt.
    Host {
        /// The job's TOML file.
        job: PathBuf,
        /// The host, as www.example.org.
        name: String,
        /// Print it as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Say what is missing or odd on this machine, and what to do.
    Doctor(doctor::Doctor),
    /// Apply changes of a job file while the job runs.
    Reload {
        /// The job's TOML file.
        job: PathBuf,
        /// Print it as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Run a job on the pages of an archive, offline.
    Replay(replay::Replay),
    /// Query and control a running crawl.
    Ctl(ctl::Ctl),
    /// Rank a job's images by their words, each picture once.
    Rank(rank::Rank),
    /// Serve a page on which people judge a job's images.
    Annotate(annotate::Annotate),
    /// Write a job's images, or with --text its documents, as data.
    Export(export::Export),
    /// Make a full-text index of a job or corpus, or add what is new.
    Index(index::Index),
    /// Print documents or images as lines of JSON, for other programs.
    Print(print::Print),
    /// Search indexed documents, here or on a page of this machine.
    Search(search::Search),
    /// Print the JSON Schema of files that spoor writes.
    #[command(subcommand)]
    Schema(schema::Schema),
    /// Report how far the annotators of a job's images agree.
    Agreement(agreement::Agreement),
    /// Write the figures of jobs as a page of HTML, with plots.
    Report(report::Report),
    /// Show all jobs of a folder on one local page, with their reports.
    Ui(ui::Ui),
    /// Remove samples from a job, and never fetch them again.
    Takedown(takedown::Takedown),
    /// Check, list, read, cut, index and pack WARC and ARC files.
    Archive(archive::Archive),
    /// Build a corpus from jobs, archives, folders or JSON lines.
    Corpus(corpus::Corpus),
    /// Find the entities of a list (persons, places) in documents.
    Entities(entities::Entities),
    /// Learn the parts of speech of a language, and tag texts.
    Tagger(tagger::TaggerWork),
    /// Take fields such as title and date from pages by rules.
    Rules(rules::Rules),
    /// Print the text of PDF files.
    ///
    /// Headers and footers are left out, and hyphenated words are joined; on request the place of
    /// every character is given.
    Pdf(pdf::Pdf),
    /// Read one PDF file from standard input within limits, for another spoor.
    #[command(name = "pdf-worker", hide = true)]
    PdfWorker(pdf::Worker),
    /// Print the rows of a Parquet file as JSON within limits, for another spoor.
    #[command(name = "parquet-worker", hide = true)]
    ParquetWorker {
        /// The file.
        file: PathBuf,
    },
    /// Rate a text with a model.
    Score(score::Score),
    /// Check a job file, or list every key.
    #[command(subcommand)]
    Config(config::Config),
    /// Convert, compact, check, export or import a job's frontier.
    #[command(alias = "store")]
    Frontier(frontier::Upkeep),
    /// Show, check, make or restore a checkpoint on another machine.
    Checkpoint(checkpoint::Checkpoint),
    /// Show, check, gather, drain or end a crawl of several machines.
    Cluster(cluster::Cluster),
    /// Make a key for signed requests, or a page about the crawler.
    #[command(subcommand)]
    Keys(keys::Keys),
    /// Print the licences, and how to link another KenLM.
    Licenses,
    /// Print the completions for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write those of all commands.
    Man {
        /// The folder to write them to.
        #[arg(long, value_name = "FOLDER")]
        out: Option<PathBuf>,
    },
    /// Print this, the help of a command, or a topic of the guide.
    Help {
        /// A command, as `archive get`, or a topic; by default the list of both.
        #[arg(value_name = "COMMAND OR TOPIC")]
        what: Vec<String>,
    },
}

impl Command {
    /// The default level of the log.
    pub fn level(&self) -> &'static str {
        match self {
            // It deliberately has few texts, and more cannot be given.
            Self::Demo(_) => "spoor=warn,spoor_crawl::train=error",
            _ => "spoor=warn",
        }
    }

    /// The format of the log during the command.
    pub fn log_format(&self) -> LogFormat {
        match self {
            Self::Crawl(crawl) => crawl.log_format(),
            _ => LogFormat::Text,
        }
    }

    /// Whether it works on as many pages as there are, so that its memory counts.
    pub fn is_long(&self) -> bool {
        matches!(
            self,
            Self::Crawl(_) | Self::Replay(_) | Self::Corpus(_) | Self::Index(_) | Self::Entities(_)
        )
    }

    /// Whether it continues after its standard output is closed.
    pub fn serves(&self) -> bool {
        match self {
            Self::Search(search) => search.serve,
            _ => matches!(
                self,
                Self::Demo(_) | Self::Train(_) | Self::Crawl(_) | Self::Annotate(_) | Self::Ui(_)
            ),
        }
    }
}

/// Reads the command line; a wrong one ends the process with a message.
pub fn arguments() -> Arguments {
    let matches = help::grouped().get_matches();
    Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// Prints a value as JSON, with untrusted text escaped for terminals.
fn print_json(value: &impl Serialize) -> Result<()> {
    println!("{}", sanitize::json(&serde_json::to_string_pretty(value)?));
    Ok(())
}

/// Prints a value as JSON, or in words.
fn show<T: Serialize>(json: bool, value: &T, print: impl FnOnce(&T)) -> Result<()> {
    if json {
        return print_json(value);
    }
    print(value);
    Ok(())
}

/// Prints what is on a page with its link, and serves the page until a signal comes.
async fn serve_page<S, F>(
    listener: Result<TcpListener>,
    what: &str,
    serve: impl FnOnce(Access, TcpListener, Pin<Box<dyn Future<Output = ()> + Send>>) -> S,
) -> Result<()>
where
    S: Future<Output = Result<(), F>>,
    F: std::error::Error + Send + Sync + 'static,
{
    // Before the address is printed, because its reader may stop the server.
    let mut signals = daemon::Signals::listen().context("listening for signals")?;
    let listener = listener?;
    let address = listener.local_addr().context("reading the address")?;
    let access = Access::random(address).context("the system provides no random numbers")?;
    println!("{what} on {}", access.link(address));
    // Scripts wait for the first line.
    std::io::stdout().flush().context("printing the address")?;
    let stop = Box::pin(async move {
        signals.next().await;
    });
    let served = serve(access, listener, stop).await;
    served.context("serving the page")
}

/// Runs a command; returns the exit code.
///
/// # Errors
///
/// Any failure, in words for people.
pub fn run(command: Command) -> Result<u8> {
    let done = match command {
        Command::Demo(demo) => return demo.run(),
        Command::Train(train) => train.run(),
        Command::Crawl(crawl) => return crawl.run(),
        Command::Init(init) => init.run(),
        Command::Explain { job, url, json } => explain::url(&job, &url, json),
        Command::Host { job, name, json } => explain::host(&job, &name, json),
        Command::Reload { job, json } => reload::run(&job, json),
        Command::Replay(replay) => replay.run(),
        Command::Ctl(ctl) => ctl.run(),
        Command::Rank(rank) => rank.run(),
        Command::Annotate(annotate) => annotate.run(),
        Command::Export(export) => export.run(),
        Command::Index(index) => index.run(),
        Command::Doctor(doctor) => doctor.run(),
        Command::Print(print) => print.run(),
        Command::Search(search) => search.run(),
        Command::Schema(schema) => schema.run(),
        Command::Agreement(agreement) => agreement.run(),
        Command::Report(report) => report.run(),
        Command::Ui(ui) => ui.run(),
        Command::Takedown(takedown) => takedown.run(),
        Command::Archive(archive) => return archive.run(),
        Command::Corpus(corpus) => corpus.run(),
        Command::Entities(entities) => entities.run(),
        Command::Tagger(tagger) => tagger.run(),
        Command::Rules(rules) => return rules.run(),
        Command::Pdf(pdf) => return pdf.run(),
        Command::PdfWorker(worker) => worker.run(),
        Command::ParquetWorker { file } => {
            spoor::corpus::pipeline::print_rows(&file).map_err(anyhow::Error::msg)
        }
        Command::Score(score) => score.run(),
        Command::Config(config) => config.run(),
        Command::Frontier(frontier) => frontier.run(),
        Command::Checkpoint(checkpoint) => checkpoint.run(),
        Command::Cluster(cluster) => cluster.run(),
        Command::Keys(keys) => keys.run(),
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

    use spoor::tool_error::with_causes;

    #[derive(Debug, thiserror::Error)]
    #[error("texts: reading failed: {source}")]
    struct Own {
        source: io::Error,
    }

    #[test]
    fn each_cause_is_told_once() {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let own = anyhow::Error::new(Own { source: missing() });
        assert_eq!(
            with_causes(own.as_ref()),
            "texts: reading failed: entity not found"
        );
        let around = own.context("serving the web");
        let expected = "serving the web: texts: reading failed: entity not found";
        assert_eq!(with_causes(around.as_ref()), expected);
        let plain = anyhow::Error::new(missing()).context("reading x");
        assert_eq!(with_causes(plain.as_ref()), "reading x: entity not found");
    }
}
