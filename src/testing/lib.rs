//! What the unit tests of all crates share: the settings of properties, and the time that work
//! takes. Nothing of the product belongs here.

use std::path::Path;
use std::time::Duration;

use proptest::test_runner::{Config, FileFailurePersistence};

/// Where the seeds of failures lie, below the checkout; below that by the name of a member.
pub const SEEDS: &str = "tests/proptest-regressions";

/// How a property of the calling crate is checked: in 256 cases, or as many as `PROPTEST_CASES`
/// says.
#[macro_export]
macro_rules! usual {
    () => {
        $crate::usual_in(env!("CARGO_MANIFEST_DIR"))
    };
}

/// The same in so many cases.
#[macro_export]
macro_rules! cases {
    ($cases:expr) => {{
        let mut config = $crate::usual!();
        config.cases = $cases;
        config
    }};
}

/// How a property of the crate in this folder is checked.
pub fn usual_in(crate_folder: &str) -> Config {
    let folder = Path::new(crate_folder);
    let below = match folder.parent().and_then(Path::file_name) {
        // A member lies in `src`; the seeds of all lie beside that.
        Some(src) if src == "src" => {
            let name = folder.file_name().unwrap_or_default().to_string_lossy();
            format!("../{SEEDS}/{name}")
        }
        _ => SEEDS.to_owned(),
    };
    // proptest wants it for as long as the process lives.
    let below = Box::leak(below.into_boxed_str());
    Config {
        failure_persistence: Some(Box::new(FileFailurePersistence::SourceParallel(below))),
        ..Config::default()
    }
}

/// How long the calling thread has worked. What else runs on the machine takes its share
/// of the clock on the wall, and none of this.
#[cfg(target_os = "linux")]
pub fn worked() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
    Duration::new(seconds, nanos)
}

/// Elsewhere the clock on the wall must do.
#[cfg(not(target_os = "linux"))]
pub fn worked() -> Duration {
    static BEGUN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    BEGUN.get_or_init(std::time::Instant::now).elapsed()
}
