//! The current layout of the store, kept as a fixture to test later versions of the code, and
//! stores of other layouts, which are refused.
//!
//! `tests/fixtures/store` contains the same frontier as written by each backend and as an export.
//! When the layout changes, increase `FORMAT` in `src/frontier/record.rs` and make the fixture
//! again with
//!
//! ```sh
//! SPOOR_MAKE_FIXTURE=1 cargo test --test it format::the_fixture_is
//! ```

mod making;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use spoor::address::HostKey;
use spoor::frontier::store::{self, Batch, Store};
use spoor::frontier::{
    Counts, Frontier, HostRecord, Located, Rescoped, RobotsState, State, UrlRecord, Visit,
    consistency, dump, only,
};
use spoor::page::{Bucket, LinkParts, Reason, TaskKind, Validators};
use spoor::settings::StoreKind;

use making::{HOUR, LAST_SCOPE, NEXT_DAY, THEN, context, make, open, url};

use crate::support::{Ran, spoor};

/// The key of the counters of the only cell.
const META: &[u8] = b"\x80\0M";

const KINDS: [StoreKind; 2] = [StoreKind::Sled, StoreKind::Fjall];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/store")
}

fn packed(kind: StoreKind) -> PathBuf {
    fixtures().join(format!("{}.tar.gz", kind.name()))
}

// The fixture -------------------------------------------------------------

/// The fields of an export, by the kind of fact, without their values.
fn layout(lines: &str) -> BTreeSet<String> {
    fn walk(value: &Value, path: &str, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    walk(field, &format!("{path}.{name}"), found);
                }
            }
            Value::Array(items) => {
                for item in items {
                    walk(item, &format!("{path}[]"), found);
                }
            }
            _ => {}
        }
        found.insert(path.to_owned());
    }
    let mut found = BTreeSet::new();
    for line in lines.lines() {
        let fact: Value = serde_json::from_str(line).unwrap();
        let name = fact["fact"].as_str().unwrap().to_owned();
        walk(&fact, &name, &mut found);
    }
    found
}

#[test]
fn the_fixture_is_what_this_code_writes() {
    let anew = std::env::var_os("SPOOR_MAKE_FIXTURE").is_some();
    let file = fixtures().join("frontier.jsonl");
    let folder = tempfile::tempdir().unwrap();
    for kind in KINDS {
        let path = folder.path().join(kind.name());
        make(stored(kind, &path));
        let lines = exported(&*stored(kind, &path));
        if !anew {
            let kept = layout(&std::fs::read_to_string(&file).unwrap());
            let now = layout(&lines);
            let other: Vec<_> = now.symmetric_difference(&kept).collect();
            assert!(other.is_empty(), "the layout is another one: {other:?}");
            continue;
        }
        std::fs::create_dir_all(fixtures()).unwrap();
        let out = File::create(packed(kind)).unwrap();
        let mut tar = tar::Builder::new(GzEncoder::new(out, Compression::best()));
        tar.append_dir_all("frontier", &path).unwrap();
        tar.into_inner().unwrap().finish().unwrap();
        let size = packed(kind).metadata().unwrap().len();
        assert!(size < 200_000, "{} takes {size} bytes", kind.name());
        std::fs::write(&file, lines).unwrap();
    }
}

// Reading it ---------------------------------------------------------------

fn exported(store: &dyn Store) -> String {
    let mut out = Vec::new();
    let found = dump::write(store, &mut out, Path::new("fixture.jsonl")).unwrap();
    assert!(found.is_whole(), "{found:?}");
    String::from_utf8(out).unwrap()
}

/// The store of the only cell.
fn stored(kind: StoreKind, path: &Path) -> Box<dyn Store> {
    only(store::open(kind, path).unwrap()).unwrap()
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
    let opened = stored(kind, &path);
    // Compared as values: a new field with a default changes the text, but not the fact.
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
    let audit = consistency::check(&*opened).unwrap();
    assert!(audit.is_sound(), "{:#?}", audit.problems);

    // There is no other way to see a group.
    let group = found.iter().find(|fact| fact["fact"] == "group").unwrap();
    let expected = json!({
        "fact": "group", "group": "address 192.0.2.7", "due": THEN + 34_500,
        "delay": 500, "troubled": "busy.org", "failures": 1, "parked": false
    });
    assert_eq!(*group, expected);
    // The frontier reports the rest of the export in the same way. It is opened at its last moment,
    // because it would follow a clock that was set back.
    let mut f = open(opened, LAST_SCOPE, NEXT_DAY + 30_000).unwrap();
    urls_are_read(&f);
    visits_are_read(&f);
    hosts_are_read(&f);
    let dropped = [
        Reason::Razor,
        Reason::Robots,
        Reason::Trap,
        Reason::ClientError,
        Reason::PrefixBudget,
    ];
    let counts = Counts {
        documents: 23,
        fetches: 31,
        images: 1,
        // A thousand bytes for everything except three robots.txt and two tdmrep.json.
        bytes: 33_371,
        queued: [4, 3, 1, 2, 2],
        queued_images: 6,
        waiting: 1,
        dropped: dropped.map(|reason| (reason, 1)).into(),
        sitemaps: 1,
        watched: 23,
    };
    assert_eq!(*f.counts(), counts);
    assert_eq!((&found[0]["stamp"], f.active()), (&json!([4, 5]), 61_000));
    let urls = found.iter().filter(|fact| fact["fact"] == "url").count();
    unfinished_work_continues(&mut f, urls);
}

fn look(f: &Frontier, address: &str, kind: TaskKind) -> UrlRecord {
    f.look_up(&url(address), kind).unwrap().unwrap()
}

fn page(f: &Frontier, address: &str) -> UrlRecord {
    look(f, address, TaskKind::Page)
}

fn dropped(reason: Reason) -> State {
    State::Dropped { reason }
}

fn urls_are_read(f: &Frontier) {
    let seed = UrlRecord {
        state: State::Done { id: 6 },
        bucket: Bucket::Seed,
        score: 0.0,
        parts: None,
        seq: 1,
        hops: 0,
        redirects: 0,
        attempts: 0,
        via: None,
        text: None,
        visit: None,
        simhash: None,
        judged: None,
    };
    let found = page(f, "https://seed.org/");
    assert_eq!(
        UrlRecord {
            visit: None,
            judged: None,
            ..found
        },
        seed
    );
    let low = UrlRecord {
        state: State::Queued,
        bucket: Bucket::Low,
        score: 29_000.0,
        parts: Some(LinkParts {
            document: 123.5,
            anchor: 67.25,
            keyword: 0.125,
        }),
        seq: 17,
        hops: 1,
        via: Some(6),
        ..seed.clone()
    };
    assert_eq!(page(f, "http://linked.org/low"), low);
    let moved = page(f, "http://seed.org/moved?to=b").state;
    let redirected = |id, to: &str| State::Redirected {
        id,
        to: to.to_owned(),
    };
    assert_eq!(moved, redirected(15, "http://target.org/here"));
    let here = page(f, "http://target.org/here");
    assert_eq!((here.state, here.redirects), (State::Done { id: 18 }, 1));
    assert_eq!(page(f, "http://busy.org/").attempts, 1);
    let late = page(f, "http://late.org/");
    let due = NEXT_DAY + 2_500 + 30_000;
    assert_eq!((late.state, late.attempts), (State::Waiting { due }, 1));
    for (address, reason) in [
        ("http://linked.org/razor", Reason::Razor),
        ("http://linked.org/a/a/a/a/a/a", Reason::Trap),
        ("http://seed.org/gone", Reason::ClientError),
        ("http://seed.org/secret", Reason::Robots),
        ("http://trap.org/cal/12/", Reason::PrefixBudget),
    ] {
        assert_eq!(page(f, address).state, dropped(reason), "{address}");
    }
    let kept = look(f, "http://i.org/kept.png", TaskKind::Image);
    let note = "images/2026-01-02/i.org/kept.png";
    assert_eq!(kept.note(), Some(note));
    let contexts = f.contexts(&url("http://i.org/wanted.png?w=2")).unwrap();
    assert_eq!(contexts, [context()]);
    let map = look(f, "http://seed.org/map.xml", TaskKind::Sitemap);
    assert_eq!((map.state, map.hops), (State::Done { id: 20 }, 0));
    let below = look(f, "http://seed.org/map-2.xml", TaskKind::Sitemap);
    assert_eq!((below.state, below.hops), (State::Queued, 1));

    // Copies, found by their canonical address and by their text; and one that was not fetched.
    let a = page(f, "http://copies.org/a");
    let again = page(f, "http://copies.org/a-again");
    let differ = a.simhash.zip(again.simhash).map(|(a, b)| a ^ b);
    assert_eq!(a.simhash, Some(0x0123_4567_89ab_cdef));
    assert_eq!((again.state, differ), (State::Done { id: 7 }, Some(1)));
    let print = page(f, "http://copies.org/a?print").state;
    assert_eq!(print, redirected(4, "http://copies.org/a"));
    let unasked = page(f, "http://copies.org/d").state;
    assert_eq!(unasked, redirected(9, "http://copies.org/c"));
}

fn visits_are_read(f: &Frontier) {
    let watched = Visit {
        id: Some(1),
        last: NEXT_DAY + 2_500,
        visits: 2,
        changes: 1,
        digest: Some(2),
        validators: Validators {
            etag: Some("W/\"2\"".to_owned()),
            last_modified: Some("Thu, 01 Jan 2026 00:00:00 GMT".to_owned()),
        },
        interval: 12 * HOUR,
        due: Some(NEXT_DAY + 2_500 + 12 * HOUR),
        scheduled: true,
    };
    assert_eq!(page(f, "http://watched.org/").visit, Some(watched));
    let seed = Visit {
        id: Some(6),
        last: THEN + 4_500,
        visits: 1,
        changes: 0,
        digest: Some(11),
        validators: Validators::default(),
        interval: 720 * HOUR,
        due: Some(THEN + 4_500 + 720 * HOUR),
        scheduled: false,
    };
    assert_eq!(page(f, "https://seed.org/").visit, Some(seed));
}

fn hosts_are_read(f: &Frontier) {
    let host = |name: &str| {
        let host = HostKey::from_stored(name);
        f.look_up_host(&host).unwrap().unwrap()
    };
    let known = |at, missing| RobotsState::Known { at, missing };
    let located = |address: &str, at| {
        let address = Some(address.parse().unwrap());
        Some(Located { address, at })
    };
    let seed = HostRecord {
        due: NEXT_DAY + 22_000,
        delay: 1_250,
        crawl_delay: Some(2_000),
        failures: 0,
        parked_until: None,
        documents: 1,
        robots: [known(NEXT_DAY + 20_000, false), known(THEN + 500, false)],
        located: located("2001:db8::1", NEXT_DAY),
        barren: 0,
    };
    assert_eq!(host("seed.org"), seed);
    let busy = HostRecord {
        due: THEN + 3_500 + 240 * HOUR,
        delay: 1_250,
        crawl_delay: None,
        failures: 1,
        parked_until: Some(THEN + 3_500 + 240 * HOUR),
        documents: 0,
        robots: [known(THEN + 500, true), RobotsState::Unknown],
        // It failed, so its name is looked up again before the next request.
        located: located("192.0.2.7", 0),
        barren: 0,
    };
    assert_eq!(host("busy.org"), busy);
    let trap = host("trap.org");
    assert_eq!((trap.documents, trap.barren), (12, 10));
    let nowhere = Located {
        address: None,
        at: THEN,
    };
    assert_eq!(trap.located, Some(nowhere));
    let linked = host("linked.org");
    assert_eq!(linked.robots[0], RobotsState::Unreachable);
    assert_eq!((linked.failures, linked.due), (2, NEXT_DAY + 2 * HOUR));
    assert_eq!(host("elsewhere.org").robots[0], RobotsState::Awaiting);
    let budget = f.budget(&url("http://trap.org/cal/12/")).unwrap();
    assert_eq!((budget.fetched, budget.fruitful), ((11, 11), (1, 1)));
    assert_eq!(budget.left, 0);
    let domain = |name: &str| {
        let host = HostKey::from_stored(name);
        f.view().domain_documents(&host).unwrap()
    };
    assert_eq!((domain("www.trap.org"), domain("copies.org")), (12, 4));
}

/// The new scope, and the new robots rules of a host.
fn unfinished_work_continues(f: &mut Frontier, urls: usize) {
    let now = NEXT_DAY + 60_000;
    assert!(f.is_rescoping());
    let rescoped = Rescoped {
        seen: urls as u64,
        dropped: 1,
        revived: 0,
    };
    assert_eq!(f.rescope_slice(now).unwrap(), Some(rescoped));
    let unwanted = page(f, "http://unwanted.org/").state;
    assert_eq!(unwanted, dropped(Reason::Scope));
    f.lease(now).unwrap();
    assert_eq!(page(f, "http://seed.org/secret").state, State::Queued);
}

#[test]
fn every_field_of_the_fixture_is_read_from_sled() {
    every_field_is_read(StoreKind::Sled);
}

#[test]
fn every_field_of_the_fixture_is_read_from_fjall() {
    every_field_is_read(StoreKind::Fjall);
}

fn facts() -> Vec<Value> {
    let lines = std::fs::read_to_string(fixtures().join("frontier.jsonl")).unwrap();
    let fact = |line| serde_json::from_str(line).unwrap();
    lines.lines().map(fact).collect()
}

#[test]
fn the_fixture_holds_every_kind_of_record_and_state() {
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for fact in facts() {
        let state = match &fact["state"] {
            Value::String(state) => state.clone(),
            Value::Object(state) => state.keys().next().unwrap().clone(),
            _ => String::new(),
        };
        let of = fact["kind"].as_str().unwrap_or_default();
        let kind = format!("{} {of} {state}", fact["fact"].as_str().unwrap());
        *kinds.entry(kind.trim_end().to_owned()).or_default() += 1;
    }
    for kind in [
        "context",
        "document",
        "domain",
        "drawn",
        "errand",
        "group",
        "host",
        "meta",
        "prefix",
        "recheck",
        "robots",
        "sample",
        "scores",
        "tdmrep",
        "url image Done",
        "url image Queued",
        "url page Done",
        "url page Dropped",
        "url page Queued",
        "url page Redirected",
        "url page Waiting",
        "url sitemap Done",
        "url sitemap Queued",
    ] {
        assert!(kinds.contains_key(kind), "no {kind} in {kinds:?}");
    }
}

/// If a field is added to a record, this test fails until the fixture has it.
#[test]
fn no_field_of_the_fixture_is_without_a_value() {
    let mut fields = BTreeMap::new();
    for fact in facts() {
        note_fields(&fact, fact["fact"].as_str().unwrap(), &mut fields);
    }
    assert!(fields["url.visit.validators.etag"] && fields["meta.counts.dropped.robots"]);
    // A group is given up only after more failures than the fixture has hosts.
    fields.remove("group.parked");
    fields.retain(|_, has_a_value| !*has_a_value);
    assert_eq!(fields, BTreeMap::new());
}

/// Collects every field by its path, and whether any record has a value other than the default
/// there.
fn note_fields(value: &Value, path: &str, fields: &mut BTreeMap<String, bool>) {
    let has_a_value = match value {
        Value::Object(inner) => {
            for (name, value) in inner {
                note_fields(value, &format!("{path}.{name}"), fields);
            }
            !inner.is_empty()
        }
        Value::Array(inner) => {
            for value in inner {
                note_fields(value, &format!("{path}[]"), fields);
            }
            !inner.is_empty()
        }
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
    };
    *fields.entry(path.to_owned()).or_default() |= has_a_value;
}

/// The fixture also contains keys that no export shows.
#[test]
fn the_fixture_holds_every_class_of_keys() {
    let table = include_str!("../../src/frontier/keys.rs");
    let rows = table.lines().filter_map(|l| l.strip_prefix("//! | `"));
    // A crawl on one machine has one cell.
    let rows = rows.filter(|row| !row.contains("of several cells: "));
    let named: BTreeSet<char> = rows.filter_map(|row| row.chars().next()).collect();
    assert!(named.len() >= 14, "{named:?}");
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let keys = own_pairs(&pairs(kind, &unpacked(kind, folder.path())));
        let held: BTreeSet<char> = keys.keys().map(|key| char::from(key[0])).collect();
        assert_eq!(held, named, "{}", kind.name());
        // Kinds of visits, classes of queues, bands of simhashes.
        let after_host = |key: &[u8]| key[key.iter().position(|b| *b == 0).unwrap() + 1];
        let all = |class: u8, byte: &dyn Fn(&[u8]) -> u8| -> BTreeSet<u8> {
            let keys = keys.keys().filter(|key| key[0] == class);
            keys.map(|key| byte(key)).collect()
        };
        assert_eq!(all(b'V', &|key| key[1]), [0, 1].into());
        assert_eq!(all(b'Q', &after_host), [0, 1, 2].into());
        assert_eq!(all(b'F', &after_host), [0, 1, 2, 3].into());
    }
}

#[test]
fn the_export_of_the_fixture_makes_either_store() {
    let lines = std::fs::read(fixtures().join("frontier.jsonl")).unwrap();
    // Finished entries are not listed again for drawing.
    let but_listed = |line: &str| match line.split_once("\"listed\":") {
        Some((before, after)) => [before, after.trim_start_matches(char::is_numeric)].concat(),
        None => line.to_owned(),
    };
    let sorted = |text: &str| {
        // An import does not count as a clean end.
        let mut lines: Vec<String> = text.lines().skip(1).map(but_listed).collect();
        lines.sort();
        lines
    };
    let wanted = sorted(std::str::from_utf8(&lines).unwrap());
    for kind in KINDS {
        let folder = tempfile::tempdir().unwrap();
        let mut made = stored(kind, folder.path());
        dump::restore(
            &mut *made,
            &mut lines.as_slice(),
            Path::new("frontier.jsonl"),
        )
        .unwrap();
        let lines = exported(&*made);
        assert_eq!(sorted(&lines), wanted);
        let meta = |line: &str| serde_json::from_str::<Value>(line).unwrap();
        let mut made_meta = meta(lines.lines().next().unwrap());
        assert_eq!(made_meta["clean"], false);
        made_meta["clean"] = true.into();
        let mut expected = facts()[0].clone();
        // The import is the next batch.
        expected["commits"] = (expected["commits"].as_u64().unwrap() + 1).into();
        assert_eq!(made_meta, expected, "counted anew, and the same");
        assert!(consistency::check(&*made).unwrap().is_sound());
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
        let mut meta = opened.get(META).unwrap().unwrap();
        // The format is the first field of the first record, in one byte.
        assert_eq!(u64::from(meta[0]), today);
        meta[0] = u8::try_from(other).unwrap();
        let mut batch = Batch::default();
        batch.put(META.to_vec(), meta);
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
            &["frontier", "check", job],
            &["frontier", "check", "--repair", job],
            &["store", "compact", job],
            &["store", "convert", job, "--to", "sled"],
            &["store", "export", job, file],
        ];
        let message = format!("has format {other}, this spoor reads format {today}");
        for arguments in commands {
            let refusal = Ran::of(&mut spoor(arguments)).refused();
            assert!(refusal.contains(&message), "{arguments:?}: {refusal}");
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
        let message = format!("format {other}, this spoor reads format {today}");
        assert!(refusal.contains(&message), "{refusal}");
        assert!(!path.exists());
    }
}

/// The pairs of the only cell and those shared by all cells, as the cell sees them.
fn own_pairs(pairs: &BTreeMap<Vec<u8>, Vec<u8>>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let of_store =
        ["cells", "stamp", "used", "batches"].map(|name| [b"\xc0\0", name.as_bytes()].concat());
    let own = pairs.iter().filter(|(key, _)| !of_store.contains(key));
    own.map(|(key, value)| (key[2..].to_vec(), value.clone()))
        .collect()
}

/// A store of an older version, from before frontiers had cells.
#[test]
fn a_store_without_cells_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for kind in KINDS {
        let path = folder.path().join(kind.name());
        let mut old = store::open(kind, &path).unwrap();
        let mut batch = Batch::default();
        batch.put(b"M".to_vec(), vec![1]);
        old.apply(batch).unwrap();
        let error = only(old).err().unwrap().to_string();
        assert!(
            error.contains("`spoor frontier export` it with that version"),
            "{error}"
        );
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
