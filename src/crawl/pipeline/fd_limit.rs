//! How many requests this process's limit of open files allows.

/// Open files besides the connections: the store, the outputs, the model, and the clients of
/// the control API.
const OTHER_FILES: u64 = 64;

/// A request has a connection, and may resolve a name at the same time.
const FILES_PER_REQUEST: u64 = 2;

/// The least limit of open files for this many concurrent requests.
pub fn files_for(requests: usize) -> u64 {
    OTHER_FILES + FILES_PER_REQUEST * requests as u64
}

/// The number of concurrent requests, at most `wanted`, for which this process may open
/// connections. Raises its limit of open files as far as the system permits.
#[cfg(target_os = "linux")]
pub fn fit_open_files(wanted: usize) -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // If it may not be raised, the current limit holds.
    let current = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let Some(files) = current else { return wanted };
    let fitting = files.saturating_sub(OTHER_FILES) / FILES_PER_REQUEST;
    let fitting = usize::try_from(fitting).unwrap_or(usize::MAX).max(1);
    if fitting < wanted {
        tracing::warn!(
            "only {fitting} requests at the same time instead of {wanted}, as this process may open \
             {files} files; raise the limit (ulimit -n) or lower network.concurrency"
        );
    }
    wanted.min(fitting)
}

/// Returns `wanted`: only Linux has a limit to read.
#[cfg(not(target_os = "linux"))]
pub fn fit_open_files(wanted: usize) -> usize {
    wanted
}
