//! The time of this process and the format of timestamps.
//!
//! Every time in spoor is a number of milliseconds since 1970. Functions that need the
//! time take it as an argument; only the loops and the commands call [`now`], and those that ask
//! whether the day of an `unavailable_after` has come.

use std::sync::OnceLock;
#[cfg(not(target_os = "linux"))]
use std::time::Instant;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970. The system clock is read once, at the first call in this
/// process. After that the result grows steadily, even if the system clock is changed, and
/// keeps counting while the machine sleeps.
pub fn now() -> u64 {
    static BEGUN: OnceLock<(Duration, Duration)> = OnceLock::new();
    let (wall, awake) = BEGUN.get_or_init(|| {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        (wall.unwrap_or_default(), since_boot())
    });
    let passed = since_boot().saturating_sub(*awake);
    millis(*wall + passed)
}

#[cfg(target_os = "linux")]
fn since_boot() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(time).unwrap_or_default()
}

/// The time since the first call. Only on Linux does it include time asleep.
#[cfg(not(target_os = "linux"))]
fn since_boot() -> Duration {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    FIRST.get_or_init(Instant::now).elapsed()
}

/// A duration in whole milliseconds, at most `u64::MAX`.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A time in milliseconds since 1970 as RFC 3339 in UTC, `2026-01-02T03:04:05.678Z`.
pub fn timestamp(millis: u64) -> String {
    let millis = i64::try_from(millis).unwrap_or(i64::MAX);
    match jiff::Timestamp::from_millisecond(millis) {
        Ok(time) => format!("{time:.3}"),
        Err(_) => "9999-12-31T23:59:59.999Z".to_owned(),
    }
}

/// The milliseconds since 1970 of a time in RFC 3339; `None` if it is none, or earlier.
pub fn of_timestamp(written: &str) -> Option<u64> {
    let time: jiff::Timestamp = written.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(1_767_323_045_678), "2026-01-02T03:04:05.678Z");
        assert_eq!(
            of_timestamp("2026-01-02T04:04:05.678+01:00"),
            Some(1_767_323_045_678)
        );
        assert_eq!(
            of_timestamp("2026-01-02").or(of_timestamp("1969-01-01T00:00:00Z")),
            None
        );
        assert_eq!(timestamp(u64::MAX), "9999-12-31T23:59:59.999Z");
    }
}
