//! `spoor rank JOB.toml [--top N]`

use std::num::NonZeroUsize;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use spoor::config::Config;
use spoor::corpus::rank::{self, Steps};
use spoor::outputs;

use super::print_json;

/// Rank a job's images.
#[derive(Debug, Args)]
pub struct Rank {
    /// The job's TOML file.
    job: PathBuf,
    /// Write only the best N.
    #[arg(long, value_name = "N")]
    top: Option<NonZeroUsize>,
    /// Print the steps as JSON.
    #[arg(long)]
    json: bool,
}

impl Rank {
    pub fn run(self) -> Result<()> {
        let config = Config::load(&self.job)?;
        let _samples = outputs::read_samples(&config.job_folder())?;
        let ranking = rank::rank(&config)?;
        let (path, written) = ranking.write(&config.job_folder(), self.top)?;
        let beside = path.with_file_name(rank::DUPLICATES);
        let steps = &ranking.steps;
        if self.json {
            return print_json(&json!({
                "initial": steps.initial,
                "format": steps.format,
                "cut": steps.cut,
                "unique_by_url": steps.address,
                "unique_by_bytes": steps.bytes,
                "unique_by_picture": steps.unique,
                "unread_sidecars": steps.unread,
                "written": written,
                "ranking": path,
                "duplicates": beside,
            }));
        }
        print_steps(steps);
        println!(
            "{written} of {} images written to {}",
            ranking.images.len(),
            path.display()
        );
        println!("what was left out as a copy is in {}", beside.display());
        Ok(())
    }
}

fn print_steps(steps: &Steps) {
    println!("step                  images  left out");
    println!("initial             {:>8}", steps.initial);
    let mut before = steps.initial;
    for (name, after) in [
        ("format filter", steps.format),
        ("cut", steps.cut),
        ("unique by URL", steps.address),
        ("unique by bytes", steps.bytes),
        ("unique by picture", steps.unique),
    ] {
        println!("{name:<20}{after:>8}  {:>8}", before.saturating_sub(after));
        before = after;
    }
    if steps.unread > 0 {
        println!("sidecars skipped: {}", steps.unread);
    }
}
