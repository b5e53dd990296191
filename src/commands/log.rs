//! Where the log goes: for people to the terminal, and as JSON into a file of the
//! crawl's folder, a new one every day.

use std::io::{self, Write};
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::{Context, Result, anyhow};
use spoor::config::{Config, LogLevel};
use spoor::inert;
use tracing_appender::rolling::{RollingFileAppender, Rotation};
use tracing_subscriber::filter::{EnvFilter, LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, reload};

/// The file, from when a crawl has one.
static FILE: OnceLock<Mutex<RollingFileAppender>> = OnceLock::new();

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

/// From now on logs to `logs/spoor.DATE.jsonl` in the job's folder as well.
pub fn also_to_file(config: &Config) -> Result<()> {
    let level = match config.logs.level {
        LogLevel::Off => return Ok(()),
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let folder = config.job_folder().join("logs");
    let opening = || {
        let folder = folder.display();
        format!("{folder}: the log cannot be written there; set logs.level = \"off\" to do without")
    };
    let file = RollingFileAppender::builder()
        .rotation(Rotation::DAILY)
        .filename_prefix("spoor")
        .filename_suffix("jsonl")
        .max_log_files(config.logs.keep)
        .build(&folder)
        .with_context(opening)?;
    // A second crawl in the same process, as of the demo, keeps to the first one's file.
    FILE.set(Mutex::new(file)).ok();
    let handle = LEVEL.get().ok_or_else(|| anyhow!("there is no log yet"))?;
    handle.reload(Targets::new().with_target("spoor", level))?;
    Ok(())
}

struct ToFile;

impl Write for ToFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match FILE.get() {
            Some(file) => {
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file.write_all(bytes)?;
                Ok(bytes.len())
            }
            None => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
