//! Limits of a process that reads a file of others: it is this program, started once more, and
//! whatever the file does to it costs its parent nothing.

use std::io;
use std::time::Duration;

/// Limits this process to `memory` bytes of addresses and, if given, to a processor time in
/// whole seconds. It dies with its parent. Elsewhere than on Linux nothing is limited.
///
/// # Errors
///
/// The system refuses a limit.
#[cfg(target_os = "linux")]
pub fn this_process(memory: u64, time: Option<Duration>) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, Signal};
    use rustix::process::{set_parent_process_death_signal, setrlimit};
    let exactly = |most: u64| Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    setrlimit(Resource::As, exactly(memory))?;
    if let Some(time) = time {
        let seconds = time.as_secs().max(1);
        let limit = Rlimit {
            current: Some(seconds),
            // At the first limit comes SIGXCPU, which says why; at the other SIGKILL.
            maximum: Some(seconds + 1),
        };
        setrlimit(Resource::Cpu, limit)?;
    }
    // A process that was killed leaves none behind.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    setrlimit(Resource::Core, exactly(0))?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub fn this_process(_: u64, _: Option<Duration>) -> io::Result<()> {
    Ok(())
}

/// Whether a process says that it had too little memory.
pub fn is_of_memory(words: &str) -> bool {
    words.contains("memory allocation of") || words.contains("Cannot allocate memory")
}
