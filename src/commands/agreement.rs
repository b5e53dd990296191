//! `spoor agreement JOB.toml [--merge a+b=name]`

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use spoor::config::Config;
use spoor::corpus::agreement::{Merge, agreement};

use super::print_json;

/// Report how far the annotators of a job's images agree.
#[derive(Debug, Args)]
pub struct Agreement {
    /// The job's TOML file.
    job: PathBuf,
    /// Merge classes, as describes+fits=good; may be given several times.
    #[arg(long, value_name = "CLASS+CLASS=NAME")]
    merge: Vec<Merge>,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

impl Agreement {
    pub fn run(self) -> Result<()> {
        let config = Config::load(&self.job)?;
        let figures = agreement(&config, &self.merge)?;
        let paths = figures.write(&config.job_folder())?;
        if self.json {
            return print_json(&figures);
        }
        print!("{}", figures.to_markdown());
        let paths: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
        println!("\nwritten to {}", paths.join(" and "));
        Ok(())
    }
}
