//! The cost of reading a WARC compared with only inflating it.
//!
//! ```sh
//! cargo bench --bench archive
//! cargo bench --bench archive -- --pages 3000 --rounds 5
//! cargo bench --bench archive -- --file crawl.warc.gz
//! ```
//!
//! Three runs use the same file: one only inflates it, one reads and skips its records, and one
//! reads them and compares all digests. The shortest processor time of several rounds counts. Without `--file` the WARC is made up: pages of
//! 85 KB on average, a gzip member each, with digests of block and payload as warcio
//! writes them.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs
)]

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use flate2::{Compression, write::GzEncoder};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sha1::{Digest, Sha1};
use spoor::archive::check;
use spoor::archive::reader::{Item, Reader};

/// The average number of bytes of a page.
const PAGE: usize = 85_000;
/// Words that pages are made of.
const WORDS: f64 = 50_000.0;

fn main() {
    let mut pages = 3_000;
    let mut rounds = 5;
    let mut file: Option<PathBuf> = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().expect("a value");
        match argument.as_str() {
            "--pages" => pages = value().parse().expect("a number"),
            "--rounds" => rounds = value().parse().expect("a number"),
            "--file" => file = Some(value().into()),
            // Cargo passes this flag.
            "--bench" => {}
            other => panic!("{other} is unknown"),
        }
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = file.unwrap_or_else(|| {
        let path = folder.path().join("made-up.warc.gz");
        write(&path, pages);
        path
    });
    let inflated = inflate(&file);
    let packed = file.metadata().unwrap().len();
    println!(
        "{:.1} MB, {:.1} MB inflated, {} records\n",
        packed as f64 / 1e6,
        inflated as f64 / 1e6,
        read(&file)
    );
    let alone = shortest(rounds, || inflate(&file));
    let reading = shortest(rounds, || read(&file));
    let digests = shortest(rounds, || compare(&file));
    println!(
        "{:<28} {:>8} {:>10} {:>7}",
        "", "CPU s", "MB/CPU s", "ratio"
    );
    for (what, time) in [
        ("inflating alone", alone),
        ("reading", reading),
        ("reading, digests compared", digests),
    ] {
        let seconds = time.as_secs_f64();
        println!(
            "{what:<28} {seconds:>8.3} {:>10.0} {:>7.2}",
            inflated as f64 / 1e6 / seconds,
            seconds / alone.as_secs_f64()
        );
    }
}

/// The shortest processor time of several rounds.
fn shortest(rounds: usize, work: impl Fn() -> u64) -> Duration {
    let round = || {
        let begin = worked();
        std::hint::black_box(work());
        worked() - begin
    };
    (0..rounds).map(|_| round()).min().expect("a round")
}

#[cfg(target_os = "linux")]
fn worked() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap(), nanos.unwrap())
}

#[cfg(not(target_os = "linux"))]
fn worked() -> Duration {
    static BEGUN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    BEGUN.get_or_init(std::time::Instant::now).elapsed()
}

fn inflate(file: &Path) -> u64 {
    let file = BufReader::with_capacity(64 << 10, File::open(file).unwrap());
    let mut stream = MultiGzDecoder::new(file);
    let mut buffer = vec![0; 64 << 10];
    let mut sum = 0;
    loop {
        match stream.read(&mut buffer).unwrap() {
            0 => return sum,
            n => sum += n as u64,
        }
    }
}

fn read(file: &Path) -> u64 {
    let mut reader = Reader::open(file).unwrap();
    let mut records = 0;
    while let Some(item) = reader.next_item().unwrap() {
        match item {
            Item::Record(_) => records += 1,
            Item::Gap(gap) => panic!("{gap:?}"),
        }
    }
    records
}

fn compare(file: &Path) -> u64 {
    let checked = check::check(File::open(file).unwrap(), file, |_| {});
    assert!(checked.is_sound(), "{checked:?}");
    checked.digests.right
}

fn write(path: &Path, pages: usize) {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut out = std::io::BufWriter::new(File::create(path).unwrap());
    let menu: String = (0..150).map(|n| link(&mut random, n)).collect();
    for n in 0..pages {
        let page = page(&mut random, &menu, n);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n";
        let block = [head.as_bytes(), page.as_bytes()].concat();
        let head = format!(
            "WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:{n:032x}>\r\n\
             WARC-Target-URI: http://made-up.test/{n}\r\nWARC-Date: 2026-01-02T03:04:05Z\r\n\
             WARC-Payload-Digest: {}\r\nWARC-Block-Digest: {}\r\n\
             Content-Type: application/http; msgtype=response\r\nContent-Length: {}\r\n\r\n",
            digest(page.as_bytes()),
            digest(&block),
            block.len()
        );
        let mut member = GzEncoder::new(&mut out, Compression::new(6));
        for part in [head.as_bytes(), &block, b"\r\n\r\n"] {
            member.write_all(part).unwrap();
        }
        member.finish().unwrap();
    }
    out.flush().unwrap();
}

fn digest(bytes: &[u8]) -> String {
    format!(
        "sha1:{}",
        base16ct::lower::encode_string(&Sha1::digest(bytes))
    )
}

/// A random word, by Zipf's law.
fn word(random: &mut ChaCha8Rng) -> String {
    let rank = WORDS.powf(random.random::<f64>()) as u64;
    let mut hash = rank.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let length = 2 + (rank.ilog2() / 2) as usize + (hash >> 60) as usize % 4;
    let letters = (0..length).map(|_| {
        hash = hash.rotate_left(9).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        char::from(b"etaoinshrdlucmfwypvbgkqjxz"[(hash >> 40) as usize % 26])
    });
    letters.collect()
}

fn link(random: &mut ChaCha8Rng, n: usize) -> String {
    let (one, two) = (word(random), word(random));
    format!("<li class=\"menu-item item-{n}\"><a href=\"/{one}/{two}/\">{one} {two}</a></li>\n")
}

fn page(random: &mut ChaCha8Rng, menu: &str, n: usize) -> String {
    let length = random.random_range(PAGE / 4..PAGE * 7 / 4);
    let mut page = format!("<!DOCTYPE html>\n<html><head><title>{n}</title></head><body>\n{menu}");
    while page.len() < length {
        let id = random.random::<u32>();
        page.push_str(&format!("<div class=\"text-block\" id=\"b{id}\"><p>"));
        for _ in 0..random.random_range(10..60) {
            page.push_str(&word(random));
            page.push(' ');
        }
        page.push_str("</p></div>\n");
    }
    page.push_str("</body></html>\n");
    page
}
