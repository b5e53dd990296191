//! Replays: the pages of an archive through the steps of a crawl.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use spoor::archive::reader::{Item, Reader};
use spoor::archive::record::Kind;
use spoor::outputs::{self, Table};
use spoor::settings::StoreKind;

use crate::support::small::{lab, rest, text};
use crate::support::{Job, Live, Ran, Wire, spoor};

/// A crawl that learns and keeps an archive.
const KEEPS: &str = "[archive]\nenabled = true\n[strategy]\nkind = \"learn\"\n";

fn crawled(store: StoreKind) -> (Wire, Job) {
    let wire = Wire::serve(lab(Duration::ZERO));
    let job = Job::new(&wire, &text(&rest(store, KEEPS)));
    job.run();
    (wire, job)
}

fn replay(job: &Job, more: &[&str]) -> Command {
    let (file, archive) = (job.file(), job.folder().join("archive"));
    let from = ["replay", file.to_str().unwrap(), "--from"];
    let mut command = spoor(&from);
    command.arg(archive).args(more);
    command
}

fn beside(job: &Job, name: &str) -> PathBuf {
    job.folder().with_file_name(name)
}

/// Everything that a job keeps, without what only real requests have.
#[derive(Debug, PartialEq)]
struct Kept {
    log: Vec<Value>,
    documents: Vec<Value>,
    sentences: Vec<u8>,
    images: BTreeMap<PathBuf, Vec<u8>>,
    sidecars: BTreeMap<PathBuf, Vec<u8>>,
    rows: String,
}

fn without(mut value: Value, fields: &[&str]) -> Value {
    let object = value.as_object_mut().unwrap();
    fields.iter().for_each(|field| drop(object.remove(*field)));
    value
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
    found.sort();
}

fn kept(folder: &Path) -> Kept {
    let mut log = Vec::new();
    outputs::each_line(folder, Table::Log, usize::MAX, |line| {
        let row = serde_json::from_slice(line.bytes.unwrap()).unwrap();
        let row = without(row, &["asked", "archive"]);
        // The files of a host come in another order, and took no time.
        if row["kind"] == "page" || row["kind"] == "image" {
            log.push(row);
        }
    })
    .unwrap();
    let documents = outputs::documents(folder).unwrap();
    let documents = documents.map(|document| serde_json::to_value(document.unwrap()).unwrap());
    let mut paths = Vec::new();
    files(&folder.join("sentences"), &mut paths);
    let sentences = paths.iter().flat_map(|path| std::fs::read(path).unwrap());
    let sentences = sentences.collect();
    let (mut images, mut sidecars) = (BTreeMap::new(), BTreeMap::new());
    let mut paths = Vec::new();
    files(&folder.join("images"), &mut paths);
    for path in paths {
        let name = path.strip_prefix(folder).unwrap().to_owned();
        let bytes = std::fs::read(&path).unwrap();
        if path.extension().is_some_and(|ending| ending == "json") {
            sidecars.insert(name, bytes);
        } else {
            images.insert(name, bytes);
        }
    }
    Kept {
        documents: documents.collect(),
        log,
        sentences,
        images,
        sidecars,
        rows: std::fs::read_to_string(folder.join("images.tsv")).unwrap(),
    }
}

fn assert_same(one: &Kept, other: &Kept) {
    assert_eq!(one.log.len(), other.log.len());
    for (one, other) in one.log.iter().zip(&other.log) {
        assert_eq!(one, other);
    }
    for (one, other) in one.documents.iter().zip(&other.documents) {
        assert_eq!(one, other);
    }
    assert!(one.sentences == other.sentences);
    assert!(one.images == other.images);
    assert_eq!(one.sidecars, other.sidecars);
    assert_eq!(one.rows, other.rows);
    assert_eq!(one.documents.len(), other.documents.len());
}

/// The number of rows in a log so far.
fn rows(log: &Path) -> usize {
    let text = std::fs::read(log).unwrap_or_default();
    text.iter().filter(|byte| **byte == b'\n').count()
}

/// Replays with this many kills, each after some more rows of the log.
fn replay_killed(job: &Job, kills: usize) {
    let folder = beside(job, "job-replay");
    let log = folder.join("logs/crawl.jsonl");
    for _ in 0..kills {
        let before = rows(&log);
        let mut process = Live::start(&mut replay(job, &[]));
        process.wait_for(|| rows(&log) >= before + 60);
        assert!(process.kill(), "it was done before the last kill");
    }
    let out = Ran::of(&mut replay(job, &["--json"])).good();
    let summary: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&summary["complete"], &summary["left_out"]),
        (&json!(true), &json!({})),
        "none is met twice"
    );
    assert_same(&kept(&job.folder()), &kept(&folder));
}

#[test]
fn a_replay_that_is_killed_gives_what_the_crawl_gave() {
    let (wire, job) = crawled(StoreKind::Sled);
    let requests = wire.requests().len();
    replay_killed(&job, 3);
    let folder = beside(&job, "job-replay");

    // Once more: nothing is left to do.
    let before = rows(&folder.join("logs/crawl.jsonl"));
    let out = Ran::of(&mut replay(&job, &[])).good();
    assert_eq!(rows(&folder.join("logs/crawl.jsonl")), before);
    assert!(out.lines().next().unwrap().contains(" responses of 1 file"));
    // Other commands work on the results.
    let file = folder.join("job.toml");
    let report = Ran::of(&mut spoor(&["report", file.to_str().unwrap()])).good();
    assert!(report.contains("report"), "{report}");

    // The replay writes neither to the crawl's own folder nor to that of another replay.
    let own = job.folder();
    for (more, words) in [
        (vec!["--output", own.to_str().unwrap()], "something else"),
        (vec!["--follow"], "a replay of other files"),
    ] {
        let said = Ran::of(&mut replay(&job, &more)).refused();
        assert!(said.contains(words) && said.contains("--output"), "{said}");
    }

    // A dry run of a changed job.
    std::fs::remove_dir_all(&folder).unwrap();
    let narrow = format!("{KEEPS}[scope]\nreject = [\"host:h3.test\"]\n");
    job.write(&wire, &text(&rest(StoreKind::Sled, &narrow)));
    let out = Ran::of(&mut replay(&job, &["--dry-run", "--json"])).good();
    let summary: Value = serde_json::from_str(&out).unwrap();
    let compared = &summary["compared"];
    let kept = [&compared["before"]["texts"], &summary["seen"]["texts"]];
    assert_eq!(kept, [&json!(240), &json!(200)], "{summary:#}");
    assert_eq!(compared["lost"][0], 40);
    assert_eq!(compared["gained"], json!([0, []]));
    assert_eq!(summary["left_out"]["scope"], 40);
    let first = compared["lost"][1][0].as_str().unwrap();
    assert!(first.starts_with("http://h3.test/"), "{first}");
    let shown = Ran::of(&mut replay(&job, &["--dry-run"])).good();
    assert!(shown.contains("nothing is written"), "{shown}");
    let is_wide = |line: &str| line.chars().count() > 80;
    assert!(!shown.lines().any(is_wide), "{shown}");
    assert!(!folder.exists(), "nothing is written");
    assert_eq!(wire.requests().len(), requests, "nothing was requested");
}

#[test]
fn a_crawl_within_the_archive_gives_the_same_pages() {
    let (wire, job) = crawled(StoreKind::Fjall);
    let requests = wire.requests().len();
    let crawl = kept(&job.folder());
    let folder = beside(&job, "within");
    let output = ["--follow", "--output", folder.to_str().unwrap()];
    Ran::of(&mut replay(&job, &output)).good();
    let within = kept(&folder);
    // The order differs from the crawl's, and so does the path to a page. Its time is the
    // `WARC-Date`, in whole seconds.
    let pages = |kept: &Kept| -> BTreeMap<String, Value> {
        let all = kept.documents.iter().map(|document| {
            let url = document["url"].as_str().unwrap().to_owned();
            let path = ["via", "hops", "on_topic", "near_copy_of", "fetched"];
            (url, without(document.clone(), &path))
        });
        all.collect()
    };
    assert_eq!(pages(&within), pages(&crawl));
    let sorted = |sentences: &[u8]| {
        let mut text = String::new();
        let mut members = flate2::read::MultiGzDecoder::new(sentences);
        std::io::Read::read_to_string(&mut members, &mut text).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&within.sentences), sorted(&crawl.sentences));
    assert!(within.images == crawl.images);
    assert_eq!(wire.requests().len(), requests, "nothing was requested");

    // The order of the archive does not matter either.
    let backwards = job.folder().with_file_name("backwards.warc.gz");
    let mut archive = Vec::new();
    files(&job.folder().join("archive"), &mut archive);
    archive.retain(|path| path.extension().is_some_and(|ending| ending == "gz"));
    std::fs::write(&backwards, reversed(&archive[0])).unwrap();
    let (file, folder) = (job.file(), beside(&job, "backwards"));
    let mut command = spoor(&["replay", file.to_str().unwrap(), "--json", "--from"]);
    command.arg(backwards).arg("--output").arg(&folder);
    let summary: Value = serde_json::from_str(&Ran::of(&mut command).good()).unwrap();
    assert_eq!(summary["passes"], 2, "images come before their pages");
    assert_eq!(summary["pages"], crawl.documents.len());
    let replayed = kept(&folder);
    assert_eq!(pages(&replayed), pages(&crawl));
    assert!(replayed.images == crawl.images);
}

#[test]
fn only_captures_in_the_index_are_replayed() {
    let (_wire, job) = crawled(StoreKind::Fjall);
    let archive = job.folder().join("archive");
    let mut list = spoor(&["archive", "list", archive.to_str().unwrap()]);
    let selected = ["--host", "h1.test", "--mime", "text/html", "--cdxj"];
    let lines = Ran::of(list.args(selected)).good();
    let pages = lines
        .lines()
        .filter(|line| line.contains("\"200\""))
        .count();
    assert!(pages > 10, "{lines}");
    // spoor looks for the files beside the index.
    let index = archive.join("chosen.cdxj");
    std::fs::write(&index, &lines).unwrap();
    let file = job.file();
    let mut command = spoor(&["replay", file.to_str().unwrap(), "--json", "--from"]);
    let summary = Ran::of(command.arg(&index).arg("--dry-run")).good();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["pages"], pages, "{summary}");
    assert_eq!(summary["images"], 0, "{summary}");

    // Positions in an archive that has since changed are reported.
    let moved = |line: &str| line.replacen("\"offset\": \"", "\"offset\": \"9", 1);
    let (first, others) = lines.split_once('\n').unwrap();
    assert_ne!(moved(first), first);
    std::fs::write(&index, format!("{}\n{others}", moved(first))).unwrap();
    let mut command = spoor(&["replay", file.to_str().unwrap(), "--dry-run", "--from"]);
    let ended = command.arg(&index).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    let all = lines.lines().count();
    assert!(ended.status.success(), "{said}");
    assert!(said.contains(&format!("at 1 of {all} places")), "{said}");

    // After a replay of nothing, the folder can be used for the right one.
    let none: String = lines.lines().map(|line| moved(line) + "\n").collect();
    std::fs::write(&index, none).unwrap();
    let mut command = spoor(&["replay", file.to_str().unwrap(), "--from"]);
    let said = Ran::of(command.arg(&index)).refused();
    assert!(said.contains("no response"), "{said}");
    Ran::of(&mut replay(&job, &[])).good();
}

/// The exchanges of an archive, in reverse order.
fn reversed(path: &Path) -> Vec<u8> {
    let mut begins = Vec::new();
    let mut reader = Reader::open(path).unwrap();
    while let Some(item) = reader.next_item().unwrap() {
        let Item::Record(entry) = item else {
            panic!("{item:?}");
        };
        if matches!(entry.record.kind, Kind::Response | Kind::Revisit) {
            begins.push(usize::try_from(entry.record.offset).unwrap());
        }
    }
    let bytes = std::fs::read(path).unwrap();
    let ends = begins.iter().skip(1).copied().chain([bytes.len()]);
    let parts: Vec<&[u8]> = begins
        .iter()
        .zip(ends)
        .map(|(from, to)| &bytes[*from..to])
        .collect();
    parts.into_iter().rev().flatten().copied().collect()
}

#[test]
#[ignore = "some ten seconds"]
fn a_replay_survives_many_kills() {
    for store in [StoreKind::Sled, StoreKind::Fjall] {
        let (_wire, job) = crawled(store);
        replay_killed(&job, 7);
    }
}
