//! A long crawl takes no more memory and no more open files than a short one.
//!
//! The crawl is the program itself, the web is `spoor_lab::endless`, and the clock is the lab's:
//! after each further part of the fetches, the test samples the process from outside, through
//! `/proc`. The short form is part of the suite. Run the long one by hand, best in a release build:
//!
//! ```text
//! SPOOR_SOAK_FETCHES=1000000 cargo test --release --test it soak::a_long_crawl_takes -- --ignored --nocapture
//! ```
//!
//! `SPOOR_SOAK_FOLDER` is the folder for the job, `soak.tsv` and `soak.svg` (it must be absolute,
//! and is kept); without it they are in `target/tmp/soak`. `cluster::soak` does the same for
//! several machines.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Instant;

use spoor_lab::endless;

use super::support::process::GUARD;
use super::support::soak::{self, Endless, Process, files_below, last_number, median, most};

/// The number of samples of a crawl.
const SAMPLES: u64 = 400;

/// Requests a second. Connections are kept for some seconds, so at a steady rate their number is
/// constant.
const RATE: u64 = 500;

/// The maximum number of open files: a kept connection for each host, those of 32 requests, and
/// those of the store, the outputs and the model.
const FILES: u64 = endless::HOSTS + 256;

/// The state of a crawl at one moment.
#[derive(Debug, Clone, Default)]
struct Sample {
    seconds: f64,
    /// Requests for pages that the lab has seen.
    fetches: u64,
    process: Process,
    /// Bytes of the frontier's store.
    frontier: u64,
    /// Bytes of the crawl log and the sentences.
    outputs: u64,
    /// Pages queued, as of the last checkpoint.
    queued: u64,
    /// Hosts in memory, as of the last checkpoint.
    hosts: u64,
}

impl Sample {
    /// Samples the process `id`, whose job is in `folder`; `None` if it is gone.
    fn of(id: u32, folder: &Path) -> Option<Self> {
        let said = std::fs::read_to_string(folder.join("crawl.err")).unwrap_or_default();
        let job = folder.join("jobs/endless");
        let bytes = |folder: &str| files_below(&job.join(folder)).1;
        Some(Self {
            process: Process::of(id)?,
            frontier: bytes("frontier"),
            outputs: bytes("logs") + bytes("sentences"),
            queued: last_number(&said, " queued=").unwrap_or(0),
            hosts: last_number(&said, " hosts=").unwrap_or(0),
            ..Self::default()
        })
    }
}

/// Crawls the endless web for this many fetches, in a folder, with this many open files permitted
/// (`ulimit -n`). Returns the samples of the process, which are also written to `soak.tsv` as they
/// are taken.
fn soak(fetches: u64, folder: &Path, files: &str) -> Vec<Sample> {
    let (events, looks) = channel();
    let sender = events.clone();
    let web = Endless::serve((fetches / SAMPLES).max(1), move |asked| {
        // The receiver is gone when the crawl is over.
        sender.send(Some(asked)).ok();
    });
    let text = format!(
        "{}\n[limits]\nfetches = {fetches}\n\n[checkpoint]\nexport = \"30m\"\n",
        endless::job(web.addr).replace(
            "[politeness]\n",
            &format!("[politeness]\nrequests_per_second = {RATE}.0\n")
        )
    );
    // Both folders are relative in the job, so they are below the working directory.
    std::fs::write(folder.join("job.toml"), text).unwrap();
    for said in ["crawl.out", "crawl.err"] {
        std::fs::write(folder.join(said), "").unwrap();
    }
    let mut child = soak::crawl(folder, files).spawn().unwrap();
    let id = child.id();
    let ended = std::thread::spawn(move || {
        let status = child.wait().unwrap();
        events.send(None).unwrap();
        status
    });
    let began = Instant::now();
    let mut table = File::create(folder.join("soak.tsv")).unwrap();
    let header =
        "seconds\tfetches\trss_kib\tfiles\tthreads\tfrontier_bytes\toutput_bytes\tqueued\thosts";
    writeln!(table, "{header}").unwrap();
    let mut samples = Vec::new();
    loop {
        match looks.recv_timeout(GUARD) {
            Ok(Some(fetches)) => {
                let Some(seen) = Sample::of(id, folder) else {
                    continue;
                };
                let seen = Sample {
                    seconds: began.elapsed().as_secs_f64(),
                    fetches,
                    ..seen
                };
                let Sample {
                    seconds,
                    fetches,
                    process:
                        Process {
                            rss,
                            files,
                            threads,
                        },
                    frontier,
                    outputs,
                    queued,
                    hosts,
                } = seen;
                writeln!(
                    table,
                    "{seconds:.1}\t{fetches}\t{rss}\t{files}\t{threads}\t{frontier}\t{outputs}\t{queued}\t{hosts}"
                )
                .unwrap();
                samples.push(seen);
            }
            Ok(None) => break,
            Err(error) => {
                let id = nix::unistd::Pid::from_raw(i32::try_from(id).unwrap());
                nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGKILL).unwrap();
                panic!("no fetch for {GUARD:?} ({error})");
            }
        }
    }
    let said = |file: &str| std::fs::read_to_string(folder.join(file)).unwrap();
    let (out, err) = (said("crawl.out"), said("crawl.err"));
    println!("{out}");
    assert!(ended.join().unwrap().success(), "{out}\n{err}");
    assert!(out.contains("limits.fetches is reached"), "{out}");
    let over = |of: &dyn Fn(&Sample) -> f64| samples.iter().map(|s| (s.fetches, of(s))).collect();
    let memory = over(&|s| s.process.rss as f64 / 1024.0);
    let files = over(&|s| s.process.files as f64);
    soak::draw(
        &folder.join("soak.svg"),
        &("memory in RAM, MiB", memory),
        &("open files", files),
    )
    .unwrap();
    assert_eq!(web.too_close(), Vec::<String>::new());
    web.stop();
    samples
}

#[test]
fn a_short_crawl_of_the_endless_web_opens_few_files() {
    let folder = tempfile::tempdir().unwrap();
    let samples = soak(2_000, folder.path(), "$(ulimit -Hn)");
    assert!(samples.len() as u64 > SAMPLES / 2, "{}", samples.len());
    let (files, rss) = (
        most(&samples, |s| s.process.files),
        most(&samples, |s| s.process.rss),
    );
    println!("{files} files, {} MiB at most", rss >> 10);
    assert!(files <= FILES, "{files}");
    assert!(rss <= 300 << 10, "{rss} KiB");
    let svg = std::fs::read_to_string(folder.path().join("soak.svg")).unwrap();
    assert!(
        svg.contains("polyline") && svg.contains("open files"),
        "{svg}"
    );
}

#[test]
fn where_few_open_files_are_permitted_no_connection_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let samples = soak(1_000, folder.path(), "140");
    let files = most(&samples, |s| s.process.files);
    assert!(files <= 130, "{files}");
}

#[test]
#[ignore = "takes an hour or more; see the module"]
fn a_long_crawl_takes_no_more_than_a_short_one() {
    let set = |name: &str| std::env::var(name).ok();
    let fetches = set("SPOOR_SOAK_FETCHES").map_or(1_000_000, |n| n.parse().unwrap());
    let default = Path::new(env!("CARGO_TARGET_TMPDIR")).join("soak");
    let folder = set("SPOOR_SOAK_FOLDER").map_or(default, PathBuf::from);
    std::fs::create_dir_all(&folder).unwrap();
    let samples = soak(fetches, &folder, "$(ulimit -Hn)");
    let memory = |quarter| median(&samples, quarter, |s| s.process.rss);
    let files = |quarter| median(&samples, quarter, |s| s.process.files);
    let most = most(&samples, |s| s.process.files);
    println!("quarter\tmemory, KiB\topen files");
    for quarter in 1..=4 {
        println!("{quarter}\t{}\t{}", memory(quarter), files(quarter));
    }
    // The filter of seen addresses grows by two bytes an address, by design.
    assert!(memory(4) * 100 <= memory(2) * 115, "the memory grows");
    assert!(files(4) * 100 <= files(2) * 115, "the open files grow");
    assert!(most <= FILES, "{most} files at once");
}
