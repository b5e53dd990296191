//! The `spoor` command: a thin face over the library.

mod commands;

use std::process::ExitCode;

use clap::Parser;
use spoor::inert;

/// Pages are taken apart in several threads, each into a tree of thousands of small pieces:
/// glibc either has the threads wait for one another, or keeps in the arena of each what a
/// large page took once.
#[cfg(not(target_env = "msvc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let arguments = commands::Arguments::parse();
    commands::log::to_terminal(arguments.verbose);
    quiet_store_panics();
    if !arguments.command.serves() {
        // `| head` ends a command that prints, as it ends others.
        sigpipe::reset();
    }
    match commands::run(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("spoor: {}", inert::shown(&format!("{error:#}")));
            ExitCode::from(commands::exit_code(&error))
        }
    }
}

/// sled panics on damaged files, and fjall on some; the library turns that into an
/// error that says what to do, so its backtrace only frightens. All other panics speak.
fn quiet_store_panics() {
    let speak = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let stores = ["/sled-", "/fjall-", "/lsm-tree-"];
        let in_store = info
            .location()
            .is_some_and(|l| stores.iter().any(|s| l.file().contains(s)));
        if in_store {
            tracing::debug!("{info}");
        } else {
            speak(info);
        }
    }));
}
