//! `spoor archive check|stats|index FILE...`

mod check;
mod index;
mod stats;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Read WARC and ARC files.
#[derive(Debug, Args)]
pub struct Archive {
    #[command(subcommand)]
    what: Work,
    /// Print the result as JSON.
    #[arg(long, global = true)]
    json: bool,
}

/// The operation.
#[derive(Debug, Subcommand)]
enum Work {
    /// Read files to their ends: records by type, digests, and what is damaged. The exit
    /// code is 1 where something is wrong.
    Check {
        /// The files, or folders of them.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Write a CDXJ index: a line for each capture, sorted by address and time. A run that
    /// was killed goes on where it was.
    Index {
        /// The files, or folders of them.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// The index to write.
        #[arg(long, short, value_name = "INDEX")]
        output: PathBuf,
    },
    /// Count the stored pages by status, encoding, type, language, host, size and year.
    Stats {
        /// The files, or folders of them.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

impl Archive {
    /// Returns the exit code.
    pub fn run(self) -> Result<u8> {
        match self.what {
            Work::Check { files } => check::run(&files, self.json),
            Work::Index { files, output } => index::run(&files, &output, self.json),
            Work::Stats { files } => stats::run(&files, self.json).map(|()| 0),
        }
    }
}
