//! Shows long steps of the library: with counts on a terminal, otherwise as one line at
//! the start, one at the end, and some in between.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::Event;
use tracing::field::{Field, Visit};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::progress::spoken;
use super::screen::{self, Mode, counted};

/// The log target of the library's steps.
pub const TARGET: &str = "spoor::steps";

/// How often a step is reported without a terminal.
const EVERY: Duration = Duration::from_secs(30);

/// The minimum duration of a step whose end is reported.
const LONG: Duration = Duration::from_secs(5);

/// The duration after which the rate is shown.
const RATED: Duration = Duration::from_secs(3);

/// When the current step began, and when it was last reported.
static SAID: Mutex<Option<(Instant, Instant)>> = Mutex::new(None);

/// Whether a crawl uses the screen; then steps are not shown.
static CRAWLS: AtomicBool = AtomicBool::new(false);

/// Sets whether a crawl uses the screen.
pub fn crawls(does: bool) {
    CRAWLS.store(does, Ordering::Relaxed);
}

/// Receives the library's steps.
pub struct Steps;

impl<S: tracing::Subscriber> Layer<S> for Steps {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if CRAWLS.load(Ordering::Relaxed) {
            return;
        }
        let mut step = Heard::default();
        event.record(&mut step);
        step.show();
    }
}

/// The fields of a step's event.
#[derive(Default)]
struct Heard {
    what: String,
    state: String,
    done: u64,
    total: Option<u64>,
}

impl Visit for Heard {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "what" => self.what = value.to_owned(),
            "state" => self.state = value.to_owned(),
            _ => {}
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "done" => self.done = value,
            "total" => self.total = Some(value),
            _ => {}
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn Debug) {}
}

impl Heard {
    fn show(&self) {
        match screen::mode() {
            Mode::Terminal if self.state == "end" => screen::clear(),
            Mode::Terminal => screen::show(self.text(self.since()), true),
            Mode::Lines => self.say(),
            Mode::Json | Mode::Quiet => {}
        }
    }

    /// The duration of the step so far, on a terminal.
    fn since(&self) -> Duration {
        let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
        if self.state == "begin" {
            *said = Some((Instant::now(), Instant::now()));
        }
        said.map_or(Duration::ZERO, |(begun, _)| begun.elapsed())
    }

    /// Without a terminal: at the start, at intervals, and at the end.
    fn say(&self) {
        let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let (begun, last) = said.unwrap_or((now, now));
        let done = match self.state.as_str() {
            "begin" => {
                *said = Some((now, now));
                ""
            }
            "end" if begun.elapsed() < LONG => return,
            "end" => ", done",
            _ if last.elapsed() < EVERY => return,
            _ => {
                *said = Some((begun, now));
                ""
            }
        };
        eprintln!("{} {}{done}", screen::time(), self.text(begun.elapsed()));
    }

    /// The step; after a while with its rate, and with the remaining time if the end is known.
    fn text(&self, since: Duration) -> String {
        let Self {
            what, done, total, ..
        } = self;
        let text = match (total, done) {
            (Some(total), _) => format!("{what}: {} of {}", counted(*done), counted(*total)),
            (None, 0) => what.clone(),
            (None, _) => format!("{what}: {}", counted(*done)),
        };
        if since < RATED || *done == 0 || self.state != "going" {
            return text;
        }
        let rate = *done as f64 / since.as_secs_f64();
        let text = format!("{text}, {}/s", counted(rate as u64));
        let left = total.map(|total| total.saturating_sub(*done) as f64 / rate);
        match left {
            Some(left) if left.is_finite() => {
                format!("{text}, {} left", spoken(Duration::from_secs_f64(left)))
            }
            _ => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_and_time_left_are_told_after_a_while() {
        let step = |done, total| Heard {
            what: "bytes read".to_owned(),
            state: "going".to_owned(),
            done,
            total,
        };
        let begun = step(5_000, Some(20_000)).text(Duration::from_secs(1));
        assert_eq!(begun, "bytes read: 5,000 of 20,000");
        let later = step(5_000, Some(905_000)).text(Duration::from_secs(10));
        assert_eq!(later, "bytes read: 5,000 of 905,000, 500/s, 30 min left");
        let open = step(5_000, None).text(Duration::from_secs(10));
        assert_eq!(open, "bytes read: 5,000, 500/s");
    }
}
