//! A full disk, a read-only folder, no free descriptor, a second process: each ends in a clear
//! error and a clean stop, and loses nothing.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use spoor::frontier::store::{self, Batch};
use spoor::settings::StoreKind;

use super::archiving::{ARCHIVE, agrees_with_log};
use crate::support::disk::{Mount, run};
use crate::support::{Job, Live, Ran, Wire, small, spoor};

fn finishes_as(job: &Job, harvest: &small::Harvest) {
    let out = job.run();
    assert!(out.contains("nothing is left to fetch"), "{out}");
    assert_eq!(&small::harvest(job), harvest);
    let file = job.file();
    let check = Ran::of(&mut spoor(&["store", "check", file.to_str().unwrap()])).good();
    assert!(check.contains("no inconsistencies"), "{check}");
}

fn a_full_disk_stops_the_crawl_and_loses_nothing(store: StoreKind) {
    let rest = small::rest(store, ARCHIVE);
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
    agrees_with_log(&job);
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

/// Works on any machine: no file may grow beyond a limit (RLIMIT_FSIZE). fjall reserves 64 MB for
/// its journal at once, so its file does not show anything here.
#[test]
fn a_file_that_may_not_grow_stops_the_crawl_and_loses_nothing() {
    let rest = small::rest(StoreKind::Sled, "");
    let (harvest, _) = small::undisturbed(StoreKind::Sled);
    let wire = Wire::serve(small::lab(Duration::ZERO));
    let job = Job::new(&wire, &small::text(&rest));
    let mut limited = Command::new("sh");
    // If the signal is ignored, the call that would exceed the limit fails instead.
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
    process.signal(Signal::SIGTERM);
    assert!(process.ended().stopped().contains("stopped"));
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
        let is_named = refusal.contains("another spoor works on this job");
        assert!(is_named, "{arguments:?}: {refusal}");
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

/// A running crawl cannot open any further descriptor: for the next image, the next sidecar, the
/// next connection.
fn no_descriptor_left_stops_the_crawl_and_loses_nothing(store: StoreKind) {
    let rest = small::rest(store, "");
    let wire = Wire::serve(small::lab(Duration::from_millis(5)));
    let job = Job::new(&wire, &small::text(&rest));
    let mut crawl = Live::start(&mut job.crawl());
    assert!(wire.wait(|n| n.requests.len() >= 100, || crawl.has_ended()));
    let id = crawl.id().to_string();
    let limited = run(Command::new("prlimit").args(["--pid", &id, "--nofile=3:"]));
    if let Err(why) = limited {
        println!("SKIPPED: this machine does not let the test limit a process: {why}");
        return;
    }
    let refusal = crawl.ended().refused();
    for part in [
        job.folder().to_str().unwrap(),
        "Too many open files",
        "ulimit -n",
        "resumes",
    ] {
        assert!(refusal.contains(part), "{part} in {refusal}");
    }
    printed_once(&refusal);
    finishes_as(&job, &small::undisturbed(store).0);
}

/// One line with the reason for the end, and at most one before it about new connections that were
/// refused too.
fn printed_once(refusal: &str) {
    let lines: Vec<&str> = refusal.lines().collect();
    let before = lines[..lines.len() - 1].to_vec();
    let connections = |l: &&str| l.contains("this machine cannot open another connection");
    assert!(lines.last().unwrap().starts_with("spoor: "), "{refusal}");
    assert!(
        before.len() <= 1 && before.iter().all(connections),
        "{refusal}"
    );
}

#[test]
fn no_descriptor_left_with_sled() {
    no_descriptor_left_stops_the_crawl_and_loses_nothing(StoreKind::Sled);
}

#[test]
fn no_descriptor_left_with_fjall() {
    no_descriptor_left_stops_the_crawl_and_loses_nothing(StoreKind::Fjall);
}

/// Each output may be on a separate disk, and any of them may be full.
#[test]
fn whichever_output_has_no_room_is_named_and_nothing_is_lost() {
    for (output, bytes) in [
        ("logs", 40 << 10),
        ("sentences", 12 << 10),
        ("images", 400 << 10),
        ("frontier", 600 << 10),
    ] {
        let rest = small::rest(StoreKind::Sled, "");
        let wire = Wire::serve(small::lab(Duration::ZERO));
        let job = Job::new(&wire, &small::text(&rest));
        let at = job.folder().join(output);
        let Some(disk) = Mount::memory(bytes, &at) else {
            return;
        };
        let refusal = Ran::of(&mut job.crawl()).refused();
        for part in [at.to_str().unwrap(), "space", "resumes"] {
            assert!(refusal.contains(part), "{part} in {refusal}");
        }
        assert_eq!(refusal.lines().count(), 1, "{refusal}");
        let begun = wire.requests().len();
        assert!(
            (30..small::TASKS).contains(&begun),
            "{output}: {begun} requests"
        );
        disk.remount("size=100%");
        finishes_as(&job, &small::undisturbed(StoreKind::Sled).0);
    }
}

/// An ext4 in a file, which becomes read-only when it finds an error, like that of a failing disk.
struct Ext4(PathBuf);

impl Ext4 {
    /// Makes one; `None` if this machine cannot.
    fn make(folder: &Path) -> Option<Self> {
        let image = folder.join("disk");
        let file = std::fs::File::create(&image).unwrap();
        file.set_len(128 << 20).unwrap();
        let made = run(Command::new("mkfs.ext4").args(["-q", "-F", image.to_str().unwrap()]));
        if let Err(why) = made {
            println!("SKIPPED: this machine makes no ext4: {why}");
            return None;
        }
        Some(Self(image))
    }

    fn name(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn mount(&self, at: &Path) -> Option<Mount> {
        Mount::new(&["-o", "loop,errors=remount-ro", self.name()], at)
    }

    /// Makes a mounted one find an error; false if this machine cannot.
    fn fail(&self) -> bool {
        let devices = Command::new("losetup")
            .args(["-nO", "NAME", "-j", self.name()])
            .output();
        let device = String::from_utf8(devices.unwrap().stdout).unwrap();
        let device = device.trim().trim_start_matches("/dev/");
        let trigger = format!("/sys/fs/ext4/{device}/trigger_fs_error");
        let failed = std::fs::write(&trigger, "an error of a test");
        if let Err(why) = &failed {
            println!("SKIPPED: {trigger}: {why}");
        }
        failed.is_ok()
    }
}

/// An ext4 that finds an error and becomes read-only, and the same disk after it was checked and
/// mounted again.
fn a_disk_that_turns_read_only_stops_the_crawl(store: StoreKind) {
    let rest = small::rest(store, "");
    let wire = Wire::serve(small::lab(Duration::from_millis(5)));
    let job = Job::new(&wire, &small::text(&rest));
    let folder = tempfile::tempdir().unwrap();
    let Some(ext4) = Ext4::make(folder.path()) else {
        return;
    };
    let Some(disk) = ext4.mount(&job.folder()) else {
        return;
    };
    let mut crawl = Live::start(&mut job.crawl());
    assert!(wire.wait(|n| n.requests.len() >= 100, || crawl.has_ended()));
    // The process is stopped at the moment of the failure, when everything it has written is on the
    // disk; `powercut` tests what a failing disk loses.
    crawl.signal(Signal::SIGSTOP);
    while crate::support::process::state(crawl.id()) != 'T' {
        std::thread::yield_now();
    }
    run(Command::new("sync").arg("-f").arg(job.folder())).unwrap();
    if !ext4.fail() {
        crawl.kill();
        return;
    }
    crawl.signal(Signal::SIGCONT);
    let refusal = crawl.ended().refused();
    for part in [
        job.folder().to_str().unwrap(),
        "Read-only",
        "permissions",
        "resumes",
    ] {
        assert!(refusal.contains(part), "{part} in {refusal}");
    }
    assert_eq!(refusal.lines().count(), 1, "{refusal}");
    drop(disk);
    // Exit code 1 means that e2fsck has repaired the file system.
    let mended = Command::new("e2fsck")
        .args(["-f", "-p", ext4.name()])
        .output()
        .unwrap();
    assert!(
        mended.status.code().is_some_and(|code| code <= 1),
        "{mended:?}"
    );
    let _disk = ext4.mount(&job.folder()).unwrap();
    finishes_as(&job, &small::undisturbed(store).0);
}

#[test]
fn a_disk_that_turns_read_only_with_sled() {
    a_disk_that_turns_read_only_stops_the_crawl(StoreKind::Sled);
}

/// A crawl closes its store after an error elsewhere. sled then syncs its file, and panics if that
/// fails.
#[test]
fn a_store_is_let_go_of_on_a_disk_that_turned_read_only() {
    for kind in [StoreKind::Sled, StoreKind::Fjall] {
        let folder = tempfile::tempdir().unwrap();
        let Some(ext4) = Ext4::make(folder.path()) else {
            return;
        };
        let at = folder.path().join("mounted");
        std::fs::create_dir(&at).unwrap();
        let Some(_disk) = ext4.mount(&at) else { return };
        let mut store = store::open(kind, &at.join("frontier")).unwrap();
        let mut batch = Batch::default();
        batch.put(b"key".to_vec(), b"value".to_vec());
        store.apply(batch).unwrap();
        store.flush().unwrap();
        if !ext4.fail() {
            return;
        }
        drop(store);
    }
}

#[test]
fn a_disk_that_turns_read_only_with_fjall() {
    a_disk_that_turns_read_only_stops_the_crawl(StoreKind::Fjall);
}
