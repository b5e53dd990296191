//! The output of progress: one line at the bottom of a terminal, with all other output
//! above it; plain lines without a terminal; or lines of JSON.
//!
//! A process has one screen, so this is one of the few modules with a static: the log, the
//! steps of the library and the crawl all print, and must not write into each other's
//! lines.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
pub use spoor::crawl::figures::count as counted;
use spoor::sanitize;

/// How often the spinner moves.
const TICK: Duration = Duration::from_millis(100);

/// The log target of steps in words. They have their own place on the screen, so the log
/// on the terminal leaves them out.
pub const SAID: &str = "spoor::said";

/// The log target of a crawl's progress, for the log in JSON.
pub const PROGRESS: &str = "spoor::progress";

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// In one changing line on standard error.
    Terminal,
    /// In a few plain lines on standard error.
    Lines,
    /// In the log, which is lines of JSON on standard output.
    Json,
    /// Not at all.
    Quiet,
}

static MODE: OnceLock<Mode> = OnceLock::new();
static LINE: Mutex<Option<Shown>> = Mutex::new(None);

/// The line at the bottom.
struct Shown {
    bar: ProgressBar,
    turns: bool,
}

/// Chooses how progress is shown, once, at the start of the process.
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

/// The columns of the terminal that a line may use.
pub fn width() -> usize {
    let (_, columns) = console::Term::stderr().size();
    usize::from(columns).saturating_sub(1).max(1)
}

/// Prints a step in words: above the line, as a plain line with the time, or in the log.
pub fn say(text: &str) {
    // Also into the log of the job's folder.
    tracing::info!(target: SAID, "{text}");
    match mode() {
        Mode::Terminal => above(|| eprintln!("{}", sanitize::shown(text))),
        Mode::Lines => eprintln!("{} {}", time(), sanitize::shown(text)),
        Mode::Json | Mode::Quiet => {}
    }
}

/// Shows `text` at the bottom of the terminal, replacing the previous line; with `turns` a
/// spinner moves in front of it, for work that reports little.
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
        // The templates are constants and valid.
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

/// Runs `print` while the line is hidden; it reappears below the printed text.
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
