//! Reports changes on the sites that the job's rules are for.

use serde::Serialize;

use crate::crawl::figures::{LoggedTask, RulesAtWork};
use crate::crawl::metrics::Metrics;
use crate::rules::{Event, RuleSet};

/// A change of a site that rules are for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleEvent {
    /// When it was seen, RFC 3339 in UTC.
    pub time: String,
    /// The host.
    pub host: String,
    /// `unmatched`, `unfilled`, `refused`, `structure` or `recovered`.
    pub change: &'static str,
    /// In words.
    pub text: String,
}

impl From<&Event> for RuleEvent {
    fn from(event: &Event) -> Self {
        Self {
            time: event.time.clone(),
            host: event.host.clone(),
            change: event.change.name(),
            text: event.to_string(),
        }
    }
}

/// Passes a finished task to the observation of rules. Any change goes to the log and the metrics.
pub(super) fn watch(
    at_work: &mut RulesAtWork,
    task: &LoggedTask<'_>,
    rules: &RuleSet,
    metrics: Option<&Metrics>,
) {
    if let (Some(metrics), Some(applied)) = (metrics, task.applied()) {
        let [required, missing] = [&applied.required, &applied.missing]
            .map(|fields| u64::try_from(fields.len()).unwrap_or_default());
        metrics.ruled(
            applied.rule.is_some(),
            required,
            required.saturating_sub(missing),
        );
    }
    for event in at_work.take(task, rules) {
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
    }
}
