//! The CPU time of a page in a whole crawl, by thread, with either store, focused and
//! unfocused.
//!
//! ```sh
//! cargo bench --bench crawl
//! cargo bench --bench crawl -- WEB --seeds WEB/seeds/space.txt \
//!     --positive TEXTS --neutral TEXTS --fetches 2000 [--documents]
//! ```
//!
//! `WEB` is a folder that `spoor-lab serve` can serve; without it the crawl is of the built-in
//! demo web, which has only a few hundred pages. Pages come over loopback and without pauses,
//! so only the threads limit the crawl, and no figure contains the network.
//!
//! The server is a child process, and so is each crawl, so only the crawl is measured, from the
//! opening of the job to its end. The model is loaded before that, and trained once for all
//! crawls. Not a criterion benchmark, because a crawl cannot be repeated in microseconds.
//!
//! The figures are CPU milliseconds a page, user and system time together, so they depend
//! little on other load of the machine; the seconds do.
//!
//! - **driver** is the thread of the crawl's loop: frontier, learning, commits, outputs.
//!   There is only one, so *driver alone* is the number of pages a second that it could
//!   carry if all other threads were free, which is the limit on a machine with many cores.
//! - **workers** read and rate pages, one for each core.
//! - **runtime** fetches: sockets, HTTP, decompression.
//! - The others belong to the store, under the names that it gives them.
//! - **ended** is the time of threads that ended between two samples.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs
)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use spoor::config::Config;
use spoor::crawl::pipeline::{Control, RunStatus};
use spoor::daemon::{self, DaemonError, Observer, allocator};
use spoor::frontier::Cells;
use spoor::outputs::Row;
use spoor::settings::{StoreKind, StrategyKind};
use spoor_lab::demo;

/// The program's allocator, with its settings.
#[cfg(not(target_env = "msvc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Programs see kernel ticks of 10 ms, whichever unit the kernel uses internally.
const TICK_MS: u64 = 10;
/// The interval at which threads are sampled. Threads that end between two samples are missed.
const LOOK: Duration = Duration::from_millis(50);
/// The variable that names the job for the measured process.
const MEASURED: &str = "--measured";
/// The argument that makes this program the server of a web.
const SERVE: &str = "--serve-web";

fn main() {
    let mut words = std::env::args().skip(1);
    let first = words.next();
    if first.as_deref() == Some(SERVE) {
        return serve_until_killed(Path::new(&words.next().expect("a web")));
    }
    if first.as_deref() == Some(MEASURED) {
        let job = words.next().expect("a job file");
        let measured = measure(Path::new(&job));
        println!("{}", serde_json::to_string(&measured).unwrap());
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let plan = Plan::from_arguments(folder.path());
    let (server, address) = serve(&plan.web);
    let jobs = Jobs {
        plan: &plan,
        folder: folder.path(),
        address,
    };
    jobs.train();
    let runs: Vec<(String, Measured)> = plan
        .strategies
        .iter()
        .flat_map(|strategy| plan.stores.iter().map(move |store| (*strategy, *store)))
        .map(|(strategy, store)| {
            let name = format!("{} {}", strategy.name(), store.name());
            eprintln!("{name} ...");
            (name, jobs.run(strategy, store))
        })
        .collect();
    end(server);
    println!(
        "{} fetches of {}, {} at once\n",
        plan.fetches,
        plan.web.display(),
        plan.concurrency
    );
    print(&runs);
}

/// The CPU time of a thread, or of several, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Cpu {
    user: u64,
    system: u64,
}

impl Cpu {
    /// Parses a `stat` file of `/proc`. The name in it may contain anything, and ends at the last
    /// bracket.
    fn read(path: &Path) -> Option<Self> {
        let stat = std::fs::read_to_string(path).ok()?;
        let (_, columns) = stat.rsplit_once(") ")?;
        let mut columns = columns.split(' ').skip(11);
        let mut ms = || Some(columns.next()?.parse::<u64>().ok()? * TICK_MS);
        Some(Self {
            user: ms()?,
            system: ms()?,
        })
    }

    fn all(self) -> u64 {
        self.user + self.system
    }

    fn plus(self, other: Self) -> Self {
        Self {
            user: self.user + other.user,
            system: self.system + other.system,
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            user: self.user.saturating_sub(other.user),
            system: self.system.saturating_sub(other.system),
        }
    }
}

/// The threads of this process by number, with their names.
type Threads = BTreeMap<u32, (String, Cpu)>;

fn look(threads: &mut Threads) {
    for entry in std::fs::read_dir("/proc/self/task").into_iter().flatten() {
        let Ok(entry) = entry else { continue };
        let number = entry.file_name().to_string_lossy().parse().unwrap_or(0);
        let Some(cpu) = Cpu::read(&entry.path().join("stat")) else {
            continue;
        };
        let name = if number == std::process::id() {
            "driver".to_owned()
        } else {
            std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default()
        };
        let name = name.trim().trim_end_matches(|c: char| !c.is_alphabetic());
        threads.insert(number, (name.to_owned(), cpu));
    }
}

/// The cost of a crawl.
#[derive(Debug, Serialize, Deserialize)]
struct Measured {
    pages: u64,
    fetches: u64,
    seconds: f64,
    peak_mb: f64,
    threads: BTreeMap<String, Cpu>,
}

impl Measured {
    fn all(&self) -> Cpu {
        self.threads
            .values()
            .copied()
            .fold(Cpu::default(), Cpu::plus)
    }

    fn of(&self, thread: &str) -> Cpu {
        self.threads.get(thread).copied().unwrap_or_default()
    }

    fn per_page(&self, ms: u64) -> f64 {
        ms as f64 / self.pages.max(1) as f64
    }
}

/// Records the CPU times of the threads when the job was opened.
#[derive(Default)]
struct Opening {
    at: Option<Instant>,
    threads: Threads,
    whole: Cpu,
}

impl Observer for Opening {
    fn opened(&mut self, _: &Path) -> Result<(), DaemonError> {
        look(&mut self.threads);
        self.whole = whole();
        self.at = Some(Instant::now());
        Ok(())
    }

    fn say(&mut self, _: &str) {}

    fn crawl(&mut self, _: &Cells, _: Option<&Row<'_>>, _: &RunStatus) {}
}

/// All threads together, including those that have ended.
fn whole() -> Cpu {
    Cpu::read(Path::new("/proc/self/stat")).unwrap_or_default()
}

/// Crawls the job in this process.
fn measure(job: &Path) -> Measured {
    let config = Config::load(job).unwrap();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // The workers of the pool have the same kind of threads; those of the runtime come first.
    let made = Arc::new(AtomicUsize::new(0));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .worker_threads(cores)
        .thread_name_fn(move || match made.fetch_add(1, Ordering::Relaxed) {
            number if number < cores => "runtime".to_owned(),
            _ => "workers".to_owned(),
        })
        .build()
        .unwrap();
    let (stop, stopped) = channel::<()>();
    let sampler = std::thread::Builder::new().name("sampler".to_owned());
    let sampler = sampler.spawn(move || {
        let mut threads = Threads::new();
        while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            look(&mut threads);
        }
        look(&mut threads);
        threads
    });
    let mut opening = Opening::default();
    let control = Control::default();
    let handle = daemon::control_handle(&config, &control);
    let summary = daemon::crawl(&config, runtime.handle(), &mut opening, control, handle).unwrap();
    let seconds = opening.at.expect("opened").elapsed().as_secs_f64();
    drop(stop);
    let ended = sampler.unwrap().join().unwrap();
    let spent = whole().minus(opening.whole);

    let mut threads: BTreeMap<String, Cpu> = BTreeMap::new();
    let mut seen = Cpu::default();
    for (number, (name, cpu)) in ended {
        let before = opening.threads.get(&number).map(|(_, cpu)| *cpu);
        let cpu = cpu.minus(before.unwrap_or_default());
        seen = seen.plus(cpu);
        if name != "sampler" {
            let sum = threads.entry(name).or_default();
            *sum = sum.plus(cpu);
        }
    }
    threads.insert("ended".to_owned(), spent.minus(seen));
    Measured {
        pages: summary.status.pages,
        fetches: summary.status.fetches,
        seconds,
        peak_mb: peak_mb(),
        threads,
    }
}

fn peak_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kb = line.and_then(|line| line.split_whitespace().nth(1));
    kb.and_then(|kb| kb.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e3
}

/// The web to crawl, and the settings.
struct Plan {
    web: PathBuf,
    seeds: PathBuf,
    positive: PathBuf,
    neutral: PathBuf,
    fetches: u64,
    concurrency: u64,
    /// Whether the text of pages is kept as documents, as by default.
    documents: bool,
    strategies: Vec<StrategyKind>,
    stores: Vec<StoreKind>,
}

impl Plan {
    fn from_arguments(folder: &Path) -> Self {
        let mut plan = Self {
            web: folder.join("demo"),
            seeds: folder.join("seeds.txt"),
            positive: folder.join("positive"),
            neutral: folder.join("neutral"),
            fetches: 2_000,
            concurrency: 32,
            documents: false,
            strategies: vec![StrategyKind::Learn, StrategyKind::Unfocused],
            stores: vec![StoreKind::Sled, StoreKind::Fjall],
        };
        let mut given: Option<PathBuf> = None;
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let mut value = || {
                words
                    .next()
                    .unwrap_or_else(|| panic!("{word} needs a value"))
            };
            match word.as_str() {
                "--seeds" => plan.seeds = whole_path(value()),
                "--positive" => plan.positive = whole_path(value()),
                "--neutral" => plan.neutral = whole_path(value()),
                "--fetches" => plan.fetches = value().parse().expect("a number of fetches"),
                "--documents" => plan.documents = true,
                "--concurrency" => plan.concurrency = value().parse().expect("a number"),
                "--strategy" => plan.strategies = vec![one_of(&STRATEGIES, &value())],
                "--store" => plan.stores = vec![one_of(&STORES, &value())],
                // Flags that cargo bench adds.
                "--bench" => {}
                other if other.starts_with('-') => panic!("unknown argument {other}"),
                other => given = Some(whole_path(other.to_owned())),
            }
        }
        match given {
            Some(web) => {
                plan.web = web;
                assert!(
                    plan.seeds.is_file() && plan.positive.exists() && plan.neutral.exists(),
                    "a web of your own needs --seeds FILE, --positive TEXTS and --neutral TEXTS"
                );
            }
            None => write_demo(&plan),
        }
        plan
    }
}

const STRATEGIES: [(&str, StrategyKind); 4] = [
    ("learn", StrategyKind::Learn),
    ("unfocused", StrategyKind::Unfocused),
    ("link", StrategyKind::Link),
    ("document", StrategyKind::Document),
];
const STORES: [(&str, StoreKind); 2] = [("sled", StoreKind::Sled), ("fjall", StoreKind::Fjall)];

fn one_of<T: Copy>(known: &[(&str, T)], name: &str) -> T {
    let found = known.iter().find(|(known, _)| *known == name);
    let names = known.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    found
        .unwrap_or_else(|| panic!("no {name}; one of {}", names.join(", ")))
        .1
}

/// Absolute, because jobs are in another folder.
fn whole_path(path: String) -> PathBuf {
    std::fs::canonicalize(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn write_demo(plan: &Plan) {
    let web = demo::web();
    web.write_to(&plan.web).unwrap();
    std::fs::write(&plan.seeds, web.seeds.join("\n")).unwrap();
    let training = demo::training();
    for (folder, texts) in [
        (&plan.positive, training.positive),
        (&plan.neutral, training.neutral),
    ] {
        std::fs::create_dir_all(folder).unwrap();
        for (name, text) in texts {
            std::fs::write(folder.join(name), text).unwrap();
        }
    }
}

/// Serves a folder in a child process; returns its address.
fn serve(web: &Path) -> (Child, String) {
    let own = std::env::current_exe().expect("the benchmark's own file");
    let mut server = Command::new(own)
        .arg(SERVE)
        .arg(web)
        .stdout(Stdio::piped())
        .spawn()
        .expect("the server");
    let out = server.stdout.as_mut().expect("its output");
    let mut line = String::new();
    // Reads byte by byte, so that the rest stays in the pipe, and the pipe stays open.
    BufReader::with_capacity(1, out)
        .read_line(&mut line)
        .unwrap();
    let address = line.trim().rsplit_once("http://").map(|(_, last)| last);
    (server, address.expect("an address").to_owned())
}

/// Serves a web in this process and prints the address.
fn serve_until_killed(web: &Path) {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let web = spoor_lab::Lab::open(web).expect("a web").compressed();
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let running = runtime.block_on(spoor_lab::spawn(web, address));
    let running = running.expect("a server");
    println!("http://{}", running.addr);
    runtime.block_on(std::future::pending())
}

fn end(mut server: Child) {
    server.kill().unwrap();
    server.wait().unwrap();
}

/// The jobs of a plan.
struct Jobs<'a> {
    plan: &'a Plan,
    folder: &'a Path,
    address: String,
}

impl Jobs<'_> {
    fn write(&self, strategy: StrategyKind, store: StoreKind) -> PathBuf {
        let Plan {
            seeds,
            positive,
            neutral,
            fetches,
            concurrency,
            documents,
            ..
        } = self.plan;
        let (strategy, store) = (strategy.name(), store.name());
        let address = &self.address;
        let text = format!(
            "[job]\nname = \"{strategy}-{store}\"\ncontact = \"mailto:bench@localhost\"\n\
             [seeds]\nfiles = [{seeds:?}]\n\
             [train]\npositive = [{positive:?}]\nneutral = [{neutral:?}]\n\
             [model]\nname = \"bench\"\n\
             [limits]\nfetches = {fetches}\n\
             [politeness]\nmin_delay = \"0s\"\nmax_delay = \"0s\"\ndelay_factor = 0.0\n\
             address_delay = \"0s\"\nretries = 0\n\
             [network]\nallow_private = true\nconnect_to = [\"::{address}\"]\n\
             concurrency = {concurrency}\n\
             [images]\nenabled = false\n\
             [text]\ndocuments = {documents}\n\
             [strategy]\nkind = \"{strategy}\"\npatience = 0.0\n\
             [frontier]\nstore = \"{store}\"\n"
        );
        let path = self.folder.join(format!("{strategy}-{store}.toml"));
        std::fs::write(&path, text).unwrap();
        path
    }

    /// All jobs have the same model.
    fn train(&self) {
        let job = self.write(StrategyKind::Learn, StoreKind::Sled);
        let config = Config::load(&job).unwrap();
        let runtime = daemon::runtime().unwrap();
        daemon::train(&config, runtime.handle(), &mut Opening::default()).unwrap();
    }

    fn run(&self, strategy: StrategyKind, store: StoreKind) -> Measured {
        let job = self.write(strategy, store);
        let ran = Command::new(std::env::current_exe().unwrap())
            .arg(MEASURED)
            .arg(job)
            .env(allocator::VARIABLE, allocator::SETTINGS)
            .stderr(Stdio::inherit())
            .output()
            .expect("a process of its own");
        assert!(ran.status.success(), "the crawl failed");
        serde_json::from_slice(&ran.stdout).expect("figures")
    }
}

/// A column for each run, and a row for each kind of thread that cost anything.
fn print(runs: &[(String, Measured)]) {
    let head: Vec<&str> = runs.iter().map(|(name, _)| name.as_str()).collect();
    println!("| CPU ms a page | {} |", head.join(" | "));
    println!("|---|{}", "---:|".repeat(runs.len()));
    let row = |name: &str, cell: &dyn Fn(&Measured) -> String| {
        let cells: Vec<String> = runs.iter().map(|(_, run)| cell(run)).collect();
        println!("| {name} | {} |", cells.join(" | "));
    };
    let ms = |run: &Measured, ms: u64| format!("{:.2}", run.per_page(ms));
    let mut names: Vec<&String> = runs
        .iter()
        .flat_map(|(_, run)| run.threads.keys())
        .collect();
    names.sort();
    names.dedup();
    let most = |name: &str| runs.iter().map(|(_, run)| run.of(name).all()).max();
    names.sort_by_key(|name| std::cmp::Reverse(most(name)));
    for name in names.into_iter().filter(|name| most(name) > Some(0)) {
        row(name, &|run| ms(run, run.of(name).all()));
    }
    row("**all**", &|run| ms(run, run.all().all()));
    row("of these in the system", &|run| ms(run, run.all().system));
    row("driver's share", &|run| {
        let share = run.of("driver").all() as f64 / run.all().all().max(1) as f64;
        format!("{:.0} %", 100.0 * share)
    });
    row("driver alone, pages a second", &|run| {
        let alone = 1e3 * run.pages as f64 / run.of("driver").all().max(1) as f64;
        format!("{alone:.0}")
    });
    row("pages", &|run| format!("{}", run.pages));
    row("fetches", &|run| format!("{}", run.fetches));
    row("seconds", &|run| format!("{:.1}", run.seconds));
    row("peak memory, MB", &|run| format!("{:.0}", run.peak_mb));
}
