//! A full disk, a read-only folder, a second process: each ends in a clear error
//! and a clean stop, and loses nothing.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use spoor::config::StoreKind;

use crate::support::disk::Mount;
use crate::support::{Job, Live, Ran, Wire, small, spoor};

fn finishes_as(job: &Job, harvest: &small::Harvest) {
    let out = job.run();
    assert!(out.contains("nothing is left to fetch"), "{out}");
    assert_eq!(&small::harvest(job), harvest);
    let file = job.file();
    let check = Ran::of(&mut spoor(&["store", "check", file.to_str().unwrap()])).good();
    assert!(check.contains("everything holds together"), "{check}");
}

fn a_full_disk_stops_the_crawl_and_loses_nothing(store: StoreKind) {
    let rest = small::rest(store, "");
    let (harvest, bytes) = small::undisturbed(store);
    let wire = Wire::serve(small::lab(Duration::ZERO));
    let job = Job::new(&wire, &small::text(&rest));
    let share = |percent: u64| bytes * percent / 100;
    let Some(disk) = Mount::memory(share(20), &job.folder()) else {
        return;
    };
    for percent in [20, 40, 60, 80] {
        disk.remount(&format!("size={}", share(percent)));
        let refusal = Ran::of(&mut job.crawl()).refused();
        for part in [job.folder().to_str().unwrap(), "space", "resumes"] {
            assert!(refusal.contains(part), "{part} at {percent} % in {refusal}");
        }
    }
    disk.remount("size=100%");
    finishes_as(&job, harvest);
    let asked = wire.requests().len();
    println!(
        "{}: {asked} requests, {bytes} bytes undisturbed",
        store.name()
    );
}

#[test]
fn a_full_disk_with_sled() {
    a_full_disk_stops_the_crawl_and_loses_nothing(StoreKind::Sled);
}

#[test]
fn a_full_disk_with_fjall() {
    a_full_disk_stops_the_crawl_and_loses_nothing(StoreKind::Fjall);
}

/// What any machine permits: no file may grow beyond a limit (RLIMIT_FSIZE).
/// fjall sets aside 64 MB for its journal at once, so its file is no measure.
#[test]
fn a_file_that_may_not_grow_stops_the_crawl_and_loses_nothing() {
    let rest = small::rest(StoreKind::Sled, "");
    let (harvest, _) = small::undisturbed(StoreKind::Sled);
    let wire = Wire::serve(small::lab(Duration::ZERO));
    let job = Job::new(&wire, &small::text(&rest));
    let mut limited = Command::new("sh");
    // Ignored, the signal becomes an error of the call that would exceed it.
    let script = "trap '' XFSZ; ulimit -f 150; exec \"$@\"";
    limited.args(["-c", script, "sh", env!("CARGO_BIN_EXE_spoor"), "crawl"]);
    limited.arg(job.file());
    let refusal = Ran::of(&mut limited).refused();
    assert!(
        refusal.contains(job.folder().to_str().unwrap()),
        "{refusal}"
    );
    assert!(refusal.contains("File too large"), "{refusal}");
    finishes_as(&job, harvest);
}

/// Crawls until `requests` were made, then stops in good order.
fn begin(job: &Job, wire: &Wire, requests: usize) {
    let mut process = Live::start(&mut job.crawl());
    assert!(wire.wait(|n| n.requests.len() >= requests, || process.has_ended()));
    process.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(process.ended().good().contains("stopped"));
}

fn a_read_only_folder_is_refused(store: StoreKind) {
    let rest = small::rest(store, "");
    let (harvest, _) = small::undisturbed(store);
    let wire = Wire::serve(small::lab(Duration::from_millis(5)));
    let job = Job::new(&wire, &small::text(&rest));
    let Some(disk) = Mount::memory(512 << 20, &job.folder()) else {
        return;
    };
    begin(&job, &wire, 100);
    disk.remount("ro");
    let asked = wire.requests().len();
    let refusal = Ran::of(&mut job.crawl()).refused();
    for part in [job.folder().to_str().unwrap(), "Read-only", "permissions"] {
        assert!(refusal.contains(part), "{part} in {refusal}");
    }
    assert_eq!(wire.requests().len(), asked, "nothing is asked for nothing");
    disk.remount("rw");
    finishes_as(&job, harvest);
}

#[test]
fn a_read_only_folder_with_sled() {
    a_read_only_folder_is_refused(StoreKind::Sled);
}

#[test]
fn a_read_only_folder_with_fjall() {
    a_read_only_folder_is_refused(StoreKind::Fjall);
}

fn a_second_process_is_refused_and_harms_nothing(store: StoreKind) {
    let rest = small::rest(store, "");
    let (harvest, _) = small::undisturbed(store);
    let wire = Wire::serve(small::lab(Duration::from_millis(5)));
    let job = Job::new(&wire, &small::text(&rest));
    let mut first = Live::start(&mut job.crawl());
    assert!(wire.wait(|n| n.requests.len() > 50, || first.has_ended()));
    let (file, archive) = (job.file(), job.folder().join("x.jsonl.gz"));
    let [file, archive] = [&file, &archive].map(|p: &std::path::PathBuf| p.to_str().unwrap());
    let others: [&[&str]; 7] = [
        &["crawl", file],
        &["store", "check", file],
        &["store", "check", file, "--repair"],
        &["store", "compact", file],
        &["store", "convert", file, "--to", "sled"],
        &["store", "export", file, archive],
        &["store", "import", file, archive],
    ];
    for arguments in others {
        let refusal = Ran::of(&mut spoor(arguments)).refused();
        let told = refusal.contains("another spoor works on this job");
        assert!(told, "{arguments:?}: {refusal}");
    }
    assert!(!first.has_ended(), "it was too quick for the others");
    assert!(first.ended().good().contains("nothing is left to fetch"));
    assert!(!Path::new(archive).exists());
    assert_eq!(&small::harvest(&job), harvest);
}

#[test]
fn a_second_process_with_sled() {
    a_second_process_is_refused_and_harms_nothing(StoreKind::Sled);
}

#[test]
fn a_second_process_with_fjall() {
    a_second_process_is_refused_and_harms_nothing(StoreKind::Fjall);
}
