//! A job that one machine has begun alone goes on as a cluster: nothing is fetched twice, and
//! nothing is lost, also where the adoption is killed at any moment.

use std::path::PathBuf;

use spoor::web::scope::Order;

use super::*;

/// A job that is crawled alone at first, and the cluster that goes on with it.
struct Outgrown {
    cluster: Cluster,
    whole: Wanted,
    store: StoreKind,
}

impl Outgrown {
    fn new(store: StoreKind, more: &'static str) -> Option<Self> {
        let brokers = Brokers::start(1)?;
        let (wire, whole) = web();
        let cluster = Cluster::with(brokers, wire, 2, more);
        Some(Self {
            cluster,
            whole,
            store,
        })
    }

    fn first(&self) -> &Job {
        &self.cluster.machines[0]
    }

    /// Crawls alone until about half of the web was asked for, and is killed or stopped then.
    fn crawl_alone(&self, is_killed: bool) -> Vec<Instant> {
        let job = self.first();
        let file = job.file();
        let text = std::fs::read_to_string(&file).unwrap();
        let begins = text.find("[cluster]").unwrap();
        let ends = text.find("settle = \"1s\"\n").unwrap() + "settle = \"1s\"\n".len();
        let alone = format!("{}{}", &text[..begins], &text[ends..]);
        let alone = alone.replace("\"fjall\"", &format!("{:?}", self.store.name()));
        std::fs::write(&file, alone).unwrap();
        let mut live = Live::start(&mut job.crawl());
        let half = (self.whole.pages.len() + self.whole.images.len()) / 2;
        let is_due = |notes: &Notes| notes.requests.len() >= half;
        self.cluster.wire.wait(is_due, || live.has_ended());
        let mut killed = Vec::new();
        if is_killed {
            assert!(live.kill(), "it ended before it was killed");
            killed.push(Instant::now());
        } else {
            live.signal(nix::sys::signal::Signal::SIGTERM);
            let ran = live.ended();
            assert_eq!(ran.status.code(), Some(143), "{ran:#?}");
        }
        std::fs::write(&file, text).unwrap();
        killed
    }

    fn adopt(&self) -> std::process::Command {
        spoor(&[
            "cluster",
            "adopt",
            "--json",
            self.first().file().to_str().unwrap(),
        ])
    }

    /// Both machines crawl to the end.
    fn finish(&self) {
        let running = [self.cluster.start(0), self.cluster.start(1)];
        for live in running {
            let ran = live.ended();
            assert!(ran.status.success(), "{ran:#?}");
            assert!(ran.out.contains("nothing is left to fetch"), "{}", ran.out);
        }
        for job in &self.cluster.machines {
            assert!(!job.log().is_empty(), "a machine has had nothing to do");
        }
    }

    /// The folders beside that of the first machine, with this in their names.
    fn beside(&self, mark: &str) -> Vec<PathBuf> {
        let root = self.first().folder();
        let entries = std::fs::read_dir(root.parent().unwrap()).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths
            .filter(|path| path.to_str().unwrap().contains(mark))
            .collect()
    }

    /// Pages and images that were fetched more than once.
    fn fetched_twice(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let mut twice = Vec::new();
        for request in self.cluster.wire.requests() {
            let rules = request.path == "/robots.txt" || request.path.contains("tdmrep");
            if request.status == Some(200) && !rules && !seen.insert(request.address()) {
                twice.push(request.address());
            }
        }
        twice
    }
}

fn parsed(out: &str) -> serde_json::Value {
    serde_json::from_str(out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

/// From a store that is closed in good order: every page and every image is asked for once in
/// both phases together.
fn goes_on(store: StoreKind) {
    let Some(job) = Outgrown::new(store, "") else {
        return;
    };
    job.crawl_alone(false);
    let before = done(job.first(), "page");
    let listed = job.first().files("");
    // What an earlier job has saved would be replaced.
    let earlier = job.cluster.store.path().join("sessions");
    std::fs::create_dir_all(earlier.join("m0.1/manifests")).unwrap();
    std::fs::write(earlier.join("m0.1/manifests/0000000001"), "x").unwrap();
    let refused = Ran::of(&mut job.adopt());
    assert!(
        refused.err.contains("know nothing of (m0.1)"),
        "{refused:#?}"
    );
    std::fs::remove_dir_all(&earlier).unwrap();
    let adopted = parsed(&Ran::of(&mut job.adopt()).good());
    let summary = &adopted["adopted"];
    assert_eq!(summary["session"], "m0.1", "{adopted}");
    assert_eq!(summary["cells"], 16, "{adopted}");
    assert_eq!(summary["documents"], before.len(), "{adopted}");
    assert!(summary["filled"].as_u64() > Some(5), "{adopted}");
    assert!(summary["bytes"].as_u64() > Some(10_000), "{adopted}");
    // The folder has what it had, and nothing is left beside it.
    let now = job.first().files("");
    let outputs = |files: &[PathBuf]| -> BTreeSet<PathBuf> {
        let of_outputs = files.iter().filter(|file| !file.starts_with("frontier"));
        of_outputs.cloned().collect()
    };
    assert_eq!(outputs(&now), outputs(&listed));
    assert_eq!(job.beside("adopting"), Vec::<PathBuf>::new());
    // What it has done can be gathered before any machine crawls.
    let gathered = job.cluster.gathered();
    assert_eq!(done(&gathered, "page"), before);
    let again = Ran::of(&mut job.adopt()).refused();
    assert!(again.contains("checkpoints of m0.1"), "{again}");

    job.finish();
    assert_eq!(job.fetched_twice(), Vec::<String>::new());
    check_wire(&job.cluster.wire, &job.whole.forbidden, &[]);
    must_be_whole(&job.cluster.gathered(), &job.whole);
    // The folder of the crawl alone was moved aside, and is whole.
    let aside = job.beside(".before-");
    assert_eq!(aside.len(), 1, "{aside:?}");
    assert!(aside[0].join("frontier").is_dir() && aside[0].join("logs/crawl.jsonl").is_file());
    let file = job.first().file();
    let check = ["cluster", "check", file.to_str().unwrap()];
    let check = Ran::of(&mut spoor(&check)).good();
    assert!(
        check.contains("3 sessions") && check.contains("all is well"),
        "{check}"
    );
}

#[test]
fn a_job_of_one_machine_goes_on_as_a_cluster() {
    goes_on(StoreKind::Fjall);
}

#[test]
fn also_where_its_store_was_sled() {
    goes_on(StoreKind::Sled);
}

/// The crawl alone is killed, and then the adoption again and again: all of it counts or nothing,
/// and what was in flight is all that is asked for twice.
#[test]
fn an_adoption_that_is_killed_is_called_again() {
    let Some(job) = Outgrown::new(StoreKind::Fjall, "[strategy]\nkind = \"learn\"\n") else {
        return;
    };
    let mut killed = job.crawl_alone(true);
    let list = job.first().folder().join("takedown.jsonl");
    let order = Order {
        time: "2026-01-02T03:04:05.000Z".to_owned(),
        target: spoor::web::scope::Target::Host("gone.test".parse().unwrap()),
        reason: None,
    };
    std::fs::write(list, serde_json::to_string(&order).unwrap() + "\n").unwrap();
    let file = job.first().file();
    let file = file.to_str().unwrap();
    let counts = || {
        let status = Ran::of(&mut spoor(&["cluster", "status", "--json", file])).good();
        let status = parsed(&status);
        let sessions = status["sessions"].as_array().into_iter().flatten();
        let mut saved = sessions.map(|s| s["checkpoint"].as_u64().unwrap_or(0));
        saved.any(|checkpoint| checkpoint > 0)
    };
    let store = job.cluster.store.path().join("sessions/m0.1");
    let objects = |name: &str| {
        let found = std::fs::read_dir(store.join(name));
        found.map_or(0, |found| found.count())
    };
    let beside = job.first().folder().with_file_name("job.adopting");
    let moments: [&dyn Fn() -> bool; 5] = [
        &|| beside.join("session.json").exists(),
        &|| beside.join("frontier/keyspaces").exists(),
        &|| objects("base") > 0,
        &|| objects("images") > 0,
        &|| objects("manifests") > 0,
    ];
    for moment in moments {
        let mut live = Live::start(&mut job.adopt());
        live.wait_for(moment);
        live.kill();
        if counts() {
            break;
        }
    }
    let ran = Ran::of(&mut job.adopt());
    let adopted = if ran.status.success() {
        parsed(&ran.out)
    } else {
        // It was killed behind its last step.
        assert!(ran.err.contains("checkpoints of m0.1"), "{ran:#?}");
        serde_json::Value::Null
    };
    assert!(counts(), "{adopted}");
    assert!(
        adopted.is_null() || adopted["adopted"]["takedowns"] == 1,
        "{adopted}"
    );
    killed.push(Instant::now());
    job.finish();
    for job in &job.cluster.machines {
        let list = std::fs::read_to_string(job.folder().join("takedown.jsonl")).unwrap();
        assert!(list.contains("gone.test"), "{list}");
    }
    let twice = job.fetched_twice();
    assert!(twice.len() < 40, "more than was in flight: {twice:?}");
    let gathered = job.cluster.gathered();
    assert_eq!(
        done(&gathered, "image").len(),
        gathered.sidecars().len(),
        "each image once"
    );
    let known = |page: &String| !page.contains("beyond.test");
    let pages: BTreeSet<String> = done(&gathered, "page").into_iter().filter(known).collect();
    let planned: BTreeSet<String> = job
        .whole
        .pages
        .iter()
        .filter(|p| known(p))
        .cloned()
        .collect();
    assert_eq!(pages, planned);
    // The lessons of the crawl alone are those that the machines began with.
    assert!(job.cluster.machines.iter().any(|job| lessons(job) > 1));
}

/// A limit holds for both phases together.
#[test]
fn what_was_done_alone_counts_towards_a_limit() {
    let Some(job) = Outgrown::new(StoreKind::Fjall, "[limits]\ndocuments = 90\n") else {
        return;
    };
    job.crawl_alone(false);
    let alone = done(job.first(), "page").len();
    assert!(alone < 90, "{alone}");
    Ran::of(&mut job.adopt()).good();
    let running = [job.cluster.start(0), job.cluster.start(1)];
    for live in running {
        let ran = live.ended();
        assert!(ran.status.success(), "{ran:#?}");
        assert!(ran.out.contains("limits.documents is reached"), "{ran:#?}");
    }
    let gathered = job.cluster.gathered();
    assert_eq!(gathered.documents().len(), 90);
    assert_eq!(job.fetched_twice(), Vec::<String>::new());
}
