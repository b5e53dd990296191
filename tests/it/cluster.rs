//! Several machines crawl one web together, as processes with real brokers, against a web that
//! records every request. Together they fetch what one machine fetches, each page once, and no host
//! gets a request too soon, even if machines are killed.

mod faults;
mod lab_web;
mod orders;
mod soak;
mod stores;
mod views;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use spoor::config::Config;
use spoor::crawl::checkpoint;
use spoor::frontier::Cells;
use spoor::settings::StoreKind;
use spoor::web::scope::Scope;
use spoor_lab::{Behaviour, Lab};

use super::kill::{Plan, check_wire, plan};
use super::politeness::{crawl_of_neighbours, may_mount};
use crate::corpus::{NO_S3, s3_server};
use crate::support::broker::{Brokers, check_configuration};
use crate::support::texts::{plain, tree};
use crate::support::wire::{Notes, Seen, too_close};
use crate::support::{Job, JobText, Live, Ran, Wire, spoor};

const SEEDS: &[&str] = &["http://hub.test/", "http://h00.test/"];

/// The machines of a cluster, each with its own folder.
struct Cluster {
    brokers: Brokers,
    store: tempfile::TempDir,
    /// If set, an S3 server that holds the store.
    bucket: Option<(Live, String)>,
    wire: Wire,
    /// Further sections of the job.
    more: &'static str,
    machines: Vec<Job>,
    seeds: Vec<String>,
    politeness: String,
}

impl Cluster {
    fn new(brokers: Brokers, wire: Wire, machines: usize) -> Self {
        Self::with(brokers, wire, machines, "")
    }

    fn with(brokers: Brokers, wire: Wire, machines: usize, more: &'static str) -> Self {
        let seeds = SEEDS.iter().map(|seed| (*seed).to_owned()).collect();
        Self::of(
            brokers,
            wire,
            machines,
            more,
            (seeds, super::kill::job_text()),
        )
    }

    fn of(
        brokers: Brokers,
        wire: Wire,
        machines: usize,
        more: &'static str,
        (seeds, politeness): (Vec<String>, String),
    ) -> Self {
        let mut cluster = Self {
            brokers,
            store: tempfile::tempdir().unwrap(),
            bucket: None,
            wire,
            more,
            machines: Vec::new(),
            seeds,
            politeness,
        };
        cluster.place(machines);
        cluster
    }

    /// Gives this number of machines their job files.
    fn place(&mut self, machines: usize) {
        self.machines = (0..machines).map(|number| self.job(number)).collect();
    }

    /// Uses a bucket as the store.
    fn in_bucket(mut self, bucket: (Live, String)) -> Self {
        self.bucket = Some(bucket);
        self.place(self.machines.len());
        self
    }

    /// Adds the variables that a command needs to reach the store.
    fn reaching(&self, mut command: Command) -> Command {
        if let Some((_, address)) = &self.bucket {
            command.env("AWS_ENDPOINT_URL", address);
            command.env("AWS_ACCESS_KEY_ID", "key");
            command.env("AWS_SECRET_ACCESS_KEY", "secret");
        }
        command
    }

    /// The address of the store.
    fn store(&self) -> String {
        match self.bucket {
            Some(_) => "s3://spoor/clusters/one".to_owned(),
            None => format!("file://{}", self.store.path().display()),
        }
    }

    fn job(&self, number: usize) -> Job {
        let rest = format!(
            "[images]\nmin_width = 20\nmin_height = 20\n\
             [buckets]\nboundaries = \"fixed\"\n\
             high = 140\nmedium = 200\nnormal = 300\nrazor = 550\n\
             [consent]\ntdmrep = true\n\
             [frontier]\nstore = \"fjall\"\n\
             [cluster]\nbrokers = {}\nreplicas = {}\nnode = \"m{number}\"\n\
             store = \"{}\"\ncells = 16\nterm = \"5s\"\ncheckpoint = \"2s\"\n\
             linger = \"200ms\"\nsettle = \"1s\"\n{}",
            self.brokers.list(),
            self.brokers.count(),
            self.store(),
            self.more,
        );
        let seeds: Vec<&str> = self.seeds.iter().map(String::as_str).collect();
        let text = JobText {
            seeds: &seeds,
            politeness: &self.politeness,
            rest: &rest,
            ..JobText::default()
        };
        Job::new(&self.wire, &text)
    }

    fn start(&self, number: usize) -> Live {
        Live::start(&mut self.reaching(self.machines[number].crawl()))
    }
}

/// What all machines must fetch, and what they must not request.
struct Wanted {
    pages: BTreeSet<String>,
    images: BTreeMap<String, BTreeSet<String>>,
    forbidden: Vec<String>,
}

/// A served web, and its contents.
fn web() -> (Wire, Wanted) {
    let Plan {
        lab,
        pages,
        images,
        forbidden,
        ..
    } = plan(20);
    let wanted = Wanted {
        pages,
        images,
        forbidden,
    };
    (Wire::serve(lab), wanted)
}

impl Cluster {
    /// Gathers the last checkpoints of all machines into one job.
    fn gathered(&self) -> Job {
        let gathered = self.job(0);
        let file = self.machines[0].file();
        let into = gathered.folder();
        let [file, into] = [&file, &into].map(|path| path.to_str().unwrap());
        let gather = spoor(&["cluster", "gather", file, "--into", into]);
        let out = Ran::of(&mut self.reaching(gather)).good();
        assert!(out.contains("the outputs of"), "{out}");
        let record = gathered.folder().join("job.toml");
        let report = ["report", record.to_str().unwrap()];
        Ran::of(&mut spoor(&report)).good();
        gathered
    }
}

/// The addresses of one kind that the log reports as done. Each must occur once.
fn done(job: &Job, kind: &str) -> BTreeSet<String> {
    let mut done = BTreeSet::new();
    for row in job.log() {
        if row["kind"] == kind && row["outcome"] == "done" {
            let url = row["url"].as_str().unwrap().to_owned();
            assert!(done.insert(url), "done twice: {row}");
        }
    }
    done
}

/// Asserts that the gathered job matches the plan of the web: each page and image once, with a
/// document for each page.
fn must_be_whole(job: &Job, whole: &Wanted) {
    assert_eq!(done(job, "page"), whole.pages);
    let planned: BTreeSet<String> = whole.images.keys().cloned().collect();
    assert_eq!(done(job, "image"), planned);
    let mut documents = BTreeSet::new();
    for document in job.documents() {
        let url = document.url.clone();
        assert!(documents.insert(url), "{} has two documents", document.url);
    }
    assert_eq!(documents, whole.pages);
    let mut contexts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for sidecar in job.sidecars() {
        let file = job.folder().join(sidecar["file"].as_str().unwrap());
        let bytes = std::fs::metadata(file).unwrap().len();
        assert_eq!(Some(bytes), sidecar["bytes"].as_u64());
        let pages = sidecar["contexts"].as_array().unwrap().iter();
        let pages = pages.map(|c| c["page"].as_str().unwrap().to_owned());
        let url = sidecar["url"].as_str().unwrap().to_owned();
        assert!(contexts.insert(url, pages.collect()).is_none());
    }
    assert_eq!(contexts, whole.images);
}

/// How many messages about what pages taught a machine had read when it ended.
fn lessons(job: &Job) -> u64 {
    let config = Config::load(&job.file()).unwrap();
    let (policy, scope) = (
        checkpoint::policy(&config),
        Scope::new(config.scope.clone()),
    );
    let cells = checkpoint::cells_of(&config);
    let folder = job.folder().join("frontier");
    let cells = Cells::open(StoreKind::Fjall, &folder, cells, policy, scope).unwrap();
    cells.learned_place().unwrap()
}

/// A real server accepts the broker configurations of the guide and of `config/compose.yaml`.
#[test]
fn shipped_configurations_of_brokers_are_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let compose = read("config/compose.yaml");
    let block = compose.split_once("    content: |\n").unwrap().1;
    let lines = block.lines().take_while(|line| line.starts_with("      "));
    let of_compose = lines.map(str::trim_start).collect::<Vec<_>>().join("\n");
    let guide = read("src/guide/clusters.md");
    let block = guide.split_once("```text\nserver_name").unwrap().1;
    let of_guide = format!("server_name{}", block.split_once("```").unwrap().0);
    // The server reads the certificate files; the file of accounts comes from `nsc` and is left
    // out.
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let own = rcgen::generate_simple_self_signed(["n1".to_owned()]).unwrap();
    std::fs::write(at("n1.pem"), own.cert.pem()).unwrap();
    std::fs::write(at("n1.key"), own.signing_key.serialize_pem()).unwrap();
    let block = guide.split_once("```text\ninclude").unwrap().1;
    let closing = format!("include{}", block.split_once("```").unwrap().0);
    let closing = closing.replace("/etc/nats", &at(""));
    let closing = closing.replace("include \"accounts.conf\"\n", "");
    let closed = format!("{of_guide}{closing}");
    for text in [of_compose.replace("$$", "$"), of_guide, closed] {
        assert!(text.contains("sync_interval: always"), "{text}");
        let Some(said) = check_configuration(&text) else {
            return;
        };
        assert!(
            said.contains("configuration file") && said.contains("is valid"),
            "{said}"
        );
    }
    let wrong = check_configuration("listen: {").unwrap();
    assert!(!wrong.contains("is valid"), "{wrong}");
}

/// The checkpoints are in a bucket here, if there is an S3 server; all other tests use a folder.
#[test]
#[ignore = "long: two minutes, as this server takes long for each image"]
fn two_machines_fetch_what_one_does_with_a_bucket() {
    let (Some(brokers), Some(bucket)) = (Brokers::start(1), s3_server()) else {
        eprintln!("{NO_S3}");
        return;
    };
    let (wire, whole) = web();
    let cluster = Cluster::new(brokers, wire, 2).in_bucket(bucket);
    let killed = kill_some(&cluster, 1, whole.pages.len(), "nothing is left to fetch");
    check_wire(&cluster.wire, &whole.forbidden, &killed);
    must_be_whole(&cluster.gathered(), &whole);
    let file = cluster.machines[0].file();
    let check = spoor(&["cluster", "check", file.to_str().unwrap()]);
    let checked = Ran::of(&mut cluster.reaching(check)).good();
    assert!(checked.contains("all is well"), "{checked}");
    assert_eq!(std::fs::read_dir(cluster.store.path()).unwrap().count(), 0);
}

#[test]
fn two_machines_fetch_what_one_does() {
    let Some(brokers) = Brokers::start(1) else {
        return;
    };
    let (wire, whole) = web();
    let cluster = Cluster::new(brokers, wire, 2);
    let running = [cluster.start(0), cluster.start(1)];
    for live in running {
        let ran = live.ended();
        assert!(ran.status.success(), "{ran:#?}");
        assert!(ran.out.contains("nothing is left to fetch"), "{}", ran.out);
    }
    check_wire(&cluster.wire, &whole.forbidden, &[]);
    must_be_whole(&cluster.gathered(), &whole);
    for job in &cluster.machines {
        assert!(!job.log().is_empty(), "a machine has had nothing to do");
    }
    let file = cluster.machines[0].file();
    let file = file.to_str().unwrap();
    let status = Ran::of(&mut spoor(&["cluster", "status", file])).good();
    assert!(status.contains("the job is done"), "{status}");
    assert!(status.lines().all(|line| line.len() <= 80), "{status}");
    let ended = Ran::of(&mut spoor(&["cluster", "end", file])).good();
    assert!(ended.contains("18 streams removed"), "{ended}");
    let status = Ran::of(&mut spoor(&["cluster", "status", file])).good();
    assert_eq!(status, "no machine has begun\n");
}

/// A machine that ended by itself must say what to do.
fn must_begin_anew(ran: &Ran) {
    let says = ran.err.contains("begins a new session");
    assert!(!ran.status.success() && says, "{ran:#?}");
}

/// Waits for a machine to end. If others have ended its session, starts it again, as a service
/// manager does.
fn come_to_an_end(live: Live, begin_again: impl FnOnce() -> Live) -> Ran {
    let mut ran = live.ended();
    if !ran.status.success() {
        must_begin_anew(&ran);
        ran = begin_again().ended();
    }
    assert!(ran.status.success(), "{ran:#?}");
    ran
}

/// Twelve hosts in different cells, all on one IP address: two machines together send it requests
/// no more often than one machine alone.
#[test]
fn two_machines_share_the_clock_of_an_address() {
    if !may_mount() {
        return;
    }
    let Some(brokers) = Brokers::start(1) else {
        return;
    };
    let names: Vec<String> = (0..12).map(|n| format!("host{n}.example")).collect();
    let mut pages = Vec::new();
    for name in &names {
        pages.push((format!("{name}/"), plain(&["/1", "/2"], &[])));
        pages.push((format!("{name}/1"), plain(&[], &[])));
        pages.push((format!("{name}/2"), plain(&[], &[])));
    }
    let pages: Vec<(&str, String)> = pages.iter().map(|(a, p)| (a.as_str(), p.clone())).collect();
    let mut lab = Lab::from_memory(tree(&pages));
    // Makes requests that are sent at the same time visible as such.
    let latency = Duration::from_millis(40);
    for name in &names {
        lab = lab.with_behaviour(Behaviour::of(name).latency(latency));
    }
    let wire = Wire::serve(lab);
    let port = wire.addr.port();
    let seeds = names.iter().map(|name| format!("http://{name}:{port}/"));
    let politeness = "min_delay = 0\ndelay_factor = 0\naddress_delay = \"100ms\"";
    let text = (seeds.collect(), politeness.to_owned());
    let cluster = Cluster::of(brokers, wire, 2, "", text);
    let start = |job: &Job| Live::start(&mut crawl_of_neighbours(job, &names));
    let running: Vec<Live> = cluster.machines.iter().map(start).collect();
    for live in running {
        let ran = live.ended();
        assert!(ran.status.success(), "{ran:#?}");
    }
    let mut done = BTreeSet::new();
    for job in &cluster.machines {
        assert!(!job.log().is_empty(), "a machine has had nothing to do");
        done.extend(self::done(job, "page"));
    }
    assert_eq!(done.len(), 3 * names.len(), "{done:?}");
    // All hosts are on one address, so treat them as one.
    let one = |seen: Seen| Seen {
        host: "127.0.0.1".to_owned(),
        path: seen.address(),
        ..seen
    };
    let requests: Vec<Seen> = cluster.wire.requests().into_iter().map(one).collect();
    assert!(requests.len() >= 5 * names.len(), "{}", requests.len());
    let wrong = too_close(&requests, |_| Duration::from_millis(100));
    assert_eq!(wrong, Vec::<String>::new());
}

/// Kills each machine in turn at some moment, and restarts it at once or when the others have taken
/// over its hosts. `least` is the minimum total number of requests. Returns the times of the kills.
fn kill_some(cluster: &Cluster, kills: usize, least: usize, reason: &str) -> Vec<Instant> {
    let machines = cluster.machines.len();
    let seed = match std::env::var("SPOOR_KILL_SEED") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => spoor::clock::now(),
    };
    println!("SPOOR_KILL_SEED={seed}");
    let mut dice = ChaCha8Rng::seed_from_u64(seed);
    let mut running: Vec<Option<Live>> = (0..machines).map(|n| Some(cluster.start(n))).collect();
    let mut killed = Vec::new();
    for kill in 0..kills {
        // Leaves requests for the kills that follow, whatever the dice say.
        let share = least * (kill + 1) / (kills + 2);
        let requests = cluster.wire.notes().requests.len();
        let until = requests + dice.random_range(0..=share.saturating_sub(requests));
        let has_ended = || running.iter_mut().flatten().any(Live::has_ended);
        let is_due = |notes: &Notes| notes.requests.len() >= until;
        cluster.wire.wait(is_due, has_ended);
        let number = kill % machines;
        let others = running.iter().flatten().count() > 1;
        let Some(live) = &mut running[number] else {
            running[number] = Some(cluster.start(number));
            continue;
        };
        if !live.kill() {
            // Others have ended its session, because it was silent for too long.
            let ran = running[number].take().map(Live::ended).unwrap();
            must_begin_anew(&ran);
            running[number] = Some(cluster.start(number));
            continue;
        }
        killed.push(Instant::now());
        // At least one machine must continue, or nothing would ever happen again.
        let is_gone = others && dice.random_bool(0.5);
        running[number] = (!is_gone).then(|| cluster.start(number));
    }
    println!("{} kills", killed.len());
    for (number, live) in running.iter_mut().enumerate() {
        live.get_or_insert_with(|| cluster.start(number));
    }
    for (number, live) in running.into_iter().flatten().enumerate() {
        let ran = come_to_an_end(live, || cluster.start(number));
        assert!(ran.out.contains(reason), "{ran:#?}");
    }
    println!("{} requests", cluster.wire.requests().len());
    killed
}

fn kill_machines(machines: usize, brokers: usize, kills: usize) {
    let Some(brokers) = Brokers::start(brokers) else {
        return;
    };
    let (wire, whole) = web();
    let least = whole.pages.len() + whole.images.len();
    let cluster = Cluster::new(brokers, wire, machines);
    let killed = kill_some(&cluster, kills, least, "nothing is left to fetch");
    check_wire(&cluster.wire, &whole.forbidden, &killed);
    must_be_whole(&cluster.gathered(), &whole);
}

/// A machine that joins while others crawl gets its share, and a stopped machine gives its hosts
/// away, without any loss or repetition.
#[test]
fn machines_come_and_go_while_others_crawl() {
    let Some(brokers) = Brokers::start(1) else {
        return;
    };
    let (wire, whole) = web();
    let least = whole.pages.len() + whole.images.len();
    let cluster = Cluster::new(brokers, wire, 3);
    let [first, second] = [cluster.start(0), cluster.start(1)];
    let asked = |part: usize| {
        let is_due = |notes: &Notes| notes.requests.len() >= least / part;
        cluster.wire.wait(is_due, || false);
    };
    asked(5);
    let third = cluster.start(2);
    asked(2);
    first.signal(nix::sys::signal::Signal::SIGTERM);
    let ran = first.ended();
    assert_eq!(ran.status.code(), Some(143), "{ran:#?}");
    assert!(ran.out.contains("cluster gather"), "{ran:#?}");
    for live in [second, third] {
        let ran = live.ended();
        assert!(ran.status.success(), "{ran:#?}");
    }
    // Nothing was lost, so nothing is fetched again.
    check_wire(&cluster.wire, &whole.forbidden, &[]);
    let pages = cluster.wire.requests();
    let mut seen = BTreeSet::new();
    for request in pages.iter().filter(|r| r.status == Some(200)) {
        let is_new = seen.insert(request.address());
        let rules = request.path == "/robots.txt" || request.path.contains("tdmrep");
        assert!(is_new || rules, "{} was fetched twice", request.address());
    }
    must_be_whole(&cluster.gathered(), &whole);
}

/// A limit holds for all machines together: even if machines are killed, exactly that many
/// documents are gathered.
#[test]
fn machines_that_are_killed_keep_a_limit_together() {
    let Some(brokers) = Brokers::start(1) else {
        return;
    };
    let (wire, mut whole) = web();
    // Learning may lift a page above the razor.
    whole
        .forbidden
        .retain(|address| !address.starts_with("beyond.test"));
    let more = "[limits]\ndocuments = 100\n[strategy]\nkind = \"learn\"\n";
    let cluster = Cluster::with(brokers, wire, 3, more);
    let killed = kill_some(&cluster, 4, 100, "limits.documents is reached");
    check_wire(&cluster.wire, &whole.forbidden, &killed);
    let gathered = cluster.gathered();
    let pages = done(&gathered, "page");
    let is_known = |page: &&String| !page.contains("beyond.test");
    assert!(
        pages
            .iter()
            .filter(is_known)
            .all(|page| whole.pages.contains(page))
    );
    let documents = Vec::from_iter(gathered.documents().into_iter().map(|found| found.url));
    assert_eq!(documents.len(), 100, "as many as the limit says");
    assert_eq!(BTreeSet::from_iter(documents), pages);
    // Each page that a link leads to teaches all machines.
    let lessons = cluster.machines.iter().map(lessons).max();
    assert!(lessons > Some(20), "{lessons:?} messages");
}

#[test]
fn machines_that_are_killed_bring_the_same() {
    kill_machines(3, 1, 5);
}

/// Crawls with machines until about this many events, calls `act`, and waits for all to end. A
/// machine whose session others have ended is restarted, as by a service manager.
fn disturb(machines: usize, brokers: usize, act: impl FnOnce(&mut Cluster, &mut [Live])) {
    let Some(brokers) = Brokers::start(brokers) else {
        return;
    };
    let (wire, whole) = web();
    let events = whole.pages.len();
    let mut cluster = Cluster::new(brokers, wire, machines);
    let mut running: Vec<Live> = (0..machines).map(|n| cluster.start(n)).collect();
    cluster
        .wire
        .wait(|notes| notes.events() >= events, || false);
    let disturbed = Instant::now();
    act(&mut cluster, &mut running);
    for (number, live) in running.into_iter().enumerate() {
        come_to_an_end(live, || cluster.start(number));
    }
    check_wire(&cluster.wire, &whole.forbidden, &[disturbed]);
    must_be_whole(&cluster.gathered(), &whole);
}

/// A stopped process that continues sends no requests: others have its hosts.
#[test]
fn a_machine_that_was_frozen_asks_nothing_on_waking() {
    use nix::sys::signal::Signal;
    disturb(2, 1, |cluster, running| {
        running[0].signal(Signal::SIGSTOP);
        let frozen = Instant::now();
        // Others take over its hosts after 1.6 terms of silence; then it continues.
        let of_frozen = |cluster: &Cluster| {
            let file = cluster.machines[1].file();
            let asked = ["cluster", "status", "--json", file.to_str().unwrap()];
            let status = Ran::of(&mut spoor(&asked)).good();
            let status: serde_json::Value = serde_json::from_str(&status).unwrap();
            let sessions = status["sessions"].as_array().unwrap();
            let of = sessions.iter().find(|s| s["machine"] == "m0").unwrap();
            of["state"].as_str().unwrap().to_owned()
        };
        while of_frozen(cluster) == "live" {
            assert!(
                frozen.elapsed().as_secs() < 120,
                "no machine ends its session"
            );
        }
        running[0].signal(Signal::SIGCONT);
    });
}

/// While no broker answers, no requests are sent; when one does, all machines continue.
#[test]
fn without_a_broker_nothing_is_fetched() {
    disturb(2, 1, |cluster, running| {
        cluster.brokers.kill(0);
        // A term, and the duration of a request.
        let silent = cluster.wire.silence(std::time::Duration::from_secs(8));
        assert!(silent, "hosts are asked without a broker");
        assert!(running.iter_mut().all(|live| !live.has_ended()));
        let file = cluster.machines[0].file();
        let asked = ["cluster", "status", file.to_str().unwrap()];
        let status = Ran::of(&mut spoor(&asked));
        let words = format!("{} does not answer: ", cluster.brokers.addresses()[0]);
        assert!(status.err.contains(&words), "{status:#?}");
        cluster.brokers.begin(0);
    });
}

#[test]
#[ignore = "long: some minutes"]
fn machines_that_are_killed_often_bring_the_same() {
    kill_machines(4, 3, 24);
}
