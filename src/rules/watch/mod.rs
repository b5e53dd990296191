//! Watches the rules at work: the share of a host's pages that a rule matched, the share of
//! required fields that were filled, and whether the host began to refuse us.
//!
//! It compares twice. The last pages of a host are compared with all earlier ones, so that a sudden
//! change of a site is reported within one run: a share has fallen if it is at least 0.3 lower and
//! the difference cannot be chance (four standard errors). Each week is also compared with the
//! weeks before (`weeks`), so that a slow fall is reported too. The state is a pure function of the
//! finished tasks in their order: the crawl and the report see the same events, and a continued
//! crawl restores the state from its log.
//!
//! Reading order: `weeks` and `share` (whether a share has fallen), `host` (the shares of a host,
//! and its status), `event` (what is reported), and here the watch over all hosts.

mod event;
mod host;
mod share;
mod weeks;

use std::collections::HashMap;

use xxhash_rust::xxh3::xxh3_64;

use self::event::ShareSubject;
use self::host::HostState;
use self::share::FollowedShare;
use self::weeks::{BEFORE, Weeks};
use super::rule::Applied;

pub use self::event::{Change, Event};
pub use self::host::{HostStatus, HostWeek, RuleWeek, Totals};
pub use self::weeks::Against;

/// Maximum number of watched hosts; later ones are not watched.
const MAX_HOSTS: usize = 20_000;
/// Maximum number of pages whose structure is remembered.
const MAX_PAGES: usize = 100_000;
/// Maximum number of events about single pages of a host.
const MAX_PAGE_EVENTS: u32 = 20;

/// A finished page request.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// When it was finished, RFC 3339.
    pub time: &'a str,
    /// Its address.
    pub url: &'a str,
    /// Its host.
    pub host: &'a str,
    /// Whether rules cover its address. Other pages are not watched.
    pub is_covered: bool,
    /// Whether we were refused (401, 403, 429, 451, robots.txt); `None` if the host could not be
    /// reached or failed.
    pub is_refused: Option<bool>,
    /// What the rules found, if the page was read.
    pub applied: Option<&'a Applied>,
}

impl<'a> Seen<'a> {
    /// A finished page request from a row of the log.
    pub fn of(row: &LoggedPage<'a>, is_covered: bool) -> Self {
        Self {
            time: row.time,
            url: row.url,
            host: row.host,
            is_covered,
            is_refused: is_refused(row.status, row.reason),
            applied: row.applied,
        }
    }
}

/// A page request in the log of a crawl.
#[derive(Debug, Clone, Copy)]
pub struct LoggedPage<'a> {
    /// When it was finished, RFC 3339.
    pub time: &'a str,
    /// Its address.
    pub url: &'a str,
    /// Its host.
    pub host: &'a str,
    /// The status, if there was an answer.
    pub status: Option<u16>,
    /// Why there is no page.
    pub reason: Option<&'a str>,
    /// What the rules found.
    pub applied: Option<&'a Applied>,
}

/// Whether an answer refuses us; `None` if it does not show that.
fn is_refused(status: Option<u16>, reason: Option<&str>) -> Option<bool> {
    match (status, reason) {
        (_, Some("robots" | "overloaded")) => Some(true),
        (Some(401 | 402 | 403 | 429 | 451), _) => Some(true),
        (Some(200..=499), _) => Some(false),
        _ => None,
    }
}

/// Watches all hosts.
#[derive(Debug, Clone)]
pub struct Watch {
    hosts: HashMap<String, HostState>,
    /// What a page matched at its last visit: the hash of the rule, and the missing required
    /// fields.
    pages: HashMap<u64, (String, Vec<String>)>,
    /// The number of weeks that are kept for each share.
    weeks: usize,
    /// Pages come in any order: only weeks are compared, at the end.
    is_unordered: bool,
}

impl Default for Watch {
    /// For requests in order of time.
    fn default() -> Self {
        Self {
            hosts: HashMap::new(),
            pages: HashMap::new(),
            weeks: BEFORE + 1,
            is_unordered: false,
        }
    }
}

impl Watch {
    /// For stored pages in any order, over up to 20 years; [`Self::judged`] returns the changes
    /// from week to week.
    pub fn unordered() -> Self {
        Self {
            weeks: 20 * 53,
            is_unordered: true,
            ..Self::default()
        }
    }

    /// Adds a finished request, and returns the changes that it shows.
    pub fn see(&mut self, seen: &Seen<'_>) -> Vec<Event> {
        if !seen.is_covered {
            return Vec::new();
        }
        if !self.hosts.contains_key(seen.host) && self.hosts.len() >= MAX_HOSTS {
            return Vec::new();
        }
        let kept = self.weeks;
        let host = self
            .hosts
            .entry(seen.host.to_owned())
            .or_insert_with(|| HostState::keeping(kept));
        let week = weeks::monday(seen.time);
        let is_unordered = self.is_unordered;
        let mut events = Vec::new();
        let mut follow = |share: &mut FollowedShare, hit: bool, what: ShareSubject<'_>| {
            if is_unordered {
                if let Some(week) = week {
                    share.weeks.count(week, hit, seen.url);
                }
                return;
            }
            for figures in share.push(hit, week, seen.url) {
                events.push(Event::of(seen.time, seen.host, seen.url, what, figures));
            }
        };
        if let Some(is_refused) = seen.is_refused {
            host.standing.refused += u64::from(is_refused);
            follow(&mut host.answered, !is_refused, ShareSubject::Answered);
        }
        let Some(applied) = seen.applied else {
            return events;
        };
        host.standing.pages += 1;
        host.standing.matched += u64::from(applied.rule.is_some());
        let required = u64::try_from(applied.required.len()).unwrap_or_default();
        host.standing.required += required;
        let missing = u64::try_from(applied.missing.len()).unwrap_or_default();
        host.standing.filled += required.saturating_sub(missing);
        follow(
            &mut host.matched,
            applied.rule.is_some(),
            ShareSubject::Matched,
        );
        if let Some(rule) = &applied.rule {
            if let Some(week) = week {
                let weeks = host.rules.entry(rule.clone());
                let weeks = weeks.or_insert_with(|| Weeks::keeping(kept));
                weeks.count(week, applied.missing.is_empty(), "");
            }
            for field in &applied.required {
                let share = host.filled.entry((rule.clone(), field.clone()));
                let hit = !applied.missing.iter().any(|missing| missing == field);
                let share = share.or_insert_with(|| FollowedShare::keeping(kept));
                follow(share, hit, ShareSubject::Filled(rule, field));
            }
        }
        if is_unordered {
            return events;
        }
        if host.page_events < MAX_PAGE_EVENTS
            && let Some(change) = structure(&self.pages, seen.url, applied)
        {
            host.page_events += 1;
            events.push(Event {
                time: seen.time.to_owned(),
                host: seen.host.to_owned(),
                change,
                before: 1.0,
                now: 0.0,
                week: None,
                url: seen.url.to_owned(),
            });
        }
        self.remember(seen.url, applied);
        events
    }

    /// The changes from week to week, for pages that came in any order: oldest first.
    pub fn judged(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        for (host, state) in &mut self.hosts {
            let mut judge = |share: &mut FollowedShare, what: ShareSubject<'_>| {
                for verdict in share.weeks.judge_all() {
                    let time = format!("{}T00:00:00Z", verdict.against.week);
                    let figures = share.figures(verdict);
                    events.extend(figures.map(|figures| Event::of(&time, host, "", what, figures)));
                }
            };
            judge(&mut state.matched, ShareSubject::Matched);
            judge(&mut state.answered, ShareSubject::Answered);
            for ((rule, field), share) in &mut state.filled {
                judge(share, ShareSubject::Filled(rule, field));
            }
        }
        events.sort_by(|a, b| (&a.time, &a.host).cmp(&(&b.time, &b.host)));
        events
    }

    fn remember(&mut self, url: &str, applied: &Applied) {
        let key = xxh3_64(url.as_bytes());
        if let Some(rule) = &applied.rule
            && (self.pages.len() < MAX_PAGES || self.pages.contains_key(&key))
        {
            let value = (rule.clone(), applied.missing.clone());
            self.pages.insert(key, value);
        }
    }

    /// The status of hosts, at most this many: those with a fall first, then the largest.
    pub fn standings(&self, most: usize) -> Vec<HostStatus> {
        let mut all: Vec<(bool, &String, &HostState)> = self
            .hosts
            .iter()
            .map(|(host, state)| {
                let is_sound = state.followed().all(|(_, share)| !share.has_fallen());
                (is_sound, host, state)
            })
            .collect();
        all.sort_by(|(sound_a, a, state_a), (sound_b, b, state_b)| {
            let pages = |state: &HostState| std::cmp::Reverse(state.standing.pages);
            let key = (*sound_a, pages(state_a)).cmp(&(*sound_b, pages(state_b)));
            key.then_with(|| a.cmp(b))
        });
        let all = all.into_iter().take(most);
        all.map(|(_, host, state)| HostStatus {
            host: host.clone(),
            totals: state.standing.clone(),
            fallen: state.fallen(),
            weeks: state.weeks(),
        })
        .collect()
    }
}

/// Notes if a page has lost what it had at its last visit.
fn structure(
    pages: &HashMap<u64, (String, Vec<String>)>,
    url: &str,
    applied: &Applied,
) -> Option<Change> {
    let (rule, missing) = pages.get(&xxh3_64(url.as_bytes()))?;
    let lost: Vec<String> = match &applied.rule {
        None => Vec::new(),
        Some(now) if now != rule => return None,
        Some(_) => {
            let lost = applied
                .missing
                .iter()
                .filter(|name| !missing.contains(name));
            let lost: Vec<String> = lost.cloned().collect();
            if lost.is_empty() {
                return None;
            }
            lost
        }
    };
    Some(Change::Structure {
        url: url.to_owned(),
        rule: rule.clone(),
        missing: lost,
    })
}
