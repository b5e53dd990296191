//! The `spoor` command: a thin face over the library.

mod commands;

use std::process::ExitCode;

use clap::Parser;
use commands::log::LogFormat;
use spoor::crawl::frontier::store;
use spoor::sanitize;

/// Pages are taken apart in several threads, each into a tree of thousands of small pieces:
/// glibc either has the threads wait for one another, or keeps in the arena of each what a
/// large page took once.
#[cfg(not(target_env = "msvc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let arguments = commands::Arguments::parse();
    let log_format = arguments.command.log_format();
    let level = match arguments.verbose {
        0 => arguments.command.level(),
        1 => "spoor=info",
        _ => "spoor=debug",
    };
    commands::log::begin(log_format, level, arguments.quiet);
    quiet_store_panics();
    if matches!(arguments.command, commands::Command::Crawl(_)) {
        begin_with_few_arenas();
    }
    if !arguments.command.serves() {
        // `| head` ends a command that prints, as it ends others.
        sigpipe::reset();
    }
    match commands::run(arguments.command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let code = commands::exit::of_error(&error);
            let text = commands::told(&error);
            match log_format {
                // Whoever reads the log reads of its end too.
                LogFormat::Json => tracing::error!(exit_code = code, "{text}"),
                LogFormat::Text => eprintln!("spoor: {}", sanitize::shown(&text)),
            }
            ExitCode::from(code)
        }
    }
}

/// Begins the program anew with two arenas for memory that give back at once what is not
/// used for a second, unless the environment says otherwise. By itself the allocator has
/// four arenas for every core and waits for ten seconds: a crawl of the zoo takes 430 MB
/// then, and less than 300 MB so. It reads this only at the start of a process, and cannot
/// be told later without unsafe code.
#[cfg(unix)]
fn begin_with_few_arenas() {
    use std::os::unix::process::CommandExt;
    const SETTINGS: &str = "_RJEM_MALLOC_CONF";
    if std::env::var_os(SETTINGS).is_some() {
        return;
    }
    let Ok(program) = std::env::current_exe() else {
        return;
    };
    let arguments = std::env::args_os().skip(1);
    // It returns only where it failed, and then the crawl goes on as it is.
    let error = std::process::Command::new(program)
        .args(arguments)
        .env(SETTINGS, "narenas:2,dirty_decay_ms:1000,muzzy_decay_ms:0")
        .exec();
    tracing::debug!("memory is not bounded more closely: {error}");
}

#[cfg(not(unix))]
fn begin_with_few_arenas() {}

/// A panic in a store's backend becomes an error that says what to do, so its backtrace only
/// frightens. A backend's own thread takes no process with it, and is told of in one line. All
/// other panics speak: whatever ends the process says why.
fn quiet_store_panics() {
    let speak = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let thread = std::thread::current();
        if store::is_guarded() {
            tracing::debug!("{info}");
        } else if store::is_of_backend(&thread) {
            let name = thread.name().unwrap_or_default();
            let text = info.payload_as_str().unwrap_or("no message");
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
