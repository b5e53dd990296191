//! What a frontier is read from: the lines of an export, and single records of a store
//! that was damaged.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use spoor::config::Config;
use spoor::crawl::frontier::store::{Batch, Readable, Store, StoreError, Visit};
use spoor::crawl::frontier::{Frontier, Policy, archive, audit};
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

/// A store in memory.
#[derive(Clone, Default)]
struct Memory(BTreeMap<Vec<u8>, Vec<u8>>);

impl Readable for Memory {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0.get(key).cloned())
    }

    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visit<'_>) -> Result<(), StoreError> {
        let start = prefix.max(from).to_vec();
        for (key, value) in self.0.range(start..) {
            if !key.starts_with(prefix) || visit(key, value) == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }

    fn path(&self) -> &Path {
        Path::new("memory")
    }
}

impl Store for Memory {
    fn apply(&mut self, batch: Batch) -> Result<(), StoreError> {
        for (key, value) in batch.into_writes() {
            match value {
                Some(value) => drop(self.0.insert(key, value)),
                None => drop(self.0.remove(&key)),
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn size(&self) -> Result<u64, StoreError> {
        Ok(self.0.values().map(|value| value.len() as u64).sum())
    }

    fn compact(&mut self) -> Result<bool, StoreError> {
        Ok(true)
    }

    fn snapshot(&self) -> Box<dyn Readable> {
        Box::new(self.clone())
    }
}

fn fixture() -> Vec<u8> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/store/frontier.jsonl");
    std::fs::read(file).unwrap()
}

fn import(mut lines: &[u8]) -> Option<Memory> {
    let mut store = Memory::default();
    let found = archive::import(&mut store, &mut lines, Path::new("lines"));
    found.is_ok().then_some(store)
}

/// What spoor does with a store whose records may be damaged. It may refuse; what it
/// exports it takes back.
fn use_it(store: Memory) {
    if let Ok(audit) = audit::audit(&store) {
        drop(audit);
    }
    let mut lines = Vec::new();
    archive::export(&store, &mut lines, Path::new("lines")).unwrap();
    let again = import(&lines);
    assert!(again.is_some(), "an export that is no import");

    let config = Config::parse("job.name = 'x'\n[recrawl]\nafter = '30d'", "x.toml").unwrap();
    let policy = Policy {
        sitemaps: true,
        tdmrep: true,
        ..Policy::new(&config.politeness, &config.network).with_recrawl(&config.recrawl)
    };
    let scope = Scope::new(config.scope);
    if let Ok(mut frontier) = Frontier::open(Box::new(store), policy, scope, LATE) {
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
    // The counters, and a few others each.
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
            if let Some(store) = import(input) {
                use_it(store);
            }
        }),
    }
}

pub(super) fn record() -> Target {
    let base = Arc::new(import(&fixture()).unwrap());
    // The number of the key, two bytes, and what lies under it.
    let seeds = base.0.values().enumerate().map(|(number, value)| {
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
            let mut store = Memory::clone(&base);
            let number = usize::from(u16::from_be_bytes(*number)) % store.0.len();
            if let Some(record) = store.0.values_mut().nth(number) {
                *record = value.to_vec();
            }
            use_it(store);
        }),
    }
}

/// A score that damage had made no number was exported as `null`, which no import takes:
/// a store with one could not be repaired.
#[test]
fn a_score_that_is_no_number_is_left_out() {
    let found = b"\x00\x93\x02\x05\x01\x00\x00\x00\x00\xff\xff\xff\xff\x00\xc0r@\x01\
        \x00\x00\x00\x00\x00\xe0^@\x00\x00\x00\x00\x00\xd0P@\x00\x00\x00\x00\x00\x00\xc0?\
        \x0c\x01\x00\x00\x01\x02\x00\x01\x01\x05\xae\xb6\xa6\xe5\xb73\x01\t\xd3\xfb\x90\
        \x80\x00\x00\x00\x00\x01\xae\xc6\xa1\xb9\xc13\x00\x00";
    (record().run)(found);
}
