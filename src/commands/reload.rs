//! `spoor reload JOB.toml`

use std::path::Path;

use anyhow::{Context, Result, bail};
use spoor::checkpoint::{self, OpenError};
use spoor::config::Config;
use spoor::control::Client;
use spoor::daemon;

/// Puts what of the job file may change while a crawl runs in force at the crawl that
/// works on the job.
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
        true => println!("in force: {}", reloaded.keys.join(", ")),
        false => println!("all that may change now is the same as before"),
    }
    if reloaded.keys.iter().any(|key| key.starts_with("scope.")) {
        println!("what is queued is judged anew by the changed [scope]");
    }
    if let Some(came) = reloaded.rescored {
        let so_far = if reloaded.rated {
            ""
        } else {
            " so far, and it goes on"
        };
        println!(
            "rated anew: {} addresses seen, {} links with another score, {} of them in another \
             class, {} now above the razor, {} back from above it{so_far}",
            came.seen, came.rescored, came.moved, came.razored, came.revived
        );
    }
    if !reloaded.later.is_empty() {
        println!(
            "takes effect at the next start: {}",
            reloaded.later.join(", ")
        );
    }
    Ok(())
}
