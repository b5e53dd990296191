//! Watching and controlling all machines from any of them, or from a machine that crawls nothing;
//! and finding damage in what they keep.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::super::control_api::socket;
use super::*;
use crate::support::process::GUARD;

/// Runs a command on a job file.
fn run(job: &Job, words: &[&str], more: &[&str]) -> Ran {
    let file = job.file();
    let file = [file.to_str().unwrap()];
    Ran::of(&mut spoor(&[words, &file, more].concat()))
}

fn json(job: &Job, words: &[&str], more: &[&str]) -> Value {
    let out = run(job, words, more).good();
    serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}"))
}

fn status(job: &Job) -> Value {
    json(job, &["cluster", "status", "--json"], &[])
}

/// A machine's session in the status.
fn machine<'s>(status: &'s Value, name: &str) -> &'s Value {
    let sessions = status["sessions"].as_array().unwrap();
    let found = sessions.iter().find(|session| session["machine"] == name);
    found.unwrap_or_else(|| panic!("{name} is not in {status}"))
}

/// Asks again until `so` is true.
fn wait(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < GUARD, "{what} never came");
    }
}

/// Two machines whose crawl lasts longer than the test's requests, even on a busy machine.
fn slow(brokers: Brokers, wire: Wire, delay: &str) -> Cluster {
    let seeds = SEEDS.iter().map(|seed| (*seed).to_owned()).collect();
    let politeness = super::super::kill::job_text();
    let longer = |line: &str| {
        if line.starts_with("min_delay") {
            return format!("min_delay = {delay:?}\n");
        }
        format!("{line}\n")
    };
    let politeness = politeness.lines().map(longer).collect();
    Cluster::of(brokers, wire, 2, "", (seeds, politeness))
}

/// Two machines crawl; both are visible from a machine that only has the job file, and from each
/// other. Then one is drained under load: nothing is lost or repeated.
#[test]
fn one_machine_shows_asks_and_drains_another() {
    let Some(brokers) = Brokers::start(1) else {
        return;
    };
    let (wire, whole) = web();
    let cluster = slow(brokers, wire, "200ms");
    // This machine never crawls, and has no folder.
    let elsewhere = cluster.job(9);
    let empty = run(&elsewhere, &["cluster", "status"], &[]).good();
    assert_eq!(empty, "no machine has begun\n");
    let unknown = run(&elsewhere, &["host"], &["hub.test"]).refused();
    assert!(unknown.contains("no machine has begun"), "{unknown}");

    let [first, second] = [cluster.start(0), cluster.start(1)];
    let both_crawl = || {
        let status = status(&elsewhere);
        let crawls = |name: &str| {
            let sessions = status["sessions"].as_array().into_iter().flatten();
            let mut of = sessions.filter(|session| session["machine"] == name);
            of.any(|s| s["now"]["stage"] == "running" && s["cells"].as_u64() > Some(3))
        };
        status["waiting_cells"] == 0 && crawls("m0") && crawls("m1")
    };
    wait("that both machines crawl", both_crawl);
    let seen = status(&elsewhere);
    assert_eq!(seen["sums"]["live"], 2, "{seen}");
    for name in ["m0", "m1"] {
        let now = &machine(&seen, name)["now"];
        assert!(now["checkpoint_age_seconds"].is_number(), "{seen}");
    }
    let table = run(&elsewhere, &["cluster", "status"], &[]).good();
    assert!(
        table.contains("m0.1") && table.contains("2 live"),
        "{table}"
    );
    assert!(
        table.lines().all(|line| line.chars().count() <= 80),
        "{table}"
    );

    // The page of any machine shows both, and says which one it is on.
    let shown = socket(&cluster.machines[1], "GET /api/cluster", "");
    assert_eq!(shown.status, 200, "{shown:?}");
    let shown = shown.json();
    assert_eq!(machine(&shown, "m1")["this"], true, "{shown}");
    assert_eq!(machine(&shown, "m0")["this"], false, "{shown}");
    assert!(machine(&shown, "m0")["now"].is_object(), "{shown}");
    let metrics = socket(&cluster.machines[1], "GET /metrics", "").body;
    let info = "spoor_cluster_info{node=\"m1\",session=\"1\"} 1";
    assert!(metrics.contains(info), "{metrics}");
    assert!(metrics.contains("\nspoor_cluster_cells "), "{metrics}");
    for (path, has) in [
        ("/dashboard.js", "/api/cluster"),
        ("/dashboard.css", "#cluster"),
    ] {
        let part = socket(&cluster.machines[1], &format!("GET {path}"), "");
        assert!(part.body.contains(has), "{path} has no {has}");
    }
    let own = socket(&cluster.machines[1], "GET /api/status", "").json();
    assert_eq!(own["machine"]["node"], "m1", "{own}");

    let many = whole.pages.len() / 4;
    cluster
        .wire
        .wait(|notes| notes.requests.len() >= many, || false);
    // The machine that has a host knows it, and the other one names that machine.
    let ask = |words: &[&str], what: &str| -> Value {
        let first = run(&cluster.machines[0], words, &[what]);
        if first.status.success() {
            return serde_json::from_str(&first.out).unwrap();
        }
        let refused = first.refused();
        assert!(refused.contains("the machine `m1` has"), "{refused}");
        json(&cluster.machines[1], words, &[what])
    };
    let refused = run(&elsewhere, &["host"], &["hub.test"]).refused();
    assert!(refused.contains("run the command there"), "{refused}");
    let hosts = (0..20).map(|n| format!("h{n:02}.test"));
    let mut contacted = 0;
    for host in hosts.chain(["hub.test".to_owned()]) {
        let report = ask(&["host", "--json"], &host);
        assert_eq!(
            (&report["host"], &report["running"]),
            (&host.into(), &true.into())
        );
        contacted += usize::from(report["record"].is_object());
    }
    assert!(contacted > 5, "only {contacted} hosts were contacted");
    let seed = ask(&["explain", "--json"], "http://hub.test/");
    assert_eq!(seed["known"][0]["kind"], "page", "{seed}");

    let wrong = run(&elsewhere, &["cluster", "drain"], &["m7"]).refused();
    assert!(
        wrong.contains("`m7` is no machine; there are m0, m1"),
        "{wrong}"
    );
    let alive = run(&elsewhere, &["cluster", "forget"], &["m0"]).refused();
    assert!(alive.contains("m0 has just renewed its term"), "{alive}");
    let drained = run(&elsewhere, &["cluster", "drain"], &["m0"]);
    assert!(drained.err.contains("m0 ends: "), "{drained:#?}");
    assert!(drained.good().contains("m0 has ended in good order"));
    let ran = first.ended();
    assert_eq!(ran.status.code(), Some(130), "{ran:#?}");
    let audit = std::fs::read_to_string(cluster.machines[0].folder().join("logs/audit.jsonl"));
    let audit = audit.unwrap();
    assert!(
        audit.contains("spoor cluster drain") && audit.contains("stop"),
        "{audit}"
    );
    let seen = status(&elsewhere);
    assert_eq!(machine(&seen, "m0")["state"], "ended", "{seen}");
    assert_eq!(machine(&seen, "m0")["cells"], 0, "{seen}");
    let again = run(&elsewhere, &["cluster", "drain"], &["m0"]).refused();
    assert!(again.contains("`m0` has ended; there are m1"), "{again}");

    let ran = second.ended();
    assert!(ran.status.success(), "{ran:#?}");
    check_wire(&cluster.wire, &whole.forbidden, &[]);
    must_be_whole(&cluster.gathered(), &whole);
    let seen = status(&elsewhere);
    assert_eq!(seen["phase"], "done", "{seen}");
    assert_eq!(seen["sums"]["pages"], whole.pages.len(), "{seen}");
    let refusal = run(&elsewhere, &["host"], &["hub.test"]).refused();
    assert!(refusal.contains("none lives"), "{refusal}");
    sound_and_damaged(&cluster, &elsewhere);
}

/// The files below a folder whose paths contain `with`.
fn files(root: &Path, with: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_str().unwrap().contains(with) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// A check finds nothing in a sound cluster, and finds each kind of damage of its store.
fn sound_and_damaged(cluster: &Cluster, job: &Job) {
    let store = cluster.store.path();
    for quick in [&[][..], &["--quick"]] {
        let sound = run(job, &["cluster", "check"], quick).good();
        assert!(sound.starts_with("16 cells, 2 sessions, "), "{sound}");
        assert!(sound.contains("all is well"), "{sound}");
    }
    let whole = json(job, &["cluster", "check", "--json"], &[]);
    assert!(whole["objects"].as_u64() > Some(50), "{whole}");
    assert_eq!(whole["wrong"], serde_json::json!([]), "{whole}");

    let found = |quick: bool| {
        let more: &[&str] = if quick { &["--quick"] } else { &[] };
        let ran = run(job, &["cluster", "check"], more);
        let code = ran.status.code();
        assert!(matches!(code, Some(0 | 1)), "{ran:#?}");
        assert_eq!(code == Some(1), ran.err.contains("wrong"), "{ran:#?}");
        ran.out
    };
    let damage = |path: &Path, why: &str, is_seen_quickly: bool, act: &dyn Fn(&Path, Vec<u8>)| {
        let bytes = std::fs::read(path).unwrap();
        act(path, bytes.clone());
        let name = path.strip_prefix(store).unwrap().to_str().unwrap();
        let out = found(false);
        let line = out.lines().find(|line| line.contains(name));
        let line = line.unwrap_or_else(|| panic!("{name} is not in {out}"));
        assert!(line.contains(why), "{line}");
        assert_eq!(found(true).contains(name), is_seen_quickly, "{name}: {why}");
        std::fs::write(path, bytes).unwrap();
    };
    let remove = |path: &Path, _| std::fs::remove_file(path).unwrap();
    let change = |path: &Path, mut bytes: Vec<u8>| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(path, bytes).unwrap();
    };
    let cut =
        |path: &Path, bytes: Vec<u8>| std::fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    // There may be a later checkpoint that does not count yet.
    let last = machine(&status(job), "m1")["checkpoint"].as_u64().unwrap();
    let manifest = store.join(format!("sessions/m1.1/manifests/{last:010}"));
    let named = |with: &str| {
        let manifest = std::fs::read_to_string(&manifest).unwrap();
        let all = files(store, with);
        let is_named = |path: &&PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            manifest.contains(name)
        };
        let one = all.iter().find(is_named);
        one.unwrap_or_else(|| panic!("no {with} is named")).clone()
    };
    damage(&named("/base/"), "missing", true, &remove);
    damage(
        &named("/grown/"),
        "not those that were written",
        false,
        &change,
    );
    damage(
        &named("/base/"),
        "not those that were written",
        false,
        &change,
    );
    damage(&named("/base/"), "were written", true, &cut);
    damage(&manifest, "EOF", true, &cut);
    let image = files(store, "/images/").pop().unwrap();
    damage(&image, "missing", false, &remove);
    damage(&image, "not those that were written", false, &change);

    let stray = store.join("sessions/gone.7/base");
    std::fs::create_dir_all(&stray).unwrap();
    std::fs::write(stray.join("x"), [0; 1_500_000]).unwrap();
    let left = found(false);
    assert!(left.contains("gone.7: 1 objects, 1.5 MB"), "{left}");
    assert!(left.contains("all is well"), "{left}");
}

/// The last machine may be drained; it says that no machine is left to continue. A stopped machine
/// stops reporting, and the status says so.
#[test]
fn a_silent_machine_is_marked_and_the_last_one_can_be_drained() {
    use nix::sys::signal::Signal;
    let Some(brokers) = Brokers::start(1) else {
        return;
    };
    let (wire, _) = web();
    let cluster = slow(brokers, wire, "30s");
    let live = cluster.start(0);
    let job = &cluster.machines[1];
    let crawls = || {
        let status = status(job);
        let sessions = status["sessions"].as_array();
        sessions.is_some_and(|all| all.iter().any(|s| s["now"]["stage"] == "running"))
    };
    wait("a machine that crawls", crawls);
    live.signal(Signal::SIGSTOP);
    wait("silence", || machine(&status(job), "m0")["now"].is_null());
    let silent = status(job);
    let problem = machine(&silent, "m0")["problem"].as_str().unwrap();
    let words = "nothing was heard of the machine `m0` for";
    assert!(problem.contains(words), "{problem}");
    let table = run(job, &["cluster", "status"], &[]).good();
    assert!(
        table.contains("live ?") && table.contains("? nothing was heard"),
        "{table}"
    );
    let refused = run(job, &["cluster", "drain"], &["m0"]).refused();
    assert!(refused.contains(words), "{refused}");
    assert!(refused.contains("spoor cluster forget"), "{refused}");
    live.signal(Signal::SIGCONT);
    wait("a sign of life", crawls);
    let drained = run(job, &["cluster", "drain"], &["m0"]);
    assert!(
        drained.err.contains("m0 is the last machine"),
        "{drained:#?}"
    );
    assert!(drained.good().contains("wait for a machine"));
    let ran = live.ended();
    assert_eq!(ran.status.code(), Some(130), "{ran:#?}");
    let refusal = run(job, &["explain"], &["http://hub.test/"]).refused();
    assert!(refusal.contains("none lives"), "{refusal}");
}
