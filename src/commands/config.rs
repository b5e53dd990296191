//! `spoor config check FILE`, `spoor config reference`

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Subcommand;
use spoor::config::{self, FileError, FileErrors};
use spoor::daemon::ready::{self, Ready};
use spoor::sanitize;

/// Job files.
#[derive(Debug, Subcommand)]
pub enum Config {
    /// Report every reason why a crawl would refuse job files, each with line and key.
    Check {
        /// The files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Print every key with its meaning, type, range and default.
    Reference,
}

impl Config {
    pub fn run(self) -> Result<()> {
        match self {
            Config::Check { files } => check(&files),
            Config::Reference => {
                print!("{}", config::reference());
                Ok(())
            }
        }
    }
}

/// The number of seeds of a job file that a crawl would accept, and its warnings.
fn checked(file: &Path) -> Result<(usize, Vec<FileError>), FileErrors> {
    let config = config::Config::load(file)?;
    let Ready {
        seeds, warnings, ..
    } = ready::for_crawl(&config)?;
    Ok((seeds.len() + config.seeds.watch.len(), warnings))
}

fn check(files: &[PathBuf]) -> Result<()> {
    let mut wrong = 0;
    for file in files {
        match checked(file) {
            Ok((seeds, warnings)) => {
                for warning in warnings {
                    eprintln!("warning: {}", sanitize::shown(&warning.to_string()));
                }
                let s = if seeds == 1 { "" } else { "s" };
                println!("{}: in order, {seeds} seed{s}", file.display());
            }
            Err(errors) => {
                wrong += 1;
                eprintln!("{}", sanitize::shown(&errors.to_string()));
            }
        }
    }
    match wrong {
        0 => Ok(()),
        1 => bail!("1 file has errors"),
        n => bail!("{n} files have errors"),
    }
}
