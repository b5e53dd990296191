//! Where the log goes: for people to the terminal, and as JSON into a file of the
//! crawl's folder, a new one every day.

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use spoor::config::{LogLevel, Logs};
use spoor::daemon::DaemonError;
use spoor::inert;
use tracing_appender::rolling::{RollingFileAppender, Rotation};
use tracing_subscriber::filter::{EnvFilter, LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

/// The file, from when a crawl has one.
static FILE: Mutex<Option<RollingFileAppender>> = Mutex::new(None);

/// What of the log goes there: nothing at first.
static LEVEL: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

/// Begins to log to the terminal; `verbose` counts how often more was asked for.
pub fn to_terminal(verbose: u8) {
    let level = match verbose {
        0 => "spoor=warn",
        1 => "spoor=info",
        _ => "spoor=debug",
    };
    let terminal = EnvFilter::try_from_env("SPOOR_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let (file, handle) = reload::Layer::new(Targets::new());
    tracing_subscriber::registry()
        .with(
            fmt::layer()
                .json()
                .flatten_event(true)
                .with_span_list(false)
                .with_writer(|| inert::JsonLines(ToFile))
                .with_filter(file),
        )
        .with(
            fmt::layer()
                .with_writer(|| inert::Lines(io::stderr()))
                .with_ansi(false)
                .with_target(false)
                .compact()
                .with_filter(terminal),
        )
        .init();
    // It is set once, at the beginning of the process.
    LEVEL.set(handle).ok();
}

/// From now on logs to `logs/spoor.DATE.jsonl` in the job's `folder` as well.
pub fn also_to_file(section: &Logs, folder: &Path) -> Result<(), DaemonError> {
    let level = match section.level {
        LogLevel::Off => return Ok(()),
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let folder = folder.join("logs");
    let file = RollingFileAppender::builder()
        .rotation(Rotation::DAILY)
        .filename_prefix("spoor")
        .filename_suffix("jsonl")
        .max_log_files(section.keep)
        .build(&folder)
        .map_err(|error| DaemonError::Log {
            why: error.source().unwrap_or(&error).to_string(),
            folder,
        })?;
    *FILE.lock().unwrap_or_else(PoisonError::into_inner) = Some(file);
    if let Some(handle) = LEVEL.get() {
        let only_ours = Targets::new().with_target("spoor", level);
        // It fails only where there is no log any more.
        handle.reload(only_ours).ok();
    }
    Ok(())
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
