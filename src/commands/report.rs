//! `spoor report JOB.toml... [--out FOLDER] [--model FOLDER] [--json]`

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use spoor::config::{Config, FileErrors, JobSettings};
use spoor::corpus::report;

use super::print_json;

/// Write the figures of jobs as a page of HTML, with plots.
#[derive(Debug, Args)]
pub struct Report {
    /// The jobs' TOML files; several are shown side by side.
    #[arg(required = true)]
    jobs: Vec<PathBuf>,
    /// Where to write report.html and the plots; by default the folder `report`
    /// of the job, or of several jobs `with-OTHERS` in that folder of the first.
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

/// Where the report of these jobs is written.
fn place(jobs: &[JobSettings]) -> PathBuf {
    let Some((first, others)) = jobs.split_first() else {
        return PathBuf::new();
    };
    let folder = first.job_folder().join("report");
    if others.is_empty() {
        return folder;
    }
    let names: Vec<&str> = others.iter().map(|job| job.job.name.as_str()).collect();
    let mut name = format!("with-{}", names.join("-"));
    // A folder's name has a limit.
    name.truncate(200);
    folder.join(name)
}

impl Report {
    pub fn run(self) -> Result<()> {
        let jobs = self.jobs.iter();
        let jobs: Result<Vec<JobSettings>, _> = jobs
            .map(|job| Ok::<_, FileErrors>(Config::load(job)?.settings))
            .collect();
        let jobs = jobs?;
        let report = report::report(&jobs, self.model.as_deref())?;
        let page = report.write(&self.out.unwrap_or_else(|| place(&jobs)))?;
        if self.json {
            return print_json(&report);
        }
        print!("{}", report.summary());
        println!("\nwritten to {}", page.display());
        Ok(())
    }
}
