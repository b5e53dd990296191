//! The contract of every backend, tested with each of them.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::sled::Write;
use super::*;
use crate::settings::StoreKind;

/// The store under a test's frontier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// For tests that do not depend on the disk.
    Memory,
    /// For tests of data that must survive the process.
    Disk(StoreKind),
}

thread_local! {
    /// The stores in memory by their folders; each test has its thread.
    static SHELF: RefCell<BTreeMap<PathBuf, MemoryStore>> = RefCell::default();
}

impl Backend {
    /// Opens the store in a folder, or creates an empty one. A store in memory is found
    /// again by its folder until the test ends.
    pub fn open(self, folder: &Path) -> Result<Box<dyn Store>, StoreError> {
        let kind = match self {
            Self::Memory => {
                std::fs::create_dir_all(folder).unwrap();
                return Ok(SHELF.with_borrow_mut(|shelf| {
                    let new = || MemoryStore::new(folder);
                    let store = shelf.entry(folder.to_owned()).or_insert_with(new);
                    Box::new(store.reopened()) as Box<dyn Store>
                }));
            }
            Self::Disk(kind) => kind,
        };
        open(kind, folder)
    }
}

const SLED: Backend = Backend::Disk(StoreKind::Sled);
const FJALL: Backend = Backend::Disk(StoreKind::Fjall);

/// Runs a check once for each backend on disk, as two tests.
macro_rules! over_all {
    ($($name:ident)*) => {$(
        mod $name {
            use super::*;
            #[test]
            fn sled() { super::$name(StoreKind::Sled) }
            #[test]
            fn fjall() { super::$name(StoreKind::Fjall) }
        }
    )*};
}

// Tests of files and their locks.
over_all! {
    a_second_opening_is_refused_with_advice
    damaged_files_are_an_error_and_no_panic
    the_other_backend_is_refused_by_name
}

/// Runs a check once for each backend, including the one in memory, as three tests.
macro_rules! over_all_and_memory {
    ($($name:ident)*) => {$(
        mod $name {
            use super::*;
            #[test]
            fn sled() { super::$name(SLED) }
            #[test]
            fn fjall() { super::$name(FJALL) }
            #[test]
            fn memory() { super::$name(Backend::Memory) }
        }
    )*};
}

over_all_and_memory! {
    batches_scans_and_reopening
    a_store_does_what_a_map_does
    a_store_that_was_just_closed_opens_again
    compacting_loses_nothing
    a_snapshot_shows_one_moment
}

fn pairs(store: &dyn Readable, prefix: &[u8], from: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    store
        .scan(prefix, from, &mut |k, v| {
            found.push((k.to_vec(), v.to_vec()));
            ControlFlow::Continue(())
        })
        .unwrap();
    found
}

fn batches_scans_and_reopening(backend: Backend) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frontier");
    {
        let mut store = backend.open(&path).unwrap();
        let mut batch = Batch::default();
        for (key, value) in [("a1", "x"), ("a3", "z"), ("b1", "q"), ("a2", "y")] {
            batch.put(key.into(), value.into());
        }
        batch.put(b"gone".to_vec(), b"1".to_vec());
        batch.delete(b"gone".to_vec());
        assert_eq!(batch.peek(b"gone"), Some(None));
        assert_eq!(batch.peek(b"a1"), Some(Some(&b"x"[..])));
        assert_eq!(batch.peek(b"c"), None);
        store.apply(batch).unwrap();
        store.flush().unwrap();
    }
    let store = backend.open(&path).unwrap();
    let keys = |p: &[u8], f: &[u8]| -> Vec<Vec<u8>> {
        pairs(&*store, p, f).into_iter().map(|(k, _)| k).collect()
    };
    assert_eq!(keys(b"a", b""), [b"a1", b"a2", b"a3"]);
    assert_eq!(keys(b"a", b"a2"), [b"a2", b"a3"]);
    assert_eq!(keys(b"zz", b""), Vec::<Vec<u8>>::new());
    assert_eq!(store.get(b"a3").unwrap().as_deref(), Some(&b"z"[..]));
    assert_eq!(store.get(b"gone").unwrap(), None);
    assert!(store.size().unwrap() > 0);
}

fn a_second_opening_is_refused_with_advice(kind: StoreKind) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frontier");
    let _first = open(kind, &path).unwrap();
    let error = open(kind, &path).err().unwrap().to_string();
    assert!(error.contains("another spoor"), "{error}");
    assert!(error.contains(&path.display().to_string()), "{error}");
}

fn a_store_that_was_just_closed_opens_again(backend: Backend) {
    let folder = tempfile::tempdir().unwrap();
    for n in 0..20_u32 {
        let mut store = backend.open(folder.path()).unwrap();
        assert_eq!(pairs(&*store, b"k", b"").len(), n as usize);
        let mut batch = Batch::default();
        batch.put(format!("k{n:02}").into_bytes(), vec![1; 1_000]);
        store.apply(batch).unwrap();
    }
}

fn compacting_loses_nothing(backend: Backend) {
    let folder = tempfile::tempdir().unwrap();
    let mut store = backend.open(folder.path()).unwrap();
    for round in 0..10_u8 {
        let mut batch = Batch::default();
        for i in 0..500_u32 {
            let key = i.to_be_bytes().to_vec();
            match i % 5 {
                0 => batch.delete(key),
                _ => batch.put(key, vec![round; 200]),
            }
        }
        store.apply(batch).unwrap();
    }
    let before = pairs(&*store, b"", b"");
    assert_eq!(before.len(), 400);
    assert_eq!(store.compact().unwrap(), backend != SLED);
    assert_eq!(pairs(&*store, b"", b""), before);
}

/// While one thread writes, another reads snapshots: each must show the store between two
/// batches, including everything that was removed or replaced since.
fn a_snapshot_shows_one_moment(backend: Backend) {
    let folder = tempfile::tempdir().unwrap();
    let mut store = backend.open(folder.path()).unwrap();
    let (sender, snapshots) = std::sync::mpsc::channel::<(_, Box<dyn Readable>)>();
    let reader = std::thread::spawn(move || {
        let mut read = 0;
        for (map, snapshot) in snapshots {
            let map: BTreeMap<Vec<u8>, Vec<u8>> = map;
            for prefix in [&b""[..], b"\x01", b"\x07"] {
                let expected = map.iter().filter(|(k, _)| k.starts_with(prefix));
                let expected: Vec<_> = expected.map(|(k, v)| (k.clone(), v.clone())).collect();
                assert_eq!(pairs(&*snapshot, prefix, b""), expected);
            }
            for (key, value) in map.iter().take(20) {
                assert_eq!(snapshot.get(key).unwrap().as_ref(), Some(value));
            }
            read += 1;
        }
        read
    });
    let mut map = BTreeMap::new();
    for round in 0..400_u32 {
        if round % 20 == 0 {
            sender.send((map.clone(), store.snapshot())).unwrap();
        }
        let mut batch = Batch::default();
        for i in 0..10 {
            let n = (round * 7919 + i * 104_729) % 300;
            let key = vec![(n % 11) as u8, (n / 11) as u8];
            match (round + i) % 3 {
                0 => {
                    map.remove(&key);
                    batch.delete(key);
                }
                _ => {
                    let value = round.to_be_bytes().to_vec();
                    map.insert(key.clone(), value.clone());
                    batch.put(key, value);
                }
            }
        }
        store.apply(batch).unwrap();
    }
    drop(sender);
    assert_eq!(reader.join().unwrap(), 20);
    assert_eq!(pairs(&*store, b"", b"").len(), map.len());
}

/// The files below a folder, largest first.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort_by_key(|p| std::cmp::Reverse(std::fs::metadata(p).unwrap().len()));
    found
}

fn damaged_files_are_an_error_and_no_panic(kind: StoreKind) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frontier");
    {
        let mut store = open(kind, &path).unwrap();
        let mut batch = Batch::default();
        for i in 0..2_000_u32 {
            batch.put(i.to_be_bytes().to_vec(), vec![7; 100]);
        }
        store.apply(batch).unwrap();
        store.flush().unwrap();
    }
    let file = files(&path).remove(0);
    let mut bytes = std::fs::read(&file).unwrap();
    for at in (0..bytes.len()).step_by(97) {
        bytes[at] ^= 0xff;
    }
    std::fs::write(&file, bytes).unwrap();
    let outcome = open(kind, &path).and_then(|store| {
        let mut n = 0;
        store.scan(b"", b"", &mut |_, _| {
            n += 1;
            ControlFlow::Continue(())
        })?;
        Ok(n)
    });
    match outcome {
        Err(error) => assert!(error.to_string().contains("frontier"), "{error}"),
        Ok(n) => assert!(n < 2_000, "damage went unnoticed"),
    }
}

fn the_other_backend_is_refused_by_name(kind: StoreKind) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("frontier");
    drop(open(kind, &path).unwrap());
    assert_eq!(backend_in(&path), Some(kind));
    let other = match kind {
        StoreKind::Sled => StoreKind::Fjall,
        StoreKind::Fjall => StoreKind::Sled,
    };
    let error = open(other, &path).err().unwrap().to_string();
    assert!(
        error.contains(&format!("it is a {} store", kind.name())),
        "{error}"
    );
}

/// Random batches, scans and reopenings against an ordinary map.
fn a_store_does_what_a_map_does(backend: Backend) {
    does_what_a_map_does(|path| backend.open(path));
}

#[test]
fn a_store_that_applies_slices_does_what_a_map_does() {
    does_what_a_map_does(|path| Ok(Box::new(SledStore::open_in_slices(path, 2)?)));
}

#[test]
fn a_store_that_does_not_gather_does_what_a_map_does() {
    does_what_a_map_does(|path| Ok(Box::new(SledStore::open(path)?)));
}

fn does_what_a_map_does(open: impl Fn(&Path) -> Result<Box<dyn Store>, StoreError>) {
    let key = || proptest::collection::vec(0..4_u8, 0..4);
    let full = proptest::collection::vec(0..4_u8, 1..4);
    let write = (full, proptest::option::of(any::<u16>()));
    let step = (
        proptest::collection::vec(write, 0..8),
        key(),
        key(),
        any::<bool>(),
    );
    let steps = proptest::collection::vec(step, 1..12);
    let mut runner = proptest::test_runner::TestRunner::new(spoor_testing::cases!(24));
    runner
        .run(&steps, |steps| {
            let folder = tempfile::tempdir().unwrap();
            let mut store = open(folder.path()).unwrap();
            let mut map: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
            for (writes, prefix, from, reopen) in steps {
                let mut batch = Batch::default();
                for (key, value) in writes {
                    match value {
                        Some(value) => {
                            batch.put(key.clone(), value.to_be_bytes().to_vec());
                            map.insert(key, value.to_be_bytes().to_vec());
                        }
                        None => {
                            batch.delete(key.clone());
                            map.remove(&key);
                        }
                    }
                }
                store.apply(batch).unwrap();
                if reopen {
                    drop(store);
                    store = open(folder.path()).unwrap();
                }
                let expected: Vec<_> = map
                    .iter()
                    .filter(|(k, _)| k.starts_with(&prefix) && **k >= from)
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect();
                prop_assert_eq!(pairs(&*store, &prefix, &from), expected);
                let known = map.get(&from).cloned();
                prop_assert_eq!(store.get(&from).unwrap(), known);
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_batch_that_was_interrupted_is_completed() {
    let folder = tempfile::tempdir().unwrap();
    let write = |n: u32, value: &str| (n.to_be_bytes().to_vec(), Some(value.into()));
    let mut writes: Vec<Write> = (0..10_000).map(|n| write(n, "new")).collect();
    writes[7].1 = None;
    {
        let mut store = SledStore::open(folder.path()).unwrap();
        store
            .apply_writes(&[write(7, "old"), write(9_999, "old")])
            .unwrap();
        let promised = writes.iter().map(|(k, v)| (&**k, v.as_deref()));
        store.promise(&Vec::from_iter(promised)).unwrap();
        store.apply_writes(&writes[..4_000]).unwrap();
    }
    let found = || {
        let store = SledStore::open(folder.path()).unwrap();
        pairs(&store, b"", b"")
            .into_iter()
            .map(|(key, value)| (key, Some(value)))
            .collect::<Vec<Write>>()
    };
    writes.remove(7);
    assert_eq!(found(), writes);
    // It is not applied a second time over later writes.
    let store = SledStore::open(folder.path()).unwrap();
    writes[3].1 = Some(b"later".to_vec());
    store.apply_writes(&writes[3..4]).unwrap();
    drop(store);
    assert_eq!(found(), writes);
}

#[test]
fn a_promised_batch_that_cannot_be_read_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    drop(SledStore::open(folder.path()).unwrap());
    {
        // Threads of the store before may hold the lock for a moment.
        let db = std::iter::repeat_with(|| ::sled::open(folder.path()).ok());
        let db = db.flatten().next().unwrap();
        db.open_tree("promised")
            .unwrap()
            .insert(b"x", &[255; 9])
            .unwrap();
    }
    let error = SledStore::open(folder.path()).err().unwrap().to_string();
    assert!(
        error.contains("a batch that is applied in slices cannot be read"),
        "{error}"
    );
}
