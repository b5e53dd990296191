//! A long crawl by several machines that are killed now and then: the memory of machines and
//! brokers stays bounded, logs and stores keep nothing unnecessary, and the gathered result has
//! every page once.
//!
//! The short form is part of the suite. Run the long one by hand, best in a release build:
//!
//! ```text
//! SPOOR_SOAK_FETCHES=1000000 cargo test --release --test it cluster::soak -- \
//!     --ignored --nocapture
//! ```
//!
//! | variable | meaning; default |
//! |---|---|
//! | `SPOOR_SOAK_FETCHES` | number of pages that all machines request together; a million |
//! | `SPOOR_SOAK_FOLDER` | absolute folder for all files, `soak.tsv` and `soak.svg`; it is kept |
//! | `SPOOR_SOAK_RATE` | requests a second of all machines together; 500 |
//! | `SPOOR_SOAK_BROKERS` | number of brokers; 3 |
//! | `SPOOR_SOAK_KILL` | seconds between kills, which hit each machine in turn; 300 |
//! | `SPOOR_PROGRAM` | a copy of the program, so that the next build does not replace it |

use std::collections::HashSet;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::mpsc::{RecvTimeoutError, channel};

use serde::Deserialize;
use spoor::outputs::{self, Table};
use spoor_lab::endless;

use super::*;
use crate::support::process::GUARD;
use crate::support::soak::{self, Endless, Process, files_below, median, most};

/// With fewer fetches the caches of four machines are not yet full in the second quarter, so memory
/// may rise up to its bound.
const FILLED: u64 = 800_000;

/// The longest time without a request for a page. If the brokers are busy, all machines wait for
/// them.
const STUCK: Duration = Duration::from_secs(4 * GUARD.as_secs());

/// The longest time between two looks at the machines.
const LOOK: Duration = Duration::from_millis(200);

/// The parameters of a crawl.
struct Course<'a> {
    fetches: u64,
    machines: usize,
    brokers: usize,
    /// Requests a second, over all machines.
    rate: u64,
    /// The interval between kills.
    kill: Kill,
    /// Keys of `[cluster]`.
    settings: &'a str,
    /// The number of samples.
    samples: u64,
    folder: &'a Path,
}

/// The interval between kills, which hit each machine in turn.
#[derive(Clone, Copy)]
enum Kill {
    /// After this many pages.
    Pages(u64),
    /// After this time; every second machine is restarted only when others have its hosts.
    Time(Duration),
}

/// The state of the whole cluster at one moment.
#[derive(Debug, Clone, Default)]
struct Sample {
    seconds: f64,
    /// Requests for pages that the lab has seen.
    fetches: u64,
    machines: Vec<Process>,
    /// Bytes of the stores of all frontiers.
    frontier: u64,
    /// Memory of all brokers, in KiB.
    brokers: u64,
    /// Messages of all streams, and their bytes.
    messages: u64,
    stream_bytes: u64,
    /// The number of objects in the checkpoint store that hold frontiers of live sessions, and
    /// their bytes.
    live: (u64, u64),
    /// The same for ended sessions.
    over: (u64, u64),
    /// The same for outputs.
    grown: (u64, u64),
    kills: usize,
}

impl Sample {
    /// The memory of the largest machine.
    fn rss(&self) -> u64 {
        self.machines.iter().map(|m| m.rss).max().unwrap_or(0)
    }

    fn files(&self) -> u64 {
        self.machines.iter().map(|m| m.files).max().unwrap_or(0)
    }

    const HEADER: &str = "seconds\tfetches\tkills\trss_kib_of_each\tfiles_of_each\tthreads_of_each\t\
         frontier_bytes\tbrokers_rss_kib\tmessages\tstream_bytes\tstate_objects\tstate_bytes\t\
         over_objects\tover_bytes\tgrown_objects\tgrown_bytes";

    fn row(&self) -> String {
        let each = |of: fn(&Process) -> u64| {
            let all = self.machines.iter().map(|machine| of(machine).to_string());
            Vec::from_iter(all).join(",")
        };
        format!(
            "{:.1}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
            self.seconds,
            self.fetches,
            self.kills,
            each(|machine| machine.rss),
            each(|machine| machine.files),
            each(|machine| machine.threads),
            self.frontier,
            self.brokers,
            self.messages,
            self.stream_bytes,
            self.live.0,
            self.live.1,
            self.over.0,
            self.over.1,
            self.grown.0,
            self.grown.1,
        )
    }
}

/// Objects and bytes: of the frontiers in the last session of each machine, of those in other
/// sessions, and of outputs.
fn objects(sessions: &Path) -> [(u64, u64); 3] {
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    let mut found = Vec::new();
    let named = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let (machine, number) = name.rsplit_once('.')?;
        Some((machine.to_owned(), number.parse().ok()?, entry.path()))
    };
    let entries = std::fs::read_dir(sessions).into_iter().flatten().flatten();
    for (machine, number, path) in entries.filter_map(named) {
        let known = last.entry(machine.clone()).or_insert(number);
        *known = number.max(*known);
        found.push((machine, number, path));
    }
    let mut sums = [(0, 0); 3];
    for (machine, number, path) in found {
        for kind in std::fs::read_dir(path).into_iter().flatten().flatten() {
            let name = kind.file_name();
            let at = if ["grown", "images"].iter().any(|output| *output == name) {
                2
            } else {
                usize::from(last.get(&machine) != Some(&number))
            };
            let (objects, bytes) = files_below(&kind.path());
            sums[at] = (sums[at].0 + objects, sums[at].1 + bytes);
        }
    }
    sums
}

/// A machine, whose process is killed and restarted.
struct Machine {
    folder: PathBuf,
    child: Option<Child>,
    /// When to restart it.
    again: Option<Instant>,
    is_done: bool,
}

impl Machine {
    fn begin(&mut self) {
        self.again = None;
        self.child = Some(soak::crawl(&self.folder, "$(ulimit -Hn)").spawn().unwrap());
    }

    fn said(&self, file: &str) -> String {
        let said = std::fs::read(self.folder.join(file)).unwrap_or_default();
        String::from_utf8_lossy(&said).into_owned()
    }

    /// Restarts a process that has ended, as a service manager does.
    fn care(&mut self) {
        if self.again.is_some_and(|at| at <= Instant::now()) {
            self.begin();
        }
        let ended = self.child.as_mut().map(|child| child.try_wait().unwrap());
        let Some(Some(status)) = ended else { return };
        self.child = None;
        if status.success() {
            self.is_done = true;
            return;
        }
        let err = self.said("crawl.err");
        let end = err.len().saturating_sub(2_000);
        let end = err.get(end..).unwrap_or(&err);
        println!("{} has ended: {end}", self.folder.display());
        assert!(end.contains("begins a new session"), "{status}: {end}");
        self.begin();
    }

    fn kill(&mut self) -> bool {
        let Some(mut child) = self.child.take() else {
            return false;
        };
        child.kill().unwrap();
        child.wait().unwrap();
        true
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The machines, and everything that they need.
struct Run<'a> {
    course: &'a Course<'a>,
    web: Endless,
    brokers: Brokers,
    machines: Vec<Machine>,
    begun: Instant,
    kills: usize,
}

impl Run<'_> {
    /// Writes the job files, which differ only in the name of the machine.
    fn write_jobs(&self) {
        let Course {
            fetches,
            machines,
            rate,
            settings,
            folder,
            ..
        } = self.course;
        let rate = *rate as f64 / *machines as f64;
        let job = endless::job(self.web.addr).replace(
            "[politeness]\n",
            &format!("[politeness]\nrequests_per_second = {rate:.1}\n"),
        );
        for (number, machine) in self.machines.iter().enumerate() {
            let text = format!(
                "{job}\n[model]\nfolder = {:?}\n[control]\nlisten = false\n\
                 [limits]\nfetches = {fetches}\n\
                 [cluster]\nbrokers = {}\nreplicas = {}\nnode = \"m{number}\"\n\
                 store = \"file://{}\"\n{settings}",
                folder.join("models"),
                self.brokers.list(),
                self.brokers.count(),
                folder.join("store").display(),
            );
            std::fs::create_dir_all(&machine.folder).unwrap();
            std::fs::write(machine.folder.join("job.toml"), text).unwrap();
        }
    }

    /// Runs a command on the first machine's job file.
    fn ask(&self, arguments: &[&str]) -> Ran {
        let file = self.machines[0].folder.join("job.toml");
        let mut command = spoor(arguments);
        Ran::of(
            command
                .arg(file.file_name().unwrap())
                .current_dir(&self.machines[0].folder),
        )
    }

    fn sample(&self, fetches: u64) -> Sample {
        let looked = self.machines.iter().filter_map(|machine| {
            let id = machine.child.as_ref()?.id();
            Process::of(id)
        });
        let frontiers = self.machines.iter();
        let frontiers = frontiers.map(|m| files_below(&m.folder.join("jobs/endless/frontier")).1);
        let brokers = self.brokers.ids();
        let brokers = brokers
            .into_iter()
            .filter_map(Process::of)
            .map(|broker| broker.rss);
        let stored = self.brokers.stored();
        let [live, over, grown] = objects(&self.course.folder.join("store/sessions"));
        Sample {
            seconds: self.begun.elapsed().as_secs_f64(),
            fetches,
            machines: looked.collect(),
            frontier: frontiers.sum(),
            brokers: brokers.sum(),
            messages: stored.messages,
            stream_bytes: stored.bytes,
            live,
            over,
            grown,
            kills: self.kills,
        }
    }

    /// Kills the next machine, if it is time. There are no kills in the last tenth of the crawl.
    fn kill_next(&mut self, last: &mut (u64, Instant)) {
        let asked = self.web.asked();
        let (is_due, pause) = match self.course.kill {
            Kill::Pages(pages) => (asked >= last.0 + pages, None),
            Kill::Time(time) => {
                let is_late = self.kills % 2 == 1;
                let pause = is_late.then(|| Duration::from_secs(60));
                (last.1.elapsed() >= time, pause)
            }
        };
        if !is_due || asked * 10 > self.course.fetches * 9 {
            return;
        }
        *last = (asked, Instant::now());
        let next = self.kills % self.machines.len();
        let machine = &mut self.machines[next];
        if !machine.kill() {
            return;
        }
        self.kills += 1;
        println!("{}: killed after {asked} fetches", machine.folder.display());
        match pause {
            Some(pause) => machine.again = Some(Instant::now() + pause),
            None => machine.begin(),
        }
    }
}

/// Crawls the endless web. Returns the samples, which are also written to `soak.tsv` as they are
/// taken, and checks the results at the end.
fn soak(course: &Course<'_>) -> Option<Vec<Sample>> {
    let brokers = Brokers::start(course.brokers)?;
    let (events, looks) = channel();
    let web = Endless::serve((course.fetches / course.samples).max(1), move |asked| {
        // The receiver is gone when the crawl is over.
        events.send(asked).ok();
    });
    let machine = |number: usize| Machine {
        folder: course.folder.join(format!("m{number}")),
        child: None,
        again: None,
        is_done: false,
    };
    let mut run = Run {
        course,
        web,
        brokers,
        machines: (0..course.machines).map(machine).collect(),
        begun: Instant::now(),
        kills: 0,
    };
    run.write_jobs();
    run.ask(&["train"]).good();
    run.begun = Instant::now();
    run.machines.iter_mut().for_each(Machine::begin);
    let mut table = File::create(course.folder.join("soak.tsv")).unwrap();
    writeln!(table, "{}", Sample::HEADER).unwrap();
    let mut samples = Vec::new();
    let mut last_kill = (0, Instant::now());
    let mut moved = (0, Instant::now());
    while !run.machines.iter().all(|machine| machine.is_done) {
        match looks.recv_timeout(LOOK) {
            Ok(fetches) => {
                let sample = run.sample(fetches);
                writeln!(table, "{}", sample.row()).unwrap();
                samples.push(sample);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => unreachable!("the web holds the other end"),
        }
        run.machines.iter_mut().for_each(Machine::care);
        run.kill_next(&mut last_kill);
        let asked = run.web.asked();
        if asked > moved.0 {
            moved = (asked, Instant::now());
        }
        let is_stuck = moved.1.elapsed() > STUCK;
        assert!(!is_stuck, "no fetch for {STUCK:?}, after {asked}");
    }
    let seconds = run.begun.elapsed().as_secs_f64();
    println!(
        "{} requests for pages in {seconds:.0} s, {} kills",
        run.web.asked(),
        run.kills
    );
    check(&run);
    draw(&samples, &course.folder.join("soak.svg"));
    let Run { web, .. } = run;
    assert_eq!(web.too_close(), Vec::<String>::new());
    web.stop();
    Some(samples)
}

fn draw(samples: &[Sample], file: &Path) {
    let over = |of: &dyn Fn(&Sample) -> f64| samples.iter().map(|s| (s.fetches, of(s))).collect();
    let memory = over(&|s| s.rss() as f64 / 1024.0);
    let messages = over(&|s| s.messages as f64);
    let left = ("memory of the largest machine, MiB", memory);
    soak::draw(file, &left, &("messages at the brokers", messages)).unwrap();
}

/// The relevant fields of a row of the log.
#[derive(Deserialize)]
struct Row {
    kind: String,
    outcome: String,
    url: String,
}

/// Asserts that all machines have fetched exactly the limit, the store is complete, and the
/// gathered result has each page once.
fn check(run: &Run<'_>) {
    let status = run.ask(&["cluster", "status", "--json"]).good();
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let limit = &status["limits"][0];
    assert_eq!(limit["key"], "limits.fetches", "{status:#}");
    assert_eq!(limit["done"], run.course.fetches as f64, "{limit:#}");
    for machine in &run.machines {
        let out = machine.said("crawl.out");
        assert!(out.contains("limits.fetches is reached"), "{out}");
        println!("{out}");
    }
    let quick = ["cluster", "check", "--quick"];
    println!("{}", run.ask(&quick).good());
    println!("{}", run.ask(&["cluster", "gather"]).good());
    let gathered = run.machines[0].folder.join("jobs/endless-all");
    let (mut pages, mut done) = (0, HashSet::new());
    let mut ends = BTreeMap::new();
    outputs::each_line(&gathered, Table::Log, usize::MAX, |line| {
        let row: Row = serde_json::from_slice(line.bytes.unwrap()).unwrap();
        pages += u64::from(row.kind == "page");
        let end = format!("{} {}", row.kind, row.outcome);
        *ends.entry(end).or_insert(0) += 1;
        if row.outcome == "done" {
            let hash = xxhash_rust::xxh3::xxh3_128(row.url.as_bytes());
            assert!(done.insert(hash), "{} is done twice", row.url);
        }
    })
    .unwrap();
    println!("rows of the log: {ends:?}");
    assert_eq!(pages, run.course.fetches, "as many as the limit says");
}

/// Prints a figure by quarters. Returns a message if it has grown by more than `most` percent from
/// the second quarter to the fourth.
fn grows(samples: &[Sample], name: &str, most: u64, of: impl Fn(&Sample) -> u64) -> Option<String> {
    let quarters = [1, 2, 3, 4].map(|quarter| median(samples, quarter, &of));
    println!("{name}\t{quarters:?}");
    let is_flat = quarters[3] * 100 <= quarters[1] * (100 + most);
    (!is_flat).then(|| format!("{name} grows: {quarters:?}"))
}

#[test]
fn machines_crawl_the_endless_web_for_some_time() {
    let folder = tempfile::tempdir().unwrap();
    let samples = soak(&Course {
        fetches: 1_000,
        machines: 2,
        brokers: 1,
        rate: 2_000,
        kill: Kill::Pages(400),
        settings: "cells = 8\nterm = \"5s\"\ncheckpoint = \"1s\"\nlinger = \"200ms\"\n\
                   settle = \"1s\"\n",
        // A request that fails before it reaches the web is in no sample.
        samples: 50,
        folder: folder.path(),
    });
    let Some(samples) = samples else {
        return;
    };
    assert!(samples.len() >= 40, "{}", samples.len());
    assert!(
        samples
            .iter()
            .any(|s| s.machines.len() == 2 && s.messages > 0 && s.live.1 > 0)
    );
    let (files, rss) = (most(&samples, Sample::files), most(&samples, Sample::rss));
    println!("{files} files, {} MiB at most", rss >> 10);
    assert!(files <= endless::HOSTS + 256, "{files}");
    assert!(rss <= 300 << 10, "{rss} KiB");
    assert_eq!(samples.last().unwrap().kills, 2);
}

#[test]
#[ignore = "takes an hour or more; see the module"]
fn a_long_crawl_of_machines_takes_no_more_than_a_short_one() {
    let set = |name: &str| std::env::var(name).ok();
    let number = |name: &str, usual: u64| set(name).map_or(usual, |n| n.parse().unwrap());
    let default = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cluster-soak");
    let folder = set("SPOOR_SOAK_FOLDER").map_or(default, PathBuf::from);
    // Otherwise the run would continue an earlier one.
    if folder.exists() {
        std::fs::remove_dir_all(&folder).unwrap();
    }
    std::fs::create_dir_all(&folder).unwrap();
    let samples = soak(&Course {
        fetches: number("SPOOR_SOAK_FETCHES", 1_000_000),
        machines: 4,
        brokers: number("SPOOR_SOAK_BROKERS", 3) as usize,
        rate: number("SPOOR_SOAK_RATE", 500),
        kill: Kill::Time(Duration::from_secs(number("SPOOR_SOAK_KILL", 300))),
        settings: "",
        samples: 400,
        folder: &folder,
    });
    let Some(samples) = samples else {
        return;
    };
    let is_long = samples.last().is_some_and(|s| s.fetches >= FILLED);
    let (files, rss) = (most(&samples, Sample::files), most(&samples, Sample::rss));
    println!("{files} files, {} MiB at most", rss >> 10);
    let mut wrong = vec![
        grows(&samples, "open files of a machine", 25, Sample::files),
        grows(&samples, "memory of the brokers, KiB", 25, |s| s.brokers),
        grows(&samples, "messages", 25, |s| s.messages),
        grows(&samples, "bytes of messages", 25, |s| s.stream_bytes),
    ];
    let memory = grows(
        &samples,
        "memory of the largest machine, KiB",
        15,
        Sample::rss,
    );
    wrong.extend(is_long.then_some(memory));
    // These are only printed: an ended session leaves its last state there, and a machine keeps the
    // checkpoints from which others have taken its cells.
    grows(&samples, "objects of states", 0, |s| s.live.0);
    grows(&samples, "bytes of states", 0, |s| s.live.1);
    grows(&samples, "bytes of sessions that are over", 0, |s| s.over.1);
    grows(&samples, "bytes of frontiers", 0, |s| s.frontier);
    let is_swept = |s: &Sample| s.live.0 <= 4_000 && s.live.1 <= 3 * s.frontier;
    if !samples.iter().all(is_swept) {
        wrong.push(Some("the store is not swept".to_owned()));
    }
    let wrong: Vec<String> = wrong.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(rss <= 700 << 10, "{rss} KiB");
}
