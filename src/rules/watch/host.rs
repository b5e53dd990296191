//! The shares of a host, and its status.

use std::collections::{BTreeMap, BTreeSet};

use jiff::civil::Date;
use serde::Serialize;

use super::event::ShareSubject;
use super::share::FollowedShare;
use super::weeks::{self, Weeks};

#[derive(Debug, Clone)]
pub(super) struct HostState {
    pub matched: FollowedShare,
    pub answered: FollowedShare,
    /// By rule and field.
    pub filled: BTreeMap<(String, String), FollowedShare>,
    /// The pages that each rule matched, by week.
    pub rules: BTreeMap<String, Weeks>,
    pub standing: Totals,
    pub page_events: u32,
}

/// The figures of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Pages covered by rules.
    pub pages: u64,
    /// Pages that a rule matched.
    pub matched: u64,
    /// Required fields on them.
    pub required: u64,
    /// Required fields with a value.
    pub filled: u64,
    /// Requests that were refused.
    pub refused: u64,
}

/// The status of a host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostStatus {
    /// The host.
    pub host: String,
    /// Its figures.
    #[serde(flatten)]
    pub totals: Totals,
    /// The shares that have fallen and not recovered, such as `unmatched` or `news.date`.
    pub fallen: Vec<String>,
    /// The last weeks with requests, oldest first.
    pub weeks: Vec<HostWeek>,
}

/// A week of a host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostWeek {
    /// Its Monday.
    #[serde(serialize_with = "weeks::shown")]
    pub week: Date,
    /// The figures of the host.
    #[serde(flatten)]
    pub totals: Totals,
    /// The figures of each rule that matched a page.
    pub rules: Vec<RuleWeek>,
}

/// A week of a rule on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleWeek {
    /// The rule.
    pub rule: String,
    /// The pages that it matched.
    pub pages: u64,
    /// Required fields on them.
    pub required: u64,
    /// Required fields with a value.
    pub filled: u64,
}

impl HostState {
    pub fn keeping(weeks: usize) -> Self {
        Self {
            matched: FollowedShare::keeping(weeks),
            answered: FollowedShare::keeping(weeks),
            filled: BTreeMap::new(),
            rules: BTreeMap::new(),
            standing: Totals::default(),
            page_events: 0,
        }
    }

    /// All shares that are followed.
    pub fn followed(&self) -> impl Iterator<Item = (ShareSubject<'_>, &FollowedShare)> {
        let filled = self.filled.iter();
        [
            (ShareSubject::Matched, &self.matched),
            (ShareSubject::Answered, &self.answered),
        ]
        .into_iter()
        .chain(filled.map(|((rule, field), share)| (ShareSubject::Filled(rule, field), share)))
    }

    pub fn fallen(&self) -> Vec<String> {
        let fallen = self.followed().filter(|(_, share)| share.has_fallen());
        fallen.map(|(what, _)| what.name()).collect()
    }

    pub fn weeks(&self) -> Vec<HostWeek> {
        let mut weeks: BTreeSet<Date> = self.matched.weeks.mondays().collect();
        weeks.extend(self.answered.weeks.mondays());
        weeks.into_iter().map(|week| self.week(week)).collect()
    }

    fn week(&self, week: Date) -> HostWeek {
        let filled = |rule: &str| {
            let fields = self.filled.iter().filter(|((own, _), _)| own == rule);
            fields.fold((0, 0), |(required, filled), (_, share)| {
                let tally = share.weeks.of(week);
                (
                    required + u64::from(tally.of),
                    filled + u64::from(tally.hits),
                )
            })
        };
        let rules = self.rules.iter().map(|(rule, pages)| {
            let (required, filled) = filled(rule);
            RuleWeek {
                rule: rule.clone(),
                pages: pages.of(week).of.into(),
                required,
                filled,
            }
        });
        let rules: Vec<RuleWeek> = rules.filter(|rule| rule.pages > 0).collect();
        let (matched, answered) = (self.matched.weeks.of(week), self.answered.weeks.of(week));
        let totals = Totals {
            pages: matched.of.into(),
            matched: matched.hits.into(),
            required: rules.iter().map(|rule| rule.required).sum(),
            filled: rules.iter().map(|rule| rule.filled).sum(),
            refused: answered.of.saturating_sub(answered.hits).into(),
        };
        HostWeek {
            week,
            totals,
            rules,
        }
    }
}
