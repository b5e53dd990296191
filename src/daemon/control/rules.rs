//! Watches the job's rules at work: the figures of each host, and what has changed.

use std::collections::VecDeque;
use std::path::Path;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::metrics::Metrics;
use crate::outputs::{self, Row};
use crate::rules::{Event, HostWeek, RuleSet, Standing, Watch};

/// How many of the last changes are shown.
const EVENTS: usize = 20;

/// How many hosts are shown.
const HOSTS: usize = 20;

/// A host that rules are for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RuledHost {
    /// The host.
    pub host: String,
    /// Its pages that rules are for.
    pub pages: u64,
    /// Those that a rule matched.
    pub matched: u64,
    /// Required fields on them.
    pub required: u64,
    /// Those with a value.
    pub filled: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// What has fallen and not risen again: `unmatched`, `refused`, or a rule and a field.
    pub fallen: Vec<String>,
    /// The last weeks, at most nine, oldest first.
    #[serde(default)]
    pub weeks: Vec<RuledWeek>,
}

/// A week of a host that rules are for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuledWeek {
    /// Its Monday, as `2026-11-23`.
    pub week: String,
    /// Pages that rules are for.
    pub pages: u64,
    /// Those that a rule matched.
    pub matched: u64,
    /// Required fields on them.
    pub required: u64,
    /// Those with a value.
    pub filled: u64,
    /// Requests that were refused.
    pub refused: u64,
}

impl RuledWeek {
    fn of(week: HostWeek) -> Self {
        Self {
            week: week.week.to_string(),
            pages: week.totals.pages,
            matched: week.totals.matched,
            required: week.totals.required,
            filled: week.totals.filled,
            refused: week.totals.refused,
        }
    }
}

impl RuledHost {
    fn of(standing: Standing) -> Self {
        Self {
            host: standing.host,
            pages: standing.totals.pages,
            matched: standing.totals.matched,
            required: standing.totals.required,
            filled: standing.totals.filled,
            refused: standing.totals.refused,
            fallen: standing.fallen,
            weeks: standing.weeks.into_iter().map(RuledWeek::of).collect(),
        }
    }
}

/// A change of a site that rules are for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleEvent {
    /// When it was seen, RFC 3339 in UTC.
    pub time: String,
    /// The host.
    pub host: String,
    /// `unmatched`, `unfilled`, `refused`, `structure` or `recovered`.
    pub change: String,
    /// In words.
    pub text: String,
}

/// The watch of a crawl.
#[derive(Default)]
pub(super) struct RulesWatch {
    watch: Watch,
    events: VecDeque<RuleEvent>,
}

impl RulesWatch {
    /// Reads the log of earlier runs.
    pub fn of_log(folder: &Path, rules: &RuleSet) -> Self {
        let mut own = Self::default();
        let mut events = VecDeque::new();
        let read = outputs::ruled::watched(folder, rules, |event| {
            events.push_back(event);
            if events.len() > EVENTS {
                events.pop_front();
            }
        });
        match read {
            Ok(watch) => own.watch = watch,
            Err(error) => tracing::warn!("the log of earlier runs: {error}"),
        }
        events.iter().for_each(|event| own.note(event));
        own
    }

    /// Takes a finished task. What has changed by it goes to the log and to the metrics.
    pub fn row(&mut self, row: &Row<'_>, rules: &RuleSet, metrics: Option<&Metrics>) {
        if let (Some(metrics), Some(applied)) = (metrics, row.rules) {
            let [required, missing] = [&applied.required, &applied.missing]
                .map(|fields| u64::try_from(fields.len()).unwrap_or_default());
            metrics.ruled(
                applied.rule.is_some(),
                required,
                required.saturating_sub(missing),
            );
        }
        for event in outputs::ruled::show(&mut self.watch, rules, row) {
            let change = event.change.name();
            tracing::warn!(
                host = event.host,
                change,
                against = event.against(),
                before = event.before,
                now = event.now,
                url = event.url,
                "{event}"
            );
            if let Some(metrics) = metrics {
                metrics.rule_event(change, event.against());
            }
            self.note(&event);
        }
    }

    fn note(&mut self, event: &Event) {
        if self.events.len() >= EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(RuleEvent {
            time: event.time.clone(),
            host: event.host.clone(),
            change: event.change.name().to_owned(),
            text: event.to_string(),
        });
    }

    /// The hosts, those with a fall first.
    pub fn hosts(&self) -> Vec<RuledHost> {
        let standings = self.watch.standings(HOSTS).into_iter();
        standings.map(RuledHost::of).collect()
    }

    /// The last changes, newest first.
    pub fn events(&self) -> Vec<RuleEvent> {
        self.events.iter().rev().cloned().collect()
    }
}
