//! The progress display: a bar on a terminal, silence in a pipe.

use std::path::Path;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use spoor::config::{Config, Logs};
use spoor::daemon::{DaemonError, Observer};
use spoor::frontier::Frontier;
use spoor::store::Row;

use super::log;

/// How often the bar is drawn anew at most.
const REFRESH: Duration = Duration::from_millis(100);

/// Shows steps and a crawl on standard error, if that is a terminal.
pub struct Progress {
    bar: ProgressBar,
    counts_fetches: bool,
    drawn: Instant,
    /// What of the log a crawl writes into its folder.
    logs: Option<Logs>,
}

impl Progress {
    /// For work without a measurable end.
    pub fn steps() -> Self {
        let bar = ProgressBar::new_spinner();
        bar.enable_steady_tick(REFRESH);
        Self {
            bar,
            counts_fetches: false,
            drawn: Instant::now(),
            logs: None,
        }
    }

    /// For a crawl, with a bar where the job limits its pages.
    pub fn crawl(config: &Config) -> Self {
        let limits = &config.limits;
        let (bar, template) = match limits.documents.or(limits.fetches) {
            Some(total) => (
                ProgressBar::new(total),
                "{elapsed_precise} [{bar:30}] {pos}/{len} pages, {msg}",
            ),
            None => (
                ProgressBar::new_spinner(),
                "{elapsed_precise} {spinner} {pos} pages, {msg}",
            ),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        Self {
            bar,
            counts_fetches: limits.documents.is_none(),
            drawn: Instant::now(),
            logs: Some(config.logs.clone()),
        }
    }

    /// Removes the bar.
    pub fn finish(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Observer for Progress {
    fn opened(&mut self, folder: &Path) -> Result<(), DaemonError> {
        match &self.logs {
            Some(logs) => log::also_to_file(logs, folder),
            None => Ok(()),
        }
    }

    fn say(&mut self, text: &str) {
        tracing::info!("{text}");
        self.bar.println(text);
    }

    fn crawl(&mut self, frontier: &Frontier, row: Option<&Row<'_>>) {
        if let Some(row) = row {
            let (status, outcome, reason) = (row.status, row.outcome, row.reason);
            tracing::debug!(status, outcome, reason, "finished");
        }
        if self.drawn.elapsed() < REFRESH {
            return;
        }
        self.drawn = Instant::now();
        let counts = frontier.counts();
        self.bar.set_position(match self.counts_fetches {
            true => counts.fetches,
            false => counts.documents,
        });
        self.bar.set_message(format!(
            "{} images, {} queued on {} hosts, {} in flight",
            counts.images,
            counts.queued_pages() + counts.queued_images,
            frontier.hosts().0,
            frontier.leased()
        ));
    }
}
