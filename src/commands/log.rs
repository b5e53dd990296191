//! The destinations of the log: the terminal for people, or standard output as JSON; and a
//! daily JSON file in the job's folder.

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use clap::ValueEnum;
use spoor::daemon::DaemonError;
use spoor::fs::beneath::{self, Kind};
use spoor::sanitize;
use spoor::settings::{LogLevel, Logs};
use tracing::{Event, Subscriber};
use tracing_appender::rolling::{RollingFileAppender, Rotation};
use tracing_subscriber::filter::{EnvFilter, LevelFilter, Targets};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

use super::screen;
use super::steps::{self, Steps};

/// The file; `None` until a crawl opens one.
static FILE: Mutex<Option<RollingFileAppender>> = Mutex::new(None);

/// The filter for the file: nothing at first.
static LEVEL: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

/// The format of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people, on standard error.
    #[default]
    Text,
    /// Lines of JSON on standard output: the log, the state of the crawl, and the summary
    /// as the last line.
    Json,
}

/// Starts logging to the terminal, or to standard output as JSON, at `level`, unless the
/// variable SPOOR_LOG overrides it.
pub fn begin(format: LogFormat, level: &str, quiet: bool) {
    let is_json = format == LogFormat::Json;
    screen::begin(is_json, quiet);
    let filter = || EnvFilter::try_from_env("SPOOR_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    // Steps and progress have their own output on a terminal, so the log leaves them out
    // there.
    let with = |filter: EnvFilter, level: LevelFilter| {
        let filter = filter.add_directive(LevelFilter::OFF.into_directive(steps::TARGET));
        let filter = filter.add_directive(level.into_directive(screen::SAID));
        filter.add_directive(level.into_directive(screen::PROGRESS))
    };
    let text = (!is_json).then(|| {
        fmt::layer()
            // The sanitizer would show the codes as text.
            .with_ansi(false)
            .with_writer(|| sanitize::Lines(screen::Above))
            .event_format(ForPeople)
            .with_filter(with(filter(), LevelFilter::OFF))
    });
    let json = is_json.then(|| {
        let level = if quiet {
            LevelFilter::OFF
        } else {
            LevelFilter::INFO
        };
        fmt::layer()
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .with_writer(|| sanitize::JsonLines(io::stdout()))
            .with_filter(with(filter(), level))
    });
    let (file, handle) = reload::Layer::new(Targets::new());
    tracing_subscriber::registry()
        .with(
            fmt::layer()
                .json()
                .flatten_event(true)
                .with_span_list(false)
                .with_writer(|| sanitize::JsonLines(ToFile))
                .with_filter(file),
        )
        .with(text)
        .with(json)
        .with(Steps.with_filter(Targets::new().with_target(steps::TARGET, LevelFilter::INFO)))
        .init();
    // It is set once, at the start of the process.
    LEVEL.set(handle).ok();
}

/// A filter rule that gives one target one level.
trait IntoDirective {
    fn into_directive(self, target: &str) -> tracing_subscriber::filter::Directive;
}

impl IntoDirective for LevelFilter {
    fn into_directive(self, target: &str) -> tracing_subscriber::filter::Directive {
        // The names are constants and valid, so this does not fail; otherwise everything would
        // be logged.
        let directive = format!("{target}={self}").parse();
        directive.unwrap_or_else(|_| self.into())
    }
}

/// Also logs to `logs/spoor.DATE.jsonl` in the job's `folder` from now on.
pub fn also_to_file(section: &Logs, folder: &Path) -> Result<(), DaemonError> {
    let level = match section.level {
        LogLevel::Off => return Ok(()),
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let unwritten = |folder: &Path, why: &dyn std::fmt::Display| {
        DaemonError::Refused(format!(
            "{}: the log cannot be written there: {why}; set logs.level = \"off\" to do without",
            folder.display()
        ))
    };
    let refused = |error: std::io::Error| unwritten(folder, &error);
    // The appender opens its files by their names.
    beneath::refuse_links_out(folder, "", 0).map_err(refused)?;
    beneath::refuse_links_out(folder, "logs", 0).map_err(refused)?;
    let all = beneath::entries(folder, "logs").unwrap_or_default();
    // Opening a named pipe would wait for its other end.
    let other = |(name, kind): &(String, Kind)| name.starts_with("spoor.") && *kind == Kind::Other;
    if let Some((name, _)) = all.into_iter().find(other) {
        let why = format!("logs/{name} is not a regular file; move it away");
        return Err(refused(std::io::Error::other(why)));
    }
    let folder = folder.join("logs");
    let file = RollingFileAppender::builder()
        .rotation(Rotation::DAILY)
        .filename_prefix("spoor")
        .filename_suffix("jsonl")
        .max_log_files(section.keep)
        .build(&folder)
        .map_err(|error| unwritten(&folder, error.source().unwrap_or(&error)))?;
    *FILE.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
    if let Some(handle) = LEVEL.get() {
        let only_ours = Targets::new()
            .with_target("spoor", level)
            .with_target(steps::TARGET, LevelFilter::OFF)
            .with_target(screen::PROGRESS, LevelFilter::OFF);
        // It only fails if logging has ended.
        handle.reload(only_ours).ok();
    }
    Ok(())
}

/// A line for people: the time as in steps and progress, the level, and the message. Spans are
/// left out, because the message names its subject.
struct ForPeople;

impl<S, N> FormatEvent<S, N> for ForPeople
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> std::fmt::Result {
        let level = event.metadata().level();
        write!(out, "{} {level:>5} ", screen::time())?;
        context.format_fields(out.by_ref(), event)?;
        writeln!(out)
    }
}

struct ToFile;

impl Write for ToFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(file) = &mut *FILE.lock().unwrap_or_else(PoisonError::into_inner) {
            file.write_all(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
