//! `spoor doctor [JOB]`

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use spoor::config::Config;
use spoor::daemon::doctor;
use spoor::fold::fold;

use super::print_json;

/// The columns for a text beside its subject.
const WIDTH: usize = 63;

/// Say what is missing or odd on this machine, and what to do.
#[derive(Debug, Args)]
pub struct Doctor {
    /// The TOML file of the job that is to run here; without one, any job in this folder.
    job: Option<PathBuf>,
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub fn run(self) -> Result<()> {
        let config = self.job.as_deref().map(Config::load).transpose()?;
        let findings = doctor::examine(Path::new("."), config.as_ref());
        if self.json {
            print_json(&findings)?;
        } else {
            for doctor::Finding {
                subject,
                found,
                advice,
            } in &findings
            {
                let state = if advice.is_some() { "ODD" } else { "ok" };
                let found = spoor::sanitize::shown(found);
                let advice = advice.iter().flat_map(|advice| fold(advice, WIDTH));
                let mut begin = format!("{state:<3}  {subject:<10}");
                for line in fold(&found, WIDTH).into_iter().chain(advice) {
                    println!("{begin:<15}  {line}");
                    begin.clear();
                }
            }
        }
        match findings
            .iter()
            .filter(|found| found.advice.is_some())
            .count()
        {
            0 => Ok(()),
            1 => bail!("one thing is odd"),
            odd => bail!("{odd} things are odd"),
        }
    }
}
