//! Sessions in processes of their own, with three real brokers and a web server that records every
//! request. Processes are killed and stopped, and brokers are killed.
//!
//! A node here is as small as possible: a cell is a list of pages that are requested one after the
//! other, its store is a file, and so is a checkpoint. It uses its session and makes its requests
//! exactly as a crawl does.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Output, Stdio};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;

use super::super::super::record::{Base, Key, Node, SessionId, Value};
use super::super::super::{
    Driver, Handle, Inherited, Kept, News, SessionCommand, Setting, Standing, Terms,
};
use super::*;
use crate::address::PageUrl;
use crate::clock::{millis, now};
use crate::fetch::{Answer, Fetcher, Options, Term};
use crate::frontier::{Amount, CellCount, CellId};
use crate::fs::atomic;
use crate::page::TaskKind;

const CELLS: u16 = 8;
const PAGES: u64 = 90;
/// The shortest time from the end of a request to a host to the start of the next.
const DELAY: Duration = Duration::from_millis(200);
const TERM: Duration = super::super::super::SHORTEST_TERM;
/// The time between two checkpoints.
const EVERY: Duration = Duration::from_secs(1);

fn cells() -> CellCount {
    CellCount::new(CELLS).unwrap()
}

/// The contents of a checkpoint.
#[derive(Default, Serialize, Deserialize)]
struct Checkpoint {
    /// The next page of each cell.
    cells: BTreeMap<u16, u64>,
    /// The pages that the session has requested, in order.
    done: Vec<(u16, u64)>,
}

fn checkpoint_of(folder: &Path, base: &Base) -> Option<Checkpoint> {
    let name = format!("{}-{}.json", base.session, base.checkpoint);
    let bytes = std::fs::read(folder.join(name)).ok()?;
    Some(serde_json::from_slice(&bytes).unwrap())
}

/// A process: a session and its cells.
struct Process {
    /// The folder of the node, and the folder of all checkpoints.
    own: PathBuf,
    shared: PathBuf,
    term: Term,
    fetcher: Fetcher,
    web: String,
    kept: Kept,
    /// The next page of each cell, and what the session has done. It is written to a file after
    /// each page.
    store: Checkpoint,
    /// When each cell may next be contacted, and how long after its quiet time.
    next: BTreeMap<CellId, (u64, u64)>,
    giving: BTreeSet<CellId>,
}

impl Process {
    fn save_store(&self) {
        let bytes = serde_json::to_vec(&self.store).unwrap();
        atomic::write_bytes(&self.own, "store.json", &bytes).unwrap();
    }

    fn hears(&mut self, news: News) {
        match news {
            News::Taken {
                cell,
                state: Inherited { clean, bases },
                revision,
            } => {
                let of = |base| {
                    checkpoint_of(&self.shared, base)?
                        .cells
                        .get(&cell.number())
                        .copied()
                };
                let page = bases.iter().find_map(of).unwrap_or(0);
                self.store.cells.insert(cell.number(), page);
                self.save_store();
                self.kept.cells.insert(cell, revision);
                self.kept.write(&self.own).unwrap();
                // When another session last sent its host a request is not known to the
                // millisecond.
                let wait = if clean { 0 } else { millis(DELAY) };
                self.next.insert(cell, (0, wait));
            }
            News::Kept(cell) => {
                self.next.insert(cell, (now() + millis(DELAY), 0));
            }
            News::Give(cell) => drop(self.giving.insert(cell)),
            News::Done => {}
            News::Given(cell) | News::Lost(cell) => {
                self.kept.cells.remove(&cell);
                self.kept.write(&self.own).unwrap();
                self.store.cells.remove(&cell.number());
                self.save_store();
                self.next.remove(&cell);
                self.giving.remove(&cell);
            }
            News::Over(_) => {
                self.kept.cells.clear();
                std::fs::remove_file(self.own.join("session.json")).unwrap();
                std::fs::remove_file(self.own.join("store.json")).unwrap_or_default();
                std::process::exit(0);
            }
        }
    }

    /// Requests the next page of each cell that is due.
    async fn ask_all(&mut self, standing: &Standing) {
        for (cell, from) in &standing.cells {
            let Some((next, wait)) = self.next.get(cell).copied() else {
                continue;
            };
            let first = from + wait;
            let again = standing.resumed + millis(DELAY);
            let page = self.store.cells.get(&cell.number()).copied();
            let Some(page) = page.filter(|page| *page < PAGES) else {
                continue;
            };
            let is_due = now() >= first.max(again).max(next) && now() < standing.until;
            if !is_due || self.giving.contains(cell) {
                continue;
            }
            let url = format!("{}/{}/{page}", self.web, cell.number());
            let url = PageUrl::parse(&url).unwrap();
            let answer = self.fetcher.fetch(&url, TaskKind::Page).await;
            self.next.insert(*cell, (now() + millis(DELAY), 0));
            // A request that was cut counts as not done.
            if matches!(answer, Ok(Answer::Body { .. })) && self.term.runs() {
                self.store.cells.insert(cell.number(), page + 1);
                self.store.done.push((cell.number(), page));
                self.save_store();
            }
        }
    }

    /// Makes a checkpoint, and gives back the cells that it was asked to.
    fn checkpoint(&mut self, handle: &Handle, session: &SessionId) {
        self.kept.made += 1;
        self.kept.session = session.clone();
        self.kept.write(&self.own).unwrap();
        let bytes = serde_json::to_vec(&self.store).unwrap();
        let name = format!("{session}-{}.json", self.kept.made);
        atomic::write_bytes(&self.shared, &name, &bytes).unwrap();
        let commit = std::iter::once(SessionCommand::Commit(
            self.kept.made,
            Amount::default(),
            Vec::new(),
        ));
        let made = self.kept.made;
        let give = self
            .giving
            .iter()
            .map(|cell| SessionCommand::Give(*cell, made));
        for command in commit.chain(give) {
            // A session that is over ignores commands; its last news are still to be read.
            handle.commands.send(command).ok();
        }
    }
}

fn given(name: &str) -> String {
    std::env::var(format!("SPOOR_TEST_{name}")).expect(name)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a process of the test below"]
async fn a_node() {
    let node = Node::new(&given("NODE")).unwrap();
    let (own, shared) = (PathBuf::from(given("OWN")), PathBuf::from(given("SHARED")));
    let place = Place {
        servers: given("BROKERS").split(',').map(str::to_owned).collect(),
        job: "cats".to_owned(),
        replicas: 3,
        credentials: None,
    };
    let engine = Arc::new(until(async || Nats::connect(place.clone()).await).await);
    let term = Term::default();
    let fetcher = Fetcher::new(Options {
        contact: "mailto:crawl@example.org".to_owned(),
        allow_private: true,
        term: Some(term.clone()),
        ..Options::default()
    });
    let setting = Setting {
        node: node.clone(),
        secret: given("SECRET").parse().unwrap(),
        weight: 1.0,
        cells: cells(),
        terms: Terms::new(TERM, Duration::from_secs(5)),
    };
    let secret = setting.secret;
    let before = Kept::read(&own, &node, cells()).unwrap();
    let store = std::fs::read(own.join("store.json"));
    let (store, kept, (driver, mut handle)) = match before {
        Some(mut kept) if kept.session.number > 0 => {
            let store = store.map(|bytes| serde_json::from_slice(&bytes).unwrap());
            kept.secrets.insert(secret);
            kept.write(&own).unwrap();
            let begun = Driver::resume(engine, setting, kept.clone(), now, term.clone());
            (store.unwrap_or_default(), kept, begun)
        }
        _ => {
            let begun = Driver::new(engine, setting, now, term.clone());
            let kept = Kept {
                sender: None,
                session: SessionId { node, number: 0 },
                secrets: [secret].into(),
                made: 0,
                used: Amount::default(),
                cells: BTreeMap::new(),
            };
            (Checkpoint::default(), kept, begun)
        }
    };
    let mut process = Process {
        own,
        shared,
        term,
        fetcher: fetcher.unwrap(),
        web: given("WEB"),
        kept,
        store,
        next: BTreeMap::new(),
        giving: BTreeSet::new(),
    };
    tokio::spawn(driver.run());
    let mut pace = tokio::time::interval(Duration::from_millis(20));
    let mut last = Instant::now();
    loop {
        pace.tick().await;
        while let Ok(news) = handle.news.try_recv() {
            if let Some(session) = handle.standing.borrow().session.clone() {
                process.kept.session = session;
            }
            process.hears(news);
        }
        let standing = handle.standing.borrow().clone();
        process.ask_all(&standing).await;
        let is_due = last.elapsed() >= EVERY || !process.giving.is_empty();
        if let Some(session) = standing.session.filter(|_| is_due && standing.until > 0) {
            process.checkpoint(&handle, &session);
            last = Instant::now();
        }
    }
}

/// A request as seen by the server.
struct Seen {
    cell: u16,
    begin: Instant,
    end: Instant,
}

/// Records every request; an answer takes a few milliseconds.
async fn witness(seen: Arc<Mutex<Vec<Seen>>>) -> String {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let seen = seen.clone();
            tokio::spawn(async move {
                let mut head = Vec::new();
                let mut byte = [0; 1_024];
                while let Ok(n @ 1..) = stream.read(&mut byte).await {
                    head.extend_from_slice(&byte[..n]);
                    if !head.ends_with(b"\r\n\r\n") {
                        continue;
                    }
                    let begin = Instant::now();
                    let text = String::from_utf8_lossy(&head).into_owned();
                    let path = text.split(' ').nth(1).unwrap_or_default();
                    let cell = path.split('/').nth(1).unwrap_or_default();
                    let cell = cell.parse().unwrap();
                    head.clear();
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\
                                   Content-Length: 4\r\n\r\ncats";
                    // Taken before sending: this process may notice late that the answer was sent.
                    let end = Instant::now();
                    let sent = stream.write_all(answer).await;
                    seen.lock().unwrap().push(Seen { cell, begin, end });
                    if sent.is_err() {
                        return;
                    }
                }
            });
        }
    });
    format!("http://{address}")
}

/// The processes of the test. It starts and ends them.
struct Nodes {
    folder: tempfile::TempDir,
    brokers: String,
    web: String,
    begun: u64,
    running: BTreeMap<&'static str, Child>,
}

impl Nodes {
    fn begin(&mut self, name: &'static str) {
        let own = self.folder.path().join(name);
        std::fs::create_dir_all(&own).unwrap();
        self.begun += 1;
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture"])
            .arg("crawl::cluster::nats::tests::processes::a_node")
            .env("SPOOR_TEST_NODE", name)
            .env("SPOOR_TEST_OWN", &own)
            .env("SPOOR_TEST_SHARED", self.folder.path())
            .env("SPOOR_TEST_BROKERS", &self.brokers)
            .env("SPOOR_TEST_WEB", &self.web)
            .env("SPOOR_TEST_SECRET", self.begun.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        if let Some(before) = self.running.insert(name, child.unwrap()) {
            must_be_well(&before.wait_with_output().unwrap());
        }
    }

    fn signal(&self, name: &str, signal: nix::sys::signal::Signal) {
        let id = self.running[name].id();
        let id = nix::unistd::Pid::from_raw(i32::try_from(id).unwrap());
        nix::sys::signal::kill(id, signal).unwrap();
    }

    fn kill(&mut self, name: &str) {
        if let Some(mut child) = self.running.remove(name) {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Restarts processes that ended because their session was over.
    fn tend(&mut self) {
        let names: Vec<_> = self.running.keys().copied().collect();
        for name in names {
            let ended = self.running.get_mut(name).unwrap().try_wait().unwrap();
            if ended.is_some() {
                self.begin(name);
            }
        }
    }
}

fn must_be_well(ended: &Output) {
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!said.contains("panicked"), "{said}");
}

impl Drop for Nodes {
    fn drop(&mut self) {
        let names: Vec<_> = self.running.keys().copied().collect();
        names.into_iter().for_each(|name| self.kill(name));
    }
}

/// How many committed checkpoints have each page.
async fn union(engine: &Nats, folder: &Path) -> Option<BTreeMap<(u16, u64), u32>> {
    let mut changes = engine.watch(None).await.ok()?;
    let mut all: BTreeMap<(u16, u64), u32> = BTreeMap::new();
    loop {
        let Change::Set(key, value, _) = timeout(PATIENCE, changes.recv()).await.ok()?? else {
            return Some(all);
        };
        let key = Key::parse(&key, cells()).unwrap();
        let (Key::Session(session), Value::Session(record)) =
            (&key, Value::of(&key, &value).unwrap())
        else {
            continue;
        };
        let base = Base {
            session: session.clone(),
            checkpoint: record.checkpoint,
        };
        let checkpoint = checkpoint_of(folder, &base).unwrap_or_default();
        for page in checkpoint.done {
            *all.entry(page).or_default() += 1;
        }
    }
}

/// A disturbance of the cluster, and after how many pages it comes.
#[derive(Clone, Copy)]
enum Act {
    Begin(&'static str),
    Kill(&'static str),
    Stop(&'static str),
    Continue(&'static str),
    KillBroker(usize),
    BeginBroker(usize),
}

/// A process is killed and restarted at once, one is killed for good, one is stopped for three
/// terms, and each broker is killed once.
const ACTS: [(u64, Act); 13] = [
    (0, Act::Begin("n1")),
    (0, Act::Begin("n2")),
    (20, Act::Begin("n3")),
    (60, Act::Kill("n1")),
    (61, Act::Begin("n1")),
    (100, Act::Stop("n2")),
    (180, Act::KillBroker(0)),
    (240, Act::BeginBroker(0)),
    (260, Act::Continue("n2")),
    (300, Act::Kill("n3")),
    (340, Act::KillBroker(1)),
    (420, Act::BeginBroker(1)),
    (430, Act::Begin("n3")),
];

/// Whichever process is killed or stopped, no host is contacted too soon or twice at a time, and
/// the union of all committed checkpoints has every page once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_die_and_stop_keep_all_promises() {
    let Some(mut brokers) = Brokers::start(3) else {
        return;
    };
    let engine = connected(&brokers).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut nodes = Nodes {
        folder: tempfile::tempdir().unwrap(),
        brokers: brokers.addresses().join(","),
        web: witness(seen.clone()).await,
        begun: 0,
        running: BTreeMap::new(),
    };
    let mut acts = ACTS.into_iter().peekable();
    let limit = Instant::now() + Duration::from_secs(300);
    let mut pace = tokio::time::interval(Duration::from_millis(200));
    let all = u64::from(CELLS) * PAGES;
    let found = loop {
        pace.tick().await;
        let requests = seen.lock().unwrap().len() as u64;
        while let Some((_, act)) = acts.next_if(|(after, _)| *after <= requests) {
            use nix::sys::signal::Signal;
            match act {
                Act::Begin(name) => nodes.begin(name),
                Act::Kill(name) => nodes.kill(name),
                Act::Stop(name) => nodes.signal(name, Signal::SIGSTOP),
                Act::Continue(name) => nodes.signal(name, Signal::SIGCONT),
                Act::KillBroker(number) => brokers.kill(number),
                Act::BeginBroker(number) => brokers.begin(number),
            }
        }
        nodes.tend();
        let found = union(&engine, nodes.folder.path()).await;
        if let Some(found) = found.filter(|found| found.len() as u64 == all) {
            break found;
        }
        assert!(Instant::now() < limit, "{requests} requests, and no end");
    };
    assert!(acts.peek().is_none(), "it was done too early");
    let twice = found.iter().find(|(_, times)| **times != 1);
    assert_eq!(twice, None);
    let mut seen = std::mem::take(&mut *seen.lock().unwrap());
    seen.sort_by_key(|seen| (seen.cell, seen.begin));
    let mut least = Duration::MAX;
    for pair in seen.windows(2) {
        if pair[0].cell == pair[1].cell {
            // Zero if two requests are open at once.
            let gap = pair[1].begin.saturating_duration_since(pair[0].end);
            // The clocks of nodes count whole milliseconds.
            let one = Duration::from_millis(1);
            assert!(gap + one >= DELAY, "cell {}: {gap:?}", pair[0].cell);
            least = least.min(gap);
        }
    }
    println!(
        "{} requests for {all} pages, {} processes, least gap {least:?}",
        seen.len(),
        nodes.begun
    );
}
