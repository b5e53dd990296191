//! The `spoor` command: a thin layer over the library.

// Tests name their own files.
#![cfg_attr(test, allow(clippy::disallowed_methods))]

mod commands;

use std::io::Write;
use std::process::ExitCode;

use commands::log::LogFormat;
use spoor::daemon::allocator;
use spoor::frontier::store;
use spoor::sanitize;
use spoor::tool_error::with_causes;

/// Pages are parsed in several threads, each into a tree of thousands of small
/// allocations. With glibc's allocator the threads either wait for one another, or each
/// one's arena keeps the memory that a large page once needed.
#[cfg(not(target_env = "msvc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let arguments = commands::arguments();
    let log_format = arguments.command.log_format();
    let level = match arguments.verbose {
        0 => arguments.command.level(),
        1 => "spoor=info",
        _ => "spoor=debug",
    };
    commands::log::begin(log_format, level, arguments.quiet);
    report_panics();
    if arguments.command.is_long() {
        restart_with_less_memory();
    }
    if !arguments.command.serves() {
        // `| head` ends a printing command, as usual on Unix.
        sigpipe::reset();
    }
    match commands::run(arguments.command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let code = commands::exit::of_error(&error);
            let text = with_causes(error.as_ref());
            match log_format {
                // Readers of the log also need the final error.
                LogFormat::Json => tracing::error!(exit_code = code, "{text}"),
                LogFormat::Text => eprintln!("spoor: {}", sanitize::shown(&text)),
            }
            ExitCode::from(code)
        }
    }
}

/// Restarts the program with the allocator set up to use less memory, unless the environment
/// configures it. The allocator reads its settings only at process start, and cannot be
/// configured later without unsafe code.
#[cfg(unix)]
fn restart_with_less_memory() {
    use std::os::unix::process::CommandExt;
    if std::env::var_os(allocator::VARIABLE).is_some() {
        return;
    }
    let Ok(program) = std::env::current_exe() else {
        return;
    };
    let arguments = std::env::args_os().skip(1);
    // `exec` returns only on failure; the command then goes on with the default settings.
    let error = std::process::Command::new(program)
        .args(arguments)
        .env(allocator::VARIABLE, allocator::SETTINGS)
        .exec();
    tracing::debug!("the allocator could not be configured to use less memory: {error}");
}

#[cfg(not(unix))]
fn restart_with_less_memory() {}

/// What `println!` panics with if the standard output cannot be written.
const NOT_PRINTED: &str = "failed printing to stdout: ";

/// Ends the process with a message if the standard output cannot be written, as for any file.
///
/// A panic in a store's backend becomes an error with advice, so its backtrace would only
/// confuse. A panic in a backend's own thread does not end the process and is logged in
/// one line. All other panics are printed, because they may end the process.
fn report_panics() {
    let speak = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let thread = std::thread::current();
        let text = info.payload_as_str().unwrap_or("no message");
        if let Some(why) = text.strip_prefix(NOT_PRINTED) {
            let mut out = std::io::stderr();
            writeln!(out, "spoor: the standard output cannot be written: {why}").ok();
            std::process::exit(i32::from(commands::exit::FAILED));
        }
        if store::is_guarded() {
            tracing::debug!("{info}");
        } else if store::is_of_backend(&thread) {
            let name = thread.name().unwrap_or_default();
            let line: String = text
                .lines()
                .next()
                .unwrap_or_default()
                .chars()
                .take(200)
                .collect();
            tracing::warn!("the thread `{name}` of the frontier's store failed: {line}");
        } else {
            speak(info);
        }
    }));
}
