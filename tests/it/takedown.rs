//! `spoor takedown` on the results of a crawl: what it removes, that the samples are never fetched
//! again, that no byte of them is left, and that a kill at any point loses nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use spoor::settings::StoreKind;
use spoor_lab::{Behaviour, Lab, MemoryTree, picture};

use crate::support::process::GUARD;
use crate::support::texts::{image, link, page, some, topical, tree};
use crate::support::{Job, JobText, Live, Ran, Wire, spoor};

const ONE: &str = "http://a.test/one.png";
const COPY: &str = "http://c.test/copy.png";

/// A text that is on the page of b.test only.
const MARK: &str = "Quixotic zephyrs waltzed beside the harbour wall at noon.";

/// Three pages on two hosts; two of their images have the same bytes, and one is on all pages.
fn web() -> MemoryTree {
    let text = |n: usize| some(topical(), n * 5, 4);
    let alt = |n: usize| some(topical(), n + 30, 1);
    let mut web = tree(&[
        (
            "a.test/",
            page(
                "Lights",
                "",
                &[
                    text(0),
                    image(ONE, &alt(0)),
                    image("/all.png", &alt(1)),
                    link("/more", &alt(2)),
                    link("http://b.test/", &alt(3)),
                ],
            ),
        ),
        (
            "a.test/more",
            page(
                "More",
                "",
                &[
                    text(1),
                    image(COPY, &alt(4)),
                    image("/all.png", &alt(5)),
                    image("/two.png", &alt(6)),
                ],
            ),
        ),
        (
            "b.test/",
            page(
                "Others",
                "",
                &[
                    format!("{} {MARK}", text(2)),
                    image("/three.png", &alt(7)),
                    image("http://a.test/all.png", &alt(8)),
                    image("http://a.test/only.png", &alt(9)),
                ],
            ),
        ),
    ]);
    for address in [
        "a.test/all.png",
        "a.test/two.png",
        "a.test/only.png",
        "b.test/three.png",
    ] {
        assert!(web.image(&format!("http://{address}"), 200, 200));
    }
    let bytes = picture::draw(ONE, 220, 200).unwrap().bytes;
    web.insert("a.test", "/one.png", bytes.clone());
    web.insert("c.test", "/copy.png", bytes);
    web
}

fn text(rest: &str) -> JobText<'_> {
    JobText {
        seeds: &["http://a.test/"],
        rest,
        ..JobText::default()
    }
}

/// A finished crawl.
fn crawled(rest: &str) -> (Job, Wire) {
    let wire = Wire::serve(Lab::from_memory(web()));
    let job = Job::new(&wire, &text(rest));
    job.run();
    let all = [COPY, ONE, "http://a.test/all.png", "http://a.test/only.png"];
    let more = ["http://a.test/two.png", "http://b.test/three.png"];
    let expected: BTreeSet<&str> = all.into_iter().chain(more).collect();
    assert_eq!(
        kept(&job)
            .keys()
            .map(String::as_str)
            .collect::<BTreeSet<_>>(),
        expected
    );
    (job, wire)
}

/// The images by address, with the pages around them.
fn kept(job: &Job) -> BTreeMap<String, Vec<String>> {
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    let pages = |sidecar: &Value| {
        let contexts = sidecar["contexts"].as_array().unwrap().iter();
        let mut pages: Vec<String> = contexts.map(|c| word(&c["page"])).collect();
        pages.sort();
        pages
    };
    let sidecars = job.sidecars();
    sidecars
        .iter()
        .map(|s| (word(&s["url"]), pages(s)))
        .collect()
}

fn sidecar(job: &Job, url: &str) -> Value {
    let mut sidecars = job.sidecars().into_iter();
    sidecars.find(|s| s["url"] == url).unwrap()
}

fn run(job: &Job, command: &str, more: &[&str]) -> Ran {
    let file = job.file();
    Ran::of(&mut spoor(
        &[&[command, file.to_str().unwrap()], more].concat(),
    ))
}

/// Crawls everything again in another folder, and returns the requests that the server saw.
fn asked_anew(job: &Job, wire: &Wire) -> BTreeSet<String> {
    let before = wire.requests().len();
    std::fs::remove_dir_all(job.folder().join("frontier")).unwrap();
    job.run();
    wire.requests()[before..]
        .iter()
        .map(|r| r.address())
        .collect()
}

/// All files of the job except the frontier's own, with their bytes.
fn bytes(job: &Job) -> BTreeMap<PathBuf, Vec<u8>> {
    let files = job.files("").into_iter();
    // The lock names the process that had it last.
    let files = files.filter(|f| !f.starts_with("frontier") && !f.starts_with("lock"));
    let read = |f: PathBuf| (f.clone(), std::fs::read(job.folder().join(f)).unwrap());
    files.map(read).collect()
}

#[test]
fn an_address_goes_and_the_same_bytes_elsewhere_stay_readable() {
    let (job, wire) = crawled("");
    run(&job, "rank", &[]).good();
    run(&job, "export", &["--format", "jsonl"]).good();
    // One of the two was fetched first; the other one is a link to it.
    let [one, copy] = [ONE, COPY].map(|url| sidecar(&job, url));
    let (first, second) = if one["same_as"].is_null() {
        (one, copy)
    } else {
        (copy, one)
    };
    assert_eq!(second["same_as"], first["file"]);
    let url = first["url"].as_str().unwrap();
    let file = job.folder().join(second["file"].as_str().unwrap());
    let before = std::fs::read(&file).unwrap();
    let data = job.folder().join("exports/jsonl/data.jsonl");
    let exported = std::fs::read_to_string(&data).unwrap().contains(url);
    let receipt = run(
        &job,
        "takedown",
        &["--url", url, "--reason", "asked by mail"],
    )
    .good();
    for said in [
        "asked by mail",
        "images removed: 1\n",
        "1 of duplicates.tsv",
        "receipt: ",
    ] {
        assert!(receipt.contains(said), "no {said:?} in {receipt}");
    }
    // If the other one represents both, the export does not contain this one.
    assert_eq!(data.exists(), !exported);
    assert_eq!(receipt.contains("exports/jsonl\n"), exported, "{receipt}");
    assert!(!kept(&job).contains_key(url));
    assert!(!job.folder().join(first["file"].as_str().unwrap()).exists());
    assert_eq!(std::fs::read(&file).unwrap(), before);
    let second = sidecar(&job, second["url"].as_str().unwrap());
    assert!(second["same_as"].is_null(), "{second}");
    assert!(job.image_rows().iter().all(|row| row["url"] != url));
    assert!(job.log().iter().all(|row| row["url"] != url));
    let asked = asked_anew(&job, &wire);
    let name = url.strip_prefix("http://").unwrap();
    assert!(!asked.contains(name), "{asked:?}");
    let other = second["url"]
        .as_str()
        .unwrap()
        .strip_prefix("http://")
        .unwrap();
    assert!(
        asked.contains(other) && asked.contains("a.test/two.png"),
        "{asked:?}"
    );
    let explained = run(&job, "explain", &[url]).good();
    assert!(explained.contains("asked by mail"), "{explained}");
    // Whatever is made from the job now does not contain it any more.
    run(&job, "rank", &[]).good();
    run(&job, "export", &["--format", "jsonl"]).good();
    for file in ["ranking.tsv", "exports/jsonl/data.jsonl"] {
        let text = std::fs::read_to_string(job.folder().join(file)).unwrap();
        assert!(
            !text.contains(url) && text.contains(other),
            "{file}: {text}"
        );
    }
}

/// The files of a job, decompressed, that contain a text; case does not count.
fn files_with(job: &Job, wanted: &str) -> BTreeSet<String> {
    let wanted = wanted.to_lowercase();
    let mut found = BTreeSet::new();
    for file in job.files("") {
        let bytes = std::fs::read(job.folder().join(&file)).unwrap();
        let name = file.to_string_lossy().into_owned();
        let mut unpacked = Vec::new();
        if name.ends_with(".gz") {
            let mut decoder = flate2::read::MultiGzDecoder::new(bytes.as_slice());
            std::io::Read::read_to_end(&mut decoder, &mut unpacked).unwrap();
        } else if name.ends_with(".zst") {
            unpacked = zstd::decode_all(bytes.as_slice()).unwrap();
        } else {
            unpacked = bytes;
        }
        if String::from_utf8_lossy(&unpacked)
            .to_lowercase()
            .contains(&wanted)
        {
            found.insert(name);
        }
    }
    found
}

#[test]
fn no_byte_of_a_host_is_left_in_any_file() {
    let (job, _wire) = crawled("");
    run(&job, "rank", &[]).good();
    run(&job, "export", &["--format", "jsonl"]).good();
    let mark = "zephyrs waltzed beside the harbour wall";
    let before = files_with(&job, mark);
    for below in ["sentences/", "documents/"] {
        assert!(before.iter().any(|f| f.starts_with(below)), "{before:?}");
    }
    let (sentences, documents) = (job.sentences().len(), job.documents().len());
    let output = run(&job, "takedown", &["--host", "b.test"]).good();
    for said in [
        "1 of documents/00000.jsonl.zst",
        "1 of sentences/00000.txt.gz",
    ] {
        assert!(output.contains(said), "no {said:?} in {output}");
    }
    // Deleted data stays in the store's files until it is rewritten.
    let file = job.file();
    Ran::of(&mut spoor(&["store", "compact", file.to_str().unwrap()])).good();
    assert_eq!(files_with(&job, mark), BTreeSet::new());
    // Its address is in the list of forbidden samples, in the receipt, and in the frontier, which
    // must recognise it.
    let named = files_with(&job, "b.test");
    let exempt = |file: &String| {
        file == "takedown.jsonl"
            || ["takedowns/", "frontier", "checkpoints/", "logs/spoor."]
                .iter()
                .any(|below| file.starts_with(below))
    };
    let wrong: Vec<_> = named.iter().filter(|file| !exempt(file)).collect();
    assert_eq!(wrong, [""; 0]);
    // The other texts are where the log says, and none of them is lost.
    assert_eq!(job.documents().len(), documents - 1);
    assert!(job.sentences().len() >= sentences - 6);
    job.run();
    assert_eq!(job.documents().len(), documents - 1);
}

#[test]
fn the_archive_is_rewritten_without_the_records_of_a_host() {
    let (job, _wire) = crawled("[archive]\nenabled = true\n");
    let mark = "zephyrs waltzed beside the harbour wall";
    let archive = |found: &BTreeSet<String>| found.iter().any(|f| f.starts_with("archive/"));
    let check = || {
        let folder = job.folder().join("archive");
        let out = Ran::of(spoor(&["archive", "check", "--json"]).arg(folder)).good();
        let found: Value = serde_json::from_str(&out).unwrap();
        found["files"][0]["records"].clone()
    };
    assert!(archive(&files_with(&job, mark)));
    let before = check();
    let output = run(&job, "takedown", &["--host", "b.test"]).good();
    assert!(output.contains(" of archive/spoor-"), "{output}");
    assert!(!archive(&files_with(&job, mark)));
    assert!(!archive(&files_with(
        &job,
        "WARC-Target-URI: http://b.test/"
    )));
    assert_ne!(check(), before);
    // The rows of the others still give the positions of their records.
    job.run();
    check();
    for row in job
        .log()
        .iter()
        .filter(|row| row["url"] == "http://a.test/")
    {
        let place = &row["archive"];
        let path = job
            .folder()
            .join("archive")
            .join(place["file"].as_str().unwrap());
        let bytes = std::fs::read(path).unwrap();
        let from = usize::try_from(place["from"].as_u64().unwrap()).unwrap();
        let mut head = [0; 400];
        let mut record = flate2::read::GzDecoder::new(&bytes[from..]);
        std::io::Read::read_exact(&mut record, &mut head).unwrap();
        let head = String::from_utf8_lossy(&head);
        assert!(
            head.contains("WARC-Target-URI: http://a.test/\r\n"),
            "{head}"
        );
    }
}

#[test]
fn a_host_is_removed_with_its_words_and_never_fetched_again() {
    let (job, wire) = crawled("");
    let json = run(&job, "takedown", &["--host", "b.test", "--json"]).good();
    let receipt: Value = serde_json::from_str(&json).unwrap();
    let removed = receipt["images"].as_array().unwrap().iter();
    let removed: BTreeSet<&str> = removed.map(|i| i["url"].as_str().unwrap()).collect();
    // The second image is on another host, but only pages of this one showed it.
    let gone = ["http://a.test/only.png", "http://b.test/three.png"];
    assert_eq!(removed, BTreeSet::from(gone));
    let after = kept(&job);
    assert_eq!(after.len(), 4, "{after:?}");
    assert_eq!(
        after["http://a.test/all.png"],
        ["http://a.test/", "http://a.test/more"]
    );
    let asked = asked_anew(&job, &wire);
    assert!(asked.contains("a.test/all.png"), "{asked:?}");
    let of_host: Vec<_> = asked.iter().filter(|a| a.starts_with("b.test")).collect();
    assert_eq!(of_host, [""; 0], "not even its robots.txt");
    assert_eq!(kept(&job), after);
}

#[test]
fn bytes_go_everywhere_and_are_dropped_whenever_they_come() {
    let (job, wire) = crawled("");
    let digest = sidecar(&job, ONE)["sha256"].as_str().unwrap().to_owned();
    run(&job, "takedown", &["--sha256", &digest]).good();
    let after = kept(&job);
    assert_eq!(after.len(), 4, "{after:?}");
    let lines = job.log().len();
    let asked = asked_anew(&job, &wire);
    // The contents of an address are unknown until it is fetched.
    for url in [ONE, COPY] {
        assert!(
            asked.contains(url.strip_prefix("http://").unwrap()),
            "{asked:?}"
        );
        let log = job.log();
        let row = log[lines..].iter().find(|row| row["url"] == url).unwrap();
        assert_eq!(
            (&row["outcome"], &row["reason"]),
            (&"dropped".into(), &"takedown".into())
        );
        assert!(row["error"].as_str().unwrap().contains(&digest), "{row}");
        assert!(row["file"].is_null(), "{row}");
    }
    assert_eq!(kept(&job), after);
}

#[test]
fn a_dry_run_prints_the_same_and_changes_no_byte() {
    let (job, _wire) = crawled("");
    run(&job, "rank", &[]).good();
    let archive = job.file().with_file_name("frontier.jsonl.gz");
    let exported = || -> BTreeSet<String> {
        std::fs::remove_file(&archive).ok();
        let (file, archive) = (job.file(), archive.to_str().unwrap());
        Ran::of(&mut spoor(&[
            "store",
            "export",
            file.to_str().unwrap(),
            archive,
        ]))
        .good();
        let packed = std::fs::read(archive).unwrap();
        let mut text = String::new();
        let mut decoder = flate2::read::MultiGzDecoder::new(packed.as_slice());
        std::io::Read::read_to_string(&mut decoder, &mut text).unwrap();
        // The first line counts commits and runs.
        text.lines().skip(1).map(str::to_owned).collect()
    };
    let before = (bytes(&job), exported());
    let asked = ["--host", "b.test", "--url", ONE, "--json"];
    let dry = run(&job, "takedown", &[&asked[..], &["--dry-run"]].concat()).good();
    assert!((bytes(&job), exported()) == before, "something has changed");
    let dry: Value = serde_json::from_str(&dry).unwrap();
    assert!(dry["done"].is_null());
    let done: Value = serde_json::from_str(&run(&job, "takedown", &asked).good()).unwrap();
    for key in [
        "asked",
        "images",
        "contexts",
        "rows",
        "frontier",
        "files",
        "copies",
        "not_found",
    ] {
        assert_eq!(dry[key], done[key], "{key}");
    }
    assert!(done["images"].as_array().unwrap().len() == 3, "{done}");
}

#[test]
fn nothing_is_taken_down_while_a_crawl_runs() {
    let never = Behaviour::of("b.test").latency(Duration::from_secs(3_600));
    let wire = Wire::serve(Lab::from_memory(web()).with_behaviour(never));
    let job = Job::new(&wire, &text(""));
    let mut live = Live::start(&mut job.crawl());
    wire.wait_for("b.test/robots.txt");
    let error = run(&job, "takedown", &["--host", "b.test"]).refused();
    assert!(error.contains("another spoor works on this job"), "{error}");
    assert!(!job.folder().join("takedown.jsonl").exists());
    assert!(live.kill());
    run(&job, "takedown", &["--host", "b.test"]).good();
    let before = wire.requests().len();
    job.run();
    let after = wire.requests();
    assert!(after[before..].iter().all(|r| r.host != "b.test"));
}

#[test]
fn nothing_is_taken_down_while_the_samples_are_read() {
    let (job, _wire) = crawled("");
    let annotate = ["annotate", job.file().to_str().unwrap()].map(str::to_owned);
    let annotate = annotate.each_ref().map(String::as_str);
    // There are no votes yet.
    let mut live = Live::start(&mut spoor(&annotate));
    live.line_with("judging 5 images on ");
    let error = run(&job, "takedown", &["--host", "b.test"]).refused();
    assert!(error.contains("`spoor annotate`"), "{error}");
    assert!(!job.folder().join("takedown.jsonl").exists());
    // Other commands that read are still possible.
    run(&job, "rank", &[]).good();
    assert!(live.kill());
    run(&job, "takedown", &["--host", "b.test"]).good();
    let sample = job.folder().join("annotations/images.tsv");
    assert!(!std::fs::read_to_string(sample).unwrap().contains("b.test"));
    // During a takedown, other commands cannot use samples that are about to be removed.
    let removing = spoor::outputs::remove_samples(&job.folder()).unwrap();
    let export = ["export", "--format", "jsonl"];
    for command in [&["rank"][..], &export, &["annotate"]] {
        let (command, more) = command.split_first().unwrap();
        let error = run(&job, command, more).refused();
        assert!(error.contains("a takedown removes samples"), "{error}");
    }
    drop(removing);
    run(&job, "export", &["--format", "jsonl"]).good();
}

#[test]
fn words_do_not_come_back_with_an_older_frontier() {
    // An image that is still to be fetched when the page is taken down.
    let late =
        |lab: Lab| lab.with_behaviour(Behaviour::of("i.test").latency(Duration::from_secs(3_600)));
    let mut web = web();
    let body = [
        some(topical(), 50, 4),
        image("http://i.test/late.png", &some(topical(), 3, 1)),
    ];
    let more = link("http://a.test/too", &some(topical(), 5, 1));
    let seed = page("Late", "", &[body.to_vec(), vec![more]].concat());
    web.insert_as("d.test", "/", "text/html", seed);
    let too = [
        some(topical(), 70, 4),
        image("http://i.test/late.png", &some(topical(), 9, 1)),
    ];
    web.insert_as("a.test", "/too", "text/html", page("Too", "", &too));
    assert!(web.image("http://i.test/late.png", 200, 200));
    let wire = Wire::serve(late(Lab::from_memory(web.clone())));
    let seeds = JobText {
        seeds: &["http://d.test/"],
        ..JobText::default()
    };
    let job = Job::new(&wire, &seeds);
    let mut live = Live::start(&mut job.crawl());
    let asked = |n: &crate::support::wire::Notes, address: &str| {
        n.requests
            .iter()
            .any(|r| r.address() == address && r.ended.is_some())
    };
    wire.wait(
        |n| asked(n, "a.test/too") && n.requests.iter().any(|r| r.host == "i.test"),
        || false,
    );
    // The last page is settled when its row is in the log.
    let deadline = Instant::now() + GUARD;
    let settled = || {
        let log = std::fs::read_to_string(job.folder().join("logs/crawl.jsonl")).unwrap();
        log.lines().any(|line| line.contains("http://a.test/too\""))
    };
    while !settled() {
        assert!(Instant::now() < deadline, "the page is not settled");
        std::thread::yield_now();
    }
    assert!(live.kill());
    let archive = job.file().with_file_name("old.jsonl.gz");
    let (file, archive) = (job.file(), archive.to_str().unwrap().to_owned());
    let file = file.to_str().unwrap();
    Ran::of(&mut spoor(&["store", "export", file, &archive])).good();
    let receipt = run(&job, "takedown", &["--url", "http://d.test/", "--json"]).good();
    let receipt: Value = serde_json::from_str(&receipt).unwrap();
    assert_eq!(receipt["frontier"]["contexts"], 1, "{receipt}");
    std::fs::remove_dir_all(job.folder().join("frontier")).unwrap();
    Ran::of(&mut spoor(&["store", "import", file, &archive])).good();
    let quick = Wire::serve(Lab::from_memory(web));
    job.write(&quick, &seeds);
    job.run();
    assert_eq!(kept(&job)["http://i.test/late.png"], ["http://a.test/too"]);
}

/// A condition on a job's folder at which the takedown is killed.
type Seen = fn(&Path) -> bool;

fn images(folder: &Path) -> usize {
    spoor::outputs::image_files(folder).unwrap().len()
}

fn receipts(folder: &Path) -> usize {
    let names = std::fs::read_dir(folder.join("takedowns"))
        .into_iter()
        .flatten();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| name.starts_with("20") && name.ends_with(".json"))
        .count()
}

const POINTS: [(&str, Seen); 14] = [
    ("at once", |_| true),
    ("opened", |f| {
        f.join("takedowns").exists() || f.join("takedown.jsonl").exists()
    }),
    ("forbidden", |f| f.join("takedown.jsonl").exists()),
    ("planned", |f| f.join("takedowns/unfinished.json").exists()),
    ("texts beside", |f| {
        f.join("documents/00000.jsonl.zst.rewritten").exists()
    }),
    ("rows beside", |f| f.join("images.tsv.rewritten").exists()),
    ("journal", |f| f.join("rewriting.json").exists()),
    ("rows in place", |f| f.join("generation").exists()),
    ("journal gone", |f| {
        f.join("generation").exists() && !f.join("rewriting.json").exists()
    }),
    ("an image gone", |f| images(f) < 6),
    ("two images gone", |f| images(f) < 5),
    ("three images gone", |f| images(f) < 4),
    ("export gone", |f| !f.join("exports/jsonl").exists()),
    ("receipt", |f| receipts(f) > 0),
];

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to)
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// What a takedown leaves, however often it was started.
fn left(job: &Job) -> (BTreeMap<String, Vec<String>>, Vec<String>, Vec<String>) {
    let rows = job.image_rows().into_iter();
    let mut rows: Vec<String> = rows
        .map(|r| format!("{} {}", r["url"], r["page"]))
        .collect();
    rows.sort();
    let mut endings = job.endings();
    endings.extend(
        job.documents()
            .into_iter()
            .map(|d| format!("{} {}", d.url, d.hash)),
    );
    endings.extend(job.sentences());
    endings.sort();
    (kept(job), rows, endings)
}

#[test]
fn a_takedown_that_is_killed_is_completed_by_the_next() {
    for store in [StoreKind::Sled, StoreKind::Fjall] {
        killed_at_every_point(store);
    }
}

fn killed_at_every_point(store: StoreKind) {
    // Makes several files of the log.
    let rest = format!(
        "[frontier]\nstore = \"{}\"\n[logs]\nrotate = \"4KiB\"\n",
        store.name()
    );
    let (whole, wire) = crawled(&rest);
    assert!(whole.folder().join("logs/crawl.00001.jsonl.zst").exists());
    run(&whole, "rank", &[]).good();
    run(&whole, "export", &["--format", "jsonl"]).good();
    let asked = ["--host", "b.test", "--url", ONE];
    let another = || {
        let job = Job::new(&wire, &text(&rest));
        copy(&whole.folder(), &job.folder());
        job
    };
    let undisturbed = another();
    run(&undisturbed, "takedown", &asked).good();
    let expected = left(&undisturbed);
    assert_eq!(expected.0.len(), 3);
    for row in undisturbed.log() {
        assert!(!row.to_string().contains("//b.test"), "{row}");
    }
    let mut killed = 0;
    for (point, seen) in POINTS {
        let job = another();
        let (file, folder) = (job.file(), job.folder());
        let arguments = [&["takedown", file.to_str().unwrap()], &asked[..]].concat();
        let mut live = Live::start(&mut spoor(&arguments));
        let deadline = Instant::now() + GUARD;
        while !seen(&folder) && !live.has_ended() {
            assert!(Instant::now() < deadline, "{point}");
            std::thread::yield_now();
        }
        killed += usize::from(live.kill());
        run(&job, "takedown", &asked).good();
        assert!(
            !folder.join("takedowns/unfinished.json").exists(),
            "{point}"
        );
        assert_eq!(left(&job), expected, "{point}");
        let before = wire.requests().len();
        job.run();
        assert_eq!(
            wire.requests().len(),
            before,
            "{point}: something is asked for again"
        );
        assert_eq!(left(&job), expected, "{point}");
        let check = ["store", "check", file.to_str().unwrap()];
        Ran::of(&mut spoor(&check)).good();
        let forbidden = |name: &str| {
            let text = std::fs::read_to_string(folder.join(name)).unwrap();
            text.contains("b.test") || text.contains("one.png")
        };
        assert!(
            !forbidden("ranking.tsv") && !forbidden("duplicates.tsv"),
            "{point}"
        );
        assert!(!folder.join("exports/jsonl").exists(), "{point}");
    }
    // The last points may be over before they are seen.
    assert!(
        killed >= 7,
        "only {killed} kills of {} were in time",
        POINTS.len()
    );
}
