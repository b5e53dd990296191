//! `spoor reload JOB.toml [--json]`

use std::path::Path;

use anyhow::{Context, Result};
use spoor::config::Config;
use spoor::daemon;
use spoor::daemon::control::Client;

use super::ctl::{print_changes, show_for_machines};

/// Applies the changes of the job file that can take effect in the running crawl.
pub fn run(job: &Path, json: bool) -> Result<()> {
    // Checked here first, so that errors name the file.
    let config = Config::load(job)?;
    let text = spoor::fs::read_to_string(job).with_context(|| job.display().to_string())?;
    let client = Client::new(&config.job_folder());
    let changes = daemon::runtime()?.block_on(client.reload(text))?;
    show_for_machines(json, &client, &changes, print_changes)
}
