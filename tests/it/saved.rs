//! A machine is lost with everything that the job had there, and another one continues from the
//! checkpoint with only the job file.

use std::path::Path;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use spoor::settings::StoreKind;
use spoor_lab::{Behaviour, Fault, Lab};
use tempfile::TempDir;

use super::archiving::{ARCHIVE, agrees_with_log};
use crate::corpus::{NO_S3, object, s3_server};
use crate::support::texts::{plain, tree};
use crate::support::wire::Notes;
use crate::support::{Job, JobText, Live, Ran, Wire, small, spoor};

/// The longest pause of a slow host, for which all hosts rest after a restore.
const MAX_DELAY: Duration = Duration::from_millis(400);

const POLITENESS: &str =
    "min_delay = 0\ndelay_factor = 0\nretries = 0\nback_off = \"1ms\"\nmax_delay = \"400ms\"";

fn rest(kind: StoreKind, store: &Path) -> String {
    rest_of(kind, 1, store)
}

/// The same with this number of cells.
fn rest_of(kind: StoreKind, cells: u16, store: &Path) -> String {
    // The previous section is that of the frontier.
    let section = format!(
        "cells = {cells}\n[checkpoint]\nstore = \"file://{}\"\nevery = \"1s\"\ninterval = \"1s\"\n{ARCHIVE}",
        store.display()
    );
    small::rest(kind, &section)
}

fn text(rest: &str) -> JobText<'_> {
    JobText {
        politeness: POLITENESS,
        ..small::text(rest)
    }
}

fn manifest(store: &Path) -> Option<Value> {
    let bytes = std::fs::read(store.join("manifest.json")).ok()?;
    Some(serde_json::from_slice(&bytes).unwrap())
}

fn number(store: &Path, key: &str) -> u64 {
    manifest(store).and_then(|m| m[key].as_u64()).unwrap_or(0)
}

/// Removes everything that the job had on the machine.
fn lose(job: &Job) {
    std::fs::remove_dir_all(job.folder()).unwrap();
}

/// No host gets a request within its pause after the restart, although the last requests of the
/// lost machine are unknown.
fn check_pauses(wire: &Wire, killed: Instant) {
    let all = wire.requests();
    let hosts: std::collections::BTreeSet<&str> = all.iter().map(|r| r.host.as_str()).collect();
    for host in hosts {
        let own = || all.iter().filter(|r| r.host == host);
        let before = own().filter(|r| r.began < killed).map(|r| r.began).max();
        let after = own().filter(|r| r.began > killed).map(|r| r.began).min();
        if let (Some(_), Some(after)) = (before, after) {
            let pause = after - killed;
            assert!(pause >= MAX_DELAY, "{host} was asked after {pause:?}");
        }
    }
}

fn a_lost_machine(kind: StoreKind, cells: u16, kills: usize) {
    let (undisturbed, _) = small::undisturbed(kind);
    // Slow enough for this many kills.
    let slow = Duration::from_millis(if kills > 1 { 700 } else { 30 });
    let wire = Wire::serve(small::lab(slow));
    let seed = spoor::clock::now();
    println!("the seed of the moments is {seed}");
    let mut dice = ChaCha8Rng::seed_from_u64(seed);
    let store = TempDir::new().unwrap();
    let store = store.path().join("of/job");
    let job = Job::new(&wire, &text(&rest_of(kind, cells, &store)));
    for kill in 0..kills {
        let before = number(&store, "commits");
        let mut process = Live::start(&mut job.crawl());
        let more = if kills > 1 { 8 } else { 40 };
        let is_ahead = |_: &_| number(&store, "commits") > before + more;
        assert!(wire.wait(is_ahead, || process.has_ended()), "kill {kill}");
        let some = wire.requests().len() + dice.random_range(0..20);
        wire.wait(|n| n.requests.len() > some, || process.has_ended());
        assert!(process.kill(), "it was done before kill {kill}");
        wire.settle();
        let killed = Instant::now();
        lose(&job);
        let pages = number(&store, "documents");
        if kill + 1 < kills {
            continue;
        }
        let mut ran = Live::start(&mut job.crawl());
        ran.says("restoring the checkpoint");
        let ran = ran.ended();
        assert!(ran.out.contains("nothing is left to fetch"), "{ran:#?}");
        check_pauses(&wire, killed);
        assert!(pages as usize > kills);
    }
    agrees_with_log(&job);
    let asked = wire.requests().len();
    println!(
        "{} requests, {} undisturbed, {kills} machines lost",
        asked,
        small::TASKS
    );
    assert_eq!(&small::harvest(&job), undisturbed);
    let file = job.file();
    let file = file.to_str().unwrap();
    if cells == 1 {
        let sound = Ran::of(&mut spoor(&["frontier", "check", file])).good();
        assert!(sound.contains("no inconsistencies"), "{sound}");
    }
    let sound = Ran::of(&mut spoor(&["checkpoint", "check", file])).good();
    assert!(
        sound.contains("which has ended") && sound.contains("no damage"),
        "{sound}"
    );
    // Again, for the finished job.
    let saved = Ran::of(&mut spoor(&["checkpoint", "save", "--whole", file])).good();
    assert!(!saved.contains("divided"), "{saved}");
    lose(&job);
    let restored = Ran::of(&mut spoor(&["checkpoint", "restore", file])).good();
    assert!(restored.contains("restored"), "{restored}");
    assert_eq!(&small::harvest(&job), undisturbed);
    let out = job.run();
    assert!(out.contains("nothing is left to fetch"), "{out}");
    assert_eq!(wire.requests().len(), asked, "something was asked again");
}

#[test]
fn a_lost_machine_loses_only_what_came_after_the_checkpoint() {
    a_lost_machine(StoreKind::Sled, 1, 1);
}

#[test]
fn so_it_is_with_several_cells() {
    a_lost_machine(StoreKind::Fjall, 4, 1);
}

#[test]
fn a_bucket_does_as_a_folder_does() {
    let Some((_server, address)) = s3_server() else {
        eprintln!("{NO_S3}");
        return;
    };
    let wire = Wire::serve(small::lab(Duration::from_millis(20)));
    // This server is slow, and an image takes one request.
    let rest = "[images]\nenabled = false\n[frontier]\nstore = \"fjall\"\n[checkpoint]\n\
        store = \"s3://spoor/jobs/one\"\nevery = \"1s\"\n";
    let job = Job::new(&wire, &text(rest));
    let crawl = || {
        let mut command = job.crawl();
        command.env("AWS_ENDPOINT_URL", &address);
        command.env("AWS_ACCESS_KEY_ID", "key");
        command.env("AWS_SECRET_ACCESS_KEY", "secret");
        command
    };
    let manifest = || {
        let bytes = object(&address, "/spoor/jobs/one/manifest.json");
        bytes.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok())
    };
    let pages = || manifest().map_or(0, |m| m["documents"].as_u64().unwrap());
    let mut process = Live::start(&mut crawl());
    assert!(wire.wait(|_| pages() > 10, || process.has_ended()));
    assert!(process.kill());
    wire.settle();
    lose(&job);
    let mut ran = Live::start(&mut crawl());
    ran.says("restoring the checkpoint");
    let ran = ran.ended();
    assert!(ran.out.contains("nothing is left to fetch"), "{ran:#?}");
    let documents: std::collections::BTreeSet<String> =
        job.documents().into_iter().map(|d| d.url).collect();
    assert_eq!((documents.len(), job.documents().len()), (240, 240));
    let last = manifest().unwrap();
    assert_eq!((&last["ended"], &last["term"]), (&true.into(), &2.into()));
}

#[test]
#[ignore = "long"]
fn twenty_lost_machines_cost_no_more_with_sled() {
    a_lost_machine(StoreKind::Sled, 1, 20);
}

#[test]
#[ignore = "long"]
fn twenty_lost_machines_cost_no_more_with_fjall() {
    a_lost_machine(StoreKind::Fjall, 1, 20);
}

/// A pause that a host asks for is saved at once, not with the next checkpoint.
#[test]
fn a_wish_of_a_host_outlives_the_machine() {
    let busy = Fault::Status {
        code: 503,
        retry_after: Some("3600".to_owned()),
    };
    let pages = [
        ("a.test/", plain(&["/1"], &[])),
        ("a.test/1", plain(&["/2"], &[])),
        ("a.test/2", plain(&["/3", "http://b.test/"], &[])),
        ("a.test/3", plain(&["/4"], &[])),
        ("a.test/4", plain(&["/5"], &[])),
        ("a.test/5", plain(&["/6"], &[])),
        ("a.test/6", plain(&[], &[])),
        ("b.test/", plain(&[], &[])),
    ];
    let behaviour = Behaviour::of("b.test").under("/").fault(busy);
    let slow = Behaviour::of("a.test").latency(Duration::from_millis(700));
    let lab = Lab::from_memory(tree(&pages));
    let wire = Wire::serve(lab.with_behaviour(behaviour).with_behaviour(slow));
    let store = TempDir::new().unwrap();
    let rest = format!(
        "[checkpoint]\nstore = \"file://{}\"\nevery = \"12s\"\ninterval = \"1s\"\n",
        store.path().display()
    );
    let text = JobText {
        seeds: &["http://a.test/"],
        politeness: "min_delay = 0\ndelay_factor = 0\nretries = 3\nmax_delay = 0",
        rest: &rest,
        ..JobText::default()
    };
    let job = Job::new(&wire, &text);
    let mut process = Live::start(&mut job.crawl());
    // The first request to the host comes after the first checkpoint, and its pause is saved before
    // the next checkpoint is due.
    assert!(wire.wait(
        |_| number(store.path(), "saved") > 0,
        || process.has_ended()
    ));
    let is_answered = |n: &Notes| {
        n.requests
            .iter()
            .any(|r| r.host == "b.test" && r.ended.is_some())
    };
    assert!(wire.wait(is_answered, || process.has_ended()));
    let first = number(store.path(), "commits");
    let is_sent = |_: &_| number(store.path(), "commits") > first;
    assert!(wire.wait(is_sent, || process.has_ended()));
    assert!(process.kill());
    wire.settle();
    lose(&job);
    let file = job.file();
    let file = file.to_str().unwrap();
    Ran::of(&mut spoor(&["checkpoint", "restore", file])).good();
    let shown = Ran::of(&mut spoor(&["host", "--json", file, "b.test"])).good();
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let due = shown["record"]["due"].as_u64().unwrap();
    assert!(due > spoor::clock::now() + 3_000_000, "{shown}");
}

/// Samples taken down are no longer in the store, and do not come back from there.
#[test]
fn a_takedown_reaches_the_checkpoint() {
    let wire = Wire::serve(small::lab(Duration::ZERO));
    let store = TempDir::new().unwrap();
    let rest = rest(StoreKind::Sled, store.path()) + "[limits]\ndocuments = 60\n";
    let job = Job::new(&wire, &text(&rest));
    job.run();
    let file = job.file();
    let file = file.to_str().unwrap();
    let [_, _, _, _, before] = small::harvest(&job);
    let images = || {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(store.path().join("images")).unwrap() {
            let all = std::fs::read_dir(entry.unwrap().path()).unwrap();
            found.extend(all.map(|e| e.unwrap().file_name().into_string().unwrap()));
        }
        found
    };
    let digests = |job: &Job| -> std::collections::BTreeSet<String> {
        let all = job.sidecars();
        all.iter()
            .map(|s| s["sha256"].as_str().unwrap().to_owned())
            .collect()
    };
    let old = digests(&job);
    assert_eq!(images().len(), old.len());
    Ran::of(&mut spoor(&["takedown", file, "--host", "h1.test"])).good();
    let after = small::harvest(&job);
    assert!(after[4].len() < before.len());
    let now = digests(&job);
    assert!(now.len() < old.len());
    assert_eq!(
        images()
            .into_iter()
            .collect::<std::collections::BTreeSet<_>>(),
        now
    );
    lose(&job);
    Ran::of(&mut spoor(&["checkpoint", "restore", file])).good();
    assert_eq!(small::harvest(&job), after);
    assert!(job.folder().join("takedown.jsonl").exists());
    let sound = Ran::of(&mut spoor(&["checkpoint", "check", file])).good();
    assert!(sound.contains("no damage"), "{sound}");
}

/// A crawl continues while the store is unavailable, and catches up afterwards.
#[test]
fn a_store_that_is_away_stops_nothing() {
    let wire = Wire::serve(small::lab(Duration::from_millis(15)));
    let root = TempDir::new().unwrap();
    let away = root.path().join("away");
    std::fs::write(&away, "no folder").unwrap();
    let store = away.join("store");
    let without = small::rest(StoreKind::Sled, "[limits]\ndocuments = 20\n");
    let job = Job::new(&wire, &text(&without));
    let with = rest(StoreKind::Sled, &store) + "[limits]\ndocuments = 90\n";
    job.write(&wire, &text(&with));
    // If nothing is known about the job, it does not begin from scratch.
    let refused = Ran::of(&mut job.crawl()).refused();
    assert!(refused.contains("the checkpoint: "), "{refused}");
    assert!(wire.requests().is_empty());
    job.write(&wire, &text(&without));
    job.run();
    job.write(&wire, &text(&with));
    let mut process = Live::start(&mut job.crawl());
    process.says("cannot be reached");
    let some = wire.requests().len() + 40;
    assert!(wire.wait(|n| n.requests.len() > some, || process.has_ended()));
    std::fs::remove_file(&away).unwrap();
    process.ended().good();
    let last = manifest(&store).unwrap();
    let result = (&last["ended"], &last["documents"]);
    assert_eq!(result, (&true.into(), &90.into()));
    let before = small::harvest(&job);
    assert_eq!(before[4].len(), 90);
    lose(&job);
    job.run();
    assert_eq!(small::harvest(&job), before);
}

#[test]
fn one_job_is_not_crawled_by_two_machines() {
    let wire = Wire::serve(small::lab(Duration::from_millis(400)));
    let store = TempDir::new().unwrap();
    let rest = rest(StoreKind::Sled, store.path());
    let one = Job::new(&wire, &text(&rest));
    let two = Job::new(&wire, &text(&rest));
    let mut first = Live::start(&mut one.crawl());
    let has_begun = |_: &_| number(store.path(), "saved") > 0;
    assert!(wire.wait(has_begun, || first.has_ended()));
    let file = one.file();
    let status = &["ctl", "--json", file.to_str().unwrap(), "status"];
    let status: Value = serde_json::from_str(&Ran::of(&mut spoor(status)).good()).unwrap();
    let remote = &status["checkpoint"];
    assert!(
        remote["store"].as_str().unwrap().starts_with("file://"),
        "{status}"
    );
    assert!(remote["age_seconds"].as_f64().unwrap() < 60.0, "{status}");
    // The second machine sees that the first one is alive.
    let refused = Ran::of(&mut two.crawl());
    assert_eq!(refused.status.code(), Some(6), "{refused:#?}");
    let said = refused.refused();
    let process = format!("process {}", first.id());
    assert!(
        said.contains(&process) && said.contains("stop it first"),
        "{said}"
    );
    assert!(!two.folder().join("frontier").exists());
    // The operator says that it is gone, and is wrong.
    let file = two.file();
    let file = file.to_str().unwrap();
    Ran::of(&mut spoor(&["checkpoint", "restore", "--take-over", file])).good();
    let ended = first.ended();
    assert_eq!(ended.status.code(), Some(6), "{ended:#?}");
    assert!(ended.err.contains("has taken this job over"), "{ended:#?}");
    // A job cannot be continued in the folder of the first machine by mistake.
    let refused = Ran::of(&mut one.crawl()).refused();
    assert!(refused.contains("from another folder"), "{refused}");
    let file = one.file();
    let file = file.to_str().unwrap();
    let refused = Ran::of(&mut spoor(&["checkpoint", "restore", file])).refused();
    assert!(refused.contains("--replace"), "{refused}");
    let restored = Ran::of(&mut spoor(&["checkpoint", "restore", "--replace", file])).good();
    assert!(restored.contains("is now"), "{restored}");
}
