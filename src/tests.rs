//! What the unit tests of all modules share.

use std::time::Duration;

use proptest::test_runner::{Config, FileFailurePersistence};

/// Where the seeds of failures lie, below the checkout: the path of a module in `src` is
/// theirs in there.
const SEEDS: &str = "tests/proptest-regressions";

/// How a property is checked: in 256 cases, or as many as `PROPTEST_CASES` says.
pub(crate) fn usual() -> Config {
    Config {
        failure_persistence: Some(Box::new(FileFailurePersistence::SourceParallel(SEEDS))),
        ..Config::default()
    }
}

/// The same in so many cases.
pub(crate) fn cases(cases: u32) -> Config {
    Config { cases, ..usual() }
}

/// How long the calling thread has worked. What else runs on the machine takes its share
/// of the clock on the wall, and none of this.
#[cfg(target_os = "linux")]
pub(crate) fn worked() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap(), nanos.unwrap())
}

/// Elsewhere the clock on the wall must do.
#[cfg(not(target_os = "linux"))]
pub(crate) fn worked() -> Duration {
    static BEGUN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    BEGUN.get_or_init(std::time::Instant::now).elapsed()
}

/// What is stored for a module that has moved would be passed over in silence.
#[test]
fn stored_seeds_are_read() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join(SEEDS)];
    let mut read = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let module = path.strip_prefix(root.join(SEEDS)).unwrap();
            let source = std::path::Path::new("src")
                .join(module)
                .with_extension("rs");
            assert!(root.join(&source).is_file(), "{} is gone", source.display());
            let source: &'static str = source.to_str().unwrap().to_owned().leak();
            let persistence = usual().failure_persistence.unwrap();
            let seeds = persistence.load_persisted_failures2(Some(source)).len();
            assert!(seeds > 0, "no seed of {source} is read");
            read.push(source);
        }
    }
    assert!(
        read.contains(&"src/crawl/frontier/tests/state_machine.rs"),
        "{read:?}"
    );
}
