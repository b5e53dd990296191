//! Cells are loaded by a thread while the crawl continues in the others.

use super::*;

/// The pairs of a cell with their spaces.
fn pairs_of(store: &MemoryStore, cell: CellId) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let pairs = store.pairs();
    let own = pairs
        .iter()
        .filter(|(key, _)| key.starts_with(&cell.space()));
    own.map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

/// A store of eight cells in which a web was crawled for some steps.
fn crawled(web: &Web, steps: usize) -> (tempfile::TempDir, MemoryStore, Cells, u64) {
    let folder = tempfile::tempdir().unwrap();
    let store = MemoryStore::new(folder.path());
    let mut now = 1_000;
    let mut cells = opened(Box::new(store.reopened()), 8, now);
    cells.add_seeds(&web.seeds(), now).unwrap();
    for _ in 0..steps {
        step(&mut cells, web, &mut now);
    }
    (folder, store, cells, now)
}

#[test]
fn a_thread_loads_while_the_crawl_goes_on() {
    let web = Web::new(7);
    let (_from, source, mut all, mut now) = crawled(&web, 60);
    let full = |cell: &CellId| pairs_of(&source, *cell).len();
    let mut by_size: Vec<CellId> = count(8).all().collect();
    by_size.sort_by_key(full);
    let moved: BTreeSet<CellId> = by_size.into_iter().rev().take(3).collect();
    for cell in &moved {
        all.close_cell(*cell).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let store = MemoryStore::new(folder.path());
    let mut heir = Cells::over(Box::new(store.reopened()), count(8), policy(), scope()).unwrap();
    let others: Vec<CellId> = count(8)
        .all()
        .filter(|cell| !moved.contains(cell))
        .collect();
    for cell in &others {
        heir.open_cell(*cell, now).unwrap();
    }
    let elsewhere = (0..40).map(|n| url(&format!("http://elsewhere-{n}.org/")));
    let seeds: Vec<PageUrl> = elsewhere
        .filter(|url| others.contains(&count(8).cell_of(&url.host_key())))
        .collect();
    heir.add_seeds(&seeds, now).unwrap();
    let mut load = heir.begin_load(&moved).unwrap();
    let pairs = source.pairs();
    let thread = std::thread::spawn(move || {
        for (key, value) in pairs.iter() {
            if CellId::of_key(key).is_some_and(|cell| load.cells().contains(&cell)) {
                // What is overwritten or removed later does not count.
                load.write(key, Some(b"older")).unwrap();
                load.write(&[key, &b"gone"[..]].concat(), Some(b"x"))
                    .unwrap();
                load.write(&[key, &b"gone"[..]].concat(), None).unwrap();
                load.write(key, Some(value)).unwrap();
            }
        }
        load
    });
    while !thread.is_finished() {
        heir.sweep().unwrap();
        heir.lease(&others, now).unwrap();
        let some = *moved.first().unwrap();
        assert!(matches!(heir.open_cell(some, now), Err(CellsError::Leaving(c)) if c == some));
        assert!(matches!(heir.drop_cell(some), Err(CellsError::Leaving(c)) if c == some));
        assert!(heir.begin_load(&BTreeSet::from([some])).is_err());
    }
    heir.end_load(thread.join().unwrap()).unwrap();
    for cell in &moved {
        assert_eq!(pairs_of(&store, *cell), pairs_of(&source, *cell), "{cell}");
        heir.open_cell(*cell, now).unwrap();
    }
    let documents: u64 = moved
        .iter()
        .map(|cell| heir.open[cell].frontier.ledger.meta().counts.documents)
        .sum();
    assert!(documents > 0);
    now += 1;
    step(&mut heir, &web, &mut now);
    assert!(!heir.sweep().unwrap());
}

#[test]
fn what_is_here_is_not_loaded_over() {
    let web = Web::new(3);
    let (_folder, store, mut cells, now) = crawled(&web, 40);
    let before = store.pairs();
    let [a, b] = [0, 1].map(|n| count(8).cell(n).unwrap());
    let both = BTreeSet::from([a, b]);
    assert!(matches!(cells.begin_load(&both), Err(CellsError::Open(c)) if c == a));
    cells.close_cell(a).unwrap();
    assert!(matches!(cells.begin_load(&both), Err(CellsError::Present(c)) if c == a));
    cells.drop_cell(a).unwrap();
    assert!(matches!(cells.begin_load(&both), Err(CellsError::Leaving(c)) if c == a));
    while cells.sweep().unwrap() {}
    assert!(matches!(cells.begin_load(&both), Err(CellsError::Open(c)) if c == b));
    assert_ne!(before, store.pairs());
    let mut load = cells.begin_load(&BTreeSet::from([a])).unwrap();
    for key in [&b.space()[..], b"M", b"", b"\xc0\0batches"] {
        let foreign = load.write(key, Some(b"x"));
        assert!(
            matches!(foreign, Err(CellsError::Foreign { .. })),
            "{key:?}"
        );
    }
    // What a dropped load has written is deleted.
    for n in 0..50_u8 {
        load.write(&[&a.space()[..], &[b'U', n]].concat(), Some(&[n]))
            .unwrap();
    }
    assert!(!pairs_of(&store, a).is_empty());
    assert!(!cells.sweep().unwrap());
    assert!(!pairs_of(&store, a).is_empty());
    drop(load);
    while cells.sweep().unwrap() {}
    assert!(pairs_of(&store, a).is_empty());
    cells.open_cell(a, now).unwrap();
}

/// A process that dies while it loads leaves nothing that is opened.
#[test]
fn half_a_load_is_swept_by_the_next_process() {
    let folder = tempfile::tempdir().unwrap();
    let store = MemoryStore::new(folder.path());
    let mut cells = Cells::over(Box::new(store.reopened()), count(8), policy(), scope()).unwrap();
    let all: BTreeSet<CellId> = count(8).all().take(3).collect();
    let mut load = cells.begin_load(&all).unwrap();
    for cell in &all {
        for n in 0..40_u8 {
            load.write(&[&cell.space()[..], &[b'U', n]].concat(), Some(&[n]))
                .unwrap();
        }
    }
    drop((load, cells));
    let mut cells = Cells::over(Box::new(store.reopened()), count(8), policy(), scope()).unwrap();
    for cell in &all {
        assert!(matches!(
            cells.open_cell(*cell, 0),
            Err(CellsError::Leaving(_))
        ));
    }
    while cells.sweep().unwrap() {}
    for cell in &all {
        assert!(pairs_of(&store, *cell).is_empty());
        cells.open_cell(*cell, 0).unwrap();
    }
}

/// The duration on a disk: 150,000 addresses, as many as a cell has, with and without a crawl that
/// commits as fast as it can.
#[test]
#[ignore = "a measurement of a minute"]
fn a_cell_is_loaded_in_seconds() {
    let [cell, other] = [0, 1].map(|n| count(8).cell(n).unwrap());
    // About the records and bytes that a crawl keeps of an address.
    let records = |n: u32| {
        let url = format!(
            "http://host-{}.example.org/a/path/of/usual/length/{n}",
            n % 3_000
        );
        [("U", 60), ("Q", 30), ("E", 130)].map(|(class, bytes)| {
            let byte = |i: u32| (n.wrapping_mul(2_654_435_761) >> (i % 24)) as u8;
            let key = [&cell.space()[..], class.as_bytes(), url.as_bytes()].concat();
            (key, Vec::from_iter((0..bytes).map(byte)))
        })
    };
    let mut pairs: Vec<(Vec<u8>, Vec<u8>)> = (0..150_000).flat_map(records).collect();
    pairs.sort();
    let bytes: usize = pairs.iter().map(|(k, v)| k.len() + v.len()).sum();
    let pairs = Arc::new(pairs);
    let own = (0..).map(|n| format!("http://other-{n}.org/"));
    let own = own.map(|text| url(&text));
    let mut own = own.filter(|url| count(8).cell_of(&url.host_key()) == other);
    for (most, is_busy) in [
        (500, false),
        (2_000, false),
        (200, true),
        (500, true),
        (2_000, true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("frontier");
        let mut cells = Cells::open(StoreKind::Fjall, &path, count(8), policy(), scope()).unwrap();
        cells.open_cell(other, 0).unwrap();
        let begun = std::time::Instant::now();
        let load = cells.begin_load(&BTreeSet::from([cell])).unwrap();
        let mut load = load.batches_of(most);
        let pairs = Arc::clone(&pairs);
        let thread = std::thread::spawn(move || {
            for (key, value) in pairs.iter() {
                load.write(key, Some(value)).unwrap();
            }
            load
        });
        let (mut longest, mut commits) = (std::time::Duration::ZERO, 0);
        while is_busy && !thread.is_finished() {
            let seed = own.next().unwrap();
            let commit = std::time::Instant::now();
            cells.add_seeds(&[seed], 0).unwrap();
            longest = longest.max(commit.elapsed());
            commits += 1;
        }
        cells.end_load(thread.join().unwrap()).unwrap();
        println!(
            "{bytes} bytes in batches of {most}: {:?}; meanwhile {commits} commits of the crawl, the longest {longest:?}",
            begun.elapsed()
        );
    }
}
