//! `spoor archive check|stats|index|list|get|pack`

mod check;
mod get;
mod index;
mod list;
mod pack;
mod remote;
mod sources;
mod stats;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Read, search and pack WARC and ARC files.
#[derive(Debug, Args)]
pub struct Archive {
    #[command(subcommand)]
    what: ArchiveCommand,
    /// Print the result as JSON.
    #[arg(long, global = true)]
    json: bool,
}

/// The operation.
#[derive(Debug, Subcommand)]
enum ArchiveCommand {
    /// Read files to their ends: records by type, digests, and damage. The exit code is 1 if
    /// something is wrong.
    Check {
        /// The files, or folders of them.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Write a CDXJ index: a line for each capture, sorted by address and time. A killed run
    /// continues where it stopped.
    Index {
        /// The files, or folders of them.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// The index to write. With a name that ends in .cdxj.gz it is compressed in blocks,
        /// and the index of these is written beside it, as *.idx.
        #[arg(long, short, value_name = "INDEX")]
        output: PathBuf,
    },
    /// Count the stored pages by status, encoding, type, language, host, size and year. The exit
    /// code is 1 if a file could not be read to its end.
    Stats {
        /// The files, or folders of them.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// List captures, by address, date, type and status. An index is searched without
    /// reading the archives; an index beside an archive is used. The exit code is 1 if
    /// nothing was found.
    List(list::List),
    /// Print the decoded contents of a capture, or save those of many.
    Get(get::Get),
    /// Pack WARC files as a WACZ: with their index and a list of their pages in one file,
    /// which ReplayWeb.page and pywb can play.
    Pack(pack::Pack),
}

impl Archive {
    /// Returns the exit code.
    pub fn run(self) -> Result<u8> {
        match self.what {
            ArchiveCommand::Check { files } => check::run(&files, self.json),
            ArchiveCommand::Index { files, output } => index::run(&files, &output, self.json),
            ArchiveCommand::Stats { files } => stats::run(&files, self.json),
            ArchiveCommand::List(list) => list.run(self.json),
            ArchiveCommand::Get(get) => get.run(),
            ArchiveCommand::Pack(pack) => pack.run(self.json),
        }
    }
}
