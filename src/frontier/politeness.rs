//! When a host may be requested again, as pure arithmetic.
//!
//! All times are milliseconds since 1970 by the wall clock, because they must survive a
//! restart.

use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use super::policy::Policy;
use super::record::HostRecord;
use crate::address::HostKey;
use crate::clock::millis;
use crate::page::Outcome;

/// Greatest age of a resolved IP address, in milliseconds: a host may move, and requests
/// to its old address would then reach another host.
const MAX_ADDRESS_AGE: u64 = 10 * 60 * 1_000;

/// The shortest time that a request gets before it gives way to others.
const LEAST_PATIENCE: Duration = Duration::from_secs(10);

impl Policy {
    /// The pause between requests to a host.
    pub(super) fn delay(&self, record: &HostRecord) -> u64 {
        // A host that asks for more is parked until its rules are read again; they may
        // ask for less then.
        let asked = record.crawl_delay.unwrap_or(0).min(self.max_crawl_delay);
        record.delay.max(self.min_delay).max(asked)
    }

    /// Whether a host's robots.txt asks for longer pauses than the job accepts.
    pub(super) fn is_too_slow(&self, record: &HostRecord) -> bool {
        record.crawl_delay.is_some_and(|d| d > self.max_crawl_delay)
    }

    /// How long a host's IP address is valid, in milliseconds. Longer than its delay,
    /// because otherwise there would be time for lookups only.
    pub(super) fn address_holds(&self, record: &HostRecord) -> u64 {
        let age = MAX_ADDRESS_AGE.min(self.robots_max_age);
        age.max(self.delay(record).saturating_mul(2))
    }

    /// How long a host's robots rules are valid, in milliseconds. Longer than its delay,
    /// because otherwise there would be time for rules only. A host that is parked for
    /// its delay gets no other requests.
    pub(super) fn holds(&self, record: &HostRecord) -> u64 {
        if self.is_too_slow(record) {
            self.robots_max_age
        } else {
            self.robots_max_age
                .max(self.delay(record).saturating_mul(2))
        }
    }

    /// How long a host's tdmrep.json and its `files` RSL files are valid, in milliseconds: all of them
    /// must still be valid when the page that needs them is requested.
    pub(super) fn terms_hold(&self, record: &HostRecord, files: usize) -> u64 {
        let requests = files as u64 + 3;
        self.holds(record)
            .max(self.delay(record).saturating_mul(requests))
    }

    /// The shortest pause before a page of the host is visited again, in milliseconds. Other
    /// pages of the host must get their turn in it, because otherwise there would be time for
    /// one page only, if its schedule is shorter than the delay. `took` is how long its last
    /// visit took.
    pub(super) fn before_next_visit(&self, record: &HostRecord, took: u64) -> u64 {
        self.delay(record).saturating_mul(2).max(took)
    }

    /// The pause before attempt number `failures + 1`.
    pub(super) fn pause(&self, failures: u32) -> u64 {
        let doublings = failures.saturating_sub(1).min(32);
        self.back_off
            .saturating_mul(1 << doublings)
            .min(self.max_back_off)
    }

    /// The same for one host, longer by its own share of up to [`Policy::jitter`].
    fn pause_of(&self, host: &HostKey, failures: u32) -> u64 {
        let hash = xxh3_64(format!("{failures} {}", host.as_str()).as_bytes());
        let share = f64::from((hash >> 48) as u16) / f64::from(u16::MAX);
        let pause = self.pause(failures);
        let more = pause as f64 * self.jitter * share;
        pause
            .saturating_add(more as u64)
            .min(self.max_back_off.max(pause))
    }

    /// The time that a request has at least before it gives way to others that wait: ten
    /// seconds, or twice as long as the host took last if that is more, doubled after
    /// each failure. So a slow but working host is answered in the end.
    pub(super) fn least_time(&self, record: &HostRecord) -> Duration {
        let took = if self.delay_factor > 0.0 {
            record.delay as f64 / self.delay_factor / 1000.0
        } else {
            0.0
        };
        let least = LEAST_PATIENCE.as_secs_f64().max(2.0 * took);
        let doublings = record.failures.min(4);
        let patience = least * f64::from(1_u32 << doublings);
        Duration::try_from_secs_f64(patience).unwrap_or(Duration::MAX)
    }

    /// Books the outcome of a request. Returns whether the whole host is held responsible
    /// for a failure.
    pub(super) fn book(
        &self,
        host: &HostKey,
        record: &mut HostRecord,
        outcome: &Outcome,
        elapsed: Duration,
        now: u64,
    ) -> bool {
        match outcome {
            Outcome::Retry {
                retry_after,
                host_backs_off: true,
                ..
            } => {
                self.failed(host, record, *retry_after, now);
                true
            }
            _ => {
                self.answered(record, elapsed, now);
                false
            }
        }
    }

    /// Books an answered request. A request that was open before the host asked for a
    /// pause does not shorten that pause: the clock never moves back.
    pub(super) fn answered(&self, record: &mut HostRecord, elapsed: Duration, now: u64) {
        record.failures = 0;
        record.parked_until = record.parked_until.filter(|until| *until > now);
        let adaptive = elapsed.as_secs_f64() * 1000.0 * self.delay_factor;
        // `as` saturates, so an absurd product is the maximum.
        record.delay = (adaptive as u64).min(self.max_delay).max(self.min_delay);
        record.due = record.due.max(now.saturating_add(self.delay(record)));
    }

    /// Books a failure of the whole host. `retry_after` is the pause that the server asked for;
    /// without it the pauses double, each a little longer than for other hosts, so that hosts that
    /// failed together do not return together. A `Retry-After` of zero is ignored, so that a server
    /// that keeps failing with it is also requested less often.
    pub(super) fn failed(
        &self,
        host: &HostKey,
        record: &mut HostRecord,
        retry_after: Option<Duration>,
        now: u64,
    ) {
        record.failures = record.failures.saturating_add(1);
        if let Some(located) = &mut record.located {
            // The host may have moved.
            located.at = 0;
        }
        let asked = retry_after.map(millis).filter(|pause| *pause > 0);
        let pause = asked.unwrap_or_else(|| self.pause_of(host, record.failures));
        record.due = record.due.max(now.saturating_add(self.delay(record)));
        self.rest(record, pause, now);
        if record.failures > self.retries {
            self.park(record, now);
        }
    }

    /// Parks a host: it is requested again after the greatest back-off, and no crawl waits for
    /// that.
    pub(super) fn park(&self, record: &mut HostRecord, now: u64) {
        let until = now.saturating_add(self.max_back_off).max(record.due);
        record.parked_until = record.parked_until.max(Some(until));
    }

    /// Books a pause for a host, in milliseconds, without an upper bound. A host that
    /// asks for more than the greatest back-off is parked. If several open requests
    /// return different pauses, the longest one applies.
    pub(super) fn rest(&self, record: &mut HostRecord, pause: u64, now: u64) {
        record.due = record.due.max(now.saturating_add(pause));
        if pause > self.max_back_off {
            self.park(record, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::test_policy;

    fn host() -> HostKey {
        HostKey::from_stored("a.org")
    }

    #[test]
    fn hosts_that_failed_together_return_one_after_the_other() {
        let mut policy = test_policy();
        policy.jitter = 0.25;
        let pause = policy.back_off;
        let dues: Vec<u64> = (0..200)
            .map(|number| {
                let mut record = HostRecord::default();
                let host = HostKey::from_stored(&format!("{number}.org"));
                policy.failed(&host, &mut record, None, 0);
                record.due
            })
            .collect();
        assert!(
            dues.iter()
                .all(|due| (pause..=pause + pause / 4).contains(due))
        );
        let in_first = dues.iter().filter(|due| **due < pause + pause / 40).count();
        assert!((5..50).contains(&in_first), "{in_first}");
        let mut record = HostRecord::default();
        policy.failed(&host(), &mut record, Some(Duration::from_secs(90)), 0);
        assert_eq!(record.due, 90_000, "as the server asked");
    }

    #[test]
    fn the_delay_follows_the_host_within_its_bounds() {
        let policy = test_policy();
        let mut record = HostRecord::default();
        for (elapsed, delay) in [(50, 1_000), (600, 3_000), (40_000, 60_000)] {
            policy.answered(&mut record, Duration::from_millis(elapsed), 10_000);
            assert_eq!(record.due, 10_000 + delay, "{elapsed}");
        }
        record.crawl_delay = Some(90_000);
        policy.answered(&mut record, Duration::from_millis(1), 0);
        assert_eq!(record.due, 90_000);
    }

    #[test]
    fn slow_hosts_and_those_that_gave_way_have_more_time() {
        let policy = test_policy();
        let mut record = HostRecord::default();
        let seconds = |record: &HostRecord| policy.least_time(record).as_secs();
        assert_eq!(seconds(&record), 10);
        policy.answered(&mut record, Duration::from_secs(8), 0);
        assert_eq!(seconds(&record), 16);
        policy.failed(&host(), &mut record, None, 0);
        assert_eq!(seconds(&record), 32);
        record.failures = 100;
        assert_eq!(seconds(&record), 256);
    }

    #[test]
    fn failures_double_and_then_park() {
        let policy = test_policy();
        let mut record = HostRecord::default();
        for (failures, due) in [(1, 30_000), (2, 60_000), (3, 120_000)] {
            policy.failed(&host(), &mut record, None, 0);
            assert_eq!((record.failures, record.due), (failures, due));
            assert_eq!(record.parked_until, None);
        }
        policy.failed(&host(), &mut record, None, 0);
        assert_eq!(record.parked_until, Some(86_400_000));
        let due = record.due;
        policy.answered(&mut record, Duration::ZERO, 5);
        assert_eq!(
            (record.failures, record.due),
            (0, due),
            "it was open before"
        );
        assert_eq!(record.parked_until, Some(86_400_000));
        policy.answered(&mut record, Duration::ZERO, 86_400_000);
        assert_eq!(record.parked_until, None);
    }

    #[test]
    fn rules_hold_for_longer_than_the_delay() {
        let mut policy = test_policy();
        let mut record = HostRecord::default();
        assert_eq!(policy.holds(&record), 86_400_000);
        record.crawl_delay = Some(600_000);
        policy.robots_max_age = 1_000;
        assert_eq!(policy.holds(&record), 1_200_000);
    }

    #[test]
    fn retry_after_is_obeyed_uncapped() {
        let policy = test_policy();
        let mut record = HostRecord::default();
        policy.failed(
            &host(),
            &mut record,
            Some(Duration::from_secs(1_000_000)),
            5,
        );
        assert_eq!(record.due, 1_000_000_005);
        policy.failed(&host(), &mut record, Some(Duration::MAX), 5);
        assert_eq!(record.due, u64::MAX);
        let mut record = HostRecord::default();
        policy.failed(&host(), &mut record, Some(Duration::from_millis(1)), 5);
        assert_eq!(record.due, 5 + 1_000, "never below the host's delay");
    }

    #[test]
    fn a_wait_of_nothing_ends_no_doubling() {
        let policy = test_policy();
        let mut record = HostRecord::default();
        let mut now = 0;
        for pause in [30_000, 60_000, 120_000] {
            policy.failed(&host(), &mut record, Some(Duration::ZERO), now);
            assert_eq!(record.due, now + pause);
            now = record.due;
        }
        policy.failed(&host(), &mut record, Some(Duration::ZERO), now);
        assert_eq!(record.parked_until, Some(now + policy.max_back_off));
    }

    #[test]
    fn no_later_word_shortens_a_promise() {
        let policy = test_policy();
        for crawl_delay in [None, Some(600_000)] {
            let mut record = HostRecord {
                delay: 60_000,
                crawl_delay,
                ..HostRecord::default()
            };
            policy.failed(&host(), &mut record, Some(Duration::from_secs(90)), 0);
            let promised = record.due;
            assert!(promised >= 90_000);
            policy.failed(&host(), &mut record, Some(Duration::from_secs(1)), 1_000);
            assert!(record.due >= promised);
            // The remaining pause is shorter than the host's previous one.
            policy.answered(&mut record, Duration::ZERO, 50_000);
            assert!(record.due >= promised);
            policy.answered(&mut record, Duration::ZERO, 51_000);
            assert!(record.due >= promised);
        }
        // A host that is given up for longer is not resumed earlier.
        let mut record = HostRecord::default();
        policy.failed(&host(), &mut record, Some(Duration::from_secs(200_000)), 0);
        policy.failed(&host(), &mut record, Some(Duration::from_secs(100_000)), 0);
        assert_eq!(record.parked_until, Some(200_000_000));
    }
}
