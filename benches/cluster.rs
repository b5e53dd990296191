//! The cost of several machines compared with one: links through real brokers, whole crawls, and
//! the delay of links.
//!
//! ```sh
//! cargo bench --bench cluster
//! cargo bench --bench cluster -- links --brokers 1,3 --pages 20000
//! cargo bench --bench cluster -- crawls --fetches 60000 --repeat 2
//! ```
//!
//! Needs a `nats-server` of 2.10 or newer, in the path or where `.ci/run` puts it. To compare two
//! builds, name the other program in `SPOOR_PROGRAM`.
//!
//! **links**: pages with links to the hosts of another machine are finished, so that their links
//! are in the outbox. Then the links are sent, and a separate thread adds them to the frontier of
//! the other machine. Both sides are those of a crawl, including the store.
//!
//! **crawls**: the endless lab web is crawled for a number of fetches by one process without
//! `[cluster]`, by one machine of a cluster, and by two, without pauses. All of them, the brokers
//! and the web share the cores of this machine. The measurement runs from 30 % to 70 % of the
//! fetches, when every machine has its hosts. *own* CPU is that of the machines alone; it gives the
//! pages a second that they would do with all cores to themselves. Lags are from the run with two
//! machines: for the oldest link of each message, the time from finding it to adding it on the other
//! machine, to be compared with `linger` (5 s).
//!
//! Not a criterion benchmark, because a crawl cannot be repeated in microseconds.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spoor::address::PageUrl;
use spoor::cluster::links::{Links, MessagesError, Setting};
use spoor::cluster::{Nats, Place};
use spoor::config::Config;
use spoor::frontier::store::StoreError;
use spoor::frontier::{
    CellCount, CellId, Cells, Effects, NewTask, OutputEdit, Outside, Policy, RobotsAnswer, Written,
};
use spoor::page::{Bucket, Clues, Outcome, TaskKind};
use spoor::settings::StoreKind;
use spoor::web::scope::Scope;
use spoor_lab::endless;

use self::broker::Brokers;

/// Shared with the tests.
#[allow(dead_code)]
#[path = "../tests/it/support/broker.rs"]
mod broker;

#[cfg(not(target_env = "msvc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Kernel ticks are 10 ms for programs.
const TICK_MS: u64 = 10;
/// The interval at which processes are sampled.
const LOOK: Duration = Duration::from_millis(20);
/// The number of links on a page that lead to hosts of the other machine.
const LINKS: usize = 10;
/// How long a link waits for others in the crawls; the default.
const LINGER: Duration = Duration::from_secs(5);
/// The part of a crawl that is measured.
const FROM: f64 = 0.3;
const TO: f64 = 0.7;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| {
        let at = arguments.iter().position(|a| a == name)?;
        arguments.get(at + 1).cloned()
    };
    let number = |name: &str, usual: u64| option(name).map_or(usual, |n| n.parse().unwrap());
    let wants = |what: &str| {
        let names = ["links", "crawls"];
        let is_named = arguments.iter().any(|a| names.contains(&a.as_str()));
        !is_named || arguments.iter().any(|a| a == what)
    };
    let brokers = option("--brokers").unwrap_or_else(|| "1,3".to_owned());
    let brokers: Vec<usize> = brokers.split(',').map(|n| n.parse().unwrap()).collect();
    if wants("links") {
        for count in &brokers {
            let brokers = Brokers::start(*count).expect("nats-server");
            links(&brokers, number("--pages", 10_000));
        }
    }
    if wants("crawls") {
        let fetches = number("--fetches", 60_000);
        println!("\n{fetches} fetches of the endless web, {}", HEADER);
        for _ in 0..number("--repeat", 1) {
            crawls(&brokers, fetches);
        }
    }
}

/// An engine, once the server accepts connections.
async fn connect(brokers: &Brokers) -> Nats {
    let place = Place {
        servers: brokers.addresses(),
        job: "bench".to_owned(),
        replicas: brokers.count(),
        credentials: None,
    };
    let begun = Instant::now();
    loop {
        match Nats::connect(place.clone()).await {
            Ok(engine) => return engine,
            Err(error) => assert!(begun.elapsed().as_secs() < 60, "{error}"),
        }
        tokio::time::sleep(LOOK).await;
    }
}

// ---- links ----

const NOW: u64 = 1_000_000_000_000;

/// No outputs, so none must agree with the frontier.
struct NoOutputs;

impl Outside<MessagesError> for NoOutputs {
    fn amend(&mut self, _: &[OutputEdit]) -> Result<Vec<u8>, MessagesError> {
        Ok(Vec::new())
    }

    fn sync(&mut self) -> Result<(), MessagesError> {
        Ok(())
    }
}

fn open(folder: &Path, count: CellCount, own: &[CellId]) -> Cells {
    let text = "[job]\nname = \"bench\"\n[politeness]\nmin_delay = \"0s\"\ndelay_factor = 0.0\n\
                address_delay = \"0s\"\n[consent]\ntdmrep = false\n";
    let config = Config::parse(text, "bench.toml").unwrap();
    let policy = Policy::new(&config.politeness, &config.network);
    let scope = Scope::new(config.scope.clone());
    let mut cells = Cells::open(StoreKind::Fjall, folder, count, policy, scope).unwrap();
    own.iter().for_each(|c| cells.open_cell(*c, NOW).unwrap());
    cells
}

/// Makes links like those of a learning crawl.
struct Web {
    dice: ChaCha8Rng,
    known: u64,
}

impl Web {
    /// Half of the links are new, half known. All lead to a machine's own cells.
    fn link(&mut self, count: CellCount, cells: &[CellId]) -> NewTask {
        loop {
            let n = if self.dice.random_bool(0.5) || self.known == 0 {
                self.known += 1;
                self.known
            } else {
                self.dice.random_range(0..self.known)
            };
            let host = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 5_000;
            let text = format!("http://www.host-{host}.example/articles/page-{n}.html");
            let url = PageUrl::parse(&text).unwrap();
            if !cells.contains(&count.cell_of(&url.host_key())) {
                continue;
            }
            let traits = (0..self.dice.random_range(14..34)).map(|_| {
                let word: u32 = self.dice.random_range(0..20_000);
                word.wrapping_mul(0x9E37_79B9)
            });
            let traits = traits.collect();
            return NewTask {
                url,
                bucket: Some(Bucket::Normal),
                score: self.dice.random_range(1.0..30_000.0),
                parts: None,
                anchor: Some("the keeper of the lamp in the tower".to_owned()),
                clues: Some(Clues {
                    parent: 0.7,
                    traits,
                    ..Clues::default()
                }),
            };
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().unwrap()
}

fn links(brokers: &Brokers, pages: u64) {
    let count = CellCount::new(64).unwrap();
    let all: Vec<CellId> = count.all().collect();
    let (here, there) = all.split_at(32);
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime();
    let engine = Arc::new(runtime.block_on(connect(brokers)));
    let mut sender = open(&folder.path().join("sender"), count, here);
    let mut receiver = open(&folder.path().join("receiver"), count, there);
    fill(&mut sender, count, (here, there), pages);

    let setting = |session| Setting {
        linger: 0,
        ..Setting::usual(session, count)
    };
    let goal = AtomicU64::new(u64::MAX);
    let is_ready = AtomicBool::new(false);
    let (sending, sent_in, added_in, cpu) = std::thread::scope(|scope| {
        let (engine, handle) = (Arc::clone(&engine), runtime.handle().clone());
        let other = Arc::clone(&engine);
        let (goal, is_ready) = (&goal, &is_ready);
        let adding = scope.spawn(move || {
            let _entered = handle.enter();
            let mut links = Links::new(other, setting(2), BTreeSet::new(), &mut receiver).unwrap();
            loop {
                let now = spoor::clock::now();
                let added = links.turn::<MessagesError>(&mut receiver, now, &mut NoOutputs);
                added.unwrap();
                is_ready.store(links.is_quiet(&receiver), Ordering::Release);
                if links.tally().received >= goal.load(Ordering::Acquire) {
                    assert_eq!(links.tally().lost, 0);
                    return Instant::now();
                }
                std::thread::yield_now();
            }
        });
        // Creates the logs before the measurement.
        while !is_ready.load(Ordering::Acquire) {
            std::thread::sleep(LOOK);
        }
        let before = cpu_of(&brokers.ids());
        let begun = Instant::now();
        let _entered = runtime.enter();
        let mut links = Links::new(engine, setting(1), BTreeSet::new(), &mut sender).unwrap();
        loop {
            let now = spoor::clock::now();
            let sent = links.turn::<MessagesError>(&mut sender, now, &mut NoOutputs);
            sent.unwrap();
            if links.is_idle(&sender) {
                break;
            }
            std::thread::yield_now();
        }
        let sent_in = begun.elapsed();
        let sending = links.tally().sending;
        goal.store(sending.offers, Ordering::Release);
        let added_in = adding.join().unwrap() - begun;
        let cpu = cpu_of(&brokers.ids()) - before;
        (sending, sent_in, added_in, cpu)
    });
    let per = |n: u64, time: Duration| n as f64 / time.as_secs_f64();
    println!(
        "{} brokers: {} links of {pages} pages, {} after the filter in {} messages\n\
         \x20 sent:  {:.0} links/s\n\
         \x20 added: {:.0} links/s\n\
         \x20 at the broker: {:.0} bytes a link, {:.0} a page, {:.2} ms of CPU a message",
        brokers.count(),
        sending.read,
        sending.offers,
        sending.messages,
        per(sending.offers, sent_in),
        per(sending.offers, added_in),
        sending.bytes as f64 / sending.offers as f64,
        sending.bytes as f64 / pages as f64,
        cpu as f64 / sending.messages as f64,
    );
}

/// Finishes pages, so that their links are in the outbox.
fn fill(cells: &mut Cells, count: CellCount, (here, there): (&[CellId], &[CellId]), pages: u64) {
    let mut web = Web {
        dice: ChaCha8Rng::seed_from_u64(1),
        known: 0,
    };
    let page = |n: u64| PageUrl::parse(&format!("http://www.own-{n}.example/")).unwrap();
    let is_own = |url: &PageUrl| here.contains(&count.cell_of(&url.host_key()));
    let seeds: Vec<PageUrl> = (0..)
        .map(page)
        .filter(is_own)
        .take(pages as usize)
        .collect();
    cells.add_seeds(&seeds, NOW).unwrap();
    let (mut now, mut done) = (NOW, 0);
    while done < pages {
        let Some((cell, task)) = cells.lease(here, now).unwrap() else {
            now = cells.next_event().unwrap().max(now + 1);
            continue;
        };
        let answer = Duration::from_millis(5);
        if task.kind == TaskKind::Robots {
            let robots = |f: &mut spoor::frontier::Frontier| {
                let write = |_: &_| Ok::<_, StoreError>(Vec::new());
                f.finish_robots(&task, RobotsAnswer::Missing, answer, now, write)
            };
            cells.with(cell, now, robots).unwrap();
            continue;
        }
        done += 1;
        let effects = Effects {
            links: (0..LINKS).map(|_| web.link(count, there)).collect(),
            ..Effects::default()
        };
        let finish = |f: &mut spoor::frontier::Frontier| {
            let write = |_: &_| Ok::<_, StoreError>(Written::default());
            f.finish(&task, Outcome::Done, effects, answer, now, write)
        };
        cells.with(cell, now, finish).unwrap();
    }
}

// ---- crawls ----

const HEADER: &str = "no pauses\n\n\
    | crawl | pages/s | own CPU, ms a page | brokers' | web's | pages/s on own CPU | peak MB of each | pages of each |\n\
    |---|---:|---:|---:|---:|---:|---:|---:|";

/// CPU time of processes, user and system, in milliseconds.
fn cpu_of(ids: &[u32]) -> u64 {
    let of = |id: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let (_, columns) = stat.rsplit_once(") ")?;
        let times = columns.split(' ').skip(11).take(2);
        Some(times.filter_map(|n| n.parse::<u64>().ok()).sum::<u64>() * TICK_MS)
    };
    ids.iter().filter_map(of).sum()
}

fn peak_mb(id: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kb: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kb / 1e3)
}

fn crawls(brokers: &[usize], fetches: u64) {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime();
    let asked = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&asked);
    let web = endless::web().with_observer(Arc::new(move |request: spoor_lab::Request| {
        if request.path != "/robots.txt" {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }));
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let served = runtime.block_on(spoor_lab::spawn(web, any)).unwrap();
    let crawls = Crawls {
        folder: folder.path(),
        web: served.addr,
        asked,
        fetches,
    };
    crawls.train();
    crawls.run("one process", 1, None);
    for count in brokers {
        for machines in [1, 2] {
            let brokers = Brokers::start(*count).expect("nats-server");
            runtime.block_on(connect(&brokers));
            let name = format!("{machines} of a cluster, {count} brokers");
            crawls.run(&name, machines, Some(&brokers));
        }
    }
    runtime.block_on(served.stop()).unwrap();
}

/// The resources that processes had used at one moment.
struct Mark {
    at: Instant,
    pages: u64,
    own: u64,
    brokers: u64,
    web: u64,
}

struct Crawls<'a> {
    folder: &'a Path,
    web: SocketAddr,
    asked: Arc<AtomicU64>,
    fetches: u64,
}

impl Crawls<'_> {
    fn job(&self, cluster: &str) -> String {
        let job = endless::job(self.web);
        let (before, rest) = job.split_once("[politeness]\n").unwrap();
        let (_, after) = rest.split_once("\n\n").unwrap();
        format!(
            "{before}[politeness]\nmin_delay = \"0s\"\nmax_delay = \"0s\"\ndelay_factor = 0.0\n\
             address_delay = \"0s\"\nretries = 0\n\n{after}enabled = false\n\
             [consent]\ntdmrep = false\n[control]\nlisten = false\n[model]\nfolder = {:?}\n\
             [limits]\nfetches = {}\n{cluster}",
            self.folder.join("models"),
            self.fetches,
        )
    }

    fn write(&self, name: &str, cluster: &str) -> PathBuf {
        let folder = self.folder.join(name);
        std::fs::remove_dir_all(&folder).ok();
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("job.toml"), self.job(cluster)).unwrap();
        folder
    }

    fn spoor(&self, command: &str, folder: &Path) -> Command {
        let own = env!("CARGO_BIN_EXE_spoor").into();
        let program = std::env::var_os("SPOOR_PROGRAM").unwrap_or(own);
        let mut spoor = Command::new(program);
        let output = |name: &str| File::create(folder.join(name)).unwrap();
        spoor
            .args([command, "job.toml"])
            .current_dir(folder)
            .env("SPOOR_LOG", "warn,spoor::cluster::links=debug")
            .stdin(Stdio::null())
            .stdout(output("out"))
            .stderr(output("err"));
        spoor
    }

    /// All crawls have the same model.
    fn train(&self) {
        let folder = self.write("train", "");
        let trained = self.spoor("train", &folder).status().unwrap();
        assert!(trained.success(), "{}", said(&folder));
    }

    fn run(&self, name: &str, machines: usize, brokers: Option<&Brokers>) {
        let store = self.folder.join("store");
        std::fs::remove_dir_all(&store).ok();
        let folders: Vec<PathBuf> = (0..machines)
            .map(|number| {
                let cluster = brokers.map_or_else(String::new, |brokers| {
                    format!(
                        "[cluster]\nbrokers = {:?}\nreplicas = {}\nnode = \"m{number}\"\n\
                         store = \"file://{}\"\nsettle = \"1s\"\n",
                        brokers.addresses(),
                        brokers.count(),
                        store.display(),
                    )
                });
                self.write(&format!("m{number}"), &cluster)
            })
            .collect();
        let before = self.asked.load(Ordering::Relaxed);
        let start = |folder: &PathBuf| self.spoor("crawl", folder).spawn().unwrap();
        let mut running: Vec<Child> = folders.iter().map(start).collect();
        let ids: Vec<u32> = running.iter().map(Child::id).collect();
        let servers = brokers.map(Brokers::ids).unwrap_or_default();
        let mark = || Mark {
            at: Instant::now(),
            pages: self.asked.load(Ordering::Relaxed) - before,
            own: cpu_of(&ids),
            brokers: cpu_of(&servers),
            web: cpu_of(&[std::process::id()]),
        };
        let mut marks = Vec::new();
        let mut peaks = vec![0.0_f64; machines];
        loop {
            let due = match marks.len() {
                0 => FROM,
                1 => TO,
                _ => f64::INFINITY,
            };
            let pages = self.asked.load(Ordering::Relaxed) - before;
            if pages as f64 >= due * self.fetches as f64 {
                marks.push(mark());
            }
            for (peak, id) in peaks.iter_mut().zip(&ids) {
                *peak = peak.max(peak_mb(*id).unwrap_or(0.0));
            }
            let ended = running.iter_mut().all(|c| c.try_wait().unwrap().is_some());
            if ended {
                break;
            }
            std::thread::sleep(LOOK);
        }
        for (mut child, folder) in running.into_iter().zip(&folders) {
            assert!(child.wait().unwrap().success(), "{}", said(folder));
        }
        let [from, to] = &marks[..] else {
            panic!("it ended too early")
        };
        let pages = (to.pages - from.pages) as f64;
        let seconds = (to.at - from.at).as_secs_f64();
        let per_page = |from: u64, to: u64| (to - from) as f64 / pages;
        let own = per_page(from.own, to.own);
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let each = |values: Vec<String>| values.join(", ");
        println!(
            "| {name} | {:.0} | {own:.2} | {:.2} | {:.2} | {:.0} | {} | {} |",
            pages / seconds,
            per_page(from.brokers, to.brokers),
            per_page(from.web, to.web),
            1e3 * cores / own,
            each(peaks.iter().map(|peak| format!("{peak:.0}")).collect()),
            each(folders.iter().map(|f| pages_of(f)).collect()),
        );
        if machines > 1 {
            lags(&folders);
        }
    }
}

fn said(folder: &Path) -> String {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    read("out") + &read("err")
}

/// The number of pages that a machine says it has fetched.
fn pages_of(folder: &Path) -> String {
    let said = said(folder);
    let line = said.lines().find_map(|line| line.split_once(" pages"));
    line.map_or_else(String::new, |(before, _)| before.to_owned())
}

/// The delays of links, from what the machines have logged about each message.
fn lags(folders: &[PathBuf]) {
    let mut sent: BTreeMap<(String, String, String), u64> = BTreeMap::new();
    let mut added = BTreeMap::new();
    for folder in folders {
        let said = said(folder);
        for line in said.lines() {
            let of = |key: &str| {
                let (_, rest) = line.split_once(&format!(" {key}="))?;
                Some(rest.split_whitespace().next()?.to_owned())
            };
            let message = || Some((of("cell")?, of("session")?, of("number")?));
            let number = |key: &str| -> Option<u64> { of(key)?.parse().ok() };
            let Some(message) = message() else { continue };
            if let Some(since) = number("since") {
                // A link that is sent again was not found later.
                let first = sent.entry(message).or_insert(since);
                *first = since.min(*first);
            } else if let Some(now) = number("now") {
                added.entry(message).or_insert(now);
            }
        }
    }
    let lag = |(message, now): (&_, &u64)| Some(now.saturating_sub(*sent.get(message)?));
    let mut lags: Vec<u64> = added.iter().filter_map(lag).collect();
    lags.sort_unstable();
    let at = |share: f64| {
        let at = (lags.len() as f64 * share) as usize;
        let ms = lags.get(at.min(lags.len().saturating_sub(1)));
        Duration::from_millis(ms.copied().unwrap_or(0)).as_secs_f64()
    };
    println!(
        "\nlinks were added after {:.1} s (p50), {:.1} s (p99), {:.1} s (most) in {} messages; the \
         bar for p99 is {:.0} s\n",
        at(0.5),
        at(0.99),
        at(1.0),
        lags.len(),
        3.0 * LINGER.as_secs_f64()
    );
}
