//! `spoor config check FILE`, `spoor config reference`

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use spoor::config;
use spoor::control::Token;

/// Job files.
#[derive(Debug, Subcommand)]
pub enum Config {
    /// Report everything that is wrong with job files, each with line and key.
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

/// The number of seeds of a job file that is in order.
fn checked(file: &Path) -> Result<usize> {
    let config = config::Config::load(file)?;
    let seeds = config.seeds.read()?;
    Token::of(&config.control).with_context(|| file.display().to_string())?;
    Ok(seeds.len())
}

fn check(files: &[PathBuf]) -> Result<()> {
    let mut wrong = 0;
    for file in files {
        match checked(file) {
            Ok(seeds) => println!("{}: in order, {seeds} seeds", file.display()),
            Err(errors) => {
                wrong += 1;
                eprintln!("{errors:#}");
            }
        }
    }
    match wrong {
        0 => Ok(()),
        1 => bail!("1 file has errors"),
        n => bail!("{n} files have errors"),
    }
}
