//! `spoor reload JOB.toml`

use std::path::Path;

use anyhow::{Context, Result};
use spoor::config::Config;
use spoor::daemon;
use spoor::daemon::control::Client;
use spoor::sanitize;

use super::ctl::{print_changes, print_machines};

/// Applies the changes of the job file that can take effect in the running crawl.
pub fn run(job: &Path, json: bool) -> Result<()> {
    // Checked here first, so that errors name the file.
    let config = Config::load(job)?;
    let text = spoor::fs::read_to_string(job).with_context(|| job.display().to_string())?;
    let client = Client::new(&config.job_folder());
    let changes = daemon::runtime()?.block_on(client.reload(text))?;
    if json {
        println!(
            "{}",
            sanitize::json(&serde_json::to_string_pretty(&changes)?)
        );
        return Ok(());
    }
    print_changes(&changes.changed);
    if changes.changed.iter().any(|c| c.key.starts_with("scope.")) {
        println!("the queue is being checked against the changed [scope]");
    }
    if let Some(came) = changes.rescored {
        let so_far = if changes.rated {
            ""
        } else {
            " so far, in progress"
        };
        println!(
            "re-rated: {} addresses seen, {} links with another score, {} of them in another \
             class, {} now above the cutoff (razor), {} back from above it{so_far}",
            came.seen, came.rescored, came.moved, came.razored, came.revived
        );
    }
    print_machines(&client);
    if !changes.later.is_empty() {
        println!(
            "takes effect at the next start: {}",
            changes.later.join(", ")
        );
    }
    Ok(())
}
