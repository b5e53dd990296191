//! Crawls that write their requests and responses as WARC files. Kills and full disks are tested in
//! the modules for these.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use spoor::archive::Reader;
use spoor::archive::cdxj::CdxjLine;
use spoor::archive::index::name_beside;
use spoor::archive::reader::Item;
use spoor::archive::record::Kind;
use spoor::settings::StoreKind;

use crate::support::small::{lab, rest, text};
use crate::support::{Job, Ran, Wire, spoor};

pub const ARCHIVE: &str = "[archive]\nenabled = true\n";

/// The archive's files, in order.
fn files(job: &Job) -> Vec<PathBuf> {
    let folder = job.folder().join("archive");
    let files = job.files("archive").into_iter();
    let files = files.filter(|file| file.extension().is_none_or(|ending| ending != "cdxj"));
    let mut files: Vec<PathBuf> = files.map(|file| folder.join(file)).collect();
    files.sort();
    files
}

/// A record: kind, address, block, and position.
pub struct Stored {
    pub kind: Kind,
    pub uri: String,
    profile: Option<String>,
    pub block: Vec<u8>,
    file: String,
    offset: u64,
}

/// All records of the archive, which must have no gap.
pub fn records(job: &Job) -> Vec<Stored> {
    let mut records = Vec::new();
    for path in files(job) {
        let mut reader = Reader::open(&path).unwrap();
        while let Some(item) = reader.next_item().unwrap() {
            let mut entry = match item {
                Item::Record(entry) => entry,
                Item::Gap(gap) => panic!("{}: {gap:?}", path.display()),
            };
            let mut block = Vec::new();
            entry.read_to_end(&mut block).unwrap();
            records.push(Stored {
                kind: entry.record.kind.clone(),
                uri: entry.record.uri.clone().unwrap_or_default(),
                profile: entry.record.header("WARC-Profile").map(str::to_owned),
                block,
                file: path.file_name().unwrap().to_string_lossy().into_owned(),
                offset: entry.record.offset,
            });
        }
    }
    records
}

/// The number of responses in the archive for each address.
fn answers(records: &[Stored]) -> BTreeMap<&str, usize> {
    let mut answers = BTreeMap::new();
    for record in records {
        if matches!(record.kind, Kind::Response | Kind::Revisit) {
            *answers.entry(record.uri.as_str()).or_default() += 1;
        }
    }
    answers
}

/// Asserts that the archive has no errors and contains exactly the exchanges of the log, each at
/// the position that its row gives.
pub fn agrees_with_log(job: &Job) {
    is_sound(job);
    let records = records(job);
    let mut logged: BTreeMap<String, usize> = BTreeMap::new();
    for row in job.log().iter().filter(|row| !row["status"].is_null()) {
        let url = row["url"].as_str().unwrap();
        *logged.entry(url.to_owned()).or_default() += 1;
        let place = &row["archive"];
        let first = records
            .iter()
            .find(|record| place["file"] == record.file.as_str() && place["from"] == record.offset);
        let first = first.unwrap_or_else(|| panic!("{row} names no record"));
        assert_eq!(first.uri, url);
    }
    let answers = answers(&records);
    let logged = logged.iter().map(|(url, n)| (url.as_str(), *n));
    assert_eq!(answers, logged.collect());
    // The index beside each file lists the same captures.
    let mut indexed = BTreeMap::new();
    for file in files(job) {
        let name = name_beside(file.file_name().unwrap().to_str().unwrap());
        let index = file.with_file_name(name);
        for line in std::fs::read_to_string(index).unwrap().lines() {
            let line = CdxjLine::parse(line).unwrap();
            let place = line.place.unwrap();
            let at =
                |r: &&Stored| line.filename.as_ref() == Some(&r.file) && place.offset == r.offset;
            assert_eq!(records.iter().find(at).unwrap().uri, line.url);
            *indexed.entry(line.url).or_default() += 1_usize;
        }
    }
    let indexed = indexed.iter().map(|(url, n)| (url.as_str(), *n));
    assert_eq!(answers, indexed.collect());
    let requests = records.iter().filter(|r| r.kind == Kind::Request).count();
    assert_eq!(requests, answers.values().sum::<usize>());
}

/// Asserts that `spoor archive check` finds no error.
fn is_sound(job: &Job) {
    let archive = job.folder().join("archive");
    let out = Ran::of(spoor(&["archive", "check", "--json"]).arg(archive)).good();
    let found: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(found["sound"], true, "{out}");
}

fn job(wire: &Wire, store: StoreKind) -> Job {
    Job::new(wire, &text(&rest(store, ARCHIVE)))
}

#[test]
fn every_exchange_is_stored_once_as_it_was() {
    let wire = Wire::serve(lab(Duration::ZERO));
    let job = job(&wire, StoreKind::Sled);
    job.run();
    agrees_with_log(&job);
    let records = records(&job);
    assert_eq!(
        answers(&records).values().sum::<usize>(),
        wire.requests().len()
    );
    let first = &records[0];
    let info = String::from_utf8_lossy(&first.block);
    assert_eq!(first.kind, Kind::Warcinfo);
    assert!(info.contains("software: spoor/"), "{info}");
    for record in &records {
        match record.kind {
            Kind::Request => assert!(record.block.starts_with(b"GET /"), "{}", record.uri),
            Kind::Response => assert!(record.block.starts_with(b"HTTP/1.1 ")),
            _ => {}
        }
    }
    let page = records
        .iter()
        .find(|r| r.uri == "http://h0.test/0" && r.kind == Kind::Response);
    let block = String::from_utf8_lossy(&page.unwrap().block).into_owned();
    let (head, body) = block.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("\r\ncontent-type: text/html"), "{head}");
    assert!(body.contains("</html>") || body.contains("<img"), "{body}");
    let about = records
        .iter()
        .find(|r| r.uri == "http://h0.test/0" && r.kind == Kind::Metadata);
    let about = String::from_utf8_lossy(&about.unwrap().block).into_owned();
    for name in [
        "hopsFromSeed: 0",
        "spoor-bucket: seed",
        "spoor-perplexity: ",
    ] {
        assert!(about.contains(name), "{about}");
    }
}

#[test]
fn a_body_that_is_there_already_is_stored_as_a_revisit() {
    let wire = Wire::serve(lab(Duration::ZERO));
    let job = job(&wire, StoreKind::Fjall);
    job.run();
    let records = records(&job);
    let mut bodies = BTreeMap::new();
    for record in records
        .iter()
        .filter(|record| record.kind == Kind::Response)
    {
        let at = record
            .block
            .windows(4)
            .position(|w| w == b"\r\n\r\n")
            .unwrap();
        let body = record.block[at + 4..].to_vec();
        let known = bodies.insert(body.clone(), record.uri.clone());
        assert!(
            known.is_none() || body.len() < 512,
            "{known:?} and {}",
            record.uri
        );
    }
    for record in records.iter().filter(|record| record.kind == Kind::Revisit) {
        let profile = record.profile.as_deref().unwrap();
        assert!(profile.ends_with("identical-payload-digest"), "{profile}");
    }
}
