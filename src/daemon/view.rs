//! The page of a crawl while the crawl is being prepared: its address is the first that is
//! said, and what is done until the first request stands on it.

use std::path::Path;

use super::{DaemonError, Observer};
use crate::config::Config;
use crate::control::{Desk, Entrance};
use crate::frontier::Frontier;
use crate::pipeline::Standing;
use crate::store::Row;

/// Takes the address that the page is to have, and says it.
///
/// # Errors
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

/// Tells an observer, and those who watch the page.
pub(super) struct Told<'a> {
    observer: &'a mut dyn Observer,
    desk: &'a Desk,
}

impl<'a> Told<'a> {
    pub fn of(observer: &'a mut dyn Observer, desk: &'a Desk) -> Self {
        Self { observer, desk }
    }
}

impl Observer for Told<'_> {
    fn opened(&mut self, folder: &Path) -> Result<(), DaemonError> {
        self.observer.opened(folder)
    }

    fn say(&mut self, text: &str) {
        self.desk.preparing(text);
        self.observer.say(text);
    }

    fn crawl(&mut self, frontier: &Frontier, row: Option<&Row<'_>>, standing: &Standing) {
        self.observer.crawl(frontier, row, standing);
    }
}
