//! Limits of a process that reads untrusted files: it is another instance of this program, and no
//! effect of a file on it can harm its parent.

use std::io;
use std::time::Duration;

/// Limits this process to `memory` bytes of address space and, if given, to a processor time in
/// whole seconds. It dies with its parent. On systems other than Linux nothing is limited.
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
            // At the first limit comes SIGXCPU, which shows the cause; at the second SIGKILL.
            maximum: Some(seconds + 1),
        };
        setrlimit(Resource::Cpu, limit)?;
    }
    // A killed process leaves no orphan behind.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    setrlimit(Resource::Core, exactly(0))?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub fn this_process(_: u64, _: Option<Duration>) -> io::Result<()> {
    Ok(())
}

/// Whether the output of a process says that it ran out of memory.
pub fn is_of_memory(words: &str) -> bool {
    words.contains("memory allocation of") || words.contains("Cannot allocate memory")
}
