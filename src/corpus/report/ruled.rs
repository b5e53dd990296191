//! The rules of a job at work, from its log.

use crate::address::PageUrl;
use crate::config::Config;
use crate::rules::{Event, LoggedPage, RuleSet, Seen, Watch};

use super::Figures;

/// Hosts in the table.
const HOSTS: usize = 50;
/// The last changes that are named.
const EVENTS: usize = 50;

/// Watches the rows of a log.
#[derive(Default)]
pub(super) struct Ruled {
    rules: RuleSet,
    watch: Watch,
    events: Vec<Event>,
}

impl Ruled {
    /// For the rules of a job. Rules that cannot be read now are left out: what they found
    /// is in the log.
    pub fn of(config: &Config) -> Self {
        Self {
            rules: RuleSet::read(&config.rules.files).unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Takes a page request.
    pub fn take(&mut self, url: &PageUrl, page: &LoggedPage<'_>) {
        let is_covered = page.applied.is_some() || self.rules.covers(url);
        let events = self.watch.see(&Seen::of(page, is_covered));
        self.events.extend(events);
        let more = self.events.len().saturating_sub(EVENTS);
        self.events.drain(..more);
    }

    pub fn finish(self, figures: &mut Figures) {
        figures.ruled = self.watch.standings(HOSTS);
        figures.rule_events = self.events;
    }
}
