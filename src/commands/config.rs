//! `spoor config check FILE`, `spoor config reference`

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Subcommand;
use spoor::config;

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

fn check(files: &[PathBuf]) -> Result<()> {
    let mut wrong = 0;
    for file in files {
        match config::Config::load(file).and_then(|config| config.seeds.read()) {
            Ok(seeds) => println!("{}: in order, {} seeds", file.display(), seeds.len()),
            Err(errors) => {
                wrong += 1;
                eprintln!("{errors}");
            }
        }
    }
    match wrong {
        0 => Ok(()),
        1 => bail!("1 file has errors"),
        n => bail!("{n} files have errors"),
    }
}
