//! `spoor report JOB.toml... [--out FOLDER] [--model FOLDER] [--json]`

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use spoor::config::Config;
use spoor::corpus::report;
use spoor::sanitize;

/// Write the figures of jobs.
#[derive(Debug, Args)]
pub struct Report {
    /// The jobs' TOML files; several are put side by side.
    #[arg(required = true)]
    jobs: Vec<PathBuf>,
    /// Where to write report.html, report.md and the plots; by default the folder `report`
    /// in the folder of the first job.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// The model for the shown perplexities, preferably one that steered none of the
    /// crawls; by default each job's own.
    #[arg(long, value_name = "FOLDER")]
    model: Option<PathBuf>,
    /// Print all figures as JSON.
    #[arg(long)]
    json: bool,
}

impl Report {
    pub fn run(self) -> Result<()> {
        let jobs: Result<Vec<Config>, _> = self.jobs.iter().map(|j| Config::load(j)).collect();
        let jobs = jobs?;
        let report = report::report(&jobs, self.model.as_deref())?;
        let first = jobs.first().map(|job| job.job_folder().join("report"));
        let paths = report.write(&self.out.or(first).unwrap_or_default())?;
        if self.json {
            println!(
                "{}",
                sanitize::json(&serde_json::to_string_pretty(&report)?)
            );
            return Ok(());
        }
        print!("{}", report.summary());
        let [html, markdown] = paths.map(|p| p.display().to_string());
        println!("\nwritten to {html} and {markdown}");
        Ok(())
    }
}
