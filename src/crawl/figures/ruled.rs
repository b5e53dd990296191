//! The rules of a job at work, from the rows of its log.

use std::path::Path;

use super::row::LoggedTask;
use crate::outputs::{MAX_ROW, OutputError, Table, each_line};
use crate::page::TaskKind;
use crate::rules::{Event, HostStatus, RuleSet, Seen, Watch};

/// The maximum number of changes that are kept.
const EVENTS: usize = 10_000;

/// The hosts that have rules, and what has changed on them.
#[derive(Debug, Clone, Default)]
pub struct RulesAtWork {
    watch: Watch,
    /// The last changes, oldest first.
    pub events: Vec<Event>,
}

impl RulesAtWork {
    /// Reads the log of a job from its beginning.
    ///
    /// # Errors
    ///
    /// [`OutputError`] if the log cannot be read. Lines that are not rows are skipped.
    pub fn of_log(folder: &Path, rules: &RuleSet) -> Result<Self, OutputError> {
        let mut own = Self::default();
        each_line(folder, Table::Log, MAX_ROW, |line| {
            if let Ok(task) = LoggedTask::read(line.bytes.unwrap_or_default()) {
                own.take(&task, rules);
            }
        })?;
        Ok(own)
    }

    /// Takes a finished task; returns the changes that it shows.
    pub fn take(&mut self, task: &LoggedTask<'_>, rules: &RuleSet) -> Vec<Event> {
        if task.row.kind != TaskKind::Page {
            return Vec::new();
        }
        let host = task.url.host_key();
        let page = task.for_rules(host.as_str());
        let is_covered = page.applied.is_some() || rules.covers(&task.url);
        let events = self.watch.see(&Seen::of(&page, is_covered));
        self.events.extend(events.iter().cloned());
        let more = self.events.len().saturating_sub(EVENTS);
        self.events.drain(..more);
        events
    }

    /// The last changes, oldest first, at most `most`.
    pub fn last_events(&self, most: usize) -> &[Event] {
        let from = self.events.len().saturating_sub(most);
        self.events.get(from..).unwrap_or_default()
    }

    /// The hosts, those with a fall first, at most `most`.
    pub fn hosts(&self, most: usize) -> Vec<HostStatus> {
        self.watch.standings(most)
    }
}
