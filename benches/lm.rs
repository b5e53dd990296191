//! The language model under load: time and memory of estimating, writing, loading and
//! scoring.
//!
//! ```sh
//! cargo bench --bench lm -- --sentences 1000000
//! cargo bench --bench lm -- --text train.txt --held-out test.txt --arpa lm.arpa
//! cargo bench --bench lm -- --load lm.arpa
//! ```
//!
//! With `--load` a model is only loaded and queried: from its ARPA file, from a binary made of
//! it, and from the existing binary. The memory is that of the process at that point, in total
//! and mapped from files. The files are in the system's cache, because they were just written
//! or read.
//!
//! Without `--text` the sentences are made up, the same ones every time: words of a Zipf-like
//! distribution, and half of the words depend on the word before. With it they are the lines of
//! a file, so that KenLM's `lmplz` and `query` can be measured on the same text (`lmplz -o 5 --text train.txt --arpa k.arpa` and
//! `query -v summary k.arpa < test.txt`), with the model kept at `--arpa`.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs
)]

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use spoor::topic::lm::{
    self, KenLm, LanguageModel, Sentence, arpa, normalise, perplexity, sentences,
};

const ORDER: usize = 5;
/// The number of words that made-up sentences are drawn from.
const WORDS: f64 = 200_000.0;
/// How often the held-out text is scored.
const ROUNDS: usize = 5;

struct Load {
    sentences: usize,
    text: Option<PathBuf>,
    held_out: Option<PathBuf>,
    arpa: Option<PathBuf>,
    load: Option<PathBuf>,
}

fn main() {
    let load = arguments();
    if let Some(arpa) = &load.load {
        load_only(arpa);
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = load.arpa.unwrap_or_else(|| folder.path().join("lm.arpa"));

    let start = Instant::now();
    let estimate = match &load.text {
        Some(text) => lm::estimate(lines(text), ORDER),
        None => lm::estimate(made_up(1).take(load.sentences), ORDER),
    };
    let estimate = estimate.unwrap();
    println!(
        "{} sentences, {} tokens, {} n-grams of order {ORDER}",
        estimate.sentences(),
        estimate.tokens(),
        estimate.ngram_counts().iter().sum::<usize>()
    );
    report("read, counted", start);
    let start = Instant::now();
    arpa::write(&estimate, &path).unwrap();
    report("estimated, written", start);
    println!(
        "{:<20}{:>8} MB",
        "model file",
        fs::metadata(&path).unwrap().len() / 1_000_000
    );
    drop(estimate);

    let start = Instant::now();
    let model = KenLm::load(&path).unwrap();
    report("loaded", start);
    let held_out: Vec<Sentence> = match &load.held_out {
        Some(text) => lines(text).collect(),
        None => made_up(2).take(100_000).collect(),
    };
    let tokens: usize = held_out.iter().map(|sentence| sentence.len() + 1).sum();
    score(&model, &held_out, tokens);

    let text: Vec<String> = held_out
        .iter()
        .map(|sentence| format!("{sentence}."))
        .collect();
    let start = Instant::now();
    let cut: usize = sentences(text.iter().map(String::as_str))
        .iter()
        .map(Sentence::len)
        .sum();
    println!(
        "cut {:.0} tokens/s",
        cut as f64 / start.elapsed().as_secs_f64()
    );
}

fn score(model: &KenLm, held_out: &[Sentence], tokens: usize) {
    let mut best = f64::INFINITY;
    let mut log10 = 0.0;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        log10 = held_out
            .iter()
            .map(|sentence| model.score(sentence).log10)
            .sum();
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!(
        "scored {tokens} tokens at perplexity {:.2}: {:.0} tokens/s, the best of {ROUNDS}",
        perplexity::perplexity(log10, tokens),
        tokens as f64 / best
    );
}

fn load_only(arpa: &Path) {
    let folder = tempfile::tempdir_in(arpa.parent().unwrap()).expect("a folder beside it");
    let binary = folder.path().join("lm.binary");
    let held_out: Vec<Sentence> = made_up(2).take(100_000).collect();
    let tokens: usize = held_out.iter().map(|sentence| sentence.len() + 1).sum();
    println!(
        "{:>29} MB held, {} from files",
        memory("VmRSS:"),
        memory("RssFile:")
    );
    for what in ["ARPA", "binary, first", "binary", "binary"] {
        let start = Instant::now();
        let model = match what {
            "ARPA" => KenLm::load(arpa),
            _ => lm::binary::load(arpa, &binary),
        };
        let model = model.unwrap();
        let seconds = start.elapsed().as_secs_f64();
        let held = || {
            format!(
                "{} MB held, {} from files",
                memory("VmRSS:"),
                memory("RssFile:")
            )
        };
        println!("{what:<16}{seconds:>8.2} s, {}", held());
        score(&model, &held_out, tokens);
        println!("{:>29}", held());
    }
    println!(
        "binary {} MB",
        fs::metadata(&binary).unwrap().len() / 1_000_000
    );
}

/// Megabytes of this process.
fn memory(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kb = status.lines().find_map(|line| line.strip_prefix(field));
    kb.map_or(0, |kb| {
        kb.trim_end_matches("kB").trim().parse::<u64>().unwrap()
    }) / 1_000
}

fn lines(path: &PathBuf) -> impl Iterator<Item = Sentence> {
    let lines = BufReader::new(File::open(path).expect("a text file")).lines();
    lines.map(|line| normalise(&line.expect("a line of UTF-8")))
}

fn made_up(seed: u64) -> impl Iterator<Item = Sentence> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    std::iter::from_fn(move || {
        let mut text = String::new();
        let mut last = 0;
        for _ in 0..random.random_range(5..30) {
            // Equal shares of every power of ten, which is Zipf's law.
            let drawn = WORDS.powf(random.random::<f64>()) as u64;
            last = if random.random::<bool>() {
                drawn
            } else {
                (last * 31 + drawn.ilog2() as u64) % WORDS as u64
            };
            let mut rest = last + 1;
            while rest > 0 {
                text.push(char::from(b'a' + (rest % 26) as u8));
                rest /= 26;
            }
            text.push(' ');
        }
        Some(normalise(&text))
    })
}

/// The time since `start`, and the most memory so far.
fn report(what: &str, start: Instant) {
    println!(
        "{what:<20}{:>8.2} s, {} MB at most",
        start.elapsed().as_secs_f64(),
        memory("VmHWM:")
    );
}

fn arguments() -> Load {
    let mut load = Load {
        sentences: 100_000,
        text: None,
        held_out: None,
        arpa: None,
        load: None,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().expect("a value");
        match argument.as_str() {
            "--sentences" => load.sentences = value().parse().expect("a number"),
            "--text" => load.text = Some(value().into()),
            "--held-out" => load.held_out = Some(value().into()),
            "--arpa" => load.arpa = Some(value().into()),
            "--load" => load.load = Some(value().into()),
            // Flags that cargo adds.
            "--bench" => {}
            other => panic!("unknown argument {other}"),
        }
    }
    load
}
