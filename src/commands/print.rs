//! `spoor print JOB|FOLDER|FILE`

use std::io::{BufWriter, Write};
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use spoor::corpus::print;
use spoor::{sanitize, tool_error};

use super::index::home;

/// Print documents or images as lines of JSON.
#[derive(Debug, Args)]
pub struct Print {
    /// A job's TOML file or folder, the plan or folder of a corpus, or a file of JSON lines, which may
    /// be packed with gzip or zstd.
    #[arg(value_name = "JOB|FOLDER|FILE")]
    of: PathBuf,
    /// Print the images of a job with the words around them, instead of its documents.
    #[arg(long)]
    images: bool,
    /// Print at most this many.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

impl Print {
    pub fn run(self) -> Result<()> {
        let mut out = BufWriter::new(std::io::stdout().lock());
        let mut left = self.limit.unwrap_or(u64::MAX);
        if left == 0 {
            return Ok(());
        }
        let mut failed = None;
        let mut each = |line: &str| {
            let written = writeln!(out, "{}", sanitize::json(line));
            left -= 1;
            match written {
                Ok(()) => Ok(left > 0),
                Err(error) => {
                    failed = Some(error);
                    Ok(false)
                }
            }
        };
        let is_toml = self.of.extension().is_some_and(|ending| ending == "toml");
        if self.of.is_dir() || is_toml {
            let home = home(&self.of)?;
            // A takedown waits until everything is read.
            let _samples = home.lock()?;
            match (self.images, home.is_job()) {
                (false, true) => print::of_job(home.folder(), &mut each)?,
                (false, false) => print::of_files(home.folder(), &mut each)?,
                (true, true) => print::images(home.folder(), &mut each)?,
                (true, false) => {
                    let why = "a corpus has no images of its own; give the job";
                    return Err(tool_error::ToolError::at(home.folder(), why).into());
                }
            }
        } else if self.images {
            let why = "it is a file; give a job's TOML file or folder";
            return Err(tool_error::ToolError::at(&self.of, why).into());
        } else {
            print::of_files(&self.of, &mut each)?;
        }
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(out.flush()?),
        }
    }
}
