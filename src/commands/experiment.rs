//! `spoor experiment`: the same crawls with other settings, side by side, offline.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use spoor::daemon;
use spoor::lab::experiment::{self, Plan};

use super::screen;

/// Compare settings by crawling a stored web with each.
#[derive(Debug, Args)]
pub struct Experiment {
    /// The plan, a TOML file.
    plan: PathBuf,
    /// Where models, table and plots are written; by default as in the plan.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
}

impl Experiment {
    pub fn run(self) -> Result<()> {
        let mut plan = Plan::read(&self.plan)?;
        if let Some(out) = self.out {
            plan.out = out;
        }
        let runtime = daemon::runtime()?;
        let outcome = experiment::run(&plan, runtime.handle(), &screen::say)?;
        if self.json {
            print!("{}", outcome.json())
        } else {
            println!("{}", outcome.markdown());
            println!("table and plots in {}", plan.out.display());
        }
        Ok(())
    }
}
