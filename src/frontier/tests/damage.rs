//! Damaged stores: detection, messages and salvage.

use super::*;
use crate::dump;
use crate::store::{Readable, Visitor};

over_all! {
    a_store_older_than_its_last_flush_is_refused_and_repaired
    records_of_every_kind_are_read_by_the_audit
    scores_that_are_no_numbers_are_reported
}

fn refusal(path: &Path) -> StoreError {
    let scope = Config::parse("[job]\nname = \"t\"\n", "t.toml").unwrap();
    let store = BACKEND.get().open(path).unwrap();
    Cells::alone(store, test_policy(), Scope::new(scope.settings.scope), 0)
        .err()
        .unwrap()
}

fn a_store_older_than_its_last_flush_is_refused_and_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("first");
    let mut f = busy(&path);
    let meta = f.ledger.store().get(keys::META).unwrap().unwrap();
    let batches = f.ledger.store().get(&keys::shared(cell::BATCHES));
    let batches = batches.unwrap().unwrap();
    f.add_seeds(&[url("http://late.org/")], 9).unwrap();
    f.flush().unwrap();
    drop(f);
    // sled's behaviour if the end of its log is lost.
    let mut batch = store::Batch::default();
    let key = [&cell::Home::ONLY.cell.space(), keys::META].concat();
    batch.put(key, meta);
    batch.put(cell::BATCHES.to_vec(), batches);
    let mut store = BACKEND.get().open(&path).unwrap();
    store.apply(batch).unwrap();
    store.flush().unwrap();
    drop(store);
    let error = refusal(&path);
    assert!(matches!(error, StoreError::Older { .. }), "{error}");
    assert!(
        error.to_string().contains("spoor frontier import"),
        "{error}"
    );

    let store = whole(BACKEND.get().open(&path).unwrap());
    let found = consistency::check(&*store).unwrap();
    assert!(found.problems[0].contains("come back at"), "{found:?}");
    let (lines, _) = exported(&*store);
    drop(imported(&lines, &folder.path().join("second")));
    check(&open(&folder.path().join("second"), 1));

    std::fs::write(path.join("flushed"), "12x").unwrap();
    drop(store);
    let error = refusal(&path);
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

fn scores_that_are_no_numbers_are_reported() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = busy(folder.path());
    let of_store = |f: &Frontier| {
        let found = consistency::check(f.ledger.store()).unwrap();
        let infinite = |p: &&String| p.contains("infinite");
        found.problems.iter().filter(infinite).count()
    };
    let (mut key, mut value) = (Vec::new(), Vec::new());
    f.ledger
        .store()
        .scan(b"U", &[], &mut |k, v| {
            let record: UrlRecord = postcard::from_bytes(v).unwrap();
            if matches!(record.state, State::Queued) {
                return ControlFlow::Continue(());
            }
            (key, value) = (k.to_vec(), v.to_vec());
            ControlFlow::Break(())
        })
        .unwrap();
    let record: UrlRecord = postcard::from_bytes(&value).unwrap();
    let parts = crate::page::LinkParts {
        document: 1.0,
        anchor: f64::NEG_INFINITY,
        keyword: 0.0,
    };
    for (score, parts, expected) in [
        (2.0, None, 0),
        (f64::NAN, None, 1),
        (f64::INFINITY, None, 1),
        (2.0, Some(parts), 1),
    ] {
        let bad = UrlRecord {
            score,
            parts,
            ..record.clone()
        };
        let mut batch = store::Batch::default();
        batch.put(key.clone(), postcard::to_stdvec(&bad).unwrap());
        f.ledger.store_mut().apply(batch).unwrap();
        assert_eq!(of_store(&f), expected, "{score} {parts:?}");
    }
}

fn records_of_every_kind_are_read_by_the_audit() {
    let folder = tempfile::tempdir().unwrap();
    let mut f = busy(folder.path());
    let (lines, _) = exported(f.ledger.store());
    assert!(consistency::check(f.ledger.store()).unwrap().is_sound());
    for prefix in [b"U", b"H", b"C", b"D", b"Q"] {
        let mut first = None;
        f.ledger
            .store()
            .scan(prefix, &[], &mut |key, value| {
                first = Some((key.to_vec(), value.to_vec()));
                ControlFlow::Break(())
            })
            .unwrap();
        let (key, value) = first.unwrap();
        let mut put = |value: &[u8]| {
            let mut batch = store::Batch::default();
            batch.put(key.clone(), value.to_vec());
            f.ledger.store_mut().apply(batch).unwrap();
        };
        put(&[0xff, 0xff]);
        let found = consistency::check(f.ledger.store()).unwrap();
        assert!(!found.is_sound(), "{}", key.escape_ascii());
        let mut put = |value: &[u8]| {
            let mut batch = store::Batch::default();
            batch.put(key.clone(), value.to_vec());
            f.ledger.store_mut().apply(batch).unwrap();
        };
        put(&value);
    }
    assert!(consistency::check(f.ledger.store()).unwrap().is_sound());
    let (after, _) = exported(f.ledger.store());
    let counters = |lines: &[String]| -> serde_json::Value {
        serde_json::from_str(lines.first().unwrap()).unwrap()
    };
    let mut expected = counters(&lines);
    // Two batches of each kind.
    expected["commits"] = (expected["commits"].as_u64().unwrap() + 10).into();
    assert_eq!(counters(&after), expected);
    assert_eq!(after[1..], lines[1..]);
}

/// A store with unreadable ranges of keys, as with damaged blocks of an LSM tree.
struct Holed {
    pairs: BTreeMap<Vec<u8>, Vec<u8>>,
    holes: Vec<std::ops::Range<Vec<u8>>>,
}

impl Readable for Holed {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.pairs.get(key).cloned())
    }

    fn scan(&self, prefix: &[u8], from: &[u8], visit: Visitor<'_>) -> Result<(), StoreError> {
        let start = prefix.max(from).to_vec();
        for (key, value) in self.pairs.range(start..) {
            if self.holes.iter().any(|hole| hole.contains(key)) {
                return Err(StoreError::Damaged {
                    path: "holed".into(),
                    why: "a checksum".to_owned(),
                });
            }
            if !key.starts_with(prefix) || visit(key, value).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn path(&self) -> &Path {
        Path::new("holed")
    }
}

proptest! {
    #![proptest_config(spoor_testing::cases!(24))]

    /// Everything before and after the holes is exported, and nothing from inside them.
    #[test]
    fn what_lies_around_holes_is_exported(
        holes in proptest::collection::vec((0..400_usize, 1..60_usize), 1..4)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut f = open(folder.path(), 0);
        let seeds: Vec<PageUrl> = (0..400)
            .map(|n| url(&format!("http://h{}.org/p/{}", n % 37, n * 7919)))
            .collect();
        f.add_seeds(&seeds, 0).unwrap();
        let mut pairs = BTreeMap::new();
        f.ledger
            .store()
            .scan(&[], &[], &mut |k, v| {
                pairs.insert(k.to_vec(), v.to_vec());
                ControlFlow::Continue(())
            })
            .unwrap();
        let urls: Vec<Vec<u8>> = pairs.keys().filter(|k| k[0] == b'U').cloned().collect();
        let end = |(at, n): &(usize, usize)| (at + n).min(399);
        let first = holes.iter().map(|h| h.0).min().unwrap();
        let last = holes.iter().map(end).max().unwrap();
        let holes: Vec<_> = holes.iter().map(|h| urls[h.0].clone()..urls[end(h)].clone()).collect();
        let lost = urls.iter().filter(|k| holes.iter().any(|h| h.contains(*k))).count();
        let single = holes.len() == 1;
        let mut out = Vec::new();
        let holed = Holed { pairs, holes };
        let found = dump::write(&holed, &mut out, Path::new("test.jsonl")).unwrap();
        prop_assert_eq!(found.is_whole(), lost == 0);
        let kept = usize::try_from(found.urls).unwrap();
        prop_assert!(kept <= 400 - lost, "{} of {}", kept, 400 - lost);
        let least = if single { 400 - lost } else { 400 - (last - first) };
        prop_assert!(kept >= least, "{} of {}", kept, least);
    }
}

/// Numbers continue from those of an export; the last number there is would overflow.
#[test]
fn an_export_with_a_number_near_the_last_one_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let meta = Meta {
        format: FORMAT,
        ..Meta::default()
    };
    let mut meta = serde_json::to_value(&meta).unwrap();
    meta["fact"] = "meta".into();
    let document = serde_json::json!({"fact": "document", "id": u64::MAX, "url": "http://a.org/"});
    let text = format!("{meta}\n{document}\n");
    let mut store = open_store(folder.path()).unwrap();
    let restored = dump::restore(&mut *store, &mut text.as_bytes(), Path::new("x.jsonl"));
    let why = restored.unwrap_err().to_string();
    assert!(
        why.starts_with("x.jsonl:2: the number 18446744073709551615"),
        "{why}"
    );
}
