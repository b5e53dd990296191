//! Events of a host.

use std::fmt;

use serde::Serialize;

use super::share::{ChangeFigures, WINDOW};
use super::weeks::Against;

/// What has changed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Fewer pages match a rule.
    Unmatched,
    /// A required field is filled on fewer pages.
    Unfilled {
        /// The rule.
        rule: String,
        /// The field.
        field: String,
    },
    /// The host refuses us.
    Refused,
    /// A page has another structure than at an earlier visit.
    Structure {
        /// The page.
        url: String,
        /// The rule that it matched.
        rule: String,
        /// The required fields that are missing now; empty if no rule matches the page any more.
        missing: Vec<String>,
    },
    /// A share that had fallen has recovered.
    Recovered {
        /// What had fallen.
        what: String,
    },
}

impl Change {
    /// Its name in logs and metrics. The names are stable.
    pub fn name(&self) -> &'static str {
        match self {
            Change::Unmatched => "unmatched",
            Change::Unfilled { .. } => "unfilled",
            Change::Refused => "refused",
            Change::Structure { .. } => "structure",
            Change::Recovered { .. } => "recovered",
        }
    }
}

/// Something that the maintainer of the rules should know.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// When, RFC 3339.
    pub time: String,
    /// The host.
    pub host: String,
    /// What has changed.
    pub change: Change,
    /// The share before, 0 to 1; for weeks, their mean.
    pub before: f64,
    /// The share of the last pages, or of the week.
    pub now: f64,
    /// The week, if weeks were compared; `None` for the last pages.
    pub week: Option<Against>,
    /// The page at which it was noticed.
    pub url: String,
}

impl Event {
    pub(super) fn of(
        time: &str,
        host: &str,
        url: &str,
        what: ShareSubject<'_>,
        figures: ChangeFigures,
    ) -> Self {
        Self {
            time: time.to_owned(),
            host: host.to_owned(),
            change: what.change(figures.is_fall),
            before: figures.before,
            now: figures.now,
            week: figures.week,
            url: figures.url.unwrap_or_else(|| url.to_owned()),
        }
    }

    /// What was compared, for metrics. The names are stable.
    pub fn against(&self) -> &'static str {
        match self.week {
            None => "pages",
            Some(_) => "weeks",
        }
    }

    /// The share now and before, in words.
    fn shares(&self, of: &str) -> String {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let (before, now) = (percent(self.before), percent(self.now));
        match &self.week {
            None => format!("{now} of the last {WINDOW} {of}, {before} before"),
            Some(Against { week, pages, weeks }) => format!(
                "{now} of {pages} {of} in the week of {week}, {before} on average in the {weeks} \
                 weeks before"
            ),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, url) = (&self.host, &self.url);
        match &self.change {
            Change::Unmatched => {
                let shares = self.shares("pages");
                write!(
                    f,
                    "{host}: a rule matches {shares}: the site has changed; look at {url}"
                )
            }
            Change::Unfilled { rule, field } => {
                let shares = self.shares("pages");
                write!(
                    f,
                    "{host}: `{field}` of the rule `{rule}` is filled on {shares}; look at {url}"
                )
            }
            Change::Refused => {
                let shares = self.shares("requests were answered");
                write!(
                    f,
                    "{host}: refuses us: {shares}; spoor backs off and does not try to get around \
                     it; ask the host"
                )
            }
            Change::Structure { url, rule, missing } if missing.is_empty() => write!(
                f,
                "{host}: {url} matched the rule `{rule}` at an earlier visit, and matches none now"
            ),
            Change::Structure { url, rule, missing } => write!(
                f,
                "{host}: {url} has lost {} of the rule `{rule}` since an earlier visit",
                missing.join(", ")
            ),
            Change::Recovered { what } => {
                let percent = |share: f64| format!("{:.0} %", share * 100.0);
                let (before, now) = (percent(self.before), percent(self.now));
                let week = self.week.map(|against| against.week);
                let when = week.map_or_else(String::new, |week| format!(" in the week of {week}"));
                write!(
                    f,
                    "{host}: {what} is at {now} again{when}, {before} before it fell"
                )
            }
        }
    }
}

/// The subject of a share.
#[derive(Debug, Clone, Copy)]
pub(super) enum ShareSubject<'a> {
    Matched,
    Answered,
    Filled(&'a str, &'a str),
}

impl ShareSubject<'_> {
    /// Its name in the list of fallen shares.
    pub fn name(self) -> String {
        match self {
            ShareSubject::Matched => "unmatched".to_owned(),
            ShareSubject::Answered => "refused".to_owned(),
            ShareSubject::Filled(rule, field) => format!("{rule}.{field}"),
        }
    }

    pub fn change(self, is_fall: bool) -> Change {
        match self {
            ShareSubject::Matched if is_fall => Change::Unmatched,
            ShareSubject::Answered if is_fall => Change::Refused,
            ShareSubject::Filled(rule, field) if is_fall => Change::Unfilled {
                rule: rule.to_owned(),
                field: field.to_owned(),
            },
            _ => Change::Recovered { what: self.words() },
        }
    }

    fn words(self) -> String {
        match self {
            ShareSubject::Matched => "the share of pages that a rule matches".to_owned(),
            ShareSubject::Answered => "the share of answered requests".to_owned(),
            ShareSubject::Filled(rule, field) => {
                format!("the share of pages with `{field}` of the rule `{rule}`")
            }
        }
    }
}
