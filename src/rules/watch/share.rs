//! A share of the last pages, compared with earlier pages and from week to week.

use std::collections::VecDeque;

use jiff::civil::Date;

use super::weeks::{Against, WeekVerdict, Weeks};

/// The number of last pages that are compared with earlier ones.
pub(super) const WINDOW: usize = 10;
/// The minimum number of earlier pages.
const LEAST_BEFORE: f64 = 10.0;
/// From this many pages on, older ones count half.
const MEMORY: f64 = 2_000.0;
/// The least fall of a share.
const LEAST_FALL: f64 = 0.3;
/// The least fall in standard errors.
const STANDARD_ERRORS: f64 = 4.0;

/// A share of the last pages, and by week.
#[derive(Debug, Clone)]
pub(super) struct FollowedShare {
    last: RecentShare,
    pub weeks: Weeks,
    /// The last pages have already reported this week's fall: its end is not reported either.
    is_silent: bool,
}

/// The figures of a change.
pub(super) struct ChangeFigures {
    /// Whether the share has fallen; otherwise it has recovered.
    pub is_fall: bool,
    pub before: f64,
    pub now: f64,
    pub week: Option<Against>,
    /// The page to examine, if it is not the one at which the change was noticed.
    pub url: Option<String>,
}

impl FollowedShare {
    pub fn keeping(weeks: usize) -> Self {
        Self {
            last: RecentShare::default(),
            weeks: Weeks::keeping(weeks),
            is_silent: false,
        }
    }

    pub fn has_fallen(&self) -> bool {
        self.last.fallen || self.weeks.has_fallen()
    }

    /// Counts a page, and returns the changes that it shows.
    pub fn push(&mut self, hit: bool, week: Option<Date>, url: &str) -> Vec<ChangeFigures> {
        let mut changes = Vec::new();
        if let Some(is_fall) = self.last.push(hit) {
            changes.push(ChangeFigures {
                is_fall,
                before: self.last.before_share(),
                now: self.last.now(),
                week: None,
                url: None,
            });
        }
        let verdict = week.and_then(|week| self.weeks.push(week, hit, url));
        changes.extend(verdict.and_then(|verdict| self.figures(verdict)));
        changes
    }

    /// The change that a week's verdict shows, unless the last pages have reported it.
    pub fn figures(&mut self, verdict: WeekVerdict) -> Option<ChangeFigures> {
        if verdict.is_fall {
            self.is_silent = self.last.fallen;
        }
        (!self.is_silent).then_some(ChangeFigures {
            is_fall: verdict.is_fall,
            before: verdict.before,
            now: verdict.now,
            week: Some(verdict.against),
            url: verdict.missed,
        })
    }
}

/// A share of the last pages.
#[derive(Debug, Clone, Default)]
struct RecentShare {
    before: f64,
    before_hits: f64,
    recent: VecDeque<bool>,
    fallen: bool,
}

impl RecentShare {
    /// Counts a page. True if the share has just fallen, false if it has recovered.
    fn push(&mut self, hit: bool) -> Option<bool> {
        self.recent.push_back(hit);
        if self.recent.len() > WINDOW
            && let Some(old) = self.recent.pop_front()
            // A share that has fallen is compared with the time before its fall.
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
