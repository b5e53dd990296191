//! Large batches and many batches of the frontier's store, written by a child process without a
//! pause. After a SIGKILL each is complete or absent, and they take little memory.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Lines};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spoor::frontier::store::{self, Batch, Store};
use spoor::settings::StoreKind;

use crate::support::process::peak_kib;

/// Where the child writes.
const FOLDER: &str = "SPOOR_TEST_BATCHES_FOLDER";
/// What the child writes: `same`, `many`.
const WHAT: &str = "SPOOR_TEST_BATCHES";
/// The prefix of the child's output, because the test harness prints lines too.
const SAID: &str = "batches: ";

/// The number of keys in a large batch, more than go to the store at once.
const LARGE: u64 = 10_000;
/// The number of kills, each in the middle of a batch.
const KILLS: usize = 8;

/// The memory limit, in KiB, of a process that writes a quarter of a million keys.
const MEMORY: u64 = 260 << 10;

fn open(folder: &Path) -> Box<dyn Store> {
    store::open(StoreKind::Sled, folder).unwrap()
}

/// A random key; keys are as far apart as those of addresses on many hosts.
fn key(dice: &mut ChaCha8Rng) -> Vec<u8> {
    let mut key = dice.random::<u64>().to_be_bytes().to_vec();
    key.extend(b"/some/path/of/a/page.html");
    key
}

/// Writes until it is killed or has finished. The tests below run it as a child.
#[test]
#[ignore = "the child of other tests"]
fn child() {
    let [folder, what] = [FOLDER, WHAT].map(|name| std::env::var(name).unwrap());
    let mut store = open(Path::new(&folder));
    let mut dice = ChaCha8Rng::seed_from_u64(7);
    match what.as_str() {
        "same" => {
            let first = value_of_all(&*store).map_or(1, |value| value + 1);
            for value in first.. {
                let mut batch = Batch::default();
                for n in 0..LARGE {
                    let bytes = value.to_be_bytes().to_vec();
                    batch.put(n.wrapping_mul(0x9E37_79B9).to_be_bytes().to_vec(), bytes);
                }
                store.apply(batch).unwrap();
                println!("\n{SAID}{value}");
            }
        }
        "many" => {
            for size in [vec![2_000; 85], vec![40_000; 2]].concat() {
                let mut batch = Batch::default();
                (0..size).for_each(|_| batch.put(key(&mut dice), vec![7; 40]));
                store.apply(batch).unwrap();
            }
            println!("\n{SAID}{}", peak_kib("self").unwrap());
        }
        _ => panic!("{WHAT}={what}"),
    }
}

/// The value of every key; `None` if there are no keys.
fn value_of_all(store: &dyn Store) -> Option<u64> {
    let mut values: BTreeMap<u64, u64> = BTreeMap::new();
    let count = |_: &[u8], value: &[u8]| {
        let value = u64::from_be_bytes(value.try_into().unwrap());
        *values.entry(value).or_default() += 1;
        ControlFlow::Continue(())
    };
    store.scan(b"", b"", &mut { count }).unwrap();
    let only = values.iter().next().map(|(value, keys)| (*value, *keys));
    assert!(values.len() <= 1, "a batch is there in part: {values:?}");
    assert!(only.is_none_or(|(_, keys)| keys == LARGE), "{values:?}");
    only.map(|(value, _)| value)
}

struct Writer {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Writer {
    fn start(folder: &Path, what: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "batches::child", "--ignored", "--nocapture"])
            .env(FOLDER, folder)
            .env(WHAT, what)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The numbers that the child prints, each as soon as it arrives, until the child ends. A line
    /// is written at once, so a kill cannot cut one.
    fn says(&mut self) -> impl Iterator<Item = u64> {
        let lines = self.lines.by_ref().map_while(Result::ok);
        lines.filter_map(|line| line.strip_prefix(SAID)?.parse().ok())
    }

    /// The bytes that the child has written so far.
    fn written(&self) -> u64 {
        let io = std::fs::read_to_string(format!("/proc/{}/io", self.child.id())).unwrap();
        let wrote = io.lines().find_map(|l| l.strip_prefix("wchar: "));
        wrote.unwrap().parse().unwrap()
    }
}

#[test]
fn a_large_batch_is_whole_or_absent_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut dice = ChaCha8Rng::seed_from_u64(11);
    let mut before = None;
    for _ in 0..KILLS {
        let mut writer = Writer::start(folder.path(), "same");
        let said = writer.says().next().expect("the child ended early");
        // Kills somewhere in the next batches.
        let until = writer.written() + dice.random_range(0..4 << 20);
        while writer.written() < until {
            std::thread::yield_now();
        }
        writer.child.kill().unwrap();
        writer.child.wait().unwrap();
        let last = writer.says().last().unwrap_or(said);
        let found = value_of_all(&*open(folder.path()));
        println!("said {last}, found {found:?}");
        assert!(found <= Some(last + 1), "{found:?} after {last}");
        assert!(found >= before, "{found:?} after {before:?}");
        before = found;
    }
    assert!(before.is_some());
}

#[test]
fn many_batches_take_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::start(folder.path(), "many");
    let peak = writer.says().next().expect("the child ended early");
    assert!(writer.child.wait().unwrap().success());
    println!("{} MB at most", peak >> 10);
    assert!(peak < MEMORY, "{peak} KiB");
}
