//! The cost of finding the copies among many documents.
//!
//! ```sh
//! cargo bench --bench corpus -- --documents 1000000
//! cargo bench --bench corpus -- --documents 10000000 --words 60 --folder /large/disk
//! ```
//!
//! The documents are made up: on average `--words` words, drawn by Zipf's law from 60,000. Every
//! twentieth is a copy of an earlier one, and every twentieth is a copy with one word in fifty
//! changed. A plan builds them into a corpus, as JSON lines and Parquet; its last step is
//! `copies`.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs
)]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spoor::corpus::pipeline::plan::Plan;
use spoor::corpus::pipeline::{How, build};

/// Words that documents are made of.
const WORDS: f64 = 60_000.0;
/// Earlier documents that may be copied.
const HELD: usize = 50_000;

fn main() {
    let mut documents = 1_000_000;
    let mut words = 200;
    let mut folder: Option<PathBuf> = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().expect("a value");
        match argument.as_str() {
            "--documents" => documents = value().parse().expect("a number"),
            "--words" => words = value().parse().expect("a number"),
            "--folder" => folder = Some(value().into()),
            // Cargo passes this flag.
            "--bench" => {}
            other => panic!("{other} is unknown"),
        }
    }
    let made = match folder {
        Some(folder) => tempfile::tempdir_in(folder),
        None => tempfile::tempdir(),
    };
    let made = made.expect("a temporary folder");
    let root = made.path();
    let planted = write(&root.join("in.jsonl.zst"), documents, words);
    let source = size(root);
    let text = "[source]\njsonl = [\"in.jsonl.zst\"]\n[[step]]\nkind = \"copies\"\n\
                [output]\nfolder = \"corpus\"\nformats = [\"parquet\"]\n";
    let plan = Plan::parse(&root.join("plan.toml"), text).expect("a plan");
    let (most, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
    let begun = Instant::now();
    let built = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                most.fetch_max(size(root), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        let built = build(&plan, &How::default());
        is_done.store(true, Ordering::Relaxed);
        built
    });
    let built = built.expect("a corpus");
    let seconds = begun.elapsed().as_secs_f64();
    let why = &built.steps.last().expect("a step").why;
    let found = |rule: &str| why.get(rule).copied().unwrap_or_default();
    println!("documents              {documents}");
    println!("left                   {}", built.documents);
    println!(
        "exact copies           {} of {}",
        found("exact copy"),
        planted[0]
    );
    println!(
        "near copies            {} of {}",
        found("near copy"),
        planted[1]
    );
    println!("seconds                {seconds:.0}");
    println!("documents a second     {:.0}", documents as f64 / seconds);
    println!("memory at most, MB     {:.0}", peak() as f64 / 1e3);
    println!("source, MB             {:.0}", source as f64 / 1e6);
    let work = most.load(Ordering::Relaxed) - source;
    println!("disk at most, MB       {:.0}", work as f64 / 1e6);
    println!(
        "corpus, MB             {:.0}",
        size(&root.join("corpus")) as f64 / 1e6
    );
}

/// Writes the documents; returns the number of exact copies and of near copies.
fn write(path: &Path, documents: usize, mean: usize) -> [usize; 2] {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let file = BufWriter::new(File::create(path).unwrap());
    let mut out = zstd::Encoder::new(file, 1).unwrap();
    let mut planted = [0, 0];
    let mut held: Vec<Vec<u32>> = Vec::new();
    for number in 0..documents {
        let kind = if held.is_empty() { 2 } else { number % 20 };
        let text = match planted.get_mut(kind) {
            Some(planted) => {
                *planted += 1;
                let mut copy = held[random.random_range(0..held.len())].clone();
                if kind == 1 {
                    let changed = copy.iter_mut().skip(7).step_by(50);
                    changed.for_each(|word| *word = 100_000 + word.wrapping_mul(7) % 50_000);
                }
                copy
            }
            None => {
                let length = random.random_range(mean / 2..=mean + mean / 2).max(20);
                let text: Vec<u32> = (0..length).map(|_| word(&mut random)).collect();
                let at = random.random_range(0..HELD);
                match held.get_mut(at) {
                    Some(old) => old.clone_from(&text),
                    None => held.push(text.clone()),
                }
                text
            }
        };
        let words: Vec<String> = text.iter().map(|word| name(*word)).collect();
        let sentences: Vec<String> = words
            .chunks(15)
            .map(|s| format!("{}.", s.join(" ")))
            .collect();
        let host = number % 1_000;
        writeln!(
            out,
            "{{\"url\":\"http://{host}.test/{number}\",\"text\":\"{}\"}}",
            sentences.join(" ")
        )
        .unwrap();
    }
    out.finish().unwrap().flush().unwrap();
    planted
}

/// A word by Zipf's law: the n-th is n times rarer than the first.
fn word(random: &mut ChaCha8Rng) -> u32 {
    WORDS.powf(random.random::<f64>()) as u32
}

/// A word for a number.
fn name(mut word: u32) -> String {
    let mut name = String::new();
    loop {
        let syllable = [
            b"bcdfglmnprst"[(word % 12) as usize],
            b"aeiou"[(word / 12 % 5) as usize],
        ];
        name.extend(syllable.map(char::from));
        word /= 60;
        if word == 0 {
            return name;
        }
    }
}

/// The size of all files below a folder; some may disappear during the count.
fn size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(about) if about.is_dir() => size(&entry.path()),
        Ok(about) => about.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// The peak memory of this process in kB; 0 where the system does not report it.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|kb| kb.parse().ok()).unwrap_or_default()
}
