//! Today's layout of the store, kept as a fixture, so that tomorrow's code is
//! tested against it; and stores of other layouts, which are refused.
//!
//! `tests/fixtures/store` holds the same frontier as each backend wrote it and as
//! an export. Where the layout changes, `FORMAT` in `src/frontier/record.rs` is
//! raised and the fixture made anew by
//!
//! ```sh
//! cargo test --test it format::make_the_fixture_anew -- --ignored
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;
use spoor::address::{HostKey, PageUrl};
use spoor::config::{Config, StoreKind};
use spoor::frontier::store::{self, Batch, Store, StoreError};
use spoor::frontier::{
    Effects, Frontier, NewImage, NewTask, Policy, RobotsAnswer, RobotsState, State, Written,
    archive, audit,
};
use spoor::page::{
    Bucket, ImageContext, ImageScores, ImageTexts, LinkParts, Outcome, Reason, Task, TaskKind,
    TextScore,
};
use spoor::scope::Scope;

use crate::support::{Ran, spoor};

/// When the frontier of the fixture lived, in milliseconds since 1970.
const THEN: u64 = 1_767_323_045_000;

const KINDS: [StoreKind; 2] = [StoreKind::Sled, StoreKind::Fjall];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/store")
}

fn packed(kind: StoreKind) -> PathBuf {
    fixtures().join(format!("{}.tar.gz", kind.name()))
}

fn url(text: &str) -> PageUrl {
    PageUrl::parse(text).unwrap()
}

fn open(store: Box<dyn Store>, now: u64) -> Result<Frontier, StoreError> {
    let config = Config::parse("[job]\nname = \"fixture\"\n", "fixture.toml").unwrap();
    let policy = Policy::new(&config.politeness, &config.network);
    Frontier::open(store, policy, Scope::new(config.scope), now)
}

// The fixture -------------------------------------------------------------

/// A frontier with a record of every kind and every state.
fn make(store: Box<dyn Store>) {
    let mut now = THEN;
    let mut f = open(store, now).unwrap();
    f.set_stamp(vec![1, 2, 3]).unwrap();
    f.add_active(61_000);
    let seeds = [
        "https://seed.org/",
        "http://seed.org/moved?to=b",
        "http://seed.org/late",
        "http://seed.org/gone",
        "http://busy.org/",
    ];
    f.add_seeds(&seeds.map(url), now).unwrap();
    let page = |address: &str, bucket, score| NewTask {
        url: url(address),
        bucket,
        score,
        parts: Some(LinkParts {
            document: 123.5,
            anchor: 67.25,
            keyword: 0.125,
        }),
    };
    let links = vec![
        page("http://linked.org/high", Some(Bucket::High), 80.5),
        page("http://linked.org/low", Some(Bucket::Low), 29_000.0),
        page("http://linked.org/razor", None, 40_000.0),
        page(
            "http://linked.org/a/a/a/a/a/a",
            Some(Bucket::Normal),
            3_000.0,
        ),
    ];
    let images = ["http://i.org/kept.png", "http://i.org/wanted.png?w=2"].map(|address| NewImage {
        url: url(address),
        bucket: Some(Bucket::Medium),
        score: 700.5,
        context: context(),
    });
    let mut finished = 0;
    let mut redirected = false;
    while !redirected {
        if finished == 7 {
            // At the end, so that the rules of another host are still to be fetched.
            f.add_seeds(&[url("http://elsewhere.org/")], now).unwrap();
        }
        let Some(task) = f.lease(now).unwrap() else {
            now = f.next_event().unwrap().max(now);
            assert!(now < THEN + 3_600_000, "an hour is enough for {finished}");
            continue;
        };
        let spent = Duration::from_millis(250);
        if task.kind == TaskKind::Robots {
            let answer = robots(&task);
            redirected = matches!(answer, RobotsAnswer::Redirect(_));
            let stamp = |_: &_| Ok::<_, StoreError>(vec![4, 5]);
            f.finish_robots(&task, answer, spent, now, stamp).unwrap();
            continue;
        }
        let mut effects = Effects {
            bytes: 1_000,
            ..Effects::default()
        };
        let outcome = match task.url.as_str() {
            "https://seed.org/" => {
                effects.links.clone_from(&links);
                effects.images.extend(images.iter().cloned());
                Outcome::Done
            }
            "http://seed.org/moved?to=b" => Outcome::Redirect {
                to: url("http://target.org/here"),
            },
            "http://seed.org/late" => Outcome::Retry {
                reason: Reason::Protocol,
                retry_after: None,
                host_backs_off: false,
            },
            "http://busy.org/" => Outcome::Retry {
                reason: Reason::Timeout,
                retry_after: Some(Duration::from_secs(86_400)),
                host_backs_off: true,
            },
            "http://seed.org/gone" => Outcome::Drop {
                reason: Reason::ClientError,
            },
            "http://i.org/kept.png" | "http://target.org/here" => Outcome::Done,
            _ => {
                f.abandon(&task, now).unwrap();
                now += 1;
                continue;
            }
        };
        finished += 1;
        f.finish(&task, outcome, effects, spent, now, |finished| {
            let image = task.kind == TaskKind::Image && finished.id.is_some();
            Ok::<_, StoreError>(Written {
                stamp: vec![6, 7, 8],
                note: image.then(|| "images/2026-01-02/i.org/kept.png".to_owned()),
            })
        })
        .unwrap();
    }
    f.close().unwrap();
}

fn robots(task: &Task) -> RobotsAnswer {
    match task.host.as_str() {
        "seed.org" => {
            RobotsAnswer::Rules("User-agent: *\nDisallow: /secret\nCrawl-delay: 2\n".into())
        }
        "elsewhere.org" => RobotsAnswer::Redirect(url("http://rules.org/robots.txt")),
        "linked.org" => RobotsAnswer::Unreachable {
            reason: Reason::Timeout,
            retry_after: Some(Duration::from_secs(7_200)),
        },
        _ => RobotsAnswer::Missing,
    }
}

fn context() -> ImageContext {
    let score = TextScore {
        perplexity: 99.5,
        keyword: 0.25,
        weighted: 24.875,
    };
    ImageContext {
        page: url("https://seed.org/"),
        page_title: Some("Straße – \"quoted\"".to_owned()),
        page_language: Some("de".to_owned()),
        document_perplexity: 321.0,
        declared_width: Some(640),
        declared_height: Some(480),
        texts: ImageTexts {
            alt: Some("an alt".to_owned()),
            title: Some("a title".to_owned()),
            file_name: Some("kept".to_owned()),
            parents: vec!["near".to_owned(), "far".to_owned()],
            siblings: vec!["beside".to_owned()],
        },
        scores: ImageScores {
            alt: Some(score),
            title: Some(score),
            file_name: Some(score),
            parents: vec![score, score],
            siblings: vec![score],
        },
        rank: 12.5,
    }
}

#[test]
#[ignore = "writes tests/fixtures/store; for a change of the layout"]
fn make_the_fixture_anew() {
    std::fs::create_dir_all(fixtures()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for kind in KINDS {
        let path = folder.path().join(kind.name());
        make(store::open(kind, &path).unwrap());
        let file = File::create(packed(kind)).unwrap();
        let mut tar = tar::Builder::new(GzEncoder::new(file, Compression::best()));
        tar.append_dir_all("frontier", &path).unwrap();
        tar.into_inner().unwrap().finish().unwrap();
        let size = packed(kind).metadata().unwrap().len();
        assert!(size < 200_000, "{} takes {size} bytes", kind.name());
        let lines = exported(&*store::open(kind, &path).unwrap());
        std::fs::write(fixtures().join("frontier.jsonl"), lines).unwrap();
    }
}

// Reading it ---------------------------------------------------------------

fn exported(store: &dyn Store) -> String {
    let mut out = Vec::new();
    let found = archive::export(store, &mut out, Path::new("fixture.jsonl")).unwrap();
    assert!(found.is_whole(), "{found:?}");
    String::from_utf8(out).unwrap()
}

/// A copy of the fixture.
fn unpacked(kind: StoreKind, folder: &Path) -> PathBuf {
    let file = File::open(packed(kind)).unwrap();
    tar::Archive::new(GzDecoder::new(file))
        .unpack(folder)
        .unwrap();
    folder.join("frontier")
}

fn every_field_is_read(kind: StoreKind) {
    let expected = std::fs::read_to_string(fixtures().join("frontier.jsonl")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = unpacked(kind, folder.path());
    let opened = store::open(kind, &path).unwrap();
    // As values: a new field with a default would be another text, not another fact.
    let values = |text: &str| -> Vec<Value> {
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let (found, wanted) = (values(&exported(&*opened)), values(&expected));
    for (found, wanted) in found.iter().zip(&wanted) {
        assert_eq!(found, wanted);
    }
    assert_eq!(found.len(), wanted.len());
    let audit = audit::audit(&*opened).unwrap();
    assert!(audit.is_sound(), "{:#?}", audit.problems);

    // The export says what the frontier says, and some of it is said here.
    let f = open(opened, THEN).unwrap();
    let look = |address: &str, kind| f.look_up(&url(address), kind).unwrap().unwrap();
    let seed = look("https://seed.org/", TaskKind::Page);
    assert_eq!((seed.bucket, seed.hops, seed.via), (Bucket::Seed, 0, None));
    let State::Done { id } = seed.state else {
        panic!("{seed:?}");
    };
    let low = look("http://linked.org/low", TaskKind::Page);
    assert_eq!((low.state, low.bucket), (State::Queued, Bucket::Low));
    assert_eq!((low.score, low.hops, low.via), (29_000.0, 1, Some(id)));
    assert_eq!(low.parts.unwrap().anchor, 67.25);
    let razor = look("http://linked.org/razor", TaskKind::Page).state;
    assert_eq!(
        razor,
        State::Dropped {
            reason: Reason::Razor
        }
    );
    let moved = look("http://seed.org/moved?to=b", TaskKind::Page).state;
    assert!(matches!(&moved, State::Redirected { to, .. } if to == "http://target.org/here"));
    let late = look("http://seed.org/late", TaskKind::Page);
    assert!(matches!(late.state, State::Waiting { due } if due > THEN));
    assert_eq!(late.attempts, 1);
    let kept = look("http://i.org/kept.png", TaskKind::Image);
    assert_eq!(
        kept.note.as_deref(),
        Some("images/2026-01-02/i.org/kept.png")
    );
    let contexts = f.contexts(&url("http://i.org/wanted.png?w=2")).unwrap();
    assert_eq!(contexts, [context()]);
    let host = |name: &str| {
        f.look_up_host(&HostKey::from_stored(name))
            .unwrap()
            .unwrap()
    };
    assert_eq!(host("seed.org").crawl_delay, Some(2_000));
    assert!(matches!(
        host("seed.org").robots[0],
        RobotsState::Known { missing: false, .. }
    ));
    assert!(host("busy.org").due >= THEN + 86_400_000);
    assert_eq!(host("elsewhere.org").robots[0], RobotsState::Awaiting);
    assert_eq!(f.counts().documents, 2);
    assert_eq!((f.stamp(), f.active()), (&[4, 5][..], 61_000));
}

#[test]
fn every_field_of_the_fixture_is_read_from_sled() {
    every_field_is_read(StoreKind::Sled);
}

#[test]
fn every_field_of_the_fixture_is_read_from_fjall() {
    every_field_is_read(StoreKind::Fjall);
}

#[test]
fn the_fixture_holds_every_kind_of_record_and_state() {
    let lines = std::fs::read_to_string(fixtures().join("frontier.jsonl")).unwrap();
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for line in lines.lines() {
        let fact: Value = serde_json::from_str(line).unwrap();
        let state = match &fact["state"] {
            Value::String(state) => state.clone(),
            Value::Object(state) => state.keys().next().unwrap().clone(),
            _ => String::new(),
        };
        let kind = format!("{} {state}", fact["fact"].as_str().unwrap());
        *kinds.entry(kind.trim_end().to_owned()).or_default() += 1;
    }
    for kind in [
        "context",
        "document",
        "errand",
        "host",
        "meta",
        "robots",
        "url Done",
        "url Dropped",
        "url Queued",
        "url Redirected",
        "url Waiting",
    ] {
        assert!(kinds.contains_key(kind), "no {kind} in {kinds:?}");
    }
}

#[test]
fn the_export_of_the_fixture_makes_either_store() {
    let lines = std::fs::read(fixtures().join("frontier.jsonl")).unwrap();
    let sorted = |text: &str| {
        // An import is not called a clean end.
        let mut lines: Vec<String> = text.lines().skip(1).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let wanted = sorted(std::str::from_utf8(&lines).unwrap());
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let mut made = store::open(kind, folder.path()).unwrap();
        archive::import(
            &mut *made,
            &mut lines.as_slice(),
            Path::new("frontier.jsonl"),
        )
        .unwrap();
        assert_eq!(sorted(&exported(&*made)), wanted);
        assert!(audit::audit(&*made).unwrap().is_sound());
    }
}

// Other formats -----------------------------------------------------------

#[test]
fn stores_and_exports_of_other_formats_are_refused() {
    let lines = std::fs::read_to_string(fixtures().join("frontier.jsonl")).unwrap();
    let today: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    let today = today["format"].as_u64().unwrap();
    for (kind, other) in KINDS
        .into_iter()
        .flat_map(|k| [(k, today - 1), (k, today + 1)])
    {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("old");
        let path = unpacked(kind, &folder);
        let mut opened = store::open(kind, &path).unwrap();
        let mut meta = opened.get(b"M").unwrap().unwrap();
        // The format is the first field of the first record, in one byte.
        assert_eq!(u64::from(meta[0]), today);
        meta[0] = u8::try_from(other).unwrap();
        let mut batch = Batch::default();
        batch.put(b"M".to_vec(), meta);
        opened.apply(batch).unwrap();
        opened.flush().unwrap();
        drop(opened);

        let job = root.path().join("old.toml");
        let text = format!(
            "[job]\nname = \"old\"\ncontact = \"mailto:a@spoor.example\"\nfolder = {:?}\n\
             [seeds]\nurls = [\"http://seed.org/\"]\n[frontier]\nstore = \"{}\"\n\
             [model]\nname = {:?}\nfolder = {:?}\n",
            root.path(),
            kind.name(),
            crate::support::texts::model().1,
            crate::support::texts::model().0,
        );
        std::fs::write(&job, text).unwrap();
        let before = pairs(kind, &path);
        let job = job.to_str().unwrap();
        let file = root.path().join("f.jsonl.gz");
        let file = file.to_str().unwrap();
        let commands: [&[&str]; 6] = [
            &["crawl", job],
            &["store", "check", job],
            &["store", "check", "--repair", job],
            &["store", "compact", job],
            &["store", "convert", job, "--to", "sled"],
            &["store", "export", job, file],
        ];
        let told = format!("has format {other}, this spoor reads format {today}");
        for arguments in commands {
            let refusal = Ran::of(&mut spoor(arguments)).refused();
            assert!(refusal.contains(&told), "{arguments:?}: {refusal}");
            assert!(
                refusal.contains("use the version that wrote it"),
                "{refusal}"
            );
        }
        assert_eq!(pairs(kind, &path), before, "a refusal changes nothing");

        let archive = root.path().join("other.jsonl.gz");
        let replaced = lines.replacen(
            &format!("\"format\":{today}"),
            &format!("\"format\":{other}"),
            1,
        );
        let mut packed = GzEncoder::new(File::create(&archive).unwrap(), Compression::fast());
        std::io::Write::write_all(&mut packed, replaced.as_bytes()).unwrap();
        packed.finish().unwrap();
        std::fs::remove_dir_all(&path).unwrap();
        let arguments = ["store", "import", job, archive.to_str().unwrap()];
        let refusal = Ran::of(&mut spoor(&arguments)).refused();
        let told = format!("format {other}, this spoor reads format {today}");
        assert!(refusal.contains(&told), "{refusal}");
        assert!(!path.exists());
    }
}

fn pairs(kind: StoreKind, path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut found = BTreeMap::new();
    let opened = store::open(kind, path).unwrap();
    opened
        .scan(&[], &[], &mut |key, value| {
            found.insert(key.to_vec(), value.to_vec());
            ControlFlow::Continue(())
        })
        .unwrap();
    found
}
