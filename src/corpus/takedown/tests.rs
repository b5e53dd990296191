//! Takedowns of a small crawl, undisturbed and with a fault at every step.

use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use super::*;
use crate::config::Config;
use crate::frontier::consistency;
use crate::frontier::store as stores;
use crate::frontier::store::StoreError;
use crate::frontier::{
    Effects, Finished, NewImage, NewTask, OutputEdit, RobotsAnswer, State, Written, whole,
};
use crate::fs::beneath::JobPath;
use crate::outputs::picture::ImageInfo;
use crate::outputs::sentences_at;
use crate::outputs::{
    Document, NewImageFile, PackedSentences, Row, TextPlace, VisitKind, document_at, documents,
};
use crate::page::{Bucket, ImageContext, ImageScores, ImageTexts, Outcome, Reason, Task, Terms};
use crate::tool_error::ToolError;
use crate::web::scope::Sha256Hex;

const SECOND: Duration = Duration::from_millis(10);

fn url(text: &str) -> PageUrl {
    PageUrl::parse(text).unwrap()
}

/// Pages with their links and images.
const PAGES: [(&str, &[&str], &[&str]); 4] = [
    (
        "http://a.test/",
        &["http://b.test/p", "http://c.test/"],
        &[
            "http://a.test/1.png",
            "http://a.test/2.png",
            "http://r.test/moved.png",
        ],
    ),
    (
        "http://b.test/p",
        &["http://a.test/", "http://b.test/late"],
        &["http://a.test/1.png", "http://b.test/3.png"],
    ),
    ("http://c.test/", &[], &["http://c.test/same.png"]),
    ("http://b.test/late", &[], &["http://a.test/2.png"]),
];

/// Images under two addresses have the same bytes.
fn bytes_of(url: &str) -> Vec<u8> {
    let name = match url {
        "http://c.test/same.png" => "http://a.test/1.png",
        other => other,
    };
    format!("the bytes of {name}").into_bytes()
}

struct Job {
    root: tempfile::TempDir,
    config: Config,
}

fn config(root: &Path, seeds: &str) -> Config {
    let text = format!(
        "[job]\nname = \"t\"\nfolder = {root:?}\n[consent]\ntdmrep = false\n[seeds]\nurls = [{seeds}]\n\
         [politeness]\nmin_delay = 0\ndelay_factor = 0\naddress_delay = 0\n"
    );
    Config::parse(&text, "t.toml").unwrap()
}

impl Job {
    /// A crawl that stopped before the page `late` and the image `3.png`.
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let config = config(root.path(), "");
        let job = Self { root, config };
        job.crawl(&["http://b.test/late", "http://b.test/3.png"]);
        let open = checkpoint::open(&job.config, 0).unwrap();
        let export = job.folder().join("checkpoints");
        fs::create_dir_all(&export).unwrap();
        let export = export.join("frontier-19700101T000000Z.jsonl.gz");
        crate::frontier::dump::write_file(&*open.frontier.only().unwrap().snapshot(), &export)
            .unwrap();
        open.frontier.close().unwrap();
        job.extra();
        job
    }

    fn folder(&self) -> PathBuf {
        self.root.path().join("t")
    }

    /// Files that other commands make from the images.
    fn extra(&self) {
        let folder = self.folder();
        let mut rows = String::from("rank\tfile\turl\tpage\n");
        let mut votes = String::new();
        let mut sidecars = self.sidecars();
        sidecars.sort_by(|a, b| a.url().cmp(b.url()));
        for (n, s) in (1..).zip(&sidecars) {
            let page = s.contexts()[0].page.as_str();
            rows += &format!("{n}\t{}\t{}\t{page}\n", s.file(), s.url());
            votes += &format!(
                "{{\"vote\":{n},\"annotator\":\"x\",\"image\":\"{}\",\"url\":\"{}\"}}\n",
                s.sha256(),
                s.url()
            );
        }
        votes += "{\"undo\":1,\"annotator\":\"x\"}\n";
        fs::write(folder.join("ranking.tsv"), &rows).unwrap();
        // As a ranking writes it. Process 1 always exists, so its file is not cleaned up.
        fs::write(folder.join("ranking.tsv.1.partial"), &rows).unwrap();
        fs::create_dir_all(folder.join("annotations")).unwrap();
        fs::write(folder.join("annotations/votes.jsonl"), votes).unwrap();
        for (name, of) in [("jsonl", 0..9), ("webdataset", 3..4)] {
            let export = folder.join("exports").join(name);
            fs::create_dir_all(&export).unwrap();
            let listed = &sidecars[of.start.min(sidecars.len())..of.end.min(sidecars.len())];
            let lines = listed.iter().map(|s| s.url().to_owned() + "\n");
            fs::write(export.join("samples.jsonl"), lines.collect::<String>()).unwrap();
            fs::write(export.join("README.md"), "a data card").unwrap();
        }
    }

    fn copy(&self) -> Self {
        let root = tempfile::tempdir().unwrap();
        copy(self.root.path(), root.path());
        let config = config(root.path(), "");
        Self { root, config }
    }

    fn sidecars(&self) -> Vec<Sidecar> {
        let folder = self.folder();
        let files = outputs::image_files(&folder).unwrap();
        let load = |file: &String| Sidecar::load(&folder, file).unwrap();
        files.iter().map(load).collect()
    }

    /// Image addresses with the pages around them.
    fn contexts(&self) -> BTreeMap<String, Vec<String>> {
        let pages = |s: &Sidecar| {
            let pages = s.contexts().iter().map(|c| c.page.as_str().to_owned());
            pages.collect()
        };
        let sidecars = self.sidecars();
        let all = sidecars.iter().map(|s| (s.url().to_owned(), pages(s)));
        all.collect()
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.folder().join(name)).unwrap()
    }

    fn take_down(&self, targets: &[Target]) -> Receipt {
        let (receipt, path) = take_down(&self.config, &request(targets), 5_000_000).unwrap();
        let written: Receipt = serde_json::from_slice(&fs::read(path.unwrap()).unwrap()).unwrap();
        assert_eq!(written, receipt);
        assert!(!self.folder().join(checkpoint::UNFINISHED).exists());
        self.sound();
        receipt
    }

    /// Checks that the frontier is consistent and the job opens.
    fn sound(&self) {
        let open = checkpoint::open(&self.config, 6_000_000).unwrap();
        open.frontier.close().unwrap();
        drop((open.outputs, open.lock));
        let store = stores::open(self.config.frontier.store, &self.folder().join("frontier"));
        let audit = consistency::check(&*whole(store.unwrap())).unwrap();
        assert!(audit.is_sound(), "{:?}", audit.problems);
    }

    /// Continues the crawl to its end, except for `not`; returns what was fetched.
    fn crawl(&self, not: &[&str]) -> BTreeSet<String> {
        let job = checkpoint::open(&self.config, 10_000_000).unwrap();
        let mut frontier = job.frontier;
        let mut outputs = job.outputs;
        let mut now = 10_000_000;
        let mut fetched = BTreeSet::new();
        let mut left = Vec::new();
        frontier.add_seeds(&[url("http://a.test/")], now).unwrap();
        while frontier.is_rescoping() {
            frontier.rescope_slice(now).unwrap();
        }
        loop {
            let Some(task) = frontier.lease_best(now).unwrap() else {
                match frontier.next_event() {
                    Some(at) => now = at.max(now + 1),
                    None => break,
                }
                continue;
            };
            if task.locate {
                frontier.located(&task, None, now).unwrap();
            } else if task.kind == TaskKind::Robots {
                let stamp = outputs.stamp();
                let stamp = |_: &_| Ok::<_, StoreError>(stamp);
                let none = RobotsAnswer::Missing;
                let answer =
                    |cell: &mut Frontier| cell.finish_robots(&task, none, SECOND, now, stamp);
                frontier.of_task(&task, answer).unwrap();
            } else if not.contains(&task.url.as_str()) {
                left.push(task);
            } else {
                fetched.insert(task.url.as_str().to_owned());
                fetch(&mut frontier, &mut outputs, &task, now);
            }
        }
        for task in left {
            frontier.abandon(&task, now).unwrap();
        }
        outputs.sync().unwrap();
        frontier.close().unwrap();
        fetched
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target)
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn context(page: &str) -> ImageContext {
    ImageContext {
        page: url(page),
        page_title: None,
        page_language: None,
        page_recognised_language: None,
        document_perplexity: 1.0,
        declared_width: None,
        declared_height: None,
        terms: Terms::default(),
        embedding: Default::default(),
        texts: ImageTexts {
            alt: Some(format!("words of {page}")),
            ..ImageTexts::default()
        },
        scores: ImageScores::default(),
        rank: 1.0,
    }
}

/// Does what the pipeline does with a response of this web.
fn fetch(frontier: &mut Cells, outputs: &mut outputs::Outputs, task: &Task, now: u64) {
    let address = task.url.as_str();
    let mut effects = Effects::default();
    let mut outcome = Outcome::Done;
    if let Some((page, links, images)) = PAGES.iter().find(|(page, ..)| *page == address) {
        let rated = |score| (Some(Bucket::High), score);
        for link in *links {
            let (bucket, score) = rated(2.0);
            let parts = None;
            let url = url(link);
            effects.links.push(NewTask {
                url,
                bucket,
                score,
                parts,
                anchor: None,
                clues: None,
            });
        }
        for image in *images {
            let (bucket, score) = rated(1.0);
            effects.images.push(NewImage {
                url: url(image),
                bucket,
                score,
                context: context(page),
            });
        }
    }
    if address == "http://r.test/moved.png" {
        let to = url("http://s.test/real.png");
        outcome = Outcome::Redirect { to };
    }
    let is_image = task.kind == TaskKind::Image;
    let digest = is_image.then(|| bytes_of(address));
    let orders = frontier.scope().takedowns();
    if digest.is_some_and(|bytes| orders.covering_bytes(&bytes).is_some()) {
        let reason = Reason::Takedown;
        outcome = Outcome::Drop { reason };
    }
    let contexts = if is_image {
        frontier.only().unwrap().contexts(&task.url).unwrap()
    } else {
        Vec::new()
    };
    let keeps = is_image && outcome == Outcome::Done;
    let write = |finished: &Finished| {
        for edit in &finished.edits {
            let OutputEdit::AddContext { note, context, .. } = edit else {
                continue;
            };
            outputs.extend_image(note, ImageContext::clone(context), VisitKind::Changed)?;
        }
        let mut note = None;
        let (mut sentences, mut document) = (None, None);
        if keeps {
            let bytes = bytes_of(address);
            let info = ImageInfo {
                format: "png".to_owned(),
                extension: "png",
                width: 100,
                height: 100,
                sha256: hex_digest(&bytes),
                ..ImageInfo::default()
            };
            note = Some(outputs.image(NewImageFile {
                contexts,
                ..NewImageFile::new(&task.url, &bytes, info, "2026-01-02T12:00:00.000Z")
            })?);
        } else if !is_image {
            sentences =
                outputs.sentences(&PackedSentences::of(&format!("a sentence of {address}\n")))?;
            document = Some(outputs.document(&Document {
                url: address.to_owned(),
                via: task.via.as_ref().map(|via| via.as_str().to_owned()),
                text: format!("A document of {address}: {}", "word ".repeat(40)),
                ..Document::default()
            })?);
        }
        outputs.log(&Row {
            via: task.via.as_ref().map(PageUrl::as_str),
            sentences: sentences.as_ref(),
            documents: document.as_ref(),
            ..row(task, note.as_deref())
        })?;
        let stamp = outputs.stamp();
        Ok::<_, ToolError>(Written {
            stamp,
            note,
            ..Written::default()
        })
    };
    frontier
        .of_task(task, |cell| {
            cell.finish(task, outcome, effects, SECOND, now, write)
        })
        .unwrap();
}

fn hex_digest(bytes: &[u8]) -> String {
    base16ct::lower::encode_string(&Sha256::digest(bytes))
}

fn row<'a>(task: &'a Task, file: Option<&'a str>) -> Row<'a> {
    Row {
        status: Some(200),
        bytes: 1,
        ms: 1,
        bucket: "high",
        score: 1.0,
        file,
        ..Row::done(
            "2026-01-02T03:04:05.000Z",
            task.kind,
            task.url.as_str(),
            task.url.id(),
        )
    }
}

fn request(targets: &[Target]) -> Request {
    Request {
        targets: targets.to_vec(),
        reason: Some("a letter".to_owned()),
        dry_run: false,
    }
}

fn by_url(text: &str) -> Target {
    Target::Url(url(text))
}

fn by_host(text: &str) -> Target {
    Target::Host(text.parse().unwrap())
}

fn by_bytes(of: &str) -> Target {
    Target::Sha256(Sha256Hex::of(&bytes_of(of)))
}

fn removed(receipt: &Receipt) -> Vec<&str> {
    let mut urls: Vec<&str> = receipt.images.iter().map(|i| i.url.as_str()).collect();
    urls.sort_unstable();
    urls
}

fn state(job: &Job, address: &str, kind: TaskKind) -> Option<State> {
    let open = checkpoint::open(&job.config, 0).unwrap();
    let record = open.frontier.look_up(&url(address), kind).unwrap();
    open.frontier.close().unwrap();
    record.map(|record| record.state)
}

const TAKEN: State = State::Dropped {
    reason: Reason::Takedown,
};

#[test]
fn an_image_goes_from_everywhere_and_its_copy_stays() {
    let job = Job::new();
    assert_eq!(job.contexts().len(), 4);
    let asked = [by_url("https://a.test/1.png"), by_url("http://x.test/no")];
    let dry = Request {
        dry_run: true,
        ..request(&asked)
    };
    let before = snapshot(&job);
    let (planned, path) = take_down(&job.config, &dry, 5_000_000).unwrap();
    assert_eq!((path, &planned.done), (None, &None));
    assert_eq!(snapshot(&job), before, "nothing is changed");
    let receipt = job.take_down(&asked);
    let done = receipt.done.clone();
    assert_eq!(receipt, Receipt { done, ..planned });
    assert_eq!(removed(&receipt), ["http://a.test/1.png"]);
    assert_eq!(receipt.not_found, asked[1..]);
    assert_eq!(receipt.copies[0].url, "http://c.test/same.png");
    let rows: Vec<_> = receipt.rows.iter().map(|(t, n)| (t.as_str(), *n)).collect();
    let expected = [
        ("annotations/votes.jsonl", 2),
        ("images.tsv", 2),
        ("logs/crawl.jsonl", 1),
        ("ranking.tsv", 1),
        ("ranking.tsv.1.partial", 1),
    ];
    assert_eq!(rows, expected, "the vote, and what took it back");
    assert_eq!(receipt.exports, [JobPath::parse("exports/jsonl").unwrap()]);
    assert!(job.folder().join("exports/webdataset/README.md").exists());
    assert!(!job.folder().join("exports/jsonl").exists());
    let image = receipt.files.iter().find(|f| f.file.ends_with("1.png"));
    assert_eq!(image.unwrap().sha256, receipt.images[0].sha256);
    for table in [
        "images.tsv",
        "ranking.tsv",
        "ranking.tsv.1.partial",
        "logs/crawl.jsonl",
    ] {
        assert!(!job.text(table).contains("a.test/1.png"), "{table}");
        assert!(job.text(table).contains("c.test/same.png"), "{table}");
    }
    assert_eq!(
        state(&job, "http://a.test/1.png", TaskKind::Image),
        Some(TAKEN)
    );
    let said = receipt.to_string();
    assert!(
        said.contains("forbidden permanently: 2\n  url https://a.test/1.png\n"),
        "{said}"
    );
    assert!(said.contains("--sha256 "), "{said}");
    // Two more pages are found, and one of them embeds it.
    let fetched = job.crawl(&[]);
    let expected = ["http://b.test/3.png", "http://b.test/late"];
    assert_eq!(fetched.iter().collect::<Vec<_>>(), expected);
    assert_eq!(job.contexts().len(), 4);
    assert_eq!(job.contexts()["http://a.test/2.png"].len(), 2);
    let again = job.take_down(&asked);
    assert!(again.is_empty(), "{again}");
}

#[test]
fn bytes_go_under_every_address_and_are_dropped_after_the_fetch() {
    let job = Job::new();
    let receipt = job.take_down(&[
        by_bytes("http://a.test/1.png"),
        by_bytes("http://b.test/3.png"),
    ]);
    let both = ["http://a.test/1.png", "http://c.test/same.png"];
    assert_eq!(removed(&receipt), both);
    assert!(receipt.copies.is_empty());
    assert_eq!(receipt.not_found, [by_bytes("http://b.test/3.png")]);
    let fetched = job.crawl(&[]);
    assert!(fetched.contains("http://b.test/3.png"), "{fetched:?}");
    let left: Vec<String> = job.contexts().into_keys().collect();
    assert_eq!(left, ["http://a.test/2.png", "http://s.test/real.png"]);
    assert_eq!(
        state(&job, "http://b.test/3.png", TaskKind::Image),
        Some(TAKEN)
    );
}

#[test]
fn a_page_goes_with_its_words_and_images_without_others() {
    let job = Job::new();
    let receipt = job.take_down(&[by_url("http://a.test/")]);
    let bare = ["http://a.test/2.png", "http://s.test/real.png"];
    assert_eq!(removed(&receipt), bare);
    assert!(receipt.images.iter().all(|i| i.by.is_none()));
    assert_eq!(receipt.contexts.len(), 1);
    assert_eq!(job.contexts()["http://a.test/1.png"], ["http://b.test/p"]);
    assert_eq!(receipt.frontier.forgotten, 2);
    assert_eq!(state(&job, "http://a.test/", TaskKind::Page), Some(TAKEN));
    assert_eq!(state(&job, "http://a.test/2.png", TaskKind::Image), None);
    // The image itself was not a target: it returns with other words.
    let fetched = job.crawl(&[]);
    assert!(!fetched.contains("http://a.test/"), "{fetched:?}");
    assert_eq!(
        job.contexts()["http://a.test/2.png"],
        ["http://b.test/late"]
    );
}

#[test]
fn a_host_goes_as_a_whole_and_waiting_words_too() {
    let job = Job::new();
    let receipt = job.take_down(&[by_host("*.b.test"), by_host("s.test")]);
    assert_eq!(removed(&receipt), ["http://s.test/real.png"]);
    // The page, the queued page and the queued image with its words.
    assert_eq!(receipt.frontier.contexts, 1);
    assert_eq!(receipt.frontier.addresses, 4);
    assert_eq!(job.contexts()["http://a.test/1.png"], ["http://a.test/"]);
    assert!(!job.text("logs/crawl.jsonl").contains("b.test"));
    assert!(job.crawl(&[]).is_empty());
}

#[test]
fn an_image_is_followed_to_where_it_redirects() {
    let job = Job::new();
    let receipt = job.take_down(&[by_url("http://r.test/moved.png")]);
    assert_eq!(receipt.followed, [url("http://s.test/real.png")]);
    assert_eq!(removed(&receipt), ["http://s.test/real.png"]);
    assert!(!job.crawl(&[]).iter().any(|u| u.contains("real.png")));
}

#[test]
fn an_older_frontier_fetches_nothing_of_it_and_cuts_nothing_off() {
    let job = Job::new();
    let export = job
        .folder()
        .join("checkpoints/frontier-19700101T000000Z.jsonl.gz");
    let outside = job.root.path().join("old.jsonl.gz");
    fs::copy(&export, &outside).unwrap();
    job.take_down(&[by_url("http://a.test/1.png"), by_host("b.test")]);
    assert!(!export.exists(), "replaced by one of now");
    assert_eq!(
        fs::read_dir(job.folder().join("checkpoints"))
            .unwrap()
            .count(),
        1
    );
    let rows = job.text("images.tsv");
    for way in ["import", "anew"] {
        fs::remove_dir_all(job.folder().join("frontier")).unwrap();
        if way == "import" {
            crate::daemon::maintenance::import(&job.config, &outside).unwrap();
        }
        let fetched = job.crawl(&[]);
        let forbidden = |u: &&String| u.contains("b.test") || u.contains("1.png");
        assert_eq!(fetched.iter().find(forbidden), None, "{way}");
        assert!(job.text("images.tsv").starts_with(&rows), "{way}");
        assert_eq!(job.contexts().len(), 3, "{way}");
    }
}

/// Everything in a job's folder that must be the same after a takedown, with or without
/// faults on the way.
fn snapshot(job: &Job) -> BTreeMap<String, Vec<u8>> {
    let folder = job.folder();
    let mut files = BTreeMap::new();
    for below in [
        "images",
        "sentences",
        "documents",
        "logs",
        "exports",
        "annotations",
    ] {
        for name in exports::files_of(&folder, below).unwrap() {
            files.insert(name.clone(), fs::read(folder.join(&name)).unwrap());
        }
    }
    for name in ["images.tsv", "ranking.tsv", checkpoint::TAKEDOWNS] {
        files.insert(
            name.to_owned(),
            fs::read(folder.join(name)).unwrap_or_default(),
        );
    }
    files
}

/// The pages whose text is kept: by the log, and by the documents themselves.
fn texts(job: &Job) -> (Vec<String>, Vec<String>) {
    let folder = job.folder();
    let mut named = Vec::new();
    for line in job.text("logs/crawl.jsonl").lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let url = row["url"].as_str().unwrap();
        if row["kind"] != "page" {
            continue;
        }
        let place = |key: &str| serde_json::from_value::<TextPlace>(row[key].clone()).unwrap();
        let document = document_at(&folder, &place("documents")).unwrap();
        assert_eq!(document.url, url);
        assert_eq!(document.via.as_deref(), row["via"].as_str());
        let sentences = sentences_at(&folder, &place("sentences")).unwrap();
        assert_eq!(sentences, [format!("a sentence of {url}")]);
        named.push(url.to_owned());
    }
    let found = documents(&folder).unwrap();
    (named, found.map(|d| d.unwrap().url).collect())
}

#[test]
fn texts_go_with_their_page_and_others_are_found_where_the_log_says() {
    let job = Job::new();
    job.crawl(&[]);
    let all = texts(&job);
    assert_eq!((all.0.len(), &all.0), (4, &all.1));
    let receipt = job.take_down(&[by_host("b.test")]);
    let pages: u64 = receipt.pages.values().sum();
    assert_eq!(pages, 4, "sentences and documents of two pages: {receipt}");
    let named = receipt.remains.iter().find(|r| r.contains("sentences/"));
    assert_eq!(named, None, "all could be distinguished");
    let expected = ["http://a.test/", "http://c.test/"].map(str::to_owned);
    assert_eq!(texts(&job), (expected.to_vec(), expected.to_vec()));
    assert!(!job.text("logs/crawl.jsonl").contains("b.test"));
    // The crawl continues after the remaining data, and a repeated takedown removes nothing.
    job.crawl(&[]);
    assert_eq!(texts(&job).0, expected);
    let again = job.take_down(&[by_host("b.test")]);
    assert!(again.pages.is_empty() && again.unnamed == 0, "{again}");

    // If the log has lost its row, a document still names its page, but sentences are
    // reported as unassignable.
    let log = job.text("logs/crawl.jsonl");
    let kept = log
        .lines()
        .filter(|line| !line.contains("\"http://c.test/\""));
    let kept: String = kept.map(|line| format!("{line}\n")).collect();
    fs::remove_dir_all(job.folder().join("frontier")).unwrap();
    fs::write(job.folder().join("logs/crawl.jsonl"), kept).unwrap();
    let receipt = job.take_down(&[by_host("c.test")]);
    assert_eq!(receipt.pages.values().sum::<u64>(), 1, "{receipt}");
    let note = receipt
        .remains
        .iter()
        .any(|r| r.starts_with("sentences/00000.txt.gz: nothing"));
    assert!(note, "{receipt}");
    let left: Vec<_> = documents(&job.folder())
        .unwrap()
        .map(|d| d.unwrap().url)
        .collect();
    assert_eq!(left, ["http://a.test/"]);
}

#[test]
fn a_fault_at_any_step_is_made_good_by_the_next_takedown() {
    let job = Job::new();
    let asked = [
        by_url("http://a.test/1.png"),
        by_url("http://a.test/"),
        by_host("b.test"),
        by_bytes("http://c.test/same.png"),
    ];
    let whole = job.copy();
    let receipt = whole.take_down(&asked);
    let (left, after) = (snapshot(&whole), whole.crawl(&[]));
    let mut steps = Vec::new();
    for fault in 0.. {
        let broken = job.copy();
        let mut step = 0;
        let ended = take_down_with(&broken.config, &request(&asked), 5_000_000, &mut |name| {
            step += 1;
            if step > fault {
                steps.push(name.to_owned());
                Err(nothing())
            } else {
                Ok(())
            }
        });
        if ended.is_ok() {
            break;
        }
        // The job opens, and forbidden addresses are no longer fetched.
        let between = broken.copy();
        between.sound();
        let fetched = between.crawl(&[]);
        assert_eq!(fetched, after, "fault {fault}");
        between.take_down(&asked);
        assert_eq!(between.contexts(), whole.contexts(), "fault {fault}");

        let again = broken.take_down(&asked);
        assert_eq!(snapshot(&broken), left, "fault {fault}");
        let (images, files) = (&again.images, again.files.len());
        assert_eq!(images.len(), receipt.images.len(), "fault {fault}");
        assert_eq!(files, receipt.files.len(), "fault {fault}");
        assert_eq!(
            (&again.rows, again.frontier),
            (&receipt.rows, receipt.frontier)
        );
        assert_eq!(broken.crawl(&[]), after, "fault {fault}");
    }
    let different: BTreeSet<&String> = steps.iter().collect();
    assert!(different.len() >= 10, "{steps:?}");
}

#[test]
fn who_works_on_the_job_is_not_disturbed() {
    let job = Job::new();
    let asked = request(&[by_host("b.test")]);
    let open = checkpoint::open(&job.config, 0).unwrap();
    let busy = take_down(&job.config, &asked, 0).unwrap_err();
    assert!(
        busy.to_string().contains("another spoor works on this job"),
        "{busy}"
    );
    drop(open);
    let reading = outputs::read_samples(&job.folder()).unwrap();
    let busy = take_down(&job.config, &asked, 0).unwrap_err();
    assert!(busy.to_string().contains("spoor annotate"), "{busy}");
    assert!(!job.folder().join(checkpoint::TAKEDOWNS).exists());
    drop(reading);
    // A list that cannot be read stops everything that might fetch.
    fs::write(job.folder().join(checkpoint::TAKEDOWNS), "{}\n").unwrap();
    let refused = checkpoint::open(&job.config, 0).err().unwrap().to_string();
    assert!(refused.contains("takedown.jsonl:1:"), "{refused}");
    fs::remove_file(job.folder().join(checkpoint::TAKEDOWNS)).unwrap();
    let missing = config(&job.root.path().join("nowhere"), "");
    let missing = take_down(&missing, &asked, 0).unwrap_err();
    assert!(missing.to_string().contains("there is no job"), "{missing}");
}

#[test]
fn a_list_that_somebody_deleted_is_missed() {
    let job = Job::new();
    job.take_down(&[by_host("b.test")]);
    let list = job.folder().join(checkpoint::TAKEDOWNS);
    fs::remove_file(&list).unwrap();
    let refused = checkpoint::open(&job.config, 0).err().unwrap().to_string();
    assert!(
        refused.contains("takedown.jsonl") && refused.contains("takedowns/"),
        "{refused}"
    );
    let again = take_down(&job.config, &request(&[by_host("c.test")]), 0);
    assert!(again.is_err(), "nor does another takedown begin a new list");
    // An empty list confirms that the deletion was intended.
    fs::write(&list, "").unwrap();
    job.sound();
}

/// A job next to an unrelated file, which has the path `../victim` from the job.
fn beside_a_victim() -> (Job, PathBuf) {
    let job = Job::new();
    let victim = job.root.path().join("victim");
    for name in ["victim", "victim.json"] {
        fs::write(job.root.path().join(name), "theirs").unwrap();
    }
    (job, victim)
}

#[test]
fn a_sidecar_that_names_a_file_elsewhere_removes_nothing_there() {
    for named in [
        "../victim",
        "../../t/../victim",
        "/VICTIM",
        "images/other.png",
        "job.toml",
    ] {
        let (job, victim) = beside_a_victim();
        let named = named.replace("/VICTIM", &victim.display().to_string());
        let sidecar = job
            .sidecars()
            .into_iter()
            .find(|s| s.url().ends_with("/1.png"));
        let file = sidecar.unwrap().file().to_owned();
        let path = job.folder().join(format!("{file}.json"));
        let text = fs::read_to_string(&path).unwrap();
        let changed = text.replacen(
            &format!("\"file\": \"{file}\""),
            &format!("\"file\": {named:?}"),
            1,
        );
        assert_ne!(text, changed);
        fs::write(&path, changed).unwrap();
        let asked = request(&[by_host("a.test")]);
        let (receipt, _) = take_down(&job.config, &asked, 5_000_000).unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"theirs", "{named}");
        assert!(victim.with_extension("json").exists(), "{named}");
        assert!(job.folder().join("job.toml").exists(), "{named}");
        let note = receipt
            .remains
            .iter()
            .find(|r| r.starts_with("not examined"));
        assert!(
            note.is_some_and(|note| note.contains(&file)),
            "{:?}",
            receipt.remains
        );
    }
}

#[test]
fn an_interrupted_receipt_or_journal_that_names_a_file_elsewhere_is_refused() {
    let victim_is_whole = |job: &Job, victim: &Path| {
        assert_eq!(fs::read(victim).unwrap(), b"theirs");
        assert!(job.folder().join("logs/crawl.jsonl").exists());
    };
    let asked = request(&[by_url("http://a.test/1.png")]);
    for (key, named) in [
        ("file", "../victim"),
        ("exports", "../victim"),
        ("exports", "logs"),
    ] {
        let (job, victim) = beside_a_victim();
        let interrupted = take_down_with(&job.config, &asked, 5_000_000, &mut |step| match step {
            "planned" => Err(nothing()),
            _ => Ok(()),
        });
        interrupted.unwrap_err();
        let path = job.folder().join(checkpoint::UNFINISHED);
        let mut receipt: serde_json::Value =
            serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        match key {
            "file" => receipt["images"][0]["file"] = named.into(),
            _ => receipt["exports"] = serde_json::json!([named]),
        }
        fs::write(&path, receipt.to_string()).unwrap();
        let refused = take_down(&job.config, &asked, 5_000_000)
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains(if key == "file" || named != "logs" {
                "unfinished.json"
            } else {
                "logs"
            }),
            "{refused}"
        );
        victim_is_whole(&job, &victim);
    }
    let (job, victim) = beside_a_victim();
    fs::write(job.root.path().join("victim.rewritten"), "mine").unwrap();
    let journal = r#"{"stamp":[],"generation":1,"files":["../victim"]}"#;
    fs::write(job.folder().join("rewriting.json"), journal).unwrap();
    let refused = checkpoint::open(&job.config, 0).err().unwrap().to_string();
    assert!(refused.contains("rewriting.json"), "{refused}");
    victim_is_whole(&job, &victim);
}

#[cfg(unix)]
#[test]
fn nothing_is_written_or_removed_through_a_link() {
    use std::os::unix::fs::symlink;
    let names = [
        "job.toml",
        "lock",
        "samples.lock",
        "takedown.jsonl",
        "exports",
        "images",
        "frontier/x",
    ];
    for name in names {
        let (job, victim) = beside_a_victim();
        let path = job.folder().join(name);
        let moved = job.root.path().join("moved");
        // A folder is moved away and replaced by a link.
        let target = if path.is_dir() {
            fs::rename(&path, &moved).unwrap();
            &moved
        } else {
            fs::remove_file(&path).ok();
            &victim
        };
        symlink(target, &path).unwrap();
        let asked = request(&[by_url("http://a.test/1.png")]);
        let refused = take_down(&job.config, &asked, 0).unwrap_err().to_string();
        assert!(refused.contains("leads out"), "{name}: {refused}");
        let refused = checkpoint::open(&job.config, 0).err().unwrap().to_string();
        assert!(
            refused.contains(name) && refused.contains("leads out"),
            "{refused}"
        );
        assert!(outputs::read_samples(&job.folder()).is_err(), "{name}");
        assert_eq!(fs::read(&victim).unwrap(), b"theirs", "{name}");
    }
    // The job's folder itself may be elsewhere.
    let job = Job::new();
    fs::rename(job.folder(), job.root.path().join("real")).unwrap();
    symlink("real", job.folder()).unwrap();
    job.take_down(&[by_url("http://a.test/1.png")]);
}

#[test]
fn an_import_that_names_a_file_elsewhere_is_refused_and_a_store_that_does_is_harmless() {
    use std::io::{Read, Write};
    let (job, victim) = beside_a_victim();
    let export = job
        .folder()
        .join("checkpoints/frontier-19700101T000000Z.jsonl.gz");
    let mut text = String::new();
    let file = fs::File::open(export).unwrap();
    flate2::read::MultiGzDecoder::new(file)
        .read_to_string(&mut text)
        .unwrap();
    let file = job.sidecars()[0].file().to_owned();
    let sidecar = fs::read(job.folder().join(format!("{file}.json"))).unwrap();
    fs::write(victim.with_extension("json"), &sidecar).unwrap();
    let (before, rest) = text.split_once("\"note\":\"images/").unwrap();
    let (_, rest) = rest.split_once('"').unwrap();
    let note = format!("{before}\"note\":\"../victim\"{rest}");
    let kept = "{\"fact\":\"kept\",\"sha256\":\"00\",\"file\":\"../victim\"}\n";
    let kept = format!("{text}{kept}");
    for (changed, line) in [
        (note, before.lines().count()),
        (kept, text.lines().count() + 1),
    ] {
        let path = job.root.path().join("changed.jsonl.gz");
        let out = fs::File::create(&path).unwrap();
        let mut out = flate2::write::GzEncoder::new(out, flate2::Compression::fast());
        out.write_all(changed.as_bytes()).unwrap();
        out.finish().unwrap();
        fs::remove_dir_all(job.folder().join("frontier")).ok();
        let refused = crate::daemon::maintenance::import(&job.config, &path);
        let refused = refused.unwrap_err().to_string();
        let named = format!(":{line}: ");
        assert!(
            refused.contains(&named) && refused.contains("../victim"),
            "{refused}"
        );
    }
    // A path that was imported earlier is not trusted either.
    let page = url("http://a.test/");
    let mut outputs = outputs::Outputs::open(&job.folder(), &[]).unwrap();
    outputs
        .extend_image("../victim", context("http://z.test/"), VisitKind::Changed)
        .unwrap();
    outputs.mark_boilerplate("../victim", &page, 1.0).unwrap();
    outputs
        .restate_terms("../victim", &page, &Terms::default())
        .unwrap();
    assert_eq!(fs::read(victim.with_extension("json")).unwrap(), sidecar);
    outputs::remove_image(&job.folder(), "../victim").unwrap_err();
    assert!(victim.exists());
}
