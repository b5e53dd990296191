//! A long crawl takes no more memory and no more open files than a short one.
//!
//! The crawl is the program itself, the web is `spoor::lab::endless`, and the clock is
//! the lab's: whenever another part of the fetches is answered the process is looked
//! at from outside, through `/proc`. The short form is part of the suite; the long one
//! is run by hand, best without a debugger's build:
//!
//! ```text
//! SPOOR_SOAK_FETCHES=1000000 cargo test --release --test it soak -- --ignored --nocapture
//! ```
//!
//! `SPOOR_SOAK_FOLDER` is where the job, `soak.tsv` and `soak.svg` go (it must be
//! absolute, and is kept); without it they are in `target/tmp/soak`.

use std::fs::File;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Instant;

use plotters::prelude::*;
use spoor::lab::{self, endless};

use super::support::process::GUARD;
use super::support::spoor;

/// How often a crawl is looked at.
const SAMPLES: u64 = 400;

/// Requests a second. A connection is kept for some seconds, so at a steady rate as
/// many are kept at any time.
const RATE: u64 = 500;

/// The most files that may be open: a connection kept for each host, those of 32
/// requests, and those of the store, the outputs and the model.
const FILES: u64 = endless::HOSTS + 256;

/// What a crawl was at one moment.
#[derive(Debug, Clone, Default)]
struct Sample {
    seconds: f64,
    /// Requests for pages, as the lab saw them.
    fetches: u64,
    /// Memory in RAM, in KiB.
    rss: u64,
    files: u64,
    threads: u64,
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
    /// Looks at the process `id`, whose job is in `folder`; `None` where it is gone.
    fn of(id: u32, folder: &Path) -> Option<Self> {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
        let said = std::fs::read_to_string(folder.join("crawl.err")).unwrap_or_default();
        let number = |text: &str, key: &str| -> Option<u64> {
            let (_, rest) = text.rsplit_once(key)?;
            let end = rest.trim_start().split(|c: char| !c.is_ascii_digit());
            end.take(1).next()?.parse().ok()
        };
        let job = folder.join("jobs/endless");
        Some(Self {
            rss: number(&status, "VmRSS:")?,
            threads: number(&status, "Threads:")?,
            files: std::fs::read_dir(format!("/proc/{id}/fd")).ok()?.count() as u64,
            frontier: bytes_of(&job.join("frontier")),
            outputs: bytes_of(&job.join("logs")) + bytes_of(&job.join("sentences")),
            queued: number(&said, " queued=").unwrap_or(0),
            hosts: number(&said, " hosts=").unwrap_or(0),
            ..Self::default()
        })
    }
}

/// Bytes of all files of a folder.
fn bytes_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => bytes_of(&entry.path()),
        // A compaction may have removed it meanwhile.
        _ => entry.metadata().map_or(0, |data| data.len()),
    });
    bytes.sum()
}

/// Crawls the endless web for so many fetches, in a folder, with so many open files
/// permitted (`ulimit -n`); returns what was seen of the process on the way. All of it is in `soak.tsv` too, as soon as it is seen.
fn soak(fetches: u64, folder: &Path, files: &str) -> Vec<Sample> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let (events, looks) = channel();
    let asked = AtomicU64::new(0);
    let every = (fetches / SAMPLES).max(1);
    let told = events.clone();
    let lab = endless::web().with_observer(Arc::new(move |request: lab::Request| {
        let page = request.path == "/" || request.path.ends_with(".html");
        let page = page
            || ["/go/", "/gone/", "/busy/"]
                .iter()
                .any(|f| request.path.starts_with(f));
        let asked = if page {
            asked.fetch_add(1, Ordering::Relaxed) + 1
        } else {
            return;
        };
        if asked.is_multiple_of(every) {
            // Nobody looks any more where the crawl is over.
            told.send(Some(asked)).ok();
        }
    }));
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let web = runtime.block_on(lab::spawn(lab, any)).unwrap();
    let text = format!(
        "{}\n[limits]\nfetches = {fetches}\n\n[checkpoint]\nexport = \"30m\"\n",
        endless::job(web.addr).replace(
            "[politeness]\n",
            &format!("[politeness]\nrequests_per_second = {RATE}.0\n")
        )
    );
    let job = folder.join("job.toml");
    // Both folders are relative in the job, and so below the one it is run in.
    std::fs::write(&job, text).unwrap();
    let program = spoor(&[]);
    let mut command = Command::new("sh");
    let limited = format!("ulimit -n {files}; exec \"$0\" crawl -v job.toml");
    command.args(["-c", &limited]).arg(program.get_program());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
        .current_dir(folder)
        .stdout(File::create(folder.join("crawl.out")).unwrap())
        .stderr(File::create(folder.join("crawl.err")).unwrap());
    let mut child = command.spawn().unwrap();
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
                    rss,
                    files,
                    threads,
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
    draw(&samples, &folder.join("soak.svg")).unwrap();
    runtime.block_on(web.stop()).unwrap();
    samples
}

/// Draws memory and open files over the fetches.
fn draw(samples: &[Sample], file: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mib = |sample: &Sample| sample.rss as f64 / 1024.0;
    let last = samples.last().map_or(1, |sample| sample.fetches);
    let most = samples.iter().map(mib).fold(1.0, f64::max) * 1.2;
    let files = samples.iter().map(|sample| sample.files).max().unwrap_or(1) * 2;
    let root = SVGBackend::new(file, (900, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(60)
        .right_y_label_area_size(60)
        .build_cartesian_2d(0..last, 0.0..most)?
        .set_secondary_coord(0..last, 0..files);
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(WHITE)
        .x_desc("fetches")
        .y_desc("memory in RAM, MiB")
        .draw()?;
    chart
        .configure_secondary_axes()
        .y_desc("open files")
        .draw()?;
    let memory = samples.iter().map(|s| (s.fetches, mib(s)));
    chart
        .draw_series(LineSeries::new(memory, &BLUE))?
        .label("memory")
        .legend(legend(BLUE));
    let open = samples.iter().map(|s| (s.fetches, s.files));
    chart
        .draw_secondary_series(LineSeries::new(open, &RED))?
        .label("open files")
        .legend(legend(RED));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .border_style(BLACK)
        .draw()?;
    root.present()?;
    Ok(())
}

fn legend(colour: RGBColor) -> impl Fn((i32, i32)) -> PathElement<(i32, i32)> {
    move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], colour)
}

/// The median of something over a quarter of a crawl, 1 to 4.
fn median(samples: &[Sample], quarter: usize, of: impl Fn(&Sample) -> u64) -> u64 {
    let length = samples.len() / 4;
    let mut values: Vec<u64> = samples[(quarter - 1) * length..quarter * length]
        .iter()
        .map(of)
        .collect();
    values.sort_unstable();
    values[values.len() / 2]
}

fn most(samples: &[Sample], of: impl Fn(&Sample) -> u64) -> u64 {
    samples.iter().map(of).max().unwrap()
}

#[test]
fn a_short_crawl_of_the_endless_web_opens_few_files() {
    let folder = tempfile::tempdir().unwrap();
    let samples = soak(2_000, folder.path(), "$(ulimit -Hn)");
    assert!(samples.len() as u64 > SAMPLES / 2, "{}", samples.len());
    let (files, rss) = (most(&samples, |s| s.files), most(&samples, |s| s.rss));
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
    let files = most(&samples, |s| s.files);
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
    let memory = |quarter| median(&samples, quarter, |s| s.rss);
    let files = |quarter| median(&samples, quarter, |s| s.files);
    let most = most(&samples, |s| s.files);
    println!("quarter\tmemory, KiB\topen files");
    for quarter in 1..=4 {
        println!("{quarter}\t{}\t{}", memory(quarter), files(quarter));
    }
    // The filter of what was seen grows by two bytes an address, by design.
    assert!(memory(4) * 100 <= memory(2) * 115, "the memory grows");
    assert!(files(4) * 100 <= files(2) * 115, "the open files grow");
    assert!(most <= FILES, "{most} files at once");
}
