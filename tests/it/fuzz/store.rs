//! The sources of a frontier: the lines of an export, and single records of a damaged store.

use std::collections::BTreeMap;
use std::path::Path;

use spoor::config::Config;
use spoor::frontier::store::MemoryStore;
use spoor::frontier::{Frontier, Policy, consistency, dump, only, whole};
use spoor::web::scope::Scope;

use super::Target;

/// After everything in the fixture is due.
const LATE: u64 = 4_000_000_000_000;

const WORDS: &[&str] = &[
    "null",
    "true",
    "{}",
    "[]",
    "-1",
    "0",
    "18446744073709551615",
    "1e400",
    "\"\"",
    "{\"fact\":\"host\"}",
    "{\"fact\":\"url\"}",
    "\"Known\"",
    "http://a.org/",
    "{\"meta\":{}}",
];

fn fixture() -> Vec<u8> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/store/frontier.jsonl");
    std::fs::read(file).unwrap()
}

/// A store, and the folder in which its frontier keeps files.
struct HeldStore(MemoryStore, tempfile::TempDir);

fn holding(pairs: BTreeMap<Vec<u8>, Vec<u8>>) -> HeldStore {
    let folder = tempfile::tempdir().unwrap();
    HeldStore(MemoryStore::holding(folder.path(), pairs), folder)
}

fn import(mut lines: &[u8]) -> Option<HeldStore> {
    let held = holding(BTreeMap::new());
    let mut store = only(Box::new(held.0.reopened())).unwrap();
    let found = dump::restore(&mut *store, &mut lines, Path::new("lines"));
    found.is_ok().then_some(held)
}

/// Uses a store whose records may be damaged. spoor may refuse it, but it must be able to import
/// what it exports.
fn use_it(HeldStore(held, _folder): &HeldStore) {
    let store = whole(Box::new(held.reopened()));
    if let Ok(audit) = consistency::check(&*store) {
        drop(audit);
    }
    let mut lines = Vec::new();
    dump::write(&*store, &mut lines, Path::new("lines")).unwrap();
    let again = import(&lines);
    assert!(again.is_some(), "an export that is no import");

    let config = Config::parse("job.name = 'x'\n[recrawl]\nafter = '30d'", "x.toml").unwrap();
    let policy = Policy {
        sitemaps: true,
        tdmrep: true,
        ..Policy::new(&config.politeness, &config.network).with_recrawl(&config.recrawl)
    };
    let scope = Scope::new(config.settings.scope);
    let store = only(Box::new(held.reopened()));
    if let Ok(mut frontier) = store.and_then(|store| Frontier::open(store, policy, scope, LATE)) {
        for _ in 0..4 {
            match frontier.lease(LATE) {
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => break,
            }
        }
    }
}

pub(super) fn archive() -> Target {
    let whole = fixture();
    let lines: Vec<&[u8]> = whole.split_inclusive(|b| *b == b'\n').collect();
    // The counters, and a few records of each other kind.
    let mut seeds: Vec<Vec<u8>> = lines[1..]
        .chunks(6)
        .map(|some| [&[lines[0]], some].concat().concat())
        .collect();
    seeds.push(whole);
    Target {
        name: "archive",
        seeds,
        words: WORDS,
        cases: 300,
        run: Box::new(|input| {
            if let Some(held) = import(input) {
                use_it(&held);
            }
        }),
    }
}

pub(super) fn record() -> Target {
    let base = import(&fixture()).unwrap().0.pairs();
    // The number of the key, two bytes, and its value.
    let seeds = base.values().enumerate().map(|(number, value)| {
        let number = u16::try_from(number).unwrap().to_be_bytes();
        [&number, value.as_slice()].concat()
    });
    Target {
        name: "record",
        seeds: seeds.collect(),
        words: &["http://a.org/", "a.org", "\u{1}", "\u{7f}"],
        cases: 300,
        run: Box::new(move |input| {
            let Some((number, value)) = input.split_first_chunk::<2>() else {
                return;
            };
            let mut pairs = BTreeMap::clone(&base);
            let number = usize::from(u16::from_be_bytes(*number)) % pairs.len();
            if let Some(record) = pairs.values_mut().nth(number) {
                *record = value.to_vec();
            }
            use_it(&holding(pairs));
        }),
    }
}

/// Damage had made a score "not a number", which was exported as `null`. No import accepts that, so
/// the store could not be repaired.
#[test]
fn a_score_that_is_not_a_number_is_left_out() {
    let found = b"\x00\x93\x02\x05\x01\x00\x00\x00\x00\xff\xff\xff\xff\x00\xc0r@\x01\
        \x00\x00\x00\x00\x00\xe0^@\x00\x00\x00\x00\x00\xd0P@\x00\x00\x00\x00\x00\x00\xc0?\
        \x0c\x01\x00\x00\x01\x02\x00\x01\x01\x05\xae\xb6\xa6\xe5\xb73\x01\t\xd3\xfb\x90\
        \x80\x00\x00\x00\x00\x01\xae\xc6\xa1\xb9\xc13\x00\x00";
    (record().run)(found);
}
