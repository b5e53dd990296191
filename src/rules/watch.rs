//! Watches the rules at work: which share of a host's pages a rule matched, which share of
//! the required fields was filled, and whether the host began to refuse us.
//!
//! The last pages of a host are compared with all before them. A share has fallen if it is
//! at least 0.3 lower and so much cannot be chance (four standard errors). The state is a
//! pure function of the finished tasks in their order: the crawl and the report see the same
//! events.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;

use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

use super::rule::Applied;

/// How many of the last pages are compared with those before.
const WINDOW: usize = 10;
/// How many pages must come before them.
const LEAST_BEFORE: f64 = 10.0;
/// Older pages count half once there are so many.
const MEMORY: f64 = 2_000.0;
/// The least fall of a share.
const LEAST_FALL: f64 = 0.3;
/// The least fall in standard errors.
const STANDARD_ERRORS: f64 = 4.0;
/// The most hosts that are watched; later ones are not.
const MAX_HOSTS: usize = 20_000;
/// The most pages whose structure is remembered.
const MAX_PAGES: usize = 100_000;
/// The most events about single pages of a host.
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
    /// Whether rules are for its address. Other pages are not watched.
    pub is_covered: bool,
    /// Whether we were refused (401, 403, 429, 451, robots.txt); `None` if the host could
    /// not be reached or failed.
    pub is_refused: Option<bool>,
    /// What the rules found, if the page was read.
    pub applied: Option<&'a Applied>,
}

impl<'a> Seen<'a> {
    /// A finished page request as the log has it.
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

/// A page request as the log of a crawl has it.
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

/// Whether an answer refuses us; `None` if it tells nothing of that.
fn is_refused(status: Option<u16>, reason: Option<&str>) -> Option<bool> {
    match (status, reason) {
        (_, Some("robots" | "overloaded")) => Some(true),
        (Some(401 | 402 | 403 | 429 | 451), _) => Some(true),
        (Some(200..=499), _) => Some(false),
        _ => None,
    }
}

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
        /// The required fields that it has lost; empty if no rule matches it any more.
        missing: Vec<String>,
    },
    /// A share that had fallen has risen again.
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

/// Something that whoever keeps the rules should know.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// When, RFC 3339.
    pub time: String,
    /// The host.
    pub host: String,
    /// What has changed.
    pub change: Change,
    /// The share before, 0 to 1.
    pub before: f64,
    /// The share among the last pages.
    pub now: f64,
    /// The page at which it was seen.
    pub url: String,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let (before, now) = (percent(self.before), percent(self.now));
        let host = &self.host;
        match &self.change {
            Change::Unmatched => write!(
                f,
                "{host}: a rule matches {now} of the last {WINDOW} pages, {before} before: the \
                 site has changed; look at {}",
                self.url
            ),
            Change::Unfilled { rule, field } => write!(
                f,
                "{host}: `{field}` of the rule `{rule}` is filled on {now} of the last {WINDOW} \
                 pages, {before} before; look at {}",
                self.url
            ),
            Change::Refused => write!(
                f,
                "{host}: refuses us: {now} of the last {WINDOW} requests were answered, {before} \
                 before; spoor backs off and does not try to get around it; ask the host"
            ),
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
                write!(
                    f,
                    "{host}: {what} is at {now} again, {before} before it fell"
                )
            }
        }
    }
}

/// A share over time.
#[derive(Debug, Clone, Default)]
struct Share {
    before: f64,
    before_hits: f64,
    recent: VecDeque<bool>,
    fallen: bool,
}

impl Share {
    /// Counts a page. True if the share has just fallen, false if it has risen again.
    fn push(&mut self, hit: bool) -> Option<bool> {
        self.recent.push_back(hit);
        if self.recent.len() > WINDOW
            && let Some(old) = self.recent.pop_front()
            // A share that has fallen is compared with the time before it fell.
            && !self.fallen
        {
            self.before += 1.0;
            self.before_hits += f64::from(u8::from(old));
            if self.before > MEMORY {
                self.before /= 2.0;
                self.before_hits /= 2.0;
            }
        }
        if self.recent.len() < WINDOW || self.before < LEAST_BEFORE {
            return None;
        }
        let (before, now) = (self.before_share(), self.now());
        if self.fallen {
            let is_back = now >= before - 0.1;
            self.fallen = !is_back;
            return is_back.then_some(false);
        }
        let size = count(self.recent.len());
        let pooled = (self.before_hits + now * size) / (self.before + size);
        let error = (pooled * (1.0 - pooled) * (1.0 / self.before + 1.0 / size)).sqrt();
        let fall = before - now;
        self.fallen = fall >= LEAST_FALL && fall >= STANDARD_ERRORS * error;
        self.fallen.then_some(true)
    }

    fn before_share(&self) -> f64 {
        if self.before > 0.0 {
            self.before_hits / self.before
        } else {
            0.0
        }
    }

    fn now(&self) -> f64 {
        let hits = self.recent.iter().filter(|hit| **hit).count();
        count(hits) / count(self.recent.len().max(1))
    }
}

/// A count as a float.
fn count(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

#[derive(Debug, Clone, Default)]
struct HostState {
    matched: Share,
    answered: Share,
    /// By rule and field.
    filled: BTreeMap<(String, String), Share>,
    standing: Totals,
    page_events: u32,
}

/// The figures of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Pages that rules are for.
    pub pages: u64,
    /// Pages that a rule matched.
    pub matched: u64,
    /// Required fields on them.
    pub required: u64,
    /// Those with a value.
    pub filled: u64,
    /// Requests that were refused.
    pub refused: u64,
}

/// How a host stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Standing {
    /// The host.
    pub host: String,
    /// Its figures.
    #[serde(flatten)]
    pub totals: Totals,
    /// What has fallen and not risen again, such as `unmatched` or `news.date`.
    pub fallen: Vec<String>,
}

/// Watches all hosts.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    hosts: HashMap<String, HostState>,
    /// What a page matched at its last visit: the hash of the rule, and which required
    /// fields were missing.
    pages: HashMap<u64, (String, Vec<String>)>,
}

impl Watch {
    /// Takes a finished request, and tells what has changed by it.
    pub fn see(&mut self, seen: &Seen<'_>) -> Vec<Event> {
        if !seen.is_covered {
            return Vec::new();
        }
        if !self.hosts.contains_key(seen.host) && self.hosts.len() >= MAX_HOSTS {
            return Vec::new();
        }
        let host = self.hosts.entry(seen.host.to_owned()).or_default();
        let mut events = Vec::new();
        let mut tell = |change: Change, before: f64, now: f64| {
            events.push(Event {
                time: seen.time.to_owned(),
                host: seen.host.to_owned(),
                change,
                before,
                now,
                url: seen.url.to_owned(),
            });
        };
        let follow = |tell: &mut dyn FnMut(Change, f64, f64),
                      share: &mut Share,
                      hit: bool,
                      change: Change,
                      what: String| {
            match share.push(hit) {
                None => {}
                Some(true) => tell(change, share.before_share(), share.now()),
                Some(false) => {
                    let (before, now) = (share.before_share(), share.now());
                    tell(Change::Recovered { what }, before, now);
                }
            }
        };
        if let Some(is_refused) = seen.is_refused {
            host.standing.refused += u64::from(is_refused);
            let what = "the share of answered requests".to_owned();
            follow(
                &mut tell,
                &mut host.answered,
                !is_refused,
                Change::Refused,
                what,
            );
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
        let what = "the share of pages that a rule matches".to_owned();
        follow(
            &mut tell,
            &mut host.matched,
            applied.rule.is_some(),
            Change::Unmatched,
            what,
        );
        if let Some(rule) = &applied.rule {
            for field in &applied.required {
                let share = host.filled.entry((rule.clone(), field.clone()));
                let hit = !applied.missing.iter().any(|missing| missing == field);
                let what = format!("the share of pages with `{field}` of the rule `{rule}`");
                let change = Change::Unfilled {
                    rule: rule.clone(),
                    field: field.clone(),
                };
                follow(&mut tell, share.or_default(), hit, change, what);
            }
        }
        if host.page_events < MAX_PAGE_EVENTS
            && let Some(change) = structure(&self.pages, seen.url, applied)
        {
            host.page_events += 1;
            tell(change, 1.0, 0.0);
        }
        self.remember(seen.url, applied);
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

    /// How all hosts stand, those with a fall first, then the largest.
    pub fn standings(&self) -> Vec<Standing> {
        let mut all: Vec<Standing> = self
            .hosts
            .iter()
            .map(|(host, state)| {
                let mut fallen = Vec::new();
                if state.matched.fallen {
                    fallen.push("unmatched".to_owned());
                }
                if state.answered.fallen {
                    fallen.push("refused".to_owned());
                }
                let fields = state.filled.iter().filter(|(_, share)| share.fallen);
                fallen.extend(fields.map(|((rule, field), _)| format!("{rule}.{field}")));
                Standing {
                    host: host.clone(),
                    totals: state.standing.clone(),
                    fallen,
                }
            })
            .collect();
        all.sort_by(|a, b| {
            let key = |s: &Standing| (s.fallen.is_empty(), std::cmp::Reverse(s.totals.pages));
            key(a).cmp(&key(b)).then_with(|| a.host.cmp(&b.host))
        });
        all
    }

    /// The figures of all hosts together.
    pub fn totals(&self) -> Totals {
        let mut sum = Totals::default();
        for Totals {
            pages,
            matched,
            required,
            filled,
            refused,
        } in self.hosts.values().map(|host| &host.standing)
        {
            sum.pages += pages;
            sum.matched += matched;
            sum.required += required;
            sum.filled += filled;
            sum.refused += refused;
        }
        sum
    }
}

/// Whether a page has lost what it had at its last visit.
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
