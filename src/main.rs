//! The `spoor` command: a thin layer over the library.

mod commands;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use commands::log::LogFormat;
use spoor::crawl::frontier::store;
use spoor::sanitize;

/// Pages are parsed in several threads, each into a tree of thousands of small
/// allocations. With glibc's allocator the threads either wait for one another, or each
/// one's arena keeps the memory that a large page once needed.
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
    tell_panics();
    if arguments.command.is_long() {
        begin_with_few_arenas();
    }
    if !arguments.command.serves() {
        // `| head` ends a printing command, as usual on Unix.
        sigpipe::reset();
    }
    match commands::run(arguments.command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let code = commands::exit::of_error(&error);
            let text = commands::told(&error);
            match log_format {
                // Readers of the log also need the final error.
                LogFormat::Json => tracing::error!(exit_code = code, "{text}"),
                LogFormat::Text => eprintln!("spoor: {}", sanitize::shown(&text)),
            }
            ExitCode::from(code)
        }
    }
}

/// Restarts the program with two memory arenas that return memory 300 ms after its last
/// use, and pieces of 1 MB at once, unless the environment configures the allocator. By
/// default the allocator has four arenas per core, waits for ten seconds, and returns at once
/// only from 8 MB: a crawl of the zoo then takes 430 MB, and less than 300 MB with two arenas
/// and one second; a replay of a 10 GB archive takes 240 MB instead of 195, and 177 of these
/// become 160 where pieces of 1 MB are returned at once. Threads keep no freed pieces of more
/// than 4 KB for themselves instead of 32 KB. This and the 300 ms make 143 MB of a crawl of
/// 2,000 pages 125 MB, and cost no time that could be measured; nor does it that they keep at
/// most 50 freed pieces of a size, which saves 2 to 3 MB more. Threads return memory while they
/// allocate: with a thread of the allocator's own for that, which looks ten times a second, such
/// a crawl took 116 MB instead of 106, and at most 2 % less time. The allocator reads its
/// settings only at process start, and cannot be configured later without unsafe code.
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
    // It returns only on failure, and the crawl then goes on as it is.
    let error = std::process::Command::new(program)
        .args(arguments)
        .env(
            SETTINGS,
            "background_thread:false,narenas:2,dirty_decay_ms:300,muzzy_decay_ms:0,\
             tcache_max:4096,tcache_nslots_small_max:50,tcache_nslots_small_min:10,\
             lg_tcache_nslots_mul:0,oversize_threshold:1048576",
        )
        .exec();
    tracing::debug!("the allocator could not be configured to use less memory: {error}");
}

#[cfg(not(unix))]
fn begin_with_few_arenas() {}

/// What `println!` panics with, where the standard output cannot be written.
const NOT_PRINTED: &str = "failed printing to stdout: ";

/// A standard output that cannot be written ends the process with a message, as any file does.
///
/// A panic in a store's backend becomes an error with advice, so its backtrace would only
/// confuse. A panic in a backend's own thread does not end the process and is logged in
/// one line. All other panics are printed, because they may end the process.
fn tell_panics() {
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
