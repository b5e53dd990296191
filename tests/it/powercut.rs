//! After a power failure at any instant, all flushed data is there, and the crawl continues to the
//! end of an undisturbed one.
//!
//! A crawl runs on an ext4 in a file. At a random instant the process is stopped and the file
//! copied: a disk would contain exactly what has reached the file by then. The copy is mounted
//! (ext4 replays its journal), the store checked, and the crawl resumed on it. Every second file
//! system is mounted with `commit=1000`, so that only synced data has reached the disk; the others
//! with ext4's own 5 seconds.
//!
//! A flush is visible from outside by the number that it leaves in `frontier/flushed`: everything
//! in the log at one flush must be there after the next, in the store and in the log. fjall must
//! keep that. sled may refuse to open, or report that it has come back older; it must never lose
//! flushed data silently.
//!
//! A printed seed determines the instants; `SPOOR_POWER_SEED` repeats them, as far as a race can be
//! repeated.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use spoor::settings::StoreKind;

use crate::support::disk::{Mount, run};
use crate::support::{Job, Live, Ran, Wire, small, spoor};

/// The size in bytes of the file system of the crawl.
const IMAGE: u64 = 96 << 20;

/// What is known about the flushes of a running crawl.
#[derive(Debug, Default)]
struct Flushes {
    /// The commit of the last one.
    last: u64,
    /// The log at the last flush, and at the one before: the last flush has flushed that.
    log: String,
    flushed: String,
    seen: usize,
}

impl Flushes {
    fn look(&mut self, job: &Path) {
        let number = std::fs::read_to_string(job.join("frontier/flushed"));
        let Some(now) = number.ok().and_then(|n| n.parse().ok()) else {
            return;
        };
        if now != self.last {
            let log = std::fs::read_to_string(job.join("logs/crawl.jsonl")).unwrap_or_default();
            let whole = log.rfind('\n').map_or(0, |end| end + 1);
            self.flushed = std::mem::replace(&mut self.log, log[..whole].to_owned());
            self.last = now;
            self.seen += 1;
        }
    }
}

/// The image at one instant. The process that writes to it is stopped, and if the kernel writes
/// during the copy, it is copied again.
fn at_one_instant(image: &Path) -> Vec<u8> {
    let mut bytes = std::fs::read(image).unwrap();
    loop {
        let again = std::fs::read(image).unwrap();
        if again == bytes {
            return bytes;
        }
        bytes = again;
    }
}

/// The result of a power cut.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    /// All flushed data is there, and the crawl continued to its end.
    Fine,
    /// The store cannot be opened, or not be read to its end, and says so.
    Refused,
    /// The store has lost flushed data, and says so.
    Older,
    /// The store is sound, but the outputs lack data that it knows of, and this is reported.
    Outputs,
    /// A loss that was not reported.
    Silent(String),
}

fn after_the_cut(job: &Job, flushes: &Flushes, rest: &small::Harvest) -> Ending {
    let file = job.file();
    let file = file.to_str().unwrap();
    let check = Ran::of(&mut spoor(&["frontier", "check", file]));
    if !check.status.success() {
        let said = check.out.clone() + &check.refused();
        println!("  {}", said.lines().last().unwrap_or_default());
        return if said.contains("come back at commit") {
            Ending::Older
        } else {
            Ending::Refused
        };
    }
    let export = job.folder().join("export.jsonl.gz");
    Ran::of(&mut spoor(&[
        "store",
        "export",
        file,
        export.to_str().unwrap(),
    ]))
    .good();
    let mut text = String::new();
    let opened = std::fs::File::open(&export).unwrap();
    flate2::read::MultiGzDecoder::new(opened)
        .read_to_string(&mut text)
        .unwrap();
    let mut facts = text
        .lines()
        .map(|l| serde_json::from_str::<Value>(l).unwrap());
    let commits = facts.next().unwrap()["commits"].as_u64().unwrap();
    if commits < flushes.last {
        return Ending::Silent(format!("commit {commits} of {}", flushes.last));
    }
    let states: BTreeMap<(String, String), Value> = facts
        .filter(|f| f["fact"] == "url")
        .map(|f| {
            let text = |key: &str| f[key].as_str().unwrap().to_owned();
            ((text("kind"), text("url")), f["state"].clone())
        })
        .collect();
    let log = std::fs::read_to_string(job.folder().join("logs/crawl.jsonl")).unwrap_or_default();
    if !log.starts_with(&flushes.flushed) {
        return Ending::Silent(format!("the log is {} bytes long", log.len()));
    }
    for line in flushes.flushed.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| row[key].as_str().unwrap().to_owned();
        if row["outcome"] == "done" && row["kind"] != "robots" {
            let state = states.get(&(text("kind"), text("url")));
            if state.is_none_or(|s| s.get("Done").is_none()) {
                return Ending::Silent(format!("{} is {state:?}", text("url")));
            }
        }
    }
    let ran = Ran::of(&mut job.crawl());
    if !ran.status.success() {
        let refusal = ran.refused();
        println!("  {refusal}");
        return Ending::Outputs;
    }
    if small::harvest(job) == *rest {
        Ending::Fine
    } else {
        Ending::Silent("the resumed crawl ended as another".to_owned())
    }
}

/// Cuts the power this many times; `None` if this machine does not permit it.
fn cut(store: StoreKind, times: usize) -> Option<Vec<Ending>> {
    let seed = match std::env::var("SPOOR_POWER_SEED") {
        Ok(text) => text.parse().unwrap(),
        Err(_) => spoor::clock::now(),
    };
    println!("SPOOR_POWER_SEED={seed} with {}", store.name());
    let mut dice = ChaCha8Rng::seed_from_u64(seed);
    let (undisturbed, _) = small::undisturbed(store);
    let often = small::rest(store, "[checkpoint]\ninterval = \"1s\"\n");
    let wire = Wire::serve(small::lab(Duration::from_millis(120)));
    let quick = Wire::serve(small::lab(Duration::ZERO));
    let memory = tempfile::tempdir().unwrap();
    let memory_path = memory.path().join("memory");
    let _memory = Mount::memory(512 << 20, &memory_path)?;
    let [image, copy] = ["image", "copy"].map(|name| memory_path.join(name));
    let mut endings = Vec::new();
    for crawl in 0.. {
        let options = ["loop,commit=1000", "loop"][crawl % 2];
        std::fs::File::create(&image)
            .unwrap()
            .set_len(IMAGE)
            .unwrap();
        if let Err(why) = run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image)) {
            println!("SKIPPED: no ext4 can be made here: {why}");
            return None;
        }
        let job = Job::new(&wire, &small::text(&often));
        let disk = Mount::new(&["-o", options, image.to_str().unwrap()], &job.folder())?;
        let mut process = Live::start(&mut job.crawl());
        let mut flushes = Flushes::default();
        while endings.len() < times {
            let events = wire.notes().events() + dice.random_range(1..60);
            let look = |flushes: &mut Flushes, process: &mut Live| {
                flushes.look(&job.folder());
                process.has_ended()
            };
            // There must be two flushes before anything must survive.
            let ready =
                |n: &crate::support::wire::Notes, seen: usize| n.events() >= events && seen > 1;
            let seen = std::cell::Cell::new(flushes.seen);
            let waited = wire.wait(
                |n| ready(n, seen.get()),
                || {
                    let ended = look(&mut flushes, &mut process);
                    seen.set(flushes.seen);
                    ended
                },
            );
            if !waited {
                break;
            }
            process.signal(Signal::SIGSTOP);
            let bytes = at_one_instant(&image);
            process.signal(Signal::SIGCONT);
            std::fs::write(&copy, bytes).unwrap();
            let after = Job::new(&quick, &small::text(&often));
            let cut = Mount::new(&["-o", "loop", copy.to_str().unwrap()], &after.folder())?;
            let ending = after_the_cut(&after, &flushes, undisturbed);
            println!("cut {} with {options}: {ending:?}", endings.len() + 1);
            endings.push(ending);
            drop(cut);
        }
        process.kill();
        drop(process);
        wire.settle();
        drop(disk);
        if endings.len() == times {
            break;
        }
    }
    endings.sort();
    let mut counts: BTreeMap<&Ending, usize> = BTreeMap::new();
    for ending in &endings {
        *counts.entry(ending).or_default() += 1;
    }
    println!("{}: {counts:?}", store.name());
    Some(endings)
}

fn fjall_keeps_flushed_data(times: usize) {
    if let Some(endings) = cut(StoreKind::Fjall, times) {
        assert!(endings.iter().all(|e| *e == Ending::Fine), "{endings:#?}");
    }
}

fn sled_reports_its_losses(times: usize) {
    if let Some(endings) = cut(StoreKind::Sled, times) {
        let silent = |e: &&Ending| matches!(e, Ending::Silent(_));
        assert_eq!(endings.iter().find(silent), None);
    }
}

#[test]
fn a_power_cut_costs_fjall_nothing_that_was_flushed() {
    fjall_keeps_flushed_data(2);
}

#[test]
fn after_a_power_cut_sled_reports_its_losses() {
    sled_reports_its_losses(2);
}

#[test]
#[ignore = "long"]
fn forty_power_cuts_with_fjall() {
    fjall_keeps_flushed_data(40);
}

#[test]
#[ignore = "long"]
fn forty_power_cuts_with_sled() {
    sled_reports_its_losses(40);
}
