//! A share week by week, and whether it has fallen below its level of the weeks before.
//!
//! A week is compared with the mean of up to eight earlier weeks. Its share has fallen if it is at
//! least 0.1 below the mean, 0.02 below every single week, and so low that chance produces such a
//! week less than once in 10,000 (Fisher's exact test of the counts). So a few pages raise no
//! alarm, nor does a host whose share is high one week and low the next. Weeks without pages do not
//! count.

use std::cmp::Ordering;

use jiff::ToSpan;
use jiff::civil::Date;
use serde::{Serialize, Serializer};

/// The number of weeks with pages that a week is compared with.
pub const BEFORE: usize = 8;
/// Minimum number of pages in a compared week.
const LEAST_PAGES: u32 = 5;
/// Minimum number of earlier weeks.
const LEAST_WEEKS: usize = 2;
/// Minimum total number of pages in the earlier weeks.
const LEAST_PAGES_BEFORE: u32 = 20;
/// Minimum number of pages in a week that is not over.
const LEAST_PAGES_YET: u32 = 20;
/// The least fall of a share.
const LEAST_FALL: f64 = 0.1;
/// The minimum distance to the lowest of the earlier weeks: a fluctuating share is often that low.
const LEAST_BELOW: f64 = 0.02;
/// A share that is at most this far below the mean has recovered.
const RECOVERED: f64 = 0.05;
/// The maximum probability of such a week by chance.
const CHANCE: f64 = 1e-4;

/// The Monday of the week of a time, RFC 3339.
pub fn monday(time: &str) -> Option<Date> {
    let day: Date = time.get(..10)?.parse().ok()?;
    monday_of(day)
}

/// The Monday of the week of a day.
pub fn monday_of(day: Date) -> Option<Date> {
    let since = day.weekday().to_monday_zero_offset();
    day.checked_sub(i64::from(since).days()).ok()
}

/// A day in ISO 8601.
pub(super) fn shown<S: Serializer>(day: &Date, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(day)
}

/// A count out of a total in a week.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WeekCount {
    /// All.
    pub of: u32,
    /// Those that count.
    pub hits: u32,
}

impl WeekCount {
    fn push(&mut self, hit: bool) {
        self.of = self.of.saturating_add(1);
        self.hits = self.hits.saturating_add(u32::from(hit));
    }

    fn share(self) -> f64 {
        f64::from(self.hits) / f64::from(self.of.max(1))
    }
}

/// A week compared with the earlier weeks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Against {
    /// The Monday of the week.
    #[serde(serialize_with = "shown")]
    pub week: Date,
    /// The pages of the week so far.
    pub pages: u32,
    /// How many earlier weeks it is compared with.
    pub weeks: u32,
}

/// The verdict on a week.
#[derive(Debug, Clone, PartialEq)]
pub struct WeekVerdict {
    /// Whether the share has fallen; otherwise it has recovered.
    pub is_fall: bool,
    /// The mean of the earlier weeks.
    pub before: f64,
    /// The share of the week.
    pub now: f64,
    /// What was compared.
    pub against: Against,
    /// A page of the week that is not a hit, if there is one.
    pub missed: Option<String>,
}

/// A week with pages.
#[derive(Debug, Clone)]
struct Week {
    monday: Date,
    tally: WeekCount,
    /// The last page that is not a hit.
    missed: Option<Box<str>>,
}

impl Week {
    fn push(&mut self, hit: bool, url: &str) {
        self.tally.push(hit);
        if !hit && !url.is_empty() {
            self.missed = Some(url.into());
        }
    }
}

/// A reported fall.
#[derive(Debug, Clone, Copy)]
struct Fall {
    /// The first week that was too low. It and later ones do not count as earlier weeks.
    since: Date,
    /// The last week in which it was reported.
    reported: Date,
    /// The reported share.
    share: f64,
}

/// A share by week: the last weeks that have pages, oldest first.
#[derive(Debug, Clone)]
pub struct Weeks {
    weeks: Vec<Week>,
    most: usize,
    fall: Option<Fall>,
}

impl Default for Weeks {
    /// The current week and the earlier weeks that it is compared with.
    fn default() -> Self {
        Self::keeping(BEFORE + 1)
    }
}

impl Weeks {
    /// Keeps the last `most` weeks.
    pub fn keeping(most: usize) -> Self {
        Self {
            weeks: Vec::new(),
            most,
            fall: None,
        }
    }

    /// The Mondays of the weeks with pages, oldest first.
    pub fn mondays(&self) -> impl Iterator<Item = Date> {
        self.weeks.iter().map(|week| week.monday)
    }

    /// The counts of a week.
    pub fn of(&self, monday: Date) -> WeekCount {
        let found = self.weeks.iter().find(|week| week.monday == monday);
        found.map(|week| week.tally).unwrap_or_default()
    }

    /// Whether the last judged week is below the earlier ones.
    pub fn has_fallen(&self) -> bool {
        self.fall.is_some()
    }

    /// Counts a page in any week that is kept, without judging.
    pub fn count(&mut self, monday: Date, hit: bool, url: &str) {
        let at = self.weeks.partition_point(|week| week.monday < monday);
        let is_full = self.weeks.len() >= self.most;
        match self.weeks.get_mut(at) {
            Some(week) if week.monday == monday => week.push(hit, url),
            _ if at == 0 && is_full => {}
            _ => {
                let mut week = Week {
                    monday,
                    tally: WeekCount::default(),
                    missed: None,
                };
                week.push(hit, url);
                self.weeks.insert(at, week);
                if is_full {
                    self.weeks.remove(0);
                }
            }
        }
    }

    /// Counts a page; pages must come in order of time. The week is judged at each of its pages,
    /// and at the first page of a later week.
    pub fn push(&mut self, monday: Date, hit: bool, url: &str) -> Option<WeekVerdict> {
        let last = self.weeks.last().map(|week| week.monday.cmp(&monday));
        let ended = match last {
            Some(Ordering::Less) => self.judge(self.weeks.len() - 1, true),
            // The clock was set back. The page is counted but not judged.
            Some(Ordering::Greater) => {
                self.count(monday, hit, url);
                return None;
            }
            _ => None,
        };
        self.count(monday, hit, url);
        // A page gives at most one verdict.
        ended.or_else(|| self.judge(self.weeks.len().checked_sub(1)?, false))
    }

    /// Judges all weeks, oldest first, as if each were over.
    pub fn judge_all(&mut self) -> Vec<WeekVerdict> {
        (0..self.weeks.len())
            .filter_map(|at| self.judge(at, true))
            .collect()
    }

    /// Whether the share of a week has fallen, or recovered after a fall.
    fn judge(&mut self, at: usize, is_over: bool) -> Option<WeekVerdict> {
        let judged = self.weeks.get(at)?;
        let (week, tally) = (judged.monday, judged.tally);
        if tally.of < LEAST_PAGES {
            return None;
        }
        let kept = self.weeks.get(at.saturating_sub(BEFORE)..at)?;
        let mut before = compared(kept, self.fall);
        if before.weeks < LEAST_WEEKS && self.fall.is_some_and(|fall| fall.since < week) {
            // All known weeks are as low as this one: that is the normal level now.
            self.fall = None;
            before = compared(kept, None);
        }
        if before.weeks < LEAST_WEEKS || before.sum.of < LEAST_PAGES_BEFORE {
            return None;
        }
        // The first pages of a week may be from one part of a site.
        let usual = before.sum.of / u32::try_from(before.weeks).unwrap_or(u32::MAX);
        if !is_over && tally.of < LEAST_PAGES_YET.max(usual / 2) {
            return None;
        }
        let now = tally.share();
        let verdict = |is_fall| WeekVerdict {
            is_fall,
            before: before.mean,
            now,
            against: Against {
                week,
                pages: tally.of,
                weeks: u32::try_from(before.weeks).unwrap_or(u32::MAX),
            },
            missed: judged.missed.as_deref().map(str::to_owned),
        };
        if self.fall.is_some() && now >= before.mean - RECOVERED {
            self.fall = None;
            return Some(verdict(false));
        }
        let is_low = before.mean - now >= LEAST_FALL
            && before.lowest - now >= LEAST_BELOW
            && chance(before.sum, tally) < CHANCE;
        // The same fall is reported again only in a later week that is lower by as much again.
        let is_new = self
            .fall
            .is_none_or(|fall| week > fall.reported && fall.share - now >= LEAST_FALL);
        if !is_low || !is_new {
            return None;
        }
        self.fall = Some(Fall {
            since: self.fall.map_or(week, |fall| fall.since),
            reported: week,
            share: now,
        });
        Some(verdict(true))
    }
}

/// The sum of the earlier weeks.
struct WeeksBefore {
    weeks: usize,
    mean: f64,
    lowest: f64,
    sum: WeekCount,
}

fn compared(weeks: &[Week], fall: Option<Fall>) -> WeeksBefore {
    let fits = |week: &&Week| {
        week.tally.of >= LEAST_PAGES && fall.is_none_or(|fall| week.monday < fall.since)
    };
    let mut before = WeeksBefore {
        weeks: 0,
        mean: 0.0,
        lowest: 1.0,
        sum: WeekCount::default(),
    };
    let mut shares = 0.0;
    let mut number = 0.0;
    for Week { tally, .. } in weeks.iter().filter(fits) {
        let share = tally.share();
        before.weeks += 1;
        number += 1.0;
        shares += share;
        before.lowest = before.lowest.min(share);
        before.sum.of = before.sum.of.saturating_add(tally.of);
        before.sum.hits = before.sum.hits.saturating_add(tally.hits);
    }
    before.mean = if number > 0.0 { shares / number } else { 0.0 };
    before
}

/// The probability that, if all hits are distributed at random, at most this many fall on the pages
/// of `now`: the lower tail of the hypergeometric distribution, or 1 if there are no fewer hits
/// than average.
fn chance(before: WeekCount, now: WeekCount) -> f64 {
    let (drawn, others) = (f64::from(now.of), f64::from(before.of));
    let hits = f64::from(before.hits) + f64::from(now.hits);
    let misses = drawn + others - hits;
    let mut k = f64::from(now.hits);
    if k * (drawn + others) >= hits * drawn {
        return 1.0;
    }
    // Hits that do not fit into the earlier weeks must be here.
    let least = (hits - others).max(0.0);
    let ways = |n: f64, k: f64| ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k);
    let mut term = (ways(hits, k) + ways(misses, drawn - k) - ways(hits + misses, drawn)).exp();
    let mut sum = 0.0;
    while k >= least && term > 0.0 {
        sum += term;
        if term < sum * 1e-12 {
            break;
        }
        // From k hits to one less.
        term *= k * (misses - drawn + k) / ((hits - k + 1.0) * (drawn - k + 1.0));
        k -= 1.0;
    }
    sum.min(1.0)
}

/// The logarithm of a factorial, by Stirling's series; exact to ten digits.
fn ln_factorial(n: f64) -> f64 {
    if n < 20.0 {
        let mut product = 1.0;
        let mut k = 2.0;
        while k <= n {
            product *= k;
            k += 1.0;
        }
        return f64::ln(product);
    }
    let series = 1.0 / (12.0 * n) - 1.0 / (360.0 * n.powi(3)) + 1.0 / (1260.0 * n.powi(5));
    n * n.ln() - n + 0.5 * (std::f64::consts::TAU * n).ln() + series
}

#[cfg(test)]
mod tests {
    use super::*;

    fn week(n: i64) -> Date {
        let first = jiff::civil::date(2026, 1, 5);
        first.checked_add((7 * n).days()).unwrap()
    }

    /// Weeks of this many pages with this many hits, the others spread evenly.
    fn reported(weeks: &[(u32, u32)]) -> Vec<(i64, bool, u32)> {
        let mut share = Weeks::default();
        let mut all = Vec::new();
        for (n, (of, hits)) in (0..).zip(weeks) {
            for at in 0..*of {
                let hit = (at + 1) * hits / of > at * hits / of;
                if let Some(verdict) = share.push(week(n), hit, "") {
                    all.push((n, verdict.is_fall, verdict.against.weeks));
                }
            }
            assert!(share.mondays().count() <= BEFORE + 1);
        }
        all
    }

    #[test]
    fn weeks_begin_on_mondays() {
        let monday = |time| monday(time).map(|day| day.to_string());
        assert_eq!(monday("2026-11-25T18:59:37Z").unwrap(), "2026-11-23");
        assert_eq!(monday("2026-11-23T00:00:00Z").unwrap(), "2026-11-23");
        assert_eq!(monday("2026-11-22T23:59:59Z").unwrap(), "2026-11-16");
        assert_eq!(monday("2026-01-01T00:00:00Z").unwrap(), "2025-12-29");
        assert_eq!(monday(""), None);
        assert_eq!(monday("-009999-01"), None);
    }

    #[test]
    fn a_slow_fall_is_reported() {
        let falling = [200, 196, 190, 184, 176, 166].map(|hits| (200, hits));
        assert_eq!(reported(&falling), [(5, true, 5)]);
        // It is reported again when it is lower by as much again, and when it is over.
        let on = [200, 200, 170, 165, 148, 100, 199].map(|hits| (200, hits));
        assert_eq!(
            reported(&on),
            [(2, true, 2), (4, true, 2), (5, true, 2), (6, false, 2)]
        );
    }

    #[test]
    fn what_is_no_fall_is_not_reported() {
        // A new host, even at a low level; a single earlier week is not enough.
        assert_eq!(reported(&[(100, 20)]), []);
        assert_eq!(reported(&[(100, 100), (100, 50)]), []);
        // Weeks without pages, and with few.
        assert_eq!(
            reported(&[(50, 50), (50, 50), (0, 0), (4, 0), (50, 50)]),
            []
        );
        // Chance: 18 of 20 after 98 %.
        assert_eq!(reported(&[(50, 49), (50, 49), (50, 49), (20, 18)]), []);
        // A fluctuating share.
        let swinging = [95, 60, 97, 62, 96, 61, 95, 62].map(|hits| (100, hits));
        assert_eq!(reported(&swinging), []);
    }

    #[test]
    fn few_pages_a_week_are_enough_if_all_are_lost() {
        let weeks = [(6, 6), (5, 5), (7, 7), (6, 6), (6, 0), (6, 6)];
        // The week has fewer than 20 pages, so it is judged when it is over.
        assert_eq!(reported(&weeks), [(5, true, 4)]);
    }

    #[test]
    fn what_stays_low_is_usual_after_eight_weeks() {
        let mut weeks = vec![(100, 100); 3];
        weeks.extend([(100, 70); 12]);
        assert_eq!(reported(&weeks), [(3, true, 3)]);
        let mut share = Weeks::default();
        for (n, (of, hits)) in (0..).zip(&weeks) {
            for at in 0..*of {
                share.push(week(n), at < *hits, "");
            }
        }
        assert!(!share.has_fallen());
    }

    #[test]
    fn weeks_in_any_order_are_judged_as_those_in_order() {
        let hits = [100, 98, 97, 80, 99];
        let mut share = Weeks::keeping(100);
        for n in [3, 0, 4, 2, 1] {
            for at in 0..100 {
                share.count(week(n), at < hits[usize::try_from(n).unwrap()], "");
            }
        }
        let verdicts = share.judge_all();
        let found: Vec<_> = verdicts
            .iter()
            .map(|v| (v.against.week, v.is_fall))
            .collect();
        assert_eq!(found, [(week(3), true), (week(4), false)]);
    }

    /// The expected values were computed with fractions of integers.
    #[test]
    fn the_test_is_exact() {
        let tally = |hits, of| WeekCount { of, hits };
        let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-6, "{a} {b}");
        near(chance(tally(24, 24), tally(0, 6)), 1.0 / 593_775.0);
        near(chance(tally(10, 10), tally(5, 5)), 1.0);
        near(chance(tally(147, 150), tally(18, 20)), 0.106_031_496_696);
        near(chance(tally(590, 600), tally(110, 130)), 1.732_575_088_5e-9);
        near(chance(tally(30, 60), tally(3, 20)), 0.004_980_615_616);
        // Counts of a large crawl.
        assert!(chance(tally(900_000, 1_000_000), tally(80_000, 100_000)) < 1e-300);
        assert!(chance(tally(900_000, 1_000_000), tally(89_999, 100_000)) > 0.4);
    }
}
