//! `spoor reload JOB.toml`

use std::path::Path;

use anyhow::{Context, Result, bail};
use spoor::checkpoint::{self, OpenError};
use spoor::config::Config;
use spoor::control::Client;
use spoor::daemon;

/// Puts the scope of the job file in force at the crawl that works on the job.
pub fn run(job: &Path) -> Result<()> {
    // Checked here first, so that errors name the file.
    let config = Config::load(job)?;
    let text = std::fs::read_to_string(job).with_context(|| job.display().to_string())?;
    let folder = config.job_folder();
    let lock = || checkpoint::lock(&folder);
    if !folder.is_dir() || !matches!(lock(), Err(OpenError::Busy(_))) {
        bail!(
            "{}: no crawl works on this job; the next one takes the file as it is",
            folder.display()
        );
    }
    let reloaded = daemon::runtime()?.block_on(Client::new(&folder).reload(text))?;
    match reloaded.changed {
        true => println!("in force: what is queued is judged anew by the changed [scope]"),
        false => println!("[scope] is the same as before"),
    }
    if !reloaded.later.is_empty() {
        println!(
            "takes effect at the next start: {}",
            reloaded.later.join(", ")
        );
    }
    Ok(())
}
