//! Long steps of the library on the screen: on a terminal with their counts, without one
//! a line at the beginning, one at the end, and one now and then between.

use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::Event;
use tracing::field::{Field, Visit};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::progress::counted;
use super::screen::{self, Mode};

/// Where the library tells of its steps.
pub const TARGET: &str = "spoor::steps";

/// How often a step is said without a terminal.
const EVERY: Duration = Duration::from_secs(30);

/// From which time on the end of a step is worth a line.
const LONG: Duration = Duration::from_secs(5);

/// When the step under way began, and was last said.
static SAID: Mutex<Option<(Instant, Instant)>> = Mutex::new(None);

/// Whether a crawl has the screen; what it does besides is not shown.
static CRAWLS: AtomicBool = AtomicBool::new(false);

/// From now on a crawl has the screen, or not any more.
pub fn crawls(does: bool) {
    CRAWLS.store(does, Ordering::Relaxed);
}

/// Hears the library's steps.
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

/// What a step tells.
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

    /// Without a terminal: at the beginning, every now and then, and at the end.
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
