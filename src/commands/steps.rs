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

use super::screen::{self, Mode, counted};

/// The log target of the library's steps.
pub const TARGET: &str = "spoor::steps";

/// How often a step is reported without a terminal.
const EVERY: Duration = Duration::from_secs(30);

/// The duration from which on the end of a step is reported.
const LONG: Duration = Duration::from_secs(5);

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
            Mode::Terminal => screen::show(self.text(), true),
            Mode::Lines => self.say(),
            Mode::Json | Mode::Quiet => {}
        }
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
        eprintln!("{} {}{done}", screen::time(), self.text());
    }

    fn text(&self) -> String {
        let Self {
            what, done, total, ..
        } = self;
        match (total, done) {
            (Some(total), _) => format!("{what}: {} of {}", counted(*done), counted(*total)),
            (None, 0) => what.clone(),
            (None, _) => format!("{what}: {}", counted(*done)),
        }
    }
}
