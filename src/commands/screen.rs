//! Where progress goes: into one line at the foot of a terminal, with all else printed
//! above it; without a terminal into plain lines; or into lines of JSON.
//!
//! There is one screen to a process, so this is one of the few places with a static: the
//! log, the steps of the library and the crawl all print, and none may print into the
//! line of another.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use spoor::sanitize;

/// How often the sign of life turns.
const TICK: Duration = Duration::from_millis(100);

/// The target of steps in words. They have a place of their own on the screen, so the
/// log on the terminal leaves them out.
pub const SAID: &str = "spoor::said";

/// The target of how a crawl stands, for the log in JSON.
pub const PROGRESS: &str = "spoor::progress";

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// In one line that changes, on standard error.
    Terminal,
    /// In plain lines on standard error, few of them.
    Lines,
    /// In the log, which is lines of JSON on standard output.
    Json,
    /// Not at all.
    Quiet,
}

static MODE: OnceLock<Mode> = OnceLock::new();
static LINE: Mutex<Option<Shown>> = Mutex::new(None);

/// The line at the foot.
struct Shown {
    bar: ProgressBar,
    turns: bool,
}

/// Decides how progress is shown, once, at the beginning of the process.
pub fn begin(json: bool, quiet: bool) {
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let mode = match (json, quiet) {
        (true, _) => Mode::Json,
        (_, true) => Mode::Quiet,
        _ if io::stderr().is_terminal() && !is_dumb => Mode::Terminal,
        _ => Mode::Lines,
    };
    // It is set once.
    MODE.set(mode).ok();
}

/// How progress is shown.
pub fn mode() -> Mode {
    MODE.get().copied().unwrap_or(Mode::Quiet)
}

/// Columns of the terminal that a line may fill.
pub fn width() -> usize {
    let (_, columns) = console::Term::stderr().size();
    usize::from(columns).saturating_sub(1).max(1)
}

/// Says a step, in words: above the line, as a plain line with the time, or in the log.
pub fn say(text: &str) {
    // Into the log of the job's folder too.
    tracing::info!(target: SAID, "{text}");
    match mode() {
        Mode::Terminal => above(|| eprintln!("{}", sanitize::shown(text))),
        Mode::Lines => eprintln!("{} {}", time(), sanitize::shown(text)),
        Mode::Json | Mode::Quiet => {}
    }
}

/// Shows `text` at the foot of the terminal, in the place of what stood there; `turns`
/// has a sign of life turn before it, for work that says little.
pub fn show(text: String, turns: bool) {
    if mode() != Mode::Terminal {
        return;
    }
    let mut line = LINE.lock().unwrap_or_else(PoisonError::into_inner);
    if line.as_ref().is_some_and(|shown| shown.turns != turns)
        && let Some(other) = line.take()
    {
        other.bar.finish_and_clear();
    }
    let shown = line.get_or_insert_with(|| {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let template = if turns {
            "{spinner} {wide_msg}"
        } else {
            "{wide_msg}"
        };
        // The templates are ours, and right.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        if turns {
            bar.enable_steady_tick(TICK);
        }
        Shown { bar, turns }
    });
    shown.bar.set_message(text);
    shown.bar.tick();
}

/// Removes the line.
pub fn clear() {
    let mut line = LINE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(shown) = line.take() {
        shown.bar.finish_and_clear();
    }
}

/// Runs `print` while the line is away; it comes back below what was printed.
fn above<T>(print: impl FnOnce() -> T) -> T {
    let line = LINE.lock().unwrap_or_else(PoisonError::into_inner);
    match &*line {
        Some(shown) => shown.bar.suspend(print),
        None => print(),
    }
}

/// The time of a plain line.
pub fn time() -> String {
    let now = jiff::Timestamp::now();
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Standard error above the line.
pub struct Above;

impl Write for Above {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        above(|| io::stderr().write_all(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
