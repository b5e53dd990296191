//! Progress reports of a run: to a terminal or a log, and to the crawl's page, which shows
//! the steps of the preparation from the start.

use std::path::Path;

use super::error::DaemonError;
use crate::config::Config;
use crate::control::Entrance;
use crate::crawl::pipeline::RunStatus;
use crate::frontier::Cells;
use crate::outputs::Row;

/// Receives the progress of a run.
pub trait Observer {
    /// The job is open: its folder exists and is locked by this process.
    ///
    /// # Errors
    ///
    /// Ends the run before any request.
    fn opened(&mut self, _folder: &Path) -> Result<(), DaemonError> {
        Ok(())
    }
    /// A step, in words.
    fn say(&mut self, text: &str);
    /// A finished task, or just the passing of time.
    fn crawl(&mut self, frontier: &Cells, row: Option<&Row<'_>>, standing: &RunStatus);
}

/// Binds the address of the page, and reports it.
///
/// # Errors
///
/// [`DaemonError::Access`].
pub(super) fn open(
    config: &Config,
    observer: &mut dyn Observer,
) -> Result<Option<Entrance>, DaemonError> {
    let entrance = Entrance::open(&config.control)?;
    if let Some(entrance) = &entrance {
        observer.say(&format!("dashboard on {}", entrance.link));
    }
    Ok(entrance)
}
