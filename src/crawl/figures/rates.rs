//! How fast a crawl goes, and when it reaches its limits.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::frontier::{Amount, Cells};
use crate::pipeline::Limits;

/// The shortest time between two samples of the counters, in milliseconds.
const SAMPLE: u64 = 1_000;

/// A rate is used for predictions once it covers this many seconds.
const STEADY: f64 = 3.0;

/// What a crawl has done so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkDone {
    /// Pages fetched successfully, each counted once.
    pub pages: u64,
    /// Page requests that were answered or failed.
    pub fetches: u64,
    /// Images kept.
    pub images: u64,
    /// Bytes of all bodies.
    pub bytes: u64,
}

impl WorkDone {
    /// What is done so far. On a machine in a cluster, hosts arrive together with the counters of
    /// other machines, so its own work is counted separately.
    pub fn of(frontier: &Cells, is_shared: bool) -> Self {
        let counts = frontier.counts();
        let own = if is_shared {
            frontier.used()
        } else {
            Amount {
                documents: counts.documents,
                fetches: counts.fetches,
                bytes: counts.bytes,
            }
        };
        Self {
            pages: own.documents,
            fetches: own.fetches,
            images: counts.images,
            bytes: own.bytes,
        }
    }
}

/// Recent work per minute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// The time that was measured, in seconds.
    pub seconds: f64,
    /// Pages per minute.
    pub pages: f64,
    /// Page requests per minute.
    pub fetches: f64,
    /// Images per minute.
    pub images: f64,
    /// Bytes of bodies per minute.
    pub bytes: f64,
}

impl Rates {
    /// Whether they cover enough time for predictions.
    pub fn are_steady(&self) -> bool {
        self.seconds >= STEADY
    }

    /// How many seconds this much takes at a rate; `None` if the rate is 0 or not steady.
    pub fn seconds_for(&self, rest: f64, a_minute: f64) -> Option<f64> {
        (self.are_steady() && a_minute > 0.0).then(|| rest.max(0.0) * 60.0 / a_minute)
    }
}

/// Measures rates over a window of time.
#[derive(Debug, Clone)]
pub struct RateMeter {
    window: u64,
    /// With their times in milliseconds, oldest first.
    samples: VecDeque<(u64, WorkDone)>,
}

impl RateMeter {
    /// Over the last `window`, or since the first sample if that is less.
    pub fn over(window: Duration) -> Self {
        Self {
            window: u64::try_from(window.as_millis()).unwrap_or(u64::MAX),
            samples: VecDeque::new(),
        }
    }

    /// Samples what is done at `now`, in milliseconds, and returns the rates.
    pub fn observe(&mut self, work: WorkDone, now: u64) -> Rates {
        let last = self.samples.back();
        if last.is_none_or(|(at, _)| now >= at + SAMPLE) {
            self.samples.push_back((now, work));
        }
        // The one before the window is the starting point of the measurement.
        let is_old = |(at, _): &(u64, WorkDone)| at.saturating_add(self.window) <= now;
        while self.samples.get(1).is_some_and(is_old) {
            self.samples.pop_front();
        }
        self.rates(work, now)
    }

    /// The rates at `now`.
    pub fn rates(&self, work: WorkDone, now: u64) -> Rates {
        let Some((at, before)) = self.samples.front() else {
            return Rates::default();
        };
        let seconds = now.saturating_sub(*at) as f64 / 1000.0;
        let rate = |after: u64, before: u64| {
            let more = after.saturating_sub(before) as f64;
            if seconds > 0.0 {
                more * 60.0 / seconds
            } else {
                0.0
            }
        };
        Rates {
            seconds,
            pages: rate(work.pages, before.pages),
            fetches: rate(work.fetches, before.fetches),
            images: rate(work.images, before.images),
            bytes: rate(work.bytes, before.bytes),
        }
    }
}

/// The distance to a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Toward {
    /// The key, such as `limits.documents`.
    pub key: String,
    /// How much of it is used up: pages, requests, bytes or seconds.
    pub done: f64,
    /// The limit.
    pub of: f64,
    /// The time until it is reached at the present rate, in seconds; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<f64>,
}

impl Toward {
    /// The distance to each limit, in the order of the job file. `active` is the time spent
    /// crawling, in milliseconds.
    pub fn each(work: &WorkDone, active: u64, limits: &Limits, rates: &Rates) -> Vec<Self> {
        let at = |key: &str, done: f64, of: Option<f64>, a_minute: f64| {
            let of = of?;
            Some(Self {
                key: format!("limits.{key}"),
                done,
                of,
                seconds_left: rates.seconds_for(of - done, a_minute),
            })
        };
        let whole = |n: Option<u64>| n.map(|n| n as f64);
        let time = limits.time.map(|time| time.as_secs_f64());
        [
            at(
                "documents",
                work.pages as f64,
                whole(limits.documents),
                rates.pages,
            ),
            at(
                "fetches",
                work.fetches as f64,
                whole(limits.fetches),
                rates.fetches,
            ),
            at("bytes", work.bytes as f64, whole(limits.bytes), rates.bytes),
            at("time", active as f64 / 1000.0, time, 60.0),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// How far it is reached, 0 to 1.
    pub fn share(&self) -> f64 {
        let share = self.done / self.of;
        if share.is_finite() {
            share.min(1.0)
        } else {
            1.0
        }
    }

    /// The limit that is reached first, as far as that is known.
    pub fn first(all: &[Self]) -> Option<&Self> {
        let known = all.iter().filter(|limit| limit.seconds_left.is_some());
        known.min_by(|a, b| {
            let left = |limit: &Self| limit.seconds_left.unwrap_or(f64::INFINITY);
            left(a).total_cmp(&left(b))
        })
    }
}
