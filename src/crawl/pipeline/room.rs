//! How many requests this process can have open at the same time.

/// Files that are open besides the connections: the store, the outputs, the model, and
/// those who ask over the control API.
#[cfg(target_os = "linux")]
const OTHER_FILES: u64 = 64;

/// A request has a connection, and may look up a name at the same time.
#[cfg(target_os = "linux")]
const FILES_PER_REQUEST: u64 = 2;

/// As many requests at the same time as are wanted and this process may open
/// connections for; its own limit is raised as far as the system permits.
#[cfg(target_os = "linux")]
pub fn room_for(wanted: usize) -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // Where it may not be raised, it stays what it is.
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let Some(files) = current else { return wanted };
    let room = files.saturating_sub(OTHER_FILES) / FILES_PER_REQUEST;
    let room = usize::try_from(room).unwrap_or(usize::MAX).max(1);
    if room < wanted {
        tracing::warn!(
            "only {room} requests at the same time instead of {wanted}, as this process may open \
             {files} files; raise the limit (ulimit -n) or lower network.concurrency"
        );
    }
    wanted.min(room)
}

/// As many as are wanted: other systems are not asked.
#[cfg(not(target_os = "linux"))]
pub fn room_for(wanted: usize) -> usize {
    wanted
}
